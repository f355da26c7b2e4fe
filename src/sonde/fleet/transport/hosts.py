"""Which hosts: names, ranges, files."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from ...errors import UsageError

MOST = 20000  # hosts
LOCAL, SOCKET = "local:", "unix:"
_RANGE = re.compile(r"\[([^\]]*)\]")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)")
_NAME = re.compile(r"[A-Za-z0-9_.:@%\[\]/-]+")


def expand_hosts(words: Iterable[str]) -> list[str]:
    """The hosts that the words of -H mean, each once, in order.

    A word is a list with commas of names (as ssh takes them; ``local:NAME`` and ``unix:PATH`` for agents of this
    machine) with ranges ``web[001-500]`` and ``[1-3,7]``; ``-`` or a word with a slash is a file with one host, or one
    such list, a line; what stands after it there, and lines that begin with ``#`` or ``[``, are no hosts. A file
    may have a host in several groups; one that is named twice otherwise is said.
    """
    hosts: dict[str, None] = {}
    twice: dict[str, None] = {}
    for word in words:
        for host in _expand_word(word):
            (twice if host in hosts else hosts)[_check_name(host)] = None
            if len(hosts) > MOST:
                raise UsageError(f"more than {MOST} hosts")
    if not hosts:
        raise UsageError("no hosts", ["-H web1,web2 or -H 'web[001-500]'; sonde fleet --help explains"])
    if twice:
        from ...kernel.notices import show_notice
        show_notice(f"WARNING: {', '.join(fold_names(twice))}: named twice, and traced once")
    return list(hosts)


def _expand_word(word: str) -> Iterator[str]:
    for part in [word] if "/" in word and os.path.isfile(word) else _split_list(word):
        if part == "-":
            yield from dict.fromkeys(_read_lines(sys.stdin.read(1 << 24)))
        elif "/" in part and not part.startswith(SOCKET):
            yield from dict.fromkeys(_read_file(part))
        else:
            yield from _expand_ranges(part)


def _read_file(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from _read_lines(file.read(1 << 24))
    except OSError as error:
        raise UsageError(f"hosts of {path}: {error.strerror}") from None


def _read_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        first = (line.split() or [""])[0]
        if first and first[0] not in "#;[":
            for name in _split_list(first):
                yield from _expand_ranges(name)


def _split_list(word: str) -> list[str]:
    """At commas outside of brackets."""
    return [name for name in re.split(r",(?![^\[]*\])", word) if name]


def _expand_ranges(name: str) -> Iterator[str]:
    match = _RANGE.search(name)
    if match is None:
        yield name
        return
    for number in _numbers_of(match.group(1), name):
        yield from _expand_ranges(name[:match.start()] + number + name[match.end():])


def _numbers_of(text: str, name: str) -> Iterator[str]:
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not low.isascii() or not low.isdigit() or dash and not (high.isascii() and high.isdigit()):
            raise UsageError(f"{name}: no range of numbers: [{text}]")
        last = int(high or low)
        if last - int(low) >= MOST or last < int(low):
            raise UsageError(f"{name}: no range of numbers from low to high, {MOST} at most: [{text}]")
        for number in range(int(low), last + 1):
            yield f"{number:0{len(low)}}"


def _check_name(host: str) -> str:
    """UsageError for what ssh would take for an option, or the shell for more than a name."""
    if host.startswith("-") or not _NAME.fullmatch(host) or not _shorten(host):
        raise UsageError(f"{host!r} is no host's name")
    if "[" in host or "]" in host:
        raise UsageError(f"{host}: a bracket without the other one", ["ranges are written web[001-500] or db[1-3,7]"])
    return host


def short_names(hosts: Iterable[str]) -> dict[str, str]:
    """How hosts are called in results: without user and kind, where that leaves them apart."""
    names = {host: _shorten(host) for host in hosts}
    taken = Counter(names.values())
    return {host: name if taken[name] == 1 else host for host, name in names.items()}


def _shorten(host: str) -> str:
    return host.removeprefix(LOCAL).removeprefix(SOCKET).rpartition("@")[2]


def fold_names(names: Iterable[str]) -> list[str]:
    """Names as people write them: ``web[001-017,203]`` for those that differ in their last number, in the order of the
    first of each."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name in names:
        match = _LAST_NUMBER.fullmatch(name)
        start, digits, end = match.groups() if match else (name, "", "")
        alike.setdefault((start, end), []).append(digits)
    return [start + text + end for (start, end), numbers in alike.items() for text in _fold_numbers(numbers)]


def _fold_numbers(numbers: list[str]) -> list[str]:
    """In one pair of brackets, if all are equally long or none begins with a 0; else in one for each length."""
    widths = sorted({len(digits) for digits in numbers})
    if len(widths) == 1:
        return [_fold_runs(sorted(map(int, numbers)), widths[0])] if widths[0] else [""]
    if not any(digits[:1] == "0" for digits in numbers) and widths[0]:
        return [_fold_runs(sorted(map(int, numbers)), 1)]
    return [text for width in widths for text in _fold_numbers([digits for digits in numbers if len(digits) == width])]


def _fold_runs(numbers: list[int], width: int) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{low:0{width}}" if low == high else f"{low:0{width}}-{high:0{width}}" for low, high in runs]
    return texts[0] if len(numbers) == 1 else f"[{','.join(texts)}]"
