"""len() of a stack is the number of its frames."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support import compile_c, run_sonde

NESTED = """
#include <unistd.h>
__attribute__((noipa)) int inner(void) { return getppid() + 1; }
__attribute__((noipa)) int outer(void) { return inner() + 1; }
int main(void) { return outer() == 0; }
"""


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(compile_c(NESTED, tmp_path_factory.mktemp("nested"), "nested", "-fno-omit-frame-pointer"))


@pytest.mark.parametrize("stack", ["kstack", "ustack", "dw_ustack", "kstack(4)", "ustack(2)", "dw_ustack(2)"])
@pytest.mark.parametrize("probe", ["tracepoint:syscalls:sys_enter_getppid", "rawtracepoint:sys_enter"])
def test_as_many_as_are_printed(stack: str, probe: str, nested: str) -> None:
    """At once, from a variable, from a map and in a key; the frames of a raw stack are its addresses."""
    raw = stack.replace("(", "(raw, ") if "(" in stack else f"{stack}(raw)"
    script = f"""{probe} /pid == cpid/ {{
        $s = {raw}; @kept = {raw}; @key[{raw}] = len({raw});
        print((len({raw}), len($s), len(@kept))); print($s); exit(); }}"""
    result = run_sonde("-f", "json", "-c", nested, "-e", script)
    assert result.returncode == 0, result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    lengths, frames = [message["data"] for message in found if message["type"] == "value"][:2]
    wanted = len(frames.split())
    assert wanted > 0 and lengths == [wanted] * 3
    keys = next(m["data"]["@key"] for m in found if m["type"] == "map" and "@key" in m["data"])
    assert list(keys.values()) == [wanted]


def test_of_python(tmp_path: Path) -> None:
    """Of the first call at which the interpreter is known."""
    path = tmp_path / "nested.py"
    path.write_text("import os, time\ndef inner(): os.getppid()\ndef outer(): inner()\n"
                    "for _ in range(500):\n    outer()\n    time.sleep(0.01)\n")
    result = run_sonde("-c", f"{sys.executable} {path}", "-e", "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ "
                       "{ $n = len(pystack); if ($n > 0) { print($n); exit(); } }")
    if "pystack" in result.stderr:
        pytest.skip(result.stderr)
    assert result.stdout.split() == ["3"], result.stdout + result.stderr
