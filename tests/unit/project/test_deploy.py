"""The manifests and scripts of deploy/: what Kubernetes, Slurm and Sonde itself would make of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sonde.cli.commands.unit import AGENT_CAPABILITIES
from sonde.cli.options import parse_command_line
from sonde.cli.requests import options_of_tool
from sonde.fleet.transport.dask import SOCKET_PATH
from sonde.library.policy import PATH, read_policy

DEPLOY = Path(__file__).parents[3] / "deploy"
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


JOB = """
import slurm
if __name__ == "__main__":
    cluster = slurm.make_cluster(0, 5, scheduler_options={"host": "127.0.0.1"})
    print(cluster.job_script())
    cluster.close()
"""


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], Any]:
    """By kind and name."""
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def container_of(manifest: Any) -> Any:
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    return container


def mounts_of(manifest: Any) -> dict[str, Any]:
    """What is mounted where, with its volume."""
    volumes = {volume["name"]: volume for volume in manifest["spec"]["template"]["spec"]["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in container_of(manifest)["volumeMounts"]}


@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_kubernetes_takes_the_manifests(manifests: dict[tuple[str, str], Any], version: str) -> None:
    assert len(manifests) == 5
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)
    worse = yaml.safe_load(yaml.safe_dump(manifests["DaemonSet", "agent"]))
    worse["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(worse, version, strict=True)


def test_the_agent_serves_the_workers(manifests: dict[tuple[str, str], Any], tmp_path: Path) -> None:
    """Their socket is one, the policy is one and names their user, and the command line is one."""
    agent, worker = manifests["DaemonSet", "agent"], manifests["DaemonSet", "worker"]
    parsed = parse_command_line(container_of(agent)["args"], options_of_tool)
    assert parsed.words == ["agent"] and parsed.named["socket"] == SOCKET_PATH
    folder = str(Path(SOCKET_PATH).parent)
    assert mounts_of(agent)[folder]["hostPath"]["path"] == mounts_of(worker)[folder]["hostPath"]["path"] == folder
    assert mounts_of(agent)[PATH]["configMap"]["name"] == "agent-policy"
    (tmp_path / "policy").write_text(manifests["ConfigMap", "agent-policy"]["data"]["agent.toml"])
    (tmp_path / "policy").chmod(0o600)
    policy = read_policy(str(tmp_path / "policy"))
    rights = worker["spec"]["template"]["spec"]["securityContext"]
    policy.check_user(rights["runAsUser"], on_socket=True)
    assert parsed.named["group"] == str(rights["runAsGroup"]) and rights["runAsNonRoot"] and not policy.unsafe


def test_only_the_agent_has_rights(manifests: dict[tuple[str, str], Any]) -> None:
    for (kind, name), manifest in manifests.items():
        if kind in ("DaemonSet", "Deployment"):
            security = container_of(manifest)["securityContext"]
            assert security["capabilities"]["drop"] == ["ALL"] and not security["allowPrivilegeEscalation"]
            added = {f"CAP_{each}" for each in security["capabilities"].get("add", [])}
            assert added <= {*AGENT_CAPABILITIES, "CAP_CHOWN"} and (name == "agent") == bool(added)


def test_dask_jobqueue_takes_the_script(tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    (tmp_path / "job.py").write_text(JOB)
    done = subprocess.run([sys.executable, tmp_path / "job.py"], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": str(DEPLOY), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, timeout=110,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert "#SBATCH --nodes=1" in done.stdout and "tls://127.0.0.1:" in done.stdout and "--tls-key" in done.stdout
