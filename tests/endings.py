"""What a run of the tests says after the last of them, whichever process ran them."""

from __future__ import annotations

endings: list[tuple[str, str]] = []  # a title and a text
