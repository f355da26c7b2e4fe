"""Plain data classes: what they take, what they refuse, and that no two share what can change."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.base.record import Record, Value


class Base(Record):
    name: str
    size: int = 8
    parts: list[int] = []


class Derived(Base):
    size: int = 4
    last: str = ""


class Point(Value):
    x: int
    y: int = 0


def test_fields_in_order_and_defaults() -> None:
    assert Derived("a").values() == ("a", 4, [], "")
    assert Derived("a", 1, [2], "b").values() == Derived(last="b", parts=[2], size=1, name="a").values()
    assert Point(1) == Point(x=1, y=0) and hash(Point(1)) == hash(Point(1, 0)) and Point(1) != Point(1, 2)
    assert repr(Point(1)) == "Point(x=1, y=0)"


def test_each_has_a_list_of_its_own() -> None:
    one, other, given = Base("a"), Derived("b"), [5]
    one.parts.append(1)
    assert other.parts == [] and Base("c").parts == [] and Base("d", parts=given).parts is given


@pytest.mark.parametrize(("args", "kwargs", "message"), [
    ((), {}, "Base needs name"), ((), {"size": 1}, "Base needs name"),
    ((1, 2, [], 4), {}, "Base takes 3 values, got 4"), ((1,), {"colour": 2}, "Base has no colour"),
    ((1, 2, []), {"colour": 2}, "Base has no colour"),
    ((1,), {"name": 2}, "Base has no name")])
def test_what_does_not_fit(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Base(*args, **kwargs)
