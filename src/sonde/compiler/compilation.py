"""The script being compiled: tables that all of its programs share."""

from __future__ import annotations

from ..errors import UsageError
from ..kinds import KINDS
from ..layouts import cpython as py
from ..layouts import unwind_format
from ..layouts.c_library_texts import TEXT_BYTES
from ..layouts.event_records import CONTROL_RING, DATA_RING
from ..layouts.shared_maps import (
    BUDGET,
    BUDGET_HEAD,
    CURRENT,
    EARLY,
    EARLY_SLOTS,
    FAMILY,
    FLIGHT,
    GROUPS,
    HEADS,
    HEADS_STRIDE,
    HOT_KEY,
    LEAST_SEGMENT,
    MOST_PROCESSES,
    MOST_SEGMENT,
    PY_FRAMES,
    PY_IMAGES,
    PY_MISSES,
    PY_TASKS,
    PY_TEXTS,
    PY_THREADS,
    STACK_RESERVE,
    STACKS,
    STATE,
    UNPLACED,
    UNWIND_ASKS,
    UNWIND_FILES,
    UNWIND_ROWS,
)
from ..layouts.uapi import BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, BPF_F_RDONLY_PROG
from ..semantics.filled_maps import rebuilt_maps
from ..semantics.typed import CheckedScript, ScriptMap
from ..semantics.world import World
from ..source import Span
from ..spec import Attach, Config, ErrorSite, EventSite, MapSpec
from ..types import Aggregate, Int, Scalar, Str, Tuple, Type, round_up
from .ir import MapAddr
from .slot_keys import slot_table, slotted_maps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Up to here a keyed map's elements are all made when the map is: an insert then fails only where the map is full.
PREALLOCATED_BYTES = 16 << 20
MOST_STACKS = 65536
HOT_KEYS, HOT_SLOTS, HOT_BYTES = 64, 256, 16 << 10  # bytes of a key; slots and bytes of a CPU's region
HOT_SHARE = 8  # of the keys of a map that is cleared, one in so many may be hot
# The kernel's limit for a plain element: KMALLOC_MAX_SIZE (4 MiB), with room for the key and its header.
LARGEST_VALUE = 3 << 20
# Copies of a histogram in an element, powers of two: more CPUs share them. Beyond the fewest they have so many bytes.
MOST_COPIES, FEW_COPIES, COPIES_BYTES = 16, 4, 64 << 10
DECLARED = {"hash": "hash", "lruhash": "lru_hash", "percpuhash": "percpu_hash", "percpulruhash": "lru_percpu_hash"}
ZERO, LOG2 = "__zero", "__log2"
SHORT = 64  # bytes of a string in a short key
MOST_CGROUPS = 16384  # that are a part of what a script asks for, or of which that is not known
STACK_FRAMES = 127  # PERF_MAX_STACK_DEPTH
# How functions and tracepoints of the kernel's allocator begin, after underscores.
ALLOCATOR = ("kmalloc", "kmem_cache_", "kfree", "kvmalloc", "slab_alloc", "alloc_pages", "free_pages", "mm_page_",
             "percpu_")
MOST_TABLED = 18  # maps of a script whose maps have tables beside them: a program uses 64 at most (MAX_USED_MAPS)


def is_of_allocator(point: Attach) -> bool:
    """Whether the events of an attach point may come from allocating memory for a map."""
    return not KINDS[point.kind].user and point.event.lstrip("_").startswith(ALLOCATOR)


def region_count(cpus: int) -> int:
    """How many parts memory with a part for each CPU has: a power of two, so that a mask proves the index to the
    verifier."""
    return 1 << (cpus - 1).bit_length()


