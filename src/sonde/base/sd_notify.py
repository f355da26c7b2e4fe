"""Messages to the service manager that started Sonde: sd_notify(3), "New-Style Daemons" in daemon(7)."""

from __future__ import annotations

import os
import sys

_warned: list[str] = []  # the failure that was told; the next one is no news


def tell_manager(state: str) -> None:
    """Send ``READY=1`` or ``STOPPING=1`` to NOTIFY_SOCKET; nothing where no manager asked for it. A manager that cannot
    be told is no failure of the run, as sd_notify(3) has it, but may wait for READY=1 and end the service: a warning
    says so, once."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    try:
        if path[0] not in "/@":
            raise OSError("the address is none of AF_UNIX")
        _send_datagram(state.encode(), "\0" + path[1:] if path[0] == "@" else path)
    except OSError as error:
        if not _warned:
            _warned.append(state)
            print(f"WARNING: the service manager (NOTIFY_SOCKET) was not told {state}: {error.strerror or error}",
                  file=sys.stderr, flush=True)


def _send_datagram(data: bytes, address: str) -> None:
    """Without waiting for a reader who has no room for it."""
    import socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        to.sendto(data, socket.MSG_DONTWAIT, address)
