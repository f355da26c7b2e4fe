"""What the checker refuses: the code of the finding and the text that it points at."""

from __future__ import annotations

import pytest

from compiled import world
from sonde import compiling
from sonde.errors import CompileError
from sonde.language.diagnostics import MAX_SHOWN
from sonde.semantics.script_options import Options
from sonde.source import Diagnostic
from unit.fake_world import check_text, findings


@pytest.mark.parametrize(("statements", "code", "where"), [
    ("print($x)", "undefined-variable", "$x"), ("$x++", "undefined-variable", "$x"),
    ("$x += 1", "undefined-variable", "$x"), ("if (pid) { $y = 1 } print($y)", "undefined-variable", "$y"),
    ("print(@y)", "undefined-map", "@y"), ("let $q", "never-assigned", "let $q"),
    ("clear(@b)", "undefined-map", "@b"), ("$x = 1; $x = comm", "type-mismatch", "$x = comm"),
    ("$x = curtask; $x = 5", "type-mismatch", "$x = 5"),
    ("$x = (struct sock *)0; $x = curtask", "type-mismatch", "$x = curtask"),
    ("@ = 1; @ = comm", "type-mismatch", "@ = comm"), ("@ = count(); @ = 5", "type-mismatch", "@ = 5"),
    ("@ = count(); @ = sum(1)", "type-mismatch", "sum(1)"), ("@ = count(); @++", "type-mismatch", "@++"),
    ("@ = count(); @ += 1", "type-mismatch", "@ += 1"), ("@ = hist(1); @ = hist(1, 2)", "type-mismatch", "hist(1, 2)"),
    ("@[1] = 1; @[comm] = 2", "key-mismatch", "@[comm]"), ("@[1] = 1; @[1, 2] = 2", "key-mismatch", "@[1, 2]"),
    ("@ = 1; @[1] = 1", "map-key", "@[1]"), ("@[1] = 1; @ = 1", "map-key", "@"),
    ("@ = 1; for ($kv : @) { }", "map-key", "@"), ("$x = count()", "aggregate-value", "count()"),
    ("print(count())", "aggregate-value", "count()"), ("@ = hist(1); $x = @", "aggregate-value", "$x = @"),
    ("$x = printf(\"\")", "no-value", "$x = printf(\"\")"), ("@ = exit()", "no-value", "@ = exit()"),
    ("foo()", "unknown-function", "foo()"), ("print(foo)", "unknown-identifier", "foo"),
    ("quantize(1)", "unknown-function", "quantize(1)"),
    ("printf(\"%d %d\", 1)", "format-arguments", "printf(\"%d %d\", 1)"),
    ("printf(\"%d\", 1, 2)", "format-arguments", "printf(\"%d\", 1, 2)"),
    ("printf(\"%d\", comm)", "format-type", "printf(\"%d\", comm)"), ("printf(\"%s\", 1)", "", ""),
    ("printf(\"%r\", 1)", "format-type", "printf(\"%r\", 1)"), ("buf(\"abc\")", "arity", "buf(\"abc\")"),
    ("printf(comm)", "bad-argument", "printf(comm)"), ("str()", "arity", "str()"),
    ("buf(1, 2, 3)", "arity", "buf(1, 2, 3)"),
    ("1.5 + 1", "floating-point", "1.5 + 1"), ("str((1, 2))", "bad-argument", "str((1, 2))"),
    ("exit(comm)", "bad-argument", "exit(comm)"), ("buf(1)", "arity", "buf(1)"), ("clear(1)", "bad-argument", "1"),
    ("@[1] = 1; clear(@[1])", "bad-argument", "@[1]"), ("_ = ntop(comm)", "", ""),
    ("_ = ntop(5, comm)", "", ""), ("ntop((1, 2))", "bad-argument", "ntop((1, 2))"),
    ("macaddr(kstack)", "bad-argument", "macaddr(kstack)"), ("pton(\"1.2\")", "bad-argument", "pton(\"1.2\")"),
    ("kaddr(\"nope\")", "unknown-symbol", "kaddr(\"nope\")"),
    ("strncmp(comm, \"a\", pid)", "bad-argument", "strncmp(comm, \"a\", pid)"),
    ("@ = hist(1, 9)", "bad-argument", "hist(1, 9)"), ("@ = lhist(1, 10, 5, 1)", "bad-argument", "lhist(1, 10, 5, 1)"),
    ("unwatch(1)", "not-supported", "unwatch(1)"), ("system(\"ls\")", "unsafe", "system(\"ls\")"),
    ("signal(9)", "function-probe", "signal(9)"), ("nsecs(foo)", "bad-argument", "foo"),
    ("kstack(foo)", "bad-argument", "foo"), ("print(kstack(-1))", "bad-argument", "kstack(-1)"),
    ("pid(1, 2)", "arity", "pid(1, 2)"), ("uid(1)", "arity", "uid(1)"), ("ppid(5)", "bad-argument", "ppid(5)"),
    ("print(args)", "builtin-probe", "args"), ("print(retval)", "builtin-probe", "retval"),
    ("print(arg0)", "builtin-probe", "arg0"), ("print(func)", "builtin-probe", "func"),
    ("reg(\"ip\")", "function-probe", "reg(\"ip\")"), ("$x = 1 / 0", "division-by-zero", "1 / 0"),
    ("$x = pid << 64", "bad-shift", "pid << 64"),
    ("$x = 0xffffffffffffffff * 2", "overflow", "0xffffffffffffffff * 2"),
    ("$x = comm + 1", "bad-operand", "comm + 1"), ("$x = -comm", "bad-operand", "-comm"),
    ("$x = !comm", "bad-operand", "!comm"), ("$x = comm && 1", "type-mismatch", "comm && 1"),
    ("$x = comm < \"a\"", "type-mismatch", "comm < \"a\""), ("$x = comm == 5", "type-mismatch", "comm == 5"),
    ("$t = (1, 2); $x = $t == (1, 2, 3)", "type-mismatch", "$t == (1, 2, 3)"),
    ("$x = pid ? 1 : comm", "type-mismatch", "pid ? 1 : comm"), ("$x = comm ? 1 : 2", "bad-condition", "comm ? 1 : 2"),
    ("if (comm) { }", "bad-condition", "if (comm) { }"), ("unroll (comm) { }", "not-constant", "unroll (comm) { }"),
    ("unroll (101) { }", "bad-unroll", "unroll (101) { }"), ("unroll (0) { }", "bad-unroll", "unroll (0) { }"),
    ("unroll (pid) { }", "not-constant", "unroll (pid) { }"), ("break", "outside-loop", "break;"),
    ("if (1) { continue }", "outside-loop", "continue"), ("return comm", "bad-return", "return comm;"),
    ("for ($i : 0..comm) { }", "bad-range", "for ($i : 0..comm"), ("$i = 1; for ($i : 0..2) { }", "redeclared", "$i"),
    ("let $a = 1; let $a = 2", "redeclared", "let $a"), ("let $a: uint8 = 300", "out-of-range", "let $a: uint8 = 300"),
    ("let $a: uint8 = nsecs", "sign-mismatch", "nsecs"), ("let $a: nonsense = 1", "unknown-type", "nonsense"),
    ("$x = (1, 2).5", "tuple-index", "(1, 2).5"), ("$x = pid.0", "not-a-tuple", "pid.0"),
    ("$x = (a=1).b", "unknown-field", "(a=1).b"), ("$x = pid[0]", "not-an-array", "pid[0]"),
    ("$x = comm[comm]", "not-an-integer", "comm[comm]"), ("$x = comm[16]", "array-bounds", "comm[16]"),
    ("$x = *comm", "not-a-pointer", "*comm"), ("$x = *(void *)0", "not-a-pointer", "*(void *)0"),
    ("$x = &1", "bad-operand", "1"), ("$x = pid.foo", "not-a-struct", "pid.foo"),
    ("$x = curtask.pidd", "unknown-field", "curtask.pidd"),
    ("$x = (struct nope *)0; $y = $x.a", "unknown-type", "struct nope *"),
    ("$x = sizeof(struct nope)", "unknown-type", "struct nope"), ("$x = (uint32)(1, 2)", "bad-cast", "(uint32)"),
    ("$x = (struct sock)0", "bad-cast", "(struct sock)"),
    ("$x = offsetof(struct sock, nope)", "unknown-field", "offsetof(struct sock, nope)"),
    ("static_assert(1 == 2, \"no\")", "static-assert", "static_assert(1 == 2, \"no\")"),
    ("fail(\"bad %d\", 5)", "fail", "fail(\"bad %d\", 5)"), ("$x = comptime pid", "not-constant", "comptime pid"),
    ("delete(@x[1])", "undefined-map", "@x[1]"), ("@x = 1; has_key(@x, 1)", "map-key", "has_key(@x, 1)"),
    ("len(5)", "bad-argument", "len(5)"), ("@x = 1; len(@x)", "map-key", "len(@x)"),
    ("path(curtask)", "function-probe", "path(curtask)"), ("@x[count()] = 1", "aggregate-value", "count()"),
    ("@x[printf(\"\")] = 1", "no-value", "@x[printf(\"\")]"),
])
def test_refused(statements: str, code: str, where: str) -> None:
    found = findings(f"BEGIN {{ {statements}{'' if statements.endswith('}') else ';'} }}")
    assert found[:1] == ([(code, where)] if code else [])


