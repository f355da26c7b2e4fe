"""Kernel functions: finding them, and choosing between kprobes and fentry where a kernel has only one of them.

A kprobe stops at an instruction and sees registers; fentry is called by the function and sees its arguments, typed,
where the kernel's type information has the function. ``argN``, ``retval`` and arguments that fit a register are the
same either way, so on a kernel that lacks one of the two, the other serves the script. (At a return a kprobe at the
entry has kept them: compiler/lower/probes/entry_arguments.py.)
"""

from __future__ import annotations

from ..arch import ARCHES
from ..base import regex_cache
from ..base.wildcards import split_taken
from ..kinds import KINDS
from ..language.ast import AttachPoint
from ..layouts.uapi import is_left_out
from ..spec import Attach, KernelDetail, KernelFunction
from ..types import Scalar, Struct
from .bpf_probes import expand_bpf_function
from .finder import (
    ProbeFinder,
    WrittenPoint,
    describe_bad_offset,
    is_pattern,
    parse_number,
    pattern_matcher,
    split_offset,
)
from .nodes import Use
from .similar import similar_probes
from .stand_ins import listed_functions, stand_ins, suits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NEEDS = {"kprobes": "CONFIG_KPROBE_EVENTS",
         "fentry": "CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_JIT and CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS"}
MANY = 50  # functions of a clause, which are better attached at once
NEED_TYPED = {"path", "socket_cookie"}  # take arguments whose types the verifier knows, as those of one function
FEW = 10   # functions of a clause, whose detaching one by one takes no time worth speaking of


