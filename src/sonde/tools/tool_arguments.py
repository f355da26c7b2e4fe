"""What may be given to a tool, by the names that its page has for it: checked before anything is compiled, and names of
users, errors, flags and system calls turned into their numbers."""

from __future__ import annotations

import os

from ..base.numbers import parse_whole
from ..errors import UsageError
from . import Tool, both_ends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = {"SECONDS", "INTERVAL", "COUNT", "N", "US", "MS", "BYTES", "NUMBER", "TID", "TPID"}
SPANS = {"SECONDS", "INTERVAL", "COUNT"}  # from 1 up
LAST_PORT = 65535


def check_arguments(tool: Tool, parameters: list[str], options: dict[str, str]) -> list[str]:
    """UsageError if a parameter is missing, too many or no number, or if an option's value cannot be meant. Names
    become numbers. What may be meant, but is not there now, is the answer: warnings."""
    hints = [f"see sonde {tool.name} --help"]
    if len(parameters) < len(tool.required_parameters):
        raise UsageError(f"{tool.name} needs a {tool.required_parameters[len(parameters)]}", hints)
    for option in tool.options:
        if option.key not in options and any(name in tool.required_options for name in option.names):
            raise UsageError(f"{tool.name} needs --{option.key} {option.value}", hints)
    if len(parameters) > len(tool.parameters):
        own = [f"-c is {tool.name}'s own here, --{option.key}; --cmd COMMAND runs a command"
               for option in tool.options if "-c" in option.names and option.key in options]
        raise UsageError(f"{tool.name} takes no parameter '{parameters[len(tool.parameters)]}'", own or hints)
    for index, (name, value) in enumerate(zip(tool.parameters, parameters)):
        _check_value(name, name, value)
        if name == "DISK":
            parameters[index] = value.removeprefix("/dev/")
        if name == "FUNCTION":
            parameters[index:index + 1] = both_ends(value)
        if name in _NAMED:
            parameters[index] = str(_resolve_number(name, name, value))
    for option in tool.options:
        if option.value in _LISTS and option.key in options:
            options[option.key] = _LISTS[option.value](f"--{option.key}", options[option.key])
        elif option.value and option.key in options:
            _check_value(f"--{option.key}", option.value, options[option.key])
            if option.value in _NAMED:
                options[option.key] = str(_resolve_number(f"--{option.key}", option.value, options[option.key]))
    given = [(option.value, options[option.key]) for option in tool.options if option.key in options]
    return [warning for kind, value in [*zip(tool.parameters, parameters), *given] for warning in _missing(kind, value)]


def probes_by_regex(pattern: str) -> tuple[str, str]:
    """All probes among which ``pattern`` chooses by the regular expression after its last colon, and the filter for
    these: it matches from the beginning of the name on."""
    kind, _, regex = pattern.rpartition(":")
    return f"{kind or 'kprobe'}:*", f":(?:{regex.removeprefix('^')})[^:]*$"


def _check_value(what: str, kind: str, value: str) -> None:
    if kind in NUMBERS and not _is_number(value):
        raise UsageError(f"{what} is a whole number, not '{value}'")
    if kind in SPANS and not int(value):
        raise UsageError(f"{what} is a whole number from 1 up, not '{value}'")
    if "|" in kind and value not in kind.split("|"):
        raise UsageError(f"{what} is one of {kind.replace('|', ', ')}, not '{value}'")
    if kind in ("PORT", "PORTS"):
        _check_ports(what, value)
    if kind == "PID" and not _is_number(value):
        raise UsageError(f"{what} is the number of a process, not '{value}'")
    if kind in ("PID", "PIDS"):
        check_processes(what, value)


def _is_number(text: str) -> bool:
    return parse_whole(text) is not None


def _missing(kind: str, value: str) -> list[str]:
    """A warning about a device that this machine does not have now; [] if it does, or if it is none."""
    if kind not in _DEVICES:
        return []
    thing, folder = _DEVICES[kind]
    known = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if value in known:
        return []
    here = f": there are {', '.join(known[:_SHOWN])}{' ...' * (len(known) > _SHOWN)}" if known else ""
    return [f"WARNING: there is no {thing} '{value}' now{here}"]


def _parse_numbers(what: str, value: str, example: str) -> list[int]:
    """Those of a list such as 80,443 or 8000-8010, the ends of a range for the range."""
    words = [word for part in value.split(",") for word in part.split("-")]
    if not all(_is_number(word) for word in words):
        raise UsageError(f"{what}: '{value}' is not a list of numbers", [example])
    return [int(word) for word in words]