def test_one_mistake_is_reported_once() -> None:
    assert findings("BEGIN { $x = foo(); print($x); @y = $x; print(@z) }")[0][0] == "unknown-function"
    assert len(findings("t:syscalls:sys_e* { $x = bar; print($x) }")) == 1


def test_predicate() -> None:
    assert findings("BEGIN /comm/ { }") == [("bad-condition", "/comm/")]
    assert findings("BEGIN /curtask && pid == 5/ { }") == []


@pytest.mark.parametrize(("text", "hint"), [
    ("BEGIN { prinf(1) }", "printf"), ("BEGIN { print(nsec) }", "nsecs"), ("BEGIN { @total = 1; print(@totals) }",
                                                                           "@total"),
    ("BEGIN { $count = 1; print($coun) }", "$count"), ("t:sched:sched_swich { }", "tracepoint:sched:sched_switch"),
    ("BEGIN { print(curtask.com) }", "comm"), ("BEGIN { $x = (struct socks *)0; $y = sizeof(struct socks) }",
                                               "struct sock"),
    ("trcepoint:a:b { }", "tracepoint"), ("uprobe:prog:wrk { }", "uprobe:/bin/prog:work"),
    ("t:sock:inet_sock_set_state { print(newstate) }", "args.newstate"), ("config = { max_map_key = 1 } BEGIN { }",
                                                                          "max_map_keys"),
    ("t:sched:sched_switch { print(args.prev_com) }", "prev_comm"), ("k:tcp_connect { }",
                                                                     "tracepoint:sock:inet_sock_set_state"),
    ("k:vfs_read { }", "tracepoint:syscalls:sys_enter_read"), ("kr:__x64_sys_openat { }",
                                                               "tracepoint:syscalls:sys_exit_openat"),
    ("t:foo:sched_switch { }", "tracepoint:sched:sched_switch"),
])
def test_suggestions(text: str, hint: str) -> None:
    with pytest.raises(CompileError) as caught:
        check_text(text)
    assert any(hint in line for line in caught.value.diagnostics[0].hints)


