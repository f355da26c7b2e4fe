"""``sonde unit``: a systemd service of an export or a flight, with the fewest capabilities that the script needs; and
the dashboard and the alert rules for its metrics."""

from __future__ import annotations

import os
import sys

from ...errors import UsageError
from ...kernel.denials import root_has_perf_events
from ...layouts.shared_maps import FLIGHT
from ...spec import ScriptSpec
from ..script_names import FILE, classify_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...source import Source
    from ...types import Type
    from ..options import Parsed

PAGE = """\
unit: a systemd service that exports what a tool collects or keeps the latest of it; its dashboard and alert rules

USAGE
  sonde unit --prometheus [ADDRESS] SCRIPT [parameters]
  sonde unit --otlp [URL] [--otlp-logs [URL]] [--otlp-profiles [URL]] SCRIPT [parameters]
  sonde unit --dashboard | --alerts SCRIPT [parameters]
  sonde unit --flight TIME[,SIZE] [--when CONDITION] [-f FORMAT] SCRIPT [parameters]
  sonde unit --agent [GROUP]

  Prints a unit file; the arguments are those of `sonde export`, or of a run with --flight: its dumps are the newest 16
  files of /var/lib/sonde/flights/NAME. Nothing is installed or started. --agent prints two: a socket,
  and the service that systemd starts for each who connects to it (`sonde agent --help`).

OPTIONS
  --prometheus [ADDRESS]   serve http://ADDRESS/metrics (127.0.0.1:9941)
  --otlp [URL]             send to a collector (http://127.0.0.1:4318/v1/metrics)
  --otlp-logs [URL]        send rows as log records (http://127.0.0.1:4318/v1/logs)
  --otlp-profiles [URL]    send stacks as profiles (http://127.0.0.1:4318/v1development/profiles)
  --interval SECONDS       between two sendings of --otlp, or two profiles (10)
  --keys NUMBER            label sets of each map (1000)
  --prefix NAME            metrics are called sonde_NAME_MAP
  --dashboard              instead of a service, a dashboard of the metrics for Grafana (JSON, to be imported)
  --alerts                 instead of a service, alert rules for Prometheus: of what was lost, and those that the script
                           declares: // alert @usecs p99 > 100ms for 10m: threads wait long for a CPU
  --agent [GROUP]          of an agent on /run/sonde/agent.socket, to which root and this group may connect

COLUMNS
  -   a unit file, a dashboard, or a file of rules

EXAMPLE
  # sonde unit --prometheus runqlat > /etc/systemd/system/sonde-runqlat.service
  # systemctl enable --now sonde-runqlat
  # sonde unit --dashboard runqlat > runqlat.json
  # sonde unit --alerts runqlat > /etc/prometheus/sonde-runqlat.yml
  # sonde unit --flight 60s --when '@errors > 10 within 1s' errors.bt > /etc/systemd/system/sonde-errors.service
  # systemctl kill -s USR2 sonde-errors

NEEDS
  for --prometheus and --otlp, the Python packages of the extra `export`, where every user can read it: the service runs
  as a user of its own

NOTES
  CAP_BPF and CAP_PERFMON are always needed, and are all for raw tracepoints, uprobes and profile. Tracepoints need
  CAP_DAC_READ_SEARCH too, since only root can read tracefs; names of kernel functions need CAP_SYSLOG; names of user
  functions need CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH. The unit has what its script needs, and says what for.

  MemoryMax= is the sum of --memory (128M), the script's maps when they are full, the ring buffers, 128M for the reader
  of programs and their symbols, and 64M for the kernel's part; a reader that needs more is ended, the service goes on.
  LimitNOFILE= is 1024, and for each probe two of each CPU. With --unsafe there are no MemoryMax= and TasksMax=: they
  would bind the commands of system() too. -p and -c are refused, since a service outlives what they name.

  A service that sends to a collector reads /etc/sonde/otlp.env, if there is one: OTEL_EXPORTER_OTLP_HEADERS,
  OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, as the OpenTelemetry SDKs do.

  The service has --budget 5% unless another one is given: what its programs may take of one CPU's time. Without
  CAP_SYS_ADMIN the kernel does not tell what they take; each run is then taken to need 1.5 microseconds. With sysctl
  kernel.bpf_stats_enabled=1 it does.
"""

