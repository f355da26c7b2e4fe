"""Differences between runs, and whether they are more than the noise between repeats."""
