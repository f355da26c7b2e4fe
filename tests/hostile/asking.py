"""Runs beside the tests, as a process of its own: asks Sonde about files and says what that took, as JSON.

``asking.py QUESTION PATH``: the answer for a hostile file, then that for an ordinary one; CPU seconds and MiB of memory
at its peak, of the tracer and its reader together.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sonde.errors import MachineError
from sonde.kernel import notices
from sonde.kernel.foreign import files, readable_names, reader
from sonde.kernel.names.user_symbols import symbol_in

BASE, TEXT = 0x401000, 0x1000
QUESTIONS = {
    "symbol": lambda path: symbol_in(files.open_elf(path), TEXT + 4, path).name,
    "name": lambda path: (readable_names.demangle([symbol_in(files.open_elf(path), TEXT + 4, path).name],
                                                  path) or [""])[0],
    "functions": lambda path: len(files.open_elf(path).functions()),
    "object": lambda path: files.open_elf(path).find_object("nosuch"),
    "rows": lambda path: (files.open_elf(path).unwind_rows(0) or (b"", 0))[1] == 0,
    "needed": lambda path: files.open_elf(path).needed(),
    "frame": lambda path: files.open_elf(path).frame_row(BASE + 8) is not None,
    "places": lambda path: files.open_elf(path).code_places(BASE + 8),
    "prototype": lambda path: "; ".join(p.declarations)
    if not (p := files.open_elf(path).function_prototype(TEXT)).problem
    else p.problem,
    "probes": lambda path: [[p.name, [a.kind for a in p.arguments]] for p in files.open_elf(path).usdt_probes()],
}


def ask(question: str, path: str) -> Any:
    try:
        return QUESTIONS[question](path)
    except MachineError as problem:
        return f"MachineError: {problem.message}"


def used() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Watch(threading.Thread):
    """Looks at the peak of the reader's memory until it is stopped: what a process inherits is not in it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.stopped = 0, False

    def run(self) -> None:
        while not self.stopped:
            self.peak = max(self.peak, *[peak_of(str(known._pid)) for known in reader._shared], 0)
            time.sleep(0.001)


def peak_of(process: str) -> int:
    """KiB."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def main() -> None:
    question, path = sys.argv[1:3]
    told: list[str] = []
    notices.tell = told.append
    watch = Watch()
    watch.start()
    begin, moment = used(), time.monotonic()
    answer = ask(question, path)
    took = time.monotonic() - moment
    files.release_files()  # so that what the reader used is counted
    seconds = used() - begin
    watch.stopped = True
    watch.join()
    memory = watch.peak + peak_of("self") >> 10
    again = ask(question, path)
    ordinary = symbol_in(files.open_elf(sys.argv[3]), TEXT + 4, "").name
    files.release_files()
    print(json.dumps({"answer": answer, "seconds": seconds, "took": took, "memory": memory, "again": again,
                      "ordinary": ordinary, "told": told}))


main()
