"""The generated documentation: every example is compiled, every code has an example that yields it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from compiled import world
from packet_filters import has_libpcap
from sonde import compiling
from sonde.builtins import BUILTINS
from sonde.cli import options
from sonde.errors import CompileError
from sonde.functions import FUNCTIONS
from sonde.kinds import KINDS
from sonde.language import libclang
from sonde.language.diagnostics import Diagnostics
from sonde.language.parser import parse_script
from sonde.semantics.config import VARIABLES
from sonde.semantics.providers import find_provider
from sonde.semantics.script_options import Options
from sonde.semantics.world import World
from sonde.source import Source

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]

import gen_docs  # noqa: E402
import gen_kernels  # noqa: E402
import rows  # noqa: E402
from doc_examples import (  # noqa: E402
    BUILTIN_EXAMPLES,
    CONFIG_EXAMPLES,
    CONVERSIONS,
    ERRORS,
    FLOATS,
    OPERATORS,
    OPTION_EXAMPLES,
    PROBES,
    STATEMENTS,
    TYPES,
)
from mistakes import MISTAKES, answer, findings, findings_of_example  # noqa: E402

# Where an example of a function, which is part of an action, may stand; what it needs is there.
NEEDS = """
struct example {{ char *buf; char **argv; uint64 location; int family; uint32 saddr; int sig; struct sock *sk; long id;
  char *filename; long ret; }};
struct card {{ char dev_addr[6]; }};
{place} {{
  $args = (struct example *)0; $dev = (struct card *)0; $l = (struct list_head *)0; $sk = (struct sock *)0;
  $skb = (struct sk_buff *)0; $n = 1; $x = (uint64)1; $start = (uint64)0; $a = comm; $b = comm; $p = $sk;
  $out = (uint64)0; _ = ($args, $dev, $l, $sk, $skb, $n, $x, $start, $a, $b, $p, $out); {map} = (uint64)1; {action}
}}"""
MACHINE = {"unknown-symbol", "unknown-cgroup", "function-probe", "missing-feature", "unstable", "fail", "missing-probe",
           "not-supported", "no-libpcap"}


OF_THE_MACHINE = ("missing-probe", "header-not-found", "missing-feature")  # an example may ask for what it lacks


def finding(text: str, here: World | None = None, **options: object) -> list[str]:
    """The codes of a script's findings, for the recorded kernel."""
    return [item.code for item in findings(text, here, **options)]


@pytest.mark.parametrize(("code", "example"), [(code, row[1]) for code, row in ERRORS.items() if row[1]])
def test_errors(code: str, example: str) -> None:
    if code == "bad-filter" and not has_libpcap():
        pytest.skip("libpcap is not installed")
    if code == "bad-header" and not libclang.has_libclang():
        pytest.skip("libclang is not installed")
    assert code in [item.code for item in findings_of_example(example)]


@pytest.mark.parametrize("line", [line for lines in MISTAKES.values() for line in lines])
def test_an_answer_to_a_mistake_says_what_to_write_instead(line: str) -> None:
    """What it says in full is on the page, which test_the_documents_are_up_to_date compares."""
    said = answer(line)
    assert "ERROR: " in said or "WARNING: " in said
    hints = [text for text in said.splitlines() if text.startswith("HINT: ") and not text.startswith("HINT: found ")]
    assert hints and "Traceback" not in said


def test_every_code_has_its_entry() -> None:
    assert gen_docs.codes() <= set(ERRORS), "a code without an entry in scripts/doc_examples.py"


@pytest.mark.parametrize("example", [
    *[row[2] for row in PROBES + STATEMENTS + TYPES + OPERATORS + CONVERSIONS], *BUILTIN_EXAMPLES.values(),
    FLOATS[1],
    *[f"config = {{ {name} = {value} }}\nbegin {{ print(1); }}" for name, value in CONFIG_EXAMPLES.items()]])
def test_language(example: str) -> None:
    errors = Diagnostics()
    mode = example.partition(":")[0] if example.startswith(("test:", "bench:")) else ""
    try:
        compiling.compile(example, Options(mode=mode), world())
    except CompileError as error:
        errors.items = [d for d in error.diagnostics if d.code not in OF_THE_MACHINE]
    assert not [d.render() for d in errors.items]
    assert compiling.format_source(example)


