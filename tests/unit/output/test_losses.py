"""Losses are said by probe and by script line."""

from __future__ import annotations

from typing import Any

from sonde.output.losses import report_losses
from sonde.runtime.losses import Losses
from sonde.source import Source, Span
from sonde.spec import ErrorSite

HERE = Span(Source("x.bt", "begin { @x[pid] = 1 }"), 8, 15)


class Heard:
    """An output that remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.said.append((name, *arguments))


def said(losses: Losses, reads: bool = False) -> list[tuple[Any, ...]]:
    heard = Heard()
    report_losses(heard, losses, reads)  # type: ignore[arg-type]
    return heard.said


def test_nothing_lost_is_nothing_said() -> None:
    assert said(Losses([], [], [])) == []


def test_what_scripts_live_with_is_no_part_of_the_output_unless_asked_for() -> None:
    sites = [(ErrorSite("read", None, "", "probe_read"), 1), (ErrorSite("no_key", None, "", "map_lookup_elem"), 1),
             (ErrorSite("divide", None), 1)]
    error = "report_runtime_error"
    for asked, methods in ((True, [error] * 3), (False, ["write_note", error, error])):
        heard = Heard()
        report_losses(heard, Losses([], sites, []), True, asked)  # type: ignore[arg-type]
        assert [found[0] for found in heard.said] == methods


def test_events_by_probe() -> None:
    assert said(Losses([("a", 2)], [], [])) == [("report_lost_events", 2)]
    assert said(Losses([("a", 2), ("b", 3)], [], [])) == [
        ("report_lost_events", 5), ("write_note", "  2 of a"), ("write_note", "  3 of b")]
    assert said(Losses([], [], [], 1)) == [("write_note", "WARNING: 1 event came late, out of order")]
    (short,) = said(Losses([], [], [], short=1))
    assert short[1].startswith("WARNING: 1 user stack ends early")
    (unseen,) = said(Losses([], [], [], unseen=2))
    assert unseen[1].startswith("WARNING: 2 mappings of processes went unseen")
    (shared,) = said(Losses([], [], [], shared=1))
    assert shared[1].startswith("WARNING: 1 address in user stacks belonged to one program of a process and then")
    (strayed,) = said(Losses([], [], [], strayed=2))
    assert strayed[1].startswith("WARNING: 2 processes could not be followed")
    left = Losses([], [], [], unreturned=[("f", 1), ("g", 2)], at_least=True)
    assert not left and said(left) == [("report_unreturned", left)] and left.unreturned_line == (
        "at least 3 calls did not return (2 of g, 1 of f): left by an exception, longjmp() or the end of a thread, or "
        "under way at the end")
    many = Losses([], [], [], unreturned=[(f"f{number}", 1) for number in range(9)])
    assert many.unreturned_line.startswith(
        "9 calls did not return (1 of f0, 1 of f1, 1 of f2, 1 of f3, 1 of f4, and of 4 functions more): ")
    assert said(Losses([], [], [("a", 1)])) == [
        ("write_note", "WARNING: a: the kernel skipped 1 event, nested or while the program was preempted")]
    assert said(Losses([], [], [("kretprobe:a", 3)])) == [
        ("write_note", "WARNING: kretprobe:a: the kernel missed 3 returns: too many calls under way, or nested")]


def test_errors_by_place() -> None:
    full = [(ErrorSite("map_full", HERE, "map_update_elem", name), 2) for name in ("@x", "@y")]
    call, _, hint = said(Losses([], full, []))
    assert call[0] == "report_runtime_error" and call[2:] == (HERE, "map_update_elem", -7, 2)
    assert call[1].endswith("let @a = hash(5000)`")  # bpftrace's words, and no more
    assert hint[0] == "write_note" and hint[1].startswith("HINT: with SONDE_MAX_MAP_KEYS=N")
    (call,) = said(Losses([], [(ErrorSite("send_signal", HERE, helper="send_signal"), 1)], []))
    assert call[1] == "send_signal failed."


def test_failed_reads_on_request() -> None:
    losses = Losses([], [(ErrorSite("read", None, helper="probe_read_user"), 1)], [])
    assert said(losses) == []
    (call,) = said(losses, reads=True)
    assert call[1].startswith("Bad address. ") and call[2:] == (None, "probe_read_user", -14, 1)
