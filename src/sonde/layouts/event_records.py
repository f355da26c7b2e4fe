"""Event records, in both rings and in flight memory, in native byte order::

    u32 site       index into ScriptSpec.sites
    u32 probe      index into ScriptSpec.probes of the attach point that fired (0 if not known)
    u64 time       boot-clock nanoseconds that order the record; 0 = "right after the record before it"
    u64 position   control ring only: the data ring's producer position when the record was made
    ...            the site's fields at their offsets (from the start of the record)
"""

from __future__ import annotations

from struct import Struct as Layout

DATA_RING, CONTROL_RING = "__data", "__control"
SITE, PROBE, TIME, POSITION = 0, 4, 8, 16  # offsets
RECORD_HEADER, CONTROL_HEADER = 16, 24
MOST_FIXED = 64  # bytes of a text or buffer up to which sending all of it costs less than measuring it

HEADER = "=IIQ"  # site, probe, time
read_header = Layout(HEADER).unpack_from  # (buffer, offset of a record) -> (site, probe, time)
_probe_at, _time_at, _position_at = [Layout(f"={at}x{code}").unpack_from
                                     for at, code in ((PROBE, "I"), (TIME, "Q"), (POSITION, "Q"))]


def read_probe(buffer: bytes, offset: int) -> int:
    """The index of the attach point that made the record at ``offset``."""
    number: int = _probe_at(buffer, offset)[0]
    return number


def read_time(buffer: bytes, offset: int) -> int:
    """When that was, in nanoseconds of the boot clock; 0 if the record does not say."""
    time: int = _time_at(buffer, offset)[0]
    return time


def read_position(buffer: bytes, offset: int) -> int:
    """The data ring's producer position at which a control record was made."""
    position: int = _position_at(buffer, offset)[0]
    return position
