"""Recordings of real runs: what a replay prints is what the run printed, byte for byte."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sonde import compiling, tools
from sonde.cli.script_names import read_script
from sonde.errors import CompileError
from sonde.recording.queries import Question, open_question
from sonde.semantics.script_options import Options
from support import PATIENCE, Tracer, environment, run_sonde, sonde_command

SCRIPT = """
tracepoint:syscalls:sys_enter_openat /pid == cpid/ {
    printf("%-16s %s %d %s\\n", comm, str(args.filename), args.dfd, probe);
    @opened[comm, username] = count(); @stacks[kstack, ustack] = count(); @sizes = lhist(args.flags, 0, 100, 10);
    @latest = strftime("%H:%M:%S.%f", nsecs);
}
tracepoint:syscalls:sys_exit_openat /pid == cpid/ { @result[args.ret >= 0] = hist(args.ret); print((pid, args.ret)); }
interval:ms:50 { print(@opened); clear(@opened); time("%H\\n"); }
end { print(@latest); cat("/proc/%d/comm", self_pid); errorf("done %d", 1); }
""".replace("self_pid", "1")
WORK = [sys.executable, "-S", "-c", "import time\nfor i in range(200):\n    open('/etc/passwd').close()\n"
        "    time.sleep(0.001)\ntry:\n    open('/no/such/file')\nexcept OSError:\n    pass"]
COMMAND = " ".join([WORK[0], "-S", "-c", f"'{WORK[3].replace(chr(39), chr(34))}'"])
FORMS = ["text", "json", "folded", "flamegraph", "html", "csv", "perfetto", "heatmap", "dot"]


@pytest.mark.parametrize("form", FORMS)
def test_a_replay_gives_the_bytes_of_the_run(form: str, tmp_path: Path) -> None:
    script = tmp_path / "script.bt"
    script.write_text("tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @[comm, str(args.filename)] = count(); }"
                      if form == "dot" else SCRIPT)
    recording, shown = str(tmp_path / "run.sonde"), tmp_path / f"shown.{form}"
    live = run_sonde("-f", form, "-o", str(shown), "--every", "0.05", "--record", recording, "-c", COMMAND, str(script))
    assert live.returncode == 0, live.stderr
    before = shown.read_bytes()
    again = run_sonde("replay", "-f", form, "-o", str(shown), recording)
    assert shown.read_bytes() == before and len(before) > 500
    assert (again.stdout, again.stderr, again.returncode) == (live.stdout, live.stderr, live.returncode)


def test_a_recording_alone_prints_nothing_and_has_it_all(tmp_path: Path) -> None:
    recording = str(tmp_path / "run.sonde")
    done = run_sonde("record", "-q", "-o", recording, "-c", COMMAND, "-e", SCRIPT)
    assert done.stdout == "" and done.returncode == 0, done.stderr
    text = run_sonde("replay", recording).stdout
    opened = [line for line in text.splitlines() if "/etc/passwd" in line]
    assert len(opened) == 200 and text.count("systemd\n") + text.count(Path("/proc/1/comm").read_text()) >= 1
    assert text.count(" /no/such/file ") == 1


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_replay_needs_no_rights(tmp_path: Path) -> None:
    recording = tmp_path / "run.sonde"
    run_sonde("record", "-o", str(recording), "-c", COMMAND, "-e", SCRIPT)
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    tried = subprocess.run([*powerless, *sonde_command(["-e", "begin { exit(); }"])], capture_output=True, check=False,
                           env=environment())
    assert tried.returncode == 1, "it can trace"
    done = subprocess.run([*powerless, *sonde_command(["replay", str(recording)])], capture_output=True, text=True,
                          check=False, env=environment())
    assert done.stdout == run_sonde("replay", str(recording)).stdout and done.returncode == 0


def test_what_is_cut_off_is_shown_up_to_the_cut(tmp_path: Path) -> None:
    recording = tmp_path / "run.sonde"
    run_sonde("record", "-o", str(recording), "-c", COMMAND, "-e", SCRIPT)
    whole = run_sonde("replay", str(recording)).stdout
    data = recording.read_bytes()
    recording.write_bytes(data[:len(data) * 2 // 3])
    cut = run_sonde("replay", str(recording))
    assert cut.returncode == 1 and "ends before the run did" in cut.stderr
    assert len(cut.stdout) > 100 and whole.startswith(cut.stdout.rstrip("\n"))


def test_a_killed_run_can_be_replayed(tmp_path: Path) -> None:
    recording = tmp_path / "run.sonde"
    with Tracer("-f", "recording", "-o", str(recording), "-e",
                "interval:ms:10 { @n++; printf(\"%d\\n\", @n); }", settle=3.0) as tracer:
        tracer.process.kill()
        tracer.process.wait()
    done = run_sonde("replay", str(recording))
    assert done.returncode == 1 and "ends before the run did" in done.stderr
    numbers = [int(line) for line in done.stdout.split()]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 20


def test_what_was_asked_for_by_a_signal_and_done_outside_is_replayed(tmp_path: Path) -> None:
    """Maps as they were at SIGUSR1, a command's output, a file's contents; none of it happens again."""
    recording, told = tmp_path / "run.sonde", tmp_path / "told"
    told.write_text("before\n")
    script = f'interval:ms:20 {{ @n++; if (@n % 10 == 0) {{ system("echo %d; echo ran >> {told}.log", @n); ' \
             f'cat("{told}"); }} }}'
    with Tracer("--unsafe", "--record", str(recording), "-e", script) as tracer:
        for _ in range(3):
            time.sleep(0.3)
            tracer.process.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
    told.write_text("after\n")
    runs = Path(f"{told}.log").read_text()
    again = run_sonde("replay", str(recording))
    assert (again.stdout, again.stderr) == (tracer.stdout, tracer.stderr)
    assert tracer.stdout.count("@n: ") == 4 and "before" in again.stdout and "after" not in again.stdout
    assert Path(f"{told}.log").read_text() == runs and "10\n" in again.stdout


def test_the_library_replays(tmp_path: Path) -> None:
    from sonde.recording.replay import open_replay
    recording = str(tmp_path / "run.sonde")
    run_sonde("record", "-o", recording, "-c", COMMAND, "-e", SCRIPT)
    with open_replay(recording) as trace:
        events = list(trace.events())
    assert len([e for e in events if e.kind == "printf" and "/etc/passwd" in e.args]) == 200
    assert trace.maps["@result"][True].total >= 200 and trace.maps["@result"][False].total >= 1
    assert not trace.losses.records and trace.provenance.seconds > 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["record", "-e", "begin { exit(); }"], "-o trace.sonde"),
    (["record", "-f", "json", "-o", "x", "-e", "begin { exit(); }"], "sonde replay -f"),
    (["--record", "x", "--count", "3", "-e", "interval:s:1 { exit(); }"], "--count"),
    (["replay", "/no/such.sonde"], "No such file"), (["replay"], "takes one recording"),
    (["replay", "/etc/passwd"], "is no recording"), (["replay", "-p", "1", "x"], "has no --pid"),
])
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str) -> None:
    done = run_sonde(*arguments)
    assert done.returncode == 1 and message in done.stderr


# --- differences --------------------------------------------------------------------------------------------

SLEEPS = """
tracepoint:syscalls:sys_enter_clock_nanosleep /pid == cpid/ { @began[tid] = nsecs; }
tracepoint:syscalls:sys_exit_clock_nanosleep /pid == cpid && @began[tid]/ {
    @usecs = hist((nsecs - @began[tid]) / 1000, 3); @n = count(); delete(@began, tid); }
