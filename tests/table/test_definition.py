"""What changes a table's definition: new columns, properties."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_table import ids_of, log_of, rows_of
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app
from txlog.errors import InvalidInputError
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
        table.set_properties({"delta.feature.redirectWriterOnly-preview": "supported"})
    assert "redirectWriterOnly-preview" in caught.value.features
    assert table.snapshot().version == 0


MISSPELLED = {"txlog.merge-engin": "deduplicate"}
IN_SQL = "'txlog.merge-engin' = 'deduplicate'"


def by_commands(*arguments: object) -> object:
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    failed = json.loads(done.stdout).get("error")
    if failed is not None:
        raise InvalidInputError(failed["message"])
    return done


def in_transaction(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties(MISSPELLED)


DOORS: dict[str, Callable[[Table, Path], object]] = {
    "create": lambda table, new: Table.create(new, "id bigint", properties=MISSPELLED),
    "write": lambda table, new: txlog.write(new, rows_of(1), properties=MISSPELLED),
    "set_properties": lambda table, new: table.set_properties(MISSPELLED),
    "a transaction": lambda table, new: in_transaction(table),
    "clone": lambda table, new: table.clone(new, properties=MISSPELLED),
    "convert": lambda table, new: Table.convert(new.parent / "files", properties=MISSPELLED),
    "CREATE TABLE": lambda table, new: txlog.sql(f"create table delta.`{new}` (id bigint) tblproperties ({IN_SQL})"),
    "CREATE TABLE AS": lambda table, new: txlog.sql(
        f"create table delta.`{new}` tblproperties ({IN_SQL}) as select 1 a"
    ),
    "ALTER TABLE": lambda table, new: txlog.sql(f"alter table delta.`{table.uri}` set tblproperties ({IN_SQL})"),
    "CLONE": lambda table, new: txlog.sql(
        f"create table delta.`{new}` deep clone delta.`{table.uri}` tblproperties ({IN_SQL})"
    ),
    "txlog create": lambda table, new: by_commands(
        "create", new, "--columns", "id int", "--property", "txlog.merge-engin=deduplicate"
    ),
    "txlog set": lambda table, new: by_commands("set", table.uri, "txlog.merge-engin=deduplicate"),
    "txlog clone": lambda table, new: by_commands(
        "clone", table.uri, new, "--property", "txlog.merge-engin=deduplicate"
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_property_of_txlog_that_does_not_exist_is_refused_with_the_nearest_name_at_every_door(
    table: Table, tmp_path: Path, door: str
) -> None:
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "files" / "a.parquet")
    version = table.version
    with pytest.raises(
        InvalidInputError, match=r"'txlog\.merge-engin': did you mean 'txlog\.merge-engine'\? Keys of your"
    ):
        DOORS[door](table, tmp_path / "new")
    assert table.version == version
    assert not Table.exists(tmp_path / "new")
    assert not Table.exists(tmp_path / "files")


def test_a_table_that_another_writer_gave_an_unknown_property_of_txlog_is_read_and_changed(tmp_path: Path) -> None:
    deltalake.DeltaTable.create(tmp_path / "t", deltalake.Schema.from_arrow(pa.schema([("id", pa.int64())])))
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"configuration":{', '"configuration":{"txlog.of-tomorrow":"1"', 1))
    assert "txlog.of-tomorrow" in deltalake.DeltaTable(tmp_path / "t").metadata().configuration
    table = Table.open(tmp_path / "t")
    table.append(pa.table({"id": [1]}))
    table.set_properties({"team": "x"})
    assert table.properties == {"txlog.of-tomorrow": "1", "team": "x"}
    assert ids_of(table) == [1]
    table.unset_properties(["txlog.of-tomorrow"])
    assert table.properties == {"team": "x"}
