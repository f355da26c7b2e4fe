"""BTF: written and read back, converted, indexed, printed; and damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from btf_subset import extract_subset
from btf_writer import Writer
from sonde.btf import codec, ctext, query
from sonde.btf import index as btf_index
from sonde.btf.codec import PAIR, TRIPLE, build_program_btf
from sonde.btf.index import build_index, load_or_build_index
from sonde.btf.query import Btf, parse_btf
from sonde.btf.takers import functions_taking
from sonde.errors import MachineError
from sonde.types import (
    BOOL,
    INT8,
    INT32,
    KERNEL,
    UINT8,
    UINT32,
    UINT64,
    USER,
    VOID,
    Array,
    Enum,
    Int,
    Pointer,
    Str,
    Struct,
)


def sample() -> Writer:
    """Types 1..: int, unsigned long, char, task { pid, comm, next, flags:3, rest:29, { a, b } }."""
    w = Writer()
    integer = w.add_integer("int", 4)
    long = w.add_integer("long unsigned int", 8, signed=False)
    char = w.add_integer("char", 1, signed=False)
    text = w.add_array(char, integer, 16)
    pointer = w.add_pointer(w.count + 2)
    inner = b"".join([TRIPLE.pack(w.add_string("a"), integer, 0), TRIPLE.pack(w.add_string("b"), long, 0)])
    task_at = w.count + 1
    unsigned = w.count + 2
    anonymous = w.count + 3
    members = [("pid", integer, 0, 0), ("comm", text, 32, 0), ("next", pointer, 192, 0), ("flags", unsigned, 256, 3),
               ("rest", unsigned, 259, 29), ("", anonymous, 320, 0)]
    extra = b"".join([TRIPLE.pack(w.add_string(n), t, at | bits << 24) for n, t, at, bits in members])
    assert w.add_record(codec.STRUCT, "task", 48, extra, len(members), kflag=True) == task_at
    assert w.add_integer("unsigned int", 4, signed=False) == unsigned
    assert w.add_record(codec.UNION, "", 8, inner, 2) == anonymous
    w.add_typedef("task_t", w.add_record(codec.CONST, "", task_at))
    return w


@pytest.fixture
def btf() -> Btf:
    return parse_btf(sample().build_blob())


def test_struct(btf: Btf) -> None:
    task = btf.find_struct("task")
    assert task and (task.size, task.btf_id) == (48, btf.find_id("task", codec.STRUCT))
    fields = {f.name: f for f in task.fields}
    assert fields["pid"].type == INT32
    assert fields["comm"].type == Str(16) and fields["comm"].offset == 4
    assert isinstance(fields["next"].type, Pointer) and fields["next"].type.to == task
    assert fields["next"].type.space == KERNEL
    assert task.field("b") is not None and task.field("b").offset == 40  # type: ignore[union-attr]
    assert task.field_names() == ["pid", "comm", "next", "flags", "rest", "a", "b"]


def test_one_struct_is_converted_once(btf: Btf) -> None:
    assert btf.find_struct("task") is btf.find_struct("task")
    assert btf.convert_type(btf.find_id("task_t", codec.TYPEDEF)) is btf.find_struct("task")


def test_bitfields(btf: Btf) -> None:
    task = btf.find_struct("task")
    assert task
    flags, rest = task.field("flags"), task.field("rest")
    assert flags and (flags.offset, flags.bit_offset, flags.bit_size, flags.type) == (32, 0, 3, UINT32)
    assert rest and (rest.offset, rest.bit_offset, rest.bit_size) == (32, 3, 29)


def test_old_bitfields() -> None:
    """Without kind_flag the integer type itself is narrow."""
    w = Writer()
    narrow = w.add_record(codec.INT, "unsigned int", 4, codec.WORD.pack(5))
    w.add_record(codec.STRUCT, "s", 4, TRIPLE.pack(w.add_string("f"), narrow, 7), 1)
    s = parse_btf(w.build_blob()).find_struct("s")
    assert s and [(f.offset, f.bit_offset, f.bit_size) for f in s.fields] == [(0, 7, 5)]


def test_packed_bitfield_across_units() -> None:
    w = Writer()
    unsigned = w.add_integer("unsigned int", 4, signed=False)
    w.add_record(codec.STRUCT, "s", 9, TRIPLE.pack(w.add_string("f"), unsigned, 28 | 8 << 24), 1, kflag=True)
    field = parse_btf(w.build_blob()).find_struct("s").fields[0]  # type: ignore[union-attr]
    assert (field.offset, field.bit_offset, field.bit_size, field.type.size) == (3, 4, 8, 4)


def test_enums() -> None:
    w = Writer()
    w.add_record(codec.ENUM, "color", 4, PAIR.pack(w.add_string("RED"), 1) + PAIR.pack(w.add_string("BLUE"), 2), 2)
    w.add_record(codec.ENUM, "signed", 4, PAIR.pack(w.add_string("MINUS"), 0xFFFFFFFF), 1, kflag=True)
    w.add_record(codec.ENUM64, "big", 8, TRIPLE.pack(w.add_string("HUGE"), 1, 2), 1)
    btf = parse_btf(w.build_blob())
    color = btf.convert_type(1)
    assert isinstance(color, Enum) and color.names == {1: "RED", 2: "BLUE"}
    assert btf.enum_constant("BLUE") == (2, color)
    minus, huge = btf.enum_constant("MINUS"), btf.enum_constant("HUGE")
    assert minus and minus[0] == -1
    assert huge and huge[0] == 2 << 32 | 1
    assert btf.enum_constant("GREEN") is None


@pytest.mark.parametrize(("name", "size", "encoding", "expected"), [
    ("char", 1, 0, UINT8), ("char", 1, codec.INT_SIGNED, INT8), ("signed char", 1, 0, INT8),
    ("_Bool", 1, codec.INT_BOOL, BOOL), ("u128", 16, 0, Array(UINT64, 2)),
    ("int", 4, codec.INT_SIGNED, INT32), ("long unsigned int", 8, 0, UINT64)])
def test_integers(name: str, size: int, encoding: int, expected: object) -> None:
    w = Writer()
    w.add_record(codec.INT, name, size, codec.WORD.pack(encoding << 24 | size * 8))
    assert parse_btf(w.build_blob()).convert_type(1) == expected


def test_other_kinds() -> None:
    w = Writer()
    char = w.add_integer("char", 1)
    tag = w.add_record(codec.TYPE_TAG, "user", char)
    user = w.add_pointer(w.add_record(codec.CONST, "", tag))
    function = w.add_pointer(w.add_prototype(0, [("x", char)]))
    real = w.add_record(codec.FLOAT, "double", 8)
    flexible = w.add_array(char, char, 0)
    forward = w.add_pointer(w.add_record(codec.FWD, "hidden", 0))
    btf = parse_btf(w.build_blob())
    assert btf.convert_type(user) == Pointer(INT8, USER)
    assert btf.convert_type(function) == Pointer(VOID, KERNEL)
    assert btf.convert_type(w.add_pointer(0)) if False else btf.convert_type(real).size == 8
    assert btf.convert_type(flexible) == Array(INT8, 0)
    hidden = btf.convert_type(forward)
    assert isinstance(hidden, Pointer) and isinstance(hidden.to, Struct) and hidden.to.fields == ()


def test_params(btf: Btf) -> None:
    w = Writer()
    integer = w.add_integer("int", 4)
    proto = w.add_prototype(integer, [("a", integer), ("b", w.add_pointer(0))])
    function = w.add_function("f", proto)
    parsed = parse_btf(w.build_blob())
    assert [(p.name, p.type) for p in parsed.function_params(function)] == [("a", integer), ("b", 2)]


def module_of(base: Btf) -> bytes:
    """A module's blob: it continues the ids and strings of its base, and may name its types with the base's strings."""
    types = bytearray()
    name, member = base.string_size + 1, base.string_size + 5
    types += codec.RECORD.pack(name, 2 | codec.STRUCT << 24, 8)
    task = base.find_id("task", codec.STRUCT)
    types += TRIPLE.pack(member, 1, 0) + TRIPLE.pack(member, base.end + 1, 32)
    types += codec.RECORD.pack(0, codec.PTR << 24, task)
    strings_of_base = next(at for at in range(base.string_size) if base.string_at(at) == "pid")
    types += codec.RECORD.pack(strings_of_base, codec.TYPEDEF << 24, 1)
    strings = b"\0mod\0m\0"
    return codec.HEADER.pack(codec.MAGIC, 1, 0, 24, 0, len(types), len(types), len(strings)) + bytes(types) + strings


def test_split() -> None:
    base = parse_btf(sample().build_blob())
    module = parse_btf(module_of(base), base)
    mod = module.find_struct("mod")
    assert mod and [f.name for f in mod.fields] == ["m", "m"] and mod.btf_id == 0
    pointer = mod.fields[1].type
    assert isinstance(pointer, Pointer) and pointer.to is base.find_struct("task")
    assert module.find_id("pid", codec.TYPEDEF) == base.end + 2
    assert module.find_struct("task") is base.find_struct("task")
    assert module.enum_constant("X") is None


def test_program_btf() -> None:
    blob, functions, lines = build_program_btf("my prog", [
        (3, "a.bt", "BEGIN { exit(); }", 1, 9), (3, "a.bt", "same instruction", 1, 9), (7, "a.bt", "x", 2, 5000)])
    btf = parse_btf(blob)
    offset, number = PAIR.unpack(functions)
    assert offset == 0 and btf.raw_type(number).name == "my_prog" and btf.raw_type(number).kind == codec.FUNC
    records = [lines[at:at + 16] for at in range(0, len(lines), 16)]
    rows = [query.struct.unpack("=IIII", record) for record in records]
    assert [row[0] for row in rows] == [0, 7]
    assert btf.string_at(rows[0][1]) == "a.bt" and btf.string_at(rows[0][2]) == "BEGIN { exit(); }"
    assert (rows[0][3] >> 10, rows[0][3] & 1023) == (1, 9)
    assert rows[1][3] & 1023 == 1023


def test_program_btf_without_lines() -> None:
    blob, functions, lines = build_program_btf("", [])
    assert parse_btf(blob).raw_type(PAIR.unpack(functions)[1]).name == "_" and lines == b""


def test_c_text(btf: Btf) -> None:
    assert ctext.format_definition(btf, btf.find_id("task", codec.STRUCT)) == """\
