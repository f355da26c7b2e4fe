"""What -c leaves to the script: unlike a tool, a script sees the events of all processes, as in bpftrace."""

from __future__ import annotations

from ...kinds import KINDS
from ...semantics.script_options import Options
from ...spec import ScriptSpec

REMARK = ("HINT: -c runs the command, and the script sees the events of all processes: /pid == cpid/ keeps to the "
          "command's own")


def command_remark(options: Options, spec: ScriptSpec) -> str:
    """The remark about a script that runs beside a command and will show the events of other processes, too; "" if
    nothing of it does: all is narrowed to the command, or the script asks for the process itself."""
    narrowed = options.own_process != options.cpid or options.group or spec.asks_for_processes
    return REMARK if options.cpid and not narrowed and _hears_others(spec) else ""


def _hears_others(spec: ScriptSpec) -> bool:
    """Whether a probe fires for all processes: those of user programs and samples are limited to the command's."""
    return any(not point.pid and not KINDS[point.kind].exempt for program in spec.programs for point in program.attach)
