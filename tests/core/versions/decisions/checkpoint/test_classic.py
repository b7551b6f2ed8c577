from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog.core.versions.decisions.checkpoint.columns as checkpoint_columns
from txlog.core.format.actions import AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.format.file_columns import FILES_SCHEMA, TOMBSTONES_SCHEMA, adds_to_batch, partition_column
from txlog.core.format.log_names import LogFileKind, checkpoint_name
from txlog.core.versions.decisions.checkpoint.classic import build_checkpoint
from txlog.core.versions.decisions.checkpoint.order import row_groups_by_partition
from txlog.core.versions.decisions.retention import BY_FILE, checkpoint_is_due
from txlog.core.versions.decisions.segment import CheckpointFiles
from txlog.core.versions.decisions.state import TableState, advance
from txlog.errors import CorruptLogError

FIELDS = [("id", "long"), ("name", "string"), ("day", "date"), ("p", "string")]
NO_TOMBSTONES = TOMBSTONES_SCHEMA.empty_table()


def state_of(*, partition_columns: tuple[str, ...] = ("day", "p"), **configuration: str) -> TableState:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in FIELDS]
    metadata = Metadata(
        "t",
        json.dumps({"type": "struct", "fields": fields}),
        partition_columns,
        {f"delta.{key.replace('__', '.')}": value for key, value in configuration.items()},
        {"provider": "parquet", "options": {"a": "b"}},
    )
    actions = (
        Protocol(3, 7, ("timestampNtz",), ("timestampNtz", "domainMetadata")),
        metadata,
        SetTransaction("old", 1, 10),
        SetTransaction("new", 2, 10_000),
        SetTransaction("timeless", 3),
        DomainMetadata("d", "{}", False),
    )
    return advance(None, Commit(0, actions, None, 100))


def files_of(count: int) -> pa.Table:
    adds = [
        AddFile(
            f"p{number}",
            {"day": f"2024-01-{number % 9 + 1:02d}", "p": None if number % 5 == 0 else "x"},
            number,
            1,
            True,
            json.dumps({"numRecords": 1, "minValues": {"id": number, "name": "a"}, "nullCount": {"id": 0}}),
        )
        for number in range(count)
    ]
    return pa.Table.from_batches([adds_to_batch(adds[start : start + 7]) for start in range(0, count, 7)], FILES_SCHEMA)


def tombstones_of(*times: int | None) -> pa.Table:
    rows = [{"path": f"gone{n}", "dataChange": True, "deletionTimestamp": at} for n, at in enumerate(times)]
    return pa.Table.from_pylist(rows, TOMBSTONES_SCHEMA)


def rows_of(body: memoryview) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if value is not None}
        for row in pq.read_table(pa.BufferReader(body)).to_pylist(maps_as_pydicts="strict")
    ]


def test_a_checkpoint_holds_one_action_a_row_and_all_of_them() -> None:
    built = build_checkpoint(state_of(), files_of(20), tombstones_of(5_000), now_ms=10_000)
    rows = rows_of(built.body)
    assert all(len(row) == 1 for row in rows)
    kinds = [next(iter(row)) for row in rows]
    assert kinds == ["protocol", "metaData", "txn", "txn", "txn", "domainMetadata", *["add"] * 20, "remove"]
    assert (built.actions, built.add_files) == (27, 20)
    assert rows[0]["protocol"]["readerFeatures"] == ["timestampNtz"]
    assert rows[1]["metaData"]["format"] == {"provider": "parquet", "options": {"a": "b"}}
    assert rows[1]["metaData"]["partitionColumns"] == ["day", "p"]
    assert {row["add"]["dataChange"] for row in rows if "add" in row} == {False}
    assert {row["remove"]["dataChange"] for row in rows if "remove" in row} == {False}


def test_the_actions_that_open_a_table_have_a_separate_row_group() -> None:
    built = build_checkpoint(state_of(), files_of(20), NO_TOMBSTONES, now_ms=0)
    metadata = pq.read_metadata(pa.BufferReader(built.body))
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [6, 20]
    columns = {metadata.row_group(1).column(leaf).path_in_schema: leaf for leaf in range(metadata.num_columns)}
    assert metadata.row_group(1).column(columns["add.path"]).compression == "ZSTD"
    assert metadata.row_group(1).column(columns["protocol.minReaderVersion"]).statistics.null_count == 20


def test_an_unpartitioned_empty_table_has_a_checkpoint_too() -> None:
    built = build_checkpoint(state_of(partition_columns=()), FILES_SCHEMA.empty_table(), NO_TOMBSTONES, now_ms=0)
    assert len(rows_of(built.body)) == 6


