"""Syntax to typed program: World, builtins, functions, attach points, checking."""
