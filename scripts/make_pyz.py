#!/usr/bin/env python3
"""Write sonde.pyz: Sonde as a single file that any Python of version 3.11 or newer runs.

Comments and the docstrings of functions and classes are left out of it, which saves a sixth; lines keep their numbers.
"""

from __future__ import annotations

import ast
import io
import shutil
import sys
import tempfile
import tokenize
import zipapp
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 1_000_000  # bytes
START = "import sys\n\nfrom sonde.__main__ import main\n\nsys.exit(main())\n"


def strip_source(text: str) -> str:
    """A module without its comments, and without what documents functions and classes."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node):
            document = node.body[0]
            first, last = document.lineno - 1, document.end_lineno or document.lineno
            lines[first:last] = ["\n"] * (last - first)
            if len(node.body) == 1:
                lines[first] = " " * document.col_offset + "pass\n"
    return "".join(lines)


def write_pyz(target: Path) -> int:
    """Its size."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "sonde", Path(folder) / "sonde", ignore=shutil.ignore_patterns("__pycache__"))
        for path in Path(folder).rglob("*.py"):
            path.write_text(strip_source(path.read_text()))
        (Path(folder) / "__main__.py").write_text(START)
        target.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(folder, target, "/usr/bin/env python3", compressed=True)
    target.chmod(0o755)
    return target.stat().st_size


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "sonde.pyz"
    size = write_pyz(target)
    if size >= MOST:
        sys.exit(f"make_pyz: {target} has {size:,} bytes, and should have less than {MOST:,}")
    print(f"{target}: {size:,} bytes; sudo {target} tcplife")
    return 0


if __name__ == "__main__":
    sys.exit(main())
