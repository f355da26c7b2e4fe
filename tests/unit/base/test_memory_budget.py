"""What a run may hold: sizes of --memory, and caches that are bounded in bytes."""

from __future__ import annotations

import random

import pytest

from sonde.base.memory_budget import Cache
from sonde.cli.display_choice import parse_memory
from sonde.errors import UsageError


@pytest.mark.parametrize("text, total", [("96M", 96 << 20), ("1g", 1 << 30), ("40000K", 40000 << 10),
                                         ("33554432", 32 << 20)])
def test_sizes(text: str, total: int) -> None:
    assert parse_memory(text).total == total


@pytest.mark.parametrize("text", ["", "M", "31M", "1T", "-64M", "6 4M", "１28M", "1" * 16])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError):
        parse_memory(text)


def test_what_was_used_longest_ago_goes() -> None:
    gone: list[str] = []
    cache: Cache[int, str] = Cache(100, gone.append)
    cache.put(1, "one", 40)
    cache.put(2, "two", 40)
    assert cache.get(1) == "one" and cache.get(3) is None
    cache.put(3, "three", 40)
    assert gone == ["two"] and 2 not in cache
    cache.grow(3, 30)
    assert gone == ["two", "one"] and cache.size == cache.size_of(3) == 70
    cache.grow(3, 50)  # alone it stays
    assert cache.get(3) == "three" and cache.size == 120
    cache.grow(2, 1000)  # it is not held
    cache.put(3, "another", 10)
    assert cache.size == 10 and gone == ["two", "one"]
    cache.drop(3)
    cache.drop(3)
    assert gone[2:] == ["another"] and cache.size == 0


def test_the_size_is_that_of_what_is_held() -> None:
    chance, held = random.Random(1), dict[int, int]()
    cache: Cache[int, int] = Cache(1000, held.pop)
    for _ in range(5000):
        key, size = chance.randrange(50), chance.randrange(100)
        if chance.random() < 0.2:
            cache.drop(key)
        elif key in held and chance.random() < 0.5:
            held[key] += size
            cache.grow(key, size)
        else:
            held[key] = size
            cache.put(key, key, size)
        assert cache.size == sum(held.values()) <= 1000
        assert all(cache.size_of(key) == size for key, size in held.items())