def test_statistics_are_text_or_typed_or_both_as_the_table_asks() -> None:
    def shape(**configuration: str) -> tuple[bool, bool, bool]:
        built = build_checkpoint(state_of(**configuration), files_of(3), NO_TOMBSTONES, now_ms=0)
        names = [field.name for field in pq.read_schema(pa.BufferReader(built.body)).field("add").type]
        return "stats" in names, "stats_parsed" in names, "partitionValues_parsed" in names

    assert shape() == (True, True, True)
    assert shape(checkpoint__writeStatsAsStruct="false") == (True, False, False)
    assert shape(checkpoint__writeStatsAsStruct="true", checkpoint__writeStatsAsJson="false") == (False, True, True)
    assert shape(checkpoint__writeStatsAsJson="false") == (False, True, True)
    assert shape(checkpoint__writeStatsAsJson="false", checkpoint__writeStatsAsStruct="false") == (False, False, False)


def test_typed_statistics_and_partition_values_have_the_columns_types() -> None:
    state = state_of(checkpoint__writeStatsAsStruct="true")
    rows = rows_of(build_checkpoint(state, files_of(3), NO_TOMBSTONES, now_ms=0).body)
    adds = {row["add"]["path"]: row["add"] for row in rows if "add" in row}
    assert adds["p2"]["stats_parsed"]["minValues"] == {"id": 2, "name": "a"}
    assert adds["p2"]["stats_parsed"]["nullCount"] == {"id": 0, "name": None}
    assert adds["p2"]["partitionValues_parsed"]["day"].isoformat() == "2024-01-03"
    assert (adds["p0"]["partitionValues_parsed"]["p"], adds["p1"]["partitionValues_parsed"]["p"]) == (None, "x")


def test_a_partition_column_that_the_schema_has_not_is_only_text_in_a_checkpoint() -> None:
    state = state_of(partition_columns=("day", "gone"), checkpoint__writeStatsAsStruct="true")
    rows = rows_of(build_checkpoint(state, files_of(3), NO_TOMBSTONES, now_ms=0).body)
    assert [row["add"]["partitionValues_parsed"].keys() for row in rows if "add" in row] == [{"day"}] * 3


def test_a_mapped_tables_statistics_columns_are_named_logically_and_kept_physically() -> None:
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{name}"},
        }
        for number, name in enumerate(("a", "b", "p"), 1)
    ]
    configuration = {
        "delta.columnMapping.mode": "name",
        "delta.dataSkippingStatsColumns": "b",
        "delta.checkpoint.writeStatsAsStruct": "true",
    }
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = Metadata("t", schema, ("p",), configuration, {"provider": "parquet", "options": {}})
    state = advance(None, Commit(0, (Protocol(2, 5), metadata), None, 100))
    stats = json.dumps({"numRecords": 1, "minValues": {"col-a": 1, "col-b": 2}, "nullCount": {"col-b": 0}})
    live = pa.Table.from_batches([adds_to_batch([AddFile("f", {"col-p": "7"}, 1, 1, True, stats)])], FILES_SCHEMA)
    (added,) = [
        row["add"] for row in rows_of(build_checkpoint(state, live, NO_TOMBSTONES, now_ms=0).body) if "add" in row
    ]
    assert added["stats_parsed"]["minValues"] == {"col-b": 2}
    assert added["partitionValues_parsed"] == {"col-p": 7}


def test_tombstones_expire_with_the_tables_retention_and_without_a_time() -> None:
    week_ms = 7 * 24 * 3600 * 1000
    times = (week_ms, week_ms + 1, 2 * week_ms, None)
    rows = rows_of(build_checkpoint(state_of(), files_of(1), tombstones_of(*times), now_ms=2 * week_ms).body)
    assert [row["remove"]["path"] for row in rows if "remove" in row] == ["gone1", "gone2"]
    state = state_of(deletedFileRetentionDuration="interval 1 milliseconds")
    rows = rows_of(build_checkpoint(state, files_of(1), tombstones_of(*times), now_ms=2 * week_ms).body)
    assert [row["remove"]["path"] for row in rows if "remove" in row] == ["gone2"]


def test_application_versions_expire_only_where_the_table_asks() -> None:
    def kept(**configuration: str) -> list[str]:
        built = build_checkpoint(state_of(**configuration), files_of(1), NO_TOMBSTONES, now_ms=10_500)
        return [row["txn"]["appId"] for row in rows_of(built.body) if "txn" in row]

    assert kept() == ["old", "new", "timeless"]
    assert kept(setTransactionRetentionDuration="interval 1 second") == ["new"]


def test_a_checkpoint_that_lost_a_file_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = row_groups_by_partition

    def losing(files: pa.Table, *rest: Any) -> Any:
        for group in real(files, *rest):
            yield lambda group=group: group().slice(1)

    monkeypatch.setattr(checkpoint_columns, "row_groups_by_partition", losing)
    with pytest.raises(CorruptLogError, match="has 19 files"):
        build_checkpoint(state_of(), files_of(20), NO_TOMBSTONES, now_ms=0)


