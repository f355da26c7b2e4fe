"""What Python programs use: a trace, its events, maps and tables."""