@pytest.mark.parametrize(("entry", "name", "value"), [
    ("max_strlen = 64", "max_strlen", 64), ("BPFTRACE_MAX_MAP_KEYS = 10", "max_map_keys", 10), ("missing_probes = warn",
                                                                                              "missing_probes", "warn"),
    ("print_maps_on_exit = false", "print_maps_on_exit", False),
    ("print_maps_on_exit = no", "print_maps_on_exit", False),
    ("print_maps_on_exit = 00", "print_maps_on_exit", False), ("print_maps_on_exit = on", "print_maps_on_exit", True),
    ("stack_mode = perf", "stack_mode", "perf"),
    ("license = \"Dual BSD/GPL\"", "license", "Dual BSD/GPL"), ("strlen = 32", "max_strlen", 32),
    ("unstable_map_decl = enable", "max_strlen", 1024),
])
def test_config(entry: str, name: str, value: object) -> None:
    assert getattr(check_text(f"config = {{ {entry} }} BEGIN {{ }}").config, name) == value


@pytest.mark.parametrize(("entry", "code"), [
    ("max_strlen = a", "config-value"), ("missing_probes = maybe", "config-value"), ("nonsense = 1", "unknown-config"),
    ("license = MIT", "config-value"), ("max_strlen = 100000000", "config-value"), ("vmlinux = x",
                                                                                    "config-environment"),
])
def test_wrong_config(entry: str, code: str) -> None:
    assert [c for c, _ in findings(f"config = {{ {entry} }} BEGIN {{ }}")] == [code]


def test_the_environment_wins() -> None:
    env = {"BPFTRACE_MAX_STRLEN": "99", "SONDE_STACK_MODE": "raw", "PATH": "/bin", "BPFTRACE_COLOR": "auto"}
    config = check_text("config = { max_strlen = 5; stack_mode = perf } BEGIN { }", env=env).config
    assert (config.max_strlen, config.stack_mode) == (99, "raw")
    assert [c for c, _ in findings("BEGIN { }", env={"BPFTRACE_MAX_STRLEN": "x"})] == ["config-value"]


