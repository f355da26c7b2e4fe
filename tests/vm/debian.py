"""Debian's packages, fetched with apt-get and never installed; what is made of them lies in a cache ($SONDE_VM_CACHE,
else ~/.cache/sonde-vm)."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """This machine cannot have what is needed; the text says what."""


def cache_directory() -> Path:
    found = Path(os.environ.get("SONDE_VM_CACHE") or Path.home() / ".cache" / "sonde-vm").resolve()
    found.mkdir(parents=True, exist_ok=True)
    return found


@contextmanager
def making(target: Path) -> Iterator[Path]:
    """A directory beside ``target`` that takes its name at the end. Two at once do no harm: the first one stays."""
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}", dir=target.parent))
    try:
        yield work
        try:
            work.rename(target)
        except OSError:
            if not (target / "ready").exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Apt:
    """apt-get and apt-cache for one of Debian's suites and architectures, with lists of its own, and for a system on
    which nothing is installed: nothing of this machine changes. Several at once take turns: apt-get would give up, and
    apt-cache see half of a list."""

    def __init__(self, suite: str, architecture: str) -> None:
        if not shutil.which("apt-get"):
            raise Unavailable("kernels come from Debian, and this machine has no apt-get")
        self.suite, self.architecture = suite, architecture
        own = cache_directory() / "apt" / f"{suite}-{architecture}"
        for name in ("lists", "archives"):
            (own / name / "partial").mkdir(parents=True, exist_ok=True)
        (own / "status").touch()
        (own / "sources.list").write_text(
            f"deb [arch={architecture} signed-by={KEYRING}] {mirror()} {suite} main\n")
        settings = {"Dir::Etc::SourceList": own / "sources.list", "Dir::Etc::SourceParts": "-",
                    "Dir::State::Lists": own / "lists", "Dir::State::status": own / "status", "Dir::Cache": own,
                    "APT::Architecture": architecture, "APT::Architectures": architecture,
                    "Acquire::Languages": "none", "Acquire::Retries": 2, "Acquire::http::Timeout": 30,
                    "APT::Sandbox::User": "root"}
        self.archives, self._turn = own / "archives", own / "turn"
        self._options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        """apt-get, for ten minutes at most; what it complained of."""
        try:
            with self._alone():
                done = subprocess.run(["apt-get", "-qq", *self._options, *arguments], cwd=cwd, capture_output=True,
                                      text=True, timeout=600, check=False)
            return done.stderr.strip() if done.returncode else ""
        except subprocess.TimeoutExpired:
            return "it took more than ten minutes"

    def names(self, prefix: str) -> list[str]:
        """The packages whose names begin so."""
        with self._alone():
            return subprocess.run(["apt-cache", *self._options, "pkgnames", prefix], capture_output=True, text=True,
                                  check=False).stdout.split()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._turn.open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield


def mirror() -> str:
    """Where this machine's apt has Debian from."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
                            capture_output=True, text=True, check=False).stdout.split()
    found = [address for address in listed if address.rstrip("/").endswith("/debian")]
    if not found:
        raise Unavailable("kernels come from Debian, and this machine's apt knows no mirror of it")
    return found[0]
