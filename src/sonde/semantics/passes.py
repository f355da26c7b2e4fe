"""In which order findings are shown: by the passes in which bpftrace would come upon them, then as they were found.

bpftrace ends with the first pass that finds an error, and people search for what is said first. Which pass finds what
was seen by giving it pairs of faults.
"""

from __future__ import annotations

from ..source import Diagnostic

_DECLARATIONS = (("type-mismatch", "trying to"),)  # of ``let $x: type = value``

# Each pass has (code, words that are in the message) of what it finds.
_PASSES: tuple[tuple[tuple[str, str], ...], ...] = (
    (("unknown-config", ""), ("config-value", ""), ("config-environment", "")),
    (("unknown-probe", ""), ("probe-form", ""), ("missing-probe", "target file"),
     ("no-module", "")),
    (("outside-loop", ""),),
    (("arity", "Call to "), ("bad-argument", "Call to "), ("bad-argument", "Mismatched arg."), ("macro-arguments", ""),
     ("macro-depth", ""), ("macro-hygiene", "")),
    (("builtin-probe", "The arg"), ("builtin-probe", "The retval")),
    (("missing-probe", ""),),
    (("division-by-zero", ""), ("value-too-large", "fold")),
    (("builtin-probe", ""),),
    (("aggregate-value", "must be assigned directly"),),
    (("bad-argument", "argument to 'getopt'"), ("other-default", "")),
    (("undefined-variable", "Undefined"), ("redeclared", "")),
    (("arity", " requires "), ("arity", " takes up to "), ("unsafe", ""),
     ("bad-unroll", ""), ("not-constant", "unroll"), ("function-probe", ""),
     ("bad-argument", "expects a map"), ("bad-argument", "tseries()"), ("bad-argument", "lhist()")),
    (("unknown-function", ""), ("unknown-type", "Cannot resolve"), ("unknown-field", ""), ("not-a-struct", ""),
     ("type-mismatch", "trying to"), ("bad-operand", "operator can not"), ("not-an-array", ""),
     ("aggregate-value", "assigned to a scratch"), ("key-mismatch", ""), ("map-key", ""), ("bad-range", ""),
     ("bad-argument", "stack mode"), ("bad-argument", "only supports integer arguments"), ("bad-argument", "pton()")),
    (("type-mismatch", "Branches must"),),
    _DECLARATIONS,
    (("not-constant", ""),),
)
_REST = len(_PASSES)
_LAST = (("unknown-symbol", ""),)


def pass_of(item: Diagnostic) -> int:
    """The number of the pass that comes upon a finding."""
    if item.code == "type-mismatch" and item.span is not None and item.span.text.startswith("let "):
        return _PASSES.index(_DECLARATIONS)
    for number, found in enumerate((*_PASSES, (), _LAST)):
        if any(code == item.code and words in item.message for code, words in found):
            return number
    return _REST
