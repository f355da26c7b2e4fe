"""BTF: written and read back, converted, indexed, printed; and damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.btf import codec, ctext, query
from sonde.btf import index as btf_index
from sonde.btf.codec import PAIR, TRIPLE, Writer, build_program_btf
from sonde.btf.index import build, load_or_build
from sonde.btf.query import Btf, parse
from sonde.btf.subset import subset
from sonde.errors import EnvironmentProblem
from sonde.types import BOOL, INT8, INT32, KERNEL, UINT32, UINT64, USER, VOID, Array, Enum, Int, Pointer, Str, Struct


def sample() -> Writer:
    """Types 1..: int, unsigned long, char, task { pid, comm, next, flags:3, rest:29, { a, b } }."""
    w = Writer()
    integer = w.integer("int", 4)
    long = w.integer("long unsigned int", 8, signed=False)
    char = w.integer("char", 1, signed=False)
    text = w.array(char, integer, 16)
    pointer = w.pointer(w.count + 2)
    inner = b"".join([TRIPLE.pack(w.string("a"), integer, 0), TRIPLE.pack(w.string("b"), long, 0)])
    task_at = w.count + 1
    unsigned = w.count + 2
    anonymous = w.count + 3
    members = [("pid", integer, 0, 0), ("comm", text, 32, 0), ("next", pointer, 192, 0), ("flags", unsigned, 256, 3),
               ("rest", unsigned, 259, 29), ("", anonymous, 320, 0)]
    extra = b"".join([TRIPLE.pack(w.string(n), t, at | bits << 24) for n, t, at, bits in members])
    assert w.add(codec.STRUCT, "task", 48, extra, len(members), kflag=True) == task_at
    assert w.integer("unsigned int", 4, signed=False) == unsigned
    assert w.add(codec.UNION, "", 8, inner, 2) == anonymous
    w.typedef("task_t", w.add(codec.CONST, "", task_at))
    return w


@pytest.fixture
def btf() -> Btf:
    return parse(sample().blob())


def test_struct(btf: Btf) -> None:
    task = btf.struct("task")
    assert task and (task.size, task.btf_id) == (48, btf.find("task", codec.STRUCT))
    fields = {f.name: f for f in task.fields}
    assert fields["pid"].type == INT32
    assert fields["comm"].type == Str(16) and fields["comm"].offset == 4
    assert isinstance(fields["next"].type, Pointer) and fields["next"].type.to == task
    assert fields["next"].type.space == KERNEL
    assert task.field("b") is not None and task.field("b").offset == 40  # type: ignore[union-attr]
    assert task.field_names() == ["pid", "comm", "next", "flags", "rest", "a", "b"]


def test_one_struct_is_converted_once(btf: Btf) -> None:
    assert btf.struct("task") is btf.struct("task")
    assert btf.type(btf.find("task_t", codec.TYPEDEF)) is btf.struct("task")


def test_bitfields(btf: Btf) -> None:
    task = btf.struct("task")
    assert task
    flags, rest = task.field("flags"), task.field("rest")
    assert flags and (flags.offset, flags.bit_offset, flags.bit_size, flags.type) == (32, 0, 3, UINT32)
    assert rest and (rest.offset, rest.bit_offset, rest.bit_size) == (32, 3, 29)


def test_old_bitfields() -> None:
    """Without kind_flag the integer type itself is narrow."""
    w = Writer()
    narrow = w.add(codec.INT, "unsigned int", 4, codec.WORD.pack(5))
    w.add(codec.STRUCT, "s", 4, TRIPLE.pack(w.string("f"), narrow, 7), 1)
    s = parse(w.blob()).struct("s")
    assert s and [(f.offset, f.bit_offset, f.bit_size) for f in s.fields] == [(0, 7, 5)]


def test_packed_bitfield_across_units() -> None:
    w = Writer()
    unsigned = w.integer("unsigned int", 4, signed=False)
    w.add(codec.STRUCT, "s", 9, TRIPLE.pack(w.string("f"), unsigned, 28 | 8 << 24), 1, kflag=True)
    field = parse(w.blob()).struct("s").fields[0]  # type: ignore[union-attr]
    assert (field.offset, field.bit_offset, field.bit_size, field.type.size) == (3, 4, 8, 4)


def test_enums() -> None:
    w = Writer()
    w.add(codec.ENUM, "color", 4, PAIR.pack(w.string("RED"), 1) + PAIR.pack(w.string("BLUE"), 2), 2)
    w.add(codec.ENUM, "signed", 4, PAIR.pack(w.string("MINUS"), 0xFFFFFFFF), 1, kflag=True)
    w.add(codec.ENUM64, "big", 8, TRIPLE.pack(w.string("HUGE"), 1, 2), 1)
    btf = parse(w.blob())
    color = btf.type(1)
    assert isinstance(color, Enum) and color.names == {1: "RED", 2: "BLUE"}
    assert btf.enum_constant("BLUE") == (2, color)
    minus, huge = btf.enum_constant("MINUS"), btf.enum_constant("HUGE")
    assert minus and minus[0] == -1
    assert huge and huge[0] == 2 << 32 | 1
    assert btf.enum_constant("GREEN") is None


@pytest.mark.parametrize(("name", "size", "encoding", "expected"), [
    ("char", 1, 0, INT8), ("_Bool", 1, codec.INT_BOOL, BOOL), ("u128", 16, 0, Array(UINT64, 2)),
    ("int", 4, codec.INT_SIGNED, INT32), ("long unsigned int", 8, 0, UINT64)])
def test_integers(name: str, size: int, encoding: int, expected: object) -> None:
    w = Writer()
    w.add(codec.INT, name, size, codec.WORD.pack(encoding << 24 | size * 8))
    assert parse(w.blob()).type(1) == expected


def test_other_kinds() -> None:
    w = Writer()
    char = w.integer("char", 1)
    tag = w.add(codec.TYPE_TAG, "user", char)
    user = w.pointer(w.add(codec.CONST, "", tag))
    function = w.pointer(w.proto(0, [("x", char)]))
    real = w.add(codec.FLOAT, "double", 8)
    flexible = w.array(char, char, 0)
    forward = w.pointer(w.add(codec.FWD, "hidden", 0))
    btf = parse(w.blob())
    assert btf.type(user) == Pointer(INT8, USER)
    assert btf.type(function) == Pointer(VOID, KERNEL)
    assert btf.type(w.pointer(0)) if False else btf.type(real).size == 8
    assert btf.type(flexible) == Array(INT8, 0)
    hidden = btf.type(forward)
    assert isinstance(hidden, Pointer) and isinstance(hidden.to, Struct) and hidden.to.fields == ()


def test_params(btf: Btf) -> None:
    w = Writer()
    integer = w.integer("int", 4)
    proto = w.proto(integer, [("a", integer), ("b", w.pointer(0))])
    function = w.function("f", proto)
    parsed = parse(w.blob())
    assert [(p.name, p.type) for p in parsed.params(function)] == [("a", integer), ("b", 2)]


def module_of(base: Btf) -> bytes:
    """A module's blob: it continues the ids and strings of its base, and may name its types with the base's strings."""
    types = bytearray()
    name, member = base.string_size + 1, base.string_size + 5
    types += codec.RECORD.pack(name, 2 | codec.STRUCT << 24, 8)
    task = base.find("task", codec.STRUCT)
    types += TRIPLE.pack(member, 1, 0) + TRIPLE.pack(member, base.end + 1, 32)
    types += codec.RECORD.pack(0, codec.PTR << 24, task)
    strings_of_base = next(at for at in range(base.string_size) if base.string(at) == "pid")
    types += codec.RECORD.pack(strings_of_base, codec.TYPEDEF << 24, 1)
    strings = b"\0mod\0m\0"
    return codec.HEADER.pack(codec.MAGIC, 1, 0, 24, 0, len(types), len(types), len(strings)) + bytes(types) + strings


def test_split() -> None:
    base = parse(sample().blob())
    module = parse(module_of(base), base)
    mod = module.struct("mod")
    assert mod and [f.name for f in mod.fields] == ["m", "m"] and mod.btf_id == 0
    pointer = mod.fields[1].type
    assert isinstance(pointer, Pointer) and pointer.to is base.struct("task")
    assert module.find("pid", codec.TYPEDEF) == base.end + 2
    assert module.struct("task") is base.struct("task")
    assert module.enum_constant("X") is None


def test_program_btf() -> None:
    blob, functions, lines = build_program_btf("my prog", [
        (3, "a.bt", "BEGIN { exit(); }", 1, 9), (3, "a.bt", "same instruction", 1, 9), (7, "a.bt", "x", 2, 5000)])
    btf = parse(blob)
    offset, number = PAIR.unpack(functions)
    assert offset == 0 and btf.raw(number).name == "my_prog" and btf.raw(number).kind == codec.FUNC
    records = [lines[at:at + 16] for at in range(0, len(lines), 16)]
    rows = [query.struct.unpack("=IIII", record) for record in records]
    assert [row[0] for row in rows] == [0, 7]
    assert btf.string(rows[0][1]) == "a.bt" and btf.string(rows[0][2]) == "BEGIN { exit(); }"
    assert (rows[0][3] >> 10, rows[0][3] & 1023) == (1, 9)
    assert rows[1][3] & 1023 == 1023


def test_program_btf_without_lines() -> None:
    blob, functions, lines = build_program_btf("", [])
    assert parse(blob).raw(PAIR.unpack(functions)[1]).name == "_" and lines == b""


def test_c_text(btf: Btf) -> None:
    assert ctext.definition(btf, btf.find("task", codec.STRUCT)) == """\
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
    integer = w.integer("int", 4)
    constant = w.add(codec.CONST, "", integer)
    function = w.pointer(w.proto(w.pointer(0), [("x", integer), ("", w.pointer(constant))]))
    table = w.array(function, integer, 4)
    fixed = w.add(codec.CONST, "", w.pointer(integer))
    btf = parse(w.blob())
    assert ctext.declaration(btf, function, "f") == "void * (*f)(int x, const int *)"
    assert ctext.declaration(btf, table, "t") == "void * (*t[4])(int x, const int *)"
    assert ctext.declaration(btf, fixed, "p") == "int * const p"
    assert ctext.declaration(btf, w.count - 1) == "int *"


