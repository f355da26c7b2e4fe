"""``-f lines``: weights beside the lines of the source, in each form."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from decoding import Names
from sonde import types as t
from sonde.errors import UsageError
from sonde.output.views import Target
from sonde.output.views.line_work import NATIVE, OWN, SYSTEM, find_work
from sonde.runtime.records.source_text import SourceText
from sonde.runtime.records.values import StackFrame, StackTrace
from viewing import HOSTILE, Run, map_of, printing, script

PYSTACK, USTACK, KSTACK = t.Stack(user=True, mode=t.PYTHON), t.Stack(user=True), t.Stack()
COUNT = t.Aggregate("count")
SAMPLES = map_of("@samples", t.Tuple((PYSTACK, USTACK, KSTACK)), COUNT)
SHOP, LIB, LOOP, LIBC = "/srv/shop.py", "/lib/libz.so.1", "/usr/bin/python3.12", "/lib/libc.so.6"


class Sources(Names):
    """Stacks by their ids: of Python, native and the kernel's; and one source file."""

    stacks = {1: ((11, SHOP), (21, SHOP)), 2: ((11, SHOP), (11, SHOP), (21, SHOP)), 3: ((5, "<string>"), (21, SHOP)),
              10: ((LOOP, "_PyEval_EvalFrameDefault"),), 11: ((LIB, "deflate"), (LOOP, "_PyEval_EvalFrameDefault")),
              12: ((LIBC, "memcpy"), (LOOP, "bytes_concat"), (LOOP, "_PyEval_EvalFrameDefault")),
              20: (("", "vfs_read"), ("", "__x64_sys_read"), ("", "do_syscall_64"))}
    text = SourceText([f"line {number}" if number != 11 else HOSTILE for number in range(1, 31)], True)

    def stack_frames(self, stack: int) -> list[int]:
        return [stack * 100 + at for at in range(len(self.stacks.get(stack, ())))]

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        first, second = self.stacks[address // 100][address % 100]
        return ("function", first, second) if isinstance(first, int) else (second, 0, first)

    def ksym(self, address: int) -> tuple[str, int] | None:
        return self.stacks[address // 100][address % 100][1], 0

    def source_text(self, file: str, tgid: int) -> SourceText | None:
        return self.text if file == SHOP else SourceText([], False, "no file")


def key(python: int, native: int = 10, kernel: int = 0) -> tuple[StackTrace, ...]:
    names: Any = Sources()
    return tuple(StackTrace(type, id, 7, len(Sources.stacks.get(id, ())), names)
                 for type, id in ((PYSTACK, python), (USTACK, native), (KSTACK, kernel)))


def shown(form: str, source: str = "", memory: int = 1 << 20) -> str:
    run = Run("lines", script(SAMPLES), Target(form=form, source=source, unit="samples", memory=memory))
    run.view.add_map(SAMPLES, [(key(1), 60), (key(2, 11), 20)], 0, "clear")
    run.view.add_map(SAMPLES, [(key(3, 10, 20), 15), (key(1, 12), 5), (key(0, 11), 4)], 0, "final")
    return run.finish()


def test_text_has_hot_lines_with_their_source() -> None:
    text = shown("text")
    first, _, rest = text.partition("\n\n")
    head, remark, titles, *rows = first.splitlines()
    assert head == f"{SHOP}: 85.0% itself, 100.0% with what it calls" and "changed after the process began" in remark
    assert titles.split() == ["TOTAL%", "SELF%", "NATIVE%", "KERNEL%", "SAMPLES", "LINE", "SOURCE"]
    assert [row.split()[0] for row in rows] == ["9", "10", "85.0", "20.0", "5.0", "12", "13", "...", "19", "20",
                                                "100.0", "22", "23"]
    assert rows[2].split()[:5] == ["85.0", "85.0", "20.0", "85", "11"] and "\\x1b[2J" in rows[2]
    assert rows[3].split() == ["20.0", "deflate", "(libz.so.1)"]
    assert rest.startswith("<string>: 15.0% itself") and "not read: no file" in rest and "read()" in rest
    assert text.endswith("100 samples in Python functions\n"
                         "4 samples without Python functions: 4 in deflate (libz.so.1)\n")
    assert "\x1b" not in text


def test_a_whole_file() -> None:
    text = shown("text", "shop.py")
    assert "<string>" not in text and len([line for line in text.splitlines() if "line " in line]) == 29
    assert "nothing ran in a file other.py" in shown("text", "other.py")


def test_json_csv_and_html() -> None:
    data = json.loads(shown("json"))["data"]
    shop, string = data["files"]
    assert (data["total"], data["without_python"], shop["changed"]) == (100, {"deflate (libz.so.1)": 4}, True)
    assert [(line["line"], line["total"], line["self"], line[NATIVE], line[SYSTEM]) for line in shop["lines"]] == [
        (11, 85, 85, 20, 0), (21, 100, 0, 0, 0)]
    assert string["lines"][0][SYSTEM] == 15 and string["problem"] == "no file"
    rows = list(csv.DictReader(line for line in io.StringIO(shown("csv")) if line[0] != "#"))
    assert [(row["file"], row["line"], row["self"], row["python"]) for row in rows] == [
        (SHOP, "11", "85", "65"), (SHOP, "21", "0", "0"), ("<string>", "5", "15", "0")]
    page = shown("html")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page and "deflate (libz.so.1)" in page


def test_what_has_no_room_is_counted() -> None:
    text = shown("text", memory=1000)
    assert "100 samples left out for want of room" in text
    assert "there is no room for it: see --memory" in shown("text", memory=4000)


def test_looks_at_a_map_count_once() -> None:
    run = Run("lines", script(SAMPLES, sites=[printing(SAMPLES)]), Target(form="json"))
    for count in (1, 5):
        run.view.add_map(SAMPLES, [(key(1), count)], 0, "")
    run.view.on_map_cleared(SAMPLES)
    run.view.add_map(SAMPLES, [(key(1), 2)], 0, "")
    assert json.loads(run.finish())["data"]["total"] == 7
    with pytest.raises(UsageError, match="not as svg"):
        Run("lines", script(SAMPLES), Target(form="svg"))


@pytest.mark.parametrize(("native", "kernel", "work"), [
    ([], [], (OWN, "")),
    ([("long_add", LOOP)], [], (OWN, "long_add (python3.12)")),
    ([("memcpy", LIBC), ("bytes_concat", LOOP)], [], (OWN, "memcpy (libc.so.6)")),
    ([("", LIB)], [], (NATIVE, "[libz.so.1]")),
    ([("", "")], [], (NATIVE, "[code made at run time]")),
    ([("malloc", LIBC), ("deflateInit", LIB)], [], (NATIVE, "malloc (libc.so.6)")),
    ([("", LIB)], ["clear_page", "asm_exc_page_fault"], (SYSTEM, "page fault")),
    ([], ["vfs_read", "ksys_read", "do_syscall_64"], (SYSTEM, "read()")),
    ([], ["tick", "asm_sysvec_apic_timer_interrupt"], (SYSTEM, "interrupt")),
])
def test_what_a_line_did(native: list[tuple[str, str]], kernel: list[str], work: tuple[str, str]) -> None:
    class Kernel(StackTrace):
        frames = [StackFrame(0, name, 0) for name in kernel]  # type: ignore[assignment]
    stacks = [Kernel(KSTACK, 1, 0, len(kernel), Names())] if kernel else []
    assert find_work([StackFrame(0, name, 0, file) for name, file in native], stacks) == work


def test_each_map_by_itself() -> None:
    other = map_of("@bytes", PYSTACK, t.Aggregate("sum"))
    for form, expected in (("text", ["@samples\n\n/srv/shop.py", "\n@bytes\n\n/srv/shop.py: 100.0%", "4096 B in"]),
                           ("csv", ["table,file,line", "@bytes,/srv/shop.py,11,4096,4096,,,,1"]),
                           ("html", ["<h2>@samples", "<h2>@bytes"])):
        run = Run("lines", script(SAMPLES, other), Target(form=form))
        run.view.add_map(SAMPLES, [(key(1), 3)], 0, "final")
        run.view.add_map(other, [(key(1)[0], 4096)], 0, "final")
        text = run.finish()
        assert all(part in text for part in expected), text
