"""Small specs made by hand, so that the runtime can be tested without the compiler."""

from __future__ import annotations

from typing import Any

from sonde.asm import insn
from sonde.asm.assemble import Item, assemble
from sonde.layouts.event_records import CONTROL_HEADER, CONTROL_RING, DATA_RING, RECORD_HEADER
from sonde.layouts.shared_maps import STATE
from sonde.layouts.uapi import BPF_RB_PROD_POS, HELPERS
from sonde.spec import Attach, Config, EventField, EventSite, MapSpec, ProgramSpec, ScriptSpec
from sonde.types import UINT64, Aggregate

SEQUENCE = "__sequence"  # memory map of one word: numbers the events


def count(map_name: str, offset: int = 0) -> list[Item]:
    """One word of memory grows by one; r0 = what it was before."""
    return [insn.map_value(1, map_name, offset), insn.alu("mov", 0, imm=1),
            insn.atomic_exchange("fetch_add", 1, 0, 0, 8)]


def only_process(pid: int) -> list[Item]:
    """Leave unless the current process is ``pid``."""
    return [insn.call_helper(HELPERS["get_current_pid_tgid"]), insn.alu("rsh", 0, imm=32),
            insn.branch("jne", 0, None, pid, "out")]


def only_system_call(number: int) -> list[Item]:
    """In sys_enter: leave unless it is this system call. Keeps the context in r9."""
    return [insn.alu("mov", 9, 1), insn.load(2, 1, 8, 8), insn.branch("jne", 2, None, number, "out")]


def emit(site: int, probe: int = 0, control: bool = False, payload: int | None = None,
         timed: bool = True) -> list[Item]:
    """Send a record of one u64: r8, or ``payload``. Lost ones are counted under ``probe``."""
    header = CONTROL_HEADER if control else RECORD_HEADER
    lost, sent = f"lost{site}", f"sent{site}"
    code: list[Item] = [insn.alu("mov", 8, imm=payload)] if payload is not None else []
    code += [insn.call_helper(HELPERS["ktime_get_boot_ns"]) if timed else insn.alu("mov", 0, imm=0),
             insn.alu("mov", 7, 0)]
    if control:
        code += [insn.map_fd(1, DATA_RING), insn.alu("mov", 2, imm=BPF_RB_PROD_POS),
                 insn.call_helper(HELPERS["ringbuf_query"]), insn.store(10, -8, 0, 8)]
    code += [insn.map_fd(1, CONTROL_RING if control else DATA_RING), insn.alu("mov", 2, imm=header + 8),
             insn.alu("mov", 3, imm=0), insn.call_helper(HELPERS["ringbuf_reserve"]),
             insn.branch("jeq", 0, None, 0, lost),
             insn.store_imm(0, 0, site, 4), insn.store_imm(0, 4, probe, 4), insn.store(0, 8, 7, 8)]
    if control:
        code += [insn.load(1, 10, -8, 8), insn.store(0, 16, 1, 8)]
    code += [insn.store(0, header, 8, 8), insn.alu("mov", 1, 0), insn.alu("mov", 2, imm=0),
             insn.call_helper(HELPERS["ringbuf_submit"]), insn.jump(sent), lost, *count(STATE, 8 * probe), sent]
    return code


def program(name: str, attach: list[Attach], code: list[Item], type: str = "raw_tracepoint", first_probe: int = 0,
            **more: Any) -> ProgramSpec:
    """A program that ends with the label ``out``."""
    done = assemble([*code, "out", insn.alu("mov", 0, imm=0), insn.exit_()])
    return ProgramSpec(name, type, done.code, attach, done.relocations, done.lines, first_probe=first_probe, **more)


def memory(name: str, value: Any = UINT64, cpus: int = 1, **more: Any) -> MapSpec:
    """A keyless map."""
    stride = value.size
    return MapSpec(name, "array", 4, cpus * stride, 1, value=value, memory=True, cpus=cpus, stride=stride, **more)


def script(programs: list[ProgramSpec], maps: list[MapSpec] | None = None, ring: int = 0,
           names: list[str] | None = None, **config: Any) -> ScriptSpec:
    """A script with both rings, state, the sequence, and sites: 0 and 1 print a u64, 2 exit, 3 print_map."""
    probes = [point.name for p in programs for point in p.attach]
    names = names or []
    field = EventField(UINT64, RECORD_HEADER)
    status = EventField(UINT64, CONTROL_HEADER)
    state = MapSpec(STATE, "array", 4, 8 * (len(probes) + len(names)), 1, memory=True, stride=8)
    rings = [MapSpec(DATA_RING, "ringbuf", 0, 0, ring), MapSpec(CONTROL_RING, "ringbuf", 0, 0, 0)]
    return ScriptSpec(
        programs=programs, maps=[state, *rings, memory(SEQUENCE), *(maps or [])],
        sites=[EventSite("print", None, [field], 24), EventSite("print", None, [field], 24),
               EventSite("exit", None, [status], 32), EventSite("print_map", None, [status], 32, data={"map": "@"})],
        errors=[], probes=probes, globals=names, config=Config(**config))


COUNT = Aggregate("count")
