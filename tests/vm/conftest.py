"""The vm tier: tier.toml's tests, each an item per kernel. The first item of a kernel boots it and runs them all.

The kernels take turns, two each day, so that a run takes no longer than two of them side by side;
``SONDE_VM_KERNELS=all`` is all of them, ``SONDE_VM_KERNELS="5.10 7.2"`` these. They are of this machine's architecture;
``SONDE_VM_ARCH=aarch64`` are those of another, ``SONDE_VM_ARCH=all`` are those of all. A kernel's name here is its
series, and behind it the architecture if it is another: "6.12 aarch64". At ``SONDE_VM_UNTIL``, in seconds since 1970,
guests are stopped though their own time is not up; the tests that are left say that they were not run.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from endings import endings

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INSIDE = os.environ.get("SONDE_VM", "")  # set in the guest: the kernel's series
HOST = os.uname().machine
FULL = os.environ.get("SONDE_VM_FULL", "") not in ("", "0")

if not INSIDE:
    collect_ignore = ["inside"]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return Tier.from_parent(parent, path=file_path) if file_path == HERE / "tier.toml" and not INSIDE else None


class Tier(pytest.File):
    """tier.toml."""

    def collect(self) -> Iterator[pytest.Item]:
        table = read_tier()
        names = _listed[:] = listed(everything())
        for kernel, left_out in chosen_kernels(table):
            not_here = {*table["without"], *left_out}
            for name in [n for n in names if not {n, file_of(n)} & not_here]:
                yield Inside.from_parent(self, name=f"{kernel} {name}", kernel=kernel, test=name)


def read_tier() -> dict[str, Any]:
    """What tier.toml says for this run: "kernels", "minutes" of a guest and how many tests are its "share", "tests",
    "first", "second", "without".
    """
    table = tomllib.loads((HERE / "tier.toml").read_text())
    return table | (table["full"] if FULL else {})


def everything() -> list[str]:
    """All tests that tier.toml has for this run."""
    table = read_tier()
    return [*table["tests"], *table["first"], *table["second"]]


def chosen_kernels(table: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """(kernel, tests and files that it need not run): the kernels that SONDE_VM_KERNELS names, else the two of an
    architecture whose turn it is today. These share the work; since the number of kernels is odd, each is first as
    often as second."""
    arch = os.environ.get("SONDE_VM_ARCH") or HOST
    if arch not in ("all", *table["kernels"]):
        raise pytest.UsageError(f"SONDE_VM_ARCH: not in tier.toml: {arch}")
    wanted = os.environ.get("SONDE_VM_KERNELS", "").replace(",", " ").split()
    known = {series for kernels in table["kernels"].values() for series in kernels}
    if unknown := set(wanted) - {"all", *known}:
        raise pytest.UsageError(f"SONDE_VM_KERNELS: not in tier.toml: {', '.join(sorted(unknown))}")
    chosen: list[tuple[str, list[str]]] = []
    for kernels in (names for names in every_kernel(table) if arch in ("all", arch_of(names[0]))):
        if wanted:
            chosen += [(kernel, []) for kernel in kernels if {"all", kernel.split()[0]} & set(wanted)]
        else:
            today = 2 * datetime.date.today().toordinal()
            first, second = [kernels[turn % len(kernels)] for turn in (today, today + 1)]
            chosen += [(first, table["second"]), (second, table["first"])]
    return chosen


def every_kernel(table: dict[str, Any]) -> list[list[str]]:
    """The names of all kernels, a list for each architecture."""
    return [[series if arch == HOST else f"{series} {arch}" for series in kernels]
            for arch, kernels in table["kernels"].items()]


def arch_of(kernel: str) -> str:
    return [*kernel.split(), HOST][1]


def listed(tests: list[str]) -> list[str]:
    """Names of the tests, as pytest tells them. It leaves them compiled, which takes 18 times as long in a guest."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-W", "ignore", *tests]
    environment = os.environ | {"SONDE_VM": "collect", "SONDE_REQUIRE": "", "PYTHONDONTWRITEBYTECODE": ""}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise pytest.Collector.CollectError(found.stdout + found.stderr)
    return [line for line in found.stdout.splitlines() if "::" in line]


