"""Types that the checker infers: promotion, signedness, members, scopes, maps."""

from __future__ import annotations

import pytest

from sonde.language.ast import Expr
from sonde.semantics.nodes import walk_nodes
from sonde.types import INT64, KERNEL, USER, Pointer, Str
from unit.fake_world import check_text, findings


def variables(text: str, **options: object) -> dict[str, str]:
    """Name → type of the variables of a script with one program."""
    return {v.name: str(v.type) for v in check_text(text, **options).probes[0].variables}


def maps(text: str, **options: object) -> dict[str, tuple[str, str]]:
    """Name → (key type, value type)."""
    return {m.name: (str(m.key), str(m.value)) for m in check_text(text, **options).maps.values()}


@pytest.mark.parametrize(("statements", "type"), [
    ("$x = 1", "int8"), ("$x = -128", "int8"), ("$x = 128", "int16"), ("$x = 100000", "int32"),
    ("$x = 0x8000000000000000", "uint64"), ("$x = 1; $x = 1000", "int16"), ("$x = 1; $x = nsecs", "uint64"),
    ("$x = nsecs; $x = 1", "uint64"), ("$x = 0; $x++", "int64"), ("$x = pid; $x++", "uint64"),
    ("$x = 1; $x = $x + 1", "int64"), ("$x = 0; $x += nsecs", "uint64"), ("$x = -1; $x = nsecs", "int64"),
    ("$x = (uint8)5; $x = (int8)-1", "int16"), ("$x = pid; $x = (int16)1", "int64"), ("$x = 1 == 2", "bool"),
    ("$x = true; $x = false", "bool"), ("$x = pid / 2", "uint64"), ("$x = (int32)pid / 2", "int64"),
    ("$x = 1 + 2", "int8"), ("$x = 100 * 100", "int16"), ("$x = ~0", "uint64"), ("$x = !pid", "bool"), ("$x = -pid",
                                                                                                      "uint64"),
    ("$x = -(int8)5", "int64"), ("$x = ~(uint8)5", "uint64"),
    ("$x = comm", "string[16]"), ("$x = \"a\"; $x = \"abc\"", "string[4]"), ("$x = (1, \"a\"); $x = (1000, \"bcd\")",
                                                                              "(int16,string[4])"),
    ("$x = (a=1, b=comm)", "(a=int8,b=string[16])"), ("$x = curtask", "struct task_struct *"), ("$x = kstack",
                                                                                                "kstack"),
    ("$x = pid > 5 ? 1 : -1", "int8"), ("$x = pid ? \"a\" : \"abcd\"", "string[5]"), ("$x = pid ?: 1", "uint32"),
    ("$x = sizeof(uint64)", "uint64"), ("$x = strlen(comm)", "uint64"), ("$x = ntop(1)", "inet"), ("$x = buf(0, 8)",
                                                                                                   "buf"),
    ("$x = str((uint64)0)", "string[1025]"), ("$x = str(curtask, 16)", "string[16]"),
    ("$x = str(12)", "string[3]"), ("$x = str(\"hello\", 3)", "string[4]"), ("$x = str(-1 + 3, 16)", "string[2]"),
    ("$x = bswap((uint16)1)", "uint16"),
    ("$x = pton(\"::1\")", "uint8[16]"), ("$x = { let $y = 5; $y + 1 }", "int64"),
    ("$x = if (pid) { 1 } else { 1000 }", "int16"),
    ("$x = (uint8[8])nsecs", "uint8[8]"), ("$x = (int8[])nsecs", "int8[8]"), ("$x = SKB_DROP_REASON_NO_SOCKET",
                                                                              "enum skb_drop_reason"),
    ("$x = nsecs(tai)", "uint64"), ("$x = kstack(perf, 3)", "kstack"), ("$x = comm[0]", "int8"), ("$x = 1 << 40",
                                                                                                  "int64"),
    ("$x = pid << 3", "uint64"), ("$x = AF_INET6", "int8"), ("$x = strftime(\"%H\", nsecs)", "timestamp"),
    ("let $x: uint16 = 5", "uint16"), ("let $x; $x = comm", "string[16]"), ("let $x: string = \"a\"", "string[1025]"),
    ("$x = &pid; $x = 1", ""), ("$x = uptr(5)", "uint64"), ("$x = *(uint32 *)uptr(5)", "uint32"), ("$x = *5", "uint64"),
    ("$x = *kptr(kaddr(\"_text\"))", "uint64"), ("$x = default_str_length", "int64"),
])
def test_variable(statements: str, type: str) -> None:
    text = f"BEGIN {{ {statements}; }}"
    if not type:
        assert findings(text)
    else:
        assert variables(text)["x"] == type


