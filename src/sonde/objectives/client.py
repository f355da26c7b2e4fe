"""The side of :mod:`.tracer` that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from ..errors import MachineError, SondeError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Tracer:
    """A tracer in a process of its own. MachineError if this machine does not let it trace."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        command = [sys.executable, "-P", "-m", "sonde.objectives.tracer", str(self._pid), *sys.argv]
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
