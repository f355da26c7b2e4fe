"""Whether a script tells processes apart."""

from __future__ import annotations

from ..language.ast import Binary, Clause, FieldAccess, If, Name, Script, Ternary, While
from .nodes import Tree, walk_nodes

# What tells processes apart; and so does a field like args.pid, next_pid or comm.
_OF_PROCESSES = {"pid", "tid", "comm", "ppid", "cpid", "has_cpid", "cgroup", "curtask", "uid", "gid", "username",
                 "container", "pod", "service"}
_FIELDS = ("pid", "tid", "comm", "tgid")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


def asks_for_processes(script: Script) -> bool:
    """Whether a script, as it was parsed, decides anything by the process, or names cpid."""
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
