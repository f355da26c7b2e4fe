#!/usr/bin/env python3
"""Run the commands of docs/cookbook/*.md, and write what they print below them.

    scripts/gen_cookbook.py [WORD ...]      only entries whose question has one of these words (root)
    scripts/gen_cookbook.py --empty         only those without an output

The commands trace scripts/shop.py, which is started in a control group of its own: -C shop.service is added to those
that name no process. An entry's comment says what else is needed:

    <!-- also: WORDS by which the question is found, too; of: PROCESS whose number stands for -p 1234;
         lines: AT MOST; from: THE FIRST LINE, A PATTERN; last: SO MANY OF THE END; seconds: HOW LONG;
         as: the command to run where -C is not enough -->
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from cookbook import FOLDER, Entry, entries  # noqa: E402
from sonde.kernel.procfs import cgroup2_mount_point  # noqa: E402

LINES, SECONDS = 9, 3.0


def start_shop() -> tuple[subprocess.Popen[str], dict[str, str]]:
    """The shop, and the number of each of its processes."""
    mount = cgroup2_mount_point()
    if mount is None:
        raise SystemExit("gen_cookbook.py: control groups of version 2 are not mounted")
    group = Path(mount, "shop.service")
    group.mkdir(exist_ok=True)
    shop = subprocess.Popen([sys.executable, str(ROOT / "scripts" / "shop.py")], stdout=subprocess.PIPE, text=True,
                            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None)
    assert shop.stdout is not None
    pairs = [shop.stdout.readline().split() for _ in range(6)]
    return shop, dict(pairs)


def output_of(entry: Entry, numbers: dict[str, str]) -> tuple[str, str]:
    """The command with the number that it had, and what it printed."""
    shown = entry.command
    if entry.of:
        shown = re.sub(r"-p \d+|\bpid == \d+", lambda match: re.sub(r"\d+", numbers[entry.of], match[0]), shown)
    run = entry.options.get("as", shown)
    run = re.sub(r"\{(\w+)\}", lambda match: numbers.get(match[1], match[0]), run)
    if not re.search(r" -[pcC] ", run) and "as" not in entry.options:
        run = run.replace("sonde ", "sonde -C shop.service ", 1)
    run = re.sub(r"^sonde\b", f"{sys.executable} -m sonde", run)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "110"}
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
            ["bash", "-c", run if "|" in run else f"exec {run}"], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as running:
        if not ends_itself(shown):
            while running.poll() is None and "Attached" not in os.pread(said.fileno(), 1 << 16, 0).decode():
                time.sleep(0.05)
            time.sleep(float(entry.options.get("seconds", SECONDS)))
            running.send_signal(signal.SIGINT)
        text, _ = running.communicate(timeout=60)
        complaints = re.sub(r"Attached .*\n", "", os.pread(said.fileno(), 1 << 16, 0).decode())
    if complaints:
        print(f"{entry.question}: {complaints}", file=sys.stderr)
    return shown, cut(text.replace(f"{ROOT}/", ""), entry)


def ends_itself(command: str) -> bool:
    if re.search(r"slower \d+$", command):  # that is a threshold
        return False
    return bool(re.search(r"(?<!-p) \d+$|exit\(\)| -c |sonde (replay|diff|doctor|-l)", command))


def cut(text: str, entry: Entry) -> str:
    """Some of the lines: the last ones, or from the first one that matches."""
    most, beginning = int(entry.options.get("lines", LINES)), entry.options.get("from", "")
    lines = [line.rstrip()[:118] for line in text.strip("\n").splitlines()]
    first = next((at for at, line in enumerate(lines) if beginning and re.search(beginning, line)), 0)
    if "last" in entry.options:
        first = max(0, len(lines) - int(entry.options["last"]))
    before, lines = (["..."] if first else []), lines[first:]
    return "\n".join([*before, *(lines if len(lines) <= most else [*lines[:most], "..."])]) + "\n"


def is_wanted(entry: Entry, words: list[str]) -> bool:
    if words == ["--empty"]:
        return not entry.output.strip()
    return not words or any(word in entry.question for word in words)


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # not ignored, as in a shell's background
    shop, numbers = start_shop()
    time.sleep(1)
    wanted = [(path, entry) for path in sorted(FOLDER.glob("[a-z]*.md")) for entry in entries(path)
              if is_wanted(entry, sys.argv[1:])]
    try:
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda each: output_of(each[1], numbers), wanted)
            for (path, entry), (command, text) in zip(wanted, answers):
                block = f"```\n# {command}\n{text}```\n"
                path.write_text(path.read_text().replace(entry.block, block, 1))
                print(f"{entry.question}\n{block}", flush=True)
    finally:
        shop.terminate()
        shop.wait()


if __name__ == "__main__":
    main()