@pytest.mark.parametrize(("statements", "key", "value"), [
    ("@ = 1", "None", "int8"), ("@++", "None", "int64"), ("@ = 0; @++", "None", "int64"), ("@ = 1; @ = nsecs", "None",
                                                                                           "uint64"),
    ("@[1] = 1; @[nsecs] = 2", "uint64", "int8"), ("@[pid, comm] = count()", "(uint32,string[16])", "count_t"),
    ("@[(pid, comm)] = count()", "(uint32,string[16])", "count_t"), ("@[\"a\"] = 1; @[\"abc\"]++", "string[4]",
                                                                     "int64"),
    ("@ = hist(5)", "None", "hist_t"), ("@ = sum(pid)", "None", "usum_t"), ("@ = sum(-5)", "None", "sum_t"),
    ("@ = @ + 1", "None", "int64"), ("@ = @ ? @ + pid : 1", "None", "uint64"), ("@ = 1; @ = @ + 1", "None", "int64"),
    ("@ += nsecs", "None", "int64"),
    ("@[kstack] = count()", "kstack", "count_t"), ("@ = (1, (2, \"x\"))", "None", "(int8,(int8,string[2]))"),
    ("print(@[comm]); @[\"x\"] = 1", "string[16]", "int8"), ("@[probe] = count()", "probe", "count_t"),
    ("@[1, 2] = 1; @[pid, 3] = 1", "(uint32,int8)", "int8"),
    ("print(@[comm])", "string[16]", "int8"), ("@b = @ + @c", "None", "int8"), ("@b = @; @ = @b", "None", "int8"),
])
def test_map(statements: str, key: str, value: str) -> None:
    text = f"BEGIN {{ {statements}; }}"
    if not value:
        assert findings(text)
    else:
        assert maps(text)["@"] == (key, value)


def test_maps_are_known_before_they_are_written_in_the_text() -> None:
    text = "BEGIN { $x = @m[1]; print($x.1) } END { @m[1] = (1, @n) } interval:s:1 { @n = \"abc\"; }"
    checked = check_text(text)
    assert str(checked.maps["@m"].value) == "(int8,string[4])"
    assert str(checked.probes[0].variables[0].type) == "(int8,string[4])"


def test_map_summary() -> None:
    checked = check_text("BEGIN { @a = count(); @b = 1 } END { @a = count(); if (@a > 1) { print(@b) } }")
    assert (checked.maps["@a"].writers, checked.maps["@a"].read) == (2, True)
    assert (checked.maps["@b"].writers, checked.maps["@b"].read) == (1, False)


def test_map_declaration() -> None:
    checked = check_text("let @a = lruhash(5); BEGIN { @a[1] = 1 }")
    assert (checked.maps["@a"].kind, checked.maps["@a"].entries) == ("lruhash", 5)


@pytest.mark.parametrize(("expression", "type"), [
    ("((struct sock *)args.skaddr).__sk_common.skc_daddr", "uint32"),
    ("((struct sock *)args->skaddr)->__sk_common.skc_prot->name", "string[32]"),
    ("((struct sock *)args.skaddr).sk_rmem.counter", "int32"), ("args.saddr", "uint8[4]"), ("args.saddr[1]", "uint8"),
    ("((struct sk_buff *)args.skaddr).head + 5", "uint8 *"), ("((struct sk_buff *)args.skaddr)->cb", "string[48]"),
    ("*(uint16 *)(((struct sk_buff *)args.skaddr).head + 5)", "uint16"), ("curtask.flags[2]", "uint32"),
    ("*(curtask->files + 3)", "struct file *"), ("(*(curtask->files + 3))->f_mode", "uint32"),
    ("curtask.files[args.newstate].f_mode", "uint32"), ("((struct bits *)0).high", "uint32"),
    ("(struct sock *)args.skaddr", "struct sock *"), ("args.skaddr == 0", "bool"), ("ntop(args.family, args.saddr)",
                                                                                    "inet"),
    ("((struct sock *)1) - ((struct sock *)0)", "int64"), ("args.newstate == TCP_ESTABLISHED", "bool"),
    ("container_of((struct sock_common *)args.skaddr, struct sock, __sk_common).sk_rcvbuf", "int32"),
])
def test_member(expression: str, type: str) -> None:
    assert variables(f"t:sock:inet_sock_set_state {{ $x = {expression}; }}")["x"] == type


