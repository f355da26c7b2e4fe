"""Every one-liner of docs/one-liners.toml that needs no function probes, on its workload."""

from __future__ import annotations

import pytest

from one_liners import OneLiner, judge, lacking, listing, one_liners, run
from support import run_sonde

HERE = [item for item in one_liners() if "program" in item]


@pytest.mark.parametrize("item", HERE, ids=[item["answers"] for item in HERE])
def test_one_liner(item: OneLiner) -> None:
    if wanted := item.get("needs"):
        there = run_sonde("-e", f'begin {{ printf("%d", exists("{wanted}")); exit(); }}').stdout
        if there.strip() != "1":
            pytest.skip(f"kernel lacks {wanted}")
    if missing := lacking(item["program"]):
        pytest.skip(f"kernel lacks {missing}")
    judge(item, *run(item, item["program"]))


@pytest.mark.parametrize("item", [item for item in one_liners() if "list" in item], ids=lambda item: item["list"])
def test_listing(item: OneLiner) -> None:
    judge(item, listing(item))
