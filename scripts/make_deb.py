#!/usr/bin/env python3
"""Write a Debian package of Sonde: python3 scripts/make_deb.py [FOLDER]

It needs dpkg-deb and nothing else. The same tree makes the same bytes: every time in it is SOURCE_DATE_EPOCH, or the
time of the last commit. DEBFULLNAME and DEBEMAIL name the maintainer.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from datetime import datetime
from email.utils import formatdate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from manual import write_answers  # noqa: E402

from sonde.base.version import __version__  # noqa: E402
from sonde.cli.commands import man  # noqa: E402
from sonde.cli.completion.shells import SCRIPTS  # noqa: E402

NAME = "sonde"
MODULES = "usr/lib/python3/dist-packages"
METADATA = f"{MODULES}/sonde_tracer-{__version__}.dist-info"
PAPERS = f"usr/share/doc/{NAME}"
UNITS = "usr/lib/systemd/system"
COMPLETIONS = {"bash": "usr/share/bash-completion/completions/sonde",
               "zsh": "usr/share/zsh/vendor-completions/_sonde",
               "fish": "usr/share/fish/vendor_completions.d/sonde.fish"}
DESCRIPTION = """\
Sonde runs scripts in bpftrace's language, and more than a hundred tools
that are written in it. A script is compiled in Python straight to eBPF:
neither a compiler nor kernel headers are needed.
.
Tracing needs Linux 5.8 or newer with BTF, and root or capabilities. Some
features need Python packages that are not in Debian; where one is missing,
Sonde says which."""
SCRIPTS_OF_DPKG = ("postinst", "prerm", "postrm")
LINE = 80  # columns of a line of a changelog


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    if shutil.which("dpkg-deb") is None:
        sys.exit("make_deb: dpkg-deb is not installed; it is a program of Debian's package dpkg")
    target = write_package(folder)
    print(f"{target}: {target.stat().st_size:,} bytes; sudo apt install {target}")
    return 0


def write_package(folder: Path, level: int = 6) -> Path:
    """The package, in ``folder``; ``level`` is xz's."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{NAME}_{__version__}_all.deb"
    epoch = build_time()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / NAME
        lay_out(root)
        write_control(root / "DEBIAN", root)
        settle(root, epoch)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", root, target], check=True,
                       stdout=subprocess.DEVNULL,
                       env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "DPKG_DEB_THREADS_MAX": "1"})
    return target


def build_time() -> int:
    """The time that stands in the package, in seconds since 1970."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    try:
        done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True,
                              check=True)
        return int(done.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        sys.exit("make_deb: without a Git repository, SOURCE_DATE_EPOCH has to say which time the files have")


# --- files --------------------------------------------------------------------------------------------------


def lay_out(root: Path) -> None:
    """All files of the package, below ``root``."""
    shutil.copytree(ROOT / "src" / "sonde", root / MODULES / "sonde", ignore=shutil.ignore_patterns("__pycache__"))
    write_answers(root / MODULES)
    command = (ROOT / "scripts" / "sonde").read_text().replace("#!python\n", "#!/usr/bin/python3\n", 1)
    texts = {"usr/bin/sonde": command, **metadata_files(),
             **{path: SCRIPTS[shell] for shell, path in COMPLETIONS.items()},
             f"{PAPERS}/copyright": (ROOT / "deploy" / "debian" / "copyright").read_text()}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    write_units(root)
    write_packed(root / PAPERS / "changelog.gz", changelog())
    pages = root / "usr/share/man/man1"
    man.write_pages(str(pages))
    for page in sorted(pages.iterdir()):
        write_packed(page.with_name(f"{page.name}.gz"), page.read_text())
        page.unlink()


def write_packed(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def metadata_files() -> dict[str, str]:
    """What importlib.metadata and pip know of the distribution. There is no list of its files: they are dpkg's, and pip
    is not to remove them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {__version__}",
             f"Summary: {project['description']}", f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}"]
    for extra, packages in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *[f'Requires-Dist: {each}; extra == "{extra}"' for each in packages]]
    points = [f"[{group}]\n" + "".join([f"{name} = {target}\n" for name, target in rows.items()])
              for group, rows in project["entry-points"].items()]
    return {f"{METADATA}/METADATA": "\n".join(lines) + "\n", f"{METADATA}/entry_points.txt": "\n".join(points),
            f"{METADATA}/INSTALLER": "debian\n"}


