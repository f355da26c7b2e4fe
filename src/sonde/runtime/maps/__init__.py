"""Maps: their elements, aggregates over the CPUs, threads in slots."""
