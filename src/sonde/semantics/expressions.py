"""Rules for expressions other than operators and calls.

A rule returns the expression's type, or None after saying why there is none.
"""

from __future__ import annotations

from ..language import ast
from ..language.ast import Expr, Stmt
from ..language.diagnostics import nearest_names
from ..language.lexer import parse_integer
from ..language.predefined import predefined_macros
from ..types import (
    BOOL,
    BPF,
    CTX,
    INT64,
    NOTHING,
    UINT64,
    USER,
    VOID,
    Aggregate,
    Array,
    Buf,
    Enum,
    Float,
    Int,
    NoneType,
    Pointer,
    Real,
    Scalar,
    Str,
    Struct,
    StructField,
    Symbol,
    Tuple,
    Type,
)
from . import convert
from .builtins import type_of
from .constants import macro_constant
from .context import CheckContext, VarState, fold_constant
from .floats import converts_float
from .header_constants import header_constant
from .nodes import is_args
from .typed import Literals
from .user_probes import user_places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_STRING = 65536


# --- literals and names -----------------------------------------------------------------------------------


def check_int(context: CheckContext, node: ast.IntLiteral) -> Type:
    node.const = node.value
    return convert.literal_type(node.value)


def check_str(context: CheckContext, node: ast.StrLiteral) -> Type:
    return check_text_length(context, text_type(node), node.value, node)


def check_text_length(context: CheckContext, type: Str, text: str, node: ast.Expr) -> Str:
    """The type of a text, which is an error if it is longer than strings may be."""
    most = min(context.config.max_strlen or MAX_STRING, MAX_STRING)
    if type.capacity > most:
        context.error("string-too-long", f"String is too long (over {most} bytes): {text}", node)
    return type


def text_type(node: ast.StrLiteral) -> Str:
    """The type of a literal, however long: a format or a name is never a value of the program."""
    node.const = node.value
    node.type = convert.known_text(node.value)
    return node.type


def check_bool(context: CheckContext, node: ast.BoolLiteral) -> Type:
    node.const = int(node.value)
    return BOOL


def check_positional(context: CheckContext, node: ast.Positional) -> Type:
    """A number where the text is one, else a string; 0 where none was given, or an empty one."""
    params = context.options.params
    if node.number == 0:
        return fold_constant(node, len(params))
    text = params[node.number - 1] if node.number <= len(params) else ""
    if not text and not node.as_text:
        context.advise("missing-parameter", f"Positional parameter ${node.number} is empty or not provided. ", node)
    value = _parameter_number(text or "0")
    if value is not None:
        return fold_constant(node, value)
    node.const = text
    return check_text_length(context, convert.known_text(text), text, node)


def _parameter_number(text: str) -> int | None:
    """The number that a parameter is: as in a script (``0x10``, ``1e3``, ``5ms``), in binary, or with a sign; ``5UL``
    is one in C only."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if digits[-1:] in ("U", "L") or digits[-1:] in ("u", "l") and digits[:2] in ("0x", "0X"):
        return None
    try:
        value = int(digits, 2) if digits[:2] in ("0b", "0B") else parse_integer(digits)
    except ValueError:
        return None
    if value is None:
        return None
    value = -value if text[:1] == "-" else value
    return value if -(1 << 63) <= value < 1 << 64 else None


def check_name(context: CheckContext, node: ast.Name) -> Type | None:
    row = context.builtins.get(node.name)
    if row is not None:
        return type_of(context, row, node)
    constant = _check_constant(context, node)
    if constant is not None:
        return constant
    from .meant import name_hints
    context.error("unknown-identifier", f"Unknown identifier: '{node.name}'", node, name_hints(context, node.name))
    return None


def _check_constant(context: CheckContext, node: ast.Name) -> Type | None:
    """A ``#define``, an enum constant of the script or the kernel, or a macro that C programs know."""
    name = node.name
    text = context.defines.get(name)
    defined = None if text is None else _check_define(context, node, text)
    if defined is not None:
        return defined
    enumerator = context.types.constants.get(name) or context.world.enum_constant(name)
    if enumerator is not None:
        value, enum = enumerator
        return fold_constant(node, value, enum)
    number = macro_constant(name, context.world.syscall_number)
    if number is None and name.isupper():
        known, limits = predefined_macros(context.world.arch)
        number = known.get(name, limits.get(name))
    if number is None:
        number = header_constant(name, context.types.includes, context.world)
    return None if number is None else fold_constant(node, number)


