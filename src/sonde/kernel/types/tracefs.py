"""tracefs: where it is mounted, which classic tracepoints there are, and their formats as types."""

from __future__ import annotations

import os

from ...base.fast_stdlib import Protocol
from ...errors import MachineError, MissingFeatureError, PrivilegeError
from ...spec import TracepointFormat
from ...types import BOOL, KERNEL, UINT8, USER, VOID, Array, Enum, Int, Pointer, Str, Struct, StructField, Type
from ..places import TRACEFS_MOUNTS


class TypeSource(Protocol):
    """Where named C types come from; a World, or BTF."""

    def find_struct(self, name: str, union: bool = False) -> Struct | None: ...

    def named_type(self, name: str) -> Type | None: ...


def find_tracefs(mount: bool = True) -> str:
    """The directory where tracefs is mounted; mounts it if it is not and this process may.

    Raises MissingFeatureError, or PrivilegeError if only root could see or mount it.
    """
    for path in TRACEFS_MOUNTS:
        if os.path.isdir(f"{path}/events"):
            return path
    if os.geteuid() != 0:
        from ...base.installation import as_root
        raise PrivilegeError("tracefs is not readable", "root", [f"run as root: {as_root()}"])
    if mount and os.path.isdir(TRACEFS_MOUNTS[0]) and _mount_tracefs(TRACEFS_MOUNTS[0]):
        return TRACEFS_MOUNTS[0]
    raise MissingFeatureError("tracefs is not mounted, so there are no tracepoints and no list of functions", "tracefs",
                              [f"mount -t tracefs nodev {TRACEFS_MOUNTS[0]}"])


def _mount_tracefs(path: str) -> bool:
    """Run mount(8): Python has no mount(2)."""
    try:
        child = os.posix_spawnp("mount", ["mount", "-t", "tracefs", "nodev", path], os.environ,
                                file_actions=[(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)])
    except OSError:
        return False
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and os.path.isdir(f"{path}/events")


def available_events(root: str) -> list[tuple[str, str]]:
    """(category, event) of every classic tracepoint. MachineError if the list cannot be read."""
    pairs = [line.partition(":") for line in _read_text(f"{root}/available_events").split()]
    return [(category, event) for category, _, event in pairs]


def event_exists(root: str, category: str, event: str) -> bool:
    """Whether there is such a tracepoint."""
    return _is_plain_name(category) and _is_plain_name(event) and os.path.exists(f"{root}/events/{category}/{event}/id")


def read_format(root: str, category: str, event: str) -> str | None:
    """The kernel's own description of an event's record; None if there is no such event."""
    if not event_exists(root, category, event):
        return None
    return _read_text(f"{root}/events/{category}/{event}/format")


def _is_plain_name(name: str) -> bool:
    return bool(name) and "/" not in name and not name.startswith(".")


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        from ..denials import lockdown_hints
        raise MachineError(f"{path}: {error.strerror}", lockdown_hints(error.errno)) from None


class FormatField:
    """One ``field:`` line: ``text`` is the declaration without the name and the array."""

    __slots__ = ("count", "declaration", "name", "offset", "signed", "size", "text")

    def __init__(self, declaration: str, offset: int, size: int, signed: bool) -> None:
        self.declaration = declaration
        self.offset = offset
        self.size = size
        self.signed = signed
        text, _, name = declaration.rpartition(" ")
        while name.startswith("*"):
            text, name = text + " *", name[1:]
        name, bracket, length = name.partition("[")
        self.text = text.strip()
        self.name = name
        # None: no array. "[]" and "[NAME]" (an enum constant that the kernel did not resolve) get 0.
        number = length.rstrip("]").strip()
        self.count: int | None = (int(number) if number.isdigit() else 0) if bracket else None


def parse_fields(text: str) -> list[FormatField]:
    """The fields of a format file, without the common_* ones."""
    fields = []
    for line in text.splitlines():
        if not line.startswith("\tfield:"):
            continue
        parts = dict([part.strip().partition(":")[::2] for part in line.strip().split(";") if ":" in part])
        try:
            field = FormatField(parts["field"], int(parts["offset"]), int(parts["size"]),
                                parts.get("signed", "0") == "1")
        except (KeyError, ValueError):
            raise MachineError(f"tracepoint format not understood: {line.strip()}") from None
        if not field.name.startswith("common_"):
            fields.append(field)
    return fields


