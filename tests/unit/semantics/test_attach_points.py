"""Attach points: expansion, sharing of programs, limits, and what functions leave for the lowering."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.builtins import BUILTINS
from sonde.errors import CompileError
from sonde.functions import FUNCTIONS
from sonde.kinds import KINDS
from sonde.language.diagnostics import Diagnostics
from sonde.semantics import formats
from sonde.semantics.finder import FIRST_COMPARED, MANY, MOST_COMPARED, SEVERAL, ProbeFinder, pattern_matcher
from sonde.semantics.providers import PROVIDERS, find_provider
from sonde.semantics.script_options import Options
from sonde.semantics.typed import Element
from unit.fake_world import KprobeWorld, check_text, findings


def programs(text: str, **options: object) -> list[list[str]]:
    """The names of the attach points of each program."""
    return [[a.name for a in p.attach] for p in check_text(text, **options).probes]


@pytest.mark.parametrize(("point", "names"), [
    ("BEGIN", ["begin"]), ("end", ["end"]), ("self:signal:SIGUSR1", ["self:signal:SIGUSR1"]), ("i:s:1",
                                                                                               ["interval:s:1"]),
    ("interval:1s", ["interval:us:1000000"]), ("interval:s:1", ["interval:s:1"]), ("profile:hz:99", ["profile:hz:99"]),
    ("software:faults:5",
                                                                             ["software:faults:5"]),
    ("s:cpu-clock", ["software:cpu-clock:"]), ("t:sched:sched_switch", ["tracepoint:sched:sched_switch"]),
    ("tracepoint:syscalls:sys_exit_*", ["tracepoint:syscalls:sys_exit_openat", "tracepoint:syscalls:sys_exit_read"]),
    ("t:s*ck:inet*", ["tracepoint:sock:inet_sock_set_state"]), ("rt:sched_switch",
                                                                ["rawtracepoint:vmlinux:sched_switch"]),
    ("rawtracepoint:sched_*", ["rawtracepoint:vmlinux:sched_switch"]), ("uprobe:prog:main", ["uprobe:/bin/prog:main"]),
    ("u:/bin/prog:work+4", ["uprobe:/bin/prog:work+4"]), ("ur:prog:w*", ["uretprobe:/bin/prog:work"]),
    ("uprobe:prog:0x1234", ["uprobe:/bin/prog:0x1234"]),
    ("t:sched:sched_switch,t:sched:sched_wakeup", ["tracepoint:sched:sched_switch", "tracepoint:sched:sched_wakeup"]),
])
def test_expansion(point: str, names: list[str]) -> None:
    assert programs(f"{point} {{ }}") == [names]


@pytest.mark.parametrize(("point", "period"), [
    ("i:s:2", 2 * 10 ** 9), ("i:ms:100", 10 ** 8), ("i:us:5", 5000), ("p:hz:100", 10 ** 7), ("i:1s", 10 ** 9),
    ("i:100ms", 10 ** 8),
    ("i:1000000000", 10 ** 9), ("p:1m", 60 * 10 ** 9), ("s:faults:7", 7), ("h:cycles:1e6", 10 ** 6), ("s:faults", 100),
])
def test_periods(point: str, period: int) -> None:
    assert check_text(f"{point} {{ }}").probes[0].attach[0].period == period


@pytest.mark.parametrize(("point", "code"), [
    ("nonsense:a", "unknown-probe"), ("tracepoint:sched", "probe-form"), ("t:sched:nope", "missing-probe"),
    ("t:nope:*", "missing-probe"), ("rt:nope", "missing-probe"), ("i:s:0", "probe-form"), ("i:s:x", "probe-form"),
    ("i:furlong:1", "probe-form"), ("i", "probe-form"), ("p:hz:0", "probe-form"), ("s:nope", "unknown-event"),
    ("s:faults:x", "probe-form"), ("uprobe:prog", "probe-form"), ("uprobe:nope:x", "missing-probe"),
    ("uprobe:prog:nope", "missing-probe"), ("uprobe:prog:main+99", "outside-function"),
    ("ur:prog:main+4", "probe-form"),
    ("uprobe:prog:0x5", "missing-probe"), ("k:vfs_read", "missing-probe"), ("fentry:vfs_read", "missing-probe"),
    ("BEGIN:x", "probe-form"), ("self:signal:SIGKILL", "probe-form"), ("uprobe:prog:main+x", "probe-form"),
])
def test_wrong_points(point: str, code: str) -> None:
    assert findings(f"{point} {{ }}") == [(code, point)]


@pytest.mark.parametrize(("point", "names"), [
    ("k:vfs_read", ["kprobe:vfs_read"]), ("kprobe:vfs_read+4", ["kprobe:vfs_read+4"]), ("kr:*connect",
                                                                                        ["kretprobe:tcp_connect"]),
    ("k:vmlinux:vfs_read", ["kprobe:vmlinux:vfs_read"]),
])
def test_kprobes_where_the_kernel_has_them(point: str, names: list[str]) -> None:
    checked = check_text(f"{point} {{ }}", KprobeWorld())
    assert [a.name for a in checked.probes[0].attach] == names


def test_missing_probes_may_warn_or_be_ignored() -> None:
    text = "config = {{ missing_probes = {} }} t:sched:nope, BEGIN {{ }}"
    assert findings(text.format("warn")) == [("missing-probe", "t:sched:nope")]
    assert programs(text.format("warn")) == [["begin"]]
    assert findings(text.format("ignore")) == []
    assert [c for c, _ in findings("config = { missing_probes = ignore } t:sched:nope { }")] == ["no-probes"]


@pytest.mark.parametrize("point, code", [("uprobe:prog:main+99", "outside-function"),
                                         ("uprobe:prog:0x5", "missing-probe")])
def test_places_that_cannot_be_probed_are_as_missing(point: str, code: str) -> None:
    text = f"config = {{{{ missing_probes = {{}} }}}} {point}, BEGIN {{{{ }}}}"
    assert findings(text.format("error")) == [(code, point)]
    assert findings(text.format("warn")) == [(code, point)]
    assert findings(text.format("ignore")) == []
    assert programs(text.format("ignore")) == [["begin"]]


def test_points_share_a_program_where_nothing_in_use_differs() -> None:
    assert len(programs("t:syscalls:sys_* { @[probe] = count() }")) == 1
    assert len(programs("t:syscalls:sys_exit_* { @[args.ret] = count() }")) == 1
    assert len(programs("t:sched:* { @[args.pid] = count() }, BEGIN { }".replace(", BEGIN { }", "").replace(
        "t:sched:*", "t:sched:sched_wakeup"))) == 1
    assert len(programs("BEGIN, END { @ = count() }")) == 2
    assert len(programs("uprobe:prog:main, uprobe:prog:work { @[arg0] = count() }")) == 1


def test_points_with_other_arguments_have_programs_of_their_own() -> None:
    checked = check_text("t:syscalls:sys_enter_openat, t:syscalls:sys_enter_execve { @[str(args.filename)] = count() }")
    assert [len(p.attach) for p in checked.probes] == [1, 1]
    assert checked.probes[0].clause is not checked.probes[1].clause
    assert [p.args.name for p in checked.probes if p.args] == ["tracepoint:syscalls:sys_enter_openat_args",
                                                               "tracepoint:syscalls:sys_enter_execve_args"]


def test_a_missing_argument_names_the_point() -> None:
    found = findings("t:sched:* { @[args.prev_pid] = count() }")
    assert found == [("unknown-field", "args.prev_pid")]


def test_limits() -> None:
    assert [c for c, _ in findings("BEGIN { } END { }", env={"BPFTRACE_MAX_PROBES": "1"})] == ["too-many-probes"]
    with pytest.raises(CompileError, match="attach to at least 2 probes"):  # what is behind them was not looked at
        check_text("BEGIN { } END { } self:signal:SIGUSR1 { }", env={"BPFTRACE_MAX_PROBES": "1"})
    assert [c for c, _ in findings("BEGIN { } END { }", env={"BPFTRACE_MAX_BPF_PROGS": "1"})] == ["too-many-programs"]


def test_probe_filter_keeps_begin_and_end() -> None:
    text = "BEGIN { } t:sched:* { } END { }"
    assert programs(text, probe_filter="wakeup") == [["begin"], ["tracepoint:sched:sched_wakeup"], ["end"]]
    assert [c for c, _ in findings(text, probe_filter="(")] == ["probe-filter"]


def test_pid_of_attach_points() -> None:
    checked = check_text("BEGIN, t:sched:sched_switch, u:prog:main, i:s:1, p:hz:9 { }", pid=77)
    assert {a.kind: a.pid for p in checked.probes for a in p.attach} == {
        "begin": 0, "tracepoint": 77, "uprobe": 77, "interval": 0, "profile": 77}


def choice(expression: str, before: str = "") -> Any:
    """``Call.choice`` of a call."""
    checked = check_text(f"profile:hz:9 {{ {before} {expression}; }}", unsafe=True)
    return checked.probes[0].clause.body[-1].expr.choice


@pytest.mark.parametrize(("call", "expected"), [
    ("print(1)", None), ("print(@a)", ("@a", 0, 0)), ("print(@a, 5, 2)", ("@a", 5, 2)), ("clear(@a)", ("@a", 0, 0)),
    ("zero(@a)", ("@a", 0, 0)), ("nsecs(tai)", ("tai",)), ("nsecs()", None), ("pid(init)", ("init",)),
    ("signal(9)", (9,)), ("signal(\"TERM\")", (15,)),
    ("signal(\"term\")", (15,)), ("signal(pid)", (None,)), ("len(@a)", ("@a", 0, 0)),
    ("len(kstack)", None), ("pton(\"1.2.3.4\")", (b"\x01\x02\x03\x04",)),
])
def test_choices_for_the_lowering(call: str, expected: tuple[object, ...] | None) -> None:
    found = choice(call, "@a[1] = 1;")
    assert (None if found is None else found.values()) == expected


def test_delete_in_both_forms() -> None:
    for call in ("delete(@a, 1)", "delete(@a[1])"):
        found = choice(call, "@a[1] = 1;")
        assert isinstance(found, Element) and found.key is not None
        assert found.map == "@a" and found.key.const == 1


@pytest.mark.parametrize(("text", "parts"), [
    ("a%%b", [("a%b", "", "", "")]), ("%d", [("", "d", "", "")]), ("x%-10s|%05lldy", [
        ("x", "", "", ""), ("", "s", "-10", ""), ("|", "", "", ""), ("", "d", "05", "ll"), ("y", "", "", "")]),
    ("%rx%rh%rq%r%gr", [("", conversion, "", "") for conversion in ("rx", "rh", "rq", "r", "gr")]), ("", []),
    ("100%", [("100%", "", "", "")]),
    ("%y %llq", [("%y %llq", "", "", "")]),
    ("%.5s", [("", "s", ".5", "")]), ("%hhx%zu", [("", "x", "", "hh"), ("", "u", "", "z")]),
])
def test_formats(text: str, parts: list[tuple[str, ...]]) -> None:
    found = formats.parse_format(text)
    assert isinstance(found, list)
    assert [p.values() for p in found] == parts


@pytest.mark.parametrize("text", ["%999999999d"])
def test_wrong_formats(text: str) -> None:
    assert isinstance(formats.parse_format(text), str)


@pytest.mark.parametrize(("pattern", "name", "fits"), [
    ("a*c", "abc", True), ("a?c", "abc", False), ("[ab]*", "bx", False), ("*:[](i*)", "v:[](int)", True),
    ("a.*", "abc", False), ("a*b*", "a-b", True), ("*s", "xs_s", True), ("*", "", True), ("a*", "a\nb", True),
])
def test_wildcards(pattern: str, name: str, fits: bool) -> None:
    assert pattern_matcher(pattern)(name) is fits


def test_tables_are_complete() -> None:
    """Every row documents itself, and no name means two things."""
    assert all(row.documentation.endswith(".") for row in BUILTINS.values())
    assert all(row.documentation.endswith(".") and row.name in row.example for row in FUNCTIONS.values())
    assert [row.name for row in PROVIDERS] == list(KINDS)
    names = [name for row in KINDS.values() for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    assert find_provider("kfunc") is find_provider("f") is find_provider("fentry")
    assert not set(BUILTINS) & set(FUNCTIONS)


@pytest.mark.parametrize(("given", "names"), [
    ("t:sched:sched_w*", ["tracepoint:sched:sched_wakeup"]), ("uprobe:prog:main", ["uprobe:/bin/prog:main"]),
    ("begin", ["begin"]),
])
def test_a_parameter_may_be_the_attach_point(given: str, names: list[str]) -> None:
    assert programs("$1 { }", params=[given]) == [names]


def test_a_parameter_without_a_colon_names_functions() -> None:
    found = check_text("$1 { }", KprobeWorld(), params=["vfs_read"])
    assert [a.name for p in found.probes for a in p.attach] == ["kprobe:vfs_read"]
    assert findings("$1 { }", params=["nosuch:thing"]) == [("unknown-probe", "$1")]
    assert findings("kprob { }") == [("unknown-probe", "kprob")]


@pytest.mark.parametrize(("what", "there"), [
    ("tracepoint:sched:sched_switch", 1), ("tracepoint:sched:nope", 0), ("t:sched:*", 1), ("struct sock", 1),
    ("struct nope", 0), ("struct sock.sk_rcvbuf", 1), ("struct sock.__sk_common.skc_family", 1),
    ("struct sock.nope", 0), ("struct sock.sk_rcvbuf.x", 0), ("enum nope", 0), ("kfunc:nope", 0),
    ("kprobe:vfs_read", 0), ("symbol:_text", 1), ("symbol:nope", 0),
])
def test_exists(what: str, there: int) -> None:
    script = check_text(f'begin {{ if (exists("{what}")) {{ print(1); }} else {{ print(0); }} }}')
    [branch] = script.probes[0].clause.body
    assert branch.cond.const == there  # type: ignore[attr-defined]


def test_exists_asks_for_something() -> None:
    assert findings('begin { print(exists("nonsense")); }') == [("bad-argument", '"nonsense"')]


@pytest.mark.parametrize(("predicate", "kept"), [
    ('exists("t:sched:nope")', False), ('!exists("t:sched:sched_switch")', False),
    ('exists("t:sched:nope") && pid == 1', False), ('exists("t:sched:nope") || exists("struct sock")', True),
    ('!exists("t:sched:nope")', True), ('exists("struct sock")', True), ('getopt("off", false)', False),
    ('getopt("off")', False), ('!getopt("on")', False), ('getopt("on", false) && pid == 1', True),
    ('getopt("number", 0)', False), ('getopt("on", false) ? false : pid == 1', False), ('!getopt("off", true)', False),
])
def test_a_clause_that_is_ruled_out_is_not_there(predicate: str, kept: bool) -> None:
    found = programs(f'begin {{ print(getopt("on")); }} i:s:1 /{predicate}/ {{ print(1); }}', named={"on": ""})
    assert found == ([["begin"], ["interval:s:1"]] if kept else [["begin"]])


def test_a_missing_probe_of_such_a_clause_is_none() -> None:
    assert programs('begin { } t:sched:nope /exists("t:sched:nope")/ { print(args.nothing); }') == [["begin"]]
    assert findings('t:sched:nope /pid == 1 || exists("t:sched:nope")/ { }') == [("missing-probe", "t:sched:nope")]


@pytest.mark.parametrize("text", ["x", "1,x", "5-1", "1-2-3", "-1", "0x10", "99999999999999999999"])
def test_what_is_no_list_of_numbers(text: str) -> None:
    assert findings(f'begin {{ print(one_of(pid, "{text}")); }}') == [("bad-parameter", f'"{text}"')]


@pytest.mark.parametrize("form", ["if ({0}) {{ print({1}); }} else {{ print({2}); }}", "print({0} ? {1} : {2});"])
def test_what_a_constant_rules_out_is_not_checked(form: str) -> None:
    there, missing = 'exists("struct sock.sk_rmem")', 'exists("struct sock.nosuch")'
    for test, then, other in ((there, "1", "args.nosuch"), (missing, "args.nosuch", "1"),
                              ('exists("args.prev_pid")', "1", "args.nosuch"),
                              ('exists("args.nosuch")', "args.nosuch", "1")):
        check_text("t:sched:sched_switch { " + form.format(test, then, other) + " }")
        with pytest.raises(CompileError, match="nosuch"):
            check_text("t:sched:sched_switch { " + form.format(test, other, then) + " }")


@pytest.mark.parametrize("text, most", [
    ("profile:hz:50000 { }", 0), ("profile:hz:50001 { }", 50_000), ("interval:us:10 { }", 50_000), ("i:us:999 { }", 0),
    ("profile:ns:100 { }", 50_000), ("profile:15us { }", 50_000), ("software:cpu-clock:1000 { }", 50_000),
    ("software:task-clock:1000 { }", 50_000), ("software:faults:1 { }", 0), ("software:cpu-clock { }", 0),
])
def test_more_samples_than_the_kernel_takes(text: str, most: int) -> None:
    """Of timers and clocks, which count nanoseconds; other events are counted as they come."""
    found = check_text(text).diagnostics.items
    assert [d.code for d in found] == ["sample-rate"] * bool(most)
    assert not most or f"more than the kernel's {most}" in found[0].message and found[0].hints == [
        "sysctl kernel.perf_event_max_sample_rate is 50000"]


def test_no_timer_is_faster_than_the_kernels() -> None:
    class Unlimited(KprobeWorld):
        def sample_limit(self) -> int:
            return 1_000_000

    found = check_text("profile:hz:200000 { }", Unlimited()).diagnostics.items
    assert "more than the kernel's 100000" in found[0].message and "10 us at least" in found[0].hints[0]


def test_only_the_first_missing_names_are_compared_with_many() -> None:
    settings: Any = None
    finder = ProbeFinder(KprobeWorld(), Options(), settings, Diagnostics())
    many = [f"function_{number}" for number in range(MANY + 1)]
    hints = [finder.did_you_mean("kprobe:", f"functiom_{number}", many) for number in range(MOST_COMPARED + 2)]
    assert all(hints[:MOST_COMPARED]) and not any(hints[MOST_COMPARED:])
    assert finder.did_you_mean("kprobe:", "functiom_7", many[:10])


def test_of_fifty_missing_tracepoints_the_first_are_compared_with_all() -> None:
    settings: Any = None
    finder = ProbeFinder(KprobeWorld(), Options(), settings, Diagnostics())
    several = [f"event_{number}" for number in range(SEVERAL + 1)]
    hints = [finder.did_you_mean("tracepoint:", f"evemt_{number}", several) for number in range(FIRST_COMPARED + 2)]
    assert all(hints[:FIRST_COMPARED]) and not any(hints[FIRST_COMPARED:])


def test_raw_tracepoints_are_asked_for_once() -> None:
    asked = []

    class Counted(KprobeWorld):
        def raw_tracepoints(self) -> list[tuple[str, str]]:
            asked.append(1)
            return super().raw_tracepoints()

    text = "".join([f"rawtracepoint:missing{number} {{ }}\n" for number in range(50)])
    with pytest.raises(CompileError):
        check_text(text, Counted())
    assert len(asked) == 1
