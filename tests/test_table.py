"""The front door: creating, opening and writing tables, and what each call refuses."""

from __future__ import annotations

import inspect
import json
import pickle
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.commit.open_table import OpenTable
from txlog.protocol.log_names import commit_name
from txlog.store.open import open_store
from txlog.table import Table
from txlog.util.api_hints import ELSEWHERE

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "day": ["mon" if i % 2 else "tue" for i in ids]}, schema=SCHEMA)


def ids_of(table: Table, **travel: Any) -> list[int]:
    return sorted(table.snapshot(**travel).to_arrow().column("id").to_pylist())


def log_of(folder: Path) -> list[list[dict[str, Any]]]:
    commits = sorted((folder / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in commit.read_text().splitlines()] for commit in commits]


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)


@pytest.fixture
def table(make_table: Callable[..., Table]) -> Table:
    return make_table(schema=SCHEMA)


@pytest.fixture
def table_in_memory(open_handle: Callable[..., OpenTable]) -> Callable[[], Table]:
    """Handles on one table in memory, which the first of them creates."""
    open_table = open_handle()
    txlog.table.write_batch(open_table, rows_of(1), txlog.table.WriteOptions(create=True))
    return lambda: Table(open_handle())


# --- creating and opening ---------------------------------------------------------------------------------------------


def test_a_created_table_is_version_0_and_empty(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "t", SCHEMA, partition_by=["DAY"], properties={"delta.appendOnly": "false", "team": "x"}
    )
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.num_files, snapshot.to_arrow().num_rows) == (0, 0, 0)
    assert snapshot.schema.names == ["id", "day"]
    assert snapshot.partition_columns == ("day",), "the schema's spelling, not the caller's"
    assert snapshot.properties == {"delta.appendOnly": "false", "team": "x"}
    theirs = deltalake.DeltaTable(str(tmp_path / "t"))
    assert (theirs.version(), theirs.metadata().partition_columns) == (0, ["day"])


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {"id": pa.int64(), "day": pa.string()},
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
        '{"name":"day","type":"string","nullable":true,"metadata":{}}]}',
        {
            "type": "struct",
            "fields": [
                {"name": "id", "type": "long", "nullable": True, "metadata": {}},
                {"name": "day", "type": "string", "nullable": True, "metadata": {}},
            ],
        },
    ],
    ids=["pyarrow", "Arrow types by name", "Delta text", "Delta dict"],
)
def test_a_schema_may_be_given_in_each_of_its_forms(schema: Any, tmp_path: Path) -> None:
    assert Table.create(tmp_path / "t", schema).snapshot().schema == SCHEMA


def test_a_table_that_exists_is_an_error_or_with_exist_ok_is_opened(tmp_path: Path) -> None:
    Table.create(tmp_path / "t", SCHEMA).append(rows_of(1))
    with pytest.raises(txlog.TableExistsError, match=r"Table\.open"):
        Table.create(tmp_path / "t", SCHEMA)
    assert ids_of(Table.create(tmp_path / "t", SCHEMA, exist_ok=True)) == [1]


HERE = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("day", pa.string()), ("s", pa.struct([("a", pa.int32())]))]
)
HERE_PROPERTIES = {"delta.appendOnly": "false", "team": "x"}


@pytest.mark.parametrize(
    ("schema", "partition_by", "properties"),
    [
        (HERE, ["day"], HERE_PROPERTIES),
        (HERE, ["DAY"], {}),
        (pa.schema([pa.field("ID", pa.int64(), nullable=False), ("day", pa.string())]), ["day"], {"team": "x"}),
    ],
    ids=["the same", "the same whatever the case", "columns were added since"],
)
def test_exist_ok_opens_a_table_whose_definition_fits(
    schema: pa.Schema, partition_by: list[str], properties: dict[str, str], tmp_path: Path
) -> None:
    Table.create(tmp_path / "t", HERE, ["day"], HERE_PROPERTIES)
    again = Table.create(tmp_path / "t", schema, partition_by, properties, exist_ok=True)
    assert again.snapshot().version == 0


@pytest.mark.parametrize(
    ("schema", "partition_by", "properties", "reported"),
    [
        (HERE.append(pa.field("new", pa.date32())), ["day"], {}, ["new  asked for as date, not in the table"]),
        (HERE.set(0, pa.field("id", pa.int32(), False)), ["day"], {}, ["id  table bigint NOT NULL, asked for as int"]),
        (HERE.set(0, pa.field("id", pa.int64())), ["day"], {}, ["id  table bigint NOT NULL, asked for as bigint"]),
        (HERE.remove(0), ["day"], {}, ["id  table bigint NOT NULL, not asked for"]),
        (
            HERE.set(2, pa.field("s", pa.struct([("a", pa.int8())]))),
            ["day"],
            {},
            ["s.a  table int, asked for as tinyint"],
        ),
        (HERE, [], {}, ["it is partitioned by day, and you asked for one that is not partitioned"]),
        (HERE, ["day"], {"team": "y", "a": "b"}, ["team is 'x', not 'y'", "a is not set, not 'b'"]),
        (
            HERE.set(1, pa.field("day", pa.date32())),
            ["id"],
            {},
            ["day  table string, asked for as date", "one that is partitioned by id"],
        ),
    ],
    ids=[
        "a column more",
        "a type",
        "null allowed",
        "a required column less",
        "a member",
        "partitions",
        "values",
        "all",
    ],
)
def test_exist_ok_refuses_a_table_that_differs_and_says_how(
    schema: pa.Schema, partition_by: list[str], properties: dict[str, str], reported: list[str], tmp_path: Path
) -> None:
    Table.create(tmp_path / "t", HERE, ["day"], HERE_PROPERTIES)
    with pytest.raises(txlog.SchemaMismatchError) as caught:
        Table.create(tmp_path / "t", schema, partition_by, properties, exist_ok=True)
    for text in reported:
        assert text in caught.value.message
    assert caught.value.table == str(tmp_path / "t")
    assert Table.open(tmp_path / "t").snapshot().version == 0


