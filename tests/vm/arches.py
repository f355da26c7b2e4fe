"""The machines that QEMU emulates: one row for each."""

from __future__ import annotations

from typing import NamedTuple


class Arch(NamedTuple):
    """``name`` is that of ``uname -m``, ``debian`` that of Debian; ``machine`` and ``parameters`` are for QEMU and the
    kernel. ``kernels`` are Debian's smallest of it, ``suite`` is where the files of a root are from."""

    name: str
    debian: str
    qemu: str
    needs: str  # Debian's package of it
    machine: tuple[str, ...]
    parameters: str
    kernels: str
    suite: str = "bookworm"  # its Python is 3.11


ARCHES = {arch.name: arch for arch in (
    # Without cmpxchg16b: where an interrupt meets the emulator's, flags and stack are those of others, and every second
    # boot of Linux 6.12 dies of it. Kernels then take the lock that they have beside it.
    Arch("x86_64", "amd64", "qemu-system-x86_64", "qemu-system-x86",
         ("-M", "q35,memory-backend=mem", "-cpu", "max,la57=off,cx16=off"),
         "console=ttyS0 tsc=reliable no_timer_check", "cloud-amd64"),
    # Signed pointers, which larger models have, take the emulator longer than all else.
    Arch("aarch64", "arm64", "qemu-system-aarch64", "qemu-system-arm qemu-system-x86",
         ("-M", "virt,gic-version=3,memory-backend=mem", "-cpu", "neoverse-n1"), "console=ttyAMA0",
         "cloud-arm64"),
    Arch("riscv64", "riscv64", "qemu-system-riscv64", "qemu-system-misc opensbi qemu-system-x86",
         ("-M", "virt,memory-backend=mem", "-cpu", "rv64"), "console=ttyS0", "riscv64", "sid"))}
