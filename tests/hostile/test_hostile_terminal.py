"""What traced programs, their files and their names could say to the terminal of who looks on: nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sonde.kernel.types.world import LiveWorld
from sonde.output.json import JsonOutput, quote_json
from sonde.output.stream import NONE, Stream
from sonde.output.text import TextOutput, terminal_safe
from sonde.output.views.csv import cell_value
from sonde.output.views.dot import quote_dot
from sonde.output.views.stacks import clean_text
from sonde.output.views.svg import escape_markup
from support import Tracer, compile_c, environment, run_sonde, sonde_command

ESCAPES = "\x1b[31mred\x9b31m\x7f\x00\r"  # C0, C1 as UTF-8, DEL
SHOWN = "\\x1b[31mred\\x9b31m\\x7f\\x00\\x0d"


def dangerous(data: bytes) -> set[str]:
    """The control characters in what was printed, but for those that lay lines and tables out."""
    text = data.decode("utf-8", "surrogateescape")
    raw = {chr(0xDC00 + c) for c in range(128, 160)}
    return {c for c in text if (ord(c) < 32 or 127 <= ord(c) < 160 or c in raw) and c not in "\n\t"}


@pytest.fixture
def terminal() -> Iterator[tuple[int, Callable[[], bytes]]]:
    """A terminal's descriptor, and what has been printed to it; the line ends are the script's own."""
    import termios
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    os.set_blocking(ours, False)

    def read() -> bytes:
        try:
            return os.read(ours, 1 << 16)
        except BlockingIOError:
            return b""
    yield theirs, read
    os.close(ours)
    os.close(theirs)


def test_what_is_escaped() -> None:
    assert terminal_safe(ESCAPES) == SHOWN
    assert terminal_safe("a\n\tb\u00e9") == "a\n\tb\u00e9"
    assert terminal_safe(b"\x9b31m\xff".decode("utf-8", "surrogateescape")) == "\\x9b31m\udcff"


@pytest.mark.parametrize("form", [clean_text, quote_dot, quote_json, cell_value, escape_markup])
def test_files_that_are_read_on_terminals(form: Callable[[str], str]) -> None:
    """folded, dot, json, csv and svg."""
    assert not dangerous(form(ESCAPES).encode())


def test_json_keeps_what_it_escapes() -> None:
    import json
    assert json.loads(quote_json(ESCAPES)) == ESCAPES


def test_cat_and_notes(terminal: tuple[int, Callable[[], bytes]]) -> None:
    descriptor, read = terminal
    out = TextOutput(Stream(descriptor, NONE), Stream(descriptor, NONE))
    out.write_file_content(ESCAPES.encode() + b"\x9b\n")
    assert read() == f"{SHOWN}\\x9b\n".encode()
    out.write_note(f"ERROR: failed to open file '{ESCAPES}'")
    assert SHOWN.encode() in read()
    JsonOutput(Stream(descriptor, NONE), Stream(descriptor, NONE)).write_note(ESCAPES)
    assert read() == f"{SHOWN}\n".encode()


def test_a_pipe_gets_the_bytes_as_they_are() -> None:
    read, write = os.pipe()
    try:
        TextOutput(Stream(write, NONE), Stream(write, NONE)).write_file_content(ESCAPES.encode())
        assert os.read(read, 100) == ESCAPES.encode()
    finally:
        os.close(read)
        os.close(write)


def renamed(binary: Path) -> Path:
    """The binary, with a function whose name steers terminals."""
    data = binary.read_bytes()
    assert b"EVILFUNCTION" in data
    binary.write_bytes(data.replace(b"EVILFUNCTION", b"\x1b[31mEV\xc2\x9b\n\r!"))
    return binary


@pytest.mark.live
def test_listings(tmp_path: Path, terminal: tuple[int, Callable[[], bytes]]) -> None:
    source = "int EVILFUNCTION(int a) { return a; } int other(int a) { return a; } int main(void) { return other(1); }"
    binary = renamed(compile_c(source, tmp_path))
    done = subprocess.run(sonde_command(("-l", f"uprobe:{binary}:*")), capture_output=True, env=environment(None),
                          check=True)
    assert not dangerous(done.stdout + done.stderr)
    assert f"uprobe:{binary}:other\n".encode() in done.stdout
    assert all(line.startswith(b"uprobe:") for line in done.stdout.splitlines())
    for pattern in (f"uprobe:{binary}:\x1b[31m*", f"usdt:{tmp_path}/\x1b[31m:*", f"uprobe:{tmp_path}/\x1b\x9b:f"):
        done = subprocess.run(sonde_command(("-e", f"{pattern} {{ }}")), capture_output=True, env=environment(None),
                              check=False)
        assert done.returncode == 1 and not dangerous(done.stderr)


@pytest.mark.live
def test_errorf_where_only_stderr_is_a_terminal(terminal: tuple[int, Callable[[], bytes]]) -> None:
    """The values are escaped; what the script says itself is not."""
    descriptor, read = terminal
    script = 'begin { errorf("\\033[1mbold %s\\n", str($1)); exit(); }'
    subprocess.run(sonde_command(("-q", "-e", script, ESCAPES.replace("\0", ""))), stdout=subprocess.DEVNULL,
                   stderr=descriptor, env=environment(None), check=True)
    shown = read()
    assert b"\x1b[1mbold " in shown and b"\\x1b[31mred\\x9b31m" in shown and b"\x1b[31m" not in shown


@pytest.mark.live
def test_cat_waits_for_nobody(tmp_path: Path) -> None:
    """Of a pipe without a writer, or one whose writer says nothing; of a device without end as much as is allowed."""
    for name in ("alone", "held"):
        os.mkfifo(tmp_path / name)
    hold = os.open(tmp_path / "held", os.O_RDWR)
    try:
        begun = time.monotonic()
        script = "".join(f'cat("{path}"); ' for path in (tmp_path / "alone", tmp_path / "held", "/dev/zero"))
        done = run_sonde("-q", "-e", f"begin {{ {script} printf(\"after\\n\"); exit(); }}")
        assert done.returncode == 0 and done.stdout.rstrip("\n").endswith("after")
        assert 0 < done.stdout.count("\0") <= 1 << 20
        assert time.monotonic() - begun < 30
    finally:
        os.close(hold)


@pytest.mark.live
def test_names_of_processes(tmp_path: Path) -> None:
    """A process that is called so prints nothing of it in any form that people read in terminals."""
    binary = compile_c('''#include <sys/prctl.h>
#include <unistd.h>
int main(void) { prctl(PR_SET_NAME, "\\033[31m\\302\\2335m"); for (;;) { getppid(); usleep(2000); } }
''', tmp_path)
    process = subprocess.Popen([binary])
    try:
        if LiveWorld().tracepoint_format("syscalls", "sys_enter_getppid") is None:
            pytest.skip("this kernel has no syscalls:sys_enter_getppid")
        for form in ("folded", "json", "csv", "dot"):
            key = "comm, kstack" if form == "folded" else "comm, comm"
            with Tracer("-f", form, "-e", f"tracepoint:syscalls:sys_enter_getppid /pid == {process.pid}/ "
                        f"{{ @[{key}] = count(); }}", settle=0.1) as tracer:
                pass
            assert "31m" in tracer.stdout and not dangerous(tracer.stdout.encode())
    finally:
        process.kill()
        process.wait()