def expand_kernel_function(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    """``KIND:[module:]function[+offset]``, of the four kinds."""
    kind = finder.kind
    if KINDS[kind].typed and parts[:1] == ["bpf"]:
        return expand_bpf_function(finder, point, kind, parts[1:])
    if not 1 <= len(parts) <= 2 or not parts[-1]:
        return _report_form(finder, point, kind, parts)
    module, text = parts if len(parts) == 2 else ("", parts[0])
    split = split_offset(text)
    if split is None:
        return finder.error("probe-form", describe_bad_offset(text), point)
    if split[1] and kind != "kprobe":
        hints = ["only kprobes can be set into the middle of a function"]
        return finder.report_missing(point, hints) if KINDS[kind].typed else \
            finder.error("probe-form", "Offset not allowed", point, hints)
    way = _serving_kind(finder, kind)
    if not way:
        return _report_no_kind(finder, point, kind, parts)
    why = _find_obstacle(kind, way, text, finder.use)
    if why:
        return finder.error("not-supported", f"{kind}:{':'.join(parts)}: this kernel ({finder.world.release}) has "
                            f"no {_name_feature(finder, kind)}, and {way} cannot serve it: {why}", point)
    if parse_number(text) is not None:
        return _expand_address(finder, point, kind, way, text)
    if "(" in text:
        return _expand_takers(finder, point, way, module, text)
    return _expand_functions(finder, point, kind, way, module, *split)


def _expand_takers(finder: ProbeFinder, point: AttachPoint, way: str, module: str, text: str) -> list[Attach]:
    """``KIND:[module:]function(argN=STRUCT)``: of the functions of that name or pattern those whose first parameter
    ``struct STRUCT *`` is argN."""
    kind = finder.kind
    try:
        function, taken = split_taken(text)
    except ValueError:
        return finder.error("probe-form", f"{kind}:{text}: what is in brackets says nothing of functions", point,
                            [f"{kind}:*(arg0=sk_buff) are the functions whose first argument is a struct sk_buff *"])
    position, struct = taken or (0, "")
    in_module, in_function = pattern_matcher(module or "*"), pattern_matcher(function)
    forbidden = finder.world.forbidden_functions()
    names = [(m, f) for (m, f), at in finder.world.functions_taking(struct).items() if at == position
             and in_function(f) and in_module(m) and f not in forbidden and not is_left_out(f)]
    attach = [_make_attach(finder, kind, way, m, f, 0, bool(module), True) for m, f in names]
    return [a for a in attach if a] or finder.report_missing(point, wild=True)


def _report_form(finder: ProbeFinder, point: AttachPoint, kind: str, parts: list[str]) -> list[Attach]:
    """The attach point is not ``kind:[module:]function``."""
    if KINDS[kind].typed and len(parts) == 3:
        return finder.error("probe-form", "Only the 'bpf' variant of this probe supports 4 arguments", point,
                            [f"write {kind}:[module:]function or {kind}:bpf:id:function"])
    if 1 <= len(parts) <= 2:
        wrong = "fentry/fexit should specify a function" if KINDS[kind].typed else \
            "kprobes should be attached to a function or an address"
        return finder.error("probe-form", wrong, point,
                            [f"write {kind}:[module:]function"])
    return finder.report_part_count(point, "1 or 3" if KINDS[kind].typed else "1 or 2", f"{kind}:[module:]function")


def _name_feature(finder: ProbeFinder, kind: str) -> str:
    """The feature that a kind needs, and if this kernel is too old for it, the first that is not."""
    feature, world = KINDS[kind].feature, finder.world
    first = ARCHES[world.arch].fentry_since if feature == "fentry" else (0, 0)
    known = regex_cache.match(r"(\d+)\.(\d+)", world.release)
    old = known is not None and (int(known[1]), int(known[2])) < first
    return f"{feature} (Linux {first[0]}.{first[1]})" if old else feature


def _serving_kind(finder: ProbeFinder, kind: str) -> str:
    """The kind by which this kernel serves ``kind``; "" if it can probe no functions."""
    world = finder.world
    ways = (kind, KINDS[kind].twin)
    return next((way for way in ways if world.has_feature(KINDS[way].feature)), "")


def _report_no_kind(finder: ProbeFinder, point: AttachPoint, kind: str, parts: list[str]) -> list[Attach]:
    function = parts[-1].partition("+")[0]
    return finder.report_missing(point, [f"this kernel ({finder.world.release}) has no {_name_feature(finder, kind)}",
                                         *similar_probes(finder, function, KINDS[kind].returns),
                                         f"a kernel has them that is built with {NEEDS[KINDS[kind].feature]}"])


def _find_obstacle(kind: str, way: str, text: str, use: Use) -> str:
    """What the clause needs that ``way`` does not offer."""
    if way == kind or not KINDS[way].typed:
        return ""
    if "+" in text or parse_number(text) is not None:
        return "it sees whole functions only, no offsets or addresses"
    return next((f"{name} does not work there" for name in ("reg()", "ctx", "override()")
                 if name.rstrip("()") in use.names), "")


def _expand_address(finder: ProbeFinder, point: AttachPoint, kind: str, way: str, text: str) -> list[Attach]:
    if kind != "kprobe":
        return finder.error("probe-form", f"{kind} probes need a function's name, not an address", point)
    if not finder.options.unsafe:
        return finder.error("unsafe", "Probing by address requires --unsafe", point)
    return [Attach(kind, f"kprobe:{text}", "", "", parse_number(text) or 0, pid=finder.options.lone_process)]


def _expand_functions(finder: ProbeFinder, point: AttachPoint, kind: str, way: str, module: str, function: str,
                      offset: int) -> list[Attach]:
    wild = is_pattern(function) or is_pattern(module)
    if not wild and not offset:
        instead = _by_stand_ins(finder, point, kind, way, module, function)
        if instead is not None:
            return instead
    names = _functions_by_pattern(finder, module, function, way) if wild else \
        _functions_by_name(finder, module, function, way, bool(offset))
    attach = [a for a in [_make_attach(finder, kind, way, m, f, offset, bool(module), wild) for m, f in names] if a]
    if attach:
        return attach
    if names and not wild:
        return _report_untyped(finder, point, kind, names[0][1])
    return _report_not_found(finder, point, kind, module, function)


def _by_stand_ins(finder: ProbeFinder, point: AttachPoint, kind: str, way: str, module: str,
                  function: str) -> list[Attach] | None:
    """Attach points in functions that do the work of one that has no code under its own name. None if it has code, or
    nothing else does its work except what the script already probes. Reported once for each function."""
    world, written = finder.world, finder.written
    if written is None or world.kernel_function(function, module) is not None and not world.is_changed(function) \
            or world.is_function_traceable(function) or world.kernel_symbol(function) is not None:
        return None
    known = [s for s in stand_ins(world, function, module)
             if not any(w.names_function(s.name) for w in written)]
    ways = [way if s.renamed or not KINDS[kind].typed else KINDS[kind].twin for s in known]
    usable = [(s, a) for s, by in zip(known, ways)
              if suits(s, finder.use) and world.has_feature(KINDS[by].feature)
              and not _find_obstacle(kind, by, s.name, finder.use)
              and (a := _make_attach(finder, kind, by, s.module, s.name, 0, bool(module), False, s.typed_as))]
    if known and not usable:
        return _report_not_found(finder, point, kind, module, function,
                                 [f"{s.name} has its work in this kernel, with other arguments" for s in known
                                  if s.renamed])
    if usable and function not in finder.stood_in and finder.options.warnings:
        finder.stood_in.add(function)
        finder.diagnostics.warning("stand-in", f"This kernel has no function {function} of that name. Probing "
                                   f"{' and '.join([s.name for s, _ in usable])}: {usable[0][0].why}.", point.span)
    return [a for _, a in usable] or None


def choose_kinds(finder: ProbeFinder, attach: list[Attach]) -> None:
    """The better way for the kernel functions of one clause, where there are two.

    Many fentry probes share one program and one link where the kernel has that (tracing_multi). Elsewhere they become
    kprobes: one link attaches thousands of those at once, while the kernel attaches and, with a pause for each,
    detaches fentry one by one (1,000: minutes). fexit whose arguments are read stays: it would take two probes for each
    function. A few kretprobes become fexit: the kernel keeps a record for each call that is under way, and but ten or
    two per CPU of them (register_kretprobe() in kernel/kprobes.c, fprobe_init_rethook() in kernel/trace/fprobe.c);
    calls beyond are missed. fexit has no such limit. A few kprobes become fentry, which has no exception to take and no
    registers to save, where the clause sees the same by it; with tracing_multi many kprobes and kretprobes do. The
    kernel runs a function's kprobes before its fentry, and its fexit before its kretprobes: all clauses of a function
    go one way.
    """
    world = finder.world
    if not any(KINDS[a.kind].twin for a in attach) \
            or not (world.has_feature("kprobes") and world.has_feature("fentry")):
        return
    typed = [a for a in attach if KINDS[a.kind].typed and not a.way and not a.target.startswith("bpf:")]
    shares = world.has_feature("tracing_multi") and not NEED_TYPED & finder.use.names
    if len(typed) > FEW and shares:
        for item in typed:
            item.reason = "many"
    elif len(typed) > MANY and world.has_feature("kprobe_multi"):
        for item in typed:
            if not (KINDS[item.kind].returns and finder.use.uses_args or _is_named_otherwise(finder, item)):
                _serve_by_other_kind(finder, item, "many")
    for kind, reason in (("kretprobe", "exact"), ("kprobe", "cheap")):
        same_kind = [a for a in attach if a.kind == kind and not a.way]
        many = len(same_kind) > FEW
        for item in same_kind if shares or not many else ():
            if _keeps_meaning(finder, item, many):
                _serve_by_other_kind(finder, item, "many" if many else reason)


def _is_named_otherwise(finder: ProbeFinder, item: Attach) -> bool:
    """Whether clauses that may be served by another kind probe the function too: the script's order would be lost."""
    return len({(w.text, w.points) for w in finder.written or ()
                if w.kind == item.kind and w.names_function(item.event)}) > 1


def _keeps_meaning(finder: ProbeFinder, item: Attach, many: bool) -> bool:
    """Whether a kprobe or kretprobe would see the same by fentry or fexit, in the script's order of clauses, and the
    kernel can attach it."""
    world, kind = finder.world, KINDS[item.kind]
    if not item.event or item.offset or not world.is_function_traceable(item.event):
        return False
    known = world.kernel_function(item.event, "" if item.target == "vmlinux" else item.target)
    registers = len(ARCHES[world.arch].arguments)
    if known is None or known.args.bytes > 8 * registers or not world.takes_typed_program(known, kind.returns, many):
        return False
    here = [w for w in finder.written or () if w.kind in (item.kind, kind.twin)
            and (w.names_function(item.event) or parse_number(w.text) is not None)]
    if any(w.kind != item.kind for w in here) \
            or len(here) > 1 and any(w.points > FEW or is_pattern(w.text) for w in here):
        return False
    return not any(_find_obstacle(item.kind, kind.twin, w.text, w.use) or _sees_other_words(known, w.use)
                   for w in here or [WrittenPoint(item.kind, item.event, finder.use, 1)])


def _sees_other_words(known: KernelFunction, use: Use) -> bool:
    """Whether the clause uses what differs: kernel stacks, which would begin in the tracer, and arguments that do not
    fit one register."""
    if "kstack" in use.names:
        return True
    numbers = [int(name[3:]) for name in use.names if regex_cache.fullmatch(r"arg\d+", name)]
    fields = known.args.fields
    return any(number >= len(fields) or fields[number].offset != 8 * number or fields[number].type.size != 8
               or not isinstance(fields[number].type, Scalar) for number in numbers)


def _serve_by_other_kind(finder: ProbeFinder, item: Attach, reason: str) -> None:
    """Have an attach point served by the other kind, if that can do it; ``reason`` is for -v."""
    way = KINDS[item.kind].twin
    if _find_obstacle(item.kind, way, item.event, finder.use):
        return
    other = _make_attach(finder, item.kind, way, item.target or "vmlinux", item.event, 0, False, False)
    if other is not None:
        item.detail, item.way, item.reason = item.detail or other.detail, way, reason


def _functions_by_name(finder: ProbeFinder, module: str, function: str, way: str,
                       inside: bool) -> list[tuple[str, str]]:
    """One function by its name. Type information is asked first, because it answers at once. Where the kernel lists the
    functions that it can trace, the start of any other cannot be probed."""
    world = finder.world
    known = world.kernel_function(function, module)
    if known is not None and (inside or world.is_function_traceable(function)):
        return [(known.module, function)]
    every = listed_functions(world)
    if known is not None and not every:
        return [(known.module, function)]
    listed = [(m, f) for m, f in every if f == function and module in ("", m)]
    if listed:
        return listed[:1]
    address = world.kernel_symbol(function) if every and not inside else None
    aliases = [(m, f) for m, f in _system_call_names(function, every) if world.kernel_symbol(f) == address] \
        if address is not None else []
    if aliases:
        return [(known.module, function)] if known is not None and KINDS[way].typed else aliases[:1]
    elsewhere = KINDS[way].typed or every and not inside or world.kernel_symbol(function) is None
    return [] if elsewhere else [(module, function)]


def _system_call_names(function: str, every: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The other functions of a system call: ``__x64_sys_getppid`` and ``__do_sys_getppid`` for ``sys_getppid``. Those
    of one address are one function (arch/x86/include/asm/syscall_wrapper.h), and ftrace lists one of them."""
    call = regex_cache.fullmatch(r"(?:__[a-z0-9]+_)?(sys_[a-z0-9_]+)", function)
    if call is None:
        return []
    return [(m, f) for m, f in every if f != function and f.endswith(call[1])
            and regex_cache.fullmatch(r"__[a-z0-9]+_", f[:-len(call[1])] or "__a_")]


def _functions_by_pattern(finder: ProbeFinder, module: str, function: str, way: str) -> list[tuple[str, str]]:
    in_module, in_function = pattern_matcher(module or "*"), pattern_matcher(function)
    every = finder.world.kernel_functions()
    if not every and KINDS[way].typed:
        every = finder.world.function_names()
    matching = dict.fromkeys([(m, f) for m, f in every if in_function(f) and in_module(m)])
    if not is_pattern(function):
        return list(matching)
    forbidden = finder.world.forbidden_functions()
    return [(m, f) for m, f in matching if f not in forbidden and not is_left_out(f)]


def _make_attach(finder: ProbeFinder, kind: str, way: str, module: str, function: str, offset: int, named: bool,
                 wild: bool, typed_as: str = "") -> Attach | None:
    """None if the function has no prototype and needs one, or has more arguments than it can show. ``typed_as``: the
    name under which type information has it, where that is another."""
    known = None
    if KINDS[way].typed or KINDS[kind].typed:
        known = finder.world.kernel_function(typed_as or function, "" if module == "vmlinux" else module)
    if KINDS[way].typed and (known is None or _is_beyond_fentry(known)) \
            or KINDS[kind].typed and _needs_types(finder, known, way):
        return None
    detail = None if known is None else KernelDetail(known.id, known.module, known.result,
                                                     typed_as if typed_as != function else "")
    shown = f"+{offset}" if offset else ""
    if KINDS[kind].typed:
        target, name = module or "vmlinux", f"{kind}:{module or 'vmlinux'}:{function}"
    else:
        target, name = module if named else "", f"{kind}:{f'{module}:' if named else ''}{function}{shown}"
    return Attach(kind, name, target, function, offset, pid=finder.options.lone_process, detail=detail,
                  way=way if way != kind else "", wild=wild)


def _is_beyond_fentry(known: KernelFunction) -> bool:
    """Whether btf_distill_func_proto() in kernel/bpf/btf.c refuses it."""
    return known.variadic or isinstance(known.result, Struct)


def _needs_types(finder: ProbeFinder, known: KernelFunction | None, way: str) -> bool:
    """Whether the clause needs typed arguments that ``way`` cannot give: there is no prototype, or one fits no
    register."""
    if not finder.use.uses_args:
        return False
    return known is None or not KINDS[way].typed and not all(isinstance(f.type, Scalar) for f in known.args.fields)


def _report_untyped(finder: ProbeFinder, point: AttachPoint, kind: str, function: str) -> list[Attach]:
    known = finder.world.kernel_function(function)
    why = "it takes a variable number of arguments" if known is not None and known.variadic else \
        "it returns a struct by value" if known is not None and isinstance(known.result, Struct) else \
        "an argument of it fits no register" if known is not None else "the kernel's type information does not have it"
    hints = [f"use {KINDS[kind].twin}:{function}"] if KINDS[kind].typed and finder.world.has_feature("kprobes") else []
    return finder.report_missing(point, [why, *hints])


def _report_not_found(finder: ProbeFinder, point: AttachPoint, kind: str, module: str, function: str,
                      renamed: Sequence[str] = ()) -> list[Attach]:
    every = finder.world.kernel_functions() or finder.world.function_names()
    if is_pattern(f"{module}:{function}"):
        return finder.report_missing(point, similar_probes(finder, function, KINDS[kind].returns))
    if not KINDS[kind].typed and module and all(m != module for m, _ in every):
        shown = ":".join([kind, *point.parts[1:]])
        finder.error("no-module", f"specified module {module} in probe {shown} is not loaded.", point)
    if not finder.heard or finder.config.missing_probes == "ignore":
        return []
    if not KINDS[kind].typed and all(f != function for _, f in every):
        finder.untraceable.append((function, point.span))
        if finder.config.missing_probes == "warn":
            finder.warn_of_untraceable()
    return finder.report_missing(point, _hints(finder, kind, module, function, every, renamed))


def _hints(finder: ProbeFinder, kind: str, module: str, function: str, every: list[tuple[str, str]],
           renamed: Sequence[str]) -> list[str]:
    """Why there is no such function, and what may be meant."""
    elsewhere = [f"it is in {m}: {kind}:{m}:{function}" for m, f in every if f == function][:1] if module else []
    why, hints = finder.world.function_obstacle(function, module, kind) if not elsewhere else ("no such function", [])
    calls = [f"the system call's function is {kind}:{f}" for _, f in _system_call_names(function, every)[:1]]
    near = calls or finder.did_you_mean(f"{kind}:", function, [f for _, f in every])
    if not near and not elsewhere:
        near = similar_probes(finder, function, KINDS[kind].returns)
    return [*([] if why == "no such function" else [why]), *elsewhere, *renamed, *near, *hints]
