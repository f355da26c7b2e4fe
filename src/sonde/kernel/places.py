"""Where on this machine things are looked for; the command line may name other places."""

from __future__ import annotations

from ..errors import UsageError

debug_directories = ["/usr/lib/debug"]  # of separate debug files, the first one first
traceable_functions = ""  # a file with functions, as in available_filter_functions, that is read instead of that one


def set_search_places(debug: str, traceable: str) -> None:
    """Debug files in these directories first (divided by colons); the functions that can be traced in this file."""
    global traceable_functions
    debug_directories[:0] = [name.rstrip("/") or "/" for name in debug.split(":") if name]
    if traceable:
        try:
            with open(traceable, "rb"):
                traceable_functions = traceable
        except OSError as error:
            raise UsageError(f"failed to open file '{traceable}': {error.strerror}") from None
