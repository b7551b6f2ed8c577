"""A store that another package offers for its URL scheme: its places make the stores of their tables themselves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from tests.packages import install
from txlog.errors import TableNotFoundError

ROWS = pa.table({"id": [1, 2], "value": ["a", "b"]})
SHELF = """
from txlog.errors import TableNotFoundError
from txlog.extend import CatalogScheme, TablePlace
from txlog.testing.memory_store import memory_table_store

STORES = {}

class ShelfPlace(TablePlace, frozen=True):
    def store(self):
        return STORES.setdefault(self.uri, memory_table_store(self.uri))

class Shelf:
    uri = "shelf://"

    def resolve(self, name):
        if self.uri + name not in STORES:
            raise TableNotFoundError(f"there is no {name} on the shelf", table=self.uri)
        return ShelfPlace(self.uri + name, name)

    def create(self, name, make):
        return make(ShelfPlace(self.uri + name, name))

def find(uri, storage_options, credential_provider):
    return Shelf(), uri.partition("://")[2]

SCHEME = CatalogScheme(finds=find)
"""


def test_tables_of_its_scheme_are_written_changed_and_tended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"txlog.catalogs": {"shelf": "txlog_shelf:SCHEME"}}
    install(monkeypatch, tmp_path / "site", "txlog-shelf", entries, {"txlog_shelf": SHELF})
    with pytest.raises(TableNotFoundError, match="no orders on the shelf"):
        txlog.Table.open("shelf://orders")
    txlog.write("shelf://orders", ROWS)
    table = txlog.Table.open("shelf://orders")
    table.append(pa.table({"id": [3], "value": ["c"]}))
    table.upsert(pa.table({"id": [3, 4], "value": ["d", "e"]}), keys="id")
    table.delete("id = 1")
    assert table.optimize().files_removed > 1
    assert table.vacuum().paths == ()
    assert not table.verify().findings
    assert txlog.Table.open("shelf://orders").to_arrow().sort_by("id").to_pydict() == {
        "id": [2, 3, 4],
        "value": ["b", "d", "e"],
    }
