#!/usr/bin/env python3
"""What a wheel installs beside the package: the manual page of Sonde itself, completions for shells; and the index of
answers in it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from sonde.cli.completion import shells  # noqa: E402
from sonde.cli.pages.manual import manual_page  # noqa: E402


def files() -> dict[str, str]:
    """Every file, by its path below the prefix. The manual's other pages are left to `sonde man`: they say what --help
    says, and would be a tenth of the wheel."""
    return {"share/man/man1/sonde.1": manual_page(""),
            **{shells.FILES[shell]: script for shell, script in shells.SCRIPTS.items()}}


def write_answers(folder: Path) -> None:
    """The index of answers, into a package that is being built below ``folder``; what makes it is left out there."""
    from sonde.cli.search.build import collect_entries
    from sonde.cli.search.index import INDEX, index_text
    target = folder / Path(INDEX).relative_to(ROOT / "src")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(index_text(collect_entries()))
    (target.parent / "build.py").unlink(missing_ok=True)


def pack_scripts(folder: Path) -> None:
    """One file in place of all scripts of the package below ``folder``, as a wheel has them: each by itself would take
    twice as much of it."""
    from sonde.base.package_files import SCRIPTS
    from sonde.base.room_files import pack_room
    files = sorted((folder / "sonde").rglob("*.bt"))
    packed = pack_room({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
    (folder / Path(SCRIPTS).relative_to(ROOT / "src")).write_bytes(packed)
    for path in files:
        path.unlink()


def write_files(folder: Path) -> dict[str, list[str]]:
    """Write them below ``folder``; as setuptools' data_files: the folder of each, and its files."""
    placed: dict[str, list[str]] = {}
    for path, text in files().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        placed.setdefault(str(Path(path).parent), []).append(str(target))
    return placed
