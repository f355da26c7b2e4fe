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
from sonde.errors import AttachError, CompileError, SondeError
from sonde.source import Diagnostic, Source, Span

SPAN = Span(Source("stdin", "begin {"), 6, 7)
SAMPLES: dict[str, Any] = {
    "str": "text", "int": 13, "bool": True, "list[str]": ["f", "g"], "Sequence[str]": ["a hint"],
    "Span | None": SPAN, "Sequence[Diagnostic]": [Diagnostic("ERROR", "wrong", "it is wrong", SPAN, ["a hint"])],
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
    assert {"CompileError", "StandInRefused", "SyscallError", "Unread", "NotInstalled", "Reach"} <= {
        each.__name__ for each in found}
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
