"""`Table.upsert(missing_columns="default")`: sources with some of the table's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError, SchemaMismatchError

COLUMNS = "id bigint not null, name string, n int, day date GENERATED ALWAYS AS (CAST(at AS DATE)), at timestamp"
DEFAULTS = "id bigint not null, name string DEFAULT 'new', n int DEFAULT 7, note string"


def made(path: Path, columns: str, **properties: str) -> txlog.Table:
    named = {f"delta.{key}": value for key, value in properties.items()}
    return txlog.Table.create(str(path), columns, properties=named)


def rows_of(table: txlog.Table, *columns: str) -> list[tuple[Any, ...]]:
    found = table.to_arrow(columns=list(columns)).to_pydict()
    return sorted(zip(*found.values(), strict=True))


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_matched_rows_keep_columns_and_inserted_rows_get_nulls(tmp_path: Path, vectors: str) -> None:
    table = made(tmp_path, "id bigint, name string, n int", enableDeletionVectors=vectors, enableChangeDataFeed="true")
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"], "n": [10, 20]}))
    result = table.upsert(pa.table({"n": [11, 30], "ID": [1, 3]}), ["id"], missing_columns="default")
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (1, 1)
    assert rows_of(table, "id", "name", "n") == [(1, "a", 11), (2, "b", 20), (3, None, 30)]
    changes = table.changes(result.version).read_all().select(["_change_type", "id", "name", "n"]).to_pydict()
    assert sorted(zip(*changes.values(), strict=True), key=str) == [
        ("insert", 3, None, 30), ("update_postimage", 1, "a", 11), ("update_preimage", 1, "a", 10),
    ]  # fmt: skip


def test_inserted_rows_get_defaults_and_generated_values(tmp_path: Path) -> None:
    table = made(tmp_path / "d", DEFAULTS)
    table.append(pa.table({"id": [1], "name": ["a"], "n": [1], "note": ["x"]}))
    table.upsert(pa.table({"id": [1, 2], "note": ["y", "z"]}), ["id"], missing_columns="default")
    assert rows_of(table, "id", "name", "n", "note") == [(1, "a", 1, "y"), (2, "new", 7, "z")]
    generated = made(tmp_path / "g", COLUMNS)
    generated.upsert(pa.table({"id": [1], "name": ["a"]}), ["id"], missing_columns="default")
    assert generated.to_arrow().select(["day", "at"]).to_pylist() == [{"day": None, "at": None}]


def test_a_source_of_keys_only_inserts_and_leaves_matched_rows(tmp_path: Path) -> None:
    table = made(tmp_path, "id bigint, name string")
    table.append(pa.table({"id": [1], "name": ["a"]}))
    files = table.files()["path"].to_pylist()
    result = table.upsert(pa.table({"id": [1, 2]}), ["id"], missing_columns="default")
    assert rows_of(table, "id", "name") == [(1, "a"), (2, None)]
    assert (result.metrics.rows_updated, set(files) <= set(table.files()["path"].to_pylist())) == (0, True)


def test_a_source_with_every_column_is_an_ordinary_upsert(tmp_path: Path) -> None:
    table = made(tmp_path, "id bigint, name string")
    table.append(pa.table({"id": [1, 1], "name": ["a", "b"]}))
    table.upsert(pa.table({"id": [1], "name": ["c"]}), ["id"], missing_columns="default")
    assert rows_of(table, "id", "name") == [(1, "c")]


def test_what_the_schema_does_not_allow_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, "id bigint, name string not null, at struct<zip: string, city: string>")
    with pytest.raises(SchemaMismatchError, match=r"missing_columns='default'|missing_columns=\"default\""):
        table.upsert(pa.table({"id": [1], "name": ["x"]}), ["id"])
    with pytest.raises(SchemaMismatchError, match="name"):
        table.upsert(pa.table({"id": [1]}), ["id"], missing_columns="default")
    with pytest.raises(SchemaMismatchError, match="lacks id"):
        table.upsert(pa.table({"name": ["x"]}), ["id"], missing_columns="default")
    rows = pa.table({"id": [1], "name": ["x"], "at": [{"zip": "1"}]})
    with pytest.raises(SchemaMismatchError, match=r"lacks at\.city"):
        table.upsert(rows, ["id"], missing_columns="default")
    with pytest.raises(InvalidInputError, match="update_columns names 'name', which the source lacks"):
        table.upsert(pa.table({"id": [1]}), ["id"], missing_columns="default", update_columns=["name"])
    with pytest.raises(InvalidInputError, match="missing_columns"):
        table.upsert(pa.table({"id": [1]}), ["id"], missing_columns="null")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="missing_columns is for upserts without a merge engine"):
        table.upsert(rows, ["id"], missing_columns="default", merge_engine="partial-update")
    assert table.version == 0


def test_a_transaction_and_another_reader_see_the_same_rows(tmp_path: Path) -> None:
    table = made(tmp_path, "id bigint, name string, n int")
    with table.transaction() as txn:
        txn.append(pa.table({"id": [1], "name": ["a"], "n": [1]}))
    with table.transaction() as txn:
        txn.upsert(pa.table({"id": [1, 2], "n": [5, 6]}), ["id"], missing_columns="default")
    found = deltalake.DeltaTable(table.uri).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [{"id": 1, "name": "a", "n": 5}, {"id": 2, "name": None, "n": 6}]
