"""The kernel's types: BTF, tracepoints, and the Worlds that answer the compiler."""
