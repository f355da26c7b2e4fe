"""Helpers of the tests: running Sonde as people do, and programs whose true answer is known.

Import as ``from support import ...``; pytest's ``pythonpath`` has this folder.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SOURCE = Path(__file__).parents[1] / "src"
ATTACHED = re.compile(r"^(Attached \d+ probes?|Tracing on \d+ of \d+ hosts?)$", re.MULTILINE)
RMDIR = "rmdir" if os.uname().machine in ("x86_64", "s390x") else "unlinkat"  # the system call of os.rmdir()


@functools.cache
def live_obstacle() -> str:
    """What keeps the live tier from running on this machine; "" if nothing does."""
    if sys.platform != "linux":
        return "this is not Linux"
    if os.geteuid() != 0:
        return "needs root"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "the kernel has no BTF (/sys/kernel/btf/vmlinux)"
    if not os.path.isdir("/sys/kernel/tracing/events"):
        subprocess.run(["mount", "-t", "tracefs", "nodev", "/sys/kernel/tracing"], capture_output=True, check=False)
        if not os.path.isdir("/sys/kernel/tracing/events"):
            return "tracefs is not mounted on /sys/kernel/tracing and cannot be"
    return bpf_obstacle()


def bpf_obstacle() -> str:
    """Make an array map: what refuses that refuses everything."""
    import ctypes

    from sonde.arch import ARCHES

    row = ARCHES.get(os.uname().machine)
    if row is None:
        return f"Sonde does not know {os.uname().machine}"
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 32)(2, 4, 8, 1)  # BPF_MAP_TYPE_ARRAY, key, value, entries
    fd = libc.syscall(row.syscalls["bpf"], 0, ctypes.byref(attr), ctypes.sizeof(attr))
    if fd < 0:
        return f"bpf(BPF_MAP_CREATE): {os.strerror(ctypes.get_errno())}"
    os.close(fd)
    return ""


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of a child that runs Sonde from this tree; the caller's own settings do not leak in."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BPFTRACE_", "SONDE_"))}
    return {**clean, "PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "error", **(extra or {})}


def sonde_command(args: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "sonde", *map(str, args)]


# Seconds for a run. Software emulation is some 18 times slower; those that take longest are in its whole tier.
PATIENCE = 60 if not os.environ.get("SONDE_VM") else 360 if os.environ.get("SONDE_VM_FULL") else 180


def run_sonde(
    *args: str, stdin: str | None = None, timeout: float = PATIENCE, env: dict[str, str] | None = None, **kwargs: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``sonde ARGS`` to its end; stdout and stderr are text. Never shows a traceback (asserted)."""
    feed: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    done = subprocess.run(
        sonde_command(args), capture_output=True, text=True, timeout=timeout, env=environment(env), check=False,
        **feed, **kwargs,
    )  # fmt: skip
    assert "Traceback (most recent call last)" not in done.stderr, done.stderr
    assert "internal error" not in done.stderr, done.stderr
    return done


# Advice about a script that a command makes, in which nothing is its user's.
OWN_ADVICE = r"^(ucalls|uflow|ugc|uobjnew|ustat|uthreads|profile|tcpsubnet):\d.*: WARNING: (signed|Unnecessary|Express)"


class Tracer:
    """A running ``sonde``, entered when its probes are attached and ended by SIGINT.

    ``with Tracer("-e", program) as t: workload()`` and then ``t.stdout``, ``t.stderr``, ``t.status``.
    """

    def __init__(self, *args: str, env: dict[str, str] | None = None, timeout: float = PATIENCE,
                 settle: float = 0.0) -> None:
        self.args, self.env, self.timeout, self.settle = args, env, timeout, settle
        self.stdout = self.stderr = ""
        self.status: int | None = None

    def __enter__(self) -> Self:
        self._out = tempfile.TemporaryFile("w+")
        self._err = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            sonde_command(self.args),
            stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err, env=environment(self.env),
        )  # fmt: skip
        self.pid = self.process.pid
        try:
            self._await_attached()
        except BaseException:
            self._collect(kill=True)
            raise
        return self

    def _read(self, file: Any) -> str:
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, 0).decode(errors="replace")

    def _await_attached(self) -> None:
        deadline = time.monotonic() + self.timeout
        while not (ATTACHED.search(self._read(self._err)) or '"attached_probes"' in self._read(self._out)):
            if self.process.poll() is not None:
                raise AssertionError(f"sonde ended with {self.process.returncode}:\n{self._read(self._err)}")
            if time.monotonic() > deadline:
                raise AssertionError(f"sonde attached nothing in {self.timeout} s:\n{self._read(self._err)}")
            time.sleep(0.005)
        time.sleep(self.settle)

    def output(self) -> str:
        """What has been printed so far."""
        return self._read(self._out)

    def wait(self) -> None:
        """Wait until it ends by itself."""
        self.process.wait(self.timeout)

    def _collect(self, kill: bool = False) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL if kill else signal.SIGINT)
        try:
            self.status = self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.status = self.process.wait()
            raise
        finally:
            self.stdout, self.stderr = self._read(self._out), self._read(self._err)
            self._out.close()
            self._err.close()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._collect()
        assert "Traceback (most recent call last)" not in self.stderr, self.stderr
        assert "internal error" not in self.stderr, self.stderr
        assert not re.search(OWN_ADVICE, self.stderr, re.M), self.stderr

    @property
    def lines(self) -> list[str]:
        """What was printed; the empty lines that bpftrace sets before the maps are left out."""
        return [line for line in self.stdout.splitlines() if line]


