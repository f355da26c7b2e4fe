"""Weights by lines of Python's source: from maps keyed by stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...base.record import Record
from ...runtime.records.source_text import SourceText
from ...runtime.records.values import Items, StackTrace
from ...types import PYTHON
from ..text import CONTROLS
from .line_work import called_frames, find_work
from .stacks import clean_text, flatten_key, value_weight

LEAST = 0.01  # of the whole: lines that take less are not shown to people, nor are functions
LEAST_TOTAL = 0.05  # the same with what they call
MOST_NAMES = 64  # of functions under a line, and of what runs without Python functions
OTHERS = "(others)"
_LINE, _FILE = 300, 2000  # bytes that a line with weights takes, and a file


class LineWork(Record):
    """What was counted in a line of source. ``weights``: of the line itself, by the kinds of :mod:`.line_work`;
    ``total``: with all that it called; ``functions``: of the line itself, by (function, kind)."""

    weights: dict[str, int] = {}
    total: int = 0
    functions: dict[tuple[str, str], int] = {}

    @property
    def own(self) -> int:
        """The line itself: Python's, native code's and the kernel's."""
        return sum(self.weights.values())

    def add_own(self, weight: int, kind: str, function: str) -> None:
        self.weights[kind] = self.weights.get(kind, 0) + weight
        if function:
            key = (function, kind)
            key = key if key in self.functions or len(self.functions) < MOST_NAMES else (OTHERS, kind)
            self.functions[key] = self.functions.get(key, 0) + weight


class FileWork:
    """The lines of a source file."""

    def __init__(self, path: str, text: SourceText | None) -> None:
        self.path = clean_text(path) or "(no file)"
        self.text = text or SourceText([], False, "sources are read while a run goes on, on its own machine")
        self.lines: dict[int, LineWork] = {}
        self.total = 0  # with all that it called

    @property
    def own(self) -> int:
        """The file's lines themselves."""
        return sum([line.own for line in self.lines.values()])

    @property
    def remark(self) -> str:
        """Why its text is missing, or may be wrong; "" if neither."""
        if self.text.problem:
            return f"not read: {self.text.problem}"
        return "changed after the process began: these may not be the lines that ran" if self.text.changed else ""

    def text_at(self, line: int) -> str:
        """A line's text, which steers no terminal."""
        return self.text.line_at(line).expandtabs(8).rstrip().translate(CONTROLS) \
            .encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class LineTable:
    """What was counted in the map ``name``, by file and line. ``unit``: of the weights ("" if not known); ``source``:
    the end of the path of the only files to show, as a whole; ``memory``: bytes that all of it may take."""

    def __init__(self, name: str, unit: str, source: str, has_native: bool, memory: int) -> None:
        self.name, self.unit, self.source, self.has_native = name, unit, source, has_native
        self.files: dict[tuple[str, int], FileWork] = {}  # by path and process
        self.total = 0     # with Python functions
        self.outside = Counter[str]()  # without, by what ran
        self.unknown = 0   # of which the line is not known
        self.left = 0      # for want of room
        self._room = memory

    def add_items(self, items: Items) -> None:
        for key, value in items:
            stacks = [part for part in flatten_key(key) if isinstance(part, StackTrace)]
            python = next((stack for stack in stacks if stack.type.mode == PYTHON), None)
            others = [stack for stack in stacks if stack is not python]
            if python is not None and (weight := value_weight(value)) > 0:
                self._add_stack(python, others, weight)

    def _add_stack(self, python: StackTrace, others: list[StackTrace], weight: int) -> None:
        frames = python.frames
        native = called_frames([stack for stack in others if stack.type.user], bool(frames))
        kind, function = find_work(native, [stack for stack in others if not stack.type.user])
        if not frames:
            name = "[lost]" if python.lost else function
            self.outside[name if name in self.outside or len(self.outside) < MOST_NAMES else OTHERS] += weight
            return
        self.total += weight
        if not frames[0].offset:
            self.unknown += weight
        seen = dict[int, LineWork | FileWork]()  # a function may call itself
        for at, frame in enumerate(frames):
            file = self._file_of(python, frame.module)
            line = self._line_at(file, frame.offset)
            seen |= {id(each): each for each in (file, line) if each is not None}
            if at == 0 and line is not None:
                line.add_own(weight, kind, function)
            elif at == 0:
                self.left += weight
        for each in seen.values():
            each.total += weight

    def _line_at(self, file: FileWork | None, number: int) -> LineWork | None:
        """None if there is no room."""
        line = file.lines.get(number) if file is not None else None
        if line is None and file is not None and self._takes_room(_LINE):
            line = file.lines[number] = LineWork()
        return line

    def _file_of(self, python: StackTrace, path: str) -> FileWork | None:
        """Files of one name in two processes are two if they have been read, and differ."""
        file = self.files.get((path, python.tgid))
        if file is None:
            text = python.source_text(path)
            size = sum([len(line) + 60 for line in text.lines]) if text is not None else 0
            if not self._takes_room(_FILE):
                return None
            if not self._takes_room(size):
                text = SourceText([], False, "there is no room for it: see --memory")
            file = next((other for (name, _), other in self.files.items() if name == path and text is not None
                         and (other.text.lines == text.lines or not text.lines)), None) or FileWork(path, text)
            file.text.changed |= text is not None and text.changed
            self.files[path, python.tgid] = file
        return file

    def _takes_room(self, size: int) -> bool:
        if size > self._room:
            return False
        self._room -= size
        return True

    @property
    def is_empty(self) -> bool:
        return not self.total and not self.outside

    @property
    def sorted_files(self) -> list[FileWork]:
        """Each once, with those first in which most happened; of those that only call others the greatest."""
        files = {id(file): file for file in self.files.values()}.values()
        wanted = self.source
        return sorted([file for file in files if not wanted or f"/{file.path}".endswith(f"/{wanted}")],
                      key=lambda file: (-file.own, -file.total, file.path))

    def shows_line(self, line: LineWork) -> bool:
        """Has a line enough of the whole to be shown?"""
        return line.own >= LEAST * self.total or line.total >= LEAST_TOTAL * self.total

    def remarks(self) -> Iterator[str]:
        """What the numbers do not have in them."""
        unit = self.unit or "counted"
        if self.outside:
            what = [f"{weight} in {clean_text(name)}" for name, weight in self.outside.most_common(3) if name]
            yield f"{self.outside.total()} {unit} without Python functions" + (f": {', '.join(what)}" if what else "")
        if self.unknown:
            yield f"{self.unknown} {unit} in lines that are not known (line 0)"
        if self.left:
            yield f"{self.left} {unit} left out for want of room: see --memory"
