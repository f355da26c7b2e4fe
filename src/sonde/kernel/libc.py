"""System calls by number, and addresses. Importing ``ctypes`` takes 2 ms, a fifteenth of a start, for types that are
not needed here: this uses the C module below it.
"""

from __future__ import annotations

import _ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctypes import c_char as Char
    from ctypes import c_char_p as Text
    from ctypes import c_long as Long
    from ctypes import c_void_p as Pointer
    from mmap import mmap
    from typing import Any
else:
    class Char(_ctypes._SimpleCData):
        _type_ = "c"

    class Text(_ctypes._SimpleCData):
        _type_ = "z"

    class Long(_ctypes._SimpleCData):
        _type_ = "l"

    class Pointer(_ctypes._SimpleCData):
        _type_ = "P"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = Long


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # all that this process has linked


def address_of_function(name: str) -> int:
    """Where a function of the C library is in this process; OSError if it has none of that name."""
    address: int = _ctypes.dlsym(_library, name)
    return address


def addresses_of_functions(library: str, names: list[str]) -> dict[str, int]:
    """Where the loader says that functions of a library are in this process, which gets it if it has not: its path, or
    its soname. OSError if there is no such library; names that it does not have are left out."""
    handle = _ctypes.dlopen(library, 0)
    addresses: dict[str, int] = {}
    for name in names:
        try:
            addresses[name] = _ctypes.dlsym(handle, name)
        except OSError:
            continue
    return addresses


system_call: Any = _Function(address_of_function("syscall"))  # syscall(2), with a number and six arguments
system_call.argtypes = [Long] * 7
last_error = _ctypes.get_errno  # of the last system_call()


def address_of(data: bytes | bytearray | memoryview | mmap) -> int:
    """Address of a buffer's first byte (0 for an empty one). The caller keeps it alive."""
    if not data:
        return 0
    if isinstance(data, bytes):
        return Pointer.from_buffer(Text(data)).value or 0
    return _ctypes.addressof(Char.from_buffer(data))


class Array:
    """A C array of addresses of texts; it and they live as long as this."""

    def __init__(self, texts: list[bytes]) -> None:
        self._elements = (Text * len(texts))(*texts)
        self.address = _ctypes.addressof(self._elements)
