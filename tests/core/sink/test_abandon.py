"""A checkpoint that cannot be committed is given up, and the stream behind it continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int8())])


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=SCHEMA)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": [1] * len(ids)}, SCHEMA)


def sealed(sink: txlog.Sink, checkpoint_id: int, *ids: int, fingerprint: str | None = None) -> list[str]:
    """A checkpoint of one task for each id; the paths of its files."""
    paths = []
    for task_id, number in enumerate(ids):
        with sink.task(checkpoint_id, task_id) as task:
            task.write(rows(number))
        sink.stage(task.committable)
        paths += [file.path for file in (*task.committable.files, *task.committable.keys)]
    sink.prepare(checkpoint_id, range(len(ids)), fingerprint=fingerprint)
    return sorted(paths)


def ids_of(table: txlog.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def staging_of(table: txlog.Table) -> list[str]:
    return sorted(path.name for path in (Path(table.uri) / "_txlog" / "staging").iterdir())


def test_a_stuck_stream_continues_after_an_abandoned_checkpoint(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    paths = sealed(sink, 1, 1, 2)
    sealed(sink, 2, 3)
    Path(table.uri, paths[0]).unlink()
    with pytest.raises(txlog.NotFoundError, match=r"sink\.abandon\(1\) continues without its rows"):
        sink.recover()
    with pytest.raises(txlog.InvalidInputError, match=r"2 has to wait.*sink\.abandon\(1\)"):
        sink.commit(2)
    found = sink.abandon(1)
    assert (found.checkpoint_id, found.was_sealed, found.tasks, found.rows) == (1, True, 2, 2)
    assert found.files == tuple(paths)
    assert str(found) == "checkpoint 1 given up: 2 rows of 2 tasks"
    assert (found.result.outcome, found.result.version) == ("committed", 1)
    assert pq.read_table(Path(table.uri, paths[1]), partitioning=None)["id"].to_pylist() == [2], "it is still there"
    assert list(txlog.Sink(table, "app").recover().results) == [2]
    assert (ids_of(table), sink.last_checkpoint_id(), staging_of(table)) == ([3], 2, [])


def test_a_replay_of_an_abandoned_checkpoint_writes_nothing(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    sealed(sink, 7, 1, fingerprint="offsets 1 to 9")
    sink.abandon(7)
    again = txlog.Sink(table, "app")
    with again.task(7) as task:
        task.write(rows(1))
    assert again.prepare(7, [task.committable], fingerprint="offsets 1 to 9") is None
    assert again.commit(7, [task.committable]).outcome == "already_committed"
    assert (ids_of(table), table.version) == ([], 1)
    with pytest.raises(txlog.InvalidInputError, match="made from other input"):
        again.prepare(7, [task.committable], fingerprint="offsets 2 to 9")


def test_a_checkpoint_that_is_in_the_table_is_not_given_up(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    sealed(sink, 1, 5)
    sink.commit(1)
    found = sink.abandon(1)
    assert (found.result.outcome, found.result.version, found.rows, found.files) == ("already_committed", 1, 0, ())
    assert "nothing was given up" in str(found)
    assert (ids_of(table), table.version) == ([5], 1)


def test_staging_that_outlived_its_commit_is_not_reported_as_given_up(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    sealed(sink, 1, 5)
    left = {path: path.read_bytes() for path in (Path(table.uri) / "_txlog" / "staging").iterdir()}
    sink.commit(1)
    for path, body in left.items():
        path.write_bytes(body)
    found = sink.abandon(1)
    assert (found.result.outcome, found.rows, found.tasks, found.files) == ("already_committed", 0, 0, ())
    assert (ids_of(table), staging_of(table)) == ([5], [])


def test_checkpoints_are_given_up_in_order(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    sealed(sink, 1, 1)
    sealed(sink, 2, 2)
    with pytest.raises(txlog.InvalidInputError, match=r"checkpoint 1 .* 2 has to wait"):
        sink.abandon(2)
    sink.abandon(1)
    sink.abandon(2)
    with pytest.raises(txlog.InvalidInputError, match="older than the last one"):
        sink.abandon(0)
    with pytest.raises(txlog.InvalidInputError, match="checkpoint_id"):
        sink.abandon(-1)


def test_work_that_was_not_sealed_and_checkpoints_without_any_are_given_up_too(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    for attempt, number in enumerate((1, 2)):
        with sink.task(4, 0, attempt) as task:
            task.write(rows(number, number))
        sink.stage(task.committable)
    found = sink.abandon(4)
    assert (found.was_sealed, found.tasks, found.rows) == (False, 1, 2)
    assert found.files == tuple(file.path for file in task.committable.files), "those of the last attempt"
    assert staging_of(table) == []
    nothing = sink.abandon(5)
    assert (nothing.result.outcome, nothing.tasks, nothing.files) == ("committed", 0, ())
    assert sink.last_checkpoint_id() == 5


def test_work_of_earlier_checkpoints_that_was_never_sealed_goes_with_an_abandoned_one(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    with sink.task(1, 0) as task:
        task.write(rows(1))
    sink.stage(task.committable)
    sealed(sink, 2, 2)
    sink.abandon(2)
    assert staging_of(table) == []


def test_staged_work_that_cannot_be_read_is_given_up(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    sealed(sink, 1, 1, 2)
    for path in (Path(table.uri) / "_txlog" / "staging").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(txlog.InvalidInputError):
        sink.recover()
    found = sink.abandon(1)
    assert (found.result.outcome, found.was_sealed, found.files) == ("committed", False, ())
    assert staging_of(table) == []
