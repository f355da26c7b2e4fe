"""Control groups as they are made and removed while a script runs: their names, and which of them its filters match.

A script of Sonde's own follows them in the kernel. It reports the path of each group when it is made, so that even a
short-lived one has a name; and where the traced script compares with a container, pod or service, it answers at once
for the groups whose folder name or parent decides it. All others are marked as unknown until user space has seen what
they are: a moment later or, while the container's runtime has not written its name, for up to PATIENCE.
"""

from __future__ import annotations

import struct
import time

from ..base.record import Record
from ..kernel.notices import show_notice
from ..layouts.shared_maps import EARLY, EARLY_SLOTS, EARLY_UNSURE, GROUPS, UNPLACED, UNPLACED_BIT
from ..semantics.script_options import Options
from ..source import Source
from ..spec import ScriptSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

    from ..kernel.groups.lookup import Groups
    from ..runtime.losses import Losses
    from ..runtime.maps.access import Map
    from ..runtime.session import Session

PATIENCE = 2.0     # s: for a name that its runtime has not written yet
AGAIN = 0.05       # s between looks for it
SWEEP = 1024       # groups that are gone, until what was counted for them is taken out of the kernel's map
FOLDER = 128       # bytes of a folder's name that programs compare
PATH = 512         # bytes of a path that they tell
_GROUP, _EVENTS, _UNPLACED = struct.Struct("=Q"), struct.Struct("=Q"), struct.Struct("=QQ")
_ANSWERS = struct.Struct("=I")

# $1: the bits of all questions; $2: of those whose answer a folder with a dot in its name, a unit of systemd, does not
# inherit.
FOLLOW = Source("control groups", f"""
config = {{ perf_rb_pages = 256; print_maps_on_exit = 0; max_strlen = {PATH} }}
let @known = hash(16384);
let @folders = lruhash(4096);
rawtracepoint:cgroup_mkdir /args.cgrp.root.hierarchy_id == 0/ {{
  $id = (uint64)args.cgrp.kn.id;
  if ($1 > 0) {{
    $folder = str(args.cgrp.kn.name, {FOLDER});
    if ($folder == "") {{ @folders[$folder] = (uint64)0; }}
    $parent = @known[(uint64)((struct cgroup *)args.cgrp.self.parent).kn.id] & $1;
    $is = @folders[$folder] | (strcontains($folder, ".") ? $parent & ~(uint64)$2 : $parent);
    @known[$id] = $is | (((uint64)$1 & ~$is) << {UNPLACED_BIT});
  }}
  printf("%d %s", $id, str(args.path, {PATH}));
}}
rawtracepoint:cgroup_release /args.cgrp.root.hierarchy_id == 0/ {{
  $id = (uint64)args.cgrp.kn.id;
  if ($1 > 0) {{ delete(@known, $id); }}
  printf("%d", $id);
}}
""", internal=True)


def follow_options(spec: ScriptSpec) -> Options:
    """What FOLLOW is to be compiled with for a script."""
    units = sum([1 << at for at, (kind, _) in enumerate(spec.groups) if kind == "service"])
    return Options(params=[str((1 << len(spec.groups)) - 1), str(units)], shares_maps=True)


class Misses(Record):
    """Events that were wrongly filtered out before their group was known, by the bits that the program asks for.
    ``possible`` are those whose group was never known."""

    certain: dict[int, int] = {}
    possible: dict[int, int] = {}

    def add(self, known: int | None, bits: int, events: int) -> None:
        """Add events of a group of which ``known`` is known now, if they match ``bits``."""
        known = bits << UNPLACED_BIT if known is None else known
        counts = self.certain if known & bits else self.possible if known >> UNPLACED_BIT & bits else {}
        counts[bits] = counts.get(bits, 0) + events


