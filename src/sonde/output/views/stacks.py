"""Stacks with weights: from maps keyed by stacks to folded lines and the tree of a flame graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from sys import getsizeof

from ...base.memory_budget import Memory
from ...errors import SondeError
from ...runtime.maps.aggregates import Drawing, Stats
from ...runtime.records.python_frames import merge_python_frames
from ...runtime.records.values import (
    LOST,
    Item,
    Items,
    PythonFrame,
    ScriptValue,
    StackFrame,
    StackTrace,
    to_text,
)
from ...spec import MapSpec, ScriptSpec
from ...types import Aggregate, Int, Stack, Tuple, Type
from ..progress import track_progress
from ..text import CONTROLS
from ..units import map_symbol
from .view import View, has_stack, key_types

LEFT_OUT = ("[left out: --memory]",)  # the frames of all stacks for which there was no room
_ENTRY = 200     # bytes of a stack that is kept, without its frames
_NAME = 100      # bytes of a name that is kept, beside its text
KERNEL = "_[k]"  # after the names of kernel frames, as flame-graph scripts know it
UNIT = "the numbers are "  # in a comment of a file of folded lines, before their unit
WAKER = "--"     # between a stack and the stack of who woke it
WAITS = "waits for the GIL"  # below the stacks of threads that wait
_INTERRUPTS = ("asm_sysvec_", "asm_common_interrupt", "el1h_64_irq", "el0t_64_irq")  # where the kernel enters for one
_HOSTILE = {ord(";"): ":"} | CONTROLS

Folded = dict[tuple[str, ...], int]  # frames, outermost first -> weight


def shows_stacks(named: MapSpec) -> bool:
    """A map keyed by stacks, whose values can be added up."""
    value = named.value
    additive = isinstance(value, Int) if not isinstance(value, Aggregate) else \
        value.row.total and not (value.floating and value.row.sums)  # samples are whole
    return additive and any(has_stack(t) for t in key_types(named))


def value_weight(value: ScriptValue) -> int:
    """How much a value of a map counts: a number itself, the total of stats(), the number of values of a hist()."""
    weight = value.total if isinstance(value, Stats | Drawing) else value
    return weight if isinstance(weight, int) else 0


def weight_symbol(named: MapSpec) -> str:
    """The unit of what value_weight() counts of a map's values; "" if there is none."""
    drawn = isinstance(named.value, Aggregate) and named.value.row.buckets
    return "" if drawn else map_symbol(named)


def fold_key(key: ScriptValue) -> tuple[str, ...]:
    """The frames of a map key, outermost first: what is no stack, then user frames, then kernel frames.

    A second stack of the same kind is that of a waker; it follows after ``--``, innermost first, so that in a flame
    graph it stands over the stack that it woke, head to head. What stands after the waker's stacks in the key is the
    waker's name and comes on top of them; a third one is that of the waker's waker, and so on. Where an interrupt has
    woken, it ends with the interrupt's entry: the thread that was running just then, and who had woken that, have no
    part in it.
    """
    heads: list[str] = []
    segments = [_Segment()]
    for part in flatten_key(key):
        if isinstance(part, StackTrace):
            if not segments[-1].can_take(part, waker=len(segments) > 1):
                segments.append(_Segment())
            segments[-1].stacks[part.type.kind] = part
        elif len(segments) == 1:
            heads.append(clean_text(to_text(part)) or "-")
        else:
            segments[-1].names.append(clean_text(to_text(part)))
    own, *wakers = segments
    frames = [*reversed(own.user_frames()), *reversed(own.frames_of("kstack"))]
    for waker in wakers:
        over, last = waker.waker_frames()
        frames += over
        if last:
            break
    return (*heads, *frames)


class _Segment:
    """The stacks of one thread in a key, by their kinds; ``names``: what comes after them."""

    def __init__(self) -> None:
        self.stacks: dict[str, StackTrace] = {}
        self.names: list[str] = []

    def can_take(self, stack: StackTrace, waker: bool) -> bool:
        """Whether a stack can be of the same thread."""
        return stack.type.kind not in self.stacks and not (waker and self.names)

    def frames_of(self, kind: str) -> list[str]:
        return frame_names(self.stacks[kind]) if kind in self.stacks else []

    def user_frames(self) -> list[str]:
        """Those of Python in the place of the interpreter's, if there are any."""
        python, native = self.frames_of("pystack"), self.frames_of("ustack")
        entered = self.stacks["pystack"].entered if "pystack" in self.stacks else []
        return merge_python_frames(native, native, python, entered)

    def waker_frames(self) -> tuple[list[str], bool]:
        """As a waker's: ``--``, then from the innermost frame to the name; nothing if nothing is known. And whether
        it is an interrupt, whose cause lies in no thread."""
        kernel = self.frames_of("kstack")
        entry = next((i for i, name in enumerate(kernel) if name.startswith(_INTERRUPTS)), None)
        if entry is not None:
            return [WAKER, *kernel[:entry + 1]], True
        frames = [*kernel, *self.user_frames(), *filter(None, self.names)]
        return [WAKER, *frames] if frames else [], False


