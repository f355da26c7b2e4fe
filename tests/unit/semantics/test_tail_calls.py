"""Jumps of user functions to others that return in their place: which are followed, and by which programs."""

from __future__ import annotations

from typing import Any

from sonde.base.function_ends import FunctionEnds, TailCalls
from sonde.compiler.pipeline import compile_checked
from sonde.semantics.tail_calls import MOST_SHARED
from sonde.semantics.world import UserFunction
from sonde.spec import Attach, ScriptSpec, UserDetail, detail_of
from unit.fake_world import FakeWorld, check_text

LIBRARY = "/lib/libc.so.6"


class FollowedWorld(FakeWorld):
    """One in which every function ends by a jump to another one of its file, or by one to ``read``."""

    features = frozenset({"attach_cookie", "uprobe_multi"})

    def user_functions(self, path: str) -> list[UserFunction]:
        return [UserFunction(f"f{number}", 0x1000 * number, 0x1000 * number, 64) for number in range(1, 21)]

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        if path == LIBRARY:
            return [FunctionEnds((0x90, 0x98), (), "", TailCalls(path, (0x88,), (0x100,), (), (0x180,)))]
        return [FunctionEnds((), (offset + 4,), "", TailCalls(path, (offset + 8,), (0x800,), (), (0x880,)),
                             ((offset + 4, "read"),)) for offset in offsets]

    def find_import(self, path: str, name: str, pid: int) -> tuple[str, list[int]] | None:
        return (LIBRARY, [0x80]) if name == "read" else None


def attach_points(text: str, **options: Any) -> list[Attach]:
    checked = check_text(text, FollowedWorld(), returns="instructions", **options)
    return [item for probe in checked.probes for item in probe.attach]


def tails(text: str, **options: Any) -> list[TailCalls]:
    point, = attach_points(text, **options)
    return list(detail_of(point, UserDetail).tails)


def compiled(text: str, **options: Any) -> ScriptSpec:
    world = FollowedWorld()
    return compile_checked(check_text(text, world, returns="instructions", **options), world)


def test_which_are_followed() -> None:
    """Into other files only those of one process, and not where the name of the function is wanted."""
    own, other = tails("uretprobe:prog:f1 { @ = sum(retval); }", pid=1)
    assert own.values() == ("/bin/prog", (0x1004, 0x1008), (0x800,), (), (0x880,), ())
    assert other.values() == (LIBRARY, (), (0x80, 0x100), (0x88,), (0x90, 0x98, 0x180), ())
    for text, pid in (("uretprobe:prog:f1 { @ = sum(retval); }", 0),
                      ("uretprobe:prog:f1 { @[func] = sum(retval); }", 1)):
        assert [(each.jumps, each.unseen) for each in tails(text, pid=pid)] == [((0x1008,), ()), ((), (0x1004,))]


def test_programs() -> None:
    """At jumps and beginnings, calls are noted; the clause is for return instructions. That of the function itself is
    not needed where it has none. Calls are counted from jumps to returns."""
    spec = compiled("uretprobe:prog:f1 { @ = sum(retval); }", pid=1)
    assert [(program.clauses, [point.exits for point in program.attach]) for program in spec.programs] == [
        (1, [(0x880,), (0x90, 0x98, 0x180)]), (0, [(0x1004, 0x1008)]), (0, [(0x88,)]), (0, [(0x800,), (0x80, 0x100)])]
    assert [(calls.begun, calls.ended) for calls in spec.calls] == [(1, [2])]
    counted, = compiled("uprobe:prog:f1 { } uretprobe:prog:f1 { @ = sum(retval); }", pid=1).calls
    assert (counted.begun, counted.ended) == (0, [1, 5])


def test_two_clauses() -> None:
    """Each notes calls for itself: the first that returns forgets them."""
    spec = compiled("uretprobe:prog:f1 { @ = sum(retval); } uretprobe:prog:f1 { @a = count(); }", pid=1)
    assert [each.name for each in spec.maps if each.name.startswith("__tails")] == ["__tails0", "__tails1"]


def test_too_many_of_one_return_instruction() -> None:
    """The jumps of the others count as returns."""
    points = attach_points("uretprobe:prog:f* { @ = count(); }")
    followed = [bool(detail_of(point, UserDetail).tails) for point in points]
    assert followed == [True] * MOST_SHARED + [False] * 4
