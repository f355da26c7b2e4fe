"""Strings and bytes: read, measured, compared and searched."""

from __future__ import annotations

from errno import ENOENT

from ..compiler import helpers as h
from ..compiler.ir import BasicBlock, Operand, Reg
from ..compiler.lower import memory
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..compiler.lower.strings import copies, search, words
from ..compiler.lower.strings.texts import capacity_of, literal_bytes, load_characters
from ..kinds import tracing_kinds
from ..language.ast import (
    Binary,
    Call,
    Expr,
    IntLiteral,
    Positional,
    TypeSyntax,
)
from ..semantics import convert
from ..semantics.callees import Types, is_written, value_type
from ..semantics.context import CheckContext, fold_constant
from ..semantics.expressions import MAX_STRING, check_text_length
from ..semantics.go_types import is_go_error, is_go_text, text_arguments
from ..semantics.user_memory import advise_of_user_memory
from ..types import (
    BOOL,
    INT8,
    INT32,
    INT64,
    UINT64,
    VOID,
    Array,
    Buf,
    Int,
    Pointer,
    Scalar,
    Str,
    Tuple,
    Type,
    round_up,
)

# --- reading --------------------------------------------------------------------------------------------


def _size_argument(context: CheckContext, node: Call, at: int, most: int = 0, shorten: bool = False) -> int | None:
    """Capacity requested by argument ``at``: its constant up to ``most`` (max_strlen), else ``most``; None if wrong, as
    one beyond every string is, unless it is to ``shorten``."""
    most = most or context.config.max_strlen
    if len(node.args) <= at:
        return most
    arg = node.args[at]
    if context.check_value(arg, f"{node.name}()") is None:
        return None
    given = context.aggregate_of(arg) or value_type(arg.type)
    if convert.as_int(given) is None:
        context.error("bad-argument",
                      f"{node.name}() only supports int arguments ({convert.kind_of_type(given)} provided)", node)
        return None
    if not isinstance(arg.const, int):
        return most
    if arg.const < 0 or arg.const > MAX_STRING and not shorten:
        wrong = f"cannot use negative length ({arg.const})" if arg.const < 0 else \
            f"length must be between 0 and {MAX_STRING} ({arg.const} provided)"
        context.error("bad-argument", f"{node.name}: {wrong}", node)
        return None
    return max(1, min(arg.const, most))


def check_str(context: CheckContext, node: Call, types: Types) -> Type | None:
    """A C string read from memory; ``str($1)`` is the parameter's text, a constant, and so are literals."""
    del node.args[2:]  # bpftrace looks at no more
    data = node.args[0]
    size = _size_argument(context, node, 1, context.config.text_size, shorten=True)
    if _fold_parameter_text(context, node, data):
        return check_text_length(context, _shortened_type(node), str(node.const), node)
    given = None if isinstance(data, TypeSyntax) else context.check_value(data, "str()")
    if given is None or size is None:
        return None
    given = context.aggregate_of(data) or given
    if is_go_text(given) and len(node.args) < 2:
        node.args = text_arguments(data)
        return check_str(context, node, types)
    fixed = len(node.args) < 2 or node.args[1].const is not None
    if fixed and (isinstance(given, (Int, Str)) and is_written(data) or isinstance(data.const, str)):
        node.const = str(data.const)
        return _shortened_type(node)
    if is_go_error(given) and len(node.args) < 2:
        from .go_errors import check_error
        return check_error(context, node)
    _advise_of_length(context, node)
    advise_of_user_memory(context, node, data)
    if isinstance(given, Str):
        return Str(min(size, given.capacity) if len(node.args) > 1 else given.capacity)
    if isinstance(given, (Int, Pointer)) or isinstance(given, Array) and given.of.size == 1:
        return Str(size)
    context.error("bad-argument", f"str() expects a string, integer or a pointer type as first argument "
                  f"({convert.type_name(given)} provided)", node)
    return None


