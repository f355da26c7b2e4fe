"""The command line on the running kernel: options, exit statuses, output and complaints."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support import Tracer, environment, run_sonde, sonde_command

ME = str(os.getpid())
GETPPID = "tracepoint:syscalls:sys_enter_getppid"


def said(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Status and output; before the maps stand two empty lines, as bpftrace prints them."""
    return done.returncode, done.stdout.removesuffix("\n\n")


def lines_of_json(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# --- where the program comes from -------------------------------------------------------------------------


def test_a_one_liner() -> None:
    done = run_sonde("-e", 'BEGIN { printf("hello %d\\n", 42); exit(); }')
    assert said(done) == (0, "hello 42\n")
    assert done.stderr.splitlines()[0] == "Attached 1 probe"


def test_a_file_and_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "x.bt"
    script.write_text('#!/usr/bin/env sonde\nbegin { printf("%d %s %d\\n", $1, str($2), $#); exit(); }\n')
    done = run_sonde(str(script), "12", "two")
    assert said(done) == (0, "12 two 2\n")


@pytest.mark.parametrize("words", [["--", "FILE", "-12", "--name=two"], ["FILE", "--", "-12", "--name=two"],
                                   ["FILE", "-12", "--", "--name=two"], ["--", "FILE", "--name", "two", "-12"]])
def test_a_file_before_or_behind_two_dashes(words: list[str], tmp_path: Path) -> None:
    script = tmp_path / "x.bt"
    script.write_text('begin { printf("%d %d %s\\n", $#, $1, getopt("name", "none")); exit(); }\n')
    done = run_sonde(*[str(script) if word == "FILE" else word for word in words])
    assert said(done) == ((0, "1 -12 two\n") if "--name=two" in words else (1, "")), done.stderr


@pytest.mark.parametrize("words", [["--btf", "FILE"], ["--btf", "-e", "begin { print(7); exit(); }"],
                                   ["--btf", "-q", "FILE"], ["FILE", "--btf"]])
def test_btf_without_a_file_asks_for_what_is_done_anyway(words: list[str], tmp_path: Path) -> None:
    script = tmp_path / "x.bt"
    script.write_text("begin { print(7); exit(); }\n")
    done = run_sonde(*[str(script) if word == "FILE" else word for word in words])
    assert said(done) == (0, "7\n"), done.stderr


def test_an_option_by_the_beginning_of_its_name() -> None:
    assert said(run_sonde("--form=json", "--qui", "-e", "begin { print(7); exit(); }")) == \
        (0, '{"type": "value", "data": 7}\n')
    assert said(run_sonde("--dry", "-e", "begin { print(7); exit(); }")) == (0, "")


def test_standard_input() -> None:
    done = run_sonde("-", stdin='begin { printf("in\\n"); exit(); }')
    assert said(done) == (0, "in\n")


def test_no_program() -> None:
    done = run_sonde()
    assert done.returncode == 1
    assert "usage" in done.stderr.lower()


def test_a_file_that_is_not_there() -> None:
    done = run_sonde("/nowhere/x.bt")
    assert done.returncode == 1
    assert "/nowhere/x.bt" in done.stderr


def test_a_tool_name_that_is_nearly_right() -> None:
    done = run_sonde("execsnop")
    assert done.returncode == 1
    assert "execsnoop" in done.stderr


def test_an_option_that_is_not_there() -> None:
    done = run_sonde("--nosuch")
    assert done.returncode == 1
    assert "--nosuch" in done.stderr


# --- exit statuses ----------------------------------------------------------------------------------------


def test_status_of_exit() -> None:
    assert run_sonde("-e", "begin { exit(3); }").returncode == 3


def test_sigint_prints_maps_and_is_a_success() -> None:
    with Tracer("-p", ME, "-e", f"{GETPPID} {{ @calls[pid] = count(); }}") as tracer:
        for _ in range(321):
            os.getppid()
    assert tracer.status == 0
    assert f"@calls[{ME}]: 321\n" in tracer.stdout


def test_sigterm_prints_maps() -> None:
    with Tracer("-e", "begin { @there = 1; }") as tracer:
        tracer.process.send_signal(signal.SIGTERM)
        tracer.wait()
    assert "@there: 1\n" in tracer.stdout


def test_sigusr1_prints_maps_and_goes_on() -> None:
    with Tracer("-p", ME, "-e", f"{GETPPID} {{ @calls = count(); }}") as tracer:
        os.getppid()
        tracer.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 20
        while "@calls: 1\n" not in tracer.output() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.getppid()
    assert tracer.status == 0
    assert [line for line in tracer.stdout.splitlines() if line] == ["@calls: 1", "@calls: 2"]


def test_ctrl_c_is_answered_at_any_moment() -> None:
    """Interrupted at 20 moments of starting up and tracing, it ends at once, and never with a traceback."""
    for step in range(20):
        process = subprocess.Popen(
            sonde_command(["-e", f"{GETPPID} {{ @ = count(); }}"]), env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        await_python(process.pid)
        time.sleep(0.02 * step)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=20)
        assert "Traceback" not in complaints
        assert process.returncode in (0, -signal.SIGINT)


def await_python(pid: int) -> None:
    """Wait until the command line has begun: before that, SIGINT is the interpreter's own business."""
    deadline = time.monotonic() + 20
    in_a_row = 0
    while in_a_row < 5 and time.monotonic() < deadline:
        # Python ignores SIGPIPE, a little later catches SIGINT, and Sonde then gives SIGINT back.
        begun = has_signal(pid, "SigIgn", signal.SIGPIPE) and not has_signal(pid, "SigCgt", signal.SIGINT)
        in_a_row = in_a_row + 1 if begun else 0
        time.sleep(0.001)
    assert in_a_row, "sonde did not begin"


def has_signal(pid: int, field: str, number: int) -> bool:
    mask = re.search(rf"^{field}:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return mask is not None and bool(int(mask[1], 16) & 1 << number - 1)


def test_a_syntax_error() -> None:
    done = run_sonde("-e", "begin { printf( }")
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.match(r"stdin:1:\d+-\d+: ERROR: .+\nbegin \{ printf\( \}\n +~+\n", done.stderr)


# --- what is traced ---------------------------------------------------------------------------------------


def test_a_command_is_run_after_attaching() -> None:
    program = "tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ { @end = count(); }"
    done = run_sonde("-c", "/bin/true", "-e", program)
    assert done.returncode == 0
    assert "@end: 1\n" in done.stdout


@pytest.mark.parametrize(("words", "remarked"), [
    ([], True), (["-q"], False), (["/pid == cpid/"], False)])
def test_that_a_command_does_not_narrow_a_script_is_said_once(words: list[str], remarked: bool) -> None:
    predicate = "".join([word for word in words if word[:1] == "/"])
    options = [word for word in words if word[:1] == "-"]
    done = run_sonde(*options, "-c", "/bin/true", "-e",
                     f"tracepoint:syscalls:sys_enter_execve {predicate} {{ @ = count(); }}")
    assert done.returncode == 0 and done.stderr.count("HINT: -c runs the command") == remarked
    assert "HINT" not in done.stdout


def test_a_command_that_is_not_there() -> None:
    done = run_sonde("-c", "/nowhere/command", "-e", "begin { }")
    assert done.returncode == 1
    assert "/nowhere/command" in done.stderr


def test_a_process_alone_is_traced() -> None:
    other = "import os, sys\nsys.stdin.read(1)\nfor _ in range(100): os.getppid()"
    with (
        subprocess.Popen([sys.executable, "-S", "-c", other], stdin=subprocess.PIPE) as child,
        Tracer("-p", ME, "-e", f"{GETPPID} {{ @[pid] = count(); }}") as tracer,
    ):
        os.getppid()
        child.communicate(b"x")
    assert re.findall(r"^@\[(\d+)\]: (\d+)$", tracer.stdout, re.M) == [(ME, "1")]


def test_tracing_ends_with_the_process() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        with Tracer("-p", str(child.pid), "-e", f"{GETPPID} {{ @ = count(); }}") as tracer:
            child.kill()
            tracer.wait()
        assert tracer.status == 0


def test_a_process_that_is_not_there() -> None:
    done = run_sonde("-p", "99999999", "-e", "begin { exit(); }")
    assert done.returncode == 1
    assert "99999999" in done.stderr


# --- output -----------------------------------------------------------------------------------------------


def test_quiet() -> None:
    done = run_sonde("-q", "-e", 'begin { printf("x\\n"); exit(); }')
    assert said(done) == (0, "x\n")
    assert done.stderr == ""


def test_json() -> None:
    program = 'begin { printf("x\\n"); @n[1, "a"] = 2; @c = count(); @h = hist(5); print(7); exit(); }'
    done = run_sonde("-f", "json", "-e", program)
    found = lines_of_json(done.stdout)
    kinds = [event["type"] for event in found]
    assert {"attached_probes", "printf", "value", "map", "hist"} <= set(kinds)
    by_kind = {event["type"]: event["data"] for event in found}
    assert by_kind["attached_probes"] == {"probes": 1}
    assert by_kind["printf"] == "x\n"
    assert by_kind["hist"] == {"@h": [{"min": 4, "max": 7, "count": 1}]}
    maps = {name: value for event in found if event["type"] == "map" for name, value in event["data"].items()}
    assert maps == {"@n": {"1,a": 2}, "@c": 1}


def test_output_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_sonde("-o", str(out), "-e", 'begin { printf("x\\n"); @a = 1; exit(); }')
    assert done.returncode == 0
    assert "x\n" not in done.stdout
    assert out.read_text().startswith("x\n")
    assert "@a: 1\n" in out.read_text()


def test_dry_run_prints_nothing() -> None:
    done = run_sonde("--dry-run", "-e", f'begin {{ printf("x\\n"); }} {GETPPID} {{ @ = count(); }}')
    assert (done.returncode, done.stdout) == (0, "")


def test_dry_run_runs_no_command(tmp_path: Path) -> None:
    done = run_sonde("--dry-run", "-c", f"/usr/bin/touch {tmp_path}/ran", "-e", f"{GETPPID} {{ @ = count(); }}")
    assert (done.returncode, done.stdout, os.listdir(tmp_path)) == (0, "", [])


def test_an_output_that_closes(tmp_path: Path) -> None:
    """``sonde ... | head -1``: it ends, without a traceback."""
    process = subprocess.Popen(
        sonde_command(["-e", 'interval:ms:1 { printf("line\\n"); }']), env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "line\n"
    process.stdout.close()
    process.wait(20)
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


# --- listing and information ------------------------------------------------------------------------------


def test_list_by_name() -> None:
    """Of whatever kind; not what only contains it."""
    lines = run_sonde("-l", "sched_switch").stdout.split()
    assert {"rawtracepoint:vmlinux:sched_switch", "tracepoint:sched:sched_switch"} <= set(lines)
    assert all(line.endswith(":sched_switch") for line in lines)
    assert set(lines) < set(run_sonde("-l", "sched_s*").stdout.split())


def test_listing() -> None:
    done = run_sonde("-l", "tracepoint:sock:inet_*")
    assert done.returncode == 0
    assert "tracepoint:sock:inet_sock_set_state\n" in done.stdout
    assert all(line.startswith("tracepoint:sock:inet_") for line in done.stdout.splitlines())


def test_listing_with_arguments() -> None:
    done = run_sonde("-lv", "tracepoint:syscalls:sys_enter_openat")
    assert "tracepoint:syscalls:sys_enter_openat\n" in done.stdout
    assert re.search(r"^ {4}const char ?\* ?filename$", done.stdout, re.M)


def test_listing_functions_of_a_program() -> None:
    done = run_sonde("-l", "uprobe:/bin/bash:readline*")
    assert "uprobe:/bin/bash:readline\n" in done.stdout


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_usage(option: str) -> None:
    done = run_sonde(option)
    assert done.returncode == 0
    text = (done.stdout + done.stderr).lower()
    assert "usage" in text and "--dry-run" in text


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option: str) -> None:
    done = run_sonde(option)
    assert done.returncode == 0
    assert re.match(r"sonde v?\d+\.\d+", done.stdout)


def test_info() -> None:
    done = run_sonde("--info")
    assert done.returncode == 0
    sections = {block.splitlines()[0]: dict(line.strip().split(": ", 1) for line in block.splitlines()[1:])
                for block in done.stdout.split("\n\n")}
    assert list(sections) == ["System", "Build", "Kernel helpers", "Kernel features", "Map types", "Probe types"]
    assert os.uname().release in sections["System"]["OS"]
    assert sections["Kernel helpers"]["probe_read_kernel"] == sections["Map types"]["percpu hash"] == "yes"
    from sonde.kernel.types.world import LiveWorld
    world = LiveWorld()
    for name, feature in (("kprobe", "kprobes"), ("fentry", "fentry"), ("uprobe_multi", "uprobe_multi")):
        assert sections["Probe types"][name] == ("yes" if world.has_feature(feature) else "no")


@pytest.mark.parametrize("stage", ["ast", "types", "ir", "dis"])
def test_stages_can_be_seen(stage: str) -> None:
    done = run_sonde("-d", stage, "-e", f"{GETPPID} {{ @ = count(); }}")
    assert done.returncode == 0
    assert done.stdout + done.stderr


def test_several_stages_can_be_seen() -> None:
    done = run_sonde("-d", "types,dis", "-e", "begin { exit(); }")
    assert re.findall(r"(?m)^; --- (.*)", done.stdout) == ["types", "dis"]
    refused = run_sonde("-d", "types,diss", "-e", "begin { exit(); }")
    assert refused.returncode != 0 and "invalid option for -d: diss" in refused.stderr


# --- checks and complaints --------------------------------------------------------------------------------


def test_check(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.bt", tmp_path / "bad.bt"
    good.write_text(f"{GETPPID} {{ @ = count(); }}\n")
    bad.write_text("tracepoint:sock:inet_sock_set_state { @ = args.nosuch; }\n")
    assert run_sonde("check", str(good)).returncode == 0
    done = run_sonde("check", str(good), str(bad))
    assert done.returncode == 1
    assert f"{bad}:1:" in done.stderr
    rest = run_sonde("check", "/nosuch.bt", str(good), str(tmp_path), str(good))
    assert rest.returncode == 1 and rest.stdout.count(f"{good}: 1 probe") == 2
    assert "/nosuch.bt': No such file" in rest.stderr and rest.stderr.count("ERROR: ") == 2
    lines = run_sonde("check", "-f", "json", str(good), str(bad))
    data = [json.loads(line)["data"] for line in lines.stdout.splitlines()]
    assert lines.returncode == 1 and not lines.stderr
    assert [one["compiles"] for one in data] == [True, False]
    assert data[1]["diagnostics"][0]["code"] == "unknown-field" and data[1]["diagnostics"][0]["file"] == str(bad)
    log = json.loads(run_sonde("check", "--format", "sarif", str(bad)).stdout)
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["unknown-field"]
    refused = run_sonde("check", "-f", "jsn", str(good))
    assert refused.returncode == 1 and "HINT: did you mean json?" in refused.stderr
    piped = run_sonde("check", "-", stdin=f"{GETPPID} {{ @ = count(); }}\n")
    assert piped.returncode == 0 and piped.stdout.startswith("-: 1 probe, ")


@pytest.mark.parametrize("limit", range(7, 50))
def test_too_few_open_files(limit: int) -> None:
    """Wherever it shows."""
    done = run_sonde("-e", f"{GETPPID} {{ @a[ustack] = count(); }} interval:ms:1 {{ exit(); }}",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, 4096)))
    assert done.returncode == 0 or done.stderr.endswith(
        "oo many open files\nHINT: the limit of open files is too low: ulimit -n 65536 raises it\n"), done.stderr
    assert done.returncode or limit > 30
    assert ".py" not in done.stderr


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("tracepoint:syscalls:sys_enter_opennat { }", ["sys_enter_openat"]),
        ("tracepoint:sock:inet_sock_set_state { @ = args.newstat; }", ["newstate"]),
        ("begin { @ = nsec; }", ["nsecs"]),
        ("begin { prinf(\"x\"); }", ["printf"]),
        ("begin { @ = curtask->group_leeder; }", ["group_leader"]),
        ("software:page-fault:100 { }", ["page-faults"]),
        ("begin { print(@nosuch); }", ["@nosuch"]),
    ],
)
def test_unknown_names_bring_the_nearest(program: str, words: list[str]) -> None:
    done = run_sonde("-e", program)
    assert done.returncode == 1
    assert "ERROR" in done.stderr
    assert all(word in done.stderr for word in words), done.stderr


