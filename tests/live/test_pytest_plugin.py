"""The pytest plugin, on suites of which it is known what each test does; and docs/pytest.md as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support import PATIENCE, environment

PAGE = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.S | re.M)
SUITE = '''
import asyncio, os, socket, subprocess, threading, time
import pytest

def read_name():
    with open("/etc/hostname") as file:
        return file.read()

@pytest.mark.sonde(no_open="/etc/host*")
def test_open():
    read_name(); read_name()

@pytest.mark.sonde(no_open="/etc/nosuch**", no_connect=True, max_syscalls={"fsync": 2})
def test_allowed(tmp_path):
    read_name()
    with open(tmp_path / "x", "w") as file:
        os.fsync(file.fileno()); os.fsync(file.fileno())

@pytest.mark.sonde(no_open="/etc/passw*")
def test_child():
    subprocess.run(["cat", "/etc/passwd"], stdout=subprocess.DEVNULL, check=True)

@pytest.mark.sonde(no_open="/etc/host*")
def test_thread():
    thread = threading.Thread(target=read_name); thread.start(); thread.join()

@pytest.mark.sonde(no_connect=True)
def test_connect():
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as client:
            client.connect_ex((address, 9))

@pytest.mark.sonde(max_syscalls={"fsync": 2})
def test_calls(tmp_path):
    with open(tmp_path / "x", "w") as file:
        for _ in range(5): os.fsync(file.fileno())

@pytest.mark.sonde(p99={"read": "20ms"})
def test_latency():
    near, far = os.pipe()
    def write():
        time.sleep(0.1); os.write(far, b"x")
    thread = threading.Thread(target=write); thread.start()
    os.read(near, 1)
    thread.join(); os.close(near); os.close(far)

@pytest.mark.sonde(no_stall="50ms")
def test_stall():
    async def main():
        await asyncio.sleep(0.001)
        time.sleep(0.2)
        await asyncio.sleep(0.001)
    asyncio.run(main())

@pytest.mark.sonde(no_stall="1s")
def test_after_a_loop():
    time.sleep(1.2)
    asyncio.run(asyncio.sleep(0.001))

@pytest.mark.sonde(no_stall="1h", p99={"read": "1h"})
def test_patient():
    asyncio.run(asyncio.sleep(0.001)); read_name()

def test_without_rules():
    read_name()

def test_script(sonde_trace):
    script = 'tracepoint:syscalls:sys_enter_openat { @[str(args.filename)] = count(); printf("%s %d", comm, pid); }'
    with sonde_trace(script + "end { @end = 1; }") as run:
        read_name()
        subprocess.run(["cat", "/etc/passwd"], stdout=subprocess.DEVNULL, check=True)
    assert run.maps["@"]["/etc/hostname"] == 1 and run.maps["@end"] == {(): 1}
    pids = {event["args"][1] for event in run.events}
    assert os.getpid() in pids and len(pids) == 2
'''
BROKEN = {"test_open": ("opened /etc/hostname", "2 times, by ", "    read_name (", "    test_open ("),
          "test_child": ("opened /etc/passwd", "once, by cat ("),
          "test_thread": ("opened /etc/hostname", "once, by ", "    read_name ("),
          "test_connect": ("connected to 127.0.0.1:9", "connected to ::1:9", "    test_connect ("),
          "test_calls": ("fsync() was called 5 times, and at most 2 is allowed", "    test_calls ("),
          "test_latency": ("1 of 1 call of read() took longer than 20ms", "    test_latency ("),
          "test_stall": ("the event loop did not wait for ", "    test_stall.<locals>.main (")}


def run_suite(folder: Path, text: str, *options: str, before: tuple[str, ...] = ()) -> str:
    """What pytest prints of a suite, with this plugin, xdist and no other."""
    (folder / "test_suite.py").write_text(text)
    plugins = ["-p", "sonde.testing.plugin", *(["-p", "xdist.plugin"] if "-n" in options else [])]
    done = subprocess.run([*before, sys.executable, "-m", "pytest", "-q", "-rs", "-W", "error", "-p",
                           "no:cacheprovider", *plugins, *options, "test_suite.py"], cwd=folder,
                          env=environment() | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
                          capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout + done.stderr


def failures(output: str) -> dict[str, str]:
    """What is said of each test that failed."""
    parts = re.split(r"^_{3,} (\w+) _{3,}$", output.partition("short test summary")[0], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_rules_are_enforced(tmp_path: Path, options: tuple[str, ...]) -> None:
    if options and find_spec("xdist") is None:
        pytest.skip("xdist is not installed")
    output = run_suite(tmp_path, SUITE, *options)
    failed = failures(output)
    assert failed.keys() == BROKEN.keys(), output
    for name, parts in BROKEN.items():
        for part in parts:
            assert part in failed[name], (part, failed[name])
    assert "7 failed, 5 passed" in output


def test_the_page(tmp_path: Path) -> None:
    suite, = [text for kind, text in BLOCKS if kind == "python"]
    shown = next(text for _, text in BLOCKS if "sonde: opened" in text)
    output = run_suite(tmp_path, suite)

    def plain(text: str) -> dict[str, str]:
        names = [(r"by \S+ \(\d+\)", "by python (1)"), (r"\([^()]*/test_\w+\.py", "(test.py")]
        for pattern, instead in names:
            text = re.sub(pattern, instead, text)
        return {name: re.split(r"^\d+ failed", body, flags=re.M)[0].strip() for name, body in failures(text).items()}
    assert plain(output) == plain(shown), output
    assert "2 failed, 1 passed" in output


def test_a_run_without_rules_imports_nothing(tmp_path: Path) -> None:
    output = run_suite(tmp_path, "import sys\ndef test_it():\n    print(sorted(m for m in sys.modules "
                       "if m.startswith('sonde')))\n    assert 0\n")
    modules = set(re.findall(r"'(sonde[\w.]*)'", output))
    assert modules >= {"sonde", "sonde.testing.plugin"}
    rooms = ([], ["base"], ["errors"], ["source"], ["testing"])
    assert not [name for name in modules if name.split(".")[1:2] not in rooms]
    assert not modules & {"sonde.objectives.rules", "sonde.testing.client"}


def test_wrong_rules_are_said_at_once(tmp_path: Path) -> None:
    output = run_suite(tmp_path, "import pytest\n@pytest.mark.sonde(no_conect=True)\ndef test_it(): pass\n")
    assert "no_conect=True is no objective" in output and "passed" not in output
    output = run_suite(tmp_path, "import pytest\n@pytest.mark.sonde(max_syscalls={'fsink': 1})\ndef test_it(): pass\n")
    assert "sys_enter_fsink" in output and "1 failed" in output


def test_without_rights_tests_are_skipped(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    text = "import pytest\n@pytest.mark.sonde(no_connect=True)\ndef test_it(): pass\n" \
           "def test_script(sonde_trace):\n    with sonde_trace('begin { }'):\n        pass\ndef test_other(): pass\n"
    output = run_suite(tmp_path, text, before=("setpriv", "--bounding-set=-sys_admin,-bpf,-perfmon"))
    assert "1 passed, 2 skipped" in output and output.count("Sonde cannot trace here: ") == 2, output


def test_a_failure_of_its_own_comes_first(tmp_path: Path) -> None:
    output = run_suite(tmp_path, "import pytest\n@pytest.mark.sonde(no_open='/etc/**')\ndef test_it():\n"
                       "    open('/etc/hostname').close()\n    assert 1 == 2\n")
    assert "assert 1 == 2" in output and "opened /etc/hostname" in output and "1 failed" in output
