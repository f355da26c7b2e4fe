"""Bounds for names that refer to their own parts, so that a short one may stand for one of any length."""

MOST_SHOWN = 65536  # characters of a name
MOST_STEPS = 20_000
MOST_DEPTH = 120
