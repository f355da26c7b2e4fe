"""Scripts of every size and shape: compiled in bounded time and memory, or refused with a place; never a traceback.

SONDE_HOSTILE_MUTANTS and SONDE_HOSTILE_LARGE set how many are tried, SONDE_FUZZ_SEED which.
"""

from __future__ import annotations

import os
import random
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiled import compiled
from sonde.errors import CompileError, UsageError
from support import SOURCE, environment, run_sonde, sonde_command

MUTANTS = int(os.environ.get("SONDE_HOSTILE_MUTANTS", "300"))
LARGE = int(os.environ.get("SONDE_HOSTILE_LARGE", "4"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", "20261121"))
PIECES, MEMORY = 150, 500 << 20

TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\w$@.]+|\s+|[^\w\s]')
ODD = ["0", "-1", "18446744073709551615", "9223372036854775808", "99999999999999999999", "@", "$", "@x", "$x", "[", "]",
       "(", ")", "{", "}", ";", "unroll(100)", "while(1)", "if", "return", "ctx", "args", "(int64)ctx", "*", "-", "/",
       "count()", "hist(", "str(", "kstack", "\"\x1b\"", "\"%s%d\"", "..", "for", "let", "sizeof(", "struct s",
       "(uint8)", "offsetof("]


def sources() -> list[str]:
    """The shipped scripts, which use most of the language, and the documented one-liners."""
    tools = [path.read_text() for path in sorted((SOURCE / "sonde" / "tools").glob("*.bt"))]
    text = (SOURCE.parent / "docs" / "one-liners.toml").read_text()
    return tools + re.findall(r"script = '''\n?(.*?)'''", text, re.S)


def mutant(chance: random.Random, scripts: list[str]) -> str:
    """A script with some of its tokens left out, doubled, exchanged, or replaced by odd or foreign ones."""
    tokens = TOKENS.findall(chance.choice(scripts))
    other = TOKENS.findall(chance.choice(scripts))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(tokens))
        kind = chance.randrange(5)
        if kind == 0:
            del tokens[at:at + chance.randint(1, 4)]
        elif kind == 1:
            tokens[at:at] = tokens[at:at + chance.randint(1, 30)] * chance.choice((1, 1, 1, 20))
        elif kind == 2:
            tokens[at] = chance.choice(ODD)
        elif kind == 3:
            start = chance.randrange(len(other))
            tokens[at:at] = other[start:start + chance.randint(1, 10)]
        else:
            to = chance.randrange(len(tokens))
            tokens[at], tokens[to] = tokens[to], tokens[at]
        tokens = tokens or ["x"]
    return "".join(tokens)


