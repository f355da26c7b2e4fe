"""Addresses and names in the kernel: kallsyms, and what ftrace can probe."""

from __future__ import annotations

from ...base.fast_stdlib import bisect_left, bisect_right, cached_property
from ...base.record import Value
from .. import places

KALLSYMS = "/proc/kallsyms"
_FAR = 1 << 24  # a symbol this far below an address is unrelated
_DIGITS = 16  # of an address
_FEW = 50  # functions that are looked for in the text, before an index is built
_FIRST = 1024  # addresses that the kernel is asked for one by one, before its text is read
_REMEMBERED = 1 << 16  # addresses whose symbols are remembered


class KernelSymbol(Value):
    """``offset`` bytes into ``name``; ``module`` is "" for the kernel proper."""

    name: str
    offset: int
    module: str = ""


class KernelSymbols:
    """/proc/kallsyms, read on first use. One that is unreadable or zeroed has no answers (see ``restricted``)."""

    def __init__(self, path: str = KALLSYMS) -> None:
        self._path = path
        self._left = _FIRST if path == KALLSYMS else 0  # addresses for which the kernel may yet be asked
        self._data: bytes | None = None
        self._end = -1  # of the kernel proper's lines in _data; -1: not known yet
        self._others: list[int] | None = None  # where the lines of modules and BPF programs begin, by address
        self._cache: dict[int, KernelSymbol | None] = {}

    def _kallsyms_text(self) -> bytes:
        if self._data is None:
            self._data = self._read_text()
        return self._data

    def _read_text(self, most: int = -1) -> bytes:
        try:
            with open(self._path, "rb", buffering=0) as file:
                return file.read(most)
        except OSError:
            return b""

    @cached_property
    def restricted(self) -> bool:
        """Whether the kernel hides its addresses (kernel.kptr_restrict, or no CAP_SYSLOG), or has no symbols."""
        head = (self._data if self._data is not None else self._read_text(16384))[:16384].splitlines()[:100]
        return not any(line[:16].strip(b"0 ") for line in head)

    def symbol_address(self, name: str) -> int | None:
        """Address of a symbol; the kernel proper's comes before a module's."""
        at = self._find_name(name) if name and not self.restricted else -1
        return int(self._kallsyms_text()[at - 18:at - 2], 16) if at >= 0 else None

    def symbol_type(self, name: str) -> str:
        """The letter of a symbol's type as in nm, "t" or "T" for a function; "" if there is none."""
        at = self._find_name(name)
        return chr(self._kallsyms_text()[at - 1]) if at >= 0 else ""

    def symbol_clones(self, name: str) -> list[str]:
        """The symbols that the compiler made of a function: ``name.isra.0`` and the like."""
        clones, text, start = [], self._kallsyms_text(), 0
        while (at := text.find(f" {name}.".encode(), start)) >= 0:
            start = text.find(b"\n", at)
            clones.append(text[at + 1:start if start >= 0 else len(text)].partition(b"\t")[0].decode())
            if start < 0:
                break
        return list(dict.fromkeys(clones))

    def _find_name(self, name: str) -> int:
        """The offset of a symbol's name in the text, less one; -1 if it is not there."""
        offsets = (self._kallsyms_text().find(b" " + name.encode() + end) for end in (b"\n", b"\t"))
        return next((at for at in offsets if at >= 0), -1)

    def lookup(self, address: int) -> KernelSymbol | None:
        """The symbol that contains an address; None if it is not the kernel's."""
        if address not in self._cache:
            if len(self._cache) >= _REMEMBERED:
                self._cache.clear()
            self._cache[address] = self._find_symbol(address)
        return self._cache[address]

    def _find_symbol(self, address: int) -> KernelSymbol | None:
        if self.restricted:
            return None
        if (symbol := self._ask_kernel(address)) is not None:
            return symbol
        wanted = b"%016x" % address
        start = max((self._own_line(wanted), self._other_line(wanted)), key=self._address_at)
        known = int(self._address_at(start) or b"0", 16)
        return self._symbol(start, address) if known and address - known <= _FAR else None

    def _ask_kernel(self, address: int) -> KernelSymbol | None:
        """The symbol as the kernel tells it; None if it does not, or its text is there anyhow."""
        if self._data is not None or not self._left:
            return None
        from .told_symbols import find_symbol
        self._left -= 1
        parts = find_symbol(address)
        return KernelSymbol(*parts) if parts is not None else None

    def _own_line(self, wanted: bytes) -> int:
        """Where the line of the kernel proper's last symbol begins that is not above an address; -1 if all are. They
        are in order (kernel/kallsyms.c searches them in the same way), so no index is needed."""
        text, low, high = self._kallsyms_text(), 0, self._own_end
        while low < high:
            start = max(low, text.rfind(b"\n", low, (low + high) // 2) + 1)
            if text[start:start + _DIGITS] > wanted:
                high = start
            else:
                low = text.find(b"\n", start) + 1 or len(text)
        start = self._line_before(low)
        while (before := self._line_before(start)) >= 0 and self._address_at(before) == self._address_at(start):
            start = before  # of several names, the kernel prints the first
        return start

    def _line_before(self, start: int) -> int:
        """Where the line begins that ends before another; -1 if there is none."""
        return self._kallsyms_text().rfind(b"\n", 0, start - 1) + 1 if start > 0 else -1

    def _other_line(self, wanted: bytes) -> int:
        """The same of modules and BPF programs, which are in no order."""
        if self._others is None:
            text, start = self._kallsyms_text(), self._own_end
            starts = []
            while start < len(text):
                starts.append(start)
                start = text.find(b"\n", start) + 1 or len(text)
            self._others = sorted(starts, key=self._address_at)
        at = bisect_right(self._others, wanted, key=self._address_at)
        if not at:
            return -1
        return self._others[bisect_left(self._others, self._address_at(self._others[at - 1]), key=self._address_at)]

    @property
    def _own_end(self) -> int:
        """Where the lines of the kernel proper end."""
        if self._end < 0:
            text = self._kallsyms_text()
            other = text.find(b"\t[")
            self._end = text.rfind(b"\n", 0, other) + 1 if other >= 0 else len(text)
        return self._end

    def _address_at(self, start: int) -> bytes:
        """The digits of a line's address, which sort as the address; b"" for no line."""
        return self._kallsyms_text()[start:start + _DIGITS] if start >= 0 else b""

    def _symbol(self, start: int, address: int) -> KernelSymbol:
        """The symbol whose line starts there, with the address's offset into it."""
        line = self._line_at(start)
        name, _, module = line[19:].partition("\t")
        return KernelSymbol(name, address - int(line[:16], 16), module.strip("[]"))

    def _line_at(self, start: int) -> str:
        text = self._kallsyms_text()
        end = text.find(b"\n", start)
        return text[start:end if end >= 0 else len(text)].decode("utf-8", "replace")


def traceable_functions(root: str) -> list[tuple[str, str]]:
    """(module, function) of every function that ftrace can probe; "vmlinux" is the kernel proper.

    [] if the kernel does not say: it has no function tracer, or is locked down.
    """
    try:
        with open(_function_list_path(root), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    pairs = []
    for line in lines:
        name, _, module = line.partition(" ")
        if not name.startswith("__ftrace_invalid_address__"):
            pairs.append((module.strip("[] \t") or "vmlinux", name))
    return pairs


class FunctionList:
    """How many of the functions that can be traced have a name; none of any, if nothing says so. A few names are looked
    for in the text, which takes a tenth of the time that an index does."""

    def __init__(self, root: str) -> None:
        self._lookups = 0
        self._index: dict[bytes, int] = {}
        try:
            with open(_function_list_path(root), "rb") as file:
                self._text = b"\n" + file.read()
        except OSError:
            self._text = b""

    def count(self, name: str) -> int:
        """How many there are: each alone on a line, or before its module."""
        self._lookups += 1
        if self._lookups <= _FEW:
            return self._search(b"\n%s\n" % name.encode()) + self._search(b"\n%s [" % name.encode())
        if not self._index:
            for line in self._text.splitlines():
                each = line.split(b" ", 1)[0]
                self._index[each] = self._index.get(each, 0) + 1
        return self._index.get(name.encode(), 0)

    def _search(self, line: bytes) -> int:
        count, at = 0, self._text.find(line)
        while at >= 0:
            count, at = count + 1, self._text.find(line, at + 1)  # the next one may begin with this one's end
        return count


def _function_list_path(root: str) -> str:
    return places.traceable_functions or f"{root}/available_filter_functions"
