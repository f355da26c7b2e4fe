"""A root file system for guests of another architecture than the host's: Debian's packages, unpacked, not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from arches import Arch
from debian import Apt, Unavailable, cache_directory, making

# Sonde's interpreter, a C compiler for the workloads, what the tests call.
PACKAGES = tuple(str.split("""
    base-files base-passwd bash binutils busybox-static coreutils dash debianutils diffutils findutils gcc grep iproute2
    kmod libc-bin libc6-dev mount procps python3 python3-hypothesis sed usr-is-merged util-linux"""))


def prepared_root(arch: Arch) -> Path:
    """The root's directory: the host's own, or one from the cache, else made of some 120 packages (80 MB)."""
    if arch.name == os.uname().machine:
        return Path("/")
    target = cache_directory() / f"root-{arch.suite}-{arch.debian}"
    if not (target / "ready").exists():
        apt = Apt(arch.suite, arch.debian)
        apt.run("update")
        said = apt.run("install", "--download-only", "--yes", "--no-install-recommends", *PACKAGES)
        archives = sorted(apt.archives.glob("*.deb"))
        if said or not archives:
            raise Unavailable(f"the packages of {arch.suite} for {arch.debian}: {said or 'apt-get brought none'}")
        with making(target) as root:
            unpack(archives, root)
            (root / "ready").touch()
        for archive in archives:
            archive.unlink(missing_ok=True)
    return target


def unpack(archives: list[Path], root: Path) -> None:
    """All files of the packages, and what their scripts would have made of what the tests need."""
    root.chmod(0o755)
    for name in ("bin", "sbin", "lib"):  # where bookworm's packages still have their files
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for archive in archives:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as packed:
            subprocess.run(["tar", "-C", root, "--keep-directory-symlink", "-xf", "-"], stdin=packed.stdout, check=True)
    for name in ("passwd", "group"):
        (root / "etc" / name).write_bytes((root / "usr/share/base-passwd" / f"{name}.master").read_bytes())
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    for name, program in (("awk", "mawk"), ("which", "which.debianutils")):
        (root / "usr" / "bin" / name).symlink_to(program)
    # Of use if this interpreter is of the same version as that one.
    library = root / "usr/lib" / f"python3.{sys.version_info.minor}"
    if library.exists():
        subprocess.run([sys.executable, "-m", "compileall", "-q", "-s", root, "-p", "/", library,
                        root / "usr/lib/python3"], check=True)
