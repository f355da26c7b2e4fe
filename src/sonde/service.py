"""What a service manager that started Sonde is told: sd_notify(3), "New-Style Daemons" in daemon(7)."""

from __future__ import annotations

import os


def tell_manager(state: str) -> None:
    """Send ``READY=1`` or ``STOPPING=1`` to NOTIFY_SOCKET; nothing where no manager asked for it. As the manual has it,
    that nobody listens any more is no failure of the service."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path[:1] not in ("/", "@"):
        return
    import socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        try:
            to.sendto(state.encode(), socket.MSG_DONTWAIT, "\0" + path[1:] if path[0] == "@" else path)
        except OSError:
            pass
