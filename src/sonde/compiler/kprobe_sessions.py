"""Entry and return of the same kernel functions in one program (kprobe.session, Linux 6.10).

The kernel runs such a program twice for each call, and bpf_session_is_return() tells which of the two it is. One link
and one hook per function do the work of two. The two programs that it is made of are kept, for a kernel that rejects
the combined one.
"""

from __future__ import annotations

from ..arch import ARCHES
from ..asm import insn
from ..semantics.world import World
from ..spec import ProgramSpec, Relocation

IS_RETURN = "bpf_session_is_return"
LONGEST = 30000  # instructions that the branch to the second half may skip


def pair_sessions(specs: list[ProgramSpec], world: World) -> list[ProgramSpec]:
    """The programs, with entries and returns of the same functions put together where the kernel can do that."""
    if not any(_single_function(spec, "kretprobe") for spec in specs) or not world.has_feature("kprobe_session"):
        return specs
    question, order = world.kfunc_id(IS_RETURN), ARCHES[world.arch].byte_order
    joined, taken = [], set[int]()
    for at, spec in enumerate(specs):
        if at in taken:
            continue
        free = [i for i, s in enumerate(specs) if i not in taken and _match_pairs(spec, s)] if question else []
        other = free[0] if free else -1
        if other >= 0:
            taken.add(other)
            spec = _join_pair(spec, specs[other], question, order)
        joined.append(spec)
    return [spec for spec in joined if not any(spec is specs[i] for i in taken)]


def _single_function(spec: ProgramSpec, kind: str) -> bool:
    """Whether a program serves many functions by that one kind, and has a single BPF function."""
    return len(spec.attach) > 1 and len(spec.functions) < 2 and len(spec.code) // 8 < LONGEST and not any(
        a.offset or a.method != kind for a in spec.attach)


def _match_pairs(entry: ProgramSpec, exit: ProgramSpec) -> bool:
    return _single_function(entry, "kprobe") and _single_function(exit, "kretprobe") and \
        [a.event for a in entry.attach] == [a.event for a in exit.attach]


def _join_pair(entry: ProgramSpec, exit: ProgramSpec, question: int, order: str) -> ProgramSpec:
    """The entry's program, then the return's, after a test of which of them this run is. The context survives in r6."""
    size = len(entry.code) // 8
    skip = insn.branch("jne", 0, None, 0, "")
    skip.off = size
    head = [insn.alu("mov", 6, 1), insn.call_kfunc(question), insn.alu("mov", 1, 6), skip]
    return ProgramSpec(
        entry.name, entry.type, b"".join(item.encode(order) for item in head) + entry.code + exit.code, entry.attach,
        _move_entry(entry.relocations, len(head)) + _move_entry(exit.relocations, len(head) + size),
        [(at + len(head), span) for at, span in entry.lines]
        + [(at + len(head) + size, span) for at, span in exit.lines],
        "session", 0, 0, entry.first_probe, entry.cookies or exit.cookies, parts=[entry, exit])


def _move_entry(relocations: list[Relocation], by: int) -> list[Relocation]:
    return [Relocation(r.index + by, r.map, r.kind, r.offset) for r in relocations]