"""


def sleeper(path: Path, seconds: float, times: int) -> str:
    path.write_text(f"import time\nfor i in range({times}): time.sleep({seconds})")
    return f"{sys.executable} -S {path}"


def test_two_commands_are_compared(tmp_path: Path) -> None:
    """One sleeps three times as long, as often."""
    one, other = sleeper(tmp_path / "a", 0.001, 100), sleeper(tmp_path / "b", 0.003, 100)
    done = run_sonde("diff", "--baseline", one, "-c", other, "--repeat", "3", "-f", "json", "-e", SLEEPS)
    assert done.returncode == 0, done.stderr
    found = {f["name"]: f for f in json.loads(done.stdout)["data"]["findings"]}
    assert found["@usecs"]["changed"] and 1.5 < found["@usecs"]["ratio"] < 6 and found["@usecs"]["counts"] == [300, 300]
    assert (found["@n"]["before"], found["@n"]["after"], found["@n"]["changed"]) == (100, 100, False)


def test_recordings_are_compared(tmp_path: Path) -> None:
    for name, seconds, times in (("a", 0.001, 100), ("b", 0.004, 150)):
        run_sonde("record", "-q", "-o", str(tmp_path / name), "-c", sleeper(tmp_path / f"{name}.py", seconds, times),
                  "-e", SLEEPS)
    done = run_sonde("diff", str(tmp_path / "a"), str(tmp_path / "b"), "--fail-if", "@usecs p50 > 1.5x")
    assert done.returncode == 2 and "@usecs: p50" in done.stdout
    assert "@n: 100 -> 150 (+50%)" in done.stdout


CALLS = """import os, sys, time
while True:
    for i in range(200 if os.path.exists(sys.argv[1]) else 100): os.getppid()
    time.sleep(0.002)