BUDGET = "5%"  # of a service that nobody watches
READER = 128 << 20  # bytes: the process that reads foreign files; an ordinary question takes 112 MiB of it
KERNEL = 64 << 20   # bytes charged to the service: programs and the verifier's work, page tables, sockets
ELEMENT = 80        # bytes of the kernel's own besides the key and the value of a hash map's element
STATE = "/var/lib"
TASKS = 32          # threads and processes: the session, the exporters', the reader
# Options of a run that a service takes too; the values of the second are files or folders.
UNIT_OPTIONS = ("flight", "when", "format", "warnings", "no-warnings", "memory", "unsafe", "probe-filter", "no-feature",
        "debuginfod")
UNIT_PATHS = ("I", "include", "debuginfo", "traceable-functions")

# Capability -> what it is for, in the order in which they are listed.
PURPOSES = {
    "CAP_BPF": "make maps, load programs",
    "CAP_PERFMON": "attach programs, read kernel memory",
    "CAP_DAC_READ_SEARCH": "read tracefs, and other users' binaries",
    "CAP_SYSLOG": "addresses of kernel functions, for their names",
    "CAP_SYS_PTRACE": "what other users' processes map, for names in their stacks",
    "CAP_SYS_ADMIN": "perf events, which kernel.perf_event_paranoid keeps for it here; not needed if that is 2",
}

# For any script, for older kernels and runtimes, and for dropping the privileges of the reader of files.
AGENT_CAPABILITIES = (*PURPOSES, "CAP_SYS_RESOURCE", "CAP_SETUID", "CAP_SETGID")

UNIT = """\
# {what}, made by `sonde unit`. Capabilities:
{purposes}
[Unit]
Description={description}
After=network.target

[Service]
Type=notify
ExecStart={command}
Restart=on-failure
RestartSec=10
LimitNOFILE={files}
{bounds}OOMPolicy=continue
DynamicUser=yes
AmbientCapabilities={capabilities}
CapabilityBoundingSet={capabilities}
LimitMEMLOCK=infinity
UMask=0077
CacheDirectory=sonde
Environment=XDG_CACHE_HOME=%C/sonde PYTHONDONTWRITEBYTECODE=1
{settings}{folders}NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectHostname=yes
ProtectClock=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
LockPersonality=yes
MemoryDenyWriteExecute=yes

[Install]
WantedBy=multi-user.target
"""

FOLDERS = """\
StateDirectory={folder}
StateDirectoryMode=0700
RuntimeDirectory={folder}
"""

SETTINGS = "EnvironmentFile=-/etc/sonde/otlp.env\n"  # of a service that sends to a collector

AGENT = """\
# Made by `sonde unit --agent`: two files. Whoever may connect has scripts run as {policy} allows it.
# /etc/systemd/system/sonde-agent.socket
[Unit]
Description=Sonde's agent

[Socket]
ListenStream=/run/sonde/agent.socket
SocketMode=0660
SocketGroup={group}
Accept=yes
MaxConnections={runs}

[Install]
WantedBy=sockets.target

# /etc/systemd/system/sonde-agent@.service
[Unit]
Description=Sonde's agent, one run

[Service]
ExecStart={command}
StandardInput=socket
StandardError=journal
LimitMEMLOCK=infinity
MemoryMax={memory}M
UMask=0077
CapabilityBoundingSet={capabilities}
CacheDirectory=sonde
Environment=XDG_CACHE_HOME=%C/sonde PYTHONDONTWRITEBYTECODE=1
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
LockPersonality=yes
MemoryDenyWriteExecute=yes
"""
AGENT_MEMORY = 512  # MiB of one run with its maps


