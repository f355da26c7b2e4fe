"""Addresses and names, of the kernel and of processes: symbols, mappings, unwinding."""
