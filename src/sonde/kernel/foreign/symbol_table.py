"""Functions by address: those of ELF files, and of the maps that run-time compilers write.

Only numbers are kept, 32 bytes to the function; names are read on demand, and cut off where no meaningful name would
end.
"""

from __future__ import annotations

from array import array

from ...base.fast_stdlib import bisect_right
from ...errors import MachineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = 4096          # bytes of a name
BLOCK = 128          # addresses that are answered at once
BEHIND = 8           # and this many before them: a sized function may enclose others
ALIASES = 64         # names of one address that are looked at
PAGE = 1 << 20       # bytes of names in a page
END = (1 << 64) - 1

Row = tuple[int, int, str]  # address, size, name


class TooLargeError(MachineError):
    """The file needs more than any file of its kind should."""


class Functions:
    """Functions in order of address. They are added, then :meth:`sort_by_address` is called once. Of several at one
    address the ``newest`` is chosen, or else the best known."""

    def __init__(self, names: Callable[[int], str], newest: bool = False) -> None:
        self.name_of = names
        self._newest = newest
        self._addresses, self._sizes, self._texts = array("Q"), array("Q"), array("Q")
        self._groups = array("I")  # where in the order each address's functions begin

    def add(self, address: int, size: int, text: int) -> None:
        """``text`` is the index of its name."""
        self._addresses.append(address)
        self._sizes.append(size)
        self._texts.append(text)

    def sort_by_address(self) -> None:
        """Sort them; of one address, what came first stays first."""
        order = [address << 32 | index for index, address in enumerate(self._addresses)]  # takes less memory than a key
        order.sort()
        for column in ("_addresses", "_sizes", "_texts"):
            old = getattr(self, column)
            setattr(self, column, array("Q", (old[index & 0xFFFFFFFF] for index in order)))
        del order
        last = -1
        for index, address in enumerate(self._addresses):
            if address != last:
                self._groups.append(index)
                last = address

    def functions_around(self, address: int) -> tuple[int, int, list[Row]]:
        """(first address, end, functions): all that matters for every address from the first to the end."""
        count = len(self._groups)
        block = max(self._group_at(address), 0) // BLOCK
        first, end = block * BLOCK, min((block + 1) * BLOCK, count)
        low = self._start_address(first) if block else 0
        high = self._start_address(end) if end < count else END
        return low, high, [self._preferred_row(group) for group in range(max(first - BEHIND, 0), end)]

    def function_page(self, first: int, offset: Callable[[int], int | None]) -> tuple[list[tuple[str, int, int, int]],
                                                                                      int]:
        """Functions by address and name, each once, as (name, address, offset in the file, size), and the index at
        which the next page starts; 0 after the last one."""
        page: list[tuple[str, int, int, int]] = []
        size = 0
        for group in range(first, len(self._groups)):
            for name, (address, length,
                       _) in sorted({row[2]: row for row in reversed(self._group_rows(group))}.items()):
                page.append((name, address, offset(address) or 0, length))
                size += len(name) + 40
            if size > PAGE:
                return page, group + 1
        return page, 0

    def _start_address(self, group: int) -> int:
        return self._addresses[self._groups[group]]

    def _group_at(self, address: int) -> int:
        low, high = 0, len(self._groups)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._start_address(middle) <= address else (low, middle)
        return low - 1

    def _group_rows(self, group: int) -> list[Row]:
        begin = self._groups[group]
        end = self._groups[group + 1] if group + 1 < len(self._groups) else len(self._addresses)
        rows = [(self._addresses[index], self._sizes[index], self.name_of(self._texts[index]))
                for index in range(max(begin, end - ALIASES), end)]
        return [row for row in rows if row[2]]

    def _preferred_row(self, group: int) -> Row:
        rows = self._group_rows(group) or [(self._start_address(group), 0, "")]
        return rows[-1] if self._newest else min(rows, key=_alias_rank)


def _alias_rank(row: Row) -> tuple[bool, int, int, str]:
    """How well known an alias of an address is: sized, without leading underscores, short."""
    _, size, name = row
    return size == 0, len(name) - len(name.lstrip("_")), len(name), name


def function_in(rows: list[Row], starts: list[int], address: int) -> tuple[str, int] | None:
    """(name, offset into it) of the function that contains an address, among those of a block.

    Assembly routines have no size; one reaches to the next function.
    """
    at = bisect_right(starts, address) - 1
    for index in range(at, max(at - BEHIND, 0) - 1, -1):
        start, size, name = rows[index]
        inside = address - start
        if name and (inside < size or size == 0 and index == at):
            return name, inside
    return None


# ---- maps of run-time compilers

JIT_SIZE = 64 << 20  # bytes of a map; the rest is not read
_PORTION = 1 << 20


class JitMapTable:
    """/tmp/perf-PID.map, which run-time compilers write: lines of hexadecimal start and size, then a name."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self.functions = Functions(self._name_at, newest=True)
        for offset, line in self._read_lines():
            start, _, rest = line.partition(b" ")
            size, space, name = rest.partition(b" ")
            if space and len(start) <= 18 and len(size) <= 18:
                try:
                    first, length = int(start, 16), int(size, 16)
                except ValueError:
                    continue
                if 0 <= first <= END and 0 <= length <= END:
                    self.functions.add(first, length, offset + len(line) - len(name))
        self.functions.sort_by_address()

    def _read_lines(self) -> Iterator[tuple[int, bytes]]:
        """(offset, first bytes) of every complete line."""
        at = 0
        while at < JIT_SIZE and (data := self._read(at, _PORTION)):
            begin = 0
            while (end := data.find(b"\n", begin)) >= 0:
                yield at + begin, data[begin:min(end, begin + NAME)]
                begin = end + 1
            at += begin or len(data)  # a longer line is invalid
            if len(data) < _PORTION:
                return

    def _name_at(self, at: int) -> str:
        return self._read(at, NAME).partition(b"\n")[0].decode("utf-8", "replace")

