"""Where ``#include`` and ``import`` find files."""

from __future__ import annotations

import errno
import os

from ..base.fast_stdlib import cached_property
from ..base.package_files import FOLDER, exists_shipped, is_shipped, list_shipped, read_shipped
from ..base.trusted_files import why_untrusted
from ..source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Headers that describe the kernel or the C library: types come from BTF, numbers from the table of constants.
_FOLDERS = frozenset(("linux", "uapi", "net", "asm", "asm-generic", "bpf", "sys", "netinet", "arpa", "bits", "trace",
                     "media", "sound", "rdma", "scsi", "drm", "crypto", "kernel", "fs", "mm", "block", "include"))

_C_HEADERS = frozenset(("assert ctype errno fcntl float inttypes limits locale math poll pthread sched setjmp signal "
                        "stdalign stdarg stdbool stddef stdint stdio stdlib string strings time unistd wchar").split())
NO_FILES = "this script may not read files"
_SYSTEM_FOLDERS = ("/usr/local/include", "/usr/include")


class Files:
    """The machine's files as a script sees them.

    ``directories`` are those of -I, ``headers`` those of --include; ``release`` is the kernel's ("6.18.4"), from which
    LINUX_VERSION_CODE is made, and ``machine`` what uname -m says, by default here. ``sealed``: there are no files but
    those shipped with Sonde, and nothing tells whether there are others.
    """

    def __init__(self, directories: Sequence[str] = (), headers: Sequence[str] = (), release: str = "",
                 machine: str = "", sealed: bool = False) -> None:
        self.directories = list(directories)
        self.headers = list(headers)
        self.release = release
        self.machine = machine or os.uname().machine
        self.sealed = sealed
        self.looked = False  # outside Sonde's own directories: what a script means depends on what is there

    @property
    def version_code(self) -> int | None:
        """LINUX_VERSION_CODE as the kernel's headers compute it."""
        numbers = self.release.partition("-")[0].split(".")
        if len(numbers) < 2 or not all(n.isdigit() for n in numbers[:2]):
            return None
        patch = "".join(c for c in numbers[2] if c.isdigit()) if len(numbers) > 2 else "0"
        return kernel_version_code(int(numbers[0]), int(numbers[1]), int(patch or "0"))

    def predefines(self, name: str) -> bool:
        """Whether a C compiler defines a macro before it reads the first line."""
        return name in self._predefined[0]

    def predefined_value(self, name: str) -> int | None:
        """The number that a macro stands for without being defined by anybody."""
        known, values = self._predefined
        return known.get(name, values.get(name))

    @cached_property
    def _predefined(self) -> tuple[dict[str, int], dict[str, int]]:
        from .predefined import predefined_macros
        return predefined_macros(self.machine)

    def find_header(self, name: str, quoted: bool, includer: Source, following: bool = False) -> str | None:
        """The path of a header that has to be read; None if it is missing or not needed. A quoted name is first looked
        for beside the including file and in the working directory. ``following``: only in the directories after the
        includer's own."""
        folders = [*([directory_of(includer), ""] if quoted else []), *self.directories,
                   *(() if is_system_header(name) else _SYSTEM_FOLDERS)]
        if following:
            paths = [os.path.normpath(os.path.join(folder, name)) for folder in folders]
            folders = folders[paths.index(includer.name) + 1:] if includer.name in paths else folders
        return self._first_match(name, folders, os.path.isfile)

    def find_import(self, name: str, importer: Source, refused: dict[str, str]) -> str | None:
        """The path of an import: beside the script, or shipped with Sonde. Files that other users can write to are
        skipped, with the reason put into ``refused``."""
        def is_usable(path: str) -> bool:
            if not os.path.exists(path):
                return False
            if reason := why_untrusted(path):
                refused[path] = reason
            return not reason

        shipped = os.path.join(FOLDER, "stdlib")
        inner = "" if name == "stdlib" else name.removeprefix("stdlib/")
        return (self._first_match(name, [directory_of(importer), *self.directories], is_usable)
                or self._first_match(inner, [shipped], exists_shipped))

    def _first_match(self, name: str, folders: Sequence[str], test: Callable[[str], bool]) -> str | None:
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, name))
            if self.sealed and not is_shipped(path):
                continue
            self.looked |= not is_shipped(os.path.join(folder, ""))
            if test(path):
                return path
        return None

    def read_source(self, path: str) -> Source:
        """A file's text. Raises OSError."""
        if is_shipped(path):
            return Source(path, read_shipped(path).decode(), internal=True)
        if self.sealed:
            raise PermissionError(errno.EACCES, NO_FILES)
        with open(path, "rb") as file:
            return Source(path, file.read().decode("utf-8", "surrogateescape"))

    @staticmethod
    def list_directory(path: str) -> dict[str, str]:
        """What importing a directory imports: its scripts and headers, by name, each with the reason why it must not be
        read, or "". Raises OSError."""
        shipped = is_shipped(path)
        names = list_shipped(path) if shipped else sorted(os.listdir(path))
        paths = [os.path.join(path, n) for n in names if n.endswith((".bt", ".h"))]
        return {file: "" if shipped else why_untrusted(file) for file in paths}


def directory_of(source: Source) -> str:
    """The directory against which relative names in a source are resolved."""
    return os.path.dirname(source.name) if os.path.sep in source.name else ""


def is_system_header(name: str) -> bool:
    """Whether a header is one of the system's, which scripts do not need."""
    first, slash, _ = name.partition("/")
    return name == "vmlinux.h" or (first in _FOLDERS if slash else name.removesuffix(".h") in _C_HEADERS)


def kernel_version_code(major: int, minor: int, patch: int) -> int:
    """KERNEL_VERSION(); the patch level has only one byte (include/generated/uapi/linux/version.h)."""
    return (major << 16) + (minor << 8) + min(patch, 255)
