"""Tables of Go's functions, made by hand in the forms that Go has had."""

from __future__ import annotations

import struct
from sys import byteorder

MAGIC = {"1.2": 0xFFFFFFFB, "1.16": 0xFFFFFFFA, "1.18": 0xFFFFFFF0, "1.20": 0xFFFFFFF1}
CODE = 0x401000
Functions = list[tuple[str, int, int]]  # name, address, kind


def make_table(version: str, functions: Functions, end: int, text: int = CODE) -> bytes:
    """A table of these functions, the last of which ends at ``end``; the header says that code begins at ``text``."""
    relative = version in ("1.18", "1.20")
    names, places = b"\0", []
    for name, _, _ in functions:
        places.append(len(names))
        names += name.encode() + b"\0"
    entry = "=II" if relative else "=QQ"
    base, header = CODE if relative else 0, 8 + 8 * {"1.2": 1, "1.16": 7}.get(version, 8)
    table_size = struct.calcsize(entry) * len(functions) + struct.calcsize(entry) // 2
    blocks = [_function_block(version, address - base, place, kind)
              for (_, address, kind), place in zip(functions, places)]
    ahead = header + table_size if version == "1.2" else table_size  # of the blocks, from where they are counted
    if version == "1.2":
        shift = header + table_size + sum(map(len, blocks))
        blocks = [_function_block(version, address, place + shift, kind)
                  for (_, address, kind), place in zip(functions, places)]
    rows, at = b"", ahead
    for (_, address, _), block in zip(functions, blocks):
        rows += struct.pack(entry, address - base, at)
        at += len(block)
    rows += (end - base).to_bytes(4 if relative else 8, byteorder)
    head = MAGIC[version].to_bytes(4, byteorder) + b"\0\0\1\x08"
    if version == "1.2":
        return head + struct.pack("=Q", len(functions)) + rows + b"".join(blocks) + names
    words = [len(functions), 0, *([text] if relative else []), header, 0, 0, 0, header + len(names)]
    return head + struct.pack(f"={len(words)}Q", *words) + names + rows + b"".join(blocks)


def _function_block(version: str, entry: int, name: int, kind: int) -> bytes:
    """A ``_func``: what is read of it, and zeros."""
    if version == "1.20":
        return struct.pack("=II32xBxxx", entry, name, kind)
    if version == "1.18":
        return struct.pack("=II28xBxxx", entry, name, kind)
    return struct.pack("=QI28xBxxx", entry, name, kind)
