"""Answers of a reader that has fallen into the hands of a file: of the right shape, but not true. What is compiled with
them is compiled, or refused with the script's line, in bounded time; never a traceback.

SONDE_HOSTILE_ANSWERS sets how many scripts are tried, SONDE_FUZZ_SEED which.
"""

from __future__ import annotations

import copy
import os
import random
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostile.test_hostile_kill import TARGET
from live.test_user_types import LOOP, SOURCE
from sonde.compiling import compile
from sonde.errors import CompileError, MachineError, UsageError
from sonde.kernel.foreign import files, reader
from sonde.kernel.foreign.dwarf_types import TypeConverter
from sonde.kernel.foreign.questions import QUESTIONS, has_shape
from sonde.kernel.foreign.types_by_wire import is_type
from sonde.kernel.types.world import LiveWorld
from sonde.semantics.script_options import Options
from support import compile_c

pytestmark = pytest.mark.live
SCRIPTS = int(os.environ.get("SONDE_HOSTILE_ANSWERS", "400"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", "20261121"))
SECONDS = 10

TEXTS = [
    "uprobe:TYPED:structs {{ print(args); }}",
    "uprobe:TYPED:structs {{ print(args.p); print(args.b.name); print(args.n->label); print(args.n->next->at.x); "
    "@[args.after] = count(); print(args.last); print(args.n->flags); }}",
    'uprobe:TYPED:plain {{ printf("%d %s %d\\n", args.a, str(args.s), args.k); @ = args; }}',
    "uretprobe:TYPED:find {{ print(retval->x); print(*retval); print(retval); }}",
    f"uprobe:TYPED:typed.c:{LOOP} {{{{ @ = count(); }}}}", "uprobe:TYPED:* {{ @[probe] = count(); }}",
    "uprobe:TYPED:half {{ print(args.used); }}", "usdt:STATIC:app:step {{ print(arg0); print(arg1); }}",
    "usdt:STATIC:*:* {{ print(arg0); }}",
    'uprobe:STATIC:work {{ print(args.i); print(uaddr("sink")); print(*uaddr("gate")); }}']
NUMBERS = [0, 1, -1, 7, 8, 63, 64, 65, 255, 4096, 0x7FFF, 0x8000, -0x8001, 1 << 31, -(1 << 31) - 1, 1 << 32, 1 << 40,
           (1 << 63) - 1, -(1 << 63), (1 << 64) - 1]
WORDS = ["", "x", "\0", "a b", "*", "x" * 5000, "\x1b[31m", "registers", "memory", "constant", "unknown", "struct",
         "123", "a:b", "\n", '"', "ab"]
TYPES: list[Any] = [
    ["void"], ["bool"], ["int", 8, True], ["int", 64, False], ["str", 0], ["str", 1 << 30], ["array", ["void"], 5],
    ["array", ["int", 32, True], 0], ["array", ["array", ["int", 8, True], (1 << 31) - 1], (1 << 31) - 1],
    ["struct", "", 0, False, 1, 0], ["struct", "x", 1, True, 64, 1 << 62],
    ["struct", "big", (1 << 31) - 1, False, 8, 77], ["enum", "", 8, True, []],
    ["enum", "e", 64, True, [[1 << 70, "A"], [-(1 << 70), "B"]]], ["pointer", ["void"]],
    ["pointer", ["pointer", ["struct", "s", 8, False, 8, 5]]]]


def changed(chance: random.Random, value: Any, depth: int = 0) -> Any:
    """Plain data with one change somewhere."""
    if isinstance(value, list) and value and (depth == 0 or chance.random() < 0.85):
        found, at = list(value), chance.randrange(len(value))
        if is_type(value) and chance.random() < 0.3:
            return copy.deepcopy(chance.choice(TYPES))
        if chance.random() < 0.1:
            found[at:at + 1] = chance.choice(([], [found[at], copy.deepcopy(found[0])]))
        else:
            found[at] = changed(chance, found[at], depth + 1)
        return found
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice(NUMBERS) if chance.random() < 0.8 else value + chance.choice((-8, -1, 1, 8))
    return chance.choice(WORDS) if isinstance(value, str) else value


class Liar:
    """In place of the reader: every other answer is changed, but has the shape that it must have."""

    def __init__(self) -> None:
        self.chance = random.Random(0)
        self._ask = reader.ask_shared_reader
        self._known: dict[Any, Any] = {}

    def __call__(self, name: str, path: str, descriptors: Sequence[int], *arguments: Any) -> Any:
        key = name, path, arguments
        if key not in self._known:
            try:
                self._known[key] = self._ask(name, path, descriptors, *arguments)
            except MachineError as problem:
                self._known[key] = problem
        told = self._known[key]
        if isinstance(told, MachineError):
            raise told
        for _ in range(20 if self.chance.random() < 0.5 else 0):
            lie = told
            for _ in range(self.chance.randint(1, 4)):
                lie = changed(self.chance, lie)
            if has_shape(lie, QUESTIONS[name].shape):
                return copy.deepcopy(lie)
        return copy.deepcopy(told)


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Iterator[Liar]:
    made = Liar()
    monkeypatch.setattr(reader, "ask_shared_reader", made)
    yield made
    forget_files()


def forget_files() -> None:
    """The next question asks again."""
    files.release_files()
    for cache in (files._contents, files._known, files._stamps, files._refused):
        for key in list(cache._held):
            cache.drop(key)
    files._strikes.clear()


def run_out(number: int, frame: object) -> None:
    raise AssertionError(f"it takes longer than {SECONDS} s")


@pytest.mark.timeout(max(120, SCRIPTS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # that a file is not read
def test_what_is_compiled_with_lies(liar: Liar, tmp_path: Path) -> None:
    pytest.importorskip("elftools")
    typed = compile_c(SOURCE, tmp_path, "typed", "-O2", "-g", "-fno-ipa-cp")
    static = compile_c(TARGET, tmp_path, "static", "-g")
    before = signal.signal(signal.SIGALRM, run_out)
    outcomes = dict.fromkeys(("compiled", "refused"), 0)
    try:
        for number in range(SCRIPTS):
            liar.chance = random.Random(SEED * 1_000_003 + number)
            text = liar.chance.choice(TEXTS).format().replace("TYPED", str(typed)).replace("STATIC", str(static))
            forget_files()
            signal.alarm(SECONDS)
            outcomes[outcome(text)] += 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    print(outcomes)
    assert min(outcomes.values()) > SCRIPTS // 20


def outcome(text: str) -> str:
    """What becomes of a script."""
    try:
        compile(text, Options(), LiveWorld(), verify=True)
    except CompileError as error:
        assert all(len(finding.render()) < 20_000 for finding in error.diagnostics)
        return "refused"
    except (UsageError, MachineError):
        return "refused"
    return "compiled"


class Entry(SimpleNamespace):
    """An entry of debug information, as much of it as a member has."""

    def __init__(self, tag: str, type: Any = None, **attributes: int) -> None:
        found = {f"DW_AT_{name}": SimpleNamespace(value=value) for name, value in attributes.items()}
        super().__init__(tag=tag, attributes=found | ({"DW_AT_type": None} if type else {}), type=type, offset=id(self))

    def get_DIE_from_attribute(self, name: str) -> Any:
        return self.type

    def iter_children(self) -> list[Any]:
        return []


@pytest.mark.parametrize("attributes, found", [
    ({"data_member_location": 4}, (4, 0, 0)), ({"data_member_location": -4}, None),
    ({"data_member_location": 1 << 62}, None), ({"data_bit_offset": 35, "bit_size": 3}, (4, 3, 3)),
    ({"data_bit_offset": -1, "bit_size": 3}, None), ({"data_bit_offset": 1 << 62, "bit_size": 3}, None),
    ({"data_bit_offset": 0, "bit_size": 65}, None), ({"data_bit_offset": 0, "bit_size": -1}, None),
    ({"bit_offset": 1 << 40, "bit_size": 3}, None)])
def test_members_that_lie_nowhere(attributes: dict[str, int], found: tuple[int, int, int] | None) -> None:
    """A bit field before its struct kept the compiler busy for ever."""
    member = Entry("DW_TAG_member", Entry("DW_TAG_base_type", byte_size=4, encoding=5), **attributes)
    fields = TypeConverter()._convert_member(member)
    assert [(field.offset, field.bit_offset, field.bit_size) for field in fields] == ([found] if found else [])
