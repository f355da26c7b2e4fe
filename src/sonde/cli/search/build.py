"""Makes the entries of the index: from tools' and commands' pages, the tables of the language and of options, and from
the cookbook and the one-liners of the documentation."""

from __future__ import annotations

import os
import re
from math import log
from typing import Any

from ...base.package_files import FOLDER
from .entries import BUILTIN, COMMAND, FUNCTION, ONE_LINER, OPTION, PROBE, QUESTION, TOOL, VARIABLE, Entry
from .words import terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...tools import Tool

DOCS = os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "docs")
_MOST_WORDS = 10  # of a page that it is found by, beside its first line
_SECTIONS = ("USAGE", "COLUMNS", "READING", "NOTES")
# What people ask for, where the first line of an entry has other words.
_QUERIES = dict(line.split(": ") for line in """
execsnoop: short lived programs run launched executed commands
exitsnoop: crash status segfault end
biotop: who which process writes reads disk io busy
biosnoop: each disk io slow
tcpconnect: outgoing
biolatency: slow disk storage
fileslower: slow disk file
filetop: who writes reads files disk
runqlat: run queue scheduler latency wait for cpu
runqlen: run queue saturation
offcputime: blocked waiting sleep lock
klockstat: lock contention mutex deadlock kernel
funclatency: time of a function slow
funccount: how often function called calls
stackcount: who calls function stack
cpudist: context switch time slice
syscount: strace system calls count
opensnoop: open missing file config
tcplife: connection lifetime duration bytes
tcpaccept: incoming
tcptop: bandwidth traffic network usage
gethostlatency: dns resolver getaddrinfo
killsnoop: who killed kill signal
oomkill: out of memory killed
capable: permission denied privileges capability
statsnoop: missing file stat config
llcstat: cpu cache
cachestat: page cache hit ratio
cachetop: page cache hit ratio process
sslsnoop: tls plaintext https
fleet: many hosts machines cluster servers dask ssh
profile: cpu busy hot
flame: flamegraph profiler hot where time spent cpu off blocked
trace: function arguments return values
argdist: function arguments distribution
memleak: heap malloc growing
superping: ping round trip
solisten: listening ports
skbdrop: packet loss dropped
tcpretrans: retransmission packet loss
tcpdrop: packet loss
setuids: root sudo su login user changed
ugc: garbage collector pause
export: grafana metrics dashboard
record: save keep file
diff: compare before after regression
serve: dashboard browser web page
top: live screen
check: validate lint editor sarif
doctor: what works here kernel support missing
cost: overhead price slow down of a script
overhead: bpf programs cost
symbols: debug symbols missing names
mountsnoop: umount
hist: histogram distribution power of two
lhist: histogram linear
str: text string of a pointer filename argument
strlen: length of a string text
count: how often number of events
kstack: kernel backtrace
ustack: user backtrace
pystack: python backtrace interpreter
nsecs: time now clock timestamp
comm: process program name
printf: print formatted
join: argv command line
software: page faults context switches
uprobe: function of a program or library
kprobe: kernel function
interval: timer every second periodically
usdt: static probes of programs
--container: docker container only
--budget: limit cost overhead
--flight: last seconds black box crash
--by: docker
strftime: date time format
ntop: ip address text
exit: stop end script
avg: average mean
""".strip().splitlines())
_SUBJECT = re.compile(r"^\| ([^|]*?) \| ([a-z][^|]*?) \|$", re.M)
_ALSO = re.compile(r"<!--\s*also:\s*([^;>]*?)\s*(?:;|-->)")


def collect_entries(docs: str = DOCS) -> list[Entry]:
    """All of them. Raises OSError where a source tree's documentation cannot be read."""
    from ... import tools
    from .. import command_table, commands
    pages = [(TOOL, page) for page in tools.all_tools()]
    pages += [(COMMAND, commands.command_page(name)) for name in command_table.COMMANDS]
    words = _telling_words([" ".join([page.sections.get(part, "") for part in _SECTIONS]) for _, page in pages])
    subjects = _subjects(docs)
    return [*[Entry(kind, page.name, page.purpose, f"sonde {page.name} --help", _QUERIES.get(page.name, ""),
                    " ".join([subjects.get(page.name, ""), *_elsewhere(page), *more]))
              for (kind, page), more in zip(pages, words)],
            *_cookbook_entries(docs), *_one_liner_entries(docs), *_language_entries(), *_option_entries()]


