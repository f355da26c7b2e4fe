"""The bytecode of Sonde's modules in one file of the cache directory: a start opens one file in place of a hundred, and
``sonde.pyz`` compiles each module once.

What is in the pack counts as long as its source is as it was. Any other module is imported as if there were no pack,
and is put into it when the run ends. The pack also knows what each module imports: that is imported ahead of it,
without the interpreter's search and locks, which take a quarter of the time.
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, PathFinder, SourceFileLoader, SourceLoader
from _thread import _count as count_threads

from .cache_dir import digest, open_cached, thin_cache, write_cache
from .version import installed_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

    from .single_file import SingleFile

    Source = tuple[str, bool, int, int]  # of a module: its file, whether it is a package; the file's time and size
    CodeRange = tuple[int, int, bytes]  # of its bytecode in the pack: where it begins and ends, and its digest

PREFIX = "modules-"
FORMAT = 4
MOST_FILES, MOST_BYTES = 8, 32 << 20
HEAD = 12  # bytes: the index's size and digest
FIRST_READ = 1 << 16  # bytes: more than an index has


class ModulePack:
    """An importer: a package's modules from its pack, and those that are not in it from where Python looks."""

    def __init__(self, package: str, folder: str, archive: SingleFile | None = None) -> None:
        self._prefix, self.archive = package + ".", archive
        made = (0, os.stat(archive.archive).st_mtime_ns) if archive else installed_state(folder)
        self._is_settled = any(made)  # nobody edits single sources
        self._key = marshal.dumps((FORMAT, folder, made, MAGIC_NUMBER, sys.version, sys.flags.optimize))
        self._name = PREFIX + digest(self._key).hex()
        self._known: dict[str, tuple[Source, CodeRange]] = {}
        self._file, self._codes = -1, 0  # the pack, and where in it the bytecode begins
        self._new: dict[str, tuple[Source, bytes]] = {}
        self._imports: dict[str, list[str]] = {}  # what a module imports while it is run
        self._ended: list[str] = []  # what has been imported, but for what was by a module that has ended
        self._begun: set[str] = set()
        self._learned = False

    def open(self) -> None:
        """Have what earlier runs kept, if that can be read."""
        descriptor = open_cached(self._name)
        if descriptor < 0:
            return
        self._file, length = descriptor, os.fstat(descriptor).st_size
        data = self._read(0, min(length, FIRST_READ))
        size = int.from_bytes(data[:4], "little")
        index = data[HEAD : HEAD + size] if HEAD + size <= FIRST_READ else self._read(HEAD, min(length, HEAD + size))
        if len(index) == size > 0 and digest(index) == data[4:HEAD]:
            key, known, imports, end = marshal.loads(index)
            if key == self._key and end == length - HEAD - size:
                self._known, self._imports, self._codes = known, imports, HEAD + size
                return
        self.close()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """What the interpreter asks for each module that it is to import."""
        if path is None or not name.startswith(self._prefix):
            return None
        source = self._known_source(name)
        if source is None:
            spec = (self.archive or PathFinder).find_spec(name, path)
            if spec is None or not spec.has_location or spec.origin is None:
                return None
            source = self._describe(spec.origin, spec.submodule_search_locations is not None)
        else:
            self._import_ahead_of(name)
        return self._new_spec(name, source)

    def _known_source(self, name: str) -> Source | None:
        """The source of a module that is in the pack; None if it is not, or no longer as its source is."""
        if name not in self._known or not self._is_current(self._known[name][0]):
            self._known.pop(name, None)
            return None
        return self._known[name][0]

    def _new_spec(self, name: str, source: Source) -> ModuleSpec:
        file, is_package = source[:2]
        loader: Any = _PackedArchive() if self.archive else _PackedFile(name, file)
        loader.pack, loader.source = self, source
        spec = _Spec(name, loader, origin=file, is_package=is_package)
        spec.parent = name if is_package else name.rpartition(".")[0]
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(file)]
        return spec

    def _import_ahead_of(self, name: str) -> None:
        """Import what a module will ask for, as long as there is one thread: others would see what is not yet whole."""
        if name in self._begun or count_threads():
            return
        self._begun.add(name)
        before = len(self._ended)
        for each in self._imports.get(name, ()):
            if each not in sys.modules and not self._import_known(each):
                break  # the interpreter's import finds the same, and says it
        del self._ended[before:]

    def _import_known(self, name: str) -> bool:
        """Import a module out of the pack; whether that was possible."""
        above, _, last = name.rpartition(".")
        package, source = sys.modules.get(above), self._known_source(name)
        if package is None or source is None:
            return False
        self._import_ahead_of(name)
        spec = self._new_spec(name, source)
        module = sys.modules[name] = _new_module(spec)
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, Exception):
                return False
            raise
        setattr(package, last, module)
        return True

    def run_module(self, module: ModuleType, code: CodeType) -> None:
        """Run a module, and note what it imported that was not known."""
        name, before = module.__name__, len(self._ended)
        exec(code, module.__dict__)
        if count_threads():
            return
        known = self._imports.get(name, [])
        if new := [each for each in self._ended[before:] if each not in known]:
            self._imports[name] = known + new
            self._learned = not sys.dont_write_bytecode
        self._ended[before:] = [name]

    def find_code(self, name: str) -> CodeType | None:
        """The bytecode of a module whose source is as it was; None if it is not here."""
        data = self._bytecode(self._known[name][1]) if name in self._known else b""
        return marshal.loads(data) if data else None

    def note_code(self, name: str, source: Source, code: Any) -> Any:
        """For the next run."""
        self._imports.pop(name, None)
        if not sys.dont_write_bytecode:
            self._new[name] = source, marshal.dumps(code)
        return code

    def keep(self) -> None:
        """Write what is new to the pack."""
        if not self._new and not self._learned:
            return
        current: dict[str, tuple[Source, bytes]] = {
            name: (source, code) for name, (source, extent) in self._known.items()
            if self._is_current(source) and (code := self._bytecode(extent))}
        index: dict[str, tuple[Source, CodeRange]] = {}
        codes: list[bytes] = []
        end = 0
        for name, (source, code) in (current | self._new).items():
            index[name] = source, (end, end + len(code), digest(code))
            codes.append(code)
            end += len(code)
        head = marshal.dumps((self._key, index, self._imports, end))
        if write_cache(self._name, [len(head).to_bytes(4, "little"), digest(head), head, *codes]):
            thin_cache(PREFIX, MOST_FILES, MOST_BYTES)

    def close(self) -> None:
        """Forget the pack: modules are looked for where Python does from now on."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._known = -1, {}

    def _bytecode(self, extent: CodeRange) -> bytes:
        """A module's bytecode, read anew each time: pages of a mapped file would stay in memory. b"" if it is
        damaged."""
        start, end, expected = extent
        data = self._read(self._codes + start, self._codes + end)
        return data if len(data) == end - start and digest(data) == expected else b""

    def _read(self, start: int, end: int) -> bytes:
        """Bytes of the pack; b"" if they cannot be had."""
        try:
            return os.pread(self._file, end - start, start)
        except OSError:
            return b""

    def _describe(self, file: str, is_package: bool) -> Source:
        """A module's source: its time and size. Both are 0 in an archive and in an installed package: the key says
        when these were made."""
        status = None if self._is_settled else os.stat(file)
        return file, is_package, status.st_mtime_ns if status else 0, status.st_size if status else 0

    def _is_current(self, source: Source) -> bool:
        try:
            return self._is_settled or self._describe(*source[:2]) == source
        except OSError:
            return False


def _new_module(spec: ModuleSpec) -> ModuleType:
    """An empty module, with the attributes that the interpreter gives it."""
    module = type(sys)(spec.name)
    module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, spec.parent
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
    return module


class _Spec(ModuleSpec):
    """``parent``, which the interpreter looks at for each relative import, is not computed each time."""

    parent = ""


class _PackedFile(SourceFileLoader):
    pack: ModulePack
    source: Source

    def exec_module(self, module: ModuleType) -> None:
        """Run a module."""
        _run(self, module)

    def get_code(self, name: str) -> CodeType | None:
        """A module's bytecode."""
        return self.pack.find_code(name) or self.pack.note_code(name, self.source, super().get_code(name))


