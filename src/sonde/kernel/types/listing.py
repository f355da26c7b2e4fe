"""The lines of ``sonde -l [PATTERN]`` and ``-lv``: probes of this machine, and definitions of kernel types."""

from __future__ import annotations

import os

from ...base.record import Record
from ...base.wildcards import COLD, bpf_matcher, pattern_matcher, split_taken
from ...btf import codec, ctext
from ...btf.query import Btf
from ...kinds import KINDS as ALL_KINDS
from ...kinds import find_kind
from ...layouts import uapi
from ..notices import show_notice
from . import tracefs
from .world import LiveWorld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

Candidates: TypeAlias = "Callable[[LiveWorld, str, int], list[str]]"
Details: TypeAlias = "Callable[[LiveWorld, str], list[str]]"


class ListedKind(Record):
    """A probe kind.

    ``candidates(world, target, pid)`` are all probes without the leading ``kind:``, where ``target`` is the pattern's
    middle part ("" if it has none); ``details`` are the arguments of one. ``parts`` is how many parts the rest of the
    pattern needs: a shorter one gets ``*`` in front. ``usual`` kinds are listed when no kind is named.
    """

    name: str
    parts: int
    usual: bool
    candidates: Candidates
    details: Details | None = None

    @property
    def kernel_functions(self) -> bool:
        """The candidates are functions of the kernel."""
        return ALL_KINDS[self.name].function and not self.files

    @property
    def files(self) -> bool:
        """The target selects files, and the candidates are theirs: only names are left to match."""
        return ALL_KINDS[self.name].user


def listing_lines(world: LiveWorld, pattern: str = "", verbose: bool = False, pid: int = 0) -> Iterator[str]:
    """The lines for a search pattern; with ``verbose`` the arguments of each probe follow it, indented.

    A pattern is ``kind:target:name`` with wildcards, several of them separated by commas, or ``struct NAME``
    (``union``, ``enum``). One without colons is a name of any kind. MachineError if that cannot be found out.
    """
    for single in pattern.split(","):
        single = single.strip()
        if single.split(" ")[0] in _TAGS and " " in single:
            yield from _list_types(world, single, verbose)
        else:
            yield from _list_probes(world, single, verbose, pid)


def _list_probes(world: LiveWorld, pattern: str, verbose: bool, pid: int) -> Iterator[str]:
    head, colon, rest = pattern.partition(":")
    if pattern and not colon and find_kind(pattern) is None:
        for kind in KINDS:
            if kind.usual or pid:
                yield from _list_matching_probes(world, kind, f"{kind.name}:{_complete_pattern(kind, pattern)}", "",
                                                 verbose, pid)
        return
    chosen = [kind for kind in KINDS if pattern_matcher(head)(kind.name) or head in ALL_KINDS[kind.name].aliases]
    if "*" in head or not head:  # kinds that need a target are listed only when they are named
        of_file = "/" in rest.rpartition(":")[0]
        chosen = [kind for kind in chosen or KINDS if kind.usual or pid or of_file and kind.files
                  and not ALL_KINDS[kind.name].returns]
    for kind in chosen:
        search = f"{kind.name}:{_complete_pattern(kind, rest) if rest else '*'}"
        target, _, name = rest.rpartition(":")
        if kind.files:
            if not target:
                target, name = name, "*"
            elif kind.parts == 3 and ":" in target:  # path:provider:probe
                target, _, provider = target.rpartition(":")
                name = f"{provider or '*'}:{name or '*'}"
            search = f"{kind.name}:*:{name or '*'}"
        yield from _list_matching_probes(world, kind, search, target, verbose, pid)


def _complete_pattern(kind: ListedKind, rest: str) -> str:
    if ALL_KINDS[kind.name].typed and rest.startswith("bpf:") and rest.count(":") <= 2:
        return f"bpf:*:{rest.rpartition(':')[2]}"  # whose programs, candidates() knows
    return rest if kind.parts <= rest.count(":") + 1 else f"*:{rest}"


