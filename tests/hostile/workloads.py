"""Programs that make more events than a tracer can take, and a tracer whose memory and end are measured."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from support import compile_c, environment

LOST = re.compile(r"^Lost (\d+) events", re.MULTILINE)

# storm NAME KIND: until it is killed, as fast as one thread can, one kind of event. deep NAME N: N stacks, all unlike.
# short NAME N: N processes, one after the other, each of which calls getppid() below some functions and ends.
PROGRAM = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

void left(unsigned, int);
void right(unsigned, int);
#define STEP if (!d) syscall(SYS_getppid); else if (i & 1) right(i >> 1, d - 1); else left(i >> 1, d - 1); sink++;
__attribute__((noinline)) void left(unsigned i, int d) { STEP }
__attribute__((noinline)) void right(unsigned i, int d) { STEP }

int main(int argc, char **argv)
{
    prctl(PR_SET_NAME, argv[1]);
    prctl(PR_SET_PDEATHSIG, 9);
    if (!strcmp(argv[2], "open"))
        for (;;)
            open("/nonexistent/file", O_RDONLY);
    if (!strcmp(argv[2], "switch"))
        for (;;)
            usleep(1);
    if (!strcmp(argv[2], "map"))
        for (int file = open(argv[0], O_RDONLY);;)
            munmap(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0), 4096);
    if (!strcmp(argv[2], "fork"))
        for (;;) {
            pid_t child = vfork();
            if (!child)
                execl(argv[0], argv[0], argv[1], "once", NULL);
            waitpid(child, NULL, 0);
        }
    if (!strcmp(argv[2], "short"))
        for (unsigned i = 0, n = atoi(argv[3]); i < n; i++) {
            pid_t child = vfork();
            if (!child)
                execl(argv[0], argv[0], argv[1], "deep", "1", NULL);
            waitpid(child, NULL, 0);
        }
    if (!strcmp(argv[2], "deep"))
        for (unsigned i = 0, n = atoi(argv[3]); i < n; i++) {
            left(i, 20);
            if (i % 16 == 0)
                usleep(1000);
        }
    return 0;
}
"""


def build(folder: Path) -> Path:
    """The program, under a name of its own: that is what it is called after exec()."""
    return compile_c(PROGRAM, folder, unique_name(), "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")


class Storm:
    """``kind`` of events in a process called ``name``, from entry to exit."""

    def __init__(self, program: Path, name: str, *kind: str) -> None:
        self.command = [str(program), name, *kind]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.command)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()


class Measured:
    """``sonde`` with its standard output in a file or a pipe: its peak memory, and how long its end took."""

    def __init__(self, *args: str, out: Path | None = None) -> None:
        self.args, self._path = args, out
        self.anonymous = 0  # bytes: the greatest that was seen of RssAnon
        self.first = 0.0    # s: from the attaching to the first output
        self.ending = 0.0   # s: from the signal to the end
        self.work = 0.0     # s: of CPU in that time, which does not depend on what else the machine does
        self.stderr = ""

    def __enter__(self) -> Self:
        stdout = subprocess.PIPE if self._path is None else os.open(self._path, os.O_WRONLY | os.O_CREAT)
        self._stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen([sys.executable, "-m", "sonde", *self.args], stdin=subprocess.DEVNULL,
                                        stdout=stdout, stderr=self._stderr, env=environment())
        if stdout != subprocess.PIPE:
            os.close(stdout)
        deadline = time.monotonic() + 30
        while not self._is_attached() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self

    def _is_attached(self) -> bool:
        return b"Attached" in self._errors() or \
            self._path is not None and read_start(self._path).startswith(b'{"type": "attached_probes"')

    def _errors(self) -> bytes:
        descriptor = self._stderr.fileno()
        return os.pread(descriptor, min(os.fstat(descriptor).st_size, 1 << 20), 0)

    def run(self, seconds: float) -> None:
        """Let it trace, and look at its memory."""
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            self.anonymous = max(self.anonymous, resident(self.process.pid))
            if not self.first and self._path is not None and self._path.stat().st_size:
                self.first = time.monotonic() - begin
            time.sleep(0.02)

    def interrupt(self, number: int = signal.SIGINT, patience: float = 30) -> None:
        """Send a signal and wait for the end."""
        before = cpu_seconds(self.process.pid)
        self.process.send_signal(number)
        self.wait(patience)
        self.work = self._cpu - before

    def has_ended(self) -> bool:
        """Whether it has; its figures can be read nevertheless."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, patience: float = 120) -> None:
        """Wait for the end, and take what stands on standard error."""
        begin = time.monotonic()
        while not self.has_ended():
            self._cpu = cpu_seconds(self.process.pid)
            if time.monotonic() - begin > patience:
                raise AssertionError(f"sonde did not end within {patience} seconds")
            time.sleep(0.005)
        self.ending = time.monotonic() - begin
        self._cpu = cpu_seconds(self.process.pid) or self._cpu
        self.process.wait()
        self._stderr.seek(0)
        self.stderr = self._stderr.read().decode()

    @property
    def lost(self) -> int:
        return sum(int(count) for count in LOST.findall(self.stderr))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        self._stderr.close()
        if self.process.stdout is not None:
            self.process.stdout.close()


def read_start(path: Path) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(64)


def resident(pid: int) -> int:
    """Bytes of a process's own memory; 0 when it has ended. Rings, which are mapped, are not part of it."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"RssAnon:\s+(\d+)", text)
    return int(found[1]) << 10 if found else 0


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process so far; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def unique_name() -> str:
    """A name for a workload of this test run."""
    return f"h{os.getpid()}"
