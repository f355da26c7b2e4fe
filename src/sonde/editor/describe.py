"""Hovers and signature help: the type, the documentation and the cost of what stands at the cursor, as Markdown."""

from __future__ import annotations

from ..base.record import Record
from ..builtins import BUILTINS
from ..functions import FUNCTIONS
from ..kinds import find_kind
from ..language.ast import Expr, FieldAccess, Name, Variable
from ..semantics.config import VARIABLES
from ..semantics.context import MapState
from ..semantics.providers import PROVIDERS
from ..types import Aggregate, Pointer, Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..semantics.callees import BuiltinRow, FunctionRow
    from ..spec import ScriptSpec
    from .analysis import Document
    from .scan import Token

MOST_FIELDS = 40  # members that a hover shows


class Hover(Record):
    """Markdown about the characters from ``start`` to ``end``."""

    text: str
    start: int
    end: int


class Signature(Record):
    """Of the call around the cursor: its form, its parameters, and which of them the cursor is at."""

    label: str
    documentation: str
    parameters: list[str]
    active: int


def function_text(row: FunctionRow) -> str:
    """What a function does, an example, where it can be used and what it costs."""
    parts = [row.documentation, _code(row.example) if row.example else "",
             "; ".join([limit[0].upper() + limit[1:] for limit in row.limits]),
             f"About {row.cost} instructions for the verifier." if row.cost else ""]
    return "\n\n".join([part for part in parts if part])


def builtin_text(row: BuiltinRow) -> str:
    """What a builtin is, where it can be used and what it costs."""
    parts = [row.documentation, f"In {', '.join(row.probes)} probes." if row.probes else "",
             f"About {row.cost} instructions for the verifier."]
    return "\n\n".join([part for part in parts if part])


def describe(document: Document, offset: int) -> Hover | None:
    """What is known about the name or probe at ``offset``."""
    token = document.scan.token_at(offset)
    if token is None:
        return None
    text = ""
    if token.kind == "point":
        text = _describe_probe(document, token)
    elif token.kind in ("var", "map"):
        text = _describe_variable(document, token)
    elif token.kind == "word":
        text = _describe_word(document, token)
    return Hover(text, token.start, token.end) if text else None


# --- by kind of token -------------------------------------------------------------------------------------


def _describe_probe(document: Document, token: Token) -> str:
    """The probe's kind, its arguments, and how many instructions run at each event."""
    kind = find_kind(token.text.partition(":")[0])
    if kind is None:
        return ""
    row = next((row for row in PROVIDERS if row.name == kind.name), None)
    parts = [f"**{row.form}**: {row.documentation}"] if row is not None else []
    programs = document.tree.context.programs if document.tree.context is not None else ()
    for program in programs:
        if any(point.span.start == token.start for point in program.probe.clause.points):
            args = row.args(program.attach, document.machine.world) if row is not None else None
            if args is not None and args.field_names():
                parts.append("Arguments:\n" + _code(_members(args)))
            break
    spec, _ = document.compiled()
    if spec is not None and (cost := _program_cost(document, spec, token)):
        parts.append(cost)
    return "\n\n".join(parts)


def _program_cost(document: Document, spec: ScriptSpec, token: Token) -> str:
    """What the programs of the clause with this attach point have to do."""
    item = document.scan.items[token.item]
    sizes = [len(program.code) // 8 for program in spec.programs
             if any(span.source is document.source and item.start <= span.start < item.end
                    for _, span in program.lines)]
    if not sizes:
        return ""
    programs = "1 program" if len(sizes) == 1 else f"{len(sizes)} programs"
    return f"Compiled: {programs}, {sum(sizes)} instructions. `sonde cost` measures what they take on this machine."


def _describe_variable(document: Document, token: Token) -> str:
    """The type of a variable or map."""
    context = document.tree.context
    if token.kind == "map":
        state = context.maps.get(token.text) if context is not None else None
        return _describe_map(state) if state is not None else ""
    item = document.scan.items[token.item] if token.item >= 0 else None
    for node in document.tree.nodes():
        if isinstance(node, Variable) and node.name == token.text[1:] and node.type is not None \
                and node.span.source is document.source and item is not None \
                and item.start <= node.span.start < item.end:
            return _code(f"{token.text}: {node.type}")
    return ""


def _describe_map(state: MapState) -> str:
    key = f"[{state.inferred_key}]" if state.inferred_key is not None else ""
    value = state.inferred_value
    parts = [_code(f"{state.name}{key}: {value if value is not None else 'unknown'}")]
    if state.kind:
        parts.append(f"Declared: {state.kind}, {state.entries} keys")
    if value is not None:
        size = value.size + (state.inferred_key.size if state.inferred_key is not None else 0)
        parts.append(f"{size} bytes for each key" + (", on each CPU" if isinstance(value, Aggregate) else ""))
    return "\n\n".join(parts)


