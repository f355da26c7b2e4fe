"""What an agent does for whom: the policy file, and the audit lines."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ...base.record import Record
from ...base.trusted_files import is_private, open_guarded
from ...errors import UsageError

if TYPE_CHECKING:
    from ...base.json_checks import Json
    from ...semantics.script_options import Options
    from ...spec import ScriptSpec

PATH = "/etc/sonde/agent.toml"
LARGEST = 1 << 16  # bytes of a policy file
SHOWN = 400        # characters of a script in an audit line

_OF_THE_KERNEL = re.compile(r"/proc/(?!kcore|kmsg|vmcore)[a-z]+")  # all of memory, and a log that reading empties


class PolicyError(UsageError):
    """A request that the policy does not allow, or a policy file that is wrong."""


class Policy(Record):
    """``users`` (names or numbers; empty: whoever could start the agent, and for a socket root alone) may have scripts
    run whose probes are of these ``probes`` (kinds; empty: all), for ``seconds`` at most, with so many ``programs``
    (attach points), elements of maps (``keys``), and a ``budget`` of one CPU's time in percent (0: as asked).
    ``unsafe`` allows system() and the like; ``files`` lets scripts use files as the agent may: cat(), skboutput(),
    #include "..". ``runs`` may go on at once on a socket. ``audit`` is syslog, stderr, or a file's path."""

    users: list[str] = []
    probes: list[str] = []
    unsafe: bool = False
    files: bool = False
    seconds: float = 86400.0
    programs: int = 1000
    keys: int = 1 << 20
    budget: float = 0.0
    runs: int = 8
    audit: str = "syslog"

    def check_user(self, uid: int, on_socket: bool) -> None:
        """PolicyError if this user's requests are not to be served."""
        if self.users:
            if not {str(uid), user_name(uid)} & set(self.users):
                raise PolicyError(f"the agent's policy does not name {user_name(uid)}")
        elif on_socket and uid not in (0, os.geteuid()):
            raise PolicyError(f"the agent has no policy that names {user_name(uid)}", [f"users = [...] in {PATH}"])

    def restrict_options(self, options: Options) -> None:
        """Have the compiler refuse what a script may not have: by what it comes to, not by how it is written.
        PolicyError if it may not even be compiled."""
        if options.unsafe and not self.unsafe:
            raise PolicyError("the agent's policy does not allow --unsafe")
        options.sealed, options.kinds = not self.files, self.probes

    def check_script(self, spec: ScriptSpec) -> None:
        """PolicyError if a compiled script is more than is allowed."""
        points = [point for program in spec.programs for point in program.attach]
        for point in points:
            if point.pin and not self.files:
                raise PolicyError("the agent's policy does not let scripts make files: a pinned iterator")
        if len(points) > self.programs:
            raise PolicyError(f"the agent's policy allows {self.programs} attach points, and these are {len(points)}")
        keys = sum([m.max_entries for m in spec.maps if m.name.startswith("@")])
        if keys > self.keys:
            raise PolicyError(f"the agent's policy allows {self.keys} elements of maps, and these are {keys}")
        for site in spec.sites:
            literal = "".join([part.literal if not part.conversion else "%" for part in site.parts])
            if not self.files and (site.kind == "skboutput" or
                                   site.kind == "cat" and not _OF_THE_KERNEL.fullmatch(literal)):
                raise PolicyError(f"the agent's policy does not let scripts use files: {site.kind}()")

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
            warnings.append(f"WARNING: the agent's policy allows {self.seconds:g} s")
        if self.allowed_budget(budget) != budget:
            warnings.append(f"WARNING: the agent's policy allows --budget {self.budget:g}%")
        return warnings


def read_policy(path: str) -> Policy:
    """The policy of a file; the default one if there is no file. PolicyError for one that is wrong, or not root's (or
    this user's) own."""
    try:
        with open(open_guarded(path, os.O_RDONLY), "rb") as file:
            if not is_private(os.fstat(file.fileno())):
                raise PolicyError(f"{path}: others can write to it")
            text = file.read(LARGEST).decode()
    except FileNotFoundError:
        return Policy()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: {getattr(error, 'strerror', None) or 'is no UTF-8'}") from None
    from tomllib import TOMLDecodeError, loads
    try:
        return _make_policy(loads(text), path)
    except TOMLDecodeError as error:
        raise PolicyError(f"{path}: {error}") from None


def _make_policy(values: dict[str, object], path: str) -> Policy:
    default = Policy()
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


def user_name(uid: int) -> str:
    """A user's name, or the number."""
    import pwd
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Audit:
    """Says which user had which script run, when, and how it ended: a line each, ``name=value`` with JSON's texts."""

    def __init__(self, to: str, user: str) -> None:
        self._to = to
        self._user = user

    def write_line(self, what: str, **values: Json) -> None:
        """A line about ``what`` happened. A file that cannot be written is an error: no run without its line."""
        from json import dumps
        from time import gmtime, strftime
        when = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())
        values = {"time": when, "user": self._user, **values}
        line = " ".join([what, *[f"{name}={dumps(value)}" for name, value in values.items()]])
        if self._to == "syslog":
            import syslog
            syslog.openlog("sonde-agent", syslog.LOG_PID, syslog.LOG_AUTHPRIV)
            syslog.syslog(syslog.LOG_NOTICE, line)
        elif self._to == "stderr":
            import sys
            sys.stderr.write(f"sonde-agent: {line}\n")
            sys.stderr.flush()
        else:
            try:
                file = open_guarded(self._to, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            except OSError as error:
                raise PolicyError(f"the agent cannot write its audit line: {self._to}: {error.strerror}") from None
            with open(file, "a", encoding="utf-8") as out:
                out.write(line + "\n")

    def write_script(self, what: str, text: str, **values: Json) -> None:
        """A line with the script's beginning and its hash."""
        from hashlib import sha256
        data = text.encode("utf-8", "surrogateescape")
        self.write_line(what, script=text[:SHOWN], bytes=len(data), sha256=sha256(data).hexdigest(), **values)
