"""Macros: calls are replaced by the body, as a block of its own, before anything is checked.

``macro name(a, $b, @c)``: ``a`` stands for an expression, ``$b`` for a variable, ``@c`` for a map of the caller. Other
variables in the body are its own, whatever the caller has; other maps are refused.

Library functions written in the language itself are macros too, in ``stdlib/*.bt``: their rows name the file, which is
read when a script uses one. Such macros may be overloaded by number of parameters, and errors in them are reported at
the call.
"""

from __future__ import annotations

import os

from ..base import regex_cache
from ..base.fast_stdlib import cache
from ..base.package_files import FOLDER
from ..language.ast import (
    Assign,
    BlockExpr,
    Break,
    Call,
    Clause,
    Continue,
    Expr,
    ExprStmt,
    For,
    Index,
    IntLiteral,
    Macro,
    MapRef,
    Name,
    Node,
    Return,
    RowCall,
    StrLiteral,
    Subprogram,
    Table,
    TypeSyntax,
    Unary,
    Unroll,
    Variable,
    While,
)
from ..language.ast import Block as BlockStmt
from ..language.diagnostics import Diagnostics
from ..source import ExpandedSpan, Span
from .callees import Functions, Language
from .convert import argument_count_text, no_match
from .nodes import copy_tree, walk_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

LIBRARY = os.path.join(FOLDER, "stdlib", "")
Forms: TypeAlias = "dict[tuple[type[Expr], ...], Macro]"  # the macros of one name by the kinds of their parameters
MAX_DEPTH = 32
MAX_NODES = 30_000


def expand_macros(clauses: Sequence[Clause | Subprogram], macros: list[Macro], tables: list[Table], language: Language,
                  diagnostics: Diagnostics) -> None:
    """Replace every call of a macro, and of a table, in ``clauses`` and functions."""
    known: dict[str, Forms] = {}  # by name
    for macro in macros:
        if _is_shipped(macro) and macro.name in language.functions:  # imported, though it is there anyway
            continue
        forms = known.setdefault(macro.name, {})
        kinds = tuple([type(param) for param in macro.params])
        if kinds in forms:
            head = regex_cache.compile(r"macro\s+\w+").match(macro.span.text)
            end = macro.span.start + (head.end() if head is not None else len(macro.span.text))
            diagnostics.error("redefinition", f"Redefinition of macro: {macro.name}",
                              Span(macro.span.source, macro.span.start, end))
        if not _is_shipped(macro):
            _refuse_jumps(macro.body, False, diagnostics)
        forms[kinds] = macro
    declared: dict[str, Table] = {}
    for table in tables:
        if table.name in declared or table.name in known or table.name in language.functions:
            diagnostics.error("redefinition", f"there is another {table.name}", table.span)
        declared[table.name] = table
    expander = _Expander(known, declared, language, diagnostics)
    for clause in clauses:
        expander.rewrite_calls(clause, 0)


def _refuse_jumps(node: object, in_loop: bool, diagnostics: Diagnostics) -> None:
    """A macro is a value: its body cannot leave the clause, nor a loop that is not its own."""
    if isinstance(node, list):
        for item in node:
            _refuse_jumps(item, in_loop, diagnostics)
    elif isinstance(node, Return) or isinstance(node, (Break, Continue)) and not in_loop:
        source, end = node.span.source, node.span.end
        plain = Span(source, node.span.start, end + (source.text[end:end + 1] in (";", " ")))
        diagnostics.error("outside-loop", f"'{type(node).__name__.lower()}' statement is not allowed in a macro", plain)
    elif isinstance(node, Node):
        for field in node._fields:
            value = getattr(node, field)
            if isinstance(value, (Node, list)):
                _refuse_jumps(value, in_loop or isinstance(node, (For, While, Unroll)), diagnostics)


def _accepts(param: Expr, arg: Node) -> bool:
    """Whether an argument is of the kind that a parameter of a macro wants."""
    if isinstance(param, Variable):
        return isinstance(arg, Variable)
    if isinstance(param, MapRef):
        return isinstance(arg, MapRef) and arg.key is None
    return isinstance(arg, Expr) or arg.span.text.startswith("typeof")


def _choose_form(forms: Forms, args: Sequence[Node]) -> Macro | None:
    """The macro with as many parameters that accepts these arguments, preferably one that takes a variable or a map. If
    none accepts them, any of that length, whose check then reports the error."""
    alike = [macro for kinds, macro in forms.items() if len(kinds) == len(args)]
    fitting = [macro for macro in alike if all(map(_accepts, macro.params, args))]
    return min(fitting, key=lambda macro: sum([isinstance(p, Name) for p in macro.params]), default=next(iter(alike),
                                                                                                         None))


