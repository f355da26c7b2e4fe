"""This machine: system calls, features, tracefs, ELF files, symbols."""
