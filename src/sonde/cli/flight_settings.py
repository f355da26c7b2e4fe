"""The settings in --flight and its related options."""

from __future__ import annotations

import os

from ..base.record import Record
from ..errors import UsageError
from ..library.flight.settings import parse_flight
from .options import Parsed

MOST_DUMPS = 16  # dumps that stay in a folder
FORMATS = {"text": "txt", "json": "json", "recording": "sonde"}  # and how their files end
_GROUNDED = ("export", "cost", "flame", "fleet", "diff", "overhead", "check")


class Settings(Record):
    """``window`` is how far back a dump goes, in ns; ``region`` the bytes for each CPU, a power of two; ``folder`` is
    for dumps as files, "" if they are printed; ``form`` is their format."""

    window: int
    region: int
    folder: str
    form: str
    name: str


def settings_of(parsed: Parsed) -> Settings:
    """The settings of a command line with --flight. UsageError for what makes no sense."""
    window, region = parse_flight(parsed.get("flight"))
    form, folder = parsed.get("format", "text"), parsed.get("flight-to")
    if form not in FORMATS:
        raise UsageError(f"--flight gives out {', '.join(FORMATS)}, not {form}",
                         ["-f recording --flight-to DIR makes recordings, which sonde replay shows in any form"])
    if form == "recording" and not folder:
        raise UsageError("recordings of a flight need a folder: --flight-to DIR")
    if folder and parsed.has("output"):
        raise UsageError("dumps go to one place: -o FILE or --flight-to DIR")
    for name in ("record", "count", "redraw", "test", "bench", "mode", "events"):
        if parsed.has(name):
            raise UsageError(f"--flight and --{name} exclude each other")
    if parsed.command or parsed.first in _GROUNDED:
        raise UsageError(f"sonde {parsed.command or parsed.first} lives by what comes; with --flight nothing comes "
                         "until a dump is asked for")
    return Settings(window, region, folder, form, flight_name(parsed))


def flight_name(parsed: Parsed) -> str:
    """A flight's name: its tool, or its script's file without the extension, or "sonde"."""
    word = parsed.tool or (os.path.basename(parsed.words[0]) if parsed.words and not parsed.has("e") else "")
    name = "".join([c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in word.removesuffix(".bt")])
    return name[:40] or "sonde"
