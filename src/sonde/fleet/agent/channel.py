"""An agent's two descriptors: frames in, read by a thread of their own, and frames out."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic, time_ns

from ...errors import SondeError
from ..transport.protocol import TO_AGENT, Decoder, Frame, ProtocolError, encode_frame

STALLED = 30.0  # s: a coordinator that reads nothing for so long is taken to be gone
_PIECE = 1 << 16


class CoordinatorGoneError(SondeError):
    """The coordinator has gone, or reads no more."""


class Channel:
    """Frames from and to a coordinator. Pings are answered at once, whatever else is going on; ``gone`` is called from
    the reading thread when nothing more can come, or a frame made no sense, and ``stop`` when it asks for the end."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._lock = Lock()
        self._frames: SimpleQueue[Frame | None] = SimpleQueue()
        self.stopped = ""  # why the end has to come: "stop", "gone", or what was wrong with a frame
        self.when_stopped: Callable[[str], object] = str
        self._heard = 0.0  # when the last ping came
        os.set_blocking(write, False)
        Thread(target=self._read_frames, name="sonde-frames", daemon=True).start()

    def next_frame(self, kind: str, seconds: float) -> Frame:
        """The next frame, which must be of this kind. A coordinator that pings may take any time to send it.
        CoordinatorGoneError if nothing comes for ``seconds``, ProtocolError for another frame."""
        from queue import Empty
        self._heard = monotonic()
        frame: Frame | None = None
        while (left := self._heard + seconds - monotonic()) > 0:
            try:
                frame = self._frames.get(timeout=left)
                break
            except Empty:
                pass
        else:
            raise CoordinatorGoneError(f"no {kind}, and nothing else in {seconds:.0f} s")
        if frame is None or frame.kind == "stop":
            raise CoordinatorGoneError(self.stopped)
        if frame.kind != kind:
            raise ProtocolError(f"{frame.kind} where {kind} was expected")
        return frame

    def check_end(self) -> None:
        """CoordinatorGoneError if the coordinator has asked for the end, or has gone."""
        if self.stopped:
            raise CoordinatorGoneError(self.stopped)

    def send_frame(self, data: bytes) -> None:
        """Write a frame whole; CoordinatorGoneError if it is not read."""
        with self._lock:
            view, deadline = memoryview(data), monotonic() + STALLED
            while view:
                try:
                    view, deadline = view[os.write(self._write, view[:_PIECE]):], monotonic() + STALLED
                except BlockingIOError:
                    self._wait_for_room(deadline)
                except OSError as error:
                    raise CoordinatorGoneError(error.strerror or "gone") from None

    def _wait_for_room(self, deadline: float) -> None:
        room = select.poll()
        room.register(self._write, select.POLLOUT)
        if not room.poll(max(0.0, deadline - monotonic()) * 1000):
            raise CoordinatorGoneError(f"nothing was read for {STALLED:.0f} s")

    def _read_frames(self) -> None:
        decoder, ready = Decoder(TO_AGENT), select.poll()
        ready.register(self._read, select.POLLIN)
        try:
            while not self.stopped:
                ready.poll()
                data = os.read(self._read, _PIECE)
                if not data:
                    break
                for frame in decoder.feed_bytes(data):
                    self._handle_frame(frame)
        except ProtocolError as error:
            self._stop(error.message)
        except (OSError, CoordinatorGoneError):
            pass
        self._stop(self.stopped or "gone")
        self._frames.put(None)

    def _handle_frame(self, frame: Frame) -> None:
        if frame.kind == "ping":
            self._heard = monotonic()
            self.send_frame(encode_frame("pong", sent=frame["sent"], wall=time_ns()))
            return
        if frame.kind == "stop":
            self._stop("stop")
        self._frames.put(frame)

    def _stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason
        self.when_stopped(self.stopped)
