"""What a second run finds of the first: the same stacks, without having read the tables again."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

import sonde
from sonde.kernel.foreign.files import ElfFile
from sonde.runtime.stacks import unwind_tables


@pytest.mark.filterwarnings("ignore:Reading how to unwind:RuntimeWarning")  # which says that it takes its time
@pytest.mark.filterwarnings("ignore:stacks through:RuntimeWarning")  # a process of many tests has many libraries
def test_a_second_run_reads_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(unwind_tables, "SLOW", 0.0)
    asked: Counter[str] = Counter()
    read = ElfFile.unwind_rows

    def count_reads(file: ElfFile, first: int) -> tuple[bytes, int] | None:
        asked[file.path] += 1
        return read(file, first)
    monkeypatch.setattr(ElfFile, "unwind_rows", count_reads)
    found, reads = [], []
    for _ in range(2):
        asked.clear()
        with sonde.trace("tracepoint:syscalls:sys_enter_getppid { @[dw_ustack(6)] = count(); @n = len(dw_ustack); }",
                         pid=os.getpid()) as trace:
            os.getppid()
            time.sleep(0.2)
            trace.stop()
        found.append([[frame.name for frame in key.frames] for key, _ in trace.maps["@"].items()])
        reads.append({path: count for path, count in asked.items() if "python" in path or "libc" in path})
    assert found[0] == found[1] and len(found[0][0]) == 6
    assert reads[0] and not reads[1]
