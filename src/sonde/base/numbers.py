"""Numbers as people write them."""

from __future__ import annotations

LARGEST = (1 << 63) - 1


def parse_whole(text: str, most: int = LARGEST) -> int | None:
    """``text`` as a number from 0 to ``most`` (of at most 19 digits); None if it is none. int() alone would take digits
    of any script, and str.isdigit() those that int() does not; neither takes more than 4,300."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    number = int(text)
    return number if number <= most else None
