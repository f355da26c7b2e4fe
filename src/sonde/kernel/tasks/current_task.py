"""Where each CPU keeps the pointer to its current task, so that programs can load it instead of calling a helper.

A program's first call costs some 18 ns on CPUs that guard their return predictors; a load costs two. It is a per-CPU
variable (on x86_64 ``current_task``; from Linux 6.2 to 6.14 ``pcpu_hot`` has it), and BTF gives its distance from
``runqueues``. A task's scheduling entity leads to the run queue of its CPU. So a program that is run on each CPU finds
the address, compares its contents with the helper's answer, and only then stores the address.
"""

from __future__ import annotations

from ...arch import this_arch
from ...asm import insn
from ...asm.assemble import assemble
from ...asm.relax import Item
from ...base.record import Record
from ...btf import codec
from ...layouts import uapi
from ...spec import Locator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...btf.query import Btf

_TABLE = "table"
_WALK = (("task_struct", "se"), ("sched_entity", "cfs_rq"), ("cfs_rq", "rq"))


class Variables(Record):
    """What a program needs to know to find the variable: ids in BTF, and offsets."""

    cast: int      # bpf_rdonly_cast()
    task: int      # struct task_struct
    number: int    # a struct that begins with a number of 64 bits
    queue: int     # of the pointer to a group's run queue in a task
    owner: int     # of the pointer to the CPU's run queue in that
    distance: int  # of the variable from the CPU's run queue


def find_variables(btf: Btf) -> Variables | None:
    """The variables; None if this kernel keeps them some other way."""
    names = this_arch().current_task
    offsets = _percpu_offsets(btf, (*names, "runqueues"))
    entity, queue, owner = [_member_offset(btf, name, member) for name, member in _WALK]
    cast, number = btf.find_id("bpf_rdonly_cast", codec.FUNC), btf.find_id("timespec64", codec.STRUCT)
    current = next((offsets[name] + _offset_inside(btf, name) for name in names if name in offsets), None)
    if entity is None or queue is None or owner is None or current is None or "runqueues" not in offsets \
            or not cast or not number:
        return None
    return Variables(cast, btf.find_id("task_struct", codec.STRUCT), number, entity + queue, owner,
                     current - offsets["runqueues"])


def _member_offset(btf: Btf, struct: str, member: str) -> int | None:
    number = btf.find_id(struct, codec.STRUCT)
    members = btf.members(btf.raw_type(number)) if number else []
    return next((bits // 8 for name, _, bits, _ in members if name == member), None)


def _offset_inside(btf: Btf, variable: str) -> int:
    """Where the pointer is in a variable, which is the pointer itself or a struct with the variable's name."""
    struct = btf.find_struct(variable)
    pointer = struct.field("current_task") if struct is not None else None
    return pointer.offset if pointer is not None else 0


def _percpu_offsets(btf: Btf, names: tuple[str, ...]) -> dict[str, int]:
    """The offsets of per-CPU variables in their section."""
    ids = {btf.find_id(name, codec.VAR): name for name in names}
    section = btf.find_id(".data..percpu", codec.DATASEC)
    if not section:
        return {}
    raw = btf.raw_type(section)
    return {ids[var]: offset for var, offset, _ in btf.read_elements(raw, codec.TRIPLE, raw.vlen) if var in ids and var}


def locating_code(variables: Variables, cpus: int) -> list[Item]:
    """A program that writes the address into word number CPU of the map ``table``, of a power of two of ``cpus``."""
    return [
        insn.call_helper(uapi.HELPERS["get_current_task"]), insn.alu("mov", 6, 0),
        insn.alu("mov", 1, 0), insn.alu("mov", 2, imm=variables.task), insn.call_kfunc(variables.cast),
        insn.load(7, 0, variables.queue, 8), insn.load(7, 7, variables.owner, 8),
        insn.alu("add", 7, imm=variables.distance),
        insn.alu("mov", 1, 7), insn.alu("mov", 2, imm=variables.number), insn.call_kfunc(variables.cast),
        insn.load(1, 0, 0, 8), insn.branch("jne", 1, 6, 0, "out"),
        insn.call_helper(uapi.HELPERS["get_smp_processor_id"]), insn.alu("and", 0, imm=cpus - 1),
        insn.alu("lsh", 0, imm=3), insn.map_value(1, _TABLE, 0), insn.alu("add", 1, 0), insn.store(1, 0, 7, 8),
        "out", insn.alu("mov", 0, imm=0), insn.exit_()]


def make_locator(btf: Btf, cpus: int) -> Locator | None:
    """That program; None if this kernel keeps the variables some other way."""
    variables = find_variables(btf)
    if variables is None:
        return None
    made = assemble(locating_code(variables, cpus))
    return Locator(made.code, [relocation.index for relocation in made.relocations])


def locator_of_kernel(cpus: int) -> Locator | None:
    """The same for the running kernel."""
    from ...btf.query import open_kernel
    return make_locator(open_kernel(), cpus)
