"""Block devices: where different kernel releases keep their disks."""

from __future__ import annotations

from ..compiler.lower.calls import Function

ROWS = (
    Function("request_disk", ("request:ptr",), None, "The disk of a struct request, a struct gendisk pointer.",
             "request_disk((struct request *)arg0)", library="block"),
    Function("bio_disk", ("bio:ptr",), None, "The disk of a struct bio, a struct gendisk pointer.",
             "bio_disk((struct bio *)arg0)", library="block"),
)
