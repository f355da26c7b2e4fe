"""Control flow: conditions, loops, functions, the order of evaluation."""
