"""The numbers that a C compiler's macros stand for before the first line is read, and those of <endian.h>."""

from __future__ import annotations

from ..arch import find_arch

_COMMON = {
    "BPFTRACE_HAVE_BTF": 1, "__linux__": 1, "__linux": 1, "linux": 1, "__gnu_linux__": 1, "__unix__": 1, "__unix": 1,
    "unix": 1, "__ELF__": 1, "__STDC__": 1, "__STDC_HOSTED__": 1, "__STDC_VERSION__": 201710,
    "__GNUC__": 4, "__GNUC_MINOR__": 2, "__GNUC_PATCHLEVEL__": 1, "__clang__": 1, "__clang_major__": 21,
    "__clang_minor__": 1, "__LP64__": 1, "_LP64": 1, "__CHAR_BIT__": 8, "__SIZEOF_SHORT__": 2, "__SIZEOF_INT__": 4,
    "__SIZEOF_LONG__": 8, "__SIZEOF_LONG_LONG__": 8, "__SIZEOF_POINTER__": 8, "__SIZEOF_SIZE_T__": 8,
    "__SIZEOF_INT128__": 16, "__SCHAR_MAX__": 127, "__SHRT_MAX__": 32767, "__INT_MAX__": (1 << 31) - 1,
    "__LONG_MAX__": (1 << 63) - 1, "__LONG_LONG_MAX__": (1 << 63) - 1,
    "__ORDER_LITTLE_ENDIAN__": 1234, "__ORDER_BIG_ENDIAN__": 4321, "__ORDER_PDP_ENDIAN__": 3412,
}
# Defined in every program that includes libc's <endian.h>, and in the kernel's for its own order alone: whether they
# are defined tells nothing here.
_VALUES = {"__LITTLE_ENDIAN": 1234, "__BIG_ENDIAN": 4321, "LITTLE_ENDIAN": 1234, "BIG_ENDIAN": 4321,
           # a compiler's own <limits.h>, of which libc's defines the rest
           "CHAR_BIT": 8, "SCHAR_MIN": -128, "SCHAR_MAX": 127, "UCHAR_MAX": 255, "SHRT_MIN": -32768, "SHRT_MAX": 32767,
           "USHRT_MAX": 65535, "INT_MIN": -1 << 31, "INT_MAX": (1 << 31) - 1, "UINT_MAX": (1 << 32) - 1,
           "LONG_MIN": -1 << 63, "LONG_MAX": (1 << 63) - 1, "ULONG_MAX": (1 << 64) - 1, "LLONG_MIN": -1 << 63,
           "LLONG_MAX": (1 << 63) - 1, "ULLONG_MAX": (1 << 64) - 1}


def predefined_macros(machine: str) -> tuple[dict[str, int], dict[str, int]]:
    """For a machine as uname -m names it: the macros that are defined, and names that have a value in conditions."""
    row = find_arch(machine)
    if row is None:
        return _COMMON, {}
    order = 1234 if row.byte_order == "little" else 4321
    ours = f"__{row.byte_order.upper()}_ENDIAN"
    known = {**_COMMON, "__BIGGEST_ALIGNMENT__": row.largest_alignment}
    known |= dict.fromkeys((*row.c_macros, f"{ours}__", f"{ours}_BITFIELD"), 1) | {"__BYTE_ORDER__": order}
    return known, _VALUES | dict.fromkeys(("__BYTE_ORDER", "BYTE_ORDER"), order)
