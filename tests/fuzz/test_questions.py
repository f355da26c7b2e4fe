"""Random programs asked of a recording: what the machine in Python makes of them is what the evaluator says.

``SONDE_FUZZ_SEED`` and ``SONDE_FUZZ_COUNT`` as in test_programs. Needs neither root nor BPF.
"""

from __future__ import annotations

import os
import random
import struct
import time
from contextlib import closing
from pathlib import Path

import pytest

import judge
from fuzz.programs import NAMED, Writer
from recordings import write_recording
from sonde import types as t
from sonde.errors import CompileError, UsageError
from sonde.output import Printer
from sonde.recording import queries
from sonde.recording.column_expressions import UnanswerableError
from sonde.recording.execution import Execution
from sonde.recording.queries import AnsweringTrace, EventsWorld, open_question
from sonde.recording.replay import open_recording
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import Config, EventField, EventSite, ScriptSpec
from unit.recording.test_questions import EVENT, FIELDS, FORMAT, NAME, recorded

COUNT = int(os.environ.get("SONDE_FUZZ_COUNT", "80"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
BLOCKS = 10
ROWS = [{"a": 5}]
TAIL = f"\n{NAME} /args.a == 6/ {{ @never_in_the_recording = 1; }}\n"  # no script runs over nothing at all


def answer(path: Path, script: str, named: dict[str, str]) -> str:
    """What is printed of a script that is asked."""
    out = judge.Capture()
    with AnsweringTrace(open_recording(str(path)), Source("stdin", script), Options(named=named)) as trace:
        printer = Printer(trace.spec, trace.context, out, trace.take_map)
        while not trace.session.done:
            printer.print_batches(trace.next_records(), trace.act_on_site)
        printer.print_final_maps()
        kinds = {site.kind for site, _ in trace.losses.errors} - {"divide", "index", "no_key"}
        assert not kinds and not trace.losses.records
    return out.text


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_programs(block: int, tmp_path: Path) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    path = recorded(tmp_path / "x", ROWS)
    with closing(open_recording(str(path))) as recording:
        world = EventsWorld(recording, [])
        world._formats = {("tests", "numbers"): FORMAT}
        for seed in range(SEED + block, SEED + COUNT, BLOCKS):
            script = Writer(seed, (2, 3, 4)[seed % 3]).script() + TAIL
            named = {name: text for name, text in NAMED.items() if f'getopt("{name}"' in script}
            wanted = judge.wanted(judge.checked(script, world, named=named))
            assert answer(path, script, named) == wanted, f"seed {seed}\n{script}"


# Loops over columns, and event by event ------------------------------------------------------------------------------

NAMES = ("tracepoint:tests:one", "tracepoint:tests:other", "tracepoint:tests:third")
COMMS = (b"cat", b"python3", b"", b"fifteen-letters")


def record_three(path: Path, rng: random.Random, count: int) -> Path:
    """Events of three tracepoints, in any order, with the same fields."""
    types = [t.UINT64, t.UINT32, t.UINT32, t.UINT64, t.UINT64, t.Str(16), *EVENT.of[6:]]
    event = t.Tuple(tuple(types), EVENT.names)
    sites = [EventSite("print", None, [EventField(event, 16)], 16 + event.size) for _ in NAMES]
    spec = ScriptSpec([], [], sites, [], list(NAMES), [], Config(), Source("events", ""))
    pack = struct.Struct(f"=IIQQIIQQ16s{len(FIELDS)}q").pack
    now, records = 10 ** 12, []
    for _ in range(count):
        now += rng.randrange(1000)
        site = rng.randrange(len(NAMES))
        values = [rng.choice([rng.randrange(-3, 8), rng.randrange(-200, 300), rng.getrandbits(64) - (1 << 63)])
                  for _ in FIELDS]
        records.append((site, pack(site, site, now, now, rng.randrange(5), rng.randrange(9), rng.randrange(2),
                                   rng.choice([0, 1000, (1 << 32) - 1]), rng.choice(COMMS), *values)))
    return write_recording(path, spec, records, events=[
        {"name": name, "format": FORMAT.replace("numbers", name.split(":")[2])} for name in NAMES])


class Ordered:
    """Writes scripts of what loops over columns can do, most of which depends on the order of events."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def number(self, depth: int = 2) -> str:
        pick = self.rng.choice
        if depth and self.rng.random() < 0.5:
            left, right = self.number(depth - 1), self.number(depth - 1)
            return pick([f"({left} {pick('+ - * & | ^'.split())} {right})",
                         f"({left} {pick('/%')} {pick(['3', '7', right])})",
                         f"({left} {pick(['<<', '>>'])} {pick('159')})",
                         f"({self.truth(depth - 1)} ? {left} : {right})", f"(-{left})", f"~{left}",
                         f"({pick(['int8', 'uint8', 'int16', 'uint32', 'int64', 'uint64'])}){left}"])
        return pick([f"args.{pick(FIELDS)}", f"args.{pick(FIELDS)}", "pid", "tid", "uid", "nsecs", "cpu", "$v", "$w",
                     "@few[args.a]", "@pair[args.b, comm]", "@one", "@by[tid]", "@narrow[pid]", pick("0123456789"),
                     str(self.rng.getrandbits(62)), "(-1)"])

    def truth(self, depth: int = 2) -> str:
        pick = self.rng.choice
        if depth and self.rng.random() < 0.4:
            return f"({self.truth(depth - 1)} {pick(['&&', '||'])} {self.truth(depth - 1)})"
        left, right = self.number(min(depth, 1)), self.number(min(depth, 1))
        return pick([f"({left} {pick('== != < <= > >='.split())} {right})", f'({self.text()} == "cat")',
                     "has_key(@few, args.a)", "has_key(@by, tid)", f"({self.text()} != comm)", "!@one", "(@by[tid])"])

    def text(self) -> str:
        return self.rng.choice(["comm", "comm", "@name[pid]", "$t", "(@one > 4 ? \"more\" : comm)"])

    def statement(self, depth: int = 2) -> str:
        pick, number = self.rng.choice, self.number
        if depth and self.rng.random() < 0.25:
            other = f" else {{ {self.statement(depth - 1)} }}" if self.rng.random() < 0.5 else ""
            return f"if ({self.truth()}) {{ {self.statement(depth - 1)} {self.statement(depth - 1)} }}{other}"
        return pick([
            f"@few[args.a] = {number()};", f"@few[{number()}] = args.b;", f"@pair[args.b, comm] = {number()};",
            f"@pair[(int64){number()}, {self.text()}] {pick('+-*&|^')}= {number()};", f"@one = {number()};",
            f"@one {pick('+-*&|^')}= {number()};", f"@one{pick(['++', '--'])};", f"@few[args.c]{pick(['++', '--'])};",
            "@by[tid] = nsecs;", "@by[tid] = nsecs;", "@d = hist(nsecs - @by[tid]);", "delete(@by, tid);",
            f"@narrow[pid] = (int8){number()};", "@narrow[pid]++;", "@name[pid] = comm;", "delete(@name[pid]);",
            f"delete(@few, {number()});", "delete(@one);", f"@n[{self.text()}] = count();", "@flag[uid] = @one > 3;",
            f"@s[@few[args.a]] = sum({number()});", f"@l[@by[tid] != 0] = lhist({number()}, 0, 100, 7);",
            f"@m = max({number()});", f"@st[comm] = stats((int64){number()});", f"$v = (int64){number()};",
            f"$w = (uint8){number()};", f"$t = {self.text()};", "$v += @one;",
            f'printf("%s %s|", strftime("%S.%f", nsecs), {self.text()});',
            f'printf("%d %s %lld %x|", (int8){number()}, {self.text()}, (int64){number()}, pid);',
            f"print(({number()}, {self.text()}, ((int8){number()}, pid)));", f"print({number()});", 'printf("plain");'])

    def script(self) -> str:
        clauses = [f"config = {{ max_map_keys = {self.rng.choice([5, 20, 4096])} }}"]
        if self.rng.random() < 0.5:
            clauses.append('begin { printf("begins\\n"); @one = 7; @name[1] = "start"; print(@one); }')
        for _ in range(self.rng.randrange(1, 5)):
            points = ", ".join(self.rng.sample(NAMES, self.rng.choice([1, 1, 2])))
            predicate = f"/{self.truth()}/ " if self.rng.random() < 0.4 else ""
            body = " ".join([self.statement() for _ in range(self.rng.randrange(1, 6))])
            lets = "let $v : int64 = args.a; let $w : uint8 = 1; let $t : string[16] = comm;"
            clauses.append(f"{points} {predicate.replace('$v', '1').replace('$w', '2').replace('$t', 'comm')}"
                           f"{{ {lets} {body} }}")
        if self.rng.random() < 0.5:
            clauses.append('end { print(@few); clear(@few); printf("%d\\n", @one); @one = 3; clear(@by); }')
        clauses.append(f"{NAMES[0]} /args.a == 123456/ {{ @few[1] = 1; @pair[1, comm] = 1; @one = 1; @by[tid] = nsecs; "
                       "@narrow[pid] = (int8)1; @name[pid] = comm; }")  # so that each map has a type
        return "\n".join(clauses)


def show_answers(path: Path, script: str) -> tuple[type, str, list[tuple[str, int]]]:
    """How a question is answered, what is printed, and what failed."""
    out = judge.Capture()
    with open_question(str(path), Source("stdin", script), Options()) as trace:
        printer = Printer(trace.spec, trace.context, out, trace.take_map)
        while not trace.session.done:
            printer.print_batches(trace.next_records(), trace.act_on_site)
        printer.print_final_maps()
        failed = [(f"{site.kind} {site.span}", count) for site, count in trace.losses.errors]
        return type(trace.question), out.text, failed


@pytest.mark.parametrize("block", range(BLOCKS))
def test_loops_answer_as_the_machine_does(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    path = record_three(tmp_path / "x", random.Random(SEED + block), 400)
    by_loops = 0

    def refuse(*_: object) -> None:
        raise UnanswerableError(None, "anything")
    for seed in range(SEED + block, SEED + COUNT, BLOCKS):
        script = Ordered(random.Random(seed)).script()
        try:
            way, told, lost = show_answers(path, script)
        except CompileError:
            continue
        except UsageError as error:  # an aggregate with more keys than it may have
            assert "max_map_keys" in error.message
            continue
        with monkeypatch.context() as patch:
            patch.setattr(queries, "Question", refuse)
            assert show_answers(path, script) == (Execution, told, lost), f"seed {seed}\n{script}"
        by_loops += way is not Execution
    assert by_loops > COUNT // BLOCKS // 2
