"""What CPUs count of keys in memory and what they count in the kernel's hash is together what there was to count."""

from __future__ import annotations

import random

import pytest

from bpf_kernel import Kernel
from compiled import KERNELS, compiled, kernel_of, loaded, run_interrupted, set_task
from sonde.compiler import compilation
from sonde.runtime.maps.hot import read_hot
from sonde.spec import ScriptSpec


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few places that keys meet in one."""
    monkeypatch.setattr(compilation, "HOT_SLOTS", 4)


def plain(monkeypatch: pytest.MonkeyPatch, text: str, kernel: str = "6.18") -> Kernel:
    """The same script with everything in the hash."""
    with monkeypatch.context() as here:
        here.setattr(compilation.Unit, "make_hot", lambda self, spec: None)
        return loaded(text, kernel)


def hot(text: str) -> set[str]:
    return {made.name for made in compiled(text).maps if made.hot}


@pytest.mark.parametrize(("text", "maps"), [
    ("BEGIN { @[pid] = count(); @h[comm] = hist(pid); @s[1, comm] = stats(pid); print(@s); }", {"@", "@h", "@s"}),
    ('BEGIN { @[str((uint8 *)nsecs)] = sum(pid); @l["a", pid] = lhist(pid, 0, 100, 1); @a[tid] = avg(1); }',
     {"__short@", "@l", "@a"}),
    ("BEGIN { @[kstack] = count(); @k[kstack, comm] = count(); }", {"@", "@k"}),
    ("BEGIN { @ = count(); @m[pid] = min(1); @x[pid] = max(1); @n[pid] = nsecs; }", set()),
    ("BEGIN { @[pid] = count(); clear(@); }", {"@"}), ("BEGIN { @[pid] = count(); zero(@); }", {"@"}),
    ("let @ = hash(100); BEGIN { @[pid] = count(); clear(@); }", set()),  # no room beyond what is declared
    ("config = { max_map_keys = 8 } BEGIN { @[pid] = count(); clear(@); }", set()),
    ("BEGIN { @[pid] = count(); delete(@, 1); }", set()), ("BEGIN { @[pid] = count(); print(len(@)); }", set()),
    ("BEGIN { @[pid] = count(); for ($kv : @) { print($kv.0); } }", set()),
    ("BEGIN { @[pid] = count(); if (@[pid] > 1) { print(1); } }", set()),
    ("BEGIN { @[pid] = count(); print(has_key(@, 1)); }", set()),
    ("let @ = lruhash(5); BEGIN { @[pid] = count(); }", set()),
    ("config = { max_map_keys = 10000000 } BEGIN { @[pid] = count(); }", set()),  # elements are made when needed
    # Keys of more than 64 bytes.
    ("config = { max_strlen = 200 } BEGIN { @[str((uint8 *)nsecs), kstack, ustack, 1, 2, 3] = count(); }", set()),
])
def test_which_maps_have_hot_elements(text: str, maps: set[str]) -> None:
    assert hot(text) == maps


def test_a_map_that_is_cleared_has_room_for_keys_that_stay() -> None:
    spec = compiled("config = { max_map_keys = 1000 } BEGIN { @[pid] = count(); clear(@); }")
    table = spec.find_map("__hot@")
    places = table.value_size // table.stride
    assert places == 128 and spec.find_map("@").max_entries == 2 * 1000 + places


KEYS = ("tid", "(uint8)tid", "(int16)tid, cpu", "comm", "pid, comm", "tid, (uint8)1, (int64)tid", "(tid, (1, comm))",
        '("x", (uint32)tid)', "(tid & 1) ? \"even\" : \"odd\"")
VALUES = ("count()", "sum((int64)tid - 5)", "sum(tid)", "avg((int64)tid - 5)", "stats(tid)", "hist(tid)",
          "hist(tid, 2)", "lhist(tid, 0, 20, 3)")


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("seed", range(15))
def test_random_maps_have_the_same(monkeypatch: pytest.MonkeyPatch, few: None, seed: int, kernel: str) -> None:
    choose = random.Random(seed)
    updates = [f"@{name}[{choose.choice(KEYS)}] = {choose.choice(VALUES)};" for name in "abc"]
    text = f"config = {{ max_map_keys = {choose.choice([3, 9, 1000])} }} BEGIN {{ {' '.join(updates)} }} " \
        f"interval:s:1 {{ {' '.join(updates[:2])} }}"
    made, other = loaded(text, kernel), plain(monkeypatch, text, kernel)
    assert made.spec.find_map("@a").hot and not other.spec.find_map("@a").hot
    for _ in range(80):
        program, tid, cpu, comm = choose.randrange(2), choose.randrange(12), choose.randrange(2), choose.choice("abc")
        for each in (made, other):
            each.cpu = cpu
            set_task(each, tid, comm, kernel)
            each.run(program)
    for name in ("@a", "@b", "@c"):
        assert made.map(name) == other.map(name), (name, text)
    assert made.errors() == other.errors()
    assert any(read_hot(made.spec.find_map(n), made.spec.find_map(f"__hot{n}"),
                        bytes(made.maps[f"__hot{n}"].value.data)) for n in ("@a", "@b", "@c"))


def interrupted(spec: ScriptSpec, before: list[int], threads: tuple[int, int], at: int) -> Kernel | None:
    """What is left of events of all threads of ``before``, of one of the second of ``threads`` within one of the first,
    on the same CPU, and of one more of both; None if the first ends before the other comes."""
    made = kernel_of(spec)
    for tid in before:
        set_task(made, tid)
        made.run(0)

    def interrupt() -> None:
        set_task(made, threads[1])
        made.run(1)
        set_task(made, threads[0])

    set_task(made, threads[0])
    if not run_interrupted(made, 0, at, interrupt):
        return None
    for tid in threads:
        set_task(made, tid)
        made.run(0)
    return made


@pytest.mark.parametrize("value", ["count()", "stats(7)", "hist(5)"])
@pytest.mark.parametrize("threads", [(1, 1), (1, 2), (2, 5)])
def test_what_comes_between_is_counted(monkeypatch: pytest.MonkeyPatch, threads: tuple[int, int], value: str) -> None:
    monkeypatch.setattr(compilation, "HOT_SLOTS", 2)
    spec = compiled(f"BEGIN {{ @[tid] = {value}; }} interval:s:1 {{ @[tid] = {value}; }}")
    for before in ([], [threads[0]], [threads[1]], [7, 8, 9]):
        expected = kernel_of(spec)
        for tid in [*before, *threads, *threads]:
            set_task(expected, tid)
            expected.run(0)
        at = 0
        while (made := interrupted(spec, before, threads, at)) is not None:
            assert made.map() == expected.map(), (before, at)
            at += 1
        assert at > 20
