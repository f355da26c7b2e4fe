"""The reader itself: what it may not do, and what the tracer makes of one that has fallen into the hands of a file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hostile.generators_elf as made
import sonde
from sonde.base.end_request import Ending
from sonde.errors import MachineError
from sonde.kernel import notices
from sonde.kernel.foreign import answers, files, reader
from sonde.kernel.foreign.questions import QUESTIONS, has_shape
from sonde.kernel.foreign.reader import Reader, ReaderError
from sonde.kernel.foreign.types_by_wire import is_type
from support import environment

# A call of each of the reader's questions.
ASKED: dict[str, list[Any]] = {name: [] for name in QUESTIONS} | {
    "functions": [0], "object": ["_PyRuntime"], "around": [4096], "jit_around": [4096], "unwind_rows": [0],
    "frame_row": [4096], "demangle": [["_ZN1a1bEv"]], "loader_cache": ["x86_64"], "prototype": [4096], "members": [0],
    "named_type": ["thing"], "source_lines": ["main.c", 1, 0], "code_places": [4096], "inlined": ["main"]}

# What a process of low rank may not do; each line says whether it could.
TRIES = """
import array, ctypes, mmap, os, socket, sys, resource
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getppid()
from sonde.kernel.foreign.rank import limit_memory, lower_rank
lower_rank(2)
limit_memory(112 << 20)
def fork():
    if os.fork() == 0:
        os._exit(0)
def check(value):
    if value < 0:
        raise OSError(ctypes.get_errno(), "refused")
for name, what in {
    "open": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "list": lambda: os.listdir("/"),
    "socket": lambda: socket.socket(),
    "fork": fork,
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "signal": lambda: os.kill(parent, 0),
    "trace": lambda: check(libc.ptrace(16, parent, 0, 0)),
    "run": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC),
    "limits": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
    "memory": lambda: bytearray(120 << 20),
    "become": lambda: os.setuid(0),
}.items():
    try:
        what()
        found = "could"
    except (OSError, MemoryError) as error:
        found = type(error).__name__
    os.write(1, f"{name} {found}\\n".encode())
os.write(1, f"ids {os.read(0, 4000).decode()}".encode())
"""


def test_what_it_may_not_do() -> None:
    done = subprocess.run([sys.executable, "-c", TRIES], capture_output=True, text=True, input="x\n", timeout=60,
                          check=False, env=environment())
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found.pop("ids") == "x", done.stderr
    assert found.pop("memory") == "MemoryError"
    assert len(found) == 10 and set(found.values()) == {"PermissionError"}, found


@pytest.fixture
def ordinary(tmp_path: Path) -> str:
    return str(made.with_symbols(tmp_path / "ordinary", [b"known"]))


def pid_of_reader() -> int:
    return reader._shared[0]._pid


def test_its_rank(ordinary: str) -> None:
    assert files.open_elf(ordinary).function_at(made.BASE) == ("known", 0)
    text = Path(f"/proc/{pid_of_reader()}/status").read_text()
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    if os.geteuid() == 0:
        assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"65534"} and not status["Groups"].strip()
    assert status["CapEff"] == status["CapPrm"] == status["CapInh"] == status["CapAmb"] == "0" * 16
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    held = {os.readlink(f"/proc/{pid_of_reader()}/fd/{fd}") for fd in os.listdir(f"/proc/{pid_of_reader()}/fd")}
    assert {what for what in held if not what.startswith("socket:")} == {"/dev/null", ordinary}
    assert Path(f"/proc/{pid_of_reader()}/oom_score_adj").read_text() == "1000\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="takes capabilities away: needs root")
def test_without_the_right_to_become_nobody(ordinary: str) -> None:
    """A tracer with CAP_BPF and CAP_PERFMON alone has a reader too."""
    code = f"from sonde.kernel.foreign import files\nprint(files.open_elf({ordinary!r}).function_at({made.BASE}))"
    done = subprocess.run(["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code],
                          capture_output=True, text=True, check=False, timeout=60, env=environment())
    assert done.stdout == "('known', 0)\n", done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes nobody: needs root")
def test_installed_where_nobody_may_look(ordinary: str, tmp_path: Path) -> None:
    """In root's home, say: all that the reader needs is imported before it becomes nobody."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(Path(sonde.__file__).parent, closed / "sonde", ignore=shutil.ignore_patterns("__pycache__"))
    assert set(ASKED) == set(QUESTIONS)
    code = f"""
from sonde.errors import MachineError
from sonde.kernel.foreign import files
print(files.open_elf({ordinary!r}).function_at({made.BASE}))
file = files.open_elf({os.path.realpath(sys.executable)!r})
for name, arguments in {ASKED!r}.items():
    try:
        file.ask_reader(name, *arguments)
    except MachineError as problem:
        if any(word in problem.message for word in ("unexpected end", "cannot begin", "Import", "ModuleNotFound")):
            print(name, problem.message)
"""
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False, timeout=60,
                          env=environment() | {"PYTHONPATH": str(closed)}, cwd="/")
    assert done.stdout == "('known', 0)\n", done.stdout + done.stderr


