"""bpftrace 0.27 beside Sonde: the same command line given to both, and what each of them answered.

SONDE_PEER names the program; else it is looked for in PATH.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO

from sonde.base.record import Record

SECONDS = 900 if os.environ.get("SONDE_VM") else 60  # in a guest all takes longer
FAILED = 249  # a child that did not become a tracer
WANTED = "0.27"
# What the peer says of the machine, not of the program.
_NOISE = re.compile(r"(?:WARNING: (?:Could not read functions from|The kernel contains bpf_iter__|Unknown error -1: "
                    r"couldn't set RLIMIT)|ERROR: Failed to open kernel function info).*\n?")
_PLACE = re.compile(r"^\S+:(\d+):(\d+)-(\d+): |^stdlib/\S+:\d+-\d+: ")
# Sonde does not warn of what scripts always do, and warns of failures while it runs without being asked (-k), as
# bpftrace does of its library's with "Success".
_ON_PURPOSE = re.compile(r"Return value discarded\. *(?:delete|find)\(|This can lead to unexpected results|"
                         r"Can't delete map|WARNING: Success|Addrspace mismatch")
_ARITHMETIC = "being cast to type: "  # Sonde says it of comparisons and assignments only


class Answer(Record):
    """What a tracer did with a program. ``signal`` ended it if not 0."""

    status: int
    output: str
    errors: str

    @property
    def refused(self) -> bool:
        return self.status != 0 and "Attached " not in self.errors

    @property
    def broken(self) -> bool:
        """Whether what the program was made into was refused, by the kernel or by LLVM: no verdict on the program."""
        return self.status == 255 or self.status < 0

    def found(self, kind: str) -> list[str]:
        """The complaints of a kind (ERROR, WARNING), with their places."""
        return [line for line in self.errors.splitlines() if f"{kind}: " in line]

    @property
    def warnings(self) -> list[str]:
        """What is warned of at places in the script."""
        lines = self.errors.splitlines()
        return [line for line, text in pairwise([*lines, ""]) if "WARNING: " in line and _PLACE.match(line)
                and "expanded from" not in line and not line.startswith("stdlib/")
                and not _ON_PURPOSE.search(f"{line} {_at(line, text)}")]

    @property
    def first(self) -> str:
        """The first error, with its place in the script: of one in bpftrace's library where it was called from."""
        found = [*self.found("ERROR"), ""]
        if not found[0].startswith("stdlib/"):
            return found[0]
        places = [line for line in found[1:] if line.startswith("stdin:")]
        return places[0].replace("expanded from", without_place(found[0]).removeprefix("ERROR: ")) if places else ""

    @property
    def underlined(self) -> str:
        """The tildes below the first complaint, if that has a place."""
        lines, place = self.errors.splitlines(), _PLACE.match(self.first)
        return next((lines[at + 2].strip() for at, line in enumerate(lines[:-2]) if line.startswith(place[0])
                     and "ERROR: " in line), "") if place else ""


def _at(line: str, text: str) -> str:
    """What a complaint is about, of the line that is shown below it."""
    place = _PLACE.match(line)
    return text[int(place[2]) - 1:int(place[3]) - 1] if place else ""


def without_place(line: str) -> str:
    return _PLACE.sub("", line)


@functools.cache
def find_peer() -> tuple[str, str]:
    """The path of bpftrace, and why there is none."""
    path = os.environ.get("SONDE_PEER") or shutil.which("bpftrace")
    if path is None:
        return "", "no bpftrace in PATH, and SONDE_PEER names none"
    if not os.path.exists("/sys/kernel/tracing/available_events"):
        return "", "bpftrace wants tracefs, which is not mounted at /sys/kernel/tracing"
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    except OSError as error:
        return "", f"{path}: {error.strerror}"
    version = done.stdout.strip()
    return (path, "") if f"v{WANTED}" in version else ("", f"{path} is {version or 'no bpftrace'}, not {WANTED}")


@functools.cache
def traceable_functions() -> list[str]:
    """Options for both, where the kernel does not say which functions can be traced: all of its own. bpftrace lists no
    raw tracepoints without."""
    try:
        with open("/sys/kernel/tracing/available_filter_functions") as known:
            known.readline()
        return []
    except OSError:
        path = Path(tempfile.gettempdir(), f"traceable-functions-{os.getuid()}")
        with open("/proc/kallsyms") as symbols:
            names = [line.split()[2] for line in symbols if line.split()[1] in "tT"]
        path.write_text("".join(f"{name}\n" for name in names))
        return ["--traceable-functions", str(path)]


def ask_peer(arguments: Sequence[str]) -> Answer:
    """What bpftrace makes of a command line."""
    path, options = find_peer()[0], traceable_functions()
    return _ask(lambda: os.execv(path, [path, *options, *arguments]))


def ask_sonde(arguments: Sequence[str]) -> Answer:
    """What Sonde makes of it, in a copy of this process: what is imported already need not be again."""
    return _ask(functools.partial(_be_sonde, [*traceable_functions(), *arguments]))


def import_sonde() -> None:
    """Import what a copy of this process will need of Sonde."""
    for name in ("cli.main", "cli.script_run", "compiling", "language.parser", "semantics.check", "compiler.pipeline",
                 "compiler.plan", "runtime.session", "output.losses", "kernel.types.world"):
        importlib.import_module(f"sonde.{name}")


def _be_sonde(arguments: Sequence[str]) -> None:
    from sonde.cli.main import main
    sys.stdout, sys.stderr = (os.fdopen(number, "w", errors="surrogateescape", closefd=False) for number in (1, 2))
    status = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _ask(become: Callable[[], None]) -> Answer:
    """Let a child become a tracer, and wait for it."""
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            _enter([nothing, output, errors], become)
        code = _wait(child)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Answer(os.waitstatus_to_exitcode(code), texts[0], _NOISE.sub("", texts[1]))


def _wait(child: int) -> int:
    """How a tracer ended; one that its alarm did not end is killed, with what it started."""
    ended = os.pidfd_open(child)
    if not select.select([ended], [], [], SECONDS + 5)[0]:
        os.killpg(child, signal.SIGKILL)
    os.close(ended)
    return os.waitpid(child, 0)[1]


def _enter(files: list[IO[bytes]], become: Callable[[], None]) -> None:
    """The child's side: streams, environment and alarm; never returns."""
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        os.setpgid(0, 0)
        for name in [name for name in os.environ if name.startswith(("BPFTRACE_", "SONDE_"))]:
            del os.environ[name]
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.alarm(SECONDS)
        become()
    finally:
        os._exit(FAILED)


def difference(peer: Answer, own: Answer) -> str:
    """In what two answers differ: "" in nothing; else the first of crash, verdict, status, output, words, place,
    warnings."""
    if "internal error" in own.errors or own.status in (FAILED, -11):
        return "crash"
    if peer.broken:
        return ""
    if peer.refused != own.refused:
        return "refused" if own.refused else "accepted"
    if peer.refused:
        if peer.status == 2:  # in clang's words
            return ""
        if without_place(peer.first) != without_place(own.first):
            return "words"
        return "" if (peer.first, peer.underlined) == (own.first, own.underlined) else "place"
    if peer.status != own.status:
        return "status"
    # The keys of a map come in the order of the kernel's hash in one, in the order of the values in the other.
    if sorted(peer.output.splitlines()) != sorted(own.output.splitlines()):
        return "output"
    theirs = [line for line in peer.warnings if line in own.warnings or _ARITHMETIC not in line]
    return "" if set(theirs) == set(own.warnings) else "warnings"  # bpftrace says some of them twice
