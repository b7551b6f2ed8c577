"""A handle as a value: pickled, printed, given to other libraries."""

from __future__ import annotations

import gc
import pickle
import shutil
import time
import weakref
from pathlib import Path

import polars as pl
import pyarrow as pa
from small_table import SCHEMA, ids_of, rows_of

import txlog
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.table import Table


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


def test_a_table_is_an_arrow_stream_of_its_newest_version(table: Table) -> None:
    table.append(rows_of(1))
    frame = pl.DataFrame(table)
    table.append(rows_of(2))
    assert (frame["id"].to_list(), sorted(pa.table(table)["id"].to_pylist())) == ([1], [1, 2])
    assert (table.version, table.schema) == (2, table.snapshot().schema)


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


def test_an_unused_handle_is_freed_immediately(table: Table) -> None:
    """By reference counts alone: the garbage collector may run much later, and a handle keeps lists of files."""
    handle = Table.open(table.uri)
    handle.append(rows_of(1, 2))
    handle.snapshot().to_arrow()
    handle._open_table.post_commit.drain()
    parts = [weakref.ref(part) for part in (handle._open_table, handle._open_table.log)]
    gc.collect()
    gc.disable()
    try:
        del handle
        deadline_s = time.monotonic() + 10
        while any(part() is not None for part in parts) and time.monotonic() < deadline_s:
            time.sleep(0.01)  # a thread may be about to let go of the last commit's work
        assert [part() for part in parts] == [None] * 2
    finally:
        gc.enable()
