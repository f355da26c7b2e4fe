"""Errors carry data, also to another process."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import sonde
from compiled import world
from sonde import compiling
from sonde.errors import AttachError, CompileError, SondeError
from sonde.objectives.verdict import Broken
from sonde.semantics.script_options import Options
from sonde.source import Diagnostic, Source, Span

SPAN = Span(Source("stdin", "begin {"), 6, 7)
SAMPLES: dict[str, Any] = {
    "str": "text", "int": 13, "bool": True, "list[str]": ["f", "g"], "Sequence[str]": ["a hint"],
    "Span | None": SPAN, "Sequence[Diagnostic]": [Diagnostic("ERROR", "wrong", "it is wrong", SPAN, ["a hint"])],
    "Sequence[Broken]": [Broken("max_syscalls", "fsync", 3, [], "fsync() was called")],
    "AttachError": AttachError("refused", "kprobe:f", 22, ["a hint"])}


def classes(of: type[SondeError]) -> Iterator[type[SondeError]]:
    yield of
    for each in of.__subclasses__():
        yield from classes(each)


def every_class() -> list[type[SondeError]]:
    """Of all modules that can be imported without the extras."""
    for module in pkgutil.walk_packages(sonde.__path__, "sonde."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except (ImportError, SondeError):
                pass
    return [each for each in classes(SondeError) if each.__module__.startswith("sonde")]


def make(cls: type[SondeError]) -> SondeError:
    wanted = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return cls(*[SAMPLES[str(parameter.annotation)] for parameter in wanted])


def shown(error: SondeError) -> tuple[str, list[str], list[str]]:
    data = sorted(f"{name}={value!r}" for name, value in vars(error).items() if name != "diagnostics")
    return str(error), data, [each.render() for each in getattr(error, "diagnostics", ())]


def test_every_error_can_be_pickled_and_copied() -> None:
    found = every_class()
    assert {"CompileError", "StandInError", "SyscallError", "ReaderError", "NotInstalledError",
            "UnreachableError"} <= {each.__name__ for each in found}
    for error in map(make, found):
        error.add_note("seen in a child")
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(error, protocol))
            assert type(again) is type(error) and shown(again) == shown(error)
        assert shown(copy.copy(error)) == shown(error)


def test_a_worker_s_error_arrives() -> None:
    with pytest.raises(CompileError) as caught:
        sonde.compile("begin { print(", world=None)
    again = pickle.loads(pickle.dumps(caught.value))
    assert [each.render() for each in again.diagnostics] == [each.render() for each in caught.value.diagnostics]


def test_findings_are_data_and_print_as_the_command_does() -> None:
    text = "BEGIN {\n  $x = nsecz;\n  printf(\"%d\", $x);\n}"
    with pytest.raises(CompileError) as caught:
        compiling.compile(text, Options(), world())
    error: CompileError = pickle.loads(pickle.dumps(caught.value))
    item = error.diagnostics[0]
    assert (item.severity, item.code, item.file) == ("ERROR", "unknown-identifier", "stdin")
    assert (item.line, item.column, item.end_line, item.end) == (2, 8, 2, 13)
    assert item.source_line == "  $x = nsecz;" and item.hints == error.hints and item.message == error.message
    assert str(error).splitlines() == ["stdin:2:8-13: ERROR: Unknown identifier: 'nsecz'", "  $x = nsecz;",
                                       "       ~~~~~", "HINT: did you mean nsecs?"]
    assert str(error) == "\n".join(item.render() for item in caught.value.diagnostics)


def test_a_finding_of_no_place_says_so() -> None:
    item = Diagnostic("ERROR", "wrong", "it is wrong", None)
    assert (item.file, item.line, item.column, item.end_line, item.end, item.source_line) == ("", 0, 0, 0, 0, "")