@pytest.mark.parametrize(
    "schema",
    [
        {"id": pa.int64(), "day": "string"},
        [("id", pa.int64())],
        b"id bigint",
        pa.int64(),
        pa.table({"id": [1]}),
        None,
        5,
        b"",
        {},
        pa.null(),
    ],
    ids=str,
)
def test_the_error_for_an_invalid_schema_lists_the_accepted_forms(schema: Any, tmp_path: Path) -> None:
    for use in (
        lambda: Table.create(tmp_path / "t", schema),
        lambda: Table.create(tmp_path / "u", SCHEMA).add_columns(schema),
    ):
        with pytest.raises(
            txlog.InvalidInputError, match=r"give a pyarrow\.Schema.*Spark StructType.*Delta schema"
        ) as caught:
            use()
        assert caught.value.table is not None


@pytest.mark.parametrize(
    "promise",
    [
        {"delta.universalFormat.enabledFormats": "iceberg"},
        {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
    ],
)
def test_files_of_another_format_that_no_write_would_keep_up_to_date_are_not_promised(
    promise: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(txlog.UnsupportedFeatureError, match=next(iter(promise))):
        Table.create(tmp_path / "t", SCHEMA, properties=promise)
    table = Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(txlog.UnsupportedFeatureError, match=next(iter(promise))):
        table.set_properties(promise)
    table.set_properties({"delta.compatibility.symlinkFormatManifest.enabled": "false"})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"partition_by": ["week"]}, "week"),
        ({"partition_by": "week"}, "week"),
        ({"partition_by": ["id", "day"]}, "partition"),
        ({"partition_by": ["day", "DAY"]}, "(?i)day"),
        ({"properties": {"delta.apendOnly": "true"}}, r"delta\.appendOnly"),
        ({"properties": {"delta.appendOnly": "yes"}}, "yes"),
        ({"properties": {"delta.checkpointInterval": "abc"}}, "abc"),
        ({"schema": pa.schema([("a", pa.int8()), ("A", pa.int8())])}, "(?i)a"),
        ({"schema": pa.schema([("a b", pa.int8())])}, "a b"),
        ({"schema": pa.schema([("n", pa.null())])}, "n"),
        ({"schema": pa.schema([])}, "column"),
        ({"schema": 5}, "schema"),
    ],
)
def test_an_invalid_table_definition_is_refused_and_nothing_is_written(
    arguments: dict[str, Any], named: str, tmp_path: Path
) -> None:
    arguments = {"schema": SCHEMA, **arguments}
    with pytest.raises(txlog.InvalidInputError, match=named) as caught:
        Table.create(tmp_path / "t", **arguments)
    assert "Traceback" not in str(caught.value)
    assert not Table.exists(tmp_path / "t")
    assert list(tmp_path.rglob("*.json")) == []


def test_opening_a_missing_table_is_refused_and_creates_nothing(tmp_path: Path) -> None:
    assert not Table.exists(tmp_path / "nowhere")
    with pytest.raises(txlog.TableNotFoundError, match="nowhere"):
        Table.open(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
    Table.create(tmp_path / "t", SCHEMA)
    assert Table.exists(tmp_path / "t")
    assert Table.exists((tmp_path / "t").as_uri())


def test_a_missing_table_is_not_found_by_a_lookup_error_too(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        Table.open(tmp_path / "nowhere")


# --- txlog.write ------------------------------------------------------------------------------------------------------


def test_write_creates_the_table_with_its_first_rows_as_one_version(tmp_path: Path) -> None:
    result = txlog.write(tmp_path / "t", rows_of(1, 2), partition_by=["day"], properties={"team": "x"})
    assert (result.version, result.outcome, result.attempts) == (0, "committed", 1)
    assert (result.metrics.rows, result.metrics.files) == (2, 2)
    table = Table.open(tmp_path / "t")
    assert ids_of(table) == [1, 2]
    assert table.snapshot().partition_columns == ("day",)
    assert table.snapshot().properties == {"team": "x"}


def test_write_modes_append_overwrite_ignore_and_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert txlog.write(path, rows_of(1), mode="error").version == 0
    assert txlog.write(path, rows_of(2), mode="append").version == 1
    ignored = txlog.write(path, rows_of(3), mode="ignore")
    assert (ignored.outcome, ignored.version) == ("ignored", 1)
    with pytest.raises(txlog.TableExistsError, match="overwrite"):
        txlog.write(path, rows_of(4), mode="error")
    assert ids_of(Table.open(path)) == [1, 2]
    overwritten = txlog.write(path, rows_of(5), mode="overwrite")
    assert (overwritten.version, overwritten.metrics.files_removed) == (2, 2)
    assert ids_of(Table.open(path)) == [5]
    assert len(data_files(path)) == 3, "an ignored or refused write leaves no file"


@pytest.mark.parametrize("mode", ["ignore", "overwrite", "append", "error"])
def test_each_mode_creates_an_absent_table(mode: str, tmp_path: Path) -> None:
    assert txlog.write(tmp_path / "t", rows_of(1), mode=mode).version == 0
    assert ids_of(Table.open(tmp_path / "t")) == [1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"mode": "apend"}, "apend"),
        ({"schema_mode": "merged"}, "merged"),
        ({"app_id": "a"}, "checkpoint_id"),
        ({"checkpoint_id": 1}, "app_id"),
        ({"app_id": "", "checkpoint_id": 1}, "app_id"),
        ({"app_id": "a", "checkpoint_id": -1}, "checkpoint_id"),
        ({"app_id": "a", "checkpoint_id": True}, "checkpoint_id"),
        ({"app_id": "a", "checkpoint_id": 2**63}, "checkpoint_id"),
        ({"fingerprint": "f"}, "fingerprint"),
        (
            {"partition_by": ["day"]},
            "the table is not partitioned, and partition_by asks for one that is partitioned by day",
        ),
        ({"partition_by": "day"}, "one that is partitioned by day: leave partition_by out"),
        ({"target_file_size": 0}, "target_file_size"),
        ({"storage_options": {"acces_key_id": "x"}}, "acces_key_id"),
    ],
)
def test_a_write_with_invalid_arguments_is_refused_and_leaves_no_file(
    arguments: dict[str, Any], named: str, tmp_path: Path
) -> None:
    txlog.write(tmp_path / "t", rows_of(1))
    with pytest.raises(txlog.InvalidInputError, match=named):
        txlog.write(tmp_path / "t", rows_of(2), **arguments)
    assert ids_of(Table.open(tmp_path / "t")) == [1]
    assert len(data_files(tmp_path / "t")) == 1


