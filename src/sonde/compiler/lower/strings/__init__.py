"""Strings: copies, comparison, search."""
