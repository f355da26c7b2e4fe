"""Taking stacks: by frame pointers, by unwind tables, Python's."""
