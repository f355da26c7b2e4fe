"""Asking the reader: started when it is first needed, ended when it takes too long, started again for the next file."""

from __future__ import annotations

import os
import select
import sys
import time

from ...base.json_checks import Json, JsonObject, as_text, as_texts
from ...errors import MachineError
from .. import notices
from .questions import MOST, MOST_MEMORY, QUESTIONS, ReaderQuestion, has_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence
    from typing import Any


_START = "import sys; sys.path[:] = sys.argv[1:-2]; from sonde.kernel.foreign.reader_process import main; main()"
_WALL = 8  # times the allowance of CPU time: after that the answer is late whatever the reader did
_QUEUED = 32  # times the allowance: so much of its waiting for a CPU does not count, unless the run is to end
_HURRY = 0.4  # s of CPU time for a question once the run is to end
_LOOK = 0.05  # s between looks at a working reader
_PATIENCE = 0.5  # s to wait for its end
_USUAL = 0.001  # s: what adding 50,000 numbers takes on a machine for which these times hold
_MUCH = 4       # times slower than that, and more time is given
# A file with debug information of this many bytes on disk may take more time and memory: all of it is read.
_BYTES_FOR_A_SECOND, _MOST_SECONDS = 4 << 20, 30.0
_MEMORY_FOR_A_BYTE = 8


class ReaderError(MachineError):
    """The reader refused a file, or was ended over it; ``costly`` if it had used up its allowance."""

    def __init__(self, message: str, costly: bool = False) -> None:
        super().__init__(message)
        self.costly = costly


