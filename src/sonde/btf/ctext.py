"""Types as C text, for listings, laid out the way ``bpftool btf dump format c`` does it."""

from __future__ import annotations

from ..errors import MachineError
from . import codec
from .query import Btf, Raw

_TAGS = {codec.STRUCT: "struct", codec.UNION: "union", codec.ENUM: "enum", codec.ENUM64: "enum"}
LONGEST = 256 << 10  # characters of a definition, with unnamed types written out in it
WIDEST = 1 << 20     # bits of a hole
_QUALIFIERS = {codec.CONST: "const", codec.VOLATILE: "volatile", codec.RESTRICT: "restrict"}


def format_declaration(btf: Btf, type_id: int, name: str = "", level: int = 0) -> str:
    """C declaration of ``name`` (or just the type if empty): ``char comm[16]``, ``int (*fn)(void *)``."""
    try:
        return _format_declarator(btf, type_id, name, level).rstrip()
    except RecursionError:
        raise MachineError(f"corrupt BTF: type {type_id} holds itself") from None


def _format_declarator(btf: Btf, type_id: int, inner: str, level: int) -> str:
    """``inner`` is the declarator built so far, from the name outwards."""
    raw = btf.raw_type(type_id)
    if raw.kind == codec.PTR:
        target = btf.raw_type(raw.value)
        if target.kind in (codec.ARRAY, codec.FUNC_PROTO):
            return _format_declarator(btf, raw.value, f"(*{inner})", level)
        return _format_declarator(btf, raw.value, f"* {inner}" if inner.startswith("(") else f"*{inner}", level)
    if raw.kind == codec.ARRAY:
        of, _, count = next(btf.read_elements(raw, codec.TRIPLE, 1))
        return _format_declarator(btf, of, f"{inner}[{count}]", level)
    if raw.kind == codec.FUNC_PROTO:
        return _format_declarator(btf, raw.value, f"{inner}({_format_parameters(btf, raw)})", level)
    if raw.kind in _QUALIFIERS:
        return _format_qualified(btf, raw, inner, level)
    if raw.kind == codec.TYPE_TAG:
        return _format_declarator(btf, raw.value, inner, level)
    return f"{_format_base_type(btf, raw, level)} {inner}"


def _format_qualified(btf: Btf, raw: Raw, inner: str, level: int) -> str:
    """A qualifier comes before a plain type, and after the star of a pointer."""
    word = _QUALIFIERS[raw.kind]
    if btf.skip_modifiers(raw.value, typedefs=False).kind == codec.PTR:
        return _format_declarator(btf, raw.value, f" {word} {inner}".rstrip(), level)
    text = _format_declarator(btf, raw.value, inner, level)
    return text if text.startswith(word + " ") else f"{word} {text}"


def _format_parameters(btf: Btf, raw: Raw) -> str:
    params = btf.function_params(raw.id)
    texts = ["..." if not p.type and not p.name else format_declaration(btf, p.type, p.name) for p in params]
    return ", ".join(texts) or "void"


def _format_base_type(btf: Btf, raw: Raw, level: int) -> str:
    if raw.kind in (codec.STRUCT, codec.UNION) and not raw.name:
        return f"{_TAGS[raw.kind]} {_format_body(btf, raw, level)}"
    if raw.kind in (codec.ENUM, codec.ENUM64) and not raw.name:
        return f"enum {_format_constants(btf, raw, level)}"
    if raw.kind == codec.FWD:
        return f"{'union' if raw.kflag else 'struct'} {raw.name}"
    tag = _TAGS.get(raw.kind)
    return f"{tag} {raw.name}" if tag else raw.name


