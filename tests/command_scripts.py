"""The scripts that Sonde's commands write, of every runtime with all its probes."""

from __future__ import annotations

from sonde.cli.commands import (
    argdist,
    packets,
    pygil,
    pyloop,
    tcpsubnet,
    trace,
    ucalls,
    uflow,
    ugc,
    uobjnew,
    ustat,
    uthreads,
)
from sonde.cli.commands.runtimes import LANGUAGES, Runtime


class EveryProbe(frozenset[str]):
    """Whatever is asked for is there."""

    def __contains__(self, name: object) -> bool:
        return True

    def intersection(self, *names: object) -> frozenset[str]:
        return frozenset(["every"]) if any(names) else frozenset()


RUNTIMES = [Runtime(name, f"/usr/bin/{name}", EveryProbe()) for name in LANGUAGES]
PROBES = ['t:syscalls:sys_enter_read (args->count > 1) "n=%d of %s", args->count, comm', "p:c:puts", 'r:c:puts "done"',
          'p:c:puts(char *s) "%s\\n100%% %d\\nend", s, 1']
PAIRED = ["r:c:write(int fd, char *buf, size_t count):u64,char*:$latency,$entry(buf):$entry(count) > 3#took",
          "p:c:write(int fd):int:fd#fds"]


def command_scripts() -> dict[str, str]:
    """By the command, and its options where these write another one."""
    stacks = dict.fromkeys(("elapsed", "timestamp", "print-cpu", "kernel-stack", "user-stack"), "true")
    return {
        "trace": trace.build_script({}, PROBES), "trace -tTCKU": trace.build_script(stacks, PROBES[:1]),
        "trace -M": trace.build_script({"max-events": "3"}, PROBES),
        "argdist": argdist.build_script({}, PAIRED), "tcpsubnet": tcpsubnet.build_script({}, []),
        "uflow": uflow.script({}, RUNTIMES), "ugc": ugc.script({}, RUNTIMES),
        "ugc -m": ugc.script({"milliseconds": "true"}, RUNTIMES), "ustat": ustat.script({}, RUNTIMES),
        "uthreads": uthreads.script(RUNTIMES, True), "ucalls": ucalls.script({}, RUNTIMES, []),
        "ucalls -LS": ucalls.script({"latency": "true", "syscalls": "true"}, RUNTIMES, []),
        "uobjnew": uobjnew.script({}, RUNTIMES, []),
        "packets": packets.build_script({"stack": "true"}, []),
        "pygil": pygil.build_script({}, "pid == 1", "process 1", 0, 0),
        "pygil --holds": pygil.build_script({}, "pid == 1", "process 1", 1 << 12, 5),
        "pyloop": pyloop.build_script({}, "pid == 1", "libc", 5),
        "pyloop --follow": pyloop.build_script({}, "in_family", "libc", 0, True),
        "packets -S": packets.build_script({"summary": "true"}, []),
    }
