"""Symbols on their way to another machine: a ZIP archive of symbol files, each named by its build id."""

from __future__ import annotations

import os

from ...errors import MachineError
from ..foreign.files import ElfFile, ForeignFile
from ..foreign.opening import open_regular
from . import symbol_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ENTRY = 64 << 20  # bytes of a symbol file in a pack


def write_pack(path: str, build_ids: list[str]) -> int:
    """Write what the store has under these build ids; how many there were. MachineError if there is none, or the
    file cannot be written."""
    from zipfile import ZIP_STORED, ZipFile

    from ...base.trusted_files import open_guarded
    count = 0
    try:
        descriptor = open_guarded(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with open(descriptor, "wb") as file, ZipFile(file, "w", ZIP_STORED) as pack:
            for digits in build_ids:
                stored = symbol_store.open_symbols(bytes.fromhex(digits))
                if stored < 0:
                    raise MachineError(f"no symbols of build id {digits} are stored")
                with open(stored, "rb") as entry:
                    pack.writestr(digits, entry.read())
                count += 1
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror or error}") from None
    return count


def use_pack(path: str) -> tuple[int, list[str]]:
    """Take a pack's symbols into the store: how many there were, and what is wrong with the others. They are rewritten
    from what the reader says about them. MachineError if the file is no pack."""
    taken, problems = 0, []
    pack = ForeignFile(path, open_regular(path))
    try:
        try:
            members = pack.ask_reader("archive_members")
        except MachineError as problem:
            raise MachineError(f"{path} is no pack of symbols: {problem.message}") from None
        for name, at, size in members:
            try:
                taken += _take_member(pack, name, at, size)
            except MachineError as problem:
                problems.append(f"{name}: {problem.message}")
    finally:
        pack.close()
    if not taken and not problems:
        problems.append(f"{path} has no symbol files; what is compressed in it is not read")
    return taken, problems


def _take_member(pack: ForeignFile, name: str, at: int, size: int) -> bool:
    if size > MOST_ENTRY:
        raise MachineError(f"it has {size} bytes, of which {MOST_ENTRY} are read at most")
    copy = os.memfd_create("symbols", os.MFD_CLOEXEC)
    try:
        for part in _read_parts(pack.open_descriptor(), at, size):
            os.write(copy, part)
        file = ElfFile(f"{pack.path}: {name}", os.dup(copy))
        try:
            if file.build_id.hex() != name:
                raise MachineError("it has another build id")
            if not symbol_store.put_symbols(file.build_id, file.symbol_file(file.origin)):
                raise MachineError("the cache directory cannot be written")
        finally:
            file.forget_contents()
            file.close()
    finally:
        os.close(copy)
    return True


def _read_parts(descriptor: int, at: int, size: int) -> Iterator[bytes]:
    while size > 0 and (part := os.pread(descriptor, min(size, 1 << 20), at)):
        yield part
        at, size = at + len(part), size - len(part)
