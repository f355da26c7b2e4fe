"""The examples of docs/api.md and the notebook, run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support import environment

pytestmark = pytest.mark.usefixtures("socket_lengths")  # what the examples trace

PROJECT = Path(__file__).parents[2]
RUNNER = """
import sys, nbclient, nbformat
book = nbformat.read(sys.argv[1], 4)
where = {"metadata": {"path": sys.argv[2]}}
nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=where).execute()
nbformat.write(book, sys.stdout)
"""


def test_examples(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("polars", reason="polars is not installed")
    monkeypatch.chdir(PROJECT)
    blocks = re.findall(r"^```python\n(.*?)^```$", (PROJECT / "docs" / "api.md").read_text(), re.M | re.S)
    assert len(blocks) == 3
    space: dict[str, object] = {}
    over = threading.Event()

    def open_files() -> None:
        while not over.wait(0.05):
            os.close(os.open("/etc/hostname", os.O_RDONLY))
    opener = threading.Thread(target=open_files)
    opener.start()
    printed = []
    try:
        for block in blocks:
            ours = block.replace("sys_enter_openat {", f"sys_enter_openat /pid == {os.getpid()}/ {{")
            exec(compile(ours, "docs/api.md", "exec"), space)
            printed.append(capsys.readouterr().out)
    finally:
        over.set()
        opener.join()
    assert "/etc/hostname" in printed[0] and printed[0].splitlines()[-1] == "nothing was lost"
    assert re.search(r"time +datetime64\[ns, UTC\]", printed[1]) and re.search(r"bytes +int32", printed[1])
    assert re.search(r"web-client +40000\n", printed[1]) and re.search(r"web-server +255000\n", printed[1])
    assert printed[2].split() == ["1", "2", "3", "4", "5"]


def test_notebook() -> None:
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    done = subprocess.run([sys.executable, "-c", RUNNER, PROJECT / "docs" / "notebooks" / "tracing.ipynb", PROJECT],
                          capture_output=True, text=True, timeout=110, check=False,
                          env=environment({"PYTHONWARNINGS": ""}))
    assert done.returncode == 0, done.stderr[-3000:]
    cells = [cell for cell in json.loads(done.stdout)["cells"] if cell["cell_type"] == "code"]
    outputs = [cell["outputs"] for cell in cells]
    text = json.dumps(outputs)
    assert not any(output["output_type"] == "error" for each in outputs for output in each)
    assert re.search(r"web-client\s+40000", "".join(output["data"]["text/plain"] if isinstance(
        output.get("data", {}).get("text/plain"), str) else "".join(output.get("data", {}).get("text/plain", []))
        for each in outputs for output in each))
    kinds = [set(output.get("data", {})) for each in outputs for output in each]
    assert sum("text/html" in kind for kind in kinds) >= 4
    assert "<iframe srcdoc=" in text, "a flame graph"
