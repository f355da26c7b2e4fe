"""XDP and tc programs with type information, loaded and attached by the tests without any compiler.

Each looks for a UDP datagram in IPv4 behind an Ethernet header, and decides by its first byte of payload, a number,
what becomes of it. Everything else passes.
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from btf_writer import Writer
from sonde.asm import insn
from sonde.asm.assemble import assemble
from sonde.btf.codec import PAIR
from sonde.kernel import syscalls

XDP, SCHED_CLS = 6, 3  # types of programs
BPF_XDP, TCX_INGRESS, TCX_EGRESS = 37, 46, 47  # where they are attached
ETHERTYPE, PROTOCOL, PORT, FIRST_BYTE = 12, 23, 36, 42  # offsets in the packet


def load_verdict(name: str, type: int, port: int, every: int, chosen: int, otherwise: int,
                 described: bool = True) -> syscalls.Fd:
    """A program of UDP datagrams to a port: of every ``every``-th number (0, N, 2N ...) the verdict is ``chosen``, of
    others ``otherwise``; of all other packets what lets them through. ``int NAME(struct xdp_md *ctx)``."""
    context = "xdp_md" if type == XDP else "__sk_buff"
    data, end = (0, 4) if type == XDP else (76, 80)
    writer = Writer()
    number = writer.add_integer("int", 4)
    fields = [("data", writer.add_integer("unsigned int", 4, False), data)]
    pointer = writer.add_pointer(writer.add_struct(context, 20 if type == XDP else 192, fields))
    function = writer.add_function(name, writer.add_prototype(number, [("ctx", pointer)]))
    passes = 2 if type == XDP else 0
    code = assemble([
        insn.load(2, 1, data, 4), insn.load(3, 1, end, 4), insn.alu("mov", 0, imm=passes),
        insn.alu("mov", 4, 2), insn.alu("add", 4, imm=FIRST_BYTE + 1), insn.branch("jgt", 4, 3, 0, "done"),
        insn.load(4, 2, ETHERTYPE, 2), insn.branch("jne", 4, None, int.from_bytes(b"\x08\x00", "little"), "done"),
        insn.load(4, 2, PROTOCOL, 1), insn.branch("jne", 4, None, 17, "done"),
        insn.load(4, 2, PORT, 2), insn.byte_swap(4, 16), insn.branch("jne", 4, None, port, "done"),
        insn.load(4, 2, FIRST_BYTE, 1), insn.alu("mod", 4, imm=every), insn.alu("mov", 0, imm=otherwise),
        insn.branch("jne", 4, None, 0, "done"), insn.alu("mov", 0, imm=chosen), "done", insn.exit_(),
    ]).code
    if not described:
        return syscalls.prog_load(type, code, name)
    with syscalls.btf_load(writer.build_blob()) as btf:
        return syscalls.prog_load(type, code, name, btf=btf, func_info=PAIR.pack(0, function))


def attach(program: syscalls.Fd, device: int, where: int) -> syscalls.Fd:
    """A link of a program to a device of this thread's namespace."""
    return syscalls._link_create(program, device, where, 0, struct.pack("=II", 0, 0))


def attach_by_tc(program: syscalls.Fd, device: str, direction: str) -> None:
    """By a clsact qdisc and a filter, direct-action, as before tcx, in this thread's namespace (tc -n would hide the
    file system of the pin); CalledProcessError where the kernel has none."""
    path = Path(f"/sys/fs/bpf/sonde{os.getpid()}_{program.number}")
    syscalls.pin_object(program, str(path))
    try:
        for words in (["qdisc", "replace", "dev", device, "clsact"],
                      ["filter", "add", "dev", device, direction, "bpf", "direct-action", "object-pinned", str(path)]):
            subprocess.run(["tc", *words], check=True, capture_output=True, text=True)
    finally:
        path.unlink()
