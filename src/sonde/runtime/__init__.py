"""A spec at work: maps, programs, links, ring buffers, sessions."""