def test_spaces_of_pointers() -> None:
    text = """t:syscalls:sys_enter_sendmsg { $m = args.msg; $i = $m.msg_iov; $p = $i.iov_base;
      $k = (struct sock *)args.fd; }
    uprobe:prog:work { $p = (struct sock *)arg0; $d = $p.sk_data; }"""
    first, second = check_text(text).probes
    spaces = {v.name: v.type.space for v in first.variables if isinstance(v.type, Pointer)}
    assert spaces == {"m": USER, "i": USER, "p": USER, "k": KERNEL}
    assert [v.type.space for v in second.variables if isinstance(v.type, Pointer)] == [USER, USER]


def test_data_loc_fields_are_strings() -> None:
    checked = check_text("t:net:netif_receive_skb { $a = args.loc_name; $b = str(args.loc_name); }")
    assert [v.type for v in checked.probes[0].variables] == [Str(1025), Str(1025)]


SCRIPT_STRUCT = """
struct inner { char tag; int n; };
struct packed { char c; int n; } __attribute__((packed));
struct outer { char c; struct inner in; unsigned a:3; unsigned b:30; struct outer *next; union { int i; long l; } u; };
enum color { RED = 1, GREEN = 7 };
"""


@pytest.mark.parametrize(("expression", "value"), [
    ("sizeof(struct inner)", 8), ("sizeof(struct packed)", 5), ("offsetof(struct outer, in)", 4),
    ("offsetof(struct outer, in.n)", 8), ("offsetof(struct outer, next)", 24), ("sizeof(struct outer)", 40),
    ("GREEN", 7), ("sizeof(struct outer *)", 8), ("offsetof(struct outer, u.l)", 32), ("RED + 1", 2),
])
def test_c_layout(expression: str, value: int) -> None:
    assert constant(f"{SCRIPT_STRUCT} BEGIN {{ $x = {expression}; }}") == value


def test_script_struct_hides_the_kernels() -> None:
    text = "struct sock { int mine; }; BEGIN { $x = ((struct sock *)0).mine; $y = ((struct sock *)0).__sk_common }"
    assert findings(text) == [("unknown-field", "(struct sock *)0).__sk_common")]


def test_bitfields() -> None:
    checked = check_text(f"{SCRIPT_STRUCT} BEGIN {{ $x = ((struct outer *)0).b; }}")
    fields = [n.field for n in walk_nodes(checked.probes[0].clause) if type(n).__name__ == "FieldAccess"]
    assert [(f.offset, f.bit_offset, f.bit_size) for f in fields] == [(16, 0, 30)]


def constant(text: str, **options: object) -> object:
    """The constant that the first assignment of a script assigns."""
    return check_text(text, **options).probes[0].clause.body[0].value.const


