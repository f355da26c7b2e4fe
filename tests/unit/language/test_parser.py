"""Scripts to trees."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.errors import CompileError
from sonde.language import ast
from sonde.language.diagnostics import Diagnostics
from sonde.language.dump import type_text
from sonde.language.parser import parse_expression, parse_script
from sonde.source import Source


def script(text: str, *params: str) -> ast.Script:
    diagnostics = Diagnostics()
    found = parse_script(Source("stdin", text), diagnostics, params)
    diagnostics.raise_if_errors()
    return found


def points(text: str, *params: str) -> list[list[str]]:
    return [point.parts for clause in script(text, *params).clauses for point in clause.points]


def body(text: str) -> list[ast.Stmt]:
    return script(f"begin {{ {text} }}").clauses[0].body


def show(node: Any) -> str:
    """A tree as an S-expression."""
    match node:
        case ast.IntLiteral() | ast.BoolLiteral():
            return str(node.value)
        case ast.StrLiteral():
            return repr(node.value)
        case ast.Name():
            return node.name
        case ast.Variable():
            return "$" + node.name
        case ast.Positional():
            return f"${node.number or '#'}"
        case ast.MapRef():
            return node.name + (f"[{show(node.key)}]" if node.key else "")
        case ast.Call():
            return f"{node.name}({', '.join(map(show, node.args))})"
        case ast.TypeSyntax():
            return f"<{type_text(node)}>"
        case ast.Unary():
            return f"({show(node.operand)} {node.op})" if node.postfix else f"({node.op} {show(node.operand)})"
        case ast.Binary():
            return f"({show(node.left)} {node.op} {show(node.right)})"
        case ast.Ternary():
            return f"({show(node.cond)} ? {show(node.then) if node.then else ''} : {show(node.other)})"
        case ast.FieldAccess():
            return f"{show(node.operand)}{'->' if node.arrow else '.'}{node.name}"
        case ast.TupleAccess():
            return f"{show(node.operand)}.{node.index}"
        case ast.Index():
            return f"{show(node.operand)}[{show(node.index)}]"
        case ast.Cast():
            return f"{show(node.to)}{show(node.operand)}"
        case ast.TupleExpr():
            names = [n + "=" for n in node.names] or [""] * len(node.items)
            return f"({', '.join(n + show(i) for n, i in zip(names, node.items))},)"
        case ast.SizeOf():
            return f"sizeof {show(node.what)}"
        case ast.OffsetOf():
            return f"offsetof {show(node.what)} {'.'.join(node.path)}"
        case ast.BlockExpr():
            return "{" + " ".join([show(s) for s in node.body] + ([show(node.value)] if node.value else [])) + "}"
        case _:
            return show_statement(node)


def show_statement(node: Any) -> str:
    match node:
        case ast.ExprStmt():
            return ("_ = " if node.discard else "") + show(node.expr) + ";"
        case ast.Assign():
            return f"{show(node.target)} {node.op} {show(node.value)};"
        case ast.VarDecl():
            declared = f": {type_text(node.declared)}" if node.declared else ""
            return f"let {show(node.target)}{declared}" + (f" = {show(node.value)};" if node.value else ";")
        case ast.Block():
            return f"{{{block(node.body)}}}"
        case ast.If():
            other = f" else {{{block(node.other)}}}" if node.other else ""
            return f"if {show(node.cond)} {{{block(node.then)}}}{other}"
        case ast.While():
            return f"while {show(node.cond)} {{{block(node.body)}}}"
        case ast.Unroll():
            return f"unroll {show(node.count)} {{{block(node.body)}}}"
        case ast.For():
            over = show(node.start) + (f"..{show(node.end)}" if node.end else "")
            return f"for {show(node.variable)} : {over} {{{block(node.body)}}}"
        case ast.Return():
            return f"return {show(node.value)};" if node.value else "return;"
        case ast.Break() | ast.Continue():
            return type(node).__name__.lower() + ";"
    raise AssertionError(node)


def block(statements: list[ast.Stmt]) -> str:
    return " ".join(map(show, statements))


def expr(text: str) -> str:
    diagnostics = Diagnostics()
    found = parse_script(Source("stdin", f"begin {{ $result = {text}; }}"), diagnostics)
    diagnostics.raise_if_errors()
    statement = found.clauses[0].body[0]
    assert isinstance(statement, ast.Assign)
    return show(statement.value)


# --- attach points ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "parts"), [
    ("BEGIN", ["BEGIN"]),
    ("tracepoint:sched:sched_switch", ["tracepoint", "sched", "sched_switch"]),
    ("kprobe:tcp_*", ["kprobe", "tcp_*"]),
    ("k:[ab]?c+0x10", ["k", "[ab]?c+0x10"]),
    ("uprobe:/bin/bash:readline", ["uprobe", "/bin/bash", "readline"]),
    ("uprobe:./a.out:cpp:\"ns::f(int, char)\"", ["uprobe", "./a.out", "cpp", "ns::f(int, char)"]),
    ("uprobe:/bin/sh:\"a:b\"", ["uprobe", "/bin/sh", "a:b"]),
    ("uprobe:\"/path with space\":fn", ["uprobe", "/path with space", "fn"]),
    ("u:lib/x/*.so:f", ["u", "lib/x/*.so", "f"]),
    ("usdt:*:loop", ["usdt", "*", "loop"]),
    ("usdt::p:n", ["usdt", "", "p", "n"]),
    ("uprobe:./go:github.com/a/b.Func", ["uprobe", "./go", "github.com/a/b.Func"]),
    ("uprobe:/x.zip!/lib/libc.so:f(a,b)", ["uprobe", "/x.zip!/lib/libc.so", "f(a,b)"]),
    ("watchpoint:0x10000000:8:w", ["watchpoint", "0x10000000", "8", "w"]),
    ("interval:1s", ["interval", "1s"]),
    ("iter:task_file:/sys/fs/bpf/files", ["iter", "task_file", "/sys/fs/bpf/files"]),
    ("software:faults:", ["software", "faults", ""]),
    ("uprobe:/x:@file.c:12", ["uprobe", "/x", "@file.c", "12"]),
    ("config:x", ["config", "x"]),
    ("structs:x", ["structs", "x"]),
])
@pytest.mark.parametrize("behind", [" { }", "{}", "\n{ }", " // c\n{}", " /pid == 1/ {}", "\n/1/\n{}"])
def test_attach_point(text: str, parts: list[str], behind: str) -> None:
    assert points(text + behind) == [parts]


@pytest.mark.parametrize("text", ["kprobe:f/pid==1/{}", "k:f/pid / 2 == 1/ {}", "BEGIN/1/{}", "u:/bin/sh:f/pid==1/{}",
                                  "iter:task/pid == 1/{}", "interval:1s /1/ {}"])
def test_predicate_directly_behind(text: str) -> None:
    assert script(text).clauses[0].predicate is not None


def test_go_function_with_a_predicate() -> None:
    clause = script("u:./go:a.b/c.F /pid == 1/ {}").clauses[0]
    assert clause.points[0].parts == ["u", "./go", "a.b/c.F"]
    assert clause.predicate is not None


def test_several_points() -> None:
    text = 'kprobe:a,kprobe:b , // c\n u:/x:"a,b" ,\ninterval:s:1, {}'
    assert points(text) == [["kprobe", "a"], ["kprobe", "b"], ["u", "/x", "a,b"], ["interval", "s", "1"]]


def test_named_point() -> None:
    point = script("mine=kprobe:f {}").clauses[0].points[0]
    assert (point.alias, point.text, point.parts) == ("mine", "kprobe:f", ["kprobe", "f"])


def test_positional_parameters_in_points() -> None:
    found = script('uprobe:"/bin/$1":$2,k:pre$2* {}', "my sh", "f:g").clauses[0].points
    assert [p.parts for p in found] == [["uprobe", "/bin/my sh", "f:g"], ["k", "pref:g*"]]
    assert found[0].text == 'uprobe:"/bin/my sh":f:g'


def test_spans_of_points() -> None:
    found = script("begin {}\n  kprobe:f ,\tu:/b:g /1/ {\n}").clauses[1]
    assert [p.span.text for p in found.points] == ["kprobe:f", "u:/b:g"]
    assert str(found.points[1].span) == "stdin:2:14-20"
    assert found.span.text == "kprobe:f ,\tu:/b:g /1/ {\n}"


@pytest.mark.parametrize("predicate", ["!@m[{ let $b = @m[2]; $b + 1 }]", "@m[{ 1 }] / 2", "({ 1 })", "{ 1 } > 0"])
def test_predicate_with_a_block(predicate: str) -> None:
    first, second = script(f"interval:s:1 /{predicate}/ {{ exit(); }} begin {{ }}").clauses
    assert first.predicate is not None and second.predicate is None


def test_predicate_with_division() -> None:
    clause = script("k:f /arg0 / 2 == 3 && @x[1/2]/ // c\n{ @ = 1 / 2 }").clauses[0]
    assert show(clause.predicate) == "(((arg0 / 2) == 3) && @x[(1 / 2)])"


# --- expressions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "tree"), [
    ("1 + 2 * 3", "(1 + (2 * 3))"),
    ("1 - 2 - 3", "((1 - 2) - 3)"),
    ("(1 + 2) * 3", "((1 + 2) * 3)"),
    ("a || b && c | d ^ e & f == g < h << i + j * k",
     "(a || (b && (c | (d ^ (e & (f == (g < (h << (i + (j * k))))))))))"),
    ("a && b && c || d || e && f", "((((a && b) && c) || d) || (e && f))"),
    ("a == b != c", "((a == b) != c)"),
    ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
    ("a ?: b", "(a ?  : b)"),
    ("a ? : b", "(a ?  : b)"),
    ("a || b ? c : d", "((a || b) ? c : d)"),
    ("-1", "(- 1)"),
    ("!~-*&$x", "(! (~ (- (* (& $x)))))"),
    ("-$x.y[1]", "(- $x.y[1])"),
    ("a---b".replace("a", "$a"), "(($a --) - b)"),
    ("++$x + $y++", "((++ $x) + ($y ++))"),
    ("@x++", "(@x ++)"),
    ("--@x[1]", "(-- @x[1])"),
    ("$kv.0.1", "$kv.0.1"),
    ("$a.b->c.3[4].d", "$a.b->c.3[4].d"),
    ("args->x.y", "args->x.y"),
    ("@", "@"),
    ("@[1]", "@[1]"),
    ("@x[1,2]", "@x[(1, 2,)]"),
    ("@x[(1,2)]", "@x[(1, 2,)]"),
    ("@x[@y[1], \"s\"][2]", "@x[(@y[1], 's',)][2]"),
    ("()", "(,)"),
    ("(1,)", "(1,)"),
    ("(1, (2, 3))[0].1", "(1, (2, 3,),)[0].1"),
    ("(x=1, y=2 + 3).x", "(x=1, y=(2 + 3),).x"),
    ("f()", "f()"),
    ("str(arg0, 64)", "str(arg0, 64)"),
    ("nsecs(monotonic)", "nsecs(monotonic)"),
    ("kstack(perf, 3)", "kstack(perf, 3)"),
    ("str($1) == \"x\" && $# > 1", "((str($1) == 'x') && ($# > 1))"),
    ('"str"[1]', "'str'[1]"),
    ("true != false", "(True != False)"),
    ("'a' + 1", "(97 + 1)"),
    ("comptime -1 + 2", "(comptime((- 1)) + 2)"),
    ("config", "config"),
    ("{ 1 }", "{1}"),
    ("f({ print(1); 2 }, 3)", "f({print(1); 2}, 3)"),
    ("if a { 1 } else if b { 2 } else { 3 }", "{if a {1;} else {if b {2;} else {3;}}}"),
])
def test_expression(text: str, tree: str) -> None:
    assert expr(text) == tree


@pytest.mark.parametrize(("text", "tree"), [
    ("(uint64)x", "<uint64>x"),
    ("(uint64) -1", "<uint64>(- 1)"),
    ("-(uint8)x.y", "(- <uint8>x.y)"),
    ("(struct sock *)arg0", "<struct sock *>arg0"),
    ("((struct sock*)arg0)->a.b", "<struct sock *>arg0->a.b"),
    ("*(uint8*)($h+9)==6", "((* <uint8 *>($h + 9)) == 6)"),
    ("**(int64**)reg(\"sp\") + 16", "((* (* <int64 **>reg('sp'))) + 16)"),
    ("(int8[8])12345", "<int8[8]>12345"),
    ("(int8[])x", "<int8[]>x"),
    ("(struct foo *[4])x", "<struct foo *[4]>x"),
    ("(int32[2][3])x", "<int32[2][3]>x"),
    ("(string[64])x", "<string[64]>x"),
    ("(enum foo)1", "<enum foo>1"),
    ("(unsigned long long)x", "<unsigned long long>x"),
    ("(long unsigned int)x", "<unsigned long>x"),
    ("(const char *)x", "<char *>x"),
    ("(__u32)x", "<__u32>x"),
    ("(size_t)-1", "<size_t>(- 1)"),
    ("(sector)$x", "<sector>$x"),
    ("(foo *)x", "<foo *>x"),
    ("(foo_t)(x)", "<foo_t>x"),
    ("(a) - 1", "(a - 1)"),
    ("(a) * b", "(a * b)"),
    ("(a * b)", "(a * b)"),
    ("(a[0] + 1)", "(a[0] + 1)"),
    ("(a[1] * 3)", "(a[1] * 3)"),
    ("(a) & b", "(a & b)"),
    ("(pid)", "pid"),
    ("(uint8)(uint16)x", "<uint8><uint16>x"),
    ("(typeof(@x))1", "<typeof(@x)>1"),
    ("(typeof(struct foo *)*)1", "<struct foo **>1"),
    ("(typeof($a) == typeof($b))", "(typeof($a) == typeof($b))"),
    ("sizeof(struct foo)", "sizeof <struct foo>"),
    ("sizeof(uint64)", "sizeof <uint64>"),
    ("sizeof(foo *)", "sizeof <foo *>"),
    ("sizeof(x)", "sizeof x"),
    ("sizeof($x.y) + 1", "(sizeof $x.y + 1)"),
    ("offsetof(struct foo, a.b)", "offsetof <struct foo> a.b"),
    ("offsetof($x, a)", "offsetof $x a"),
    ("container_of($p, struct task_struct, se)", "container_of($p, <struct task_struct>, se)"),
    ("typeinfo(int32)", "typeinfo(<int32>)"),
    ("f(typeof($x))", "f(<typeof($x)>)"),
])
def test_types_in_expressions(text: str, tree: str) -> None:
    assert expr(text) == tree


def test_spans_of_expressions() -> None:
    """What begins with parentheses begins behind them, as with bpftrace."""
    statement = body("print((a + b) * c.d[1]);")[0]
    assert isinstance(statement, ast.ExprStmt)
    call = statement.expr
    assert isinstance(call, ast.Call)
    product = call.args[0]
    assert [n.span.text for n in (statement, call, product, product.left, product.right, product.right.operand)] == [
        "print((a + b) * c.d[1])", "print((a + b) * c.d[1])", "a + b) * c.d[1]", "a + b", "c.d[1]", "c.d"]
    assert str(call.span) == "stdin:1:9-32"


# --- statements -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "tree"), [
    ("", ""),
    ("$x = 1; @y = 2", "$x = 1; @y = 2;"),
    ("@m[k, 1] += 2;", "@m[(k, 1,)] + 2;"),
    ("$x <<= 1; $x >>= 2; @ ^= 3;", "$x << 1; $x >> 2; @ ^ 3;"),
    ("$x++; --@y", "($x ++); (-- @y);"),
    ("_ = has_key(@x, 1);", "_ = has_key(@x, 1);"),
    ("@x[pid, comm] = count(); delete(@x[1]);", "@x[(pid, comm,)] = count(); delete(@x[1]);"),
    ("let $x; let $y = 1; let $z: uint64 = 1; let $p: struct foo * ", "let $x; let $y = 1; let $z: uint64 = 1; "
     "let $p: struct foo *;"),
    ("let $x : typeof(@y) = @y", "let $x: typeof(@y) = @y;"),
    ("if (a) { b() }", "if a {b();}"),
    ("if a == 1 { b() } else { c() }", "if (a == 1) {b();} else {c();}"),
    ("if (a) {} else if b {} else { c() } d()", "if a {} else {if b {} else {c();}} d();"),
    ("if (pid) print(1); else @x = 1; c()", "if pid {print(1);} else {@x = 1;} c();"),
    ("if ((foo)$x == 1) {}", "if (<foo>$x == 1) {}"),
    ("if (uint8)$x == 1 {}", "if (<uint8>$x == 1) {}"),
    ("if (a) == 1 {}", "if (a == 1) {}"),
    ("while ($i < 5) { $i++ } a()", "while ($i < 5) {($i ++);} a();"),
    ("unroll (5) { a() } unroll ($1) { b(); }", "unroll 5 {a();} unroll $1 {b();}"),
    ("for ($i : 0..10) { a() }", "for $i : 0..10 {a();}"),
    ("for ($i : $a+1..ncpus) { break; continue }", "for $i : ($a + 1)..ncpus {break; continue;}"),
    ("for $kv : @map { print($kv.0.1) }", "for $kv : @map {print($kv.0.1);}"),
    ("for ($kv : @map) print($kv);", "for $kv : @map {print($kv);}"),
    ("return; return 1; return", "return; return 1; return;"),
    ("{ a(); { b() } }", "{a(); {b();}}"),
    ("{ a(); } b()", "{a();} b();"),
    ("$x = { a(); { b(); { c() } } }", "$x = {a(); {b(); {c()}}};"),
    ("$x = { let $y = 1; $y };", "$x = {let $y = 1; $y};"),
    ("let $x = if 1 { 2 } else { 3 };", "let $x = {if 1 {2;} else {3;}};"),
    ("pid == 1 ? print(1) : print(2);", "((pid == 1) ? print(1) : print(2));"),
])
def test_statements(text: str, tree: str) -> None:
    assert block(body(text)) == tree


# --- top level --------------------------------------------------------------------------------------------


def test_config() -> None:
    found = script('config = { stack_mode=perf; max_map_keys = 1_000;x="a b"; y = 1 } begin {}').config
    assert [(e.name, e.value) for e in found] == [
        ("stack_mode", "perf"), ("max_map_keys", "1000"), ("x", "a b"), ("y", "1")]
    assert found[1].span.text == "max_map_keys = 1_000"


def test_map_declarations() -> None:
    found = script("#define N 7\nlet @a = hash(100);\nlet @b=lruhash($1);let @; let @c = percpuhash(N * 2); begin {}",
                   "5")
    assert [(d.name, d.kind, d.entries) for d in found.map_decls] == [
        ("@a", "hash", 100), ("@b", "lruhash", 5), ("@", "", 0), ("@c", "percpuhash", 14)]
    assert found.map_decls[0].span.text == "let @a = hash(100);"


def test_macros() -> None:
    one, two, three = script(
        "macro one() { 1 }\nmacro two(a, $b, @c) { $b += a; @c[1] }\nmacro three(x) { x; }\nbegin { one }").macros
    assert (one.name, one.params, show(one.body)) == ("one", [], "{1}")
    assert [show(p) for p in two.params] == ["a", "$b", "@c"]
    assert show(two.body) == "{$b + a; @c[1]}"
    assert three.body.value is None and show(three.body) == "{x;}"


def test_macro_with_an_if_as_its_value() -> None:
    macro = script("macro m(a) { if a { 1 } else { 2 } } begin {}").macros[0]
    assert macro.body.body == [] and show(macro.body.value) == "{if a {1;} else {2;}}"


def test_bom_is_an_error_with_a_hint() -> None:
    with pytest.raises(CompileError) as caught:
        script("\ufeffbegin {}")
    assert "byte order mark" in caught.value.diagnostics[0].hints[0]


def test_defines_of_expressions() -> None:
    assert expr('"a" == (uint8)1') == "('a' == <uint8>1)"
    diagnostics = Diagnostics()
    assert parse_expression(Source("x", "1 2"), diagnostics) is None
    assert diagnostics.items[0].code == "syntax-error"


def test_long_chain_keeps_its_order() -> None:
    def names(node: ast.Expr) -> list[str]:
        if isinstance(node, ast.Name):
            return [node.name]
        assert isinstance(node, ast.Binary) and node.op == "||"
        return names(node.left) + names(node.right)

    wanted = [f"n{i}" for i in range(301)]
    statement = body("$x = " + " || ".join(wanted))[0]
    assert isinstance(statement, ast.Assign)
    assert names(statement.value) == wanted
    assert statement.value.span.text.startswith("n0 ||") and statement.value.span.text.endswith("|| n300")
