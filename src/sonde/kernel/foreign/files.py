"""Foreign files as the rest of Sonde sees them: the reader answers what they are asked, and some answers are kept."""

from __future__ import annotations

import os
from sys import getsizeof

from ...arch import NARROW_MACHINES
from ...base.fast_stdlib import bisect_right
from ...base.memory_budget import Cache, Memory
from ...base.record import Record
from ...errors import MachineError
from ...layouts.unwind_format import ROW
from ...spec import (
    Inlined,
    SourceLine,
    SourceLines,
    UsdtArgument,
    UsdtProbe,
    UserFunction,
    UserPlace,
    UserPrototype,
)
from ...types import Struct, StructField, Type
from .. import places
from ..names import symbol_store
from ..notices import show_notice
from . import readable_names, reader
from .opening import Stamp, name_member, open_regular, read_start, split_member, stamp_of_file, stamp_of_path
from .questions import QUESTIONS
from .reader import ReaderError
from .symbol_table import Row, function_in
from .types_by_wire import unpack_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...base.json_checks import Json

PT_LOAD = 1
MOST_ENTRIES = 1 << 24  # of an .eh_frame
OPEN = 48             # files whose descriptors are kept; others are reopened when needed
MOST_FUNCTIONS = 250_000  # of a file, when all of them are wanted
MOST_NAMES = 32 << 20     # characters of their names


class FrameRow(Record):
    """The rule for an address: the canonical frame address and where the caller's registers are.

    ``cfa`` is (register, offset) or an expression; rules are ("offset", n), ("value", n), ("register", r),
    ("expression", bytes), ("value expression", bytes), ("undefined", 0). ``signal``: it is a signal's frame.
    """

    cfa: Any
    rules: dict[int, tuple[str, Any]]
    signal: bool
    return_register: int


class FunctionBlock(Record):
    """All functions that matter for the addresses from ``low`` to ``high``."""

    low: int
    high: int
    rows: list[Row]
    starts: list[int]


