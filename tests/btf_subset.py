"""A small BTF blob with some types of a large one: what tests record of a kernel."""

from __future__ import annotations

from collections.abc import Iterable

from sonde.btf import codec
from sonde.btf.codec import PAIR, TRIPLE, WORD, Writer
from sonde.btf.query import Btf, Raw


def extract_subset(btf: Btf, roots: Iterable[int]) -> bytes:
    """BTF of the types ``roots`` and all they need; a struct that only pointers lead to is merely declared.

    So a chain ``a->b->c`` works in the subset where the structs of a, b and c are all roots.
    """
    return _Subset(btf, roots).build_blob()


class _Subset:
    def __init__(self, btf: Btf, roots: Iterable[int]) -> None:
        self._btf = btf
        self._whole: set[int] = set()
        self._order: dict[int, int] = {}  # old id → new id
        self._forward: dict[tuple[str, bool], int] = {}
        pending = [(root, True) for root in roots]
        while pending:
            pending += self._visit_type(*pending.pop())
        for number, old in enumerate(sorted(self._order), 1):
            self._order[old] = number

    def _visit_type(self, type_id: int, whole: bool) -> list[tuple[int, bool]]:
        """Note a type; returns the types that it needs, and whether it needs all of them."""
        if not type_id or type_id in self._whole:
            return []
        raw = self._btf.raw_type(type_id)
        declared_only = raw.kind in (codec.STRUCT, codec.UNION) and raw.name and not whole
        self._order.setdefault(type_id, 0)
        if declared_only:
            return []
        self._whole.add(type_id)
        if raw.kind in (codec.STRUCT, codec.UNION):
            return [(member[1], True) for member in self._btf.members(raw)]
        if raw.kind == codec.ARRAY:
            of, index, _ = next(self._btf.read_elements(raw, TRIPLE, 1))
            return [(of, True), (index, True)]
        if raw.kind == codec.FUNC_PROTO:
            return [(raw.value, False)] + [(kind, False) for _, kind in self._btf.read_elements(raw, PAIR, raw.vlen)]
        if raw.kind in (codec.INT, codec.ENUM, codec.ENUM64, codec.FLOAT, codec.FWD):
            return []
        if raw.kind == codec.PTR:
            return [(raw.value, False)]
        if not whole:
            self._whole.discard(type_id)  # a qualifier or typedef may be needed whole later
        return [(raw.value, whole)]

    def build_blob(self) -> bytes:
        writer = Writer()
        for old in sorted(self._order):
            self._write_record(writer, self._btf.raw_type(old))
        return writer.build_blob()

    def _write_record(self, writer: Writer, raw: Raw) -> None:
        btf, new = self._btf, self._order
        if raw.kind in (codec.STRUCT, codec.UNION) and raw.id not in self._whole:
            writer.add_record(codec.FWD, raw.name, 0, kflag=raw.kind == codec.UNION)
            return
        value, extra = raw.value, b""
        if raw.kind in (codec.STRUCT, codec.UNION):
            extra = b"".join([TRIPLE.pack(writer.add_string(btf.string_at(name)), new.get(kind, 0), offset)
                              for name, kind, offset in btf.read_elements(raw, TRIPLE, raw.vlen)])
        elif raw.kind == codec.ARRAY:
            of, index, count = next(btf.read_elements(raw, TRIPLE, 1))
            extra = TRIPLE.pack(new.get(of, 0), new.get(index, 0), count)
        elif raw.kind == codec.FUNC_PROTO:
            value = new.get(raw.value, 0)
            extra = b"".join([PAIR.pack(writer.add_string(btf.string_at(name)), new.get(kind, 0))
                              for name, kind in btf.read_elements(raw, PAIR, raw.vlen)])
        elif raw.kind == codec.ENUM:
            extra = b"".join([PAIR.pack(writer.add_string(btf.string_at(name)), constant)
                              for name, constant in btf.read_elements(raw, PAIR, raw.vlen)])
        elif raw.kind == codec.ENUM64:
            extra = b"".join([TRIPLE.pack(writer.add_string(btf.string_at(name)), low, high)
                              for name, low, high in btf.read_elements(raw, TRIPLE, raw.vlen)])
        elif raw.kind == codec.INT:
            extra = WORD.pack(next(btf.read_elements(raw, WORD, 1))[0])
        elif raw.kind not in (codec.FWD, codec.FLOAT):
            value = new.get(raw.value, 0)
        writer.add_record(raw.kind, raw.name, value, extra, raw.vlen, raw.kflag)