"""
COUNTED = 'tracepoint:syscalls:sys_enter_getppid /pid == %d/ { @calls = count(); @cost = hist(args.__syscall_nr); }'


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A process that calls twice as often once a file is there: the script that counts it, and the file."""
    (tmp_path / "calls.py").write_text(CALLS)
    process = subprocess.Popen([sys.executable, "-S", tmp_path / "calls.py", tmp_path / "more"])
    yield COUNTED % process.pid, tmp_path / "more"
    process.kill()
    process.wait()


@pytest.mark.parametrize("undone", [False, True])
def test_before_and_after_a_change(undone: bool, caller: tuple[str, Path]) -> None:
    """No command: what happens anyhow, for so long."""
    script, more = caller
    undo = ["--undo", f"rm {more}"] if undone else []
    done = run_sonde("diff", "--duration", "500ms", "--repeat", "4", "--change", f"touch {more}", *undo, "-f", "json",
                     "--fail-if", "@calls count > 1.2x", "-e", script, timeout=4 * PATIENCE)
    assert done.returncode == 2, done.stderr
    report = json.loads(done.stdout)["data"]
    found = {each["name"]: each for each in report["findings"]}
    assert found["@calls"]["changed"] and found["@calls"]["test"] == "Welch" and 1.2 < found["@calls"]["ratio"] < 3
    assert len(report["before"]) == len(report["after"]) == 4 and all(run["seconds"] > 0.4 for run in report["after"])
    assert more.exists() != undone