@pytest.mark.parametrize("block", range(4))
@pytest.mark.timeout(max(120, MUTANTS))
def test_mutants_are_compiled_or_refused(block: int) -> None:
    scripts = sources()
    for number in range(block * MUTANTS // 4, (block + 1) * MUTANTS // 4):
        text = mutant(random.Random(SEED * 1_000_003 + number), scripts)
        try:
            compiled(text, unsafe=True)
        except CompileError as error:
            for finding in error.diagnostics:
                finding.render()
        except UsageError:
            pass
        except Exception as error:
            raise AssertionError(f"mutant {number}: {text!r}") from error


STATEMENTS: list[Callable[[random.Random, int], str]] = [
    lambda c, i: f"$x{i % 50} = (uint64){i};",
    lambda c, i: f'printf("%d %s\\n", {i}, comm);',
    lambda c, i: f"@a{i % 100}[pid, comm] = {i};",
    lambda c, i: f"if (pid == {i}) {{ @c++; }} else {{ @d = {i}; }}"]
SHAPES = {
    "assignments": lambda c, n: "begin { " + "".join(STATEMENTS[0](c, i) for i in range(n)) + " }",
    "prints": lambda c, n: "begin { " + "".join(STATEMENTS[1](c, i) for i in range(n)) + " }",
    "maps": lambda c, n: "begin { " + "".join(STATEMENTS[2](c, i) for i in range(n)) + " }",
    "branches": lambda c, n: "begin { " + "".join(STATEMENTS[3](c, i) for i in range(n)) + " }",
    "clauses": lambda c, n: "\n".join(f"interval:s:{i + 1} {{ {STATEMENTS[2](c, i)} }}" for i in range(n)),
    "points": lambda c, n: ", ".join(f"interval:s:{i + 1}" for i in range(n)) + " { @ = 1; }",
    "chain": lambda c, n: "begin { " + "".join(f"@m{i} = @m{i + 1};" for i in range(n)) + f" @m{n} = comm; }}",
    "sums": lambda c, n: "begin { " + "".join(f"@m{i} = @m{i + 1} + {i};" for i in range(n)) + f" @m{n} = pid; }}",
    "clause chain": lambda c, n: "\n".join(f"interval:s:{i + 1} {{ @m{i} = @m{i + 1}; }}" for i in range(n))
                                 + f"\nend {{ @m{n} = comm; }}",
    "variable chain": lambda c, n: "begin { " + "".join(f"$x{i} = @m{i + 1}; @m{i} = $x{i};" for i in range(n))
                                   + f" @m{n} = comm; }}",
    "one variable": lambda c, n: "begin { " + "".join(f"$x = @m{i + 1}; @m{i} = $x;" for i in range(n))
                                 + f" @m{n} = pid; }}",
    "arguments": lambda c, n: "tracepoint:syscalls:sys_enter_* { $a = args; "
                              + "".join(f"@a{i}[pid, comm] = {i};" for i in range(n // 6)) + " }",
    "choices": lambda c, n: "begin { $a = " + "1 ? (" * n + "pid" + ") : 3" * n + "; @s = " + '0 ? "x" : (' * n + "comm"
                            + ")" * n + "; " + "1 ? (" * n + "print(1)" + ") : print(2)" * n + "; print($a); }",
    "doubled": lambda c, n: "begin { " + "".join(f"@m{i} = (@m{i + 1}, @m{i + 1});" for i in range(n))
                            + f" @m{n} = 1; }}",
    "nested": lambda c, n: "begin { " + "".join(f"@m{i} = (@m{i + 1}, 1);" for i in range(n)) + f" @m{n} = 1; }}",
    "unknown maps": lambda c, n: "begin { " + "".join(f"@m{i} = 1; print(@u{i});" for i in range(n)) + " }",
    "unknown variables": lambda c, n: "begin { " + "".join(f"$m{i} = 1; @k = $u{i};" for i in range(n)) + " }",
    "mixed": lambda c, n: "begin { " + "".join(c.choice(STATEMENTS)(c, i) for i in range(n)) + " }",
    "unrolled": lambda c, n: "begin { unroll(100) { unroll(100) { unroll(100) { @++; } } } }",
    "macros": lambda c, n: "macro m0() { @++; }\n" + "\n".join(f"macro m{i}() {{ m{i - 1}(); m{i - 1}(); }}"
                                                              for i in range(1, 30)) + "\nbegin { m29(); }",
    "one line": lambda c, n: "begin { " + "x" * (n * 100) + " }",
    "structs": lambda c, n: f"struct a {{ char x; }}; struct b {{ struct a y[{n}]; }}; "
                            "begin { $p = (struct b *)curtask; print(*$p); }",
    "array in a map": lambda c, n: f"struct a {{ char x; }}; struct b {{ struct a y[{n}]; }}; "
                                   "begin { $p = (struct b *)curtask; @x = *$p; }",
    "struct": lambda c, n: "struct a { int x[64]; }; struct b { struct a y[64]; }; struct c { struct b z[256]; };\n"
                           "begin { $p = (struct c *)curtask; print(*$p); }",
}
# Compiles what it is given, and says what it took: in a process of its own, so that memory is that of one script.
MEASURED = """
import resource, sys
sys.path[:0] = sys.argv[1:3]
from compiled import world
from pace import pieces
from sonde.compiling import compile
from sonde.errors import CompileError
from sonde.semantics.script_options import Options
try:
    compile(sys.stdin.read(), Options(), world())
    said = "compiled"
except CompileError as error:
    shown = [finding.render() for finding in error.diagnostics]
    assert sum(map(len, shown)) < 100_000, "the errors are endless"
    said = next(f.code for f in error.diagnostics if f.severity == "ERROR")
used = resource.getrusage(resource.RUSAGE_SELF)
# Not ru_maxrss, which begins with what the parent had when it forked.
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(said, pieces(used.ru_utime + used.ru_stime), own * 1024)
"""


def measured(text: str) -> tuple[str, float, int]:
    """(what became of it, CPU time in pieces of work (pace.py), bytes of memory)."""
    done = subprocess.run([sys.executable, "-c", MEASURED, str(SOURCE), str(Path(__file__).parents[1])], input=text,
                          capture_output=True, text=True, env=environment(None), check=False, timeout=110)
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{text[:500]}"
    said, spent, memory = done.stdout.split()
    return said, float(spent), int(memory)


def check_cost(text: str) -> str:
    said, spent, memory = measured(text)
    assert memory <= MEMORY and spent <= PIECES, f"{said}: {spent:.1f} pieces, {memory >> 20} MiB: {text[:300]}"
    return said


@pytest.mark.parametrize("shape, size, outcome", [
    ("assignments", 7_000, "compiled"), ("assignments", 100_000, "program-too-large"),
    ("prints", 3_000, "compiled"), ("prints", 100_000, "program-too-large"), ("maps", 4_000, "compiled"),
    ("branches", 3_000, "compiled"), ("clauses", 1_000, "compiled"), ("clauses", 7_000, "too-many-probes"),
    ("clauses", 56_000, "program-too-large"), ("points", 1_000, "compiled"), ("points", 100_000, "program-too-large"),
    ("chain", 200, "compiled"), ("chain", 2_000, "compiled"), ("sums", 2_000, "compiled"),
    ("clause chain", 1_000, "compiled"), ("variable chain", 150, "compiled"), ("variable chain", 2_000, "compiled"),
    ("one variable", 1_000, "compiled"), ("arguments", 110, "compiled"), ("arguments", 2_000, "program-too-large"),
    ("choices", 30, "compiled"), ("doubled", 8, "compiled"), ("doubled", 2_000, "type-too-large"),
    ("nested", 90, "compiled"), ("nested", 2_000, "type-too-large"), ("unknown maps", 2_000, "undefined-map"),
    ("unknown variables", 2_000, "undefined-variable"), ("mixed", 3_000, "compiled"),
    ("mixed", 100_000, "program-too-large"),
    ("unrolled", 1, "program-too-large"), ("macros", 1, ""),
    ("one line", 100_000, "unknown-identifier"), ("struct", 1, "compiled"),
    ("structs", 200_000, "compiled"), ("structs", 4_000_000, "value-too-large"),
    ("array in a map", 4_000_000, "value-too-large")])
def test_large_scripts_of_each_shape(shape: str, size: int, outcome: str) -> None:
    found = check_cost(SHAPES[shape](random.Random(SEED), size))
    assert not outcome or found == outcome


@pytest.mark.timeout(max(120, LARGE * 30))
def test_large_scripts_at_random() -> None:
    for number in range(LARGE):
        chance = random.Random(SEED * 1_000_003 + number)
        size = int(10 ** chance.uniform(2, 5))
        shape = chance.choice(["assignments", "prints", "maps", "branches", "chain", "mixed", "clauses"])
        check_cost(SHAPES[shape](chance, size))


@pytest.mark.live
@pytest.mark.parametrize("script, status", [
    ("uprobe { }", 1), ("uprobe, uretprobe, usdt, fentry, kprobe, watchpoint, interval, tracepoint { }", 1),
    ("interval:s:18446744074 { }", 1), ("profile:s:18446744074 { }", 1), ("interval:s:9223372036 { }", 0),
    ("config = { perf_rb_pages=4294967296 } interval:s:1 { printf(\"x\"); }", 1),
    ("struct s { char a[4294967296][4294967296][4]; }; begin { print(sizeof(struct s)); }", 1),
    ("profile:hz:99 { $x = (int64)ctx; while ($x > 100) { $x -= 1; } }", 0),
    ("profile:hz:99 { $x = (int64)ctx; while ($x > 9) { $x += (int64)ctx; } @ = $x; }", 0),
    ("profile:hz:99 { $x = (int64)ctx; for ($i : 0..1000) { @ = $x + $i; } }", 0)])
def test_what_was_an_internal_error(script: str, status: int) -> None:
    done = run_sonde("--dry-run", "-e", script)
    assert done.returncode == status, done.stderr
    assert status == 0 or done.stderr.startswith("stdin:1:"), done.stderr


def test_errors_about_endless_lines_are_short(tmp_path: Path) -> None:
    script = tmp_path / "endless.bt"
    script.write_text("begin { " + "y" * 200_000 + " = 1; @x = nosuch; }")
    done = run_sonde(str(script), timeout=60)
    assert done.returncode == 1 and len(done.stderr) < 5_000
    assert "..." in done.stderr and done.stderr.startswith(str(script))


def test_the_limits_of_a_process_are_kept() -> None:
    """A script that is not refused, in 300 MiB of address space beyond what Python takes: no traceback either way."""
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
    text = SHAPES["prints"](random.Random(SEED), 4_000)
    done = subprocess.run(sonde_command(("--mode", "codegen", "-")), input=text, capture_output=True, text=True,
                          preexec_fn=limit, env=environment(None), check=False, timeout=110)
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
