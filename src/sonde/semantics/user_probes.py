"""Functions of user programs: ``uprobe`` and ``uretprobe``, by symbol, address, name in C++ or Rust, or source line.

::

    uprobe:path:function[+offset]     a symbol, with wildcards
    uprobe:path:address               a virtual address of the file
    uprobe:path:cpp:"ns::f(int)"      a C++ function; without parentheses all of its overloads; with wildcards
    uprobe:path:rust:"mod::f"         a Rust function; without ::<T> all of its instances; with wildcards
    uprobe:path:go:"http.(*conn).*"   a Go function, with or without its package's folder and its types ("main.Sum")
    uprobe:path@file.c:line[:column]  where the code of a source line begins (also path:file.c:line)

The path ``/proc/*/exe`` means the programs that run: all of them, that of -p, or that of -c.

A place outside any function, or in a file without functions, needs --unsafe: there is no telling where instructions
start.
"""

from __future__ import annotations

from ..base.wildcards import COLD, RUNNING, function_matcher
from ..kinds import KINDS
from ..language.ast import AttachPoint
from ..spec import Attach, UserDetail, UserPlace, UserPrototype, detail_of
from ..types import Pointer, Scalar, Type
from .finder import (
    ProbeFinder,
    describe_bad_offset,
    is_pattern,
    parse_number,
    pattern_matcher,
    split_offset,
)
from .go_names import is_go_function, spellings, without_types
from .indirect import with_their_code
from .mangled_names import LANGUAGES, functions_named, known_names, short_name
from .returns import choose_ways
from .world import Inlined, UserFunction, World

_LANGUAGES = (*LANGUAGES, "go")
_NO_FUNCTION = "{kind} should be attached to a function and/or address"
_FORMS = ["the path may be a library's name: uprobe:libc:malloc",
          "C++ names are written uprobe:path:cpp:\"ns::f(int)\", Rust's uprobe:path:rust:\"mod::f\", Go's "
          "uprobe:path:go:\"http.(*conn).serve\", source "
          "lines uprobe:path@file.c:12"]


