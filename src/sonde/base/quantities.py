"""Units of time and size, as people write them."""

from __future__ import annotations

NANOSECONDS = {"ns": 1, "us": 10 ** 3, "ms": 10 ** 6, "s": 10 ** 9, "m": 60 * 10 ** 9, "h": 3600 * 10 ** 9,
               "d": 86400 * 10 ** 9}
BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
