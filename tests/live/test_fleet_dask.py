"""A fleet on a Dask cluster: workers without rights, agents on sockets beside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sonde
from sonde.errors import MachineError, UsageError
from sonde.fleet.transport.dask import require_safe
from support import PATIENCE, Tracer, environment, sonde_command, wait_for

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
GETPPID = f"tracepoint:syscalls:sys_enter_getppid /pid == {os.getpid()}/"
OTHERS = os.environ.get("SONDE_DASK_PYTHONS", sys.executable).split()  # those of environments with other versions
pytestmark = pytest.mark.filterwarnings("ignore")  # what Dask's own threads and sockets leave for the collector


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "scheduler:8786", "tcp://scheduler:8786", "ws://h:1"])
def test_a_scheduler_that_others_reach_needs_tls(address: str) -> None:
    with pytest.raises(UsageError, match="has no TLS"):
        require_safe(address)
    for safe in ("tls://scheduler:8786", "inproc://1.2.3.4/1"):
        require_safe(safe)


LISTEN = "import os, socket, sys; os.setuid(int(sys.argv[1])); made = socket.create_server(('127.0.0.1', 0)); " \
    "print(made.getsockname()[1], flush=True); sys.stdin.read()"


@pytest.mark.parametrize(("user", "safe"), [(0, True), (65534, False)])
def test_root_connects_to_roots_own_listeners_only(user: int, safe: bool) -> None:
    """Without TLS: what a scheduler says is unpickled."""
    with subprocess.Popen([sys.executable, "-c", LISTEN, str(user)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        port = int(process.stdout.readline())
        for address in (f"tcp://127.0.0.1:{port}", f"localhost:{port}", f"tcp://[::1]:{port}"):
            if safe:
                require_safe(address)
            else:
                with pytest.raises(UsageError, match="root does not connect"):
                    require_safe(address)
        process.stdin.close()
    with pytest.raises(UsageError, match="root does not connect"):
        require_safe("tcp://127.0.0.1:1")  # nobody listens: whoever does so a moment later is not asked


@pytest.fixture
def no_fd_leak() -> None:
    """Dask's loops close their descriptors some time after they are told to: not counted here."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("agent")
    folder.chmod(0o700)
    (folder / "policy").write_text('users = ["root"]\nprobes = ["tracepoint"]\naudit = "stderr"\n')
    (folder / "policy").chmod(0o600)
    command = sonde_command(["agent", "--socket", str(folder / "socket"), "--policy", str(folder / "policy")])
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    while not (folder / "socket").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    yield folder / "socket"
    process.terminate()
    process.wait(PATIENCE)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three workers with TLS, to whom Sonde cannot be imported; one certificate, made for them, for all."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = (str(tmp_path_factory.mktemp("tls") / name) for name in ("key", "certificate"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=sonde-test",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    roles = {f"tls_{role}_{what}": path for role in ("client", "scheduler", "worker")
             for what, path in (("key", key), ("cert", certificate))}
    security = distributed.Security(tls_ca_file=certificate, require_encryption=True, **roles)
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, security=security, protocol="tls",
                                  dashboard_address=":0") as cluster, \
            distributed.Client(cluster.scheduler_address, security=security) as found:
        assert found.scheduler.address.startswith("tls://")
        found.run(exec, "import sys; sys.modules['sonde'] = None")
        found.tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": certificate, "PYTHONWARNINGS": "",
                     **{f"DASK_DISTRIBUTED__COMM__TLS__{role}__{what}": path
                        for role in ("CLIENT", "SCHEDULER", "WORKER")
                        for what, path in (("CERT", certificate), ("KEY", key))}}
        yield found


@pytest.mark.exact
def test_three_workers_see_each_call_once_each(client: Any, agent: Path) -> None:
    with sonde.fleet(client, f"{GETPPID} {{ @ = count(); @h = hist(3); }}", socket=str(agent), every=True,
                     window=0.3) as tracing:
        for _ in range(400):
            os.getppid()
    assert tracing.missing == {} and len(tracing.members) == 3
    assert tracing.maps["@"].value == 1200 and tracing.maps["@h"].value.total == 1200