def write_units(root: Path) -> None:
    """The agent's socket and service, as the packaged command prints them; nothing enables them."""
    command = root / "usr/bin/sonde"
    command.chmod(0o755)
    own = {"PYTHONPATH": str(root / MODULES), "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(root.parent)}
    done = subprocess.run([sys.executable, command, "unit", "--agent"], capture_output=True, text=True, check=True,
                          env=os.environ | own)
    parts = re.split(r"^# /etc/systemd/system/(\S+)\n", done.stdout.replace(str(command), "/usr/bin/sonde"), flags=re.M)
    for name, text in zip(parts[1::2], parts[2::2]):
        path = root / UNITS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        documented = text.rstrip().replace("[Unit]\n", "[Unit]\nDocumentation=man:sonde-agent(1)\n", 1)
        path.write_text(f"{parts[0]}{documented}\n")


def changelog() -> str:
    """Debian's changelog: CHANGELOG.md, with a version for each of its sections that has a date."""
    parts = re.split(r"^## (\S+)(?: \((\S+)\))?\n", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1:]
    sections = [parts[at:at + 3] for at in range(0, len(parts), 3)]
    return "\n".join([changelog_entry(*section) for section in sections if section[1]])


def changelog_entry(version: str, day: str, text: str) -> str:
    """A version's entry."""
    items: list[str] = []
    for line in text.splitlines():
        if line.startswith("- "):
            items.append(line[2:].strip())
        elif line.startswith("  ") and items:
            items[-1] += " " + line.strip()
    wrapped = ["\n".join(textwrap.wrap(plain_text(item), LINE, initial_indent="  * ", subsequent_indent="    ",
                                       break_on_hyphens=False)) for item in items]
    moment = formatdate(datetime.fromisoformat(f"{day}T00:00:00Z").timestamp())
    return "\n".join([f"{NAME} ({version}) unstable; urgency=medium\n", *wrapped, f"\n -- {maintainer()}  {moment}\n"])


def plain_text(text: str) -> str:
    """Markdown without its marks."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def maintainer() -> str:
    return f"{os.environ.get('DEBFULLNAME', 'Sonde developers')} " \
           f"<{os.environ.get('DEBEMAIL', 'sonde@users.noreply.github.com')}>"


# --- what dpkg reads ------------------------------------------------------------------------------------------


def write_control(folder: Path, root: Path) -> None:
    """control, md5sums and the scripts that dpkg runs."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    size = sum([-(-path.stat().st_size // 1024) for path in files]) + len({path.parent for path in files})
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files]
    folder.mkdir()
    description = textwrap.indent(DESCRIPTION, " ")
    (folder / "control").write_text(f"""\
Package: {NAME}
Version: {__version__}
Section: utils
Priority: optional
Architecture: all
Depends: python3 (>= 3.11)
Recommends: libpcap0.8
Suggests: man-db, python3-pyelftools
Installed-Size: {size}
Maintainer: {maintainer()}
Description: Linux tracer that compiles the bpftrace language without LLVM
{description}
""")
    (folder / "md5sums").write_text("".join(sums))
    for name in SCRIPTS_OF_DPKG:
        text = (ROOT / "deploy" / "debian" / name).read_text()
        (folder / name).write_text(text.replace("@METADATA@", f"/{METADATA}"))


def settle(root: Path, epoch: int) -> None:
    """Give every file the rights and the time that it has in the package, whatever they were in this tree."""
    programs = {root / "usr/bin/sonde", *[root / "DEBIAN" / name for name in SCRIPTS_OF_DPKG]}
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path in programs else 0o644)
        os.utime(path, (epoch, epoch))


if __name__ == "__main__":
    sys.exit(main())
