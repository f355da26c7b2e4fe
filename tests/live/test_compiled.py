"""The second start of a script: the same output as the first, without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import environment, run_sonde

pytestmark = pytest.mark.live

MODULES = """
import sys
from sonde.cli.main import main
status = main(sys.argv[1:])
if "sonde.base.regex_cache" in sys.modules:
    sys.modules["sonde.base.regex_cache"].keep_patterns()
print(status, *sorted(sys.modules), file=sys.stderr)
"""
DEAR = {"typing", "re", "enum", "functools", "collections", "contextlib", "signal", "json", "inspect"}
SCRIPT = """
struct pair { int a; char name[4]; }
tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @never = count(); }
BEGIN { @ = hist(5); @s["a", 1] = 2; printf("%d %s %7s|\\n", 1, "two", "three"); print((1, "x"));
        $p = (struct pair *)0; @p = *$p; @e = (int64)$p; print(@s); clear(@s); exit(); }
END { printf("end\\n"); }
"""


def start(cache: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-I", "-S", "-c", f"import sys; sys.path.insert(0, {SOURCE!r})\n"
                           + MODULES, *args], capture_output=True, text=True, timeout=60, check=True,
                          env=environment({"XDG_CACHE_HOME": str(cache)}))


SOURCE = str(Path(__file__).parents[2] / "src")


def kept(cache: Path) -> list[str]:
    return [name for name in os.listdir(cache / "sonde") if name.startswith("spec-")]


def test_a_second_start_imports_no_compiler(tmp_path: Path) -> None:
    first, second = (start(tmp_path, "-e", SCRIPT) for _ in range(2))
    assert first.stdout == second.stdout and "1 two   three|" in first.stdout and "end" in first.stdout
    once, twice = (set(done.stderr.splitlines()[-1].split()) for done in (first, second))
    assert {"sonde.compiler.pipeline", "sonde.language.parser"} <= once and not {"typing", "importlib", "json"} & once
    again = start(tmp_path, "-e", SCRIPT + "// as if it were another")  # with all patterns known
    assert "sonde.compiler.pipeline" in (thrice := set(again.stderr.splitlines()[-1].split()))
    assert DEAR & thrice == set()
    assert not [name for name in twice if name.startswith(("sonde.compiler.", "sonde.btf.query"))]
    assert not {"sonde.language.parser", "sonde.semantics.check", "sonde.kernel.types.world"} & twice
    assert DEAR & twice == set()


def test_a_second_start_of_a_tool_imports_little(tmp_path: Path) -> None:
    """It reads the tool's page besides, which is also where its options are checked."""
    first, second = (start(tmp_path, "exitsnoop", "--dry-run") for _ in range(2))
    once, twice = (set(done.stderr.splitlines()[-1].split()) for done in (first, second))
    assert "sonde.compiler.pipeline" in once and "sonde.tools.tool_arguments" in twice
    assert not [name for name in twice if name.startswith("sonde.compiler.")]
    assert DEAR & twice == set()


def test_warnings_are_said_again(tmp_path: Path) -> None:
    script = "BEGIN { @x = 1; print(@x + 1, 2); exit(); } interval:ms:1 { $u = 5; }"
    runs = [run_sonde("-e", script, env={"XDG_CACHE_HOME": str(tmp_path)}) for _ in range(3)]
    assert runs[0].returncode == runs[1].returncode
    assert runs[0].stderr == runs[1].stderr == runs[2].stderr


@pytest.mark.parametrize("change", ["--no-warnings", "-k", "--unsafe", "-f json", "--budget 5%"])
def test_another_option_is_compiled_anew(tmp_path: Path, change: str) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    for _ in range(2):
        assert run_sonde("-e", "BEGIN { @a = 1; exit(); }", env=env).returncode == 0
        before = kept(tmp_path)
        assert len(before) == 1
    assert run_sonde(*change.split(), "-e", "BEGIN { @a = 1; exit(); }", env=env).returncode == 0
    # JSON is another way to print the same spec: nothing that the compiler knows of.
    assert len(kept(tmp_path)) == (1 if "json" in change else 2)


def test_scripts_with_files_or_processes_are_not_kept(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text("#define ONE 1\n")
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    done = run_sonde("-I", str(tmp_path), "-e", '#include "a.h"\nBEGIN { printf("%d\\n", ONE); exit(); }', env=env)
    assert "1\n" in done.stdout and not kept(tmp_path)
    header.write_text("#define ONE 3\n")
    done = run_sonde("-I", str(tmp_path), "-e", '#include "a.h"\nBEGIN { printf("%d\\n", ONE); exit(); }', env=env)
    assert "3\n" in done.stdout
    script = f"uprobe:{sys.executable}:_start {{ }} BEGIN {{ exit(); }}"
    run_sonde("-p", str(os.getpid()), "-e", script, env=env)
    assert not kept(tmp_path)
    run_sonde("-e", script, env=env)  # of a program: as long as that is the same (unit/compiling/test_spec_cache.py)
    assert len(kept(tmp_path)) == 1


def test_a_denied_feature_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    script = "BEGIN { @ = curtask->pid; exit(); }"
    plain = run_sonde("-e", script, env=env)
    denied = run_sonde("--no-feature", "rdonly_cast", "-e", script, env=env)
    assert plain.returncode == denied.returncode == 0 and len(kept(tmp_path)) == 1


def test_a_run_ends_at_once_and_whole(tmp_path: Path) -> None:
    """Without warnings asked for, the interpreter is not taken apart: all that was printed is there, and the status."""
    env = environment({"XDG_CACHE_HOME": str(tmp_path)})
    del env["PYTHONWARNINGS"]

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "sonde", "-e", script], env=env, capture_output=True, text=True,
                              timeout=60)

    done = run('BEGIN { $i = 0; while ($i < 3000) { printf("line %d\\n", $i); $i++; } @ = 4; exit(); }')
    assert done.returncode == 0 and done.stdout.count("line") == 3000 and done.stdout.endswith("@: 4\n")
    assert run("BEGIN { exit(7); }").returncode == 7
    assert run("BEGIN { nosuch(); }").returncode == 1
