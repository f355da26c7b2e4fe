"""What a second run finds of the first: the same stacks, without having read the tables again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import sonde
from sonde.kernel.foreign.files import ElfFile
from sonde.runtime.stacks import unwind_tables


@pytest.mark.filterwarnings("ignore:Reading how to unwind:RuntimeWarning")  # which says that it takes its time
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
    script = "tracepoint:syscalls:sys_enter_getppid { @[dw_ustack(6)] = count(); @n = len(dw_ustack); }"
    program = [sys.executable, "-c", "import os, sys\nfor line in sys.stdin: print(os.getppid(), flush=True)"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin and child.stdout
        for _ in range(2):
            asked.clear()
            child.stdin.write("\n")  # which loads what it needs
            child.stdin.flush()
            child.stdout.readline()
            with sonde.trace(script, pid=child.pid) as trace:
                child.stdin.write("\n")
                child.stdin.flush()
                child.stdout.readline()
                trace.stop()
            found.append([[frame.name for frame in key.frames] for key, _ in trace.maps["@"].items()])
            reads.append({path: count for path, count in asked.items() if "python" in path or "libc" in path})
        child.stdin.close()
    assert found[0] == found[1] and len(found[0][0]) == 6
    assert reads[0] and not reads[1]
