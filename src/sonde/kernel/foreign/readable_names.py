"""Names that compilers mangle, as people write them."""

from __future__ import annotations

from sys import getsizeof

from ...base.memory_budget import Cache
from ..notices import show_notice
from . import reader
from .reader import ReaderError

_MANGLED = ("_Z", "__Z", "_R", "_D", "$s", "$S", "_$s", "_$S")
MANY_NAMES = 256  # that are demangled at a time
TEXT = 250        # bytes that keeping one takes, besides its characters

demangled: Cache[str, str] = Cache(0)     # files.limit_kept_bytes() says how many
left_mangled: Cache[str, str] = Cache(0)  # sources of a name over which the reader was ended


def demangle(names: list[str], source: str = "") -> list[str] | None:
    """Names of C++, Rust, D and Swift as in source code, others unchanged; None where C++ names need a runtime that is
    missing.

    ``source`` is the file that they come from: if one takes too long, all names of that file stay as they are.
    """
    shown: list[str] = []
    for at in range(0, len(names), MANY_NAMES):
        some = names[at:at + MANY_NAMES]
        fresh = [name for name in some if name.startswith(_MANGLED) and name not in demangled]
        readable = {name: text for name in some if (text := demangled.get(name)) is not None}
        if fresh and source not in left_mangled:
            texts = _demangle_fresh(fresh, source)
            if texts is None:
                return None
            readable.update(zip(fresh, texts))
        shown += [readable.get(name, name) for name in some]
    return shown


def _demangle_fresh(names: list[str], source: str) -> list[str] | None:
    try:
        texts: list[str] | None = reader.ask_shared_reader("demangle", source, (), names)
    except ReaderError as unread:
        left_mangled.put(source, source, TEXT + getsizeof(source))
        show_notice(f"WARNING: C++ names of {source or 'a file'} stay as they are: {unread.message}")
        return names
    for name, text in zip(names, texts or ()):
        demangled.put(name, text, TEXT + getsizeof(name) + getsizeof(text))
    return texts
