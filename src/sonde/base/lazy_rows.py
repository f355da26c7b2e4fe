"""Tables whose rows are spread over modules, each imported when one of its rows is needed: start-up is counted in
milliseconds."""

from __future__ import annotations

from .fast_stdlib import Generic, Mapping, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

Row = TypeVar("Row", covariant=True)


class FamilyTable(Mapping[str, Row], Generic[Row]):
    """Rows by their names. ``families``: the names that are in each module of ``package``, whose ROWS they are."""

    def __init__(self, package: str, families: Mapping[str, str]) -> None:
        self._package = package
        self._family = {name: family for family, names in families.items() for name in names.split()}
        self._rows: dict[str, Row] = {}

    def __getitem__(self, name: str) -> Row:
        if name not in self._rows:
            module = __import__(f"{self._package}.{self._family[name]}", fromlist=["ROWS"])
            self._rows |= {row.name: row for row in module.ROWS}
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._family

    def __iter__(self) -> Iterator[str]:
        return iter(self._family)

    def __len__(self) -> int:
        return len(self._family)
