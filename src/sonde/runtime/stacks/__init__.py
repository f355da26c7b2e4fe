"""Stacks: their frames, unwind tables, Python's."""
