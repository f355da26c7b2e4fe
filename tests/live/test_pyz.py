"""sonde.pyz: one file, from any folder, with everything that comes with Sonde."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sonde import tools
from sonde.base import installation
from sonde.base.single_file import SingleFile

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pyz") / "sonde.pyz"
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "make_pyz.py"), str(file)], capture_output=True,
                          text=True, check=True)
    assert re.search(r"[\d,]+ bytes", done.stdout) and file.stat().st_size < 1_200_000
    return file


def run(pyz: Path, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """With nothing of this tree: -I leaves out PYTHONPATH and the packages of the user, -S all others."""
    return subprocess.run([sys.executable, "-I", "-S", str(pyz), *args], capture_output=True, text=True, check=False,
                          cwd=cwd)


def test_each_module_keeps_its_lines(pyz: Path) -> None:
    """What is left out leaves Python behind, and whatever a traceback names stands where it says."""
    archive = SingleFile(str(pyz))
    names = [name for name in archive.list_paths() if name.endswith(".py") and name != "__main__.py"]
    assert sorted(ROOT / "src" / name for name in names) == sorted(
        path for path in (ROOT / "src").rglob("*.py") if not path.match("cli/search/build.py"))  # only makes the index
    for name in names:
        whole, stripped = (ROOT / "src" / name).read_text(), archive.get_data(name).decode()
        assert whole.count("\n") == stripped.count("\n"), name
        assert definitions(stripped) <= definitions(whole), name


def definitions(text: str) -> set[tuple[str, int]]:
    return {(node.name, node.lineno) for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_what_comes_with_it(pyz: Path, tmp_path: Path) -> None:
    listed = run(pyz, "tools", cwd=tmp_path).stdout
    assert [line.split()[0] for line in listed.splitlines()] == tools.tool_names()
    assert run(pyz, "help", "tcplife", cwd=tmp_path).stdout.startswith("tcplife: ")


def test_it_traces(pyz: Path, tmp_path: Path) -> None:
    script = 'begin { assert(pid == pid); printf("%d\\n", 1 + 1); exit(); }'
    done = run(pyz, "-e", script, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[0] == "2", done.stderr
    done = run(pyz, "opensnoop", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(pyz, "flame", "-o", "x.svg", "-c", "sh -c 'i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done'",
               cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "x.svg").read_text().startswith("<?xml"), done.stderr


def test_it_is_a_library(pyz: Path, tmp_path: Path) -> None:
    """Also where nothing keeps its bytecode, as in the process that reads foreign files."""
    script = f"import sys; sys.path[:0] = [{str(pyz)!r}]; import sonde; print(sonde.compile('begin {{ }}').programs)"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ProgramSpec(" in done.stdout, done.stdout + done.stderr
    done = run(pyz, "-l", "uprobe:libc:getenv", cwd=tmp_path)
    assert done.stdout.rstrip().endswith(":getenv"), done.stderr


def test_hints_name_the_file(pyz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(pyz), "tcplife"])
    assert installation.as_root() == f"sudo {pyz} tcplife"


def test_the_readme_has_its_sizes(pyz: Path) -> None:
    """Within a sixth, lest each new tool changes them."""
    readme = (ROOT / "README.md").read_text()
    said = float(re.findall(r"`sonde.pyz`,\s+which is all of it in a single\s+file, ([\d.]+) MB", readme)[0])
    assert abs(pyz.stat().st_size / 1e6 - said) < said / 6
    said = float(re.findall(r"installed size \| ([\d.]+) MB", readme)[0])
    shipped = [file for file in (ROOT / "src" / "sonde").rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert abs(sum(file.stat().st_size for file in shipped) / 1e6 - said) < said / 6
