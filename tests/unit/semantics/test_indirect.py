"""Probes of indirect functions, against a World that knows their code."""

from __future__ import annotations

import pytest

from sonde.spec import Implementation
from unit.fake_world import FakeWorld, check_text, findings


class World(FakeWorld):
    """``work`` is indirect."""

    def __init__(self, code: Implementation) -> None:
        super().__init__()
        self._code = code

    def implementations(self, path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
        return {0x200: self._code} if "work" in names else {}


@pytest.mark.parametrize("kind", ["uprobe", "uretprobe"])
@pytest.mark.parametrize("point", ["work", "work*", 'cpp:"work"'])
def test_their_code_is_probed(kind: str, point: str) -> None:
    attach = check_text(f"{kind}:prog:{point} {{ }}", World(Implementation([0x400, 0x500]))).probes[0].attach
    assert [a.offset for a in attach] == [0x400, 0x500]
    assert all("work" in a.name and a.event == "work" for a in attach)


def test_others_of_a_pattern_stay() -> None:
    attach = check_text("uprobe:prog:* { }", World(Implementation([0x400]))).probes[0].attach
    assert [(a.event, a.offset) for a in attach] == [("main", 0x100), ("work", 0x400)]


@pytest.mark.parametrize("text, code", [
    ("uprobe:prog:work { }", ["indirect-function"]), ('uprobe:prog:cpp:"work" { }', ["indirect-function"]),
    ("uprobe:prog:* { }", ["indirect-function"]), ("uprobe:prog:main { }", []),
])
def test_code_that_is_not_known(text: str, code: list[str]) -> None:
    assert [c for c, _ in findings(text, World(Implementation(problem="nobody knows")))] == code


@pytest.mark.parametrize("text, code", [("uprobe:prog:work { }", ["shared-code"]), ("uprobe:prog:wor* { }", [])])
def test_code_of_several_functions(text: str, code: list[str]) -> None:
    assert [c for c, _ in findings(text, World(Implementation([0x400], ["other"])))] == code
