#!/usr/bin/env python3
"""Run a command inside one of Debian's kernels under QEMU's software emulation.

    tests/vm/vmrun.py [--arch aarch64] --kernel 6.12 [--rw DIR] [--forward PORT:PORT] [--timeout S]
                      [--memory 256M] [--cpus N] [--append WORDS] [--count-instructions] -- COMMAND [ARG...]

The guest's root is the host's root file system (virtiofs or 9p, exported read-only) under a tmpfs overlay, so that
every interpreter, virtual environment and checkout is there under its own path and nothing that the command writes
survives, except below directories given with --rw. A guest of another architecture has a root of its own (Debian's,
with a /usr/bin/python3 that finds the packages of the interpreter that runs this), and in it only the current directory
and this checkout at their paths. The command starts in the current directory with the current environment; its stdout,
stderr and exit status become vmrun's. Status 124: timed out; 125: the machine could not be prepared, did not boot, or
stopped before the command ended.

Needs root, and from Debian: qemu-system-x86 (which brings virtiofsd; qemu-system-arm for aarch64), busybox-static,
kmod; zstd and lz4 make booting faster. Software emulation is some 18 times slower than the host; two virtual CPUs
share one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from arches import ARCHES, VIRTIOFS, Arch
from debian import Unavailable
from debian_kernel import HERE, SUITES, Entry, cpio, prepared
from debian_root import prepared_root

VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
OWN_PACKAGES = "/usr/lib/python3/dist-packages"  # where the Python of a guest's own root looks
BOOT_SECONDS = 60  # of the emulator's CPU time, until the command must have started
BOOT_PATIENCE = 300  # the same on the clock, for a guest that waits for what does not come, or for a busy host

Sink = Callable[[bytes], object]


def obstacle(arch: Arch) -> str:
    """What this machine lacks; "" if nothing."""
    if os.geteuid() != 0:
        return "needs root"
    tools = [tool for tool in (arch.qemu, "busybox", "depmod", "dpkg", "unshare") if not shutil.which(tool)]
    if arch.share is VIRTIOFS and not virtiofsd():
        tools.append("virtiofsd")
    return f"not installed: {', '.join(tools)} (apt-get install {arch.needs} busybox-static kmod zstd lz4)" \
        if tools else ""


def virtiofsd() -> str | None:
    return next((p for p in VIRTIOFSD if os.path.exists(p)), shutil.which("virtiofsd"))


class Shape(NamedTuple):
    """What may be particular to a guest: its memory, what else its kernel is told, its CPUs, and whether its clock
    counts instructions, which other load of the host does not change."""

    memory: str
    append: str
    cpus: int
    counts_instructions: bool


class Machine:
    """One boot: ``control`` is what the guest said (start SECONDS, exit STATUS SECONDS), ``console`` the kernel's."""

    def __init__(self, arch: Arch, directory: Path, root: Path, command: list[str], writable: list[str],
                 deadline: float, forwards: list[str], shape: Shape) -> None:
        self.arch, self.directory, self.root, self.shape = arch, directory, root, shape
        self.version = (directory / "ready").read_text().strip()
        self.command = command
        self.writable = writable
        self.deadline = deadline
        self.forwards = forwards
        self.control = b""
        self.console = bytearray()
        self.errors = b""
        self._ends: list[int] = []
        self._sinks: list[tuple[int, Sink]] = []

    @property
    def started(self) -> bool:
        return b"start" in self.control

    @property
    def status(self) -> int | None:
        found = re.search(rb"exit (\d+)", self.control)
        return int(found[1]) if found else None

    def run(self) -> None:
        """Boot, run the command, and wait for power-off, the deadline or a crash."""
        directory = tempfile.mkdtemp(prefix="sonde-vm.")
        processes: list[subprocess.Popen[bytes]] = []
        try:
            initrd = Path(directory, "initrd")
            initrd.write_bytes((self.directory / "base.cpio").read_bytes() + self._own_root())
            if self.arch.share is VIRTIOFS:
                with socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(f"{directory}/fs")
                    listener.listen(1)
                    processes.append(start_virtiofsd(listener, self.writable))
            near, far = socket.socketpair()
            with near:
                arguments = self._arguments(directory, initrd, far.fileno())
                if self.arch.share is not VIRTIOFS:
                    arguments = read_only(arguments, self.writable)
                qemu = subprocess.Popen(arguments, pass_fds=[*self._ends, far.fileno()], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        preexec_fn=die_with_parent)
                processes.insert(0, qemu)
                far.close()
                self._attend(qemu, processes[-1], near)
        finally:
            for fd in self._ends:
                os.close(fd)
            for process in processes:
                end(process)
            shutil.rmtree(directory, ignore_errors=True)

    def _own_root(self) -> bytes:
        """What is added to the initramfs for this command."""
        lines = [f"cd {shlex.quote(os.getcwd())} || exit 125"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in os.environ.items()
                  if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name not in ("PWD", "OLDPWD", "SHLVL")]
        shared = []
        if self.root != Path("/"):
            packages = sysconfig.get_path("purelib")
            shared = [str(HERE.parents[1]), os.getcwd(), packages, str(self.directory)]
            lines.append(f"mkdir -p {OWN_PACKAGES} && echo {shlex.quote(packages)} >{OWN_PACKAGES}/host.pth")
        lines.append("exec " + " ".join(shlex.quote(word) for word in self.command))
        modules = self.directory / "lib" / "modules" / self.version
        share = self.arch.share
        variables = (f"KVER={self.version}\nMODDIR={shlex.quote(str(modules))}\nROOT={shlex.quote(str(self.root))}\n"
                     f"SHARE={share.type}\nSHARE_OPTIONS={share.options}\n")
        entries: list[Entry] = [
            ("init", 0o100755, (HERE / "early-init.sh").read_bytes()), ("sonde-vm", 0o040755, b""),
            ("sonde-vm/guest-init", 0o100755, (HERE / "guest-init.sh").read_bytes()),
            ("sonde-vm/vars", 0o100644, variables.encode()),
            ("sonde-vm/shared", 0o100644, "".join(f"{d}\n" for d in dict.fromkeys(shared)).encode()),
            ("sonde-vm/rw", 0o100644, "".join(f"{d}\n" for d in self.writable).encode()),
            ("sonde-vm/cmd", 0o100644, ("\n".join(lines) + "\n").encode())]
        return cpio(entries)

    def _arguments(self, directory: str, initrd: Path, drop: int) -> list[str]:
        """QEMU's command line. thread=multi is no faster here, and about one boot in a hundred dies of code that is
        patched under a running CPU. norandmaps: the emulator keeps what it has translated by address, so with programs
        and libraries at others in each process it would translate them for each; Python starts twice as fast."""
        kernel = self.directory / "vmlinux"
        if not kernel.exists():
            kernel = self.directory / "boot" / f"vmlinuz-{self.version}"
        memory = self.shape.memory
        arguments = [
            self.arch.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", *self.arch.machine,
            "-accel", "tcg,thread=single", "-smp", str(self.shape.cpus), *self._clock(),
            "-m", memory, "-object", f"memory-backend-memfd,id=mem,size={memory},share=on",
            *self._share(directory), "-device", f"virtio-serial-{self.arch.bus}",
            *self._port("con", self.console.extend), "-serial", "chardev:con"]
        for number, (name, sink) in enumerate((("out", writer(1)), ("err", writer(2)), ("ctl", self._said)), 1):
            arguments += [*self._port(name, sink), "-device", f"virtserialport,nr={number},chardev={name}"]
        arguments += ["-chardev", f"socket,id=drop,fd={drop}", "-device", "virtserialport,nr=4,chardev=drop"]
        # A network device that reaches nobody; its driver is loaded by those who want it. The guest is 10.0.2.15.
        ports = [each.partition(":")[::2] for each in self.forwards]
        wire = ["user,id=wire,restrict=on", *[f"hostfwd=tcp:127.0.0.1:{ours}-:{theirs}" for ours, theirs in ports]]
        arguments += ["-netdev", ",".join(wire), "-device",
                      "virtio-net-pci,netdev=wire,romfile=" if self.arch.bus == "pci" else "virtio-net-ccw,netdev=wire"]
        line = f"{self.arch.parameters} quiet nokaslr mitigations=off norandmaps panic=-1 {self.shape.append}"
        return [*arguments, "-kernel", str(kernel), "-initrd", str(initrd), "-append", line]

    def _clock(self) -> list[str]:
        """With more than 1 ns an instruction two CPUs wait for each other at boot; those of 6.1 also with that."""
        return ["-icount", "shift=0"] if self.shape.counts_instructions else []

    def _share(self, directory: str) -> list[str]:
        """The device that the root comes by. 9p knows a file by its inode alone, unless told that there are others."""
        if self.arch.share is VIRTIOFS:
            return ["-chardev", f"socket,id=fs,path={directory}/fs", "-device",
                    f"vhost-user-fs-{self.arch.bus},chardev=fs,tag=rootfs"]
        return ["-fsdev", "local,id=fs,path=/,security_model=passthrough,multidevs=remap", "-device",
                f"virtio-9p-{self.arch.bus},fsdev=fs,mount_tag=rootfs"]

    def _port(self, name: str, sink: Sink) -> list[str]:
        read, write = os.pipe()
        self._ends.append(write)
        self._sinks.append((read, sink))
        number = len(self._ends)
        return ["-add-fd", f"fd={write},set={number}", "-chardev",
                f"file,id={name},path=/dev/fdset/{number},append=on"]

    def _said(self, data: bytes) -> None:
        self.control += data

    def _attend(self, qemu: subprocess.Popen[bytes], files: subprocess.Popen[bytes], drop: socket.socket) -> None:
        while self._ends:
            os.close(self._ends.pop())
        threads = [threading.Thread(target=relay, args=pair, daemon=True) for pair in self._sinks]
        for thread in threads:
            thread.start()
        booted = time.monotonic() + BOOT_PATIENCE
        ending = 0.0
        many = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 5
        while True:
            if self.status is not None and not ending:
                ending = time.monotonic() + 5  # only power-off is left
            limit = min(self.deadline, ending or self.deadline, self.deadline if self.started else booted)
            try:
                self.errors = qemu.communicate(timeout=max(0.01, min(limit - time.monotonic(), 0.1)))[1]
                break
            except subprocess.TimeoutExpired:
                if self.started and open_files(files.pid) > many:
                    drop.send(b"\n")  # the guest drops its caches: virtiofsd holds a file for each cached inode
                stuck = not self.started and cpu_seconds(qemu.pid) > BOOT_SECONDS
                if stuck or time.monotonic() >= limit:
                    qemu.kill()
        for thread in threads:
            thread.join(5)