def _check_define(context: CheckContext, node: ast.Name, text: str) -> Type | None:
    """The number or string behind ``#define NAME text``; other texts were replaced by the preprocessor."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        node.const = text[1:-1]
        return Str(len(node.const) + 1)
    value = _parameter_number(text.rstrip("uUlL"))
    return None if value is None else fold_constant(node, value)


# --- variables and maps -----------------------------------------------------------------------------------


def check_variable(context: CheckContext, node: ast.Variable) -> Type | None:
    state = context.find_variable(node.name)
    if state is None:
        context.report_undefined_variable(node)
        return None
    node.slot = state
    written = node.span.text.startswith("$")  # in the library the call is the place of everything
    if written and not state.given and state.inferred is not None and not context.unevaluated:
        context.advise("used-before-assigned", f"Variable used before it was assigned: ${node.name}", node)
    if state.inferred is None:
        context.report_untyped(node)
    return state.inferred


def check_map(context: CheckContext, node: ast.MapRef) -> Type | None:
    """A map's value read by a program; an aggregate reads as the integer it stands for."""
    state = context.use_map(node)
    value = context.element_value(state, node)
    if value is None or not isinstance(value, Aggregate):
        return value
    state.read = True
    return convert.read_type(value) or value


# --- members ----------------------------------------------------------------------------------------------


def space_of(context: CheckContext, node: Expr) -> str:
    """The memory in which the object that ``node`` denotes lies."""
    while True:
        if isinstance(node.type, Pointer):
            return node.type.space or context.program.space
        if isinstance(node, (ast.FieldAccess, ast.Index, ast.TupleAccess, ast.Unary)):
            node = node.operand
        else:
            return context.program.space


def is_context(node: Expr, type: Type) -> bool:
    """Whether a value is the program's context: ``ctx`` or ``*ctx``."""
    if isinstance(node, ast.Unary) and node.op == "*":
        return isinstance(node.operand.type, Pointer) and is_context(node.operand, node.operand.type)
    return isinstance(type, Pointer) and type.space == CTX


def check_field(context: CheckContext, node: ast.FieldAccess) -> Type | None:
    if isinstance(node.operand, (ast.Name, ast.Call)) and node.operand.name == "config":
        return _config_field(context, node)
    operand = context.check_expression(node.operand)
    if operand is None:
        return None
    if isinstance(operand, Tuple) and operand.names:
        return _record_field(context, node, operand)
    target = operand.to if isinstance(operand, Pointer) else operand
    if not isinstance(target, Struct):
        context.error("not-a-struct", f"Can not access field '{node.name}' on expression of type "
                      f"'{context.aggregate_of(node.operand) or convert.type_name(target)}'", node,
                      _field_hints(operand))
        return None
    field = target.field(node.name)
    if field is None:
        _unknown_field(context, node, target)
        return None
    node.field = field
    return _member_type(context, node, field)


def _field_hints(operand: Type) -> list[str]:
    if convert.as_int(operand) is not None:
        return ["cast it to a struct pointer first: ((struct name *)x).field"]
    if isinstance(operand, Pointer) and isinstance(operand.to, NoneType):
        return ["it is a pointer to void: cast it to a struct pointer first"]
    return []


