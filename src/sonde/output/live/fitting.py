"""What fits a terminal's width: columns that are shortened or left out by rule, never cut within a number, and lines
without their last pieces."""

from __future__ import annotations

from collections.abc import Container, Sequence

PAD = 2     # characters of a column beside its cells
LEAST = 10  # characters to which a text is shortened at most


def fit_columns(widths: Sequence[int], texts: Sequence[bool], room: int, keep: Container[int] = (0,)) -> list[int]:
    """The width that each column gets; 0: it is left out. Texts become shorter, the widest first; where that
    is not enough, columns go from the right on, but not those of ``keep``. Numbers stay whole."""
    fitted = list(widths)
    least = [min(width, LEAST) if text else width for width, text in zip(widths, texts)]
    for index in reversed(range(len(fitted))):
        if sum([low + PAD for low, width in zip(least, fitted) if width]) <= room:
            break
        if index not in keep:
            fitted[index] = 0
    while sum([width + PAD for width in fitted if width]) > room:
        longer = [index for index, text in enumerate(texts) if text and fitted[index] > least[index]]
        if not longer:
            break
        fitted[max(longer, key=lambda index: fitted[index])] -= 1
    return fitted


def shorten_cell(text: str, width: int) -> str:
    """As much of a text as fits: of a path the end, else the beginning."""
    if len(text) <= width:
        return text
    return "…" + text[len(text) - width + 1:] if text.startswith("/") else text[:width - 1] + "…"


def fit_pieces(pieces: Sequence[str], room: int, between: str = "  ") -> str:
    """The first of some pieces that fit on a line together; the first is always there, shortened if it has to be."""
    line = shorten_cell(pieces[0], room)
    for piece in pieces[1:]:
        if piece and len(line) + len(between) + len(piece) > room:
            break
        line += between + piece if piece else ""
    return line