def _check_ports(what: str, value: str) -> None:
    for number in _parse_numbers(what, value, "write 80, or 80,443, or 8000-8010"):
        if number > LAST_PORT:
            raise UsageError(f"{what}: {number} is no port: the last one is {LAST_PORT}")


def check_processes(what: str, value: str) -> None:
    """UsageError if not one of a list's processes is there; of a range that is not asked."""
    numbers = _parse_numbers(what, value, "write 1234, or 1234,1300, or 1000-1999; pgrep NAME tells the numbers")
    if not any(os.path.exists(f"/proc/{number}") for number in numbers) and "-" not in value:
        raise UsageError(f"there is no process {value}")


def _resolve_number(what: str, kind: str, value: str) -> int:
    """What has the name ``value``, or is that number."""
    thing, find = _NAMED[kind]
    if _is_number(value) and kind != "TTY":
        return int(value)
    number = find(value)
    if number is None:
        raise UsageError(f"{what}: there is no {thing} '{value}'")
    return number


def _parse_percentiles(what: str, value: str) -> str:
    """50,99.9: in thousandths."""
    percentiles = []
    for word in value.split(","):
        whole, _, tenths = word.partition(".")
        number = parse_whole(whole + (tenths or "0")) if len(tenths) < 2 else None
        if number is None or not 0 < number <= 1000:
            raise UsageError(f"{what}: '{word}' is no percentile",
                             ["write 50,90,99.9: up to 100, with a tenth at most"])
        percentiles.append(str(number))
    return ",".join(percentiles)


def _find_folders(what: str, value: str) -> str:
    """/srv/a,/srv/*/b: each one's number of its device and inode, as dirtop reckons it."""
    from glob import glob
    folders = [path for pattern in value.split(",") for path in glob(pattern) if os.path.isdir(path)]
    if not folders:
        raise UsageError(f"{what}: there is no folder '{value}'")
    return ",".join(str(_folder_number(path)) for path in folders)


def _folder_number(path: str) -> int:
    """Its inode's number beside that of its file system, in 64 bits. stat() may show other numbers than the kernel goes
    by: btrfs has a device for each subvolume."""
    fd = os.open(path, os.O_PATH)
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file if ":" in line)
        status = os.fstat(fd)
    finally:
        os.close(fd)
    device = _mounted_device(int(facts["mnt_id"])) or status.st_dev
    inode = int(facts.get("ino", status.st_ino))  # Linux 5.14
    return (inode ^ (os.major(device) << 20 | os.minor(device)) << 32) % (1 << 64)


def _mounted_device(number: int) -> int:
    """The device of a mount's file system; 0 if it is not in sight."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split(" ", 3)
            if int(words[0]) == number:
                major, minor = words[2].split(":")
                return os.makedev(int(major), int(minor))
    return 0


def _user_number(name: str) -> int | None:
    from pwd import getpwnam
    try:
        return getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return None


def _error_number(name: str) -> int | None:
    import errno
    return next((number for number, known in errno.errorcode.items() if known == name), None)


def _flag_number(name: str) -> int | None:
    flag = getattr(os, name, None) if name.startswith("O_") else None
    return flag if isinstance(flag, int) and flag else None


def _system_call_number(name: str) -> int | None:
    from ..arch.syscalls import syscall_number
    return syscall_number(name, os.uname().machine)


def _terminal_number(name: str) -> int | None:
    """The kernel's number of the device."""
    try:
        device = os.stat(f"/dev/pts/{name}" if _is_number(name) else name).st_rdev
    except (OSError, ValueError):
        return None
    return os.major(device) << 20 | os.minor(device) if device else None


_DEVICES = {"DISK": ("disk", "/sys/block"), "DEVICE": ("network device", "/sys/class/net")}
_LISTS: dict[str, Callable[[str, str], str]] = {"PCTS": _parse_percentiles, "FOLDERS": _find_folders}
_SHOWN = 8  # devices in a message
_NAMED: dict[str, tuple[str, Callable[[str], int | None]]] = {
    "UID": ("user", _user_number), "ERRNO": ("error", _error_number), "FLAG": ("flag of open()", _flag_number),
    "SYSCALL": ("system call", _system_call_number), "TTY": ("terminal", _terminal_number),
}
