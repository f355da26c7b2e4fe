"""What is wrong with a script is said in bpftrace's words, at bpftrace's place: scripts and people look for them."""

from __future__ import annotations

import pytest

from sonde.errors import CompileError
from unit.fake_world import FakeWorld, FentryWorld, KprobeWorld, check_text


def said(text: str, world: FakeWorld | None = None, **options: object) -> list[str]:
    """``columns: SEVERITY: message`` of every finding; one without a place has no columns."""
    try:
        found = check_text(text, world, **options).diagnostics.items
    except CompileError as problem:
        found = problem.diagnostics
    return [f"{str(item.span).partition(':1:')[2]}: " * (item.span is not None) + f"{item.severity}: {item.message}"
            for item in found]


NO_POINTS = "ERROR: Probe has no valid attach points. If this is expected, set the 'missing_probes' config variable " \
            "to 'warn'."
GONE = "WARNING: Probe has no valid attach points. It is being removed which may cause issues with program behavior."


@pytest.mark.parametrize(("point", "message"), [
    ("begin:x", "begin probe type requires 0 arguments, found 1"),
    ("software:", "software probe must have a software event name"), ("test:", "test probes must have a name"),
    ("software:cpu:", "Invalid count for software probe: invalid integer: "),
    ("interval::1", "interval probe must have unit of time"), ("fexit:", "fentry/fexit should specify a function"),
    ("kretprobe:", "kprobes should be attached to a function or an address"),
    ("rawtracepoint:", "rawtracepoint should be attached to a function"),
    ("uprobe::x", "uprobe should have a target"), ("usdt:prog:", "usdt probe must have a target function or wildcard"),
    ("watchpoint:1::w", "Invalid length argument: invalid integer: "),
    ("kprobe:$1", "kprobes should be attached to a function or an address"),
    ("interval:s:$1", "Invalid rate of interval probe: invalid integer: "), ("$1", "No attach points for probe"),
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
    ("uprobe:prog:nope", "No matches for uprobe /bin/prog:nope."),
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


NOT_THERE = 'is not traceable (either non-existing, inlined, or marked as "notrace"); attaching to it will likely fail'


@pytest.mark.parametrize(("text", "expected"), [
    ("kprobe:nope { }", ["1-12: ERROR: No matches for kprobe nope.", f"1-12: WARNING: nope {NOT_THERE}"]),
    ("kretprobe:vmlinux:nope { }",
     ["1-23: ERROR: No matches for kretprobe vmlinux:nope.", f"1-23: WARNING: nope {NOT_THERE}"]),
    ("kprobe:nope { print(probe); }", [f"1-12: {NO_POINTS}", f"1-12: WARNING: nope {NOT_THERE}"]),
    ("begin, kprobe:nope { print(probe); }", [f"8-19: WARNING: nope {NOT_THERE}"]),
    ("kprobe:nomod:vfs_read { }",
     ["1-22: ERROR: specified module nomod in probe kprobe:nomod:vfs_read is not loaded.",
      "1-22: ERROR: No matches for kprobe nomod:vfs_read."]),
    ("kprobe:nomod:vfs* { }", [f"1-18: {NO_POINTS}"]),
    ("config = { missing_probes = warn } kprobe:nope, begin { }",
     [f"36-47: WARNING: nope {NOT_THERE}", "36-47: WARNING: No matches for kprobe nope. Skipping."]),
    ("config = { missing_probes = ignore } kprobe:nope, begin { }", []),
    ("config = { missing_probes = ignore } kprobe:nomod:f, begin { }",
     ["38-52: ERROR: specified module nomod in probe kprobe:nomod:f is not loaded."]),
    ("kprobe:0xffffffff81000123 { }", ["1-26: ERROR: Probing by address requires --unsafe"]),
    ("kretprobe:vfs_read+4 { }", ["1-21: ERROR: Offset not allowed"]),
])
def test_kernel_functions_that_are_missing(text: str, expected: list[str]) -> None:
    assert said(text, KprobeWorld()) == expected


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


@pytest.mark.parametrize(("statements", "where", "message"), [
    # void, of which each user says that it is wrong
    ("$x = 1 + exit()", "1 + exit()", "Type mismatch for '+': comparing int8 with none"),
    ("$x = exit() * exit()", "exit() * exit()", "The * operator can not be used on expressions of types none, none"),
    ("$x = -exit()", "-exit()", "The - operator can not be used on expressions of type 'none'"),
    ("$x = (int8)exit()", "(int8)", 'Cannot cast from "none" type'),
    ("if (exit()) { }", "if (exit()) { }", "Invalid condition: none"),
    ('printf("%d", exit())', 'printf("%d", exit())', "unable to print none type for specifier: d"),
    ("for ($i : 0..exit()) { }", "for ($i : 0..exit()", "Loop range requires an integer for the end value"),
    ("@ = sum(exit())", "sum(exit())", "sum() only supports integer arguments (none provided)"),
    # what is cast or converted to another type
    ("$x = (buffer[4])pid", "(buffer[4])", 'Cannot cast from "uint32" to "buffer[4][4]"'),
    ('$x = (buffer)"a"', "(buffer)", 'Cannot cast from "string[2]" to "buffer[4]"'),
    ("$x = (inet)1", "(inet)", 'Cannot cast from "int8" to "inet[0]"'),
    ("let $a: string = 5", "let $a: string = 5", "Type mismatch for $a: trying to assign value of type 'int8' when "
                                                 "variable already has a type 'string'"),
    ("$x = bswap((1, 2))", "bswap((1, 2))", "bswap() only supports integer arguments (tuple provided)"),
    ('$x = strerror("a")', 'strerror("a")', 'Cannot cast from "string[2]" to "int32"'),
    ("$x = has_key(1, 2)", "has_key(1, 2)", "Call to has_key() has arguments that do not match any definition."),
    ("$x = len(@none)", "len(@none)", "Unknown map: @none"),
    ("$x = kstack(pid)", "kstack(pid)", "kstack: invalid limit value"),
    ("exit(comm)", "exit(comm)", "exit() only supports int arguments (string provided)"),
    ("print(strncmp(1, comm, 1))", "strncmp(1, comm, 1)", "strncmp() only supports string arguments (int provided)"),
    ("print(strncmp(comm, comm, pid))", "strncmp(comm, comm, pid)", "Builtin strncmp requires a non-negative literal"),
    ('print(ksym("a"))', 'ksym("a")', "ksym() expects an integer or pointer argument"),
    ("print(ntop((1, 2)))", "ntop((1, 2))", "ntop() expects an integer or array argument, got tuple"),
    ("time(comm)", "time(comm)", "time() expects a string literal (string provided)"),
    ("clear(1)", "1", "clear() expects a map argument"), ("@[1] = 1; clear(@[1])", "@[1]", "clear() expects a "
                                                                                           "map argument"),
    ("print(strlen())", "strlen()", "Call to strlen() has arguments that do not match any definition."),
    ("print(uid(1))", "uid(1)", "Call to uid() has arguments that do not match any definition."),
    ("exit(1, 2)", "exit(1, 2)", "exit() takes up to one argument (2 provided)"),
    ("@ = sum(comm)", "sum(comm)", "sum() only supports integer arguments (string[16] provided)"),
    ("@ = hist(1, 9)", "hist(1, 9)", "hist: bits 9 must be 0..5"),
    ("@ = lhist(1, 0, pid, 1)", "lhist(1, 0, pid, 1)", "lhist: invalid max value (must be non-negative literal)"),
    ("print(nsecs(foo))", "foo", "Invalid timestamp mode: foo"),
    ("print(pid(1))", "pid(1)", "pid() only supports curr_ns and init as the argument"),
    ("print(kstack(comm()))", "kstack(comm())", "kstack: invalid limit value"),
    ("print(kstack(foo))", "foo", "Error parsing stack mode: kstack: Invalid value for stack_mode: valid values are "
                                  "bpftrace, raw, perf, and build_id."),
    ('printf("%d")', 'printf("%d")', "not enough arguments for format string (0 supplied, 1 expected)"),
    ('printf("%d", comm)', 'printf("%d", comm)', "unsupported format specifier for type 'string[16]': d"),
    ('printf("%r", comm)', 'printf("%r", comm)', "unsupported format specifier for type 'string[16]': r"),
    ("print(arg0)", "arg0", "The arg0 builtin can only be used with 'kprobes', 'uprobes' and 'usdt' probes"),
    ("print(args)", "args", "The args builtin can only be used with tracepoint, rawtracepoint, fentry/fexit, "
                            "and uprobe "
                            "probes (special used here)"),
    ('print(reg("ip"))', 'reg("ip")', 'reg can not be used with "begin" probes'),
    ("signal(9)", "signal(9)", "signal() can not be used for this probetype special"),
    ("$x = 1; $x = comm", "$x = comm", "Type mismatch for $x: trying to assign value of type 'string[16]' when "
                                       "variable "
                                       "already has a type 'int8'"),
    ("@ = 1; @ = (1, comm)", "@ = (1, comm)", "Type mismatch for @: trying to assign value of type '(int8,string[16])' "
                                              "when map already has a type 'int8'"),
    ("@ = 1; @ = true", "@ = true", "Type mismatch for @: trying to assign value of type 'bool' when map already has a "
                                    "type 'int8'"),
    ("@ = count(); @ = sum(1)", "sum(1)", "Type mismatch for @: trying to assign value of type 'sum_t' when map "
                                          "already "
                                          "has a type 'count_t'"),
    ("@ = hist(1); @ = hist(1, 2)", "hist(1, 2)", "Different bits in a single hist unsupported"),
    ("@a = count(); @b = @a", "@b = @a", "Map value 'count_t' cannot be assigned from one map to another. The function "
                                         "that returns this type must be called directly e.g. `@b = count();`."),
    ("@[1] = 1; @[comm] = 2", "@[comm]", "Argument mismatch for @: trying to access with arguments: 'string[16]' when "
                                         "map expects arguments: 'int8'"),
    ("@[1] = 1; @[true] = 2", "@[true]", "Argument mismatch for @: trying to access with arguments: 'bool' when map "
                                         "expects arguments: 'int8'"),
    ("@x = 1; delete(@x, 1)", "delete(@x, 1)", "call to delete() with two arguments expects a map with explicit keys "
                                               "(non-scalar map)"),
    ("@x[1] = 1; delete(@x)", "delete(@x)", "call to delete() with a single argument expects a map without "
                                            "explicit keys "
                                            "(scalar map)"),
    ("let $x: uint8 = 300", "let $x: uint8 = 300", "Type mismatch for $x: trying to assign value of type 'int16' when "
                                                   "variable already has a type 'uint8'"),
    ("let $x = 1; if (pid) { let $x = 2; }", "let $x", "Variable $x was already declared. Variable shadowing is not "
                                                       "allowed."),
    ("break", "break;", "'break' statement is not allowed in a probe"),
    ("return comm", "return comm;", "Probe return values can only be integers. Found string[16]"),
    ("@n = count(); $x = @n ? 1 : 2", "@n ? 1 : 2", "Invalid condition: count_t"),
    ("@n[1] = max(2); if (@n[1]) { }", "if (@n[1]) { }", "Invalid condition: max_t"),
    ("if (comm = \"a\") { }", "=", "syntax: expected ')'"), ("while (pid = 4) { }", "=", "syntax: expected ')'"),
    ("for ($i : 1 + 2) { }", "+", "syntax: expected ')'"), ("for ($i : -1) { }", "-", "syntax: expected expression"),
    ("assert_str(pid)", "assert_str(pid)", "string-like values must be either strings, arrays or pointers"),
    ("if (comm) { }", "if (comm) { }", "Invalid condition: string"), ("unroll (pid) { }", "unroll (pid) { }",
                                                                      "invalid unroll value"),
    ("$x = comm + 1", "comm + 1", "Type mismatch for '+': comparing string[16] with int8"),
    ("$x = comm < comm", "comm < comm", "The < operator can not be used on expressions of types string[16], "
                                        "string[16]"),
    ("$x = -comm", "-comm", "The - operator can not be used on expressions of type 'string[16]'"),
    ("$x = pid ? 1 : comm", "pid ? 1 : comm", "Branches must return the same type or compatible types: have 'int8' and "
                                              "'string[16]'"),
    ("$x = 1 / 0", "1 / 0", "unable to fold literals due to overflow or underflow"),
    ("$x = (uint32)comm", "(uint32)", 'Cannot cast from "string[16]" to "uint32"'),
    ("$x = (string)comm", "(string)", 'Cannot cast from "string[16]" to "string"'),
    ("$x = pid[0]", "pid[0]", "The array index operator [] can only be used on arrays, pointers, and tuples, found "
                              "uint32."),
    ("$x = curtask.nope", "curtask.nope", "Struct/union of type 'struct task_struct' does not contain a field named "
                                          "'nope'"),
    ("$x = (a=1).b", "(a=1).b", "Record does not contain a field named 'b'"),
    ("$x = sizeof(struct nope)", "struct nope", 'Cannot resolve unknown type "struct nope"'),
    ("print(ntop(10, curtask))", "ntop(10, curtask)", "ntop() expects an integer or array argument, got pointer"),
    ("print(1, 2)", "print(1, 2)", "Non-map print() only takes 1 argument, 2 found"),
    ("print(typeinfo(1))", "typeinfo(1)", "typeinfo feature is not enabled by default. To enable this unstable "
                                          "feature, "
                                          "set the config flag to enable. unstable_typeinfo=enable"),
])
def test_programs(statements: str, where: str, message: str) -> None:
    text = f"BEGIN {{ {statements}{'' if statements.endswith('}') else ';'} }}"
    start = text.rindex(where) + 1
    assert said(text)[0] == f"{start}-{start + len(where)}: ERROR: {message}"


NARROW = "WARNING: Expression of type: {} being cast to type: {}. This may cause unexpected results. Use an explicit " \
         "cast to suppress this warning."


@pytest.mark.parametrize(("statements", "message"), [
    ("return; print(1)", "17-26: WARNING: Unreachable statement."),
    ("exit(); print(1)", "17-26: WARNING: Unreachable statement."), ("1", "9-10: WARNING: Return value discarded."),
    ("let $x", "9-15: WARNING: Variable $x was never assigned to."),
    ("let $x: uint8 = nsecs", "25-30: WARNING: Expression of type: uint64 being cast to type: uint8. This may cause "
                              "unexpected results. Use an explicit cast to suppress this warning."),
    ("let $x: uint8 = (int16)-3; print($x)", f"25-32: {NARROW.format('int16', 'uint8')}"),
    ("let $x: int8; $x = 5; $x += 300; print($x)", f"34-40: {NARROW.format('int64', 'int8')}"),
    ("let $x = -5; $x = (uint64)5; print($x)", f"27-35: {NARROW.format('uint64', 'int64')}"),
    ("$a = (uint64)1; $b = -1; print(pid ? $b : $a)", f"51-53: {NARROW.format('uint64', 'int64')}"),
    ("@z = 0; @z = (uint64)@z", "22-30: WARNING: Unnecessary cast: expression is already of type uint64"),
    ("$b = true; print((bool)$b)", "26-32: WARNING: Unnecessary cast: expression is already of type bool"),
    ("print(str($1 + 3))", "19-25: WARNING: literal string will always be empty"),
    ("(int8)pid", "9-15: WARNING: Return value discarded."),
    ("print(cpid)", "15-19: WARNING: No child command (`-c`); cpid is zero"),
    ("@ = tseries(1, 1s, 2)", "WARNING: Script is using an unstable feature: tseries. To prevent this warning you must "
                              "explicitly enable it in the config e.g. unstable_tseries=enable"),
])
def test_warnings(statements: str, message: str) -> None:
    assert said(f"BEGIN {{ {statements}; }}")[0] == message


def test_a_script_that_asks_whether_there_is_a_child_is_not_warned() -> None:
    assert said("BEGIN { if (has_cpid) { print(cpid); } }") == []


@pytest.mark.parametrize(("text", "message"), [
    ("tracepoint:sched:sched_switch { print(args[1]); }", "The array index operator [] can only be used on arrays, "
     "pointers, and tuples, found struct tracepoint:sched:sched_switch_args."),
    ("tracepoint:sched:sched_switch { print(-args); }", "The - operator can not be used on expressions of type 'struct "
     "tracepoint:sched:sched_switch_args'"),
    ("tracepoint:sched:sched_switch { print(args.nope); }", "Struct/union of type 'struct tracepoint:sched:sched_switch"
     "_args' does not contain a field named 'nope'"),
    ("rawtracepoint:sched_switch { print(args.nope); }", "Can't find function parameter nope"),
])
def test_arguments_are_called_after_their_probe(text: str, message: str) -> None:
    assert said(text)[0].partition("ERROR: ")[2] == message


def test_of_while_loops_in_one_another_the_outermost_is_named() -> None:
    found = said("BEGIN { $i = 0; while ($i < 2) { for ($k : 0..2) { while ($i < 1) { $i++; } } $i++; } }")
    assert [line.partition(":")[0] for line in found if "deprecated" in line] == ["17-86"]
    function = "fn f(): uint64 { $i = (uint64)0; while ($i < 2) { $i++; } return $i; }"
    found = said(function + " BEGIN { while (rand < 2) { f(); } }")
    assert len([line for line in found if "deprecated" in line]) == 2  # a function's loops are its own


@pytest.mark.parametrize("statements", [
    'printf("%s %s %s", 1, (1, comm), curtask)', "$x = kstack == kstack", "print(kstack(200))", "$x = (int8[4])1",
    "$x = (string[32])comm", "$x = strerror(curtask)", "print((username_t)0)", "$x = (bool)(1 == 2)",
    "let $x: struct task_struct *; $x = (struct sock *)5; print($x->pid)",
    "print((uint64)sizeof(uint32))", "$i = 3; let $x: uint8 = $i; print($x)",
    "@ = count(); let $x: int8 = @; print($x)",
])
def test_what_bpftrace_takes_too(statements: str) -> None:
    assert said(f"BEGIN {{ {statements}; }}") == []


@pytest.mark.parametrize(("text", "message"), [
    ("", "ERROR: No probes to attach"), ("begin", "6-6: ERROR: syntax: expected '{'"),
    ("begin {", "8-8: ERROR: syntax: expected '}'"), ("begin { print(1", "16-16: ERROR: syntax: expected ')'"),
    ("begin { print(1) print(2) }", "18-23: ERROR: syntax: expected ';'"),
    ("begin /1 { }", "10-11: ERROR: syntax: expected '/' to close predicate"),
    ("{ }", "1-2: ERROR: syntax: expected attach point"),
    ("begin { 1 + ; }", "13-14: ERROR: syntax: expected expression"),
    ("begin { let x = 1; }", "13-14: ERROR: syntax: expected variable after 'let'"),
    ("begin { for (i : 1..2) { } }", "14-15: ERROR: syntax: expected variable in for loop"),
    ("begin { curtask.; }", "17-18: ERROR: syntax: expected field name after '.'"),
    ("begin { if (1) { } $x = 1 ? 2; }", "30-31: ERROR: syntax: expected ':'"),
    ("begin { print(10x); }", "17-18: ERROR: syntax: invalid integer suffix 'x'"),
    ("begin { print(1e30); }",
     "15-19: ERROR: syntax: overflow error, maximum value is 18446744073709551615: 1e30"),
    ("begin { @1x = 1; }", "10-12: ERROR: syntax: expected ';'"),
    ("begin { offsetof(struct task_struct, 5); }", "38-39: ERROR: syntax: expected ')'"),
    ('let @a = hash("x"); begin { }',
     "15-16: ERROR: syntax: expected positive integer for map declaration max entries"),
    ("$1 { print(; }", "12-13: ERROR: syntax: expected expression"),
    ("begin { (a=1, a=2); }", "15-18: ERROR: syntax: Named argument list already contains name: a"),
    ("let $a = 1; begin { }",
     "1-4: ERROR: syntax: root-level let statements need to be map declarations, e.g. let @a = hash(2);"),
    ("config = { x = } begin { }", "16-17: ERROR: syntax: expected string, int, boolean, or ident"),
    ("macro a(x, x) { x } begin { a(1, 2); }",
     "12-13: ERROR: Ident for macro argument has already been used: x"),
    ("macro a(@x) { @x = 1; } begin { a(1); }",
     "33-37: ERROR: Call to a() has arguments that do not match any definition."),
    ("macro m() { return; } begin { }", "13-20: ERROR: 'return' statement is not allowed in a macro"),
    ("macro m() { break; } begin { }", "13-19: ERROR: 'break' statement is not allowed in a macro"),
    ("macro m(x) { m(x) } begin { m(1); }", "14-18: ERROR: Recursive macro call detected. Call chain: m > m"),
    ("macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }",
     "34-38: ERROR: Recursive macro call detected. Call chain: a > b > a"),
    ("macro m(x) { x } macro m(x) { x } begin { m(1); }", "18-25: ERROR: Redefinition of macro: m"),
    ('import "nope"; begin { }', "1-14: ERROR: Unable to find suitable path for import"),
    ("profile:100 { }", "1-12: ERROR: Invalid rate of profile probe. Minimum is 1000 or 1us. Found: 100 nanoseconds"),
    ("begin { let $a: void; }", "17-21: ERROR: Invalid variable declaration type: void"),
])
def test_syntax(text: str, message: str) -> None:
    assert said(text)[0] == message


def test_where_a_macro_was_expanded() -> None:
    text = "macro inner(x) { nosuch(x) }\nmacro outer(y) { inner(y) }\nbegin { $x = m(outer(1)); }\nmacro m(x) { x }"
    with pytest.raises(CompileError) as problem:
        check_text(text)
    lines = problem.value.diagnostics[0].render().splitlines()
    assert [line for line in lines if "ERROR" in line] == [
        "stdin:1:18-27: ERROR: Unknown function: 'nosuch'", "stdin:2:18-26: ERROR: expanded from",
        "stdin:3:16-24: ERROR: expanded from"]
    assert [line for line in lines if not line.startswith("HINT")][-1] == " " * 15 + "~" * 8
    check_text("macro m(x) { x + 1 } begin { print(m(m(1))); }")  # an argument is no recursion


def test_limits_and_the_environment() -> None:
    assert said("config = { max_probes = 0 } begin { }") == [
        "ERROR: Can't attach to 1 probes because it exceeds the current limit of 0 probes."]
    assert said("begin { }", env={"BPFTRACE_MAX_STRLEN": "x"}) == ["ERROR: max_strlen: expecting a number, got x"]


@pytest.mark.parametrize(("text", "expected"), [
    ("kprobe:vfs_read { print(path(arg0)); }",
     "25-35: ERROR: The path function can only be used with 'fentry', 'fexit', 'iter' probes"),
    ("fentry:tcp_connect { print(path(5)); }",
     "28-35: ERROR: path() only supports pointer or C type argument (int provided)"),
    ("fentry:tcp_connect { print(path(args.sk, pid)); }",
     "28-46: ERROR: path: invalid size value, need non-negative literal"),
])
def test_path(text: str, expected: str) -> None:
    assert said(text, KprobeWorld() if text.startswith("kprobe") else FentryWorld()) == [expected]


class OldWorld(FakeWorld):
    """Linux 5.10."""

    def has_feature(self, name: str) -> bool:
        return name != "for_each_map_elem" and super().has_feature(name)


def test_what_the_kernel_lacks_is_said_before_what_comes_of_it() -> None:
    found = said("begin { @a[1] = 2; $most = (int64)-1; for ($pair : @a) { $most = $pair.1; } }", OldWorld())
    assert [text.partition(": ")[2] for text in found] == [
        "ERROR: programs of this kernel cannot go through a map (Linux 5.13)"]
