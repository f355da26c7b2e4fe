"""The kernel's network counters (Documentation/networking/snmp_counter.rst), and by how much they have grown."""

from __future__ import annotations

FOLDER = "/proc/thread-self/net"
GAUGES = {"TcpCurrEstab"}  # what goes up and down counts no events


class Growth:
    """Of the counters in the tracer's own network namespace, since this was made or asked last."""

    def __init__(self) -> None:
        self._last = read_counters()

    def take_growth(self) -> list[tuple[str, int]]:
        """(name, difference) of those that have grown, by name."""
        before, self._last = self._last, read_counters()
        grown = [(name, value - before.get(name, 0)) for name, value in self._last.items() if name not in GAUGES]
        return sorted((name, more) for name, more in grown if more > 0)


def read_counters() -> dict[str, int]:
    """``TcpRetransSegs``, ``TcpExtListenDrops``, ``Ip6InReceives`` ...: named as nstat names them."""
    counters: dict[str, int] = {}
    for file in ("snmp", "netstat"):
        lines = _read_lines(file)  # pairs: the names of a group, then their values
        for names, values in zip(lines[::2], lines[1::2]):
            group = names[0].rstrip(":")
            counters |= {group + name: int(value) for name, value in zip(names[1:], values[1:])}
    return counters | {words[0]: int(words[1]) for words in _read_lines("snmp6") if len(words) == 2}


def _read_lines(file: str) -> list[list[str]]:
    """The words of each line; nothing where the kernel has no such protocol."""
    try:
        with open(f"{FOLDER}/{file}", encoding="ascii", errors="replace") as text:
            return [line.split() for line in text]
    except OSError:
        return []
