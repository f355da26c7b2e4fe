"""The one-liners of docs/one-liners.toml that probe kernel functions, on kernels that can."""

from __future__ import annotations

import os

import pytest

from one_liners import OneLiner, judge, one_liners, run
from sonde.arch import this_arch

KERNEL = os.environ.get("SONDE_VM", "")
HERE = [item for item in one_liners() if "functions" in item and KERNEL in ("collect", *item.get("kernels", [KERNEL]))]


@pytest.mark.parametrize("item", HERE, ids=[item["functions"].partition(" ")[0] + str(number)
                                            for number, item in enumerate(HERE)])
def test_one_liner(item: OneLiner) -> None:
    judge(item, *run(item, item["functions"].replace("__x64_sys_", this_arch().syscall_prefix)))
