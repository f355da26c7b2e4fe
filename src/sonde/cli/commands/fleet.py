"""``sonde fleet``: a script or a tool on many hosts at once, merged into one answer."""

from __future__ import annotations

import sys

from ...base.numbers import parse_whole
from ...errors import UsageError
from ..display_choice import makes_recording, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...fleet.state.coordinator import Fleet
    from ...fleet.state.log import Log
    from ...fleet.transport.connection import Transport
    from ...fleet.transport.request import FleetRequest
    from ...fleet.views.show import Presenter
    from ...source import Source
    from ..options import Parsed

PAGE = """\
fleet: a script or tool on many hosts at once, their maps merged exactly into one answer

USAGE
  sonde fleet -H HOSTS [OPTIONS] -e PROGRAM [SECONDS] [-- PARAMETERS]
  sonde fleet -H HOSTS [OPTIONS] FILE | TOOL [parameters]
  sonde fleet -H HOSTS [OPTIONS] packets [parameters]
  sonde fleet --dask ADDRESS ...
  sonde top fleet -H HOSTS ... | sonde serve fleet -H HOSTS ...

  HOSTS are names as ssh takes them, with commas and ranges (web[001-500], db[1-3,7]); a word with a slash is a file
  with one host a line (an inventory), - is standard input. local:NAME is an agent of this machine as a child process,
  unix:PATH one that listens on a socket (sonde agent --socket).

OPTIONS
  -H, --hosts HOSTS       which hosts; may be given several times
  --seconds SECONDS       trace for so long; without it until Ctrl-C, or until the script ends on all hosts
  --by host               keep hosts apart: a key `host` in front of each map's
  --outliers              rank the hosts by how far their distribution is from the rest
  --window SECONDS        between two deltas of the maps (1)
  --parallel N            connections that are made at once (64)
  --patience SECONDS      that a connection may take, and a host to be ready after the others (10)
  --push                  send Sonde itself, over the same connection; nothing is left behind
  --ssh COMMAND           instead of ssh: 'ssh -F FILE'
  --dask ADDRESS          instead of -H: the workers of a Dask cluster, one of each machine, beside agents on sockets
  --socket PATH           with --dask: the agent's socket on each host (/run/sonde/agent.socket)
  --agent COMMAND         what Sonde is called on the hosts (sonde)

COLUMNS
  -   what the script prints, lines with the host in front, maps merged

EXAMPLE
  # sonde fleet -H local:a,local:b -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }' 2
  2 of 2 hosts; window 2.0 s; clocks within 0.2 ms; lost 0 events

  @[sshd]: 104
  @[python3]: 5830

NEEDS
  ssh to the hosts, root there or sudo without a password, and Sonde there, or Python 3.11 and --push

NOTES
  A line says who is in the result and who is not, and why. A merged number is the exact sum over the hosts that it
  names, and the windows that they completed. Plain values are not merged: they stand under their host. The status is 0
  if all hosts came to the end, 3 if some are missing, 1 if all are.

  sonde top fleet and sonde serve fleet show the merged maps as they grow, the fleet's state on top and its hosts as a
  table; --redraw draws state and maps over themselves with each window. The hosts' policy files (sonde agent --help)
  say what may run there. --record FILE, or sonde record fleet ... -o FILE, keeps what the hosts send: sonde replay FILE
  shows it again, in any form, and with --by host. -p and -c have no place here.
"""

_REFUSED = ("pid", "cmd", "follow", "test", "bench", "mode", "dry-run", "debug", "stats", "I", "include", "count",
            "every")


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    from ...fleet.state.coordinator import Fleet
    from ...fleet.views.forms import make_presenter
    from ..requests import open_output
    own = _own_options(parsed)
    _check_view(parsed, parsed.get("format", "text"))
    wants_help = parsed.has("help")
    if not wants_help and ("hosts" in own) == ("dask" in own):
        raise UsageError("fleet takes either -H HOSTS or --dask ADDRESS", ["sonde fleet --help explains"])
    if not parsed.words and not parsed.has("e"):
        raise UsageError("fleet needs a script: -e PROGRAM, FILE or TOOL", ["sonde fleet --help explains"])
    request = _make_request(parsed, own)
    if request is None:
        return 0
    form, recorded = parsed.get("format", "text"), makes_recording(parsed)
    _check_view(parsed, form)  # -w of packets is a format
    if form == "pcapng" and recorded:
        raise UsageError("a fleet's recording keeps no bytes of packets: record, or -f pcapng")
    request.args = recorded or form not in ("text", "json")
    request.live = bool(parsed.command) or parsed.has("redraw")
    if (request.live or recorded or form != "text") and form != "pcapng":  # that takes values, not cells
        request.columns = parsed.columns
    hosts, transport = _find_hosts(own, parsed.lists.get("hosts", []))
    fleet = Fleet(hosts, request, transport, _whole(own, "parallel", 64), _number(own, "patience", 10.0),
                  "by" in own, "outliers" in own, _make_log(parsed, own, hosts, request))
    presenter = make_presenter(fleet, "text" if form == "recording" else form, parsed.get("output"),
                               open_output(parsed) if form != "parquet" else 1, _title_of(parsed), "by" in own,
                               parsed.has("quiet"), parsed.has("redraw"))
    if parsed.command:
        from ...fleet.views.watch import WatchedPresenter
        presenter = WatchedPresenter(presenter, _title_of(parsed), parsed.tool, "by" in own)
    with fleet:
        try:
            return _follow(fleet, presenter, parsed)
        finally:
            presenter.close()


