"""Indirect functions (IFUNC): what is probed is not their symbol, which is that of a resolver, but the code that it
chose."""

from __future__ import annotations

from ..language.ast import AttachPoint
from ..spec import Implementation, UserFunction
from .finder import ProbeFinder


def with_their_code(finder: ProbeFinder, point: AttachPoint, path: str, chosen: list[UserFunction],
                    wild: bool) -> list[UserFunction]:
    """The functions, each indirect one with the offset and size of its code (or of all that it may be), under its own
    name. Those whose code cannot be known, or probed, are left out: with an error, of a pattern with a warning."""
    known = finder.world.implementations(path, [f.name for f in chosen], finder.options.pid)
    if not known:
        return chosen
    sizes = {f.offset: f.size for f in finder.world.user_functions(path)}
    functions: list[UserFunction] = []
    missing: dict[str, Implementation] = {}
    for function in chosen:
        code = known.get(function.offset)
        if code is None or not code.offsets:
            functions += [function] if code is None else []
            missing |= {function.name: code} if code is not None else {}
            continue
        functions += [UserFunction(function.name, function.address - function.offset + offset, offset,
                                   sizes.get(offset) or 1) for offset in code.offsets]
        if code.others and not wild and finder.options.warnings:
            _warn_of_others(finder, point, path, function.name, code.others)
    if missing and wild and functions:
        _warn_of_missing(finder, point, missing)
    elif missing and not functions:
        name, code = next(iter(missing.items()))
        finder.report_unattachable("indirect-function", f"{finder.kind}:{path}:{name} cannot be probed: "
                                   f"{code.problem}", point, code.hints)
    return functions


def _warn_of_others(finder: ProbeFinder, point: AttachPoint, path: str, name: str, others: list[str]) -> None:
    finder.diagnostics.warning("shared-code", f"{finder.kind}:{path}:{name} sees the calls of {' and '.join(others)} "
                               "too: on this machine they have the same code", point.span)


def _warn_of_missing(finder: ProbeFinder, point: AttachPoint, missing: dict[str, Implementation]) -> None:
    if finder.options.warnings:
        names = list(missing)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        finder.diagnostics.warning("indirect-function", f"left out: {', '.join(names[:3])}{more}", point.span,
                                   [f"{missing[names[0]].problem}"])
