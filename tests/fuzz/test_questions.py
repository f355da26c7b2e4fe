"""Random programs asked of a recording: what the machine in Python makes of them is what the evaluator says.

``SONDE_FUZZ_SEED`` and ``SONDE_FUZZ_COUNT`` as in test_programs. Needs neither root nor BPF.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

import judge
from fuzz.programs import NAMED, Writer
from sonde.output import Printer
from sonde.recording.questions import AnsweringTrace, EventsWorld
from sonde.recording.replay import open_recording
from sonde.semantics.options import Options
from sonde.source import Source
from unit.test_questions import FORMAT, NAME, recorded

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
