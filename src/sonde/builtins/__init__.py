"""The builtins of the language, one family per file: a builtin's row, the rule for its type, and its lowering."""

from __future__ import annotations

from ..base import regex_cache
from ..base.lazy_rows import FamilyTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..compiler.lower.calls import Builtin

FAMILIES = {
    "tasks": "pid tid uid gid username comm ppid pcomm leader_tid leader_comm curtask in_family cgroup "
             "syscall_id syscall_arg0 net_ns",
    "processes": "proctitle",
    "groups": "container pod service",
    "events": "args arg0 retval results ctx func probe probetype usermode",
    "machine": "cpu ncpus numaid rand config cpid has_cpid",
    "clocks": "nsecs elapsed jiffies",
    "stacks": "kstack ustack dw_ustack pystack stack",
    "golang": "goid goroutine",
    "python": "pytask pytask_id pythread pygil",
}
_ARGUMENT = regex_cache.compile(r"arg\d{1,3}\Z")


class BuiltinTable(FamilyTable["Builtin"]):
    """``arg0``, ``arg1`` ... share a row; ``__builtin_pid`` is ``pid``."""

    def __getitem__(self, name: str) -> Builtin:
        return super().__getitem__(_row_name(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(_row_name(name))


def _row_name(name: str) -> str:
    name = name.removeprefix("__builtin_")
    return "arg0" if _ARGUMENT.match(name) else name


BUILTINS = BuiltinTable(__name__, FAMILIES)
