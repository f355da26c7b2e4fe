"""What comes over the wire: frames, shapes of scripts, hosts, policies. Whatever the bytes, errors have names."""

from __future__ import annotations

import builtins
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiled import compiled, world
from sonde.cli.options import parse_command_line
from sonde.compiling import compile
from sonde.errors import CompileError, UsageError
from sonde.fleet.agent.channel import Channel, CoordinatorGoneError
from sonde.fleet.state.rows import encode_heading, encode_row, read_row
from sonde.fleet.transport import protocol
from sonde.fleet.transport.hosts import expand_hosts, short_names
from sonde.fleet.transport.protocol import (
    FROM_AGENT,
    KINDS,
    LARGEST_BODY,
    TO_AGENT,
    VERSION,
    Decoder,
    ProtocolError,
    delta_columns,
    encode_frame,
    pack_texts,
    read_delta,
    shorten_lines,
    unpack_texts,
)
from sonde.fleet.transport.shapes import ShapeError, describe_script, read_shape
from sonde.library.policy import Audit, Policy, PolicyError, read_policy
from sonde.merge.delta import Differ, KeyNumbers
from sonde.merge.portable import PortableError, encode_value
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import ScriptSpec
from sonde.types import Aggregate

pytestmark = pytest.mark.slow

PING = encode_frame("ping", sent=7)


def decode(data: bytes, expected: frozenset[str] = TO_AGENT) -> list[protocol.Frame]:
    return [*Decoder(expected).feed_bytes(data)]


def frame_of(kind: str, head: bytes, body: bytes = b"") -> bytes:
    number = next(i for i, each in enumerate(KINDS) if each.name == kind)
    return struct.pack("<4sBBII", b"SNDF", VERSION, number, len(head), len(body)) + head + body


# frames ---------------------------------------------------------------------------------------------------------------

def test_frames_come_back_however_the_bytes_are_cut() -> None:
    text = "begin { }\udcff".encode("utf-8", "surrogateescape")
    fields: dict[str, Any] = {"run": "r", "name": "stdin", "tool": False, "params": ["1"], "named": {"a": "b"},
                              "window": 0.5, "seconds": 0, "budget": 0.0, "unsafe": False, "args": True,
                              "table": ["PID"], "live": False}
    data = PING + encode_frame("run", [text], **fields) + PING
    for step in (1, 3, 1000):
        decoder = Decoder(TO_AGENT)
        found = [frame for at in range(0, len(data), step) for frame in decoder.feed_bytes(data[at:at + step])]
        assert [frame.kind for frame in found] == ["ping", "run", "ping"] and not decoder.pending
        assert (found[1].fields, found[1].columns) == (fields, [text])


def test_deltas_travel_as_columns() -> None:
    delta = Differ(Aggregate("stats"), KeyNumbers(encode_value)).take_delta([("a", [1, 1 << 63]), (("b", 2), [3, 4])])
    data = encode_frame("map", delta_columns(delta), sequence=0, map="@", site=-1, turn=0, wall=1, last=True,
                        incomplete=False)
    [frame] = decode(data, FROM_AGENT)
    assert read_delta(frame).values() == delta.values()


GOOD_MAP = {"sequence": 0, "map": "@", "site": -1, "turn": 0, "wall": 1, "last": True, "incomplete": False}


