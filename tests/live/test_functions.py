"""Functions and builtins of the language, run by the kernel: exact results."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from sonde.compiling import live_world
from sonde.kernel.types.world import LiveWorld
from sonde.semantics.config import SHORT_TEXTS
from support import compile_c, run_sonde


def lines(program: str, *options: str, status: int = 0) -> list[str]:
    """What a program prints, without its maps at the end."""
    done = run_sonde("-q", "--no-warnings", *options, "-e", program)
    assert done.returncode == status, done.stderr
    return [line for line in done.stdout.splitlines() if line and not line.startswith("@")]


def messages(program: str, *options: str) -> list[dict[str, object]]:
    done = run_sonde("-q", "--no-warnings", "-f", "json", *options, "-e", program)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("agg", "value"), [("", 6), (', "sum"', 9), (', "min"', 1), (', "max"', 6), (', "avg"', 3)])
def test_tseries(agg: str, value: int) -> None:
    program = f"begin {{ @ = tseries(2, 1d, 3{agg}); @ = tseries(1, 1d, 3{agg}); @ = tseries(6, 1d, 3{agg}); exit() }}"
    (message,) = messages(program)
    assert message["type"] == "tseries"
    (point,) = message["data"]["@"]  # type: ignore[index]
    assert point["value"] == value and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.0{9}", point["interval_start"])


def test_tseries_with_keys_and_text() -> None:
    done = run_sonde("-q", "--no-warnings", "-e", 'begin { @["a"] = tseries(-3, 10ms, 3); exit() }')
    assert re.search(r"@\[a\]:\n +-4 {49}-2\nhh:mm:ss.ns +\|_{51}\|\n\d\d:\d\d:\d\d\.\d\d0{7} \| {25}\* {25}\| -3\n",
                     done.stdout), done.stdout


@pytest.mark.parametrize("agg", ["avg", "max", "min", "sum"])
def test_tseries_at_given_times(agg: str) -> None:
    """With BPFTRACE_DUMMY_TS_MAP a script says what time it is, from the first nanosecond on."""
    times = {0: (5, 1), 1: (7,), 3: (6, 2, 4)}
    values = {"avg": lambda v: sum(v) // len(v), "max": max, "min": min, "sum": sum}[agg]
    body = "".join(f'@ts = (uint64){ms}000000; @ = tseries({value}, 1ms, 5, "{agg}"); '
                   for ms, found in times.items() for value in found)
    program = f'config = {{ unstable_tseries = enable }} begin {{ {body} printf("%d\\n", nsecs); exit(); }}'
    done = run_sonde("-q", "-f", "json", "-e", program, env={"BPFTRACE_DUMMY_TS_MAP": "@ts", "TZ": "UTC"})
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found[0] == {"type": "printf", "data": "3000000\n"}
    assert found[1]["data"]["@"] == [
        {"interval_start": f"1970-01-01 00:00:00.00{ms}000000", "value": values(found)} for ms, found in times.items()]


def test_a_clock_that_is_none() -> None:
    program = "config = { unstable_tseries = enable } begin { @ts = 1; @ = tseries(1, 1ms, 5); exit(); }"
    done = run_sonde("-e", program, env={"BPFTRACE_DUMMY_TS_MAP": "@ts"})
    assert done.returncode == 1 and "@ts is no map with an unsigned number" in done.stderr


def test_tseries_is_unstable() -> None:
    program = "begin { @ = tseries(1, 1s, 5); exit() }"
    assert "WARNING: Script is using an unstable feature: tseries" in run_sonde("-e", program).stderr
    assert run_sonde("-e", program, env={"BPFTRACE_UNSTABLE_TSERIES": "enable"}).stderr == "Attached 1 probe\n"
    assert run_sonde("-e", "config = { unstable_tseries = error } " + program).returncode == 1


def test_elements_of_aggregates_are_printed() -> None:
    assert lines('begin { @h[1, "a"] = hist(3); print(@h[1, "a"]); @s[2] = stats(4); print(@s[2]); clear(@h); exit() }',
                 )[:2] == ["[2, 4)                 1 |" + "@" * 52 + "|", "{ .count = 1, .average = 4, .total = 4 }"]


# --- strings --------------------------------------------------------------------------------------------------------


def test_str_concat() -> None:
    assert lines('begin { $a = str_concat(probetype, "-x"); print($a); print(str_concat($a, comm) == '
                 'str_concat("special-x", comm)); print(strlen(str_concat(comm, comm)) == 2 * strlen(comm)); '
                 'print(str_concat("", "")); @[str_concat("a", "b")] = 1; print(has_key(@, "ab")); exit() }',
                 ) == ["special-x", "true", "true", "true"]


@pytest.mark.parametrize(("arguments", "separator", "joined"), [
    (["a", "", "b c"], " ", "{} a  b c"), (["1", "2"], "--", "{}--1--2"), (["x"] * 3, "", "{}xxx"), ([], " ", "{}"),
    (["y"] * 19, "", "{}" + "y" * 19), (["y"] * 20, ",", "{}" + ",y" * 19 + ",..."),
    (["z" * 500] * 3, " ", "{} " + "z" * 500 + " " + "z" * 500 + " z..."),
])
def test_str_join(arguments: list[str], separator: str, joined: str) -> None:
    """The first string is as long as it is; the whole is at most max_strlen characters, and then marked."""
    command = [shutil.which("true") or "true", *arguments]
    expected = joined.format(command[0])
    if joined.endswith("z..."):
        longest = 1024 if live_world().has_feature("long_keys") else SHORT_TEXTS
        expected = " ".join(command)[:longest] + ".."
    done = run_sonde("-q", "-c", shlex.join(command), "-e", "tracepoint:syscalls:sys_enter_execve /pid == cpid/ { "
                     f'$text = str_join(args.argv, "{separator}"); print($text); @[$text] = count(); }}')
    assert done.stdout.splitlines()[0] == expected
    assert len(re.findall(r"^@\[.*\]: 1$", done.stdout, re.M)) == 1


@pytest.mark.parametrize(("arguments", "most", "shown"), [
    (["a b", ""], 20, '"a b" ""'), (["1", "2", "3"], 3, '"1" "2"'), (["z" * 5000], 20, f'"{"z" * 1000}'),
    ([*"abc" * 25], 64, " ".join(f'"{letter}"' for letter in [*"abc" * 21])),
])
def test_words(arguments: list[str], most: int, shown: str) -> None:
    command = shlex.join([shutil.which("true") or "true", *arguments])
    line, = lines("tracepoint:syscalls:sys_enter_execve /pid == cpid/ { "
                  f'printf("%rq\\n", words(args.argv, {most})); }}', "-c", command)
    program, _, rest = line.partition('" ')
    if "z" in shown:
        assert rest.rstrip("z.\"").strip() == "" and rest.endswith('z"..')
    else:
        assert rest == shown, program


@pytest.mark.parametrize(("pattern", "fits"), [
    ("*", True), ("?[aeiou]*", True), ("w*", True), ("w", False), ("*r", True), ("*r?", False), ("work[a-f]r", True),
    ("work[!a-f]r", False), ("*o*k*", True), ("*z*", False), ("worker", True), ("workers", False), ("", False),
    ("w*r*", True), ("*worker*", True), ("*er*er", False)])
def test_globmatch(pattern: str, fits: bool) -> None:
    assert lines(f'begin {{ $s = str_concat("work", "er"); $t = $s; print(globmatch($t, "{pattern}")); exit() }}') \
        == [str(fits).lower()]


# --- acting on the system -------------------------------------------------------------------------------------------


def test_debugf() -> None:
    word = f"sonde-{os.getpid()}"
    assert lines(f'begin {{ debugf("{word} %d %s %x%c|%5d|%-3d|", 1, probetype, 255, 65, -3, 7); exit() }}') == []
    with open("/sys/kernel/tracing/trace", errors="replace") as file:
        found = [line for line in file if f"{word} 1 " in line]
    assert found and re.search(rf"{word} 1 special ffA\|   -3\|7  \|", found[0]), found


PACKETS = r"""
#include <arpa/inet.h>
#include <sys/prctl.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    prctl(PR_SET_NAME, argv[1]);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sendto(fd, "sonde packet", 12, 0, (void *)&to, sizeof(to)) != 12;
}
"""


def test_skboutput(tmp_path: Path) -> None:
    name, file = f"skb{os.getpid()}", tmp_path / "out.pcap"
    program = (f'tracepoint:net:net_dev_queue /comm == "{name}" && @done == 0/ {{ @done = 1; '
               f'print(skboutput("{file}", (struct sk_buff *)args.skbaddr, 1000, 14)); }}')
    assert lines(program, "-c", f"{compile_c(PACKETS, tmp_path, 'packets')} {name}") == ["0"]
    data = file.read_bytes()
    assert struct.unpack_from("=IHHiIII", data) == (0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    seconds, _, kept, length = struct.unpack_from("=IIII", data, 24)
    assert abs(seconds - time.time()) < 60 and kept == length == 40 == len(data) - 40
    assert data[40] == 0x45 and data[-12:] == b"sonde packet"


def test_override_and_unwatch_say_where_they_work() -> None:
    done = run_sonde("--unsafe", "-e", "interval:s:1 { override(1) }")
    assert "override() can only be used inside kprobes" in done.stderr and "it works in: kprobe" in done.stderr
    assert "unwatch() belonged to" in run_sonde("-e", "begin { unwatch(1) }").stderr


POKED = r"""
#include <stdio.h>

