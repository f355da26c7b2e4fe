"""Event records: out of the rings, into order, to Python values."""