def test_now_and_what_was_recorded(caller: tuple[str, Path], tmp_path: Path) -> None:
    script, more = caller
    folder = tmp_path / "before"
    folder.mkdir()
    for number in range(3):
        with Tracer("record", "-o", str(folder / str(number)), "-e", script):
            time.sleep(0.5)
    more.touch()
    done = run_sonde("diff", "--duration", "500ms", "--repeat", "3", "--baseline", str(folder), "-f", "json", "-e",
                     script, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    found = {each["name"]: each for each in json.loads(done.stdout)["data"]["findings"]}
    assert 1.2 < found["@calls"]["ratio"] < 3


@pytest.mark.parametrize(("words", "said"), [
    (["--duration", "1s", "-e", "begin { }"], "goes with"),
    (["--change", "true", "-e", "begin { }"], "goes with"),
    (["--duration", "soon", "--change", "true", "-e", "begin { }"], "takes a time"),
    (["--duration", "1s", "--undo", "true", "-e", "begin { }"], "goes with"),
    (["--duration", "1s", "--change", "true"], "and with a script"),
    (["--duration", "100ms", "--repeat", "1", "--change", "exit 3", "-e", "interval:ms:10 { @n++; }"], "status 3"),
    (["--duration", "1s", "--change", "true", "-e", "nonsense"], "could not be recorded")])
def test_what_cannot_be_compared(words: list[str], said: str) -> None:
    done = run_sonde("diff", *words)
    assert done.returncode == 1 and said in done.stderr


# --- questions ----------------------------------------------------------------------------------------------

ASKED = """
tracepoint:syscalls:sys_enter_openat /comm == "asker"/ {
    @by_flags[args.flags, args.mode] = count(); @dfd = hist(args.dfd); @fine = hist(args.flags, 3);
    $x = args.flags * 3 - 100000; @sum = sum($x); @unsigned = sum((uint32)$x); @narrow = sum((int8)args.flags);
    @min[comm] = min(args.dfd); @max = max((uint64)args.dfd); @stats[cpu >= 0] = stats(args.flags / 7 - 5000);
    @shift = sum(args.dfd >> 2); @left = sum(args.flags << 40); @modulo[args.flags % 5] = count();
    @not = sum((int64)!args.mode); @bits = sum(~args.flags & 0xff ^ 3); @either = sum(args.mode ? 7 : args.dfd);
    if (args.dfd < -50 && args.flags > 0) { @steps++; } else { @others[args.dfd] = count(); }
    @same = count(); @threads[pid == tid, uid] = count(); @pointers = count();
}
tracepoint:syscalls:sys_exit_openat /comm == "asker" && args.ret >= 0/ {
    @good = lhist(args.ret, 0, 20, 3); @a = avg(-args.ret); }
"""
ASKER = """
import os
with open("/proc/self/comm", "w") as name: name.write("asker")
folder = os.open("/", os.O_RDONLY)
for i in range(500):
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_NONBLOCK):
        try: os.close(os.open(["/dev/null", "dev/null", "/no/such/" + str(i)][i % 3], flags, 0o600 + i % 7,
                              dir_fd=folder if i % 2 else None))
        except OSError: pass
"""


def record_beside(recording: str, folder: Path, *words: str) -> Tracer:
    """Record what one process opens, while the script that the words name is attached; the latter's output."""
    program = folder / "asker.py"
    program.write_text(ASKER)
    with Tracer("-f", "json", *words) as live:
        done = run_sonde("record", "-q", "--events", "tracepoint:syscalls:sys_*_openat", "-o", recording,
                         "-c", f"{sys.executable} -S {program}")
        assert done.returncode == 0, done.stderr
    return live


def test_a_second_script_gets_the_answers_that_it_would_have_had(tmp_path: Path) -> None:
    """The same script is attached live beside the recording."""
    recording = str(tmp_path / "events.sonde")
    live = record_beside(recording, tmp_path, "-e", ASKED)
    asked = run_sonde("replay", "-f", "json", recording, "-e", ASKED)
    assert asked.returncode == 0, asked.stderr
    answers, truth = ([json.loads(line)["data"] for line in text.splitlines() if '"attached' not in line]
                      for text in (asked.stdout, live.stdout))
    assert answers == truth and len(truth) == 22
    assert {"@same": 2001} in truth
    shown = run_sonde("replay", "-f", "html", recording, "-e", ASKED)
    assert shown.returncode == 0 and "@modulo" in shown.stdout


# Everything that needs the order of events, or what the compiler makes of the language: run event by event.
ORDERED = r"""
config = { max_strlen = 128 }
fn twice($x: int64): int64 { if ($x < 0) { return -$x * 2; } return $x * 2; }
macro shown(x) { x + 1 }
begin { printf("%-8s %s\n", "FLAGS", "TEXT"); @started = 1; @seen["none"] = 0; }
tracepoint:syscalls:sys_enter_openat /comm == "asker"/ {
    @flags[tid] = args.flags; @calls++; @paths[args.filename] = count(); @path = args.filename;
    @order = (@order * 31 + args.flags) % 1000003;
    let $text : string[32] = comm; $t = (args.flags, $text, (int8)args.mode);
    @tuples[$t.0, $t.1] = $t; @last = $t;
    if (strcontains(comm, "sk")) { @sk++; }
    if (strncmp(comm, "ask", 3) == 0) { @three = count(); }
    @lengths[strlen(comm)] = count(); @joined = str_concat(comm, "/x");
    @where = strstr(comm, "ker"); @quotient = sum(args.flags / (args.mode % 5 + 1)); @rest = sum(-args.flags % 7);
    $i = 0; while ($i < args.flags % 9) { $i++; if ($i == 5) { break; } @rounds++; }
    for ($j : 0..4) { @ranged = sum($j * args.dfd); }
    unroll (3) { @unrolled++; }
    @shown = shown(args.flags); @bool[args.flags == 0, (uint8)args.flags > 3] = count(); @signs = (int16)~args.flags;
}
tracepoint:syscalls:sys_exit_openat /@flags[tid]/ {
    $flags = @flags[tid]; delete(@flags, tid);
    @by[$flags, args.ret < 0 ? "failed" : "opened"] = count();
    @h[$flags > 1000] = hist(twice(args.ret)); @l = lhist(args.ret, 0, 20, 2); @stats[comm] = stats(args.ret);
    @avg = avg(args.ret); @min = min(args.ret); @max = max(args.ret);
    if (args.ret < 0) {
        @failures[args.ret]++;
        printf("%-8x|%8d|%s|%c|%5s|%-7s|%lld|%llu|%#x|%03d|%%\n", $flags, args.ret, comm, 65, comm,
               args.ret == -2 ? "ENOENT" : "other", twice(args.ret), (uint64)7, $flags, 7);
    }
    if (has_key(@failures, -2) && @failures[-2] == 5) { print(@started); print((@calls, comm)); print(len(@tuples)); }
    if (@calls == 200) { clear(@seen); zero(@started); }
    if (@calls == 300) { print(@failures[-2]); delete(@failures, -2); @three = count(); }
    if (@calls == 1500) { exit(4); }
}
tracepoint:syscalls:sys_exit_openat /comm == "asker"/ { @second = count(); @after = @calls; print(strerror(2)); }
end { printf("%d calls\n", @calls); for ($kv : @failures) { @summed += $kv.1; } print(@summed); clear(@tuples); }
"""


def test_all_of_the_language_is_answered_event_by_event(tmp_path: Path) -> None:
    """The same script is attached live beside the recording; both end at the same event."""
    recording = str(tmp_path / "events.sonde")
    live = record_beside(recording, tmp_path, "-e", ORDERED)
    asked = run_sonde("replay", "-f", "json", recording, "-e", ORDERED)
    assert asked.returncode == 4, asked.stderr
    answers, truth = ([json.loads(line) for line in text.splitlines() if '"attached' not in line]
                      for text in (asked.stdout, live.stdout))
    assert len(truth) > 500 and {each["type"] for each in truth} >= {"printf", "map", "hist", "stats", "value"}
    assert [each for each in answers if each["type"] == "printf"] == [e for e in truth if e["type"] == "printf"]
    assert answers == truth
    shown = run_sonde("replay", recording, "-e", ORDERED)
    assert shown.stdout.startswith("FLAGS    TEXT\n") and "1500 calls\n" in shown.stdout


# What depends on the order of events, and is still answered by loops over columns.
LOOPED = r"""
begin { printf("%-8s %s\n", "FLAGS", "COMM"); @started = 1; }
tracepoint:syscalls:sys_enter_openat /comm == "asker"/ {
    @flags[tid] = args.flags; @who[tid] = comm; @calls++; @order = (@order * 31 + args.flags) % 1000003; }
tracepoint:syscalls:sys_exit_openat /@flags[tid]/ {
    $flags = @flags[tid]; delete(@flags, tid);
    @by[$flags, args.ret < 0 ? "failed" : "opened"] = count(); @h[$flags > 1000] = hist(args.ret * 3);
    if (args.ret < 0) { @failures[args.ret]++; printf("%x|%8d|%s|%d\n", $flags, args.ret, @who[tid], @failures[-2]); }
    if (!has_key(@first, args.ret)) { @first[args.ret] = @calls; print(args.ret); }
}
tracepoint:syscalls:sys_*_openat /comm == "asker"/ { @last_cpu = (cpu < 1000) + 0; }
end { print(@failures); clear(@failures); printf("%d calls\n", @calls); }
"""


def test_the_order_of_events_counts(tmp_path: Path) -> None:
    """The same script is attached live beside the recording."""
    recording, script = str(tmp_path / "events.sonde"), tmp_path / "looped.bt"
    script.write_text(LOOPED.replace("sys_*_openat", "sys_enter_openat, tracepoint:syscalls:sys_exit_openat"))
    live = record_beside(recording, tmp_path, str(script))
    asked = run_sonde("replay", "-f", "json", recording, str(script))
    assert asked.returncode == 0, asked.stderr
    answers, truth = ([json.loads(line) for line in text.splitlines() if '"attached' not in line]
                      for text in (asked.stdout, live.stdout))
    assert len(truth) > 500 and answers == truth
    with open_question(recording, read_script(str(script)), Options()) as trace:
        assert isinstance(trace.question, Question)


def test_a_question_is_drawn_over_time(tmp_path: Path) -> None:
    """A heat map has a column for each second that was recorded, though nobody had asked then."""
    path = str(tmp_path / "events.sonde")
    work = "import os, time; [(os.getppid(), time.sleep(0.05)) for i in range(80)]"
    run_sonde("record", "-q", "--events", "tracepoint:syscalls:sys_enter_getppid", "-o", path, "-c",
              f"{sys.executable} -S -c '{work}'")
    shown = run_sonde("replay", "--heatmap", path, "-e",
                      "tracepoint:syscalls:sys_enter_getppid { @h = lhist(7, 0, 10, 1); }")
    assert shown.returncode == 0, shown.stderr
    columns = re.search(r"^\[7\] \|(\S+)", shown.stdout, re.M)
    assert columns and len(columns[1]) >= 3


@pytest.mark.parametrize(("question", "message"), [
    ("tracepoint:syscalls:sys_enter_openat { @[str(args.filename)] = count(); }", "asked for str"),
    ("tracepoint:syscalls:sys_enter_openat { @x = *args.filename; }", "it follows no pointers"),
    ("tracepoint:syscalls:sys_enter_openat { @x = *(int8*)args.dfd; }", "it follows no pointers"),
    ("tracepoint:syscalls:sys_enter_openat { @x = *(int8*)kaddr(\"jiffies\"); }", "kaddr"),
    ("tracepoint:syscalls:sys_enter_openat { @x = *kptr((int8*)1234); }", "it follows no pointers"),
    ("tracepoint:syscalls:sys_enter_open* { @ = count(); }", "patterns"),
    ("tracepoint:sched:sched_switch { @ = count(); }", "sched_switch"),
    ("tracepoint:syscalls:sys_enter_openat { @x = rand; }", "asked for rand"),
    ("tracepoint:syscalls:sys_enter_openat { @x = ncpus; }", "asked for ncpus"),
    ("tracepoint:syscalls:sys_enter_openat { @x = nsecs(tai); }", "asked for nsecs"),
    ("tracepoint:syscalls:sys_enter_openat { @x = gid; }", "asked for gid"),
    ("tracepoint:syscalls:sys_enter_openat { @x = elapsed; }", "asked for elapsed"),
    ("begin { @x = pid; } tracepoint:syscalls:sys_enter_openat { @y = 1; }", "asked for pid"),
    ("tracepoint:syscalls:sys_enter_openat { @[ksym(args.dfd)] = count(); }", "names that it did not have"),
    ("tracepoint:syscalls:sys_enter_openat { @ = curtask; }", "asked for curtask"),
    ("tracepoint:syscalls:sys_enter_openat { @[kstack] = count(); }", "asked for kstack"),
    ("interval:s:1 { @ = count(); }", "interval:s:1, which it does not have"),
    ("kprobe:no_such_function { @ = count(); }", "kprobe:no_such_function, which it does not have"),
    ("t:syscalls:sys_enter_opena { @ = count(); }", "did you mean tracepoint:syscalls:sys_enter_openat?"),
    ("tracepoint:syscalls:sys_enter_openat { @ = sum(args.nothing); }", "nothing")])
def test_what_a_recording_does_not_have_is_refused(question: str, message: str, tmp_path: Path,
                                                   events_recording: str) -> None:
    done = run_sonde("replay", events_recording, "-e", question)
    assert done.returncode == 1 and message in done.stderr and done.stdout == ""


@pytest.fixture(scope="module")
def events_recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("events") / "events.sonde")
    done = run_sonde("record", "--events", "tracepoint:syscalls:sys_enter_openat", "-o", path, "-c", "true")
    assert done.returncode == 0, done.stderr
    return path


