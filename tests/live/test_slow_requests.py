"""docs/cases/slow-requests.md, end to end: what the two services write down of themselves is the oracle."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

import sonde
from sonde.builtins.stacks import python_obstacle
from sonde.compiling import live_world
from sonde.kernel.procfs import cgroup2_mount_point

ROOT = Path(__file__).parents[2]
PAGE, GENERATOR = ROOT / "docs/cases/slow-requests.md", ROOT / "docs/cases/slow_requests.py"
MOUNT = cgroup2_mount_point()
pytestmark = pytest.mark.skipif(MOUNT is None or not os.access(MOUNT, os.W_OK),
                                reason="there is no cgroup2 file system that can be written to")


def script() -> str:
    """held.bt, of the page, for processes of the generator alone."""
    [text] = re.findall(r"^# cat held.bt\n(.*?)^# ", PAGE.read_text(), re.M | re.S)
    return text.replace("/args.", '/(service == "web.service" || service == "reports.service") && args.')


def test_who_holds_the_lock(tmp_path: Path) -> None:
    world = live_world()
    if problem := python_obstacle(world):
        pytest.skip(f"kernel lacks what pystack needs: {problem}")
    command = ["sh", "-c", f"exec {sys.executable} {GENERATOR} 4 > {tmp_path}/record.json"]
    with pytest.warns(RuntimeWarning) as said, sonde.trace(script(), command=command, world=world) as trace:
        trace.run(timeout=60)
        held = {(str(service), str(stack)): value for (service, stack), value in trace.maps["@held_ms"].items()}
    assert sorted(str(warning.message) for warning in said) == [
        f"no service is called {name}.service yet" for name in ("reports", "web")]
    record = json.loads((tmp_path / "record.json").read_text())
    of_service = {name: {stack: value.total for (service, stack), value in held.items() if service == name}
                  for name in record}
    for name, function in (("web.service", "answer_requests"), ("reports.service", "write_reports")):
        [(stack, count)] = of_service[name].items()
        assert function in stack and "append" in stack and count == len(record[name]["held"])
    long = {service: sum(bucket.count for bucket in value.buckets if bucket.low is not None and bucket.low >= 32)
            for (service, _), value in held.items()}
    assert long["reports.service"] == len(record["reports.service"]["held"]) and not long["web.service"]
    assert max(record["web.service"]["waited"]) > 30
