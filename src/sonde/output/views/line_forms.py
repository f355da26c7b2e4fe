"""The forms of ``-f lines``: text, HTML, CSV, JSON."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from ...runtime.provenance import Provenance
from ..look import page_style
from . import svg
from .html import card
from .line_table import LEAST, FileWork, LineTable, LineWork
from .line_work import NATIVE, OWN, SYSTEM

AROUND = 2    # lines of source before and after one that is shown
MOST_FILES = 20     # that are shown to people
MOST_FUNCTIONS = 3  # of a line
LONGEST_NAME = 90   # characters of one: those of C++ have hundreds
GAP = -1  # in the place of lines that are not shown
_STYLE = """
table.lines { border-collapse: collapse; font-family: var(--mono); font-size: 12px; }
table.lines td, table.lines th { padding: 0 8px; white-space: pre; text-align: right; }
table.lines .text { text-align: left; }
table.lines tr.function td { color: var(--soft); }
"""


def _share(table: LineTable, weight: int) -> str:
    return f"{100 * weight / table.total:.1f}" if weight else ""


def _headings(table: LineTable) -> list[str]:
    kinds = ["NATIVE%", "KERNEL%"] if table.has_native else []
    return ["TOTAL%", "SELF%", *kinds, (table.unit or "count").upper(), "LINE"]


def _cells(table: LineTable, line: LineWork, number: int) -> list[str]:
    kinds = [_share(table, line.weights.get(kind, 0)) for kind in (NATIVE, SYSTEM)] if table.has_native else []
    return [_share(table, line.total), _share(table, line.own), *kinds, str(line.own or ""), str(number or "?")]


def _functions(table: LineTable, line: LineWork) -> list[tuple[str, str]]:
    """(share, function) of what ran under a line, those with most first."""
    rows = sorted([(-weight, name) for (name, _), weight in line.functions.items() if weight >= LEAST * table.total])
    return [(_share(table, -weight), name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…")
            for weight, name in rows[:MOST_FUNCTIONS]]


def shown_lines(table: LineTable, file: FileWork) -> list[int]:
    """Numbers of the lines to show of a file: all, or those that matter and some around them, with gaps."""
    most = len(file.text.lines)
    if table.source:
        return sorted({*range(1, most + 1), *file.lines})
    wanted = {number for number, line in file.lines.items() if table.shows_line(line)}
    around = {near for number in wanted if number for near in range(number - AROUND, number + AROUND + 1)
              if 0 < near <= most}
    shown: list[int] = []
    for number in sorted(wanted | around):
        shown += [GAP, number] if shown and number > shown[-1] + 1 else [number]
    return shown


def _summary(table: LineTable, file: FileWork) -> str:
    own, total = [100 * weight / table.total for weight in (file.own, file.total)]
    return f"{file.path}: {own:.1f}% itself, {total:.1f}% with what it calls"


def _shown_files(table: LineTable) -> list[FileWork]:
    files = [file for file in table.sorted_files
             if table.source or any(map(table.shows_line, file.lines.values()))]
    return files[:MOST_FILES] if table.total else []


def _remarks(table: LineTable, files: list[FileWork]) -> Iterator[str]:
    """How much there was, and what is not shown of it."""
    unit = table.unit or "counted"
    yield f"{table.total} {unit} in Python functions"
    shown = sum([line.own for file in files for line in file.lines.values() if table.source or table.shows_line(line)])
    if shown < table.total:
        yield f"{table.total - shown} of them in lines that are not shown"
    if table.source and not files:
        yield f"nothing ran in a file {table.source}"
    yield from table.remarks()


def format_text(tables: list[LineTable], run: Provenance | None, title: str) -> str:
    """For people: hot lines by file, of one map after the other."""
    if len(tables) == 1:
        return _text_of_table(tables[0])
    return "\n".join([f"{table.name}\n\n{_text_of_table(table)}" for table in tables])


def _text_of_table(table: LineTable) -> str:
    files, lines = _shown_files(table), list[str]()
    for file in files:
        lines += [_summary(table, file), *[f"  {remark}" for remark in (file.remark,) if remark],
                  _text_row(_headings(table), "SOURCE")]
        lines += [row for number in shown_lines(table, file) for row in _text_lines(table, file, number)]
        lines.append("")
    return "".join([f"{line}\n" for line in [*lines, *_remarks(table, files)]])


def _text_row(cells: list[str], text: str) -> str:
    total, own, *kinds, count, number = cells
    return f"{total:>6} {own:>6}{''.join([f' {kind:>7}' for kind in kinds])} {count:>10} {number:>6}  {text}".rstrip()


def _text_lines(table: LineTable, file: FileWork, number: int) -> Iterator[str]:
    if number == GAP:
        yield "   ..."
        return
    line = file.lines.get(number, LineWork())
    cells = _cells(table, line, number)
    yield _text_row(cells, file.text_at(number))
    for share, name in _functions(table, line):
        yield _text_row(["", share, *[""] * (len(cells) - 2)], f"    {name}")


def format_csv(tables: list[LineTable], run: Provenance | None, title: str) -> str:
    """A row for each line in which anything was counted."""
    import csv
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    kinds = [OWN, NATIVE, SYSTEM] if any(table.has_native for table in tables) else []
    several = len(tables) > 1
    writer.writerow([*(["table"] if several else []), "file", "line", "total", "self", *kinds, "changed", "source"])
    for table, file in [(each, file) for each in tables for file in each.sorted_files]:
        lead = [table.name] if several else []
        for number, line in sorted(file.lines.items()):
            weights = [line.weights.get(kind, 0) if table.has_native else "" for kind in kinds]
            writer.writerow([*lead, file.path, number, line.total, line.own, *weights, int(file.text.changed),
                             file.text_at(number)])
    return out.getvalue()


def format_json(tables: list[LineTable], run: Provenance | None, title: str) -> str:
    """An object for each map, with all files and all lines in which anything was counted."""
    from json import dumps
    rows: list[dict[str, object]] = [{"type": "lines", "data": _table_as_json(table)} for table in tables]
    if run is not None:
        rows.append({"type": "run", "data": run.as_json()})
    return "".join([dumps(row, ensure_ascii=False) + "\n" for row in rows])


def _table_as_json(table: LineTable) -> dict[str, object]:
    files = [{"file": file.path, "self": file.own, "changed": file.text.changed, "problem": file.text.problem,
              "lines": [_line_as_json(table, file, number, line) for number, line in sorted(file.lines.items())]}
             for file in table.sorted_files]
    return {"map": table.name, "unit": table.unit, "total": table.total, "without_python": dict(table.outside),
            "unknown": table.unknown, "left_out": table.left, "files": files}


def _line_as_json(table: LineTable, file: FileWork, number: int, line: LineWork) -> dict[str, object]:
    row: dict[str, object] = {"line": number, "total": line.total, "self": line.own}
    if table.has_native:
        row |= {kind: line.weights.get(kind, 0) for kind in (OWN, NATIVE, SYSTEM)}
        row["functions"] = [{"name": name, "kind": kind, "weight": weight}
                            for (name, kind), weight in sorted(line.functions.items(), key=lambda row: -row[1])]
    return row | {"source": file.text_at(number)}


def format_html(tables: list[LineTable], run: Provenance | None, title: str) -> str:
    """A page with a card for each file."""
    body = [f"<header><h1>{svg.escape_markup(title)}</h1>\n{svg.run_html(run)}</header>\n", '<main class="cards">\n']
    for table in tables:
        files = _shown_files(table)
        remarks = [f'<p class="soft">{svg.escape_markup(remark)}</p>\n' for remark in _remarks(table, files)]
        body += [card(table.name, remarks, True), *[_html_of_file(table, file) for file in files]]
    return svg.html_page(title, page_style() + _STYLE, [*body, "</main>"], "")


def _html_of_file(table: LineTable, file: FileWork) -> str:
    head = "".join([f"<th>{svg.escape_markup(cell)}</th>" for cell in _headings(table)])
    remark = f'<p class="lost">{svg.escape_markup(file.remark)}</p>\n' if file.remark else ""
    rows = [row for number in shown_lines(table, file) for row in _html_rows(table, file, number)]
    return card(_summary(table, file), [
        remark, f'<div class="across"><table class="lines"><tr>{head}<th class="text">SOURCE</th></tr>\n', *rows,
        "</table></div>"], True)


def _html_rows(table: LineTable, file: FileWork, number: int) -> Iterator[str]:
    if number == GAP:
        yield "<tr><td>...</td></tr>\n"
        return
    line = file.lines.get(number, LineWork())
    cells = _cells(table, line, number)
    heat = f' style="background: rgba(238,112,44,{0.8 * line.own / table.total:.2f})"' if line.own else ""
    yield f"<tr{heat}>" + "".join([f"<td>{cell}</td>" for cell in cells]) + \
        f'<td class="text">{svg.escape_markup(file.text_at(number))}</td></tr>\n'
    for share, name in _functions(table, line):
        blanks = "<td></td>" * (len(cells) - 2)
        yield f'<tr class="function"><td></td><td>{share}</td>{blanks}' \
              f'<td class="text">    {svg.escape_markup(name)}</td></tr>\n'


FORMS = {"text": format_text, "html": format_html, "csv": format_csv, "json": format_json}
