"""``sonde trace``, ``sonde profile`` and argdist's specifiers, against processes whose calls are known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from printed import histogram_total
from support import Tracer, run_sonde

ME = str(os.getpid())
CALLS = """
import os, sys
sys.stdin.readline()
null = os.open("/dev/null", os.O_WRONLY)
for size in (5, 50, 500): os.write(null, b"x" * size)
"""


def called(*words: str, more: str = "") -> tuple[Tracer, subprocess.Popen[bytes]]:
    """What ``sonde WORDS -p PID`` saw of a process that makes CALLS."""
    command = [sys.executable, "-S", "-c", CALLS + more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child, \
            Tracer(*words, "-p", str(child.pid)) as tracer:
        child.communicate(b"\n")
    return tracer, child


def test_trace_prints_what_a_condition_lets_pass() -> None:
    probe = "p:c:write(int fd, char *buf, size_t count) (count >= 50 && fd > 2) \"%d of %s\", count, buf"
    tracer, child = called("trace", "-t", "-T", "-C", "-z", "8", probe)
    assert tracer.lines[0].split() == ["TIME(s)", "TIME", "CPU", "PID", "TID", "COMM", "FUNC", "MSG"]
    found = [re.fullmatch(r" *(\d+\.\d{6}) \d\d:\d\d:\d\d +\d+ +(\d+) +(\d+) +python\S* +write +(.*)", line)
             for line in tracer.lines[1:]]
    pid = str(child.pid)
    assert [row and row.groups()[1:] for row in found] == [
        (pid, pid, "50 of xxxxxxxx.."), (pid, pid, "500 of xxxxxxxx..")]


def test_trace_of_returns_and_tracepoints() -> None:
    tracer, _ = called("trace", "r:c:write (retval == 500) \"%d bytes\", retval",
                       't:syscalls:sys_enter_openat (STRCMP("/dev/null", args->filename)) "%s", args->filename')
    assert [line.split()[3:] for line in tracer.lines[1:]] == [
        ["sys_enter_openat", "/dev/null"], ["write", "500", "bytes"]]


def test_trace_ends_after_so_many_events() -> None:
    tracer, _ = called("trace", "-M", "2", "-U", "c:write")
    assert len([line for line in tracer.lines if " write" in line and "+" not in line]) == 2
    assert "write+" in tracer.stdout


@pytest.mark.parametrize(("probe", "said"), [
    ("", "names no probe"), ("c:write (1", "a bracket is not closed"), ("t:sys_enter_read", "t: needs a category"),
    ('c:write "%d"', "1 conversions, and there are 0 values"), ("c:write fd", "stands in quotation marks"),
    ("p:c:write(int) ", "a parameter has a type and a name"), ("c:write (arg9)", "only arg1 to arg6"),
    ("c:write ($nosuch > 1)", "ERROR"), ("u:/nosuch:probe", "does not exist"), ("c:nosuchfunction", "nosuchfunction"),
])
def test_probes_that_trace_cannot_read(probe: str, said: str) -> None:
    done = run_sonde("trace", probe)
    assert done.returncode == 1 and said in done.stderr


def samples(text: str, pid: int) -> int:
    return sum(int(n) for n in re.findall(rf", {pid}\]: (\d+)$", text, re.M))


def test_profile_counts_cpu_time() -> None:
    """A process that uses one second of a CPU has about as many samples as a second has."""
    busy = "import time\nwhile time.process_time() < 1: pass"
    with Tracer("profile", "-F", "100", "-U", "-f", "text") as every:
        child = subprocess.Popen([sys.executable, "-S", "-c", busy])
        child.wait()
    assert 80 <= samples(every.stdout, child.pid) <= 115
    assert "@samples" in every.stdout and ", swapper/" not in every.stdout


def test_profile_of_some_processes() -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    command = [sys.executable, "-S", "-c", f"import sys; sys.stdin.readline()\n{busy}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child, \
            Tracer("profile", "-p", f"{child.pid}", "-K") as one, Tracer("profile", "-L", "1", "-U") as other:
        child.communicate(b"\n")
    assert samples(one.stdout, child.pid) > 5
    assert set(re.findall(r", (\d+)\]: \d+$", one.stdout, re.M)) == {str(child.pid)}
    assert samples(other.stdout, child.pid) == 0
    for words, said in ((["-U", "-K"], "one at a time"), (["soon"], "a number of SECONDS"), (["-F", "0"], "frequency"),
                        (["-C", "x"], "--cpu"), (["-p", "a"], "not a list")):
        assert said in run_sonde("profile", *words).stderr


def test_argdist_in_the_form_of_bcc() -> None:
    tracer, _ = called("argdist", "-C", "p:c:write(int fd, char *buf, size_t count):size_t:count:fd>2#sizes",
                       "t:syscalls:sys_enter_openat():char*:args->filename")
    assert {int(key): int(n) for key, n in re.findall(r"^@sizes\[(\d+)\]: (\d+)$", tracer.stdout, re.M)} == {
        5: 1, 50: 1, 500: 1}
    assert "@sys_enter_openat1[/dev/null]: 1\n" in tracer.stdout


def test_argdist_of_the_arguments_and_the_time_of_a_return() -> None:
    tracer, _ = called("argdist", "-H", "r:c:write(int fd, void *buf, size_t count):u64:$entry(count):"
                                        "$retval == $entry(count) && $latency > 0 && $entry(fd) > 2")
    assert histogram_total(tracer.stdout, "write") == 3
    for size in ("[4, 8)", "[32, 64)", "[256, 512)"):
        assert re.search(rf"^{re.escape(size)} +1 \|", tracer.stdout, re.M)


def test_argdist_cumulative(tmp_path: Path) -> None:
    more = "import time\nfor _ in range(8): os.write(null, b'12345'); time.sleep(0.3)"
    tracer, _ = called("argdist", "--cumulative", "-i", "1", "-C", "p:c:write(int fd, char *b, size_t n):u64:n",
                       more=more)
    counts = [int(n) for n in re.findall(r"^@write\[5\]: (\d+)$", tracer.stdout, re.M)]
    assert counts == sorted(counts) and counts[-1] == 9 and len(counts) > 1
    assert "one value" in run_sonde("argdist", "-H", "p:c:write(int fd, int n):int,int:fd,n").stderr
    assert "at a function's return" in run_sonde("argdist", "p:c:write(int fd):int:$entry(fd)").stderr
    assert "stand by themselves" in run_sonde("argdist", "p:c:write(int fd):int:fd", "args.count").stderr