def _list_matching_probes(world: LiveWorld, kind: ListedKind, search: str, target: str, verbose: bool,
                          pid: int) -> Iterator[str]:
    takers: set[str] | None = None
    if kind.kernel_functions and "(" in search:
        search, takers = _split_takers(world, search)
    match = pattern_matcher(search)
    pattern = kind.kernel_functions and "*" in search.rpartition(":")[2]
    forbidden = world.forbidden_functions() if pattern else ()
    whole = ALL_KINDS[kind.name].user and COLD not in search.rpartition(":")[2]  # see function_matcher()
    for name in kind.candidates(world, target, pid):
        line = f"{kind.name}:{name}"
        if not match(line) or "\n" in line:  # a symbol's name may contain anything, but must not look like two lines
            continue
        function = name.rpartition(":")[2]
        if pattern and (function in forbidden or uapi.is_left_out(function)) or whole and COLD in function \
                or takers is not None and name.removeprefix("vmlinux:") not in takers:
            continue
        yield line
        if verbose and kind.details:
            yield from [f"    {detail}" for detail in kind.details(world, name)]


def _split_takers(world: LiveWorld, search: str) -> tuple[str, set[str]]:
    """``kind:function(argN=STRUCT)``: the pattern, and the functions meant by the brackets, with and without their
    modules."""
    try:
        search, taken = split_taken(search)
    except ValueError:
        return search, set()
    functions = world.functions_taking(taken[1]).items() if taken else ()
    return search, {text for (module, name), position in functions if taken and position == taken[0]
                    for text in (name, f"{module}:{name}")}


# ---- candidates and details by kind

def _list_tracepoints(world: LiveWorld, target: str, pid: int) -> list[str]:
    return sorted([f"{category}:{event}" for category, event in world.tracepoints()])


def _tracepoint_fields(world: LiveWorld, name: str) -> list[str]:
    category, _, event = name.partition(":")
    text = tracefs.read_format(world.tracefs, category, event)
    return [field.declaration for field in tracefs.parse_fields(text or "")]


def _list_raw_tracepoints(world: LiveWorld, target: str, pid: int) -> list[str]:
    return sorted([f"{module}:{event}" for module, event in world.raw_tracepoints()])


def _raw_tracepoint_params(world: LiveWorld, name: str) -> list[str]:
    params = world.raw_tracepoint_params(name.rpartition(":")[2])
    return _format_declarations(*params) if params else []


def _list_kernel_functions(world: LiveWorld, target: str, pid: int) -> list[str]:
    """Kernel functions, with their modules where the pattern asks for one."""
    return sorted({f"{module}:{name}" if target else name for module, name in world.kernel_functions()})


def _function_params(world: LiveWorld, name: str) -> list[str]:
    params = world.function_params(name.rpartition(":")[2])
    return _format_declarations(params[0], params[1]) if params else []


def _function_registers(world: LiveWorld, name: str) -> list[str]:
    """The same without names, which kprobes do not have."""
    params = world.function_params(name.rpartition(":")[2])
    return _format_declarations(params[0], [("", kind) for _, kind in params[1]]) if params else []


def _list_typed_functions(world: LiveWorld, target: str, pid: int) -> list[str]:
    """Functions with a prototype, limited to the traceable ones where the kernel says which."""
    of_bpf = target.partition(":")[0] == "bpf"
    if not world.has_feature("fentry") and (of_bpf or not world.has_feature("kprobes")):  # which serve it otherwise
        return []
    if of_bpf:
        takes = bpf_matcher(target.partition(":")[2] or "*")
        return [f"bpf:{each.program}:{each.name}" for each in world.bpf_functions()
                if not each.obstacle and takes(each.program, each.type)]
    traceable = set(world.kernel_functions())
    return sorted({f"{module}:{name}" for module, name in world.function_names()
                   if not traceable or (module, name) in traceable})


def _typed_params(world: LiveWorld, name: str) -> list[str]:
    if name.startswith("bpf:"):
        module, _, function = name.rpartition(":")
        known = world.kernel_function(function, module)
        return [f"{f.type} {f.name}" for f in known.args.fields] if known is not None else []
    return _function_params(world, name)