def test_subset(btf: Btf) -> None:
    small = parse(subset(btf, [btf.find("task_t", codec.TYPEDEF)]))
    task, was = small.struct("task"), btf.struct("task")
    assert task and was
    assert [(f.name, f.offset, f.bit_size, str(f.type)) for f in task.fields][:5] \
        == [(f.name, f.offset, f.bit_size, str(f.type)) for f in was.fields][:5]


def test_subset_declares_what_pointers_lead_to() -> None:
    w = Writer()
    integer = w.integer("int", 4)
    other = w.struct("other", 4, [("x", integer, 0)])
    w.struct("s", 8, [("p", w.pointer(other), 0)])
    small = parse(subset(parse(w.blob()), [w.count]))
    pointer = small.struct("s").fields[0].type  # type: ignore[union-attr]
    assert isinstance(pointer, Pointer) and str(pointer.to) == "struct other" and pointer.to.size == 0


# ---- the index

def test_index_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    blob = codec.memory_blob(sample().blob())
    header = codec.parse_header(blob)
    load_or_build(blob, header, "key")
    stored = tmp_path / "sonde" / "btf-key.index"
    assert [p.name for p in stored.parent.iterdir()] == [stored.name]
    again = load_or_build(blob, header, "key")
    assert not isinstance(again.kinds, bytearray)
    assert Btf(blob, header, again).struct("task") is not None
    for damaged in (b"", b"short", stored.read_bytes()[:-8], bytes(stored.stat().st_size)):
        stored.write_bytes(damaged)
        assert Btf(blob, header, load_or_build(blob, header, "key")).struct("task") is not None


