"""Why a kernel function cannot be probed, and what can be probed instead."""

from __future__ import annotations

import os
from zlib import crc32

from ...base.cache_dir import read_cache, write_cache
from ...btf import codec
from ...btf.query import Btf
from ...errors import MachineError
from ...kinds import KINDS
from ...spec import Inlined
from .. import places
from ..names.symbols import KernelSymbols, traceable_functions
from . import tracefs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Functions = list[tuple[str, str]]  # (module, function)

_BLACKLIST = "/sys/kernel/debug/kprobes/blacklist"
# Parts of the kernel's code without probes, by the symbols at their ends (include/asm-generic/sections.h).
_SECTIONS = (
    ("__noinstr_text_start", "__noinstr_text_end", "it is among what must run before tracing is possible (noinstr)"),
    ("__entry_text_start", "__entry_text_end", "it is entry code, which runs before tracing is possible"),
    ("__kprobes_text_start", "__kprobes_text_end", "the probes' own work needs it"),
    ("_sinittext", "_einittext", "it ran while the kernel booted, and its code is gone (__init)"),
)
# What compilers append to the names of functions that they change, and what that means.
_CLONES = {
    "constprop": "with some of its arguments fixed",
    "isra": "with other arguments than the source has",
    "part": "a part of it, the rest of which is inlined where it is called",
    "cold": "what seldom runs of it",
    "llvm": "under another name",
}


def function_obstacle(function: str, module: str, kind: str, symbols: KernelSymbols | None = None) -> tuple[str,
                                                                                                            list[str]]:
    """(what is wrong with it, hints); ("", []) if the kernel's lists do not say."""
    symbols = symbols or KernelSymbols()
    known = symbols.symbol_address(function)
    every = _all_traceable_functions()
    listed = [m for m, name in every if name == function]
    if known is None and not symbols.restricted and not listed:
        return _explain_missing(function, symbols, every)
    if listed and module not in ("", "vmlinux") and module not in listed:
        return f"{function} is not in {module} but in {listed[0]}", [f"probe {kind}:{listed[0]}:{function}"]
    if not listed and every:
        if known is not None and _is_data(function, known, symbols):
            return f"{function} is not a function but data", []
        return _explain_untraceable(function, kind, symbols, every)
    return "", []


def _is_data(function: str, address: int, symbols: KernelSymbols) -> bool:
    """Whether a symbol is data, by its letter or its address: on Linux 7.2 kallsyms has a T for initialised data
    too."""
    low, high = symbols.symbol_address("_sdata"), symbols.symbol_address("_edata")
    return symbols.symbol_type(function) not in "tTwW" or low is not None and high is not None and low <= address < high


def _explain_untraceable(function: str, kind: str, symbols: KernelSymbols, every: Functions) -> tuple[str, list[str]]:
    if why := section_obstacle(function, symbols):
        return f"{function} is not traceable: {why}", []
    clones = list(_clone_hints(function, symbols, every))
    other = [f"kprobe:{function} may do"] if KINDS[kind].typed and function not in forbidden_functions() else []
    return f"{function} is not traceable: it is not among the kernel's available_filter_functions", [*clones, *other]


def section_obstacle(function: str, symbols: KernelSymbols | None = None) -> str:
    """Why no function in this one's part of the kernel can be probed; "" if it is in none of those parts."""
    symbols = symbols or KernelSymbols()
    address = symbols.symbol_address(function)
    for begin, end, why in _SECTIONS:
        low, high = symbols.symbol_address(begin), symbols.symbol_address(end)
        if address is not None and low is not None and high is not None and low <= address < high:
            return why
    return ""


def _explain_missing(function: str, symbols: KernelSymbols, every: Functions) -> tuple[str, list[str]]:
    """For a function without code under its own name: what became of it, as far as kallsyms and debug information
    tell."""
    clones = list(_clone_hints(function, symbols, every))
    copies = _inlined_copies(function)
    if copies is not None:
        return f"{function} has no code of its own: it is inlined into {copies.format_callers()}", clones
    if clones:
        return f"this kernel has no function {function} under that name", clones
    return f"this kernel has no function {function}", [
        f"kernel {os.uname().release} does not have it, or it is inlined wherever it is used: into what, only the "
        "kernel's debug package would tell"]


def _clone_hints(function: str, symbols: KernelSymbols, every: Functions) -> Iterator[str]:
    """Hints for what the compiler made of a function."""
    traceable = {name for _, name in every}
    for clone in symbols.symbol_clones(function)[:3]:
        meaning = ", ".join([text for word, text in _CLONES.items() if f".{word}" in clone[len(function):]])
        probe = f": kprobe:{clone}" if clone in traceable or not traceable else ", which is not traceable"
        yield f"the compiler made {clone} of it{f' ({meaning})' if meaning else ''}{probe}"


def _inlined_copies(function: str) -> Inlined | None:
    """The function's inlined copies by the kernel's own debug information, where that is installed."""
    from ..foreign import files

    kernel = next((path for path in places.kernel_files() if os.path.exists(path)), None)
    return files.inlined_copies(kernel, function) if kernel else None


def _all_traceable_functions() -> Functions:
    try:
        return traceable_functions(tracefs.find_tracefs())
    except MachineError:
        return []


def changed(btf: Btf) -> frozenset[str]:
    """Functions of the kernel proper that BTF describes but that exist only as changed by the compiler (f.isra.0). They
    are the same at each start, so a file in the cache directory keeps them."""
    machine = os.uname()
    file = f"changed-{crc32(f'{machine.release} {machine.version}'.encode()):08x}"
    cached = read_cache(file)
    if cached is not None:
        return frozenset(cached.decode("utf-8", "replace").split())
    names = {name for module, name in _all_traceable_functions() if module == "vmlinux"}
    whole = {name.partition(".")[0] for name in names if "." in name} - names
    functions = sorted(name for name in whole if btf.find_id(name, codec.FUNC))
    if names:
        write_cache(file, [" ".join(functions).encode()])
    return frozenset(functions)


def forbidden_functions() -> frozenset[str]:
    """Functions in which kprobes are forbidden: debugfs lists them, "0xaddr-0xaddr\tname". None if it cannot be
    read."""
    try:
        with open(_BLACKLIST, encoding="utf-8", errors="replace") as file:
            return frozenset([line.split()[1] for line in file if len(line.split()) == 2])
    except OSError:
        return frozenset()
