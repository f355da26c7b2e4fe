"""What is run for whom: the policy file of the fleet's agent and of ``sonde mcp``, and the audit lines."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ..asm.insn import JMP, JMP_OPS, decode_program
from ..base.package_files import FOLDER, read_shipped
from ..base.record import Record
from ..base.trusted_files import is_private, open_guarded
from ..errors import UsageError
from ..kinds import KINDS
from ..layouts.uapi import HELPERS
from ..types import Buf, Tuple

if TYPE_CHECKING:
    from ..base.json_checks import Json
    from ..semantics.script_options import Options
    from ..source import Source
    from ..spec import ProgramSpec, ScriptSpec
    from ..types import Type

PATH = "/etc/sonde/agent.toml"
LARGEST = 1 << 16  # bytes of a policy file
SHOWN = 400        # characters of a script in an audit line

# Helpers that read the memory of processes (include/uapi/linux/bpf.h); the last two read either kind of memory.
_READS_PROCESSES = [HELPERS[name] for name in ("probe_read_user", "probe_read_user_str", "copy_from_user",
                                               "copy_from_user_task", "probe_read", "probe_read_str")]
_CALL = JMP | JMP_OPS["call"]
_OF_THE_KERNEL = re.compile(r"/proc/(?!kcore|kmsg|vmcore)[a-z]+")  # all of memory, and a log that reading empties


class PolicyError(UsageError):
    """A request that the policy does not allow, or a policy file that is wrong."""


class Policy(Record):
    """``users`` (names or numbers; empty: whoever could start the agent, and for a socket root alone) may have scripts
    run whose probes are of these ``probes`` (kinds; empty: all), for ``seconds`` at most, with so many ``programs``
    (attach points), elements of maps (``keys``), and a ``budget`` of one CPU's time in percent (0: as asked).
    ``unsafe`` allows system() and the like; ``files`` lets scripts use files as the agent may: cat(), skboutput(),
    #include "..". ``others`` lets scripts read the memory of any process, not only of the user's own to which the run
    is limited; without ``scripts`` only Sonde's own tools run. A run takes so many MiB of ``memory`` beyond maps and
    rings. ``runs`` may go on at once on a socket. A model's tables have so many ``rows``, and what is recorded for it
    takes so many MiB of ``disk``. ``audit`` is syslog, stderr, or a file's path."""

    users: list[str] = []
    probes: list[str] = []
    unsafe: bool = False
    files: bool = False
    others: bool = True
    scripts: bool = True
    seconds: float = 86400.0
    programs: int = 1000
    keys: int = 1 << 20
    budget: float = 0.0
    memory: int = 128
    rows: int = 1000
    disk: int = 256
    runs: int = 8
    audit: str = "syslog"

    def check_user(self, uid: int, on_socket: bool) -> None:
        """PolicyError if this user's requests are not to be served."""
        if self.users:
            if not {str(uid), user_name(uid)} & set(self.users):
                raise PolicyError(f"the policy does not name {user_name(uid)}")
        elif on_socket and uid not in (0, os.geteuid()):
            raise PolicyError(f"the agent has no policy that names {user_name(uid)}", [f"users = [...] in {PATH}"])

    def restrict_options(self, options: Options) -> None:
        """Have the compiler refuse what a script may not have: by what it comes to, not by how it is written.
        PolicyError if it may not even be compiled."""
        if options.unsafe and not self.unsafe:
            raise PolicyError("the policy does not allow --unsafe")
        options.sealed, options.discreet, options.kinds = not self.files, not self.others, self.probes

    def check_source(self, source: Source) -> None:
        """PolicyError if this text may not be run, whatever it comes to."""
        if not self.scripts and not _is_own_tool(source):
            raise PolicyError("the policy allows Sonde's own tools, and no other scripts")

    def check_script(self, spec: ScriptSpec, is_own: bool = False) -> None:
        """PolicyError if a compiled script is more than is allowed. ``is_own``: the run is limited to a process of the
        user's, and to what that starts."""
        points = [point for program in spec.programs for point in program.attach]
        for point in points:
            if point.pin and not self.files:
                raise PolicyError("the policy does not let scripts make files: a pinned iterator")
        if len(points) > self.programs:
            raise PolicyError(f"the policy allows {self.programs} attach points, and these are {len(points)}")
        keys = sum([m.max_entries for m in spec.maps if m.name.startswith("@")])
        if keys > self.keys:
            raise PolicyError(f"the policy allows {self.keys} elements of maps, and these are {keys}")
        for site in spec.sites:
            literal = "".join([part.literal if not part.conversion else "%" for part in site.parts])
            if not self.files and (site.kind == "skboutput" or
                                   site.kind == "cat" and not _OF_THE_KERNEL.fullmatch(literal)):
                raise PolicyError(f"the policy does not let scripts use files: {site.kind}()")
        if not self.others:
            _check_values(spec, is_own)
            for program in spec.programs:
                _check_reads(program, is_own)

    def allowed_seconds(self, wanted: float) -> float:
        """For how long a run may go on; ``wanted`` 0: no end."""
        return min(wanted or self.seconds, self.seconds)

    def allowed_budget(self, wanted: float) -> float:
        """The share of one CPU that a run's programs may take; 0 for no limit."""
        most = self.budget / 100
        return min(wanted or most, most) if most else wanted

    def describe_limits(self, seconds: float, budget: float) -> list[str]:
        """A line for each thing of which a run gets less than it asked for."""
        warnings = []
        if seconds > self.seconds:
            warnings.append(f"WARNING: the policy allows {self.seconds:g} s")
        if self.allowed_budget(budget) != budget:
            warnings.append(f"WARNING: the policy allows --budget {self.budget:g}%")
        return warnings