def cpu_seconds(pid: int) -> float:
    """The CPU time of another process, by the clock that clock_getcpuclockid(3) would name."""
    return time.clock_gettime(~pid << 3 | 2)


def start_virtiofsd(listener: socket.socket, writable: list[str]) -> subprocess.Popen[bytes]:
    command = [virtiofsd() or "", f"--fd={listener.fileno()}", *shlex.split(
        "-o source=/ -o cache=always -o sandbox=chroot -o log_level=err")]
    return subprocess.Popen(read_only(command, writable), pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)


def read_only(command: list[str], writable: list[str]) -> list[str]:
    """The command in a mount namespace of its own: it sees / read-only, and the writable directories as they are."""
    script = ["set -e", *[f"mount --bind {shlex.quote(d)} {shlex.quote(d)}" for d in writable],
              "mount -o remount,bind,ro /", 'exec "$@"']
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(script), "sh", *command]


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def open_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def writer(fd: int) -> Sink:
    def write(data: bytes) -> None:
        while data:
            data = data[os.write(fd, data):]
    return write


def relay(fd: int, sink: Sink) -> None:
    while data := os.read(fd, 65536):
        try:
            sink(data)
        except OSError:  # our reader went away: keep the guest going
            sink = len
    os.close(fd)


def run(arch: Arch, kernel: str, command: list[str], writable: list[str], timeout: float, forwards: list[str],
        shape: Shape) -> int:
    """The command's status; 124 or 125 as said above."""
    deadline = time.monotonic() + timeout
    directory = prepared(kernel, arch)
    root = prepared_root(arch)
    for _ in range(3):
        machine = Machine(arch, directory, root, command, [os.path.realpath(d) for d in writable], deadline,
                          forwards, shape)
        machine.run()
        if machine.status is not None:
            return machine.status
        sys.stderr.write(machine.console[-4000:].decode(errors="replace") + machine.errors.decode(errors="replace"))
        if time.monotonic() >= deadline:
            sys.stderr.write(f"vmrun: timed out after {timeout:g} s\n")
            return 124
        if machine.started:
            sys.stderr.write("vmrun: the guest stopped before the command ended\n")
            return 125
        sys.stderr.write("vmrun: the guest did not boot\n")
    return 125


