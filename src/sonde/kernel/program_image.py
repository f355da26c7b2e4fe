"""The machine code of a loaded BPF program, and the source lines it came from: BPF_OBJ_GET_INFO_BY_FD returns both to
whoever may see kernel addresses (bpf_prog_get_info_by_fd() in kernel/bpf/syscall.c)."""

from __future__ import annotations

import struct

from ..base.fast_stdlib import bisect_right
from ..base.record import Record
from ..errors import SyscallError
from . import syscalls
from .libc import address_of

_SIZE = 232  # of struct bpf_prog_info, as far as it is known here
# Offsets in it: a count, and the pointer to that many records.
_CODE, _ADDRESSES, _LENGTHS = (16, 24), (104, 112), (108, 120)
_LINES, _LINE_ADDRESSES = (148, 152), (168, 160)
_BTF, _LINE_SIZE, _ADDRESS_SIZE = 128, 172, 176
_LINE, _ADDRESS = 16, 8  # bytes of struct bpf_line_info, and of a native address


class Code(Record):
    """One function of a program: the address of its machine code, and the code."""

    address: int
    code: bytes


class Image(Record):
    """A program's code. ``lines`` are (address of the first instruction, source line), by address."""

    functions: list[Code]
    lines: list[tuple[int, str]]

    def line_at(self, address: int) -> str:
        """The source line that an instruction belongs to; "" if the program was loaded without line information."""
        at = bisect_right(self.lines, address, key=lambda line: line[0]) - 1
        return self.lines[at][1] if at >= 0 else ""


def read_program_image(number: int) -> Image | None:
    """The program's code; None if the kernel interprets it, or hides its addresses. SyscallError if it has gone."""
    with syscalls.object_by_id("program", number) as fd:
        raw = syscalls.object_info(fd, bytearray(_SIZE))
        buffers: list[bytearray] = []
        request = bytearray(_SIZE)
        for (count_at, pointer_at), size in ((_CODE, 1), (_ADDRESSES, 8), (_LENGTHS, 4), (_LINES, _LINE),
                                             (_LINE_ADDRESSES, _ADDRESS)):
            count, = struct.unpack_from("=I", raw, count_at)
            buffers.append(bytearray(count * size))
            struct.pack_into("=I", request, count_at, count)
            struct.pack_into("=Q", request, pointer_at, address_of(buffers[-1]))
        struct.pack_into("=I", request, _LINE_SIZE, _LINE)
        struct.pack_into("=I", request, _ADDRESS_SIZE, _ADDRESS)
        syscalls.object_info(fd, request)
    code, addresses, lengths, lines, places = buffers
    starts = [start for start, in struct.iter_unpack("=Q", addresses)]
    if not code or not any(starts):
        return None
    functions, at = [], 0
    for start, (length,) in zip(starts, struct.iter_unpack("=I", lengths)):
        functions.append(Code(start, bytes(code[at:at + length])))
        at += length
    return Image(functions, _name_lines(lines, places, struct.unpack_from("=I", raw, _BTF)[0]))


def _name_lines(lines: bytearray, addresses: bytearray, btf: int) -> list[tuple[int, str]]:
    """The text of the lines, which are strings in the program's BTF."""
    if not addresses or not btf:
        return []
    try:
        with syscalls.object_by_id("btf", btf) as fd:
            blob = syscalls.btf_blob(fd)
    except SyscallError:
        return []
    header, strings = struct.unpack_from("=I", blob, 4)[0], struct.unpack_from("=I", blob, 16)[0]

    def string_at(offset: int) -> str:
        start = header + strings + offset
        return blob[start:blob.index(b"\0", start)].decode("utf-8", "replace").strip()

    records = struct.iter_unpack("=IIII", lines)
    return sorted((address, string_at(line))
                  for (address,), (_, _, line, _) in zip(struct.iter_unpack("=Q", addresses), records))