def test_partitioning_may_be_repeated_where_it_agrees(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", rows_of(1), partition_by=["day"])
    assert txlog.write(tmp_path / "t", rows_of(2), partition_by=["DAY"]).version == 1
    assert txlog.write(tmp_path / "t", rows_of(3)).version == 2
    with pytest.raises(
        txlog.InvalidInputError, match="partitioned by day, and partition_by asks for one that is not part"
    ):
        txlog.write(tmp_path / "t", rows_of(4), partition_by=[])


# --- data -------------------------------------------------------------------------------------------------------------


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


def test_an_append_of_no_rows_makes_a_version_without_files(table: Table) -> None:
    result = table.append(rows_of())
    assert (result.version, result.metrics.rows, result.metrics.files) == (1, 0, 0)
    assert table.append(iter(())).version == 2
    assert ids_of(table) == []


@pytest.mark.parametrize("data", [rows_of(), [], iter(())], ids=["an empty table", "a list", "an iterator"])
def test_an_append_without_rows_is_a_version_in_the_history(make_table: Callable[..., Table], data: object) -> None:
    table = make_table(rows_of(1, 2, 3), partition_by=["day"])
    result = table.append(data, user_metadata="nothing came")
    assert (result.version, result.outcome, result.metrics.rows, result.metrics.files) == (1, "committed", 0, 0)
    entry = deltalake.DeltaTable(table.uri).history(1)[0]
    assert (entry["version"], entry["operation"], entry["userMetadata"]) == (1, "WRITE", "nothing came")
    deltalake.write_deltalake(table.uri, rows_of(), mode="append")
    assert table.snapshot().version == 2, "deltalake makes one too"
    assert table.snapshot().to_arrow().num_rows == 3


def test_a_source_that_fails_half_way_leaves_no_version_and_no_file(table: Table, tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows_of(1).to_batches()[0]
        raise ConnectionResetError("the source went away")

    with pytest.raises(ConnectionResetError):
        table.append(broken())
    assert table.snapshot().version == 0
    assert data_files(tmp_path / "t") == []


def test_progress_counts_rows(table: Table) -> None:
    reported: list[int] = []
    table.append([rows_of(1, 2), rows_of(3)], on_progress=reported.append)
    assert reported == [2, 3]


def test_a_small_target_file_size_makes_more_files(table: Table) -> None:
    batch = pa.record_batch({"id": range(100_000), "day": [str(i) * 5 for i in range(100_000)]}, schema=SCHEMA)
    assert table.append([batch] * 4).metrics.files == 1
    assert table.append([batch] * 4, target_file_size=1_000_000).metrics.files > 1
    assert table.snapshot().to_arrow().num_rows == 800_000


# --- appends, overwrites, replays -------------------------------------------------------------------------------------


def test_each_append_is_one_version_that_carries_its_metadata(table: Table, tmp_path: Path) -> None:
    first = table.append(rows_of(1), user_metadata="from the test")
    second = table.append(rows_of(2))
    assert (first.version, second.version) == (1, 2)
    assert first.txn_id != second.txn_id
    reported = {entry["version"]: entry for entry in table.history()}
    assert reported[1]["userMetadata"] == "from the test"
    assert reported[1]["txnId"] == first.txn_id
    assert reported[1]["operationMetrics"]["numOutputRows"] == "1"
    assert reported[1]["isBlindAppend"] is True
    assert "userMetadata" not in reported[2]
    assert str(first) == f"WriteResult(version=1, committed, 1 row, 1 file, {first.metrics.bytes} B, 1 attempt)"


def test_an_overwrite_replaces_every_row_and_its_files_are_tombstones(table: Table, tmp_path: Path) -> None:
    table.append(rows_of(1))
    table.append(rows_of(2))
    result = table.overwrite(rows_of(3))
    assert (result.metrics.files_removed, ids_of(table), ids_of(table, version=2)) == (2, [3], [1, 2])
    removes = [line["remove"] for line in log_of(tmp_path / "t")[3] if "remove" in line]
    assert len(removes) == 2
    assert all(remove["dataChange"] and remove["extendedFileMetadata"] for remove in removes)


def test_an_overwrite_with_nothing_empties_the_table(table: Table) -> None:
    table.append(rows_of(1))
    table.overwrite(rows_of())
    assert ids_of(table) == []
    assert table.snapshot().num_files == 0


def test_an_overwrite_of_an_append_only_table_is_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.appendOnly": "true"})
    table.append(rows_of(1))
    with pytest.raises(txlog.InvalidInputError, match=r"appendOnly"):
        table.overwrite(rows_of(2))
    assert ids_of(table) == [1]


def test_a_refusal_by_not_null_or_append_only_names_the_table(make_table: Callable[..., Table]) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    table = make_table(schema=schema, partition_by=["day"])
    with pytest.raises(txlog.InvalidInputError, match="NOT NULL") as empty:
        table.append(pa.table({"id": [1], "day": [""]}))
    table.append(rows_of(1, 2, 3))
    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match=r"append-only") as removed:
        table.overwrite(rows_of(1, 2, 3))
    assert (empty.value.table, removed.value.table, removed.value.version) == (table.uri, table.uri, 2)


def test_a_replay_of_the_last_checkpoint_is_dropped_without_reading_a_row(table: Table, tmp_path: Path) -> None:
    table.append(rows_of(1), app_id="app", checkpoint_id=5)

    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a row of a replay was read")
        yield

    reader = pa.RecordBatchReader.from_batches(SCHEMA, never())
    replay = table.append(reader, app_id="app", checkpoint_id=5)
    assert (replay.outcome, replay.version) == ("already_committed", 1)
    assert ids_of(table) == [1]
    assert len(data_files(tmp_path / "t")) == 1


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"retry": 3}, "RetryPolicy"),
        ({"hooks": "module:hooks"}, "CommitHooks"),
        ({"hooks": txlog.CommitHooks}, "instance of a subclass"),
    ],
)
def test_an_invalid_retry_policy_or_hook_is_refused_before_anything_is_written(
    options: Any, shown: str, tmp_path: Path
) -> None:
    table = txlog.Table.create(tmp_path, pa.schema({"id": pa.int64()}))
    with pytest.raises(txlog.InvalidInputError, match=shown):
        txlog.Table.open(tmp_path, **options)
    with pytest.raises(txlog.InvalidInputError, match=shown):
        txlog.write(tmp_path, pa.table({"id": [1]}), **options)
    assert table.snapshot().version == 0
    with pytest.raises(txlog.InvalidInputError, match="expected a Table"):
        txlog.Sink(str(tmp_path), "app")  # type: ignore[arg-type]