def flatten_key(key: ScriptValue) -> Iterator[ScriptValue]:
    """The parts of a key, those of tuples in it too."""
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, tuple):
            yield from flatten_key(part)
        else:
            yield part


def flatten_types(types: Iterable[Type]) -> Iterator[Type]:
    """The same of their types."""
    for each in types:
        if isinstance(each, Tuple):
            yield from flatten_types(each.of)
        else:
            yield each


def head_names(named: MapSpec) -> list[str]:
    """What the parts of a map's key are called that are neither stacks nor names of wakers."""
    heads, segment = list[str](), set()
    types = key_types(named)
    labels = [*named.labels, *[""] * len(types)]
    for name, each in [(label, each) for label, type in zip(labels, types) for each in flatten_types([type])]:
        if not isinstance(each, Stack):
            heads.append(f"{name or 'key'}{len(heads) + 1 if not name or name in heads else ''}")
        elif each.kind in segment:
            break
        else:
            segment.add(each.kind)
    return heads


def frame_names(stack: StackTrace) -> list[str]:
    """The names of a stack's frames, innermost first; kernel frames end with ``_[k]``."""
    suffix = "" if stack.type.user else KERNEL
    return [LOST + suffix] if stack.lost else [frame_name(frame) + suffix for frame in stack.frames]


def frame_name(frame: StackFrame) -> str:
    """A function's name, Python's with file and line; where it has none its file's in brackets."""
    if frame.name:
        return clean_text(frame.short if isinstance(frame, PythonFrame) else frame.name)
    module = frame.module.rpartition("/")[2]
    return f"[{clean_text(module) or 'unknown'}]"


def clean_text(text: str) -> str:
    """Text that cannot break a folded line: no semicolons, no control characters, valid UTF-8."""
    return text.translate(_HOSTILE).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class StackView(View):
    """Base of the views of stacks: adds up all maps keyed by stacks. With several of them, each one's name is the
    outermost frame."""

    needs = "maps keyed by stacks, with counts, sums or histograms"
    example = "profile:hz:99 { @[ustack, kstack, comm] = count(); }"

    def prepare(self) -> None:
        shown = [m.name for m in self.spec.maps if m.name.startswith("@") and self.shows_map(m, self.spec)]
        self.map_names = shown
        self._folder = Folder(shown, self.target.memory)

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        return shows_stacks(named)

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        self._folder.add_items(named, track_progress(self.bar, items, "naming stacks", "stacks"), then)

    def on_map_cleared(self, named: MapSpec) -> None:
        self._folder.on_map_cleared(named)

    @property
    def folded(self) -> Folded:
        """What has been collected."""
        return self._folder.folded

    @property
    def unit(self) -> str:
        """What the weights are in: as the command says, or the name of the only map."""
        shown = [self.spec.find_map(name) for name in self.map_names]
        return self.target.unit or (weight_symbol(shown[0]) if len(shown) == 1 else "")

    @property
    def is_empty(self) -> bool:
        return not self.folded

    @property
    def heads(self) -> int:
        """How many of the outermost frames are no functions but names of programs and the like."""
        return self._folder.heads