class Unit:
    """Maps, sites, error counters and globals, collected while the programs are lowered."""

    def __init__(self, checked: CheckedScript, world: World) -> None:
        self.checked = checked
        self.world = world
        self.config: Config = checked.config
        self.options = checked.options
        self.maps: dict[str, MapSpec] = {}
        self.sites: list[EventSite] = []
        self.errors: list[ErrorSite] = []
        self.error_index: dict[tuple[object, ...], int] = {}
        self.groups: list[tuple[str, str]] = []
        self.probes: list[str] = []  # names of the attach points, by program; see pipeline.py
        self.globals: list[str] = []
        self.uncounted: set[tuple[int, type]] = set()  # attach points with contexts: see counted_calls.py
        self.global_refs: list[tuple[str, MapAddr]] = []
        self.zero_size = 8
        self.stops_at_exit = False  # exit() or assert() is called where events may still follow
        self.sends_data = False  # some program writes to the data ring
        self.uses_data_ring = False
        self.uses_control_ring = False
        self.short_loops: dict[int, bool] = {}  # loops that stay loops, by the id of their node: lower/control/loops.py
        self._features: dict[str, bool] = {}
        self.allocates = self.feature("map_allocation") and not any(
            is_of_allocator(point) for probe in checked.probes for point in probe.attach)
        facts = [probe.facts for probe in checked.probes]
        self.observed, self.cleared, self.replaced = [
            {name for each in facts for name in getattr(each, fact)} for fact in ("observed", "cleared", "replaced")]
        self.rebuilt = rebuilt_maps(checked.probes)
        self.counts_frames = any(each.counts_frames for each in facts)
        self.tabled = self.feature("atomic_fetch") and len(checked.maps) <= MOST_TABLED
        self.slotted, self.shared_slots = slotted_maps(checked, world) if self.tabled else (set[str](), set[str]())
        for info in checked.maps.values():
            self.maps[info.name] = self.map_spec(info)

    def feature(self, name: str) -> bool:
        """World.feature, asked once."""
        if name not in self._features:
            self._features[name] = self.world.has_feature(name)
        return self._features[name]

    # maps

    def script_name(self, map: str) -> str:
        """The name that the script knows a map by."""
        return "@" + map.partition("@")[2] if "@" in map else map

    def map_spec(self, info: ScriptMap) -> MapSpec:
        value = info.value
        aggregate = isinstance(value, Aggregate)
        observed = info.read or info.name in self.observed
        if info.key is None:
            cpus = self.world.cpus if aggregate else 1
            counts = isinstance(value, Aggregate) and value.kind != "sum"  # zeros say that there is nothing
            marker = 0 if counts else round_up(value.size, 8)
            stride = round_up(marker + 8 if marker else value.size, 64 if cpus > 1 else 8)
            return MapSpec(info.name, "array", 4, cpus * stride, 1, BPF_F_MMAPABLE, None, value, memory=True, cpus=cpus,
                           stride=stride, marker=marker, read_in_kernel=observed, span=info.span, at_end=info.at_end,
                           about=info.about, rebuilt=info.name in self.rebuilt)
        type = DECLARED.get(info.kind, "percpu_hash" if aggregate else "hash")
        if aggregate and "percpu" not in type:
            type = "lru_percpu_hash" if type == "lru_hash" else "percpu_hash"
        # clear() leaves the keys of an aggregate in place for another interval: see runtime/maps/access.py
        entries = info.entries or self.config.max_map_keys * (2 if aggregate and info.name in self.cleared else 1)
        spec = MapSpec(info.name, type, info.key.size, round_up(value.size, 8), entries, 0, info.key, value,
                       read_in_kernel=observed, span=info.span, labels=info.labels, at_end=info.at_end,
                       fixed=bool(info.entries and not info.unit), about=info.about,
                       adds=isinstance(value, Int) and info.name not in self.replaced,
                       rebuilt=info.name in self.rebuilt)
        self.make_room(spec, info.on_demand)
        if info.name in self.slotted:
            table = slot_table(spec, self.world.cpus, info.name in self.shared_slots)
            spec.slots, self.maps[table.name] = table.name, table
        small = short_type(info.key)
        if small != info.key and type in ("hash", "percpu_hash"):
            spec.short = "__short" + info.name
            short = MapSpec(spec.short, spec.type, small.size, spec.value_size, entries, 0, small, value,
                            cpus=spec.cpus, stride=spec.stride, adds=spec.adds, read_in_kernel=observed, span=info.span)
            short.flags = self.flags_for(self.element_bytes(short) * entries)
            self.maps[spec.short] = short
        self.make_hot(self.maps[spec.short] if spec.short else spec)
        return spec

    def element_bytes(self, spec: MapSpec) -> int:
        return spec.key_size + spec.value_size * (self.world.cpus if "percpu" in spec.type else 1)

    def make_room_on_demand(self, spec: MapSpec) -> None:
        """Let a map whose capacity far exceeds the usual number of objects take memory as keys come. Where the kernel
        cannot do that, limit it to what may be taken at once (an element's head has 48 bytes: kernel/bpf/hashtab.c)."""
        if self.allocates:
            spec.flags = BPF_F_NO_PREALLOC
        else:
            most = PREALLOCATED_BYTES // (48 + round_up(spec.key_size, 8) + spec.value_size)
            spec.max_entries = min(spec.max_entries, most)

    def make_room(self, spec: MapSpec, on_demand: bool = False) -> None:
        """Choose where the elements of a map with keys come from, by how large all of them would be.

        A program cannot wait for memory. The kernel hands out plain elements from a cache that it refills soon; for
        per-CPU elements it has a few free pages, and several dozen inserts of a histogram in a row fail with ENOMEM
        (mm/percpu.c: atomic allocations only use pages that are there). Large aggregates are therefore *slotted*: plain
        elements with a slot for each CPU. So are those that programs read, where they cannot read other CPUs' elements.
        Histograms have at most MOST_COPIES slots, which CPUs with the same last bits of their numbers share: an element
        with one for each of 256 CPUs has 130 KB at least, all of which a new key clears and every reading adds up, and
        the kernel keeps one in store for each CPU.
        """
        total = self.element_bytes(spec) * spec.max_entries
        large = not spec.type.startswith("lru") and total > PREALLOCATED_BYTES
        if on_demand and spec.type == "hash":
            self.make_room_on_demand(spec)
        elif large:
            spec.flags = self.flags_for(total)
        if not isinstance(spec.value, Aggregate) or \
                not large and not (spec.read_in_kernel and not self.feature("map_lookup_percpu_elem")):
            return
        copies = self.copies(spec.value, spec.value_size)
        if spec.value_size * copies <= LARGEST_VALUE:
            spec.type, spec.cpus, spec.stride, spec.value_size = \
                spec.type.replace("percpu_", ""), copies, spec.value_size, spec.value_size * copies

    def copies(self, value: Aggregate, size: int) -> int:
        """How many slots an element of values of ``size`` bytes has: one for each CPU, or fewer that CPUs share."""
        cpus = self.world.cpus
        if not value.row.buckets or cpus <= MOST_COPIES and size * cpus <= LARGEST_VALUE:
            return cpus
        copies = MOST_COPIES
        while copies > FEW_COPIES and size * copies > COPIES_BYTES or \
                copies > 1 and (copies > cpus or size * copies > LARGEST_VALUE):
            copies //= 2
        return copies

    def shares_slots(self, name: str) -> bool:
        """Whether CPUs share the slots of a map's elements, so that only atomic operations may change them."""
        spec = self.maps[name]
        return bool(spec.stride) and spec.cpus < self.world.cpus and isinstance(spec.value, Aggregate)

    def flags_for(self, size: int) -> int:
        """Of a hash whose elements have ``size`` bytes in all: large ones get their memory when they need it.

        Before Linux 6.1 it came from kmalloc(), in whose middle a program may run: there the kernel refuses such maps
        to programs of perf events, and puts a warning into its log for all others (check_map_prog_compatibility() in
        kernel/bpf/verifier.c). Since then it is refilled in an interrupt in the middle of the program, where a program
        that sees allocations would miss those (bpf_mem_refill() in kernel/bpf/memalloc.c).
        """
        return BPF_F_NO_PREALLOC if size > PREALLOCATED_BYTES and self.allocates else 0

    def make_hot(self, spec: MapSpec) -> None:
        """Give an aggregate hot elements, if programs only add to it. Of a map that is cleared the keys of hot elements
        stay, so it gets room for them; they are few."""
        name = self.script_name(spec.name)
        adds = isinstance(spec.value, Aggregate) and spec.value.row.additive and not spec.read_in_kernel
        is_small = spec.type == "percpu_hash" and spec.key_size <= HOT_KEYS
        if not (adds and self.tabled and is_small):
            return
        stride = HOT_KEY + round_up(spec.key_size, 8) + spec.value_size
        regions = region_count(self.world.cpus)
        most = min(HOT_BYTES // stride, HOT_SLOTS)
        if name in self.cleared:
            most = min(most, spec.max_entries // HOT_SHARE // regions)
        slots = 1 << most.bit_length() - 1 if most else 0
        entries = spec.max_entries + slots * regions if name in self.cleared else spec.max_entries
        if slots > 1 and (entries == spec.max_entries or
                           not spec.fixed and self.element_bytes(spec) * entries <= PREALLOCATED_BYTES):
            spec.hot, spec.max_entries = "__hot" + name, entries
            self.maps[spec.hot] = MapSpec(spec.hot, "array", 4, regions * slots * stride, 1, BPF_F_MMAPABLE,
                                          cpus=regions, stride=stride)

    def internal(self, name: str, make: Callable[[], MapSpec]) -> str:
        """The internal map ``name``, made when first asked for."""
        if name not in self.maps:
            self.maps[name] = make()
        return name

    def zero(self, size: int) -> MapAddr:
        """``size`` bytes of zeros that programs can point helpers at."""
        self.zero_size = max(self.zero_size, size)
        self.internal(ZERO, lambda: MapSpec(ZERO, "array", 4, 8, 1, BPF_F_RDONLY_PROG))
        return MapAddr(ZERO)

    def current_tasks(self) -> MapSpec:
        """The table of where each CPU keeps the pointer to its current task; the runtime fills it in."""
        cpus = region_count(self.world.cpus)
        return self.maps[self.internal(CURRENT, lambda: MapSpec(
            CURRENT, "array", 4, 8 * cpus, 1, BPF_F_MMAPABLE, cpus=cpus))]

    def log2_table(self) -> str:
        """256 bytes: floor(log2(i)) at i."""
        table = bytes([max(i.bit_length() - 1, 0) for i in range(256)])
        return self.internal(LOG2, lambda: MapSpec(LOG2, "array", 4, 256, 1, BPF_F_RDONLY_PROG, initial=table))

    def text_table(self, name: str, texts: list[str]) -> str:
        """The texts, of TEXT_BYTES each."""
        table = b"".join([text.encode()[:TEXT_BYTES - 1].ljust(TEXT_BYTES, b"\0") for text in texts])
        own = f"__{name}"
        return self.internal(own, lambda: MapSpec(own, "array", 4, len(table), 1, BPF_F_RDONLY_PROG, initial=table))

    def stacks(self) -> str:
        """Frames by id: u64 each, innermost first, zero after the last."""
        element = 8 + 8 * STACK_FRAMES
        entries = MOST_STACKS if self.allocates else PREALLOCATED_BYTES // element
        return self.internal(STACKS, lambda: MapSpec(
            STACKS, "hash", 8, 8 * STACK_FRAMES, entries, self.flags_for(entries * element)))

    def stack_reserve(self) -> str:
        """Room for stacks that the kernel has no element for at the moment.

        Elements of more than 256 bytes that are not preallocated come from a cache of each CPU that begins with one and
        is refilled in an interrupt (kernel/bpf/memalloc.c). Where interrupts are off, as when tasks are switched, the
        second new stack of a CPU's first event would find it empty.
        """
        return self.internal(STACK_RESERVE, lambda: MapSpec(STACK_RESERVE, "hash", 8, 8 * STACK_FRAMES, 1024))

    def python_images(self) -> str:
        """What user space knows of the interpreters of running programs; see :mod:`sonde.layouts.cpython`."""
        return self.internal(PY_IMAGES, lambda: MapSpec(PY_IMAGES, "hash", py.IMAGE_KEY.size, py.IMAGE_SIZE, 4096))

    def python_misses(self) -> str:
        """Of programs that are not among them: how many Python stacks were wanted, and of which process."""
        return self.internal(PY_MISSES, lambda: MapSpec(PY_MISSES, "lru_hash", py.IMAGE_KEY.size, py.MISS.size, 8192))

    def python_threads(self) -> str:
        """Where threads that were found lie: the next time it has only to be seen whether they are still there."""
        return self.internal(PY_THREADS, lambda: MapSpec(PY_THREADS, "lru_hash", py.THREAD_KEY.size, py.THREAD.size,
                                                         16384))

    def python_tasks(self) -> str:
        """Where the interpreters whose tasks were looked for have the dict of those that run."""
        return self.internal(PY_TASKS, lambda: MapSpec(PY_TASKS, "lru_hash", py.TASKS_KEY.size, py.TASKS.size, 4096))

    def python_frames(self) -> str:
        """Python frames by id. Elements are there before they are needed, which may be where interrupts are off; those
        that were noted longest ago go first."""
        return self.internal(PY_FRAMES, lambda: MapSpec(PY_FRAMES, "lru_hash", 8, py.FRAME_RECORD.size, 1 << 16))

    def python_texts(self) -> str:
        """The texts of their code; see :meth:`python_frames`."""
        return self.internal(PY_TEXTS, lambda: MapSpec(PY_TEXTS, "lru_hash", py.PART_KEY.size, py.PART, 1 << 15))

    def unwind_rows(self) -> str:
        """Unwind tables, sorted and packed; see :mod:`sonde.layouts.unwind_format`."""
        return self.internal(UNWIND_ROWS, lambda: MapSpec(
            UNWIND_ROWS, "array", 4, unwind_format.ROW.size * self.options.unwind_rows, 1, BPF_F_MMAPABLE))

    def unwind_files(self) -> str:
        """Where in them the rows of each file are."""
        return self.internal(UNWIND_FILES, lambda: MapSpec(
            UNWIND_FILES, "hash", unwind_format.FILE_KEY.size, unwind_format.FILE.size, unwind_format.MOST_FILES))

    def unwind_asks(self) -> str:
        """The ring through which programs ask for files."""
        return self.internal(UNWIND_ASKS, lambda: MapSpec(UNWIND_ASKS, "ringbuf", 0, 0, unwind_format.ASKS_BYTES))

    def budget(self) -> MapSpec:
        """Each CPU's share of what --budget allows, and what was held back: see layouts/shared_maps.py."""
        stride = round_up(8 * (BUDGET_HEAD + len(self.probes)), 64)
        name = self.internal(BUDGET, lambda: MapSpec(
            BUDGET, "array", 4, self.world.cpus * stride, 1, BPF_F_MMAPABLE, cpus=self.world.cpus, stride=stride))
        self.globals += [word for word in ("gate", "allowance") if word not in self.globals]
        return self.maps[name]

    @property
    def segment(self) -> int:
        """Bytes of a segment of flight memory: a power of two."""
        return min(max(self.options.flight // 16, LEAST_SEGMENT), MOST_SEGMENT)

    def flight(self, record: int) -> MapSpec:
        """The memory that records are kept in, with room for one of so many bytes after each segment."""
        if record > self.segment // 2:
            raise UsageError(f"--flight: a record of {record} bytes is too large for so little memory: "
                             f"{self.segment // 2} at most", ["give it more (--flight 30s,64M), or lower max_strlen"])
        segments = self.options.flight // self.segment
        self.internal(HEADS, lambda: MapSpec(HEADS, "array", 4, self.world.cpus * HEADS_STRIDE, 1, BPF_F_MMAPABLE))
        self.internal(FLIGHT, lambda: MapSpec(
            FLIGHT, "array", 4, 0, self.world.cpus * segments, BPF_F_MMAPABLE, cpus=self.world.cpus,
            stride=self.segment))
        memory = self.maps[FLIGHT]
        memory.value_size = max(memory.value_size, self.segment + round_up(record, 64))
        return memory

    def number_group(self, kind: str, text: str) -> int:
        """The number of a question about the task's control group: see layouts/shared_maps.py."""
        self.internal(GROUPS, lambda: MapSpec(GROUPS, "hash", 8, 8, MOST_CGROUPS))
        self.internal(UNPLACED, lambda: MapSpec(UNPLACED, "hash", 16, 8, MOST_CGROUPS))
        self.internal(EARLY, lambda: MapSpec(EARLY, "array", 4, 4 * EARLY_SLOTS, 1, BPF_F_MMAPABLE))
        if (kind, text) not in self.groups:
            self.groups.append((kind, text))
        return self.groups.index((kind, text))

    def family(self) -> str:
        """What the process of -p or -c has started: see layouts/shared_maps.py."""
        return self.internal(FAMILY, lambda: MapSpec(FAMILY, "hash", 8, 8, MOST_PROCESSES))

    def ring(self, control: bool) -> str:
        if control:
            self.uses_control_ring = True
            return CONTROL_RING
        self.uses_data_ring = True
        return DATA_RING

    # state memory

    def lost(self, probe: int) -> MapAddr:
        """Counter of the records that attach point ``probe`` lost."""
        return MapAddr(STATE, 8 * probe)

    def error(self, kind: str, span: Span | None, helper: str = "", map: str = "") -> MapAddr:
        """Counter of one kind of failure at one place."""
        key = (kind, span, helper, map)
        if key not in self.error_index:
            self.error_index[key] = len(self.errors)
            self.errors.append(ErrorSite(kind, span, helper, map))
        return MapAddr(STATE, 8 * (len(self.probes) + self.error_index[key]))

    def global_word(self, name: str) -> MapAddr:
        """A word that the runtime writes before attaching; its offset is known after lowering."""
        if name not in self.globals:
            self.globals.append(name)
        address = MapAddr(STATE, 0)
        self.global_refs.append((name, address))
        return address

    def site(self, site: EventSite) -> int:
        self.sites.append(site)
        return len(self.sites) - 1

    def finish(self, ring_room: int) -> list[MapSpec]:
        """Fix what depended on the whole script; the maps in order of creation. ``ring_room``: bytes of the data ring
        that are enough; 0: as many as there is memory for."""
        first = len(self.probes) + len(self.errors)
        for name, address in self.global_refs:
            address.off = 8 * (first + self.globals.index(name))
        if ZERO in self.maps:
            self.maps[ZERO].value_size = round_up(self.zero_size, 8)
        words = max(1, first + len(self.globals))
        if self.options.flight and FLIGHT not in self.maps:  # a script that sends nothing: its dumps are its maps
            self.flight(0).max_entries = self.world.cpus
        maps = list(self.maps.values())
        maps.append(MapSpec(STATE, "array", 4, 8 * words, 1, BPF_F_MMAPABLE))
        if self.uses_data_ring:
            maps.append(MapSpec(DATA_RING, "ringbuf", 0, 0, ring_room))
        if self.uses_control_ring:
            maps.append(MapSpec(CONTROL_RING, "ringbuf", 0, 0, 0))
        return maps


def short_type(type: Type) -> Type:
    """A key's type with 64 bytes for each longer string."""
    if isinstance(type, Str) and type.capacity > SHORT:
        return Str(SHORT)
    if isinstance(type, Tuple):
        return Tuple(tuple([short_type(part) for part in type.of]), type.names)
    return type


def is_scalar(type: Type | None) -> bool:
    """Whether a value of the type fits a register."""
    return isinstance(type, Scalar)