def test_every_row_has_its_example() -> None:
    assert set(BUILTIN_EXAMPLES) == set(BUILTINS)
    assert set(CONFIG_EXAMPLES) == set(VARIABLES)
    kinds = {row.points[0].parts[0] for _, _, text in PROBES
             for row in parse_script(Source("example", text), Diagnostics()).clauses}
    assert {provider.name for provider in (find_provider(kind) for kind in kinds) if provider is not None} >= \
        set(KINDS) - {"end", "kretprobe", "fexit", "uretprobe", "hardware"}  # named beside their brothers


@pytest.mark.parametrize(("key", "command"), OPTION_EXAMPLES.items())
def test_options(key: str, command: str) -> None:
    """The command line is one, and has that option."""
    name, *words = shlex.split(command)
    assert name == "sonde" and options.parse_command_line(words).has(key)


def test_the_documents_are_up_to_date() -> None:
    for name, text in (("language.md", gen_docs.language()), ("errors.md", gen_docs.errors())):
        assert (ROOT / "docs" / name).read_text() == text, "run scripts/gen_docs.py"


def test_the_page_about_kernels_is_what_they_did() -> None:
    kept = json.loads(gen_kernels.KEPT.read_text())
    assert (ROOT / "docs" / "kernels.md").read_text() == gen_kernels.page(kept), "run scripts/gen_kernels.py"



@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name: str) -> None:
    """A row's example is right; what it may lack is of the machine."""
    example = FUNCTIONS[name].example.replace("args.", "$args.")
    found = []
    raw = ["rawtracepoint:sys_enter"] if "rawtracepoint" in FUNCTIONS[name].probes else []
    for place in ("begin", "kprobe:vfs_read", "tracepoint:syscalls:sys_enter_openat", *raw):
        for action in (f"{example};", f"print({example});", f"@y = {example};"):
            for map in ("@x", "@x[tid]"):
                text = NEEDS.format(place=place, action=action, map=map)
                found.append(finding(text, unsafe=True, warnings=False))
    assert any(set(codes) <= MACHINE for codes in found), found


def heading_anchors(page: Path) -> set[str]:
    """The fragments by which a page's headings are linked to, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """What a page links to within the repository."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.M | re.S)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


@pytest.mark.parametrize("page", sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"),
                                                                                *ROOT.glob("docs/**/*.md")]))
def test_links_lead_somewhere(page: str) -> None:
    for link in links(ROOT / page):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in heading_anchors(target), link


def test_the_architecture_links_to_each_of_its_pages() -> None:
    pages = {f"architecture/{path.name}" for path in (ROOT / "docs" / "architecture").glob("*.md")}
    assert pages <= set(links(ROOT / "docs" / "architecture.md"))


def test_the_one_liners_are_those_of_their_table() -> None:
    """What they printed is from when scripts/gen_one_liners.py was run last, by root and under QEMU."""
    from one_liners import one_liners

    page, old = [(ROOT / "docs" / name).read_text() for name in ("one-liners.md", "old-one-liners.md")]
    for item in one_liners():
        section = page.partition(f"\n## {item['answers']}\n")[2].partition("\n## ")[0]
        assert section, item["answers"]
        for text in [item[key] for key in ("program", "functions", "elsewhere", "list", "note") if key in item]:
            assert text in section, text
        assert f"**{item['answers']}**\n\n```\n{item['was']}\n" in old


def test_the_tools_by_subject_are_all_tools() -> None:
    """Each is named once; profile, trace and argdist are commands."""
    page = (ROOT / "docs" / "tools-by-subject.md").read_text()
    table = page.partition("| to learn about | tools |")[2].partition("\n\n")[0]
    named = re.findall(r"\b[a-z0-9]+\b", " ".join(row.split("|")[2].partition("(commands),")[2] or row.split("|")[2]
                                                  for row in table.splitlines()[2:]))
    assert sorted(named) == sorted(path.stem for path in (ROOT / "src/sonde/tools").glob("*.bt"))


def test_rows_are_as_measured() -> None:
    """The page's table says what bench/figures.json has, and what of it is a goal reached."""
    assert rows.write_section() in (ROOT / "docs" / "performance.md").read_text()


CHAPTERS = [(path.name, block) for path in sorted((ROOT / "docs" / "language").glob("*.md"))
            for block in re.findall(r"^```\n(.*?)^```$", path.read_text(), re.M | re.S)]


@pytest.mark.parametrize(("page", "example"), CHAPTERS)
def test_the_scripts_of_the_chapters(page: str, example: str) -> None:
    """Each compiles, without a warning."""
    assert finding(example) == [], page
