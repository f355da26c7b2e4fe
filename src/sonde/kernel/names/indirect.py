"""Which code serves an indirect function (STT_GNU_IFUNC), such as glibc's strlen: its symbol is that of a resolver,
which the loader calls once, and which returns the implementation for this machine's CPU.

Whoever knows is asked, the most certain first: a process of -p, which has the address where the loader put it; this
process's own loader, for the C library's files that it has, or may have, itself; and the names of implementations,
which glibc and compilers form in a known way. All of those are then probed: a process uses but one.
"""

from __future__ import annotations

import os
import re

from ...base.fast_stdlib import bisect_right
from ...base.trusted_files import why_untrusted
from ...errors import MachineError
from ...spec import Implementation
from .. import libc
from ..foreign.files import ElfFile, open_elf
from ..foreign.process_memory import read_words
from .process_files import identity
from .user_symbols import Mapping, read_maps

_OWN_LIBRARIES = ("libm.so.6", "libmvec.so.1")  # of glibc, which this process may load: it is their code already
_MOST_FILES = 512  # mapped files of a process that are searched for a slot

# How glibc (sysdeps/*/multiarch) and GCC's target_clones ("f.avx2", "f.arch_haswell.0") call implementations.
_LEVELS = ("sse2|sse4|sse41|sse42|sse4_1|ssse3|avx|avx2|evex|evex256|evex512|avx512|avx512f|avx512_no_vzeroupper|fma|"
           "fma4|erms|unaligned|rtm|movbe|no_bsf|generic|c|falkor|thunderx|thunderx2|a64fx|emag|kunpeng|oryon1|nosimd|"
           "asimd|simd|sve|mte|mops|zva64|z10|z13|z14|z15|z196|arch13|vx|default|noalignment|rvv")
_CLONE = re.compile(r"\.(?:default|arch_\w+|(?:sse|avx|fma|bmi|popcnt|lse|sve|vx)\w*)(?:\.\d+)?\Z")
_SUFFIX = re.compile(rf"(?:_(?:{_LEVELS}))+\Z")