class Folder:
    """Adds up maps keyed by stacks, as folded stacks. ``names`` are the maps'.

    Stacks are folded when they are seen, for the kernel may forget those of keys that are gone. ``memory`` bounds the
    bytes of those that are kept, and of names; what is beyond it is added up under LEFT_OUT.
    """

    def __init__(self, names: list[str], memory: int = Memory().views) -> None:
        self.names = names
        self._room = memory
        self._cleared: Folded = {}
        self._names: dict[str, str] = {}
        self._latest: dict[str, Folded] = {}
        self.heads = 0  # so many frames from the outside are no functions

    def add_items(self, named: MapSpec, items: Iterable[Item], then: str) -> None:
        """A map's contents, and what happened to it in the same step (see View.map)."""
        lead = (clean_text(named.name),) if len(self.names) > 1 else ()
        self.heads = len(lead) + len(head_names(named)) if len(self.names) == 1 else 1
        folded: Folded = {}
        for key, value in items:
            frames = self._named((*lead, *fold_key(key)))
            folded[frames] = folded.get(frames, 0) + value_weight(value)
        self._latest[named.name] = folded
        if then in ("clear", "zero"):
            self.on_map_cleared(named)

    def _named(self, frames: tuple[str, ...]) -> tuple[str, ...]:
        """The same with names of which there is one each; LEFT_OUT if there is no room for new ones."""
        for name in frames:
            if name not in self._names:
                self._room -= getsizeof(name) + _NAME
                if self._room <= 0:
                    return LEFT_OUT
                self._names[name] = name
        return tuple([self._names[name] for name in frames])

    def on_map_cleared(self, named: MapSpec) -> None:
        """Keep what was seen last: it is gone from the map."""
        for frames, value in self._latest.pop(named.name, {}).items():
            if frames not in self._cleared:
                self._room -= _ENTRY + 8 * len(frames)
                frames = frames if self._room > 0 else LEFT_OUT
            self._cleared[frames] = self._cleared.get(frames, 0) + value

    @property
    def folded(self) -> Folded:
        """The totals, without those that are not above 0."""
        total = dict(self._cleared)
        for latest in self._latest.values():
            for frames, value in latest.items():
                total[frames] = total.get(frames, 0) + value
        return {frames: value for frames, value in total.items() if value > 0 and frames}


def split_samples(folded: Folded, maps: Sequence[MapSpec]) -> Iterator[
        tuple[int, tuple[tuple[str, str], ...], tuple[str, ...], int]]:
    """(place of its map, what its key has beside stacks, functions, weight) of what a folder of these maps has."""
    indexes = {clean_text(named.name): index for index, named in enumerate(maps)}
    for frames, weight in folded.items():
        several = len(maps) > 1 and frames != LEFT_OUT
        index = indexes[frames[0]] if several else 0
        rest = frames[1:] if several else frames
        names = head_names(maps[index]) if frames != LEFT_OUT else []
        yield index, tuple(zip(names, rest)), rest[len(names):], weight


def folded_lines(folded: Folded) -> Iterator[str]:
    """``a;b;c 12``, in order of the frames."""
    for frames in sorted(folded):
        yield f"{';'.join(frames)} {folded[frames]}\n"


def read_folded(path: str) -> Folded:
    """A file of folded lines; SondeError names the first line that is none."""
    folded: Folded = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith("#"):
                    frames, count = _folded_line(path, number, line)
                    folded[frames] = folded.get(frames, 0) + count
    except OSError as error:
        raise SondeError(f"failed to open file '{path}': {error.strerror}") from None
    return folded


def read_comments(path: str) -> list[str]:
    """What a file of folded lines says of its run, without the unit."""
    return [line for line in _comment_lines(path) if not line.startswith(UNIT)]


def read_unit(path: str) -> str:
    """The unit of a file's weights; "" if it does not say one."""
    return next((line.removeprefix(UNIT) for line in _comment_lines(path) if line.startswith(UNIT)), "")


def _comment_lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line[1:].strip().removesuffix(".") for line in file if line.startswith("#")]


def _folded_line(path: str, number: int, line: str) -> tuple[tuple[str, ...], int]:
    stack, _, count = line.strip().rpartition(" ")
    try:
        value = round(float(count))
    except (ValueError, OverflowError):
        value = -1
    if not stack or value < 0:
        raise SondeError(f"{path}:{number}: not a folded stack: {clean_text(line.strip())[:60]!r}",
                         ["each line has frames, separated by semicolons, a blank and a number: main;work 12"])
    return tuple(stack.strip().split(";")), value


class FlameNode:
    """A frame in the tree: ``total`` is its own weight and that of all above it; ``before`` that of another run."""

    __slots__ = ("name", "total", "before", "children")

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0
        self.before = 0
        self.children: dict[str, FlameNode] = {}

    def add_stack(self, frames: Iterable[str], value: int, before: int = 0) -> None:
        """Add a stack above this node."""
        node = self
        node.total += value
        node.before += before
        for frame in frames:
            child = node.children.get(frame)
            if child is None:
                child = node.children[frame] = FlameNode(frame)
            node = child
            node.total += value
            node.before += before


def build_tree(folded: Folded, before: Folded | None = None) -> FlameNode:
    """The tree of folded stacks; with ``before``, another run's, each node has that run's weight too."""
    root = FlameNode("all")
    for frames, value in folded.items():
        root.add_stack(frames, value)
    for frames, value in (before or {}).items():
        root.add_stack(frames, 0, value)
    return root
