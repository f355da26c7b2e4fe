"""Where a function ends: at its return instructions, those of the parts included that compilers put elsewhere
(``f.cold``), and at jumps to other functions, which return in its place (tail calls). At all of these the stack
pointer is where it was at the function's entry.

The instructions are read one after the other, from the function's beginning to its end by its symbol. They are believed
if they fill it, if every jump within the function is to one of them, and if no other function begins among them.
"""

from __future__ import annotations

from ...arch import find_arch_of_elf
from ...arch.control_flow import is_known, is_padding, jump_tables, read_flows
from ...arch.flows import BRANCH, INDIRECT, JUMP, OUTSIDE, RETURN, UNKNOWN, WITHIN, JumpTable
from ...arch.row import Arch
from ...errors import MachineError
from .dwarf_numbers import DamagedTablesError
from .eh_frame import UnwindTable
from .elf import Elf
from .function_problems import (
    COMPUTED,
    NEVER,
    NO_FUNCTION,
    OTHER_CPU,
    OVERLAPS,
    TAIL,
    TOO_LARGE,
    UNPROBED,
    UNREADABLE,
    UnknownEndError,
)
from .linkage import Linkage
from .symbol_table import Row
from .tail_calls import Ends, Jump, follow_tail_calls

AT_ENTRY = "at entry"
DT_PLTGOT = 3

MOST_CODE = 1 << 19    # bytes of a function
MOST_RETURNS = 4096    # of a function
MOST_PARTS = 64        # pieces of a function
MOST_ELEMENTS = 4096   # of a jump table
MOST_AT_ONCE = 1 << 18  # bytes of functions that one answer is about, and return instructions in it
MOST_IN_ANSWER = 1 << 17
MOST_FOLLOWED = 1 << 23  # bytes, with those of the functions that they jump to


class _Part:
    """A piece of a function: its instructions, and what leaves it."""

    def __init__(self, arch: Arch, address: int, code: bytes) -> None:
        self.address, self.end = address, address + len(code)
        self.arch, self.code = arch, code
        flows = read_flows(arch, code)
        if flows is None:
            raise UnknownEndError(UNREADABLE)
        self.starts = flows[0]  # offsets of the instructions
        self.boundaries = frozenset(self.starts)
        if any(flow.kind == UNKNOWN for _, flow in flows[1]):
            raise UnknownEndError(UNPROBED)
        self.returns = [address + self.starts[index] for index, flow in flows[1] if flow.kind == RETURN]
        self.jumps = [(address + self.starts[index], address + flow.target) for index, flow in flows[1]
                      if flow.kind == JUMP]
        self.branches = [address + flow.target for _, flow in flows[1] if flow.kind == BRANCH]
        self.indirect = [index for index, flow in flows[1] if flow.kind == INDIRECT]
        self.ends = [index for index, flow in flows[1] if flow.kind in (RETURN, JUMP, INDIRECT)]
        self.leaving: list[Jump] = []

    def has(self, address: int) -> bool:
        """Whether an address is in it."""
        return self.address <= address < self.end

    def is_linked(self) -> bool:
        """Whether something is reached by each instruction after one that does not go on there: none is reached by a
        computed jump alone. What only aligns the next instruction (no-operations, traps) needs not be reached."""
        targets = {target - self.address for target in [*self.branches, *[target for _, target in self.jumps]]}
        for index in self.ends:
            for start in self.starts[index + 1:]:
                if start in targets:
                    break
                if not is_padding(self.arch, self.code, start):
                    return False
        return True

    def tables(self, jump: int) -> list[JumpTable] | str:
        """See control_flow.jump_tables(); tables by their addresses."""
        tables = jump_tables(self.arch, self.code, self.starts[:jump + 1])
        return tables if isinstance(tables, str) else [
            table if table.absolute else JumpTable(self.address + table.at, table.size, table.relative)
            for table in tables]


def _offset_table(elf: Elf) -> int:
    """The address that position-independent code of 32 bits has in a register (_GLOBAL_OFFSET_TABLE_); 0 if there is
    none."""
    for tag, value in elf.dynamic_entries:
        if tag == DT_PLTGOT:
            return value
    section = elf.find_section(".got.plt") or elf.find_section(".got")
    return section.address if section is not None else 0


# Of a function, by offsets in the file: its return instructions; its jumps to others that are not followed; "" or one
# of PROBLEMS; of those jumps, the ones to functions of other files with their names; whether it jumps to its first
# instruction; its jumps that are followed, and what they lead to: see TailCalls.
FunctionAnswer = tuple[list[int], list[int], str, list[tuple[int, str]], bool, list[int], list[int], list[int],
                       list[int]]