def _follow(fleet: Fleet, presenter: Presenter, parsed: Parsed) -> int:
    """Show what arrives until the end; the exit status."""
    from ...fleet.views.following import FleetRun
    from ...fleet.views.watch import WatchedPresenter, watch_in_browser, watch_on_terminal
    with FleetRun(fleet, presenter, parsed.has("quiet")) as run:
        if isinstance(presenter, WatchedPresenter):
            if parsed.command == "serve":
                return watch_in_browser(run, presenter, whole_number(parsed, "port", 0))
            return watch_on_terminal(run, presenter)
        if run.await_beginning():
            run.follow_to_end()
        return run.finish_run()


def _own_options(parsed: Parsed) -> dict[str, str]:
    """The fleet's options, after a check of the others."""
    for name in [name for name in _REFUSED if parsed.has(name)]:
        raise UsageError(f"fleet: {'-' if len(name) == 1 else '--'}{name} has no place where there are many hosts",
                         ["--window says how often hosts are asked"] if name == "every" else [])
    if parsed.has("container"):
        raise UsageError("fleet: -C is not sent to the hosts", ['the script can ask: /container == "web"/'])
    del parsed.words[0]
    own = parsed.command_options
    if own.get("by", "host") != "host":
        raise UsageError(f"--by host, not --by {own['by']}")
    return own


def _check_view(parsed: Parsed, form: str) -> None:
    """UsageError for a form that does not exist, or that ``top`` and ``serve`` cannot show of a fleet."""
    from ...output.views import FORMATS, refuse_format
    if parsed.command and form not in ("text", "json"):
        raise UsageError(f"sonde {parsed.command} shows a running script; -f {form} has no place there")
    if form not in (*FORMATS, "recording", "parquet"):
        refuse_format(form, (*FORMATS, "recording", "parquet"))
    if form == "parquet" and not parsed.has("output"):
        raise UsageError("-f parquet needs -o FILE")
    if parsed.has("port") and parsed.command != "serve":
        raise UsageError("--port is of sonde serve fleet")


def _make_request(parsed: Parsed, own: dict[str, str]) -> FleetRequest | None:
    """What the hosts are asked to run; None if only a tool's help was requested."""
    from ...fleet.transport.request import FleetRequest
    from ..options import budget_of
    from ..requests import options_of, program_of
    seconds = _number(own, "seconds", 0.0)
    if parsed.has("e") and parsed.words:
        seconds = _number({"SECONDS": parsed.words.pop(0)}, "SECONDS", 0.0)
        if parsed.words:
            raise UsageError("fleet -e PROGRAM takes SECONDS, and parameters after --")
    source, params = _packets_of(parsed) or program_of(parsed)
    if source is None:
        return None
    view, parsed.options["format"] = parsed.get("format", "text"), "text"
    options = options_of(parsed, params)
    parsed.options["format"] = view
    return FleetRequest(source, options.params, options.named, _number(own, "window", 1.0), seconds, budget_of(parsed),
                   parsed.has("unsafe"))


def _packets_of(parsed: Parsed) -> tuple[Source | None, list[str]] | None:
    """The script of ``packets``, the one command that many hosts can run; None if something else is to run."""
    if parsed.words[:1] != ["packets"] or parsed.has("e"):
        return None
    from .packets import PAGE as page
    from .packets import fleet_source
    if parsed.has("help"):
        sys.stdout.write(page)
        return None, []
    return fleet_source(parsed), []


def _make_log(parsed: Parsed, own: dict[str, str], hosts: list[str], request: FleetRequest) -> Log | None:
    """The log that records the run, if requested."""
    from ..requests import open_to_write, recording_facts, recording_path
    if not makes_recording(parsed):
        return None
    from ...fleet.recording import FleetRecorder, describe_fleet
    path = recording_path(parsed)
    head = describe_fleet(hosts, request, "by" in own, "outliers" in own, _title_of(parsed), recording_facts(parsed))
    return FleetRecorder(open_to_write(path), head)


def _find_hosts(own: dict[str, str], hosts: list[str]) -> tuple[list[str], Transport]:
    """The hosts, and how they are reached."""
    if "dask" in own:
        from ...fleet.transport.dask import SOCKET_PATH, DaskTransport
        transport = DaskTransport(own["dask"], own.get("socket", SOCKET_PATH))
        return transport.hosts, transport
    from ...fleet.transport.hosts import expand_hosts
    return expand_hosts(hosts), _make_transport(own)


def _make_transport(own: dict[str, str]) -> Transport:
    from shlex import split

    from ...fleet.transport.connection import Transport, pack_sonde
    if "push" in own and "agent" in own:
        raise UsageError("--push or --agent: either Sonde is sent, or it is there")
    push = pack_sonde() if "push" in own else b""
    return Transport(split(own.get("ssh", "ssh")) or ["ssh"], own.get("agent", "sonde"), push)


def _number(own: dict[str, str], name: str, default: float) -> float:
    text = own.get(name, "")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.05 <= number <= 31536000:
        raise UsageError(f"{'' if name.isupper() else '--'}{name} takes a number from 0.05 up, not '{text}'")
    return number


def _whole(own: dict[str, str], name: str, default: int) -> int:
    number = parse_whole(own[name]) if name in own else default
    if not number:
        raise UsageError(f"--{name} takes a whole number from 1 up, not '{own[name]}'")
    return number


def _title_of(parsed: Parsed) -> str:
    return f"sonde fleet: {parsed.tool or (parsed.words[0] if parsed.words else 'a program')}"
