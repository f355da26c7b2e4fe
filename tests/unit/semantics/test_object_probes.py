"""Watchpoints and iterators: how they are written, and what is said when they cannot be."""

from __future__ import annotations

import pytest

from sonde.errors import CompileError
from sonde.types import UINT64, VOID, Struct
from unit.fake_world import STRUCTS, TASK, FakeWorld, check_text, kernel, struct

META = kernel(VOID)
ITERATORS = {
    "bpf_iter__task": struct("bpf_iter__task", {"meta": META, "task": kernel(TASK)}),
    "bpf_iter__task_file": struct("bpf_iter__task_file", {"meta": META, "task": kernel(TASK), "fd": UINT64}),
    "bpf_iter__sockmap": struct("bpf_iter__sockmap", {"meta": META}),
    "bpf_iter__task__safe_trusted": struct("bpf_iter__task__safe_trusted", {"meta": META}),
}


class World(FakeWorld):
    """With iterators."""

    def find_struct(self, name: str, union: bool = False) -> Struct | None:
        return ITERATORS.get(name) or super().find_struct(name, union)

    def struct_names(self) -> list[str]:
        return [*STRUCTS, *ITERATORS]

    def kfunc_id(self, name: str) -> int:
        return {"bpf_iter_task": 5, "bpf_iter_task_file": 6, "bpf_iter_sockmap": 7}.get(name, 0)


def message(text: str, **options: int) -> str:
    with pytest.raises(CompileError) as caught:
        check_text(text, World(), **options)
    return "\n".join(part for d in caught.value.diagnostics for part in (d.message, *d.hints))


@pytest.mark.parametrize(("text", "address", "length", "mode", "pid"), [
    ("watchpoint:0x10000000:8:rw", 0x10000000, 8, 3, 0), ("w:4096:1:w", 4096, 1, 2, 0),
    ("watchpoint:_text:8:x", 0xFFFFFFFF81000000, 8, 4, 0), ("watchpoint:0x1001:8:x", 0x1001, 8, 4, 0),
    ("watchpoint:0x1001:1:x", 0x1001, 8, 4, 0), ("watchpoint:counter:4:wr", 0x601040, 4, 3, 77),
])
def test_watchpoints(text: str, address: int, length: int, mode: int, pid: int) -> None:
    [point] = check_text(text + " { @ = comm; }", World(), pid=pid).probes[0].attach
    assert (point.offset, point.detail.values(), point.pid) == (address, (length, mode), pid)


@pytest.mark.parametrize(("text", "why"), [
    ("watchpoint:0x1000:3:w { }", "one of (1,2,4,8)"), ("watchpoint:0x1001:8:w { }", "not a multiple"),
    ("watchpoint:0x1000:8:wx { }", "x stands alone"),
    ("watchpoint:0x1000:8:r { }", "watchpoint mode: r"), ("watchpoint:0x1000:8:ww { }", "may not be duplicated"),
    ("watchpoint:0x1000:8 { }", "write watchpoint:address:length:mode"),
    ("watchpoint:nosuch:8:w { }", "the kernel has no symbol 'nosuch'"),
    ("iter:taks { }", "did you mean iter:task"), ("iter:sockmap { }", "iter sockmap not available"),
    ("iter:task:name:more { }", "write iter:kind or iter:kind:pin"),
    ('iter:task:"a/" { }', "a pin is a file's name"), ("iter:task { } interval:s:1 { }", "cannot be mixed"),
    ("iter:task:name { print(1); }", "print() has no effect in a pinned iterator"),
    ("iter:task { @ = ctx.nosuch; }", "task"),
])
def test_why_not(text: str, why: str) -> None:
    assert why in message(text)


def test_iterators() -> None:
    checked = check_text("iter:task { @ = ctx.task.pid; @t = ctx->task->tgid; } begin { }", World())
    assert checked.probes[0].attach[0].detail.values()[:2] == (5, "vmlinux")


@pytest.mark.parametrize(("text", "path"), [
    ("iter:task:list { printf(\"x\"); }", "/sys/fs/bpf/list"), ('iter:task:"/bpf/list" { }', "/bpf/list")])
def test_pins(text: str, path: str) -> None:
    [point] = [a for p in check_text(text, World()).probes for a in p.attach]
    assert point.pin == path and point.event == "task"


def test_iterators_of_a_process() -> None:
    world = World()
    world.find_struct = lambda name, union=False: struct(name, {"meta": META})  # type: ignore[method-assign]
    with pytest.raises(CompileError) as caught:
        check_text("iter:task { }", world, pid=5)
    assert "belong to no process" in caught.value.diagnostics[0].message
