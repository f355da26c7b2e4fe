"""Scripts asked of recorded events: each expression gives what the language says, or is refused."""

from __future__ import annotations

import json
import random
import struct
from contextlib import closing
from pathlib import Path

import pytest

from recordings import blocks_of, write_blocks, write_recording
from reference import Expressions, cut, evaluate_kept
from sonde import types as t
from sonde.api import check_source
from sonde.errors import CompileError, SondeError
from sonde.language.source import Source
from sonde.recording.container import Damaged
from sonde.recording.evaluate import Refused, hist_bucket
from sonde.recording.events import BUILTINS
from sonde.recording.questions import EventsWorld, open_question
from sonde.recording.replay import open_recording
from sonde.semantics.options import Options
from sonde.spec import Config, EventField, EventSite, ScriptSpec

NAME = "tracepoint:tests:numbers"
FIELDS = "abcdefgh"
FORMAT = "name: numbers\nID: 1\nformat:\n" + "".join([
    f"\tfield:long {name};\toffset:{8 + 8 * i};\tsize:8;\tsigned:1;\n" for i, name in enumerate(FIELDS)])
EVENT = t.Tuple((t.UINT64, t.UINT32, t.UINT32, t.UINT32, t.UINT32, t.Str(16), *[t.INT64] * len(FIELDS)),
                (*BUILTINS, *[f"args_{name}" for name in FIELDS]))


def recorded(path: Path, rows: list[dict[str, int]], text: str = FORMAT) -> Path:
    """A recording of one event for each row."""
    site = EventSite("print", None, [EventField(EVENT, 16)], 16 + EVENT.size)
    spec = ScriptSpec([], [], [site], [], [NAME], [], Config(), Source("events", ""))
    pack = struct.Struct(f"=IIQQIIII16s{len(FIELDS)}q").pack
    records = [(0, pack(0, 0, 1000 + i, 1000 + i, 7, 8, 0, 0, b"cat", *[cut(row.get(name, 0), t.INT64)
                                                                      for name in FIELDS]))
               for i, row in enumerate(rows)]
    return write_recording(path, spec, records, events=[{"name": NAME, "format": text}])


def answers(path: Path, body: str) -> dict[str, dict[object, object]]:
    """The maps of ``NAME { body }``."""
    with open_question(str(path), Source("stdin", f"{NAME} {body}"), Options()) as trace:
        trace.next_records()
        return {name: dict(view.items()) for name, view in trace.maps.items()}


@pytest.mark.parametrize("block", range(8))
def test_random_expressions(block: int, tmp_path: Path) -> None:
    """As the generated code of the compiler is tested, by the same evaluator."""
    asked = refused = 0
    for seed in range(block * 10, block * 10 + 10):
        writer = Expressions(seed)
        path = recorded(tmp_path / "x", [dict(zip(FIELDS, writer.env.values()))])
        lets = " ".join([f"let ${name}: {type} = ({type})args.{name};" for name, type in writer.names.items()])
        for text in [writer.text() for _ in range(10)]:
            script = f"{lets} let $r = {text}; @ = sum($r);"
            with closing(open_recording(str(path))) as recording:
                world = EventsWorld(recording, [])
                world._formats = {("tests", "numbers"): FORMAT}
                try:
                    checked = check_source(Source("stdin", f"{NAME} {{ {script} }}"), Options(), world)
                except CompileError:
                    continue
            found = next(s for s in checked.probes[0].clause.body
                         if getattr(getattr(s, "target", None), "name", "") == "r")
            try:
                told = answers(path, f"{{ {script} }}")["@"][None]
            except Refused:
                refused += 1
                continue
            asked += 1
            wanted = cut(evaluate_kept(found.value, writer.env), found.target.slot.type)
            signed = getattr(found.target.slot.type, "signed", False)
            assert told == cut(wanted, t.Int(64, signed)), script
    assert asked > 20 and asked > refused / 3


@pytest.mark.parametrize("bits", range(6))
def test_buckets_are_those_of_the_language(bits: int) -> None:
    """By the definition in types.Aggregate, which speaks of logarithms."""
    rng = random.Random(bits)
    for value in [0, 1, 2, 3, -1, (1 << 63) - 1, *[rng.getrandbits(rng.randrange(1, 64)) for _ in range(300)]]:
        if value < 0:
            wanted = 0
        elif value < 1 << bits + 1:
            wanted = value + 1
        else:
            e = len(bin(value)) - 3
            wanted = 1 + ((e - bits + 1) << bits) + ((value >> (e - bits)) - (1 << bits))
        assert hist_bucket(value, bits) == wanted


def test_aggregates_over_known_events(tmp_path: Path) -> None:
    rng = random.Random(4)
    rows = [{"a": rng.randrange(-5, 5), "b": rng.randrange(100)} for _ in range(5000)]
    path = recorded(tmp_path / "x", rows)
    found = answers(path, "/args.a >= 0/ { @n[args.a] = count(); @s = stats(args.b); @m[args.a, comm] = max(args.b); "
                          "@h = hist(args.b); @i[args.b % 2 == 1] = min(args.a); @t++; }")
    kept = [row for row in rows if row["a"] >= 0]
    assert found["@n"] == {a: len([r for r in kept if r["a"] == a]) for a in range(5)}
    assert found["@m"] == {(a, "cat"): max([r["b"] for r in kept if r["a"] == a]) for a in range(5)}
    assert found["@i"] == {False: 0, True: 0} and found["@t"] == {None: len(kept)}
    stats = found["@s"][None]
    assert (stats.count, stats.total) == (len(kept), sum([r["b"] for r in kept]))  # type: ignore[attr-defined]
    assert found["@h"][None].total == len(kept)  # type: ignore[attr-defined]


def test_too_many_keys_are_an_error_and_no_wrong_answer(tmp_path: Path) -> None:
    """Beside the recording the map would have been full."""
    path = recorded(tmp_path / "x", [{"a": i} for i in range(5000)])
    with pytest.raises(Damaged, match="5000 keys"):
        answers(path, "{ @[args.a] = count(); }")
    assert len(answers(path, "{ @[args.a % 4000] = count(); }")["@"]) == 4000


def test_hostile_heads_are_errors(tmp_path: Path) -> None:
    rng = random.Random(8)
    rows = [{"a": 1}]
    for _ in range(150):
        at = rng.randrange(len(FORMAT))
        text = FORMAT[:at] + rng.choice(["", "\0", "9" * 30, "[1000000000]", ";;", "field:", "\t", "__data_loc "]) \
            + FORMAT[at + rng.randrange(5):]
        try:
            answers(recorded(tmp_path / "x", rows, text), "{ @ = sum(args.a + args.h); }")
        except SondeError:
            pass
    for events in (1, [], [1], [{}], [{"name": NAME}], [{"name": 1, "format": ""}], {"name": NAME}, "x",
                   [{"name": NAME, "format": FORMAT}] * 2):
        path = recorded(tmp_path / "x", rows)
        blocks = path.read_bytes()
        assert blocks
        with pytest.raises(SondeError):
            answers(with_events(path, events), "{ @ = count(); }")


def with_events(path: Path, events: object) -> Path:
    """The recording with something else in its head."""
    (tag, data), *others = blocks_of(path)
    return write_blocks(path, [(tag, json.dumps(json.loads(data) | {"events": events}).encode()), *others])
