"""`Table.delete`: which rows go, by which means, what is refused before a row is read, and what history says."""

from __future__ import annotations

import datetime
import logging
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.other_writers import commit_files
from txlog.audit.verify import verify_table
from txlog.core import ambient
from txlog.errors import ConcurrentAppendError, InvalidInputError, NotFoundError
from txlog.testing.stopped_clock import StoppedClock

VECTORS = {"delta.enableDeletionVectors": "true"}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])


def made(tmp_path: Path, properties: dict[str, str] | None = None, **more: Any) -> txlog.Table:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("x", pa.float64())])
    table = txlog.Table.create(str(tmp_path / "t"), schema, ["day"], {**(properties or {}), **more})
    table.append(pa.table({"id": range(10), "day": ["a", "b"] * 5, "x": [float(i) for i in range(10)]}, schema))
    table.append(pa.table({"id": range(10, 20), "day": ["c"] * 10, "x": [None] * 10}, schema))
    return table


def ids(table: txlog.Table) -> list[int]:
    return sorted(table.snapshot().to_arrow(["id"]).column("id").to_pylist())


def last_commit(table: txlog.Table) -> list[dict[str, Any]]:
    names = sorted((Path(table.uri.removeprefix("file://")) / "_delta_log").glob("*.json"))
    return [orjson.loads(line) for line in names[-1].read_bytes().splitlines()]


@MODES
def test_a_delete_removes_rows_whose_condition_is_true_and_keeps_those_where_it_is_null(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path, properties)
    result = table.delete("x >= 7 or id = 12")
    assert ids(table) == [*range(7), 10, 11, *range(13, 20)]
    assert (result.metrics.rows_deleted, result.metrics.rows) == (4, 0)
    assert "4 rows deleted" in str(result)
    assert verify_table(table._open_table.store).is_sound


@MODES
def test_a_delete_removes_whole_partitions_and_fully_matching_files_unopened(
    tmp_path: Path, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, properties)
    files = type(table._open_table.store.files)
    monkeypatch.setattr(files, "open", lambda self, path: pytest.fail(f"{path} was opened"))
    assert table.delete("day = 'a'").metrics.files_removed == 1
    assert table.delete("id >= 10").metrics.rows_deleted == 10, "proven by the bounds of the file"
    assert table.delete("id > 100").version == 4, "excluded by the bounds, so nothing was committed"
    assert table.delete(all=True).metrics.files_removed == 1
    monkeypatch.undo()
    assert ids(table) == []


