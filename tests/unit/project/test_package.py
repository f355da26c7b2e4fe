"""The package as others see it: its public names, its version, its data."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import sonde
from support import environment

PROJECT = Path(__file__).parents[3]
sys.path[:0] = [str(PROJECT / "scripts")]

import manual  # noqa: E402

PUBLIC = [
    "AttachError", "Broken", "Bucket", "CompileError", "Event", "FleetTrace", "FlightDump", "Histogram",
    "LinearHistogram", "Losses", "MachineError", "MapView", "MissingFeatureError", "ObjectiveError", "Options",
    "PrivilegeError",
    "SondeError", "Stats", "SyscallError", "Trace", "UsageError", "VerifierError", "Watch", "__version__", "compile",
    "fleet",
    "trace", "watch",
]  # fmt: skip

# What a start of the command line must not import: each costs a visible part of its 100 ms.
DEAR = {
    "argparse", "asyncio", "dataclasses", "inspect", "json", "logging", "pathlib", "socket", "subprocess", "tempfile",
}  # fmt: skip


def project() -> dict[str, dict[str, object]]:
    loaded: dict[str, dict[str, object]] = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return loaded


def test_public_names_are_pinned() -> None:
    assert sorted(sonde.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_exist_and_are_documented(name: str) -> None:
    assert getattr(sonde, name).__doc__ if name != "__version__" else sonde.__version__


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = sonde.nosuch


def test_versions_agree() -> None:
    assert project()["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "sonde.base.version.__version__"}
    assert f"## {sonde.__version__}" in (PROJECT / "CHANGELOG.md").read_text()


def test_the_steps_of_a_release_exist() -> None:
    """Each file and each target of make that RELEASING.md names in a command."""
    commands = re.findall(r"^ {7}(\S.*)$", (PROJECT / "RELEASING.md").read_text(), re.M)
    targets = set(re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.M))
    assert len(commands) > 10
    for command in commands:
        words = command.split()
        if words[0] == "make":
            assert set(words[1:]) <= targets, command
        for word in words:
            assert not word.startswith(("scripts/", "tests/", ".ci/")) or (PROJECT / word).exists(), command


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the package as a wheel has it."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(PROJECT / "src" / "sonde", folder / "sonde", ignore=shutil.ignore_patterns("__pycache__"))
    manual.write_answers(folder)
    manual.pack_scripts(folder)
    return folder


def test_the_wheel_is_small(built: Path) -> None:
    """All that is in it, packed as a wheel is, with a digest of each file in RECORD."""
    files = {path.relative_to(built).as_posix(): path.read_bytes() for path in built.rglob("*") if path.is_file()}
    files |= {f"sonde_tracer-0.0.0.data/data/{path}": text.encode() for path, text in manual.files().items()}
    files |= {f"sonde_tracer.dist-info/{each}": (PROJECT / each).read_bytes() for each in ("LICENSE", "README.md")}
    record = "".join([f"{name},sha256={base64.b64encode(hashlib.sha256(data).digest()).decode()},{len(data)}\n"
                      for name, data in files.items()])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in (files | {"RECORD": record.encode()}).items():
            wheel.writestr(name, data)
    assert 1_500_000 < len(packed.getvalue()) < 2_000_000


SCRIPTS = """
import os
from sonde.base.package_files import FOLDER, exists_shipped, list_shipped, read_shipped
for folder in ("tools", "tools/flame", "stdlib"):
    for name in list_shipped(os.path.join(FOLDER, folder)):
        if name.endswith(".bt"):
            path = os.path.join(FOLDER, folder, name)
            assert exists_shipped(path)
            print(path.removeprefix(FOLDER), hash(read_shipped(path)))
tools = os.path.join(FOLDER, "tools")
print(exists_shipped(os.path.join(tools, "nosuch.bt")), "flame" in list_shipped(tools))
"""


def test_the_scripts_of_the_wheel_are_those_of_the_tree(built: Path) -> None:
    """By name, by folder and by contents, though they are one file there."""
    assert not list(built.rglob("*.bt"))
    listed = [subprocess.run([sys.executable, "-c", SCRIPTS], check=True, capture_output=True, text=True,
                             env=environment() | {"PYTHONPATH": str(where), "PYTHONHASHSEED": "0"}).stdout
              for where in (built, PROJECT / "src")]
    assert listed[0] == listed[1] and listed[0].count(".bt ") == len(list((PROJECT / "src").rglob("*.bt")))
    assert listed[0].endswith("False True\n")


def test_the_core_depends_on_nothing() -> None:
    assert project()["project"]["dependencies"] == []


def test_a_start_imports_nothing_dear() -> None:
    """Compiling a script, as the command line does, stays clear of the heavy modules."""
    code = (
        "import sys; from sonde.cli.main import main; status = main(['--help']);"
        "import sonde.library.trace, sonde.compiler.pipeline, sonde.runtime.session, sonde.semantics.check;"
        "import sonde.language.parser, sonde.output.text; print(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert DEAR & set(done.stdout.splitlines()[-1].split()) == set()
