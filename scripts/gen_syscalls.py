#!/usr/bin/env python3
"""Write the names of system calls into src/sonde/arch, from the uapi headers on this x86_64 machine (needs gcc), and
those of s390x from the root that tests/vm/vmrun.py makes for its guests.

The headers may be older than the kernels that Sonde runs on, so the numbers given out since are listed
here; from 424 on, all architectures share one numbering.
"""

import os
import pathlib
import re
import subprocess
import textwrap

# Linux 6.2 to 6.19 (arch/x86/entry/syscalls/syscall_64.tbl, scripts/syscall.tbl).
COMMON = ("set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount "
          "listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat "
          "removexattrat open_tree_attr file_getattr file_setattr listns").split()
COMMON_FROM = 450

# What 32-bit programs call on the architectures of ours that run them.
COMPAT_HEADERS = {"x86_64": "#include <asm/unistd_32.h>\n"}
HEADERS = {
    "x86_64": "#include <asm/unistd_64.h>\n",
    "aarch64": "#define __ARCH_WANT_RENAMEAT\n#define __ARCH_WANT_NEW_STAT\n#define __ARCH_WANT_SET_GET_RLIMIT\n"
               "#define __ARCH_WANT_SYS_CLONE3\n#define __ARCH_WANT_MEMFD_SECRET\n#include <asm-generic/unistd.h>\n",
    "riscv64": "#define __ARCH_WANT_NEW_STAT\n#define __ARCH_WANT_SET_GET_RLIMIT\n#define __ARCH_WANT_MEMFD_SECRET\n"
               "#define __ARCH_WANT_SYS_CLONE3\n#include <asm-generic/unistd.h>\n",
    "s390x": "#include <asm/unistd_64.h>\n",
}
OWN_HEADERS = {"s390x": "~/.cache/sonde-vm/root-bookworm-s390x/usr/include/s390x-linux-gnu"}
OWN = {"x86_64": {"uretprobe": 335, "uprobe": 336}, "riscv64": {"riscv_hwprobe": 258, "riscv_flush_icache": 259},
       "s390x": {"memfd_secret": 447}}

def numbers(arch: str, header: str) -> dict[str, int]:
    """Name to number, from the preprocessor's list of macros."""
    own = ["-I", os.path.expanduser(OWN_HEADERS[arch])] if arch in OWN_HEADERS else []
    macros = subprocess.run(["gcc", "-E", "-dM", *own, "-"], input=header, capture_output=True, text=True, check=True)
    raw = dict(re.findall(r"^#define (__NR\w+) (\w+)$", macros.stdout, re.M))
    found = {}
    for macro, value in raw.items():
        while value in raw:
            value = raw[value]
        name = macro.removeprefix("__NR_")
        if value.isdigit() and not name.startswith("__NR") and name not in ("syscalls", "arch_specific_syscall"):
            found[name] = int(value)
    return found | {name: COMMON_FROM + i for i, name in enumerate(COMMON)}


def table(found: dict[str, int]) -> str:
    words, following = [], 0
    for name, number in sorted(found.items(), key=lambda item: item[1]):
        if number != following:
            words.append(f"={number}")
        words.append(name)
        following = number + 1
    return textwrap.fill(" ".join(words), 118, break_on_hyphens=False)


def write_table(file: pathlib.Path, name: str, found: dict[str, int]) -> None:
    """Between the quotation marks of the file's constant of that name."""
    text, opening = file.read_text(), f'{name} = """\n'
    start = text.index(opening) + len(opening)
    end = text.index('"""', start)
    file.write_text(f"{text[:start]}{table(found)}\n{text[end:]}")


def main() -> None:
    folder = pathlib.Path("src/sonde/arch")
    for arch, header in HEADERS.items():
        write_table(folder / f"{arch}.py", "_SYSCALLS", numbers(arch, header) | OWN.get(arch, {}))
    for arch, header in COMPAT_HEADERS.items():
        write_table(folder / "compat_syscalls.py", f"_{arch.upper()}", numbers(arch, header))


if __name__ == "__main__":
    main()
