"""Returns at return instructions: programs that throw, panic, jump, end threads and grow their stacks put out what they
put out alone, and calls, arguments, returns and results are counted as they count them themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from returning_programs import COMMANDS, KINDS
from support import run_sonde

FUNCTIONS = ("leaf", "middle", "work")


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name, source, command = COMMANDS[request.param]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    folder = tmp_path_factory.mktemp("returning")
    (folder / name).write_text(source)
    subprocess.run([*command, "-o", folder / "prog", folder / name], check=True, cwd=folder)
    return folder / "prog"


def own_counts(output: str) -> dict[str, tuple[int, ...]]:
    """Function → calls, their arguments, returns, their results."""
    rows = re.findall(r"^(leaf|middle|work) (-?\d+) (-?\d+) (-?\d+) (-?\d+)$", output, re.MULTILINE)
    return {name: tuple(map(int, numbers)) for name, *numbers in rows}


def script(program: Path) -> str:
    prefix, argument = ("main.", 'reg("ax")') if b"runtime.gopanic" in program.read_bytes() else ("", "(int32)arg0")
    counted = "(int64)retval" if prefix else "(int32)retval"
    return "".join([f"uprobe:{program}:{prefix}{name} {{ @c{name} = count(); @a{name} = sum({argument}); }} "
                    f"uretprobe:{program}:{prefix}{name} {{ @r{name} = count(); @s{name} = sum({counted}); "
                    f"@f[func] = count(); }} " for name in FUNCTIONS])


@pytest.mark.parametrize("kind", range(KINDS))
def test_every_return_is_counted(program: Path, kind: int) -> None:
    command = f"{program} {kind}"
    alone = subprocess.run([program, str(kind)], input="\n", capture_output=True, text=True, timeout=60)
    is_go = b"runtime.gopanic" in program.read_bytes()
    traced = run_sonde("-c", f"sh -c 'exec {command} < /dev/null'", "--returns", "instructions", "-e", script(program))
    assert alone.returncode == 0 and alone.stdout in traced.stdout, (traced.stdout, traced.stderr)
    assert traced.returncode == 0 and "WARNING" not in traced.stderr, traced.stderr
    for name, counts in own_counts(alone.stdout).items():
        measured = tuple([int(value) for key in "cars" for value in
                          re.findall(rf"^@{key}{name}: (-?\d+)$", traced.stdout, re.MULTILINE)])
        if is_go:  # where its stack grows, a function begins anew, and its entry is met twice
            assert measured[0] >= counts[0] and measured[2:] == counts[2:], name
        else:
            assert measured == counts, name
        function = re.findall(rf"^@f\[(?:main\.)?{name}\]: (\d+)$", traced.stdout, re.MULTILINE)
        assert function == [str(counts[2])]