def _result_and_params(world: LiveWorld, name: str) -> list[str]:
    if name.startswith("bpf:"):
        module, _, function = name.rpartition(":")
        known = world.kernel_function(function, module)
        result = [f"{known.result} retval"] if known is not None and known.result is not None else []
        return [*_typed_params(world, name), *result]
    return _function_params(world, name) + [line for line in _function_result(world, name) if line != "void"]


def _function_result(world: LiveWorld, name: str) -> list[str]:
    params = world.function_params(name.rpartition(":")[2])
    if params is None:
        return []
    return _format_declarations(params[0], [("retval", params[2])]) if params[2] else ["void"]


def _format_declarations(btf: Btf, params: list[tuple[str, int]]) -> list[str]:
    """``struct sock * sk``: the type as C writes it, a space, the name."""
    return [f"{ctext.format_declaration(btf, kind)} {name or f'arg{i}'}" if kind else "..."
            for i, (name, kind) in enumerate(params)]


def _list_user_functions(world: LiveWorld, target: str, pid: int) -> list[str]:
    """``path:function`` of the files that the target selects; for ``*`` all that a process has mapped."""
    if not target and not pid:
        return []
    names: set[str] = set()
    for path in world.find_binaries(target or "*", pid):
        names.update([f"{path}:{function.name}" for function in world.user_functions(path)])
    return sorted(names)


def _list_user_returns(world: LiveWorld, target: str, pid: int) -> list[str]:
    """The same, without those whose returns can be probed in neither way; how many are probed at their return
    instructions, and how many are left out, is said."""
    if not target and not pid:
        return []
    names: set[str] = set()
    harmful = by_instructions = 0
    for path in world.find_binaries(target or "*", pid):
        functions = world.user_functions(path)
        unsafe = [function for function in functions if world.return_hazard(path, function.offset)]
        ends = world.function_ends(path, [function.offset for function in unsafe])
        left = {function.name for function, end in zip(unsafe, ends) if end.problem}
        names.update([f"{path}:{function.name}" for function in functions if function.name not in left])
        harmful += len(left)
        by_instructions += len(unsafe) - len(left)
    if by_instructions:
        show_notice(f"NOTE: {_count_of(by_instructions)} probed at the return instructions, which touches no stack")
    if harmful:
        show_notice(f"WARNING: {_count_of(harmful)} left out, whose return probes could end the traced "
                    "program, and whose return instructions are not known (--unsafe attaches them)")
    return sorted(names)


def _count_of(functions: int) -> str:
    return "1 function is" if functions == 1 else f"{functions} functions are"


def _user_arguments(result: bool) -> Details:
    """Parameters (and ``result``) of a user function, where debug information has them."""
    def argument_details(world: LiveWorld, name: str) -> list[str]:
        path, _, symbol = name.partition(":") if not name.startswith("/") else _split_path(world, name)
        function = next((f for f in world.user_functions(path) if f.name == symbol), None)
        declared = world.user_prototype(path, function.offset).declarations if function else []
        return [line + (" retval" if line == "void" else "") for line in (declared if result else declared[:-1])]
    return argument_details


def _split_path(world: LiveWorld, name: str) -> tuple[str, str, str]:
    """Split ``path:function``, where the path may have colons of its own."""
    path, _, symbol = name.rpartition(":")
    while "/" in path and not os.path.exists(path):
        path, _, more = path.rpartition(":")
        symbol = f"{more}:{symbol}"
    return path, ":", symbol


def _list_usdt_probes(world: LiveWorld, target: str, pid: int) -> list[str]:
    if not target and not pid:
        return []
    return sorted({f"{path}:{probe.provider}:{probe.name}" for path in world.find_binaries(target or "*", pid)
                   for probe in world.usdt_probes(path)})


def _usdt_arguments(world: LiveWorld, name: str) -> list[str]:
    """``int32 arg0`` of the probe's first location."""
    path, provider, event = name.rsplit(":", 2)
    for probe in world.usdt_probes(path):
        if (probe.provider, probe.name) == (provider, event):
            return [f"{'int' if a.signed else 'uint'}{8 * a.size} arg{i}" for i, a in enumerate(probe.arguments)]
    return []