@pytest.mark.parametrize(("expression", "value"), [
    ("1 + 2 * 3", 7), ("-7 / 2", -3), ("-7 % 3", -1), ("7 % -3", 1), ("1 << 63", 1 << 63),
    ("~5", 18446744073709551610), ("~(uint8)5", 250), ("~(int32)5", None), ("-(uint8)3", 253), ("~-1", 0),
    ("-(uint64)1", 18446744073709551615), ("0xff & ~1",
                                                                                                        254),
    ("5 > 3", 1), ("!5", 0), ("1 && 0", 0), ("0 || 2", 1), ("\"a\" == \"a\"", 1), ("(uint8)300", 44), ("(int8)200",
                                                                                                       -56),
    ("(bool)5", 1), ("AF_INET", 2), ("IPPROTO_TCP", 6), ("ETH_P_IPV6", 0x86DD), ("-EAGAIN", -11), ("SIGKILL", 9),
    ("TCP_ESTABLISHED", 1), ("__NR_openat", 257), ("S_IFSOCK", 0o140000), ("IPPROTO_ICMPV6", 58), ("ncpus", 2),
    ("kaddr(\"_text\")", 0xFFFFFFFF81000000), ("bswap((uint16)0x1234)", 0x3412), ("sizeof(comm)", 16),
    ("strncmp(\"ab\", \"ac\", 1)", 0),
    ("cgroupid(\"/sys/fs/cgroup\")", 42), ("is_str(comm)", 1), ("is_ptr(comm)", 0), ("kfunc_exist(\"bpf_strlen\")", 1),
    ("sizeof(struct sock)", 56), ("offsetof(struct sock, sk_rmem.counter)", 40), ("probetype", "special"),
    ("sizeof(str(nsecs))", 1024), ("sizeof(string[1024])", 1024), ("sizeof(string[1000])", 1000),
    ("config.max_strlen", 1024), ("comptime (1 + 1)", 2), ("1 ? 5 : 6", 5), ("5 - 6", -1),
])
def test_folding(expression: str, value: object) -> None:
    assert constant(f"BEGIN {{ $x = {expression}; }}") == value


@pytest.mark.parametrize(("expression", "params", "value"), [
    ("$1", ["42"], 42), ("$1", ["0x10"], 16), ("$1", ["abc"], "abc"), ("$2", ["1"], 0), ("$#", ["a", "b"], 2),
    ("str($1)", ["42"], "42"), ("str($1 + 1)", ["hello"], "ello"), ("str($3)", [], ""), ("$1 + 1", ["41"], 42),
    ("$1 == \"7\"", ["7"], 1),
])
def test_positional_parameters(expression: str, params: list[str], value: object) -> None:
    assert constant(f"BEGIN {{ $x = {expression}; }}", params=params) == value


@pytest.mark.parametrize(("expression", "named", "value"), [
    ("getopt(\"a\")", {}, 0), ("getopt(\"a\")", {"a": ""}, 1), ("getopt(\"a\", true)", {"a": "false"}, 0),
    ("getopt(\"a\", true)", {}, 1), ("getopt(\"a\", 5)", {}, 5), ("getopt(\"a\", 5)", {"a": "7"}, 7),
    ("getopt(\"a\", \"x\")", {"a": "y"}, "y"), ("getopt(\"a\")", {"a": "Yes"}, 1),
    ("getopt(\"a\", true)", {"a": "off"}, 0),
])
def test_named_parameters(expression: str, named: dict[str, str], value: object) -> None:
    assert constant(f"BEGIN {{ $x = {expression}; }}", named=named) == value


@pytest.mark.parametrize(("comparison", "how"), [
    ("pid == 5", "unsigned"), ("pid < -5", "signed"), ("nsecs < -5", "signed"), ("(int32)pid < 5", "signed"),
    ("(int32)pid < nsecs", "signed"), ("comm == \"x\"", "string"), ("(1, 2) == (pid, 2)", "bytes"),
    ("curtask != 0", "unsigned"), ("probe == \"x\"", "string"), ("pton(\"1.2.3.4\") == pton(\"1.2.3.5\")", "bytes"),
    ("ksym(1) == ksym(2)", "unsigned"), ("username != username", "unsigned"),
])
def test_how_operands_compare(comparison: str, how: str) -> None:
    clause = check_text(f"BEGIN {{ $x = {comparison}; }}").probes[0].clause
    assert clause.body[0].value.compare == how


def test_block_scopes() -> None:
    text = "BEGIN { $a = 1; if (pid) { $b = comm; $a = 1000; } else { $b = 5; } for ($i : 0..3) { $c = $i; } }"
    checked = check_text(text)
    assert [(v.name, str(v.type)) for v in checked.probes[0].variables] == [
        ("a", "int16"), ("b", "string[16]"), ("b", "int8"), ("i", "int8"), ("c", "int8")]


@pytest.mark.parametrize(("later", "type"), [("", "uint64"), ("$x = (uint64)-1;", "uint64"), ("$x = -1;", "int64"),
                                             ("$x = nsecs;", "uint64")])