class ForeignFile:
    """A file as it was when it was first seen, by a path that leads to it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.stamp = stamp_of_file(path, descriptor)
        self.problem = ""        # why it is not asked about any more
        self.debug_problem = ""  # the same for its debug information alone
        self._descriptor = descriptor
        self._debug: ElfFile | None = None
        self._lows: list[int] = []
        self._blocks: list[FunctionBlock] = []  # in order; each begins at one of _lows
        self._frames: dict[int, FrameRow | None] = {}
        self._places: dict[int, list[tuple[str, str, int]]] = {}

    # asking

    def ask_reader(self, question: str, *arguments: Json) -> Any:
        """See reader.ask. A file over which the reader was ended is not asked about again; a notice says so once."""
        debug = QUESTIONS[question].debug
        if problem := self.problem or debug and self.debug_problem:
            raise ReaderError(problem)
        descriptors = [file.open_descriptor() for file in (self, self._debug) if file is not None]
        try:
            return reader.ask_shared_reader(question, name_member(self.path), descriptors, *arguments)
        except ReaderError as unread:
            what = f"the debug information of {self.path}" if debug else self.path
            problem = f"{what} is not read: {unread.message}"
            if debug:
                self.debug_problem = problem
            else:
                self.problem = problem
            if unread.costly and (owner := os.fstat(descriptors[0]).st_uid):
                _strikes[owner] = _strikes.get(owner, 0) + 1
            show_notice(f"WARNING: {problem}")
            raise ReaderError(problem) from None

    def open_descriptor(self) -> int:
        """An open descriptor; MachineError if the file is gone."""
        if self._descriptor < 0:
            self._descriptor = self._reopen_file()
        _keep_open(self)
        return self._descriptor

    def _reopen_file(self) -> int:
        descriptor = open_regular(self.path)
        if stamp_of_file(self.path, descriptor) != self.stamp:
            os.close(descriptor)
            raise MachineError(f"{self.path} has changed")
        return descriptor

    def close(self) -> None:
        """Close the descriptor; the file is reopened when needed."""
        _open.pop(self, None)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # functions

    def function_block(self, address: int, question: str) -> FunctionBlock:
        """The functions around an address."""
        at = bisect_right(self._lows, address) - 1
        if at >= 0 and address < self._blocks[at].high:
            return self._blocks[at]
        low, high, functions = self.ask_reader(question, address)
        rows = [(start, size, name) for start, size, name in functions]
        block = FunctionBlock(low, high, rows, [row[0] for row in rows])
        if not low <= address < high or block.starts != sorted(block.starts):
            raise MachineError(f"{self.path}: senseless answer")
        self._lows.insert(at + 1, low)
        self._blocks.insert(at + 1, block)
        self._account_kept(sum([_ROW + getsizeof(row[2]) for row in rows]))
        return block

    def _account_kept(self, size: int) -> None:
        """Account for this many more bytes of its contents that are kept. A file with too many of them starts
        afresh."""
        if self not in _contents:
            _contents.put(self, self, 0)
        _contents.grow(self, size)
        if _contents.size_of(self) > _contents.most * 3 // 4:
            self.forget_contents()

    def forget_contents(self) -> None:
        """Drop the contents that are kept."""
        _contents.drop(self)

    def clear_contents(self) -> None:
        """Note that it is not kept any more."""
        self._lows, self._blocks, self._frames, self._places = [], [], {}, {}


class JitMap(ForeignFile):
    """/tmp/perf-PID.map, in which a run-time compiler lists its functions, as it was when it was opened."""

    def function_at(self, address: int) -> tuple[str, int] | None:
        """(name, offset into it) of the function at an address of the process."""
        block = self.function_block(address, "jit_around")
        return function_in(block.rows, block.starts, address)

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.stamp[2]

    def _reopen_file(self) -> int:
        raise MachineError(f"{self.path} was closed")


class ElfFile(ForeignFile):
    """An ELF file. MachineError if it is not one."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._gone = False  # only what the symbol store has of it can be asked
        self.was_kept = False  # its symbols have been stored, or cannot be
        self._sought = False  # a debug file, in the store and elsewhere
        super().__init__(path, descriptor)
        (self.type, self.machine, segments, build_id, self._has_symbols, self.has_debug_info,
         self._debug_link) = self.ask_reader("describe")
        self.build_id = bytes.fromhex(build_id)
        self._loads = [(address, address + size, offset) for kind, _, offset, address, size, _ in segments
                       if kind == PT_LOAD]
        if not (self._has_symbols and self.has_debug_info):
            self._debug = self._find_debug_file()
        if self._debug is None and not self._has_symbols:
            self._debug = self._open_stored(symbol_store.open_debug_file, symbol_store.open_symbols)
        self._functions: list[UserFunction] | None = None
        self._indirect: list[tuple[str, int]] | None = None
        self.hazards: tuple[str, dict[int, str]] | None = None  # see kernel.names.returns

    @property
    def bits(self) -> int:
        """Of an address: 64, or 32 of a 32-bit program or library."""
        return 32 if self.machine in NARROW_MACHINES else 64

    @property
    def kept_bytes(self) -> int:
        """Bytes that remembering it takes, without its contents."""
        return _FILE + 2 * getsizeof(self.path) + _ROW * len(self._loads)

    def address_to_offset(self, address: int) -> int | None:
        """File offset of a virtual address; None if it is not in the file."""
        return next((address - low + offset for low, high, offset in self._loads if low <= address < high), None)

    def offset_to_address(self, offset: int) -> int | None:
        """Virtual address of a file offset; None if it is not loaded."""
        return next((offset - start + low for low, high, start in self._loads
                     if start <= offset < start + high - low), None)

    def function_at(self, address: int) -> tuple[str, int] | None:
        """(name, offset into it) of the function that contains a virtual address."""
        block = self.function_block(address, "around")
        symbol = function_in(block.rows, block.starts, address)
        if symbol is None and not (self._has_symbols or self._debug or self._sought) and self._fetch_debug_file():
            block = self.function_block(address, "around")
            symbol = function_in(block.rows, block.starts, address)
        return symbol

    def functions(self) -> list[UserFunction]:
        """Functions in this file, from debug files too, in order of address and name, each once."""
        if self._functions is None:
            self._functions = self._read_functions()
        return self._functions

    def indirect_functions(self) -> list[tuple[str, int]]:
        """(name, address of its resolver) of the functions whose code is chosen when the file is loaded."""
        if self._indirect is None:
            self._indirect = [(name, address) for name, address in self.ask_reader("indirect_functions")]
        return self._indirect

    def indirect_slots(self, names: list[str]) -> list[tuple[int, int, str]]:
        """Where the loader writes down what it chose: see foreign.indirect."""
        return [(slot, resolver, name) for slot, resolver, name in self.ask_reader("indirect_slots", names)]

    def load_base(self, offset: int, start: int, end: int) -> int | None:
        """What the loader added to the file's addresses, by a mapping of it; None if that is of no segment."""
        return next((start + at - offset - low for low, _, at in self._loads if offset <= at < offset + end - start),
                    None)

    def _read_functions(self) -> list[UserFunction]:
        functions: list[UserFunction] = []
        following = names = 0
        while following or not functions:
            rows, following = self.ask_reader("functions", following)
            functions += [UserFunction(*row) for row in rows]
            names += sum([len(row[0]) for row in rows])
            if len(functions) > MOST_FUNCTIONS or names > MOST_NAMES:
                raise ReaderError(f"{self.path} has more than {MOST_FUNCTIONS} functions" if names <= MOST_NAMES else
                                  f"the names of its functions have more than {MOST_NAMES} characters")
            if not rows:
                break
        return functions

    def symbol_file(self, origin: str) -> bytes:
        """Its functions as an ELF file of their own, which names ``origin`` as their source."""
        from ..names.symbol_file import write_symbol_file
        return write_symbol_file(self.type, self.machine, self._loads, self.build_id, origin,
                                 self._functions or self._read_functions())

    @property
    def origin(self) -> str:
        """Of a symbol file: the name of the file that the symbols were taken from."""
        return str(self.ask_reader("origin"))

    def find_object(self, name: str) -> tuple[int, int] | None:
        """(address, size) of a data or function symbol."""
        symbol = self.ask_reader("object", name)
        return (symbol[0], symbol[1]) if symbol else None

    def needed(self) -> tuple[list[str], list[str]]:
        """The sonames of the libraries that it needs, and the folders in which they are looked for first."""
        sonames, folders = self.ask_reader("needed")
        here = os.path.dirname(os.path.realpath(self.path))
        return sonames, [folder.replace("${ORIGIN}", here).replace("$ORIGIN", here) for folder in folders]

    def usdt_probes(self) -> list[UsdtProbe]:
        """Its USDT probes, in order of provider, name and place."""
        return [UsdtProbe(provider, name, offset, semaphore, [UsdtArgument(*argument) for argument in arguments])
                for provider, name, offset, semaphore, arguments in self.ask_reader("static_probes")]

    def frame_row(self, address: int) -> FrameRow | None:
        """How to unwind from an address."""
        if address not in self._frames:
            answer = self.ask_reader("frame_row", address)
            row = self._frames[address] = _unpack_frame_row(*answer) if answer is not None else None
            self._account_kept(_FRAME)
            return row
        return self._frames[address]

    def unwind_rows(self, first: int) -> tuple[bytes, int] | None:
        """Rows for programs that unwind (:mod:`sonde.layouts.unwind_format`), from the entries of ``.eh_frame`` from
        ``first`` on, and the entry to continue with (0: that was all); None if the file has no such section."""
        there, digits, following = self.ask_reader("unwind_rows", first)
        rows = bytes.fromhex(digits)
        if len(rows) % ROW.size or following and not first < following < MOST_ENTRIES:
            raise MachineError(f"{self.path}: senseless answer")
        return (rows, following) if there else None

    def find_interpreter(self) -> tuple[int, int, int, bytes] | None:
        """CPython's version, the addresses of its _PyRuntime and PyCode_Type, and the first bytes of _PyRuntime; None
        if they are not in the file."""
        answer = self.ask_reader("interpreter")
        return (answer[0], answer[1], answer[2], bytes.fromhex(answer[3])) if answer is not None else None

    # debug information

    def function_prototype(self, offset: int) -> UserPrototype:
        """Parameters and result of the function that begins at a file offset."""
        problem, hints, args, result, declarations, results = self.ask_reader("prototype", offset)
        if problem:
            return UserPrototype(problem=problem, hints=hints)
        return UserPrototype(
            *self._unpack_values(*args), unpack_type(result, self.struct_members) if result is not None else None,
            declarations, "", [], *self._unpack_values(*results))

    def _unpack_values(self, name: str, size: int, fields: Any, spots: Any) -> tuple[Struct | None,
                                                                                      dict[str, UserPlace]]:
        members = tuple([StructField(field, unpack_type(type, self.struct_members), at) for field, type, at in fields])
        return Struct(name, size, lambda: members) if name else None, {
            name: UserPlace(kind, tuple(registers), at, why) for name, (kind, registers, at, why) in spots}

    def struct_members(self, entry: int) -> tuple[StructField, ...]:
        """Members of a struct, by the entry that describes it."""
        return tuple([StructField(name, unpack_type(type, self.struct_members), *rest)
                      for name, type, *rest in self.ask_reader("members", entry)])

    def named_type(self, name: str) -> Type | None:
        """``struct x`` or ``union x`` of its debug information."""
        packed = self.ask_reader("named_type", name)
        return None if packed is None else unpack_type(packed, self.struct_members)

    def source_lines(self, source: str, line: int, column: int) -> SourceLines:
        """Where the code of a source line begins."""
        problem, hints, rows = self.ask_reader("source_lines", source, line, column)
        return SourceLines([SourceLine(*row) for row in rows], problem, hints)

    def code_places(self, address: int) -> list[tuple[str, str, int]]:
        """(function, source file, line) of an address, after those of the functions inlined there."""
        known = self._places.get(address)
        if known is None:
            known = self._places[address] = [(name, file, line)
                                             for name, file, line in self.ask_reader("code_places", address)]
            self._account_kept(_FRAME + sum([getsizeof(name) + getsizeof(file) for name, file, _ in known]))
        return known

    def inlined_copies(self, name: str, own: bool) -> Inlined | None:
        """The inlined copies of a function; see World.inlined_copies."""
        answer = self.ask_reader("inlined", name, own) if self.has_debug_info or not own else None
        return Inlined(*answer) if answer else None

    def ask_reader(self, question: str, *arguments: Json) -> Any:
        """Ask the reader; of a file that is gone the store may know the functions, and nothing else."""
        self.open_descriptor()
        if self._gone and question not in ("around", "functions"):
            raise MachineError(f"{self.path} is gone")
        if QUESTIONS[question].debug and not (self._sought or self.has_debug_info
                                              or self._debug and self._debug.has_debug_info):
            self._fetch_debug_file()
        return super().ask_reader(question, *arguments)

    @property
    def owner(self) -> int:
        """The user id of its owner; MachineError if it is gone."""
        return os.fstat(self.open_descriptor()).st_uid

    def _reopen_file(self) -> int:
        if not self._gone:
            try:
                return super()._reopen_file()
            except MachineError:
                if not self.build_id:
                    raise
        descriptor = symbol_store.open_symbols(self.build_id)
        if descriptor < 0:
            raise MachineError(f"{self.path} is gone")
        self._gone = True
        return descriptor

    def _fetch_debug_file(self) -> bool:
        """Take the debug file from the store, or from a debuginfod server; whether there is one now."""
        def open_debug_file() -> ElfFile | None:
            return self._open_stored(symbol_store.open_debug_file)

        self._sought = True
        file = open_debug_file()
        if file is None and places.debuginfod_servers():
            from ..names.debuginfod import fetch_debug_file
            file = fetch_debug_file(self.build_id, open_debug_file)
        if file is not None:
            self._debug = file
            self.forget_contents()
        return file is not None

    def _open_stored(self, *opens: Callable[[bytes], int]) -> ElfFile | None:
        """The first file in the store that belongs to this one."""
        files = (open_stored(open_entry, self.build_id, open_entry(self.build_id)) for open_entry in opens)
        return next((each for each in files if each is not None), None)

    def _find_debug_file(self) -> ElfFile | None:
        for path in self._debug_candidates():
            if path != self.path and os.path.lexists(path):
                try:
                    debug = open_elf(path)
                except MachineError:
                    continue
                if debug.build_id == self.build_id:
                    return debug
        return None

    def debug_sources(self) -> tuple[list[str], list[str]]:
        """Where its symbols and debug information are looked for beside itself: paths, and names in the store."""
        if self._has_symbols and self.has_debug_info:
            return [], []
        others = self._debug.debug_sources()[0] if self._debug is not None else []
        return self._debug_candidates() + others, symbol_store.names_of(self.build_id)

    def _debug_candidates(self) -> list[str]:
        if not self.build_id:
            return []  # no cheap check that a file belongs to this one
        digits, name = self.build_id.hex(), self._debug_link
        paths = [f"{top}/.build-id/{digits[:2]}/{digits[2:]}.debug" for top in places.debug_directories]
        if name and "/" not in name:
            within = self.path.startswith("/proc/")  # links below a process's root are not resolved in ours
            where = os.path.dirname(self.path if within else os.path.realpath(self.path))
            paths += [f"{where}/{name}", f"{where}/.debug/{name}",
                      *[f"{top}{where}/{name}" for top in places.debug_directories]]
        return paths