def test_an_older_checkpoint_is_dropped_only_where_the_log_proves_it(table: Table) -> None:
    for checkpoint_id in (1, 2, 4):
        table.append(rows_of(checkpoint_id), app_id="app", checkpoint_id=checkpoint_id)
    assert table.append(rows_of(1), app_id="app", checkpoint_id=1).version == 1
    with pytest.raises(txlog.InvalidInputError, match="checkpoint 3 of 'app'"):
        table.append(rows_of(3), app_id="app", checkpoint_id=3)
    assert ids_of(table) == [1, 2, 4]


def test_an_older_checkpoint_whose_commit_was_cleaned_up_is_never_dropped_silently(
    table: Table, tmp_path: Path
) -> None:
    for checkpoint_id in (1, 2, 3):
        table.append(rows_of(checkpoint_id), app_id="app", checkpoint_id=checkpoint_id)
    table.create_checkpoint()
    for version in (0, 1, 2):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    reopened = Table.open(tmp_path / "t")
    with pytest.raises(txlog.InvalidInputError, match="no retained commit"):
        reopened.append(rows_of(1), app_id="app", checkpoint_id=1)
    assert reopened.append(rows_of(3), app_id="app", checkpoint_id=3).outcome == "already_committed"
    assert reopened.append(rows_of(4), app_id="app", checkpoint_id=4).version == 4


def test_a_put_that_arrived_where_the_log_was_cleaned_up_proves_no_older_checkpoint(table: Table) -> None:
    log = Path(table.uri) / "_delta_log"
    other = Table.create(f"{table.uri}-other", table.snapshot().schema)
    other.append(rows_of(0))
    other.append(rows_of(1), app_id="app", checkpoint_id=1)  # lost its race to the winner of v2, and was refused
    for checkpoint_id in (None, None, 2):
        table.append(rows_of(2), app_id=checkpoint_id and "app", checkpoint_id=checkpoint_id)
    table.create_checkpoint()
    for version in (0, 1, 2):
        (log / commit_name(version)).unlink()
    (log / commit_name(2)).write_bytes((Path(other.uri) / "_delta_log" / commit_name(2)).read_bytes())
    for handle in (table, Table.open(table.uri)):
        with pytest.raises(txlog.InvalidInputError, match="no retained commit"):
            handle.append(rows_of(1), app_id="app", checkpoint_id=1)


def test_other_work_under_the_same_checkpoint_id_is_detected_by_its_fingerprint(table: Table) -> None:
    table.append(rows_of(1), app_id="app", checkpoint_id=1, fingerprint="offsets 0-10")
    same = table.append(rows_of(1), app_id="app", checkpoint_id=1, fingerprint="offsets 0-10")
    assert same.outcome == "already_committed"
    with pytest.raises(txlog.InvalidInputError, match="offsets 0-12"):
        table.append(rows_of(1), app_id="app", checkpoint_id=1, fingerprint="offsets 0-12")
    assert ids_of(table) == [1]


def test_checkpoint_ids_of_different_applications_are_independent(table: Table) -> None:
    table.append(rows_of(1), app_id="a", checkpoint_id=9)
    assert table.append(rows_of(2), app_id="b", checkpoint_id=1).outcome == "committed"
    assert table.snapshot().transaction_version("a") == 9
    assert table.snapshot().transaction_version("b") == 1


def test_an_overwrite_with_the_same_checkpoint_is_committed_once(table: Table) -> None:
    table.append(rows_of(1))
    table.overwrite(rows_of(2), app_id="app", checkpoint_id=1)
    table.append(rows_of(3))
    assert table.overwrite(rows_of(2), app_id="app", checkpoint_id=1).outcome == "already_committed"
    assert ids_of(table) == [2, 3]


# --- schema -----------------------------------------------------------------------------------------------------------


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


