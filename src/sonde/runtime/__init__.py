"""Running a spec: maps, programs, links, ring buffers, sessions."""
