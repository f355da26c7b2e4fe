"""The Debian package: made twice it is the same, and a system that installs, uses and removes it is as it was."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import PATIENCE

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts")]

import make_deb  # noqa: E402

# A copy of this system to write to, in memory and for this shell's eyes only: when the shell ends, nothing is mounted.
ENTER = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/changed" "$1/work" "$1/root"
mount -t overlay none -o lowerdir=/,upperdir="$1/changed",workdir="$1/work" "$1/root"
for each in proc sys dev; do mount --rbind /$each "$1/root/$each"; done
mount -t tmpfs none "$1/root/tmp"
cat > "$1/root/tmp/sonde.deb"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$1/root" \
    sh -c "$2"
cd "$1/changed"
find . ! -type d | sed 's/^/left: /'
"""
# Without triggers: man-db's goes through the pages of all packages.
USE = r"""
set -e
cd /
dpkg --force-unsafe-io --no-triggers --install /tmp/sonde.deb >/dev/null
dpkg-query -W -f '${db:Status-Status}\n' sonde
sonde --version
sonde -q -e 'tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @n++; }
             end { printf("%d\n", @n); clear(@n); }' -c "python3 -c 'import os; [os.getppid() for _ in range(7)]'"
python3 -c 'import importlib.metadata as m, sonde; print(m.version("sonde-tracer"), sonde.__file__)'
ls /usr/lib/python3/dist-packages/sonde/__pycache__ | grep -c '^errors\.'
! command -v man >/dev/null || man -w sonde sonde-tcplife
bash -c '. /usr/share/bash-completion/completions/sonde; complete -p sonde'
dpkg --verify sonde
dpkg --force-unsafe-io --no-triggers --purge sonde >/dev/null
! dpkg-query -W -f '${db:Status-Status}\n' sonde 2>/dev/null
"""
# What a system keeps that has once had a package, or run Sonde as root.
KEPT = ("./var/lib/dpkg/", "./var/log/", "./root/.cache/sonde/")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1800000000")
        return make_deb.write_package(tmp_path_factory.mktemp("deb"), level=0)


def test_it_is_the_same_again(package: Path, tmp_path: Path) -> None:
    """In another process, at another time, with other rights, another order of hashes, another zone and language."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r})\n" \
           "import os, pathlib, make_deb\nos.umask(0o077)\nmake_deb.write_package(pathlib.Path(sys.argv[1]), level=0)"
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, cwd="/", env=os.environ | {
        "SOURCE_DATE_EPOCH": "1800000000", "PYTHONHASHSEED": "7", "TZ": "Pacific/Chatham", "LC_ALL": "C.UTF-8",
        "COLUMNS": "40", "PYTHONDONTWRITEBYTECODE": "1"})
    assert (tmp_path / package.name).read_bytes() == package.read_bytes()


def test_a_system_is_as_it_was_after_it(package: Path, tmp_path: Path) -> None:
    """Installed with the system's own dpkg and Python, used, and removed."""
    for program in ("unshare", "chroot", "dpkg"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if "\toverlay\n" not in Path("/proc/filesystems").read_text() and \
            subprocess.run(["modprobe", "overlay"], capture_output=True, check=False).returncode:
        pytest.skip("kernel lacks overlay")
    before = Path("/proc/self/mounts").read_text()
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh", tmp_path, USE],
                          input=package.read_bytes(), capture_output=True, timeout=PATIENCE, check=False)
    lines = [line for line in done.stdout.decode().splitlines() if line]
    assert done.returncode == 0, done.stderr.decode()
    assert lines[:4] == ["installed", f"sonde v{make_deb.__version__}", "7", f"{make_deb.__version__} "
                         "/usr/lib/python3/dist-packages/sonde/__init__.py"], (lines, done.stderr)
    rest = [line for line in lines[4:] if not line.startswith("left: ")]
    pages = [f"/usr/share/man/man1/{name}.1.gz" for name in ("sonde", "sonde-tcplife")]
    assert rest == ["1", *(pages if shutil.which("man") else []), "complete -o nosort -F _sonde sonde"]
    left = [line.removeprefix("left: ") for line in lines if line.startswith("left: ")]
    assert [name for name in left if not name.startswith(KEPT)] == []
    assert Path("/proc/self/mounts").read_text() == before and not any(tmp_path.iterdir())


def test_what_it_says_of_itself(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--raw-extract", package, tmp_path / "x"], check=True)
    root = tmp_path / "x"
    control = (root / "DEBIAN" / "control").read_text()
    assert f"\nVersion: {make_deb.__version__}\n" in control and "\nDepends: python3 (>= 3.11)\n" in control
    log = gzip.decompress((root / "usr/share/doc/sonde/changelog.gz").read_bytes()).decode()
    assert log.startswith(f"sonde ({make_deb.__version__}) unstable; urgency=medium\n\n  * ")
    assert all(len(line) <= 80 for line in log.splitlines() if not line.startswith(" -- "))
    service = (root / make_deb.UNITS / "sonde-agent@.service").read_text()
    assert "\nExecStart=/usr/bin/sonde agent --socket -\n" in service and str(tmp_path) not in service
    for shell, path in make_deb.COMPLETIONS.items():
        assert f"completion {shell} --" in (root / path).read_text()
    assert {path.stat().st_mtime for path in root.rglob("*") if path.is_file()} == {1_800_000_000}


@pytest.mark.exact
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lintian_has_nothing_to_say(package: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    done = subprocess.run(["lintian", "--fail-on", "error,warning", package], capture_output=True, text=True,
                          timeout=500, check=False)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


@pytest.mark.exact
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_image_is_built_and_runs(package: Path) -> None:
    """Where podman is, and a Debian to build on can be had; SONDE_TEST_BASE names one that is here."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    base = os.environ.get("SONDE_TEST_BASE", "docker.io/library/debian:stable-slim")
    if subprocess.run(["podman", "image", "exists", base], check=False).returncode and \
            subprocess.run(["podman", "pull", "-q", base], capture_output=True, timeout=300, check=False).returncode:
        pytest.skip(f"{base} is not installed, and podman cannot fetch it")
    name = f"localhost/sonde-test-{os.getpid()}"
    build = ["podman", "build", "--isolation=chroot", *(["--network=host"] if "SONDE_TEST_BASE" in os.environ else [])]
    try:
        subprocess.run([*build, "-q", "--build-arg", f"BASE={base}", "-t", name, "-f",
                        ROOT / "deploy" / "Containerfile", package.parent], check=True, timeout=500)
        again = f"FROM {name}\nRUN sonde --version\n"
        done = subprocess.run([*build, "--no-cache", "-t", name, "-f", "-"], input=again,
                              capture_output=True, text=True, timeout=PATIENCE, check=True)
        assert f"\nsonde v{make_deb.__version__}\n" in done.stdout
    finally:
        subprocess.run(["podman", "rmi", "-f", name], capture_output=True, check=False)
