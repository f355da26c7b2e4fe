"""Maps of Sonde's own that programs and Python share: their names, and what their memory is.

State memory (map ``__state``: one mmapable array element of u64 words)::

    [0, probes)                      records lost to a full data ring, by probe
    [probes, probes + errors)        run-time errors, by ErrorSite
    [probes + errors, + globals)     ScriptSpec.globals, by name, written by the runtime before attaching; those whose
                                     names begin with DISCOVERED are 0 then, until a program finds them out; those of
                                     CALLS count what attach points see by their numbers, while COUNTING is 1: all
                                     their events, then jumps to functions that return for others, then these returns

Budget memory (map ``__budget``, of scripts with a :class:`sonde.spec.Gate`), one slot for each CPU::

    u64            runs that this CPU has in hand, taken from the global ``allowance`` a few at a time
    u64            runs of all programs, whatever became of the event
    u64[probes]    events that found the gate closed, by probe

Flight memory (of scripts compiled for ``--flight``), in place of the data ring. The map ``__flight`` has ``cpus``
regions, each of several segments of ``stride`` bytes, one element per segment. A CPU's bytes are numbered from 0 on,
without end: byte n is in segment (n / stride) modulo the number of a CPU's segments. A record begins with a u64
of its own::

    length         in the lower half: of the record and these eight bytes, FLIGHT_BUSY while it is being written; or of
                   a gap: FLIGHT_GAP
    stamp          in the upper half: number of the record's first byte / 8

A record belongs to the segment in which it begins: the part beyond the segment's end follows directly, in the element's
``value_size`` - ``stride`` bytes of slack. The next segment then begins with a gap of that length. The map ``__heads``
has a slot for each CPU::

    u64 writers    programs that are writing a record, one interrupting the other
    u64 head       number of the first byte that is free
    u64 settled    a number: all records that begin before it are complete

Slots (map ``__slots@x`` of a map ``@x`` whose elements come and go; compiler/lower/maps/slots.py)::

    PURSES times PURSE bytes, of which a u64 each: elements that may still be made; max_entries less those that are
    a power of two of slots of SLOT bytes; of WIDE_SLOT bytes where values have more than eight:
        u64 owner  0: free; or a key + 1, of which the three highest bits are the same, with two of these replaced:
                   neither SLOT_OWNED nor SLOT_WRITTEN: being taken; SLOT_OWNED: the key's element is here;
                   both: and is being written over
        u64 value
        u64 others elements in the hash of keys whose slot this is too
        wide slots have the value here instead, of WIDE_MOST bytes at most

Hot elements (map ``__hot@x`` of an aggregate ``@x``; compiler/lower/maps/hot.py): for each of ``cpus`` CPUs a region of
places of ``stride`` bytes, a power of two of them::

    u64 state      0: free; HOT_TAKING; HOT_TAKEN for good
    ...            the key, filled up to eight bytes
    u64[]          the aggregate's words: what this CPU counted since; the hash has the key too, and what came before

Control groups (maps of scripts that compare a container, pod or service with a name; see ScriptSpec.groups)::

    __groups       u64 id of a group -> u64: bit i, it is a part of what ScriptSpec.groups[i] asks for; bit i + 16, that
                   is not known yet. A group that is not there is a part of none.
    __early        u32[EARLY_SLOTS], by the low bits of an id: the same of groups that were there at the start, whose
                   ids are not above the global ``groups_until``; with EARLY_UNSURE, that __groups knows more
    __unplaced     u64 id, u64 the bits that were asked for -> u64 events for which they were not known

Processes (map of scripts for which ``Options.is_followed``)::

    __family       u64 address of a struct signal_struct -> u64: what the process of -p or -c started, threads apart;
                   with -p and for scripts that ask for ``in_family`` that process itself, too
"""

from __future__ import annotations

STATE = "__state"
SCRATCH = "__scratch"  # how the names of programs' scratch memory begin, which has a part for each CPU
DISCOVERED = "found "
CALLS, COUNTING = "calls ", "counting calls"
STACKS, STACK_RESERVE, BUDGET = "__stacks", "__reserve", "__budget"
PY_IMAGES, PY_MISSES, PY_THREADS = "__pyimages", "__pymisses", "__pythreads"
PY_TASKS = "__pytasks"
PY_FRAMES, PY_TEXTS = "__pyframes", "__pytexts"
PYTHON_FRAME = 2  # the two highest bits of the id of a frame of Python: no address of users or the kernel has them
PYTHON_ENTERED = 1 << 61  # in such an id: C has called the interpreter for the frame, and stands below it
UNWIND_ROWS, UNWIND_FILES, UNWIND_ASKS = "__unwindrows", "__unwindfiles", "__unwindasks"
GROUPS, UNPLACED, UNPLACED_BIT = "__groups", "__unplaced", 16
FAMILY, MOST_PROCESSES = "__family", 1 << 16
EARLY, EARLY_SLOTS, EARLY_UNSURE = "__early", 1 << 14, 1 << 30
MOST_GROUPS = 15  # questions of one script
BUDGET_HEAD = 2  # words of a slot before those of the probes
CURRENT = "__current"  # u64 by CPU: where it keeps the pointer to its current task; 0: that is not known
FLIGHT, HEADS = "__flight", "__heads"
FLIGHT_BUSY, FLIGHT_GAP = 1 << 30, 1 << 29
LEAST_SEGMENT, MOST_SEGMENT = 1 << 16, 1 << 20  # bytes
PURSES, PURSE, SLOT = 16, 64, 32
WIDE_SLOT, WIDE_VALUE, WIDE_MOST = 64, 24, 40  # its bytes, where its value lies and how long that may be
SLOT_OWNED, SLOT_WRITTEN = 1 << 62, 1 << 61
HOT_TAKING, HOT_TAKEN, HOT_KEY = 1, 2, 8  # states of a place; where its key lies
WRITERS, HEAD, SETTLED, HEADS_STRIDE = 0, 8, 16, 64  # offsets in a slot of __heads, and its size


def is_python_frame(address: int) -> bool:
    """Whether a word of a stack is the id of a frame of Python, and no address."""
    return address >> 62 == PYTHON_FRAME
