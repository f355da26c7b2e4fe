"""The generated documentation: every example is compiled, every code has an example that yields it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compiled import world
from sonde import api
from sonde.errors import CompileError
from sonde.language.diagnostics import Diagnostics
from sonde.semantics.functions import FUNCTIONS
from sonde.semantics.typed import Options

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import gen_docs  # noqa: E402
from doc_examples import ERRORS, PROBES, STATEMENTS, TYPES  # noqa: E402

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
           "not-supported"}


def finding(text: str, **options: object) -> list[str]:
    """The codes of a script's findings, for the recorded kernel."""
    try:
        spec = api.compile(text, Options(**options), world())  # type: ignore[arg-type]
    except CompileError as error:
        return [d.code for d in error.diagnostics]
    return [d.code for d in spec.warnings]


@pytest.mark.parametrize(("code", "example"), [(code, row[1]) for code, row in ERRORS.items() if row[1]])
def test_errors(code: str, example: str) -> None:
    assert code in finding(example)


def test_every_code_has_its_entry() -> None:
    assert gen_docs.codes() <= set(ERRORS), "a code without an entry in scripts/doc_examples.py"


@pytest.mark.parametrize("example", [row[2] for row in PROBES + STATEMENTS + TYPES])
def test_language(example: str) -> None:
    errors = Diagnostics()
    try:
        api.compile(example, Options(), world())
    except CompileError as error:
        errors.items = [d for d in error.diagnostics if d.code not in ("missing-probe", "header-not-found")]
    assert not [d.render() for d in errors.items]
    assert api.format(example)


def test_the_documents_are_up_to_date() -> None:
    for name, text in (("language.md", gen_docs.language()), ("errors.md", gen_docs.errors())):
        assert (ROOT / "docs" / name).read_text() == text, "run scripts/gen_docs.py"


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name: str) -> None:
    """A row's example is right; what it may lack is of the machine."""
    example = FUNCTIONS[name].example.replace("args.", "$args.")
    found = []
    for place in ("begin", "kprobe:vfs_read", "tracepoint:syscalls:sys_enter_openat"):
        for action in (f"{example};", f"print({example});", f"@y = {example};"):
            for map in ("@x", "@x[tid]"):
                text = NEEDS.format(place=place, action=action, map=map)
                found.append(finding(text, unsafe=True, warnings=False))
    assert any(set(codes) <= MACHINE for codes in found), found
