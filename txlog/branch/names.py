"""``/data/orders@backfill``: a branch by its name, wherever a table's location is taken.

In: a location. Out: the places of the table's branches, as a catalog. A table that itself has an ``@`` in its name is
found first, and a location that is no table's is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

import txlog
from txlog.branch.known import branch_named, branches
from txlog.branch.places import place_of, split_branch
from txlog.errors import UnsupportedFeatureError
from txlog.extend import CatalogScheme, TableCatalog, TablePlace, open_table_of

Made = TypeVar("Made")


class Branches:
    """The branches of a table, by name. Thread-safe."""

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
    ) -> None:
        self.uri = uri
        self._storage_options = storage_options
        self._credential_provider = credential_provider

    def resolve(self, name: str) -> TablePlace:
        table = txlog.Table.open(
            self.uri, storage_options=self._storage_options, credential_provider=self._credential_provider
        )
        open_table = open_table_of(table)
        branch_named(open_table, name)
        uri = place_of(open_table.uri, name)
        return TablePlace(uri, name, self._storage_options, self._credential_provider)

    def tables(self, schema: str | None = None) -> list[str]:
        table = txlog.Table.open(
            self.uri, storage_options=self._storage_options, credential_provider=self._credential_provider
        )
        return [each.name for each in branches(open_table_of(table))]

    def create(self, name: str, make: Callable[[TablePlace], Made]) -> Made:
        self._refuse("a branch begins with the rows of its table", name)

    def register(self, name: str, uri: str) -> None:
        self._refuse("a branch lies in the folder of its table", name)

    def require_registrable(self, name: str) -> None:
        self._refuse("a branch lies in the folder of its table", name)

    def drop(self, name: str) -> None:
        self._refuse("a branch is discarded: table.discard() of the branch does that", name)

    def rename(self, name: str, to: str) -> None:
        self._refuse("a branch keeps its name", name)

    def _refuse(self, why: str, name: str) -> NoReturn:
        raise UnsupportedFeatureError(
            f"{why}, so this cannot be done for {self.uri}@{name}. Table.open({self.uri!r}).branch({name!r}) makes a"
            " branch",
            table=self.uri,
        )


def _find(
    uri: str, storage_options: Mapping[str, str] | None, credential_provider: Callable[[], object] | None
) -> tuple[TableCatalog, str] | None:
    found = split_branch(uri)
    if found is None:
        return None
    for place in (uri, found[0]):
        there = TablePlace(place, "", storage_options, credential_provider)
        if txlog.Table.exists(there, storage_options=storage_options, credential_provider=credential_provider):
            return None if place == uri else (Branches(found[0], storage_options, credential_provider), found[1])
    return None


SCHEME = CatalogScheme(finds=_find)
