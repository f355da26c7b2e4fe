"""Debian's kernels, ready to boot under QEMU.

A kernel's directory in the cache has boot/vmlinuz-VERSION, vmlinux where it could be taken out of that,
lib/modules/VERSION, base.cpio (a first root: busybox and a few drivers) and ``ready``.
"""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

from arches import Arch
from debian import Apt, Unavailable, cache_directory, making
from debian_root import prepared_root

# Which of Debian's suites has the kernels of a series.
SUITES = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "bookworm-backports", "6.16": "trixie-backports",
          "6.17": "trixie-backports", "6.18": "trixie-backports", "7.2": "sid", "7.3": "trixie-backports"}
PARTS = ("linux-image-", "linux-base-", "linux-binary-", "linux-modules-")  # since 7.x a kernel is several packages
DRIVERS = ("virtio_pci", "virtio_console", "overlay")  # and those of the share
HERE = Path(__file__).parent

Entry = tuple[str, int, bytes]  # name, mode, contents


def prepared(wanted: str, arch: Arch) -> Path:
    """The directory of the newest kernel of a series ("6.12"): from the cache, else from Debian."""
    root, cache = prepared_root(arch), cache_directory()
    have = candidates([d.name for d in cache.iterdir() if (d / "ready").exists()], wanted, arch)
    if have:
        return cache / have[-1]
    apt = Apt(SUITES.get(wanted, "sid"), arch.debian)
    return fetch(newest_package(wanted, arch, apt), cache, root, apt, (*DRIVERS, *arch.share.drivers))


def candidates(names: Iterable[str], wanted: str, arch: Arch) -> list[str]:
    """The smallest kernels of a series, oldest first."""
    pattern = re.compile(rf"linux-image-{re.escape(wanted)}(?:[.+-].*)?-{arch.kernels}")
    found = [n for n in names if pattern.fullmatch(n) and not re.search(r"-(rt|dbg|unsigned)", n)]
    return sorted((n for n in found if re.match(r"linux-image-\d+\.\d+\.\d", n)), key=natural)


def natural(text: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdigit() else (0, p) for p in re.split(r"(\d+)", text) if p]


def newest_package(wanted: str, arch: Arch, apt: Apt) -> str:
    said = ""
    for update in (False, True):
        if update:
            said = apt.run("update")
        if found := candidates(apt.names(f"linux-image-{wanted}"), wanted, arch):
            return found[-1]
    raise Unavailable(f"no Debian package linux-image-{wanted}.*-{arch.kernels} can be had from {apt.suite}"
                      f"{f': {said}' if said else ''}")


def fetch(package: str, cache: Path, root: Path, apt: Apt, drivers: tuple[str, ...]) -> Path:
    """Download and prepare a package; ``root`` has the busybox."""
    target, version = cache / package, package.removeprefix("linux-image-")
    with making(target) as work:
        parts = [name for name in apt.names("linux-") if name.removesuffix(version) in PARTS]
        said = apt.run("download", *parts, cwd=work)
        archives = list(work.glob("*.deb"))
        if len(archives) != len(parts):
            raise Unavailable(f"apt-get download {' '.join(parts)}: {said or 'it did not bring all of them'}")
        for archive in archives:
            subprocess.run(["dpkg", "-x", archive, "."], cwd=work, check=True)
            archive.unlink()
        arrange(work, version)
        subprocess.run(["depmod", "-b", work, version], check=True)
        kernel = uncompressed((work / "boot" / f"vmlinuz-{version}").read_bytes())
        if kernel:
            (work / "vmlinux").write_bytes(kernel)
        (work / "base.cpio").write_bytes(base_root(work, version, busybox_of(root), drivers))
        (work / "ready").write_text(version + "\n")
    return target


def arrange(work: Path, version: str) -> None:
    """Newer packages have the modules below /usr and packed with zstd, and the kernel among them."""
    modules = work / "lib" / "modules"
    if not (modules / version).exists():
        if not (work / "usr" / "lib" / "modules" / version).exists():
            raise Unavailable(f"Debian no longer has the modules of {version}")
        modules.parent.mkdir(exist_ok=True)
        (work / "usr" / "lib" / "modules").rename(modules)
    if (modules / version / "vmlinuz").exists():
        (work / "boot").mkdir(exist_ok=True)
        (modules / version / "vmlinuz").rename(work / "boot" / f"vmlinuz-{version}")
    packed = list((modules / version).rglob("*.ko.zst"))
    if packed:
        if not shutil.which("zstd"):
            raise Unavailable("not installed: zstd (apt-get install zstd)")
        subprocess.run(["zstd", "-dq", "--rm", *packed], check=True)


def uncompressed(image: bytes) -> bytes:
    """The ELF file inside a bzImage, which boots by PVH without unpacking itself in the guest; b"" of other images, and
    if no tool for its compression is there (Documentation/arch/x86/boot.rst: setup_sects, payload_offset,
    payload_length)."""
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = ((image[0x1F1] or 4) + 1) * 512 + offset
    payload = image[start:start + length - 4]
    tool = {b"\x28\xb5\x2f\xfd": "zstd", b"\x02\x21\x4c\x18": "lz4", b"\xfd7zX": "xz"}.get(payload[:4])
    if not tool or not shutil.which(tool):
        return b""
    found = subprocess.run([tool, "-dc", "-q"], input=payload, stdout=subprocess.PIPE, check=False).stdout
    return found if found[:4] == b"\x7fELF" else b""


def modules_in_order(root: Path, version: str, drivers: tuple[str, ...]) -> list[Path]:
    """The drivers' files, each after those that it depends on."""
    base = root / "lib" / "modules" / version
    needs: dict[str, list[str]] = {}
    for line in (base / "modules.dep").read_text().splitlines():
        path, _, dependencies = line.partition(":")
        needs[path] = dependencies.split()
    by_name = {Path(path).name.split(".")[0].replace("-", "_"): path for path in needs}
    order: dict[str, None] = {}

    def add(path: str) -> None:
        if path not in order:
            for dependency in reversed(needs[path]):
                add(dependency)
            order[path] = None

    for name in drivers:
        if name in by_name:  # else it is built in
            add(by_name[name])
    return [base / path for path in order]


def busybox_of(root: Path) -> bytes:
    places = [root / folder / "busybox" for folder in ("usr/bin", "bin", "usr/sbin")]
    return next(place for place in places if place.exists()).read_bytes()


def base_root(root: Path, version: str, busybox: bytes, drivers: tuple[str, ...]) -> bytes:
    """The initramfs that every boot has."""
    entries: list[Entry] = [("bin", 0o040755, b""), ("mods", 0o040755, b""), ("bin/busybox", 0o100755, busybox)]
    names = []
    for path in modules_in_order(root, version, drivers):
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        names.append(path.name.removesuffix(".xz"))
        entries.append((f"mods/{names[-1]}", 0o100644, data))
    return cpio([*entries, ("mods/order", 0o100644, "".join(f"{n}\n" for n in names).encode())])


def cpio(entries: list[Entry]) -> bytes:
    """An archive in the format "newc" (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        text = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(text), 0)
        out += ("070701" + "".join(f"{field:08X}" for field in fields)).encode() + text
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out + b"\0" * (-len(out) % 512))
