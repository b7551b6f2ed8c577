"""A job without checkpoints: `Sink.once` writes once for each key, and `Sink.committed` asks before rows are made."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import deltalake
import duckdb
import pyarrow as pa
import pytest

import txlog

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.int64())])


def rows_of(*ids: int, amount: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "amount": [amount] * len(ids)}, schema=SCHEMA)


def ids_of(table: txlog.Table) -> list[int]:
    return sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table().column("id").to_pylist())


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=SCHEMA)


def test_a_job_that_runs_again_for_its_key_adds_nothing(table: txlog.Table) -> None:
    first = txlog.Sink(table, "daily").once("2026-11-20", rows_of(1, 2))
    again = txlog.Sink(txlog.Table.open(table.uri), "daily").once("2026-11-20", rows_of(1, 2))
    assert (first.outcome, again.outcome, again.version) == ("committed", "already_committed", first.version)
    assert ids_of(table) == [1, 2]


def test_keys_need_no_order(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "daily")
    for day in (20, 18, 19, 18):
        sink.once(f"2026-11-{day}", rows_of(day))
    assert ids_of(table) == [18, 19, 20]


def test_rows_of_a_key_that_the_table_has_are_not_made(table: txlog.Table) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        raise AssertionError("the rows were made")
        yield

    sink = txlog.Sink(table, "daily")
    sink.once("a", rows_of(1))
    assert sink.once("a", rows()).outcome == "already_committed"


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_of_two_runs_at_the_same_time_one_lands(table: txlog.Table, mode: str) -> None:
    table.append(rows_of(1, amount=7))

    def rows() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1, 2, amount=0).to_batches()
        other = txlog.Sink(txlog.Table.open(table.uri), "daily", mode=mode)
        assert other.once("a", rows_of(1, 2)).outcome == "committed"

    assert txlog.Sink(table, "daily", mode=mode).once("a", rows()).outcome == "already_committed"
    assert ids_of(table) == ([1, 1, 2] if mode == "append" else [1, 2])
    assert 0 not in table.to_arrow().column("amount").to_pylist()


def test_a_run_without_rows_counts_as_done(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "daily")
    assert sink.once("a", rows_of()).outcome == "committed"
    assert sink.once("a", rows_of(1)).outcome == "already_committed"
    assert ids_of(table) == []


def test_a_run_that_fails_is_not_done(table: txlog.Table) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1).to_batches()
        raise RuntimeError("the source is down")

    sink = txlog.Sink(table, "daily")
    with pytest.raises(RuntimeError):
        sink.once("a", rows())
    assert sink.committed("a") is None
    sink.once("a", rows_of(1, 2))
    assert ids_of(table) == [1, 2]


def test_jobs_and_keys_share_no_record(table: txlog.Table) -> None:
    for job, key in (("a", "b#c"), ("a#b", "c"), ("a%23b", "c"), ("a", "b"), ("b", "a")):
        assert txlog.Sink(table, job).once(key, rows_of(1)).outcome == "committed"
    assert deltalake.DeltaTable(table.uri).transaction_version("a#b") == 0


def test_a_key_whose_record_expired_counts_as_new(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "daily")
    sink.once("a", rows_of(1))
    table.set_properties({"delta.setTransactionRetentionDuration": "interval 0 seconds"})
    assert sink.once("a", rows_of(1)).outcome == "already_committed"
    table.create_checkpoint()
    reopened = txlog.Table.open(table.uri)
    assert txlog.Sink(reopened, "daily").committed("a") is None


def test_rows_of_duckdb_are_taken_once(table: txlog.Table) -> None:
    daily = duckdb.sql("select 1::bigint as id, 5::bigint as amount")
    assert txlog.Sink(table, "dbt").once("a", daily).metrics.rows == 1
    assert txlog.Sink(table, "dbt").once("a", daily).outcome == "already_committed"
    assert duckdb.from_arrow(table.to_dataset()).fetchall() == [(1, 5)]


def test_many_tasks_write_for_one_key(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "daily", user_metadata="nightly").for_key("a")
    written = []
    for task_id in range(3):
        with pickle.loads(pickle.dumps(sink)).task(0, task_id) as task:
            task.write(rows_of(task_id))
        written.append(task.committable)
    assert sink.commit(0, written).outcome == "committed"
    assert sink.commit(0, written).outcome == "already_committed"
    assert ids_of(table) == [0, 1, 2]
    assert table.history(1)[0]["userMetadata"] == "nightly"


def test_a_sink_says_whether_a_checkpoint_is_committed(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "stream")
    assert sink.committed(3) is None
    with sink.task(3) as task:
        task.write(rows_of(1))
    version = sink.commit(3, [task.committable]).version
    told = txlog.Sink(txlog.Table.open(table.uri), "stream").committed(3)
    assert told is not None
    assert (told.outcome, told.version) == ("already_committed", version)
    with pytest.raises(txlog.InvalidInputError, match="older than the last one"):
        sink.committed(2)


@pytest.mark.parametrize("key", ["", 7, None, "\ud800"])
def test_a_key_that_is_no_text_is_refused(table: txlog.Table, key: object) -> None:
    with pytest.raises(txlog.InvalidInputError, match="key"):
        txlog.Sink(table, "daily").once(key, rows_of(1))
