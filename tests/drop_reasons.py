"""What the tools call the reasons for which this kernel drops packets; none is told before Linux 5.17."""

from __future__ import annotations

from sonde.compiling import live_world

TELLS_REASONS = live_world().enum_constant("SKB_DROP_REASON_NO_SOCKET") is not None
NO_SOCKET = "SKB_DROP_REASON_NO_SOCKET" if TELLS_REASONS else "not told"
