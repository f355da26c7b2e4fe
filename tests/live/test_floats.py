"""Floating-point numbers read from a C program, which prints them itself; what is made of them is compared with
Python's own arithmetic on the same bits."""

from __future__ import annotations

import json
import math
import operator
import random
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support import compile_c, run_sonde

PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
struct sample { int n; double d; float f; double window[3]; float pair[2]; long double wide; long i; unsigned long u; };
__attribute__((noipa)) void hit(struct sample *s) { __asm__ volatile ("" :: "r"(s) : "memory"); }
__attribute__((noipa)) double half(double x, int n) { return x / n; }
__attribute__((noipa)) void nine(double a, double b, double c, double d, double e, double f, double g, double h,
                                 double i, float j) { __asm__ volatile ("" ::: "memory"); }
int main(int argc, char **argv) {
    static struct sample s;
    uint64_t d; uint32_t f;
    FILE *in = fopen(argv[1], "r"), *out = fopen(argv[2], "w");
    while (fscanf(in, "%lx %x %ld %lu", &d, &f, &s.i, &s.u) == 4) {
        memcpy(&s.d, &d, 8); memcpy(&s.f, &f, 4);
        s.n++; s.window[0] = s.d; s.window[1] = 0.5 * s.n; s.pair[1] = s.f; s.wide = 1.5L;
        fprintf(out, FORMAT "\\n", s.d, s.d, s.d, s.d, s.d, s.d, s.f, s.f, s.f, s.d, s.d, s.d);
        hit(&s);
    }
    fclose(out);
    half(5.5, 2); nine(1, 2, 3, 4, 5, 6, 7, 8, 9.75, 1.25f);
    return 0;
}
"""
FORMAT = "%f|%.3e|%g|%a|%-12.2f|%+012.4f|%f|%g|% a|%G|%#.0f|%.2a"
Row = tuple[float, float, int, int]
INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(f'#define FORMAT "{FORMAT}"\n{PROGRAM}', tmp_path_factory.mktemp("floats"), "floats", "-g")


def single(bits: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def double(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def random_rows(rng: random.Random, count: int) -> list[Row]:
    rows = []
    for _ in range(count):
        d = rng.choice([double(rng.getrandbits(64)), double(rng.getrandbits(52)), float(rng.randrange(-9, 9)),
                        rng.gauss(0, 10 ** rng.uniform(-12, 19)), rng.choice(
                            [0.0, -0.0, INF, -INF, NAN, 5e-324, 2.0 ** 63, -2.0 ** 63, 2.0 ** 64, 2.0 ** 53, 1e308])])
        f = rng.choice([*map(single, (rng.getrandbits(32), rng.getrandbits(23), 0x7F800000, 0x7F7FFFFF, 0x80000000)),
                        struct.unpack("<f", struct.pack("<f", rng.gauss(0, 9)))[0]])
        near = int(d) if math.isfinite(d) and abs(d) < 2 ** 63 else rng.getrandbits(60)
        signed = rng.choice([rng.getrandbits(63) - (1 << 62), near, near + 1, near - 1, -(1 << 53) - 1, (1 << 63) - 1])
        unsigned = rng.choice([rng.getrandbits(64), rng.randrange(9), abs(near), abs(near) + 1, (1 << 64) - 1])
        rows.append((d, f, max(min(signed, (1 << 63) - 1), -1 << 63), min(unsigned, (1 << 64) - 1)))
    return rows


def trace_rows(program: Path, rows: list[Row], actions: str, *options: str) -> tuple[list[str], list[str]]:
    """What the script printed, and what the program did."""
    given, out = program.parent / "in", program.parent / "out"
    given.write_text("".join([f"{struct.unpack('<Q', struct.pack('<d', d))[0]:x} "
                              f"{struct.unpack('<I', struct.pack('<f', f))[0]:x} {i} {u}\n" for d, f, i, u in rows]))
    done = run_sonde("-q", *options, "-e", f"uprobe:{program}:hit {{ $s = args.s; {actions} }}",
                     "-c", f"{program} {given} {out}")
    assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr
    return done.stdout.splitlines(), out.read_text().splitlines()


def test_printf_prints_what_c_prints(program: Path) -> None:
    rows = random_rows(random.Random(1), 150)
    values = "$s->d, $s->d, $s->d, $s->d, $s->d, $s->d, $s->f, $s->f, $s->f, $s->d, $s->d, $s->d"
    ours, theirs = trace_rows(program, rows, f'printf("{FORMAT}\\n", {values});')
    spelled = [line.replace("-nan", "nan").replace("-NAN", "NAN") for line in theirs]  # Python's have no sign
    assert [line for line in ours if line] == [fix_nans(line) for line in spelled]


def fix_nans(line: str) -> str:
    """A NaN without its sign is a character shorter, where a width does not fill that."""
    return "|".join([f"{field:<12}" if at == 4 else f"{field:>12}" if at == 5 and "nan" in field else field
                     for at, field in enumerate(line.split("|"))])


COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
               "!=": operator.ne}
PAIRS = [("$s->d", "$s->f"), ("$s->d", "$s->i"), ("$s->d", "$s->u"), ("$s->n", "$s->d"), ("$s->f", "$s->i"),
         ("$s->u", "$s->f"), ("$s->d", "1.5"), ("$s->d", "9007199254740993"), ("2", "$s->f")]


@pytest.mark.parametrize("seed", [2, 3])
def test_comparisons_are_exact(program: Path, seed: int) -> None:
    rows = random_rows(random.Random(seed), 150)
    shown = "".join([f'printf("{"%d" * len(COMPARISONS)} ", {", ".join([f"{a} {op} {b}" for op in COMPARISONS])});'
                     for a, b in PAIRS])
    lines = trace_rows(program, rows, f'{shown} printf("\\n");')[0]
    for number, (d, f, i, u) in enumerate(rows):
        known: dict[str, Any] = {"$s->d": d, "$s->f": f, "$s->i": i, "$s->u": u, "$s->n": number + 1}
        sides = [[known.get(text, float(text) if "." in text else 0 if text[0] == "$" else int(text)) for text in pair]
                 for pair in PAIRS]
        assert lines[number].split() == ["".join([str(int(test(a, b))) for test in COMPARISONS.values()])
                                         for a, b in sides], (d, f, i, u)


def saturate(value: float | Fraction, bits: int, signed: bool) -> int:
    if value != value:
        return 0
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return high if value == INF else low if value == -INF else max(low, min(high, int(value)))


def test_conversions_and_copies(program: Path) -> None:
    rows = random_rows(random.Random(4), 150)
    lines = trace_rows(program, rows, """
        printf("%ld %lu %d %u %ld %ld ", (int64)$s->d, (uint64)$s->d, (int32)$s->d, (uint32)$s->d, (int64)$s->f,
               scaled($s->f, 1000));
        $x = $s->f; let $y: double = $s->f; @f[$s->n] = $s->f; @d = $s->f; @d = $s->d; $p = (double *)((uint64)$s + 8);
        printf("%a %a %a %a %a %a %a %a\\n", $x, $y, @f[$s->n], @d, *$p, -$s->d, (double)$s->i, (double)$s->u);""")[0]
    for line, (d, f, i, u) in zip(lines, rows, strict=False):
        words = line.split()
        exact = f if not math.isfinite(f) else \
            (1 if f > 0 else -1) * int(abs(Fraction(f)) * 1000 + Fraction(1, 2))
        assert [int(word) for word in words[:6]] == [
            saturate(d, 64, True), saturate(d, 64, False), saturate(d, 32, True), saturate(d, 32, False),
            saturate(f, 64, True), saturate(exact, 64, True)], (d, f)
        for word, want in zip(words[6:], (f, f, f, d, d, -d, float(i), float(u)), strict=True):
            have = float.fromhex(word)
            assert have != have and want != want or (have, math.copysign(1, have)) == (want, math.copysign(1, want))


def collected(program: Path, rows: list[Row], actions: str) -> dict[str, Any]:
    maps: dict[str, Any] = {}
    for line in trace_rows(program, rows, actions, "-f", "json")[0]:
        maps |= json.loads(line)["data"] if line else {}
    return maps


def exact_sum(values: list[float]) -> Fraction:
    """Each value cut to units of 2^-64."""
    return Fraction(sum([int(Fraction(value) * 2 ** 64) for value in values]), 2 ** 64)


@pytest.mark.parametrize("scale", [-9, 0, 15])
def test_aggregates(program: Path, scale: int) -> None:
    rng = random.Random(scale)
    rows = [(rng.choice([rng.gauss(0, 10.0 ** scale), rng.gauss(0, 1), 0.1, 0.5, -0.0]), single(0x3DCCCCCD), 0, 0)
            for _ in range(300)]
    values = [d for d, *_ in rows]
    maps = collected(program, rows, """
        @sum = sum($s->d); @by[$s->n & 3] = sum($s->d); @avg = avg($s->d); @stats = stats($s->d); @min = min($s->d);
        @max[1] = max($s->d); @hist = hist($s->d); @fine = hist($s->d, 3); @lin = lhist($s->d, 0, 3, 1);
        @tenths = lhist($s->f, 0, 1, 0.1); @key[$s->d] = count();""")
    total = exact_sum(values)
    assert maps["@sum"] == float(total) and maps["@avg"] == float(total / len(rows))
    assert abs(maps["@sum"] - math.fsum(values)) <= 300 * 2.0 ** -64 + math.ulp(maps["@sum"])
    assert maps["@stats"] == {"count": len(rows), "average": float(total / len(rows)), "total": float(total)}
    assert maps["@by"] == {str(k): float(exact_sum([v for n, v in enumerate(values) if n + 1 & 3 == k]))
                           for k in range(4)}
    assert maps["@min"] == min(values) and maps["@max"] == {"1": max(values)}
    for name in ("@hist", "@fine", "@lin"):
        assert sum([bucket["count"] for bucket in maps[name]]) == len(rows)
        for bucket in maps[name]:
            low, high = bucket.get("min", -INF), bucket.get("below", INF)
            assert bucket["count"] == sum([low <= value < high for value in values]), (name, bucket)
    assert maps["@tenths"] == [{"min": 0.1, "below": 0.2, "count": len(rows)}]  # 0.1f is a little more than 0.1
    assert sum(maps["@key"].values()) == len(rows) and maps["@key"]["0.0"] == values.count(0.0)


@pytest.mark.parametrize(("values", "total", "least", "most"), [
    ([1.0, INF], "inf", 1.0, "inf"), ([INF, -INF], "nan", "-inf", "inf"), ([1.0, NAN], "nan", "nan", "nan"),
    ([-1e30, 2.0], "-inf", -1e30, 2.0), ([5e-324, -5e-324], 0.0, -5e-324, 5e-324),
])
def test_what_is_no_ordinary_number(program: Path, values: list[float], total: object, least: object,
                                    most: object) -> None:
    maps = collected(program, [(value, 0.0, 0, 0) for value in values], """
        @sum = sum($s->d); @avg = avg($s->d); @min = min($s->d); @max = max($s->d); @hist = hist($s->d);
        @lin = lhist($s->d, 0, 2, 1); @key[$s->d] = count();""")
    assert [maps[name] for name in ("@sum", "@min", "@max")] == [total, least, most] and maps["@avg"] == total
    assert sum([bucket["count"] for bucket in maps["@hist"]]) == len(values)
    nans = sum([value != value for value in values])
    for name in ("@hist", "@lin"):
        assert sum([bucket["count"] for bucket in maps[name] if bucket.get("nan")]) == nans
    assert len(maps["@key"]) == len(values)


def test_structs_arrays_and_text(program: Path) -> None:
    lines = trace_rows(program, [(0.1, single(0x3DCCCCCD), 7, 8)],
                       "print(*$s); print($s->window); print($s->pair[1]); print(($s->d, $s->f)); @[$s->f] = $s->d;")[0]
    assert [line for line in lines if line] == [
        "{ .n = 1, .d = 0.1, .f = 0.1, .window = [0.1,0.5,0.0], .pair = [0.0,0.1], .wide = null, .i = 7, .u = 8 }",
        "[0.1,0.5,0.0]", "0.1", "(0.1, 0.1)", "@[0.1]: 0.1"]


def test_arguments_in_registers_are_refused_in_words(program: Path) -> None:
    for probe, value, words in (
            ("uprobe", "args.x", "x of uprobe:{}:half is passed in a vector register, which programs cannot read"),
            ("uretprobe", "retval", "half returns a double, in a register for floating-point numbers, which programs "
                                    "cannot read")):
        done = run_sonde("-e", f"{probe}:{program}:half {{ print({value}); }}")
        assert done.returncode == 1 and words.format(program) in done.stderr
    done = run_sonde("-q", "-e", f"uprobe:{program}:nine {{ print((args.i, args.j)); }}",
                     "-c", f"{program} /dev/null {program.parent}/out")
    assert done.stdout.split() == ["(9.75,", "1.25)"]  # on the stack
