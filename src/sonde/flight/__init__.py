"""The flight recorder (--flight): a script whose records stay in the kernel until something asks for the latest.

``settings`` says what was asked for, ``flying`` waits for what asks, ``dumping`` gives a dump out, ``condition`` is
--when, ``asking`` the socket of ``sonde dump``, ``reading`` what a Python
program has of a flight. The memory is in runtime/flight.py and compiler/lower/flight.py.
"""
