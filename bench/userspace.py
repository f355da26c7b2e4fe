"""What the tracer's own process costs: starting, draining a flood, reading and printing maps; what new keys cost."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts import GETPPID

LINE = f'{GETPPID} /comm == "nswork"/ {{ printf("%d %s %llu %d\\n", pid, comm, nsecs, cpu); }}'
# A key for each event: no two events of one thread have one time.
KEYS = f'config = {{ max_map_keys = %d }} {GETPPID} /comm == "nswork"/ {{ @[nsecs] = pid; }}'


class Ended:
    """A tracer that has ended: seconds from SIGINT to its end, its CPU time in them, its peak memory in MiB."""

    def __init__(self, wall: float, cpu: float, memory: float) -> None:
        self.wall, self.cpu, self.memory = wall, cpu, memory


class Running:
    """A tracer that writes to ``out``."""

    def __init__(self, command: list[str], out: Any) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def interrupt(self) -> Ended:
        """SIGINT, and wait for the end."""
        before = cpu_seconds(self.process.pid)
        begun = time.perf_counter()
        self.process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime - before, usage.ru_maxrss / 1024)


def cpu_seconds(pid: int) -> float:
    """User and system time that process ``pid`` has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compiled_sources(folder: Path) -> dict[str, str]:
    """An environment in which the tree's modules are compiled once, as an installed package's are, and Sonde's cache is
    empty."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return clean | {"PYTHONPYCACHEPREFIX": str(folder / "pyc"), "XDG_CACHE_HOME": str(folder / "cache")}


def forget_scripts(folder: Path) -> None:
    """Let the next start compile its script: of Sonde's cache only the kernel's types and features stay."""
    for file in (folder / "cache" / "sonde").glob("spec-*"):
        file.unlink()


class Start:
    """A start, to its end: wall and CPU seconds; peak memory in MiB. That is GNU time's figure: a child of this process
    has had at least the memory that this process has, as Linux counts."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        with tempfile.NamedTemporaryFile("r") as said:
            begun = time.perf_counter()
            timed = subprocess.Popen(["time", "-f", "%M", "-o", said.name, *command], env=environment,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(timed.pid, 0)
            self.wall = time.perf_counter() - begun
            timed.returncode = os.waitstatus_to_exitcode(status)
            if timed.returncode:
                raise RuntimeError(f"{' '.join(command)[:200]}: status {timed.returncode}")
            self.cpu, self.memory = usage.ru_utime + usage.ru_stime, int(said.read()) / 1024


def startup(command: list[str], rounds: int) -> dict[str, float]:
    """``BEGIN { exit(); }``: the first time, with nothing compiled, and later."""
    words = [*command, "-e", "BEGIN { exit(); }"]
    interpreter = Path(command[0]).with_name("python")
    with tempfile.TemporaryDirectory() as folder:
        environment, first, later, bare = compiled_sources(Path(folder)), [], [], []
        for _ in range(2):
            Start(words, environment)  # warms the caches
        for _ in range(rounds):
            forget_scripts(Path(folder))
            first.append(Start(words, environment))
            later.append(Start(words, environment))
            if "sonde" in words[0]:
                bare.append(Start([str(interpreter), "-c", "pass"], environment))
    own = {"interpreter wall s": min(start.wall for start in bare)} if bare else {}
    return own | {"first start wall s": min(start.wall for start in first),
            "start wall s": min(start.wall for start in later), "start cpu s": min(start.cpu for start in later),
            "start memory MiB": min(start.memory for start in later)}


def await_text(file: Any, text: bytes, process: subprocess.Popen[bytes], patience: float = 30) -> None:
    """Until the tracer has written ``text``; RuntimeError if it ends before, or so many seconds pass."""
    deadline = time.monotonic() + patience
    while text not in os.pread(file.fileno(), 1 << 16, 0):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the tracer did not begin")
        time.sleep(0.02)


def count_lines(file: Any, text: bytes = b" nswork ") -> int:
    """Lines that the workload made."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).count(text)


def flood(command: list[str], binary: Path, events: int, ring: int = 0) -> dict[str, float]:
    """Two processes make ``events`` system calls as fast as they can; SIGINT a second after that: how many of them were
    printed. ``ring``: MiB, where it is not to be the default."""
    config = f"config = {{ perf_rb_pages = {ring * 256} }} " if ring else ""
    with tempfile.TemporaryFile() as out:
        running = Running([*command, "-e", config + LINE], out)
        await_text(out, b"Attached", running.process)
        time.sleep(1)
        loads = [subprocess.Popen([str(binary), "getppid", str(events // 2)]) for _ in range(2)]
        for load in loads:
            load.wait()
        time.sleep(1)
        running.interrupt()
        return {f"flood printed{f', {ring} MiB' if ring else ''} %": 100 * count_lines(out) / events}


def minute(command: list[str], binary: Path, form: str, seconds: int, rate: int = 2_000_000) -> dict[str, float]:
    """Two processes make ``rate`` system calls a second: how many of them were printed in the form, to a pipe that is
    read (``parquet``: were written to a file); how much of a CPU that took."""
    events = rate * seconds
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        file, other = f"{folder}/events.parquet", ["-f", form] if form != "text" else []
        words = ["export", "--parquet", file] if form == "parquet" else other
        counter = subprocess.Popen(["wc", "-l"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert counter.stdin is not None and counter.stdout is not None
        process = subprocess.Popen([*command, *words, "-e", LINE], stdin=subprocess.DEVNULL, stdout=counter.stdin,
                                   stderr=said)
        counter.stdin.close()
        await_programs(process) if form == "json" else await_text(said, b"Attached", process)
        time.sleep(1)
        before = cpu_seconds(process.pid)
        loads = [subprocess.Popen([str(binary), "pace", str(events // 2), str(rate // 2)]) for _ in range(2)]
        for load in loads:
            load.wait()
        time.sleep(1)
        share = (cpu_seconds(process.pid) - before) / seconds
        process.send_signal(signal.SIGINT)
        lines = int(counter.stdout.read()) - OTHER_LINES.get(form, 0)
        process.wait()
        counter.wait()
        if form == "parquet":
            said.seek(0)
            lines = int(said.read().decode().rpartition("rows")[0].split()[-1])
    title = f"{rate:,} events/s for {seconds} s, {form}"
    return {f"{title}: printed %": 100 * lines / events, f"{title}: of a CPU %": 100 * share,
            f"{title}: ns per line": 1e9 * share * seconds / max(lines, 1)}


FORMS = ("text", "json", "csv", "parquet")
OTHER_LINES = {"text": 2, "json": 1, "csv": 1}  # before the maps, about what is attached, a heading


def await_programs(process: subprocess.Popen[Any]) -> None:
    """Until a tracer has programs."""
    deadline = time.monotonic() + 30
    while not any("prog_id" in file.read_text() for file in Path(f"/proc/{process.pid}/fdinfo").iterdir()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the tracer did not begin")
        time.sleep(0.05)


def keys(command: list[str], binary: Path, count: int) -> dict[str, float]:
    """``count`` new keys of one thread, and then the end, at which the map is read, sorted and printed."""
    title = f"{count:,} keys"
    with tempfile.TemporaryFile() as out:
        running = Running([*command, "-e", KEYS % (count + 1000)], out)
        await_text(out, b"Attached", running.process)
        time.sleep(1)
        begun = time.perf_counter()
        subprocess.run([str(binary), "getppid", str(count)], check=True)
        inserted = time.perf_counter() - begun
        time.sleep(0.5)
        ended = running.interrupt()
        if (found := count_lines(out, b"@[")) < 0.99 * count:
            raise RuntimeError(f"{found} of {count} keys were printed")
        return {f"{title}: inserted s": inserted, f"{title}: read and printed s": ended.wall,
                f"{title}: its cpu s": ended.cpu, f"{title}: memory MiB": ended.memory}

