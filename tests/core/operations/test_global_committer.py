"""`GlobalCommitter`: the version a checkpoint is judged from, and what two committers do to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.core.definition import create_table
from txlog.core.format.schema import from_arrow
from txlog.core.operations._global_committer import GlobalCommitter
from txlog.core.operations._write_options import WriteOptions
from txlog.core.operations._write_planning import plan_write
from txlog.core.versions import OpenTable
from txlog.core.writing import WriteJob, open_data, write_task
from txlog.core.writing.commit_options import CommitOptions
from txlog.core.writing.committable import Committable
from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64())])


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids_of(open_table: OpenTable) -> list[int]:
    return sorted(Table(open_table).snapshot().to_arrow().column("id").to_pylist())


def planned(open_table: OpenTable, **options: Any) -> WriteJob:
    return plan_write(open_table, SCHEMA, WriteOptions(**options))


def written(open_table: OpenTable, job: WriteJob, *ids: int, task_id: int = 0) -> Committable:
    return write_task(open_table.store.files, job.plan, job.task(task_id), open_data(rows_of(*ids)))


def committed(open_table: OpenTable, *ids: int, **options: Any) -> txlog.WriteResult:
    """One write from its plan to its commit."""
    job = planned(open_table, **options)
    return GlobalCommitter(open_table).commit(job, [written(open_table, job, *ids)])


OpenHandle = Callable[..., OpenTable]


@pytest.fixture
def open_table(open_handle: OpenHandle) -> OpenTable:
    """A table with the row 1, at version 0."""
    open_table = open_handle()
    committed(open_table, 1, create=True)
    return open_table


def test_tasks_of_one_job_are_one_version(open_table: OpenTable) -> None:
    job = planned(open_table)
    result = GlobalCommitter(open_table).commit(
        job, [written(open_table, job, task, task_id=task) for task in range(5, 8)]
    )
    assert (result.version, result.metrics.files, result.metrics.rows) == (1, 3, 3)
    assert ids_of(open_table) == [1, 5, 6, 7]


def test_an_append_lands_on_what_others_committed_since_its_planning(
    open_table: OpenTable, open_handle: OpenHandle
) -> None:
    job = planned(open_table)
    committable = written(open_table, job, 2)
    committed(open_handle(), 3)
    committed(open_handle(), 4, mode="overwrite")
    result = GlobalCommitter(open_table).commit(job, [committable])
    assert result.version == 3
    assert ids_of(open_table) == [2, 4]


def test_an_append_planned_on_another_definition_is_a_conflict(open_table: OpenTable, open_handle: OpenHandle) -> None:
    job = planned(open_table)
    committable = written(open_table, job, 2)
    Table(open_table).add_columns(pa.schema([("new", pa.int8())]))  # by the same handle: its head has moved
    with pytest.raises(txlog.MetadataChangedError):
        GlobalCommitter(open_table).commit(job, [committable])
    assert ids_of(open_table) == [1]


def test_an_append_planned_on_another_protocol_with_the_same_metadata_is_a_conflict(open_table: OpenTable) -> None:
    job = planned(open_table)
    committable = written(open_table, job, 2)
    log = open_table.store.log
    log.put_if_absent(f"{1:020d}.json", b'{"protocol":{"minReaderVersion":1,"minWriterVersion":3}}\n')
    after = open_table.log.newest_state()
    assert (after.metadata, after.protocol != job.base_protocol) == (job.base_metadata, True)
    with pytest.raises(txlog.ProtocolChangedError):
        GlobalCommitter(open_table).commit(job, [committable])
    assert ids_of(open_table) == [1]


@pytest.mark.parametrize("value", ["", None])
def test_a_committable_with_nothing_in_a_not_null_partition_column_is_refused(
    open_handle: OpenHandle, value: str | None
) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    open_table = open_handle()
    create_table(open_table, schema, ("day",), None)
    job = plan_write(open_table, schema, WriteOptions())
    rows = pa.table({"id": [1], "day": ["a"]}, schema)
    honest = write_task(open_table.store.files, job.plan, job.task(0), open_data(rows))
    empty = replace(honest, files=tuple(replace(file, partition_values={"day": value}) for file in honest.files))
    with pytest.raises(txlog.InvalidInputError, match="day, which is NOT NULL"):
        GlobalCommitter(open_table).commit(job, [empty])
    assert GlobalCommitter(open_table).commit(job, [honest]).version == 1


def test_an_overwrite_replaces_what_it_was_planned_on(open_table: OpenTable, open_handle: OpenHandle) -> None:
    """An append that it did not see is kept: it counts as having come after, which WriteSerializable allows."""
    job = planned(open_table, mode="overwrite")
    committable = written(open_table, job, 2)
    committed(open_table, 3)
    result = GlobalCommitter(open_table).commit(job, [committable])
    assert (result.version, result.metrics.files_removed) == (2, 1)
    assert ids_of(open_table) == [2, 3]


def test_of_two_overwrites_planned_on_one_version_one_lands(open_table: OpenTable, open_handle: OpenHandle) -> None:
    first, second = planned(open_table, mode="overwrite"), planned(open_handle(), mode="overwrite")
    of_second = written(open_table, second, 3)
    GlobalCommitter(open_table).commit(first, [written(open_table, first, 2)])
    with pytest.raises(txlog.ConflictError) as caught:
        GlobalCommitter(open_handle()).commit(second, [of_second])
    assert caught.value.winner_version == 1
    assert ids_of(open_table) == [2]


def test_an_overwrite_planned_on_a_version_that_was_cleaned_up_is_a_conflict(
    open_table: OpenTable, scripted_log: Any, open_handle: OpenHandle
) -> None:
    job = planned(open_table, mode="overwrite")
    committable = written(open_table, job, 2)
    committed(open_table, 3)
    Table(open_table).create_checkpoint()
    scripted_log.inner.delete(f"{0:020}.json")
    with pytest.raises(txlog.ConflictError, match="cleaned up"):
        GlobalCommitter(open_handle()).commit(job, [committable])
    assert ids_of(open_table) == [1, 3]


# --- checkpoints ----------------------------------------------------------------------------------------------------


def test_a_replay_is_answered_before_a_row_is_written(open_table: OpenTable) -> None:
    committed(open_table, 2, commit=CommitOptions("app", 1))
    job = planned(open_table, commit=CommitOptions("app", 1))
    replay = GlobalCommitter(open_table).replay_of(job)
    assert replay is not None
    assert (replay.outcome, replay.version, replay.metrics.rows) == ("already_committed", 1, 0)
    assert GlobalCommitter(open_table).replay_of(replace(job, commit=CommitOptions("app", 2))) is None
    assert GlobalCommitter(open_table).replay_of(planned(open_table)) is None


def test_a_zombie_with_the_same_checkpoint_finds_it_committed(open_table: OpenTable, open_handle: OpenHandle) -> None:
    zombie = planned(open_table, commit=CommitOptions("app", 1))
    of_zombie = written(open_table, zombie, 2)
    committed(open_handle(), 2, commit=CommitOptions("app", 1))
    result = GlobalCommitter(open_table).commit(zombie, [of_zombie])
    assert (result.outcome, result.version, result.metrics.rows) == ("already_committed", 1, 0)
    assert ids_of(open_table) == [1, 2]


def test_a_zombie_behind_its_successor_is_refused_unless_the_log_proves_a_replay(
    open_table: OpenTable, open_handle: OpenHandle
) -> None:
    zombie = planned(open_table, commit=CommitOptions("app", 1))
    of_zombie = written(open_table, zombie, 2)
    late = planned(open_table, commit=CommitOptions("app", 2))
    of_late = written(open_table, late, 9)
    committed(open_handle(), 2, commit=CommitOptions("app", 1))
    committed(open_handle(), 3, commit=CommitOptions("app", 3))
    assert GlobalCommitter(open_table).commit(zombie, [of_zombie]).version == 1
    with pytest.raises(txlog.TxlogError, match="app"):
        GlobalCommitter(open_table).commit(late, [of_late])
    assert ids_of(open_table) == [1, 2, 3]


def test_a_zombie_with_other_work_under_the_same_checkpoint_is_refused(
    open_table: OpenTable, open_handle: OpenHandle
) -> None:
    zombie = planned(open_table, commit=CommitOptions("app", 1, "0-10"))
    of_zombie = written(open_table, zombie, 2)
    committed(open_handle(), 3, commit=CommitOptions("app", 1, "0-12"))
    with pytest.raises(txlog.TxlogError, match="0-12"):
        GlobalCommitter(open_table).commit(zombie, [of_zombie])
    assert ids_of(open_table) == [1, 3]


# --- creating -------------------------------------------------------------------------------------------------------


def test_the_second_of_two_jobs_that_create_a_table_writes_to_the_firsts_table(open_handle: OpenHandle) -> None:
    first, second = open_handle(), open_handle()
    job_of_first, job_of_second = planned(first, create=True), planned(second, create=True)
    of_second = written(second, job_of_second, 2)
    GlobalCommitter(first).commit(job_of_first, [written(first, job_of_first, 1)])
    assert GlobalCommitter(second).commit(job_of_second, [of_second]).version == 1
    assert ids_of(open_handle()) == [1, 2]


@pytest.mark.parametrize(
    ("rival", "agrees"),
    [
        ({"schema": SCHEMA}, True),
        ({"schema": SCHEMA, "properties": {"delta.appendOnly": "true"}}, True),
        ({"schema": pa.schema([("id", pa.int32())])}, False),
        ({"schema": pa.schema([("id", pa.int64()), ("more", pa.int8())])}, False),
        ({"schema": pa.schema([("id", pa.int64(), False)])}, False),
    ],
)
def test_files_planned_for_a_new_table_are_committed_to_a_rivals_table_only_if_they_fit(
    rival: dict[str, Any], agrees: bool, open_handle: OpenHandle
) -> None:
    open_table, other = open_handle(), open_handle()
    job = planned(open_table, create=True)
    committable = written(open_table, job, 1)
    theirs = plan_write(other, rival["schema"], WriteOptions(create=True, properties=rival.get("properties", {})))
    GlobalCommitter(other).commit(theirs, [])
    if agrees:
        assert GlobalCommitter(open_table).commit(job, [committable]).version == 1
        assert ids_of(open_handle()) == [1]
        return
    with pytest.raises(txlog.ProtocolChangedError):
        GlobalCommitter(open_table).commit(job, [committable])
    assert Table(open_handle()).snapshot().version == 0


def test_a_first_write_with_other_properties_than_a_rivals_new_table_conflicts(open_handle: OpenHandle) -> None:
    open_table, other = open_handle(), open_handle()
    job = planned(open_table, create=True, properties={"delta.appendOnly": "true"})
    committable = written(open_table, job, 1)
    committed(other, 2, create=True)
    with pytest.raises(txlog.ProtocolChangedError):
        GlobalCommitter(open_table).commit(job, [committable])
    assert ids_of(open_handle()) == [2]


def test_a_twin_that_created_the_table_with_this_checkpoint_makes_it_a_replay(open_handle: OpenHandle) -> None:
    open_table, twin = open_handle(), open_handle()
    job = planned(open_table, create=True, commit=CommitOptions("app", 0))
    committable = written(open_table, job, 1)
    committed(twin, 1, create=True, commit=CommitOptions("app", 0))
    result = GlobalCommitter(open_table).commit(job, [committable])
    assert (result.outcome, result.version) == ("already_committed", 0)
    assert ids_of(open_handle()) == [1]


def test_a_table_that_must_be_new_is_refused_when_another_is_first(open_handle: OpenHandle) -> None:
    open_table, other = open_handle(), open_handle()
    job = planned(open_table, create=True, must_create=True)
    committable = written(open_table, job, 1)
    committed(other, 2, create=True)
    with pytest.raises(txlog.TableExistsError):
        GlobalCommitter(open_table).commit(job, [committable])
    assert ids_of(open_handle()) == [2]


def test_planning_a_write_to_a_missing_table_is_refused_unless_it_may_create_one(open_handle: OpenHandle) -> None:
    with pytest.raises(txlog.TableNotFoundError):
        planned(open_handle())


def test_the_plan_carries_the_tables_schema(open_table: OpenTable) -> None:
    assert planned(open_table).plan.schema == from_arrow(SCHEMA)
