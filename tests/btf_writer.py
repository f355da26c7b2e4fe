"""BTF with the kinds of types that no program of Sonde's own needs."""

from __future__ import annotations

from sonde.btf import codec
from sonde.btf.codec import TRIPLE


class Writer(codec.Writer):
    def add_array(self, of: int, index: int, count: int) -> int:
        """An array of ``count`` elements; ``index`` is the id of an integer type."""
        return self.add_record(codec.ARRAY, "", 0, TRIPLE.pack(of, index, count))

    def add_struct(self, name: str, size: int, members: list[tuple[str, int, int]], union: bool = False) -> int:
        """A struct of (name, type id, byte offset) members."""
        extra = b"".join([TRIPLE.pack(self.add_string(n), t, at * 8) for n, t, at in members])
        return self.add_record(codec.UNION if union else codec.STRUCT, name, size, extra, len(members))

    def add_typedef(self, name: str, of: int) -> int:
        return self.add_record(codec.TYPEDEF, name, of)
