"""Scripts and what becomes of them: the code for each CPU, or what the compiler says.

A case is a file: options in ``#`` lines, the script, then for each CPU ``--- NAME`` and the expected text.
``pytest tests/golden --update-golden`` writes the expectations anew; read the difference before committing it.

``# kernel: 6.1`` chooses the recorded kernel without the newest features, ``# pid: 5`` filters like -p,
``# family`` like -c of a tool, ``# unsafe`` is --unsafe; ``# params: a b`` are positional parameters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compiled import world
from sonde.compiling import compile
from sonde.errors import CompileError
from sonde.semantics.script_options import Options

FOLDER = Path(__file__).parent
CASES = sorted(FOLDER.glob("*.case"))
ARCHES = ("x86_64", "aarch64")


def read(path: Path) -> tuple[dict[str, str], str, dict[str, str]]:
    """(options, script, architecture → expected text)."""
    head, *parts = ("\n" + path.read_text()).split("\n--- ")
    lines = head.strip("\n").split("\n")
    options = {}
    while lines and lines[0].startswith("# "):
        name, _, chosen = lines.pop(0)[2:].partition(":")
        options[name.strip()] = chosen.strip()
    expected = {name: text.rstrip("\n") for name, _, text in (part.partition("\n") for part in parts)}
    return options, "\n".join(lines) + "\n", expected


def result(script: str, options: dict[str, str], arch: str) -> str:
    """The code, the maps and the warnings; or the errors."""
    chosen: dict[str, Any] = {"params": options.get("params", "").split(), "unsafe": "unsafe" in options,
                              "family": "family" in options}
    if "pid" in options:
        chosen["pid"] = int(options["pid"])
    shown: list[str] = []
    here = world(options.get("kernel", "6.18"), arch)
    try:
        spec = compile(script, Options(**chosen), here,
                       lambda stage, text: shown.append(text) if stage == "dis" else None, verify=True)
    except CompileError as error:
        return "\n".join(d.render() for d in error.diagnostics)
    for made in spec.maps:
        shown.append(f"map {made.name}: {made.type}, key {made.key_size}, value {made.value_size}, "
                     f"entries {made.max_entries}, flags {made.flags:#x}")
    shown += [f"site {s.kind}: {s.size} bytes, fields {[(str(f.type), f.offset) for f in s.fields]}"
              for s in spec.sites]
    shown += [f"program {p.name}: {p.type} {p.method or '-'} {' '.join(a.name for a in p.attach)}"
              for p in spec.programs]
    shown += [d.render() for d in spec.warnings]
    return "\n".join(shown)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    options, script, expected = read(path)
    found = {arch: result(script, options, arch) for arch in ARCHES}
    if request.config.getoption("--update-golden"):
        head = path.read_text().split("\n--- ")[0].rstrip("\n")
        same = found["x86_64"] == found["aarch64"]
        parts = [f"--- both\n{found['x86_64']}"] if same else [f"--- {arch}\n{text}" for arch, text in found.items()]
        path.write_text("\n".join([head, *parts]) + "\n")
        return
    for arch in ARCHES:
        wanted = expected.get(arch, expected.get("both"))
        assert wanted is not None, "no expectation yet: run with --update-golden"
        assert [line.rstrip() for line in found[arch].split("\n")] == [line.rstrip() for line in wanted.split("\n")]


def test_there_are_cases_for_both_kernels_and_for_errors() -> None:
    read_all = [read(path) for path in CASES]
    assert len(CASES) >= 20 and {o.get("kernel", "6.18") for o, _, _ in read_all} == {"6.18", "6.1"}
    assert any("ERROR" in text for _, _, expected in read_all for text in expected.values())
    assert any(set(expected) == set(ARCHES) for _, _, expected in read_all)
