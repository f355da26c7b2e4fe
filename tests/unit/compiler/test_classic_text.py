"""Classic BPF as text, which may be a stranger's."""

from __future__ import annotations

import random

import pytest

from compiled import compiled
from packet_filters import has_libpcap
from sonde.compiler.lower.classic_text import read_classic, write_classic
from sonde.errors import CompileError
from sonde.kernel.pcap import compile_filter

IP = [(0x28, 0, 0, 12), (0x15, 0, 1, 0x800), (6, 0, 0, 1), (6, 0, 0, 0)]


def test_what_is_written_is_read() -> None:
    text = write_classic((IP, None))
    assert text == "bpf:4,40 0 0 12,21 0 1 2048,6 0 0 1,6 0 0 0;-"
    assert read_classic(text) == (IP, None)
    assert read_classic(write_classic((IP, []))) == (IP, [])


@pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")
@pytest.mark.parametrize("filter", ["udp port 53", "vlan 5 and ip6", "tcp[13] & 2 != 0", "len / 3 > 20",
                                    "net 10.0.0.0/8"])
def test_libpcaps_programs_pass(filter: str) -> None:
    answer = compile_filter(filter, "ethernet")
    assert answer is not None and not answer.problem
    assert read_classic(write_classic((answer.instructions, answer.instructions)))[0] == answer.instructions


@pytest.mark.parametrize("text, says", [
    ("bpf:", "two programs"), ("bpf:1,6 0 0 1", "two programs"), ("bpf:;-", "takes no packet"),
    ("bpf:-;-", "takes no packet"),
    ("bpf:2,6 0 0 1;-", "number of its instructions"), ("bpf:x,6 0 0 1;-", "number of its instructions"),
    ("bpf:1,6 0 0;-", "no instruction"), ("bpf:1,6 0 0 -1;-", "no instruction"), ("bpf:1,24 0 0 0;-", "no instruction"),
    ("bpf:1,6 0 0 4294967296;-", "no instruction"), ("bpf:1,40 0 0 12;-", "does not return"),
    ("bpf:2,5 0 0 1,6 0 0 1;-", "jumps"), ("bpf:2,5 0 0 4294967294,6 0 0 1;-", "jumps"),
    ("bpf:2,21 0 255 1,6 0 0 1;-", "jumps"), ("bpf:2,96 0 0 16,6 0 0 1;-", "word 16"),
    ("bpf:2,2 0 0 99,6 0 0 1;-", "word 99"),
    ("bpf:2,52 0 0 0,6 0 0 1;-", "not defined"), ("bpf:2,100 0 0 32,6 0 0 1;-", "not defined")])
def test_what_the_kernel_refuses_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_classic(text)


def test_random_programs_compile_or_are_refused() -> None:
    """Nothing but an error of the script comes of any."""
    chosen, compiled_ones = random.Random(7), 0
    codes = [0x28, 0x30, 0x40, 0x48, 0x60, 0x61, 0xB1, 0x02, 0x03, 0x04, 0x0C, 0x34, 0x3C, 0x6C, 0x94, 0x84, 0x05, 0x15,
             0x25, 0x4D, 0x07, 0x87, 0x80, 0x81, 0x00, 0x01, 0x16]
    numbers = (0, 1, 2, 7, 40, 1 << 31)
    for _ in range(60):
        program = [(chosen.choice(codes), chosen.randrange(3), chosen.randrange(3), chosen.choice(numbers))
                   for _ in range(chosen.randrange(1, 9))] + [(6, 0, 0, 1)] * 3
        try:
            text = write_classic((program, program))
            compiled(f'rawtracepoint:net_dev_queue /pcap("{text}", args.skb)/ {{ @ = count(); }}')
            compiled_ones += 1
        except CompileError as error:
            assert "pcap(): instruction" in str(error)
    assert compiled_ones > 10