# --- order ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_rows", [1, 4, 10, 1000])
def test_row_groups_follow_each_other_by_partition_and_lose_nothing(group_rows: int) -> None:
    files = files_of(60)
    groups = [
        group().combine_chunks().to_batches()[0] for group in row_groups_by_partition(files, ("day", "p"), group_rows)
    ]
    assert [batch.num_rows for batch in groups] == [min(group_rows, 60 - at) for at in range(0, 60, group_rows)]
    assert sorted(p for batch in groups for p in batch.column("path").to_pylist()) == sorted(files["path"].to_pylist())
    keys = [
        sorted(
            (day, p is None, p or "")
            for day, p in zip(
                partition_column(batch, "day").to_pylist(), partition_column(batch, "p").to_pylist(), strict=True
            )
        )
        for batch in groups
    ]
    if len(groups) > 1:
        assert [key for group in keys for key in group] == sorted(key for group in keys for key in group)


# --- when ----------------------------------------------------------------------------------------------------


def grown(commits: int, commit_bytes: int, **configuration: str) -> TableState:
    state = state_of(**configuration)
    for version in range(1, commits + 1):
        state = advance(state, Commit(version, (), None, commit_bytes))
    return state


def test_a_small_table_is_checkpointed_after_ten_commits() -> None:
    assert not checkpoint_is_due(grown(9, 1000), checkpoint_size_bytes=0)
    assert checkpoint_is_due(grown(10, 1000), checkpoint_size_bytes=0)


def test_a_large_table_waits_until_its_tail_costs_half_of_its_checkpoint() -> None:
    hundred_mb = 100 * 1024 * 1024
    assert not checkpoint_is_due(grown(150, 1000), checkpoint_size_bytes=hundred_mb)
    assert checkpoint_is_due(grown(200, 1000), checkpoint_size_bytes=hundred_mb)
    assert not checkpoint_is_due(grown(19, 5 * 1024 * 1024), checkpoint_size_bytes=hundred_mb)
    assert checkpoint_is_due(grown(20, 5 * 1024 * 1024), checkpoint_size_bytes=hundred_mb)


def test_where_reading_a_commit_costs_no_request_a_small_table_waits_for_a_hundred_small_ones() -> None:
    due = [n for n in range(102) if checkpoint_is_due(grown(n, 1000), checkpoint_size_bytes=1000, reading=BY_FILE)]
    assert due == [100]
    assert not checkpoint_is_due(grown(19, 10**5), checkpoint_size_bytes=1000, reading=BY_FILE)
    assert checkpoint_is_due(grown(20, 10**5), checkpoint_size_bytes=1000, reading=BY_FILE)
    ten_mb = 10 * 1024 * 1024
    assert not checkpoint_is_due(grown(560, 1024), checkpoint_size_bytes=ten_mb, reading=BY_FILE)
    assert checkpoint_is_due(grown(640, 1024), checkpoint_size_bytes=ten_mb, reading=BY_FILE)


def test_one_large_commit_is_checkpointed_at_once_and_the_next_when_they_cost_half_of_the_checkpoint() -> None:
    """A clone of a million files is one commit of half a gigabyte, which each reader would parse."""
    large = 128 * 1024 * 1024
    assert checkpoint_is_due(grown(1, large), checkpoint_size_bytes=0)
    assert not checkpoint_is_due(grown(1, large - 1000), checkpoint_size_bytes=0)
    assert checkpoint_is_due(grown(1, large - 1000), checkpoint_size_bytes=0, is_first=True)
    assert not checkpoint_is_due(grown(1, large), checkpoint_size_bytes=4 * large)
    assert not checkpoint_is_due(grown(1, large, checkpointInterval="10"), checkpoint_size_bytes=0)


def test_a_checkpoint_is_due_at_a_multiple_of_the_interval_and_always_after_twice_as_many() -> None:
    for configuration in ({}, {"checkpointInterval": "10"}):
        due = [n for n in range(30) if checkpoint_is_due(grown(n, 1000, **configuration), checkpoint_size_bytes=0)]
        assert due == [10, *range(20, 30)]


def test_a_writers_first_commit_makes_a_missed_checkpoint_due() -> None:
    for configuration in ({}, {"checkpointInterval": "10"}):
        grown_to = [grown(n, 1000, **configuration) for n in range(30)]
        due = [state.version for state in grown_to if checkpoint_is_due(state, checkpoint_size_bytes=0, is_first=True)]
        assert due == [*range(10, 30)]


def test_a_configured_checkpoint_interval_overrides_the_rule_by_size() -> None:
    assert not checkpoint_is_due(grown(19, 10**9, checkpointInterval="20"), checkpoint_size_bytes=0)
    assert checkpoint_is_due(grown(20, 1, checkpointInterval="20"), checkpoint_size_bytes=10**12)


def test_commits_are_counted_from_the_last_checkpoint() -> None:
    state = grown(25, 1000, checkpointInterval="10")
    checkpoint = CheckpointFiles(20, LogFileKind.CLASSIC_CHECKPOINT, (checkpoint_name(20),), 1)
    assert not checkpoint_is_due(
        replace(state, segment=state.segment.checkpointed(checkpoint)), checkpoint_size_bytes=1
    )