def test_a_delete_without_a_condition_asks_for_all_rows_by_name(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    rows = ids(table)
    forgotten = None

    def in_transaction(*given: Any, **named: Any) -> None:
        with table.transaction() as transaction:
            transaction.delete(*given, **named)

    for delete in (table.delete, in_transaction):
        for given in ((), (forgotten,)):
            with pytest.raises(txlog.InvalidInputError, match="pass it as where, or pass all=True to delete every"):
                delete(*given)
        with pytest.raises(txlog.InvalidInputError, match="pass where or all=True, not both"):
            delete("id > 3", all=True)
        with pytest.raises(txlog.InvalidInputError, match="Invalid all 'id > 3': expected True or False"):
            delete(all="id > 3")
    assert ids(table) == rows
    in_transaction(all=True)
    assert ids(table) == []


def test_a_file_of_which_no_row_is_left_is_removed_and_gets_no_vector(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.delete("x < 5 and x != 9")  # no proof: floats
    result = table.delete("x >= 4")
    assert ids(table) == [*range(10, 20)]
    assert (result.metrics.files_removed, result.metrics.vectors) == (2, 0)
    assert not any("deletionVector" in line.get("add", {}) for line in last_commit(table))


def test_vectors_are_used_only_where_the_table_enables_them(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match="enableDeletionVectors"):
        table.delete("id = 1", row_mode="merge-on-read")
    assert table.snapshot().protocol.writer_features is None
    table.set_properties(VECTORS)
    protocol = table.snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert "deletionVectors" in (protocol.reader_features or ())
    assert table.delete("id = 1").metrics.vectors == 1
    assert table.delete("id = 2", row_mode="copy-on-write").metrics.rows_copied == 4
    table.unset_properties(["delta.enableDeletionVectors"])
    result = table.delete("id = 3")
    assert (result.metrics.vectors, result.metrics.rows_copied) == (0, 3), "a copy leaves dead rows out as well"
    assert ids(table) == [0, *range(4, 20)]


def test_a_vector_keeps_the_facts_of_its_file_and_is_below_a_random_prefix_if_data_files_are(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS, **{"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "4"})
    before = {add["path"]: add for add in table.snapshot().files("id = 3").to_pylist()}
    table.delete("id in (3, 15)")
    lines = last_commit(table)
    vectors = {line["add"]["deletionVector"]["pathOrInlineDv"] for line in lines if "add" in line}
    assert len(vectors) == 1, "one file for all vectors of a commit"
    for add in (line["add"] for line in lines if "add" in line and line["add"]["path"] in before):
        old = before[add["path"]]
        assert (add["size"], add["modificationTime"]) == (old["size"], old["modificationTime"])
        assert orjson.loads(add["stats"])["maxValues"] == orjson.loads(old["stats"])["maxValues"]
        assert add["dataChange"] is True
        assert len(add["deletionVector"]["pathOrInlineDv"]) == 24
    [found] = (tmp_path / "t").glob("????/deletion_vector_*.bin")
    assert found.stat().st_size > 40


def test_a_delete_finds_nan_that_the_bounds_of_another_writer_leave_out(tmp_path: Path) -> None:
    """NaN is greater than every number, and some writers leave it out of their bounds."""
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("x", pa.float64())]))
    name = tmp_path / "t" / "foreign.parquet"
    pq.write_table(pa.table({"x": [1.0, math.nan, 2.0]}), name)
    stats = orjson.dumps({"numRecords": 3, "minValues": {"x": 1.0}, "maxValues": {"x": 2.0}, "nullCount": {"x": 0}})
    commit_files(table, name.name, stats=stats.decode())
    assert table.delete("x > 100").metrics.rows_deleted == 1
    assert table.snapshot().to_arrow().column("x").to_pylist() == [1.0, 2.0]


def test_a_delete_reads_files_without_statistics(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.dataSkippingNumIndexedCols": "0", **VECTORS})
    assert table.delete("id = 13").metrics.rows_deleted == 1
    table.create_checkpoint()
    fresh = txlog.Table.open(table.uri)
    assert 13 not in ids(fresh)
    assert fresh.delete("id = 14").metrics.rows_deleted == 1
    assert 14 not in ids(fresh)


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_vectors_survive_checkpoints_checksums_and_compacted_logs(tmp_path: Path, policy: str) -> None:
    table = made(tmp_path, VECTORS, **{"delta.checkpointPolicy": policy})
    table.delete("id in (1, 2, 15)")
    table.create_checkpoint()
    assert 15 not in ids(txlog.Table.open(table.uri))
    table.delete("id = 16")
    table.compact_log()
    table.delete("id = 17")
    fresh = txlog.Table.open(table.uri)
    assert ids(fresh) == [0, *range(3, 15), 18, 19]
    assert fresh.delete("id = 18").metrics.dead_fraction == 0.4
    assert verify_table(table._open_table.store).findings == ()


def test_verify_finds_a_missing_torn_or_miscounted_vector(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.delete("id in (1, 15)")
    [file] = (tmp_path / "t").glob("*.bin")
    body = file.read_bytes()
    for damaged in (None, body[:-3], body[:9] + bytes([body[9] ^ 1]) + body[10:], b"\x02" + body[1:]):
        file.unlink()
        if damaged is not None:
            file.write_bytes(damaged)
        findings = verify_table(table._open_table.store).findings
        assert {finding.rule for finding in findings} == {"bad-vector"}, damaged
        assert all(finding.path == file.name and "at offset" in finding.message for finding in findings)
        file.write_bytes(body)
    assert verify_table(table._open_table.store).is_sound


@pytest.mark.parametrize(
    ("properties", "error", "match"),
    [
        ({"delta.appendOnly": "true"}, InvalidInputError, "append-only"),
    ],
)
def test_tables_that_forbid_row_changes_refuse_them_before_a_row_is_read(
    tmp_path: Path, properties: dict[str, str], error: type[Exception], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, properties)
    files = type(table._open_table.store.files)
    monkeypatch.setattr(files, "open", lambda self, path: pytest.fail(f"{path} was opened"))
    with pytest.raises(error, match=match):
        table.delete("x > 1")
    with pytest.raises(error, match=match):
        table.upsert(pa.table({"id": [1], "day": ["a"], "x": [1.0]}), ["id"])


RULES: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("checkConstraints", {}, {"delta.constraints.odd": "reflect(x) > 0"}),
    ("generatedColumns", {"day": {"delta.generationExpression": "reflect(id)"}}, {}),
    ("invariants", {"x": {"delta.invariants": '{"expression":{"expression":"reflect(x) > 0"}}'}}, {}),
]
"""Rules for new rows that another writer gave the table, and that txlog does not write or cannot evaluate: feature,
metadata of columns, properties."""
CHANGES: dict[str, Callable[[txlog.Table, pa.Table], Any]] = {
    "delete": lambda table, rows: table.delete("x > 1"),
    "update": lambda table, rows: table.update({"x": txlog.expr("x + 1")}),
    "upsert": lambda table, rows: table.upsert(rows, ["id"]),
    "merge": lambda table, rows: table.merge(rows, ["id"]).when_matched_delete().execute(),
    "overwrite": lambda table, rows: table.overwrite(rows, "id = 1"),
    "overwrite_partitions": lambda table, rows: table.overwrite_partitions(rows),
    "transaction": lambda table, rows: table.transaction().__enter__().delete("x > 1"),
}


RULES_OF_CHANGES = [
    pytest.param(change, *rule, id=f"{rule[0]}-{change}")
    for rule in RULES
    for change in CHANGES
    if not (rule[0] == "generatedColumns" and change in ("delete", "update", "merge", "transaction"))
]
"""A delete makes no row, and these changes set no column that the generated one is computed from."""


@pytest.mark.parametrize(("change", "feature", "columns", "given"), RULES_OF_CHANGES)
def test_tables_with_rules_for_new_rows_are_refused_before_a_row_is_read(
    tmp_path: Path, change: str, feature: str, columns: Any, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    for metadata in (line["metaData"] for line in lines if "metaData" in line):
        metadata["configuration"] |= given
        schema = orjson.loads(metadata["schemaString"])
        for field in schema["fields"]:
            field["metadata"] |= columns.get(field["name"], {})
        metadata["schemaString"] = orjson.dumps(schema).decode()
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature]}
    log.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    table = txlog.Table.open(table.uri)
    files = type(table._open_table.store.files)
    monkeypatch.setattr(files, "open", lambda self, path: pytest.fail(f"{path} was opened"))
    with pytest.raises(txlog.UnsupportedFeatureError) as caught:
        CHANGES[change](table, pa.table({"id": [1], "day": ["a"], "x": [-1.0]}))
    assert caught.value.features == (feature,)
    assert table.version == 2


def test_with_vectors_a_table_that_tracks_rows_keeps_their_ids(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableRowTracking": "true", **VECTORS})
    before = {add["path"]: add["baseRowId"] for add in table.snapshot().files().to_pylist()}
    table.delete("id in (3, 15)")
    assert {add["path"]: add["baseRowId"] for add in table.snapshot().files().to_pylist()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"row_mode": "vectors"},
        {"on_conflict": "retry"},
        {"app_id": "a"},
        {"read_version": -1},
        {"on_progress": 1},
        {"fingerprint": "f"},
        {"user_metadata": 1},
    ],
)
def test_arguments_that_mean_nothing_are_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError):
        table.delete("id = 1", **arguments)
    assert table.snapshot().version == 2


