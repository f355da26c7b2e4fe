"""A test run's side of :mod:`.tracer`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from ..errors import MachineError, SondeError, UsageError
from .rules import MARKER, Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self


class Tracer:
    """A tracer of this process. MachineError if this machine does not let it trace."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        command = [sys.executable, "-P", "-m", "sonde.testing.tracer", str(self._pid)]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             start_new_session=True, env=_environment(), cwd="/")
        except OSError as error:
            raise MachineError(f"{sys.executable} cannot be run: {error.strerror}") from None

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request; its error is raised."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            line = stdout.readline()
        except OSError:
            line = b""
        if not line:
            raise SondeError("the tracer has ended; what it says is on standard error")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            kind = MachineError if answer["lacks"] else UsageError
            raise kind(answer["error"], answer["hints"])
        return answer

    def close(self) -> None:
        """End the tracer. Not in a process that a test has forked: the tracer is not its own."""
        if os.getpid() != self._pid:
            return
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.close()
        except OSError:
            pass
        stdout.read()  # until it has ended
        stdout.close()
        self._process.wait()


def _environment() -> dict[str, str]:
    """The environment of the tracer: it finds Sonde where this process has it."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH", "")])])
    return os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": ""}


class Observer:
    """What the tests of a run do in the kernel, by one session of probes for all of them."""

    def __init__(self, marks: Sequence[Mapping[str, Any]]) -> None:
        self._tracer = Tracer()
        try:
            self.placeless = self._tracer.ask(do="observe", marks=list(marks)).get("placeless", "")
        except BaseException:
            self._tracer.close()
            raise

    def begin(self, rules: Rules) -> None:
        """From now on what these rules are about is noted. What was noted since the last test is forgotten."""
        _tell_kernel(rules.bits)

    def end(self) -> tuple[dict[str, Any], str]:
        """What was seen since, and what was missed."""
        _tell_kernel(0)
        answer = self._tracer.ask(do="read")
        return answer["seen"], answer["lost"]

    def close(self) -> None:
        self._tracer.close()


def _tell_kernel(bits: int) -> None:
    """A system call that does nothing, and that the script sees in its turn among those of the test."""
    try:
        os.getpriority(MARKER, bits)
    except OSError:
        pass


class ScriptRun:
    """A script that traces this process: a context manager. When it is left, ``events`` and ``maps`` are there:

    ``events`` are dicts with ``probe``, ``time``, ``kind`` and ``args``; ``maps["@name"]`` is a dict, with the key ()
    for a map without keys; ``lost`` says what was missed, "" if nothing was.
    """

    def __init__(self, script: str, params: Sequence[str] = ()) -> None:
        self._request = {"do": "trace", "script": script, "params": list(params)}
        self._tracer: Tracer | None = None
        self.events: list[dict[str, Any]] = []
        self.maps: dict[str, dict[Any, Any]] = {}
        self.lost = ""

    def __enter__(self) -> Self:
        self._tracer = Tracer()
        try:
            self._tracer.ask(**self._request)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and read its results."""
        if self._tracer is None:
            return
        try:
            answer = self._tracer.ask(do="stop")
        finally:
            self.close()
        self.events = [event | {"args": _tuples(event["args"])} for event in answer["events"]]
        self.maps = {name: {() if key is None else _tuples(key): _tuples(value) for key, value in pairs}
                     for name, pairs in answer["maps"].items()}
        self.lost = answer["lost"]

    def close(self) -> None:
        if self._tracer is not None:
            self._tracer.close()
            self._tracer = None


def _tuples(value: Any) -> Any:
    return tuple([_tuples(part) for part in value]) if isinstance(value, list) else value
