"""The order in which findings are shown: by the passes in which bpftrace would find them, then as they were found.

bpftrace stops after the first pass that finds an error, and people search for its first message. Which pass finds what
was determined by giving it pairs of faults.
"""

from __future__ import annotations

from ..source import ERROR, Diagnostic

_DECLARATIONS = (("type-mismatch", "trying to"),)  # of ``let $x: type = value``

_MACROS = (("arity", "Call to "), ("bad-argument", "Call to "))

_CALLS = (("arity", " requires "), ("arity", " takes up to "), ("unsafe", "unsafe function"),
          ("bad-unroll", ""), ("not-constant", "unroll"), ("function-probe", "can not be used with"),
          ("bad-argument", "expects a map"), ("bad-argument", "tseries()"), ("bad-argument", "lhist()"),
          ("bad-argument", "curr_ns"), ("bad-argument", "Builtin strncmp"))

# Each pass has (code, words that are in the message) of what it finds.
_PASSES: tuple[tuple[tuple[str, str], ...], ...] = (
    (("type-too-large", ""), ("unknown-config", ""), ("config-value", ""), ("config-environment", "")),
    (("unknown-probe", ""), ("probe-form", ""), ("missing-probe", "target file"),
     ("no-module", "")),
    (("outside-loop", ""),),
    _MACROS,
    (("bad-argument", "Mismatched arg."), ("macro-arguments", ""), ("macro-depth", ""), ("macro-hygiene", "")),
    (("builtin-probe", "The arg"), ("builtin-probe", "The retval")),
    (("missing-probe", ""),),
    (("division-by-zero", ""), ("bad-operand", "illegal"), ("value-too-large", "fold")),
    (("builtin-probe", ""), ("function-probe", "The ctx")),
    (("aggregate-value", "must be assigned directly"),),
    (("bad-argument", "is_scalar()"),),
    (("bad-argument", "argument to 'getopt'"), ("other-default", "")),
    (("undefined-variable", "Undefined"), ("redeclared", "")),
    _CALLS,
    (("function-probe", "The path"),),
    (("unknown-function", ""), ("unknown-type", "Cannot resolve"), ("unknown-field", ""), ("not-a-struct", ""),
     ("type-mismatch", "trying to"), ("type-mismatch", "Branches must"), ("bad-operand", "operator can not"),
     ("not-an-array", ""), ("not-a-pointer", "operator can not"), ("not-an-integer", ""),
     ("aggregate-value", "assigned to a scratch"), ("no-value", "assigned to a scratch"),
     ("key-mismatch", ""), ("map-key", ""), ("bad-range", ""),
     ("bad-argument", "stack mode"), ("bad-argument", "only supports integer arguments"), ("bad-argument", "pton()"),
     ("missing-feature", "")),
    _DECLARATIONS,
    (("function-probe", ""), ("unsafe", "")),
    (("not-constant", ""),),
)
_REST = len(_PASSES)
_LAST = (("unknown-symbol", ""),)


def sort_findings(items: list[Diagnostic]) -> list[Diagnostic]:
    """The findings in order. Findings about a value that has an error are kept only where bpftrace would report them
    first."""
    shown: list[Diagnostic] = []
    for item in sorted(items, key=_order_of):
        if not _is_of_none(item) or all(other.severity != ERROR or _is_of_none(other) for other in shown):
            shown.append(item)
    return shown


def _is_of_none(item: Diagnostic) -> bool:
    return item.code == "no-value" and "of type 'none'" in item.message


def _order_of(item: Diagnostic) -> tuple[int, int]:
    """The sort key of a finding: its pass. Of calls that fit no macro, inner ones come first; of other wrong calls,
    outer ones."""
    number = pass_of(item)
    causes = _PASSES[number] if number < _REST and item.span is not None else ()
    return number, 0 if item.span is None else item.span.end if causes is _MACROS else \
        item.span.start if causes is _CALLS else 0


def pass_of(item: Diagnostic) -> int:
    """The number of the bpftrace pass that reports such a finding."""
    if item.code == "type-mismatch" and item.span is not None and item.span.text.startswith("let ") \
            or _is_of_none(item):
        return _PASSES.index(_DECLARATIONS)
    for number, causes in enumerate((*_PASSES, (), _LAST)):
        if any(code == item.code and words in item.message for code, words in causes):
            return number
    return _REST
