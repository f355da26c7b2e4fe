"""What Sonde printed, read back."""

from __future__ import annotations

import json
import re


def rows(text: str) -> list[dict[str, object]]:
    """The rows of JSON output."""
    messages = [json.loads(line) for line in text.splitlines() if line]
    return [message["data"] for message in messages if message["type"] == "row"]


def histogram_total(text: str, label: str) -> int:
    """How many values the histogram ``@label`` has, over all blocks of that name."""
    blocks = re.findall(rf"^@{re.escape(label)}: *\n((?:[\[(].*\n)+)", text, re.M)
    return sum(int(n) for block in blocks for n in re.findall(r"[)\]] +(\d+) \|", block))
