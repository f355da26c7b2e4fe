"""Compiling what a stranger wrote: in a child, with limits, which whoever waits for it can end at any moment."""

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
from time import monotonic
from zlib import crc32

from ..base.limits import lower_limit
from ..errors import CompileError, SondeError, UsageError
from ..kernel import syscalls
from ..semantics.script_options import Options
from ..source import Source
from ..spec import ScriptSpec
from . import compile_or_recall
from .spec_codec import NotPlainError, pack_spec, unpack_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

SECONDS = 10          # of CPU time
LONGEST = 60.0        # s, however busy the machine is
MEMORY = 500 << 20    # bytes
_LARGEST = 64 << 20   # of an answer
_LOOK = 0.1           # s between two looks whether the end is asked for


def compile_apart(source: Source, options: Options, check_end: Callable[[], object]) -> ScriptSpec:
    """What :func:`compile_or_recall` gives. ``check_end`` is called ten times a second, and ends the child by raising
    an error. The errors of compiling; UsageError for a script that takes too long, or too much memory."""
    answers, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(answers)
        _serve(source, options, write)
    os.close(write)
    data = None
    try:
        data = _read_answer(answers, check_end)
    finally:
        os.close(answers)
        if data is None:  # else it has ended, or is about to
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if data is None or len(data) < 4 or crc32(data[4:]).to_bytes(4, "little") != data[:4]:
        raise UsageError(_describe_end(status), ["the script is too large, or what it includes"])
    kind, value = marshal.loads(data[4:])
    if kind == "spec":
        return unpack_spec(value)
    if kind == "diagnostics":
        raise CompileError(unpack_spec(value))  # type: ignore[arg-type]
    if kind == "error":
        raise SondeError(*value)
    return compile_or_recall(source, options)  # it has been within the limits, and has no plain form


def _describe_end(status: int) -> str:
    """Why there is no answer. A child that was not ended by a limit is ended by us."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return f"compiling took more than {SECONDS} s of CPU time"
    if os.WIFEXITED(status):
        return f"compiling took more than {MEMORY >> 20} MiB of memory"
    return f"compiling took more than {LONGEST:.0f} s"


def _read_answer(answers: int, check_end: Callable[[], object]) -> bytes | None:
    """All output of the child; None if the time is over before its end."""
    ready, deadline, data = select.poll(), monotonic() + LONGEST, bytearray()
    ready.register(answers, select.POLLIN)
    while monotonic() < deadline and len(data) < _LARGEST:
        check_end()
        if ready.poll(_LOOK * 1000):
            piece = os.read(answers, 1 << 16)
            if not piece:
                return bytes(data)
            data += piece
    return None


def _serve(source: Source, options: Options, write: int) -> NoReturn:
    """In the child: compile, answer, end."""
    status = 1
    try:
        syscalls.die_with_parent()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        lower_limit(resource.RLIMIT_CORE, 0)
        lower_limit(resource.RLIMIT_CPU, SECONDS, SECONDS + 1)
        lower_limit(resource.RLIMIT_DATA, MEMORY)
        data = marshal.dumps(_answer(source, options))
        with open(write, "wb") as out:
            out.write(crc32(data).to_bytes(4, "little") + data)
        status = 0
    except MemoryError:
        pass
    finally:
        os._exit(status)


def _answer(source: Source, options: Options) -> Any:
    try:
        return "spec", pack_spec(compile_or_recall(source, options))
    except CompileError as error:
        return "diagnostics", pack_spec(error.diagnostics)  # type: ignore[arg-type]
    except SondeError as error:
        return "error", (error.message, list(error.hints))
    except NotPlainError:
        return "not plain", None
