"""BTF: the kernel's own description of its types, read lazily through an on-disk index, and written for programs.

codec   the format: headers, records, and a writer for the BTF that accompanies a program
index   where each type is and which types have a given name, built once per kernel
query   one BTF blob as sonde.types
ctext   types and definitions as C text, for listings
"""
