"""Functions that a kernel has under another name: what the compiler turned them into, and what they were renamed to."""

from __future__ import annotations

from ..base import regex_cache
from ..base.record import Record
from ..errors import MachineError
from .nodes import Use
from .world import World

# What compilers append to the name of a function of which they keep but a changed copy. ``cold`` is no copy.
CLONES = regex_cache.compile(r"(?:\.(?:isra|constprop|llvm|part)\.\d+)+")
# A function of older kernels → the one that has its work now, and whether that one begins with the same arguments.
RENAMED = {
    "_do_fork": ("kernel_clone", True),                        # Linux 5.10
    "generic_make_request": ("submit_bio_noacct", True),       # 5.9
    "__alloc_pages_nodemask": ("__alloc_pages", True),         # 5.13
    "blk_account_io_start": ("__blk_account_io_start", True),  # 5.16
    "blk_account_io_done": ("__blk_account_io_done", True),    # 5.16
    "kfree_skb": ("kfree_skb_reason", True),                   # 5.17
    "kfree_skb_reason": ("sk_skb_reason_drop", False),         # 6.11: begins with a socket
    "tcp_drop": ("tcp_drop_reason", True),                     # 5.18
    "mark_page_accessed": ("folio_mark_accessed", False),      # folios in place of pages, here and below
    "add_to_page_cache_lru": ("filemap_add_folio", False),
    "account_page_dirtied": ("folio_account_dirtied", False),
    "swap_readpage": ("swap_read_folio", False),
}


class StandIn(Record):
    """A function that can be probed in place of another. ``typed_as`` is the name under which the type information has
    it, "" where it does not tell that the arguments are those of the function asked for; ``why`` is for people.
    ``renamed``: it is whole, with all that it takes and gives."""

    module: str
    name: str
    typed_as: str
    why: str
    renamed: bool = False


def listed_functions(world: World) -> list[tuple[str, str]]:
    """The functions that can be traced, for a search that can do without their list; [] where it cannot be read."""
    try:
        return world.kernel_functions()
    except MachineError:
        return []


def stand_ins(world: World, function: str, module: str = "") -> list[StandIn]:
    """The functions that do the work of one that the kernel lacks under its own name; [] if there are none."""
    new, beginning = _new_names(function), f"{function}."
    candidates = [(m, f) for m, f in listed_functions(world) if f in new or f.startswith(beginning)]
    candidates = [(m, f) for m, f in candidates if module in ("", m)]
    renamed = [StandIn(m, f, f if new[f] else "", "its name in this kernel", True) for m, f in candidates if f in new]
    return _clones(world, function, candidates) or sorted(renamed, key=lambda s: list(new).index(s.name))[:1]


def _clones(world: World, function: str, candidates: list[tuple[str, str]]) -> list[StandIn]:
    """Whole copies, else the part that is not inlined. pahole puts a function whose only code is a copy into BTF, under
    the function's name, if its arguments are where they belong (btf_features=optimized_func, Linux 6.10)."""
    clones = [(m, f) for m, f in candidates if CLONES.fullmatch(f, len(function))]
    known = function if clones and world.kernel_function(function) is not None else ""
    return [StandIn(m, f, known, "as the compiler changed it") for m, f in clones if ".part." not in f] or \
        [StandIn(m, f, "", "a part of it: the rest is inlined where it is called, and not seen") for m, f in clones]


def _new_names(function: str) -> dict[str, bool]:
    """Names of later kernels, likeliest first, and whether the arguments are the same: those of the table, which may
    take several steps; and with the ending that allocating functions got when their callers became known by macros,
    which hand all arguments on (alloc_hooks() in include/linux/alloc_tag.h, Linux 6.10)."""
    names: dict[str, bool] = {}
    name, same = function, True
    while name:
        names |= {name: same, f"{name}_noprof": same, f"__{name}_noprof": False}
        name, alike = RENAMED.get(name, ("", True))
        same = same and alike
    del names[function]
    return names


def suits(stand_in: StandIn, use: Use) -> bool:
    """Whether a clause that uses this would see the same in the stand-in as in the function itself."""
    if "retval" in use.names and not stand_in.renamed:
        return False
    reads = use.uses_args or any(regex_cache.fullmatch(r"arg\d+|reg|ctx|override", name) for name in use.names)
    return bool(stand_in.typed_as) or not reads
