"""The index of all entries but tracepoints: a file of the package, written when it is built. In a source tree, which
has none, it is made when a question is asked."""

from __future__ import annotations

import os

from ...base.package_files import FOLDER, read_shipped
from .entries import Entry

INDEX = os.path.join(FOLDER, "cli", "search", "index.txt")


def load_entries() -> list[Entry]:
    """All of the index."""
    try:
        text = read_shipped(INDEX).decode()
    except OSError:
        from .build import collect_entries
        return collect_entries()
    return [Entry(*line.split("\t")) for line in text.splitlines()]


def index_text(entries: list[Entry]) -> str:
    """The contents of the index."""
    return "".join(["\t".join([" ".join(value.split()) for value in entry.values()]) + "\n" for entry in entries])