class Reader:
    """The process of low rank, from outside: one question at a time."""

    def __init__(self) -> None:
        from threading import Lock

        self._lock = Lock()
        self._socket: socket | None = None
        self._pid = 0
        self._dwarf = False  # it can read DWARF
        self._pace = _measure_slowness()
        self._late = 0.0  # s: its limit for the last answer, if that was late
        self._paths = set[str]()  # of the files that it has been asked about

    def ask_question(self, name: str, path: str, descriptors: Sequence[int], *arguments: Json) -> Any:
        """The answer to a question about a file (or none), of the declared shape.

        MachineError if the file does not have it, ReaderError if the file must not be read any further.
        """
        question = QUESTIONS[name]
        seconds, memory = question_allowance(question, descriptors)
        seconds *= self._pace
        request: list[Json] = [name, path, memory, *arguments]
        with self._lock:
            fresh = self._ensure_ready(question.debug)
            answer, left = self._exchange_messages(request, descriptors, seconds)
            self._paths.add(path)
            crowded = answer is not None and "memory" in answer and len(self._paths) > 1
            if crowded or answer is None and not fresh and not self._late:
                self.end_process()  # it remembers too many other files, or has ended since the last question
                self._ensure_ready(question.debug)
                answer, left = self._exchange_messages(request, descriptors, left)
            if answer is not None and "answer" in answer and has_shape(answer["answer"], question.shape):
                return answer["answer"]
            if answer is not None and has_shape(answer.get("problem"), str) and has_shape(answer.get("hints"), [str]):
                raise MachineError(as_text(answer["problem"]), as_texts(answer["hints"]))
            why, costly = self._explain_failure(answer), answer is None or "refused" not in answer
            if costly:
                self.end_process()
        raise ReaderError(why, costly)

    def _explain_failure(self, answer: JsonObject | None) -> str:
        if answer is not None and has_shape(answer.get("refused"), str):
            return as_text(answer["refused"])[:300]
        if answer is not None and has_shape(answer.get("unfit"), str):
            return f"its reader cannot begin: {as_text(answer['unfit'])[:300]}"
        if answer is not None and has_shape(answer.get("memory"), int):
            return f"reading it takes more than {answer['memory']} MiB of memory"
        if self._late:
            return f"reading it takes longer than {self._late:.2g} s"
        return "its reader came to an unexpected end" if answer is None else "its reader gave a senseless answer"

    def _ensure_ready(self, dwarf: bool) -> bool:
        """Make sure that a reader can do it; whether it is a new one."""
        if self._socket is not None and (self._dwarf or not dwarf):
            return False
        self.end_process()
        self._dwarf = self._dwarf or dwarf
        self._start_process()
        return True

    def _start_process(self) -> None:
        from _socket import socketpair

        ours, theirs = socketpair()
        ours.setblocking(False)
        here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        paths = [path for path in sys.path if path.startswith("/")]
        command = [sys.executable, "-I", "-S", "-E", "-B", "-c", _START, *paths, here, sys.prefix,
                   "dwarf" if self._dwarf else ""]
        actions: list[tuple[object, ...]] = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)]
        actions += [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1, 2)]
        environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        try:
            self._pid = os.posix_spawn(sys.executable, command, environment, file_actions=actions, setpgroup=0)
        except OSError as error:
            ours.close()
            raise MachineError(f"the reader of foreign files cannot be started: {error.strerror}") from None
        finally:
            theirs.close()
        self._socket = ours
        self._paths = set()

    def _exchange_messages(self, request: list[Json], descriptors: Sequence[int], seconds: float,
                           ) -> tuple[JsonObject | None, float]:
        """Its answer (None if it has ended, is late, or talks nonsense), and the seconds that it has left."""
        import json

        deadline = _Deadline(self._pid, seconds, _HURRY * self._pace)
        try:
            self._send_request(json.dumps(request).encode(), descriptors, deadline)
            size = int.from_bytes(self._receive_bytes(4, deadline), sys.byteorder)
            answer = json.loads(self._receive_bytes(size, deadline)) if size <= MOST else None
        except (OSError, ValueError, RecursionError):
            answer = None
        self._late = deadline.passed
        return answer if isinstance(answer, dict) else None, deadline.time_left()

    def _send_request(self, body: bytes, descriptors: Sequence[int], deadline: _Deadline) -> None:
        from _socket import SCM_RIGHTS, SOL_SOCKET
        from array import array

        assert self._socket is not None
        rights = [(SOL_SOCKET, SCM_RIGHTS, array("i", descriptors))] if descriptors else []
        deadline.wait_until_ready(self._socket, select.POLLOUT)
        if self._socket.sendmsg([len(body).to_bytes(4, sys.byteorder)], rights) != 4:
            raise OSError("a header was cut in two")
        while body:
            deadline.wait_until_ready(self._socket, select.POLLOUT)
            body = body[self._socket.send(body):]

    def _receive_bytes(self, size: int, deadline: _Deadline) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            deadline.wait_until_ready(self._socket, select.POLLIN)
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise OSError("the reader has ended")
            data += part
        return bytes(data)

    def end_process(self) -> None:
        """End the process, whatever it is doing; the next question starts another."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        end = time.monotonic() + _PATIENCE
        try:
            os.kill(self._pid, 9)
            while os.waitpid(self._pid, os.WNOHANG)[0] == 0 and time.monotonic() < end:
                time.sleep(0.0005)  # one that waits for an unresponsive disk is left to init
        except OSError:
            pass  # somebody else has waited for it


def _measure_slowness() -> float:
    """How many times slower than usual this machine is (an emulated one, say); 1 unless it is much slower."""
    begin = time.thread_time()
    sum(range(50_000))
    times = (time.thread_time() - begin) / _USUAL
    return min(times, 40.0) if times > _MUCH else 1.0


class _Deadline:
    """How long a reader may work at a question: CPU time, and much more wall time, for others need the CPU too. Less of
    both once the run is to end."""

    def __init__(self, pid: int, seconds: float, hurry: float) -> None:
        self._pid = pid
        self._clock = ~pid << 3 | 2  # the process's, CPUCLOCK_SCHED: include/linux/posix-timers.h
        self._begin = self._used = self._read_clock()
        self._moment, self._delay = time.monotonic(), self._read_delay()
        self._seconds, self._hurry = seconds, min(seconds, hurry)
        self.passed = 0.0  # s: the limit that was exceeded

    def time_left(self) -> float:
        """Seconds of CPU time that it has not used."""
        return max(self._seconds - (self._used - self._begin), 0.1)

    def _read_clock(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0  # it has ended, as its socket will show

    def _read_delay(self) -> float:
        """Seconds for which it was ready to go on, and others had the CPUs: on a busy machine most of the time."""
        try:
            with open(f"/proc/{self._pid}/schedstat", "rb") as file:
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def _exceeded_limit(self) -> float:
        """Seconds of CPU time that were allowed, if that or the wall time that goes with it is over; else 0."""
        hurried = notices.is_hurried()
        limit = self._hurry if hurried else self._seconds
        if self._used - self._begin > limit:
            return limit
        queued = 0.0 if hurried else min(self._read_delay() - self._delay, _QUEUED * limit)
        return limit if time.monotonic() - self._moment > _WALL * limit + queued else 0.0

    def wait_until_ready(self, what: socket, events: int) -> None:
        """Wait until the socket is ready; OSError if that takes too long."""
        poll = select.poll()
        poll.register(what, events)
        while not poll.poll(1000 * _LOOK):
            self._used = self._read_clock()
            self.passed = self._exceeded_limit()
            if self.passed:
                raise OSError("late")


def question_allowance(question: ReaderQuestion, descriptors: Sequence[int]) -> tuple[float, int]:
    """(seconds of CPU time, bytes of memory) for a question. Where debug information is read, those grow with what the
    files have on disk, so that large programs can be read, and small ones that claim to be large cannot."""
    seconds, memory = question.seconds, question.memory
    if question.debug:
        disk = sum([512 * os.fstat(descriptor).st_blocks for descriptor in descriptors])
        seconds = min(seconds + disk / _BYTES_FOR_A_SECOND, _MOST_SECONDS)
        memory = min(memory + _MEMORY_FOR_A_BYTE * disk, MOST_MEMORY)
    return seconds, memory


_shared: list[Reader] = []


def ask_shared_reader(name: str, path: str, descriptors: Sequence[int], *arguments: Json) -> Any:
    """Ask the shared reader."""
    if not _shared:
        import atexit

        _shared.append(Reader())
        atexit.register(release_reader)
    return _shared[0].ask_question(name, path, descriptors, *arguments)


def release_reader() -> None:
    """End the shared reader; the next question starts another."""
    for reader in _shared:
        reader.end_process()