class Inside(pytest.Item):
    """A test on another kernel."""

    def __init__(self, kernel: str, test: str, **more: Any) -> None:
        super().__init__(**more)
        self.kernel, self.test = kernel, test
        self.add_marker(pytest.mark.timeout(2 * read_tier()["minutes"] * 60 + 30))

    def runtest(self) -> None:
        found = results(self.session, self.kernel, file_of(self.test))
        outcome, text = found.get(self.test, ("failed", "it was not run"))
        if outcome == "skipped":
            pytest.xfail(f"{self.kernel}: {text}")  # this kernel cannot: not the same as a tier that did not run
        if outcome == "not run":
            pytest.skip(f"vm tier: {text}")
        if outcome == "failed":
            pytest.fail(text, pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


_listed: list[str] = []  # everything in tier.toml
_again: list[tuple[str, str]] = []  # (kernel and test, text) of what was tried once more
_running: dict[tuple[str, str], Future[dict[str, tuple[str, str]]]] = {}  # by kernel and file


def results(session: pytest.Session, kernel: str, file: str) -> dict[str, tuple[str, str]]:
    """test → (outcome, text) of the guest that has the file. All are booted, in turn, when the first is asked for: each
    of them takes one CPU."""
    if not _running:
        wanted: dict[str, list[str]] = {}
        for item in session.items:
            if isinstance(item, Inside):
                wanted.setdefault(item.kernel, []).append(item.test)
        pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        for series, tests in wanted.items():
            for share in shares(tests):
                guest_of_share = pool.submit(boot, series, share)
                _running.update({(series, file_of(test)): guest_of_share for test in share})
        pool.shutdown(wait=False)
    return _running[kernel, file].result()


def shares(tests: list[str]) -> Iterator[list[str]]:
    """The tests of a kernel, guest by guest: whole files, until there are "share" of them."""
    share: list[str] = []
    for _, group in itertools.groupby(tests, file_of):
        of_file = list(group)
        if share and len(share) + len(of_file) > read_tier()["share"]:
            yield share
            share = []
        share += of_file
    yield share


def file_of(test: str) -> str:
    return test.partition("::")[0]


TIMED_OUT, DIED = 124, 125  # vmrun's statuses
PATIENCE = 400 if FULL else 250  # seconds for a test
MEMORY = "/dev/shm"  # of the guest, for what tests write: some have a /run of their own


def boot(kernel: str, tests: list[str]) -> dict[str, tuple[str, str]]:
    """test → (outcome, text): as reporting.py wrote them, or "not run", as this machine could not, or not in time. A
    guest that died under the emulator is booted once more for the tests that are left, and the summary says so."""
    sys.path.insert(0, str(HERE))
    from arches import ARCHES
    from debian import Unavailable
    from debian_kernel import prepared
    from vmrun import obstacle

    arch = ARCHES[arch_of(kernel)]
    try:
        if why := obstacle(arch):
            raise Unavailable(why)
        prepared(kernel.split()[0], arch)
    except Unavailable as problem:
        return dict.fromkeys(tests, ("not run", str(problem)))
    subprocess.run([sys.executable, "-m", "compileall", "-q", "src"], cwd=ROOT, check=True)  # as the tests were
    deadline = min(time.time() + read_tier()["minutes"] * 60, float(os.environ.get("SONDE_VM_UNTIL") or "inf"))
    first = guest(kernel, tests, deadline)
    left = [name for name, (outcome, _) in first.items() if outcome == "died"]
    if left:
        _again.append((f"{kernel}: {len(left)} tests", first[left[0]][1]))
        again = guest(kernel, left, deadline)
        first |= {name: ("failed", text) if outcome == "died" else (outcome, text)
                  for name, (outcome, text) in again.items()}
    return first


def guest(kernel: str, tests: list[str], deadline: float) -> dict[str, tuple[str, str]]:
    """The same of one boot; "died" for what was left when the guest stopped by itself."""
    with tempfile.TemporaryDirectory(prefix="sonde-vm-results.") as shared:
        Path(shared, "tests").write_text("\n".join(selection(tests)) + "\n")
        report = Path(shared, "results")
        started = time.time()
        arch = arch_of(kernel)
        python = sys.executable if arch == HOST else "/usr/bin/python3"
        # The live tier, which goes on meanwhile, comes first: it waits more than it works.
        done = subprocess.run(
            ["nice", "-n", "10", sys.executable, str(HERE / "vmrun.py"), "--arch", arch,
             "--kernel", kernel.split()[0], "--rw", shared,
             "--timeout", str(max(1, deadline - started)), "--", python, "-m", "pytest", "-v", "--tb=short",
             "-o", f"timeout={PATIENCE}", "--reruns", "1", "--continue-on-collection-errors", "-p", "no:randomly",
             "-p", "reporting", f"@{shared}/tests"],
            cwd=ROOT, capture_output=True, text=True, check=False,
            env=os.environ | {"SONDE_VM": kernel, "SONDE_REQUIRE": "", "SONDE_VM_REPORT": str(report),
                              "PYTHONPATH": f"{ROOT / 'src'}:{HERE}", "PYTHONDONTWRITEBYTECODE": "",
                              "TMPDIR": MEMORY, "XDG_CACHE_HOME": f"{MEMORY}/sonde-cache"})
        ended = time.time()
        found = read_report(kernel, report) if report.exists() else {}
        silent = ended - (report.stat().st_mtime if report.exists() else started)
    took = f"{kernel}: status {done.returncode} after {ended - started:.0f} s"
    said = f"\n{done.stdout[-2000:]}\n{done.stderr[-1000:]}"
    if done.returncode == TIMED_OUT and silent < PATIENCE + 60:  # it went on until then
        missing = "not run", f"{took}: time was up when {len(found)} of {len(tests)} tests had been run"
    else:
        missing = "died" if done.returncode == DIED else "failed", \
            f"{took}, the last {silent:.0f} of them silent: it was not run{said}"
    return dict.fromkeys(tests, missing) | others_of(found, tests, done.returncode) | found


def others_of(found: dict[str, tuple[str, str]], tests: list[str], status: int) -> dict[str, tuple[str, str]]:
    """Tests that a kernel does not have, though it ran the other tests of their files and came to the end."""
    ran = {file_of(name) for name in found} if status in (0, 1) else set()
    return {name: ("skipped", "not among the file's tests there") for name in tests if file_of(name) in ran}


def selection(tests: list[str]) -> list[str]:
    """pytest's arguments: whole files, less what was not asked for (some files' parameters depend on the kernel); of
    other files, the tests one by one. --deselect takes beginnings of names: what begins that of a test that was asked
    for is run as well."""
    whole = [name for name in everything() if "::" not in name]

    def argument(test: str) -> str:
        file = file_of(test)
        return file if any(file == name or file.startswith(name + "/") for name in whole) else test
    chosen = dict.fromkeys(map(argument, tests))
    others = [test for test in _listed if argument(test) in chosen and not any(name.startswith(test) for name in tests)]
    return [*chosen, *[f"--deselect={test}" for test in others]]


def read_report(kernel: str, path: Path) -> dict[str, tuple[str, str]]:
    """test → (outcome, text) from what reporting.py wrote; a failure in any of a test's phases is its outcome. What was
    tried once more is kept for the summary."""
    found: dict[str, tuple[str, str]] = {}
    for line in path.read_text().splitlines():
        name, outcome, text, _ = json.loads(line)
        if outcome == "rerun":
            _again.append((f"{kernel} {name}", text))
        elif found.get(name, ("",))[0] != "failed":
            found[name] = outcome, text
    return found


def pytest_sessionfinish() -> None:
    """Say which kernels it was, and what was tried once more in a guest, or in another, and why."""
    if _running:
        every = [kernel for kernels in every_kernel(read_tier()) for kernel in kernels]
        booted = list(dict.fromkeys(kernel for kernel, _ in _running))
        others = "" if len(booted) == len(every) else f" (of {', '.join(every)}: make test-vm-all)"
        endings.append(("vm tier", f"Linux {', '.join(booted)}{others}"))
    endings.extend((f"RERUN {name}", text) for name, text in _again)
