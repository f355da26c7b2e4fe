"""No load and no neighbour fills the tracer: memory is bounded, output comes, and a signal ends the run at once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from io import BytesIO
from itertools import chain, repeat
from pathlib import Path

import pytest

from hostile.workloads import Measured, Storm, build, cpu_seconds, resident, unique_name
from support import SOURCE, environment

MIB = 1 << 20
NAME = unique_name()
SECONDS = float(os.environ.get("SONDE_STORM_SECONDS", "1"))
PROCESSES = int(os.environ.get("SONDE_SHORT_PROCESSES", "4000"))
SLACK = 4.0  # s: what a busy machine may add to the second that an end may take

STORMS = {
    "open": ("open", 'tracepoint:syscalls:sys_enter_openat /comm == "NAME"/ '
                     '{ @sent = count(); printf("event %s %s\\n", comm, str(args.filename)); }'),
    "kstack": ("open", 'rawtracepoint:sys_enter /comm == "NAME"/ '
                       '{ @sent = count(); printf("event %d %s\\n", pid, kstack(3)); }'),
    "switch": ("switch", 'rawtracepoint:sched_switch /comm == "NAME"/ '
                         '{ @sent = count(); printf("event %d %s\\n", pid, ustack(5)); }'),
    "fork": ("fork", 'tracepoint:sched:sched_process_exec /comm == "NAME"/ '
                     '{ @sent = count(); printf("event %d %s\\n", pid, ustack(5)); }'),
}


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("storm"))


@pytest.mark.parametrize("form", ["text", "json", "csv", "perfetto", "html"])
@pytest.mark.parametrize("kind", STORMS)
def test_storms(storm: Path, tmp_path: Path, kind: str, form: str) -> None:
    """Records without a time have no place but the ring's, and are not to wait for one. What was printed and what is
    said to be lost are together what was sent."""
    load, script = STORMS[kind]
    script = script.replace("NAME", NAME)
    out = tmp_path / "out"
    with Storm(storm, NAME, load), Measured("-f", form, "-e", script, out=out) as tracer:
        tracer.run(SECONDS)
        tracer.interrupt()
    sent, printed, lost = count_events(form, out, tracer.stderr)
    lost += tracer.lost
    print(f"{kind}, {form}: {tracer.anonymous >> 20} MiB, first output after {tracer.first:.2f} s, end "
          f"{tracer.ending:.2f} s after the signal ({tracer.work:.2f} s of CPU); {sent} events, {printed} printed, "
          f"{lost} lost")
    assert out.stat().st_size > 1000, tracer.stderr
    assert tracer.anonymous < 128 * MIB
    assert tracer.work < 1 and tracer.ending < 1 + SLACK
    if form == "text":
        assert 0 < tracer.first < 1 + SLACK
    assert printed and printed + lost == sent


EVENT = {"text": rb".*event ", "json": rb".*event ", "html": rb"event ", "csv": rb"[^#,]+Z,(raw)?tracepoint:",
         "perfetto": rb'{"name":"event '}
SENT = re.compile(rb'@sent(?:"?: |,,,)(\d+)|^<tr><td class="number">(\d+)')


def count_events(form: str, out: Path, stderr: str) -> tuple[int, int, int]:
    """(the script's own count, events in the output, events that it says were lost) of a storm. A page has the last
    lines only: what is printed then is on standard error, as is the count that Perfetto has no place for."""
    sent = printed = lost = 0
    event = re.compile(EVENT[form])
    with out.open("rb") as file:
        for from_output, line in chain(zip(repeat(True), file), zip(repeat(False), BytesIO(stderr.encode()))):
            printed += from_output == (form != "html") and event.match(line) is not None
            if found := SENT.search(line):
                sent = int(found[1] or found[2])
            elif line.startswith(b'{"type": "lost_events"'):
                lost += json.loads(line)["data"]["events"]
    return sent, printed, lost


def test_records_with_and_without_a_time(storm: Path, tmp_path: Path) -> None:
    """One old record with a time does not hold up those without."""
    script = f'BEGIN {{ printf("%llu\\n", nsecs); }} {STORMS["open"][1].replace("NAME", NAME)}'
    with Storm(storm, NAME, "open"), Measured("-e", script, out=tmp_path / "out") as tracer:
        tracer.run(SECONDS)
        tracer.interrupt()
    assert (tmp_path / "out").read_text().count("nonexistent") > 1000
    assert tracer.anonymous < 128 * MIB and tracer.ending < 1 + SLACK


def test_a_tracer_that_was_stopped_counts_what_it_missed(storm: Path, tmp_path: Path) -> None:
    script, out = STORMS["open"][1].replace("NAME", NAME), tmp_path / "out"
    with Storm(storm, NAME, "open"), Measured("-e", "config = { perf_rb_pages = 256 } " + script, out=out) as tracer:
        for _ in range(3):
            tracer.run(0.2)
            tracer.process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            tracer.process.send_signal(signal.SIGCONT)
        tracer.interrupt()
    sent, printed, lost = count_events("text", out, tracer.stderr)
    assert printed and tracer.lost and printed + lost + tracer.lost == sent
    assert tracer.anonymous < 128 * MIB and tracer.ending < 1 + SLACK


def test_mappings_without_end(storm: Path) -> None:
    """Which would be named, if the script had a stack of that process: the tracer has better things to do."""
    script = 'tracepoint:syscalls:sys_enter_getppid /comm == "nobody"/ { printf("%s\\n", ustack); }'
    with Storm(storm, NAME, "map"), Measured("-e", script) as tracer:
        tracer.run(0.5)
        before, begun = cpu_seconds(tracer.process.pid), time.monotonic()
        tracer.run(2)
        share = (cpu_seconds(tracer.process.pid) - before) / (time.monotonic() - begun)
        tracer.interrupt()
    print(f"{share:.0%} of a CPU, {tracer.anonymous >> 20} MiB, end after {tracer.ending:.2f} s")
    assert share < 0.5 and tracer.anonymous < 64 * MIB and tracer.ending < 1 + SLACK


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_blocked_reader_holds_up_no_end(storm: Path, number: int) -> None:
    """Standard output is a pipe that nobody reads: what is in it cannot be helped, the rest is counted."""
    script = STORMS["open"][1].replace("NAME", NAME) + ' END { printf("the end\\n"); }'
    with Storm(storm, NAME, "open"), Measured("-e", script) as tracer:
        tracer.run(1)
        tracer.interrupt(number)
    assert tracer.ending < 1 + SLACK
    assert "bytes of output lost: nobody read them" in tracer.stderr
    assert tracer.lost > 0 and tracer.process.returncode == 0


def test_the_end_is_printed_though_commands_are_queued(storm: Path, tmp_path: Path) -> None:
    """Each event asks for a command that takes a while: those that the end finds waiting are counted, not run."""
    script = f'tracepoint:syscalls:sys_enter_openat /comm == "{NAME}"/ ' \
             '{ system("echo run; sleep 0.05"); @ = count(); } END { printf("the end\\n"); }'
    out = tmp_path / "out"
    with Storm(storm, NAME, "open"), Measured("--unsafe", "-e", script, out=out) as tracer:
        tracer.run(1)
        tracer.interrupt()
    assert tracer.ending < 1 + SLACK
    text = out.read_text()
    assert "run\n" in text and "the end\n" in text and "@: " in text
    assert "of system() not run" in tracer.stderr


def test_a_command_does_not_outlive_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Measured("--unsafe", "-e", 'BEGIN { system("sleep 60"); } interval:s:60 {} END { printf("the end\\n"); }',
                  out=out) as tracer:
        tracer.run(0.5)
        tracer.interrupt(signal.SIGTERM)
    assert tracer.ending < 1 + SLACK and "the end\n" in out.read_text()


def test_what_a_command_prints_is_not_held(tmp_path: Path) -> None:
    with Measured("--unsafe", "-e", 'BEGIN { system("head -c 300000000 /dev/zero"); exit(); }',
                  out=tmp_path / "out") as tracer:
        tracer.run(1)
        tracer.wait()
    assert (tmp_path / "out").stat().st_size >= 300_000_000
    assert tracer.anonymous < 100 * MIB


def test_doubled_signals_are_one_wish() -> None:
    """``timeout`` signals its child and then the group: the maps are printed all the same, each time."""
    for _ in range(10):
        script = 'BEGIN { @x = 1; printf("begun\\n"); } interval:s:60 {}'
        with subprocess.Popen([sys.executable, "-m", "sonde", "-q", "-e", script],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as tracer:
            assert tracer.stdout is not None and tracer.stdout.readline() == b"begun\n"
            tracer.send_signal(signal.SIGTERM)
            tracer.send_signal(signal.SIGINT)
            tracer.send_signal(signal.SIGTERM)
            out, err = tracer.communicate(timeout=20)
        assert out.strip() == b"@x: 1" and tracer.returncode == 0, err


def test_accounting_is_exact_when_time_is_up(storm: Path, tmp_path: Path) -> None:
    """What is dropped at the end is counted as lost: printed and lost are what was sent."""
    script = f'tracepoint:syscalls:sys_enter_openat /comm == "{NAME}"/ ' \
             '{ @sent = count(); printf("x %s\\n", ustack); }'
    out = tmp_path / "out"
    with Storm(storm, NAME, "open"), Measured("-e", script, out=out) as tracer:
        tracer.run(1)
        tracer.interrupt()
    text = out.read_text()
    sent = int(text.rpartition("@sent: ")[2])
    assert text.count("x ") + tracer.lost == sent and tracer.lost > 0


def test_stacks_that_were_printed_make_room(storm: Path, tmp_path: Path) -> None:
    """More stacks than the kernel's table has places for: each one is printed, none is lost."""
    number = 90_000
    script = f'tracepoint:syscalls:sys_enter_getppid /comm == "{NAME}"/ {{ printf("stack %s", ustack(raw)); }}'
    with Measured("-c", f"{storm} {NAME} deep {number}", "-e", script, out=tmp_path / "out") as tracer:
        tracer.run(1)
        tracer.wait()
    text = (tmp_path / "out").read_text()
    assert "Stack trace lost" not in tracer.stderr and not tracer.lost
    assert text.count("stack \n") == number


def test_short_processes_cost_the_same_each(storm: Path, tmp_path: Path) -> None:
    """Each has its own addresses, and so its own stack, which is printed with names when the process is long gone. What
    the second half costs is what the first one does."""
    script = f'tracepoint:syscalls:sys_enter_getppid /comm == "{NAME}"/ {{ printf("stack %s", ustack); }}'
    out, spent = tmp_path / "out", [(0, 0.0)]  # bytes of output, seconds of CPU by then
    with Measured("-c", f"{storm} {NAME} short {PROCESSES}", "-e", script, out=out) as tracer:
        while not tracer.has_ended():
            tracer.anonymous = max(tracer.anonymous, resident(tracer.process.pid))
            spent.append((out.stat().st_size, max(cpu_seconds(tracer.process.pid), spent[-1][1])))
            time.sleep(0.02)
        tracer.wait()
    text, (size, whole) = out.read_text(), spent[-1]
    begun, half = [next(seconds for done, seconds in spent if done >= size * part) for part in (0.1, 0.55)]
    print(f"{PROCESSES} processes: {half - begun:.2f} s of CPU for the first half, {whole - half:.2f} s for the "
          f"second, {tracer.anonymous >> 20} MiB")
    assert "Stack trace lost" not in tracer.stderr and not tracer.lost
    assert text.count("stack \n") == text.count("  main+") == PROCESSES
    assert tracer.anonymous < 128 * MIB and whole - half < 2 * (half - begun)


# A program of 200,000 functions, of which one in eight is asked about, in a process of its own: it says how many bytes
# were held at most.
MEASURED = """
import sys, tracemalloc
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from hostile.generators_elf import BASE, TEXT, with_symbols
from sonde.kernel.names import user_symbols
from sonde.kernel.foreign import files
from sonde.base.memory_budget import Memory
number, name, path = 200_000, "a_function_whose_name_is_as_long_as_many_are_{}", Path(sys.argv[3])
with_symbols(path, [name.format(n).encode() for n in range(number)])
mapping = user_symbols.Mapping(BASE, BASE + 16 * number, TEXT, str(path), str(path))
user_symbols.read_maps = lambda pid, most: [mapping]
share = Memory(int(sys.argv[4])).symbols
symbols = user_symbols.UserSymbols(None, share // 4)
files.limit_kept_bytes(share)
symbols.lookup(1, BASE)
tracemalloc.start()
most = 0
for n in range(1, number, 8):
    found = symbols.lookup(1, BASE + 16 * n + 3)
    assert found is not None and found.name == name.format(n) and found.offset == 3
    if n % 1000 == 1:
        most = max(most, tracemalloc.get_traced_memory()[0])
files.release_files()
print(most, share)
"""


def test_a_large_program_is_held_in_bytes(tmp_path: Path) -> None:
    """Five eighths of the share are for one program: its contents, and the names that were asked for."""
    done = subprocess.run([sys.executable, "-c", MEASURED, str(SOURCE), str(Path(__file__).parents[1]),
                           str(tmp_path / "large"), str(128 << 20)], capture_output=True, text=True, check=False,
                          env=environment(None), timeout=110)
    assert done.returncode == 0, done.stderr
    most, share = map(int, done.stdout.split())
    print(f"{most / 2**20:.1f} MiB held of {share / 2**20:.0f}")
    assert share // 8 < most <= share