def _describe_word(document: Document, token: Token) -> str:
    item = document.scan.items[token.item] if token.item >= 0 else None
    if item is not None and item.kind == "config" and token.text in VARIABLES:
        return f"**{token.text}**: {VARIABLES[token.text].documentation}"
    node = _node_ending_at(document, token)
    if isinstance(node, FieldAccess):
        return _describe_field(node)
    if (own := _own_definition(document, token.text)) is not None:
        return own
    if token.text in FUNCTIONS:
        row = FUNCTIONS[token.text]
        return _code(row.signature) + "\n\n" + function_text(row)
    if token.text in BUILTINS:
        typed = f"{token.text}: {node.type}" if isinstance(node, Name) and node.type is not None else token.text
        return _code(typed) + "\n\n" + builtin_text(BUILTINS[token.text])
    if isinstance(node, Name) and node.const is not None:
        return _code(f"{token.text} = {node.const}")
    return _describe_struct(document, token)


def _describe_field(node: FieldAccess) -> str:
    outer = node.operand.type.to if isinstance(node.operand.type, Pointer) else node.operand.type
    field = outer.field(node.name) if isinstance(outer, Struct) else None
    if field is None:
        return _code(f"{node.name}: {node.type}") if node.type is not None else ""
    bits = f", {field.bit_size} bits" if field.bit_size else ""
    inner = field.type.to if isinstance(field.type, Pointer) else field.type
    members = "\n\n" + _code(_members(inner)) if isinstance(inner, Struct) and inner.field_names() else ""
    return _code(f"{field.type} {field.name}") + f"\n\nMember of {outer}, at byte {field.offset}{bits}.{members}"


def _own_definition(document: Document, name: str) -> str | None:
    """A macro, function, table or #define of the script."""
    script = document.tree.script
    for macro in script.macros:
        if macro.name == name:
            return _code(f"macro {name}({', '.join([param.span.text for param in macro.params])})")
    for function in script.functions:
        if function.name == name:
            return _code(function.span.text)
    for table in script.tables:
        if table.name == name:
            return _code(f"table {name} {{ {'; '.join([column.name for column in table.columns])} }}")
    return _code(f"#define {name} {script.defines[name]}") if name in script.defines else None


def _describe_struct(document: Document, token: Token) -> str:
    before = document.scan.before(token.start)
    if not before or before[-1].text not in ("struct", "union"):
        return ""
    known = document.machine.world.find_struct(token.text, before[-1].text == "union")
    return _code(f"{known}: {known.size} bytes\n" + _members(known)) if known is not None else ""


def _node_ending_at(document: Document, token: Token) -> Expr | None:
    """The expression whose last word the token is, with a type if any program gives it one."""
    best: Expr | None = None
    for node in document.tree.nodes():
        if isinstance(node, (FieldAccess, Name)) and node.span.source is document.source \
                and node.name == token.text and (node.span.end == token.end or node.span.start == token.start):
            best = node if best is None or best.type is None else best
    return best


def _members(struct: Struct) -> str:
    names = struct.field_names()
    lines = [f"{field.type} {name}" for name in names[:MOST_FIELDS] if (field := struct.field(name)) is not None]
    return "\n".join([*lines, *([f"... and {len(names) - MOST_FIELDS} more"] if len(names) > MOST_FIELDS else [])])


def _code(text: str) -> str:
    return f"```sonde\n{text}\n```"


# --- signatures -------------------------------------------------------------------------------------------


def describe_call(document: Document, offset: int) -> Signature | None:
    """The signature of the innermost call whose parentheses are around ``offset``."""
    depth = commas = 0
    tokens = document.scan.before(offset)
    for at in range(len(tokens) - 1, 0, -1):
        token = tokens[at]
        if token.kind != "op":
            continue
        if token.text in ")]}":
            depth += 1
        elif token.text in "([{" and depth:
            depth -= 1
        elif token.text in ("{", ";"):
            return None
        elif token.text == "(" and tokens[at - 1].kind == "word":
            return _signature_of(document, tokens[at - 1].text, commas)
        elif token.text in ("(", "["):
            commas = 0  # of a tuple or key within the call
        commas += token.text == "," and not depth
    return None


def _signature_of(document: Document, name: str, commas: int) -> Signature | None:
    script = document.tree.script
    for macro in script.macros:
        if macro.name == name:
            params = [param.span.text for param in macro.params]
            return Signature(f"{name}({', '.join(params)})", "A macro of the script.", params, commas)
    for function in script.functions:
        if function.name == name:
            return Signature(function.span.text, "A function of the script.",
                             [param.span.text for param in function.params], commas)
    if name not in FUNCTIONS:
        return None
    row = FUNCTIONS[name]
    params = [param.name for param in row.parameters] + (["..."] if row.takes_more else [])
    return Signature(row.signature, function_text(row), params, min(commas, max(0, len(params) - 1)))