long value = 1;
char name[8] = "before";

__attribute__((noinline)) void poke(long *number, char *text)
{
    __asm__ volatile("" :: "r"(number), "r"(text) : "memory");
}

int main(void)
{
    poke(&value, name);
    return printf("%ld %s\n", value, name) < 0;
}
"""


def test_write_user(tmp_path: Path) -> None:
    poked = compile_c(POKED, tmp_path, "poked")
    program = f'uprobe:{poked}:poke {{ $x = (int64)42; print(write_user(arg0, $x)); write_user(arg1, "after"); }}'
    assert "write_user() is unsafe." in run_sonde("-e", program).stderr
    done = run_sonde("-q", "--unsafe", "-e", program, "-c", str(poked))
    if "this kernel lets no program write user memory" in done.stderr:
        pytest.skip("kernel lacks write_user")
    assert done.stdout.splitlines()[:2] in (["0", "42 after"], ["42 after", "0"])


# --- the program itself ---------------------------------------------------------------------------------------------


def test_typeinfo() -> None:
    assert lines('config = { unstable_typeinfo = enable } begin { $x = (uint32)4; print(typeinfo($x)); '
                 'print(typeinfo(comm).full_type); '
                 'if (typeinfo($x).base_type == "int") { print("an int") } '
                 'print(typeinfo(struct task_struct).base_type); exit() }') == [
        "{ .btf_id = 0, .base_type = int, .full_type = uint32 }", "string[16]", "an int", "c_type"]


def test_config_is_a_record() -> None:
    (text,) = lines("config = { max_strlen = 99 } begin { print(config); print((config.max_strlen, config.license)); "
                    "exit() }")[:1]
    assert text.startswith("{ .max_strlen = 99, .max_map_keys = 4096, ") and ".license = GPL" in text
    (message,) = messages("begin { print(config); exit() }")
    assert message["data"]["print_maps_on_exit"] is True  # type: ignore[index]


def test_names_of_processes() -> None:
    if not LiveWorld().kfunc_id("bpf_iter_task_new"):
        pytest.skip("the kernel lacks bpf_iter_task_new() (Linux 6.7)")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":  # not before its exec
                time.sleep(0.001)
            assert lines(f'begin {{ $p = {process.pid}; print(comm($p)); print(comm($p) == "sleep"); '
                         'print(comm(pid) == comm); printf("%s|\\n", comm(4194303)); @[comm($p)] = 1; '
                         'print(has_key(@, "sleep")); exit() }'
                         ) == ["sleep", "true", "true", "|", "true"]
        finally:
            process.kill()


def test_clocks() -> None:
    assert lines("begin { $a = nsecs(sw_tai); $b = nsecs(tai); $d = (int64)($b - $a); print($d > -1000000 && $d < "
                 "1000000000); print((int64)(nsecs(boot) - nsecs(monotonic)) > -1000000000); exit() }") == ["true"] * 2
    (text,) = lines('begin { printf("%s\\n", strftime("%Y-%m-%d %H:%M:%S.%f", nsecs(sw_tai))); exit() }')
    then = time.mktime(time.strptime(text.partition(".")[0], "%Y-%m-%d %H:%M:%S"))
    assert abs(then - time.time()) < 60 and re.search(r"\.\d{6}$", text)


def test_a_timestamp_before_the_boot() -> None:
    zero, before = lines('begin { $n = -3000000000; print(strftime("%s", 0)); print(strftime("%s", $n)); exit() }')
    assert int(zero) - int(before) == 3


def test_help_of_named_parameters() -> None:
    program = ('begin { print((getopt("aa", 10, "How many."), getopt("bb", "x"), getopt("cc"), getopt("aa", 10))); '
               'exit() }')
    done = run_sonde("-e", program, "--", "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "HINT: expected program options:\n--aa=10: How many.\n--bb=\"x\"\n--cc\n"
    assert run_sonde("-q", "-e", program, "--", "--cc", "--bb=bye").stdout.splitlines()[0] == "(10, bye, true, 10)"


LONG = r"""
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) void poke(char *text)
{
    __asm__ volatile("" :: "r"(text) : "memory");
}

int main(void)
{
    char *text = malloc(70000);

    memset(text, 'a', 69999);
    text[69999] = 0;
    poke(text);
    return 0;
}
"""


def test_strings_of_64_kilobytes(tmp_path: Path) -> None:
    program = compile_c(LONG, tmp_path, "long")
    assert lines(f"config = {{ max_strlen = 65536 }} uprobe:{program}:poke {{ $s = str(arg0); print(strlen($s)); "
                 "@[$s] = 1; @b = $s; print(len(@)); print(strlen(@b)); clear(@); @b = \"\"; }", "-c", str(program),
                 ) == ["65536", "1", "65536"]


def test_hundreds_of_statements() -> None:
    text = "".join([f'@x{i % 7}[{i}, comm] = {i}; $v{i} = {i} + pid * 0; if ($v{i} == {i}) {{ @n++; }} '
                    f'printf("{i}\\n"); ' for i in range(300)])
    clear = "".join([f"clear(@x{i}); " for i in range(7)])
    assert lines(f"begin {{ {text} print(@n == 300); {clear} exit(); }}") == [*map(str, range(300)), "true"]