@pytest.mark.parametrize(("data", "words"), [
    (b"GET / HTTP/1.1\r\n\r\n", "no frame, but b'GET"),
    (PING.replace(b"SNDF\x02", b"SNDF\x01", 1), "protocol 1, and this is 2"),
    (struct.pack("<4sBBII", b"SNDF", VERSION, 200, 0, 0), "does not belong there"),
    (encode_frame("pong", sent=1, wall=1), "does not belong there"),
    (struct.pack("<4sBBII", b"SNDF", VERSION, 3, 1 << 30, 0), "are the most"),
    (struct.pack("<4sBBII", b"SNDF", VERSION, 3, 0, LARGEST_BODY + 1), "are the most"),
    (frame_of("ping", b"{"), "ping: no JSON"), (frame_of("ping", b"[" * 200000), "ping: no JSON"),
    (frame_of("ping", b"\xff"), "no JSON"), (frame_of("ping", b"[]"), "no object"),
    (frame_of("ping", b'{"sent": true, "rows": []}'), "no proper sent"),
    (frame_of("ping", b'{"sent": 1e5, "rows": []}'), "no proper sent"),
    (frame_of("ping", b'{"sent": 99999999999999999999, "rows": []}'), "no proper sent"),
    (frame_of("ping", b'{"sent": 1}'), "columns of other lengths"),
    (frame_of("ping", b'{"sent": 1, "rows": [1]}', b"x"), "columns of other lengths"),
    (frame_of("ping", b'{"sent": 1, "rows": []}', b"x"), "columns of other lengths"),
])
def test_what_is_no_frame_is_named(data: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        decode(data)


@pytest.mark.parametrize("rows", [[-1, 1, *[0] * 8], [1 << 62] * 10, ["a"] * 10, [0] * 9, [True] * 10, {}])
def test_lengths_of_columns_are_checked(rows: Any) -> None:
    with pytest.raises(ProtocolError, match="columns of other lengths"):
        decode(frame_of("map", json.dumps({**GOOD_MAP, "rows": rows}).encode()), FROM_AGENT)


@settings(max_examples=500)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_frames_or_an_error(data: bytes, led: bool) -> None:
    try:
        for frame in decode((PING if led else b"") + data):
            assert frame.kind in TO_AGENT
    except ProtocolError:
        pass


@settings(max_examples=500)
@given(st.sampled_from(sorted(FROM_AGENT)), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(
        {name for kind in KINDS for name in kind.fields} | {"rows"})), inner, max_size=9), max_leaves=20), st.binary())
@example("map", {**GOOD_MAP, "rows": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]}, b"\xff\xff\xff\xff")
def test_any_head_is_a_frame_or_an_error(kind: str, head: Any, body: bytes) -> None:
    try:
        for frame in decode(frame_of(kind, json.dumps(head).encode(), body), FROM_AGENT):
            if kind == "map":
                read_delta(frame)
    except ProtocolError:
        pass


def test_texts_that_do_not_fit_their_lengths() -> None:
    assert unpack_texts(*pack_texts([b"", b"ab", b"c"])) == [b"", b"ab", b"c"]
    with pytest.raises(ProtocolError):
        unpack_texts(array("I", [1 << 31]), b"ab")


def test_lines_for_people_are_short_and_few() -> None:
    found = shorten_lines(["x" * 5000] * 200)
    assert len(found) == 101 and found[-1] == "... and 100 more" and max(map(len, found)) < 1010


def test_rows_come_back() -> None:
    cells = [("PID", "12", True), ("COMM", "a \udcff", False)]
    assert read_row(encode_row(cells), {"PID", "COMM"}) == ((), tuple(cells))
    assert read_row(encode_heading(["PID"]), {"PID", "COMM"}) == (("PID",), ())


@pytest.mark.parametrize("value", [
    encode_value(5), encode_value(()), encode_value(((),)), encode_value((("PID",), ("1",))), encode_heading(["X"]),
    encode_value(((5,),)), encode_value((("PID",), (1,), (True,))), encode_value((("PID",), ("1", "2"), (True,))),
    encode_value((("PID", "PID"), ("1",), (True,))), encode_value((("PID",), ("1",), (True,), ())), b"[", b"[[]]"])
def test_what_is_no_row_is_named(value: bytes) -> None:
    with pytest.raises(PortableError):
        read_row(value, {"PID"})


@pytest.mark.parametrize(("text", "number"), [
    ("0", True), ("-7", True), ("0.25", True), ("12", True), ("007", False), ("1.", False), (".5", False), ("", False),
    ("-", False), ("1e9", False), ('1, "x": 2', False), ("\u0661", False)])
def test_a_cell_is_a_number_only_if_it_looks_like_one(text: str, number: bool) -> None:
    """Whatever a host says of it: the text stands in JSON as it is."""
    [cell] = read_row(encode_row([("PID", text, True)]), {"PID"})[1]
    assert cell == ("PID", text, number)
    if number:
        assert isinstance(json.loads(text), int | float)


# shapes ---------------------------------------------------------------------------------------------------------------

SCRIPT = """
tracepoint:sched:sched_switch { @a[comm, args.prev_pid] = count(); @h[kstack] = hist(args.prev_state, 2);
  @l = lhist(pid, 0, 10, 1); @p[probe] = (1, "x", usym(1)); @s[ntop(2, 1)] = sum(-1); @t = tseries(1, 1s, 5);
  @d[1.5] = avg(0.5); @f = lhist(0.5, 0, 1, 0.1); printf("%d %-5s\\n", pid, comm); print(@a, 5); print((pid, comm)); }
"""


def shape() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(describe_script(compiled(SCRIPT))))
    return found


