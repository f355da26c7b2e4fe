"""The machines that QEMU emulates: one row for each."""

from __future__ import annotations

from typing import NamedTuple


class Share(NamedTuple):
    """A way to the host's files: what mounts it, and what the kernel needs for it."""

    type: str
    options: str
    drivers: tuple[str, ...]


VIRTIOFS = Share("virtiofs", "defaults", ("virtiofs",))
# FUSE, and so virtiofs, speaks in the byte order of the host; 9p has one of its own. cache: file, metadata and loose
# (fs/9p/v9fs.h), but no writing later, as the guest is switched off.
NINE_P = Share("9p", "trans=virtio,version=9p2000.L,msize=512000,cache=0xb", ("9p", "9pnet_virtio"))


class Arch(NamedTuple):
    """``name`` is that of ``uname -m``, ``debian`` that of Debian; ``machine`` and ``parameters`` are for QEMU and the
    kernel. ``kernels`` are Debian's smallest of it, ``suite`` is where the files of a root are from; ``bus`` is what
    the devices are on, and ``share`` the file system that the root comes by."""

    name: str
    debian: str
    qemu: str
    needs: str  # Debian's package of it
    machine: tuple[str, ...]
    parameters: str
    kernels: str
    suite: str = "bookworm"  # its Python is 3.11
    bus: str = "pci"
    share: Share = VIRTIOFS


ARCHES = {arch.name: arch for arch in (
    # The kernel without cmpxchg16b: where an interrupt meets the emulator's, flags and stack are those of others, and
    # every second boot of Linux 6.12 dies of it. It then takes the lock that it has beside it. Not the whole machine
    # without it: NumPy starts on none.
    Arch("x86_64", "amd64", "qemu-system-x86_64", "qemu-system-x86",
         ("-M", "q35,memory-backend=mem", "-cpu", "max,la57=off"),
         "console=ttyS0 tsc=reliable no_timer_check clearcpuid=141", "cloud-amd64"),
    # Signed pointers, which larger models have, take the emulator longer than all else.
    Arch("aarch64", "arm64", "qemu-system-aarch64", "qemu-system-arm qemu-system-x86",
         ("-M", "virt,gic-version=3,memory-backend=mem", "-cpu", "neoverse-n1"), "console=ttyAMA0",
         "cloud-arm64"),
    Arch("riscv64", "riscv64", "qemu-system-riscv64", "qemu-system-misc opensbi qemu-system-x86",
         ("-M", "virt,memory-backend=mem", "-cpu", "rv64"), "console=ttyS0", "riscv64", "sid"),
    Arch("s390x", "s390x", "qemu-system-s390x", "qemu-system-misc qemu-system-x86",
         ("-M", "s390-ccw-virtio,memory-backend=mem", "-cpu", "max"), "console=ttysclp0", "s390x",
         bus="ccw", share=NINE_P))}
