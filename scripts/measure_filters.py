#!/usr/bin/env python3
"""What a packet filter costs: pcap() beside libpcap's classic code as a socket filter, on the same traffic.

    sudo PYTHONPATH=src python scripts/measure_filters.py 'tcp port 443' [ROUNDS]

The classic code is loaded as the kernel itself converts it (bpf_convert_filter() in net/core/filter.c), since the
kernel counts the run time only of programs that have a number. Datagrams go over the loopback device of a network
namespace of its own. Printed are the medians of all rounds' means, less those of programs that do nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
from statistics import median

import sonde
from sonde.kernel import syscalls
from sonde.kernel.pcap import compile_filter

DATAGRAMS = 60_000
SO_ATTACH_BPF, SOCKET_FILTER, CLONE_NEWNET = 50, 1, 0x40000000
A, X, CONTEXT, KEPT = 0, 7, 6, 8  # registers
NAME = "measured"


def insn(code: int, dst: int = 0, src: int = 0, off: int = 0, k: int = 0) -> bytes:
    return struct.pack("<BBhi", code, dst | src << 4, off, k - (1 << 32) if k >> 31 else k)


EMPTY = insn(0xB4) + insn(0x95)


def convert(code: int, jumps: tuple[int, int], k: int) -> list[bytes]:
    """One instruction of a filter; jumps still have the distances of classic BPF."""
    kind, mode = code & 7, code & 0xE0
    if kind == 0 and mode in (0x20, 0x40):
        return [insn(code, 0, X if mode == 0x40 else 0, 0, k)]
    if kind in (0, 1) and mode == 0:
        return [insn(0xB4, A if kind == 0 else X, k=k)]
    if kind == 1 and mode == 0xA0:
        return [insn(0xBF, KEPT, A), insn(0x30, k=k), insn(0x54, A, k=15), insn(0x64, A, k=2), insn(0xBF, X, A),
                insn(0xBF, A, KEPT)]
    if kind == 4:
        return [insn(code & 0xF8 | 4, A, X if code & 8 else 0, 0, 0 if code & 8 else k)]
    if kind == 5:
        test = insn(code & 0xF8 | 6, A, X if code & 8 else 0, jumps[0], 0 if code & 8 else k)
        return [insn(5, off=k)] if not code & 0xF0 else [test, insn(5, off=jumps[1])]
    if kind == 6:
        return [insn(0x95)] if code & 0x10 else [insn(0xB4, A, k=k), insn(0x95)]
    assert kind == 7, f"{code:#x}"
    return [insn(0xBF, A, X) if code & 0x80 else insn(0xBF, X, A)]


def convert_filter(filter: list[tuple[int, int, int, int]]) -> bytes:
    """A filter as the kernel converts it."""
    pieces = [convert(code, (yes, no), k) for code, yes, no, k in filter]
    starts = [sum(map(len, pieces[:at])) for at in range(len(pieces) + 1)]
    out = [insn(0xB7, A), insn(0xB7, X), insn(0xBF, CONTEXT, 1)]
    for at, (piece, (code, *_)) in enumerate(zip(pieces, filter)):
        for number, each in enumerate(piece):
            raw, regs, off, k = struct.unpack("<BBhi", each)
            if code & 7 == 5:
                off = starts[at + 1 + off] - starts[at] - number - 1
            out.append(struct.pack("<BBhi", raw, regs, off, k))
    return b"".join(out)


class Traffic:
    """Datagrams over a loopback device that nobody else uses, and a socket that filters them."""

    def __init__(self) -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise SystemExit(f"unshare: {os.strerror(ctypes.get_errno())}")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.filtering = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.filtering.bind(("lo", 3))
        self.receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.bind(("127.0.0.1", 4443))
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sender.connect(("127.0.0.1", 4443))

    def send(self) -> None:
        for _ in range(DATAGRAMS):
            self.sender.send(b"x" * 64)


def mean_time(traffic: Traffic, wanted: dict[str, str]) -> float:
    """Nanoseconds of a run of the one program that ran for each datagram."""
    before = programs(wanted)
    traffic.send()
    for number, (runs, time) in programs(wanted).items():
        earlier = before.get(number, (0, 0))
        if runs - earlier[0] >= DATAGRAMS * 9 // 10:
            return (time - earlier[1]) / (runs - earlier[0])
    raise SystemExit("no program ran for each datagram")


def programs(wanted: dict[str, str]) -> dict[int, tuple[int, int]]:
    """Number -> (runs, ns) of the programs with these properties."""
    shown = json.loads(subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, check=True).stdout)
    return {each["id"]: (each.get("run_cnt", 0), each.get("run_time_ns", 0)) for each in shown
            if all(each.get(name) == value for name, value in wanted.items())}


def time_socket_filter(traffic: Traffic, code: bytes) -> float:
    with syscalls.prog_load(SOCKET_FILTER, code, NAME) as program:
        traffic.filtering.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, struct.pack("i", program.fileno()))
        return mean_time(traffic, {"name": NAME})


def time_script(traffic: Traffic, body: str) -> float:
    with sonde.trace(f"rawtracepoint:net_dev_queue /args.skb.dev.ifindex == 1/ {{ {body} }}"):
        return mean_time(traffic, {"type": "raw_tracepoint"})


def main() -> None:
    expression, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    filter = compile_filter(expression, "ethernet")
    if filter is None or filter.problem:
        raise SystemExit(filter.problem if filter else "libpcap is not installed")
    traffic, code = Traffic(), convert_filter(filter.instructions)
    with syscalls.enable_stats():
        rows = [(time_socket_filter(traffic, EMPTY), time_socket_filter(traffic, code),
                 time_script(traffic, "@all = count();"),
                 time_script(traffic, f'if (pcap("{expression}", args.skb)) {{ @ = count(); }} @all = count();'))
                for _ in range(rounds)]
    empty, classic, plain, filtered = map(median, zip(*rows))
    print(f"{expression}: socket filter {classic - empty:.1f} ns, pcap() {filtered - plain:.1f} ns")


if __name__ == "__main__":
    main()