def test_it_is_not_in_our_group_of_processes(ordinary: str) -> None:
    """Ctrl-C is for the tracer."""
    files.open_elf(ordinary)
    assert os.getpgid(pid_of_reader()) == pid_of_reader() != os.getpgid(0)


def test_it_ends_with_the_tracer(ordinary: str) -> None:
    code = f"from sonde.kernel.foreign import files, reader\nimport os\nfiles.open_elf({ordinary!r})\n" \
           "print(reader._shared[0]._pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60,
                          env=environment())
    try:
        for _ in range(100):
            text = Path(f"/proc/{int(done.stdout)}/status").read_text()
            if "zombie" in text:
                return
            time.sleep(0.05)
    except FileNotFoundError:
        return
    raise AssertionError(text)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_killed_between_two_questions(ordinary: str, tmp_path: Path, how: signal.Signals) -> None:
    """Nobody is to blame; another one answers."""
    file = files.open_elf(ordinary)
    os.kill(pid_of_reader(), how)
    assert file.function_at(made.BASE) == ("known", 0) and not file.problem


def test_a_run_that_is_over_hurries_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_endings", [])
    first, second, third = Ending(), Ending(), Ending()
    notices.follow_ending(first)
    notices.follow_ending(second)
    assert not notices.is_hurried()
    first.request_end()  # while the second runs on
    assert wait_until(notices.is_hurried)
    first.over = True
    notices.follow_ending(third)
    assert not notices.is_hurried()
    third.request_end()
    assert wait_until(notices.is_hurried)


def wait_until(true: Callable[[], bool]) -> bool:
    """Whether it comes true within a second."""
    return any(true() or time.sleep(0.01) for _ in range(100))


# ---- a reader that says what it likes

LIAR = """
import json, struct, sys, time
from _socket import AF_UNIX, SOCK_STREAM, socket
connection = socket(AF_UNIX, SOCK_STREAM, 0, fileno=3)
while connection.recv(1 << 16):
    {0}
"""


def lie(what: str) -> str:
    return LIAR.format(what)


def say(answer: str) -> str:
    return lie(f"data = {answer}; connection.sendall(struct.pack('=I', len(data)) + data)")