def trace(program: str, workload: Callable[[], Any], *options: str, **kwargs: Any) -> Tracer:
    """Trace ``program`` while ``workload()`` runs."""
    with Tracer(*options, "-e", program, **kwargs) as tracer:
        workload()
    return tracer


def wait_for(done: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Until something that must come is there; AssertionError if it does not come."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def without_counters() -> dict[str, str]:
    """The tools that need counters of the CPU, and what is said of them, where it has none: many virtual machines."""
    from sonde.errors import SondeError
    from sonde.kernel import syscalls

    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            syscalls.perf_event_open(0, 2, cpu=cpu, sample_period=100).close()  # PERF_COUNT_HW_CACHE_REFERENCES
    except SondeError:
        return {"llcstat": "this machine has no such hardware counter"}
    return {}


def set_comm(name: str) -> None:
    """Name this thread: traced by name, other processes are left alone."""
    with open(f"/proc/self/task/{threading_id()}/comm", "w") as file:
        file.write(name)


def threading_id() -> int:
    import threading

    return threading.get_native_id()


def interpreters(version: str) -> Iterator[list[str]]:
    """Commands that start Pythons of a version; in $SONDE_PYTHON_ROOTS are folders of other systems."""
    for path in (f"/usr/bin/python{version}", f"/usr/local/bin/python{version}",
                 *map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")))):
        if os.access(path, os.X_OK):
            yield [path]
    for root in filter(None, os.environ.get("SONDE_PYTHON_ROOTS", "").split(":")):
        if os.access(f"{root}/usr/bin/python{version}", os.X_OK):
            yield ["chroot", root, f"/usr/bin/python{version}"]


# Threads that call getppid(): how many, how often each, what the process is called.
PRODUCER = r"""
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long calls;
static pthread_barrier_t start;

static void *produce(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&start);
    for (long i = 0; i < calls; i++)
        syscall(SYS_getppid);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = atoi(argv[1]);
    pthread_t id[64];

    calls = atol(argv[2]);
    prctl(PR_SET_NAME, argv[3]);
    pthread_barrier_init(&start, NULL, threads);
    for (int i = 0; i < threads; i++)
        pthread_create(&id[i], NULL, produce, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    return argc > 9;
}
"""


def compile_c(source: str, directory: Path, name: str = "target", *flags: str) -> Path:
    """Compile a C program; skips with the reason where there is no compiler."""
    import pytest

    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    code = directory / f"{name}.c"
    code.write_text(source)
    binary = directory / name
    subprocess.run([compiler, "-O1", "-g", "-fno-inline", *flags, "-o", str(binary), str(code), "-pthread"], check=True)
    return binary


# getppid() by hand, in the function that calls it: at a system call all frames are complete, as they are not at the
# first instruction of a function.
BARE_CALL = r"""
#include <sys/syscall.h>
static inline __attribute__((always_inline)) long bare_getppid(void)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getppid) : "rcx", "r11", "memory");
#elif defined __aarch64__
    register long result __asm__("x0"), number __asm__("x8") = SYS_getppid;
    __asm__ volatile("svc 0" : "=r"(result) : "r"(number) : "memory");
#elif defined __riscv
    register long result __asm__("a0"), number __asm__("a7") = SYS_getppid;
    __asm__ volatile("ecall" : "=r"(result) : "r"(number) : "memory");
#elif defined __s390x__
    register long result __asm__("2"), number __asm__("1") = SYS_getppid;
    __asm__ volatile("svc 0" : "=d"(result) : "d"(number) : "memory");
#endif
    return result;
}
"""


def disk_of(place: int | Path) -> str:
    """The name of the disk that a file (open, or by its path) is on; "" if it is on none."""
    device = os.stat(place).st_dev
    link = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not link.exists():
        return ""
    found = link.resolve()
    return found.parent.name if (found / "partition").exists() else found.name


def disk_or_skip(folder: Path) -> str:
    """The name of the disk that a folder is on."""
    import pytest
    return disk_of(folder) or pytest.skip("the temporary folder is on no block device")
