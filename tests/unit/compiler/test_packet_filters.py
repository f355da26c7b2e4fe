"""pcap(): the verdicts of libpcap itself, by random filters over packets of every form of header, in the interpreter.

``SONDE_FUZZ_SEED`` chooses the first seed, ``SONDE_FUZZ_COUNT`` how many filters there are.
"""

from __future__ import annotations

import os
import random
import time
from functools import cache

import pytest

import compiled
from packet_filters import FilterMaker, PacketMaker, has_libpcap, libpcap_verdict
from placed_packets import KERNELS, VARIABLES, Placed
from recorded_world import RecordedWorld
from sonde.kernel.pcap import compile_filter

COUNT = int(os.environ.get("SONDE_FUZZ_COUNT", "160"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
TOGETHER, PACKETS, BLOCKS = 8, 8, 4

pytestmark = pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")


@pytest.fixture(autouse=True)
def symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that says where its pages are."""
    ask = RecordedWorld.kernel_symbol
    monkeypatch.setattr(RecordedWorld, "kernel_symbol", lambda world, name: VARIABLES.get(name) or ask(world, name))


@cache
def filters_of(seed: int) -> tuple[str, ...]:
    """Filters that libpcap takes, of frames."""
    maker, made = FilterMaker(seed), list[str]()
    while len(made) < TOGETHER:
        text = maker.expression()
        answer = compile_filter(text, "ethernet")
        if answer is not None and not answer.problem:
            made.append(text)
    return tuple(made)


def script_of(filters: tuple[str, ...], skb: str = "args.skb") -> str:
    bits = " | ".join(f'((uint64)pcap("{text}", {skb}) << {at})' for at, text in enumerate(filters))
    return f"rawtracepoint:net_dev_queue {{ @ = {bits}; }}"


def wanted_verdict(text: str, placed: Placed) -> bool:
    answer = compile_filter(text, "ethernet" if placed.link else "ip")
    return answer is not None and not answer.problem and libpcap_verdict(answer.instructions, placed.packet)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_filters(block: int) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    matches = compared = 0
    for seed in range(SEED + block, SEED + COUNT // TOGETHER, BLOCKS):
        filters, kernel = filters_of(seed), KERNELS[seed % len(KERNELS)]
        spec = compiled.compiled(script_of(filters), kernel)
        pick, maker = random.Random(seed), PacketMaker(seed)
        made = compiled.kernel_of(spec, kernel)
        for _ in range(PACKETS):
            placed = Placed(maker, pick)
            made.run(0, [placed.put(made), 0, 0])
            got = made.value()
            wanted = [wanted_verdict(text, placed) for text in filters]
            assert [bool(got >> at & 1) for at in range(TOGETHER)] == wanted, \
                f"seed {seed} ({kernel}): {placed.__dict__}\n" + "\n".join(filters)
            matches += sum(wanted)
            compared += len(wanted)
        assert not [e for e in made.errors() if e[0] not in ("packet_bare",)]
    assert compared / 50 < matches < compared
