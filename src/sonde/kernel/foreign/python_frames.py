"""What a coroutine of a CPython process is at: its frames, and what the innermost one awaits."""

from __future__ import annotations

from sys import byteorder

from ...layouts import cpython as py
from ...layouts import cpython_tasks as layout
from .process_pages import UnreadableError
from .python_objects import Objects

Frame = tuple[str, str, int]  # function, file, line (0: not known)

MOST_FRAMES = 100  # of a task, and objects that it awaits one through the other
_AWAITS = (2, 3)   # arguments of RESUME after an await or a "yield from"


class Chain:
    """The frames of a coroutine, the outermost first. ``leaf`` is the address of what the innermost one awaits, 0 if
    it awaits nothing that can be read. ``runs``: it is running now. ``begun``: it has begun. ``identity`` is another
    when it awaits at another place, or another object; ``whole`` says that no frame is left out."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.identity: list[int] = []
        self.leaf, self.innermost = 0, 0
        self.runs, self.begun, self.whole = False, True, True


class FrameReader:
    """Reads chains of coroutines, and stacks of threads."""

    def __init__(self, objects: Objects) -> None:
        self.objects, self.pages, self.at, self.more = objects, objects.pages, objects.at, objects.more
        self._code_types = (objects.at["code_type"],)

    def read_chain(self, object: int) -> Chain:
        """The chain from a task's coroutine on."""
        chain = Chain()
        for _ in range(MOST_FRAMES):
            name = self.objects.names_of(object)[0] if object else ""
            if name in layout.WRAPPERS:
                object = self.pages.word(object + layout.WRAPPERS[name])
            elif name not in layout.GENERATORS:
                chain.leaf = object
                return chain
            else:
                object = self._follow(chain, object)
                if not object:
                    return chain
            chain.identity.append(object)
        chain.whole = False
        return chain

    def _follow(self, chain: Chain, generator: int) -> int:
        """Add the frame of a generator that has not ended; what it awaits, or 0."""
        state = int.from_bytes(self.pages.read(generator + self.more["generator_state"], 1), byteorder, signed=True)
        if state > layout.RUNS:
            return 0
        frame = generator + self.more["generator_frame"]
        chain.frames.append(self.read_frame(frame))
        chain.identity.append(self.pages.word(frame + self.at["frame_instruction"]))
        if state == layout.RUNS:
            chain.runs, chain.innermost = True, frame
            return 0
        if state == self.more["created"]:
            chain.begun = bool(len(chain.frames) > 1)
            return 0
        return self._awaited(frame) if self._awaits(frame, state) else 0

    def _awaits(self, frame: int, state: int) -> bool:
        """Whether a frame that is suspended awaits, rather than yields a value."""
        if self.more["delegates"]:
            return state == self.more["delegates"]
        following = self.pages.word(frame + self.at["frame_instruction"]) + 2
        return self.pages.read(following, 2)[1] in _AWAITS

    def _awaited(self, frame: int) -> int:
        """The object on top of a frame's stack."""
        first, end = frame + self.more["locals"], self.pages.word(frame + layout.FRAME_STACK)
        if self.more["node"]:
            if not first < end < first + (1 << 20):
                raise UnreadableError
            return self.pages.word(end - 8) & ~3
        depth = end & 0xFFFFFFFF
        code = self.pages.word(frame + self.at["frame_code"])
        if not int.from_bytes(self.pages.read(code + self.more["local_count"], 4), byteorder) < depth < 1 << 17:
            raise UnreadableError
        return self.pages.word(first + 8 * (depth - 1))

    def read_thread(self, thread: int, until: int) -> list[Frame]:
        """The frames of a thread that are inside of this one, the outermost first; none if it is not among them."""
        frame = self.pages.word(thread + self.at["thread_frame"])
        if self.at["cframe_frame"] and frame:
            frame = self.pages.word(frame + self.at["cframe_frame"] - 1)
        frames = list[Frame]()
        for _ in range(MOST_FRAMES):
            if frame == until or not frame:
                return frames[::-1] if frame else []
            owner = self.pages.read(frame + self.at["frame_owner"], 1)[0]
            if owner < self.at["shim_owner"]:
                frames.append(self.read_frame(frame))
            frame = self.pages.word(frame + self.at["frame_previous"])
        return []

    def read_frame(self, frame: int) -> Frame:
        """The function of a frame, and the line that it is at."""
        code = self.pages.word(frame + self.at["frame_code"]) & ~1
        instruction = self.pages.word(frame + self.at["frame_instruction"])
        return self.objects.once("frame", code, str(instruction), lambda: self._read_code(code, instruction))

    def _read_code(self, code: int, instruction: int) -> Frame:
        if self.objects.type_of(code) != self.at["code_type"]:
            raise UnreadableError
        name, file, table = [self.pages.word(code + self.at[member]) for member in
                             ("code_name", "code_file", "code_table")]
        first = int.from_bytes(self.pages.read(code + self.at["code_line"], 4), byteorder, signed=True)
        length = self.pages.word(table + py.BYTES_LENGTH)
        raw = self.pages.read(table, min(length + py.BYTES_START, py.MOST_TABLE))
        line = py.find_line(raw, instruction - code - self.at["code_bytecode"], first)
        return self.objects.text(name), self.objects.text(file), line