class _Expander:
    def __init__(self, macros: dict[str, Forms], tables: dict[str, Table], language: Language,
                 diagnostics: Diagnostics) -> None:
        self.macros = macros
        self.tables = tables
        self.language = language
        self.diagnostics = diagnostics
        self.uses = 0
        self.nodes = 0

    def rewrite_calls(self, node: Any, depth: int) -> Any:
        """``node`` with the calls below it (and itself, if it is one) replaced."""
        if isinstance(node, list):
            return [self.rewrite_calls(item, depth) for item in node]
        if not isinstance(node, Node):
            return node
        macro = None
        if self.tables and type(node) is Call and (row := self._row_of(node)) is not None:
            node = row
        else:
            macro = self._macro_of(node)
        if macro is not None:
            return self._expand_macro(macro, node, depth)
        _plain_name(node, self.language)
        for field in node._fields:
            value = getattr(node, field)
            if isinstance(value, (Node, list)):
                setattr(node, field, self.rewrite_calls(value, depth))
        if isinstance(node, ExprStmt) and isinstance(node.expr, BlockExpr) and _has_no_value(node.expr):
            return BlockStmt(node.span, node.expr.body)
        return _aggregate_last(node, self.language.functions) if isinstance(node, Assign) else node

    def _row_of(self, call: Call) -> RowCall | None:
        """The printf() that a table row or ``heading(table)`` stands for; None for other calls."""
        own = any(len(kinds) == 1 for kinds in self.macros.get("heading", {}))
        heading = call.name == "heading" and len(call.args) == 1 and isinstance(call.args[0], Name) \
            and call.args[0].name in self.tables and not own
        table = self.tables.get(call.args[0].name if heading else call.name)
        if table is None:
            return None
        values = [] if heading else call.args
        return RowCall(call.span, name="printf", args=[StrLiteral(call.span), *values], table=table.name,
                       columns=copy_tree(table.columns), heading=heading)

    def _macro_of(self, node: Node) -> Macro | None:
        if not isinstance(node, (Call, Name)):
            return None
        args = node.args if isinstance(node, Call) else []
        if isinstance(node, Name) and node.name in self.language.builtins:
            return None
        forms = self.macros.get(node.name, {})
        macro = _choose_form(forms, args)
        row = self.language.functions.get(node.name)
        if macro is None and row is not None and row.library and (row.macro or isinstance(node, Call)):
            return library_macros(row.library).get((node.name, len(args)))
        if macro is not None or not isinstance(node, Call) or row is not None or node.name in self.language.builtins:
            return macro
        return next(iter(forms.values()), None)  # which will say that it does not fit

    def _expand_macro(self, macro: Macro, node: Any, depth: int) -> Expr:
        args = node.args if isinstance(node, Call) else []
        chain = _recursion(macro, node.span)
        if chain or depth >= MAX_DEPTH:
            self.diagnostics.error("macro-depth", "Recursive macro call detected. Call chain: "
                                   f"{chain or macro.name + ' > ...'}", node.span)
            return IntLiteral(node.span, value=0)
        if len(args) != len(macro.params):
            self.diagnostics.error("arity", no_match(macro.name), node.span,
                                   [f"{macro.name}() takes {argument_count_text(len(macro.params))} "
                                    f"({len(args)} provided)"])
            return node  # type: ignore[no-any-return]
        self.uses += 1
        bound = self._bind_arguments(macro, args, node)
        if bound is None:
            return IntLiteral(node.span, value=0)  # what went wrong has been said
        body = copy_tree(macro.body)
        if _is_shipped(macro):  # the call is the place of everything but the arguments, which come with theirs
            for part in walk_nodes(body):
                part.span = node.span
        else:
            for part in walk_nodes(body):
                part.span = ExpandedSpan(part.span.source, part.span.start, part.span.end, node.span)
        body = self._instantiate_body(body, macro, bound, f"#{self.uses}")
        expansion = self.rewrite_calls(body, depth + 1)
        assert isinstance(expansion, Expr)
        expansion.span = node.span
        value = expansion.value if isinstance(expansion, BlockExpr) and not expansion.body else None
        if value is None or isinstance(value, MapRef) or isinstance(value, Unary) and value.postfix:
            return expansion
        return value

    def _bind_arguments(self, macro: Macro, args: Sequence[Node], call: Node) -> dict[str, Node] | None:
        """What each parameter stands for, by its name with its sigil; None after saying that an argument is wrong."""
        bound: dict[str, Node] = {}
        good = True
        for param, arg in zip(macro.params, args):
            if isinstance(param, Variable):
                bound[f"${param.name}"], wants = arg, "a variable"
            elif isinstance(param, MapRef):
                bound[param.name], wants = arg, "a map"
            else:
                assert isinstance(param, Name)
                bound[param.name], wants = arg, "an expression"
            if not _accepts(param, arg):
                if good:
                    self.diagnostics.error("bad-argument", no_match(macro.name), call.span)
                good = False
                shown = f"${param.name}" if isinstance(param, Variable) else param.name
                self.diagnostics.error("bad-argument", f"Mismatched arg. {macro.name}() expects {wants} for arg "
                                       f"{shown} but got an expression.", arg.span)
        return bound if good else None

    def _instantiate_body(self, node: Any, macro: Macro, bound: dict[str, Node], suffix: str) -> Any:
        """A copied body with the arguments put in and its own variables renamed."""
        if isinstance(node, list):
            return [self._instantiate_body(item, macro, bound, suffix) for item in node]
        if not isinstance(node, Node):
            return node
        self._count_nodes(1, node)
        if isinstance(node, Name) and node.name in bound:
            self._count_nodes(sum([1 for _ in walk_nodes(bound[node.name])]), node)
            return copy_tree(bound[node.name])
        for field in node._fields:
            value = getattr(node, field)
            if isinstance(value, (Node, list)):
                setattr(node, field, self._instantiate_body(value, macro, bound, suffix))
        if isinstance(node, Call) and isinstance(given := bound.get(node.name), Name) and given.name in self.tables:
            node.name = given.name
        if isinstance(node, Index) and isinstance(node.operand, TypeSyntax) and isinstance(node.index, IntLiteral):
            return _derive_type_syntax(node.operand, TypeSyntax(node.span, "", 0, [node.index.value]))
        if isinstance(node, TypeSyntax):
            given = node.typeof if node.typeof is not None else bound.get(node.base)
            return _derive_type_syntax(given, node) if isinstance(given, TypeSyntax) else node
        if isinstance(node, Variable):
            given = bound.get(f"${node.name}")
            node.name = given.name if isinstance(given, Variable) else node.name + suffix
        elif isinstance(node, MapRef):
            self._rename_map(node, macro, bound)
        return node

    def _count_nodes(self, count: int, node: Node) -> None:
        """Count the nodes that replace calls. Raises CompileError at the call that makes them too many."""
        self.nodes += count
        if self.nodes > MAX_NODES:
            self.diagnostics.error("program-too-large", "The program is too large: macros are replaced by more than "
                                   f"{MAX_NODES} parts", node.span, ["a fn is compiled once, however often it is used"])
            self.diagnostics.raise_if_errors()

    def _rename_map(self, node: MapRef, macro: Macro, bound: dict[str, Node]) -> None:
        given = bound.get(node.name)
        if isinstance(given, MapRef):
            node.name = given.name
        elif given is None:
            self.diagnostics.error("macro-hygiene",
                                   f"Unhygienic access to map: {node.name}. Maps must be passed into the "
                                   "macro as arguments.", node.span, [f"macro {macro.name}(..., {node.name})"])


