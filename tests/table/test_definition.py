"""What changes a table's definition: new columns, properties."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from small_table import ids_of, log_of, rows_of

import txlog
from txlog.table import Table


def test_merge_adds_columns_and_members_of_structs_in_the_same_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, pa.table({"id": [1], "s": [{"a": 1, "in": {"x": 1}}], "l": [[{"p": 1}]]}))
    wider = pa.table({"ID": [2], "s": [{"b": "y", "in": {"y": 2.5}}], "l": [[{"q": "z"}]], "new": [True]})
    with pytest.raises(txlog.SchemaMismatchError, match="new"):
        txlog.write(path, wider)
    result = txlog.write(path, wider, schema_mode="merge")
    assert result.version == 1
    table = Table.open(path)
    assert table.snapshot().schema.names == ["id", "s", "l", "new"]
    assert sorted(table.snapshot().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "s": {"a": 1, "in": {"x": 1, "y": None}, "b": None}, "l": [{"p": 1, "q": None}], "new": None},
        {"id": 2, "s": {"a": None, "in": {"x": None, "y": 2.5}, "b": "y"}, "l": [{"p": None, "q": "z"}], "new": True},
    ]
    assert table.snapshot(version=0).schema.names == ["id", "s", "l"]


def test_merge_changes_no_type(table: Table) -> None:
    with pytest.raises(txlog.SchemaMismatchError, match="id"):
        table.append(pa.table({"id": ["x"], "more": [1]}), schema_mode="merge")
    assert table.snapshot().schema.names == ["id", "day"]


def test_merge_without_anything_new_is_a_plain_append(table: Table, tmp_path: Path) -> None:
    table.append(rows_of(1), schema_mode="merge")
    assert not any("metaData" in line for line in log_of(tmp_path / "t")[1])


def test_a_merge_that_needs_a_feature_raises_the_protocol_with_it(table: Table) -> None:
    rows = pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us"))})
    table.append(rows, schema_mode="merge")
    assert "timestampNtz" in (table.snapshot().protocol.reader_features or ())
    assert ids_of(table) == [1]


def test_columns_added_read_as_null_in_rows_of_before(table: Table) -> None:
    table.append(rows_of(1))
    result = table.add_columns(pa.schema([("price", pa.decimal128(10, 2)), ("id", pa.int64())]))
    assert result.version == 2
    assert table.snapshot().to_arrow().to_pylist() == [{"id": 1, "day": "mon", "price": None}]
    assert table.add_columns(pa.schema([("PRICE", pa.decimal128(10, 2))])).version == 2, "nothing to do, no version"
    with pytest.raises(txlog.SchemaMismatchError, match="price"):
        table.add_columns(pa.schema([("price", pa.string())]))


def test_a_column_that_may_not_be_null_is_not_added_as_one_that_may(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint not null, place struct<zip: string>")
    with pytest.raises(txlog.InvalidInputError, match=r"cannot add n as NOT NULL.*without NOT NULL"):
        table.add_columns("n int not null")
    place = pa.field("place", pa.struct([pa.field("street", pa.string(), nullable=False)]))
    with pytest.raises(txlog.InvalidInputError, match=r"cannot add place\.street, m as NOT NULL"):
        table.add_columns(pa.schema([place, pa.field("m", pa.int64(), nullable=False)]))
    assert table.version == 0
    table.add_columns("id bigint not null, n int")
    assert table.schema.names == ["id", "place", "n"], "a column that is there already may be named as it is"


def test_properties_are_set_and_unset_as_versions_that_spark_would_understand(table: Table, tmp_path: Path) -> None:
    table.set_properties({"delta.logRetentionDuration": "interval 60 days", "team": "x"})
    assert table.snapshot().properties == {"delta.logRetentionDuration": "interval 60 days", "team": "x"}
    table.unset_properties(["team"])
    assert table.snapshot().properties == {"delta.logRetentionDuration": "interval 60 days"}
    assert [entry["operation"] for entry in table.history()] == [
        "UNSET TBLPROPERTIES",
        "SET TBLPROPERTIES",
        "CREATE TABLE",
    ]
    assert deltalake.DeltaTable(str(tmp_path / "t")).metadata().configuration == {
        "delta.logRetentionDuration": "interval 60 days"
    }
    assert table.set_properties({"delta.logRetentionDuration": "interval 60 days"}).version == 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda table: table.set_properties({"delta.appendOnli": "true"}), r"delta\.appendOnly"),
        (lambda table: table.set_properties({"delta.logRetentionDuration": "soon"}), "soon"),
        (lambda table: table.unset_properties(["nothing"]), "nothing"),
        (lambda table: table.unset_properties("team"), "'team' is not set"),
    ],
)
def test_invalid_table_properties_are_refused_and_named(
    change: Callable[[Table], Any], named: str, table: Table, tmp_path: Path
) -> None:
    with pytest.raises(txlog.InvalidInputError, match=named) as caught:
        change(table)
    assert table.snapshot().version == 0
    if caught.value.table is not None:
        assert str(caught.value).startswith(f"{tmp_path / 't'} v0: ")


def test_a_property_that_needs_what_this_release_lacks_is_refused(table: Table) -> None:
    with pytest.raises(txlog.UnsupportedFeatureError) as caught:
        table.set_properties({"delta.enableIcebergCompatV2": "true"})
    assert "icebergCompatV2" in caught.value.features
    assert table.snapshot().version == 0
