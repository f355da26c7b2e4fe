"""CPU time in pieces of work: what else runs beside us, on the same caches or the other half of a core, makes seconds
long and leaves pieces as they are."""

from __future__ import annotations

import time


class Node:
    def __init__(self, word: str, parts: list[Node]) -> None:
        self.word, self.parts = word, parts


def piece() -> float:
    """CPU seconds of some work like that of a compiler, a tenth of a second on a machine at rest."""
    begun = time.process_time()
    kept: list[Node] = []
    for number in range(100_000):
        kept.append(Node(str(number), kept[-2:]))
    assert sum(len(node.word) for node in kept) == 488_890
    return time.process_time() - begun


def pieces(seconds: float) -> float:
    """How many pieces of work the CPU seconds that were just spent are worth, here and now."""
    return seconds / piece()