# --- properties, history, checkpoints ---------------------------------------------------------------------------------


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
def test_invalid_table_properties_are_refused_by_name(
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


def test_history_is_newest_first_and_bounded(table: Table) -> None:
    for number in range(3):
        table.append(rows_of(number))
    reported = table.history(limit=2)
    assert [entry["version"] for entry in reported] == [3, 2]
    assert all(entry["operation"] == "WRITE" and entry["timestamp"] > 1_600_000_000_000 for entry in reported)
    assert [entry["version"] for entry in table.history()] == [3, 2, 1, 0]


def test_a_checkpoint_is_made_once_and_says_its_version(table: Table, tmp_path: Path) -> None:
    table.append(rows_of(1))
    assert table.create_checkpoint() == 1
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    before = checkpoint.read_bytes()
    assert table.create_checkpoint() == 1
    assert checkpoint.read_bytes() == before
    assert json.loads((tmp_path / "t" / "_delta_log" / "_last_checkpoint").read_text())["version"] == 1
    assert ids_of(Table.open(tmp_path / "t")) == [1]


def test_checkpoints_come_by_themselves_at_the_interval_asked_for(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.checkpointInterval": "3"})
    for number in range(7):
        table.append(rows_of(number))
        table._open_table.post_commit.drain()
    names = sorted(path.name for path in (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    assert [int(name.split(".")[0]) for name in names] == [3, 6]
    assert ids_of(Table.open(tmp_path / "t")) == list(range(7))


# --- add_files --------------------------------------------------------------------------------------------------------


def test_existing_files_become_rows_without_being_rewritten(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, partition_by=["day"])
    for day, name in (("mon", "a.parquet"), ("a%2Fb", "b c.parquet"), ("__HIVE_DEFAULT_PARTITION__", "c.parquet")):
        folder = tmp_path / "t" / f"day={day}"
        folder.mkdir()
        pq.write_table(pa.table({"id": [len(day)]}), folder / name)
    before = {path: path.stat().st_mtime_ns for path in data_files(tmp_path / "t")}
    paths = [str(path.relative_to(tmp_path / "t")) for path in before]
    reported: list[int] = []
    result = table.add_files(paths, on_progress=reported.append)
    assert (result.version, result.metrics.files, reported) == (1, 3, [1, 2, 3])
    expected = [("mon", 3), ("a/b", 5), (None, 26)]
    found = [(row["day"], row["id"]) for row in table.snapshot().to_arrow().to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {path: path.stat().st_mtime_ns for path in data_files(tmp_path / "t")} == before
    theirs = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    assert sorted(((row["day"], row["id"]) for row in theirs), key=repr) == sorted(expected, key=repr)
    assert table.snapshot().files("id = 5").num_rows == 1, "statistics came from the footers"


def test_a_file_is_added_once_however_its_path_is_spelled(table: Table, tmp_path: Path) -> None:
    pq.write_table(rows_of(1), tmp_path / "t" / "a b.parquet")
    with pytest.raises(txlog.InvalidInputError, match="twice"):
        table.add_files(["a b.parquet", "a b.parquet"])
    table.add_files(["a b.parquet"])
    with pytest.raises(txlog.InvalidInputError, match="already"):
        table.add_files(["a b.parquet"])
    assert ids_of(table) == [1]


def test_a_file_that_does_not_fit_is_refused_and_none_is_added(table: Table, tmp_path: Path) -> None:
    pq.write_table(rows_of(1), tmp_path / "t" / "good.parquet")
    pq.write_table(pa.table({"id": ["x"], "day": ["mon"], "more": [1]}), tmp_path / "t" / "bad.parquet")
    with pytest.raises(txlog.SchemaMismatchError) as caught:
        table.add_files(["good.parquet", "bad.parquet"])
    assert "table bigint, file string" in str(caught.value)
    assert "more" in str(caught.value)
    assert caught.value.path == "bad.parquet"
    with pytest.raises(txlog.NotFoundError):
        table.add_files(["nowhere.parquet"])
    with pytest.raises(txlog.InvalidInputError, match="list of paths"):
        table.add_files("good.parquet")
    assert table.snapshot().version == 0


def test_a_float_column_with_nan_gets_no_bounds_that_lie(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", pa.schema([("x", pa.float64())]))
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), tmp_path / "t" / "a.parquet")
    table.add_files(["a.parquet"])
    assert table.snapshot().to_arrow(where="x > 5").num_rows == 1, "NaN is greater than every number"


# --- races ------------------------------------------------------------------------------------------------------------


def test_one_handle_serves_many_threads(table_in_memory: Callable[[], Table]) -> None:
    table = table_in_memory()
    versions: list[int | None] = []

    def append(worker: int) -> None:
        versions.extend(table.append(rows_of(worker * 100 + number)).version for number in range(20))

    threads = [threading.Thread(target=append, args=(worker,)) for worker in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(version for version in versions if version is not None) == list(range(1, 161))
    expected = [1, *(worker * 100 + number for worker in range(1, 9) for number in range(20))]
    assert ids_of(table) == expected
    assert ids_of(table_in_memory()) == expected


def test_writers_that_all_find_no_table_make_one_of_it(open_handle: Callable[..., OpenTable]) -> None:
    barrier = threading.Barrier(6)
    outcomes: list[tuple[int | None, str]] = []

    def first_write(number: int) -> None:
        open_table = open_handle()
        options = txlog.table.WriteOptions(create=True, partition_by=["day"])

        def rows() -> Iterator[pa.RecordBatch]:
            yield from rows_of(number).to_batches()
            barrier.wait()  # all of them are planned on "there is no table" by now

        result = txlog.table.write_batch(open_table, rows(), options)
        outcomes.append((result.version, result.outcome))

    threads = [threading.Thread(target=first_write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [(version, "committed") for version in range(6)]
    assert ids_of(Table(open_handle())) == list(range(6))


@pytest.mark.parametrize(
    ("schema", "properties", "error"),
    [
        (pa.schema([("id", pa.string())]), {}, txlog.ProtocolChangedError),
        (SCHEMA, {"delta.appendOnly": "true"}, None),
    ],
)
def test_a_first_write_that_finds_another_table_in_its_place_is_a_conflict(
    schema: pa.Schema, properties: dict[str, str], error: type[Exception] | None, tmp_path: Path
) -> None:
    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1).to_batches()
        Table.create(tmp_path / "t", schema, properties=properties)

    if error is not None:
        with pytest.raises(error):
            txlog.write(tmp_path / "t", rows_with_a_rival())
        assert Table.open(tmp_path / "t").snapshot().version == 0
    else:
        assert txlog.write(tmp_path / "t", rows_with_a_rival()).version == 1


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_table_that_appears_during_a_first_write_is_respected(mode: str, tmp_path: Path) -> None:
    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1).to_batches()
        txlog.write(tmp_path / "t", rows_of(2))

    if mode == "error":
        with pytest.raises(txlog.TableExistsError):
            txlog.write(tmp_path / "t", rows_with_a_rival(), mode=mode)
    else:
        assert txlog.write(tmp_path / "t", rows_with_a_rival(), mode=mode).outcome == "ignored"
    assert ids_of(Table.open(tmp_path / "t")) == [2]


def test_an_append_goes_through_beside_an_overwrite_and_a_delete(tmp_path: Path) -> None:
    """A blind append reads nothing, so what other commits remove is no concern of its."""
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).overwrite(rows_of(3))
        deltalake.DeltaTable(str(path)).delete("id = 3")

    assert Table.open(path).append(rows_with_a_rival()).version == 3
    assert ids_of(Table.open(path)) == [2]


def test_an_append_during_an_overwrite_survives_it_by_the_tables_isolation(tmp_path: Path) -> None:
    """WriteSerializable, the default: the append counts as if it came after the overwrite."""
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).append(rows_of(3))

    result = Table.open(path).overwrite(rows_with_a_rival())
    assert result.metrics.lost_races >= 0
    assert ids_of(Table.open(path)) == [2, 3]


def test_an_append_during_an_overwrite_of_a_serializable_table_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, rows_of(1), properties={"delta.isolationLevel": "Serializable"})

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).append(rows_of(3))

    with pytest.raises(txlog.ConcurrentAppendError, match="v1"):
        Table.open(path).overwrite(rows_with_a_rival())
    assert ids_of(Table.open(path)) == [1, 3]


def test_two_overwrites_at_once_are_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).overwrite(rows_of(3))

    with pytest.raises(txlog.ConflictError) as caught:
        Table.open(path).overwrite(rows_with_a_rival())
    assert caught.value.winner_version == 1
    assert ids_of(Table.open(path)) == [3]