class FunctionReader:
    """Reads the ends of functions of one file."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._arch = find_arch_of_elf(elf.machine)
        self._offset_table = _offset_table(elf)
        self._linkage = Linkage(elf, self._arch.slot_relocations if self._arch is not None else (), self._offset_table)
        self._read_bytes = 0
        self._known: dict[int, Ends | str] = {}  # while one answer is made
        self._block: tuple[int, int, list[Row]] = (0, 0, [])
        self._unwinding: UnwindTable | None = None
        if elf.find_section(".eh_frame") is not None:
            self._unwinding = UnwindTable(elf)

    def read_ends(self, offsets: list[int]) -> list[FunctionAnswer]:
        """For functions by their offsets in the file, see FunctionAnswer. An answer may end early."""
        self._read_bytes, answers, count = 0, [], 0
        for offset in offsets:
            answers.append(self._read_function(offset))
            count += sum([len(part) for part in answers[-1] if isinstance(part, list)])
            if self._read_bytes > MOST_AT_ONCE or count > MOST_IN_ANSWER:
                break
        self._known.clear()
        return answers

    def _read_function(self, offset: int) -> FunctionAnswer:
        address = self._elf.offset_to_address(offset)
        if address is None:
            return [], [], NO_FUNCTION, [], False, [], [], [], []
        try:
            ends = self.ends_of(address)
            if not ends.returns and not ends.jumps:
                raise UnknownEndError(NEVER)
            calls = follow_tail_calls(self.ends_of, address, ends.jumps)
            unknown = [(self._offset_of(at), name) for at, _, name in ends.jumps if at not in calls.jumps]
            return (self._offsets_of(ends.returns), [at for at, _ in unknown], "",
                    [(at, name) for at, name in unknown if name], ends.repeats, self._offsets_of(calls.jumps),
                    self._offsets_of(calls.entries), self._offsets_of(calls.onward), self._offsets_of(calls.returns))
        except UnknownEndError as unknown_end:
            return [], [], unknown_end.problem, [], False, [], [], [], []

    def ends_of(self, address: int) -> Ends:
        """Where the function at an address ends. UnknownEndError where it may end elsewhere, too."""
        known = self._known.get(address)
        if known is None:
            try:
                known = self._read_all_ends(address)
            except UnknownEndError as unknown:
                known = unknown.problem
            except (DamagedTablesError, MachineError):
                known = UNREADABLE
            self._known[address] = known
        if isinstance(known, str):
            raise UnknownEndError(known)
        return known

    def _read_all_ends(self, address: int) -> Ends:
        if self._arch is None or not is_known(self._arch):
            raise UnknownEndError(OTHER_CPU)
        if self._read_bytes > MOST_FOLLOWED:
            raise UnknownEndError(TOO_LARGE)
        name, size = self._describe(address)
        parts = [self._read_part(address, size)]
        repeats = False
        for part in parts:  # which grow
            if len(parts) > MOST_PARTS or sum(len(each.code) for each in parts) > MOST_CODE:
                raise UnknownEndError(TOO_LARGE)
            for target in [*part.branches, *self._table_targets(part, parts, name)]:
                repeats |= target == address
                if not self._follow(target, parts, name):
                    raise UnknownEndError(TAIL)
            for at, target in part.jumps:
                repeats |= target == address
                if not self._follow(target, parts, name):
                    self._add_tail_call(part, at, target)
        ends = Ends(sorted([address for part in parts for address in part.returns]),
                    sorted([jump for part in parts for jump in part.leaving]), repeats)
        if len(ends.returns) + len(ends.jumps) > MOST_RETURNS:
            raise UnknownEndError(TOO_LARGE)
        return ends

    def _describe(self, address: int) -> tuple[str, int]:
        """(name, bytes) of the function that begins at an address."""
        following, rows = self._rows_around(address)
        name, size = next(((name, size) for start, size, name in rows if start == address), ("", 0))
        if not size:
            raise UnknownEndError(NO_FUNCTION)
        if size > MOST_CODE:
            raise UnknownEndError(TOO_LARGE)
        while True:
            if any(address < start < address + size for start, _, _ in rows):
                raise UnknownEndError(OVERLAPS)
            if following >= address + size:
                return name, size
            following, rows = self._rows_around(following)

    def _rows_around(self, address: int) -> tuple[int, list[Row]]:
        """(end, functions): all that matters from the address to the end."""
        low, high, _ = self._block
        if not low <= address < high:
            self._block = self._elf.functions().functions_around(address)
        return self._block[1:]

    def _offsets_of(self, addresses: list[int]) -> list[int]:
        return [self._offset_of(address) for address in addresses]

    def _offset_of(self, address: int) -> int:
        offset = self._elf.address_to_offset(address)
        if offset is None:
            raise UnknownEndError(UNREADABLE)
        return offset

    def _read_part(self, address: int, size: int) -> _Part:
        if size > MOST_CODE:
            raise UnknownEndError(TOO_LARGE)
        assert self._arch is not None
        code = self._elf.read(self._offset_of(address) - self._elf.start, size)
        self._read_bytes += size
        if len(code) < size:
            raise UnknownEndError(UNREADABLE)
        return _Part(self._arch, address, code)

    def _follow(self, target: int, parts: list[_Part], name: str) -> bool:
        """Go on where a jump leads: into a part that is known, or into a new one. False if it leads to no part."""
        for part in parts:
            if part.has(target):
                if target - part.address not in part.boundaries:
                    raise UnknownEndError(UNREADABLE)
                return True
        begin, end = self._part_around(target, name)
        if begin == end:
            return False
        part = self._read_part(begin, end - begin)
        if target - begin not in part.boundaries:
            raise UnknownEndError(UNREADABLE)
        parts.append(part)
        return True

    def _add_tail_call(self, part: _Part, at: int, target: int) -> None:
        """A jump out of the function is one if it leads to another function or to the linkage table, and if the stack
        is as it was at the entry."""
        known = self._linkage.has(target) or any(
            start <= target < start + size for start, size, _ in self._rows_around(target)[1])
        if not known or self._frame_at(at) not in (AT_ENTRY, ""):
            raise UnknownEndError(TAIL)
        linked = self._linkage.has(target)
        part.leaving.append((at, *(self._linkage.function_at(target) if linked else (target, ""))))

    def _frame_at(self, address: int) -> str:
        """Whether the stack is as at a function's entry, by the unwind table: AT_ENTRY, WITHIN, or "" if it does not
        say."""
        row = self._unwinding.find_row(address) if self._unwinding is not None else None
        if row is None or self._arch is None:
            return ""
        at_entry = self._arch.dwarf_stack_pointer, self._arch.stack_arguments
        return AT_ENTRY if row[0].cfa == at_entry else WITHIN

    def _part_around(self, address: int, name: str) -> tuple[int, int]:
        """(address, end) of the piece of code around an address that belongs to the function ``name``: by its own name,
        or since the caller's frame is not as it is at a function's entry where it begins. Equal if there is none."""
        for start, size, text in self._rows_around(address)[1]:
            if start <= address < start + size and text.startswith(f"{name}.cold"):
                return start, start + size
        if self._linkage.has(address):
            return 0, 0
        entry = self._unwinding.find_entry(address) if self._unwinding is not None else None
        if entry is None or self._unwinding is None or self._arch is None:
            return 0, 0
        return entry[:2] if self._frame_at(entry[0]) == WITHIN else (0, 0)

    def _table_targets(self, part: _Part, parts: list[_Part], name: str) -> list[int]:
        """Addresses that the part's indirect jumps lead to, as their tables tell. Those that leave the function are
        added to the part's."""
        targets: list[int] = []
        for jump in part.indirect:
            tables = part.tables(jump)
            at = part.address + part.starts[jump]
            if tables == OUTSIDE or tables == "" and self._frame_at(at) == AT_ENTRY and part.is_linked():
                part.leaving.append((at, *self._linkage.function_at(at)))
                continue
            elements = next(filter(None, [self._elements(table, parts, name) for table in tables
                                          if isinstance(table, JumpTable)]), [])
            if not elements and tables != WITHIN:
                raise UnknownEndError(COMPUTED)
            targets += elements
        return targets

    def _elements(self, table: JumpTable, parts: list[_Part], name: str) -> list[int]:
        """The addresses in a jump table, up to the first that is not in the function."""
        at = self._offset_table + table.at if table.by_got else table.at
        origin = self._offset_table if table.by_got else at
        offset = self._elf.address_to_offset(at)
        data = self._elf.read(offset - self._elf.start, MOST_ELEMENTS * table.size) if offset is not None else b""
        addresses: list[int] = []
        assert self._arch is not None
        for at in range(0, len(data) - table.size + 1, table.size):
            element = int.from_bytes(data[at:at + table.size], self._arch.byte_order, signed=table.relative)
            address = element + origin if table.relative else element
            if not any(part.has(address) and address - part.address in part.boundaries for part in parts) and \
                    self._part_around(address, name) == (0, 0):
                break
            addresses.append(address)
        return addresses
