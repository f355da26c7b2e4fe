"""A World from a file: what some kernel once answered. Tests compile against that, anywhere and without root.

The file is zlib-compressed JSON::

    arch, cpus, release      as in World
    features                 name → bool
    btf                      base64 of a BTF blob
    tracepoints              "category:event" → text of the format file
    symbols                  kernel symbol → address
    functions                [[module, function], ...], the traceable ones
    binaries                 path → {"names": [...], "functions": [[name, address, offset, size], ...],
                             "objects": {name: [address, size]}}
"""

from __future__ import annotations

from sonde.arch.syscalls import syscall_number
from sonde.base.function_ends import FunctionEnds
from sonde.btf.query import Btf, parse_btf
from sonde.errors import MachineError
from sonde.kernel.types import tracefs
from sonde.kernel.types.kernel_types import KernelTypes
from sonde.spec import (
    ClassicFilter,
    Implementation,
    Inlined,
    SourceLines,
    TracepointFormat,
    UsdtProbe,
    UserFunction,
    UserPrototype,
)
from sonde.types import Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RecordedWorld(KernelTypes):
    """Implements World. ``features`` overrides recorded ones."""

    pid_namespace = False

    def __init__(self, path: str, features: dict[str, bool] | None = None) -> None:
        data = load_world(path)
        self.arch: str = data["arch"]
        self.cpus: int = data["cpus"]
        self.release: str = data["release"]
        self._data = data
        self._features: dict[str, bool] = data["features"] | (features or {})

    def _open_btf(self) -> Btf | None:
        from binascii import a2b_base64

        return parse_btf(a2b_base64(self._data["btf"]))

    def has_feature(self, name: str) -> bool:
        """As recorded; helpers and kfuncs that were not are looked up in BTF, anything else is absent."""
        if name.startswith("kfunc_") and name not in self._features:
            return self.kfunc_id(name.removeprefix("kfunc_")) != 0
        if name.startswith("helper_") and name not in self._features:
            return self.has_helper(name.removeprefix("helper_"))
        return self._features.get(name, False)

    def tracepoints(self) -> list[tuple[str, str]]:
        """(category, event) of the recorded ones."""
        return [(category, event) for category, _, event in [name.partition(":") for name in self._data["tracepoints"]]]

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        """A recorded format."""
        text = self._data["tracepoints"].get(f"{category}:{event}")
        return tracefs.parse_format(text, category, event, self) if text else None

    def syscall_number(self, name: str) -> int | None:
        """From the table of the recorded architecture."""
        return syscall_number(name, self.arch)

    def kernel_functions(self) -> list[tuple[str, str]]:
        """The recorded functions, if the feature kprobes is set."""
        return [(module, name) for module, name in self._data["functions"]] if self.has_feature("kprobes") else []

    def kernel_symbol(self, name: str) -> int | None:
        """A recorded address."""
        address: int | None = self._data["symbols"].get(name)
        return address

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        """Recorded binaries whose path, or one of whose names, matches."""
        from fnmatch import fnmatchcase

        return [path for path, binary in self._data["binaries"].items()
                if any(fnmatchcase(known, name) for known in (path, *binary["names"]))]

    def user_functions(self, path: str) -> list[UserFunction]:
        """Recorded functions."""
        return [UserFunction(*row) for row in self._data["binaries"].get(path, {}).get("functions", ())]

    def user_bits(self, path: str) -> int:
        """Only files of 64 bits are recorded."""
        return 64

    def implementations(self, path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
        """None are recorded."""
        return {}

    def user_object(self, path: str, symbol: str) -> tuple[int, int] | None:
        """A recorded symbol."""
        binary = self._data["binaries"].get(path)
        if binary is None:
            return None
        rows = {name: (address, size) for name, address, _, size in binary["functions"]}
        rows |= {name: (address, size) for name, (address, size) in binary["objects"].items()}
        return rows.get(symbol)

    def file_size(self, path: str) -> int:
        """None are recorded."""
        return 0

    def user_offset(self, path: str, address: int) -> int | None:
        """The offset of an address within a recorded function."""
        for function in self.user_functions(path):
            if function.address <= address < function.address + max(function.size, 1):
                return function.offset + address - function.address
        return None

    def is_instruction_start(self, path: str, offset: int, distance: int) -> bool:
        """No instructions are recorded."""
        return True

    def go_version(self, path: str) -> str:
        """None is recorded."""
        return ""

    def entry_distances(self, path: str, offsets: list[int], go: bool) -> list[int]:
        """No instructions are recorded."""
        return [0] * len(offsets)

    def return_hazard(self, path: str, offset: int) -> str:
        """None is recorded."""
        return ""

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        """No instructions are recorded."""
        return [FunctionEnds(problem="unreadable") for _ in offsets]

    def find_import(self, path: str, name: str, pid: int) -> tuple[str, list[int]] | None:
        """None is recorded."""
        return None

    def process_symbol(self, pid: int, name: str) -> int | None:
        """No process is recorded."""
        return None

    def user_prototype(self, path: str, offset: int, own: bool = False) -> UserPrototype:
        """None are recorded."""
        return UserPrototype(problem="debug information is not recorded")

    def user_type(self, path: str, name: str) -> Type | None:
        """None are recorded."""
        return None

    def source_lines(self, path: str, source: str, line: int, column: int = 0) -> SourceLines:
        """None are recorded."""
        return SourceLines(problem="debug information is not recorded")

    def inlined_copies(self, path: str, name: str, own: bool = False) -> Inlined | None:
        """None are recorded."""
        return None

    def demangle(self, names: list[str], source: str = "") -> list[str] | None:
        """The names as recorded."""
        return names

    def file_problem(self, path: str) -> str:
        """Recorded files are in order."""
        return ""

    def usdt_probes(self, path: str) -> list[UsdtProbe]:
        """None are recorded."""
        return []

    def packet_filter(self, expression: str, link: str) -> ClassicFilter | None:
        """What libpcap says here: it does not depend on the kernel."""
        from sonde.kernel.pcap import compile_filter

        return compile_filter(expression, link)

    def cgroup_id(self, path: str) -> int | None:
        """The root's id."""
        return 1 if path in ("/", "/sys/fs/cgroup") else None


def load_world(path: str) -> dict[str, Any]:
    """The file's contents. MachineError if it is not such a file."""
    import json
    import zlib

    try:
        with open(path, "rb") as file:
            data = json.loads(zlib.decompress(file.read()))
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from None
    except (zlib.error, ValueError):
        raise MachineError(f"{path}: not a recorded world") from None
    if not isinstance(data, dict) or not {"arch", "cpus", "release", "features", "btf"} <= data.keys():
        raise MachineError(f"{path}: not a recorded world")
    return {"tracepoints": {}, "symbols": {}, "functions": [], "binaries": {}} | data


def save_world(path: str, data: dict[str, Any]) -> None:
    """Write such a file."""
    import json
    import zlib

    with open(path, "wb") as file:
        file.write(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9))