def _recursion(macro: Macro, span: Span) -> str:
    """The chain of calls from a macro to a call within its own body; "" if there is no recursion."""
    names, inside = [macro.name], False
    while isinstance(span, ExpandedSpan) and not inside:
        inside = span.source is macro.span.source and macro.span.start <= span.start < macro.span.end
        span = span.within
        names.append(span.text.partition("(")[0].strip())
    return " > ".join(reversed(names)) if inside else ""


def _derive_type_syntax(of: TypeSyntax, by: TypeSyntax) -> TypeSyntax:
    """The pointers and arrays that ``by`` makes of a type that was given to a macro."""
    pointers, outer = (0, by.pointers) if of.dims else (by.pointers, 0)
    return TypeSyntax(by.span, of.base, of.pointers + pointers, [*by.dims, *of.dims], copy_tree(of.typeof),
                      of.outer + outer + by.outer)


def _plain_name(node: Node, language: Language) -> None:
    """``__builtin_pid`` is ``pid``, though a macro may bear that name."""
    if isinstance(node, (Call, Name)) and node.name.startswith("__builtin_"):
        plain = node.name.removeprefix("__builtin_")
        if plain in language.functions or plain in language.builtins:
            node.name = plain


def _aggregate_last(node: Assign, functions: Functions) -> Assign | BlockStmt:
    """``@ = { ...; avg($x) }``: the block comes first, then what it ends in is assigned."""
    block = node.value
    last = block.value if isinstance(block, BlockExpr) else None
    if not isinstance(last, Call) or last.name not in functions or not functions[last.name].aggregate:
        return node
    assert isinstance(block, BlockExpr)
    node.value = last
    return BlockStmt(node.span, [*block.body, node])


def _is_shipped(macro: Macro) -> bool:
    return macro.span.source.name.startswith(LIBRARY)


@cache
def library_macros(name: str) -> dict[tuple[str, int], Macro]:
    """The macros of a file of the standard library, by name and number of parameters."""
    from ..language.includes import Files
    from ..language.parser import parse_script
    diagnostics = Diagnostics()
    script = parse_script(Files().read_source(f"{LIBRARY}{name}.bt"), diagnostics)
    diagnostics.raise_if_errors()
    return {(macro.name, len(macro.params)): macro for macro in script.macros}


def _has_no_value(block: BlockExpr) -> bool:
    return block.value is None
