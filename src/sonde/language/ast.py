"""The syntax tree.

The parser fills the syntactic fields. The checker fills what is below "# checked": every expression's
``type`` (and ``const`` where its value is known at compile time), and what a name refers to.
"""

from __future__ import annotations

from ..base.record import Record
from ..source import Span
from ..types import StructField, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Node(Record):
    """Anything with a position in the script."""

    span: Span


class Callee(Record):
    """What a name or a call means: a row of the language's functions or builtins, or a function of the script."""

    name: str


class Choice(Record):
    """What a call's rule chose for its lowering, where the arguments do not say it."""


# --- types as written -------------------------------------------------------------------------------------


class TypeSyntax(Node):
    """A type as written: ``base`` is "uint64", "struct sock", "string" ...; or ``typeof`` an expression.

    ``pointers`` is the number of ``*``; ``dims`` the array sizes, outermost first (``string[64]`` too), with 0 for
    ``[]``; ``outer`` the number of ``*`` after them (a pointer to an array). C's base types have one name each:
    "unsigned long", "long long", "signed char" ... (type_syntax.normalise).
    """

    base: str
    pointers: int = 0
    dims: list[int] = []
    typeof: Expr | None = None
    outer: int = 0


# --- expressions ------------------------------------------------------------------------------------------


class Expr(Node):
    """Base of expressions."""

    # checked
    type: Type | None = None
    const: int | str | None = None


class IntLiteral(Expr):
    """``42``, ``0x1f``, ``1e6``, ``10ms`` (durations are nanoseconds): ``value`` fits 64 bits, unsigned. ``narrow``: it
    is an ``unsigned int`` of C's (``1U``), as macros of headers have it."""

    value: int = 0
    narrow: bool = False


class FloatLiteral(Expr):
    """``1.5``, ``2.5e-3``: the double nearest to it."""

    value: float = 0.0


class StrLiteral(Expr):
    """``"text"``, escapes already replaced."""

    value: str = ""


class BoolLiteral(Expr):
    """``true`` / ``false``."""

    value: bool = False


class Reference(Expr):
    """A name, bare or called. checked: ``followed``, whether what it points to is read; ``as_number``, whether it is
    cast to one; ``as_text``, whether a string
    has to be; ``callee``, None for constants; ``choice``."""

    name: str = ""
    # checked
    followed: bool = False
    as_number: bool = False
    as_text: bool = False
    callee: Callee | None = None
    choice: Choice | None = None


class Name(Reference):
    """A bare word: builtin, enum constant or ``#define``. checked: ``const`` for constants."""


class Positional(Expr):
    """``$1`` ... (``number`` ≥ 1), or ``$#`` (``number`` 0); ``as_text``: in ``str($1)``. checked: const (int or
    str)."""

    number: int = 0
    as_text: bool = False


class ScratchVar(Record):
    """A ``$variable`` of one program; block scoped, so two of one name may exist."""

    name: str
    type: Type
    span: Span


class Variable(Expr):
    """A scratch variable; ``name`` without the ``$``."""

    name: str = ""
    # checked
    slot: ScratchVar = None  # type: ignore[assignment]


class MapRef(Expr):
    """``@name`` or ``@name[key]``; several keys are one :class:`TupleExpr`. ``name`` includes the ``@``."""

    name: str = ""
    key: Expr | None = None


class Call(Reference):
    """``name(args)``: a function, or a builtin that is called, like ``pid()``."""

    args: list[Any] = []  # Expr; a TypeSyntax where a function takes a type


class TableColumn(Node):
    """``name: format if shown;`` of a table; the name ends at ``name_end`` in the text."""

    name: str
    name_end: int
    format: Expr
    shown: Expr | None = None


class RowCall(Call):
    """``table(values)``, a row of a table, or ``heading(table)``: a printf() whose format the columns are. Once
    checked, ``columns`` are those that are shown, and the first of ``args`` is the format."""

    table: str = ""
    columns: list[TableColumn] = []
    heading: bool = False
    # checked
    settled: bool = False


