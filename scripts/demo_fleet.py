#!/usr/bin/env python3
"""One histogram from three hosts: namespaces of this machine (network, mounts, host name), each with its own sshd.

A workload whose sizes are known runs while `sonde fleet` traces it by ssh; the merged histogram is shown beside the sum
that the workload knows. Needs root, and installs openssh-server by apt where there is no sshd. Keys, servers and
namespaces are made for it and removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Self

import sonde

ROOT = Path(__file__).resolve().parents[1]
HOSTS = ("alpha", "beta", "gamma")
SIZES = Counter({16: 4000, 300: 2000, 5000: 500, 60000: 20})  # bytes of a write: how many
SCRIPT = "tracepoint:syscalls:sys_enter_write /pid == $1/ { @bytes = hist(args.count); @writes[comm] = count(); }"


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def find_sshd() -> str:
    """Where sshd is, installed if need be."""
    places = "/usr/sbin:/sbin:/usr/bin"
    if shutil.which("sshd", path=places) is None:
        print("installing openssh-server ...", flush=True)
        run("apt-get", "update", "-qq")
        # RUNLEVEL: the package starts no server of its own.
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "openssh-server"], check=True,
                       stdout=subprocess.DEVNULL,
                       env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"})
    found = shutil.which("sshd", path=places)
    if found is None:
        sys.exit("demo-fleet: there is no sshd")
    return found


class Host:
    """A namespace of each kind, joined to this one by a link, in which sshd listens."""

    def __init__(self, name: str, number: int, folder: Path, sshd: str) -> None:
        self.name, self.space = name, f"sonde-demo-{name}"
        self.link, self.near, self.address = f"sonde{number}", f"10.231.{number}.1", f"10.231.{number}.2"
        self.folder, self.sshd = folder, sshd
        self.server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        run("ip", "netns", "add", self.space)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        run("ip", "addr", "add", f"{self.near}/30", "dev", self.link)
        run("ip", "link", "set", self.link, "up")
        for words in (("addr", "add", f"{self.address}/30", "dev", "eth0"), ("link", "set", "eth0", "up"),
                      ("link", "set", "lo", "up")):
            run("ip", "-n", self.space, *words)
        config = self.folder / f"{self.name}.conf"
        config.write_text(f"ListenAddress {self.address}:22\nHostKey {self.folder}/host\nPidFile none\nUsePAM no\n"
                          f"AuthorizedKeysFile {self.folder}/user.pub\nStrictModes no\nPermitRootLogin yes\n")
        inside = f"hostname {self.name}; exec {self.sshd} -D -e -f {config}"
        entering = ["nsenter", f"--net=/run/netns/{self.space}", "unshare", "--uts", "--mount"]
        self.server = subprocess.Popen([*entering, "sh", "-c", inside], stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait()
        run("ip", "netns", "del", self.space)


def write_known_sizes(child: subprocess.Popen[bytes]) -> None:
    """Have the workload write, and wait until it has."""
    assert child.stdin is not None
    child.stdin.close()
    if child.wait():
        sys.exit("demo-fleet: the workload failed")


WORKLOAD = """
import os, sys
sys.stdin.read()
null = os.open("/dev/null", os.O_WRONLY)
for size, times in {sizes}:
    for _ in range(times): os.write(null, bytes(size))
"""


def trace_fleet(hosts: list[Host], folder: Path) -> int:
    """Trace the workload on all hosts; 0 if the sums are exact."""
    remote = folder / "sonde"
    remote.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}/src exec {sys.executable} -P -m sonde "$@"\n')
    remote.chmod(0o755)
    ssh = ["ssh", "-i", f"{folder}/user", "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o",
           "LogLevel=ERROR", "-o", "IdentitiesOnly=yes", "-l", "root"]
    child = subprocess.Popen([sys.executable, "-c", WORKLOAD.format(sizes=list(SIZES.items()))], stdin=subprocess.PIPE)
    begun = time.monotonic()
    with sonde.fleet([host.address for host in hosts], SCRIPT, params=[str(child.pid)], ssh=ssh, agent=str(remote),
                     outliers=True) as tracing:
        print(f"three hosts trace after {time.monotonic() - begun:.1f} s\n")
        write_known_sizes(child)
    print(f"{tracing}\n\n@bytes:\n{tracing.maps['@bytes'].value}")
    known = len(hosts) * SIZES.total()
    [merged] = tracing.maps["@writes"].values()
    print(f"merged: {merged} writes. The workload knows: {SIZES.total()}, which each of {len(hosts)} hosts of this one "
          f"kernel sees: {known}.")
    return 0 if merged == known == tracing.maps["@bytes"].value.total and not tracing.missing else 1


def main() -> int:
    if os.geteuid():
        sys.exit("demo-fleet: needs root")
    sshd = find_sshd()
    os.makedirs("/run/sshd", exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sonde-demo-") as name:
        folder = Path(name)
        for key in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
        with Host(HOSTS[0], 1, folder, sshd) as a, Host(HOSTS[1], 2, folder, sshd) as b, \
                Host(HOSTS[2], 3, folder, sshd) as c:
            time.sleep(0.5)
            return trace_fleet([a, b, c], folder)


if __name__ == "__main__":
    sys.exit(main())
