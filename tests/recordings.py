"""Recordings made without a kernel, for tests of what reads them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sonde.recording.container import BlockWriter, read_blocks
from sonde.recording.layouts import plain_spec
from sonde.recording.recorder import Recorder
from sonde.recording.snapshots import MapSnapshot
from sonde.runtime.maps.access import RawItem
from sonde.spec import ScriptSpec

BOOT = 1_700_000_000_000_000_000
RUN = {"command": "sonde test", "host": "here", "kernel": "6.18", "started": BOOT, "seconds": 1.5, "lost": []}
LOSSES = {"records": [], "errors": [], "skipped": [], "late": 0, "short": 0, "unseen": 0, "withheld": None}


def head(spec: ScriptSpec, **facts: Any) -> dict[str, Any]:
    """What is at the head of a recording of ``spec``."""
    return {"byteorder": sys.byteorder, "clocks": {"boot": BOOT, "monotonic": BOOT, "tai": BOOT}, "time": 1000,
            "zone": ["UTC", 0], "host": "here", "kernel": "6.18", "machine": "x86_64", "cpus": 2, "attached": 1,
            "missing": [], "warnings": [], "tool": "", "columns": [], "title": "", "unit": "", "command": [],
            "spec": plain_spec(spec)} | facts


def write_recording(path: Path, spec: ScriptSpec, records: Iterable[tuple[int, bytes]],
                    final: Mapping[str, list[RawItem]] | None = None, names: Iterable[tuple[str, Any, Any]] = (),
                    **facts: Any) -> Path:
    """A recording of ``records``, (site, bytes) each, and of what the maps held at the end."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        recorder = Recorder(descriptor, spec)
        recorder.write_json(b"HEAD", head(spec, **facts))
        for question, asked, answer in names:
            recorder.tell_name(question, asked, answer)
        for site, record in records:
            recorder.add_records(site, [record])
        recorder.flush()
        for named in [m for m in spec.maps if m.name.startswith("@")]:
            recorder.attach_snapshot(named.name, MapSnapshot((final or {}).get(named.name, [])))
        recorder.write_json(b"LOOK", {"why": "final", "time": 10**12})
        recorder.write_json(b"END ", {"losses": LOSSES, "run": RUN, "reason": "exit", "status": 0, "time": 10**12,
                                      "left_out": 0})
    finally:
        os.close(descriptor)
    return path


def blocks_of(path: Path) -> list[tuple[bytes, bytes]]:
    return list(read_blocks(io.BytesIO(path.read_bytes()), "x"))


def write_blocks(path: Path, blocks: list[tuple[bytes, bytes]]) -> Path:
    """A file whose checksums are right, whatever is in it."""
    with open(path, "wb") as file:
        writer = BlockWriter(file.fileno())
        for tag, data in blocks:
            writer.write_block(tag, data)
    return path
