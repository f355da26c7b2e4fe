"""What every tier shares: which tiers have to run, and that no test leaves a file descriptor open.

A test's tier is the folder that it is in. The live and vm tiers need things of the machine; where one is missing
their tests skip and say what it is. ``SONDE_REQUIRE=live,vm`` turns the skips of those tiers into failures, but for
"kernel lacks NAME" where NAME is a feature that this kernel, probed, does not have, and "NAME is not installed" where
it is indeed not: ``scripts/setup.sh`` installs what can be had.

A live test shares its machine with whatever else runs there, and a scheduler that takes a CPU away for milliseconds
can break what it assumes of its workload. One that fails is tried once more, and the summary shows it as RERUN. Tests
marked ``exact`` are not: of what Sonde promises whatever the load is, once wrong is wrong.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from endings import endings
from sonde.kernel import notices
from support import live_obstacle

settings.register_profile("any machine", deadline=None)  # a busy one is slow, not wrong
settings.load_profile("any machine")

TIERS = ("unit", "golden", "live", "vm", "fuzz", "hostile")
REQUIRED = {tier for tier in os.environ.get("SONDE_REQUIRE", "").replace(" ", "").split(",") if tier}
TESTS = Path(__file__).parent


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests run in several processes, a file at a time goes where there is nothing to do, all in their order.
    What loads this kernel or boots others follows one another in one process, and so do pages of the documentation,
    whose commands listen at the same addresses."""
    from xdist.scheduler import LoadScopeScheduling

    class ByTier(LoadScopeScheduling):
        """By a test's name: what belongs together."""

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            tier = tier_of(TESTS.parent / file)
            if tier == "live" and ("/test_doc_" in file or file.endswith("_page.py")):
                return "pages"
            return tier if tier in ("hostile", "vm") else file

    config.option.loadscopereorder = False
    return ByTier(config, log)


def tier_of(path: Path) -> str:
    try:
        first = path.relative_to(TESTS).parts[0]
    except (ValueError, IndexError):
        return ""
    return first if first in TIERS else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expectations of tests/golden anew")


def pytest_configure(config: pytest.Config) -> None:
    unknown = REQUIRED - set(TIERS)
    if unknown:
        raise pytest.UsageError(f"SONDE_REQUIRE: no such tier: {', '.join(sorted(unknown))}")
    # Run in the background of a script, or by nohup, they are ignored, and would be by all that tests start.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tier = tier_of(item.path)
        if tier in ("live", "vm", "fuzz"):
            item.add_marker(getattr(pytest.mark, tier))
        if tier == "live" and not item.get_closest_marker("exact"):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=1))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("live") and (why := live_obstacle()):
        pytest.skip(f"traces this kernel: {why}")


def lacking(why: str) -> bool:
    """Whether a skip's reason is a feature that the kernel, or a command that the machine, indeed does not have."""
    command, words, _ = why.removeprefix("Skipped: ").partition(" is not installed")
    if words:
        return shutil.which(command) is None
    _, words, name = why.partition("kernel lacks ")
    if not words:
        return False
    from sonde.kernel.features import ROWS
    from sonde.kernel.types.world import LiveWorld
    return name in ROWS and not LiveWorld().has_feature(name)


def refuse_skip(report: Any, tier: str) -> None:
    """Make a failure of the skip of a tier that has to run; an expected failure stays one."""
    if report.skipped and tier in REQUIRED and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        if lacking(str(why)):
            return
        report.outcome = "failed"
        report.longrepr = f"SONDE_REQUIRE={tier}: {why}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    refuse_skip(outcome.get_result(), tier_of(item.path))


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, None]:
    outcome = yield
    refuse_skip(outcome.get_result(), tier_of(collector.path))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what there is to say to the process that says it, if that is another."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["endings"] = endings


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    endings.extend(map(tuple, getattr(node, "workeroutput", {}).get("endings", ())))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was tried once more, and why: a fault that shows seldom is one, too."""
    again = [(f"RERUN {report.nodeid}", report.longreprtext) for report in terminalreporter.stats.get("rerun", ())]
    for title, text in again + endings:
        terminalreporter.write_sep("=", title)
        terminalreporter.write_line(text)


def open_fds() -> dict[int, str]:
    """fd -> what it is, of this process."""
    found = {}
    for text in os.listdir("/proc/self/fd"):
        try:
            found[int(text)] = os.readlink(f"/proc/self/fd/{text}")
        except FileNotFoundError:
            pass  # the listing's own
    return found


def still_open(leaked: dict[int, str]) -> dict[int, str]:
    """What of these stays open for seconds: pyarrow's threads let go of a file shortly after read_table() returned."""
    end = time.monotonic() + 5
    while leaked and time.monotonic() < end:
        time.sleep(0.02)
        leaked = {fd: what for fd, what in leaked.items() if open_fds().get(fd) == what}
    return leaked


@pytest.fixture(autouse=True)
def no_fd_leak() -> Iterator[None]:
    """Every descriptor that a test opens is closed when it ends: owners close, they are not collected."""
    before = open_fds()
    yield
    if (foreign := sys.modules.get("sonde.kernel.foreign.files")) is not None:
        foreign.release_files()  # what everybody shares is nobody's to close
    if (mapped := sys.modules.get("sonde.kernel.foreign.mapped")) is not None:
        mapped.release_held()
    if (teller := sys.modules.get("sonde.kernel.names.told_symbols")) is not None:
        teller.release_teller()
    leaked = {fd: what for fd, what in open_fds().items() if before.get(fd) != what}
    if leaked and (leaked := still_open(leaked)):
        gc.collect()
    assert not leaked, f"file descriptors left open: {leaked}"


@pytest.fixture(autouse=True)
def own_notices() -> Iterator[None]:
    """A command line that a test has run in this process does not take the warnings of the tests after it."""
    before = notices.tell
    yield
    notices.tell = before
