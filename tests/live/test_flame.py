"""Off-wake and chain graphs of threads that pass a token on: who waits for whom, and for how long, is known."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support import compile_c, run_sonde

ROUNDS, PAUSE_MS = 25, 20
# stage-a sleeps, then wakes stage-b through a pipe, which wakes stage-c.
RELAY = f"""
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#define STAGES 3
static int pipes[STAGES][2], rounds = {ROUNDS};
/* libc's own functions have no frame pointers: who calls them is missing from stacks. These may be. */
long call_nanosleep(struct timespec *t) {{ return nanosleep(t, 0) + 0L; }}
long call_read(int fd, char *c) {{ return read(fd, c, 1) + 0L; }}
long call_write(int fd, const char *c) {{ return write(fd, c, 1) + 0L; }}
void pause_a_while(void) {{ struct timespec t = {{0, {PAUSE_MS}000000}}; call_nanosleep(&t); }}
int await_token(int stage) {{ char c; return call_read(pipes[stage][0], &c) == 1; }}
int pass_token(int stage) {{ return call_write(pipes[stage][1], "x") == 1; }}
void *run_stage(void *number) {{
    int stage = (int)(long)number;
    char name[16];
    long waited = 0;
    snprintf(name, sizeof name, "stage-%c", 'a' + stage);
    prctl(PR_SET_NAME, name);
    for (int i = 0; i < rounds; i++) {{
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        if (stage == 0) pause_a_while(); else if (!await_token(stage)) return (void *)1;
        clock_gettime(CLOCK_MONOTONIC, &b);
        waited += (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec;
        if (stage + 1 < STAGES && !pass_token(stage + 1)) return (void *)1;
    }}
    fprintf(stderr, "%s waited %ld\\n", name, waited);
    return 0;
}}
int main(int count, char **words) {{
    if (count > 1) rounds = 500;
    pthread_t threads[STAGES];
    for (int i = 0; i < STAGES; i++) if (pipe(pipes[i])) return 1;
    for (int i = STAGES; i-- > 0;) if (pthread_create(&threads[i], 0, run_stage, (void *)(long)i)) return 1;
    void *bad = 0;
    for (int i = 0; i < STAGES; i++) {{ void *r; pthread_join(threads[i], &r); if (r) bad = r; }}
    return bad != 0;
}}
"""
PASSED = ROUNDS * PAUSE_MS * 1_000_000


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(compile_c(RELAY, tmp_path_factory.mktemp("flame"), "relay", "-O0", "-fno-omit-frame-pointer"))


def segments(line: str) -> tuple[list[list[str]], int]:
    """A folded line: the frames of the thread, then those of each waker; and the weight."""
    stack, _, weight = line.rpartition(" ")
    found: list[list[str]] = [[]]
    for frame in stack.split(";"):
        if frame == "--":
            found.append([])
        else:
            found[-1].append(frame)
    return found, int(weight)


def waits(text: str, thread: str, function: str) -> list[tuple[list[list[str]], int]]:
    """What a thread waited for in a function."""
    found = [segments(line) for line in text.splitlines()]
    return [(parts, weight) for parts, weight in found if parts[0][0] == thread and function in parts[0]]


def folded(kind: str, relay: str) -> str:
    done = run_sonde("flame", f"--{kind}", "-f", "folded", "-c", relay)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_off_wake_joins_the_waker(relay: str) -> None:
    text = folded("off-wake", relay)
    by_b = [(parts, weight) for parts, weight in waits(text, "stage-c", "await_token") if parts[1][-1] == "stage-b"]
    assert sum(weight for _, weight in by_b) > 0.8 * PASSED
    for parts, _ in by_b:
        own, waker = parts
        assert own.index("run_stage") < own.index("await_token") and own[-1].startswith("__schedule")
        inner = own[own.index("await_token") + 1:]
        kernel = [frame for frame in inner if frame.endswith("_[k]")]
        assert kernel and inner[-len(kernel):] == kernel and len(inner) - len(kernel) <= 2, "call_read, read"
        assert waker.index("pass_token") < waker.index("run_stage"), "upside down"
        assert waker[0].endswith("_[k]") and any("pipe_write" in frame for frame in waker)
    for parts, _ in waits(text, "stage-a", "pause_a_while"):
        assert "hrtimer_wakeup_[k]" in parts[1], "a timer wakes it"
        assert parts[1][-1].endswith("_[k]") or parts[1][-1].startswith("swapper"), "and no thread"


def test_a_chain_goes_back_to_the_first_cause(relay: str) -> None:
    text = folded("chain", relay)
    whole = [(parts, weight) for parts, weight in waits(text, "stage-c", "await_token")
             if [part[-1] for part in parts[1:3]] == ["stage-b", "stage-a"]]
    assert sum(weight for _, weight in whole) > 0.8 * PASSED
    for parts, _ in whole:
        assert len(parts) <= 5, "four wakers at most"
        assert "pass_token" in parts[2] and "await_token" not in parts[2]
        if len(parts) > 3:
            assert any("hrtimer" in frame for frame in parts[3]), "stage-a was woken by its timer"


def test_the_weights_are_what_the_threads_measure(relay: str) -> None:
    """Every wait has one line; a thread's own clock says a little more, for it sees the system call too."""
    done = run_sonde("flame", "--chain", "-f", "folded", "-c", relay)
    measured = int(re.search(r"stage-c waited (\d+)", done.stderr)[1])  # type: ignore[index]
    total = sum(weight for _, weight in waits(done.stdout, "stage-c", "await_token"))
    assert 0.7 * measured < total <= measured


def test_the_graph_tells_wakers_and_kernel_apart(relay: str, tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    assert run_sonde("flame", "--off-wake", "-c", relay, "-o", str(file)).returncode == 0
    text = file.read_text()
    for kind, name in (("user", "await_token"), ("waker", "pass_token"), ("head", "stage-c")):
        boxes = [box.partition("<text")[0] for box in text.split(f'data-name="{name}"')[1:]]
        if kind != "head":  # stage-c may also wake somebody
            del boxes[1:]
        assert any(f'class="{kind}' in box for box in boxes), name
    assert 'class="waker-kernel' in text and 'class="kernel' in text


def test_of_a_process(relay: str) -> None:
    """Only its own threads wait in the graph."""
    with subprocess.Popen([relay, "long"]) as process:
        done = run_sonde("flame", "--off-wake", "-f", "folded", "-p", str(process.pid), "1")
        process.kill()
    names = {line.partition(";")[0] for line in done.stdout.splitlines()}
    assert done.returncode == 0 and names <= {"relay", "stage-a", "stage-b", "stage-c"}


def test_one_at_a_time() -> None:
    done = run_sonde("flame", "--chain", "--off-wake")
    assert done.returncode == 1 and "one flame graph at a time: --off-wake or --chain" in done.stderr


@pytest.mark.parametrize(("kind", "wakers"), [("off-wake", 1), ("chain", 3)])
def test_the_structure_of_the_graphs(kind: str, wakers: int, relay: str, tmp_path: Path) -> None:
    """Over stage-c's frames those of what woke it, upside down behind --; a chain goes on to stage-a's timer."""
    picture = tmp_path / "graph.svg"
    done = run_sonde("flame", f"--{kind}", "-c", relay, "-o", str(picture))
    assert done.returncode == 0, done.stderr
    for file in (picture, Path(__file__).parents[2] / "docs" / "images" / f"{kind}.svg"):
        titles = re.findall(r"<title>([^:<]+)", file.read_text())
        start = next(i for i, title in enumerate(titles)  # of its own frames; it may be a waker elsewhere
                     if title == "stage-c" and "await_token" in titles[i + 1:i + 6])
        path = titles[titles.index("await_token", start):]  # frames come depth first
        assert path.index("--") < path.index("pass_token") < path.index("run_stage")
        assert path.count("--") >= wakers, file
