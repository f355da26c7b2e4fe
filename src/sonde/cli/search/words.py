"""Words of questions: what they come down to, what means the same, and what was meant by a misspelt one."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# What two words are that are one term; in questions and in texts alike.
_TERMS = (("system call", "syscall"), ("run queue", "runq"), ("page fault", "pagefault"), ("i/o", "io"),
          ("block device", "blockdevice"), ("context switch", "switch"), ("high resolution timer", "hrtimer"),
          ("flame graph", "flamegraph"), ("many hosts", "fleet"), ("many machines", "fleet"), ("many servers", "fleet"),
          ("garbage collect", "gc collect"), ("off cpu", "offcpu"), ("on cpu", "oncpu"),
          ("event loop", "eventloop"), ("file system", "filesystem"), ("name lookup", "dns lookup"),
          ("host name", "hostname"), ("c++", "cpp"), ("out of memory", "oom"), ("time out", "timeout"))
_STOP = frozenset((
    "a about after all am an and any are as at be been before between but by can could did do does doing each every "
    "find first for from get give go goes had has have help how i if in into is it its just let like many me more "
    "most much my no not now of off on one only or other our out over per please see show so some sonde such "
    "tell than that the their them then there these they thing things this those to trace tracing up use used using "
    "want was way we were what when where whether which while who whose why will with you your ").split())
# Each line: words that a question may have for one another. The first of a line is the term; "A > B C" only that way.
_SYNONYMS = """
dns: resolve resolver resolution lookup getaddrinfo hostname nslookup
disk: storage ssd nvme hdd drive blockdevice io
slow: latency slower long delay lag sluggish duration slowness
memory: mem ram heap malloc allocation allocate alloc
leak: memleak leaking
cpu: processor core oncpu
hot: busy hog burn consume load top flame profile
network: net nic traffic bandwidth tcp socket
packet: skb datagram
send: transmit tx outgoing sent upload
receive: rx incoming recv download
drop: lost loss discard dropped
retransmit: resend retransmission
connect: connection connecting
fail: error failure errno refused fault
lock: mutex futex contention contended semaphore deadlock
life: lifetime lives lived lifespan short
switch: switches preempt
wait: blocks blocked sleep sleeping stuck hang hung idle offcpu freeze stall
start: exec execute launch spawn fork run begin
exit: die dead end crash terminate quit finish died ended
kill: signal sigkill
process: program pid task command application app
thread: threads pthread
container: docker pod kubernetes k8s cgroup service podman
ssl: tls https openssl encrypted gnutls
scheduler: runq schedule sched
cache: pagecache hit miss
file: files path
write: writes writing
stack: backtrace callstack stacktrace
profile: profiler sampling sample flame flamegraph
count: number frequency often rate
histogram: distribution heatmap hist percentile
python: pystack cpython
java: jvm hotspot
gc: garbage
syscall: syscalls
throughput: bandwidth bytes
interrupt: irq hardirq softirq
swap: swapping swapin paging
user: uid username
time: timestamp clock duration
string: text str
address: ip inet
keyboard: tty terminal
function: functions
fleet: hosts cluster machines servers
record: recording save
compare: diff difference regression
export: prometheus grafana otlp metrics opentelemetry
mount: umount filesystem
argument: args parameter arguments
print: output
query: sql database mysql postgres
request: http requests
"""


def stem(word: str) -> str:
    """A word without its ending: ``retransmitted``, ``retransmits`` → ``retransmit``."""
    if len(word) < 4 or not word.isalpha():
        return word
    for ending, instead in (("ations", "ate"), ("ation", "ate"), ("ies", "y"), ("sses", "ss"), ("ings", ""),
                            ("ing", ""), ("eed", "eed"), ("ed", ""), ("ss", "ss"), ("us", "us"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[:len(word) - len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]  # dropped → drop
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


def terms_of(text: str) -> list[str]:
    """The stems of a text's words, in order, without those that say nothing."""
    text = text.lower().replace("-", " ")
    for phrase, term in _TERMS:
        text = text.replace(phrase, term)
    return [stem(word) for word in re.findall(r"[a-z][a-z0-9+]*", text)
            if not {word, stem(word)} & _STOP and len(word) > 1]


def _read_synonyms() -> dict[str, list[str]]:
    others: dict[str, list[str]] = {}
    for line in _SYNONYMS.strip().splitlines():
        group = [stem(word) for word in line.replace(":", "").split()]
        for at, word in enumerate(group):
            others.setdefault(word, []).extend(group[1:] if at == 0 else group[:1])
    return others


SYNONYMS = _read_synonyms()


def nearest_term(term: str, known: Iterable[str]) -> str:
    """The known term that a misspelt one stands for: one letter is wrong, of long ones two; "" if there is none."""
    most = 0 if len(term) < 4 else 1 if len(term) < 8 else 2
    best, distance = "", most + 1
    for each in known:
        if abs(len(each) - len(term)) < distance and (each[:1] == term[:1] or each[1:2] == term[1:2]):
            number = _edits(term, each, distance - 1)
            if number < distance:
                best, distance = each, number
    return best


def _edits(one: str, other: str, most: int) -> int:
    """How many letters have to be changed, added, left out or swapped with the next; ``most`` + 1 if more than that."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, meant in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != meant))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == meant:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
