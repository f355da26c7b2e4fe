#!/usr/bin/env python3
"""Write docs/one-liners.md from docs/one-liners.toml: each one-liner with what it just printed of its workload.

    scripts/gen_one_liners.py            run them all here, and those on kernel functions under QEMU (root)
    scripts/gen_one_liners.py --inside   what the latter runs in there: a JSON object of outputs, by program
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from one_liners import OneLiner, judge, listing, one_liners, run  # noqa: E402

KERNELS = ("6.12", "6.1")  # a program that is not of the first is run on the second
MOST = 24  # lines of an output that are shown
HEAD = """<!-- Written by scripts/gen_one_liners.py from docs/one-liners.toml: edit that. -->

# One-liners

Questions that you would ask at a prompt, each with the line that answers it and what that prints. End them with Ctrl-C.
The [cookbook](cookbook/README.md) explains its answers; [older forms](old-one-liners.md) has the lines in which these
questions were first asked, for older kernels or another tool.

The outputs are real. They show only `scripts/workload.py`, a process whose calls are known (`-p PID`; without it you
see the whole machine). {live} Programs on kernel functions need a kernel that can probe them: their
outputs come from Debian's kernels, and are marked.
"""
OLD = ROOT / "docs" / "old-one-liners.md"
OLD_HEAD = """
<!-- Written by scripts/gen_one_liners.py from docs/one-liners.toml: edit that. -->

# One-liners in their first form

In which the questions of [one-liners](one-liners.md) were first asked, for the kernels of the time or in another tool.
Some still run; write today's.
"""


def record_inside() -> dict[str, str]:
    """Output of each program that this kernel is for."""
    kernel = os.environ["SONDE_VM"]
    return {item["functions"]: checked(item, item["functions"]) for item in one_liners()
            if "functions" in item and item.get("kernels", list(KERNELS))[0] == kernel}


def checked(item: OneLiner, program: str) -> str:
    text, pid = run(item, program)
    judge(item, text, pid)
    return text


def outputs_of(kernel: str) -> dict[str, str]:
    command = [sys.executable, str(ROOT / "tests" / "vm" / "vmrun.py"), "--kernel", kernel, "--timeout", "570", "--",
               sys.executable, __file__, "--inside"]
    environment = os.environ | {"SONDE_VM": kernel, "XDG_CACHE_HOME": "/run/sonde-cache", "TMPDIR": "/run"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{kernel}: {done.stdout}\n{done.stderr}")
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def section(item: OneLiner, inside: dict[str, str]) -> str:
    """A question, and the answers of today."""
    parts = [f"## {item['answers']}"]
    if item.get("note"):
        parts.append(item["note"])
    if "list" in item:
        flag = "-l" if "*" in item["list"] else "-lv"
        parts.append(fenced(f"# sonde {flag} '{item['list']}'", listing(item)))
    if "elsewhere" in item:
        parts.append(f"```\n{item['elsewhere']}\n```")
    if "program" in item:
        parts.append(fenced(f"# sonde -e '{item['program']}'", checked(item, item["program"])))
    if "functions" in item:
        kernel = item.get("kernels", KERNELS)[0]
        parts.append(f"On kernel functions (Linux {kernel}):")
        parts.append(fenced(f"# sonde -e '{item['functions']}'", inside[item["functions"]]))
    return "\n\n".join(parts)


def old_forms() -> str:
    """The page of the lines in which the questions were first asked."""
    forms = [f"**{item['answers']}**\n\n```\n{item['was']}\n```" for item in one_liners()]
    return "\n\n".join([OLD_HEAD.strip(), *forms])


def fenced(command: str, output: str) -> str:
    lines = output.strip().splitlines()
    if len(lines) > MOST:
        lines = [*lines[:MOST], f"[... {len(lines) - MOST} more lines]"]
    return "```\n" + "\n".join([command, *lines]) + "\n```"


def main() -> None:
    if sys.argv[1:] == ["--inside"]:
        print(json.dumps(record_inside()))
        return
    inside = {program: text for kernel in KERNELS for program, text in outputs_of(kernel).items()}
    head = HEAD.format(live=f"They were printed on Linux {os.uname().release}.")
    text = "\n\n".join([head.strip(), *[section(item, inside) for item in one_liners()]])
    (ROOT / "docs" / "one-liners.md").write_text(text + "\n")
    OLD.write_text(old_forms() + "\n")


if __name__ == "__main__":
    main()