@pytest.mark.parametrize(("text", "code"), [
    ("let @a = hsh(5); BEGIN { @a[1] = 1 }", "unknown-map-kind"), ("let @a = hash(0); BEGIN { @a[1] = 1 }", "bad-size"),
    ("struct a { struct b x; }; struct b { int y; }; BEGIN { }", "incomplete-type"),
    ("struct a { int x; }; struct a { int y; }; BEGIN { }", "redefinition"),
    ("enum a { X }; enum b { Y, X }; BEGIN { }", "redefinition"),
    ("enum a { X, X }; BEGIN { }", "redefinition"),
    ("enum a { X }; enum a { Y }; BEGIN { }", "redefinition"),
    ("struct a { enum { X } x; enum { X } y; }; BEGIN { }", "redefinition"),
    ("typedef int a; typedef long a; BEGIN { }", "redefinition"),
])
def test_declarations(text: str, code: str) -> None:
    assert findings(text)[0][0] == code


def test_unsafe_functions_with_unsafe() -> None:
    checked = check_text("profile:hz:9 { system(\"echo %d\", pid); signal(\"KILL\"); }", unsafe=True)
    calls = [s.expr for s in checked.probes[0].clause.body]
    assert calls[1].choice.number == 9
    assert [p.conversion or p.literal for p in calls[0].choice.parts] == ["echo ", "d"]


def shown(text: str) -> list[Diagnostic]:
    """The findings of a script that is refused, with their hints."""
    with pytest.raises(CompileError) as raised:
        check_text(text)
    return list(raised.value.diagnostics)


def test_only_the_first_errors_are_shown_and_the_others_counted() -> None:
    found = shown("BEGIN { @maps = 1; " + "".join(f"print(@map{i}); " for i in range(60)) + "}")
    assert [item.message for item in found] == [f"Undefined map: @map{i}" for i in range(MAX_SHOWN)]
    assert found[0].hints == ["did you mean @maps?"] and found[-1].hints[-1] == f"and {60 - MAX_SHOWN} more errors"


def test_what_does_not_settle_is_said_alone_at_a_map_of_the_chain() -> None:
    chain = "".join(f"let $x{i} = @m{i + 1}; @m{i} = $x{i}; " for i in range(300))
    (found,) = shown(f"BEGIN {{ {chain} @m300 = 1; }}")
    assert found.code == "unsettled" and found.span is not None and found.span.text.startswith("@m")


@pytest.mark.parametrize("name", ["SIG_BLOCK", "sig_setmask", "_BLOCK"])
def test_constants_of_signal_masks_are_no_signals(name: str) -> None:
    with pytest.raises(CompileError) as caught:
        check_text(f'profile:hz:9 {{ signal("{name}"); }}', unsafe=True)
    assert "Invalid string for signal" in caught.value.diagnostics[0].message


@pytest.mark.parametrize("kind", ["test", "bench"])
def test_exercises_alone_can_be_checked(kind: str) -> None:
    text = f"{kind}:x {{ print(1); }}"
    assert compiling.compile(text, Options(exercises=True), world()).probes
    with pytest.raises(CompileError, match="No probes attached; use --"):
        compiling.compile(text, Options(), world())


def test_negative_literals_compare() -> None:
    for condition in ("!(-1 < -2)", "-2 < -1", "-1 == -1", "-1 >= -1", "-1 != -2", "!(-1 <= -2)"):
        compiling.compile(f'begin {{ static_assert({condition}, ""); }}', Options(), world())


