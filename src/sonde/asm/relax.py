"""Jumps to labels further than 32,767 instructions away.

A jump's offset has 16 bits. Since Linux 6.6 there is an unconditional one with 32 (``gotol``; instruction set v4).
Before that a long distance takes several jumps, from one island to the next: an island is a row of jumps, one for each
distant label, and the program itself jumps around it.
"""

from __future__ import annotations

from .insn import JMP, JMP32, JMP_OPS, WIDE, Insn, jump, jump_long

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Item = Insn | str  # an instruction, or a label before the next one
REACH = 32_767
SPACING = 24_000  # instructions between islands; the rest of a jump's reach is for what islands and branches add
INVERSE = {"jeq": "jne", "jne": "jeq", "jgt": "jle", "jle": "jgt", "jge": "jlt", "jlt": "jge",
           "jsgt": "jsle", "jsle": "jsgt", "jsge": "jslt", "jslt": "jsge"}
_INVERSE = {JMP_OPS[a]: JMP_OPS[b] for a, b in INVERSE.items()}
_JA = JMP | JMP_OPS["ja"]
# With a label, a jump to it by a 16-bit offset.
_JUMPS = frozenset(kind | op | source for kind in (JMP, JMP32) for name, op in JMP_OPS.items()
                   if name != "call" and (kind, name) != (JMP32, "ja") for source in (0, 8))


def relax_jumps(items: list[Item], long_jumps: Callable[[], bool]) -> list[Item]:
    """``items`` with every jump within its reach; ``long_jumps()`` says whether the kernel knows ``gotol``."""
    if len(items) <= REACH // 2 or not (far := far_jumps(items, label_positions(items)[0])):
        return items
    return _insert_long_jumps(items, far) if long_jumps() else _insert_islands(items)


def label_positions(items: list[Item]) -> tuple[dict[str, int], int]:
    """The slot of every label, and how many slots there are."""
    labels: dict[str, int] = {}
    at = 0
    for item in items:
        if isinstance(item, str):
            labels[item] = at
        else:
            at += 2 if item.code == WIDE else 1
    return labels, at


def far_jumps(items: list[Item], labels: dict[str, int], reach: int = REACH) -> set[int]:
    """Indices of the jumps whose labels are further than ``reach``."""
    far = set()
    at = 0
    for index, item in enumerate(items):
        if isinstance(item, str):
            continue
        if item.label and item.code in _JUMPS and abs(labels[item.label] - at - 1) > reach:
            far.add(index)
        at += 2 if item.code == WIDE else 1
    return far


def _insert_long_jumps(items: list[Item], far: set[int]) -> list[Item]:
    """Replace a branch by its opposite, around a long jump. Each round makes others longer, until none is too long."""
    for round in range(100):
        made: list[Item] = []
        for index, item in enumerate(items):
            if index in far and isinstance(item, Insn):
                made += _lengthen_jump(item, jump_long(item.label), f".near.{round}.{index}")
            else:
                made.append(item)
        items = made
        far = far_jumps(items, label_positions(items)[0])
        if not far:
            break
    return items


def _lengthen_jump(insn: Insn, jump: Insn, label: str) -> list[Item]:
    """``insn`` as a jump of another kind."""
    jump.span = insn.span
    if insn.code == _JA:
        return [jump]
    inverse = _INVERSE.get(insn.code & 0xF0)
    if inverse is not None:
        around = Insn(insn.code & 0x0F | inverse, insn.dst, insn.src, 0, insn.imm, label, span=insn.span)
        return [around, jump, label]
    taken = Insn(insn.code, insn.dst, insn.src, 0, insn.imm, label + ".taken", span=insn.span)  # jset has no opposite
    return [taken, Insn(_JA, label=label, span=insn.span), label + ".taken", jump, label]


def _insert_islands(items: list[Item]) -> list[Item]:
    """Insert an island every SPACING instructions. A far jump goes to the next island in the label's direction, and on
    from there; the last island before the label jumps to the label itself."""
    labels, _ = label_positions(items)
    part = _part_numbers(items)
    home = {item: number for item, number in zip(items, part) if isinstance(item, str)}
    wanted: dict[int, set[str]] = {}  # the labels that island n, after part n, leads to
    redirected: dict[int, str] = {}
    for index in sorted(far_jumps(items, labels, SPACING)):
        insn = items[index]
        assert isinstance(insn, Insn)
        here, there = part[index], home[insn.label]
        if here == there:
            continue
        islands = range(here, there) if there > here else range(here - 1, there - 1, -1)
        for island in islands:
            wanted.setdefault(island, set()).add(insn.label)
        redirected[index] = _island_label(insn.label, islands[0])
    made: list[Item] = []
    for index, item in enumerate(items):
        if index and part[index] != part[index - 1]:
            made += _make_island(part[index - 1], sorted(wanted.get(part[index - 1], ())), home)
        if index in redirected and isinstance(item, Insn):
            item = Insn(item.code, item.dst, item.src, item.off, item.imm, redirected[index], item.map, item.span)
        made.append(item)
    return made


def _island_label(label: str, island: int) -> str:
    return f".island.{island}.{label}"


def _part_numbers(items: list[Item]) -> list[int]:
    """For each item the index of the part of the program that it is in."""
    numbers, at = [], 0
    for item in items:
        numbers.append(at // SPACING)
        if isinstance(item, Insn):
            at += 2 if item.wide else 1
    return numbers


def _make_island(number: int, labels: list[str], home: dict[str, int]) -> list[Item]:
    """The jumps to ``labels`` after part ``number``, and one around them."""
    if not labels:
        return []
    made: list[Item] = [jump(f".past.{number}")]
    for label in labels:
        ahead, back = number + 1, number - 1
        there = home[label]
        near = there in (number, ahead)
        made += [_island_label(label, number),
                 jump(label if near else _island_label(label, ahead if there > number else back))]
    return [*made, f".past.{number}"]