def _print_agent(parsed: Parsed) -> int:
    """The socket, which has no process while nobody is connected, and the service."""
    from ...library.policy import PATH, Policy
    group = parsed.command_options["agent"] or "root"
    if not group.replace("-", "").replace("_", "").isalnum() or not group.isascii():
        raise UsageError(f"--agent takes the name of a group, not '{group}'")
    sys.stdout.write(AGENT.format(
        policy=PATH, group=group, runs=Policy().runs, memory=AGENT_MEMORY,
        command=" ".join(map(quote_word, [*start_command(), "agent", "--socket", "-"])),
        capabilities=" ".join(AGENT_CAPABILITIES)))
    return 0


def main(parsed: Parsed) -> int:
    """Print the unit file, the dashboard or the rules; the exit status."""
    if "agent" in parsed.command_options:
        return _print_agent(parsed)
    for name in ("dashboard", "alerts"):
        if name in parsed.command_options:
            return _print_for_platform(parsed, name)
    return _print_unit(parsed)


def _print_unit(parsed: Parsed) -> int:
    from ...base.memory_budget import Memory
    from ..display_choice import parse_memory
    from ..options import budget_of
    from .export import script_name
    budget_of(parsed)
    memory = parse_memory(parsed.get("memory")) if parsed.has("memory") else Memory()
    words, exports = _requested_service(parsed)
    command = [*start_command(), *words, *_run_arguments(parsed)]
    if parsed.words[:1] == ["-"] and not parsed.has("e"):
        raise UsageError("unit: a service has no standard input to read a script from", ["give a file, or -e PROGRAM"])
    compiled = _compile_script(parsed)
    if compiled is None:
        return 0
    source, spec = compiled
    _check_service(parsed, spec, exports, script_name(source))
    name = escape_text(script_name(source) or "a program")
    capabilities = needed_capabilities(spec)
    bounds = "" if parsed.has("unsafe") else f"TasksMax={TASKS}\nMemoryMax={most_memory(spec, memory.total)}\n"
    folder = f"sonde/flights/{_flight_name(parsed)}" if parsed.has("flight") else ""
    does = "keeps the latest of" if folder else "exports"
    _write_output(parsed, UNIT.format(
        what=f"{does.capitalize()} {name}", description=f"Sonde {does} {name}".replace("%", "%%"),
        purposes="\n".join(f"#   {cap}: {PURPOSES[cap]}" for cap in capabilities),
        command=" ".join(map(quote_word, command)),
        settings=SETTINGS if any(each.startswith("otlp") for each in exports) else "",
        folders=FOLDERS.format(folder=folder) if folder else "", files=most_files(spec), bounds=bounds,
        capabilities=" ".join(capabilities)))
    return 0


def _compile_script(parsed: Parsed) -> tuple[Source, ScriptSpec] | None:
    """The script as a service would run it; None if there was only help to print."""
    from ...compiling import compile, live_world
    from .. import requests
    source, params = requests.program_of(parsed)
    if source is None:
        return None
    if any(map(parsed.has, ("pid", "cmd", "follow"))) or parsed.process_option in parsed.named:
        raise UsageError("unit: a service takes neither -p nor -c: it outlives what they name")
    options = requests.options_of(parsed, params)
    options.sums = not parsed.has("flight")
    return source, compile(source, options, requests.permitted(live_world(), parsed))


def _check_service(parsed: Parsed, spec: ScriptSpec, exports: dict[str, str], name: str) -> None:
    """UsageError if the script has nothing for what is asked; where it has no metrics, a warning says so."""
    if parsed.has("flight"):
        from ..flight_run import check_flight
        return check_flight(parsed, spec)
    from ...exporters.metrics import explain_emptiness
    from ..requests import print_to_stderr
    if "otlp-logs" in exports:
        from ...exporters.otlp_logs import check_rows
        check_rows(spec)
    if "otlp-profiles" in exports:
        from ...exporters.otlp_profiles import maps_with_stacks
        maps_with_stacks(spec)
    for line in explain_emptiness(spec, name) if {"prometheus", "otlp"} & {*exports} else []:
        print_to_stderr(line)


