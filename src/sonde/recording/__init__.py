"""Recordings: what a run handed over, kept in a file and replayed without the kernel that it came from."""
