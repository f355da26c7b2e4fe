"""Maps' elements: keys, values, aggregates, threads in slots."""
