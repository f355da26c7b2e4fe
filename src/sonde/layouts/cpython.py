"""What is known of CPython's internals: where it keeps threads, frames and code, by version.

Programs that read Python's stacks learn it from an *image*: one element of the map ``__pyimages`` for each running
Python program, made of the words in ``WORDS``. All processes forked from the same execve() share an image.

The offsets were measured by ``offsetof`` against the headers (``Include/internal``) of CPython 3.11.7, 3.12.1, 3.13.0,
3.13.18 and 3.14.10, in builds with the GIL for 64-bit machines; ``tests/unit/kernel/test_cpython.py`` repeats this
where headers are installed. From 3.13 on, a process states most of them itself: ``_Py_DebugOffsets``, at the start of
``_PyRuntime``.
"""

from __future__ import annotations

from struct import Struct as Layout
from sys import byteorder

from ..errors import MachineError

# An image's words, u64 each. Addresses in the process:
#   interpreters   of the pointer to the first interpreter       code_type   of the type of all code objects
# Offsets, in an interpreter, a thread, a frame, a code object:
WORDS = (
    "interpreters", "code_type",
    "interp_next",
    "interp_threads", "interp_id",  # from there on; the id is another number for each
    "thread_next", "thread_interp", "thread_id",
    "thread_frame",    # the innermost frame; before 3.13 that of the C frame which has it
    "thread_status",   # bits; 0: the version has none
    "cframe_frame",    # 1 + where a C frame has the innermost frame; 0: the version has no C frames
    "root_cframe",     # the C frame of a thread that runs no Python
    "frame_code", "frame_previous", "frame_instruction", "frame_owner",
    "frame_entered",   # not 0: C has called the interpreter for this frame; 0: a frame of the C stack follows instead
    "shim_owner",      # from this number on a frame belongs to the C stack and is no function's
    "code_line", "code_file", "code_name", "code_table",
    "code_version",    # u32, another for each code object of an interpreter; 0: the version has none
    "code_bytecode",
    "code_traceable",  # instructions before the first that Python shows: a frame that is there has not begun
    "ascii_size",      # of a str of ASCII characters: bytes before them
    "compact_size",    # of any other
    # of tasks, by which way their threads' lead there:
    "running_task",    # of a thread, from 3.14 on
    "running_loop",    # of a thread, in 3.13; before it is a value of the thread's own dict
    "thread_dict",
    "holder_loop",     # 1 + where in that value the loop is; 0: it is the value
    "modules",         # an interpreter's dict of modules
    "task_name",
    # of the global interpreter lock (GIL):
    "runtime_gil",     # its address; 0: each interpreter may have its own
    "gil",             # where an interpreter has the address of its own
)
OFFSET = {name: 8 * at for at, name in enumerate(WORDS)}
IMAGE_SIZE = 8 * len(WORDS)
IMAGE_KEY = Layout("=QQQ")  # start and end of its code, start of its stack: see proc(5), /proc/PID/stat

OF_GENERATOR = 1            # a frame's owner
BOUND_GILSTATE = 1 << 3     # in a thread's status: it is the one of its OS thread's that ran last
INTERP_READ, THREAD_READ, FRAME_READ, CODE_READ = 96, 176, 80, 200  # bytes of each in which all that matters lies

# Of a str and a bytes object, in every version
TEXT_LENGTH, TEXT_STATE = 16, 32
BYTES_LENGTH, BYTES_START = 16, 32
INT_TAG, INT_SHIFT, INT_DIGITS = 16, 3, 24  # from 3.12 on: how many digits of 30 bits, from that bit on; u32 each
KIND_SHIFT, KIND_BITS, COMPACT, ASCII = 2, 7, 1 << 5, 1 << 6  # in the state

# Of any object, a type, a module, a dict and its table of keys (internal/pycore_dict.h), in every version
TYPE = 8
TYPE_NAME, TYPE_FLAGS, TYPE_BASE, INT_SUBCLASS, TEXT_SUBCLASS = 24, 168, 256, 1 << 24, 1 << 28
MODULE_DICT = 16
DICT_KEYS, DICT_VALUES, DICT_READ = 32, 40, 48
KEYS_INDEX, KEYS_KIND, KEYS_ENTRIES, KEYS_READ = 9, 10, 24, 32  # log2 of the bytes of its index; a number each
# In a GIL (internal/pycore_gil.h), in every version: the thread that holds it, or held it last; whether it is held
# (i32); how often it went from one thread to another; from there to its end, what threads wait on.
GIL_HOLDER, GIL_LOCKED, GIL_SWITCHES, GIL_WAITING, GIL_SIZE = 8, 16, 24, 32, 208
GENERAL = 0  # the kind of keys that are not all str: entries are (hash, key, value), else (key, value)

