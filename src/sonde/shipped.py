"""The files that come with Sonde beside its modules: tools and the standard library, in a folder or in sonde.pyz."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
_LOADER: Any = __spec__.loader
_ARCHIVE = os.path.abspath(_LOADER.archive) if hasattr(_LOADER, "archive") else ""  # sonde.pyz


def is_shipped(path: str) -> bool:
    """Whether a path is one of these files."""
    return path.startswith(FOLDER + os.path.sep)


def read_shipped(path: str) -> bytes:
    """The contents of one of them. Raises OSError."""
    data: bytes = _LOADER.get_data(os.path.relpath(path, _ARCHIVE) if _ARCHIVE else path)
    return data


@cache
def list_shipped(folder: str) -> list[str]:
    """The names of those in ``folder``, in order. Raises OSError."""
    if not _ARCHIVE:
        return sorted(os.listdir(folder))
    from zipfile import ZipFile
    inner = os.path.relpath(folder, _ARCHIVE) + "/"
    with ZipFile(_ARCHIVE) as archive:
        names = [name.removeprefix(inner) for name in archive.namelist() if name.startswith(inner)]
    return sorted({name.partition("/")[0] for name in names} - {""})


def exists_shipped(path: str) -> bool:
    """Whether there is such a file or folder."""
    folder, name = os.path.split(path)
    try:
        return is_shipped(path) and name in list_shipped(folder)
    except OSError:
        return False