def test_what_a_script_printed_cannot_be_asked(tmp_path: Path) -> None:
    recording = str(tmp_path / "run.sonde")
    run_sonde("record", "-o", recording, "-e", "begin { exit(); }")
    done = run_sonde("replay", recording, "-e", "tracepoint:syscalls:sys_enter_openat { @ = count(); }")
    assert done.returncode == 1 and "--events" in done.stderr


# --- shipped tools ------------------------------------------------------------------------------------------

BUSY = """
import os, socket, subprocess, sys, time
end = time.time() + float(sys.argv[1])
while time.time() < end:
    subprocess.run(["true"])
    with open(sys.argv[2], "w") as file:
        file.write("x" * 10000); file.flush(); os.fsync(file.fileno())
    os.rename(sys.argv[2], sys.argv[2] + "2"); open(sys.argv[2] + "2").read(); os.unlink(sys.argv[2] + "2")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        client.sendall(b"y" * 1000); peer.recv(1000); peer.close()
    with socket.socket(type=socket.SOCK_DGRAM) as udp: udp.sendto(b"z", ("127.0.0.1", 9))
    try: socket.getaddrinfo("localhost", 80)
    except OSError: pass
    try: open("/no/such")
    except OSError: pass
    time.sleep(0.02)
"""


# Words that tools and commands need; %d is the number of a terminal, %s a block device.
WORDS = {"biolatpcts": "%s", "funccount": "t:syscalls:sys_enter_o*", "funclatency": "c:getaddrinfo",
         "funcslower": "-u 0 c:getaddrinfo", "netqtop": "-n lo", "stackcount": "t:syscalls:sys_enter_fsync",
         "ttysnoop": "%d", "udporder": "--port 9", "argdist": "-C t:syscalls:sys_enter_openat():int:args->flags",
         "profile": "-F 99", "tcpsubnet": "127.0.0.0/8", "trace": "t:syscalls:sys_enter_fsync"}


