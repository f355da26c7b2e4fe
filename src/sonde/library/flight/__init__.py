"""The flight recorder (--flight): a script whose records stay in the kernel until something asks for the latest.

``settings`` says how long and how large a flight is, ``condition`` is --when, ``asking`` the socket of ``sonde dump``,
``reading`` a flight's interface for Python programs. What the command line does with one is in cli/flight_run.py and
cli/flight_dumps.py, the memory in runtime/flight and compiler/lower/flight.py.
"""
