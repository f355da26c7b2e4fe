"""Layouts of memory that BPF programs and Python share."""