@pytest.mark.parametrize("code", [
    lie("connection.sendall(struct.pack('=I', 0xFFFFFFFF) + b'x' * 1000)"),
    lie("sys.exit()"),
    lie("connection.sendall(b'xx'); sys.exit()"),
    lie("while True: pass"),
    say("b'not JSON'"), say("b''"), say("b'[' * 100000"), say("b'1' * 100000"), say("b'{}'"), say("b'null'"),
    say("json.dumps({'answer': [1, 2]}).encode()"),
    say("json.dumps({'answer': [1, 2, 'x' * 10]}).encode()"),
    say("json.dumps({'answer': [1, 1 << 70, []]}).encode()"),
    say("json.dumps({'answer': [1, 2, [[1, 2, 3]]]}).encode()"),
    say("json.dumps({'problem': 3, 'hints': []}).encode()"),
    say("json.dumps({'refused': ['x']}).encode()"),
    say("json.dumps({'memory': 'much'}).encode()"),
])
def test_nonsense_is_not_believed(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_START", code)
    monkeypatch.setattr(reader, "_HURRY", 0.2)
    monkeypatch.setattr(notices, "is_hurried", lambda: True)
    asked = Reader()
    try:
        with pytest.raises(ReaderError) as caught:
            asked.ask_question("around", "/some/file", [], 0)
        assert len(caught.value.message) < 400
    finally:
        asked.end_process()


def test_blocks_that_do_not_have_the_address(ordinary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = files.open_elf(ordinary)
    for block in ([5, 6, []], [0, 1 << 63, [[9, 1, "b"], [3, 1, "a"]]]):
        monkeypatch.setattr(reader, "ask_shared_reader", lambda *_, block=block: block)
        with pytest.raises(MachineError):
            file.function_at(0x1000)


@pytest.mark.parametrize(("value", "shape", "fit"), [
    (1, int, True), (True, int, False), ("1", int, False), (1 << 64, int, False), (-1, int, True), (1.0, int, False),
    ([1, 2], [int], True), ([1, "2"], [int], False), ({}, [int], False), ([1, "x"], (int, str), True),
    ([1], (int, str), False), (None, QUESTIONS["object"].shape, True), ([1, 2], QUESTIONS["object"].shape, True),
    ([["a", 1], ["b", -1]], [(str, int)], True), ([], [(str, int)], True), ([["a", True]], [(str, int)], False),
    ([["a", 1 << 64]], [(str, int)], False), ([["a", 1], ["b"]], [(str, int)], False), (["ab"], [(str, int)], False),
    ([1], QUESTIONS["object"].shape, False), (["pointer", ["void"]], is_type, True),
    (["array", ["int", 32, True], -1], is_type, False),
    (["int", 33, True], is_type, False), ([], is_type, False),
    (json.loads("[\"pointer\"," * 200 + "[\"void\"]" + "]" * 200), is_type, False),
])
def test_shapes(value: Any, shape: Any, fit: bool) -> None:
    assert has_shape(value, shape) is fit


def test_each_question_has_an_answer() -> None:
    assert all(callable(getattr(answers, name)) for name in QUESTIONS)


# ---- a user whose files cost too much

@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: needs root")
def test_after_some_files_no_more_of_that_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(notices, "tell", told.append)
    monkeypatch.setattr(files, "_strikes", {})
    monkeypatch.setattr(reader, "_HURRY", 0.1)
    monkeypatch.setattr(notices, "is_hurried", lambda: True)
    for number in range(files.STRIKES + 2):
        path = made.endless_program(tmp_path / f"bad{number}")
        os.chown(path, 65533, 65533)
        with pytest.raises(MachineError):
            files.open_elf(str(path)).frame_row(made.BASE + 8)
    assert len(told) == files.STRIKES and all("longer than" in text for text in told)
    monkeypatch.setattr(notices, "is_hurried", lambda: False)  # a new reader may take longer to begin
    mine = made.with_symbols(tmp_path / "mine", [b"mine"])
    assert files.open_elf(str(mine)).function_at(made.BASE) == ("mine", 0)
    os.chown(mine, 65533, 65533)
    with pytest.raises(MachineError, match="after 3 others of user 65533"):
        files.open_elf(str(mine))


@pytest.mark.parametrize("limits", [
    "RLIMIT_AS=300000 << 10", "RLIMIT_DATA=100 << 20", "RLIMIT_NOFILE=64", "RLIMIT_NPROC=4096", "RLIMIT_FSIZE=1 << 20",
    "RLIMIT_CORE=0", "RLIMIT_CPU=3600", "RLIMIT_MEMLOCK=0", "RLIMIT_STACK=1 << 20"])
def test_symbols_are_read_under_the_limits_of_a_shell_or_a_service(limits: str) -> None:
    """One that is lower than the reader's own is kept: nobody can raise it."""
    name, _, most = limits.partition("=")
    code = (f"import resource; resource.setrlimit(resource.{name}, ({most},) * 2)\n"
            "from sonde.kernel.types.world import LiveWorld\n"
            "world = LiveWorld()\nprint(len(world.user_functions(world.find_binaries('libc')[0])))")
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 1, done.stderr
