"""The colours of pages and drawings: what is written and what is drawn stands out from what is behind it (WCAG AA)."""

from __future__ import annotations

import itertools

import pytest

from sonde.output.look import COLOURS, PAGE_COLOURS

ALL = COLOURS | PAGE_COLOURS


def luminance(colour: str) -> float:
    """WCAG's relative luminance of ``#rrggbb``."""
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_the_measure() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21) and contrast("#777777", "#ffffff") < 4.5


@pytest.mark.parametrize("mode", range(3), ids=["light", "dark", "paper"])
def test_what_is_written_can_be_read(mode: int) -> None:
    pairs = itertools.product(("ink", "soft", "lost", "live", "held"), ("paper", "ground", "mark"))
    assert not [pair for pair in pairs if contrast(*[ALL[name][mode] for name in pair]) < 4.5]


@pytest.mark.parametrize("mode", range(3), ids=["light", "dark", "paper"])
def test_lines_bars_and_borders_can_be_seen(mode: int) -> None:
    names = ["bar", "edge", "focus", *[f"c{number}" for number in range(1, 9)]]
    assert not [name for name in names if contrast(ALL[name][mode], ALL["paper"][mode]) < 3]