def test_a_script_is_known_by_its_shape() -> None:
    spec, found = compiled(SCRIPT), read_shape(shape(), Source("stdin", SCRIPT))
    assert [m.name for m in found.maps] == [m.name for m in spec.shown_maps]
    for there, here in zip(found.maps, spec.shown_maps):
        assert (there.value, there.labels, there.memory) == (here.value, here.labels, here.memory or here.key is None)
        assert str(there.key) == str(here.key)
    assert [(s.kind, len(s.fields), [part.values() for part in s.parts]) for s in found.sites] == [
        (s.kind, len(s.fields), [part.values() for part in s.parts]) for s in spec.sites]
    assert found.sites[0].span.line == spec.sites[0].span.line and found.probes == spec.probes


def test_older_hosts_know_aggregates_of_integers() -> None:
    """They neither send nor take more than they had at the time."""
    described = {each["name"]: each["value"] for each in SHAPE["maps"]}
    assert [len(described[name]) for name in ("@a", "@h", "@l", "@d", "@f")] == [8, 8, 8, 9, 9]


def mutate(value: Any, draw: Any) -> Any:
    """The same with some parts replaced."""
    if draw(st.integers(0, 20)) == 0:
        return draw(st.none() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({}) | st.just(["Tuple"]))
    if isinstance(value, dict):
        return {key: mutate(each, draw) for key, each in value.items()}
    return [mutate(each, draw) for each in value] if isinstance(value, list) else value


@settings(max_examples=300)
@given(st.data())
def test_any_shape_is_a_script_or_an_error(data: st.DataObject) -> None:
    try:
        found = read_shape(mutate(SHAPE, data.draw), Source("stdin", SCRIPT))
    except ShapeError:
        return
    assert all(str(m.value) and str(m.key) for m in found.maps)


SHAPE = shape()


@pytest.mark.parametrize("change", [
    {"maps": [{"name": "x", "key": None, "value": ["Int", 64, True], "keyless": True, "labels": []}]},
    {"maps": [{"name": "@", "key": None, "value": ["Aggregate", "lhist", True, 0, 0, 1 << 50, 1, ""],
               "keyless": True, "labels": []}]},
    {"maps": [{"name": "@", "key": None, "value": ["Aggregate", "lhist", True, 0, 0, 10, 0, ""],
               "keyless": True, "labels": []}]},
    {"maps": [{"name": "@", "key": None, "value": ["ScriptSpec"], "keyless": True, "labels": []}]},
    {"sites": [None]}, {"probes": 5}])
def test_what_is_no_shape(change: dict[str, Any]) -> None:
    with pytest.raises(ShapeError):
        read_shape({**SHAPE, **change}, Source("stdin", SCRIPT))


# hosts ----------------------------------------------------------------------------------------------------------------

def test_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "hosts"
    file.write_text("# all\n[web]\nweb1 ansible_user=x\n\nweb[2-3]\nweb1\n")
    assert expand_hosts(["a,b", "web[008-010]", "db[1-2,7].x"]) == [
        "a", "b", "web008", "web009", "web010", "db1.x", "db2.x", "db7.x"]
    assert expand_hosts([str(file)]) == ["web1", "web2", "web3"]
    assert len(expand_hosts(["r[1-3]n[01-20]"])) == 60
    assert expand_hosts([f"a,{file},unix:/run/b,c[1-2]"]) == ["a", "web1", "web2", "web3", "unix:/run/b", "c1", "c2"]
    monkeypatch.setattr("sys.stdin", open(file))  # noqa: SIM115
    assert expand_hosts(["-"]) == ["web1", "web2", "web3"]
    sys.stdin.close()


@pytest.mark.parametrize("word", ["", "-oProxyCommand=x", "a b", "a;b", "a[3-1]", "a[1-999999]", "a[x]", "/nowhere",
                                  "a[1", "a]", "local:", "unix:", "me@", "a,/nowhere/b", "a$b", "[1-200][1-200]"])
def test_what_is_no_host(word: str) -> None:
    with pytest.raises(UsageError):
        expand_hosts([word] if word != "-oProxyCommand=x" else ["a,-oProxyCommand=x"])


def test_a_host_that_is_named_twice() -> None:
    with pytest.warns(RuntimeWarning, match=r"^local:a, web\[1-2\]: named twice, and traced once$"):
        assert expand_hosts(["local:a,web[1-3],local:a", "web1,web2"]) == ["local:a", "web1", "web2", "web3"]


