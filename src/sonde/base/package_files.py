"""The files shipped with Sonde beside its modules: tools and the standard library, in folders, in one file as a
wheel has them (``SCRIPTS``), or in sonde.pyz."""

from __future__ import annotations

import os
import sys

from .fast_stdlib import cache
from .version import installed_state, record_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPTS = os.path.join(FOLDER, "scripts.room")  # room_files has its form
_PARENT = os.path.dirname(FOLDER) + os.path.sep
_LOADER: Any = __spec__.loader
_ARCHIVE = os.path.abspath(_LOADER.archive) if hasattr(_LOADER, "archive") else ""  # sonde.pyz


def is_shipped(path: str) -> bool:
    """Whether a path is one of these files."""
    return path.startswith(FOLDER + os.path.sep)


def package_identity() -> tuple[object, ...]:
    """What distinguishes this Sonde, and the Python that runs it, from any other. For an archive or an installed
    package, which nobody edits: when it was made. For a source tree: the state of each file."""
    if any(state := installed_state(FOLDER)) and not _ARCHIVE:
        return sys.version, record_path(FOLDER), *state, []
    for path in (_ARCHIVE, FOLDER):
        try:
            status = os.stat(path)
        except OSError:
            continue
        made = [] if path != FOLDER else _list_sources(FOLDER)
        return sys.version, path, status.st_ino, status.st_mtime_ns, made
    return ()


def _list_sources(folder: str) -> list[tuple[str, int, int]]:
    """(path, time of its last change, bytes) of the sources below a folder."""
    sources = []
    for entry in list(os.scandir(folder)):  # so that one folder at a time is open
        if entry.name.endswith((".py", ".bt")):
            status = entry.stat()
            sources.append((entry.path, status.st_mtime_ns, status.st_size))
        elif entry.name not in ("__pycache__", "runtime", "output", "exporters", "commands", "tools", "foreign") \
                and entry.is_dir():
            sources += _list_sources(entry.path)
    return sorted(sources)


def read_shipped(path: str) -> bytes:
    """The contents of one of them. Raises OSError."""
    if path.endswith(".bt") and (script := _packed_scripts().get(path.removeprefix(_PARENT))) is not None:
        return script
    data: bytes = _LOADER.get_data(os.path.relpath(path, _ARCHIVE) if _ARCHIVE else path)
    return data


@cache
def _packed_scripts() -> dict[str, bytes]:
    """All scripts, by their paths from the package's parent on, where they are one file."""
    if _ARCHIVE:
        return {}
    try:
        data: bytes = _LOADER.get_data(SCRIPTS)
    except OSError:
        return {}
    from .room_files import unpack_room
    return unpack_room(data)


@cache
def list_shipped(folder: str) -> list[str]:
    """The names in ``folder``, sorted. Raises OSError."""
    if _ARCHIVE:
        from .single_file import single_file
        return _names_below(os.path.relpath(folder, _ARCHIVE), single_file().list_paths())
    names = _names_below(folder.removeprefix(_PARENT), _packed_scripts())
    return names if names and not os.path.isdir(folder) else sorted([*names, *os.listdir(folder)])


def _names_below(folder: str, paths: Iterable[str]) -> list[str]:
    """What is directly in a folder that has these paths somewhere below it, sorted."""
    inner = folder.rstrip("/") + "/"
    return sorted({path.removeprefix(inner).partition("/")[0] for path in paths if path.startswith(inner)} - {""})


def exists_shipped(path: str) -> bool:
    """Whether there is such a file or folder."""
    folder, name = os.path.split(path)
    try:
        return is_shipped(path) and name in list_shipped(folder)
    except OSError:
        return False