def _check_values(spec: ScriptSpec, is_own: bool) -> None:
    """PolicyError if raw bytes leave the kernel: of packets, which are other processes' as well."""
    stored = [type for named in spec.maps for type in (named.key, named.value) if named.name.startswith("@")]
    sent = [field.type for site in spec.sites for field in site.fields]
    if not is_own and any(_has_bytes(type) for type in (*stored, *sent)):
        raise PolicyError("the policy does not let scripts read raw bytes: buf()", [
            "a run limited to a process of your own (pid) may read them", "others = true in the policy permits it"])


def _has_bytes(type: Type | None) -> bool:
    return isinstance(type, Buf) or isinstance(type, Tuple) and any(map(_has_bytes, type.of))


def _check_reads(program: ProgramSpec, is_own: bool) -> None:
    """PolicyError if a program reads the memory of processes that are not the user's. Clauses that no budget holds back
    (intervals) are not limited to a process either: they run in whatever was interrupted."""
    if is_own and not any(KINDS[point.kind].exempt for point in program.attach):
        return
    if any(insn.code == _CALL and not insn.src and insn.imm in _READS_PROCESSES
           for part in (program, *program.parts) for _, insn in decode_program(part.code)):
        names = ", ".join(dict.fromkeys(point.name for point in program.attach[:3]))
        raise PolicyError(f"the policy does not let scripts read the memory of other users' processes: {names}", [
            "arguments that are pointers (str(args.filename)), Python stacks and tasks are such memory; numbers, "
            "names of programs and stacks are not", "a run limited to a process of your own (pid) may read it",
            "others = true in the policy permits it"])


def _is_own_tool(source: Source) -> bool:
    """Whether a script is one of Sonde's tools, by its text."""
    path = os.path.join(FOLDER, "tools", os.path.basename(source.name).removesuffix(".bt") + ".bt")
    try:
        return read_shipped(path) == source.text.encode("utf-8", "surrogateescape")
    except OSError:
        return False


def read_policy(path: str, default: Policy | None = None) -> Policy:
    """The policy of a file, which says what is other than by ``default``; the default one if there is no file.
    PolicyError for one that is wrong, or not root's (or this user's) own."""
    default = default or Policy()
    try:
        with open(open_guarded(path, os.O_RDONLY), "rb") as file:
            if not is_private(os.fstat(file.fileno())):
                raise PolicyError(f"{path}: others can write to it")
            text = file.read(LARGEST).decode()
    except FileNotFoundError:
        return default
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: {getattr(error, 'strerror', None) or 'is no UTF-8'}") from None
    from tomllib import TOMLDecodeError, loads
    try:
        return _make_policy(loads(text), path, default)
    except TOMLDecodeError as error:
        raise PolicyError(f"{path}: {error}") from None


def _make_policy(values: dict[str, object], path: str, default: Policy) -> Policy:
    for name, value in values.items():
        if name not in Policy._fields:
            raise PolicyError(f"{path}: there is no {name}", [f"there are {', '.join(Policy._fields)}"])
        wanted = type(getattr(default, name))
        if type(value) is int and wanted is float:
            value = float(value)
        texts = isinstance(value, list) and all(type(each) in (str, int) for each in value)
        if type(value) is not wanted or wanted is list and not texts or isinstance(value, int | float) and value < 0:
            raise PolicyError(f"{path}: {name} = {value!r} is no {wanted.__name__}")
        setattr(default, name, [str(each) for each in value] if isinstance(value, list) else value)
    return default


def asking_uid() -> int:
    """The user who started the agent, perhaps through sudo."""
    user = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return int(user) if user.isascii() and user.isdigit() else os.getuid()


def user_name(uid: int) -> str:
    """A user's name, or the number."""
    import pwd
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Audit:
    """Says which user had which script run, when, and how it ended: a line each, ``name=value`` with JSON's texts."""

    def __init__(self, to: str, user: str, service: str = "sonde-agent") -> None:
        self._to = to
        self._user = user
        self._service = service

    def write_line(self, what: str, **values: Json) -> None:
        """A line about ``what`` happened. A file that cannot be written is an error: no run without its line."""
        from json import dumps
        from time import gmtime, strftime
        when = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())
        values = {"time": when, "user": self._user, **values}
        line = " ".join([what, *[f"{name}={dumps(value)}" for name, value in values.items()]])
        if self._to == "syslog":
            import syslog
            syslog.openlog(self._service, syslog.LOG_PID, syslog.LOG_AUTHPRIV)
            syslog.syslog(syslog.LOG_NOTICE, line)
        elif self._to == "stderr":
            import sys
            sys.stderr.write(f"{self._service}: {line}\n")
            sys.stderr.flush()
        else:
            try:
                file = open_guarded(self._to, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            except OSError as error:
                raise PolicyError(f"the audit line cannot be written: {self._to}: {error.strerror}") from None
            with open(file, "a", encoding="utf-8") as out:
                out.write(line + "\n")

    def write_script(self, what: str, text: str, **values: Json) -> None:
        """A line with the script's beginning and its hash."""
        from hashlib import sha256
        data = text.encode("utf-8", "surrogateescape")
        self.write_line(what, script=text[:SHOWN], bytes=len(data), sha256=sha256(data).hexdigest(), **values)
