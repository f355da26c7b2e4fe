"""The service that ``sonde unit`` makes: systemd accepts it, and its capabilities are enough, and none is too many."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sonde import compiling
from sonde.cli.commands.unit import PURPOSES, needed_capabilities, quote_word
from sonde.kernel.denials import root_has_perf_events
from support import compile_c, environment, run_sonde

END = "interval:ms:200 { exit(); }"
RAW = f"rawtracepoint:sched_switch {{ @ = count(); }} {END}"
NAMED = f"tracepoint:sched:sched_switch {{ @[kstack(3)] = count(); }} {END}"
FUNCTIONS = ("schedule", "cpuidle", "do_idle", "__sched", "futex")


def confined(capabilities: list[str], program: str, uid: int = 65534) -> subprocess.CompletedProcess[str]:
    """Run a program as a user with just these capabilities (uid 0 without any reads what root owns)."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    caps = ",".join(["-all", *["+" + name.removeprefix("CAP_").lower() for name in capabilities]])
    who = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    return subprocess.run(
        ["setpriv", *who, f"--inh-caps={caps}", f"--ambient-caps={caps}", f"--bounding-set={caps}",
         sys.executable, "-B", "-m", "sonde", "-e", program], capture_output=True, text=True, check=False, cwd="/",
        timeout=100, env=environment({"HOME": "/nonexistent", "XDG_CACHE_HOME": "/proc/nowhere"}))


def without(capabilities: list[str], name: str) -> list[str]:
    return [each for each in capabilities if each != name]


# Where kernel.perf_event_paranoid keeps perf events for it (Debian's kernels); it stands for the others as well.
ADMIN = ["CAP_SYS_ADMIN"] if root_has_perf_events() else []


def test_two_are_enough_for_raw_tracepoints_and_neither_can_be_spared() -> None:
    capabilities = needed_capabilities(compiling.compile(RAW))
    assert capabilities == ["CAP_BPF", "CAP_PERFMON", *ADMIN]
    done = confined(capabilities, RAW, uid=0)
    assert done.returncode == 0 and "@: " in done.stdout, done.stderr
    for name in ADMIN or capabilities:
        refused = confined(without(capabilities, name), RAW, uid=0)
        assert refused.returncode == 1 and f"not permitted without {name}" in refused.stderr


def test_tracepoints_and_kernel_names_need_two_more() -> None:
    capabilities = needed_capabilities(compiling.compile(NAMED))
    assert capabilities == ["CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH", "CAP_SYSLOG", *ADMIN]
    done = confined(capabilities, NAMED)
    assert done.returncode == 0 and any(name in done.stdout for name in FUNCTIONS), done.stderr
    if ADMIN:
        return
    nameless = confined(without(capabilities, "CAP_SYSLOG"), NAMED)
    assert nameless.returncode == 0 and not any(name in nameless.stdout for name in FUNCTIONS)
    # as nobody, Python itself may be out of reach then; what counts is that tracing is
    assert confined(without(capabilities, "CAP_DAC_READ_SEARCH"), NAMED).returncode != 0


def test_user_stacks_need_to_look_into_processes() -> None:
    spec = compiling.compile("profile:hz:99 { @[ustack, (comm, usym(reg(\"pc\")))] = count(); }")
    assert needed_capabilities(spec) == ["CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE", *ADMIN]


def test_the_reader_of_programs_needs_no_more(tmp_path: Path) -> None:
    """Not CAP_SETUID either: it stays who it is, and names the functions of root's process, which is not ours."""
    target = compile_c("int main(void) { for (volatile long n = 0;; n++); }", tmp_path)
    with subprocess.Popen([target]) as running:
        try:
            script = f"profile:hz:499 /pid == {running.pid}/ {{ @[ustack(1)] = count(); }} interval:s:1 {{ exit(); }}"
            done = confined(needed_capabilities(compiling.compile(script)), script)
        finally:
            running.kill()
    assert done.returncode == 0 and "main+" in done.stdout, done.stdout + done.stderr


def unit(*arguments: str) -> dict[str, str]:
    done = run_sonde("unit", *arguments)
    assert done.returncode == 0, done.stderr
    return settings(done.stdout)


def settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_systemd_accepts_it(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "sonde-test.service"
    done = run_sonde("unit", "--prometheus", "127.0.0.1:9941", "-o", str(file), "-e", NAMED)
    assert done.returncode == 0, done.stderr
    checked = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
    mine = [line for line in checked.stderr.splitlines() if "sonde-test" in line]
    assert checked.returncode == 0 and not mine, checked.stderr


def test_the_command_is_the_export(tmp_path: Path) -> None:
    script = tmp_path / "my script.bt"
    script.write_text(RAW)
    found = unit("--otlp", "http://c:4318/v1/metrics", "--interval", "3", str(script), "7")
    words = shlex.split(found["ExecStart"])
    assert words[words.index("export"):] == ["export", "-q", "--otlp", "http://c:4318/v1/metrics", "--interval=3",
                                             "--budget=5%%", str(script), "7"]
    capabilities = " ".join(["CAP_BPF", "CAP_PERFMON", *ADMIN])
    assert found["AmbientCapabilities"] == found["CapabilityBoundingSet"] == capabilities


def test_a_tools_own_options_stand_behind_its_name() -> None:
    words = shlex.split(unit("--prometheus", "runqlat", "-m", "--keys", "50", "-i", "7")["ExecStart"])
    assert words[words.index("export"):] == ["export", "-q", "--prometheus", "--keys=50", "--budget=5%%", "runqlat",
                                             "--milliseconds", "--interval=7"]
    assert "neither -p nor -c" in run_sonde("unit", "--prometheus", "-p", "7", "runqlat").stderr


def test_another_budget(tmp_path: Path) -> None:
    assert "--budget=0.5%%" in shlex.split(unit("--prometheus", "--budget", "0.5%", "-e", RAW)["ExecStart"])
    assert "--budget takes a share" in run_sonde("unit", "--prometheus", "--budget", "half", "-e", RAW).stderr


def words_of(line: str) -> list[str]:
    """The words of an ExecStart=, by the rules of systemd.syntax(7) and systemd.service(5)."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    escapes = {"n": b"\n", "t": b"\t", "\\": b"\\", '"': b'"'}

    def plain(match: re.Match[bytes]) -> bytes:
        text = match[1].decode()
        return bytes([int(text[1:], 16)]) if text[0] == "x" else escapes[text]
    found = [re.sub(rb'\\(x[0-9a-f]{2}|.)', plain, (quoted or bare).encode()).decode("utf-8", "surrogateescape")
             for quoted, bare in words]
    assert not any(re.search(r"%(?!%)|\$(?!\$)", word.replace("%%", "").replace("$$", "")) for word in found)
    return [word.replace("%%", "%").replace("$$", "$") for word in found]


NAMES = ["a\n[Service]\nExecStartPre=x", "a\rExecStartPre=x", "%n %%h", "${HOME} $x", 'q"uo\'te', "ends in \\",
         " ; a;b ", "\u2028\u202e\x85\x1b[31m", "\udcff\udc80", "#x", "\\x41\\n"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_is_a_name(name: str, tmp_path: Path) -> None:
    """Whatever a script is called, nothing but that name is in the unit, which is otherwise the same."""
    script, plain, file = tmp_path / f"{name}.bt", tmp_path / "plain.bt", tmp_path / "sonde-test.service"
    for each in (script, plain):
        each.write_text(RAW)
    done = run_sonde("unit", "--prometheus", "-o", str(file), str(script), "7", "--", name)
    assert done.returncode == 0, done.stderr
    data = file.read_bytes()
    text = data.decode()  # or else systemd would leave the line out
    assert not set(data) & {0, 13, 27} and len(text.splitlines()) == data.count(b"\n")
    assert words_of(settings(text)["ExecStart"])[-5:] == ["--budget=5%", str(script), "7", "--", name]
    usual = run_sonde("unit", "--prometheus", str(plain)).stdout.splitlines()
    differ = [ours for ours, theirs in zip(text.splitlines(), usual, strict=True) if ours != theirs]
    assert [line.partition(" ")[0].partition("=")[0] for line in differ] == ["#", "Description", "ExecStart"]
    if shutil.which("systemd-analyze"):
        checked = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0 and "sonde-test" not in checked.stderr, checked.stderr


def test_the_bounds_follow_from_the_script() -> None:
    small = int(unit("--prometheus", "-e", RAW)["MemoryMax"])
    assert int(unit("--prometheus", "--memory", "256M", "-e", RAW)["MemoryMax"]) == small + (128 << 20)
    large = unit("--prometheus", "-e", f"config = {{ max_map_keys = 1000000 }} {RAW} begin {{ @b[pid] = nsecs; }}")
    assert small + 1_000_000 * (4 + 8) < int(large["MemoryMax"]) < small + 1_000_000 * 200
    wide = unit("--prometheus", "-e", f"tracepoint:sched:* {{ @ = count(); }} {END}")
    assert int(wide["LimitNOFILE"]) > int(large["LimitNOFILE"]) > 1024 and wide["OOMPolicy"] == "continue"
    free = unit("--prometheus", "--unsafe", "-e", 'interval:s:1 { system("date"); }')
    assert not {"MemoryMax", "TasksMax"} & free.keys()


def test_the_options_of_the_run_are_kept() -> None:
    words = words_of(unit("--prometheus", "--memory=64M", "--budget", "2%", "-k", "--no-feature", "fentry,jit",
                          "-I", "x y", "-I", "/z", "-e", RAW)["ExecStart"])
    assert words[words.index("--budget=2%"):] == [
        "--budget=2%", "-I", os.path.abspath("x y"), "-I", "/z", "--warnings", "--memory=64M",
        "--no-feature=fentry,jit", "-e", RAW]
    for refused in (["-p", "1", "-e", RAW], ["-c", "true", "-e", RAW], ["-"]):
        done = run_sonde("unit", "--prometheus", *refused)
        assert done.returncode == 1 and "unit: a service" in done.stderr and not done.stdout
    assert "--memory takes" in run_sonde("unit", "--prometheus", "--memory", "1K", "-e", RAW).stderr


def test_what_is_exported_to_has_to_be_said() -> None:
    assert "export where to?" in run_sonde("unit", "runqlat").stderr
    assert "unrecognized option '--parquet'" in run_sonde("unit", "--parquet", "x", "runqlat").stderr


@pytest.mark.parametrize(("word", "text"), [
    ("plain-1.bt", "plain-1.bt"), ("a b", '"a b"'), ("100%", "100%%"), ("$x", '"$$x"'), ('"', '"\\""'), ("", '""'),
    ("a\nb", '"a\\nb"'), ("a\\b", '"a\\\\b"'),
])
def test_words_of_systemd(word: str, text: str) -> None:
    assert quote_word(word) == text


def test_every_capability_has_its_reason() -> None:
    assert all(PURPOSES.values()) and list(PURPOSES)[:2] == ["CAP_BPF", "CAP_PERFMON"]
