"""The library's public face: every name is pinned, documented and can be had."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sonde

NAMES = [
    "AttachError", "Broken", "Bucket", "CompileError", "Event", "FleetTrace", "FlightDump", "Histogram",
    "LinearHistogram", "Losses", "MachineError", "MapView", "MissingFeatureError", "ObjectiveError", "Options",
    "PrivilegeError",
    "SondeError", "Stats", "SyscallError", "Trace", "UsageError", "VerifierError", "Watch", "__version__", "compile",
    "fleet", "trace", "watch",
]


def test_all_is_pinned() -> None:
    assert sonde.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name: str) -> None:
    found = getattr(sonde, name)
    assert isinstance(found, str) or (found.__doc__ and len(found.__doc__) > 20)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tracee'"):
        sonde.tracee  # noqa: B018


def test_the_old_name_of_an_error_still_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="is now sonde.MachineError"):
        assert sonde.EnvironmentProblem is sonde.MachineError


def test_the_package_imports_nothing_heavy() -> None:
    """``import sonde`` alone must not pay for a compiler."""
    code = "import sys, sonde; print(sorted(m for m in sys.modules if m.startswith('sonde.')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['sonde.base', 'sonde.base.version']"


def test_one_version(capsys: pytest.CaptureFixture[str]) -> None:
    from sonde.cli.main import main
    for words in (["--version"], ["version"]):
        assert main(words) == 0
        assert capsys.readouterr().out == f"sonde v{sonde.__version__}\n"