# What not every kernel has the probes of, which are kernel functions or those of a module for hardware: of these
# SONDE_VM_FULL=1 replays in guests what their kernels serve.
NOT_EVERYWHERE = ("criticalstat", "dcsnoop", "filelife", "funcprofile", "ieee80211scan", "kvmexit", "llcstat",
                  "skblife", "vfscount", "vfsstat", "virtiostat", "xfsdist")


def is_served(name: str) -> bool:
    """Whether this machine has the probes of a tool; it may have no hardware counters."""
    try:
        probes = compiling.compile(read_script(name), Options()).probes
        return not any(probe.startswith("hardware:") for probe in probes)
    except CompileError:
        return False


@functools.cache
def traceable_tools() -> list[str]:
    """Those that this machine serves without words of the user's."""
    return [tool.name for tool in tools.all_tools() if tool.name not in WORDS and is_served(tool.name)]


PARTS = 10


def check_replays(chosen: dict[str, list[str]], form: str, folder: Path) -> tuple[list[str], list[str]]:
    """Run tools by name, with their words, beside the same workload: which of them replay otherwise than they ran, and
    which had nothing to say."""
    with ExitStack() as stack:
        running = [(name, stack.enter_context(Tracer(name, *words, "-f", form, "--record", str(folder / name))))
                   for name, words in chosen.items()]
        subprocess.run([sys.executable, "-S", "-c", BUSY, "1.5", str(folder / "file")], check=True)
    differing, silent = [], []
    for name, tracer in running:
        again = subprocess.run(sonde_command(("replay", "-f", form, str(folder / name))), capture_output=True,
                               env=environment(None), check=False)
        said = re.sub(r"^Detaching \d+ probes, which .*\n", "", tracer.stderr, flags=re.M)  # a replay has none
        if [told.decode(errors="replace") for told in (again.stdout, again.stderr)] != [tracer.stdout, said]:
            differing.append(name)
        if len(tracer.lines) < 2:
            silent.append(name)
    return differing, silent


