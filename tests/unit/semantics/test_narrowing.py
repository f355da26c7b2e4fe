"""The remark that -c does not narrow a script to its command."""

from __future__ import annotations

import pytest

from sonde.cli.commands.narrowing import REMARK, command_remark
from sonde.language.diagnostics import Diagnostics
from sonde.language.parser import parse_script
from sonde.semantics.process_questions import asks_for_processes
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import Attach, Config, ProgramSpec, ScriptSpec


def remark(text: str, kind: str = "tracepoint", pid: int = 0, **options: object) -> str:
    """The remark about a script one of whose programs has an attach point of this kind."""
    points = [Attach("interval", "interval"), Attach(kind, kind, pid=pid)]
    asks = asks_for_processes(parse_script(Source("stdin", text), Diagnostics(), []))
    spec = ScriptSpec([ProgramSpec("p", "raw_tracepoint", b"", points)], [], [], [], [], [], Config(),
                      asks_for_processes=asks)
    return command_remark(Options(**{"cpid": 77, **options}), spec)


@pytest.mark.parametrize("text", [
    "tracepoint:a:b { @ = count(); }", "tracepoint:a:b /args.ret > 0/ { @[comm, pid] = count(); }",
    "tracepoint:a:b { $x = args.ret > 0 ? comm : \"\"; print($x); }", "kprobe:f { printf(\"%d\", pid); }",
    "tracepoint:a:b { if (args.ret == 3) { print(pid); } }"])
def test_a_script_that_sees_all_is_remarked_on(text: str) -> None:
    assert remark(text) == REMARK


@pytest.mark.parametrize("text", [
    "tracepoint:a:b /pid == cpid/ { @ = count(); }", "tracepoint:a:b /@seen[tid]/ { @ = count(); }",
    "tracepoint:a:b { if (comm == \"x\") { @ = count(); } }", "tracepoint:a:b /args.next_pid == 3/ { @ = count(); }",
    "tracepoint:a:b { print(curtask->tgid == 3); }", "tracepoint:a:b { @[cpid] = count(); }",
    "tracepoint:a:b { $x = strncmp(comm, \"ab\", 2) != 0 ? 1 : 2; print($x); }",
    "macro mine() { pid == 5 } tracepoint:a:b /mine()/ { @ = count(); }",
    "fn f($p: uint64): uint64 { if (uid == 0) { return 1; } return $p; } tracepoint:a:b { @ = f(1); }",
    "tracepoint:a:b /container == \"web\"/ { @ = count(); }"])
def test_a_script_that_asks_for_the_process_is_not(text: str) -> None:
    assert remark(text) == ""


def test_where_sonde_narrows_there_is_nothing_to_say() -> None:
    text = "tracepoint:a:b { @ = count(); }"
    assert remark(text, pid=77) == remark(text, kind="interval") == "", "user probes, samples; timers"
    for narrowed in ({"cpid": 0}, {"pid": 5}, {"family": True}, {"group": "web"}):
        assert remark(text, **narrowed) == ""