def _unpack_frame_row(pair: list[int] | None, expression: str, rules: list[Any], signal: bool,
                      register: int) -> FrameRow:
    places = {number: (kind, bytes.fromhex(text) if text else value) for number, kind, value, text in rules}
    return FrameRow(tuple(pair) if pair else bytes.fromhex(expression), places, signal, register)


def open_stored(open_entry: Callable[[bytes], int], build_id: bytes, descriptor: int) -> ElfFile | None:
    """The file from the store in ``descriptor``, which may be -1; None if it is not what it should be."""
    return open_checked(descriptor, build_id.hex(), lambda: StoredFile(open_entry, build_id, descriptor))


def open_checked(descriptor: int, build_id: str, make: Callable[[], ElfFile]) -> ElfFile | None:
    """The file made from a descriptor, if that is not -1 and the file's build id begins so."""
    if descriptor < 0:
        return None
    try:
        file = make()
    except MachineError:
        return None
    if file.build_id.hex().startswith(build_id):
        return file
    file.close()
    return None


class StoredFile(ElfFile):
    """A file of the store: symbols, or a debug file."""

    def __init__(self, open_entry: Callable[[bytes], int], build_id: bytes, descriptor: int) -> None:
        self._open_entry, self._id = open_entry, build_id
        super().__init__(f"[symbols of build id {build_id.hex()}]", descriptor)

    def _find_debug_file(self) -> ElfFile | None:
        return None

    def _open_stored(self, *opens: Callable[[bytes], int]) -> ElfFile | None:
        return None

    def _fetch_debug_file(self) -> bool:
        return False  # it is one

    def _reopen_file(self) -> int:
        descriptor = self._open_entry(self._id)
        if descriptor < 0:
            raise MachineError(f"{self.path} are gone")
        return descriptor


