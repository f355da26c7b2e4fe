"""Recordings: what a run delivered, kept in a file and replayed without the kernel that it came from."""
