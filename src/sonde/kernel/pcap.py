"""Packet filters as tcpdump has them, compiled by libpcap itself.

libpcap is a C library, loaded when the first filter is compiled. It parses what the user has typed for himself; names
of hosts and services are looked up as the system does it.
"""

from __future__ import annotations

import ctypes

from ..spec import ClassicFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = ("libpcap.so.1", "libpcap.so.0.8", "libpcap.so")  # upstream, Debian, of a development package
LINKS = {"ethernet": 1, "ip": 12}  # DLT_EN10MB, DLT_RAW: pcap/dlt.h
_LARGEST_PACKET = 262144   # MAXIMUM_SNAPLEN: pcap-int.h
_ANY_NETMASK = 0xFFFFFFFF  # PCAP_NETMASK_UNKNOWN
MOST = 4096                # instructions, as the kernel takes them (BPF_MAXINSNS)
LONGEST = 65536            # characters of an expression


class _Instruction(ctypes.Structure):
    """struct bpf_insn: pcap/bpf.h."""

    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    """struct bpf_program."""

    _fields_ = [("length", ctypes.c_uint), ("instructions", ctypes.POINTER(_Instruction))]


_libraries: list[Any] = []  # the library, once looked for; None: it is not installed


def _load_library() -> Any:
    if not _libraries:
        _libraries.append(next(filter(None, map(_open_library, _NAMES)), None))
    return _libraries[0]


def _open_library(name: str) -> Any:
    try:
        library = ctypes.CDLL(name)
        library.pcap_open_dead.restype = library.pcap_geterr.restype = ctypes.c_void_p
        library.pcap_open_dead.argtypes = [ctypes.c_int, ctypes.c_int]
        library.pcap_compile.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Program), ctypes.c_char_p, ctypes.c_int,
                                         ctypes.c_uint32]
        library.pcap_freecode.argtypes = [ctypes.POINTER(_Program)]
        library.pcap_close.argtypes = library.pcap_geterr.argtypes = [ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return library


def compile_filter(expression: str, link: str) -> ClassicFilter | None:
    """The filter for packets that begin with an Ethernet header or with an IP header (a key of ``LINKS``), or libpcap's
    complaint; None where libpcap is not installed."""
    library = _load_library()
    if library is None:
        return None
    if len(expression) > LONGEST:
        return ClassicFilter([], f"the filter has more than {LONGEST} characters")
    if "\0" in expression:
        return ClassicFilter([], "the filter has a NUL, at which it would end")
    handle = library.pcap_open_dead(LINKS[link], _LARGEST_PACKET)
    if not handle:
        return ClassicFilter([], "libpcap has no memory")
    program = _Program()
    try:
        text = expression.encode("utf-8", "surrogateescape")
        if library.pcap_compile(handle, ctypes.byref(program), text, 1, _ANY_NETMASK) < 0:
            complaint = ctypes.string_at(library.pcap_geterr(handle)).decode("utf-8", "replace")
            return ClassicFilter([], complaint.removeprefix("syntax error in filter expression: "))
        if program.length > MOST:
            return ClassicFilter([], f"the filter has {program.length} instructions, more than {MOST}")
        made = [(each.code, each.jt, each.jf, each.k) for each in program.instructions[:program.length]]
        return ClassicFilter(made)
    finally:
        library.pcap_freecode(ctypes.byref(program))
        library.pcap_close(handle)
