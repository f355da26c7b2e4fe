"""``sonde tcpsubnet``: how much is sent over TCP to each of some networks."""

from __future__ import annotations

from ...errors import UsageError
from .generated import number_option, quote_string, run_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
tcpsubnet: sum up what is sent over TCP to each of some networks

USAGE
  sonde tcpsubnet [OPTIONS] [-p PID] [SUBNETS]

  SUBNETS are networks of IPv4 with commas between them; what goes to none of them is not counted, and what goes to
  several counts for the first. Without, they are
  127.0.0.1/32,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,0.0.0.0/0: this machine, the private networks, and the rest.

OPTIONS
  -i, --interval SECONDS   print, and begin anew, every so many seconds (1)

COLUMNS
  @bytes[SUBNET]   bytes that were sent to addresses in it

EXAMPLE
  # sonde tcpsubnet 127.0.0.0/8,0.0.0.0/0
  Tracing what is sent over TCP. Ctrl-C to end.
  06:46:10
  @bytes[127.0.0.0/8]: 9300

NEEDS
  tracepoint sock:sock_send_length (Linux 6.3) or fexit, BTF (struct sock)

NOTES
  What is counted is the data that programs gave to sockets, whichever call they used; headers and retransmits are not.
"""

DEFAULT = "127.0.0.1/32,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,0.0.0.0/0"
MOST = 100  # networks: each is a comparison in the kernel
_PROBES = """\
tracepoint:sock:sock_send_length
/exists("tracepoint:sock:sock_send_length")/
{ count_bytes(@bytes, (struct sock *)args.sk, args.ret); }
fexit:inet*_sendmsg
/!exists("tracepoint:sock:sock_send_length")/
{ count_bytes(@bytes, args.sock->sk, (int64)retval); }
"""


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    return run_script("tcpsubnet", build_script(parsed.named, parsed.words[1:] + parsed.rest), parsed)


def build_script(named: dict[str, str], words: list[str]) -> str:
    """The program for these networks; UsageError if they are invalid."""
    if len(words) > 1:
        raise UsageError("tcpsubnet takes one list of networks", ["127.0.0.1/32,10.0.0.0/8"])
    texts = (words[0] if words else DEFAULT).split(",")
    if len(texts) > MOST:
        raise UsageError(f"tcpsubnet takes at most {MOST} networks")
    branches = " else ".join(f"if (($to & {mask:#x}) == {network:#x}) {{ @bytes[{quote_string(text)}] = sum(size); }}"
                             for text in texts for network, mask in [_parse_network(text)])
    every = number_option(named, "interval", 1)
    return (f"config = {{ print_maps_on_exit = false }}\n"
            f"macro count_bytes(@bytes, sk, size) {{ $sk = sk;\n"
            f"  if (($sk->sk_protocol == IPPROTO_TCP || $sk->sk_protocol == IPPROTO_MPTCP) && size > 0\n"
            f"  && $sk->__sk_common.skc_family == AF_INET) {{ $to = (uint64)bswap($sk->__sk_common.skc_daddr);\n"
            f"  {branches} }} }}\n"
            f'begin {{ printf("Tracing what is sent over TCP. Ctrl-C to end.\\n"); }}\n'
            f"{_PROBES}"
            f'interval:s:{every} {{ time("%H:%M:%S\\n"); print(@bytes); clear(@bytes); }}\n'
            f'end {{ print(@bytes); }}\n')


def _parse_network(text: str) -> tuple[int, int]:
    """Address and mask of ``10.0.0.0/8``."""
    from ipaddress import IPv4Network
    try:
        network = IPv4Network(text.strip())
    except ValueError as problem:
        raise UsageError(f"'{text}' is no network of IPv4: {problem}", ["write 10.0.0.0/8"]) from None
    return int(network.network_address), int(network.netmask)