def _format_body(btf: Btf, raw: Raw, level: int) -> str:
    """``{ members }`` of a struct; ``level`` is the indentation of the line that it starts on."""
    tabs, lines = "\t" * (level + 1), []
    at = size = 0
    for name, type_id, offset, bits in btf.members(raw):
        if raw.kind == codec.STRUCT:
            lines += [tabs + hole for hole in _fill_hole(btf, type_id, at, offset, bits)]
        text = format_declaration(btf, type_id, name, level + 1)
        lines.append(f"{tabs}{text}: {bits};" if bits else f"{tabs}{text};")
        size += len(lines[-1])
        if size > LONGEST:
            raise MachineError(f"the definition of type {raw.id} is too long")
        at = offset + (bits or btf.size_of(type_id) * 8)
    align = 8 * _type_alignment(btf, raw.id)
    if raw.kind == codec.STRUCT and lines and (at + align - 1) // align * align < raw.value * 8:
        lines += [tabs + hole for hole in _padding_bitfields(at, raw.value * 8)]
    close = "} __attribute__((packed))" if _is_packed(btf, raw) else "}"
    return "\n".join(["{", *lines, "\t" * level + close]) if lines else "{}"


def _is_packed(btf: Btf, raw: Raw) -> bool:
    """Whether some member, or the size, is not aligned as C would align it."""
    return _struct_layout(btf, raw)[1]


def _struct_layout(btf: Btf, raw: Raw) -> tuple[int, bool]:
    """(alignment, packed) of a struct or union; cached, since structs nest deeply."""
    known = btf.layouts.get(raw.id)
    if known is None:
        align, packed = 1, False
        for _, type_id, offset, bits in btf.members(raw):
            own = _type_alignment(btf, type_id)
            align = max(align, own)
            packed = packed or (not bits and offset % (own * 8) != 0)
        packed = packed or raw.value % align != 0
        known = btf.layouts[raw.id] = (1 if packed else align, packed)
    return known


def _fill_hole(btf: Btf, type_id: int, at: int, offset: int, bits: int) -> list[str]:
    """Unnamed bitfields for the gap before a member, unless the member's alignment alone explains it."""
    if not bits:
        align = 8 * _type_alignment(btf, type_id)
        if (at + align - 1) // align * align == offset:
            return []
    return _padding_bitfields(at, offset)


def _padding_bitfields(at: int, end: int) -> list[str]:
    """Unnamed bitfields from bit ``at`` to ``end``, as wide as alignment permits."""
    if end - at > WIDEST:
        raise MachineError(f"corrupt BTF: a hole of {end - at} bits")
    lines = []
    while at < end:
        unit, word = next(pad for pad in _PADS if at + pad[0] - at % pad[0] <= end or pad[0] == 8)
        step = min(unit - at % unit, end - at)
        lines.append(f"{word}: {step};")
        at += step
    return lines


_PADS = ((64, "long"), (32, "int"), (16, "short"), (8, "char"))


def _type_alignment(btf: Btf, type_id: int) -> int:
    raw = btf.skip_modifiers(type_id)
    if raw.kind == codec.ARRAY:
        return _type_alignment(btf, next(btf.read_elements(raw, codec.TRIPLE, 1))[0])
    if raw.kind in (codec.STRUCT, codec.UNION):
        return _struct_layout(btf, raw)[0]
    return 8 if raw.kind == codec.PTR else max(1, min(btf.size_of(raw.id), 16))


def _format_constants(btf: Btf, raw: Raw, level: int) -> str:
    tabs = "\t" * (level + 1)
    lines = [f"{tabs}{name} = {value}," for value, name in btf.enumerators(raw)]
    return "\n".join(["{", *lines, "\t" * level + "}"])


def format_definition(btf: Btf, type_id: int) -> str:
    """``struct x { ... };`` of a struct, union or enum."""
    raw = btf.raw_type(type_id)
    try:
        return _format_definition(btf, raw)
    except RecursionError:
        raise MachineError(f"corrupt BTF: type {type_id} holds itself") from None


def _format_definition(btf: Btf, raw: Raw) -> str:
    head = " ".join([word for word in (_TAGS[raw.kind], raw.name) if word])
    body = _format_constants(btf, raw, 0) if raw.kind in (codec.ENUM, codec.ENUM64) else _format_body(btf, raw, 0)
    return f"{head} {body};"