def _unknown_field(context: CheckContext, node: ast.FieldAccess, target: Struct) -> None:
    names = target.field_names()
    close = nearest_names(node.name, names)
    message, hints = f"Struct/union of type '{target}' does not contain a field named '{node.name}'", list[str]()
    if is_args(node.operand):
        location = user_places(context.program.attach).get(node.name)
        if location is not None:
            context.error("no-argument", f"{node.name} of {context.program.attach.name} {location.why}", node)
            return
        results = isinstance(node.operand, ast.Reference) and node.operand.name == "results"
        function = context.program.kind in ("uprobe", "fentry", "fexit", "rawtracepoint")
        if function or results:
            message = f"Can't find function {'result' if results else 'parameter'} {node.name}"
        hints = [f"its {'results' if results else 'arguments'} are: {', '.join(names)}"] if len(names) <= 16 else []
    if close:
        hints.insert(0, f"did you mean {' or '.join(close)}?")
    elif not hints and str(target).startswith(("struct ", "union ")):
        hints = [f"sonde -lv '{target}' shows its fields"]
    context.error("unknown-field", message, node, hints)


def _member_type(context: CheckContext, node: ast.FieldAccess, field: StructField) -> Type:
    """A member as a value: strings for char arrays, and pointers that know their memory."""
    type = field.type
    if field.data_loc:
        text = isinstance(type, Str) or isinstance(type, Array) and type.of == Int(8)
        return Str(context.config.text_size) if text else type
    if isinstance(type, Pointer):
        if is_args(node.operand):
            return Pointer(type.to, type.space or context.program.space)
        space = space_of(context, node.operand)
        return Pointer(type.to, USER if space == USER else type.space or space)
    return type


def _record_field(context: CheckContext, node: ast.FieldAccess, record: Tuple) -> Type | None:
    if node.name not in record.names:
        context.error("unknown-field", f"Record does not contain a field named '{node.name}'", node,
                      [f"did you mean {c}?" for c in nearest_names(node.name, record.names)[:1]])
        return None
    if isinstance(node.operand, ast.Call) and isinstance(node.operand.choice, Literals):
        node.const = node.operand.choice.items[record.names.index(node.name)].const
    return record.of[record.names.index(node.name)]


def _config_field(context: CheckContext, node: ast.FieldAccess) -> Type | None:
    """``config.name``: a constant."""
    node.operand.type = VOID
    names = context.config._fields
    if node.name not in names:
        context.error("unknown-config", f"Unrecognized config variable: {node.name}", node,
                      [f"did you mean {c}?" for c in nearest_names(node.name, names)[:1]])
        return None
    value = getattr(context.config, node.name)
    node.const = int(value) if isinstance(value, bool) else value
    return BOOL if isinstance(value, bool) else INT64 if isinstance(value, int) else Str(len(value.encode()) + 1)


def check_tuple_access(context: CheckContext, node: ast.TupleAccess) -> Type | None:
    operand = context.check_expression(node.operand)
    if operand is None:
        return None
    if not isinstance(operand, Tuple) or operand.names:
        have = context.aggregate_of(node.operand) or convert.type_name(operand)
        context.error("not-a-tuple", f"Can not access index '{node.index}' on expression of type '{have}'", node)
        return None
    if node.index >= len(operand.of):
        context.error("tuple-index", f"Invalid tuple index: {node.index}. Found {len(operand.of)} elements in tuple.",
                      node, _index_hints(operand))
        return None
    if isinstance(node.operand, ast.TupleExpr) and all(item.const is not None for item in node.operand.items):
        node.const = node.operand.items[node.index].const
    return operand.of[node.index]


def check_index(context: CheckContext, node: ast.Index) -> Type | None:
    operand, index = context.check_expression(node.operand), context.check_value(node.index, "an index")
    if operand is None or index is None:
        return None
    if isinstance(operand, Tuple) and not operand.names:
        return _constant_index(context, node, operand)
    element = element_type(operand)
    if element is None:
        context.error("not-an-array", "The array index operator [] can only be used on arrays, pointers, and tuples, "
                      f"found {context.aggregate_of(node.operand) or convert.type_name(operand)}.", node)
        return None
    index = context.aggregate_of(node.index) or index
    if convert.as_int(index) is None or isinstance(node.index.const, int) and node.index.const < 0:
        context.error("not-an-integer", "The array index operator [] only accepts non-negative integer indices. Got: "
                      f"{convert.type_name(index)}", node)
        return None
    count = operand.count if isinstance(operand, Array) else operand.capacity if isinstance(operand, Str) else 0
    if count and isinstance(node.index.const, int) and not 0 <= node.index.const < count:
        context.error("array-bounds", f"the index {node.index.const} is out of bounds for array of size {count}", node)
        return element
    if isinstance(element, Pointer):
        space = space_of(context, node.operand)
        return Pointer(element.to, USER if space == USER else element.space or space)
    return element