def test_names_in_results_are_short_and_apart() -> None:
    assert short_names(["me@web1", "local:a", "b@db", "c@db", "unix:/run/x"]) == {
        "me@web1": "web1", "local:a": "a", "b@db": "b@db", "c@db": "c@db", "unix:/run/x": "/run/x"}


def test_options_of_the_fleet_and_of_the_tool() -> None:
    """Each stand before or behind the tool's name; -H and -m are whose they are."""
    from sonde.cli.requests import options_of_tool
    parsed = parse_command_line(["fleet", "-H", "a", "--window", "2", "runqlat", "-m", "--seconds", "5", "1"],
                                options_of_tool)
    assert parsed.command_options == {"hosts": "a", "window": "2", "seconds": "5"}
    assert parsed.words == ["fleet", "runqlat", "1"]
    assert parsed.named == {"milliseconds": "true"} and parsed.first == "fleet"
    parsed = parse_command_line(["fleet", "-H", "a", "-H", "b,c", "-e", "begin {}"], options_of_tool)
    assert parsed.lists["hosts"] == ["a", "b,c"] and not parsed.named
    for words in (["top", "fleet", "-H", "a", "runqlat"], ["fleet", "-H", "a", "top", "runqlat"]):
        parsed = parse_command_line(words, options_of_tool)
        assert (parsed.command, parsed.words, parsed.command_options) == ("top", ["fleet", "runqlat"], {"hosts": "a"})
    parsed = parse_command_line(["fleet", "-H", "a", "-e", "begin {}", "5", "--", "x"], options_of_tool)
    assert (parsed.command_options, parsed.words, parsed.rest) == ({"hosts": "a"}, ["fleet", "5"], ["x"])


# policies -------------------------------------------------------------------------------------------------------------

def policy_of(tmp_path: Path, text: str) -> Policy:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    file.chmod(0o600)
    return read_policy(str(file))


def test_a_policy_is_read(tmp_path: Path) -> None:
    assert read_policy(str(tmp_path / "none")).values() == Policy().values()
    text = 'users = ["ann", 7]\nseconds = 60\nunsafe = true\nprobes = ["profile"]\naudit = "stderr"'
    found = policy_of(tmp_path, text)
    assert (found.users, found.seconds, found.unsafe, found.probes) == (["ann", "7"], 60.0, True, ["profile"])


@pytest.mark.parametrize("text", ["users = 5", "seconds = -1", "nonsense = 1", "unsafe = 1", "users = [{}]", "= x",
                                  "keys = 1.5"])
def test_a_wrong_policy_is_an_error_not_a_default(tmp_path: Path, text: str) -> None:
    with pytest.raises(PolicyError):
        policy_of(tmp_path, text)


