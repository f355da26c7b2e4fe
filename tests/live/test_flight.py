"""The flight recorder on the running kernel: dumps are exact while events go on, and whatever asks for one gets it."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sonde import compiling
from sonde.kernel.types.world import LiveWorld
from sonde.runtime.flight.rings import Stretch, merge_stretches
from sonde.runtime.session import Session
from sonde.semantics.script_options import Options
from sonde.source import Source
from support import PATIENCE, Tracer, compile_c, environment, run_sonde, sonde_command, wait_for

SLOW = bool(os.environ.get("SONDE_VM"))
# counts CPUS RATE SECONDS: a thread on each of the CPUs calls lseek(-1, n, 0) for n = 1, 2 ..., RATE times a second (0:
# as fast as it can), and prints its CPU and the last n.
NUMBERS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static double rate, seconds;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void *call(void *cpu) {
    cpu_set_t own;
    struct timespec pause = {0, 200000};
    CPU_ZERO(&own); CPU_SET((long)cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
    double begin = now();
    long n = 0;
    while (now() - begin < seconds) {
        long due = rate ? (now() - begin) * rate : n + 1000;
        while (n < due) syscall(SYS_lseek, -1, ++n, 0);
        if (rate) nanosleep(&pause, 0);
    }
    printf("%ld %ld\\n", (long)cpu, n);
    return 0;
}
int main(int argc, char **argv) {
    int cpus = atoi(argv[1]);
    pthread_t threads[64];
    rate = atof(argv[2]); seconds = atof(argv[3]);
    for (long i = 0; i < cpus; i++) pthread_create(threads + i, 0, call, (void *)i);
    for (int i = 0; i < cpus; i++) pthread_join(threads[i], 0);
    return 0;
}
"""
# So many threads call f(1), f(2) ... for so many seconds: they preempt one another in the middle of a probe.
CROWD = """
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static double seconds;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
long f(long n) { __asm__ volatile(""); return n + 1; }
static void *call(void *none) { double begin = now(); for (long n = 1; now() - begin < seconds; n++) f(n); return 0; }
int main(int argc, char **argv) {
    pthread_t threads[8];
    seconds = atof(argv[1]);
    for (int i = 0; i < 8; i++) pthread_create(threads + i, 0, call, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    return 0;
}
"""
ENTER = 'tracepoint:syscalls:sys_enter_lseek /comm == "numbers"/'
NUMBERED = f'{ENTER} {{ printf("%d %d\\n", cpu, args.offset); }}'


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(NUMBERS, tmp_path_factory.mktemp("flight"), "numbers")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(CROWD, tmp_path_factory.mktemp("flight"), "crowd")