def _print_for_platform(parsed: Parsed, what: str) -> int:
    """A dashboard, or alert rules."""
    from json import dumps

    from ...exporters.metrics import Gatherer, explain_emptiness
    from ...runtime.losses import Losses
    from ..requests import print_to_stderr
    from .export import script_name
    del parsed.words[0], parsed.command_options[what]
    prefix = parsed.command_options.pop("prefix", None)
    if others := [*parsed.command_options, *["flight"] * parsed.has("flight")]:
        raise UsageError(f"unit: --{what} and --{others[0]} exclude each other")
    compiled = _compile_script(parsed)
    if compiled is None:
        return 0
    source, spec = compiled
    name = script_name(source)
    gatherer = Gatherer(spec, lambda map, then: [], lambda: Losses([], [], []), name if prefix is None else prefix)
    families = gatherer.describe_families()
    for line in explain_emptiness(spec, name):
        print_to_stderr(line)
    if what == "dashboard":
        from ...exporters.dashboard import make_dashboard
        text = dumps(make_dashboard(name, _first_line(source.text), [*families.values()]), indent=2) + "\n"
    else:
        from ...exporters.alerts import format_rules, make_alerts, undeclared_maps
        for maps in undeclared_maps(source.text, families):
            print_to_stderr(f"WARNING: no alert on {maps}: this run has no such map")
        text = format_rules(name, make_alerts(name, source.text, families))
    _write_output(parsed, text)
    return 0


def _first_line(text: str) -> str:
    """What the head of a script says that it does: ``// runqlat: ...``; "" if it has no head."""
    line = text.partition("\n")[0]
    return line[2:].partition(": ")[2].strip() if line.startswith("//") else ""


def _write_output(parsed: Parsed, text: str) -> None:
    from ..requests import open_output
    descriptor = open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", closefd=descriptor != 1) as file:
        file.write(text)


def most_memory(spec: ScriptSpec, own: int) -> int:
    """The memory limit of the whole service in bytes (MemoryMax=), ``own`` of which are the tracer's (--memory)."""
    from ...kernel.host import possible_cpus
    from ...runtime.records.ringbuf import ring_bytes
    total, cpus = own + READER + KERNEL, possible_cpus()
    for each in spec.maps:
        if each.type == "ringbuf":
            total += ring_bytes(each, spec.config.perf_rb_pages)
        else:
            value = each.value_size * (cpus if "percpu" in each.type else 1)
            total += each.max_entries * (each.key_size + value + (0 if "array" in each.type else ELEMENT))
            if each.name == FLIGHT:  # which a dump copies
                total += each.max_entries * value
    return (total + (1 << 20) - 1) >> 20 << 20


def most_files(spec: ScriptSpec) -> int:
    """Its limit of descriptors (LimitNOFILE=): at most an event and a link on each CPU for each attach point."""
    from ...kernel.host import possible_cpus
    return 1024 + 2 * possible_cpus() * sum([1 + len(program.attach) for program in spec.programs])


def _requested_service(parsed: Parsed) -> tuple[list[str], dict[str, str]]:
    """What the service does, as words of its command, and its exports; puts the script at the head of
    ``parsed.words``."""
    from .export import TARGETS, requested_exports
    if not parsed.has("flight"):
        exports = requested_exports(parsed)
        return ["export", "-q", *_export_arguments(exports)], exports
    given = [name for name in (*TARGETS, "interval", "keys", "prefix") if name in parsed.command_options]
    if given or parsed.has("flight-to"):
        raise UsageError(f"unit: --flight and --{given[0] if given else 'flight-to'} exclude each other",
                         [] if given else ["a service has its dumps in /var/lib/sonde/flights"])
    del parsed.words[0]
    return ["-q", f"--flight-to={STATE}/sonde/flights/{_flight_name(parsed)}"], {}


def _flight_name(parsed: Parsed) -> str:
    from ..flight_settings import flight_name
    return flight_name(parsed)


def _export_arguments(exports: dict[str, str]) -> list[str]:
    """The arguments of the export."""
    from .export import TARGETS
    words = []
    for name in TARGETS:
        if name in exports:
            words += [f"--{name}", *([exports[name]] if exports[name] else [])]
    # A service has no end at which a profile could be sent.
    defaults = {"interval": "" if "otlp-profiles" in exports else "10", "keys": "1000"}
    return words + [f"--{name}={exports[name]}" for name in ("interval", "keys", "prefix")
                    if name in exports and exports[name] != defaults.get(name)]


