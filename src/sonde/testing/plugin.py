"""The pytest plugin: ``@pytest.mark.sonde(...)`` and the fixture ``sonde_trace``.

pytest imports this in every run where Sonde is installed, so it imports nothing else until a test uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .client import Observer, ScriptRun

_MARKS = pytest.StashKey[list[dict[str, Any]]]()
_OBSERVER = pytest.StashKey["Observer | str"]()  # or why there is none


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "sonde(no_connect=True, no_open='/etc/**', max_syscalls={'fsync': 2}, p99={'read': '2ms'}, "
        "no_stall='50ms'): what the test may do, as the kernel sees it (Sonde)")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the rules of all tests, for which there is one session of probes."""
    marks = [given for item in session.items if (given := _given(item))]
    if not marks:
        return
    from ..errors import SondeError
    from ..objectives.rules import parse_rules
    for mark in marks:
        try:
            parse_rules(mark)
        except SondeError as error:
            raise pytest.UsageError("; ".join([error.message, *error.hints])) from None
    session.config.stash[_MARKS] = marks


def _given(item: pytest.Item) -> dict[str, Any]:
    """The arguments of an item's marks; the closest mark wins."""
    given: dict[str, Any] = {}
    for mark in item.iter_markers("sonde"):
        if mark.args:
            raise pytest.UsageError(f"{item.nodeid}: the mark sonde takes named arguments: no_connect=True")
        given = dict(mark.kwargs) | given
    return given


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Observe a test that has rules, and fail it if it has broken some."""
    if item.config.stash.get(_MARKS, None) is None or not (given := _given(item)):
        return (yield)
    from ..objectives.rules import parse_rules
    from ..objectives.verdict import judge
    rules = parse_rules(given)
    observer = _observer(item.config)
    folder = str(item.config.invocation_params.dir)
    observer.begin(rules)
    try:
        result = yield
    except BaseException:
        seen, _ = observer.end()
        if broken := judge(rules, seen, folder):
            item.add_report_section("call", "sonde", "\n".join(map(str, broken)))
        raise
    seen, lost = observer.end()
    if lost:
        item.warn(pytest.PytestWarning(f"Sonde missed some of what this test did: {lost}"))
    if broken := judge(rules, seen, folder):
        placeless = f"\n(no lines of Python: {observer.placeless})" if observer.placeless else ""
        pytest.fail("\n".join([f"sonde: {text}" for text in broken]) + placeless, pytrace=False)
    return result


def _observer(config: pytest.Config) -> Observer:
    """That of the run, made for its first test with rules; skips where there can be none."""
    from ..errors import MachineError
    from .client import Observer
    if _OBSERVER not in config.stash:
        try:
            marks = config.stash[_MARKS]
            config.stash[_OBSERVER] = Observer(marks)
        except MachineError as error:
            config.stash[_OBSERVER] = f"Sonde cannot trace here: {error.message}"
    observer = config.stash[_OBSERVER]
    if isinstance(observer, str):
        pytest.skip(observer)
    return observer


def pytest_unconfigure(config: pytest.Config) -> None:
    observer = config.stash.get(_OBSERVER, None)
    if observer is not None and not isinstance(observer, str):
        observer.close()


@pytest.fixture
def sonde_trace() -> Generator[Callable[..., ScriptRun], None, None]:
    """``with sonde_trace(script) as run:`` traces this process, its threads and its children; then ``run.maps`` and
    ``run.events`` are there."""
    from ..errors import MachineError
    from .client import ScriptRun

    class _Skipping(ScriptRun):
        def __enter__(self) -> _Skipping:
            try:
                super().__enter__()
            except MachineError as error:
                pytest.skip(f"Sonde cannot trace here: {error.message}")
            return self

    runs: list[ScriptRun] = []

    def start(script: str, params: tuple[str, ...] = ()) -> ScriptRun:
        runs.append(_Skipping(script, params))
        return runs[-1]
    yield start
    for run in runs:
        run.close()
