"""Damaged BTF of modules, of programs and in ELF files: told as what it is, never a traceback, never without end.

The kernel has checked what it shows in /sys/kernel/btf and what programs were loaded with, and both take privileges to
get there; ``--btf FILE`` takes any file. SONDE_HOSTILE_BTF sets how many mutants are tried, SONDE_FUZZ_SEED which.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from btf_writer import Writer
from sonde.btf import codec, ctext, query
from sonde.btf.codec import PAIR, TRIPLE, WORD
from sonde.btf.query import Btf, parse_btf
from sonde.errors import MachineError
from sonde.kernel.types.kernel_types import KernelTypes, function_prototype
from sonde.types import Struct

MUTANTS = int(os.environ.get("SONDE_HOSTILE_BTF", "600"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", "20261121"))
BASE_TYPES = 3  # of the base; a module's own begin behind them


def base() -> Btf:
    writer = Writer()
    writer.add_integer("int", 4)
    writer.add_integer("char", 1)
    writer.add_struct("task", 4, [("pid", 1, 0)])
    return parse_btf(writer.build_blob())


class Split(Writer):
    """A module's BTF, which continues the ids and the strings of its base."""

    def __init__(self, below: Btf) -> None:
        super().__init__()
        self.count, self._shift = below.end - 1, below.string_size
        self._known = {}

    def string(self, text: str) -> int:
        return super().add_string(text) + self._shift if text else 0


def module(below: Btf) -> bytes:
    """One record of each kind, some of which lead to others in a ring."""
    made = Split(below)
    first = made.count + 1
    made.add_pointer(first + 2)
    made.add_array(1, 1, 16)
    made.add_struct("node", 32, [("next", first, 0), ("data", first + 1, 8), ("task", 3, 24)])
    made.add_struct("either", 8, [("a", 1, 0), ("b", first + 2, 0)], union=True)
    made.add_record(codec.STRUCT, "bits", 8, TRIPLE.pack(made.string("x"), 1, 3 << 24 | 2), 1, kflag=True)
    made.add_record(codec.ENUM, "colour", 4, PAIR.pack(made.string("RED"), 1) + PAIR.pack(made.string("BLUE"), 2), 2)
    made.add_record(codec.ENUM64, "wide", 8, TRIPLE.pack(made.string("HUGE"), 1, 1), 1)
    made.add_record(codec.FWD, "task", 0)
    made.add_record(codec.TYPE_TAG, "user", first + 2)
    made.add_record(codec.CONST, "", first + 8)
    made.add_record(codec.VOLATILE, "", first + 9)
    made.add_pointer(first + 10)
    called = made.add_prototype(1, [("data", 0), ("node", first), ("user", first + 11), ("", 0)])
    made.add_function("work", called)
    made.add_function("__traceiter_event", called)
    made.add_typedef("btf_trace_event", made.add_pointer(called))
    made.add_record(codec.VAR, "v", 1, WORD.pack(0))
    made.add_record(codec.DATASEC, ".data", 4, TRIPLE.pack(made.count, 0, 4), 1)
    made.add_record(codec.FLOAT, "double", 8)
    made.add_record(codec.DECL_TAG, "tag", first + 2, WORD.pack(0))
    return made.build_blob()


class Types(KernelTypes):
    """What a World asks of a module's BTF."""

    def __init__(self, own: Btf, modules: dict[str, Btf]) -> None:
        self._own, self._others = own, modules

    def _open_btf(self) -> Btf:
        return self._own

    def _open_modules(self) -> dict[str, Btf]:
        return self._others


def attempt(ask: Callable[[], object]) -> None:
    try:
        ask()
    except MachineError:
        pass


def ask_everything(btf: Btf, below: Btf) -> None:
    types = Types(below, {"mod": btf})
    for number in range(btf.end):
        attempt(lambda number=number: fields_of(btf, number))  # type: ignore[misc]
        attempt(lambda number=number: ctext.format_declaration(btf, number, "x"))  # type: ignore[misc]
        if number and btf.raw_type(number).kind in (codec.STRUCT, codec.UNION, codec.ENUM, codec.ENUM64):
            attempt(lambda number=number: ctext.format_definition(btf, number))  # type: ignore[misc]
        attempt(lambda number=number: btf.function_params(number))  # type: ignore[misc]
        attempt(lambda number=number: function_prototype(btf, number, "f", "mod"))  # type: ignore[misc]
    for name in ("node", "either", "task", "nosuch", "colour", "RED", "HUGE", "work", "event"):
        for ask in (types.find_struct, types.named_type, types.enum_constant, types.raw_tracepoint_args,
                    types.kernel_function,
                    types.function_params):
            attempt(lambda ask=ask, name=name: ask(name))  # type: ignore[misc]
    for listing in (types.struct_names, types.raw_tracepoints, types.function_names):
        attempt(listing)


