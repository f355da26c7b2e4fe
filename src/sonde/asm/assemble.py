"""Symbolic instructions to bytes: labels become offsets, map references become relocations."""

from __future__ import annotations

from sys import byteorder

from ..base.record import Record
from ..errors import SondeError
from ..spec import Relocation
from .insn import JMP, JMP32, JMP_OPS, PSEUDO_FUNC, PSEUDO_MAP_VALUE, Insn
from .relax import REACH, Item, label_positions, relax_jumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..source import Span


class MachineCode(Record):
    """``lines`` has (slot index, span) wherever the span changes; ``functions`` (slot index, label)."""

    code: bytes
    relocations: list[Relocation]
    lines: list[tuple[int, Span]]
    functions: list[tuple[int, str]]


def assemble(items: Iterable[Item], functions: Iterable[str] = (),
             long_jumps: Callable[[], bool] = lambda: False, order: str = byteorder) -> MachineCode:
    """Resolve labels and encode. ``long_jumps()`` is called if a jump is too long for a 16-bit offset. Raises
    SondeError if too many jumps are long and the kernel has no instruction for long jumps."""
    items = relax_jumps(list(items), long_jumps)
    labels, _ = label_positions(items)
    out: list[bytes] = []
    relocations: list[Relocation] = []
    lines: list[tuple[int, Span]] = []
    at = 0
    for item in items:
        if isinstance(item, str):
            continue
        if item.span is not None and (not lines or lines[-1][1] is not item.span):
            lines.append((at, item.span))
        if item.map:
            relocations.append(Relocation(at, item.map, "value" if item.src == PSEUDO_MAP_VALUE else "fd",
                                          item.imm if item.src == PSEUDO_MAP_VALUE else 0))
        out.append(_resolve_label(item, at, labels).encode(order))
        at += 2 if item.wide else 1
    return MachineCode(b"".join(out), relocations, lines, sorted((labels[f], f) for f in functions))


def _resolve_label(insn: Insn, at: int, labels: dict[str, int]) -> Insn:
    if insn.map:
        return Insn(insn.code, insn.dst, insn.src)
    if not insn.label:
        return insn
    distance = labels[insn.label] - at - 1
    if insn.wide and insn.src == PSEUDO_FUNC or insn.code == JMP | JMP_OPS["call"]:
        return Insn(insn.code, insn.dst, insn.src, imm=distance)
    if insn.code == JMP32 | JMP_OPS["ja"]:
        return Insn(insn.code, imm=distance)
    if insn.code & 7 in (JMP, JMP32) and not -REACH - 1 <= distance <= REACH:
        raise SondeError("the program is too long: too many of its jumps span more than 32,767 instructions",
                         ["split the action into several probes or shorten its loops",
                          "a kernel from Linux 6.6 on knows longer jumps"])
    return Insn(insn.code, insn.dst, insn.src, distance, insn.imm)


def format_listing(code: bytes, relocations: Iterable[Relocation] = (), lines: Iterable[tuple[int, Span]] = (),
                   order: str = byteorder) -> str:
    """Disassembly with map names and, where the source line changes, the script's text."""
    from .insn import decode_program, format_insn
    maps = {r.index: r for r in relocations}
    spans = dict(lines)
    out = []
    shown = None
    for index, insn in decode_program(code, order):
        span = spans.get(index)
        if span is not None and span != shown:
            shown = span
            out.append(f"; {span}: {' '.join(span.text.split())[:100]}")
        if index in maps:
            insn.map = maps[index].map
            insn.src = PSEUDO_MAP_VALUE if maps[index].kind == "value" else 1
            insn.imm = maps[index].offset
        out.append(f"{index:5}: {format_insn(insn)}")
    return "\n".join(out)
