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
from sonde.base.memory_budget import Memory
from sonde.compiling import check_source
from sonde.errors import CompileError, SondeError, UsageError
from sonde.recording import queries
from sonde.recording.column_expressions import UnanswerableError
from sonde.recording.column_loops import hist_bucket
from sonde.recording.container import RecordingError
from sonde.recording.events import BUILTINS
from sonde.recording.queries import AnsweringTrace, EventsWorld, open_question
from sonde.recording.replay import open_recording
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import Config, EventField, EventSite, ScriptSpec

NAME = "tracepoint:tests:numbers"
FIELDS = "abcdefgh"
FORMAT = "name: numbers\nID: 1\nformat:\n" + "".join([
    f"\tfield:long {name};\toffset:{8 + 8 * i};\tsize:8;\tsigned:1;\n" for i, name in enumerate(FIELDS)])
EVENT = t.Tuple((t.UINT64, t.UINT32, t.UINT32, t.UINT32, t.UINT32, t.Str(16), *[t.INT64] * len(FIELDS)),
                (*BUILTINS, *[f"args_{name}" for name in FIELDS]))


def recorded(path: Path, rows: list[dict[str, int]], text: str = FORMAT, cpu: int = 0) -> Path:
    """A recording of one event for each row."""
    site = EventSite("print", None, [EventField(EVENT, 16)], 16 + EVENT.size)
    spec = ScriptSpec([], [], [site], [], [NAME], [], Config(), Source("events", ""))
    pack = struct.Struct(f"=IIQQIIII16s{len(FIELDS)}q").pack
    records = [(0, pack(0, 0, 1000 + i, 1000 + i, 7, 8, cpu, 0, b"cat", *[cut(row.get(name, 0), t.INT64)
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
            except UnanswerableError:
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


COLUMNS = ("/args.a >= 0/ { @n[args.a] = count(); @s = stats(args.b); @m[args.a, comm] = max(args.b); "
           "@h = hist(args.b, 2); @l[cpu] = lhist(args.b, 0, 50, 7); @i[args.b % 2 == 1] = min(args.a); @t++; "
           "@x = sum(args.c * 3 - args.a); $y = args.c ^ args.d; if ($y < 0) { @neg[pid] = avg($y); } "
           "@u[(uint8)$y]++; }")


def test_both_ways_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What columns can answer is answered so; event by event it comes to the same."""
    rng = random.Random(9)
    rows = [{"a": rng.randrange(-5, 5), "b": rng.randrange(100), "c": rng.getrandbits(64), "d": rng.getrandbits(64)}
            for _ in range(2000)]
    path = recorded(tmp_path / "x", rows)
    by_columns = answers(path, COLUMNS)

    def refuse(*_: object) -> None:
        raise UnanswerableError(None, "anything")
    monkeypatch.setattr(queries, "Question", refuse)
    one_by_one = answers(path, COLUMNS)
    assert len(by_columns) == 10 and str(sorted(one_by_one)) == str(sorted(by_columns))
    for name, held in by_columns.items():
        assert {key: str(value) for key, value in held.items()} == \
            {key: str(value) for key, value in one_by_one[name].items()}, name


def told(path: Path, script: str) -> tuple[list[tuple[object, ...]], dict[str, dict[object, object]], AnsweringTrace]:
    """What a script sends, its maps, and the trace after its end."""
    with open_question(str(path), Source("stdin", script), Options()) as trace:
        sent = [event.args for event in trace.events()]
    return sent, {name: dict(view.items()) for name, view in trace.maps.items()}, trace


def test_what_depends_on_order(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x", [{"a": i % 7, "b": i} for i in range(1000)])
    sent, maps, trace = told(path, f'''
        begin {{ @first = 1; }}
        {NAME} {{ @before[args.a] = @last[args.a]; @last[args.a] = args.b; @n++; @c[args.a] = count(); }}
        {NAME} /@n == 500/ {{ print(@c); clear(@c); }}
        {NAME} /@n == 600/ {{ zero(@last); }}
        {NAME} /@n == 900/ {{ printf("%d of %s", args.b, comm); exit(5); }}
        end {{ printf("end %d", @n); }}''')
    assert sent == [("@c", [(a, len([i for i in range(500) if i % 7 == a])) for a in range(7)]), (899, "cat"), (900,)]
    assert maps["@n"] == {None: 900} and trace.status == 5 and maps["@first"] == {None: 1}
    assert maps["@c"] == {a: len([i for i in range(500, 900) if i % 7 == a]) for a in range(7)}
    assert maps["@before"] == {i % 7: i - 7 for i in range(893, 900)}


def test_what_fails_is_said(tmp_path: Path) -> None:
    """As beside the recording: counted, with the place in the script."""
    path = recorded(tmp_path / "x", [{"a": i, "b": i % 2} for i in range(100)])
    script = f"config = {{ max_map_keys = 10 }} {NAME} {{ @m[args.a] = args.a; @d = args.a / args.b; }}"
    _, maps, trace = told(path, script)
    assert len(maps["@m"]) == 10
    assert {site.kind: count for site, count in trace.losses.errors} == {"map_full": 90, "divide": 50}


def test_loops_count_what_fails_too(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x", [{"a": i} for i in range(100)])
    script = f"config = {{ max_map_keys = 10 }} {NAME} {{ @m[args.a] = args.a; @n[args.a]++; @n[args.a] |= 1; }}"
    _, maps, trace = told(path, script)
    assert isinstance(trace.question, queries.Question) and len(maps["@m"]) == len(maps["@n"]) == 10
    assert [count for _, count in trace.losses.errors] == [90, 90, 90]


def test_variables_are_empty_where_they_begin(tmp_path: Path) -> None:
    """What a loop leaves of the event before is not seen."""
    path = recorded(tmp_path / "x", [{"a": i % 2} for i in range(100)])
    found = answers(path, "{ let $x: int64; if (args.a) { $x = 5; } @ = sum($x); "
                          "if (args.a) { let $y = 3; @y = sum($y); } }")
    assert found == {"@": {None: 250}, "@y": {None: 150}}


def test_constants_have_their_type(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x", [{"a": 1}])
    script = "{ if ((uint64)args.a < ~0) { @n++; } if (18446744073709551615 > (uint64)args.a) { @m++; } }"
    assert answers(path, script) == {"@n": {None: 1}, "@m": {None: 1}}


def test_what_is_nested_too_deeply_for_python_is_answered(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x", [{"a": 1}])
    sum_of_many = "args.a" + " + args.a" * 60
    assert told(path, f"{NAME} {{ @n = {sum_of_many}; }}")[1]["@n"] == {None: 61}
    _, maps, trace = told(path, f"{NAME} {{ @n = {'(args.a - ' * 60}1{')' * 60}; }}")
    assert maps["@n"] == {None: 1} and not isinstance(trace.question, queries.Question)


def test_memory_of_maps_is_bounded(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x", [{"a": i} for i in range(5000)])
    for value in ("(comm, args.a)", "args.a"):
        script = f"config = {{ max_map_keys = 100000 }} {NAME} {{ @m[args.a] = {value}; }}"
        with pytest.raises(SondeError, match="room"):
            open_question(str(path), Source("stdin", script), Options(), Memory(1 << 20)).close()
    with closing(open_recording(str(path), Memory(1 << 20))) as recording:
        trace = AnsweringTrace(recording, Source("stdin", script), Options(), Memory(1 << 20))
        with pytest.raises(SondeError, match="room"):
            trace.next_records()


def test_an_unknown_architecture_is_an_error(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x", [{"a": 1}])
    with closing(open_recording(str(path))) as recording, pytest.raises(RecordingError, match="architecture"):
        recording.facts.machine = "vax"
        AnsweringTrace(recording, Source("stdin", f"{NAME} {{ @x = args.a; }}"), Options())


def test_a_cpu_beyond_all_is_an_error(tmp_path: Path) -> None:
    path = recorded(tmp_path / "x", [{"a": 1}], cpu=5000)
    assert told(path, f"{NAME} {{ @x = args.a; }}")[1]["@x"] == {None: 1}
    with pytest.raises(RecordingError, match="CPU 5000"):
        told(path, f"{NAME} {{ @x = cpu; @y[cpu] = count(); }}")


def test_too_many_keys_are_an_error_and_no_wrong_answer(tmp_path: Path) -> None:
    """Beside the recording the map would have been full."""
    path = recorded(tmp_path / "x", [{"a": i} for i in range(5000)])
    with pytest.raises(UsageError, match="5000 keys"):
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
