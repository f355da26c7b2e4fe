"""``sonde unit``: a systemd service of an export, with the fewest capabilities that the script can do with."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..options import Parsed
    from ..spec import ScriptSpec
    from ..types import Type

PAGE = """\
unit: a systemd service that exports what a script or a tool collects

USAGE
  sonde unit --prometheus [ADDRESS] SCRIPT [parameters]
  sonde unit --otlp [URL] SCRIPT [parameters]

  Prints a unit file; the arguments are those of `sonde export`. Nothing is installed or started.

OPTIONS
  --prometheus [ADDRESS]   serve http://ADDRESS/metrics (127.0.0.1:9941)
  --otlp [URL]             send to a collector (http://127.0.0.1:4318/v1/metrics)
  --interval SECONDS       between two sendings of --otlp (10)
  --keys NUMBER            label sets of each map (1000)
  --prefix NAME            metrics are called sonde_NAME_MAP

COLUMNS
  -   a unit file

EXAMPLE
  # sonde unit --prometheus runqlat > /etc/systemd/system/sonde-runqlat.service
  # systemctl enable --now sonde-runqlat

NEEDS
  pip install 'sonde[export]', where every user can read it: the service runs as a user of its own

NOTES
  CAP_BPF and CAP_PERFMON are always needed, and are all for raw tracepoints, uprobes and profile. Tracepoints need
  CAP_DAC_READ_SEARCH too, since only root can read tracefs; names of kernel functions need CAP_SYSLOG; names of user
  functions need CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH. The unit has what its script needs, and says what for.
"""

# Capability -> what it is for, in the order in which they are listed.
PURPOSES = {
    "CAP_BPF": "make maps, load programs",
    "CAP_PERFMON": "attach programs, read kernel memory",
    "CAP_DAC_READ_SEARCH": "read tracefs, and other users' binaries",
    "CAP_SYSLOG": "addresses of kernel functions, for their names",
    "CAP_SYS_PTRACE": "what other users' processes map, for names in their stacks",
}

UNIT = """\
# {what}, made by `sonde unit`. Capabilities:
{purposes}
[Unit]
Description={description}
After=network.target

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=10
DynamicUser=yes
AmbientCapabilities={capabilities}
CapabilityBoundingSet={capabilities}
LimitMEMLOCK=infinity
CacheDirectory=sonde
Environment=XDG_CACHE_HOME=%C/sonde PYTHONDONTWRITEBYTECODE=1
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectHostname=yes
ProtectClock=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes

[Install]
WantedBy=multi-user.target
"""


def main(parsed: Parsed) -> int:
    """Print the unit file; the exit status."""
    from .. import cli
    from ..api import compile, live_world
    from .export import script_name, wanted
    words = list(parsed.words[1:])
    asked = wanted(parsed)
    source, params = cli.program_of(parsed)
    if source is None:
        return 0
    spec = compile(source, cli.options_of(parsed, params), cli.permitted(live_world(), parsed))
    name = script_name(source) or "a program"
    capabilities = needed(spec)
    text = UNIT.format(
        what=f"Exports {name}", description=f"Sonde exports {name}".replace("%", "%%"),
        purposes="\n".join(f"#   {cap}: {PURPOSES[cap]}" for cap in capabilities),
        command=" ".join(map(quoted, [*program(), "export", "-q", *_arguments(parsed, asked, words)])),
        capabilities=" ".join(capabilities))
    descriptor = cli.open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", closefd=descriptor != 1) as file:
        file.write(text)
    return 0


def _arguments(parsed: Parsed, asked: dict[str, str], words: list[str]) -> list[str]:
    """Those of the export: paths made absolute, options before the script."""
    found = []
    for name in ("prometheus", "otlp"):
        if name in asked:
            found += [f"--{name}", *([asked[name]] if asked[name] else [])]
    defaults = {"interval": "10", "keys": "1000"}
    found += [f"--{name}={asked[name]}" for name in ("interval", "keys", "prefix")
              if name in asked and asked[name] != defaults.get(name)]
    for name, text in parsed.named.items():
        found.append(f"--{name}={text}" if text != "true" else f"--{name}")
    if parsed.has("unsafe"):
        found.append("--unsafe")
    if parsed.has("e"):
        return [*found, "-e", parsed.get("e"), *parsed.words, *(["--", *parsed.rest] if parsed.rest else [])]
    script, *params = parsed.words
    if os.path.exists(script):
        script = os.path.abspath(script)
        if not os.stat(script).st_mode & 4:
            from ..cli import complain
            complain(f"WARNING: {script} cannot be read by every user: the service could not")
    return [*found, script, *params, *(["--", *parsed.rest] if parsed.rest else [])]


def program() -> list[str]:
    """How this Sonde is started."""
    path = os.path.abspath(sys.argv[0])
    if os.path.basename(path) == "sonde" and os.access(path, os.X_OK):
        return [path]
    return [sys.executable, "-m", "sonde"]


def quoted(word: str) -> str:
    """A word of ExecStart=, as systemd.service(5) and systemd.syntax(7) have it."""
    word = word.replace("%", "%%").replace("$", "$$")
    if word and all(c.isalnum() or c in "-_./:=@,+%[]" for c in word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def needed(spec: ScriptSpec) -> list[str]:
    """The capabilities that a script needs, when its user owns nothing (measured on Linux 6.18)."""
    kinds = {point.kind for program in spec.programs for point in program.attach}
    types = [field.type for site in spec.sites for field in site.fields]
    types += [type for named in spec.maps for type in (named.key, named.value) if type is not None]
    found = {"CAP_BPF", "CAP_PERFMON"}
    if "tracepoint" in kinds or kinds & {"kprobe", "kretprobe"}:
        found.add("CAP_DAC_READ_SEARCH")
    if any(_holds(type, _names_kernel) for type in types):
        found.add("CAP_SYSLOG")
    if any(_holds(type, _names_user) for type in types):
        found |= {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
    return [name for name in PURPOSES if name in found]


def _holds(type: Type, test: Any) -> bool:
    from ..types import Array, Tuple
    if isinstance(type, Tuple):
        return any(_holds(each, test) for each in type.of)
    return _holds(type.of, test) if isinstance(type, Array) else bool(test(type))


def _names_kernel(type: Type) -> bool:
    from ..types import Stack, Symbol
    return isinstance(type, Stack) and not type.user or isinstance(type, Symbol) and type.kind == "ksym"


def _names_user(type: Type) -> bool:
    from ..types import Stack, USym
    return isinstance(type, Stack) and type.user or isinstance(type, USym)