def _run_arguments(parsed: Parsed) -> list[str]:
    """The arguments of any run: paths made absolute, options before the script."""
    options = [f"--budget={parsed.get('budget', BUDGET)}", *_unit_options(parsed)]
    rest = ["--", *parsed.rest] if parsed.rest else []
    if parsed.has("e") or not parsed.words:
        return [*options, "-e", parsed.get("e"), *parsed.words, *rest]
    script, *params = parsed.words
    if classify_word(script) == FILE and os.path.exists(script):
        script = os.path.abspath(script)
        if not os.stat(script).st_mode & 4:
            from ..requests import print_to_stderr
            print_to_stderr(f"WARNING: {script} cannot be read by every user: the service could not")
    own = [f"{'--' if name[1:] else '-'}{name}{'' if text == 'true' else f'={text}' if name[1:] else text}"
           for name, text in parsed.named.items()]
    return [*options, script, *own, *params, *rest]


def _unit_options(parsed: Parsed) -> list[str]:
    """The options of the run, paths made absolute."""
    from ..options import OPTIONS
    words = []
    for row in [row for row in OPTIONS if parsed.has(row.key) and row.key in UNIT_OPTIONS + UNIT_PATHS]:
        name = row.names[-1]
        for text in parsed.lists.get(row.key, [parsed.get(row.key)]):
            if row.key in UNIT_PATHS:
                text = ":".join(map(os.path.abspath, text.split(":") if row.key == "debuginfo" else [text]))
            words += [name] if not row.value else [f"{name}={text}"] if name.startswith("--") else [name, text]
    return words


def start_command() -> list[str]:
    """The command that starts this Sonde."""
    path = os.path.abspath(sys.argv[0])
    if os.path.basename(path) == "sonde" and os.access(path, os.X_OK):
        return [path]
    return [sys.executable, "-I", "-m", "sonde"]  # nothing from the working directory or the environment


def quote_word(word: str) -> str:
    """A word of ExecStart=, quoted as in systemd.service(5) and systemd.syntax(7)."""
    word = word.replace("%", "%%").replace("$", "$$")
    if word and all(c.isascii() and c.isalnum() or c in "-_./:=@,+%[]" for c in word):
        return word
    return f'"{escape_text(word)}"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def escape_text(text: str) -> str:
    """Any text as part of one line of a unit: unprintable characters are written as their bytes."""
    return "".join([_ESCAPES.get(c) or (c if c.isprintable() else _as_bytes(c)) for c in text])


def _as_bytes(character: str) -> str:
    return "".join([f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape")])


def needed_capabilities(spec: ScriptSpec) -> list[str]:
    """The capabilities that a script needs if its user has none (measured on Linux 6.18)."""
    kinds = {point.kind for program in spec.programs for point in program.attach}
    types = [field.type for site in spec.sites for field in site.fields]
    types += [type for named in spec.maps for type in (named.key, named.value) if type is not None]
    capabilities = {"CAP_BPF", "CAP_PERFMON"}
    if "tracepoint" in kinds or kinds & {"kprobe", "kretprobe"}:
        capabilities.add("CAP_DAC_READ_SEARCH")
    if any(_contains_type(type, _names_kernel) for type in types):
        capabilities.add("CAP_SYSLOG")
    if any(_contains_type(type, _names_user) for type in types):
        capabilities |= {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
    if root_has_perf_events():
        capabilities.add("CAP_SYS_ADMIN")
    return [name for name in PURPOSES if name in capabilities]


def _contains_type(type: Type, test: Callable[[Type], bool]) -> bool:
    from ...types import Array, Tuple
    if isinstance(type, Tuple):
        return any(_contains_type(each, test) for each in type.of)
    return _contains_type(type.of, test) if isinstance(type, Array) else bool(test(type))


def _names_kernel(type: Type) -> bool:
    from ...types import Stack, Symbol
    return isinstance(type, Stack) and not type.user or isinstance(type, Symbol) and type.kind == "ksym"


def _names_user(type: Type) -> bool:
    from ...types import Stack, USym
    return isinstance(type, Stack) and type.user or isinstance(type, USym)