def test_a_delete_with_the_same_checkpoint_is_committed_once(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.delete("id = 1", app_id="gdpr", checkpoint_id=4)
    table.append(pa.table({"id": [1], "day": ["a"], "x": [0.5]}))
    again = table.delete("id = 1", app_id="gdpr", checkpoint_id=4)
    assert (again.outcome, again.version) == ("already_committed", first.version)
    assert 1 in ids(table)
    nothing = table.delete("id = 77", app_id="gdpr", checkpoint_id=5)
    assert nothing.outcome == "committed"
    assert table.snapshot().transaction_version("gdpr") == 5, "a checkpoint without a match is recorded as well"


def test_a_delete_as_of_a_version_conflicts_with_later_rows_that_it_would_have_deleted(tmp_path: Path) -> None:
    table = made(tmp_path)
    version = table.snapshot().version
    table.append(pa.table({"id": [300], "day": ["a"], "x": [0.5]}))
    table.delete("id = 11", read_version=version)
    with pytest.raises(ConcurrentAppendError):
        table.delete("id > 15", read_version=version)
    assert ids(table) == [*range(11), *range(12, 20), 300]
    with pytest.raises(NotFoundError):
        table.delete("id = 1", read_version=99)


def test_history_shows_what_a_delete_did_under_sparks_names(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.delete("id = 3", user_metadata="order 66")
    reported = table.history(1)[0]
    assert reported["operation"] == "DELETE"
    assert orjson.loads(reported["operationParameters"]["predicate"]) == ["(id = 3)"]
    assert reported["operationMetrics"]["numDeletedRows"] == "1"
    assert reported["operationMetrics"]["numDeletionVectorsAdded"] == "1"
    assert (reported["isBlindAppend"], reported["userMetadata"]) == (False, "order 66")


def test_progress_counts_files_looked_into(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    made(tmp_path).delete("x > 3", on_progress=lambda step, done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_timestamps_and_dates_are_proven_and_excluded_soundly(tmp_path: Path) -> None:
    """Statistics cut timestamps to milliseconds: a maximum stands for up to a millisecond more."""
    moment = datetime.datetime(2026, 1, 1, 0, 0, 0, 1500)
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("at", pa.timestamp("us"))]))
    table.append(pa.table({"at": pa.array([moment], pa.timestamp("us"))}))
    assert table.delete("at <= timestamp_ntz '2026-01-01 00:00:00.001'").version == 1
    assert table.delete("at > timestamp_ntz '2026-01-01 00:00:00.001'").metrics.rows_deleted == 1


@MODES
def test_a_delete_loses_no_row_if_another_writers_row_count_is_too_low(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    """Another writer's statistics say two rows, and two rows would go: the file has a third, so nothing is deleted."""
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("x", pa.float64())]), (), properties)
    name = tmp_path / "t" / "foreign.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), name)
    stats = orjson.dumps({"numRecords": 2}).decode()
    commit_files(table, name.name, stats=stats)
    with pytest.raises(txlog.errors.CorruptLogError, match="has 3 rows, and its statistics in the log say 2"):
        table.delete("x <= 2")
    assert txlog.Table.open(table.uri).version == 1


