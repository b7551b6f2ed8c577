"""How many round trips a batch of Spark waits for on an object store: those of an append, and two for its plan."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from pyspark.sql.types import LongType, StructField, StructType

from tests.bucket import ROW, Bucket
from txlog.core.catalogs import _table_catalog as base
from txlog.core.writing import write_task
from txlog.core.writing.commit_options import CommitOptions
from txlog.spark import open_tables
from txlog.spark.options import parse_stream_options, parse_write_options
from txlog.spark.planning import commit, commit_batch, plan

SCHEMA = StructType([StructField("id", LongType())])
OPTIONS = parse_write_options({"path": "s3://bucket/t"})


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A table that this process has written to before."""
    found = Bucket(commits=3)
    monkeypatch.setattr(base, "open_store", lambda *place: found.trips.watched(found.store))
    open_tables._open.clear()
    batch(found)
    yield found
    open_tables._open.clear()


def batch(bucket: Bucket) -> None:
    job, _ = plan(OPTIONS, SCHEMA, overwrite=False)
    files = bucket.trips.watched(bucket.store).files
    commit(OPTIONS, job, [write_task(files, job.plan, job.task(), ROW)])


def test_a_batch_of_one_task_waits_for_two_more_than_an_append(bucket: Bucket) -> None:
    assert bucket.trips_of(lambda: batch(bucket)) == 2 + 2
    assert bucket.rows() == 5


def test_a_batch_that_another_process_has_committed_beside_is_planned_on_what_it_left(bucket: Bucket) -> None:
    bucket.opened().append(ROW)
    assert bucket.trips_of(lambda: batch(bucket)) <= 2 + 3  # the other one's commit is read, and the next is absent
    assert bucket.rows() == 6


def test_a_micro_batch_waits_for_a_look_beside_its_file_and_its_commit(bucket: Bucket) -> None:
    """Its plan is that of the query."""
    planned, _ = plan(OPTIONS, SCHEMA, overwrite=False)
    options = parse_stream_options({"path": "s3://bucket/t", "checkpointLocation": "no folder"})
    files = bucket.trips.watched(bucket.store).files

    def micro_batch(number: int) -> None:
        job = replace(planned, commit=CommitOptions("query", number))
        task = replace(job.task(), app_id="query", checkpoint_id=number)
        commit_batch(options, job, [write_task(files, job.plan, task, ROW)])

    micro_batch(1)
    assert bucket.trips_of(lambda: micro_batch(2)) == 3
    assert bucket.rows() == 6
