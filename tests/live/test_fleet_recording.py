"""Fleets of real agents that are recorded: a replay gives the bytes that the run gave, in each form."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support import SOURCE, run_sonde

HOSTS = ("-H", "local:a,local:b,unix:/nonexistent", "--window", "0.2")
SCRIPT = r"""begin { printf("all say this\n"); @level = 5; }
tracepoint:syscalls:sys_enter_read { @[comm] = count(); @sizes = hist(args.count); }
interval:ms:300 { printf("%d host=%s\n", pid, "x\033[2J"); print(@sizes); print((1, "two")); @turns++; }
interval:s:2 { exit(); }"""


@pytest.fixture(autouse=True)
def same_sonde(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are children run this tree."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))


@pytest.mark.exact
@pytest.mark.parametrize("form", [("text",), ("json",), ("csv",), ("csv", "--by", "host"), ("html",), ("heatmap",),
                                  ("text", "--outliers"), ("json", "--by", "host", "--outliers"), ("perfetto",)],
                         ids=" ".join)
def test_a_replay_gives_the_bytes_of_the_run(form: tuple[str, ...], tmp_path: Path) -> None:
    kept, made, again = (str(tmp_path / name) for name in ("r.sonde", "made", "again"))
    live = run_sonde("fleet", *HOSTS, "-f", *form, "-o", made, "--record", kept, "-e", SCRIPT)
    replayed = run_sonde("replay", "-f", *form[:1], "-o", again, kept)
    assert live.returncode == replayed.returncode == 3, live.stderr + replayed.stderr
    assert (live.stdout, live.stderr) == (replayed.stdout, replayed.stderr)
    shown = Path(made).read_bytes()
    assert shown == Path(again).read_bytes() and len(shown) > 200
    assert "missing: /nonexistent (no agent listens" in live.stderr + shown.decode()


def test_one_recording_has_all_forms_hosts_apart_too(tmp_path: Path) -> None:
    kept = str(tmp_path / "r.sonde")
    done = run_sonde("record", "fleet", *HOSTS, "-o", kept, "-e", SCRIPT)
    assert done.returncode == 3 and done.stdout == "" and "2 of 3 hosts" in done.stderr, done.stderr
    lines = run_sonde("replay", "-f", "json", kept).stdout.splitlines()
    [merged] = [value for line in lines if (value := json.loads(line)["data"]) and "@turns" in value]
    assert sorted(merged["@turns"]) == ["a", "b"]
    apart = run_sonde("replay", "--by", "host", kept).stdout
    assert "@sizes[a]:" in apart and "@sizes[b]:" in apart and "@level[a]: 5" in apart
    ranked = run_sonde("replay", "--outliers", "-o", str(tmp_path / "x"), kept)
    assert ranked.returncode == 3 and "farthest from the rest" in (tmp_path / "x").read_text()


def test_rows_of_a_tool(tmp_path: Path) -> None:
    """Of a run that printed text: with the text are the cells."""
    kept = str(tmp_path / "r.sonde")
    name = f"sonde-test-{os.getpid()}"
    with subprocess.Popen(["/bin/sh", "-c", "while sleep 0.1; do :; done", name]) as workload:
        live = run_sonde("fleet", "-H", "local:a,local:b", "--seconds", "1.5", "--record", kept, "execsnoop",
                         "--name", "sleep")
        workload.terminate()
    replayed = run_sonde("replay", kept)
    assert live.returncode == 0 and live.stdout == replayed.stdout, live.stderr + replayed.stderr
    rows = [json.loads(line) for line in run_sonde("replay", "-f", "json", kept).stdout.splitlines()]
    assert {"a", "b"} == {row["host"] for row in rows if row["type"] == "row"}, rows


def test_what_a_recording_cannot_be_asked_is_said(tmp_path: Path) -> None:
    kept = str(tmp_path / "r.sonde")
    assert run_sonde("fleet", "-H", "local:a", "--record", kept, "-e", "begin { @ = count(); exit(); }").returncode == 0
    for words, said in {("replay", kept, "-e", "begin { }"): "has no events that could be asked",
                        ("top", kept): "was recorded of a fleet", ("diff", kept, kept): "was recorded of a fleet",
                        ("replay", "--by", "pod", kept): "--by host, not --by pod",
                        ("replay", "--outliers", __file__): "is of a fleet's recording, and",
                        ("fleet", "-H", "local:a", "-f", "recording", "-e", "begin { }"): "goes to a file",
                        ("top", "fleet", "-H", "local:a", "--record", kept, "-e", "begin { }"): "prints or draws",
                        }.items():
        done = run_sonde(*words)
        assert done.returncode == 1 and said in done.stderr, done.stderr
    whole = Path(kept).read_bytes()
    Path(kept).write_bytes(whole[:-5])
    done = run_sonde("replay", kept)
    assert done.returncode == 1 and "ends before the run did" in done.stderr and "@: 1" in done.stdout


def test_a_full_disk_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    if os.path.exists("/dev/full"):
        done = run_sonde("fleet", "-H", "local:a", "--record", "/dev/full", "-e", "begin { @ = count(); exit(); }")
        assert done.returncode == 1 and "@: 1\n" in done.stdout
        assert "WARNING: the recording ends here: No space left on device" in done.stderr
