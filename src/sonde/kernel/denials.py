"""Why the kernel does not permit a call: a capability, lockdown, a user namespace, or a security policy."""

from __future__ import annotations

import errno
import os

from ..errors import PrivilegeError

POLICY = "a container or security module (seccomp, SELinux, AppArmor) may forbid it"
_ADMIN = ("GET_NEXT_ID", "GET_FD_BY_ID", "ENABLE_STATS")  # what CAP_BPF does not allow: kernel/bpf/syscall.c
PARANOID = "or sysctl kernel.perf_event_paranoid=2, with which CAP_PERFMON is enough"
_MOST_PARANOID = 2  # of kernel.perf_event_paranoid; with 3 and 4 (Debian, Ubuntu) CAP_PERFMON is not enough
_FIRST_USERS = 0xEFFFFFFD  # PROC_USER_INIT_INO: include/linux/proc_ns.h


def explain_denial(call: str, held: int) -> PrivilegeError:
    """The error for a call that is "not permitted" to a process that has the capabilities ``held``."""
    needed = [("CAP_PERFMON", 38)] if call.startswith("perf_event") else [("CAP_BPF", 39), ("CAP_PERFMON", 38)]
    if any(word in call for word in _ADMIN):
        needed = [("CAP_SYS_ADMIN", 21)]
    if call.startswith("perf_event") and root_has_perf_events():
        needed = [("CAP_SYS_ADMIN", 21)]
    missing = [name for name, bit in needed if not held >> bit & 1 and not held >> 21 & 1]
    if missing:
        from ..base.installation import as_root
        needs = " and ".join(missing)
        return PrivilegeError(f"{call}: not permitted without {needs}", needs, [
            f"run as root: {as_root()}",
            f"or grant the capabilities to this process ({', '.join(n.lower() for n in missing)}+ep)",
            *([PARANOID] if needed[0][0] == "CAP_SYS_ADMIN" and call.startswith("perf_event") else [])])
    if hints := lockdown_hints(errno.EPERM):
        return PrivilegeError(f"{call}: forbidden by kernel lockdown (confidentiality)", "lockdown=integrity", hints)
    if _in_user_namespace():
        return PrivilegeError(f"{call}: not permitted in a user namespace: its root has no rights beyond it", "root", [
            "run as root outside of it; the container of a user who is not root (rootless) has one"])
    memory = ["before Linux 5.11 the memory that may be locked limits it: ulimit -l unlimited"]
    return PrivilegeError(f"{call}: not permitted, although the capabilities that it takes are held", "CAP_SYS_ADMIN", [
        POLICY, *(memory if call in ("bpf(MAP_CREATE)", "bpf(PROG_LOAD)") else []),
        "in a container: with --cap-add SYS_ADMIN, or with a seccomp profile that allows "
        f"{call.partition('(')[0]}(2) to {needed[0][0]}"])


def lockdown_hints(number: int | None) -> list[str]:
    """Hints for an EPERM that lockdown may have caused; [] if it has not."""
    if number != errno.EPERM or kernel_lockdown() != "confidentiality":
        return []
    return ["kernel lockdown forbids reading kernel memory; boot with lockdown=integrity or none"]


def root_has_perf_events() -> bool:
    """Whether kernel.perf_event_paranoid keeps perf events, by which most probes are attached, for CAP_SYS_ADMIN."""
    try:
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
            return int(file.read()) > _MOST_PARANOID
    except (OSError, ValueError):
        return False


def kernel_lockdown() -> str:
    """``none``, ``integrity`` or ``confidentiality`` (which forbids reading kernel memory)."""
    try:
        with open("/sys/kernel/security/lockdown", encoding="utf-8") as file:
            return file.read().partition("[")[2].partition("]")[0] or "none"
    except OSError:
        return "none"


def _in_user_namespace() -> bool:
    """Whether this is not the initial user namespace: in any other, capabilities apply only to what it owns."""
    try:
        return os.stat("/proc/self/ns/user").st_ino != _FIRST_USERS
    except OSError:
        return False
