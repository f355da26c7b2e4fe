"""A script's named parameters, from its getopt() calls: ``sonde SCRIPT -- --help``."""

from __future__ import annotations

from ..base.record import Record
from ..language.ast import BoolLiteral, Call, Expr, Script, StrLiteral, Unary
from ..language.diagnostics import Diagnostics
from ..semantics.nodes import walk_nodes
from ..semantics.script_options import Options
from ..source import Source


class NamedParameter(Record):
    """A named parameter: its default as it is shown ("" for a flag), and what the script says about it."""

    name: str
    default: str
    help: str


def named_parameters(script: Script) -> list[NamedParameter]:
    """Every named parameter that a script asks for, by name; the first call that describes it counts."""
    parameters: dict[str, NamedParameter] = {}
    for node in walk_nodes([script.clauses, script.macros, script.tables, script.functions]):
        if isinstance(node, Call) and node.name == "getopt" and node.args and isinstance(node.args[0], StrLiteral):
            name = node.args[0].value
            text = node.args[2].value if len(node.args) > 2 and isinstance(node.args[2], StrLiteral) else ""
            known = parameters.get(name)
            if known is None or text and not known.help:
                parameters[name] = NamedParameter(name, _default_text(node.args[1]) if len(node.args) > 1 else "", text)
    return [parameters[name] for name in sorted(parameters)]


def _default_text(default: Expr) -> str:
    if isinstance(default, BoolLiteral):
        return "true" if default.value else ""
    if isinstance(default, StrLiteral):
        return f'"{default.value}"'
    if isinstance(default, Unary) and default.op == "-":
        return "-" + _default_text(default.operand)
    return str(getattr(default, "value", "..."))


def parameter_hints(source: Source, options: Options, release: str) -> str:
    """The named parameters as lines, each with what the script says about it. CompileError if it cannot be read."""
    from ..language.includes import Files
    from ..language.parser import parse_script
    diagnostics = Diagnostics()
    script = parse_script(source, diagnostics, options.params, Files(options.directories, options.headers, release))
    diagnostics.raise_if_errors()
    rows = named_parameters(script)
    if not rows:
        return "no custom program options defined.\n"
    return "".join(["expected program options:\n", *[
        f"--{row.name}" + (f"={row.default}" if row.default else "") + (f": {row.help}" if row.help else "") + "\n"
        for row in rows]])