class _PackedArchive(SourceLoader):
    pack: ModulePack
    source: Source

    def exec_module(self, module: ModuleType) -> None:
        """Run a module."""
        _run(self, module)

    def get_code(self, name: str) -> CodeType | None:
        """A module's bytecode."""
        return self.pack.find_code(name) or self.pack.note_code(name, self.source, super().get_code(name))

    def get_filename(self, name: str) -> str:
        """A module's path."""
        return self.source[0]

    def get_data(self, path: str) -> bytes:
        """The contents of a file of the archive. Raises OSError."""
        return self._single_file.get_data(path)

    @property
    def archive(self) -> str:
        """The archive's path."""
        return self._single_file.archive

    @property
    def _single_file(self) -> SingleFile:
        assert self.pack.archive is not None
        return self.pack.archive


def _run(loader: _PackedFile | _PackedArchive, module: ModuleType) -> None:
    """Tell a module its file, and run it. A spec that knew of files would look for bytecode beside them."""
    module.__file__ = loader.source[0]
    code = loader.get_code(module.__name__)
    assert code is not None
    loader.pack.run_module(module, code)


_in_use: list[ModulePack] = []


def use_pack() -> None:
    """Import Sonde's modules by its pack from now on."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    archive = None
    if hasattr(__spec__.loader, "archive"):
        from .single_file import single_file
        archive = single_file()
    pack = ModulePack("sonde", folder, archive)
    pack.open()
    sys.meta_path.insert(0, pack)
    _in_use.append(pack)


def keep_pack() -> None:
    """At the end of a run: put into the pack what was not there."""
    for pack in _in_use:
        pack.keep()
        pack.close()