class GroupLog:
    """Follows control groups for a script from now on. ``session`` is that of FOLLOW, not loaded yet; ``maps`` are
    those of the script, which is not attached yet; ``groups`` learns the names. Ids up to ``until`` are those of groups
    that were made before."""

    def __init__(self, session: Session, spec: ScriptSpec, maps: dict[str, Map], groups: Groups,
                 until: int) -> None:
        self._session = session
        self._groups = groups
        self._wanted = spec.groups
        self._answers, self._counts = maps.get(GROUPS), maps.get(UNPLACED)
        self._published: dict[int, int] = {}  # the bits that the programs have, by group
        self._waiting: dict[int, float] = {}  # groups of which something is not known -> until when to ask again
        self._look = 0.0                      # the moment of the next look at them
        self._gone: set[int] = set()          # groups that are gone, and may have counts in the kernel's map
        self._missed = Misses()               # of those: events that came too early
        if self._answers is not None:
            session.maps["@known"] = self._answers
        try:
            session.attach()
            groups.catch_up = self.drain_rings
            if self._answers is not None:
                self._answer_all()
                self._lay_out_early(maps[EARLY].memory, until)
        except BaseException:
            self._close_session()
            raise

    def _answer_all(self) -> None:
        """Tell the programs which folders' names decide, and of the groups that are there already."""
        folders: dict[bytes, int] = {}
        for at, (kind, text) in enumerate(self._wanted):
            for folder in self._groups.folders_of(kind, text):
                name = folder.encode("utf-8", "surrogateescape")
                folders[name] = folders.get(name, 0) | 1 << at
        for name, bits in folders.items():
            if len(name) < FOLDER:
                self._session.maps["@folders"].update(name.ljust(FOLDER, b"\0"), _GROUP.pack(bits))
        for group in self._groups.all_groups():
            self._answer(group)
        self._tell_absent()

    def _tell_absent(self) -> None:
        """Say which names nothing bears that is there: they may come, or be mistyped."""
        absent: dict[str, list[str]] = {text: [] for _, text in self._wanted if text}
        for at, (kind, text) in enumerate(self._wanted):
            if any(bits >> at & 1 for bits in self._published.values()):
                absent.pop(text, None)
            elif text in absent:
                absent[text].append(kind)
        for text, kinds in absent.items():
            show_notice(f"WARNING: no {' or '.join(kinds)} is called {text} yet")

    def _lay_out_early(self, memory: mmap, until: int) -> None:
        """What is known for good of the groups that were there before, where programs need no call to read it."""
        slots: dict[int, set[int]] = {}
        for group, bits in self._published.items():
            if group <= until:
                slots.setdefault(group % EARLY_SLOTS, set()).add(bits)
        for slot, answers in slots.items():
            first = min(answers)
            sure = len(answers) == 1 and first < 1 << UNPLACED_BIT
            _ANSWERS.pack_into(memory, _ANSWERS.size * slot, first if sure else EARLY_UNSURE)

    # following

    is_prompt, rest = False, 0.0

    @property
    def fds(self) -> list[int]:
        """To be polled: readable when a group was made or removed."""
        return self._session.ring_fds

    def drain_rings(self) -> None:
        """Take in which groups were made and removed."""
        for record in self._session.take_unordered():
            self._take_record(*record)
        now = time.monotonic()
        if self._waiting and now >= self._look:
            self._look = now + AGAIN
            for group, until in list(self._waiting.items()):
                self._answer(group)
                if now >= until:
                    self._waiting.pop(group, None)

    def _take_record(self, site: int, buffer: bytes, offset: int) -> None:
        number, *path = [offset + field.offset for field in self._session.spec.sites[site].fields]
        group, = _GROUP.unpack_from(buffer, number)
        if path:
            self._take_made(group, bytes(buffer[path[0]:path[0] + PATH]).partition(b"\0")[0])
        else:
            self._take_gone(group)

    def _take_made(self, group: int, path: bytes) -> None:
        if len(path) < PATH - 1:  # else it may have been cut
            self._groups.learn(group, path.decode("utf-8", "surrogateescape"))
        self._answer(group)

    def _take_gone(self, group: int) -> None:
        self._waiting.pop(group, None)
        if self._answers is not None:
            self._answers.delete(_GROUP.pack(group))
            self._gone.add(group)
            if len(self._gone) >= SWEEP:
                self._sweep_counts()

    def _sweep_counts(self) -> None:
        """Take what was counted for groups that are gone out of the kernel's map."""
        assert self._counts is not None
        for group, bits, events in self._read_counts():
            if group in self._gone:
                self._counts.delete(_UNPLACED.pack(group, bits))
                self._missed.add(self._published.get(group), bits, events)
        for group in self._gone:
            self._published.pop(group, None)
        self._gone = set()

    def _read_counts(self) -> list[tuple[int, int, int]]:
        """(group, bits that were asked for, events that came before they were known)."""
        return [(*_UNPLACED.unpack(key), _EVENTS.unpack(bytes(value))[0])
                for key, value in (self._counts.items() if self._counts is not None else ())]

    # answers

    def _answer(self, group: int) -> None:
        """Tell the programs what a group is a part of, as far as that is known now."""
        if self._answers is None:
            return
        answers = [self._groups.is_in(kind, text, group) for kind, text in self._wanted]
        now = time.monotonic()
        known = sum([1 << (at if answer else at + UNPLACED_BIT) for at, answer in enumerate(answers)
                     if answer is not False])
        self._published[group] = known
        if known < 1 << UNPLACED_BIT:
            self._waiting.pop(group, None)
        elif now >= self._waiting.setdefault(group, now + PATIENCE):
            known &= (1 << UNPLACED_BIT) - 1
        if known:
            self._answers.update(_GROUP.pack(group), _GROUP.pack(known))
        else:
            self._answers.delete(_GROUP.pack(group))

    # figures

    def count_losses(self, losses: Losses) -> None:
        """Add the events that were taken for others', and the groups that were not seen."""
        missed = Misses(self._missed.certain, self._missed.possible)
        for group, bits, events in self._read_counts():
            missed.add(self._published.get(group), bits, events)
        losses.unplaced += [(self._name_groups(bits), events) for bits, events in missed.certain.items()]
        losses.unnamed += [(self._name_groups(bits), events) for bits, events in missed.possible.items()]
        own = self._session.losses()
        losses.unknown += sum([count for _, count in (*own.records, *own.errors, *own.skipped)])

    def _name_groups(self, bits: int) -> str:
        """The groups that these bits ask for, in words."""
        names = [text or f"any {kind}" for at, (kind, text) in enumerate(self._wanted) if bits >> at & 1]
        return next(iter(dict.fromkeys(names)))

    def close(self) -> None:
        """Take in what is left, stop following; what was learned stays known."""
        for record in self._session.stop():
            self._take_record(*record)
        self._groups.catch_up = int
        self._close_session()

    def _close_session(self) -> None:
        self._session.losses()
        if self._answers is not None:
            self._session.maps.pop("@known", None)  # it is the script's
        self._session.close()