def _list_iterators(world: LiveWorld, target: str, pid: int) -> list[str]:
    if not world.has_feature("iter_task") or world.btf is None:
        return []
    names = [name.removeprefix("bpf_iter__") for name in world.struct_names() if name.startswith("bpf_iter__")]
    return sorted(name for name in names if world.kfunc_id(f"bpf_iter_{name}") and name not in uapi.ITERATORS_OF_ONE)


def _iterator_fields(world: LiveWorld, name: str) -> list[str]:
    struct = world.find_struct(f"bpf_iter__{name}")
    fields = [(field, struct.field(field)) for field in struct.field_names()] if struct else []
    return [f"{member.type} {field}" for field, member in fields if member]


def _fixed_candidates(names: list[str]) -> Candidates:
    lines = sorted([f"{name}:" for name in names])
    return lambda world, target, pid: lines


KINDS = [
    ListedKind("fentry", 2, True, _list_typed_functions, _typed_params),
    ListedKind("fexit", 2, False, _list_typed_functions, _result_and_params),
    ListedKind("hardware", 1, True, _fixed_candidates(list(uapi.HARDWARE_EVENTS))),
    ListedKind("iter", 1, True, _list_iterators, _iterator_fields),
    ListedKind("interval", 1, False, _fixed_candidates(["us", "ms", "s", "hz"])),
    ListedKind("kprobe", 1, True, _list_kernel_functions, _function_registers),
    ListedKind("kretprobe", 1, False, _list_kernel_functions, _function_result),
    ListedKind("profile", 1, False, _fixed_candidates(["us", "ms", "s", "hz"])),
    ListedKind("rawtracepoint", 2, True, _list_raw_tracepoints, _raw_tracepoint_params),
    ListedKind("self", 1, False, lambda world, target, pid: ["signal:SIGUSR1"]),
    ListedKind("software", 1, True, _fixed_candidates(list(uapi.SOFTWARE_EVENTS))),
    ListedKind("tracepoint", 2, True, _list_tracepoints, _tracepoint_fields),
    ListedKind("uprobe", 2, False, _list_user_functions, _user_arguments(False)),
    ListedKind("uretprobe", 2, False, _list_user_returns, _user_arguments(True)),
    ListedKind("usdt", 3, False, _list_usdt_probes, _usdt_arguments),
]


# ---- types

_TAGS = {"struct": (codec.STRUCT,), "union": (codec.UNION,), "enum": (codec.ENUM, codec.ENUM64)}


def _list_types(world: LiveWorld, pattern: str, verbose: bool) -> Iterator[str]:
    """``struct NAME``, or with ``verbose`` its definition and an empty line."""
    tag, _, name = pattern.partition(" ")
    name = name.strip()
    fits = pattern_matcher(name)
    types: dict[str, tuple[Btf, int]] = {}
    for btf in [world.btf, *world.modules.values()] if world.btf else []:
        for own, number in _matching_types(btf, name, _TAGS[tag]):
            if fits(own):
                types.setdefault(own, (btf, number))
    for own in sorted(types):
        if verbose:
            btf = types[own][0]
            module = next((name for name, other in world.modules.items() if other is btf), "vmlinux")
            yield f"{module}: {ctext.format_definition(*types[own])}"
            yield ""
        else:
            yield f"{tag} {own}"


def _matching_types(btf: Btf, name: str, kinds: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    if "*" in name:
        return btf.named_types(*kinds)
    number = btf.find_id(name, *kinds)
    return iter([(name, number)] if number else [])


def missing_kind_hints(world: LiveWorld, pattern: str) -> list[str]:
    """Hints for a kind of probe that this kernel lacks altogether."""
    kind = find_kind(pattern.partition(":")[0])
    if kind is None or not kind.twin or any(world.has_feature(f) for f in (kind.feature, ALL_KINDS[kind.twin].feature)):
        return []
    return [f"this kernel has no {kind.name} probes; its tracepoints: sonde -l 'tracepoint:*'"]
