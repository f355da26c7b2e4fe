"""Where each CPU keeps its current task."""
