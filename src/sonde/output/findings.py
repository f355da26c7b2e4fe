"""What is found in scripts, as data: a line of JSON for each script, or one SARIF 2.1.0 log for all of them, which
editors and code hosts show (OASIS, "Static Analysis Results Interchange Format Version 2.1.0", errata 01)."""

from __future__ import annotations

import os
from typing import Any

from ..base.record import Record
from ..base.version import __version__
from ..source import ERROR, Diagnostic, Span

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class ScriptFindings(Record):
    """A script, its diagnostics, and what it compiles to if it does: numbers of probes, programs and instructions."""

    script: str
    diagnostics: list[Diagnostic]
    sizes: dict[str, int] | None = None

    @property
    def compiles(self) -> bool:
        return self.sizes is not None


def json_line(one: ScriptFindings) -> str:
    """A script as a line of JSON, in the form of -f json's lines."""
    import json
    data = {"script": _plain(one.script), "compiles": one.compiles, **(one.sizes or {}),
            "diagnostics": [finding_data(item) for item in one.diagnostics]}
    return json.dumps({"type": "check", "data": data}) + "\n"


def finding_data(item: Diagnostic) -> dict[str, Any]:
    """A diagnostic as plain data; without the position if it has none."""
    return {"severity": item.severity.lower(), "code": item.code, "message": _plain(item.message),
            "hints": [_plain(hint) for hint in item.hints], **(position_data(item.span) if item.span else {}),
            "notes": [{"message": _plain(note.message), **position_data(note.span)} for note in item.notes]}


def position_data(span: Span) -> dict[str, Any]:
    """Where it is: lines and columns count from 1, and the last character is before ``end_column``."""
    line, column = span.source.line_and_column(span.start)
    end_line, end_column = span.source.line_and_column(max(span.start, span.end))
    return {"file": _plain(span.source.name), "line": line, "column": column, "end_line": end_line,
            "end_column": end_column, "source_line": _plain(span.source.line_text(line))}


def sarif_log(scripts: list[ScriptFindings]) -> str:
    """All of it as one log of one run."""
    import json
    pairs = [(one, item) for one in scripts for item in one.diagnostics]
    codes = list(dict.fromkeys(item.code for _, item in pairs))
    driver = {"name": "sonde", "version": __version__, "rules": [{"id": code} for code in codes]}
    results = [_result(one.script, item, codes.index(item.code)) for one, item in pairs]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints",
           "artifacts": [{"location": {"uri": _uri(one.script)}} for one in scripts],
           "invocations": [{"executionSuccessful": True}], "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(script: str, item: Diagnostic, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": item.code, "ruleIndex": rule, "level": "error" if item.severity == ERROR else "warning",
        "message": {"text": _plain("\n".join([item.message, *item.hints]))},
        "locations": [{"physicalLocation": _location(script, item.span)}]}
    if item.notes:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": _plain(note.message)}, "physicalLocation": _location(script, note.span)}
            for number, note in enumerate(item.notes, 1)]
    return result


def _location(script: str, span: Span | None) -> dict[str, Any]:
    """A physicalLocation: the whole file without a span."""
    if span is None:
        return {"artifactLocation": {"uri": _uri(script)}}
    at = position_data(span)
    return {"artifactLocation": {"uri": _uri(span.source.name)}, "region": {
        "startLine": at["line"], "startColumn": at["column"], "endLine": at["end_line"], "endColumn": at["end_column"],
        "snippet": {"text": at["source_line"]}}}


def _uri(path: str) -> str:
    """A file's address: relative as it was given, or absolute."""
    from urllib.parse import quote
    return f"{'file://' if os.path.isabs(path) else ''}{quote(os.fsencode(path))}"


def _plain(text: str) -> str:
    """Text that every reader of JSON takes: bytes that are no UTF-8 become question marks."""
    return text.encode("utf-8", "replace").decode()
