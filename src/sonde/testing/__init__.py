"""Tests that say what may happen in the kernel while they run: the pytest plugin. Only :mod:`.plugin` is imported by
itself, and what it needs when a test uses it."""
