"""A kernel that shows no types of its own, which a tmpfs over them makes of this one: they are in a file that is named,
or in one that has the kernel's build id. Files of other kernels are refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sonde.btf.codec import build_program_btf
from sonde.kernel.types.btf_files import kernel_build_id
from sonde.kernel.types.world import LiveWorld
from support import PATIENCE, compile_c, environment, run_sonde, sonde_command

pytestmark = [pytest.mark.live, pytest.mark.exact]
CALLS = 300
WORK = f"#include <unistd.h>\nint main(void) {{ for (int i = 0; i < {CALLS}; i++) getppid(); return 0; }}"
HIDE = 'mount -t tmpfs none /sys/kernel/btf && exec "$@"'
TYPED = """tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @[curtask->comm, curtask->tgid == pid] = count(); }
    rawtracepoint:sched_process_exit /args.p->tgid == cpid/ { @ends[str(args.p->comm)] = count(); }"""
SHOWN = f"@[typed, true]: {CALLS}\n@ends[typed]: 1"
OTHERS = "type information of another kernel: "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the kernel's types, and a program that makes its calls."""
    found = tmp_path_factory.mktemp("types")
    shutil.copyfile("/sys/kernel/btf/vmlinux", found / "vmlinux.btf")
    compile_c(WORK, found, "typed")
    return found


def run_hidden(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "--mount", "sh", "-c", HIDE, "hide", *sonde_command([*words, "-c", str(folder / "typed")])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False,
                          stdin=subprocess.DEVNULL, env=environment({"XDG_CACHE_HOME": str(folder), **(env or {})}))
    assert "Traceback" not in done.stderr and "rejected" not in done.stderr, done.stderr
    return done


def elf_with_types(folder: Path, path: Path, build_id: str) -> Path:
    """An ELF file that has the kernel's types, and that build id."""
    program = compile_c("int main(void) { return 0; }", folder, path.name, f"-Wl,--build-id=0x{build_id}")
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", "--add-section", f".BTF={folder}/vmlinux.btf", program, path], check=True)
    return path


def own_build_id() -> str:
    found = kernel_build_id().hex()
    if not found:
        pytest.skip("this kernel tells no build id")
    return found


def test_a_named_file(folder: Path) -> None:
    done = run_hidden(folder, "--btf", f"{folder}/vmlinux.btf", "-q", "-e", TYPED)
    assert done.stdout.strip() == SHOWN, done.stderr
    other = run_hidden(folder, "-q", "-e", TYPED, env={"BPFTRACE_BTF": f"{folder}/vmlinux.btf"})
    assert other.stdout == done.stdout, other.stderr
    tool = run_hidden(folder, "--btf", f"{folder}/vmlinux.btf", "execsnoop")
    assert f"{folder}/typed" in tool.stdout and tool.returncode == 0, tool.stderr


def test_a_file_with_the_kernels_build_id(folder: Path) -> None:
    """One that only lies in its place is not taken."""
    own = own_build_id()
    place = Path(".build-id", own[:2], f"{own[2:]}.debug")
    elf_with_types(folder, folder / "right" / place, own)
    elf_with_types(folder, folder / "wrong" / place, "ab" * (len(own) // 2))
    done = run_hidden(folder, "--debuginfo", f"{folder}/wrong:{folder}/right", "-q", "-e", TYPED)
    assert done.stdout.strip() == SHOWN, done.stderr
    none = run_hidden(folder, "--debuginfo", f"{folder}/wrong", "-q", "-e", TYPED)
    assert none.returncode == 1 and "has no type information (BTF)" in none.stderr, none.stderr


def test_files_of_other_kernels_are_refused(folder: Path) -> None:
    own = own_build_id()
    elf = elf_with_types(folder, folder / "other" / "vmlinux", "ab" * (len(own) // 2))
    raw = folder / "other.btf"
    raw.write_bytes(build_program_btf("program", [], [(0, "no_such_function_here")])[0])
    for path, words in ((elf, f"its build id is {'ab' * (len(own) // 2)}, and not {own}"),
                        (raw, "1 of its 1 functions are not here")):
        done = run_hidden(folder, "--btf", str(path), "-e", TYPED)
        assert done.stderr == f"ERROR: {path}: {OTHERS}{words}\n" and done.returncode == 1, done.stderr
    done = run_hidden(folder, "--btf", f"{folder}/none", "-e", TYPED)
    assert done.stderr == f"ERROR: {folder}/none: No such file or directory\n" and done.returncode == 1


@pytest.mark.parametrize(("probe", "words"), [
    ("iter:task", "iter task not available"), ("fexit:vfs_read { print(args.count); }", "has no fentry"),
    ("begin { for ($t : iter_task()) { } }", "iter_task")])
def test_what_takes_the_kernels_own_types_is_refused(probe: str, words: str, folder: Path) -> None:
    """It could not tell what a file's numbers mean. Of functions kprobes can."""
    done = run_hidden(folder, "--btf", f"{folder}/vmlinux.btf", "-e", probe if "{" in probe else f"{probe} {{ }}")
    if probe.startswith("fexit") and LiveWorld().has_feature("kprobes"):
        assert done.returncode == 0 and "Attached 1 probe" in done.stderr
        return
    assert done.returncode == 1 and words in done.stderr, done.stderr


def test_a_kernel_with_types_takes_no_others(folder: Path) -> None:
    done = run_sonde("--btf", f"{folder}/vmlinux.btf", "-e", "begin { print(curtask->comm); exit(); }",
                     env={"XDG_CACHE_HOME": str(folder)})
    assert done.returncode == 1 and done.stderr.startswith("ERROR: --btf: this kernel has type information of its own")
