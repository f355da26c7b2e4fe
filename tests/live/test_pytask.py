"""pytask, pytask_id: against what asyncio says of the task at the very system call that is traced."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from sonde.compiling import live_world
from support import Tracer, interpreters, run_sonde, wait_for

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="pytask is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")]

TARGET = Path(__file__).parents[1] / "pytask_target.py"
ROUNDS = int(os.environ.get("SONDE_PYTASK_ROUNDS", "4"))
CLOSE = "tracepoint:syscalls:sys_enter_close /pid == cpid && args.fd >= 1610612736 && args.fd < 1879048192/"
GETRESGID = "tracepoint:syscalls:sys_enter_getresgid /pid == cpid/"


@pytest.fixture(params=("3.11", "3.12", "3.13", "3.14"))
def python(request: pytest.FixtureRequest) -> list[str]:
    command = next(interpreters(request.param), None)
    if command is None:
        pytest.skip(f"python{request.param} is not installed")
    return command


def folder_for(python: list[str], folder: Path) -> tuple[Path, Path]:
    """(a folder for the target and what it notes, the same as that Python sees it): below another root in its /tmp."""
    if python[0] != "chroot":
        return folder, folder
    inside = Path(f"/tmp/pytask-{os.getpid()}")
    outside = Path(python[1]) / inside.relative_to("/")
    outside.mkdir(parents=True)
    return outside, inside


@pytest.mark.exact
def test_equals_what_asyncio_says(python: list[str], tmp_path: Path) -> None:
    folder, inside = folder_for(python, tmp_path)
    command = " ".join([*python, f"{inside}/target.py", f"{inside}/noted", str(ROUNDS)])
    script = f'{CLOSE} {{ printf("=%d %llu %s\\n", args.fd, pytask_id, pytask); }}'
    try:
        shutil.copy(TARGET, folder / "target.py")
        with Tracer("-c", command, "-e", script) as done:
            wait_for(lambda: " waits\n" in done.output())
            (folder / "noted.known").touch()
            done.wait()
        noted = {number: (name, id) for number, name, id in
                 map(json.loads, (folder / "noted").read_text().splitlines())}
    finally:
        if folder != tmp_path:
            shutil.rmtree(folder)
    shown = {int(number): (name, int(id)) for number, id, name in re.findall(r"^=(\d+) (\d+) (.*)$", done.stdout, re.M)}
    early = {number for number, (name, _) in noted.items() if name == "waits" and shown[number] == ("", 0)}
    assert len(noted) - len(early) > 200 * ROUNDS
    wrong = [(number, noted[number], shown.get(number)) for number in noted.keys() - early
             if shown.get(number) != noted[number]]
    assert not wrong, f"{len(wrong)} of {len(noted)}: {wrong[:3]}\n{done.stderr}"
    begun = re.sub(r"WARNING: \d+ Python stacks? or tasks? not read: the process had just begun\n", "", done.stderr)
    assert "WARNING" not in begun and (begun == done.stderr or early), done.stderr


ODD = """
import asyncio, os, sys, time
time.sleep(1)  # a process is known a moment after it began

async def call():
    os.getresgid()

async def main():
    loop = asyncio.get_running_loop()
    await loop.create_task(call(), name="x" * 70)
    await loop.create_task(call(), name="\\U0001f40d" * 16)
    await asyncio.tasks._PyTask(call(), loop=loop, name="of Python")
    for name in ("a", "b", "b"):
        await loop.create_task(call(), name=name)

os.getresgid()
asyncio.run(main())
"""


def test_names_are_cut_keys_and_filters_and_strangers_are_counted(tmp_path: Path) -> None:
    target = tmp_path / "odd.py"
    target.write_text(ODD)
    done = run_sonde("-f", "json", "-c", f"{sys.executable} {target}", "-e", f"""
        {GETRESGID} {{ @by_name[pytask] = count(); @ids[pytask_id != 0] = count(); @last[pid] = pytask; }}
        tracepoint:syscalls:sys_enter_getresgid /pid == cpid && pytask == "b"/ {{ @filtered = count(); }}""")
    maps: dict[str, object] = {}
    for line in map(json.loads, done.stdout.splitlines()):
        if line["type"] == "map":
            maps.update(line["data"])
    assert maps["@by_name"] == {"": 2, "x" * 63: 1, "\U0001f40d" * 15: 1, "a": 1, "b": 2}
    assert maps["@ids"] == {"false": 1, "true": 6}
    assert maps["@filtered"] == 2
    assert isinstance(maps["@last"], dict) and [*maps["@last"].values()] == ["b"]
    warnings = done.stdout + done.stderr
    assert "Name of a Python task longer than 63 bytes: it is cut." in warnings
    assert "Python task without a name: it is neither asyncio's own" in warnings


def test_programs_without_asyncio_have_none() -> None:
    done = run_sonde("-c", f"{sys.executable} -c 'import os, time; time.sleep(1); os.getresgid()'", "-e",
                     f'{GETRESGID} {{ printf("<%s> %d\\n", pytask, pytask_id); }}')
    assert "<> 0" in done.stdout and "WARNING" not in done.stderr, done.stderr
    done = run_sonde("-c", "/bin/sh -c :", "-e", "t:syscalls:sys_enter_close /pid == cpid/ { @[pytask] = count(); }")
    assert re.fullmatch(r"\s*@\[\]: \d+\s*", done.stdout) and "Python" not in done.stderr
