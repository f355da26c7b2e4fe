"""The process of low rank: takes a question and descriptors from its socket, answers with plain data, until the socket
is closed. Everything that it will need is imported before it drops its privileges; after that it can open nothing."""

from __future__ import annotations

import json
import os
import struct
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket

from ...arch import find_arch_of_elf
from ...base.json_checks import Json, JsonObject, as_integer, as_text
from ...errors import MachineError
from .. import syscalls
from . import answers
from . import demangle as mangled
from .answers import Subject
from .opening import Stamp, stamp_of
from .questions import MOST
from .rank import limit_memory, lower_rank
from .symbol_table import TooLargeError

SOCKET = 3
SUBJECTS = 48  # files that are remembered, each with up to two descriptors
HEAD = struct.Struct("=I")


def main() -> None:
    """Serve the socket that this process was started with; ``sys.argv`` ends with its prefix and whether DWARF will be
    asked for."""
    sys.prefix = sys.argv[-2]  # without ``site`` it is not that of a virtual environment, which hints mention
    connection = socket(AF_UNIX, SOCK_STREAM, 0, fileno=SOCKET)
    try:
        _preload_modules(sys.argv[-1] == "dwarf")
        lower_rank(SOCKET)
    except Exception as problem:
        _send_answer(connection, {"unfit": f"{type(problem).__name__}: {problem}"})
        return
    subjects = _Subjects()
    while (request := _receive_request(connection)) is not None:
        _send_answer(connection, _answer_request(*request, subjects))


def _send_answer(connection: socket, answer: JsonObject) -> None:
    data = json.dumps(answer).encode()
    if len(data) > MOST:
        data = json.dumps({"refused": f"the answer would have {len(data)} bytes"}).encode()
    data = HEAD.pack(len(data)) + data
    while data:
        data = data[os.write(connection.fileno(), data):]


def _preload_modules(dwarf: bool) -> None:
    import encodings.punycode  # of Rust's names
    import encodings.utf_16_le  # of Python's objects
    import encodings.utf_32_le  # noqa: F401
    import lzma  # noqa: F401

    find_arch_of_elf(-1)  # reads them all
    mangled.is_available()
    if dwarf:
        import difflib  # noqa: F401
        import zlib  # noqa: F401

        from . import dwarf_frames, dwarf_inlined  # noqa: F401
        try:
            import elftools.dwarf.dwarf_expr
            import elftools.elf.elffile  # noqa: F401
        except ImportError:
            sys.modules["elftools"] = None  # type: ignore[assignment]  # the answer will say so: nothing is opened then


class _Subjects:
    """The files asked about most recently."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | Stamp, ...], Subject] = {}

    def find_subject(self, path: str, descriptors: list[int]) -> Subject | None:
        """The file of the first descriptor, with its debug file; None without descriptors. It owns them from now on."""
        if not descriptors:
            return None
        key: tuple[str | Stamp, ...] = (path.partition("\0")[2], *[stamp_of(descriptor) for descriptor in descriptors])
        subject = self._known.pop(key, None)
        if subject is None:
            subject = Subject(descriptors, path)
        else:
            _close_descriptors(descriptors)
        self._known[key] = subject
        if len(self._known) > SUBJECTS:
            _close_descriptors(self._known.pop(next(iter(self._known))).descriptors)
        return subject


def _close_descriptors(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _receive_request(connection: socket) -> tuple[list[Json], list[int]] | None:
    """(question, descriptors); None at the end."""
    head, descriptors = syscalls.receive_message(connection.fileno(), HEAD.size)
    body = b""
    while len(head) == HEAD.size and len(body) < HEAD.unpack(head)[0]:
        part = os.read(connection.fileno(), HEAD.unpack(head)[0] - len(body))
        if not part:
            return None
        body += part
    return (json.loads(body), descriptors) if body else None


def _answer_request(request: list[Json], descriptors: list[int], subjects: _Subjects) -> JsonObject:
    name, path, memory = as_text(request[0]), as_text(request[1]), as_integer(request[2])
    try:
        limit_memory(memory)
        return {"answer": getattr(answers, name)(subjects.find_subject(path, descriptors), *request[3:])}
    except TooLargeError as problem:
        return {"refused": problem.message}
    except MachineError as problem:
        return {"problem": problem.message, "hints": problem.hints}
    except MemoryError:
        return {"memory": memory >> 20}
    except Exception as problem:  # a file that is damaged in an unforeseen way
        return {"refused": f"it is damaged ({type(problem).__name__}: {str(problem)[:100]})"}
