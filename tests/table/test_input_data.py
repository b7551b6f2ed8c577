"""The rows that a write takes: from each library, in any batches, and what is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from small_table import SCHEMA, data_files, ids_of, rows_of

import txlog
from txlog.core.changes.tasks.operations import _upsert_source as upsert_source
from txlog.table import Table


def _stream() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, rows_of(1, 2).to_batches())


DATA: dict[str, Callable[[], Any]] = {
    "pyarrow table": lambda: rows_of(1, 2),
    "record batch": lambda: rows_of(1, 2).to_batches()[0],
    "record batch reader": _stream,
    "generator of batches": lambda: (batch for batch in rows_of(1, 2).to_batches()),
    "list of tables": lambda: [rows_of(1), rows_of(2)],
    "polars": lambda: pl.DataFrame({"id": [1, 2], "day": ["mon", "tue"]}),
    "pandas": lambda: pd.DataFrame({"id": [1, 2], "day": ["mon", "tue"]}),
    "pandas, backed by Arrow": lambda: rows_of(1, 2).to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda: duckdb.sql("select * from (values (1::bigint, 'mon'), (2::bigint, 'tue')) as t(id, day)"),
    "columns in another order and case": lambda: pa.table({"DAY": ["mon", "tue"], "Id": [1, 2]}),
    "dictionary and int32": lambda: pa.table(
        {"id": pa.array([1, 2], pa.int32()), "day": pa.array(["mon", "tue"]).dictionary_encode()}
    ),
}


@pytest.mark.parametrize("kind", DATA)
def test_data_of_each_library_is_taken(kind: str, table: Table) -> None:
    assert table.append(DATA[kind]()).metrics.rows == 2
    assert sorted(table.snapshot().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "day": "mon"},
        {"id": 2, "day": "tue"},
    ]


@pytest.mark.parametrize("kind", ["pyarrow table", "polars", "pandas", "duckdb"])
def test_a_snapshot_goes_into_another_table_as_it_is(kind: str, table: Table, tmp_path: Path) -> None:
    table.append(DATA[kind]())
    txlog.write(tmp_path / "copy", table.snapshot())
    assert ids_of(Table.open(tmp_path / "copy")) == [1, 2]


def test_rows_that_do_not_fit_are_refused_column_by_column(table: Table, tmp_path: Path) -> None:
    with pytest.raises(txlog.SchemaMismatchError) as caught:
        table.append(pa.table({"id": ["1"], "dya": ["mon"]}))
    message = str(caught.value)
    assert "id " in message
    assert "table bigint, data string" in message
    assert "dya" in message
    assert str(tmp_path / "t") in message
    assert data_files(tmp_path / "t") == []


def test_a_source_that_fails_half_way_leaves_no_version_and_no_file(table: Table, tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows_of(1).to_batches()[0]
        raise ConnectionResetError("the source went away")

    with pytest.raises(ConnectionResetError):
        table.append(broken())
    assert table.snapshot().version == 0
    assert data_files(tmp_path / "t") == []


def test_progress_counts_rows(table: Table) -> None:
    reported: list[tuple[str, int, int | None]] = []
    table.append([rows_of(1, 2), rows_of(3)], on_progress=lambda *step: reported.append(step))
    assert reported == [("taking rows", 2, None), ("taking rows", 3, None)]


def test_a_small_target_file_size_makes_more_files(table: Table) -> None:
    batch = pa.record_batch({"id": range(100_000), "day": [str(i) * 5 for i in range(100_000)]}, schema=SCHEMA)
    assert table.append([batch] * 4).metrics.files == 1
    assert table.append([batch] * 4, target_file_size=1_000_000).metrics.files > 1
    assert table.snapshot().to_arrow().num_rows == 800_000


def test_minus_zero_is_a_separate_partition_and_keeps_its_sign_in_every_reader(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, p double, q float", partition_by=["p", "q"])
    schema = table.snapshot().schema
    table.append(pa.table({"id": [1, 2, 3], "p": [-0.0, 0.0, 0.0], "q": [0.0, -0.0, 0.0]}, schema=schema))
    expected = [(1, "-0.0", "0.0"), (2, "0.0", "-0.0"), (3, "0.0", "0.0")]
    for found in (table.to_arrow(), pa.table(deltalake.DeltaTable(table.uri).to_pyarrow_table())):
        assert sorted((row["id"], str(row["p"]), str(row["q"])) for row in found.to_pylist()) == expected
    table.optimize()
    assert sorted((row["id"], str(row["p"]), str(row["q"])) for row in table.to_arrow().to_pylist()) == expected
    assert sorted(table.to_arrow(where="p = 0.0 and q = -0.0")["id"].to_pylist()) == [1, 2, 3]
    table.overwrite_partitions(pa.table({"id": [9], "p": [0.0], "q": [0.0]}, schema=schema))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 9]


LATIN_1 = pa.array(["été".encode("latin-1"), b"ok"]).view(pa.string())


@pytest.mark.parametrize("partition_by", [[], ["day"]])
@pytest.mark.parametrize(
    "write",
    [
        lambda table, rows: table.append(rows),
        lambda table, rows: table.append([rows_of(8), rows]),
        lambda table, rows: table.overwrite(rows),
        lambda table, rows: table.upsert(rows, ["id"]),
        lambda table, rows: table.upsert(rows, ["day"]),
        lambda table, rows: table.merge(rows, on=["day"]).when_not_matched_insert_all().execute(),
    ],
    ids=["append", "later-batch", "overwrite", "upsert", "upsert-by-it", "merge"],
)
def test_text_that_is_not_utf8_is_refused_by_column_and_row(
    tmp_path: Path, write: Callable[[Table, pa.Table], Any], partition_by: list[str]
) -> None:
    """No reader could read it, and Polars would take the process down."""
    table = Table.create(tmp_path / "t", SCHEMA, partition_by=partition_by)
    table.append(rows_of(9))
    with pytest.raises(txlog.InvalidInputError, match=r"column day has text that is not UTF-8 \(row [01], .* binary"):
        write(table, pa.table({"id": [1, 2], "day": LATIN_1}))
    assert ids_of(Table.open(tmp_path / "t")) == [9]


def test_bytes_that_are_not_utf8_are_stored_in_a_binary_column(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "day binary")
    table.append(pa.table({"day": LATIN_1.view(pa.binary())}))
    assert table.to_arrow().column("day").to_pylist() == ["été".encode("latin-1"), b"ok"]


def _failing() -> Iterator[pa.RecordBatch]:
    yield rows_of(1).to_batches()[0]
    raise ConnectionError("the service closed the connection")


WRITES: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: table.append(_failing()),
    "overwrite": lambda table: table.overwrite(_failing()),
    "upsert": lambda table: table.upsert(_failing(), keys=["id"]),
    "merge": lambda table: table.merge(_failing(), "target.id = source.id").when_matched_update_all().execute(),
}


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20], ids=["in a file", "in memory"])
@pytest.mark.parametrize("write", WRITES)
def test_the_error_of_a_source_is_raised_as_it_is(
    write: str, memory_bytes: int, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert_source, "MEMORY_MAX_BYTES", memory_bytes)
    with pytest.raises(ConnectionError, match="the service closed the connection"):
        WRITES[write](table)
    assert table.version == 0
    assert not data_files(Path(table.uri))


def test_a_source_that_finds_no_room_in_the_temporary_folder_says_so(
    table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(upsert_source, "MEMORY_MAX_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(txlog.StorageError, match=r"could not be written to a temporary file.*TMPDIR"):
        table.upsert(rows_of(1), keys=["id"])


MISSING = pd.DataFrame({"id": [3, 4], "day": [float("nan")] * 2})


def _merged(table: Table) -> Any:
    merge = table.merge(MISSING, "target.id = source.id").when_matched_update_all()
    return merge.when_not_matched_insert_all().execute()


def _in_a_transaction(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.append(MISSING)


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.append(MISSING),
        lambda table: table.append(MISSING, schema_mode="merge"),
        lambda table: table.append([rows_of(1), MISSING]),
        lambda table: table.append([MISSING, rows_of(1)]),
        lambda table: table.upsert(MISSING, keys=["id"]),
        lambda table: table.upsert(MISSING, keys=["id"], schema_mode="merge"),
        _merged,
        _in_a_transaction,
        lambda table: table.overwrite(MISSING, where="id > 2"),
    ],
)
def test_a_column_without_a_value_is_taken_whatever_its_type_is(write: Callable[[Table], Any], table: Table) -> None:
    write(table)
    found = deltalake.DeltaTable(table.uri).to_pyarrow_table()
    there = [row for row in found.to_pylist() if row["id"] > 2]
    assert sorted(there, key=lambda row: row["id"]) == [{"id": 3, "day": None}, {"id": 4, "day": None}]
    assert found.schema.names == ["id", "day"]


def test_a_column_of_another_type_with_a_value_is_refused(table: Table) -> None:
    one_value = MISSING.assign(day=[1.5, float("nan")])
    with pytest.raises(txlog.SchemaMismatchError, match="day"):
        table.append(one_value)
    with pytest.raises(txlog.SchemaMismatchError, match="day"):
        table.append([MISSING, one_value])
    assert table.count() == 0


def test_a_member_without_a_value_is_taken_whatever_its_type_is(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, s struct<x: string, y: bigint>")
    member = pa.array([None, {"x": None, "y": 2}], pa.struct({"x": pa.float64(), "y": pa.int64()}))
    table.append(pa.table({"id": [1, 2], "s": member}))
    found = deltalake.DeltaTable(table.uri).to_pyarrow_table().sort_by("id").column("s").to_pylist()
    assert found == [None, {"x": None, "y": 2}]


def test_booleans_of_a_byte_are_booleans(tmp_path: Path) -> None:
    def bytes_of(values: list[int | None]) -> pa.Array:
        return pa.ExtensionArray.from_storage(pa.bool8(), pa.array(values, pa.int8()))

    lists = pa.ListArray.from_arrays([0, 2, 2], bytes_of([1, 0]))
    members = pa.StructArray.from_arrays([bytes_of([None, 7])], names=["b"])
    rows = pa.table({"b": bytes_of([0, -1]), "l": lists, "s": members})
    txlog.write(tmp_path / "new", rows)
    Table.create(tmp_path / "there", "b boolean, l array<boolean>, s struct<b: boolean>").append(rows)
    for name in ("new", "there"):
        found = deltalake.DeltaTable(tmp_path / name)
        assert str(found.schema().fields[0].type) == 'PrimitiveType("boolean")'
        assert found.to_pyarrow_table().to_pylist() == [
            {"b": False, "l": [True, False], "s": {"b": None}},
            {"b": True, "l": [], "s": {"b": True}},
        ]