def _subjects(docs: str) -> dict[str, str]:
    """What each tool is about, by the table of tools-by-subject.md."""
    path = os.path.join(docs, "tools-by-subject.md")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        rows: list[tuple[str, str]] = _SUBJECT.findall(file.read())
    return {name.strip(","): subject for subject, names in rows for name in names.split()}


def _elsewhere(page: Tool) -> list[str]:
    """The names that a tool has elsewhere."""
    from ..command_table import ALIASES
    return [name for name, meant in ALIASES.items() if meant.split()[0] == page.name]


def _telling_words(texts: list[str]) -> list[list[str]]:
    """Of each text the words that few of the others have, and that it has often."""
    counted: list[dict[str, int]] = []
    holders: dict[str, int] = {}
    for text in texts:
        counts: dict[str, int] = {}
        for term in terms_of(text):
            counts[term] = counts.get(term, 0) + 1
        counted.append(counts)
        for term in counts:
            holders[term] = holders.get(term, 0) + 1

    def weight(counts: dict[str, int], term: str) -> float:
        return (1 + log(counts[term])) * log(len(texts) / holders[term]) if len(term) > 2 else 0
    return [sorted(counts, key=lambda term: (-weight(counts, term), term))[:_MOST_WORDS] for counts in counted]


def _cookbook_entries(docs: str) -> Iterable[Entry]:
    """A question of the cookbook and its command, on the page that the entry names."""
    folder = os.path.join(docs, "cookbook")
    for page in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, page), encoding="utf-8") as file:
            sections = file.read().split("\n## ")[1:]
        for section in sections:
            question, _, rest = section.partition("\n")
            also, command = _ALSO.search(rest), re.search(r"^# (.*(?:\\\n.*)*)", rest, re.M)
            if command is not None:
                yield Entry(QUESTION, f"docs/cookbook/{page}", question, command[1].replace("\\\n", " "),
                            also[1] if also else "")


def _one_liner_entries(docs: str) -> Iterable[Entry]:
    import tomllib
    path = os.path.join(docs, "one-liners.toml")
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        rows: list[dict[str, Any]] = tomllib.load(file)["one-liner"]
    for row in rows:
        program = str(row.get("program") or row.get("functions") or "")
        if program and not row["answers"].startswith("The same"):
            quote = "'" if "'" not in program else '"'
            yield Entry(ONE_LINER, "", row["answers"], f"sonde -e {quote}{program}{quote}", "",
                        " ".join(re.findall(r"[a-z]\w+", program)[:12]))


def _language_entries() -> Iterable[Entry]:
    from ...builtins import BUILTINS
    from ...functions import FUNCTIONS
    from ...kinds import KINDS
    from ...semantics.config import VARIABLES
    from ...semantics.providers import find_provider
    for function in FUNCTIONS.values():
        yield Entry(FUNCTION, function.signature, function.documentation, f"sonde help {function.name}",
                    _QUERIES.get(function.name, ""))
    for builtin in BUILTINS.values():
        yield Entry(BUILTIN, builtin.name, builtin.documentation, f"sonde help {builtin.name}",
                    _QUERIES.get(builtin.name, ""))
    for kind in KINDS.values():
        provider = find_provider(kind.name)
        if provider is not None:
            yield Entry(PROBE, provider.form, provider.documentation, f"sonde help {kind.name}",
                        _QUERIES.get(kind.name, ""), " ".join(kind.aliases))
    for variable in VARIABLES.values():
        yield Entry(VARIABLE, variable.name, variable.documentation, f"sonde help {variable.name}")


def _option_entries() -> Iterable[Entry]:
    from ..options import OPTIONS
    for row in OPTIONS:
        if row.group != "NOTHING TO DO":
            yield Entry(OPTION, ", ".join(row.names) + (f" {row.value}" if row.value else ""), row.help, "sonde --help",
                        _QUERIES.get(row.names[-1], ""))