@pytest.fixture
def storm(numbers: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([numbers, "2", "100000", "600"], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def compiled(region: int) -> Any:
    return compiling.compile(Source("stdin", NUMBERED), Options(flight=region, timed=True), LiveWorld())


def numbers_of(stretch: Stretch) -> list[tuple[int, int]]:
    """(CPU, number) of each record, in order."""
    return [struct.unpack_from("=qq", batch.buffer, offset + 16)
            for batch in stretch.batches for offset in batch.offsets]


def test_twenty_dumps_of_a_storm_are_exact(numbers: Path) -> None:
    """Each CPU's stretch has every number between its first and its last once, in order, while threads on all of them
    go on; merged, the times of all CPUs are in order."""
    spec = compiled(1 << 21)
    with Session(spec) as session:
        session.attach()
        assert session.flight is not None
        with subprocess.Popen([numbers, "2", "0", "600"], stdout=subprocess.DEVNULL) as running:
            try:
                read = session.flight.read_stretches
                wait_for(lambda: all(stretch.end > 4 << 20 for stretch in read()))
                last = [0, 0]
                for _ in range(5 if SLOW else 20):
                    stretches = [stretch.since(0) for stretch in read()]
                    for stretch in stretches:
                        found = numbers_of(stretch)
                        assert {cpu for cpu, _ in found} == {stretch.cpu} and not stretch.holes
                        first = found[0][1]
                        assert [n for _, n in found] == list(range(first, first + len(found)))
                        # Of some 20,000; what writers overtake while it is copied is left out.
                        assert len(found) > 500 and stretch.begin > 0
                        assert found[-1][1] >= last[stretch.cpu]
                        last[stretch.cpu] = found[-1][1]
                    merged = list(merge_stretches(stretches))
                    times = [time for records in merged for batch in records.batches for time in batch.times]
                    assert times == sorted(times)
                    time.sleep(0.05)
            finally:
                running.kill()
        assert not session.losses()


def test_all_that_fits_is_there(numbers: Path, crowd: Path) -> None:
    """Programs that interrupt and preempt one another on each CPU: what is dumped, by kind of probe, is what was
    counted, less what is said to be lost; and the numbers of each thread have no gap."""
    script = (f'{ENTER} {{ printf("a %d %d\\n", cpu, args.offset); @n["a"] = count(); }} '
              'profile:hz:4999 { printf("b\\n"); @n["b"] = count(); } '
              f'uprobe:{crowd}:f {{ printf("c %d %d\\n", tid, arg0); @n["c"] = count(); }} '
              'tracepoint:sched:sched_switch { printf("d\\n"); @n["d"] = count(); } end { dump("all"); }')
    done = run_sonde("--flight", "1h,128M", "-f", "json", "-e", script, "-c",
                     f"/bin/sh -c '{numbers} 2 20000 2 >/dev/null & exec {crowd} 2'", timeout=4 * PATIENCE)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    printed = [row["data"].split() for row in rows if row["type"] == "printf"]
    head = next(row["data"] for row in rows if row["type"] == "dump")
    counted = next(row["data"]["@n"] for row in rows if row["type"] == "map")
    lost = sum(int(number) for line in head["lost"] for number in re.findall(r"^Lost (\d+)", line))
    assert head["why"] == "all" and head["records"] == len(printed)
    assert not any(cpu["overwritten_bytes"] or cpu["holes"] for cpu in head["cpus"])
    kinds = Counter(words[0] for words in printed)
    assert set(kinds) == set("abcd") and kinds.total() + lost == sum(counted.values())
    if LiveWorld().has_feature("atomic_fetch"):
        assert not lost and kinds == Counter(counted)
    nested = Counter((words[0], words[1]) for words in printed if words[0] in "ac")
    last = {(words[0], words[1]): int(words[2]) for words in printed if words[0] in "ac"}
    if not lost:
        assert nested == last


def test_nothing_is_done_while_armed(storm: subprocess.Popen[str]) -> None:
    def ticks(pid: int) -> int:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    with Tracer("--flight", "30s,4M", "-e", NUMBERED, settle=1.0) as tracer:
        before = ticks(tracer.pid)
        time.sleep(2)
        assert ticks(tracer.pid) == before
    assert not tracer.lines and "0 dumps" in tracer.stderr


HEADED = ('begin { printf("CPU N\\n"); } ' + NUMBERED[:-1] + '@calls = count(); } end { printf("that is all\\n"); }')


def test_a_signal(storm: subprocess.Popen[str]) -> None:
    """What begin has printed stands in each dump, what end prints at the end."""
    with Tracer("--flight", "30s,4M", "-e", HEADED) as tracer:
        for number in (1, 2):
            time.sleep(0.3)
            os.kill(tracer.pid, signal.SIGUSR2)
            wait_for(lambda number=number: tracer.output().count("@calls: ") == number)
    heads = [at for at, line in enumerate(tracer.lines) if line == "CPU N"]
    assert len(heads) == 2 and all(tracer.lines[at - 1].startswith("# CPU 1: ") for at in heads)
    assert re.fullmatch(r"# dump 1: SIGUSR2", tracer.lines[0]) and tracer.lines.count("# dump 2: SIGUSR2") == 1
    assert re.fullmatch(r"# [-\d]+ [\d:.]+", tracer.lines[1])
    first = tracer.lines[heads[0] + 1:tracer.lines.index("# dump 2: SIGUSR2") - 1]
    told = re.findall(r"CPU (\d): (\d+) records, [\d:.]+ to [\d:.]+", "\n".join(tracer.lines[:heads[0]]))
    assert {cpu: int(count) for cpu, count in told} == Counter(line.split()[0] for line in first)
    for cpu in "01":
        own = [int(line.split()[1]) for line in first if line[0] == cpu]
        assert own == list(range(own[0], own[0] + len(own)))
    assert tracer.lines[-2] == "that is all" and tracer.lines[-1].startswith("@calls: ")
    assert "2 dumps" in tracer.stderr


def test_a_command_and_several_flights(storm: subprocess.Popen[str], tmp_path: Path) -> None:
    script = tmp_path / "seeks.bt"
    script.write_text(NUMBERED)
    folders = [tmp_path / "a", tmp_path / "b"]
    with Tracer("--flight", "30s,1M", "--flight-to", str(folders[0]), str(script)) as one, \
            Tracer("--flight", "30s,1M", "--flight-to", str(folders[1]), "-f", "json", str(script)) as other:
        time.sleep(0.3)
        assert {f"seeks {pid}" for pid in (one.pid, other.pid)} <= {
            " ".join(line.split()) for line in run_sonde("dump").stdout.splitlines()}
        unclear = run_sonde("dump", "seeks")
        assert unclear.returncode == 1 and "2 flights are called seeks" in unclear.stderr
        for tracer in (one, other):
            done = run_sonde("dump", str(tracer.pid), "users\x1b complain")
            assert re.fullmatch(r"Dump 1 \(sonde dump: users\\x1b complain\): \d+ records in .*\n", done.stdout), done
        assert "no flight called nobody" in run_sonde("dump", "nobody").stderr
    text = (folders[0] / "seeks.0001.txt").read_text().splitlines()
    rows = [json.loads(line) for line in (folders[1] / "seeks.0001.json").read_text().splitlines()]
    assert text[0] == r"# dump 1: sonde dump: users\x1b complain" and len(text) > 1000
    assert rows[0]["type"] == "dump" and rows[0]["data"]["why"] == "users\x1b complain"
    assert rows[0]["data"]["records"] == sum(row["type"] == "printf" for row in rows) > 1000
    assert not one.lines and "Dump 1 (sonde dump" in one.stderr
    assert not any(str(pid) in run_sonde("dump").stdout.split() for pid in (one.pid, other.pid))


def test_a_condition_and_a_recording(numbers: Path, tmp_path: Path) -> None:
    """A burst is seen, once; the recording of the dump replays as its text, also in other forms."""
    script = f'{ENTER} {{ printf("%d %d\\n", cpu, args.offset); @calls[cpu] = count(); }}'
    with Tracer("--flight", "30s,4M", "--when", "@calls[0] > 300 within 1s", "--flight-to", str(tmp_path),
                "-f", "recording", "-e", script) as tracer:
        subprocess.run([numbers, "1", "50", "1.5"], check=True, stdout=subprocess.DEVNULL)
        assert not list(tmp_path.iterdir())
        subprocess.run([numbers, "1", "2000", "1"], check=True, stdout=subprocess.DEVNULL)
        wait_for((tmp_path / "sonde.0001.sonde").exists)
    assert "Dump 1 (--when: @calls[0] > 300 within 1s)" in tracer.stderr and "1 dump" in tracer.stderr
    replayed = run_sonde("replay", str(tmp_path / "sonde.0001.sonde"))
    assert replayed.returncode == 0, replayed.stderr
    lines = [line for line in replayed.stdout.splitlines() if line]
    found = [int(line.split()[1]) for line in lines if line.startswith("0 ")]
    behind = len(found) - found[::-1].index(1) - 1  # where the second run begins
    assert found[behind:] == list(range(1, len(found) - behind + 1)) and len(found) - behind > 200
    assert found[:behind] == list(range(1, behind + 1)) and lines[-1].startswith("@calls[0]: ")
    as_json = run_sonde("replay", "-f", "json", str(tmp_path / "sonde.0001.sonde")).stdout.splitlines()
    assert sum(json.loads(line)["type"] == "printf" for line in as_json) == len(found)


def test_the_script_asks_and_is_not_heard_too_often(numbers: Path) -> None:
    script = NUMBERED[:-1] + 'if (args.offset % 100 == 0) { dump("hundred"); } if (args.offset == 1000) { exit(); } }'
    with Tracer("--flight", "30s,4M", "-f", "json", "-e", script) as tracer:
        subprocess.run([numbers, "1", "2000", "1"], check=True, stdout=subprocess.DEVNULL)
        tracer.wait()
    rows = [json.loads(line) for line in tracer.stdout.splitlines()]
    heads = [row["data"] for row in rows if row["type"] == "dump"]
    assert [(head["by"], head["why"]) for head in heads] == [("dump()", "hundred")]
    assert heads[0]["records"] >= 100 and "1 dump; 9 more were asked for within 10 s of another" in tracer.stderr
    assert "unstable feature: dump" in tracer.stderr


def test_a_dump_before_the_exit(numbers: Path) -> None:
    script = "config = { unstable_dump = enable } " + NUMBERED[:-1] + 'if (args.offset == 70) { dump(); exit(); } }'
    done = run_sonde("--flight", "30s,4M", "-q", "-e", script, "-c", f"{numbers} 1 2000 1")
    assert done.stdout.startswith("# dump 1: dump()\n") and not done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("0 ")][:70] == [f"0 {n}" for n in range(1, 71)]


def test_the_window_ends_what_is_old(numbers: Path) -> None:
    with Tracer("--flight", "500ms,4M", "-e", NUMBERED) as tracer:
        subprocess.run([numbers, "1", "1000", "0.3"], check=True, stdout=subprocess.DEVNULL)
        time.sleep(1)
        os.kill(tracer.pid, signal.SIGUSR2)
        wait_for(lambda: "# CPU 1: " in tracer.output())
    assert [line for line in tracer.lines if line.startswith("# CPU")] == [
        "# CPU 0: no records", *[f"# CPU {cpu}: no records" for cpu in range(1, LiveWorld().cpus)]]


def test_a_tool_and_its_interval(storm: subprocess.Popen[str]) -> None:
    """What a tool prints and clears at intervals is cleared all the same, and shown as it is when the dump is made."""
    script = f"{ENTER} {{ @[cpu] = count(); }} interval:ms:200 {{ print(@); clear(@); }}"
    with Tracer("--flight", "30s,1M", "-e", script) as tracer:
        time.sleep(1.5)
        os.kill(tracer.pid, signal.SIGUSR2)
        wait_for(lambda: "@[" in tracer.output() or SLOW)
        assert tracer.output().count("@[0]: ") <= 1
        found = re.search(r"@\[0\]: (\d+)", tracer.output())
        assert SLOW or found is not None and int(found[1]) < 100_000


def test_a_budget_holds_in_flight(storm: subprocess.Popen[str]) -> None:
    with Tracer("--flight", "30s,1M", "--budget", "1%", "-f", "json", "-e", NUMBERED, settle=1.0) as tracer:
        os.kill(tracer.pid, signal.SIGUSR2)
        wait_for(lambda: '"type": "dump"' in tracer.output())
    rows = [json.loads(line) for line in tracer.stdout.splitlines()]
    assert {"dump", "withheld"} <= {row["type"] for row in rows}


@pytest.mark.parametrize(("words", "said"), [
    (["--flight", "x", "-e", NUMBERED], "--flight takes a time"),
    (["--flight", "30s,1K", "-e", NUMBERED], "for each of"),
    (["--flight", "30s", "-f", "html", "-e", NUMBERED], "--flight gives out text, json, recording"),
    (["--flight", "30s", "-f", "recording", "-e", NUMBERED], "need a folder"),
    (["--flight", "30s", "--count", "3", "-e", NUMBERED], "--flight and --count exclude each other"),
    (["--flight-to", "x", "-e", NUMBERED], "are of a flight"),
    (["--flight", "30s", "--when", "@x > 1", "-e", NUMBERED], "the script has no map @x"),
    (["--flight", "30s", "--unsafe", "-e", 'begin { system("true"); }'], "system() has no place in a flight"),
    (["--flight", "30s", "--flight-to", "/dev/null/x", "-e", NUMBERED], "--flight-to /dev/null/x: Not a directory"),
    (["unit", "--flight", "30s", "--prometheus", "-e", NUMBERED], "exclude each other"),
    (["unit", "--flight", "30s", "--flight-to", "x", "-e", NUMBERED], "in /var/lib/sonde/flights"),
    (["top", "--flight", "30s", "-e", NUMBERED], "sonde top lives by what comes"),
    (["export", "--flight", "30s", "--prometheus", "-e", NUMBERED], "sonde export lives by what comes"),
    (["dump", "a", "b", "c"], "takes a flight and a reason"),
])
def test_what_makes_no_sense(words: list[str], said: str) -> None:
    done = run_sonde(*words)
    assert done.returncode == 1 and said in done.stderr and not done.stdout


def test_a_service(tmp_path: Path) -> None:
    """The command of the unit, with the folders that systemd would give it."""
    script = tmp_path / "seeks.bt"
    script.write_text(NUMBERED)
    made = run_sonde("unit", "--flight", "10s,1M", "--when", "@x>1", "-f", "json", str(script))
    assert made.returncode == 1 and "no map @x" in made.stderr
    text = run_sonde("unit", "--flight", "10s,1M", "-f", "json", str(script)).stdout
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    assert found["StateDirectory"] == found["RuntimeDirectory"] == "sonde/flights/seeks" and found["Type"] == "notify"
    words = found["ExecStart"].split()
    own = ["-q", f"--flight-to={tmp_path}/state", "--budget=5%", "--format=json", "--flight=10s,1M", str(script)]
    assert [word.replace("%%", "%") for word in words[-6:]] == [
        word.replace(f"{tmp_path}/state", "/var/lib/sonde/flights/seeks") for word in own]
    run = tmp_path / "run"
    with subprocess.Popen(sonde_command(own), env=environment({"RUNTIME_DIRECTORY": str(run)}),
                          stderr=subprocess.DEVNULL) as service:
        try:
            wait_for(lambda: run.exists() and any(run.iterdir()))
            time.sleep(1 if not SLOW else 20)
            asked = run_sonde("dump", "seeks", env={"RUNTIME_DIRECTORY": str(run)})
            assert asked.stdout.startswith("Dump 1 (sonde dump)"), asked.stderr
        finally:
            service.terminate()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["seeks.0001.json"]