def test_files_of_mostly_deleted_rows_cause_one_warning_an_hour_for_each_handle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("x", pa.int64()), ("text", pa.string())]), (), VECTORS)
    for first in (0, 100):
        numbers = range(first, first + 100)
        table.append(pa.table({"x": numbers, "text": [random.Random(each).randbytes(9000).hex() for each in numbers]}))
    clock = StoppedClock()
    with ambient.use(clock), caplog.at_level(logging.WARNING, "txlog"):
        table.delete("x < 40")
        assert not caplog.records
        assert table.delete("x < 60").metrics.dead_fraction == 0.6
        assert "as of v4 a file is mostly dead rows (60 % in one file)" in caplog.text
        table.delete("x < 90")
        table.overwrite(pa.table({"x": [150], "text": ["z"]}), "x between 110 and 199")
        assert len(caplog.records) == 1, "warned within the hour"
        txlog.Table.open(table.uri).delete("x = 95")
        assert len(caplog.records) == 2, "another handle"
        clock.pass_hours(1)
        table.delete("x in (96, 106)")
        assert "2 files are mostly dead rows (92 % in one file)" in caplog.records[-1].getMessage()
        assert len(caplog.records) == 3


def test_small_files_of_mostly_deleted_rows_cause_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = made(tmp_path, VECTORS)
    with caplog.at_level(logging.WARNING, "txlog"):
        assert table.delete("id in (1, 3, 5, 7)").metrics.dead_fraction == 0.8
    assert not caplog.records


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_checkpoint_without_statistics_keeps_the_row_counts_of_files_with_dead_rows(
    tmp_path: Path, policy: str
) -> None:
    """The protocol requires ``numRecords`` of a file with a deletion vector, whatever statistics the table wants."""
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointPolicy": policy,
        "delta.checkpoint.writeStatsAsJson": "false",
        "delta.checkpoint.writeStatsAsStruct": "false",
    }
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]), properties=properties)
    table.append(pa.table({"id": range(10)}))
    table.append(pa.table({"id": range(10, 20)}))
    table.delete("id = 3")
    table.create_checkpoint()
    table = txlog.Table.open(tmp_path / "t")
    assert sorted(stats is None for stats in table.snapshot().files()["stats"].to_pylist()) == [False, True]
    assert table.verify().findings == ()
    assert table.count() == 19