def element_type(type: Type) -> Type | None:
    """What ``[i]`` or ``*`` of an array, pointer or string yields; None if it has no elements."""
    if isinstance(type, Array):
        return type.of
    if isinstance(type, Str):
        return Int(8)
    if isinstance(type, Pointer) and not isinstance(type.to, NoneType):
        return type.to
    return None


def _constant_index(context: CheckContext, node: ast.Index, operand: Tuple) -> Type | None:
    index = node.index.const
    if not isinstance(index, int):
        context.error("not-constant", "Array-style access for tuples only valid for integer literals", node)
        return None
    if not 0 <= index < len(operand.of):
        context.error("tuple-index", f"Invalid tuple index: {index}. Found {len(operand.of)} elements in tuple.", node,
                      _index_hints(operand))
        return None
    return operand.of[index]


def _index_hints(tuple: Tuple) -> list[str]:
    return [f"the first is .0, the last .{len(tuple.of) - 1}"] if tuple.of else []


# --- casts, sizes, tuples, blocks -------------------------------------------------------------------------


# They have a size, and no values of their own.
_AGGREGATES = {str(type): type for type in (
    Aggregate("count"), *[Aggregate(kind, signed) for kind in ("sum", "min", "max", "avg", "stats")
                          for signed in (True, False)])}


def resolve_type(context: CheckContext, syntax: ast.TypeSyntax, space: str = "") -> Type | None:
    """A type as written; ``typeof(expr)`` is the expression's."""
    if syntax.typeof is None:
        own = _type_of_target(context, syntax.base) if syntax.base.startswith(("struct ", "union ")) else None
        if own is None and syntax.base.startswith(("struct ", "union ")) \
                and context.types.find_type(syntax.base) is None:
            context.types.report_unknown_type(syntax)
            return None
        if syntax.base in _AGGREGATES and not syntax.pointers and not syntax.dims:
            return _AGGREGATES[syntax.base]
        if syntax.base == "char":  # in scripts, as in bpftrace, a byte without a sign; C's char has one
            syntax = ast.TypeSyntax(syntax.span, "uint8", syntax.pointers, syntax.dims, None, syntax.outer)
        type = context.types.resolve_type(syntax, space, context.config.text_size, own)
        if isinstance(type, Real):
            context.types.report_unknown_type(syntax)
            return None
    else:
        type = _check_unevaluated(context, syntax.typeof)
        type = None if type is None else convert.plain_type(type)
        for _ in range(syntax.pointers if type is not None else 0):
            assert type is not None
            type = Pointer(type, space)
        for count in reversed(syntax.dims if type is not None else []):
            assert type is not None
            type = Array(type, count)
    if isinstance(type, (Str, Buf)) and not 0 < type.capacity <= MAX_STRING:
        context.error("string-too-long", f"the size must be between 1 and {MAX_STRING}", syntax)
        return None
    return type


def _type_of_target(context: CheckContext, name: str) -> Type | None:
    """A struct of the program that a uprobe is in: the script's own hide it, and it hides the kernel's."""
    if context.program is None or context.program.kind not in ("uprobe", "uretprobe") or name in context.types.structs:
        return None
    return context.world.user_type(context.program.attach.target, name)


