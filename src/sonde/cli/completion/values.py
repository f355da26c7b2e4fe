"""Values of options and of parameters, by what they name."""

from __future__ import annotations

import os

from .answers import Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...tools import Tool
    from ..options import Option

PIDS, PROBES, SCRIPTS, FILES, SHELLS, NOTHING = "pids", "probes", "scripts", "files", "shells", "nothing"
SHELL_NAMES = ("bash", "zsh", "fish")


def values_of(row: Option, page: Tool | None, typed: str) -> Values:
    """The values of an option, where the machine or a table has a list of them."""
    if row.key == "format":
        return Values(_formats(page))
    if row.key == "container":
        return Values(_containers())
    if row.key in _CHOICES:
        return Values(_CHOICES[row.key]())
    return values_of_kind(_KINDS.get(row.value.strip("[]").partition("[")[0], NOTHING), typed)


def values_of_kind(kind: str, typed: str) -> Values:
    """The values of PIDS, PROBES, ..."""
    if kind == PROBES:
        from .probes import complete_points
        return complete_points(typed)
    if kind == "program":
        from .probes import complete_program
        return complete_program(typed)
    if kind in (FILES, SCRIPTS, "commands"):
        return Values(files=".bt" if kind == SCRIPTS else "")
    return Values(_LISTS[kind]())


def _named(*names: str) -> Callable[[], list[tuple[str, str]]]:
    return lambda: [(name, "") for name in names]


def _formats(page: Tool | None) -> list[tuple[str, str]]:
    if page is not None and page.name == "check":
        from ..commands.check import FORMATS
        return [(name, "") for name in FORMATS]
    from ...output.views import TEXT, VIEWS
    return [*[(name, "") for name in TEXT], *VIEWS.items(), ("recording", "the run, for sonde replay and sonde diff")]


def _containers() -> Iterable[tuple[str, str]]:
    """Containers, pods and services that have tasks now."""
    from ...kernel.groups.lookup import Groups
    from ...types import GROUPS
    groups = Groups()
    numbers = groups.all_groups()
    for kind in GROUPS:
        names = {groups.name_of(kind, number) for number in numbers}
        for name in sorted(names - {""}):
            yield name, kind


def _processes() -> list[tuple[str, str]]:
    """The processes that exist, with their names."""
    names = []
    for pid in sorted([int(name) for name in os.listdir("/proc") if name.isdecimal()]):
        try:
            with open(f"/proc/{pid}/comm", "rb") as file:
                names.append((str(pid), file.read(64).decode("utf-8", "replace").strip()))
        except OSError:  # it has ended
            continue
    return names


def _folder(path: str) -> Callable[[], list[tuple[str, str]]]:
    def list_names() -> list[tuple[str, str]]:
        try:
            return [(name, "") for name in sorted(os.listdir(path))]
        except OSError:
            return []
    return list_names


def _users() -> list[tuple[str, str]]:
    from pwd import getpwall
    return [(user.pw_name, str(user.pw_uid)) for user in getpwall()]


def _stages() -> list[tuple[str, str]]:
    from ...compiler.pipeline import STAGES
    return [(name, "") for name in ("all", *STAGES)]


def _features() -> list[tuple[str, str]]:
    from ...kernel.features import ROWS
    return [(name, "") for name in sorted(ROWS)]


def _languages() -> list[tuple[str, str]]:
    from ..commands.runtimes import LANGUAGES
    return [(name, "") for name in LANGUAGES]


_CHOICES: dict[str, Callable[[], list[tuple[str, str]]]] = {  # by the option's key
    "by": _named("container", "pod", "service"), "B": _named("line", "full", "none"),
    "mode": _named("trace", "test", "bench", "format", "codegen", "compiler-bench"),
    "returns": _named("instructions", "kernel"), "debug": _stages, "no-feature": _features,
    "language": _languages,
}
_LISTS: dict[str, Callable[[], list[tuple[str, str]]]] = {
    PIDS: _processes, SHELLS: _named(*SHELL_NAMES), NOTHING: _named(), "disks": _folder("/sys/class/block"),
    "devices": _folder("/sys/class/net"), "users": _users,
}
_KINDS = {  # by the name that the option's value has
    "PID": PIDS, "PIDS": PIDS, "TPID": PIDS, "SEARCH": PROBES, "PROGRAM": "program", "COMMAND": "commands",
    "FILE": FILES, "DIR": FILES, "PATH": FILES, "BEFORE": FILES, "DISK": "disks", "DEVICE": "devices", "UID": "users",
    "PROBES": PROBES,
}
