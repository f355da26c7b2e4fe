"""Answers to questions: ``sonde help slow disk``, ``sonde tools latency``. What can be an answer is an :class:`Entry`:
tools and commands, questions of the cookbook, one-liners, words of the language, options, the kernel's tracepoints.
"""