def fields_of(btf: Btf, number: int) -> None:
    found = btf.convert_type(number)
    if isinstance(found, Struct):
        assert all(field.type.size >= 0 for field in found.fields)


def mutant(chance: random.Random, whole: bytes) -> bytes:
    """Some of its words, bytes or ids are others; now and then its end is missing."""
    data = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(4, len(data) - 4)
        kind = chance.randrange(5)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            struct.pack_into("=I", data, at & ~3, chance.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF, len(data))))
        elif kind == 2:
            struct.pack_into("=I", data, at & ~3, chance.randrange(30))  # an id, perhaps its own
        elif kind == 3:
            other = chance.randrange(4, len(data) - 4) & ~3
            data[at & ~3:(at & ~3) + 4] = data[other:other + 4]
        else:
            struct.pack_into("=I", data, at & ~3, chance.randrange(codec.KINDS) << 24 | chance.randrange(4))
    return bytes(data[:chance.randrange(len(data))] if chance.random() < 0.05 else data)


@pytest.mark.timeout(max(120, MUTANTS // 5))
def test_mutants_of_a_module() -> None:
    below = base()
    whole, read = module(below), 0
    ask_everything(parse_btf(whole, below), below)
    for number in range(MUTANTS):
        data = mutant(random.Random(SEED * 1_000_003 + number), whole)
        try:
            btf = parse_btf(data, below)
        except MachineError:
            continue
        try:
            ask_everything(btf, below)
        except Exception as error:
            raise AssertionError(f"mutant {number}: {data.hex()}") from error
        read += 1
    assert read > MUTANTS // 4, "most were so damaged that nothing of them was looked at"


@pytest.mark.parametrize("kind", [codec.CONST, codec.TYPEDEF, codec.PTR, codec.FUNC, codec.TYPE_TAG])
def test_what_leads_to_itself(kind: int) -> None:
    """Directly, by way of another, and behind a pointer."""
    writer = Writer()
    writer.add_record(kind, "a", 1)
    writer.add_record(kind, "b", 3)
    writer.add_record(kind, "c", 2)
    writer.add_pointer(2)
    btf = parse_btf(writer.build_blob())
    ask_everything(btf, btf)


def test_a_long_chain_of_pointers() -> None:
    writer = Writer()
    for number in range(100_000):
        writer.add_pointer(number)
    btf = parse_btf(writer.build_blob())
    for ask in (btf.convert_type, btf.function_params, lambda number: ctext.format_declaration(btf, number, "x")):
        attempt(lambda ask=ask: ask(100_000))  # type: ignore[misc]


def test_structs_that_double() -> None:
    """Each has two of the one before it, none has a name: its definition would have 2^40 lines."""
    writer = Writer()
    writer.add_integer("int", 4)
    for number in range(1, 41):
        writer.add_struct("", 4 << min(number, 29), [("a", number, 0), ("b", number, min(2 << number, 1 << 28))])
    btf = parse_btf(writer.build_blob())
    with pytest.raises(MachineError):
        ctext.format_definition(btf, 41)
    with pytest.raises(MachineError):
        ctext.format_declaration(btf, 41, "x")


def test_damaged_elf_files(tmp_path: Path) -> None:
    whole = bytearray(b"\x7fELF\2\1\1" + bytes(57) + b"\0.BTF\0" + bytes(500))
    path = tmp_path / "vmlinux"
    for number in range(MUTANTS // 2):
        chance = random.Random(SEED * 1_000_003 + number)
        data = bytearray(whole)
        struct.pack_into("=Q", data, 40, chance.choice((0, 64, 200, 1 << 40, 1 << 63, (1 << 64) - 1)))
        struct.pack_into("=HHH", data, 58, *[chance.choice((0, 1, 64, 0xFFFF)) for _ in range(3)])
        for _ in range(20):
            data[chance.randrange(64, len(data))] = chance.randrange(256)
        path.write_bytes(data)
        attempt(lambda: query.open_file(str(path)))
