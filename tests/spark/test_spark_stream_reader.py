"""A stream from a table, driven as Spark drives it, without Spark: offsets, limits, options, restarts, typed stops."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql.pandas import types
from pyspark.sql.streaming.datasource import ReadAllAvailable

import txlog
import txlog.spark
from tests.beside import Beside
from txlog.core import ambient
from txlog.core.format.actions import action_to_json
from txlog.result import in_milliseconds
from txlog.spark import stream_reader
from txlog.spark.errors import TxlogErrorInSpark
from txlog.spark.source import TxlogDataSource

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}


class Query:
    """What Spark does: it keeps where batches end, and after a stop runs the batch again that it had planned."""

    def __init__(self, table: txlog.Table, schema: Any = None, **options: Any) -> None:
        self.options = {"path": table.uri, **{name.lower(): str(value) for name, value in options.items()}}
        self.schema = schema
        self.ends: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        source = TxlogDataSource(dict(self.options))
        schema = source.schema() if self.schema is None else self.schema
        source = pickle.loads(pickle.dumps(source))
        self.reader = source.streamReader(schema)
        self.in_tasks = pickle.dumps(source.streamReader(schema))

    def batch(self, limit: Any = None) -> list[dict[str, Any]] | None:
        """The rows of the next batch; None if there is none."""
        start = self.ends[-1] if self.ends else self.reader.initialOffset()
        end = self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())
        if self.ends and end == start:
            return None
        self.ends.append(json.loads(json.dumps(end)))
        return self.run(start, end)

    def run_last_again(self) -> list[dict[str, Any]]:
        start = self.ends[-2] if len(self.ends) > 1 else self.reader.initialOffset()
        return self.run(start, self.ends[-1])

    def run(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        parts = self.reader.partitions(start, end)
        task = pickle.loads(self.in_tasks)
        rows = [
            row for part in pickle.loads(pickle.dumps(parts)) for each in task.read(part) for row in each.to_pylist()
        ]
        self.reader.commit(end)
        return rows

    def ids(self, limit: Any = None) -> list[int] | None:
        rows = self.batch(limit)
        return None if rows is None else sorted(row["id"] for row in rows)

    def rest(self) -> list[list[int]]:
        found = []
        while (batch := self.ids()) is not None:
            found.append(batch)
        return found


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [f"p{each % 2}" for each in ids]}, schema=SCHEMA)


def refused(query: Query) -> txlog.TxlogError:
    with pytest.raises(TxlogErrorInSpark) as caught:
        query.rest()
    error = txlog.spark.error_from(caught.value)
    assert error is not None
    return error


def rename(table: txlog.Table, name: str, to: str) -> None:
    """What Spark commits for ``alter table ... rename column``: txlog itself renames none."""
    metadata = table._open_table.log.newest_state().metadata
    schema = json.loads(metadata.schema_string)
    next(field for field in schema["fields"] if field["name"] == name)["name"] = to
    columns = tuple(to if each == name else each for each in metadata.partition_columns)
    renamed = replace(metadata, schema_string=json.dumps(schema), partition_columns=columns)
    commit(table, action_to_json(renamed))


def commit(table: txlog.Table, action: dict[str, Any]) -> None:
    """A commit of another writer."""
    lines = {"commitInfo": {"timestamp": 1, "operation": "CHANGE"}}, action
    name = Path(table.uri) / "_delta_log" / f"{table.version + 1:020}.json"
    name.write_text("".join(json.dumps(each) + "\n" for each in lines))


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """Versions 1 and 2 add ids 0 to 3 and 4 to 7, in two partitions each; version 3 deletes id 2 by a vector."""
    table = txlog.Table.create(tmp_path / "t", SCHEMA, ["p"], PROPERTIES)
    table.append(rows_of(0, 1, 2, 3))
    table.append(rows_of(4, 5, 6, 7))
    table.delete("id = 2")
    return table


def test_a_stream_begins_with_the_existing_rows_and_continues_with_new_ones(table: txlog.Table) -> None:
    query = Query(table)
    assert query.batch() is not None
    assert query.rest() == []
    table.append(rows_of(8, 9))
    table.optimize()
    table.append(rows_of(10))
    assert query.rest() == [[8, 9, 10]]
    query.restart()
    table.append(rows_of(11))
    assert query.rest() == [[11]]


def test_the_first_batch_has_live_rows_with_partition_values_and_names_of_the_log(table: txlog.Table) -> None:
    rename(table, "p", "part")
    rows = Query(table).batch()
    assert rows is not None
    assert sorted((row["id"], row["part"]) for row in rows) == [(at, f"p{at % 2}") for at in (0, 1, 3, 4, 5, 6, 7)]


def test_a_batch_has_no_more_files_and_bytes_than_the_options_allow(table: txlog.Table) -> None:
    query = Query(table, maxFilesPerTrigger=1)
    assert sorted(query.rest()) == [[0], [1, 3], [4, 6], [5, 7]]
    query = Query(table, maxBytesPerTrigger=1)
    assert len(query.rest()) == 4
    query = Query(table, maxBytesPerTrigger="1g", maxFilesPerTrigger=3)
    assert [len(batch) for batch in query.rest()] == [len(batch) for batch in Query(table, maxFilesPerTrigger=3).rest()]
    query = Query(table, maxFilesPerTrigger=1)
    assert query.ids(ReadAllAvailable()) == [0, 1, 3, 4, 5, 6, 7]  # Trigger.Once


def test_every_restart_continues_from_the_checkpoint(table: txlog.Table) -> None:
    query = Query(table, maxFilesPerTrigger=1)
    seen = []
    for number in range(8):
        batch = query.ids()
        seen += batch or []
        query.restart()
        if batch is not None:
            assert sorted(row["id"] for row in query.run_last_again()) == batch
        if number < 2:
            table.append(rows_of(100 + number))
    assert sorted(seen) == [0, 1, 3, 4, 5, 6, 7, 100, 101]


@pytest.mark.parametrize("limit", [1, 1000])
def test_a_first_batch_that_runs_again_has_the_rows_that_it_had(limit: int, table: txlog.Table) -> None:
    """Spark asks for the initial offset again, when the newest version is another one."""
    query = Query(table, maxFilesPerTrigger=limit)
    first = query.ids()
    table.append(rows_of(8, 9))
    table.delete("id = 4")
    query.restart()
    assert sorted(row["id"] for row in query.run_last_again()) == first


def test_a_stream_starts_at_a_version_a_time_or_the_next_version(table: txlog.Table) -> None:
    skip = {"skipChangeCommits": "true"}
    assert Query(table, startingVersion=2, **skip).rest() == [[4, 5, 6, 7]]
    assert Query(table, startingVersion=4).rest() == [[]]
    time_of_2 = in_milliseconds(table.snapshot(2).timestamp)
    if in_milliseconds(table.snapshot(1).timestamp) < time_of_2:
        assert Query(table, startingTimestamp=time_of_2, **skip).rest() == [[4, 5, 6, 7]]
    assert Query(table, startingTimestamp="2020-01-01", timeZone="UTC", **skip).rest() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    query = Query(table, startingVersion="latest")
    assert query.batch() == []
    table.append(rows_of(8))
    query.restart()
    assert query.run_last_again() == []
    assert query.rest() == [[8]]
    assert "does not exist yet" in refused(Query(table, startingVersion=99)).message
    assert "in the future" in refused(Query(table, startingTimestamp="2999-01-01")).message


def test_rows_added_before_the_first_batch_survive_a_crash_in_it(
    table: txlog.Table,
) -> None:
    query = Query(table, startingVersion="latest")
    start = query.reader.initialOffset()
    table.append(rows_of(8))
    query.ends.append(query.reader.latestOffset(start, query.reader.getDefaultReadLimit()))
    query.restart()
    assert query.run_last_again() == []
    assert query.rest() == [[8]]


def test_a_snapshot_is_read_from_its_oldest_file_on_as_deltas_source_counts_files(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "u", SCHEMA)
    for at, (name, modified) in enumerate((("b", 2), ("c", 1), ("a", 2))):
        pq.write_table(rows_of(at), tmp_path / "u" / f"{name}.parquet")
        size = (tmp_path / "u" / f"{name}.parquet").stat().st_size
        add = {"path": f"{name}.parquet", "partitionValues": {}, "size": size, "modificationTime": modified}
        commit(txlog.Table.open(table.uri), {"add": {**add, "dataChange": True}})
    assert Query(table, maxFilesPerTrigger=1).rest() == [[1], [2], [0]]


def test_a_time_after_the_newest_commit_starts_with_the_next_one(table: txlog.Table) -> None:
    time_of_3 = in_milliseconds(table.snapshot(3).timestamp)
    query = Query(table, startingTimestamp=time_of_3 + 1)
    while ambient.now_ms() <= time_of_3 + 1:
        pass
    assert query.rest() == [[]]
    table.append(rows_of(8))
    assert query.rest() == [[8]]


def test_a_version_that_deletes_or_changes_rows_stops_the_stream_unless_an_option_is_set(
    table: txlog.Table,
) -> None:
    error = refused(Query(table, startingVersion=1))
    assert isinstance(error, txlog.InvalidInputError)
    assert (error.version, error.message) == (3, error.message)
    assert "version 3 (DELETE) changed rows" in error.message
    assert "skipChangeCommits=true" in error.message
    assert Query(table, startingVersion=1, skipChangeCommits="true").rest() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert Query(table, startingVersion=1, ignoreChanges="true").rest() == [[0, 0, 1, 2, 3, 4, 5, 6, 7]]
    assert refused(Query(table, startingVersion=1, ignoreDeletes="true")).version == 3
    table.delete("p = 'p1'")
    assert "version 4 (DELETE) deleted rows" in refused(Query(table, startingVersion=4)).message
    table.append(rows_of(9))
    for option in ("ignoreDeletes", "ignoreChanges", "skipChangeCommits"):
        assert Query(table, startingVersion=4, **{option: "true"}).rest() == [[9]]


def test_a_version_that_changes_rows_is_skipped_where_both_options_for_it_are_set(table: txlog.Table) -> None:
    query = Query(table, startingVersion=1, skipChangeCommits="true", ignoreChanges="true")
    assert query.rest() == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_a_snapshot_that_is_read_in_several_batches_is_listed_once(table: txlog.Table) -> None:
    """Else a long first read would fail as soon as its version is cleaned up."""
    query = Query(table, maxFilesPerTrigger=1)
    first = query.ids()
    version = table.version
    table.append(rows_of(8))
    table.create_checkpoint()
    for gone in range(version + 1):
        (Path(table.uri) / "_delta_log" / f"{gone:020}.json").unlink()
    assert sorted([first or [], *query.rest()]) == [[0], [1, 3], [4, 6], [5, 7], [8]]


def test_a_stream_reads_the_chosen_columns_of_the_rows_that_match(table: txlog.Table) -> None:
    query = Query(table, columns="p, ID", where="id in (1, 4, 9)")
    rows = query.batch()
    assert rows is not None
    assert sorted(rows, key=lambda row: row["id"]) == [{"p": "p1", "id": 1}, {"p": "p0", "id": 4}]
    table.append(rows_of(8, 9))
    assert query.batch() == [{"p": "p1", "id": 9}]


def test_available_now_reads_no_further_than_the_table_was_when_it_began(table: txlog.Table) -> None:
    query = Query(table, maxFilesPerTrigger=3)
    query.reader.prepareForTriggerAvailableNow()
    table.append(rows_of(8))
    assert sorted(sum(query.rest(), [])) == [0, 1, 3, 4, 5, 6, 7]  # noqa: RUF017
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert query.rest() == [[8]]


def test_the_end_of_the_table_is_reported_for_the_progress(table: txlog.Table) -> None:
    query = Query(table)
    assert query.reader.reportLatestOffset() is None
    query.rest()
    assert query.reader.reportLatestOffset() == query.ends[-1]


# --- the change feed --------------------------------------------------------------------------------------------------


def test_a_stream_of_the_change_feed_equals_the_tables_changes(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", SCHEMA, ["p"], {**PROPERTIES, "delta.enableChangeDataFeed": "true"})
    table.append(rows_of(0, 1, 2, 3))
    query = Query(table, readChangeFeed="true", maxFilesPerTrigger=1)
    first = [row for batch in iter(query.batch, None) for row in batch]
    assert sorted(row["id"] for row in first) == [0, 1, 2, 3]
    assert {(row["_change_type"], row["_commit_version"]) for row in first} == {("insert", 1)}
    table.delete("id = 2")
    table.update({"id": txlog.expr("id + 10")}, "p = 'p1'")
    table.append(rows_of(8, 9))
    table.delete("p = 'p0'")
    query.restart()
    batches = list(iter(query.batch, None))
    assert [{row["_commit_version"] for row in batch} for batch in batches] == [{2}, {3}, {4}, {5}]
    expected = table.changes(2).read_all().to_pylist()
    assert sorted(map(repr, sum(batches, []))) == sorted(map(repr, expected))  # noqa: RUF017
    narrow = Query(table, readChangeFeed="true", startingVersion=2, columns="id", where="_change_type = 'delete'")
    rows = narrow.batch()
    assert rows is not None
    assert list(rows[0]) == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    deleted = [row["id"] for row in expected if row["_change_type"] == "delete"]
    assert sorted(row["id"] for row in rows) == sorted(deleted)


def test_a_feed_that_was_off_and_a_checkpoint_within_a_version_are_refused(table: txlog.Table) -> None:
    assert "the change data feed was off" in refused(Query(table, readChangeFeed="true")).message
    newest = Query(table, readChangeFeed="true", startingVersion=table.version)
    assert "the change data feed was off" in refused(newest).message
    table.set_properties({"delta.enableChangeDataFeed": "true"})
    table.append(rows_of(8, 9))
    assert "the change data feed was off" in refused(Query(table, readChangeFeed="true", startingVersion=1)).message
    query = Query(table, readChangeFeed="true", startingVersion=5)
    query.ends = [{**query.reader.initialOffset(), "index": 0}]
    assert "in the middle of the changes of version 5" in refused(query).message


# --- definitions, and what is gone ------------------------------------------------------------------------------------


def test_a_new_column_stops_the_stream_once_and_comes_after_the_restart(table: txlog.Table) -> None:
    query, narrow = Query(table), Query(table, columns="id")
    query.rest(), narrow.rest()
    table.append(rows_of(8))
    table.add_columns(pa.schema({"new": pa.int32()}))
    table.append(rows_of(9))
    error = refused(query)
    assert isinstance(error, txlog.SchemaMismatchError)
    assert error.version == 5
    assert "column new was added" in error.message
    assert "Restart the query" in error.message
    query.restart()
    rows = sorted(query.batch() or [], key=lambda row: row["id"])
    assert rows == [{"id": 8, "p": "p0", "new": None}, {"id": 9, "p": "p1", "new": None}]
    assert narrow.rest() == [[8, 9]]


def test_a_column_that_is_renamed_or_dropped_stops_a_stream_that_reads_it(table: txlog.Table) -> None:
    query, narrow = Query(table), Query(table, columns="id")
    query.rest(), narrow.rest()
    table.append(rows_of(8))
    rename(table, "p", "q")
    assert "column p was dropped or renamed" in refused(query).message
    query.restart()
    error = refused(query)  # version 4 has the column under its old name
    assert isinstance(error, txlog.SchemaMismatchError)
    assert "option columns" in error.message
    assert narrow.rest() == [[8]]


def test_columns_that_changed_between_load_and_start_ask_for_another_load(table: txlog.Table) -> None:
    query = Query(table)
    table.add_columns(pa.schema({"new": pa.int32()}))
    assert "call load() again" in refused(query).message


def test_a_schema_of_the_users_chooses_columns_and_must_fit(table: txlog.Table) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    assert Query(table, StructType().add("ID", LongType())).batch() is not None
    error = refused(Query(table, StructType().add("id", StringType())))
    assert "column id is a bigint, not a string" in error.message
    assert isinstance(refused(Query(table, StructType().add("x", LongType()))), txlog.SchemaMismatchError)


def test_a_version_that_was_cleaned_up_stops_the_stream(table: txlog.Table) -> None:
    query = Query(table)
    query.rest()
    table.append(rows_of(8))
    table.append(rows_of(9))
    table.create_checkpoint()
    query.restart()
    (Path(table.uri) / "_delta_log" / f"{4:020}.json").unlink()
    error = refused(query)
    assert isinstance(error, txlog.NotFoundError)
    assert error.version == 4
    assert "new checkpointLocation" in error.message


def clean_up_before(version: int, table: txlog.Table) -> None:
    """As Spark does: it deletes what is old and before the newest checkpoint, so commits stay that none is before."""
    table.create_checkpoint()
    for path in (Path(table.uri) / "_delta_log").glob("0*.*"):
        if int(path.name.partition(".")[0]) < version:
            path.unlink()


@pytest.mark.parametrize("options", [{}, {"startingVersion": 0}, {"startingTimestamp": "2020-01-01T00:00:00Z"}])
def test_a_stream_continues_with_commits_whose_table_cannot_be_loaded(
    options: dict[str, Any], table: txlog.Table
) -> None:
    query = Query(table, skipChangeCommits="true", **options)
    query.rest()
    for each in (8, 9, 10):
        table.append(rows_of(each))
    clean_up_before(3, table)
    query.restart()
    query.reader.prepareForTriggerAvailableNow()
    assert query.rest() == [[8, 9, 10]]


def test_a_stream_stops_at_commits_whose_definition_nobody_knows(table: txlog.Table) -> None:
    query = Query(table, skipChangeCommits="true")
    query.rest()
    table.append(rows_of(8))
    table.add_columns(pa.schema({"new": pa.int32()}))
    table.append(rows_of(9))
    clean_up_before(4, table)
    query.restart()
    error = refused(query)
    assert isinstance(error, txlog.NotFoundError)
    assert error.version == 4
    assert "version 5 changed the table's definition" in error.message


def test_the_checkpoint_of_another_table_is_refused(table: txlog.Table, tmp_path: Path) -> None:
    query = Query(table)
    query.rest()
    query.options["path"] = txlog.Table.create(tmp_path / "u", SCHEMA).uri
    query.restart()
    assert "the table was dropped and recreated" in refused(query).message


def test_a_reader_feature_that_comes_later_stops_the_stream(table: txlog.Table) -> None:
    query = Query(table)
    query.rest()
    features = ["deletionVectors", "columnMapping", "fromTheFuture"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(table, {"protocol": protocol})
    assert isinstance(refused(query), txlog.UnsupportedFeatureError)


# --- options, and pyspark 4.1 -----------------------------------------------------------------------------------------


REFUSED: dict[str, dict[str, Any]] = {
    "unknown option 'maxfiles' (did you mean 'maxFilesPerTrigger'?)": {"maxFiles": 1, "ignoreDeletes": "true"},
    "versionAsOf is for batch reads": {"versionAsOf": 1},
    "both name a start": {"startingVersion": 1, "startingTimestamp": "2026-01-01"},
    "Invalid option startingVersion 'newest'": {"startingVersion": "newest"},
    "Invalid option maxFilesPerTrigger '0'": {"maxFilesPerTrigger": 0},
    "leave out ignoreDeletes": {"readChangeFeed": "true", "ignoreDeletes": "true"},
    "stops at a version that was cleaned up": {"failOnDataLoss": "false"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_an_invalid_stream_option_is_refused_and_named(message: str, table: txlog.Table) -> None:
    with pytest.raises(TxlogErrorInSpark) as caught:
        Query(table, **REFUSED[message])
    assert message in str(caught.value)


def test_a_batch_read_refuses_the_options_of_streams(table: txlog.Table) -> None:
    source = TxlogDataSource({"path": table.uri, "startingversion": "1"})
    with pytest.raises(TxlogErrorInSpark, match="startingVersion is for streams"):
        source.reader(source.schema())


def test_pyspark_that_asks_for_the_newest_offset_alone_gets_every_row_once(
    table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyspark 4.1 calls ``latestOffset()``, has no limits, and makes Arrow schemas without naming a zone."""
    of_now = types.to_arrow_schema
    monkeypatch.setattr(stream_reader, "admission", None)
    monkeypatch.setattr(types, "to_arrow_schema", lambda schema: of_now(schema, timezone="UTC"))
    query = Query(table)
    start = query.reader.initialOffset()
    table.append(rows_of(8))
    seen = []
    for number in range(4):
        end = query.reader.latestOffset()
        seen += [row["id"] for row in query.run(start, end)]
        start = end
        if number == 1:
            table.append(rows_of(9))
            query.restart()
    assert sorted(seen) == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    limited = Query(table, maxFilesPerTrigger=1)
    assert isinstance(refused(limited), txlog.UnsupportedFeatureError)


SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.hunt(part="spark")) for seed in range(6, 100))]


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_beside_restores_compactions_and_vacuums_are_exact_or_stop_with_a_typed_error(
    seed: int, tmp_path: Path
) -> None:
    """A stream of added rows, which runs batches again and restarts, and one of changes: what a model has."""
    beside = Beside(tmp_path / "t", seed)
    beside.step()
    added, changed = Query(beside.table), Query(beside.table, readChangeFeed=True, startingVersion=1)
    rows: list[int] | None = []
    copy: Counter[int] | None = Counter()
    last_read = 0
    for _ in range(12):
        beside.step()
        if beside.random.random() < 0.4:
            continue
        for query in (added, changed):
            if beside.random.random() < 0.3:
                query.restart()
        if rows is not None:
            try:
                for batch in iter(added.batch, None):
                    rows += [row["id"] for row in batch]
            except TxlogErrorInSpark as error:
                beside.check_stop(given_back(error), last_read)
                rows = None
            else:
                assert sorted(rows) == sorted(beside.rows)
        if copy is not None:
            try:
                for batch in iter(changed.batch, None):
                    copy.update(row["id"] for row in batch if row["_change_type"] in ("insert", "update_postimage"))
                    copy.subtract(row["id"] for row in batch if row["_change_type"] in ("delete", "update_preimage"))
            except TxlogErrorInSpark as error:
                beside.check_loss(given_back(error), last_read + 1)
                copy = None
            else:
                assert +copy == Counter(beside.rows)
        last_read = beside.table.version


def given_back(error: TxlogErrorInSpark) -> txlog.TxlogError:
    found = txlog.spark.error_from(error)
    assert found is not None
    return found
