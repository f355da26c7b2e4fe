"""The merge algebra: maps of many sources as one, exactly. Pure: no input, no output, no clock.

A source sends a :class:`~sonde.merge.delta.Delta` for each map and window; a :class:`~sonde.merge.table.Table` adds up
what all of them sent. Deltas of different sources may come in any order and in any grouping, and those of one source
are put in order, each counted once, by :class:`~sonde.merge.sequence.Sequence`; the sum is the same.

How values merge:

count sum avg stats hist lhist   word by word, modulo 2**64; only of equal parameters
min max                          the least, the greatest
tseries                          interval by interval, by what the series collects
plain values                     not at all: each source's stays separate, under a key with the source in front

A removed key disappears: a table counts how many sources have it. For what does not add up, each source's last state is
kept, and merged when the table is read.
"""
