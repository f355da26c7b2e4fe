"""Every header of Linux's interface and of glibc that this machine has: read, with the values and layouts of gcc."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from compiled import world
from sonde.builtins import BUILTINS
from sonde.compiling import RECURSION
from sonde.errors import CompileError
from sonde.functions import FUNCTIONS
from sonde.language import ast, libclang
from sonde.language.diagnostics import Diagnostics
from sonde.language.includes import Files
from sonde.language.parser import parse_script
from sonde.semantics.callees import Language
from sonde.semantics.check import check_script
from sonde.semantics.ctypes_ import TypeNames
from sonde.semantics.defined_types import DefinedTypes
from sonde.semantics.script_options import Options
from sonde.source import Source

ROOT = Path("/usr/include")
PACKAGES = ("linux-libc-dev", "libc6-dev")
GROUP = 40  # headers that gcc is asked about at once
SHARE = 12   # of them, this part is enough as a rule; SONDE_ALL_HEADERS=1: all
# What is another for another compiler: which extensions it has, and the floating-point types of this one.
LEFT_OUT = {
    "assert.h": "it gives static_assert() another meaning", "tgmath.h": "floating point", "values.h": "floating point",
    "resolv.h": "macros that are pragmas", "linux/genwqe/genwqe_card.h": "sizeof(enum), which is 8 as in bpftrace",
    "stab.h": "another file is included within an enum",
}
OF_COMPILER = re.compile(r"NILFS_SB_\w*BYTES|__ARCH_SI_ATTRIBUTES|_*(?:"  # the first two: addresses, an attribute
                         r"HAVE_|GLIBC_|glibc_|GNUC|USE_|attribute|LDOUBLE|CFLOAT|f\d+|NLDBL|LDBL|FP_|MATH)\w*")
UNSIGNED = (1 << 64) - 1
SIGN = (1 << 33) - 1  # 1 << 31 is negative in C, where it has 32 bits


def multiarch() -> str:
    return subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()


def headers_of(package: str) -> list[str]:
    """The names by which programs include them."""
    files = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False).stdout.split()
    own = f"{ROOT}/{multiarch()}/"
    return sorted({f.removeprefix(own).removeprefix(f"{ROOT}/") for f in files if f.endswith(".h")
                   and f.startswith(str(ROOT)) and "/finclude/" not in f} - {*LEFT_OUT})


def ask_gcc(headers: Sequence[str], lines: Sequence[str], place: Path, *options: str) -> tuple[str, str, bool]:
    """What gcc writes for a program of these headers and lines, what it complains of, and whether it is content."""
    file = place / "questions.c"
    text = [*[f"#include <{h}>" for h in headers], *lines]
    file.write_text("\n".join(text) + "\n")
    found = subprocess.run(["gcc", "-w", "-fmax-errors=0", "-ftrack-macro-expansion=0", *options, str(file)],
                           capture_output=True, text=True, check=False)
    return found.stdout, found.stderr, not found.returncode


def groups(headers: list[str], place: Path) -> Iterator[list[str]]:
    """The headers in groups that gcc compiles together; those that it does not compile alone are left out."""
    if ask_gcc(headers, [], place, "-fsyntax-only")[2]:
        yield headers
    elif len(headers) > 1:
        middle = len(headers) // 2
        yield from groups(headers[:middle], place)
        yield from groups(headers[middle:], place)


def evaluate(headers: list[str], questions: list[str], place: Path) -> dict[str, int]:
    """gcc's values of those of the expressions that are integer constants."""
    lines = [f"void question_{n}(void) {{ enum {{ value = ({q}) }}; }}" for n, q in enumerate(questions)]
    errors = ask_gcc(headers, lines, place, "-fsyntax-only")[1]
    wrong = {int(n) for n in re.findall(r"In function .question_(\d+)", errors)}
    right = [q for n, q in enumerate(questions) if n not in wrong]
    table = ["unsigned long long answers[] = {", *[f"(unsigned long long)({q})," for q in right], "1};"]
    assembly, errors, good = ask_gcc(headers, table, place, "-S", "-o", "-")
    assert good, errors
    values: list[int] = []
    for kind, number in re.findall(r"\.(quad|zero)\s+(-?\d+)", assembly.partition("\nanswers:")[2]):
        values += [int(number)] if kind == "quad" else [0] * (int(number) // 8)
    assert len(values) == len(right) + 1
    return {q: value & UNSIGNED for q, value in zip(right, values)}


def macros_of(header: str) -> list[str]:
    """The names that a header gives to something."""
    text = find(header).read_text("utf-8", "surrogateescape")
    names = re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+[^\s/]", text)
    return [n for n in dict.fromkeys(names) if not OF_COMPILER.fullmatch(n)]


def find(header: str) -> Path:
    return next(p for p in (ROOT / header, ROOT / multiarch() / header) if p.exists())


class Reading:
    """A header as a script sees it that includes it, and asserts that constants have these values."""

    def __init__(self, header: str, values: dict[str, int]) -> None:
        lines = "".join(f'static_assert((uint64)({name}) == {value}, "{name}");\n' if value >> 31 != SIGN else
                        f'static_assert((uint32)({name}) == {value & 0xffffffff}, "{name}");\n'
                        for name, value in values.items())
        source = Source("script.bt", f"#include <{header}>\nbegin {{\n{lines}}}")
        directories = [str(ROOT), str(ROOT / multiarch())]
        diagnostics, kernel = Diagnostics(), world()
        script = parse_script(source, diagnostics, (), Files(directories, release="6.18.4"), DefinedTypes(kernel).find)
        self.definitions = script.definitions
        self.complaints = [self._describe(d) for d in diagnostics.items]
        if not self.complaints:
            with suppress(CompileError):
                check_script(script, source, kernel, Options(), diagnostics, Language(FUNCTIONS, BUILTINS))
            self.complaints = [self._describe(d) for d in diagnostics.items if d.severity == "ERROR"]
        self.header, self._own = header, find(header)

    @staticmethod
    def _describe(item: object) -> str:
        span = getattr(item, "span", None)
        where = "" if span is None else f" ({span.source.name}:{span.line})"
        return f"{getattr(item, 'message', '')}{where}"

    def questions(self) -> dict[str, int]:
        """Sizes, offsets and enumerators of what the header itself defines."""
        names = TypeNames(world(), Diagnostics())
        names.define_types(self.definitions)
        found: dict[str, int] = {}
        for item in self.definitions:
            if not os.path.samefile(item.span.source.name, self._own):
                continue
            if isinstance(item, ast.CEnum):
                found |= {name: value & UNSIGNED for name, value in item.members.items()}
            elif isinstance(item, ast.CStruct):
                found |= self._layout(names, item)
            elif item.name in names.typedefs and names.typedefs[item.name].size:
                found[f"sizeof({item.name})"] = names.typedefs[item.name].size
        return found

    def _layout(self, names: TypeNames, item: ast.CStruct) -> dict[str, int]:
        tag = f"{'union' if item.union else 'struct'} {item.name}"
        if not re.search(rf"\b{item.name}\b", item.span.text):  # it is a typedef's
            return {}
        struct = names.structs[tag]
        return {f"sizeof({tag})": struct.size, **{f"__builtin_offsetof({tag}, {field.name})": field.offset
                                                  for field in struct.fields if field.name and not field.bit_size}}


@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("dpkg"), reason="needs gcc and dpkg")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("package", PACKAGES)
def test_headers_mean_what_they_mean_to_gcc(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libclang, "has_libclang", lambda: False)
    monkeypatch.setattr(sys, "getrecursionlimit", sys.getrecursionlimit)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))
    headers = headers_of(package)
    if not headers:
        pytest.skip(f"the package {package} is not installed")
    if not os.environ.get("SONDE_ALL_HEADERS"):
        headers = headers[int(os.environ.get("SONDE_HEADERS_FROM", "0")) % SHARE::SHARE]
    wrong = [line for at in range(0, len(headers), GROUP) for group in groups(headers[at:at + GROUP], tmp_path)
             for line in compare_group(group, tmp_path)]
    assert not wrong, "\n".join(wrong)