def expand_user_function(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    """``KIND:path:function[+offset]`` and its kin, of the two kinds; with a process (-p) its program is the path that
    is left out."""
    kind = finder.kind
    of_process = len(parts) == 1 and parts[0] and finder.options.pid
    parts = ["", *parts] if of_process else _with_source(finder, parts)
    line = _source_line(parts)
    named = len(parts) == 3 and parts[1] in _LANGUAGES and parts[2]
    if not (line or named or len(parts) == 2 and parts[1]) or not parts[0] and not of_process:
        if len(parts) in (2, 3) and not parts[0]:
            return finder.error("probe-form", f"{kind} should have a target", point,
                                [f"write {kind}:path:function"])
        if len(parts) in (2, 3):
            return finder.error("probe-form", _NO_FUNCTION.format(kind=kind), point, _FORMS)
        return finder.report_part_count(point, "2 or 3", f"{kind}:path:function or {kind}:path:address", *_FORMS)
    if line and kind == "uretprobe":
        return finder.error("probe-form", "uretprobes are for functions, not for source lines", point)
    paths = _find_files(finder, parts[0])
    by_name = not line and not named
    if not paths and parts[0] == RUNNING:
        return finder.report_missing(point, wild=True)
    if not paths:
        awaited = by_name and _await_file(finder, point, parts)
        return _in_flat_file(finder, point, kind, parts) or awaited or report_no_file(
            finder, point, parts[0] or f"/proc/{finder.options.pid}/exe")
    attach: list[Attach] = []
    for path in paths:
        if line:
            attach += _attach_at_line(finder, point, path, *line)
        elif named:
            if parts[1] == "go":
                attach += _attach_go(finder, point, kind, path, parts[2], len(paths) == 1)
            else:
                attach += _attach_mangled(finder, point, kind, path, parts[1], parts[2], len(paths) == 1)
        else:
            attach += _attach_in_binary(finder, point, kind, path, parts[1], len(paths) == 1)
    if not attach and by_name and len(paths) > 1:
        return _await_file(finder, point, parts)
    attach = _move_entries(finder, choose_ways(finder, point, _note_builds(finder, attach)))
    if "results" in finder.use.names and finder.use.fields is None and attach and not attach[0].wild:
        _warn_of_unknown(finder, point, attach[0])
    if finder.options.is_followed and parts[0] and by_name:
        _note_written(attach, parts)
    return attach


def _find_files(finder: ProbeFinder, name: str) -> list[str]:
    """The files that a path or a library's name means. The program of -c counts as one that runs already."""
    is_running = name == RUNNING and bool(finder.options.command)
    return finder.world.find_binaries(finder.options.command) if is_running else finder.world.find_binaries(
        name, finder.options.pid)


def _note_builds(finder: ProbeFinder, attach: list[Attach]) -> list[Attach]:
    """Note which attach points are in files of 32 bits, and which in Go's."""
    paths = {item.target for item in attach}
    bits = {path: finder.world.user_bits(path) for path in paths}
    versions = {path: finder.world.go_version(path) if bits[path] == 64 else "" for path in paths}
    for item in attach:
        detail = detail_of(item, UserDetail)
        detail.bits = bits[item.target]
        detail.go = versions[item.target] if is_go_function(item.event) else ""
    return attach


def _move_entries(finder: ProbeFinder, attach: list[Attach]) -> list[Attach]:
    """Set the probes of functions behind their first instructions, where that is better. Functions of Go begin with a
    check of the stack, which is run twice if the stack has to grow, or the goroutine is preempted there. Others may
    begin with an instruction that marks what may be called by address; the kernel emulates a push behind it."""
    groups: dict[tuple[str, bool], list[Attach]] = {}
    for item in attach:
        detail = detail_of(item, UserDetail)
        if detail.entry and item.event and not item.by_instructions and not (detail.go and item.kind == "uretprobe"):
            groups.setdefault((item.target, bool(detail.go)), []).append(item)
    for (path, go), items in groups.items():
        distances = finder.world.entry_distances(path, [item.offset for item in items], go)
        for item, distance in zip(items, distances):
            detail_of(item, UserDetail).skipped = distance
            item.offset += distance
    return attach


def _await_file(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    """An attach point without a file, for those that followed processes may map; [] if none can be meant."""
    path, function = parts
    if not finder.options.is_followed or not path or "+" in function or parse_number(function) is not None:
        return []
    if finder.options.warnings:
        finder.diagnostics.warning("missing-probe", f"no file has {finder.kind}:{path}:{function} yet: it is set where "
                                   "a followed process maps one", point.span)
    return [Attach(finder.kind, f"{finder.kind}:{path}:{function}", "", function,
                   detail=UserDetail(True, image=path, function=function), wild=True)]


def _note_written(attach: list[Attach], parts: list[str]) -> None:
    """Functions by their names can be meant in files to come, too."""
    for item in attach:
        detail = detail_of(item, UserDetail)
        if detail.entry and item.event:
            detail.image, detail.function = parts[0], parts[1]


def unreadable_hints(finder: ProbeFinder, path: str) -> list[str]:
    """A hint that says why the file cannot be read; none if it can."""
    problem = finder.world.file_problem(path)
    return [problem] if problem else []


def report_no_file(finder: ProbeFinder, point: AttachPoint, name: str) -> list[Attach]:
    """There is no such program or library."""
    return finder.report_missing(point, ["give the whole path, or a library's name such as libc or libssl.so.3"],
                                 f"{finder.kind} target file '{name}' does not exist or is not executable")


def _with_source(finder: ProbeFinder, parts: list[str]) -> list[str]:
    """``path@file.c:12`` as ``path:file.c:12``; a file whose own name has an @ stays what it is."""
    path, _, source = parts[0].rpartition("@") if parts else ("", "", "")
    if path and source and len(parts) in (2, 3) and parse_number(parts[1]) \
            and not finder.world.find_binaries(parts[0], finder.options.pid):
        return [path, source, *parts[1:]]
    return parts


def _in_flat_file(finder: ProbeFinder, point: AttachPoint, kind: str, parts: list[str]) -> list[Attach]:
    """A code position in a file that is not an ELF file, as run-time compilers write; [] if that is not meant."""
    path, offset = parts[0], parse_number(parts[1]) if len(parts) == 2 else None
    if offset is None or not finder.options.unsafe or offset >= finder.world.file_size(path):
        return []
    _unknown_boundary(finder, point, f"{kind}:{path}")
    return [Attach(kind, f"{kind}:{path}:{parts[1]}", path, "", offset, pid=finder.options.own_process,
                   detail=UserDetail())]


def _unknown_boundary(finder: ProbeFinder, point: AttachPoint, what: str) -> bool:
    """Nobody can tell whether an instruction starts there: an error, or a warning with --unsafe (True)."""
    if finder.options.compile_only:
        return True
    message = f"Could not determine instruction boundary for {what} (binary appears stripped)."
    if finder.options.unsafe:
        finder.diagnostics.warning("no-boundary", f"{message} Misaligned probes can lead to tracee crashes!",
                                   point.span)
    else:
        finder.report_unattachable("no-boundary", message, point, [_FORCE])
    return finder.options.unsafe


_FORCE = "Use --unsafe to force attachment. WARNING: This option could lead to data corruption in the target process."


def _source_line(parts: list[str]) -> tuple[str, int, int] | None:
    """(file, line, column) of ``path:file.c:12[:3]``."""
    if len(parts) not in (3, 4) or parts[1] in _LANGUAGES or not parts[1].lstrip("@"):
        return None
    line, column = parse_number(parts[2]), parse_number(parts[3]) if len(parts) == 4 else 0
    return (parts[1].lstrip("@"), line, column) if line and column is not None else None


def _attach_at_line(finder: ProbeFinder, point: AttachPoint, path: str, source: str, line: int,
                    column: int) -> list[Attach]:
    shown = f"{source}:{line}" + (f":{column}" if column else "")
    lines = finder.world.source_lines(path, source, line, column)
    if lines.problem:
        return finder.report_missing(point, [lines.problem, *lines.hints],
                                     f"DWARF error: Unable to map '{shown}' to address")
    return [Attach("uprobe", f"uprobe:{path}:{shown}", path, address.function, address.offset,
                   pid=finder.options.own_process, detail=UserDetail(line=True)) for address in lines.places]


def _attach_in_binary(finder: ProbeFinder, point: AttachPoint, kind: str, path: str, text: str,
                      alone: bool) -> list[Attach]:
    address = parse_number(text)
    if address is not None:
        return _attach_at_address(finder, point, kind, path, text, address)
    split = split_offset(text)
    if split is None or (split[1] and kind == "uretprobe"):
        return finder.error("probe-form", describe_bad_offset(text) if split is None else "Offset not allowed", point)
    symbol, offset = split
    functions = finder.world.user_functions(path)
    matches = function_matcher(symbol)
    named = [f for f in functions if matches(f.name) or "[...]" in symbol and matches(without_types(f.name))]
    chosen = _once_per_offset(with_their_code(finder, point, path, named, is_pattern(symbol)))
    if not chosen:
        if not alone or named:
            return []
        if copies := None if is_pattern(symbol) else finder.world.inlined_copies(path, symbol):
            return _report_inlined(finder, point, kind, path, symbol, copies)
        return finder.report_missing(point, unreadable_hints(finder, path) or finder.did_you_mean(
            f"{kind}:{path}:", symbol, [f.name for f in functions]) or (
            [] if functions else ["the file has no symbols: is a debug package missing?"]), shown=f"{path}:{symbol}")
    if not chosen[0].size and not offset and not is_pattern(symbol) and not finder.options.unsafe:
        return finder.report_unattachable(
            "no-boundary", f"Could not determine boundary for {symbol} (symbol has size 0).", point, [_FORCE])
    if offset and offset >= max(chosen[0].size, 1) and not finder.options.compile_only:
        return finder.report_unattachable(
            "outside-function", f"Offset outside the function bounds ('{symbol}' size is {chosen[0].size})", point)
    if offset and not all(_between_instructions(finder, path, f, offset, point) for f in chosen):
        return []
    if not offset and not is_pattern(symbol):
        _warn_of_copies(finder, point, kind, path, symbol)
    shown = f"+{offset}" if offset else ""
    return _attach_functions(finder, point, kind, path, [(f, f"{f.name}{shown}") for f in chosen], offset,
                             is_pattern(symbol))


def _report_inlined(finder: ProbeFinder, point: AttachPoint, kind: str, path: str, name: str,
                    copies: Inlined) -> list[Attach]:
    """Report that a function exists only inlined, into which others, and how to see it there."""
    callers = copies.format_callers(finder.world.demangle(copies.callers, path))
    line = [f"uprobe:{path}:{copies.line} stops at each of its copies"] if copies.line else []
    whole = [f"probe what it was inlined into: {kind}:{path}:{copies.callers[0]}"] if copies.callers else []
    return finder.report_missing(point,
                                 [f"'{name}' has no code of its own: it is inlined into {callers}", *line, *whole])


def _warn_of_copies(finder: ProbeFinder, point: AttachPoint, kind: str, path: str, name: str) -> None:
    """Warn that a function with code of its own is also inlined into others, where the probe does not see it."""
    wanted = finder.options.warnings and not finder.options.compile_only
    copies = finder.world.inlined_copies(path, name, own=True) if wanted else None
    if copies is None or not copies.callers:
        return
    callers = copies.format_callers(finder.world.demangle(copies.callers, path))
    line = [f"uprobe:{path}:{copies.line} stops at each of its copies"] if copies.line and kind == "uprobe" else []
    finder.diagnostics.warning("inlined-copies", f"{kind}:{path}:{name} does not see the calls that are inlined into "
                               f"{callers}", point.span, line)


def _attach_at_address(finder: ProbeFinder, point: AttachPoint, kind: str, path: str, text: str,
                       address: int) -> list[Attach]:
    if address == 0:
        return finder.error("probe-form", _NO_FUNCTION.format(kind=kind), point)
    offset = finder.world.user_offset(path, address)
    if offset is None:
        return finder.report_missing(point, [f"address {text} is in no segment of the file"])
    inside = [f for f in finder.world.user_functions(path) if f.offset <= offset < f.offset + f.size]
    if not (_between_instructions(finder, path, inside[0], offset - inside[0].offset, point) if inside
            else _unknown_boundary(finder, point, f"{kind}:{path}:{address}")):
        return []
    entry = bool(inside) and inside[0].offset == offset
    if kind == "uretprobe" and inside and not entry and not (finder.options.unsafe or finder.options.compile_only):
        return finder.report_unattachable(
            "inside-function", f"{kind}:{path}:{text} is inside of {inside[0].name}: the return address is on the "
            "stack only where a function begins", point, [f"write {kind}:{path}:{inside[0].name}", _FORCE])
    return [Attach(kind, f"{kind}:{path}:{text}", path, "", offset, pid=finder.options.own_process,
                   detail=UserDetail(entry))]


def _attach_functions(finder: ProbeFinder, point: AttachPoint, kind: str, path: str,
                      chosen: list[tuple[UserFunction, str]],
                      offset: int, wild: bool) -> list[Attach]:
    """Attach points of (function, how it is shown). A pattern leaves out what has no ``args``, if they are used."""
    attach, without = [], []
    for function, shown in chosen:
        if wild and not offset and kind == "uprobe" and finder.use.uses_args:
            if finder.world.user_prototype(path, function.offset).problem:
                without.append(function.name)
                continue
        attach.append(Attach(kind, f"{kind}:{path}:{shown}", path, function.name, function.offset + offset,
                             pid=finder.options.own_process, detail=UserDetail(not offset, pattern=wild), wild=wild))
    if finder.use.fields is None and kind == "uprobe" and not wild and not offset:
        _warn_of_unknown(finder, point, attach[0])
    if without and not attach:
        problem = finder.world.user_prototype(path, chosen[0][0].offset)
        return finder.error("no-args", f"the args of {kind}:{path}: {problem.problem}", point, problem.hints)
    if without and finder.options.warnings:
        more = f" and {len(without) - 3} more" if len(without) > 3 else ""
        finder.diagnostics.warning("no-args", f"left out, since their args are not known: {', '.join(without[:3])}"
                                   f"{more}", point.span)
    return attach


def _warn_of_unknown(finder: ProbeFinder, point: AttachPoint, item: Attach) -> None:
    """Warn that ``args`` as a whole lacks the arguments that cannot be read."""
    prototype = finder.world.user_prototype(item.target, function_offset(item))
    returns = KINDS[item.kind].returns
    locations = prototype.result_locations if returns else prototype.places
    gone = [f"{name} {location.why}" for name, location in locations.items() if location.kind == "unknown"]
    if gone and finder.options.warnings:
        values = "results" if returns else "args"
        finder.diagnostics.warning("args-left-out", f"{values} of {item.name} is without some: {'; '.join(gone)}",
                                   point.span)


# --- C++ and Rust -----------------------------------------------------------------------------------------


def _attach_mangled(finder: ProbeFinder, point: AttachPoint, kind: str, path: str, language: str, text: str,
                    alone: bool) -> list[Attach]:
    """Functions by their names in source code."""
    functions = whole_functions(finder.world.user_functions(path), text)
    names = finder.world.demangle([f.name for f in functions], path)
    if names is None:
        return finder.error("not-supported", "C++ names need the C++ runtime library (libstdc++.so.6), which is not "
                            "installed here", point, ["install it (libstdc++6), or use the mangled name"])
    named = functions_named(functions, names, language, text)
    chosen = _once_per_offset(with_their_code(finder, point, path, named, is_pattern(text)))
    if not chosen:
        if not alone or named:
            return []
        if copies := None if is_pattern(text) else finder.world.inlined_copies(path, short_name(language, text)):
            return _report_inlined(finder, point, kind, path, text, copies)
        known = known_names(functions, names, language, text)
        near = unreadable_hints(finder, path) or finder.did_you_mean(f"{kind}:{path}:{language}:", text, known)
        return finder.report_missing(
            point, near or ([] if known else [f"the file has no {LANGUAGES[language]} symbols"]), wild=True)
    matching = [(f, f"{language}:{f.name}") for f in chosen]
    if not is_pattern(text):
        _warn_of_copies(finder, point, kind, path,
                        short_name(language, text) if len(matching) > 1 else matching[0][0].name)
    return _attach_functions(finder, point, kind, path, matching, 0, len(matching) > 1)


def _attach_go(finder: ProbeFinder, point: AttachPoint, kind: str, path: str, text: str, alone: bool) -> list[Attach]:
    if not alone and not finder.world.go_version(path):
        return []
    functions = finder.world.user_functions(path)
    matches = pattern_matcher(text)
    chosen = _once_per_offset([f for f in functions if any(map(matches, spellings(f.name)))])
    if not chosen:
        if not alone:
            return []
        near = unreadable_hints(finder, path) or finder.did_you_mean(f"{kind}:{path}:go:", text,
                                                                     [f.name for f in functions])
        return finder.report_missing(point, near or ([] if functions else ["the file has no symbols"]), wild=True)
    return _attach_functions(finder, point, kind, path, [(f, f.name) for f in chosen], 0,
                             len(chosen) > 1 or is_pattern(text))


# --- types ------------------------------------------------------------------------------------------------


def resolve_user_arguments(item: Attach, world: World) -> None:
    """Give an attach point its ``args`` and their locations, or the reason why it has none."""
    detail = detail_of(item, UserDetail)
    if detail.prototype is not None:
        return
    if not detail.entry:
        hint = "a function's name alone is such a place" if detail.line or not item.event else \
            f"uprobe:{item.target}:{item.event} has them; keep what you need in a map, by tid"
        detail.prototype = UserPrototype(
            problem="only a function's first instruction has them for sure; after it their registers and their stack "
            "may have other contents", hints=[hint])
        return
    prototype = world.user_prototype(item.target, function_offset(item))
    if prototype.problem:
        plain = "arg0, arg1 ... are the " + ("argument registers" if detail.bits == 64 else
                                             "words of 32 bits that the caller put on the stack")
        prototype = UserPrototype(problem=prototype.problem, hints=[*prototype.hints, plain])
    item.args, detail.prototype = prototype.args, prototype


def has_typed_result(item: Attach) -> bool:
    """Whether ``retval`` is of the type of the function's first result: of a Go function that is named by itself."""
    detail = item.detail
    return isinstance(detail, UserDetail) and bool(detail.go) and detail.entry and not detail.pattern and \
        KINDS[item.kind].returns


def resolve_user_values(item: Attach, world: World) -> None:
    """Give a return of a Go function its results and their places, or the reason why it has none."""
    detail = detail_of(item, UserDetail)
    if detail.prototype is not None:
        return
    if not detail.go or not detail.entry:
        detail.prototype = UserPrototype(problem="only Go's functions have several results, by their names",
                                         hints=["retval is the result of any other"])
        return
    detail.prototype = world.user_prototype(item.target, item.offset)
    item.args = detail.prototype.results


def function_offset(item: Attach) -> int:
    """Where in its file the function begins at whose entry a probe is."""
    return item.offset - (item.detail.skipped if isinstance(item.detail, UserDetail) else 0)


def user_places(item: Attach) -> dict[str, UserPlace]:
    """The known locations of a user function's arguments, or of its results, by name."""
    prototype = item.detail.prototype if isinstance(item.detail, UserDetail) else None
    return {} if prototype is None else prototype.result_locations if KINDS[item.kind].returns else prototype.places


def resolve_user_results(attach: list[Attach], world: World) -> None:
    """Give ``retval`` its type where a script follows it and the functions, given by name, agree."""
    returns = [item for item in attach if item.kind == "uretprobe"]
    if len(returns) != len(attach) or any(detail_of(item, UserDetail).pattern for item in returns):
        return
    types = [_result_type(item, world) for item in returns]
    if types and types[0] is not None and all(repr(type) == repr(types[0]) for type in types):
        for item in returns:
            detail_of(item, UserDetail).result = types[0]


def _result_type(item: Attach, world: World) -> Type | None:
    """The type of a result that fits the register; others, and those of unknown functions, stay plain numbers."""
    if not detail_of(item, UserDetail).entry:
        return None
    result = world.user_prototype(item.target, function_offset(item)).result
    return result if isinstance(result, (Scalar, Pointer)) else None


# --- places -----------------------------------------------------------------------------------------------


def _between_instructions(finder: ProbeFinder, path: str, function: UserFunction, offset: int,
                          point: AttachPoint) -> bool:
    """Whether an instruction starts at the offset. If not, it is reported: a breakpoint there would break the traced
    program."""
    if not offset or finder.options.unsafe or finder.options.compile_only:
        return True
    if finder.world.user_bits(path) != 64:
        finder.report_unattachable("mid-instruction", f"{path} is a 32-bit program: there is no telling where its "
                                   "instructions start", point, ["its functions begin at one: leave the offset out",
                                                                 _FORCE])
        return False
    if finder.world.is_instruction_start(path, function.offset, offset):
        return True
    finder.report_unattachable(
        "mid-instruction", f"Could not add uprobe into middle of instruction: {path}:{function.name}+{offset}", point,
        [f"objdump -d {path} shows where instructions start; --unsafe attaches all the same"])
    return False


def whole_functions(functions: list[UserFunction], text: str) -> list[UserFunction]:
    """Without the parts that a compiler moved out of functions: see :func:`~sonde.base.wildcards.function_matcher`."""
    return functions if COLD in text else [function for function in functions if COLD not in function.name]


def _once_per_offset(functions: list[UserFunction]) -> list[UserFunction]:
    """Aliases of one function are probed once."""
    seen: dict[int, UserFunction] = {}
    for function in functions:
        seen.setdefault(function.offset, function)
    return list(seen.values())