def test_a_schema_change_during_an_append_is_a_conflict_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).add_columns(pa.schema([("new", pa.int8())]))

    with pytest.raises(txlog.MetadataChangedError) as caught:
        Table.open(path).append(rows_with_a_rival())
    assert (caught.value.winner_version, caught.value.winner_operation) == (1, "ADD COLUMNS")
    assert Table.open(path).append(rows_of(2)).version == 2


# --- as a value -------------------------------------------------------------------------------------------------------


def test_a_pickled_handle_is_a_handle_of_the_same_table(table: Table) -> None:
    table.append(rows_of(1))
    other: Table = pickle.loads(pickle.dumps(table))
    assert (other.uri, ids_of(other)) == (table.uri, [1])
    other.append(rows_of(2))
    assert ids_of(table) == [1, 2]


def test_a_pickled_handle_keeps_its_retry_policy(tmp_path: Path) -> None:
    Table.create(tmp_path / "t", SCHEMA)
    table = Table.open(tmp_path / "t", retry=txlog.RetryPolicy(max_attempts=7, total_timeout=5))
    assert pickle.loads(pickle.dumps(table))._open_table.retry == txlog.RetryPolicy(max_attempts=7, total_timeout=5)


def test_a_pickled_handle_holds_no_secret() -> None:
    options = {"access_key_id": "AKIA-the-key", "secret_access_key": "the-secret", "session_token": "the-token"}
    table = Table(OpenTable(open_store("s3://bucket/t", {**options, "region": "eu-west-1"})))
    pickled = pickle.dumps(table)
    assert b"bucket/t" in pickled
    assert b"eu-west-1" in pickled
    for secret in options.values():
        assert secret.encode() not in pickled
        assert secret not in repr(table)


