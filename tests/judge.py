"""Running a script three ways: by the evaluator, on the running kernel, and in the interpreter.

Each gives what the script prints, then its maps; histograms as their buckets. All three must agree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from bpf_kernel import Kernel
from evaluator import Evaluator
from evaluator_json import canonical
from evaluator_text import buckets_text
from sonde.compiler.pipeline import compile_checked
from sonde.compiling import check_source, live_world
from sonde.output import Printer
from sonde.output.json import JsonOutput
from sonde.output.text import TextOutput, element_label
from sonde.runtime.context import LiveContext
from sonde.runtime.maps.aggregates import Histogram
from sonde.runtime.records.events import MapReader
from sonde.runtime.session import Session
from sonde.semantics.script_options import Options
from sonde.semantics.typed import CheckedScript
from sonde.semantics.world import World
from sonde.source import Source
from sonde.spec import ScriptSpec

EVENTS = 3  # how often the probe of a program with events is hit


class _Pieces:
    """What a Stream is to an output, in memory."""

    terminal = False
    buffering = "full"

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.write = self.pieces.append

    def flush(self, end: bool = False) -> None:
        pass


class Capture(TextOutput):
    """The text output, with histograms as their buckets."""

    def __init__(self) -> None:
        self.written = _Pieces()
        super().__init__(self.written, self.written)  # type: ignore[arg-type]

    def write_note(self, message: str) -> None:
        """That a conversion shows 32 bits is said to people; the evaluator compares what it shows."""
        if "shows 32 bits" not in message and "shows 64 bits" not in message:
            raise Unexpected(message)

    def _write_drawings(self, name: str, items: Any, div: int) -> None:
        for key, value in items:
            assert isinstance(value, Histogram)
            shown = buckets_text([(b.low, b.high, b.count) for b in value.buckets if b.count])
            self.written.write(f"{element_label(name, key)}: {shown}\n".encode())

    @property
    def text(self) -> str:
        return b"".join(self.written.pieces).decode("utf-8", "surrogateescape")


def checked(script: str, world: World | None = None, **options: Any) -> CheckedScript:
    """CompileError if the script is wrong."""
    return check_source(Source("stdin", script), Options(**options), world or live_world(), None)


class JsonCapture(JsonOutput):
    """JSON output."""

    def __init__(self) -> None:
        self.written = _Pieces()
        super().__init__(self.written, self.written)  # type: ignore[arg-type]

    def write_note(self, message: str) -> None:
        """That a conversion shows 32 bits is said to people; the evaluator compares what it shows."""
        if "shows 32 bits" not in message and "shows 64 bits" not in message:
            raise Unexpected(message)

    @property
    def text(self) -> str:
        return canonical(b"".join(self.written.pieces).decode())


def wanted(script: CheckedScript, events: int = 0, json: bool = False, **builtins: Any) -> str:
    """What the evaluator says."""
    evaluator = Evaluator(script, builtins, json)
    evaluator.run("begin")
    for _ in range(events):
        if not evaluator.exited:
            evaluator.run("tracepoint")
    evaluator.process()
    evaluator.run("end")
    evaluator.process()
    return "".join(evaluator.output) + evaluator.final_maps()


class Unexpected(AssertionError):
    """Something was lost, or left out."""


def events_of(count: int) -> Callable[[], None]:
    def hit() -> None:
        for _ in range(count):
            os.getppid()
    return hit


def on_kernel(spec: ScriptSpec, hit: Callable[[], object] = lambda: None, json: bool = False) -> str:
    """What the running kernel and the real output make of it; ``hit`` makes the events."""
    out = JsonCapture() if json else Capture()
    with Session(spec) as session:
        session.load()
        context = LiveContext(spec, session.maps)
        try:
            printer = Printer(spec, context, out, MapReader(session.maps, context))
            session.attach()
            hit()
            for batch in session.stop_in_batches():
                _handle(spec, session, printer, batch)
            printer.print_final_maps()
        finally:
            context.close()
        lost = session.losses()
        kinds = {site.kind for site, _ in lost.errors} - {"divide", "index", "no_key"}
        if kinds or lost.records or lost.skipped or session.warnings:
            raise Unexpected(f"{kinds} {lost} {session.warnings}")
    return out.text


def _handle(spec: ScriptSpec, session: Session, printer: Printer, records: Iterable[Any]) -> None:
    for index, buffer, offset in records:
        handler, site = printer.handlers[index], spec.sites[index]
        if handler is not None:
            handler(buffer, offset)
        elif site.kind in ("clear", "zero"):
            found = session.maps[site.data["map"]]
            for each in [found, session.maps[found.spec.short]] if found.spec.short else [found]:
                each.clear() if site.kind == "clear" else each.zero()


def interpreted(spec: ScriptSpec, cpus: int = 2) -> str:
    """What the interpreter and the real output make of a script without events."""
    kernel, out = Kernel(spec, cpus), Capture()
    printer = Printer(spec, kernel.names, out, lambda name, then: _take(kernel, name, then))
    for kind in ("begin", "end"):
        for program in spec.programs:
            if program.attach[0].kind == kind:
                kernel.run(program)
        records, kernel.records = kernel.records, []
        for record in records:
            index = int.from_bytes(record[:4], "little")
            handler, site = printer.handlers[index], spec.sites[index]
            if handler is not None:
                handler(record, 0)
            elif site.kind in ("clear", "zero"):
                _take(kernel, site.data["map"], site.kind)
    printer.print_final_maps()
    return out.text


def _take(kernel: Kernel, name: str, then: str) -> list[tuple[Any, Any]]:
    found, made = list(kernel.map(name).items()), kernel.maps[name]
    if then == "clear" and not made.spec.memory:
        made.elements.clear()
    elif then:
        for region in [r for regions in made.elements.values() for r in regions]:
            region.data[:] = bytes(len(region.data))
    short = kernel.spec.find_map(name).short
    return found + _take(kernel, short, then) if short else found


def compare(script: str, world: World | None = None, json: bool = False, verify: bool = True) -> tuple[str, str]:
    """What the kernel makes of a script, and what it should. ``verify``: the compiler checks its steps too."""
    from fuzz.memory import ADDRESS, PREAMBLE
    from fuzz.programs import EVENT, NAMED
    world = world or live_world()
    if "struct thing" in script:
        script = PREAMBLE + script
    events = EVENTS if EVENT in script else 0
    pid = os.getpid()
    found = checked(script, world, params=[str(pid), str(ADDRESS)],
                    named={name: text for name, text in NAMED.items() if f'getopt("{name}"' in script})
    expected = wanted(found, events, json, pid=pid)
    spec = compile_checked(found, world, None, verify=verify)
    return on_kernel(spec, events_of(events), json), expected


__all__ = ["EVENTS", "Capture", "checked", "compare", "events_of", "interpreted", "on_kernel", "wanted"]
