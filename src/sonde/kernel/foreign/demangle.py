"""Symbol names as in source code: those of C++ by the C++ runtime's own demangler, those of Rust, D and Swift by ours.

``__cxa_demangle`` is part of the C++ ABI (its section 3.4) and in every C++ runtime library; one of these is loaded
when the first mangled name is seen.
"""

from __future__ import annotations

import ctypes
from typing import TypeAlias

from .d_names import demangle_d
from .rust_names import demangle_rust
from .swift_names import demangle_swift

_Functions: TypeAlias = "tuple[()] | tuple[_NamedFuncPointer, _NamedFuncPointer]"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctypes import _NamedFuncPointer

_RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.so.1")
CPP = ("_Z", "__Z")  # how its names begin
MOST = 8192  # bytes of a mangled name; longer ones stay as they are
MOST_SHOWN = 65536  # and of its demangled form
_functions: list[_Functions] = []  # __cxa_demangle and free, once looked for; (): there is none


def _load_runtime() -> _Functions:
    """(demangle, free), or () where no C++ runtime is installed."""
    if not _functions:
        _functions.append(())
        for name in _RUNTIMES:
            try:
                demangle = ctypes.CDLL(name).__cxa_demangle
            except (OSError, AttributeError):
                continue
            demangle.restype = ctypes.c_void_p
            demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
            free = ctypes.CDLL(None).free
            free.restype, free.argtypes = None, [ctypes.c_void_p]
            _functions[0] = demangle, free
            break
    return _functions[0]


def is_available() -> bool:
    """Whether a C++ runtime is there."""
    return bool(_load_runtime())


def demangle(name: str) -> str:
    """``_ZN2ns1fEi`` → ``ns::f(int)``; anything that is not a mangled name, or cannot be demangled, unchanged."""
    if len(name) > MOST:
        return name
    own = demangle_rust(name) or demangle_d(name) or demangle_swift(name)
    functions = _load_runtime()
    if own is not None or not functions or not name.startswith(CPP):
        return own or name
    # "_Z1fi.cold": a part that the compiler split off keeps its suffix
    plain, dot, suffix = name.partition(".")
    raw = functions[0](plain.encode("utf-8", "surrogateescape"), None, None, None)
    if not raw:
        return name
    text = ctypes.string_at(raw)[:MOST_SHOWN].decode("utf-8", "replace")
    functions[1](raw)
    return text + (f" [clone {dot}{suffix}]" if dot else "")