def _advise_of_length(context: CheckContext, node: Call) -> None:
    """A length that leaves no room for what ends a string is taken for the longest."""
    most, length = context.config.max_strlen, node.args[1].const if len(node.args) > 1 else None
    if isinstance(length, int) and length >= most:
        context.advise("long-string", f"length param ({length}) is too long and will be shortened to {most} bytes (see "
                       "BPFTRACE_MAX_STRLEN)", node)


def _shortened_type(node: Call) -> Str:
    """The type of a constant str(), truncated to the given length."""
    limit = node.args[1].const if len(node.args) > 1 else None
    text = str(node.const).encode("utf-8", "surrogateescape")[:limit if isinstance(limit, int) else None]
    node.const = text.decode("utf-8", "surrogateescape")
    return Str(len(text) + 1)


def _fold_parameter_text(context: CheckContext, node: Call, data: Expr) -> bool:
    """``str($1)`` or ``str($1 + n)``: makes ``node`` the constant text."""
    skip = 0
    positional = data
    if isinstance(data, Binary) and data.op == "+" and isinstance(data.left, Positional) \
            and isinstance(data.right, IntLiteral):
        positional, skip = data.left, data.right.value
    if not isinstance(positional, Positional) or positional.number == 0:
        return False
    params = context.options.params
    text = params[positional.number - 1] if positional.number <= len(params) else ""
    if skip and skip >= len(text):
        context.warning("empty-literal", convert.EMPTY_LITERAL, data)
    node.const = text[skip:]
    for part in (data, positional, getattr(data, "right", None)):
        if isinstance(part, Expr):
            part.type = UINT64
    return True


