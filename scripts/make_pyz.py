#!/usr/bin/env python3
"""Write sonde.pyz: Sonde as a single file that any Python of version 3.11 or newer runs.

Comments, docstrings and the types of functions are left out of it, which saves a fifth; lines keep their numbers, and
are indented by one space. Each room but `base` is one file, which saves a quarter more.
"""

from __future__ import annotations

import ast
import io
import shutil
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from manual import write_answers  # noqa: E402

from sonde.base.room_files import SUFFIX, pack_room  # noqa: E402

MOST = 1_200_000  # bytes
START = "import sys\n\nfrom sonde.__main__ import main\n\nsys.exit(main())\n"


def strip_source(text: str) -> str:
    """A module without its comments, without its documentation, and without the types of functions, which nobody asks
    for at run time."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    source = "".join(lines).encode()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    kept, done = [], 0
    for start, end, instead, line_end in sorted(cut for node in ast.walk(ast.parse(source))
                                                for cut in find_cuts(node, source, starts)):
        if start >= done:  # not within another
            kept += [source[done:start], instead, line_end * source.count(b"\n", start, end)]
            done = end
    return shrink_indents(b"".join([*kept, source[done:]]).decode())


def shrink_indents(text: str) -> str:
    """A module indented by one space where it was by four."""
    inside: set[int] = set()  # rows that begin within a string
    begun: list[int] = []     # rows of f-strings that have not ended
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind, first, last = tokenize.tok_name[token.type], token.start[0], token.end[0]
        if kind == "FSTRING_START":
            begun.append(first)
        elif kind == "FSTRING_END":
            first = begun.pop()
        if kind in ("STRING", "FSTRING_END"):
            inside.update(range(first + 1, last + 1))
    return "".join([line if row in inside else shrink_indent(line)
                    for row, line in enumerate(text.splitlines(keepends=True), 1)])


def shrink_indent(line: str) -> str:
    code = line.lstrip(" ")
    return " " * ((len(line) - len(code)) // 4) + code


def find_cuts(node: ast.AST, source: bytes, starts: list[int]) -> Iterator[tuple[int, int, bytes, bytes]]:
    """What is to be cut out of a node, as (first byte, byte after it, what comes in its place, what ends lines)."""
    def span(found: ast.stmt | ast.expr) -> tuple[int, int]:
        return (starts[found.lineno - 1] + found.col_offset,
                starts[(found.end_lineno or 0) - 1] + (found.end_col_offset or 0))

    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node):
        yield *span(node.body[0]), b"pass" if len(node.body) == 1 else b"", b"\n"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        start, end = span(node.returns)
        yield source.rindex(b"->", 0, start), end, b"", b"\\\n"
    if isinstance(node, ast.arg) and node.annotation is not None:
        yield starts[node.lineno - 1] + node.col_offset + len(node.arg.encode()), span(node.annotation)[1], b"", b"\n"
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        yield span(node.body[0])[0], span(node.body[-1])[1], b"pass", b"\n"


def pack_rooms(folder: Path) -> None:
    """One file in place of each room but that whose modules read these files."""
    for room in sorted(path for path in (folder / "sonde").iterdir() if path.is_dir() and path.name != "base"):
        files = sorted(path for path in room.rglob("*") if path.is_file())
        packed = pack_room({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
        room.with_suffix(SUFFIX).write_bytes(packed)
        shutil.rmtree(room)


def write_pyz(target: Path) -> int:
    """Its size."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "sonde", Path(folder) / "sonde", ignore=shutil.ignore_patterns("__pycache__"))
        for path in Path(folder).rglob("*.py"):
            path.write_text(strip_source(path.read_text()))
        write_answers(Path(folder))
        pack_rooms(Path(folder))
        (Path(folder) / "__main__.py").write_text(START)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:  # zipapp does the same, but presses less
            file.write(b"#!/usr/bin/env python3\n")
            with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=9) as archive:
                for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
                    archive.write(path, path.relative_to(folder).as_posix())
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