def test_unsafe_functions_need_the_option() -> None:
    program = 'begin { system("echo ran"); exit(); }'
    refused = run_sonde("-e", program)
    assert refused.returncode == 1
    assert "--unsafe" in refused.stderr
    allowed = run_sonde("--unsafe", "-e", program)
    assert said(allowed) == (0, "ran\n\n")


@pytest.mark.parametrize(("words", "message"), [
    (["-e", ""], "USAGE: filename or -e 'program' required."),
    (["--dry-run"], "USAGE: filename or -e 'program' required."),
    (["-e"], "option requires an argument -- 'e'"), (["--include"], "option '--include' requires an argument"),
    (["--nosuch"], "unrecognized option '--nosuch'"), (["-Z"], "invalid option -- 'Z'"),
    (["--ver", "-e", "begin { }"],
     "option '--ver' is ambiguous; possibilities: '--verbose' '--verify-llvm-ir' '--version'"),
    (["-f", "pie", "-e", "begin { }"], 'Invalid output format "pie"'),
    (["-B", "some", "-e", "begin { }"], "USAGE: -B must be either 'line', 'full', or 'none'."),
    (["--mode", "some", "-e", "begin { }"],
     "USAGE: --mode can only be 'codegen', 'compiler-bench', 'bench', 'test' or 'format'."),
    (["-kk", "-e", "begin { }"], "USAGE: -kk has been deprecated. Use a single -k for runtime warnings for errors in "
                                 "map lookups and probe reads."),
    (["-p", "abc", "-e", "begin { }"], "Failed to parse pid: invalid integer: abc"),
    (["-p", "1x", "-e", "begin { }"], "Failed to parse pid: invalid trailing bytes: 1x"),
    (["--no-warnings", "-k", "-e", "begin { }"], "USAGE: -k conflicts with --no-warnings"),
    (["--no-feature", "kprobe_mutli", "-e", "begin { }"], "--no-feature: there is no feature 'kprobe_mutli'"),
    (["-p", "99999999999", "-e", "begin { }"], "Pid out of range: 99999999999"),
    (["-c", "true", "-p", str(os.getpid()), "-e", "begin { }"], "USAGE: Cannot use both -c and -p."),
    (["-c", "/nonexistent/x", "-e", "begin { }"],
     "Failed to fork child: Path '/nonexistent/x' does not exist or is not executable (No such file or directory)"),
    (["-o", "/nonexistent/x", "-e", "begin { }"],
     'Failed to open output file: "/nonexistent/x": No such file or directory'),
    (["-e", 'begin { print(getopt("n", 1)); }', "--", "--n=x"],
     "program command line option --n invalid integer (value: x)"),
])
def test_wrong_options_are_said_in_bpftraces_words(words: list[str], message: str) -> None:
    done = run_sonde(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(rf"(?m)^(stdin:[0-9:-]+: )?ERROR: {re.escape(message)}$", done.stderr), done.stderr


def test_a_list_of_nothing_is_no_failure() -> None:
    done = run_sonde("-l", "tracepoint:syscalls:nosuch")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "WARNING: nothing matches 'tracepoint:syscalls:nosuch'\n"
    assert "HINT: did you mean tracepoint:syscalls:sys_enter_openat?" in run_sonde("-l", "opneat").stderr
    assert run_sonde("-l", "self:*").stdout == "self:signal:SIGUSR1\n"


def test_not_root_is_told_what_is_missing() -> None:
    """Another user gets the reason and the way out, in words."""
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        pytest.skip(f"needs {python}, which every user may run")
    version = subprocess.run([python, "-c", "import sys; print(sys.version_info >= (3, 11))"], capture_output=True)
    if version.stdout != b"True\n":
        pytest.skip(f"{python} is older than 3.11")
    package = Path(environment()["PYTHONPATH"])
    if any(not (folder.stat().st_mode & 0o005) for folder in (package, *package.parents)):
        pytest.skip("the source tree is not readable by other users")
    done = subprocess.run(
        [python, "-B", "-m", "sonde", "-e", f"{GETPPID} {{ @ = count(); }}"],
        env=environment({"HOME": "/nonexistent"}), capture_output=True, text=True, user=65534, group=65534,
        extra_groups=[], timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(r"root|CAP_\w+|sudo", done.stderr)


def test_killed_it_leaves_nothing_behind() -> None:
    """After SIGKILL the kernel has dropped the programs, for nothing is pinned."""
    with Tracer("-e", f"{GETPPID} {{ @ = count(); }} interval:s:1 {{ }}") as tracer:
        held = program_ids(tracer.pid)
        assert held
        tracer.process.kill()
        tracer.process.wait()
    deadline = time.monotonic() + 10
    while (left := held & all_program_ids()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def program_ids(pid: int) -> set[int]:
    """Ids of the BPF programs that a process holds open."""
    found = set()
    for entry in os.listdir(f"/proc/{pid}/fdinfo"):
        text = Path(f"/proc/{pid}/fdinfo/{entry}").read_text()
        found |= {int(number) for number in re.findall(r"^prog_id:\t(\d+)$", text, re.M)}
    return found


def all_program_ids() -> set[int]:
    """Ids of all BPF programs of the machine, asked of bpf(BPF_PROG_GET_NEXT_ID)."""
    import ctypes

    number = {"x86_64": 321, "aarch64": 280, "s390x": 351}[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 32)()
    found: set[int] = set()
    while libc.syscall(number, 11, ctypes.byref(attr), ctypes.sizeof(attr)) == 0:
        found.add(attr[1])
        attr[0] = attr[1]
    return found


# --- as getopt has it, and listings of files --------------------------------------------------------------


@pytest.mark.parametrize("words", [
    ["-qe", "PROGRAM"], ["-qfjson", "-e", "PROGRAM"], ["-kqe", "PROGRAM"], ["-qePROGRAM"]])
def test_short_options_cluster(words: list[str]) -> None:
    done = run_sonde(*[word.replace("PROGRAM", "begin { print(42); }") for word in words])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == ('{"type": "value", "data": 42}' if "-qfjson" in words else "42")


def test_an_unknown_letter_of_a_cluster_is_named() -> None:
    assert run_sonde("-qxe", "begin { }").stderr.splitlines()[0] == "ERROR: invalid option -- 'x'"


def test_listing_a_file_shows_kinds_without_their_counts(tmp_path: Path) -> None:
    script = tmp_path / "some.bt"
    script.write_text("begin { } i:s:1 { } profile:hz:99 { } software:page-faults:100 { } t:sched:sched_switch { }")
    assert run_sonde("-l", str(script)).stdout.split() == [
        "interval:s:", "profile:hz:", "software:page-faults:", "tracepoint:sched:sched_switch"]


def test_a_listed_script_that_names_what_is_not_there() -> None:
    done = run_sonde("-l", "-e", "t:sched:nosuch { } t:sched:sched_switch { }")
    assert (done.returncode, done.stdout) == (1, "tracepoint:sched:sched_switch\n")
    assert done.stderr == "ERROR: No matches for tracepoint:sched:nosuch.\n"


def test_several_patterns_are_listed() -> None:
    found = run_sonde("-l", "t:sched:sched_switch", "t:nosuch:x", "t:sched:sched_waking")
    assert found.stdout.split() == ["tracepoint:sched:sched_switch", "tracepoint:sched:sched_waking"]
    assert found.stderr.startswith("WARNING: nothing matches 't:nosuch:x'\n")


def test_headers_are_looked_for_in_the_working_directory(tmp_path: Path) -> None:
    """After the script's own."""
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "some.bt"
    script.write_text('#include "a.h"\n#include "b.h"\nbegin { print((A, B)); exit(); }')
    (tmp_path / "a.h").write_text("#define A 1\n")
    (tmp_path / "b.h").write_text("#define B 2\n")
    (tmp_path / "scripts" / "b.h").write_text("#define B 3\n")
    assert run_sonde("-q", str(script), cwd=tmp_path).stdout.split("\n")[0] == "(1, 3)"


def test_a_script_that_is_not_there_is_taken_for_a_pattern() -> None:
    done = run_sonde("-l", "nowhere.bt")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == ("WARNING: It appears that 'nowhere.bt' is a filename but the file does not "
                                           "exist. Treating 'nowhere.bt' as a search pattern.")


def test_definitions_name_their_module() -> None:
    assert run_sonde("-lv", "struct mm_struct").stdout.startswith("vmlinux: struct mm_struct {\n")


def test_any_kind_of_a_files_probes() -> None:
    found = run_sonde("-l", "*:/bin/bash:readline*").stdout.split()
    assert found and all(line.startswith("uprobe:/bin/bash:readline") for line in found)


def test_a_service_manager_is_told(tmp_path: Path) -> None:
    """READY=1 once all is attached, STOPPING=1 when the run ends, to the socket of NOTIFY_SOCKET (sd_notify(3))."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        done = run_sonde("-e", "i:ms:20 { exit(); }", env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert done.returncode == 0
        assert [manager.recv(64), manager.recv(64)] == [b"READY=1", b"STOPPING=1"]
        assert "WARNING" not in done.stderr
        counted = run_sonde("--count", "1", "-e", 'i:ms:20 { printf("x"); }',
                            env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert counted.returncode == 0 and [manager.recv(64), manager.recv(64)] == [b"READY=1", b"STOPPING=1"]


@pytest.mark.parametrize("address, why", [
    ("{}/notify", "Connection refused"), ("{}/nothing", "No such file or directory"),
    ("@nobody/{}", "Connection refused"), ("vsock:2:1", "the address is none of AF_UNIX"),
    ("/" + "x" * 200, "AF_UNIX path too long")])
def test_a_service_manager_that_cannot_be_told(tmp_path: Path, address: str, why: str) -> None:
    """The run goes on, and one line says what the manager will wait for."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
        gone.bind(str(tmp_path / "notify"))
    done = run_sonde("-e", "begin { print(1); exit(); }", env={"NOTIFY_SOCKET": address.format(tmp_path)})
    assert (done.returncode, done.stdout.strip()) == (0, "1")
    assert [line for line in done.stderr.splitlines() if "WARNING" in line] == [
        f"WARNING: the service manager (NOTIFY_SOCKET) was not told READY=1: {why}"]


def test_a_command_of_the_end_is_run_after_ctrl_c() -> None:
    """However long it takes; a second Ctrl-C ends it."""
    script = 'interval:s:100 { } end { printf("end\\n"); system("sleep 1.5; echo told"); printf("after\\n"); }'
    with Tracer("--unsafe", "-e", script) as tracer:
        pass
    assert tracer.stdout.split() == ["end", "told", "after"]
    assert tracer.stderr.splitlines() == ["Attached 2 probes"]


def test_a_command_of_the_end_has_an_ordinary_priority() -> None:
    """The tracer itself goes before others by then; what a command leaves behind is not to."""
    nice = "cut -d' ' -f19 /proc/self/stat"
    before = subprocess.run(["sh", "-c", nice], capture_output=True, text=True, check=True).stdout
    done = run_sonde("--unsafe", "-q", "-e", f'begin {{ exit(); }} end {{ system("{nice}"); }}')
    assert done.returncode == 0 and done.stdout.split() == before.split()
