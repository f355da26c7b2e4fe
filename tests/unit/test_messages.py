"""What is wrong with a script is said in bpftrace's words, at bpftrace's place: scripts and people look for them."""

from __future__ import annotations

import pytest

from sonde.errors import CompileError
from unit.fake_world import check_text


def said(text: str, **options: object) -> list[str]:
    """``columns: SEVERITY: message`` of every finding; one without a place has no columns."""
    try:
        found = check_text(text, **options).diagnostics.items
    except CompileError as problem:
        found = problem.diagnostics
    return [f"{str(item.span).partition(':1:')[2]}: " * (item.span is not None) + f"{item.severity}: {item.message}"
            for item in found]


NO_POINTS = "ERROR: Probe has no valid attach points. If this is expected, set the 'missing_probes' config variable " \
            "to 'warn'."
GONE = "WARNING: Probe has no valid attach points. It is being removed which may cause issues with program behavior."


@pytest.mark.parametrize(("point", "message"), [
    ("begin:x", "begin probe type requires 0 arguments, found 1"),
    ("kprobe", "kprobe probe type requires 1 or 2 arguments, found 0"),
    ("kprobe:", "kprobes should be attached to a function or an address"),
    ("kprobe:f+", "Invalid offset"), ("kprobe:f+a", "Invalid offset: invalid integer: a"),
    ("kretprobe:f+5", "Offset not allowed"),
    ("fentry:a:b:c", "Only the 'bpf' variant of this probe supports 4 arguments"),
    ("tracepoint:sched", "tracepoint probe type requires 2 arguments, found 1"),
    ("tracepoint:sched:", "tracepoint probe must have a target"),
    ("tracepoint:sched:nope", "No matches for tracepoint sched:nope."),
    ("TRACEPOINT:sched:nope", "No matches for tracepoint sched:nope."),
    ("rawtracepoint:a:b:c", "rawtracepoint probe type requires 2 or 1 arguments, found 3"),
    ("uprobe:prog", "uprobe probe type requires 2 or 3 arguments, found 1"),
    ("uprobe:prog:", "uprobe should be attached to a function and/or address"),
    ("uprobe:prog:nope", "No matches for uprobe prog:nope."),
    ("uprobe:prog:main+x", "Invalid offset: invalid integer: x"),
    ("uprobe:/bin/nope:x", "uprobe target file '/bin/nope' does not exist or is not executable"),
    ("usdt:nope:a:b", "usdt target file 'nope' does not exist or is not executable"),
    ("interval:s:0", "interval frequency should be a positive integer"),
    ("interval:s:x", "Invalid rate of interval probe: invalid integer: x"),
    ("interval:1x", "Invalid rate of interval probe: invalid trailing bytes: 1x"),
    ("profile:foo:1", "foo is not an accepted unit of time"),
    ("software:nope:1", "nope is not a software probe"),
    ("software:*", "wildcards are not allowed for software probe type"),
    ("hardware:cycles:x", "Invalid count for hardware probe: invalid integer: x"),
    ("watchpoint:0:8:w", "watchpoint must be attached to a non-zero address"),
    ("watchpoint:a:8:w", "Invalid function/address argument: invalid integer: a"),
    ("iter:nope", "iter nope not available for your kernel version."),
    ("self:signal:SIGKILL", "SIGKILL is not a supported signal"), ("self:x:y", "x is not a supported trigger"),
])
def test_attach_points(point: str, message: str) -> None:
    assert said(f"{point} {{ }}") == [f"1-{len(point) + 1}: ERROR: {message}"]


@pytest.mark.parametrize(("text", "expected"), [
    ("t:sched:nope* { }", [f"1-14: {NO_POINTS}"]), ("t:sched:nope*, rt:no* { }", [f"1-22: {NO_POINTS}"]),
    ("t:sched:nope*, begin { }", []),  # a pattern need not match
    ("t:sched:nope, begin { }", ["1-13: ERROR: No matches for tracepoint sched:nope."]),
    ("config = { missing_probes = warn } t:sched:nope, begin { }",
     ["36-48: WARNING: No matches for tracepoint sched:nope. Skipping."]),
    ("config = { missing_probes = warn } t:sched:nope { } begin { }",
     ["36-48: WARNING: No matches for tracepoint sched:nope. Skipping.", f"36-48: {GONE}"]),
    ("config = { missing_probes = warn } t:sched:nope* { } begin { }", [f"36-49: {GONE}"]),
    ("config = { missing_probes = ignore } t:sched:nope* { }", ["ERROR: No probes to attach"]),
])
def test_missing_probes(text: str, expected: list[str]) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("entry", "message"), [
    ("max_map_keys = a", "ERROR: max_map_keys: expecting a number, got a"),
    ("nope = 1", "ERROR: nope: not a known configuration option"),
    ("unstable_nope = enable", "ERROR: unstable_nope: not a known configuration option"),
    ("vmlinux = x", "ERROR: vmlinux: can only be set as an environment variable"),
    ("stack_mode = nope", "ERROR: stack_mode: Invalid value for stack_mode: valid values are bpftrace, raw, perf, and "
                          "build_id."),
    ("unstable_tseries = x", "ERROR: unstable_tseries: Invalid value for unstable config: valid values are enable, "
                             "warn, and error."),
    ("print_maps_on_exit = maybe", "ERROR: print_maps_on_exit: Invalid bool value: valid values are true, false, 1 or "
                                   "0."),
    ("strlen = 10", "WARNING: strlen has been renamed, please use max_strlen"),
    ("unstable_map_decl = enable", "WARNING: unstable_map_decl is deprecated and has no effect"),
])
def test_config(entry: str, message: str) -> None:
    assert said(f"config = {{ {entry} }} begin {{ }}") == [f"12-{12 + len(entry)}: {message}"]


def test_limits_and_the_environment() -> None:
    assert said("config = { max_probes = 0 } begin { }") == [
        "ERROR: Can't attach to 1 probes because it exceeds the current limit of 0 probes."]
    assert said("begin { }", env={"BPFTRACE_MAX_STRLEN": "x"}) == ["ERROR: max_strlen: expecting a number, got x"]
