#!/usr/bin/env python3
"""Make docs/images: views of real runs, of nothing but the workloads that this script starts.

Needs root and gcc; tmux and the package rich for top.svg, Chromium for serve.png, report.png and inverted.png.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SHOWN = "docs/images"  # in the commands, which the pictures show
SECONDS = 6            # that each picture is of
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "live")]  # the terminal, browser and threads of the tests

# A server of sorts: parses (with a hot inner loop), compresses, writes to a file and waits.
SERVER = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static char page[1 << 16], file[] = "/tmp/sonde-screenshot-XXXXXX";
static volatile unsigned long sink;
#define NOINLINE __attribute__((noinline))
NOINLINE unsigned long hash_token(const char *p, int n) {
    unsigned long h = 5381;
    for (int i = 0; i < n; i++) h = h * 33 + p[i];
    return h;
}
NOINLINE void parse_request(int size) { for (int i = 0; i + 64 < size; i += 8) sink += hash_token(page + i, 64); }
NOINLINE void compress_reply(int size) {
    for (int r = 0; r < SLOW; r++)
        for (int i = 1; i < size; i++) sink += page[i] ^ page[i - 1];
}
NOINLINE void write_log(int fd) { for (int i = 0; i < 40; i++) pwrite(fd, page, sizeof page, 0); }
NOINLINE void handle_request(int fd) { parse_request(sizeof page); compress_reply(sizeof page); write_log(fd); }
int main(void) {
    int fd = mkstemp(file);
    unlink(file);
    for (unsigned i = 0; i < sizeof page; i++) page[i] = i * 7;
    for (int i = 0;; i++) {
        handle_request(fd);
        struct timespec pause = {0, 2000000};
        if (i % 4 == 0) nanosleep(&pause, 0);
    }
}
"""

# Reads of sizes that come in waves.
READER = """
import math, os, time
with open("/dev/zero", "rb", 0) as file:
    end = time.monotonic() + SECONDS
    start = time.monotonic()
    while time.monotonic() < end:
        wave = math.sin((time.monotonic() - start) * 1.4) + 1
        for size in range(6):
            file.read(int(2 ** (8 + 4 * wave + size)))
        time.sleep(0.002)
"""
READS = """tracepoint:syscalls:sys_enter_read /pid == cpid/ { @since[tid] = nsecs; }
tracepoint:syscalls:sys_exit_read /@since[tid]/ { @read_ns = hist(nsecs - @since[tid], 1); delete(@since, tid); }
interval:ms:100 { print(@read_ns); clear(@read_ns); } end { clear(@since); }"""

# Reads by size, and how long they take: for the live views.
LIVE = """tracepoint:syscalls:sys_enter_read /pid == cpid/ { @since[tid] = nsecs; }
tracepoint:syscalls:sys_exit_read /@since[tid] && args.ret > 0/ {
  @ns[comm] = hist(nsecs - @since[tid]);
  @bytes[comm, args.ret < 4096 ? "under 4 KiB" : args.ret < 65536 ? "4 to 64 KiB" : "over 64 KiB"] = sum(args.ret);
  delete(@since, tid); }"""


def sonde(*arguments: str) -> None:
    """Run Sonde from this tree, in its root; what it says is for the one who runs this script."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-P", "-m", "sonde", "-q", *arguments], env=environment, cwd=ROOT,
                   check=True)


def server(folder: Path, name: str, slow: int) -> str:
    """The workload, compiled with frame pointers; ``slow`` is how much it compresses."""
    source = folder / "server.c"
    source.write_text(SERVER)
    program = folder / name
    subprocess.run(["gcc", "-O0", "-w", "-fno-omit-frame-pointer", f"-DSLOW={slow}", "-o", program, source], check=True)
    return str(program)


def wakers(folder: Path) -> None:
    """Threads that pass a token on: what each waits for, and who ends that."""
    from test_flame import RELAY

    from support import compile_c
    relay = str(compile_c(RELAY, folder, "relay", "-O0", "-fno-omit-frame-pointer"))
    for kind in ("off-wake", "chain"):
        sonde("flame", f"--{kind}", "-c", relay, "-o", f"{SHOWN}/{kind}.svg")


def top(command: str) -> None:
    """What ``sonde top`` has on a real terminal."""
    from rich.console import Console
    from rich.text import Text

    from terminal import Terminal
    with Terminal("top", "--every", "0.25", "-c", command, "-e", LIVE, columns=110, lines=30,
                  env={"COLORTERM": "truecolor"}) as terminal:
        terminal.wait_for("@bytes")
        terminal.keys("Tab")
        terminal.wait_for("@ns  since the start")
        time.sleep(SECONDS)
        picture = terminal.screen(colours=True)
        terminal.keys("q")
    console = Console(record=True, width=110, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(picture.rstrip("\n")))
    console.save_svg(str(IMAGES / "top.svg"), title="sonde top", font_aspect_ratio=0.61)


def serve(command: str) -> None:
    """What ``sonde serve`` shows in a real browser."""
    from browser import Browser
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-P", "-m", "sonde", "serve", "--every", "0.25", "-c", command, "-e", LIVE],
                          env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        assert running.stderr is not None
        url = next(line.split()[2] for line in running.stderr if line.startswith("Serving on"))
        with Browser() as browser:
            browser.open(url)
            time.sleep(SECONDS)
            browser.screenshot(IMAGES / "serve.png")
        running.terminate()


def report(command: str, folder: Path) -> None:
    """A report as a real browser shows it."""
    from browser import Browser
    script = LIVE + " interval:ms:200 { print(@ns); clear(@ns); } end { clear(@since); }" \
        f" interval:s:{SECONDS} {{ exit(); }}"
    sonde("-f", "html", "-o", str(folder / "report.html"), "-c", command, "-e", script.replace("\n", " "))
    with Browser() as browser:
        browser.open(folder / "report.html")
        browser.screenshot(IMAGES / "report.png")


def inverted() -> None:
    """A flame graph from what ran on, as the browser shows it by the address alone."""
    from browser import Browser
    with Browser() as browser:
        browser.open(f"{(IMAGES / 'on-cpu.svg').as_uri()}#form=inverted")
        browser.screenshot(IMAGES / "inverted.png", "svg")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before, after = folder / "before", folder / "after"
        command = server(folder, "server", 2)
        sonde("flame", "-c", command, "-o", f"{SHOWN}/on-cpu.svg", str(SECONDS))
        inverted()
        sonde("flame", "--off-cpu", "-c", command, "-o", f"{SHOWN}/off-cpu.svg", str(SECONDS))
        wakers(folder)
        sonde("flame", "-c", command, "-f", "folded", "-o", str(before), str(SECONDS))
        sonde("flame", "-c", server(folder, "server", 5), "-f", "folded", "-o", str(after), str(SECONDS))
        sonde("flame", "--diff", str(before), str(after), "-o", f"{SHOWN}/difference.svg")
        (folder / "reader.py").write_text(READER.replace("SECONDS", str(SECONDS + 2)))
        (folder / "longer.py").write_text(READER.replace("SECONDS", str(SECONDS + 24)))
        (folder / "python3").symlink_to(os.path.realpath(sys.executable))  # not a script that starts it
        reader, longer = [f"{folder}/python3 {folder / name}" for name in ("reader.py", "longer.py")]
        sonde("-f", "heatmap", "-o", f"{SHOWN}/heatmap.svg", "-e", READS.replace("\n", " "), "-c", reader)
        top(longer)
        serve(longer)
        report(longer, folder)


if __name__ == "__main__":
    main()
