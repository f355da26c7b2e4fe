#!/usr/bin/env python3
"""One histogram from three hosts: namespaces of this machine (network, mounts, host name), each with its own sshd; then
one from three workers of a Dask cluster with TLS, beside an agent on a socket.

A workload whose sizes are known runs while `sonde fleet` traces it; the merged histogram is shown beside the sum that
the workload knows. Needs root, and installs openssh-server by apt where there is no sshd. Keys, servers, namespaces and
certificates are made for it and removed.
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
from typing import Any, Self

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
    return trace_workload([host.address for host in hosts], ssh=ssh, agent=str(remote), outliers=True)


def trace_cluster(folder: Path) -> int:
    """Trace the workload on three workers of a cluster that is made for it; 0 if the sums are exact."""
    try:
        import distributed
    except ModuleNotFoundError:
        print("The same on a Dask cluster takes the extra `fleet`: make setup, then make demo-fleet again.")
        return 0
    path = folder / "agent.socket"
    (folder / "policy").write_text('users = ["root"]\naudit = "stderr"\n')
    (folder / "policy").chmod(0o600)
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # the agent's, and the workers'
    agent = subprocess.Popen([sys.executable, "-P", "-m", "sonde", "agent", f"--socket={path}",
                              f"--policy={folder}/policy"], stderr=subprocess.DEVNULL)
    try:
        security = distributed.Security.temporary()
        with distributed.LocalCluster(n_workers=3, threads_per_worker=1, security=security, protocol="tls",
                                      dashboard_address=":0", silence_logs=50) as cluster, \
                distributed.Client(cluster, security=security) as client:
            print(f"A Dask cluster at {cluster.scheduler_address}")
            while not path.exists() and agent.poll() is None:
                time.sleep(0.02)
            return trace_workload(client, socket=str(path), every=True)
    finally:
        agent.terminate()
        agent.wait()


def trace_workload(hosts: Any, **way: Any) -> int:
    """Show the workload's merged histogram beside what it knows; 0 if they are the same."""
    child = subprocess.Popen([sys.executable, "-c", WORKLOAD.format(sizes=list(SIZES.items()))], stdin=subprocess.PIPE)
    begun = time.monotonic()
    with sonde.fleet(hosts, SCRIPT, params=[str(child.pid)], **way) as tracing:
        print(f"three hosts trace after {time.monotonic() - begun:.1f} s\n")
        write_known_sizes(child)
    print(f"{tracing}\n\n@bytes:\n{tracing.maps['@bytes'].value}")
    known = len(HOSTS) * SIZES.total()
    [merged] = tracing.maps["@writes"].values()
    print(f"merged: {merged} writes. The workload knows: {SIZES.total()}, which each of {len(HOSTS)} hosts of this one "
          f"kernel sees: {known}.\n")
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
            status = trace_fleet([a, b, c], folder)
        return status or trace_cluster(folder)


if __name__ == "__main__":
    sys.exit(main())
