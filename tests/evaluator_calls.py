"""What the functions of the language do, for the evaluator."""

from __future__ import annotations

import errno
import fnmatch
import socket
from typing import Any

from evaluator_memory import bytes_at, raw, text_at
from evaluator_text import Aggregation, converted, cut, formatted, zero
from sonde.language import ast
from sonde.language.ast import Expr
from sonde.layouts.c_library_texts import error_text, signal_text
from sonde.semantics.typed import CheckedScript, WholeMap
from sonde.types import INT8, Aggregate, Array, Buf, Int, Pointer, Str, Type


class Leave(Exception):
    """The action ends: return, exit()."""


class Calls:
    """A method for each function; :class:`Evaluator` has the rest."""

    checked: CheckedScript
    builtins: dict[str, Any]
    variables: dict[int, Any]
    maps: dict[str, dict[Any, Any]]
    queue: list[tuple[str, Any]]
    exited: bool
    json: bool

    def value(self, expr: Expr) -> Any:
        raise NotImplementedError

    def kept(self, expr: Expr) -> Any:
        raise NotImplementedError

    def _kept_as(self, expr: Expr, type: Type | None) -> Any:
        raise NotImplementedError

    def _call_globmatch(self, expr: ast.Call) -> int:
        pattern = expr.args[1].const or expr.args[1].value  # type: ignore[attr-defined]
        return int(fnmatch.fnmatchcase(self.value(expr.args[0]).decode("latin-1"), pattern))

    def _call_printf(self, expr: ast.Call) -> None:
        values = [self.kept(arg) for arg in expr.args[1:]]
        types = [arg.type for arg in expr.args[1:]]
        self.queue.append(("printf", formatted(expr.choice.parts, values, types, self.json)))

    def _call_print(self, expr: ast.Call) -> None:
        if isinstance(expr.choice, WholeMap):
            self.queue.append(("print_map", (expr.choice.map, expr.choice.top, expr.choice.div)))
        else:
            self.queue.append(("value", (self.kept(expr.args[0]), expr.args[0].type)))

    def _call_clear(self, expr: ast.Call) -> None:
        self.queue.append((expr.name, expr.choice.map))

    _call_zero = _call_clear

    def _call_exit(self, expr: ast.Call) -> None:
        self.exited = True
        raise Leave

    def _element(self, expr: ast.Call) -> tuple[dict[Any, Any], Any]:
        key, type = expr.choice.key, self.checked.maps[expr.choice.map].key
        return self.maps[expr.choice.map], None if key is None else self._kept_as(key, type)

    def _call_delete(self, expr: ast.Call) -> int:
        elements, key = self._element(expr)
        if key is None and isinstance(self.checked.maps[expr.choice.map].value, Aggregate):
            elements.clear()
            return 1
        return int(elements.pop(key, None) is not None)

    def _call_has_key(self, expr: ast.Call) -> int:
        elements, key = self._element(expr)
        return int(key in elements)

    def _call_find(self, expr: ast.Call) -> int:
        elements, key = self._element(expr)
        slot = expr.args[2].slot
        if slot.span == expr.args[2].span:  # declared here
            self.variables[id(slot)] = zero(slot.type)
        if key not in elements:
            return 0
        found = elements[key]
        have = self.checked.maps[expr.choice.map].value
        self.variables[id(slot)] = found.value() if isinstance(found, Aggregation) else \
            converted(found, have, slot.type)
        return 1

    def _call_len(self, expr: ast.Call) -> int:
        return len(self.maps[expr.choice.map])

    def _call_strlen(self, expr: ast.Call) -> int:
        return len(self.value(expr.args[0]))

    def _call_strncmp(self, expr: ast.Call) -> int:
        length = expr.args[2].const
        a, b = self.value(expr.args[0]), self.value(expr.args[1])
        return int(a[:length] != b[:length])

    def _call_strstr(self, expr: ast.Call) -> int:
        text, part = self.value(expr.args[0]), self.value(expr.args[1])
        return int(text.find(part)) if part in text else -errno.ENOENT

    def _call_strcontains(self, expr: ast.Call) -> int:
        return int(self._call_strstr(expr) >= 0)

    def _call_str_concat(self, expr: ast.Call) -> bytes:
        assert isinstance(expr.type, Str)
        first: bytes = self.value(expr.args[0])
        return (first + bytes(self.value(expr.args[1])))[:expr.type.capacity - 1]

    def _call_bswap(self, expr: ast.Call) -> int:
        assert isinstance(expr.type, Int)
        return int.from_bytes(cut(self.value(expr.args[0]), expr.type).to_bytes(expr.type.size, "little"), "big")

    def _call_str(self, expr: ast.Call) -> bytes:
        """``str(text, n)``: n bytes with the NUL."""
        assert isinstance(expr.type, Str)
        if isinstance(expr.const, str):  # of a literal: cut without a place for the NUL
            return expr.const.encode("utf-8", "surrogateescape")
        limit = min(expr.type.capacity, self.value(expr.args[1])) if len(expr.args) > 1 else expr.type.capacity
        found, type = self.value(expr.args[0]), expr.args[0].type
        if isinstance(type, Pointer):
            return text_at(found, limit)
        return raw(found, type).split(b"\0")[0][:max(0, limit - 1)]

    def _call_buf(self, expr: ast.Call) -> bytes:
        assert isinstance(expr.type, Buf)
        found, type = self.value(expr.args[0]), expr.args[0].type
        length = min(expr.type.capacity, self.value(expr.args[1])) if len(expr.args) > 1 else expr.type.capacity
        return bytes_at(found, length) if isinstance(type, Pointer) else raw(found, type)[:length].ljust(length, b"\0")

    def _call_memcmp(self, expr: ast.Call) -> int:
        a, b = [raw(self.value(arg), arg.type) for arg in expr.args[:2]]
        length = self.value(expr.args[2])
        pairs = zip(a[:length].ljust(length, b"\0"), b[:length].ljust(length, b"\0"))
        return next((cut(x, INT8) - cut(y, INT8) for x, y in pairs if x != y), 0)

    def _call_ntop(self, expr: ast.Call) -> bytes:
        value, type = self.value(expr.args[0]), expr.args[0].type
        packed = raw(value, type if isinstance(type, Array) else Int(32))
        return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed).encode()

    def _call_strerror(self, expr: ast.Call) -> bytes:
        return error_text(self.value(expr.args[0])).encode()

    def _call_signal_name(self, expr: ast.Call) -> bytes:
        return signal_text(self.value(expr.args[0])).encode()

    def _call_one_of(self, expr: ast.Call) -> int:
        ranges = [part.partition("-") for part in expr.args[1].value.split(",")]  # type: ignore[attr-defined]
        value = self.value(expr.args[0])
        return int(any(int(low) <= value <= int(high or low) for low, _, high in ranges))

    def _call_getopt(self, expr: ast.Call) -> Any:
        default = False if len(expr.args) == 1 else getattr(expr.args[1], "value", expr.args[1].const)
        given = self.checked.options.named.get(expr.args[0].value)  # type: ignore[attr-defined]
        if isinstance(default, bool):
            return int(default if given is None else given in ("", "1", "true"))
        return int(given or default) if isinstance(default, int) else (given or default).encode()

    def _call_is_err(self, expr: ast.Call) -> int:
        return int(self.value(expr.args[0]) >= (1 << 64) - 4095)

    def _call_uptr(self, expr: ast.Call) -> Any:
        return self.value(expr.args[0])
