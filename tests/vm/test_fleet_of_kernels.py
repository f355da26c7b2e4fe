"""Three kernels in one answer: two guests, reached by ssh over forwarded ports, and this machine. Each compiles the
script for itself; what they count is known, and their sum has to be exact."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from arches import ARCHES
from vmrun import obstacle

import sonde
from sshd import sshd_obstacle
from support import SOURCE, run_sonde

pytestmark = [pytest.mark.timeout(1500),
              pytest.mark.skipif(not os.environ.get("SONDE_VM_KERNELS"),
                                 reason="takes four minutes: SONDE_VM_KERNELS, or make test-vm-all, asks for it")]
KERNELS = ("6.1", "6.12")
CALLS = {"6.1": 300, "6.12": 500, "here": 1100}
NAME = "sonde-fleet-vm"  # of the processes that are looked at
BOOTED, READY = 300.0, 240.0  # s: guests are twenty times slower, and other work goes on
# Fields of a task lie elsewhere on each kernel, and hist() of a constant has one bucket.
SCRIPT = f'''tracepoint:syscalls:sys_enter_getppid /comm == "{NAME}"/ {{
    @ = count(); @parent[curtask.comm, curtask.real_parent.tgid == ppid] = count(); @h = hist(40); @s = stats(3);
    @stack[kstack(1)] = count(); @least = min(pid - pid + 7); @p = 5; }}'''
WORK = "import os, sys\nopen('/proc/self/comm', 'w').write('{name}')\nfor _ in range({calls}): os.getppid()"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Guest:
    """A kernel under QEMU that listens for ssh at ``port`` of loopback."""

    def __init__(self, kernel: str, folder: Path) -> None:
        self.kernel, self.port = kernel, free_port()
        config = folder / f"server-{kernel}"
        config.write_text(f"Port 22\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
                          "UsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nLoginGraceTime 0\n")
        sshd = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
        inside = ("modprobe virtio_net && ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && "
                  f"mkdir -p /run/sshd && exec {sshd} -D -e -f {config}")
        self._command = [sys.executable, str(Path(__file__).with_name("vmrun.py")), "--kernel", kernel, "--timeout",
                         "1200", "--forward", f"{self.port}:22", "--", "sh", "-c", inside]
        self._log = folder / f"log-{kernel}"

    def __enter__(self) -> Self:
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        ended = self._process.poll()
        self._process.terminate()
        self._process.wait(30)
        print(self.kernel, "" if ended is None else f"ended by itself with {ended}", self._log.read_text()[-4000:])

    def await_ssh(self) -> None:
        """Until it sends its banner: QEMU itself accepts connections long before."""
        deadline = time.monotonic() + BOOTED
        while True:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            try:
                with socket.create_connection(("127.0.0.1", self.port), 20) as end:
                    end.settimeout(20)
                    if end.recv(16).startswith(b"SSH-"):
                        return
            except OSError:
                pass
            time.sleep(0.5)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The command of ssh that knows the guests by their kernels' names."""
    if why := obstacle(ARCHES[os.uname().machine]) or sshd_obstacle():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("guests")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with Guest(KERNELS[0], folder) as one, Guest(KERNELS[1], folder) as other:
        (folder / "client").write_text("".join([
            f"Host k{guest.kernel}\n  HostName 127.0.0.1\n  Port {guest.port}\n" for guest in (one, other)]) + (
            f"Host *\n  User root\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  LogLevel ERROR\n"
            "  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n"))
        for guest in (one, other):
            guest.await_ssh()
        yield ["ssh", "-F", str(folder / "client")]


def work(kernel: str, ssh: list[str]) -> subprocess.Popen[bytes]:
    """A process that makes its calls, and ends."""
    from shlex import quote
    code = WORK.format(name=NAME, calls=CALLS[kernel])
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command if kernel == "here" else [*ssh, f"k{kernel}", " ".join(map(quote, command))])


def follow(tracing: sonde.FleetTrace, windows: int) -> None:
    """Until all hosts have told of so many more windows."""
    goals = {member.name: member.windows + windows for member in tracing.members}
    deadline = time.monotonic() + READY
    while any(member.windows < goals[member.name] for member in tracing.members if member.is_live):
        assert time.monotonic() < deadline
        for _ in tracing.events(timeout=0.5):
            pass


@pytest.mark.exact
def test_three_kernels_in_one_answer(ssh: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    with sonde.fleet(["k6.1", "k6.12", "local:here"], SCRIPT, ssh=ssh, push=True, window=5.0, patience=READY,
                     outliers=True) as tracing:
        kernels = {member.name: member.kernel for member in tracing.members}
        at_work = [work(kernel, ssh) for kernel in CALLS]
        while any(process.poll() is None for process in at_work):
            for _ in tracing.events(timeout=0.5):
                pass
        follow(tracing, 2)
    assert [process.wait() for process in at_work] == [0, 0, 0] and not tracing.missing, str(tracing)
    assert kernels["k6.1"].startswith("6.1.") and kernels["k6.12"].startswith("6.12.")
    assert kernels["here"] == os.uname().release and len(set(kernels.values())) == 3
    total = sum(CALLS.values())
    maps = tracing.maps
    assert maps["@"].value == total and dict(maps["@parent"]) == {(NAME, True): total}
    assert maps["@h"].value.total == total == maps["@s"].value.count and maps["@s"].value.total == 3 * total
    assert sum(maps["@stack"].values()) == total and maps["@least"].value == 7
    assert dict(maps["@p"]) == {"k6.1": 5, "k6.12": 5, "here": 5} and not tracing.losses
    assert str(tracing).startswith("3 of 3 hosts; window ")


def test_a_kernel_that_lacks_what_the_script_needs_is_named(ssh: list[str]) -> None:
    """The others trace."""
    name = "syscalls:sys_enter_listmount"  # of Linux 6.8
    done = run_sonde("fleet", "-H", "k6.1,local:here", "--ssh", " ".join(ssh), "--push", "--patience", str(READY), "-e",
                     f"tracepoint:{name} {{ @ = count(); }} interval:s:1 {{ exit(); }}")
    assert done.returncode == 3, done.stderr
    assert "1 of 2 hosts; missing: k6.1 (" in done.stderr and name in done.stderr
