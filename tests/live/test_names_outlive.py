"""Names that outlive: of files that were removed, replaced or stripped, here and on another machine. The program knows
its own chain."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from debuginfod_server import Server
from support import BARE_CALL, PATIENCE, Tracer, compile_c, run_sonde, trace, wait_for

PROBE = "tracepoint:syscalls:sys_enter_getppid"
CHAIN = BARE_CALL + r"""
#include <stdio.h>
volatile int depth;
void touch(void) { depth++; }
void leaf(void) { bare_getppid(); touch(); }
void middle(void) { leaf(); depth--; }
void top(void) { middle(); depth++; }
int main(int argc, char **argv) { top(); if (argc > 1) { puts("there"); fflush(stdout); getchar(); } return 0; }
"""
OTHER = CHAIN.replace("touch", "stroke").replace("leaf", "blossom").replace("middle", "stem").replace("top", "root")
FRAMES = ["leaf", "middle", "top", "main"]
FLAGS = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-fno-optimize-sibling-calls", "-fpie", "-pie",
         "-Wl,--build-id")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two programs of one layout whose functions have different names."""
    folder = tmp_path_factory.mktemp("outlive")
    return compile_c(CHAIN, folder, "first", *FLAGS), compile_c(OTHER, folder, "second", *FLAGS)


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """A store of symbols of its own."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def stored(env: dict[str, str]) -> list[str]:
    folder = Path(env["XDG_CACHE_HOME"], "sonde")
    return sorted(path.name.removeprefix("symbols-") for path in folder.glob("symbols-*"))


def build_id(path: Path) -> str:
    notes = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: (\w+)", notes)
    assert found
    return found[1]


def names(text: str, count: int = 4) -> list[str]:
    return re.findall(r"^\s+(\w+)\+\d+$", text, re.M)[:count]


def script(comm: str) -> str:
    return f'{PROBE} /comm == "{comm}"/ {{ @[ustack(4)] = count(); }}'


def run_waiting(program: Path) -> subprocess.Popen[str]:
    """A process that has done its call and waits."""
    process = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    return process


def build_ids_are_told() -> bool:
    """By perf_event_open(2), as Linux 5.12 does."""
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    return release >= (5, 12)


@pytest.mark.parametrize("after", ["removed", "replaced"])
def test_a_file_that_is_gone(after: str, programs: tuple[Path, Path], cache: dict[str, str], tmp_path: Path) -> None:
    """It is gone while the tracer runs, and its process too, when the map is printed: the names are those of the file
    that ran, and the next run knows them from the store."""
    if not build_ids_are_told():
        pytest.skip("this kernel does not tell build ids of mappings (Linux 5.12)")
    copy = tmp_path / "outlives"

    def run_and_change(tracer: Tracer) -> None:
        process = run_waiting(copy)
        held = f"/proc/{tracer.pid}/fd"
        wait_for(lambda: any(is_link_to(f"{held}/{fd}", copy) for fd in os.listdir(held)))
        process.communicate("\n")
        copy.unlink()
        if after == "replaced":
            shutil.copy(programs[1], copy)

    for _ in range(2):
        shutil.copy(programs[0], copy)
        with Tracer("-e", script("outlives"), env=cache) as tracer:
            run_and_change(tracer)
        assert names(tracer.stdout) == FRAMES
        assert stored(cache) == [build_id(programs[0])]


def is_link_to(link: str, path: Path) -> bool:
    try:
        return os.readlink(link) == str(path)
    except OSError:
        return False


def test_wrong_names_are_not_given(programs: tuple[Path, Path], cache: dict[str, str], tmp_path: Path) -> None:
    """A process from before, whose file is replaced by one of another build, and which has ended when it is asked
    about: its names cannot be had any more, and those of the other file are not taken for them."""
    copy = tmp_path / "before"
    shutil.copy(programs[0], copy)
    process = subprocess.Popen(["sh", "-c", f"read line; {copy}; true"], stdin=subprocess.PIPE, text=True)
    fresh = tmp_path / "fresh"
    shutil.copy(programs[1], fresh)

    def workload() -> None:
        process.communicate("\n")
        os.replace(fresh, copy)
    tracer = trace(script("before"), workload, env=cache)
    assert names(tracer.stdout) in ([], FRAMES)  # held in time, or not: both are true
    assert not {"blossom", "stem", "root"} & set(re.findall(r"\w+", tracer.stdout))


def test_a_stripped_file(programs: tuple[Path, Path], cache: dict[str, str], tmp_path: Path) -> None:
    """Packed where the symbols are, used where they are not."""
    other = {"XDG_CACHE_HOME": str(tmp_path / "elsewhere")}
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", bare, programs[0]], check=True)

    def trace_bare() -> list[str]:
        return names(trace(script("bare"), lambda: subprocess.run([bare], check=True), env=cache).stdout)
    assert trace_bare() == []
    done = run_sonde("symbols", "take", str(programs[0]), env=other)
    assert done.returncode == 0 and done.stdout == "Symbols of 1 file taken\n"
    pack = tmp_path / "pack"
    done = run_sonde("symbols", "-o", str(pack), "pack", build_id(programs[0])[:10], env=other)
    assert done.returncode == 0 and done.stdout == f"Symbols of 1 file in {pack}\n"
    done = run_sonde("symbols", "use", str(pack), env=cache)
    assert done.returncode == 0 and done.stdout == "Symbols of 1 file taken\n"
    assert trace_bare() == FRAMES


def test_a_server_has_the_debug_file(programs: tuple[Path, Path], cache: dict[str, str], tmp_path: Path) -> None:
    """debuginfod's protocol; what was fetched once is there when the server is not."""
    bare, debug = tmp_path / "fetched", tmp_path / "debug"
    subprocess.run(["strip", "-o", bare, programs[0]], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", programs[0], debug], check=True)
    server = Server()
    server.files[build_id(programs[0])] = debug.read_bytes()
    env = {**cache, "DEBUGINFOD_URLS": server.url}

    def trace_bare(*options: str) -> list[str]:
        return names(trace(script("fetched"), lambda: subprocess.run([bare], check=True), *options, env=env).stdout)
    try:
        assert trace_bare("--debuginfod", "") == [] and server.asked == []
        assert trace_bare() == FRAMES and f"/buildid/{build_id(programs[0])}/debuginfo" in server.asked
    finally:
        server.close()
    assert trace_bare() == FRAMES


def test_the_symbols_of_a_process(programs: tuple[Path, Path], cache: dict[str, str]) -> None:
    process = run_waiting(programs[0])
    try:
        done = run_sonde("symbols", "-p", str(process.pid), "take", env=cache)
    finally:
        process.communicate("\n", timeout=PATIENCE)
    assert done.returncode == 0 and build_id(programs[0]) in stored(cache)
    listed = {row[0]: row[1:] for line in run_sonde("symbols", "list", env=cache).stdout.splitlines()[1:]
              if (row := line.split())}
    assert set(listed) == set(stored(cache)) and len(listed) >= 3  # the program, the C library, the loader
    assert listed[build_id(programs[0])][2] == str(programs[0])
