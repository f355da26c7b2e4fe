"""``sonde.pyz``: there each room but this one is one file, ``sonde/fleet.room``, which is compressed a quarter better
than its modules and scripts are by themselves (``room_files``).
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceLoader, spec_from_file_location
from zipimport import zipimporter

from .room_files import SUFFIX, unpack_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class SingleFile(SourceLoader):
    """An archive's modules and other files, those in rooms and those that have an entry of their own: an importer."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self._entries = zipimporter(archive)
        self._rooms: dict[str, dict[str, bytes]] = {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """What the interpreter asks for each module that it is to import."""
        if path is None or not any(folder.startswith(self.archive) for folder in path):
            return None
        for file in (self._module_path(name, "/__init__.py"), self._module_path(name, ".py")):
            try:
                self.get_data(file)
            except OSError:
                continue
            folders = [os.path.dirname(file)] if file.endswith("/__init__.py") else None
            return spec_from_file_location(name, file, loader=self, submodule_search_locations=folders)
        return None

    def _module_path(self, name: str, end: str) -> str:
        return f"{self.archive}/{name.replace('.', '/')}{end}"

    def get_filename(self, name: str) -> str:
        """The path of a module, as tracebacks have it. Raises ImportError."""
        spec = self.find_spec(name, [self.archive])
        if spec is None or spec.origin is None:
            raise ImportError(f"no module {name!r} in {self.archive}", name=name)
        return spec.origin

    def get_data(self, path: str) -> bytes:
        """The contents of a file, by its path below the archive or within it. Raises OSError."""
        inner = path.removeprefix(self.archive + "/")
        room = inner.split("/", 2)
        if len(room) == 3:
            data = self._read_room(f"{room[0]}/{room[1]}{SUFFIX}").get(inner)
            if data is not None:
                return data
        return self._entries.get_data(inner)

    def _read_room(self, entry: str) -> dict[str, bytes]:
        """The files of a room, by their paths in the archive; none where a folder's files have entries."""
        files = self._rooms.get(entry)
        if files is None:
            try:
                files = unpack_room(self._entries.get_data(entry))
            except OSError:
                files = {}
            self._rooms[entry] = files
        return files

    def list_paths(self) -> list[str]:
        """The path in the archive of each file. Raises OSError."""
        from zipfile import ZipFile
        paths: list[str] = []
        with ZipFile(self.archive) as archive:
            for entry in archive.namelist():
                paths += self._read_room(entry) if entry.endswith(SUFFIX) else [entry]
        return paths


_in_use: list[SingleFile] = []


def use_single_file(archive: str) -> None:
    """Import modules out of rooms from now on."""
    _in_use.append(SingleFile(archive))
    sys.meta_path.insert(0, _in_use[-1])


def single_file() -> SingleFile:
    """The one that this Sonde runs from."""
    return _in_use[-1]
