"""Every command that a block of the documentation shows, and what a machine needs to run it as it is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# Pages whose commands a test of their own runs, and knows what they must answer.
ELSEWHERE = {
    "docs/cases/slow-requests.md": "tests/live/test_slow_requests.py",
    "docs/cases/udp-reordering.md": "tests/live/test_udp_reordering.py",
    "docs/one-liners.md": "tests/live/test_one_liners.py",
    "docs/tutorial.md": "tests/live/test_tutorial.py",
    "docs/platform.md": "tests/live/test_platform_page.py",
    "docs/go.md": "tests/live/test_go_page.py",
    "docs/python-programs.md": "tests/live/test_python_programs.py",
    "docs/python-tasks.md": "tests/live/test_python_tasks_page.py",
    "docs/errors.md": "tests/unit/project/test_docs.py",
    "docs/language.md": "tests/unit/project/test_docs.py",
    **{f"docs/tools/{name}.md": "tests/live/test_tools_runtimes.py"  # need runtimes with probes, which it makes
       for name in ("ucalls", "ugc", "ustat", "uthreads")},
}

# What no test can run here, by what the command matches, and why.
NOT_HERE = {
    r"docker |make wheel && docker ": "no daemon of containers; tests/unit/project/test_deploy.py reads the Dockerfile",
    r"kubectl ": "no cluster; tests/unit/project/test_deploy.py checks the manifests against Kubernetes' schemas",
    r"systemctl ": "no systemd; tests/live/test_unit.py starts what the unit says",
    r"python deploy/slurm\.py": "no Slurm; tests/unit/project/test_deploy.py has dask-jobqueue write the job",
    r"sonde ttysnoop 2": "no such terminal; tests/live/test_tools_contents.py traces one of its own",
    r"sonde agent --stdio": "what it reads is frames; tests/live/test_fleet.py has it as a child",
    r"sonde v\d": "what sonde --version prints",
    r"sonde py(gil|loop|tasks) ": "no such programs; test_pygil.py, test_pyloop.py and test_pytasks.py have them",
    r"sonde profile --lines |sonde -f lines |sonde memleak --python ":
        "no such programs; tests/live/test_lines.py and tests/live/test_memleak_python.py have them",
    r"sonde fleet .* packets ": "no such packets; tests/live/test_packet_ways.py has this machine as a host",
    r"sonde packets ": "no such packets; tests/live/test_packet_ways.py sends them, in namespaces of its own",
    r"sonde .*fexit:bpf:xdp:": "no such programs; tests/vm/inside/test_packet_programs.py loads them",
    r"make deb": "tests/live/test_deb.py makes the package, and installs it in a copy of this system",
    r"make test": "this is what is running",
    r"make demo": "tests/live/test_pyz.py runs scripts/demo.py",
}

# What stands in for what only a page has (a process, a program, hosts that answer, folders to write to), and for long
# times.
STAND_INS = (
    (r"-p \d{3,}\b", "-p {pid}"), (r"\bid:87\b", "id:{program}"), (r"\bweb\[001-500\]", "web[001-003]"),
    (r"/etc/systemd/system/|(?<=> )(?:~|/usr/local)/\S*/", ""), (r"/usr/local/share/man\b", "dumps/man"),
    (r"/var/tmp/", "dumps/"), (r"/srv/server|/usr/local/bin/server", "./busy"),
    (r"http://collector:4318|http://127\.0\.0\.1:4318", "{collector}"), (r"python3\.12 ", "python3 "),
    (r"-C (web\.service|prod/\S+)", "-C {group}"), (r"'\.\.\.'", "'profile:hz:99 {{ @ = count(); }}'"),
    (r"(flame|overhead|--heatmap)( .*?)? (10|60)(?= |$)", r"\1\2 1"), (r" &$", ""),
    (r"--duration 10s", "--duration 0.5s"), (r"sysctl -q vm\.swappiness=\d+", "true"),
    (r"--repeat 5", "--repeat 2"), (r"(\} *') 10$", r"\1 1"),
)

_START = re.compile(r"([$#] )?(?=(?:\w+=\S+ |sudo )*(?:sonde|python3?|curl|docker|kubectl|make|systemctl)\s)")
_FORM = re.compile(r"\.{3}|[\[|]|\b(?:FILE|PATH|PACK|ADDRESS|TOOL|SCRIPT|RECORDING|HOSTS|BEFORE|COMMAND|PROBE|"
                   r"PATTERN|FUNCTION|DISK|EXPR|TTY|PID|BUILD-ID|SHELL|DIR)\b")  # a form of usage, outside of quotes


class Shown(NamedTuple):
    """A command, and where it stands: the line, and that with which its block begins."""

    page: str
    line: int
    text: str
    block: int


def shown_commands(page: str) -> list[Shown]:
    """The commands of a page's blocks (fenced ones without a language, and indented ones), each with the lines that it
    goes on to; forms of usage and what a command prints are none."""
    found = []
    for first, block in _blocks((ROOT / page).read_text().splitlines()):
        rows = iter(enumerate(block, first))
        for line, text in rows:
            start = _START.match(text)
            if not start:
                continue
            text = text[start.end():]
            while goes_on(text):
                text += "\n" + next(rows)[1]
            if not _FORM.search(re.sub(r"""'[^']*'|"[^"]*"|\s#\s.*|\w+=\S+""", "", text)):
                found.append(Shown(page, line, text, first))
    return found


def goes_on(text: str) -> bool:
    """Whether a shell would wait for more."""
    try:
        shlex.split(text, comments=True)
    except ValueError:  # no closing quotation
        return True
    return text.endswith("\\")


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, lines) of each block."""
    here: list[str] | None = None
    indented: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("```"):
            if here is None:
                here, language = [], line[3:]
            else:
                if not language:
                    yield number - len(here), here
                here = None
        elif here is not None:
            here.append(line)
        elif line.startswith("    ") and (indented or not lines[number - 2].strip()):
            indented.append(line[4:])
        elif indented:
            yield number - len(indented), indented
            indented = []


def pages() -> list[str]:
    """Those with commands: all of docs/, the README."""
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
