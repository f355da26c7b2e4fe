"""Options that say how far a run goes, and those that other tracers' scripts and suites pass to every run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support import compile_c, run_sonde

HELLO = 'begin { printf("hello\\n"); exit(); }'


@pytest.mark.parametrize("option", [
    "--verify-llvm-ir", "--usdt-file-activation", "--dwarf-pid 1", "--debuginfo /tmp:/usr"])
def test_options_that_change_nothing_here(option: str) -> None:
    done = run_sonde("-q", *option.split(), "-e", HELLO)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "hello", "")


@pytest.mark.parametrize("option", ["--emit-llvm", "--emit-elf", "--aot"])
def test_what_only_llvm_makes(option: str, tmp_path: Path) -> None:
    done = run_sonde(option, str(tmp_path / "out"), "-e", HELLO)
    assert done.returncode == 1 and done.stderr.startswith(f"ERROR: {option}: there is no LLVM")
    assert not (tmp_path / "out").exists()


def test_codegen_compiles_only() -> None:
    done = run_sonde("--mode", "codegen", "-e", HELLO)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run_sonde("--mode", "codegen", "-e", "begin { $x }").returncode == 1


def test_the_compiler_is_measured() -> None:
    done = run_sonde("--mode", "compiler-bench", "-e", HELLO)
    head, rule, *rows = done.stdout.splitlines()
    assert head.split() == ["Benchmark", "Time(ns)", "Iterations"] and rule == "-" * len(head)
    times = {name: int(ns) for name, ns, _ in (row.split() for row in rows)}
    assert list(times) == ["parse", "compile"] and 0 < times["parse"] < times["compile"]
    done = run_sonde("--mode", "compiler-bench", "-f", "json", "-e", HELLO)
    found = [name for line in done.stdout.splitlines() for name in json.loads(line)["data"]]
    assert found == ["parse", "compile"]


def test_a_list_of_traceable_functions(tmp_path: Path) -> None:
    """It stands for the kernel's own: listed whatever this kernel can do."""
    functions = tmp_path / "functions"
    functions.write_text("vfs_read\nvfs_write\nnf_hook [nf_tables]\nvfs_read\nrcu_core\n__ftrace_invalid_address___1\n")
    done = run_sonde("--traceable-functions", str(functions), "-l", "kprobe:*")
    assert done.stdout.splitlines() == ["kprobe:nf_hook", "kprobe:vfs_read", "kprobe:vfs_write"]
    done = run_sonde("--traceable-functions", str(functions), "-l", "kprobe:*:*,nf_hook,kprobe:rcu_*,kprobe:rcu_core")
    assert done.stdout.splitlines() == ["kprobe:nf_tables:nf_hook", "kprobe:vmlinux:vfs_read",
                                        "kprobe:vmlinux:vfs_write", "kprobe:nf_hook", "kprobe:rcu_core"]
    functions.write_text("tcp_v4_rcv\ntcp_rcv_established\ntcp_connect\nip_rcv\n")
    done = run_sonde("--traceable-functions", str(functions), "-l", "kprobe:*(arg0=sk_buff),kprobe:tcp_*(arg1=sk_buff)")
    assert done.stdout.split() == ["kprobe:ip_rcv", "kprobe:tcp_v4_rcv", "kprobe:tcp_rcv_established"]
    done = run_sonde("--traceable-functions", str(tmp_path / "none"), "-l", "kprobe:*")
    assert done.returncode == 1 and "No such file or directory" in done.stderr


def test_debug_files_elsewhere(tmp_path: Path) -> None:
    """A stripped program's functions are found in the debug file of a directory that --debuginfo names."""
    import subprocess
    target = compile_c("int hidden(int x) { return x + 1; } int main(void) { return hidden(41) - 42; }", tmp_path,
                       "target", "-Wl,--build-id")
    notes = subprocess.run(["readelf", "-n", str(target)], capture_output=True, text=True, check=True).stdout
    identity = re.search(r"Build ID: ([0-9a-f]+)", notes)
    assert identity is not None
    place = tmp_path / "debug" / ".build-id" / identity[1][:2]
    place.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(target), str(place / f"{identity[1][2:]}.debug")], check=True)
    subprocess.run(["strip", "--strip-all", str(target)], check=True)
    program = f"uprobe:{target}:hidden {{ @ = count(); }}"
    assert run_sonde("-c", str(target), "-e", program).returncode == 1
    done = run_sonde("-q", "--debuginfo", f"/nowhere:{tmp_path / 'debug'}", "-c", str(target), "-e", program)
    assert done.stdout.strip() == "@: 1", done.stderr


def test_a_script_is_formatted_into_a_file_also_its_own(tmp_path: Path) -> None:
    script = tmp_path / "a.bt"
    script.write_text("begin{exit();}")
    assert run_sonde("--fmt", str(script)).stdout == "begin { exit(); }\n"
    done = run_sonde("--fmt", "-o", str(script), str(script))
    assert (done.returncode, done.stdout, script.read_text()) == (0, "", "begin { exit(); }\n")