def parse_format(text: str, category: str, event: str, types: TypeSource) -> TracepointFormat:
    """A format file as a type. Struct pointers and enums get their types from ``types``.

    A field whose declared type is narrower than its place (system call arguments have 8 bytes each) gets its declared
    type, as the system call itself sees it. A ``__data_loc`` field has data_loc set and type Str(0), or an Array of 0
    elements, because its length is known only at run time.
    """
    number = next((line[3:].strip() for line in text.splitlines() if line.startswith("ID:")), "0")
    reader = _FormatReader(types, USER if category == "syscalls" else KERNEL)
    declared = parse_fields(text)
    fields = tuple([reader.convert_field(field) for field in declared])
    end = max([field.offset + field.size for field in declared], default=0)
    args = Struct(f"_tracepoint_{category}_{event}", end, lambda: fields)
    return TracepointFormat(category, event, int(number) if number.isdigit() else 0, args)


_INTEGERS = {
    "char": (8, True), "signed char": (8, True), "unsigned char": (8, False), "short": (16, True),
    "unsigned short": (16, False), "int": (32, True), "unsigned int": (32, False), "unsigned": (32, False),
    "long": (64, True), "unsigned long": (64, False), "long long": (64, True), "unsigned long long": (64, False),
    "s8": (8, True), "u8": (8, False), "s16": (16, True), "u16": (16, False), "s32": (32, True), "u32": (32, False),
    "s64": (64, True), "u64": (64, False), "__s32": (32, True), "__u32": (32, False), "__u64": (64, False),
    "size_t": (64, False), "pid_t": (32, True), "uid_t": (32, False), "gid_t": (32, False), "umode_t": (16, False),
    "bool": (0, False),
}


class _FormatReader:
    """Turns declarations into types."""

    def __init__(self, types: TypeSource, space: str) -> None:
        self._types = types
        self._space = space

    def convert_field(self, field: FormatField) -> StructField:
        if field.text.startswith("__data_loc "):
            return StructField(field.name, self._dynamic_type(field.text[11:]), field.offset, data_loc=True)
        return StructField(field.name, self._field_type(field), field.offset)

    def _dynamic_type(self, text: str) -> Type:
        """``char[]`` or ``u64[]``; one kernel type (cpumask_t) comes without brackets."""
        element = text.removesuffix("[]").strip()
        if element == "char" or not element:
            return Str(0)
        type = self._scalar_type(element, 0, False)
        return Array(type if type.size else UINT8, 0)

    def _field_type(self, field: FormatField) -> Type:
        if field.text.endswith("*") or field.text.endswith("*const"):
            pointer = self._pointer_type(field.text)
            return pointer if field.count is None else Array(pointer, field.count)
        if field.count is None:
            return self._scalar_type(field.text, field.size, field.signed)
        if _strip_qualifiers(field.text) == "char" and field.count:
            return Str(field.count)
        size = field.size // field.count if field.count else 0
        element = self._scalar_type(field.text, size, field.signed)
        return Array(element, field.count or (field.size // element.size if element.size else 0))

    def _scalar_type(self, text: str, size: int, signed: bool) -> Type:
        """A type other than a pointer or an array; ``size`` 0 if not known."""
        text = _strip_qualifiers(text)
        known = _INTEGERS.get(text)
        if known:
            bits, known_signed = known
            if not bits:
                return BOOL
            if size and (size * 8 < bits or self._space != USER):
                return Int(size * 8, signed)  # what the record itself says about size and sign
            return Int(bits, known_signed)
        type = self._named_type(text)
        if size not in (1, 2, 4, 8):
            return type if type and (type.size == size or not size) else Array(UINT8, size)
        if isinstance(type, Enum):
            fits = type.size == size or self._space == USER
            return type if fits else Enum(type.name, size * 8, signed, type.names)
        if type and isinstance(type, (Struct, Pointer)) and type.size == size:
            return type
        if type and isinstance(type, Int) and self._space == USER and type.size <= size:
            return type
        return Int(size * 8, signed)

    def _named_type(self, text: str) -> Type | None:
        for tag in ("struct ", "union "):
            if text.startswith(tag):
                return self._types.find_struct(text[len(tag):].strip(), tag == "union ")
        return self._types.named_type(text)

    def _pointer_type(self, text: str) -> Pointer:
        space = USER if "__user" in text else self._space
        text = _strip_qualifiers(text.removesuffix("const"))
        target = _strip_qualifiers(text.removesuffix("*"))
        if target.endswith("*"):
            return Pointer(self._pointer_type(target), space)
        if target in ("void", ""):
            return Pointer(VOID, space)
        known = _INTEGERS.get(target)
        if known and target != "char":
            return Pointer(Int(*known) if known[0] else BOOL, space)
        return Pointer(self._named_type(target) or VOID, space)


def _strip_qualifiers(text: str) -> str:
    """``text`` without const, volatile and address space marks."""
    words = [w for w in text.replace("*", " * ").split() if w not in _QUALIFIERS]
    return " ".join(words)


_QUALIFIERS = frozenset(("const", "volatile", "__user", "__seg_gs", "__seg_fs", "__percpu", "__rcu", "__iomem"))