def check_cast(context: CheckContext, node: ast.Cast) -> Type | None:
    to = resolve_type(context, node.to)
    if isinstance(node.operand, ast.Reference):
        node.operand.as_number = isinstance(to, Int)
    operand = context.check_value(node.operand, "a cast")
    if operand is None or to is None:
        return to
    if isinstance(to, Pointer):
        to = Pointer(to.to, context.pointer_space(operand) if isinstance(operand, Scalar) else
                     space_of(context, node.operand) if _is_pointed_to(node.operand) else BPF)
    sized = convert.as_int(operand) is not None or isinstance(operand, (Str, Array))
    if isinstance(to, Array) and to.count == 0 and to.of.size and sized:
        to = Array(to.of, operand.size // to.of.size)
    if context.unevaluated and isinstance(to, Struct):  # no value is made: sizeof((struct s)0), and of its members
        return to
    open_ended = isinstance(to, Str) and not node.to.dims and node.to.typeof is None
    held = context.aggregate_of(node.operand)
    if open_ended or not _is_castable(operand, to) or held is not None and isinstance(to, (Array, Symbol)):
        have = held or convert.type_name(operand)
        wrong = f'Cannot cast from C type "{have}"' if isinstance(operand, Struct) else \
            f'Cannot cast from "{have}" type' if operand == NOTHING else \
            f'Cannot cast from "{have}" to "{convert.written_name(to, node.to)}"'
        context.error("bad-cast", wrong, node.to)
        return to
    if isinstance(to, Enum) and isinstance(node.operand, ast.IntLiteral) and node.operand.value not in to.names:
        context.error("bad-cast", f"Enum: {to.name} doesn't contain a variant value of {node.operand.value}", node.to)
    _warn_of_needless_cast(context, node, operand, to)
    if isinstance(node.operand.const, int) and isinstance(to, (Int, Enum, type(BOOL))):
        node.const = convert.wrap_int(node.operand.const, to)
    return to


def _warn_of_needless_cast(context: CheckContext, node: ast.Cast, operand: Type, to: Type) -> None:
    """Warn of a cast that changes nothing. Casts of aggregates (which ask for their number) and of sizes are fine."""
    inner = node.operand
    exempt = context.aggregate_of(inner) is not None or isinstance(inner, (ast.SizeOf, ast.OffsetOf)) \
        or isinstance(inner, ast.TupleAccess) \
        and isinstance(inner.operand, ast.Variable) and isinstance(inner.operand.slot, VarState) \
        and inner.operand.slot.aggregated or isinstance(to, type(BOOL)) and inner.const is not None
    if isinstance(to, (Int, Enum, type(BOOL), Pointer, Str, Array)) and not exempt \
            and convert.type_name(operand) == convert.type_name(to):
        context.advise("unnecessary-cast", f"Unnecessary cast: expression is already of type {convert.type_name(to)}",
                       node.to)


def _is_pointed_to(node: Expr) -> bool:
    """Whether a value lies behind a pointer, as a member or an element."""
    while isinstance(node, (ast.FieldAccess, ast.Index)):
        node = node.operand
        if isinstance(node.type, Pointer):
            return True
    return False


def _is_castable(have: Type, to: Type) -> bool:
    number = convert.as_int(have) is not None
    if isinstance(have, Float) or isinstance(to, Float):
        return converts_float(have, to)
    if isinstance(to, (Int, Enum)):
        return number or isinstance(have, Pointer) or isinstance(have, Array) and have.size == to.size
    if isinstance(to, type(BOOL)):
        return number or isinstance(have, (Pointer, Str))
    if isinstance(to, Pointer):  # the address of what lies in memory; of arrays and structs bpftrace gives none
        return number or not isinstance(have, (Array, Struct))
    if isinstance(to, Array):
        fits = isinstance(have, (Int, Enum)) and have.size <= to.size <= 8
        return fits or have == to or isinstance(have, Str) and have.size == to.size
    if isinstance(to, Str):
        return isinstance(have, Str) and have.capacity <= to.capacity
    if isinstance(to, Buf):
        return isinstance(have, Buf)
    if isinstance(to, Symbol):
        return number
    return have == to


def check_sizeof(context: CheckContext, node: ast.SizeOf) -> Type | None:
    if isinstance(node.what, ast.TypeSyntax):
        type = resolve_type(context, node.what)
    else:
        type = _check_unevaluated(context, node.what)
    if isinstance(type, Enum) and not isinstance(node.what, ast.FieldAccess):  # a member takes what C gives it
        type = UINT64
    size = 8 if isinstance(type, Aggregate) else type.size if type is not None else None  # of the former, as there
    if isinstance(type, Str) and size == context.config.text_size:
        size = context.config.max_strlen  # as there: the NUL has no room of its own
    return None if size is None else fold_constant(node, size, UINT64)


def _check_unevaluated(context: CheckContext, node: Expr) -> Type | None:
    """The type of an expression that is not evaluated; for a keyed map as a whole, the type of its keys."""
    if isinstance(node, ast.MapRef) and node.key is None and context.map_state(node).keyed:
        return context.map_state(node).inferred_key
    outer, context.unevaluated = context.unevaluated, True
    result = context.check_expression(node)
    context.unevaluated = outer
    return result


def check_offsetof(context: CheckContext, node: ast.OffsetOf) -> Type | None:
    what = node.what
    type = resolve_type(context, what) if isinstance(what, ast.TypeSyntax) else _check_unevaluated(context, what)
    offset = 0
    for name in node.path:
        if isinstance(type, Pointer) and not offset:
            type = type.to
        if type is None:
            return None
        if not isinstance(type, Struct):
            context.error("not-a-struct", f"'{convert.type_name(type)}' is not a C type.", node)
            return None
        field = type.field(name)
        if field is None:
            context.error("unknown-field", f"'{type}' has no field named '{name}'", node,
                          [f"did you mean {c}?" for c in nearest_names(name, type.field_names())[:1]])
            return None
        offset, type = offset + field.offset, field.type
    return fold_constant(node, offset, UINT64)


def check_tuple(context: CheckContext, node: ast.TupleExpr) -> Type | None:
    if not node.items:
        return NOTHING
    checked = [context.check_shown(item, "a tuple") for item in node.items]
    node.items, types = [item for item, _ in checked], [type for _, type in checked]
    for item, type in zip(node.items, types):
        if isinstance(type, Aggregate):
            context.error("aggregate-value", f"Map type {type} cannot exist inside a tuple.", item)
            return None
    known = tuple([t for t in types if t is not None])
    if len(known) != len(types):
        return None
    elements, depth = _tuple_extent(known)
    if elements > MOST_ELEMENTS or depth > MAX_DEPTH:
        context.error("type-too-large", f"A tuple cannot have more than {MOST_ELEMENTS} values in all, or {MAX_DEPTH} "
                      "tuples within one another", node)
        return None
    return Tuple(known, tuple(node.names))


MOST_ELEMENTS, MAX_DEPTH = 1000, 100  # of tuples: maps that hold tuples of one another's values could make any number


def _tuple_extent(types: Sequence[Type]) -> tuple[int, int]:
    """(values in all, tuples within one another) of a tuple of ``types``."""
    inner = [_tuple_extent(type.of) for type in types if isinstance(type, Tuple)]
    return (len(types) - len(inner) + sum([elements for elements, _ in inner]),
            1 + max([depth for _, depth in inner], default=0))


def check_block(context: CheckContext, node: ast.BlockExpr) -> Type | None:
    """``{ ...; value }``. An ``if`` as an expression becomes ``cond ? { } : { }``, once and for all."""
    value = node.value
    if value is None:
        value = _if_value(node.body[-1]) if len(node.body) == 1 else None
        if value is None:
            context.error("no-value", "this block has no value", node)
            return None
        node.body, node.value = [], value
    context.scopes.append({})
    context.statements(context, node.body)
    result = context.check_expression(value)
    context.scopes.pop()
    if not node.body:
        node.const = value.const
    return result


def _if_value(statement: Stmt) -> Expr | None:
    """The value of a statement that ends a block; None if it has none."""
    if isinstance(statement, ast.ExprStmt):
        return statement.expr
    if isinstance(statement, ast.Block):
        return _branch_value(statement.body)
    if not isinstance(statement, ast.If):
        return None
    then, other = _branch_value(statement.then), _branch_value(statement.other)
    return None if then is None or other is None else \
        ast.Ternary(statement.span, cond=statement.cond, then=then, other=other)


def _branch_value(body: list[Stmt]) -> Expr | None:
    last = _if_value(body[-1]) if body else None
    return None if last is None else ast.BlockExpr(body[-1].span, body=body[:-1], value=last)
