"""Returns of programs that throw, panic, jump, end threads and grow their stacks: they put out what they put out alone,
and calls, arguments, returns and results are counted as they count them themselves, and so are calls that did not
return. Built in the ways that there are:
static, position-independent or not, stripped, for 32 bits."""

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
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    (folder / name).write_text(source)
    made = subprocess.run([*command, "-o", folder / "prog", folder / name], cwd=folder, capture_output=True, text=True)
    if made.returncode and "-m32" in command:
        pytest.skip("gcc-multilib is not installed")
    assert made.returncode == 0, made.stderr
    return folder / "prog"


def own_counts(output: str) -> dict[str, tuple[int, ...]]:
    """Function → calls, their arguments, returns, their results."""
    rows = re.findall(r"^(leaf|middle|work) (-?\d+) (-?\d+) (-?\d+) (-?\d+)$", output, re.MULTILINE)
    return {name: tuple(map(int, numbers)) for name, *numbers in rows}


def script(program: Path) -> str:
    prefix, argument = ("main.", "(int64)arg0") if b"runtime.gopanic" in program.read_bytes() else ("", "(int32)arg0")
    counted = "retval" if prefix else "(int32)retval"
    return "".join([f"uprobe:{program}:{prefix}{name} {{ @c{name} = count(); @a{name} = sum({argument}); }} "
                    f"uretprobe:{program}:{prefix}{name} {{ @r{name} = count(); @s{name} = sum({counted}); "
                    f"@f[func] = count(); }} " for name in FUNCTIONS])


def check_counts(program: Path, *options: str) -> None:
    """Run the program with all kinds of calls, alone and traced."""
    alone = subprocess.run([program, KINDS], input="\n", capture_output=True, text=True, timeout=60)
    traced = run_sonde("-c", f"sh -c 'exec {program} {KINDS} < /dev/null'", *options, "-e", script(program))
    assert alone.returncode == 0 and alone.stdout in traced.stdout, (traced.stdout, traced.stderr)
    assert traced.returncode == 0 and "WARNING" not in traced.stderr, traced.stderr
    own = own_counts(alone.stdout)
    prefix = "main." if b"runtime.gopanic" in program.read_bytes() else ""
    left = {f"{program}:{prefix}{name}": counts[0] - counts[2] for name, counts in own.items() if counts[0] > counts[2]}
    said = re.search(r"^(\d+) calls did not return \((.*)\): left by an exception", traced.stderr, re.MULTILINE)
    assert said and int(said[1]) == sum(left.values()), traced.stderr
    assert {name: int(count) for count, name in re.findall(r"(\d+) of ([^,]+)", said[2])} == left
    assert own.keys() == {*FUNCTIONS}
    for name, counts in own.items():
        measured = tuple([int(value) for key in "cars" for value in
                          re.findall(rf"^@{key}{name}: (-?\d+)$", traced.stdout, re.MULTILINE)])
        assert measured == counts, name
        function = re.findall(rf"^@f\[(?:main\.)?{name}\]: (\d+)$", traced.stdout, re.MULTILINE)
        assert function == [str(counts[2])]


def test_every_return_is_counted_at_instructions(program: Path) -> None:
    check_counts(program, "--returns", "instructions")


def test_every_return_is_counted_by_the_usual_way(program: Path) -> None:
    """By the kernel's return probe, where that does no harm."""
    if not re.match(r"c-(plain|32-bit)\d", program.parent.name):
        return
    check_counts(program)
