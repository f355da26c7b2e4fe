"""The extension for VS Code: its package, and its code with the real server and stand-ins for what VS Code has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

import pytest

from sonde.kinds import kind_names
from support import PATIENCE, environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "editors.md").read_text()
SCRIPT = next(iter(re.findall(r"```sonde\n(.*?)```", PAGE, re.S)))
OWN = ("begin", "end")  # kinds that stand without a colon


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the extension, as it comes out of the package."""
    folder = tmp_path_factory.mktemp("vsix")
    subprocess.run([sys.executable, str(ROOT / "scripts/make_vsix.py"), str(folder / "sonde.vsix")], check=True,
                   capture_output=True)
    with ZipFile(folder / "sonde.vsix") as archive:
        archive.extractall(folder)
    return folder


def test_the_package(extension: Path) -> None:
    """The manifest names what is there; the extension's files parse; a second package has the same bytes."""
    names = {"": "http://schemas.microsoft.com/developer/vsx-schema/2011"}
    manifest = ElementTree.parse(extension / "extension.vsixmanifest")
    assets = [asset.attrib["Path"] for asset in manifest.iterfind(".//Asset", names)]
    assert assets and all((extension / path).is_file() for path in assets)
    package = json.loads((extension / "extension/package.json").read_text())
    identity = manifest.find(".//Identity", names)
    assert identity is not None and identity.attrib["Version"] == package["version"]
    contributed = package["contributes"]
    for file in (package["main"], contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"],
                 contributed["snippets"][0]["path"]):
        assert (extension / "extension" / file).is_file()
    code = (extension / "extension/extension.js").read_text()
    assert all(f'"{command["command"]}"' in code for command in contributed["commands"])
    subprocess.run([sys.executable, str(ROOT / "scripts/make_vsix.py"), str(extension / "again.vsix")], check=True,
                   capture_output=True)
    assert (extension / "again.vsix").read_bytes() == (extension / "sonde.vsix").read_bytes()


def test_the_grammar_has_every_kind_of_probe() -> None:
    grammar = json.loads((ROOT / "editors/vscode/syntaxes/bpftrace.tmLanguage.json").read_text())
    patterns = [rule["match"] for rule in grammar["patterns"] if rule.get("name", "").endswith("probe.bpftrace")]
    for kind in kind_names():
        text = kind if kind.lower() in OWN else f"{kind}:x:y"
        assert any(re.fullmatch(pattern, text) for pattern in patterns) or kind in ("TEST", "BENCH"), kind


def test_snippets_compile(tmp_path: Path) -> None:
    """Each by itself, or with what it is about."""
    snippets = json.loads((ROOT / "editors/vscode/snippets/bpftrace.json").read_text())
    files = []
    for name, snippet in snippets.items():
        text = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", "\n".join(snippet["body"]))
        around = {"Print every second": "tracepoint:syscalls:sys_enter_openat { @ = count(); }\n",
                  "Configuration": ""}.get(name, "")
        file = tmp_path / f"{snippet['prefix']}.bt"
        file.write_text(f"{text}\n{around}" + ("begin { print(1); }\n" if name in ("Macro", "Configuration") else ""))
        files.append(str(file))
    done = subprocess.run([sys.executable, "-m", "sonde", "check", *files], env=environment(), capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def run_extension(extension: Path, script: Path, *command: str) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    done = subprocess.run([node, str(ROOT / "tests/editors_harness.js"), str(extension / "extension/extension.js"),
                           str(script), *command], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(find_spec("pygls") is None, reason="pygls is not installed")
def test_the_extension_with_the_server(extension: Path, tmp_path: Path) -> None:
    script = tmp_path / "opens it.bt"
    script.write_text(SCRIPT)
    command = tmp_path / "sonde"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sonde "$@"\n')
    command.chmod(0o755)
    results = run_extension(extension, script, str(command))
    assert [item["severity"] for item in results["diagnostics"]] == [0] and len(results["providers"]) == 11
    assert "uint8 * filename" in results["hover"] and results["completion"][0] == "filename"
    assert [action["title"] for action in results["actions"]] == ["Change to filename"]
    assert [edit["newText"] for edit in results["actions"][0]["edit"]["edits"]] == ["filename"]
    assert results["symbols"] == ["tracepoint:syscalls:sys_enter_openat"] and results["formatted"] == []
    assert results["folds"][0]["start"] == 0 and results["colours"] > 20 and results["colours"] % 5 == 0
    assert results["signature"].startswith("str(") and results["definition"]["range"]["start"]["line"] == 1
    assert results["references"] == 1 and results["renamed"] == ["@files"] and "can be renamed" in results["refused"]
    assert results["terminal"] == [f"sudo {command} '{script}'", f"sudo {command} cost '{script}'",
                                   f"sudo {command} flame -p 42 10"]
    assert results["then"] == [] and results["errors"] == []


def test_an_extension_without_a_server_says_so(extension: Path, tmp_path: Path) -> None:
    script = tmp_path / "a.bt"
    script.write_text(SCRIPT)
    assert "not running" in run_extension(extension, script, str(tmp_path / "nosuch"))["errors"][0]
