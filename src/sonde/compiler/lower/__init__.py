"""Typed program to IR, one module per concern; ``program`` is the entry."""
