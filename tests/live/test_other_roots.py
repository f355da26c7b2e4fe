"""Programs below a chroot, or in a mount namespace of their own, have names as all others do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import compile_c, run_sonde

# Two libraries' worth of names: a function of the program, called over and over, that sleeps in libc.
LOOP = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noipa)) int inner_work(void) { return usleep(2000) + getppid(); }
__attribute__((noipa)) int outer_work(void) { return inner_work() + 1; }
int main(void) {
    puts("ready");
    fflush(stdout);
    for (;;) outer_work();
}
"""


def copy_with_libraries(program: Path, root: Path) -> None:
    """A root directory with a program, its loader and its libraries, where they are here."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    paths = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
    for path in paths:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), root / path[1:])
    (root / "opt").mkdir(exist_ok=True)
    shutil.copy(program, root / "opt/loop")


def in_chroot(root: Path) -> list[str]:
    return ["chroot", str(root), "/opt/loop"]


def in_namespace(root: Path) -> list[str]:
    """The program is on a file system that only its namespace has mounted."""
    hidden = root / "hidden"
    hidden.mkdir(exist_ok=True)
    script = f"mount -t tmpfs none {hidden} && cp {root}/opt/loop {hidden}/loop && exec {hidden}/loop"
    return ["unshare", "--mount", "sh", "-c", script]


def in_chroot_of_a_namespace(root: Path) -> list[str]:
    hidden = root / "jail"
    hidden.mkdir(exist_ok=True)
    script = f"mount -t tmpfs none {hidden} && cp -r {root}/opt {root}/lib* {hidden}/ && exec chroot {hidden} /opt/loop"
    return ["unshare", "--mount", "sh", "-c", script]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    program = compile_c(LOOP, tmp_path_factory.mktemp("loop"), "loop", "-fno-omit-frame-pointer", "-g")
    copy_with_libraries(program, folder)
    return folder


@pytest.fixture(params=[in_chroot, in_namespace, in_chroot_of_a_namespace], ids=lambda each: each.__name__)
def elsewhere(request: pytest.FixtureRequest, root: Path) -> Iterator[int]:
    """A process with another root, or with other mounts."""
    start: Callable[[Path], list[str]] = request.param
    with subprocess.Popen(start(root), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process.pid
        process.kill()


@pytest.mark.parametrize("stack", ["ustack", "dw_ustack"])
def test_frames_have_names(stack: str, elsewhere: int) -> None:
    script = "tracepoint:syscalls:sys_enter_getppid { @[STACK] = count(); } interval:ms:500 { exit(); }"
    result = run_sonde("-p", str(elsewhere), "-e", script.replace("STACK", stack))
    assert result.returncode == 0
    wanted = ["outer_work", "main"] + ["inner_work"] * (stack == "dw_ustack")  # libc's functions make no frames
    assert all(f"{name}+" in result.stdout for name in wanted) and "getppid+" in result.stdout, result.stdout


@pytest.mark.parametrize("place", ["libc:getppid", "/opt/loop:inner_work", "*loop*:inner_work"])
def test_probes_by_what_it_has_mapped(place: str, elsewhere: int, root: Path, request: pytest.FixtureRequest) -> None:
    if "in_namespace" in request.node.name:
        place = place.replace("/opt/loop", f"{root}/hidden/loop")
    result = run_sonde("-p", str(elsewhere), "-e", f"uprobe:{place} {{ @n = count(); }} interval:ms:500 {{ exit(); }}")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split("@n: ")[1].split()[0]) > 3


def test_a_program_that_starts_while_it_is_traced(root: Path) -> None:
    """Its mappings are reported by its own paths."""
    script = """tracepoint:syscalls:sys_enter_getppid /comm == "loop"/ {
        @[ustack] = count(); @n++; if (@n == 20) { exit(); } }"""
    with_delay = ["sh", "-c", f"sleep 0.1; exec chroot {root} /opt/loop"]
    result = run_sonde("-c", " ".join([with_delay[0], "-c", f"'{with_delay[2]}'"]), "-e", script)
    assert result.returncode == 0, result.stderr
    assert "main+" in result.stdout and "outer_work+" in result.stdout, result.stdout