# ---- what is kept

STRIKES = 3  # files of one user other than root over which the reader may be ended; then it reads no more of them
_ROW, _FRAME, _FILE, _TEXT = 200, 1200, 1500, 250  # bytes: of a function, an unwinding rule, anything else

_contents: Cache[ForeignFile, ForeignFile] = Cache(0, ForeignFile.clear_contents)
_known: Cache[Stamp, ElfFile] = Cache(0, ForeignFile.close)  # whatever the paths
_stamps: Cache[str, Stamp] = Cache(0)    # by path
_refused: Cache[Stamp, str] = Cache(0)   # what cannot be read, and why
_strikes: dict[int, int] = {}            # by user id
_open: dict[ForeignFile, None] = {}      # least recently used first


def limit_kept_bytes(symbols: int) -> None:
    """Keep no more than five eighths of these bytes (see base.memory); the rest is for user_symbols and mappings
    in kernel.names."""
    for cache, share in ((_contents, 3 * symbols // 8), (_known, symbols // 12),
                         (_stamps, symbols // 24), (_refused, symbols // 24),
                         (readable_names.demangled, symbols // 12 - 4096),
                         (readable_names.left_mangled, 4096)):
        cache.most = share


limit_kept_bytes(Memory().symbols)


def _keep_open(file: ForeignFile) -> None:
    _open.pop(file, None)
    _open[file] = None
    while len(_open) > OPEN:
        next(iter(_open)).close()


def release_files() -> None:
    """End the reader and close all files; the next question starts and opens them again."""
    reader.release_reader()
    for file in list(_open):
        file.close()


def open_elf(path: str) -> ElfFile:
    """The file, cached unless it changed; one that has been read stays known after it is gone.

    MachineError if it is unreadable or not an ELF file.
    """
    try:
        stamp = stamp_of_path(path)
    except (OSError, ValueError) as error:
        last = _stamps.get(path)
        known = _known.get(last) if last is not None else None
        if known is None:
            raise MachineError(f"{path}: {getattr(error, 'strerror', error)}") from None
        return known
    known = _known.get(stamp) or _open_new(path)
    _stamps.put(path, known.stamp, _TEXT + getsizeof(path))
    return known


def _open_new(path: str) -> ElfFile:
    descriptor = open_regular(path)
    stamp, owner = stamp_of_file(path, descriptor), os.fstat(descriptor).st_uid
    known, problem = _known.get(stamp), _refused.get(stamp) or ""
    if _strikes.get(owner, 0) >= STRIKES:
        problem = f"{path} is not read, after {STRIKES} others of user {owner} that could not be"
    if known is not None or problem:
        os.close(descriptor)
        if known is None:
            raise MachineError(problem)
        return known
    try:
        known = ElfFile(path, descriptor)
    except MachineError as refused:
        _refused.put(stamp, refused.message, _TEXT + getsizeof(refused.message))
        raise
    _known.put(stamp, known, known.kept_bytes)
    return known


def open_jit_map(path: str, owner: int) -> JitMap | None:
    """The JIT map at a path. It must belong to root or ``owner`` and be no link: nobody else may name frames."""
    try:
        descriptor = open_regular(path, follow=False)
    except MachineError:
        return None
    if os.fstat(descriptor).st_uid in (0, owner):
        return JitMap(path, descriptor)
    os.close(descriptor)
    return None


def is_elf(path: str) -> bool:
    """Whether a file starts as ELF files do; or is an archive, if a member of one is meant."""
    return read_start(path, 4) == b"\x7fELF" or bool(split_member(path)[1]) and read_start(path, 2) == b"PK"


def inlined_copies(path: str, name: str, own: bool = False) -> Inlined | None:
    """The inlined copies of a function, by the file's debug information; None if it has none."""
    try:
        return open_elf(path).inlined_copies(name, own)
    except MachineError:
        return None


# ---- questions about files other than ELF

def read_ld_cache(path: str, machine: str) -> dict[str, str]:
    """soname → path from /etc/ld.so.cache or a file like it."""
    file = ForeignFile(path, open_regular(path))
    try:
        return dict(file.ask_reader("loader_cache", machine))
    finally:
        file.close()