struct task {
\tint pid;
\tchar comm[16];
\tstruct task *next;
\tunsigned int flags: 3;
\tunsigned int rest: 29;
\tunion {
\t\tint a;
\t\tlong unsigned int b;
\t};
};"""


def test_c_declarators() -> None:
    w = Writer()
    integer = w.add_integer("int", 4)
    constant = w.add_record(codec.CONST, "", integer)
    function = w.add_pointer(w.add_prototype(w.add_pointer(0), [("x", integer), ("", w.add_pointer(constant))]))
    table = w.add_array(function, integer, 4)
    fixed = w.add_record(codec.CONST, "", w.add_pointer(integer))
    btf = parse_btf(w.build_blob())
    assert ctext.format_declaration(btf, function, "f") == "void * (*f)(int x, const int *)"
    assert ctext.format_declaration(btf, table, "t") == "void * (*t[4])(int x, const int *)"
    assert ctext.format_declaration(btf, fixed, "p") == "int * const p"
    assert ctext.format_declaration(btf, w.count - 1) == "int *"


def test_subset(btf: Btf) -> None:
    small = parse_btf(extract_subset(btf, [btf.find_id("task_t", codec.TYPEDEF)]))
    task, was = small.find_struct("task"), btf.find_struct("task")
    assert task and was
    assert [(f.name, f.offset, f.bit_size, str(f.type)) for f in task.fields][:5] \
        == [(f.name, f.offset, f.bit_size, str(f.type)) for f in was.fields][:5]


def test_subset_declares_what_pointers_lead_to() -> None:
    w = Writer()
    integer = w.add_integer("int", 4)
    other = w.add_struct("other", 4, [("x", integer, 0)])
    w.add_struct("s", 8, [("p", w.add_pointer(other), 0)])
    small = parse_btf(extract_subset(parse_btf(w.build_blob()), [w.count]))
    pointer = small.find_struct("s").fields[0].type  # type: ignore[union-attr]
    assert isinstance(pointer, Pointer) and str(pointer.to) == "struct other" and pointer.to.size == 0


# ---- the index

def test_index_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    blob = codec.memory_blob(sample().build_blob())
    header = codec.parse_header(blob)
    load_or_build_index(blob, header, "key")
    stored = tmp_path / "sonde" / "btf-key.index"
    assert [p.name for p in stored.parent.iterdir()] == [stored.name]
    again = load_or_build_index(blob, header, "key")
    assert not isinstance(again.kinds, bytearray)
    assert Btf(blob, header, again).find_struct("task") is not None
    for damaged in (b"", b"short", stored.read_bytes()[:-8], bytes(stored.stat().st_size)):
        stored.write_bytes(damaged)
        assert Btf(blob, header, load_or_build_index(blob, header, "key")).find_struct("task") is not None


def test_index_of_a_module_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For this kernel and these contents; not where the kernel's own is not, nor for a few types."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    blob = codec.memory_blob(sample().build_blob())
    header = codec.parse_header(blob)
    kernel, other = [Btf(blob, header, load_or_build_index(blob, header, key), key=key) for key in ("key", "other")]
    folder = tmp_path / "sonde"
    before = set(folder.iterdir())

    assert parse_btf(module_of(kernel), kernel).find_struct("mod") and set(folder.iterdir()) == before
    monkeypatch.setattr(btf_index, "SMALL", 1)
    bare = parse_btf(blob)
    assert parse_btf(module_of(bare), bare).find_struct("mod") and set(folder.iterdir()) == before
    built = parse_btf(module_of(kernel), kernel)
    stored, = set(folder.iterdir()) - before
    again = parse_btf(module_of(kernel), kernel)
    assert isinstance(built.index.kinds, bytearray) and not isinstance(again.index.kinds, bytearray)
    assert again.first == built.first == kernel.end
    mod = again.find_struct("mod")
    assert mod and [(f.name, f.offset) for f in mod.fields] == [("m", 0), ("m", 4)]
    assert again.find_id("pid", codec.TYPEDEF) == kernel.end + 2
    assert parse_btf(module_of(other), other).find_struct("mod")
    assert len(set(folder.iterdir()) - before) == 2 and stored.name.startswith("btf-key-")


@pytest.mark.parametrize("cache", ["/proc/nowhere", "/dev/null"])
def test_index_without_a_cache(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    blob = codec.memory_blob(sample().build_blob())
    header = codec.parse_header(blob)
    assert Btf(blob, header, load_or_build_index(blob, header, "key")).find_struct("task") is not None


def test_names_with_one_hash() -> None:
    """Candidates are compared by name: these two have the same crc32."""
    w = Writer()
    integer = w.add_integer("int", 4)
    w.add_struct("plumless", 4, [("x", integer, 0)])
    w.add_struct("buckeroo", 8, [("x", integer, 0)])
    btf = parse_btf(w.build_blob())
    assert len(btf.index.candidate_ids("plumless")) == 2
    assert btf.find_struct("plumless").size == 4 and btf.find_struct("buckeroo").size == 8  # type: ignore[union-attr]


# ---- damage

@pytest.mark.parametrize("data", [b"", b"\0" * 24, b"\x7fELF" + bytes(60), bytes.fromhex("eb9f") + bytes(30),
                                  sample().build_blob()[:-20], sample().build_blob()[:40]])
def test_not_btf(data: bytes) -> None:
    with pytest.raises(MachineError):
        parse_btf(data)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "x.btf"
    with pytest.raises(MachineError):
        query.open_file(str(path))
    path.write_bytes(sample().build_blob())
    assert query.open_file(str(path)).find_struct("task")
    path.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(MachineError):
        query.open_file(str(path))


def walk(btf: Btf) -> None:
    for number in range(1, btf.end):
        kind = btf.convert_type(number)
        if isinstance(kind, Struct):
            _ = kind.fields
        ctext.format_declaration(btf, number, "x")


@settings(max_examples=300)
@given(st.integers(24, len(sample().build_blob()) - 1), st.integers(0, 255))
def test_damaged_btf_never_breaks(at: int, value: int) -> None:
    blob = bytearray(sample().build_blob())
    blob[at] = value
    try:
        walk(parse_btf(bytes(blob)))
    except MachineError:
        pass


def test_self_reference() -> None:
    w = Writer()
    w.add_pointer(1)
    w.add_typedef("t", 2)
    w.add_array(3, 3, 2)
    btf = parse_btf(w.build_blob())
    assert btf.convert_type(1) == Pointer(VOID, KERNEL)
    with pytest.raises(MachineError):
        btf.convert_type(2)
    assert btf.size_of(3) == 0
    with pytest.raises(MachineError):
        ctext.format_declaration(btf, 1, "x")


def test_build_counts() -> None:
    blob = codec.memory_blob(sample().build_blob())
    index = build_index(blob, codec.parse_header(blob))
    assert len(index) == sample().count == len(index.kinds)
    assert list(index.ids_of_kinds(frozenset((codec.UNION,)))) == [8]
    assert isinstance(parse_btf(sample().build_blob()).convert_type(1), Int) and os.path.sep == "/"


def test_functions_that_take_a_struct() -> None:
    """The first parameter that points to it, const or not, unless a wide one comes before it; a module's by its base's
    types and its own."""
    base = codec.Writer()
    number = base.add_integer("int", 4)
    packet = base.add_record(codec.STRUCT, "packet", 8)
    wide = base.add_record(codec.STRUCT, "wide", 16)
    pointer, plain = base.add_pointer(packet), base.add_pointer(number)
    constant = base.add_pointer(base.add_record(codec.CONST, "", packet))
    fixed = base.add_record(codec.CONST, "", pointer)
    kinds = {"first": [pointer], "third": [number, plain, constant, pointer], "fixed": [number, fixed], "none": [plain],
             "by_value": [packet], "behind": [wide, pointer], "far": [number] * 6 + [pointer], "empty": []}
    protos = {name: base.add_prototype(number, [("p", kind) for kind in types]) for name, types in kinds.items()}
    for name, proto in protos.items():
        base.add_function(name, proto)
    whole = parse_btf(base.build_blob())
    assert list(functions_taking([("vmlinux", whole)], "packet")) == [
        ("vmlinux", "first", 0), ("vmlinux", "third", 2), ("vmlinux", "fixed", 1)]
    assert list(functions_taking([("vmlinux", whole)], "nothing")) == []
