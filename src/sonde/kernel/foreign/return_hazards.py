"""Whether something reads the return addresses on the stacks of a file's functions.

The kernel's return probe replaces a function's return address (prepare_uretprobe() in kernel/events/uprobes.c). What
then walks the stack by itself meets an address that belongs to no function: Go's runtime and the unwinders of C++ and
Rust end the program, and C's cleanup is left out. What changes to another stack within a function returns in an order
that the kernel does not expect (cleanup_return_instances() there).

A file tells by its sections, by names that it defines or imports, and by the personality routines in its .eh_frame
(Itanium C++ ABI: Exception Handling, 2.4). glibc is C, and has such a routine for the cleanup of its own locks: it is
no hazard, nor is a C program that has it linked in.
"""

from __future__ import annotations

import re
from sys import byteorder

from .elf import DT_NEEDED, ET_EXEC, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, Elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Sections of Go's linker (cmd/link/internal/ld: data.go, elf.go, pcln.go), and its note in files without sections.
_GO_SECTIONS = (".note.go.buildid", ".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo")
_GO_NOTE = "Go"
# Names by which the run-time system of a language shows, whether a file defines or imports them.
_LANGUAGES = {
    "go": (b"runtime.gopanic", b"runtime.morestack"),
    "c++": (b"__cxa_throw", b"__cxa_rethrow", b"__cxa_begin_catch", b"__gxx_personality_v0"),
    "rust": (b"rust_eh_personality", b"rust_begin_unwind", b"__rust_start_panic"),
    "unwound": (b"__objc_personality_v0", b"__gdc_personality_v0", b"__gnat_personality_v0"),
    "collected": (b"caml_frametable", b"stg_upd_frame_info", b"graal_create_isolate"),
    "stacks": (b"swapcontext", b"jump_fcontext", b"coroutine_transfer"),
}
_UNWINDER = (b"_Unwind_Resume", b"_Unwind_RaiseException", b"_Unwind_ForcedUnwind", b"__gcc_personality_v0")
_MANGLED = re.compile(rb"\0_Z(?:\d|N[\dKLSVr]|L\d|S[at]|T[ISVTv]|nw|na|dl|da)")  # of C++, and of Rust until 2025
_CPP_LIBRARIES = ("libstdc++.so", "libc++.so", "libc++abi.so")
_C_LIBRARIES = ("libc.so.6", "libpthread.so.0", "librt.so.1", "libanl.so.1")
# What marks the thrown objects of a language, a number of 64 bits: x86-64 has it whole in its instructions. Rust's has
# its letters in order in memory, the others in the number.
_CLASSES = [b"MOZ\0RUST"] + [text[::-1] for text in (b"GNUCC++\0", b"CLNGC++\0", b"MOZ\0RUST", b"GNUCOBJC",
                                                     b"GNU-Ada\0", b"GNUCD\0\0\0")]

PT_INTERP, EXECUTABLE = 3, 1
EM_X86_64 = 62
DT_SONAME, DT_FLAGS_1, DF_1_PIE = 14, 0x6FFFFFFB, 0x08000000
PORTION, OVERLAP = 4 << 20, 64
MOST_NAMES, MOST_CODE = 48 << 20, 128 << 20  # bytes that are searched


def return_hazard(elf: Elf) -> str:
    """What is endangered: a key of ``_LANGUAGES``; "unwound" where exceptions or C's cleanup pass; "unclear" where
    there is no telling; "" if nothing is."""
    if not elf.sections:
        return "unclear"
    if any(section.name in _GO_SECTIONS for section in elf.sections) or \
            any(owner == _GO_NOTE for owner, _, _ in elf.read_notes()):
        return "go"
    named, unwinds = _search_names(elf)
    is_libc = any(name in _C_LIBRARIES for name in elf.dynamic_texts(DT_SONAME))
    if named and not (is_libc and named == "stacks"):
        return named
    if any(name.startswith(_CPP_LIBRARIES) for name in elf.dynamic_texts(DT_NEEDED)):
        return "c++"
    if is_libc:
        return ""
    if not _is_static(elf):
        return "unwound" if unwinds or _has_personality(elf) else ""
    return _static_hazard(elf) if _has_personality(elf) else ""


def _search_names(elf: Elf) -> tuple[str, bool]:
    """(the language that names in the symbol tables are of, or "", whether some are of an unwinder)."""
    unwinds = False
    for table in elf.sections:
        if table.type in (SHT_SYMTAB, SHT_DYNSYM) and table.link < len(elf.sections):
            strings = elf.sections[table.link]
            for data in _portions(elf, strings.offset, min(strings.size, MOST_NAMES)):
                for language, names in _LANGUAGES.items():
                    if any(name + b"\0" in data for name in names):
                        return language, True
                if _MANGLED.search(data):
                    return "c++", True
                unwinds = unwinds or any(name + b"\0" in data for name in _UNWINDER)
    return "", unwinds


def _portions(elf: Elf, at: int, size: int) -> Iterator[bytes]:
    """The bytes of a part of the file; each portion begins with the end of the one before."""
    for begin in range(0, size, PORTION):
        yield elf.read(at + max(begin - OVERLAP, 0), min(PORTION, size - begin) + min(begin, OVERLAP))


def _is_static(elf: Elf) -> bool:
    """Whether it is a program that needs no library."""
    if any(segment.type == PT_INTERP for segment in elf.segments) or elf.dynamic_texts(DT_NEEDED):
        return False
    return elf.type == ET_EXEC or any(tag == DT_FLAGS_1 and value & DF_1_PIE for tag, value in elf.dynamic_entries)


def _has_personality(elf: Elf) -> bool:
    """Whether a function of the file has something to do when the stack is unwound through it."""
    if any(section.name.startswith(".gcc_except_table") and section.size for section in elf.sections):
        return True
    section = elf.find_section(".eh_frame")
    return section is not None and any("P" in text for text in _augmentations(elf.section_bytes(section)))


def _augmentations(data: bytes) -> Iterator[str]:
    """The augmentation strings of all CIEs of an .eh_frame (LSB 5.0, 10.6.1.1)."""
    at = 0
    while at + 9 <= len(data):
        length = int.from_bytes(data[at:at + 4], byteorder)
        if length == 0xFFFFFFFF:
            return
        if length and data[at + 4:at + 8] == b"\0\0\0\0":
            yield data[at + 9:at + 9 + 16].partition(b"\0")[0].decode("latin-1")
        at += 4 + length


def _static_hazard(elf: Elf) -> str:
    """Of a static program with personality routines: glibc's alone, or that of a language too."""
    if elf.machine != EM_X86_64:
        return "unclear"
    left = MOST_CODE
    for segment in elf.segments:
        if segment.type == PT_LOAD and segment.flags & EXECUTABLE:
            for data in _portions(elf, segment.offset, min(segment.file_size, left)):
                if any(mark in data for mark in _CLASSES):
                    return "unwound"
            left -= min(segment.file_size, left)
    return "" if left else "unclear"