THREAD_KEY, THREAD = Layout("=QQ"), Layout("=QQ")  # its FS base, where its process's stack begins; it, its interpreter
TASKS_KEY, TASKS = Layout("=QQQ"), Layout("=Q")  # interpreter, where its stack begins, mm; its dict of tasks that run
MISS = Layout("=QQ")  # stacks that were wanted of a program that is not known, and the process

# What is kept of a frame that was seen (map __pyframes, by its id): code, place, line, ascii_size, compact_size.
FRAME_RECORD = Layout("=QqqQQ")
# Texts of a code object (map __pytexts, by its id and the part's number), in parts of so many bytes.
PART_KEY, PART = Layout("=QQ"), 192
FILE_PART, NAME_PART, TABLE_PART = 0, 64, 128  # numbers of the first part of each
MOST_TEXT, MOST_TABLE = 6 * PART, 64 * PART    # bytes of each that are read

_COMMON = {
    "interp_next": 0, "thread_next": 8, "thread_interp": 16, "frame_code": 0, "frame_previous": 8,
    "frame_instruction": 56, "code_line": 68, "code_file": 112, "code_name": 128, "code_table": 136, "code_version": 92,
    "thread_status": 0, "cframe_frame": 0, "root_cframe": 0, "frame_entered": 0, "shim_owner": 3,
    "ascii_size": 40, "compact_size": 56, "runtime_gil": 0,
}
VERSIONS: dict[tuple[int, int], dict[str, int]] = {
    (3, 11): _COMMON | {
        "interpreters": 40, "interp_threads": 16, "interp_id": 48, "thread_id": 152, "thread_frame": 56,
        "cframe_frame": 1 + 8, "root_cframe": 336, "frame_code": 32, "frame_previous": 48, "frame_owner": 69,
        "frame_entered": 68,
        "shim_owner": 256, "code_line": 72, "code_version": 0, "code_bytecode": 184, "code_traceable": 168,
        "ascii_size": 48, "compact_size": 72,
        "modules": 888, "running_loop": 0, "thread_dict": 128, "holder_loop": 17, "running_task": 0, "task_name": 144,
        "runtime_gil": 360, "gil": 0},
    (3, 12): _COMMON | {
        "interpreters": 40, "interp_threads": 72, "interp_id": 8, "thread_id": 136, "thread_frame": 56,
        "thread_status": 24, "cframe_frame": 1 + 0, "root_cframe": 272, "frame_owner": 70, "code_bytecode": 192,
        "code_traceable": 176,
        "modules": 944, "running_loop": 0, "thread_dict": 112, "holder_loop": 0, "running_task": 0, "task_name": 144,
        "gil": 384},
    (3, 13): _COMMON | {
        "interpreters": 632, "interp_next": 7264, "interp_threads": 7344, "interp_id": 7272, "thread_id": 152,
        "thread_frame": 72, "thread_status": 32, "frame_owner": 70, "code_bytecode": 200, "code_traceable": 184,
        "modules": 7656, "running_loop": 304, "thread_dict": 128, "holder_loop": 0, "running_task": 0,
        "task_name": 128, "gil": 16},
    (3, 14): _COMMON | {
        "interpreters": 808, "interp_next": 7272, "interp_threads": 7344, "interp_id": 7280, "thread_id": 152,
        "thread_frame": 72, "thread_status": 32, "frame_owner": 74, "code_bytecode": 208, "code_traceable": 192,
        "modules": 7688, "running_loop": 864, "thread_dict": 0, "holder_loop": 0, "running_task": 872, "task_name": 136,
        "gil": 16},
}

# Where the u64 words of _Py_DebugOffsets are, by what they tell; 3.14 has three words more before the thread's.
COOKIE, DEBUG_OFFSETS = b"xdebugpy", 512  # how it begins, and bytes of it that are read
_FREE_THREADED, _INTERPRETERS = 16, 40
_DEBUG_WORDS = {
    "interp_id": 56, "interp_next": 64, "interp_threads": 72, "modules": 88, "gil": 112,
    "thread_next": 168, "thread_interp": 176, "thread_frame": 184, "thread_id": 192, "thread_status": 216,
    "frame_previous": 232, "frame_code": 240, "frame_instruction": 248, "frame_owner": 264,
    "code_file": 280, "code_name": 296, "code_table": 304, "code_line": 312, "code_bytecode": 344,
}
_MORE_WORDS = {(3, 13): (0, 0, 0), (3, 14): (1, 3, 5)}  # before the GIL's, the thread's, the code's

_LIMITS = {"interp": INTERP_READ - 8, "thread": THREAD_READ - 8, "frame": FRAME_READ - 8, "code": CODE_READ - 8}
_BEYOND = {"code_bytecode": 1 << 10, "frame_owner": FRAME_READ - 1, "interp_next": 1 << 20}