def test_a_handle_shows_what_it_knows_without_a_look_at_the_store(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint not null, day string", ["day"])
    assert table.uri == str(tmp_path / "t")
    assert repr(table) == f"Table({table.uri}, version=0, 2 columns: id bigint, day string, partitioned by day)"
    Table.open(table.uri).append(pa.table({"id": pa.array([1], pa.int64()), "day": ["mon"]}))
    shutil.rmtree(table.uri)
    assert "version=0" in repr(table)
    wide = Table.create(tmp_path / "w", ", ".join(f"c{number} int" for number in range(20)))
    assert repr(wide) == f"Table({wide.uri}, version=0, 20 columns: {_first_columns(12)}, and 8 more)"


def _first_columns(count: int) -> str:
    return ", ".join(f"c{number} int" for number in range(count))


def test_history_is_a_list_of_dicts_that_prints_as_a_table(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, day string")
    table.append(pa.table({"id": [1, 2], "day": ["a", "b"]}), user_metadata="the first\nrows")
    table.delete("id = 1")
    history = table.history()
    assert isinstance(history, list)
    assert [entry["operation"] for entry in history] == ["DELETE", "WRITE", "CREATE TABLE"]
    head, deleted, written, created = str(history).splitlines()
    assert head.split() == ["version", "time", "(UTC)", "operation", "rows", "files", "size", "by", "note"]
    assert deleted.split()[0] == "2"
    assert "DELETE where (id = 1)" in deleted
    assert "WRITE append" in written
    assert "+2" in written
    assert written.endswith("the first rows")
    assert "CREATE TABLE" in created
    assert history._repr_html_().count("<tr>") == 4  # type: ignore[attr-defined]
    assert str(table.history()[:0]) == "[]"
    assert json.loads(json.dumps(history)) == history


def test_a_long_history_prints_its_newest_commits(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint", properties={"delta.checkpointInterval": "1000"})
    for number in range(52):
        table.set_properties({"number": str(number) + "x" * 100})
    *commits, last = str(table.history()).splitlines()[1:]
    assert len(commits) == 50
    assert last == "... and 3 older commits"
    assert all(len(line) < 150 for line in commits)


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


# --- names of other libraries -----------------------------------------------------------------------------------------

ADVICE = [
    "Table.exists(uri)",
    "Table.open(uri)",
    "table.schema.names",
    "table.uri",
    "table.snapshot(timestamp=...)",
    'table.snapshot().transaction_version("app")',
    'table.snapshot().files()["partitionValues"]',
    "table.snapshot(), which is the newest",
    "Table.create(uri, schema) and table.add_files(paths)",
    "table.add_columns(schema)",
    "table.set_properties(properties)",
    "table.clean_up_log()",
    "table.create_checkpoint()",
    "table.snapshot(version)",
    "table.snapshot().table_id",
    "table.snapshot().files()",
    'table.snapshot().files()["path"]',
    "table.snapshot().partition_columns",
    "table.snapshot().properties",
    "table.snapshot().protocol",
    "table.snapshot().schema",
    "table.snapshot().schema.names",
    "table.count()",
    "table.to_dataset()",
    "table.to_arrow(columns, where)",
    "table.snapshot().version",
    "table.to_pandas()",
    "table.snapshot().to_batches(columns, where)",
    "table.append(data)",
    "table.overwrite(data)",
    'table.overwrite(rows, schema_mode="overwrite")',
    "Table.create(uri, schema, exist_ok=True)",
    "snapshot.schema.names",
    "snapshot.table_id",
    "snapshot.timestamp_ms",
    "snapshot.count()",
    "snapshot.to_dataset()",
    "snapshot.to_arrow().to_pydict()",
    "snapshot.to_arrow().to_pylist()",
    "snapshot.to_arrow(columns, where)",
    "snapshot.to_batches(columns, where)",
    "table.changes(from_version, to_version)",
    "table.snapshot().num_files",
    "table.delete()",
    "table.overwrite(rows, where=condition)",
    "table.tag(name, version)",
    "table.optimize()",
    "table.optimize(cluster_by=columns)",
    "table.purge()",
    "table.restore(version)",
    "table.restore(timestamp=...)",
    "table.verify()",
]


ADVICE_WITHOUT_CALL = ("begin", "close", "delete_tag")


@pytest.mark.parametrize("advice", ADVICE)
def test_the_call_that_an_error_advises_works(advice: str, table: Table) -> None:
    table.set_properties({"delta.enableChangeDataFeed": "true"})
    table.append(rows_of(1))
    versions = {"from_version": table.version, "to_version": table.version}
    given = {**versions, "columns": ["id"], "where": "id = 1", "version": 1, "properties": {"a": "b"}}
    given |= {"name": "a", "condition": "id < 9"}
    names = {"schema": pa.schema([("new", pa.int8())]), "data": rows_of(2), "rows": rows_of(3), **given}
    code = advice.partition(", which")[0].partition(" and ")[0].replace("timestamp=...", "timestamp='2999-01-01'")
    uri = table.uri + "-new" if code.startswith("Table.create") else table.uri
    eval(code, {"Table": Table, "table": table, "snapshot": table.snapshot(), "uri": uri, **names})


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in ("Table", "Snapshot") for name in ELSEWHERE[kind] if name not in ADVICE_WITHOUT_CALL],
)
def test_a_name_of_another_library_is_answered_with_a_call_that_works(kind: str, name: str, table: Table) -> None:
    owner = table if kind == "Table" else table.snapshot()
    with pytest.raises(txlog.InvalidInputError, match=f"a {kind} has no {name}: use ") as caught:
        getattr(owner, name)
    assert any(advice in caught.value.message for advice in ADVICE)
    assert not hasattr(owner, name)
    assert not hasattr(type(owner), name)


def test_a_table_is_an_arrow_stream_of_its_newest_version(table: Table) -> None:
    table.append(rows_of(1))
    frame = pl.DataFrame(table)
    table.append(rows_of(2))
    assert (frame["id"].to_list(), sorted(pa.table(table)["id"].to_pylist())) == ([1], [1, 2])
    assert (table.version, table.schema) == (2, table.snapshot().schema)


@pytest.mark.parametrize("partition_by", ["day,region", " day , region ", ["day", "region"], ("day", "region")])
def test_partition_columns_are_a_list_or_a_comma_list_wherever_they_are_given(
    partition_by: Any, tmp_path: Path
) -> None:
    columns = "id bigint not null, day date, region string"
    created = Table.create(tmp_path / "created", columns, partition_by)
    txlog.write(tmp_path / "written", created.snapshot(), partition_by=partition_by)
    txlog.write(tmp_path / "written", created.snapshot(), partition_by=partition_by)
    assert Table.create(tmp_path / "written", columns, partition_by, exist_ok=True).version == 1
    for name in ("created", "written"):
        assert Table.open(tmp_path / name).snapshot().partition_columns == ("day", "region")


@pytest.mark.parametrize("wrong", [7, [1], ["day", ""], "day,,region", "day,"])
def test_what_names_no_partition_columns_is_refused_by_the_arguments_name(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid partition_by .*: expected a list of names"):
        txlog.write(tmp_path / "t", pa.table({"id": [1], "day": ["a"]}), partition_by=wrong)
    assert not Table.exists(tmp_path / "t")


def test_ddl_is_taken_as_a_schema_wherever_one_is(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint NOT NULL, tags array<string>")
    table.add_columns("price decimal(12,2)")
    expected = {"id": pa.int64(), "tags": pa.list_(pa.string()), "price": pa.decimal128(12, 2)}
    assert {field.name: field.type.equals(expected[field.name]) for field in table.schema} == dict.fromkeys(
        expected, True
    )
    assert [field.nullable for field in table.schema] == [False, True, True]
    with pytest.raises(txlog.InvalidInputError, match="is not of the form"):
        Table.create(tmp_path / "other", "id")


def test_mode_errorifexists_is_mode_error(tmp_path: Path) -> None:
    assert txlog.write(tmp_path / "t", rows_of(1), mode="errorifexists").version == 0
    with pytest.raises(txlog.TableExistsError, match='mode="append" adds rows'):
        txlog.write(tmp_path / "t", rows_of(1), mode="errorifexists")


def test_a_column_of_nulls_makes_no_table_and_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "note": pa.nulls(1)})
    with pytest.raises(
        txlog.InvalidInputError, match=r"note: .* name its type in a schema, by Table\.create"
    ) as caught:
        txlog.write(tmp_path / "t", rows)
    assert "table.add_columns(schema)" in caught.value.message
    table = Table.create(tmp_path / "t", "id bigint, note string")
    table.append(rows)
    assert table.snapshot().to_arrow()["note"].to_pylist() == [None]


def test_a_misspelt_name_is_an_attribute_error_like_any_other(table: Table) -> None:
    with pytest.raises(AttributeError, match="'Table' object has no attribute 'apend'") as caught:
        table.apend(rows_of(1))  # type: ignore[attr-defined]
    assert not isinstance(caught.value, txlog.TxlogError)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("Table.open(table.uri, version=1)", "Table.open() takes no 'version': table.snapshot(version) and"),
        ("Table.open(table.uri, options={})", "it is called 'storage_options' here"),
        ("Table.create(table.uri, schema, partitionBy=['id'])", "it is called 'partition_by' here"),
        ("Table.create(table.uri, schema, configuration={})", "it is called 'properties' here"),
        ("txlog.write(table.uri, data, partition_cols=['id'])", "it is called 'partition_by' here"),
        ("table.append(data, schemaMode='merge')", "Table.append() takes no 'schemaMode': it is called 'schema_mode'"),
        ("table.append(data, mergeSchema=True)", 'schema_mode="merge" adds the columns'),
        ("table.append(data, mode='overwrite')", "table.overwrite(data, where) replaces all or some"),
        ("table.append(data, partition_by=['id'])", "set the partitioning when you create the table"),
        ("table.append(data, user_meta='x')", "did you mean 'user_metadata'?"),
        ("table.append(data, 'merge')", "it takes data, schema_mode, "),
        ("table.append()", "missing 1 required positional argument: 'data'"),
        ("table.snapshot().to_arrow(filter='id = 1')", "it is called 'where' here"),
        ("table.snapshot(colour=1)", "it takes version, timestamp"),
    ],
)
def test_a_call_with_an_argument_of_another_library_is_answered_with_ours(table: Table, call: str, advice: str) -> None:
    names = {"Table": Table, "txlog": txlog, "table": table, "schema": table.snapshot().schema, "data": rows_of(1)}
    with pytest.raises(txlog.InvalidInputError) as caught:
        eval(call, names)
    assert advice in caught.value.message
    assert isinstance(caught.value, TypeError)
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message
    assert table.snapshot().version == 0


