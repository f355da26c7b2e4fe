"""Common code of commands that follow one Python program: pygil, pyloop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from ...kernel.names.python_process import PythonProcess
    from ...runtime.traced_command import Process
    from ..options import Parsed


class Subject:
    """The process of -p or -c, which a command named ``name`` needs, and its Python if it runs already; with ``glibc``
    one whose threads wait in ways of that library."""

    def __init__(self, name: str, parsed: Parsed, glibc: bool = False) -> None:
        from ...runtime.traced_command import Child
        from .. import requests
        self._parsed, self.follows = parsed, parsed.has("follow")
        if self.follows:
            requests.hand_over_process(parsed)
        process = requests.process_of(parsed)
        if process is None:
            raise UsageError(f"{name} needs a process: -p PID, or a command: -c COMMAND", [f"see sonde {name} --help"])
        self.process: Process = process
        self.is_child = isinstance(process, Child)
        self.python: PythonProcess | None = None
        if not self.is_child:
            self.python = self._find_python(process.pid)
            if glibc and self.python is not None and not self.python.has_glibc:
                raise UsageError(f"process {process.pid} runs without glibc: what its threads wait on is not known")
        from .runtimes import seconds_of
        self.words = parsed.words[1:] + parsed.rest
        seconds_of(name, self.words)
        parsed.seconds = requests.seconds_of(self.words)

    def _find_python(self, pid: int) -> PythonProcess | None:
        """That of a process; None with --follow if it runs none itself, but perhaps what it starts does."""
        from ...kernel.names.python_process import PythonProcess
        try:
            return PythonProcess(pid)
        except UsageError:
            if self.follows:
                return None
            raise

    @property
    def condition(self) -> str:
        """True in the process, and in what it starts with --follow."""
        return traced_condition(self.process.pid, self.is_child, self.follows)

    def trace(self, name: str, text: str) -> int:
        """Run the script ``text``, which filters by itself: a switch to the process happens in another. The exit
        status."""
        from ...source import Source
        from .. import requests, script_run
        parsed = self._parsed
        parsed.options.pop("pid", None)
        parsed.named.clear()
        options = requests.options_of(parsed, [])
        if self.follows:
            options.knows_family, options.cpid = True, self.process.pid
        begun = f"tracepoint:sched:sched_process_exec /pid == {self.process.pid}/ {{ @begun = 1; }}\n"
        source = Source(name, text + (begun if self.is_child else ""), internal=True)
        return script_run.run(requests.new_trace(source, options, self.process, parsed), parsed)


def traced_condition(pid: int, is_child: bool, follows: bool) -> str:
    """A script's condition that is true in a process. The child of -c is one of Sonde's own, of Python, until it begins
    to run the command: @begun is 1 from then on."""
    own = f"(pid == {pid} && @begun == 1)" if is_child else f"pid == {pid}"
    return f"({own} || in_family)" if follows else own


def note_roles(text: str, follows: bool) -> str:
    """The script ``text`` with statements in the place of the words below: with --follow @role says what the process of
    each thread is for, as of the thread's last sample, since a process may name itself late."""
    words = {"DECLARE_ROLES": "let @role = lruhash(max_threads);", "KEEP_ROLE": "@role[tid] = role();",
             "NOTE_ROLE": "if (!has_key(@role, tid)) { @role[tid] = role(); }", "PRINT_ROLES": "print(@role);"}
    for word, statement in words.items():
        text = text.replace(word, statement if follows else "")
    return text