def find_offsets(version: int, debug: bytes) -> dict[str, int]:
    """The offsets of an interpreter, by its hexadecimal version and the first bytes of its ``_PyRuntime``.

    ``interpreters`` is the offset in ``_PyRuntime``. MachineError if they are not known.
    """
    release = version >> 24, version >> 16 & 0xFF
    known = VERSIONS.get(release)
    if release < (3, 11):
        raise MachineError("it is older than Python 3.11")
    if known is None:
        raise MachineError(f"Python {release[0]}.{release[1]} keeps its frames in a way that is not known here")
    if release < (3, 13):
        return known
    if debug[:8] != COOKIE or len(debug) < DEBUG_OFFSETS:
        raise MachineError("its _PyRuntime does not begin with _Py_DebugOffsets")
    if _word_at(debug, _FREE_THREADED):
        raise MachineError("it is a build without the GIL, which keeps its bytecode in another way")
    declared = {name: _word_at(debug, at + 8 * _words_before(release, name)) for name, at in _DEBUG_WORDS.items()}
    offsets = known | declared | {"interpreters": _word_at(debug, _INTERPRETERS)}
    for name, offset in offsets.items():
        first = offsets["interp_next"] if name in ("interp_threads", "interp_id") else 0
        most = _BEYOND.get(name) or _LIMITS.get(name.partition("_")[0], 1 << 20)
        if not first <= offset <= first + most:
            raise MachineError(f"its _Py_DebugOffsets are damaged: {name} is {offset}")
    return offsets


def _word_at(data: bytes, at: int) -> int:
    return int.from_bytes(data[at:at + 8], byteorder)


def _words_before(release: tuple[int, int], name: str) -> int:
    gil, thread, code = _MORE_WORDS[release]
    return {"gil": gil, "modules": gil, "thread": thread, "frame": thread, "code": code}.get(name.partition("_")[0], 0)


def pack_image(offsets: dict[str, int], runtime: int, code_type: int) -> bytes:
    """The words of an image whose ``_PyRuntime`` and ``PyCode_Type`` lie at these addresses."""
    start, lock = offsets["interp_next"], offsets["runtime_gil"]
    words = offsets | {"interpreters": runtime + offsets["interpreters"], "code_type": code_type,
                       "runtime_gil": runtime + lock if lock else 0,
                       "interp_threads": offsets["interp_threads"] - start, "interp_id": offsets["interp_id"] - start}
    return b"".join([words[name].to_bytes(8, byteorder) for name in WORDS])


# --- what was read --------------------------------------------------------------------------------------------


def decode_text(raw: bytes, ascii_size: int, compact_size: int) -> str | None:
    """The text of a str object, of which the first bytes were read; None if it is no such object."""
    if len(raw) < compact_size:
        return None
    length, state = _word_at(raw, TEXT_LENGTH), _word_at(raw, TEXT_STATE) & 0xFFFFFFFF
    kind = state >> KIND_SHIFT & KIND_BITS
    encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}.get(kind)
    if encoding is None or not state & COMPACT:
        return None
    head = ascii_size if state & ASCII else compact_size
    text = raw[head:min(head + length * kind, MOST_TEXT)].decode(encoding, "replace")
    return text + "..." if len(text) < length else text


def find_line(table: bytes, offset: int, first_line: int) -> int:
    """The line of an instruction, ``offset`` bytes into a function's code, by its co_linetable (a bytes object of which
    the first bytes were read); 0 if there is none. The format: Objects/locations.md of CPython 3.11."""
    if offset < 0:
        return max(first_line, 0)
    entries = table[BYTES_START:BYTES_START + _word_at(table, BYTES_LENGTH)]
    at, line, covered = 0, first_line, 0
    while at < len(entries):
        code, units = entries[at] >> 3 & 15, (entries[at] & 7) + 1
        at += 1
        if code in (13, 14):
            delta, at = _signed_varint(entries, at)
        else:
            delta = code - 10 if code in (10, 11, 12) else 0
        line += delta
        covered += 2 * units
        if offset < covered:
            return line if code != 15 and 0 < line < 1 << 31 else 0
        at = _skip_columns(entries, at, code)
    return 0


def _skip_columns(entries: bytes, at: int, code: int) -> int:
    if code == 14:
        for _ in range(3):
            _, at = _varint(entries, at)
        return at
    return at + (1 if code < 10 else 2 if code < 13 else 0)


def _varint(entries: bytes, at: int) -> tuple[int, int]:
    """Six bits a byte, the lowest first; (number, place after it)."""
    value = shift = 0
    while at < len(entries):
        byte = entries[at]
        at += 1
        value |= (byte & 63) << min(shift, 64)
        shift += 6
        if not byte & 64:
            break
    return value, at


def _signed_varint(entries: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(entries, at)
    return (-(value >> 1) if value & 1 else value >> 1), at