def test_index_of_a_module_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For this kernel and these contents; not where the kernel's own is not, nor for a few types."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    blob = codec.memory_blob(sample().blob())
    header = codec.parse_header(blob)
    kernel, other = [Btf(blob, header, load_or_build(blob, header, key), key=key) for key in ("key", "other")]
    folder = tmp_path / "sonde"
    before = set(folder.iterdir())

    assert parse(module_of(kernel), kernel).struct("mod") and set(folder.iterdir()) == before
    monkeypatch.setattr(btf_index, "SMALL", 1)
    bare = parse(blob)
    assert parse(module_of(bare), bare).struct("mod") and set(folder.iterdir()) == before
    built = parse(module_of(kernel), kernel)
    stored, = set(folder.iterdir()) - before
    again = parse(module_of(kernel), kernel)
    assert isinstance(built.index.kinds, bytearray) and not isinstance(again.index.kinds, bytearray)
    assert again.first == built.first == kernel.end
    mod = again.struct("mod")
    assert mod and [(f.name, f.offset) for f in mod.fields] == [("m", 0), ("m", 4)]
    assert again.find("pid", codec.TYPEDEF) == kernel.end + 2
    assert parse(module_of(other), other).struct("mod")
    assert len(set(folder.iterdir()) - before) == 2 and stored.name.startswith("btf-key-")


