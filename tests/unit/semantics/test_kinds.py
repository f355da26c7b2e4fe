"""The tables of kinds of event sites and aggregates are complete."""

from __future__ import annotations

from sonde.functions import aggregates
from sonde.kinds import SITE_KINDS
from sonde.spec import EventSite
from sonde.types import AGGREGATES, Aggregate


def test_every_aggregating_function_has_a_row() -> None:
    assert {row.name for row in aggregates.ROWS if row.aggregate} == AGGREGATES.keys()


def test_an_aggregate_has_the_words_of_its_row() -> None:
    for name, row in AGGREGATES.items():
        aggregate = Aggregate(name, high=10)
        assert aggregate.row is row and aggregate.words == (row.words or aggregate.words) > 0


def test_every_kind_of_site_is_described() -> None:
    table = (EventSite.__doc__ or "").partition("kind       ring     data")[2]
    assert SITE_KINDS.keys() <= set(table.split())


def test_what_a_site_does_to_its_map() -> None:
    def site(kind: str, **data: str) -> EventSite:
        return EventSite(kind, None, [], 24, data=data)  # type: ignore[arg-type]

    assert [site("clear", map="@").then, site("zero", map="@").then] == ["clear", "zero"]
    assert [site("print_map", map="@", then="clear").then, site("print_map", map="@").then] == ["clear", ""]
    assert site("printf").then == "" and site("printf").shows and not site("printf", severity="ERROR").shows