def main() -> int:
    parser = argparse.ArgumentParser(prog="vmrun", usage="vmrun [options] -- COMMAND [ARG...]")
    parser.add_argument("--kernel", default="6.12", help=f"series: {', '.join(SUITES)}")
    parser.add_argument("--arch", default=os.uname().machine, choices=ARCHES)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for boot and command together")
    parser.add_argument("--rw", action="append", default=[], metavar="DIR", help="share DIR writable (repeatable)")
    parser.add_argument("--forward", action="append", default=[], metavar="PORT:PORT",
                        help="a port of 127.0.0.1 that leads to one of the guest (repeatable)")
    parser.add_argument("--memory", default="2G", help="of the guest")
    parser.add_argument("--append", default="", metavar="WORDS", help="for the kernel's command line")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--count-instructions", action="store_true", help="the guest's clock goes by these, 1 ns each")
    parser.add_argument("--fetch-only", action="store_true", help="prepare the kernel and stop")
    parser.add_argument("command", nargs="*")
    arguments = parser.parse_args()
    arch = ARCHES[arguments.arch]
    why = obstacle(arch)
    try:
        if why:
            raise Unavailable(why)
        if arguments.fetch_only:
            print(prepared(arguments.kernel, arch))
            return 0
        if not arguments.command:
            parser.error("no command")
        return run(arch, arguments.kernel, arguments.command, arguments.rw, arguments.timeout, arguments.forward,
                   Shape(arguments.memory, arguments.append, arguments.cpus, arguments.count_instructions))
    except Unavailable as problem:
        sys.stderr.write(f"vmrun: {problem}\n")
        return 125


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