def _write_str(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> Operand | None:
    """str(p[, n]): read into place; n cuts at run time too."""
    if call.choice is not None:
        from .go_errors import write_error
        return write_error(lo, call, mem, type, pad)
    source = call.args[0]
    fixed = len(call.args) < 2 or isinstance(call.args[1].const, int)
    if isinstance(source.type, Str) or isinstance(source.type, Array) and not isinstance(source.type, Scalar):
        text = lo.place_value(source)
        if fixed and (text.space in ("bpf", "ctx") or text.btf):
            _copy_text(lo, text, source.type.size, mem, type, pad)
            return None
        address: Operand = lo.operand_address(text)
        space = text.space
    else:
        address = lo.scalar_value(source)
        space = source.type.space or lo.context.default_space if isinstance(source.type, Pointer) \
            else memory.number_space(lo.context.default_space)
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    elif not fixed:
        lo.b.store(mem.base, mem.off, 0, 1)  # a length of 0 leaves the memory as it was
    size = type.capacity if fixed else _length_operand(lo, call, type)
    result, name = memory.read_memory(lo, space, mem, size, address, text=True)
    used, failed, on = lo.b.function.reg("used"), lo.b.block("failed", cold=True), lo.b.block("on")
    lo.b.set(used, result)
    lo.b.branch("jslt", result, 0, failed, on)
    lo.b.start(failed)
    lo.b.store(mem.base, mem.off, 0, 1)
    lo.b.set(used, 1)
    lo.count_error("read", name)
    lo.b.jump(on)
    lo.b.start(on)
    return used if fixed else None


def _copy_text(lo: Lower, text: Mem, have: int, mem: Mem, type: Str, pad: bool) -> None:
    size = min(have, type.capacity)
    memory.copy_bytes(lo, text, mem, size)
    if have >= type.capacity:
        lo.b.store(mem.base, mem.off + type.capacity - 1, 0, 1)
    elif pad:
        memory.clear_bytes(lo, mem.at(size), type.capacity - size)
    else:
        lo.b.store(mem.base, mem.off + size, 0, 1)


def _length_operand(lo: Lower, call: Call, type: Str) -> Operand:
    """Bytes to read, including the NUL: a length known at run time, limited to the capacity."""
    wanted = lo.scalar_value(call.args[1])
    size = lo.b.function.reg("size")
    lo.b.set(size, type.capacity)
    shorter, on = lo.b.block("shorter"), lo.b.block("on")
    lo.b.branch("jlt", wanted, type.capacity, shorter, on)
    lo.b.start(shorter)
    lo.b.set(size, wanted)
    lo.b.start(on)
    bound = lo.b.block("bound")
    again = lo.b.block("again", cold=True)
    lo.b.branch("jle", size, type.capacity, bound, again)
    lo.b.start(again)
    lo.b.set(size, type.capacity)
    lo.b.start(bound)
    return size


def check_buf(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = None if isinstance(node.args[0], TypeSyntax) else context.check_value(node.args[0], "buf()")
    size = _size_argument(context, node, 1)
    if given is None or size is None:
        return None
    given = context.aggregate_of(node.args[0]) or given
    advise_of_user_memory(context, node, node.args[0])
    if isinstance(given, Array) and given.size and len(node.args) == 1:
        return Buf(given.size)
    if not isinstance(given, (Int, Pointer, Array, Str)):
        context.error("bad-argument", "buf() expects an integer, string, or array argument but saw "
                      f"{convert.kind_of_type(given)}", node)
        return None
    if len(node.args) == 1:
        if not isinstance(given, Pointer) or not isinstance(given.to, Array):
            context.error("arity", "buf() expects a length argument for non-array type "
                          f"{convert.kind_of_type(given)}", node)
            return None
        return Buf(given.to.size)
    return Buf(size)


def _write_buf(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    """u32 length, then the bytes."""
    assert isinstance(type, Buf) and isinstance(call.type, Buf)
    source = memory.locate_bytes(lo, call.args[0])
    most = min(type.capacity, call.type.capacity)  # its place may have room for more
    data = call.args[0].type
    there = data.size if isinstance(data, (Array, Str)) and data.size else most  # zeros after it
    length = call.args[1].const if len(call.args) > 1 else most
    if not isinstance(length, int):
        memory.clear_bytes(lo, mem.at(4), type.capacity)
        size = _cut_length(lo, lo.scalar_value(call.args[1]), most)
        lo.b.store(mem.base, mem.off, size, 4)
        memory.read_bytes(lo, source, size if there >= most else _cut_length(lo, size, there), mem.at(4))
        return
    lo.b.store(mem.base, mem.off, min(most, length), 4)
    size = min(most, length, there)
    memory.copy_bytes(lo, source, mem.at(4), size, 4)
    if size < type.capacity:
        memory.clear_bytes(lo, mem.at(4 + size), type.capacity - size)


def _cut_length(lo: Lower, value: Operand, most: int) -> Operand:
    size = lo.b.function.reg("size")
    lo.b.set(size, value)
    long, on = lo.b.block("long"), lo.b.block("on")
    lo.b.branch("jle", size, most, on, long)
    lo.b.start(long)
    lo.b.set(size, most)
    lo.b.start(on)
    return size


def check_path(context: CheckContext, node: Call, types: Types) -> Type | None:
    size = _size_argument(context, node, 1)
    return None if size is None else Str(size)


def _write_path(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> None:
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    source = call.args[0]
    address = lo.scalar_value(source) if isinstance(source.type, Pointer) else \
        lo.operand_address(lo.place_value(source))
    result = lo.b.call(h.D_PATH, [address, lo.operand_address(mem), type.capacity], "d_path")
    lo.on_failure(result, "helper", "d_path")


# --- comparing ------------------------------------------------------------------------------------------


def check_strcap(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = types[0]
    return fold_constant(node, given.size if isinstance(given, (Str, Array)) else context.config.max_strlen, INT64)


def lower_strlen(lo: Lower, call: Call) -> Operand:
    text = literal_bytes(call.args[0])
    if text is not None:
        return len(text.partition(b"\0")[0])
    with lo.scope():
        string = lo.place_value(call.args[0])
        return words.text_length(lo, string, capacity_of(call.args[0]))


def check_strncmp(context: CheckContext, node: Call, types: Types) -> Type | None:
    """Folded if both are literals."""
    left, right, length = [arg.const for arg in node.args]
    if length < 0:
        context.error("bad-argument", "Builtin strncmp requires a non-negative literal", node)
        return None
    if isinstance(left, str) and isinstance(right, str):
        return fold_constant(node, int(left[:length] != right[:length]), INT64)
    return INT64


def lower_strncmp(lo: Lower, call: Call) -> Operand:
    """0 if equal in this many characters, else 1."""
    result = lo.b.function.reg("differs")
    lo.select(result, lambda yes, no: _same_prefix(lo, call, yes, no), lambda: 0, lambda: 1)
    return result


def _same_prefix(lo: Lower, call: Call, yes: BasicBlock, no: BasicBlock) -> None:
    left, right, length = call.args[0], call.args[1], call.args[2].const
    if literal_bytes(left) is not None:
        left, right = right, left
    text = literal_bytes(right)
    with lo.scope():
        first = lo.place_value(left)
        if text is not None:
            copies.branch_on_literal(lo, first, capacity_of(left), text, yes, no, prefix=length)
        else:
            other = lo.place_value(right)
            words.branch_on_strings(lo, first, capacity_of(left), other, capacity_of(right), yes, no,
                                length)


def check_memcmp(context: CheckContext, node: Call, types: Types) -> Type | None:
    length = node.args[2]
    if convert.as_int(length.type) is None and not isinstance(length.type, Pointer):
        context.error("bad-cast", f'Cannot cast from "{convert.type_name(value_type(types[2]))}" to "uint64"', length)
    elif isinstance(length.const, int) and not 0 <= length.const <= MAX_STRING:
        context.error("bad-argument", f"memcmp: length must be between 0 and {MAX_STRING} ({length.const} provided)",
                      length)
    else:
        return INT32
    return None


def _lower_memcmp(lo: Lower, call: Call) -> Operand:
    """0 if equal, else the difference of the first bytes that differ, left minus right, both signed."""
    given = call.args[2].const
    most = given if isinstance(given, int) else max([_compared_size(lo, side) for side in call.args[:2]])
    result = lo.b.function.reg("differs")
    lo.b.set(result, 0)
    with lo.scope():
        length = None if isinstance(given, int) else _cut_length(lo, lo.scalar_value(call.args[2]), most)
        sides = [_copy_compared(lo, side, lo.temp(round_up(most, 8)), most, length) for side in call.args[:2]]
        left, right = lo.b.function.reg("left"), lo.b.function.reg("right")
        differ, done = lo.b.block("differ"), lo.b.block("compared")

        def look(locations: list[Mem], width: int, at: Operand) -> None:
            same = lo.b.block("same")
            for side, mem in zip((left, right), locations):
                lo.b.set(side, load_characters(lo, mem.base, mem.off, width))
            lo.b.branch("jne", left, right, differ, same)
            lo.b.start(same)

        words.over_words(lo, sides, most, 8, look)
        lo.b.jump(done)
        lo.b.start(differ)
        lo.b.set(result, _first_difference(lo, left, right))
        lo.b.start(done)
    return result


def _first_difference(lo: Lower, left: Reg, right: Reg) -> Operand:
    """For two words that differ: the difference of the first bytes that do, left minus right, both signed."""
    differ, byte = lo.b.block("found"), 0xff
    for _ in range(7):
        again = lo.b.block("again")
        lo.b.branch("jne", lo.b.alu("and", left, byte), lo.b.alu("and", right, byte), differ, again)
        lo.b.start(again)
        for side in (left, right):
            lo.b.set(side, lo.b.alu("rsh", side, 8))
    lo.b.jump(differ)
    lo.b.start(differ)
    return lo.b.alu("sub", lo.normalise(left, INT8), lo.normalise(right, INT8))


def _compared_size(lo: Lower, side: Expr) -> int:
    """How many bytes of a value may be compared: all it has, or at an address as many as a string may have."""
    assert side.type is not None
    return lo.unit.config.max_strlen if isinstance(side.type, Pointer) else side.type.size


def _copy_compared(lo: Lower, side: Expr, into: Mem, most: int, length: Operand | None) -> Mem:
    """The first ``length`` bytes of a value (None: ``most``), or of what a pointer points to; zeros after them."""
    assert side.type is not None
    if isinstance(side.type, (Scalar, Tuple)) and not isinstance(side.type, Pointer):
        source = lo.temp(side.type.size)
        lo.write_value(side, source, side.type)
    else:
        source = memory.locate_bytes(lo, side)
    size = min(most, _compared_size(lo, side))
    if length is not None:
        memory.clear_bytes(lo, into, most)
        memory.read_bytes(lo, source, length if size == most else _cut_length(lo, length, size), into)
        return into
    memory.copy_bytes(lo, source, into, size)
    if size < most:
        memory.clear_bytes(lo, into.at(size), most - size)
    return into


# --- searching ------------------------------------------------------------------------------------------


def lower_strstr(lo: Lower, call: Call) -> Operand:
    """The index, or -ENOENT, like the kernel's own bpf_strstr()."""
    result = lo.b.function.reg("where")
    index: list[Operand] = []
    lo.select(result, lambda yes, no: index.append(_find_substring(lo, call, yes, no)), lambda: index[0],
              lambda: -ENOENT)
    return result


def _find_substring(lo: Lower, call: Call, yes: BasicBlock, no: BasicBlock) -> Operand:
    needle = literal_bytes(call.args[1])
    with lo.scope():
        hay = lo.place_value(call.args[0])
        size, ends = capacity_of(call.args[0]), isinstance(call.args[0].type, Str)
        if needle is not None:
            return search.find_literal(lo, hay, size, ends, needle, yes, no)
        other = lo.place_value(call.args[1])
        return search.find_string(lo, hay, size, ends, other, capacity_of(call.args[1]),
                                      isinstance(call.args[1].type, Str), yes, no)


def branch_on_strcontains(lo: Lower, call: Call, yes: BasicBlock, no: BasicBlock) -> None:
    _find_substring(lo, call, yes, no)



ROWS = (
    Function("str", ("data:raw", "length:raw?", "..."), None,
             "The C string at an address; further arguments are ignored. Or Go's string.",
             "str(args.filename)", check_str, text=_write_str),
    Function("buf", ("data:raw", "length:raw?"), None, "Bytes at an address.", "buf(args.buf, 16)", check_buf,
             value=_write_buf),
    Function("strlen", ("text:text",), UINT64, "Length of a string.", "strlen(comm)", cost=150, macro=True,
             scalar=lower_strlen),
    Function("strcap", ("text:str|array|ptr",), None, "Capacity of a string.", "strcap(comm)", check_strcap,
             macro=True, wrong={"text": "string-like values must be either strings, arrays or pointers"}),
    Function("strncmp", ("a:str", "b:str", "length:number"), INT64, "0 if two strings agree in so many characters.",
             'strncmp(comm, "ssh", 3)', check_strncmp, cost=150,
             wrong={"length": "Builtin strncmp requires a non-negative literal"}, scalar=lower_strncmp),
    Function("strcontains", ("text:text", "part:text"), BOOL, "Whether a string contains another.",
             'strcontains(comm, "sh")', cost=400, macro=True, condition=branch_on_strcontains),
    Function("strstr", ("text:text", "part:text"), Int(32),
             "Where a string contains another; -2 (-ENOENT) if it does not.",
             'strstr(comm, "sh")', cost=400, macro=True, scalar=lower_strstr),
    Function("memcmp", ("a:any", "b:any", "length:any"), INT32,
             "Compare bytes: 0 if they are the same, else the difference of the first two that differ (int8).",
             "memcmp($a, $b, 4)", check_memcmp, macro=True, scalar=_lower_memcmp),
    Function("path", ("path:ptr|struct", "length:number?"), None, "Full path of a struct path.",
             "path(ctx.file.f_path)", check_path, probes=tracing_kinds(),
             wrong={"path": "path() only supports pointer or C type argument ({given} provided)",
                    "length": "path: invalid size value, need non-negative literal",
                    "probe": "The path function can only be used with 'fentry', 'fexit', 'iter' probes"},
             text=_write_path),
    Function("abspath", ("path:var", "depth:int"), VOID,
             "Put the current directory before a relative path, with at most so many of its names.", "abspath($a, 32)",
             library="paths", macro=True),
    Function("fs_root", (), None, "The root directory of the current task, a struct dentry pointer.", "fs_root()",
             machine=True, library="paths", macro=True),
    Function("default_str_length", (), INT64, "Size of strings: max_strlen.", "default_str_length()", library="values",
             macro=True),
)