def test_a_count_takes_the_sign_of_what_it_meets(later: str, type: str) -> None:
    checked = check_text(f"BEGIN {{ @c = count(); $x = @c; {later} "
                         "$y = @c - 5; $z = @c / 3; $w = @c + 1; $w = nsecs; }")
    assert {v.name: str(v.type) for v in checked.probes[0].variables} == {
        "x": type, "y": "int64", "z": "int64", "w": "uint64"}
    assert [(d.code, d.message) for d in checked.diagnostics.items] == []


def test_loop_over_map_sees_late_types() -> None:
    checked = check_text("BEGIN { for ($kv : @m) { $k = $kv.0; $v = $kv.1; } @m[1, comm] = count(); }")
    assert {v.name: str(v.type) for v in checked.probes[0].variables} == {
        "kv": "((int8,string[16]),uint64)", "k": "(int8,string[16])", "v": "uint64"}
    assert checked.maps["@m"].read


def test_dead_branches_are_removed() -> None:
    checked = check_text("BEGIN { if ($1 > 5) { @x = 2; } else if (comptime 0) { nonsense(); } @x = 1; }", params=["3"])
    first = checked.probes[0].clause.body[0]
    assert (first.then, first.other[0].then) == ([], [])


def test_a_string_declared_as_long_as_str_makes_them() -> None:
    checked = check_text("config = { max_strlen = 16 }"
                         "BEGIN { let $s : string[16] = str(nsecs); @a[$s] = str(nsecs); }")
    assert checked.maps["@a"].key == checked.maps["@a"].value == Str(17)


EVERYTHING = """
struct mine { int a; char name[8]; struct mine *next; };
config = { max_strlen = 64 }
BEGIN { printf("%d %s %-10s|%5d %p %c %llx\\n", 1, "a", comm, pid, curtask, 65,
               nsecs); time("%H"); @start = nsecs; exit(); }
t:sock:inet_sock_set_state /args.protocol == 6 && (args.newstate == 1 || comm != "x")/ {
  $sk = (struct sock *)args.skaddr;
  $dport = bswap($sk.__sk_common.skc_dport);
  @[ntop(args.family, args.saddr), $dport, ksym(0)] = hist($sk->sk_rcvbuf);
  @b[$sk] = @b[$sk] ? @b[$sk] + 1 : 0;
  if (@start[0]) { }
}
END { clear(@b); delete(@c, 1); @c[1] = 1; }
"""


def test_every_expression_has_a_type() -> None:
    text = EVERYTHING.replace("  if (@start[0]) { }\n", "  $m = (struct mine *)0; print(($m.next.name, $m->a));\n")
    checked = check_text(text)
    for probe in checked.probes:
        assert [n for n in walk_nodes(probe.clause) if isinstance(n, Expr) and n.type is None] == []
        assert all(v.type is not None for v in probe.variables)
    assert checked.maps["@b"].value == INT64
    assert checked.config.max_strlen == 64


@pytest.mark.parametrize(("left_out", "read", "type"), [
    ("(1, 2)", "@a[tid].1", "int8"),
    ("((args.x, (uint64)5), 2)", "@a[tid].0.1", "uint64"),  # whatever is not known is a number
    ("(x=1, y=comm)", "@a[tid].y", "string[16]"),
    ("(struct task_struct *)args.task", "@a[tid]->pid", "int32"),
    ('"x"', "@a[tid]", "string[2]"),
    ("count()", "@a[tid]", "int8"),
    ("args.page", "@a[tid]", "int8"),
])
def test_what_is_left_out_types_the_maps_that_only_it_fills(left_out: str, read: str, type: str) -> None:
    """A clause whose probe does not exist, or whose condition is false, and a branch that no run takes."""
    ignoring = 'config = { missing_probes = "ignore" }'
    for filled in (f"{ignoring} tracepoint:no:such {{ @a[tid] = {left_out}; }} begin {{ ",
                   f"tracepoint:no:such /exists(\"tracepoint:no:such\")/ {{ @a[tid] = {left_out}; }} begin {{ ",
                   f"begin {{ if (exists(\"tracepoint:no:such\")) {{ @a[tid] = {left_out}; }} "):
        assert variables(f"{filled} $x = {read}; print($x); }}") == {"x": type}