class Unary(Expr):
    """``- ! ~ * &`` and ``++ --`` (with ``postfix``)."""

    op: str = ""
    operand: Expr = None  # type: ignore[assignment]
    postfix: bool = False


class Binary(Expr):
    """``+ - * / % & | ^ << >> && || == != < <= > >=``.

    checked: ``compare`` says how operands compare: "signed", "unsigned", "string", "bytes" (element by element), or
    "group": whether the task belongs to the group of that name.
    """

    op: str = ""
    left: Expr = None  # type: ignore[assignment]
    right: Expr = None  # type: ignore[assignment]
    # checked
    compare: str = ""


class Ternary(Expr):
    """``cond ? then : other``; the elvis form ``a ?: b`` has ``then`` None."""

    cond: Expr = None  # type: ignore[assignment]
    then: Expr | None = None
    other: Expr = None  # type: ignore[assignment]


class RuledOut(Expr):
    """checked: in place of the branch of a ``?:`` that a constant condition rules out."""


class FieldAccess(Expr):
    """``expr.name`` or ``expr->name``. checked: ``field``; for ``args.x`` the struct is the probe's arguments."""

    operand: Expr = None  # type: ignore[assignment]
    name: str = ""
    arrow: bool = False
    # checked
    field: StructField | None = None


class TupleAccess(Expr):
    """``expr.0``."""

    operand: Expr = None  # type: ignore[assignment]
    index: int = 0


class Index(Expr):
    """``expr[index]`` on an array or pointer (map subscripts are :class:`MapRef`)."""

    operand: Expr = None  # type: ignore[assignment]
    index: Expr = None  # type: ignore[assignment]


class Cast(Expr):
    """``(type)expr``."""

    to: TypeSyntax = None  # type: ignore[assignment]
    operand: Expr = None  # type: ignore[assignment]


class TupleExpr(Expr):
    """``(a, b)``; with ``names`` the record ``(x=a, y=b)``."""

    items: list[Expr] = []
    names: list[str] = []


class SizeOf(Expr):
    """``sizeof(type or expr)``; checked: const."""

    what: TypeSyntax | Expr = None  # type: ignore[assignment]


class OffsetOf(Expr):
    """``offsetof(type or expr, a.b)``; checked: const."""

    what: TypeSyntax | Expr = None  # type: ignore[assignment]
    path: list[str] = []


class BlockExpr(Expr):
    """``{ statements; value }`` and ``if c { a } else { b }`` as an expression.

    For the latter ``body`` holds one If and ``value`` is None: the value is the last ExprStmt of the branch taken
    (or that of the If there). A macro's body may have no value at all.
    """

    body: list[Stmt] = []
    value: Expr | None = None


# --- statements -------------------------------------------------------------------------------------------


class Stmt(Node):
    """Base of statements."""


class ExprStmt(Stmt):
    """A call or ``@x++`` for its effect; with ``discard`` it is ``_ = e``."""

    expr: Expr
    discard: bool = False


class Assign(Stmt):
    """``target op value``; ``op`` is "=" or the compound operator without "=" ("+", "<<" ...)."""

    target: Expr  # Variable | MapRef
    op: str
    value: Expr


class VarDecl(Stmt):
    """``let $x: type = value``."""

    target: Variable
    declared: TypeSyntax | None = None
    value: Expr | None = None


class Block(Stmt):
    """``{ ... }``: a scope of its own."""

    body: list[Stmt]


class If(Stmt):
    """``if cond { } else { }``; an ``else if`` is an ``other`` that holds one If."""

    cond: Expr
    then: list[Stmt]
    other: list[Stmt] = []


class While(Stmt):
    """``while (cond) { }``."""

    cond: Expr
    body: list[Stmt]


