"""Files that version 0.2.0 wrote, in ``tests/stored``: later ones read them as it did. They are not made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sonde.fleet.transport.shapes import describe_script, read_shape
from sonde.recording.layouts import plain_spec, read_spec
from sonde.source import Source
from support import run_sonde

STORED = Path(__file__).parents[2] / "stored"


@pytest.mark.parametrize(("recording", "form", "output", "status"), [
    ("run", "text", "run.txt", 3), ("run", "json", "run.json", 3), ("fleet", "text", "fleet.txt", 0)])
def test_a_stored_recording_is_replayed_as_before(recording: str, form: str, output: str, status: int) -> None:
    done = run_sonde("replay", "-f", form, str(STORED / f"{recording}.sonde"))
    assert done.returncode == status and done.stdout == (STORED / output).read_text()


def test_the_layouts_of_every_type_are_read_and_written_as_before() -> None:
    """Of maps, sites and values of all types that a script can have."""
    plain = json.loads((STORED / "layouts.json").read_text())
    assert json.loads(json.dumps(plain_spec(read_spec(plain)))) == plain


def test_the_shape_of_every_type_is_read_and_written_as_before() -> None:
    shape = json.loads((STORED / "shape.json").read_text())
    source = json.loads((STORED / "layouts.json").read_text())["script"]
    assert json.loads(json.dumps(describe_script(read_shape(shape, Source("stdin", source))))) == shape