@pytest.mark.parametrize(("text", "hint"), [
    ("begin { printf('x'); }", "double quotes"),
    ('begin { printf("x\n"); }', "raw string"),
])
def test_hints_of_common_mistakes(text: str, hint: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiling.compile(text, Options(), world())
    assert any(hint in line for item in caught.value.diagnostics for line in item.hints)


@pytest.mark.parametrize(("text", "at", "other", "note"), [
    ('begin { $a = 1; $a = "s"; }', '$a = "s"', "$a = 1", "$a holds an integer since here"),
    ('begin { @a = "s"; @a = (1, 2); }', "@a = (1, 2)", '@a = "s"', "@a holds a string since here"),
    ("begin { @a = count(); @a = 1; }", "@a = 1", "@a = count()", "@a holds count() since here"),
    ('begin { @a[1] = 1; @a["s"] = 1; }', '@a["s"]', "@a[1]", "its key is an integer here"),
    ("begin { @a[1] = 1; print(@a + 1); }", "@a", "@a[1]", "@a has a key here"),
    ("begin { @a = 1; print(@a[2]); }", "@a[2]", "@a", "@a has no key here"),
    ("begin { if (1) { print(1);", "", "{", "this { is not closed"),
    ("begin { print(1); /* open }", "", "/*", "the comment begins here"),
    ('begin { print("open); }', "", '"', "the string begins here"),
])
def test_both_places_are_shown_where_two_clash(text: str, at: str, other: str, note: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiling.compile(text, Options(), world())
    finding = caught.value.diagnostics[0]
    assert finding.span is not None and finding.span.text == at
    assert [(each.span.text, each.message) for each in finding.notes] == [(other, note)]
    assert f"NOTE: {note}\n" in finding.render() + "\n"


@pytest.mark.parametrize(("text", "hint"), [
    ("begin { for ($i = 0; $i < 5; $i++) { } }", "write for ($i : 0..5) { ... }"),
    ("begin { for (int i = 0; i <= 4; i++) { } }", "write for ($i : 0..4 + 1) { ... }"),
    ("begin { for (k in @x) { } }", "a variable has a $: $k"),
    ("begin { int x = 5; }", "a variable has a $ and takes its type from its value: $x = 1;"),
    ("begin { x = 5; }", "a variable has a $, a map an @: $x = ..., or @x = ..."),
    ("begin { let x = 5; }", "a variable has a $: $x"),
    ("begin { if (1) { } elsif (2) { } }", "write else if for elsif"),
    ("begin { if (1): print(1); }", "a block stands in braces: if (condition) { ... }"),
    ("begin { if (1) then { } }", "there is no then: if (condition) { ... }"),
    ('begin { printf "%d", 1; }', 'a function has its arguments in parentheses: printf("%d", 1)'),
    ("begin { print(1) }; end { }", "no ; stands after the } of a probe"),
    ("begin { print(1) }}", "there is a } too many"),
    ("begin if (pid == 1) { exit() }", "a condition for the whole block stands between slashes: "
     "begin /pid == 1/ { ... }"),
    ("begin /pid == 1 { exit() }", "a / is missing after the condition"),
    ("begin { $x := 1; }", "write = for :="),
    ("begin { if (pid === 1) { } }", "write == for ==="),
    ("begin { if (pid <> 1) { } }", "write != for <>"),
    ("begin { @[pid = count(); }", "a ] is missing"),
    ("begin { if (pid == 1 { } }", "a ) is missing"),
    ("begin { $x = pid ? 1; }", "a choice has two values: condition ? value : other"),
    ("begin { @x = 1\ntracepoint:a:b { } }", "a probe cannot start within a block: is a } missing before it?"),
    ("def f() { }", "a function stands outside of probes: fn name($x : int64) : int64 { return $x; }"),
    ("begin { @x = 1; print($x); }", "did you mean @x?"), ("begin { print($pid); }", "did you mean pid? It is a "
                                                           "builtin, without the $"),
    ("begin { print(True); }", "use true"), ("begin { println(1); }", "use print()"),
    ("fbt::vfs_read:entry { }", "kprobe:FUNCTION is the entry of a kernel function, kretprobe:FUNCTION its return"),
    ("sched:sched_switch { }", "did you mean tracepoint:sched:sched_switch?"),
    ("tracepoint:sched { }", "tracepoint:sched:* is all that it has; sonde -l 'tracepoint:sched:*' lists them"),
    ("begin { $t = (1, 2); print($t.5); }", "the first is .0, the last .1"),
    ('begin { print(comm + 1); }', "1 is a number, comm a string"),
    ("begin { if (!comm) { } }", 'comm == "" asks whether it is empty'),
    ("begin { printf(\"%d\", 1, pid); }", "nothing in the format prints pid: add %d for a number, %s for text"),
])
def test_what_is_meant_by_words_from_elsewhere(text: str, hint: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiling.compile(text, Options(), world())
    assert hint in [line for item in caught.value.diagnostics for line in item.hints]


def test_addresses_of_texts_are_not_printed_in_silence() -> None:
    spec = compiling.compile('tracepoint:syscalls:sys_enter_openat { printf("%s %p", args.filename, args.filename); '
                             'printf("%s", str(args.filename)); }', Options(), world())
    assert [item.code for item in spec.warnings] == ["text-address"]
