"""Answers to questions: ``sonde help slow disk``, ``sonde tools latency``. An answer is a tool, a command, a recipe of
the cookbook, a one-liner, a word of the language, an option or one of the kernel's tracepoints.
"""