def compare_group(headers: list[str], place: Path) -> Iterator[str]:
    """What is otherwise than gcc has it."""
    macros = {header: macros_of(header) for header in headers}
    values = evaluate(headers, list(dict.fromkeys(n for names in macros.values() for n in names)), place)
    readings = {h: Reading(h, {n: values[n] for n in names if n in values}) for h, names in macros.items()}
    asked = {question for reading in readings.values() for question in reading.questions()}
    answers = evaluate(headers, sorted(asked), place)
    for header, reading in readings.items():
        wrong = list(differences(reading, answers))
        if not wrong:
            continue
        if len(headers) == 1:
            yield from (f"{header}: {line}" for line in wrong)
        elif ask_gcc([header], [], place, "-fsyntax-only")[2]:  # what others define may have meant something else
            yield from compare_group([header], place)


def sign_extended(value: int) -> int:
    """What C makes of it where it has shifted a bit into the sign."""
    return value | ~0xffffffff & UNSIGNED if value >> 31 == 1 else value


def differences(reading: Reading, answers: dict[str, int]) -> Iterator[str]:
    """What a reading has otherwise than gcc."""
    yield from reading.complaints
    for question, value in reading.questions().items():
        if question in macros_of(reading.header):  # the macro of that name has another value
            continue
        if answers.get(question) not in (value, sign_extended(value)):
            yield f"{question} is {answers.get(question)}, not {value}"