class Unroll(Stmt):
    """``unroll (count) { }``."""

    count: Expr
    body: list[Stmt]


class For(Stmt):
    """``for ($x : a..b)`` (``end`` given), ``for ($kv : @map)`` (``end`` None, ``start`` is the MapRef), or
    ``for ($t : iter_task())`` (``start`` is the Call)."""

    variable: Variable
    start: Expr
    end: Expr | None
    body: list[Stmt]


class Break(Stmt):
    """``break``."""


class Continue(Stmt):
    """``continue``."""


class Return(Stmt):
    """``return`` with an optional value."""

    value: Expr | None = None


# --- top level --------------------------------------------------------------------------------------------


class AttachPoint(Node):
    """``tracepoint:sched:sched_switch`` as written: ``parts`` split at unquoted colons, quotes removed.

    Positional parameters ($1) are already replaced; ``given``: one of them is all of it. One that was not given is
    empty, and ``missing``. ``alias`` is the name in ``name=probe``.
    """

    text: str
    parts: list[str]
    alias: str = ""
    given: bool = False
    missing: str = ""


class Clause(Node):
    """``points /predicate/ { body }``."""

    points: list[AttachPoint]
    predicate: Expr | None
    body: list[Stmt]


class ConfigEntry(Node):
    """``key = value`` in a config block; the value as text."""

    name: str
    value: str


class MapDecl(Node):
    """``let @m = hash(5000)``; also bare ``let @m``, with an empty ``kind``. ``unit`` is the size of the kind of
    objects that ``entries`` is given in (``2 * max_keys``), 0 for a plain number."""

    name: str
    kind: str = ""
    entries: int = 0
    unit: int = 0


class Table(Node):
    """``table name { columns }``."""

    name: str
    columns: list[TableColumn]


class Macro(Node):
    """``macro name(a, $b, @c) { ... }``; kept whole for the macro expander."""

    name: str
    params: list[Expr]
    body: BlockExpr


class Subprogram(Node):
    """``fn name($a: T): T { ... }``; ``returns`` None for none."""

    name: str
    params: list[VarDecl]
    returns: TypeSyntax | None
    body: list[Stmt]


class CField(Node):
    """A member of a C definition; ``bits`` is the width of a bit-field, whose name may be empty, and ``inline`` a
    nested definition (anonymous if ``name`` is empty). ``packed`` and ``align`` (at least this many bytes, 0 if not
    given) are from its attributes."""

    name: str
    type: TypeSyntax
    bits: int | None = None
    inline: CStruct | CEnum | None = None
    align: int = 0
    packed: bool = False


class CStruct(Node):
    """``struct name { ... }`` or ``union``, with ``packed`` and ``align`` (0 if not given) from its attributes;
    ``pack`` is the most that members are aligned to (``#pragma pack``), 0 if there is no such limit."""

    name: str
    union: bool
    fields: list[CField]
    packed: bool = False
    align: int = 0
    pack: int = 0


class CEnum(Node):
    """``enum name { A = 1, B }``; the values are resolved. ``packed`` and ``align`` as those of a struct."""

    name: str
    members: dict[str, int]
    packed: bool = False
    align: int = 0


class CTypedef(Node):
    """``typedef type name;``; ``align`` is what its attributes ask for, 0 if they do not."""

    name: str
    type: TypeSyntax
    align: int = 0


class Script(Node):
    """A whole program; each list is in source order."""

    clauses: list[Clause] = []
    config: list[ConfigEntry] = []
    map_decls: list[MapDecl] = []
    macros: list[Macro] = []
    tables: list[Table] = []
    functions: list[Subprogram] = []
    definitions: list[CStruct | CEnum | CTypedef] = []
    defines: dict[str, str] = {}  # #define NAME text
    includes: list[str] = []
    unread: list[str] = []  # headers that were not read, or not all of it: each with what helps
    imports: list[StrLiteral] = []