@pytest.mark.parametrize("cache", ["/proc/nowhere", "/dev/null"])
def test_index_without_a_cache(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    blob = codec.memory_blob(sample().blob())
    header = codec.parse_header(blob)
    assert Btf(blob, header, load_or_build(blob, header, "key")).struct("task") is not None


def test_names_with_one_hash() -> None:
    """Candidates are compared by name: these two have the same crc32."""
    w = Writer()
    integer = w.integer("int", 4)
    w.struct("plumless", 4, [("x", integer, 0)])
    w.struct("buckeroo", 8, [("x", integer, 0)])
    btf = parse(w.blob())
    assert len(btf.index.named("plumless")) == 2
    assert btf.struct("plumless").size == 4 and btf.struct("buckeroo").size == 8  # type: ignore[union-attr]


# ---- damage

@pytest.mark.parametrize("data", [b"", b"\0" * 24, b"\x7fELF" + bytes(60), bytes.fromhex("eb9f") + bytes(30),
                                  sample().blob()[:-20], sample().blob()[:40]])
def test_not_btf(data: bytes) -> None:
    with pytest.raises(EnvironmentProblem):
        parse(data)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "x.btf"
    with pytest.raises(EnvironmentProblem):
        query.open_file(str(path))
    path.write_bytes(sample().blob())
    assert query.open_file(str(path)).struct("task")
    path.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(EnvironmentProblem):
        query.open_file(str(path))


def walk(btf: Btf) -> None:
    for number in range(1, btf.end):
        kind = btf.type(number)
        if isinstance(kind, Struct):
            _ = kind.fields
        ctext.declaration(btf, number, "x")


@settings(max_examples=300, deadline=None)
@given(st.integers(24, len(sample().blob()) - 1), st.integers(0, 255))
def test_damaged_btf_never_breaks(at: int, value: int) -> None:
    blob = bytearray(sample().blob())
    blob[at] = value
    try:
        walk(parse(bytes(blob)))
    except EnvironmentProblem:
        pass


def test_self_reference() -> None:
    w = Writer()
    w.pointer(1)
    w.typedef("t", 2)
    w.array(3, 3, 2)
    btf = parse(w.blob())
    assert btf.type(1) == Pointer(VOID, KERNEL)
    with pytest.raises(EnvironmentProblem):
        btf.type(2)
    assert btf.size_of(3) == 0
    with pytest.raises(EnvironmentProblem):
        ctext.declaration(btf, 1, "x")


def test_build_counts() -> None:
    blob = codec.memory_blob(sample().blob())
    index = build(blob, codec.parse_header(blob))
    assert len(index) == sample().count == len(index.kinds)
    assert list(index.of_kinds(frozenset((codec.UNION,)))) == [8]
    assert isinstance(parse(sample().blob()).type(1), Int) and os.path.sep == "/"
