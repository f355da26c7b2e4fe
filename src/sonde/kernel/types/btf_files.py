"""Type information for a kernel that exposes none: the file that the command line or BPFTRACE_BTF names, or one in the
places where distributions and debug packages put the kernel. Either must belong to the running kernel: by its build id,
or, where a file has none, by the functions that it describes."""

from __future__ import annotations

import os
import struct

from ...btf import codec
from ...btf.query import open_kernel
from ...errors import MachineError, UsageError
from .. import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...btf.query import Btf

_NOTES = "/sys/kernel/notes"
_GNU_BUILD_ID = 3
_STRANGE = 0.05  # the share of functions in BTF that kallsyms may lack (with a kernel's own BTF: 0.017)


def has_own_btf() -> bool:
    """Whether the kernel itself exposes its types."""
    return os.path.exists(places.OWN_BTF)


def open_types() -> Btf | None:
    """The kernel's types, from itself or a file; None if there are none. UsageError, MachineError."""
    named = places.kernel_btf or os.environ.get("BPFTRACE_BTF", "")
    if has_own_btf():
        if places.kernel_btf:
            raise UsageError("--btf: this kernel has type information of its own",
                             [f"sonde check --btf {places.kernel_btf} SCRIPT compiles for another kernel"])
        return open_kernel(places.OWN_BTF)
    path = named or _find_file()
    if not path:
        return None
    btf = open_kernel(path)
    if named and (problem := _mismatch(path, btf)):
        raise MachineError(f"{path}: type information of another kernel: {problem}")
    return btf


def _find_file() -> str:
    """A file in the usual places with the kernel's build id; "" if there is none."""
    wanted = kernel_build_id()
    if not wanted:
        return ""
    digits = wanted.hex()
    candidates = [f"{top}/.build-id/{digits[:2]}/{digits[2:]}.debug" for top in places.debug_directories]
    candidates += places.kernel_files()
    return next((path for path in candidates if _build_id_of(path) == wanted and _has_types(path)), "")


def _has_types(path: str) -> bool:
    try:
        return open_kernel(path) is not None
    except MachineError:
        return False


def _mismatch(path: str, types: Btf) -> str:
    """Why a file must be of another kernel; "" if nothing says so."""
    own, theirs = kernel_build_id(), _build_id_of(path)
    if own and theirs:
        return "" if own == theirs else f"its build id is {theirs.hex()}, and not {own.hex()}"
    try:
        with open("/proc/kallsyms", encoding="ascii", errors="replace") as file:
            known = {line.split(None, 3)[2] for line in file}
    except OSError:
        return ""
    functions = [name for name, _ in types.named_types(codec.FUNC)]
    strange = sum(name not in known for name in functions)
    few = strange <= _STRANGE * len(functions)
    return "" if few else f"{strange:,} of its {len(functions):,} functions are not here"


def _build_id_of(path: str) -> bytes:
    """The build id of an ELF file; b"" if it is not one, or has none."""
    if not os.path.exists(path):
        return b""
    from ..foreign.files import open_elf
    try:
        return open_elf(path).build_id
    except MachineError:
        return b""


def kernel_build_id() -> bytes:
    """The build id of the running kernel, from its notes (elf(5)); b"" if it has none."""
    try:
        with open(_NOTES, "rb") as file:
            notes = file.read()
    except OSError:
        return b""
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = struct.unpack_from("=III", notes, at)
        start = at + 12 + (name + 3 & ~3)
        if kind == _GNU_BUILD_ID and notes[at + 12:at + 15] == b"GNU":
            return notes[start:start + size]
        at = start + (size + 3 & ~3)
    return b""
