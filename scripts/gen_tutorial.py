#!/usr/bin/env python3
"""Run docs/tutorial.md, and write what its commands print below them (root)."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from tutorial import PAGE, run_steps  # noqa: E402


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scripts").symlink_to(ROOT / "scripts")
        (folder / "bin").mkdir()
        (folder / "bin" / "sonde").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}/src exec {sys.executable} -m sonde "$@"\n')
        (folder / "bin" / "sonde").chmod(0o755)
        steps = run_steps(folder, os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "COLUMNS": "110"})
    page = PAGE.read_text()
    for step in steps:
        if step.status:
            raise SystemExit(f"{step.text}: status {step.status}")
        shown = re.sub(r"\n{2,}", "\n", step.output.replace(str(folder) + "/", "")).strip("\n")
        shown = "\n".join(line[:170].rstrip() for line in shown.splitlines())
        block = f"# {step.text}\n{shown}\n".replace("\n\n", "\n").replace("\\", r"\\")
        page = re.sub(re.escape(f"# {step.text}\n") + r"(?:(?!# |```)[^\n]*\n)*", block, page, count=1)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
