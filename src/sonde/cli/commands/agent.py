"""``sonde agent``: runs a script for a coordinator (``sonde fleet``), by a policy."""

from __future__ import annotations

import os
import sys

from ...errors import SondeError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...library.policy import Policy
    from ..options import Parsed

PAGE = """\
agent: the privileged part of a fleet: traces on this host for sonde fleet, as a policy allows it

USAGE
  sonde agent --stdio
  sonde agent --socket PATH

  Nobody types the first: `sonde fleet` starts it over ssh. The second is a service for coordinators on this host, such
  as the workers of a cluster; `sonde unit --agent` makes one of it that systemd starts when somebody connects.

OPTIONS
  --stdio         serve one coordinator on standard input and output
  --socket PATH   serve those who connect to a Unix socket; who they are the kernel says (SO_PEERCRED). -: standard
                  input is such a connection
  --group NAME    the group, or its number, that may connect to the socket
  --policy FILE   what is allowed to whom (/etc/sonde/agent.toml; without that file the defaults below)

COLUMNS
  -   nothing is printed

EXAMPLE
  # cat /etc/sonde/agent.toml
  users = ["oncall"]                  # who may ask; default: whoever can start the agent, on a socket root alone
  probes = ["tracepoint", "profile"]  # kinds of probes; default: all
  seconds = 600                       # of a run, at most (86400)
  programs = 50                       # attach points, at most (1000)
  keys = 100000                       # elements of all maps together, at most (1048576)
  budget = 5.0                        # percent of one CPU's time, at most; default: as asked
  unsafe = false                      # system(), signal() ...; this is the default
  files = false                       # #include "..", cat(), skboutput(); this is the default
  others = true                       # the memory of processes, paths and packets; this is the default
  scripts = true                      # and not only Sonde's own tools; this is the default
  memory = 128                        # MiB beyond maps and rings; this is the default
  runs = 8                            # at once on a socket; this is the default
  audit = "syslog"                    # or stderr, or a file; this is the default

NEEDS
  root

NOTES
  A coordinator sends a script's text, never code: it is compiled here, against this kernel, after the policy has been
  asked. The policy file has to be root's own. Each run leaves two lines of audit: who asked for which script and
  whether it was refused, and how it ended. The agent ends with its coordinator.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Serve; the exit status."""
    from ...library.policy import PATH, read_policy
    own = parsed.named
    if ("stdio" in own) == ("socket" in own) or parsed.words[1:] or parsed.rest:
        raise UsageError("agent takes --stdio or --socket PATH", ["sonde agent --help explains"])
    policy = read_policy(own.get("policy", PATH))
    if own.get("socket", "-") != "-":
        from ...fleet.agent.listening import serve_socket
        return serve_socket(own["socket"], own.get("group", ""), policy, own.get("policy", ""))
    return _serve_descriptors("socket" in own, policy)


def _serve_descriptors(on_socket: bool, policy: Policy) -> int:
    """Serve the coordinator at standard input and output. Anything else that is printed goes to standard error."""
    from ...fleet.agent.agent import Agent
    from ...fleet.agent.channel import Channel, CoordinatorGoneError
    from ...fleet.transport.protocol import encode_frame
    from ...library.policy import Audit, asking_uid, user_name
    read, write = os.dup(0), os.dup(0 if on_socket else 1)
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    os.dup2(2, 1)
    os.chdir("/")
    uid = _peer_uid(read) if on_socket else asking_uid()
    channel = Channel(read, write)
    audit = Audit(policy.audit, user_name(uid))
    try:
        try:
            policy.check_user(uid, on_socket)
        except SondeError as error:
            audit.write_line("refused", why=error.message)
            channel.send_frame(encode_frame("refused", message=error.message, hints=error.hints))
            return 1
        return Agent(channel, policy, audit).serve()
    except CoordinatorGoneError as error:
        sys.stderr.write(f"sonde agent: {error.message}\n")
        return 1


def _peer_uid(connection: int) -> int:
    """The user at the other end of a Unix socket."""
    import socket
    import struct
    try:
        with socket.socket(fileno=os.dup(connection)) as end:
            data = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        raise UsageError("agent --socket -: standard input is no socket") from None
    _, uid, _ = struct.unpack("iII", data)
    return int(uid)