@pytest.mark.exact
def test_the_command_asks_one_worker_of_each_machine(client: Any, agent: Path) -> None:
    """As whoever has no client of Dask's at all: `sonde fleet --dask ADDRESS`."""
    with Tracer("fleet", "--dask", client.scheduler.address, "--socket", str(agent), "-e",
                f"{GETPPID} {{ @ = count(); }} begin {{ printf(\"begun\\n\"); }}", env=client.tls) as tracer:
        for _ in range(400):
            os.getppid()
    assert tracer.stdout.split() == ["begun", "@:", "400"] and "1 of 1 host;" in tracer.stderr


@pytest.mark.parametrize("ours", OTHERS)
@pytest.mark.parametrize("theirs", OTHERS)
def test_other_versions_of_dask(ours: str, theirs: str, client: Any, agent: Path, tmp_path: Path) -> None:
    """One version of Dask at the command, another in the cluster; here that which is installed."""
    at = tmp_path / "scheduler.json"
    options = ["--scheduler-file", str(at), "--protocol", "tls", "--no-dashboard"]
    clean = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"} | client.tls
    roles = {"scheduler": ["--host", "127.0.0.1", "--port", "0"], "worker": ["--nthreads", "1"]}
    cluster = [subprocess.Popen([theirs, "-m", f"distributed.cli.dask_{role}", *options, *more], env=clean,
                                cwd=tmp_path, stderr=subprocess.DEVNULL) for role, more in roles.items()]
    try:
        wait_for(at.exists)
        address = json.loads(at.read_text())["address"]
        code = f"from distributed import Client; Client('{address}').wait_for_workers(1, timeout={PATIENCE})"
        subprocess.run([ours, "-c", code], env=environment(client.tls), check=True)
        done = subprocess.run([ours, "-P", "-m", "sonde", "fleet", "--dask", address, "--socket", str(agent), "-e",
                               'begin { @ = sum(42); @h = hist(3); printf("begun\\n"); exit(); }'],
                              env=environment(client.tls), capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout.split()[:3] == ["begun", "@:", "42"], done.stderr
    finally:
        for process in reversed(cluster):
            process.terminate()
            process.wait(PATIENCE)


def test_a_client_that_is_not_the_default_is_enough(client: Any, agent: Path) -> None:
    """Whichever client is the default one: an Actor asks for that."""
    with distributed.Client(client.scheduler.address, security=client.security, set_as_default=False) as other, \
            sonde.fleet(other, f"{GETPPID} {{ @ = count(); }}", socket=str(agent)) as tracing:
        os.getppid()
    assert tracing.missing == {} and tracing.maps["@"].value == 1


def test_a_worker_that_has_gone_is_a_host_that_is_missing(client: Any, agent: Path, monkeypatch: pytest.MonkeyPatch
                                                          ) -> None:
    """Whatever Dask raises."""
    async def exception(*args: object, **options: object) -> None:
        raise KeyError("Relay-1")
    monkeypatch.setattr(distributed.Future, "exception", exception)
    with pytest.raises(MachineError, match=r"missing: \w+ \(Dask: 'Relay-1'\)"), \
            sonde.fleet(client, "begin { }", socket=str(agent)):
        pass


def test_a_worker_gets_no_further_than_the_policy(client: Any, agent: Path) -> None:
    with pytest.raises(MachineError, match="does not allow profile"), \
            sonde.fleet(client, "profile:hz:9 { @ = count(); }", socket=str(agent)):
        pass
    with pytest.raises(MachineError, match="No such file"), \
            sonde.fleet(client, "begin { }", socket=str(agent) + "x"):
        pass


def test_nothing_of_dask_is_loaded_by_other_ways() -> None:
    code = ("import sonde, sys\nwith sonde.fleet('local:a', 'begin { exit(); }') as t: t.stop()\n"
            "print([name for name in sys.modules if name.startswith(('distributed', 'dask'))])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "[]\n"