def test_a_policy_that_others_can_write_is_none(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text("unsafe = true")
    file.chmod(0o666)
    with pytest.raises(PolicyError, match="others can write"):
        read_policy(str(file))


def test_who_may_ask() -> None:
    Policy().check_user(4711, on_socket=False)
    Policy().check_user(0, on_socket=True)
    Policy(users=["4711"]).check_user(4711, on_socket=True)
    for policy, on_socket in ((Policy(), True), (Policy(users=["root"]), False)):
        with pytest.raises(PolicyError, match="4711"):
            policy.check_user(4711, on_socket)


def compiled_for(policy: Policy, text: str, unsafe: bool = False, name: str = "stdin") -> ScriptSpec:
    """A script compiled as an agent compiles it."""
    options = Options(unsafe=unsafe)
    policy.restrict_options(options)
    return compile(Source(name, text), options, world())


@pytest.mark.parametrize("text", [
    'begin { printf("hi"); }', "#include <linux/sched.h>\nbegin { }", 'import "stdlib/values.bt"; begin { }',
    'import "stdlib"; begin { }'])
def test_texts_that_need_no_file_of_the_host(text: str) -> None:
    compiled_for(Policy(), text)


READERS = [
    '#include "FILE"\nbegin {}', "#include <FILE>\nbegin {}", " # include <../../..FILE>\nbegin {}",
    "#/* */include/* */\"FILE\"\nbegin {}", "#inc\\\nlude \"FILE\"\nbegin {}",
    '#define X "FILE"\n#include X\nbegin {}',
    'import "FILE"; begin {}', 'import /**/ "FILE"; begin {}', 'import // remark\n"FILE"; begin {}',
    'import\n\t"FILE"; begin {}', 'import "stdlib/../../..FILE"; begin {}', 'import "LINK"; begin {}',
    'import "FOLDER"; begin {}', '#include "LINK"\nbegin {}', 'begin { import /**/ "FILE"; }',
    'begin { import // remark\n"FILE"; }', 'begin { { import "LINK" } }', 'begin { import "BESIDE"; }',
    'macro m() { import "FILE"; } begin { m(); }', "#define I import\nI \"FILE\"; begin {}",
]


@pytest.mark.parametrize("text", READERS)
def test_no_spelling_has_a_file_of_the_host_read(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is its text in what is answered, nor is it opened, nor asked whether it is there."""
    (tmp_path / "secret.bt").write_text("SECRET, and no script\n")
    (tmp_path / "link.bt").symlink_to(tmp_path / "secret.bt")
    for name, path in (("FILE", tmp_path / "secret.bt"), ("LINK", tmp_path / "link.bt"), ("FOLDER", tmp_path),
                       ("BESIDE", Path("secret.bt"))):
        text = text.replace(name, str(path))
    touched: list[str] = []

    def watch(module: Any, function: str) -> None:
        plain = getattr(module, function)

        def watched(path: Any, *rest: Any, **named: Any) -> Any:
            if str(tmp_path) in str(path):
                touched.append(str(path))
            return plain(path, *rest, **named)
        monkeypatch.setattr(module, function, watched)
    for module, function in ((builtins, "open"), (os, "stat"), (os, "listdir"), (os.path, "exists"),
                             (os.path, "isfile")):
        watch(module, function)
    with pytest.raises(CompileError) as caught:
        compiled_for(Policy(), text, name=str(tmp_path / "script.bt"))
    shown = "".join(found.render() for found in caught.value.diagnostics)
    assert "SECRET" not in shown and not touched


def test_the_same_files_are_read_where_the_policy_lets_them(tmp_path: Path) -> None:
    (tmp_path / "other.bt").write_text("begin { @ = 1; }\n")
    assert compiled_for(Policy(files=True), f'import "{tmp_path}/other.bt"; end {{ }}').maps
    with pytest.raises(CompileError):
        compiled_for(Policy(), f'import "{tmp_path}/other.bt"; end {{ }}')


def test_unsafe_is_refused_before_a_script_is_compiled() -> None:
    with pytest.raises(PolicyError, match="unsafe"):
        compiled_for(Policy(files=True), "begin { }", unsafe=True)


@pytest.mark.parametrize("text", [
    "uprobe:FILE:main { }", "uprobe:FOLDER/*:* { }", "usdt:FILE:* { }", "u:FILE:main { }",
    "tracepoint:sched:sched_switch { } uprobe:FILE:f { }",
    "a = uprobe:FILE:main { }"])
def test_programs_are_not_looked_into_for_probes_that_a_policy_forbids(text: str, tmp_path: Path) -> None:
    """That a probe is forbidden is told before its file is opened: what is there is not told by the answer."""
    (tmp_path / "prog").write_bytes(b"no program")
    asked: list[str] = []

    class Asked:
        def __getattr__(self, name: str) -> Any:
            if name in ("find_binaries", "file_size", "usdt_probes", "user_functions"):
                asked.append(name)
            return getattr(world(), name)
    options, here = Options(), cast(Any, Asked())
    Policy(probes=["tracepoint"]).restrict_options(options)
    with pytest.raises(CompileError, match="policy does not allow"):
        compile(text.replace("FILE", str(tmp_path / "prog")).replace("FOLDER", str(tmp_path)), options, here)
    assert not asked


def test_probes_are_judged_by_their_written_kind() -> None:
    """A tracepoint that is served by a raw one is a tracepoint."""
    policy = Policy(probes=["tracepoint"])
    assert compiled_for(policy, "tracepoint:syscalls:sys_enter_openat { @ = count(); }").programs
    with pytest.raises(CompileError, match="does not allow profile probes"):
        compiled_for(policy, "profile:hz:9 { @ = count(); }")


@pytest.mark.parametrize(("policy", "text", "words"), [
    (Policy(programs=1), "begin { @ = 1; } interval:s:1 { @ = 2; }", "allows 1 attach points, and these are 2"),
    (Policy(keys=100), "tracepoint:sched:sched_switch { @[pid] = count(); }", "100 elements of maps"),
    (Policy(), 'begin { cat("/etc/shadow"); }', r"use files: cat\(\)"),
    (Policy(), 'begin { cat("/proc/%d/environ", pid); }', r"use files: cat\(\)"),
    (Policy(), 'begin { cat("/proc/self/environ"); }', r"use files: cat\(\)"),
    (Policy(), 'begin { cat("/proc/kcore"); }', r"use files: cat\(\)"),
    (Policy(), 'begin { cat("/proc/kmsg"); }', r"use files: cat\(\)"),
    (Policy(), 'macro c(x) { cat(x); } begin { c("/etc/shadow"); }', r"use files: cat\(\)"),
    (Policy(), 'begin { cat("/proc/%s", "../etc/shadow"); }', r"use files: cat\(\)")])
def test_scripts_that_are_more_than_is_allowed(policy: Policy, text: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        policy.check_script(compiled(text))


def test_what_is_allowed_by_the_same_measure() -> None:
    compiled_for(Policy(probes=["profile"]), "profile:hz:9 { @ = count(); } interval:s:1 { print(@); }")
    Policy().check_script(compiled('begin { cat("/proc/loadavg"); }'))
    assert Policy(seconds=10).allowed_seconds(0) == Policy(seconds=10).allowed_seconds(99) == 10
    assert Policy(seconds=10).allowed_seconds(3) == 3
    assert (Policy(budget=5).allowed_budget(0), Policy(budget=5).allowed_budget(0.5)) == (0.05, 0.05)
    assert Policy(seconds=10, budget=5).describe_limits(99, 0.5) == [
        "WARNING: the policy allows 10 s", "WARNING: the policy allows --budget 5%"]
    assert Policy(seconds=10).describe_limits(0, 0.5) == []
    assert (Policy().allowed_budget(0.5), Policy(budget=5).allowed_budget(0.01)) == (0.5, 0.01)


def test_an_audit_line_is_one_line_whatever_is_in_the_script(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    Audit(str(file), "ann").write_script("started", "begin {\n}\x1b[2J\udcff", run="r1")
    [line] = file.read_text().splitlines()
    what, when, rest = line.split(" ", 2)
    assert what == "started" and re.fullmatch(r'time="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"', when)
    assert rest.startswith('user="ann" script="begin {\\n}\\u001b[2J\\udcff" bytes=14 sha256="')
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(PolicyError, match="audit line cannot be written"):
        Audit(str(tmp_path / "none" / "audit"), "ann").write_line("x")


# what an agent's process has in it ------------------------------------------------------------------------------------

def test_the_agent_never_imports_what_runs_data() -> None:
    """Neither pickle nor any of its kin is in a process that has loaded every part of an agent. (marshal is a part of
    the interpreter's own import machinery; nothing of Sonde's names it.)"""
    code = ("import sonde.cli.commands.agent, sonde.fleet.agent.agent, sonde.fleet.agent.channel\n"
            "import sonde.library.policy, sonde.cli.main, sys\n"
            "from sonde.fleet.transport.protocol import *\nfrom sonde.merge.portable import *\n"
            "[*Decoder(TO_AGENT).feed_bytes(encode_frame('ping', sent=1))]; decode_value(encode_value((1, 'x')))\n"
            "print(sorted({'pickle', '_pickle', 'shelve', 'dill', 'cloudpickle'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")})
    assert done.stdout == "[]\n"
    for file in (Path(__file__).parents[3] / "src" / "sonde").rglob("*.py"):
        if file.parent.name in ("fleet", "merge"):
            text = file.read_text()
            assert not any(f"{verb} {name}" in text for verb in ("import", "from") for name in ("pickle", "marshal"))
            # What Dask's workers run of ours is made there; a coordinator, which has no agent, sends it.
            text = text.replace("exec(2)", "").replace("exec(relay, space)", "" if file.name == "dask.py" else "exec(")
            assert "eval(" not in text and "exec(" not in text


def test_an_agent_waits_for_as_long_as_its_coordinator_pings() -> None:
    """Other hosts may take minutes to be ready; one that is silent is gone."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(theirs.fileno(), theirs.fileno())
        begun = time.monotonic()

        def ask() -> None:
            for _ in range(30):
                time.sleep(0.25)
                ours.sendall(PING)
            ours.sendall(encode_frame("start", at=5))
        asking = threading.Thread(target=ask)
        asking.start()
        assert channel.next_frame("start", 5.0)["at"] == 5 and time.monotonic() - begun > 7
        asking.join()
        with pytest.raises(CoordinatorGoneError, match="no start, and nothing else in 0 s"):
            channel.next_frame("start", 0.1)
        ours.shutdown(socket.SHUT_RDWR)
        while not channel.stopped:
            time.sleep(0.01)