@pytest.mark.parametrize("part", range(PARTS))
def test_every_tool_replays_as_it_ran(part: int, tmp_path: Path) -> None:
    """Every tenth, in text and in JSON by turns."""
    names = traceable_tools()
    assert {tool.name for tool in tools.all_tools()} - {*names, *WORDS} <= set(NOT_EVERYWHERE)
    differing, silent = check_replays({name: [] for name in names[part::PARTS]}, ["text", "json"][part % 2], tmp_path)
    assert not differing and len(silent) <= len(names) // 2, (differing, silent)


@pytest.mark.parametrize("form", ["text", "json"])
def test_tools_and_commands_with_words_replay_as_they_ran(form: str, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    disk = max(os.listdir("/sys/block"), default="")
    try:
        terminal = os.path.basename(os.ttyname(theirs))
        chosen = {name: words.replace("%d", terminal).replace("%s", disk).split() for name, words in WORDS.items()
                  if disk or name != "biolatpcts"}
        differing, silent = check_replays(chosen, form, tmp_path)
    finally:
        os.close(ours)
        os.close(theirs)
    assert not differing and len(silent) <= len(WORDS) // 2, (differing, silent)


@pytest.mark.parametrize("empties", ["clear", "zero"])
def test_a_map_that_is_emptied_unread_is_exported_as_far_as_it_is_known(empties: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path, table = str(tmp_path / "emptied.sonde"), str(tmp_path / "events.parquet")
    run_sonde("record", "-o", path, "-e", f"""begin {{ @seen[7] = sum(42); }}
        interval:ms:100 {{ {empties}(@seen); printf("round=%d", ++@rounds); if (@rounds == 3) {{ exit(); }} }}""")
    done = run_sonde("replay", "--parquet", table, path)
    assert done.returncode == 0 and "3 rows" in done.stderr, done.stderr


def test_a_question_asks_nothing_of_this_machine(tmp_path: Path) -> None:
    """The recording is of another one: there is no /sys here, and no right."""
    path = tmp_path / "opened.sonde"
    run_sonde("record", "-q", "--events", "tracepoint:syscalls:sys_enter_openat", "-o", str(path), "-c",
              f"{sys.executable} -S -c 'import os; [os.open(os.devnull, 0) for _ in range(500)]'")
    question = "tracepoint:syscalls:sys_enter_openat { @[cpu] = count(); @all = count(); @sizes = hist(args.flags); }"
    hide = 'mount -t tmpfs none /sys && exec "$@"'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", hide, "hide", *sonde_command(
        ["replay", "-f", "json", str(path), "-e", question])], capture_output=True, text=True, check=False,
        env=environment({"XDG_CACHE_HOME": str(tmp_path / "cache")}))
    assert done.returncode == 0, done.stderr
    assert int(re.findall(r'"@all": (\d+)', done.stdout)[0]) >= 500