def test_an_error_of_the_callers_own_code_is_not_taken_for_a_wrong_call(table: Table) -> None:
    def progress() -> None:  # takes no rows, and is called with them
        pass

    with pytest.raises(TypeError, match="progress") as caught:
        table.append(rows_of(1), on_progress=progress)  # type: ignore[arg-type]
    assert not isinstance(caught.value, txlog.TxlogError)
    assert str(inspect.signature(Table.append)).startswith("(self, data: 'Any', *, schema_mode: 'SchemaMode'")


def test_a_table_is_not_made_by_calling_its_class() -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"use Table.open\(uri\) or Table.create"):
        Table("orders")  # type: ignore[arg-type]


def test_a_snapshot_pickles_to_the_same_version_without_what_came_after(table: Table) -> None:
    table.append(rows_of(1))
    sent = pickle.dumps(table.snapshot())
    table.append(rows_of(2))
    received = pickle.loads(sent)
    assert received == table.snapshot(1)
    assert received.to_arrow().column("id").to_pylist() == [1]


def test_a_version_may_be_any_whole_number_such_as_one_from_a_data_frame(table: Table) -> None:
    found = pa.array([0]).to_numpy()[0]
    assert type(found) is not int
    assert table.snapshot(found).version == 0


def test_a_transaction_removes_whole_partitions(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"]})
    txlog.write(tmp_path / "t", rows, partition_by=["day"])
    table, where = Table.open(tmp_path / "t"), "day = 'b'"
    with table.transaction() as txn:
        txn.remove_partitions(where)
    assert ids_of(table) == [1]


# --- resolve ----------------------------------------------------------------------------------------------------------


def test_resolve_reports_what_landed_and_fences_what_did_not(table: Table) -> None:
    landed = table.append(rows_of(1))
    assert table.resolve(landed.txn_id, 1) is True
    assert table.resolve("somebody else", 1) is False
    assert table.resolve("still under way", 2) is False
    assert table.snapshot().version == 2, "an empty commit has taken its place"
    assert table.history(1)[0]["operation"] == "FENCE"
    with pytest.raises(txlog.InvalidInputError, match="v9"):
        table.resolve("from the future", 9)
    assert table.append(rows_of(2)).version == 3
    assert ids_of(table) == [1, 2]


def test_a_put_that_arrived_where_the_log_was_cleaned_up_is_not_acknowledged(table: Table) -> None:
    late = table.append(rows_of(1))
    for number in (2, 3):
        table.append(rows_of(number))
    table.create_checkpoint()
    log = Path(table.uri) / "_delta_log"
    body = (log / commit_name(1)).read_bytes()
    for version in (0, 1, 2):
        (log / commit_name(version)).unlink()
    (log / commit_name(1)).write_bytes(body)
    for handle in (table, Table.open(table.uri)):
        with pytest.raises(txlog.NotFoundError, match="so it is unknown whether"):
            handle.resolve(late.txn_id, 1)


def test_a_partition_of_minus_zero_keeps_its_sign_in_every_reader_and_is_one_of_its_own(tmp_path: Path) -> None:
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
