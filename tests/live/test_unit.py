"""The service that ``sonde unit`` makes: systemd accepts it, and its capabilities are enough, and none is too many."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sonde import api
from sonde.commands.unit import PURPOSES, needed, quoted
from support import environment, run_sonde

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


def test_two_are_enough_for_raw_tracepoints_and_neither_can_be_spared() -> None:
    capabilities = needed(api.compile(RAW))
    assert capabilities == ["CAP_BPF", "CAP_PERFMON"]
    done = confined(capabilities, RAW, uid=0)
    assert done.returncode == 0 and "@: " in done.stdout, done.stderr
    for name in capabilities:
        refused = confined(without(capabilities, name), RAW, uid=0)
        assert refused.returncode == 1 and f"not permitted without {name}" in refused.stderr


def test_tracepoints_and_kernel_names_need_two_more() -> None:
    capabilities = needed(api.compile(NAMED))
    assert capabilities == ["CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH", "CAP_SYSLOG"]
    done = confined(capabilities, NAMED)
    assert done.returncode == 0 and any(name in done.stdout for name in FUNCTIONS), done.stderr
    nameless = confined(without(capabilities, "CAP_SYSLOG"), NAMED)
    assert nameless.returncode == 0 and not any(name in nameless.stdout for name in FUNCTIONS)
    # as nobody, Python itself may be out of reach then; what counts is that tracing is
    assert confined(without(capabilities, "CAP_DAC_READ_SEARCH"), NAMED).returncode != 0


def test_user_stacks_need_to_look_into_processes() -> None:
    spec = api.compile("profile:hz:99 { @[ustack, (comm, usym(reg(\"ip\")))] = count(); }")
    assert needed(spec) == ["CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE"]


def unit(*arguments: str) -> dict[str, str]:
    done = run_sonde("unit", *arguments)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line and not line.startswith("#"))


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
                                             str(script), "7"]
    assert found["AmbientCapabilities"] == found["CapabilityBoundingSet"] == "CAP_BPF CAP_PERFMON"


def test_what_is_exported_to_has_to_be_said() -> None:
    assert "export where to?" in run_sonde("unit", "runqlat").stderr
    assert "unrecognized option '--parquet'" in run_sonde("unit", "--parquet", "x", "runqlat").stderr


@pytest.mark.parametrize(("word", "text"), [
    ("plain-1.bt", "plain-1.bt"), ("a b", '"a b"'), ("100%", "100%%"), ("$x", '"$$x"'), ('"', '"\\""'), ("", '""'),
    ("a\nb", '"a\\nb"'), ("a\\b", '"a\\\\b"'),
])
def test_words_of_systemd(word: str, text: str) -> None:
    assert quoted(word) == text


def test_every_capability_has_its_reason() -> None:
    assert all(PURPOSES.values()) and list(PURPOSES)[:2] == ["CAP_BPF", "CAP_PERFMON"]