def find_implementations(path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
    """Of the indirect functions of these names in a file, by the offsets of their resolvers. MachineError."""
    file = open_elf(path)
    resolvers: dict[str, set[int]] = {}
    for name, address in file.indirect_functions():
        resolvers.setdefault(name, set()).add(address)
    if not resolvers.keys() & set(names):
        return {}
    wanted = {address for name in names for address in resolvers.get(name, ())}
    called = {address: sorted(name for name, own in resolvers.items() if address in own) for address in wanted}
    chosen = _ask_process(file, called, pid) if pid else {}
    own = _ask_loader(file, resolvers)
    for address in wanted - chosen.keys():
        chosen[address] = own.get(address) or _guess_by_name(file, called[address]) or _unknown(called[address], pid)
    _note_others(chosen, own, resolvers)
    return {offset: chosen[address] for address in wanted if (offset := file.address_to_offset(address)) is not None}


def _note_others(chosen: dict[int, Implementation], own: dict[int, Implementation],
                 resolvers: dict[str, set[int]]) -> None:
    """Tell of each which other functions have its code, by what this machine's loader chose for them."""
    for address, known in chosen.items():
        same = {at for at, other in own.items() if at != address and set(other.offsets) & set(known.offsets)}
        known.others = sorted(name for name, places in resolvers.items()
                              if places & same and address not in places and not name.startswith("_"))


def _unknown(names: list[str], pid: int) -> Implementation:
    hint = "probe its implementation by its own name, as sonde -l lists it" if pid else \
        "-p PID finds the one that a process has chosen; or probe its implementation by its own name"
    return Implementation(problem=f"which code serves {names[0]} is chosen when the file is loaded (IFUNC), and it is "
                          "not known which" + (f": process {pid} has not called it" if pid else ""), hints=[hint])


# ---- this process's loader


def _ask_loader(file: ElfFile, resolvers: dict[str, set[int]]) -> dict[int, Implementation]:
    """By the address of the resolver, what this process's loader has chosen; {} if the file is not one of its own."""
    library = _own_library(file.path)
    # A name of two versions has two resolvers, and the loader tells of one.
    single = {name: min(places) for name, places in resolvers.items() if len(places) == 1}
    try:
        addresses = libc.addresses_of_functions(library, list(single)) if library else {}
    except OSError:
        return {}
    maps = read_maps(os.getpid())
    chosen: dict[int, Implementation] = {}
    for name, address in addresses.items():
        known = _locate(file, maps, address, name)
        if known is not None:
            chosen.setdefault(single[name], known)
    return chosen


def _own_library(path: str) -> str:
    """What the loader calls a file that this process has mapped, or may map without running anybody's code but the C
    library's; "" for others."""
    wanted = identity(path)
    if wanted is None:
        return ""
    own = {m.path for m in read_maps(os.getpid()) if m.path}
    known = next((each for each in own if identity(each) == wanted), "")
    name = os.path.basename(path)
    try:
        return known or (name if name in _OWN_LIBRARIES and not why_untrusted(path) else "")
    except OSError:
        return ""


def _locate(file: ElfFile, maps: list[Mapping], address: int, name: str) -> Implementation | None:
    """Where an address of a process is in the file; None if it is in another."""
    at = bisect_right(maps, address, key=lambda m: m.start) - 1
    mapping = maps[at] if at >= 0 and address < maps[at].end else None
    if mapping is None:
        return None
    if mapping.name == "[vdso]":
        return Implementation(problem=f"{name} is served by the kernel's vDSO, in which there can be no probe",
                              hints=["its callers can be probed; it makes no system call"])
    if identity(mapping.path) != identity(file.path):
        return None
    return Implementation([address - mapping.start + mapping.offset])


# ---- a process


def _ask_process(file: ElfFile, called: dict[int, list[str]], pid: int) -> dict[int, Implementation]:
    """By the address of the resolver, what a process has in the slots of its files. A slot that was not used yet leads
    to the file that has it, and tells nothing."""
    maps = read_maps(pid)
    slots = [slot for mapping in _first_mappings(maps) for slot in _slots_in(file, mapping, called)]
    try:
        values = read_words(pid, [address for address, _ in slots])
    except MachineError:
        return {}
    chosen: dict[int, Implementation] = {}
    for (_, resolver), value in zip(slots, values):
        known = _locate(file, maps, value & (1 << file.bits) - 1, called[resolver][0])
        if known is not None:
            chosen.setdefault(resolver, known)
    return chosen


def _first_mappings(maps: list[Mapping]) -> list[Mapping]:
    """One mapping of each file."""
    return list({mapping.path: mapping for mapping in reversed(maps) if mapping.path}.values())[:_MOST_FILES]


def _slots_in(file: ElfFile, mapping: Mapping, called: dict[int, list[str]]) -> list[tuple[int, int]]:
    """(address in the process, resolver) of the slots that a mapped file has for functions of ``file``."""
    names = {name: address for address, own in called.items() for name in own}
    foreign = identity(mapping.path) != identity(file.path)
    try:
        user = open_elf(mapping.path)
        slots = user.indirect_slots(list(names) if foreign else [])
    except MachineError:
        return []
    base = user.load_base(mapping.offset, mapping.start, mapping.end)
    resolved = [(slot, names[name] if foreign else resolver) for slot, resolver, name in slots
                if (name in names if foreign else resolver in called)]
    return [(base + slot, resolver) for slot, resolver in resolved] if base is not None else []


# ---- names


def _guess_by_name(file: ElfFile, names: list[str]) -> Implementation | None:
    """All functions of the file that are called as implementations of one of these names; None if none is."""
    offsets = {function.offset for function in file.functions() for name in names
               if _is_implementation(function.name, name)}
    return Implementation(sorted(offsets)) if offsets else None


def _is_implementation(function: str, name: str) -> bool:
    """``__strlen_avx2`` of strlen or __strlen; ``f.avx2.0`` of f."""
    bare = name.lstrip("_")
    if function.startswith(f"__{bare}_"):
        return _SUFFIX.fullmatch(function[len(bare) + 2:]) is not None
    return function.startswith(name + ".") and _CLONE.fullmatch(function[len(name):]) is not None
