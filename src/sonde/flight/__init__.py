"""The flight recorder (--flight): a script whose records stay in the kernel until something asks for the latest.

``settings`` says what was asked for, ``flying`` waits for requests, ``dumping`` writes a dump, ``condition`` is --when,
``asking`` the socket of ``sonde dump``, ``reading`` a flight's interface for Python programs. The memory is in
runtime/flight.py and compiler/lower/flight.py.
"""
