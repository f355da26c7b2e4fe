"""Findings about text that is Sonde's own, a tool's or a command's, send nobody to a line that he never wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.base import package_files
from sonde.cli import main as cli
from sonde.cli import requests, script_run
from sonde.cli.script_names import read_script
from sonde.compiling.spec_codec import pack_spec, unpack_spec
from sonde.fleet.transport.request import FleetRequest
from sonde.language.includes import Files
from sonde.output.text import failure_message, text_output
from sonde.recording.layouts import plain_spec, read_spec
from sonde.runtime.losses import Losses
from sonde.runtime.traced_command import Process
from sonde.source import ERROR, WARNING, Diagnostic, ExpandedSpan, Source, Span, shown_location
from sonde.spec import Config, ErrorSite, ScriptSpec

TOOL = Source("/usr/lib/sonde/tools/x.bt", "begin { @x[pid] = 1; @x[tid] = 2; }", internal=True)
MADE = Source("trace", "begin { print(nosuch); }", internal=True)
OWN = Source("x.bt", "begin { warn(); }")
INNER = Span(TOOL, 8, 15)


def test_the_readers_own_text_has_places_and_sondes_has_none() -> None:
    own = Span(OWN, 8, 14)
    assert shown_location(own) is own and shown_location(None) is None and shown_location(INNER) is None
    assert shown_location(ExpandedSpan(TOOL, 8, 15, INNER)) is None
    mixed = ExpandedSpan(TOOL, 8, 15, own)
    assert shown_location(mixed) is mixed, "a macro of the library, where the script calls it"


def test_warnings_without_a_place() -> None:
    assert failure_message("Map full.", INNER, "map_update_elem", -7, 2) == (
        "WARNING: Map full. [2 times]\nAdditional Info - helper: map_update_elem, retcode: -7")
    assert failure_message("Map full.", Span(OWN, 8, 14), "", 0, 1).startswith("x.bt:1:9-15: WARNING: Map full.\n")
    written: list[bytes] = []
    output = text_output(lambda data: written.append(data))
    output.report_located("WARNING", b"3 calls", INNER)
    output.report_located("WARNING", b"3 calls", Span(OWN, 8, 14))
    assert written == [b"WARNING: 3 calls\n", b"x.bt:1:9-15: WARNING: 3 calls\n"]
    warning = Diagnostic(WARNING, "odd", "it is odd", INNER, ["do this"])
    assert warning.render() == "WARNING: it is odd\nHINT: do this"
    wrong = Diagnostic(ERROR, "bad", "it is bad", INNER).render()
    assert wrong.startswith("/usr/lib/sonde/tools/x.bt:1:9-16: ERROR:"), "-v shows where"
    assert Diagnostic(ERROR, "bad", "it is bad", Span(MADE, 14, 20)).render() == (
        "ERROR: it is bad\nbegin { print(nosuch); }\n              ~~~~~~"), "what was written is in it"


def test_what_reads_the_same_is_added_up() -> None:
    other = Span(TOOL, 21, 28)
    errors = [(ErrorSite("map_full", INNER, "map_update_elem", "@x"), 2), (ErrorSite("unwind_none", INNER), 1),
              (ErrorSite("map_full", other, "map_update_elem", "@x"), 3), (ErrorSite("unwind_none", other), 1)]
    assert Losses([], errors, []).sentences == [
        "Map full; can't update element of @x: what belongs to its keys is missing. [5 times]",
        "User stack ends early: in code without unwind table and frame pointers. [2 times]"]
    owned = [(ErrorSite("divide", Span(OWN, at, at + 1)), 1) for at in (0, 1)]
    assert len(Losses([], owned, []).sentences) == 2


def shipped_scripts() -> Iterator[str]:
    for folder, _, files in os.walk(package_files.FOLDER):
        yield from [os.path.join(folder, name) for name in files if name.endswith(".bt")]


def test_every_shipped_script_is_sondes_own(tmp_path: Path) -> None:
    found = list(shipped_scripts())
    assert len(found) > 100
    for path in found:
        assert read_script(path).internal and Files().read_source(path).internal, path
    (tmp_path / "own.bt").write_text("begin { }")
    assert not read_script(str(tmp_path / "own.bt")).internal


@pytest.mark.parametrize("source", [TOOL, OWN])
def test_it_is_known_wherever_a_script_goes(source: Source) -> None:
    spec = ScriptSpec([], [], [], [ErrorSite("divide", Span(source, 8, 10))], [], [], Config(), source)
    for copy in (unpack_spec(pack_spec(spec)), read_spec(plain_spec(spec))):
        assert copy.source.internal == source.internal
        assert (shown_location(copy.errors[0].span) is None) == source.internal
    frame = FleetRequest(source).encode_frame()
    assert (b'"tool": true' in frame or b'"tool":true' in frame) == source.internal


class Made(BaseException):
    """A trace was to be made of ``args[0]``, a source."""


COMMANDS = [
    *[["flame", *more] for more in ([], ["--off-cpu"], ["--off-wake"], ["--chain"], ["--no-python"])],
    ["trace", "t:syscalls:sys_enter_openat"], ["argdist", "-C", "t:syscalls:sys_enter_openat():int:args->flags"],
    ["tcpsubnet"], ["profile", "1"], ["record", "--events", "tracepoint:sched:sched_switch", "-o", "x.sonde"],
["uthreads", "-l", "none", "-p", "1"], ["ucalls", "-l", "none", "-S", "-p", "1"]]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_every_command_marks_its_script(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Source, *more: object) -> None:
        for process in [each for each in more if isinstance(each, Process)]:
            process.close()
        raise Made(source)
    monkeypatch.setattr(requests, "new_trace", refuse)
    monkeypatch.setattr(script_run, "run", refuse)
    with pytest.raises(Made) as caught:
        cli.main(words)
    assert caught.value.args[0].internal
