"""What -c leaves to the script: unlike a tool, a script sees the events of all processes, as in bpftrace."""

from __future__ import annotations

from ...kinds import KINDS
from ...language.ast import Binary, Clause, FieldAccess, If, Name, Script, Ternary, While
from ...language.diagnostics import Diagnostics
from ...semantics.nodes import Tree, walk_nodes
from ...semantics.script_options import Options
from ...source import Source
from ...spec import ScriptSpec

# What tells processes apart; and so does a field like args.pid, next_pid or comm.
_OF_PROCESSES = {"pid", "tid", "comm", "ppid", "cpid", "has_cpid", "cgroup", "curtask", "uid", "gid", "username",
                 "container", "pod", "service"}
_FIELDS = ("pid", "tid", "comm", "tgid")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")

REMARK = ("HINT: -c runs the command, and the script sees the events of all processes: /pid == cpid/ keeps to the "
          "command's own")


def command_remark(source: Source, options: Options, spec: ScriptSpec) -> str:
    """The remark about a script that runs beside a command and will show the events of other processes, too; "" if
    nothing of it does: all is narrowed to the command, or the script asks for the process itself."""
    if not options.cpid or options.own_process != options.cpid or options.group or not _hears_others(spec):
        return ""
    from ...language.includes import Files
    from ...language.parser import parse_script
    script = parse_script(source, Diagnostics(), options.params, Files(options.directories, options.headers, ""))
    return "" if asks_for_processes(script) else REMARK


def _hears_others(spec: ScriptSpec) -> bool:
    """Whether a probe fires for all processes: those of user programs and samples are limited to the command's."""
    return any(not point.pid and not KINDS[point.kind].exempt for program in spec.programs for point in program.attach)


def asks_for_processes(script: Script) -> bool:
    """Whether a script decides anything by the process, or names cpid."""
    everything: Tree = [script.clauses, script.macros, script.functions]
    return any(_names_process(condition) for node in walk_nodes(everything) for condition in _conditions(node)) \
        or any(isinstance(node, Name) and node.name in ("cpid", "has_cpid") for node in walk_nodes(everything))


def _conditions(node: object) -> list[Tree]:
    """What a part of a script decides by."""
    if isinstance(node, Clause):
        return [node.predicate] if node.predicate is not None else []
    if isinstance(node, If | While | Ternary):
        return [node.cond]
    return [node] if isinstance(node, Binary) and node.op in _COMPARISONS else []


def _names_process(condition: Tree) -> bool:
    return any(isinstance(node, Name) and node.name in _OF_PROCESSES
               or isinstance(node, FieldAccess) and node.name.endswith(_FIELDS) for node in walk_nodes(condition))
