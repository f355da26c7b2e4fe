"""bpftrace 0.27 beside Sonde: the same program given to both, and what each of them answered.

SONDE_PEER names the program; else it is looked for in PATH.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sonde.record import Record

SECONDS = 20
WANTED = "0.27"
# What the peer says of the machine, not of the program.
_NOISE = re.compile(r"(?:WARNING: (?:Could not read functions from|Unknown error -1: couldn't set RLIMIT)|Attached \d|"
                    r"ERROR: Failed to open kernel function info).*\n?")
_PLACE = re.compile(r"^[\w./-]+:(\d+):(\d+)-(\d+): ")


class Answer(Record):
    """What a tracer did with a program."""

    status: int
    output: str
    errors: str

    @property
    def accepted(self) -> bool:
        return self.status == 0

    @property
    def sentence(self) -> str:
        """The first complaint, without its place."""
        return _PLACE.sub("", self.first)

    @property
    def first(self) -> str:
        """The first complaint, with its place."""
        return next((line for line in self.errors.splitlines() if "ERROR: " in line), "")


@functools.cache
def find_peer() -> tuple[str, str]:
    """The path of bpftrace, and why there is none."""
    path = os.environ.get("SONDE_PEER") or shutil.which("bpftrace")
    if path is None:
        return "", "no bpftrace in PATH, and SONDE_PEER names none"
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    except OSError as error:
        return "", f"{path}: {error.strerror}"
    version = done.stdout.strip()
    return (path, "") if f"v{WANTED}" in version else ("", f"{path} is {version or 'no bpftrace'}, not {WANTED}")


def ask_peer(program: str, *more: str) -> Answer:
    """What bpftrace makes of a program."""
    return _ask([find_peer()[0], *more, "-e", program])


def ask_sonde(program: str, *more: str) -> Answer:
    """What Sonde makes of it."""
    return _ask([sys.executable, "-m", "sonde", *more, "-e", program])


def _ask(command: list[str]) -> Answer:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BPFTRACE_", "SONDE_"))}
    clean["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, env=clean, check=False)
    except subprocess.TimeoutExpired:
        return Answer(-1, "", "ERROR: took too long")
    return Answer(done.returncode, done.stdout.decode(errors="replace"),
                  _NOISE.sub("", done.stderr.decode(errors="replace")))


def difference(peer: Answer, own: Answer) -> str:
    """In what two answers differ: "" in nothing, else verdict, status, output or words."""
    if peer.accepted != own.accepted:
        return "crash" if "internal error" in own.errors else "refused" if peer.accepted else "accepted"
    if not peer.accepted:
        return "" if peer.sentence == own.sentence else "words"
    # The keys of a map come in the order of the kernel's hash in one, in the order of the values in the other.
    return "" if sorted(peer.output.split("\n")) == sorted(own.output.split("\n")) else "output"
