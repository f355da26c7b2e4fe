"""The constants of the headers of Linux's interface to programs (``EV_KEY`` of <linux/input-event-codes.h>).

They are in a file beside this one, which ``scripts/gen_constants.py`` writes. It is read when a script has a name that
nothing else knows.
"""

from __future__ import annotations

from os.path import join

from ..base.fast_stdlib import cache
from ..base.package_files import FOLDER, read_shipped
from ..types import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .world import World

FILE = join(FOLDER, "semantics", "constants.z")


@cache
def _known() -> dict[str, dict[str, int]]:
    return unpack_constants(read_shipped(FILE))


def header_constant(name: str, includes: Sequence[str], world: World) -> int | None:
    """The number behind a name, by the header that a script includes. Without one, a name in capitals that is the same
    in every header that has it."""
    if name == "MAX_SKB_FRAGS":  # as this kernel was configured
        shared = world.find_struct("skb_shared_info", False)
        frags = None if shared is None else shared.field("frags")
        return frags.type.count if frags is not None and isinstance(frags.type, Array) else None
    if not any(letter.isupper() for letter in name):
        return None
    headers = [header for header, values in _known().items() if name in values]
    included = [header for header in headers if header in includes]
    values = {_known()[header][name] for header in included[-1:] or headers}
    return values.pop() if len(values) == 1 and (included or name.isupper()) else None


def pack_constants(headers: dict[str, dict[str, int]]) -> bytes:
    """Headers, each a line, with its constants as lines of: how many letters the name shares with the one before (a
    letter from "A" on), the rest of it, and the value, if it is not one more than the one before ("*": twice as much).
    """
    lines = []
    for header, values in headers.items():
        lines.append(f">{header}")
        before, last = "", -1
        for name, value in values.items():
            shared = next((n for n, (a, b) in enumerate(zip(name, before)) if a != b), min(len(name), len(before)))
            shared = min(shared, 60)
            step = "" if value == last + 1 else " *" if value == 2 * last else f" {value}"
            lines.append(f"{chr(65 + shared)}{name[shared:]}{step}")
            before, last = name, value
    import zlib
    return zlib.compress("\n".join(lines).encode(), 9)


def unpack_constants(data: bytes) -> dict[str, dict[str, int]]:
    """The constants of each header."""
    import zlib
    headers: dict[str, dict[str, int]] = {}
    values: dict[str, int] = {}
    name, last = "", -1
    for line in zlib.decompress(data).decode().split("\n"):
        if line[0] == ">":
            values = headers[line[1:]] = {}
            name, last = "", -1
            continue
        rest, _, written = line[1:].partition(" ")
        name = name[:ord(line[0]) - 65] + rest
        last = values[name] = 2 * last if written == "*" else int(written) if written else last + 1
    return headers
