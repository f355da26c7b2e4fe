"""Headers that need a C compiler's front end, read with libclang (the extra ``headers``).

What clang understands of a header is written out again as plain C for the reader of :mod:`.headers`: members at their
exact offsets, sizes as numbers, types by their size. So everything after that is the same for both.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence

from .includes import Files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from clang.cindex import Cursor, TranslationUnit
    from clang.cindex import Type as ClangType

SYSTEM = ("/usr/include/", "/usr/local/include/", "/usr/lib/", "/usr/src/")
COMPILERS = ("/usr/lib/gcc/*/*/include", "/usr/lib/clang/*/include", "/usr/lib/llvm-*/lib/clang/*/include")
KEEP_GOING = 0x200  # CXTranslationUnit_KeepGoing: a missing header is not fatal

# The names that kernel code takes for granted, and the headers that a machine without a C library lacks.
PRELUDE = "".join(
    f"typedef {sign}{c} {name}{bits};\n"
    for bits, c in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign, names in (("signed ", ("s", "__s")), ("unsigned ", ("u", "__u")))
    for name in names) + "".join(
    f"typedef __u{bits} __{order}{bits};\n" for bits in (16, 32, 64) for order in ("be", "le"))
STUBS = {
    "stdint.h": "".join(f"typedef __INT{bits}_TYPE__ int{bits}_t;\ntypedef __UINT{bits}_TYPE__ uint{bits}_t;\n"
                        for bits in (8, 16, 32, 64)) + "typedef __UINTPTR_TYPE__ uintptr_t;\n",
    "stddef.h": "typedef __SIZE_TYPE__ size_t;\n#define NULL ((void *)0)\n"
                "#define offsetof(t, m) __builtin_offsetof(t, m)\n",
    "stdbool.h": "", "linux/types.h": "", "asm/types.h": "", "stdarg.h": "",
    "sys/types.h": "#include <stdint.h>\n#include <stddef.h>\ntypedef int pid_t;\n",
}


def has_libclang() -> bool:
    """Whether the extra is installed."""
    try:
        import clang.cindex  # noqa: F401
    except ImportError:
        return False
    return True


def translate_header(path: str, files: Files, defines: Mapping[str, str], known: frozenset[str]) -> tuple[str,
                                                                                                          list[str]]:
    """(the header's definitions in plain C, clang's complaints). ``known`` are the tags that exist already."""
    import tempfile

    from clang import cindex
    with tempfile.TemporaryDirectory(prefix="sonde-headers-") as folder:
        for name, text in {"prelude.h": PRELUDE, **STUBS}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write("#pragma once\n" + text)
        compiler = [d for pattern in COMPILERS for d in sorted(glob.glob(pattern))][-1:]
        options = ["-x", "c", "-std=gnu2x", "-include", os.path.join(folder, "prelude.h"),
                   *[f"-I{d}" for d in files.directories], *[f"-isystem{d}" for d in compiler], "-idirafter", folder,
                   *[f"-D{name}={text}" for name, text in defines.items()]]
        flags = cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD | KEEP_GOING
        unit = cindex.Index.create().parse(path, options, options=flags)
        complaints = [f"{d.location.file}:{d.location.line}: {d.spelling}" for d in unit.diagnostics
                      if d.severity >= cindex.Diagnostic.Error]
        return _HeaderWriter(cindex, (*SYSTEM, folder), known).write_unit(unit), complaints


class _HeaderWriter:
    """Writes what a translation unit defines; a struct before those that contain it."""

    def __init__(self, cindex: ModuleType, system: Sequence[str], known: frozenset[str]) -> None:
        self.kinds, self.types = cindex.CursorKind, cindex.TypeKind
        self.system = tuple(system)
        self.done = set(known)
        self.lines: list[str] = []

    def write_unit(self, unit: TranslationUnit) -> str:
        for cursor in unit.cursor.get_children():
            file = cursor.location.file
            if file is not None and not os.path.abspath(file.name).startswith(self.system):
                self._write_item(cursor)
        return "\n".join(self.lines) + "\n"

    def _write_item(self, cursor: Cursor) -> None:
        kind = cursor.kind
        if kind in (self.kinds.STRUCT_DECL,
                    self.kinds.UNION_DECL) and cursor.is_definition() and _has_plain_name(cursor):
            self._write_record(cursor.type)
        elif kind == self.kinds.ENUM_DECL and cursor.is_definition():
            self._write_enum(cursor)
        elif kind == self.kinds.TYPEDEF_DECL and cursor.spelling not in self.done:
            self.done.add(cursor.spelling)
            self.lines.append(f"typedef {self._declare_member(cursor.underlying_typedef_type, cursor.spelling)};")
        elif kind == self.kinds.MACRO_DEFINITION and cursor.extent.start.file is not None:
            self._write_macro(cursor)

    def _write_macro(self, cursor: Cursor) -> None:
        start, end = cursor.extent.start, cursor.extent.end
        with open(start.file.name, "rb") as file:
            text = file.read()[start.offset:end.offset].decode("utf-8", "replace")
        self.lines.append(f"#define {text}")

    def _write_enum(self, cursor: Cursor) -> str:
        name = cursor.spelling if _has_plain_name(cursor) else ""
        key = f"enum {name}" if name else f"enum {cursor.hash}"
        if key not in self.done:
            self.done.add(key)
            members = ", ".join(f"{c.spelling} = {c.enum_value}" for c in cursor.get_children()
                                if c.kind == self.kinds.ENUM_CONSTANT_DECL)
            self.lines.append(f"enum {name} {{ {members} }};")
        return name

    def _write_record(self, type: ClangType) -> str:
        """``struct name``, written first if it has not been yet; without a name, its whole text."""
        cursor = type.get_declaration()
        word = "union" if cursor.kind == self.kinds.UNION_DECL else "struct"
        if not _has_plain_name(cursor):
            return f"{word} {self._record_body(type)}"
        name = f"{word} {cursor.spelling}"
        if name not in self.done and cursor.get_definition() is not None:
            self.done.add(name)
            self.lines.append(f"{name} {self._record_body(type)};")
        return name

    def _record_body(self, type: ClangType) -> str:
        """The members, packed, with the gaps between them as unnamed bit-fields."""
        union = type.get_declaration().kind == self.kinds.UNION_DECL
        at = 0
        parts: list[str] = []
        for field in type.get_fields():
            name = field.spelling if _is_identifier(field.spelling) else ""
            if field.is_bitfield() and not name:
                continue  # it is a gap
            offset = field.get_field_offsetof()
            bits = field.get_bitfield_width() if field.is_bitfield() else 8 * max(field.type.get_size(), 0)
            if not union:
                parts += _gap_bitfields(offset - at)
                at = offset + bits
            parts.append(self._declare_member(field.type, name) + (f" : {bits}" if field.is_bitfield() else "") + ";")
        # Unnamed bit-fields may be all that makes a union as large as it is.
        parts += [f"uint64 : {min(8 * type.get_size(), 64)};"] if union else _gap_bitfields(8 * type.get_size() - at)
        return f"{{ {' '.join(parts)} }} __attribute__((packed, aligned({max(type.get_align(), 1)})))"

    def _declare_member(self, type: ClangType, name: str) -> str:
        """``type name``; what the language has no type for becomes bytes of the same size."""
        type, dims = type.get_canonical(), ""
        while type.kind in (self.types.CONSTANTARRAY, self.types.INCOMPLETEARRAY):
            dims += f"[{max(type.element_count, 0) if type.kind == self.types.CONSTANTARRAY else 0}]"
            type = type.element_type.get_canonical()
        stars = 0
        while type.kind == self.types.POINTER:
            stars, type = stars + 1, type.get_pointee().get_canonical()
        if stars and (type.kind in (self.types.FUNCTIONPROTO, self.types.FUNCTIONNOPROTO, self.types.CONSTANTARRAY)):
            return f"void {'*' * stars}{name}{dims}"
        return f"{self._base_type_name(type)} {'*' * stars}{name}{dims}".rstrip()

    def _base_type_name(self, type: ClangType) -> str:
        kind, size = type.kind, type.get_size()
        if kind == self.types.RECORD:
            return self._write_record(type)
        if kind == self.types.ENUM:
            name = self._write_enum(type.get_declaration())
            return f"enum {name}" if name else "uint32" if size == 4 else f"uint{8 * size}"
        if kind == self.types.VOID or size <= 0:
            return "void"
        if kind == self.types.BOOL:
            return "bool"
        if kind in (self.types.CHAR_S, self.types.CHAR_U):
            return "char"
        signed = kind in (self.types.SCHAR, self.types.SHORT, self.types.INT, self.types.LONG, self.types.LONGLONG)
        return f"{'' if signed else 'u'}int{8 * size}" if size <= 8 else f"struct {{ uint8 bytes[{size}]; }}"


def _gap_bitfields(bits: int) -> Iterator[str]:
    while bits > 0:
        step = min(bits, 32)
        yield f"unsigned int : {step};"
        bits -= step


def _is_identifier(name: str) -> bool:
    return name.isidentifier()


def _has_plain_name(cursor: Cursor) -> bool:
    return _is_identifier(cursor.spelling) and not cursor.is_anonymous()
