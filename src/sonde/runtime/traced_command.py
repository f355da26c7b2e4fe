"""The traced command of ``-c`` and the awaited process of ``-p``."""

from __future__ import annotations

import os

from ..base.fast_stdlib import signal
from ..errors import MachineError, SondeError, UsageError
from ..kernel import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def children_of(pid: int) -> list[int]:
    """The living children of a process; [] if it has ended, or the kernel does not say (CONFIG_PROC_CHILDREN)."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass
    return pids


class Process:
    """A process whose end the session waits for; ``fd`` becomes readable when it has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self.fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise UsageError("Failed to attach to pid: Unable to open pidfd (No such process)",
                             [f"there is no process {pid}"]) from None
        except OSError as error:
            raise UsageError(f"process {pid}: {error.strerror}", ["a thread's id? give the process id"]) from None

    @property
    def name(self) -> str:
        """The process's name; "process" if it has ended."""
        try:
            with open(f"/proc/{self.pid}/comm", encoding="utf-8", errors="replace") as file:
                return file.read().rstrip("\n")
        except OSError:
            return "process"

    @property
    def program(self) -> str:
        """The path of the program that it is yet to execute; "" if it runs already."""
        return ""

    def children(self) -> list[int]:
        """The process's living children; see :func:`children_of`."""
        return children_of(self.pid)

    def has_ended(self, within: float = 0) -> bool:
        """Whether the process has ended, or ends ``within`` seconds."""
        import select

        waiting = select.poll()
        waiting.register(self.fd, select.POLLIN)
        return bool(waiting.poll(within * 1000))

    def close(self) -> None:
        """Stop watching."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class Child(Process):
    """A command, forked at once but executed only by :meth:`start`, so that probes can be attached to it before; never
    if it is ``held``.

    ``status`` is its exit status as a shell gives it (128 + signal), None while it runs.
    """

    def __init__(self, command: str | Sequence[str], held: bool = False) -> None:
        arguments = _split_command(command)
        path = _find_executable(arguments[0])
        gate, self._gate = os.pipe()
        self._answers, answers = os.pipe()
        pid = os.fork()
        if pid == 0:
            _exec_command(path, arguments, gate, self._gate, answers)
        os.close(gate)
        os.close(answers)
        self.command = arguments
        self._path = path
        self._held = held
        self.status: int | None = None
        super().__init__(pid)

    @property
    def name(self) -> str:
        """The name of the program that it will run."""
        return os.path.basename(self.command[0])

    @property
    def program(self) -> str:
        """The path of the program that it will run."""
        return self._path

    def map_file(self, path: str) -> None:
        """Have the child map a file until it executes the command; ignored if it cannot."""
        if self._gate >= 0:
            os.write(self._gate, os.fsencode(path))
            os.read(self._answers, 1)

    def start(self) -> None:
        """Execute the command; SondeError if that fails."""
        if self._gate < 0 or self._held:
            return
        os.write(self._gate, _GO)
        self._close_gate()
        reason = os.read(self._answers, 16)
        os.close(self._answers)
        self._answers = -1
        if reason:
            self.wait()
            raise SondeError(f"cannot execute {self.command[0]}: {os.strerror(int(reason))}")

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._reap_child(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end."""
        status = self._reap_child(0)
        return 0 if status is None else status

    def _reap_child(self, flags: int) -> int | None:
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:
                pid, status = self.pid, 0  # somebody else has reaped it
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
        return self.status

    def close(self) -> None:
        """Terminate the child (SIGTERM) if it still runs, and reap it; one that was never started exits by itself."""
        never_started = self._gate >= 0
        self._close_gate()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1
        if self.poll() is None:
            if not never_started:
                os.kill(self.pid, signal.SIGTERM)
            self._end_child()
        super().close()

    def _end_child(self) -> None:
        if not self.has_ended(within=1):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def _close_gate(self) -> None:
        gate, self._gate = self._gate, -1
        if gate >= 0:
            os.close(gate)


def _split_command(command: str | Sequence[str]) -> list[str]:
    if not isinstance(command, str):
        words = list(command)
    else:
        import shlex

        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"-c: {str(error).lower()}: {command}") from None
    if not words:
        raise UsageError("-c: the command is empty")
    return words


def _find_executable(name: str) -> str:
    """The executable file that ``name`` stands for, as a shell finds it."""
    paths = [name] if "/" in name else [os.path.join(directory or ".", name)
                                        for directory in os.environ.get("PATH", os.defpath).split(":")]
    for path in paths:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise UsageError(
        f"Failed to fork child: Path '{name}' does not exist or is not executable (No such file or directory)", [
            "it is there, but not executable" if os.path.exists(paths[0]) and len(paths) == 1
            else "command not found"])


_GO = b"\0"  # no path
_MOST = 4096  # bytes that a pipe passes as one (PIPE_BUF); no path is longer


def _map_files(gate: int, answers: int) -> bytes:
    """Map the files whose paths come through the gate, each answered by a byte; the first message that is no path."""
    mappings = []
    while (message := os.read(gate, _MOST)) not in (b"", _GO):
        from ..kernel.foreign.opening import map_regular
        try:
            mappings.append(map_regular(os.fsdecode(message)))
        except MachineError:
            pass
        os.write(answers, b".")
    return message


def _exec_command(path: str, arguments: list[str], gate: int, gate_write: int, answers: int) -> None:
    """In the child: map the files that come through the gate until it opens, then execute the command. Never
    returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.close(gate_write)  # so that the gate reads as closed when Sonde has died
        syscalls.die_with_parent()
        if _map_files(gate, answers) == _GO:
            os.execv(path, arguments)
    except OSError as error:
        os.write(answers, str(error.errno).encode())
    finally:
        os._exit(127)
