"""How many round trips each command waits for, one after another, in a table that is in an object store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import txlog
from tests.bucket import ROW, Bucket
from tests.round_trips import RoundTrips
from tests.timed_commands import COMMANDS, COPIES, FILE_ROWS, FILES, VECTORS, Command, rows_of
from txlog.core.format.log_names import checkpoint_name, multipart_names
from txlog.core.store import _local_disk
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.checkpoint import columns as checkpoint_columns


def bucket_of(command: Command) -> Bucket:
    return Bucket(
        FILES,
        of=lambda commit: rows_of(range(commit * FILE_ROWS, (commit + 1) * FILE_ROWS)),
        properties=command.properties,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_waits_for_no_more_round_trips_than_it_must(name: str) -> None:
    command = COMMANDS[name]
    bucket = bucket_of(command)
    table = bucket.opened()
    table.append(rows_of([100_000]))
    table._open_table.post_commit.drain()
    work = command.ready(table, bucket.opened)
    assert bucket.trips_of(work) == command.trips, bucket.trips.requests


@pytest.mark.parametrize(
    ("trips", "work"),
    [
        (4, lambda table, opened: opened().append(ROW)),
        (4, lambda table, opened: opened().to_arrow()),
        (4, lambda table, opened: table.changes(23, 23).read_all()),
        (6, lambda table, opened: table.vacuum()),  # it also tries the store's condition, as any first commit
    ],
    ids=["open and append", "open and read", "changes", "vacuum that finds nothing"],
)
def test_checkpoints_in_the_log_cost_no_command_a_round_trip(trips: int, work: Callable[..., object]) -> None:
    """24 commits, and checkpoints of versions 10 and 20: the commits since are asked for beside the list that shows
    them, and no older checkpoint is read where nothing is to be deleted."""
    bucket = Bucket(24, properties={"delta.enableChangeDataFeed": "true"})
    table = bucket.opened()
    assert bucket.trips_of(lambda: work(table, bucket.opened)) == trips, bucket.trips.requests


@pytest.mark.parametrize("name", ["append", "append of a checkpoint", "append of a reader"])
def test_an_append_that_lost_a_race_waits_for_two_more(name: str) -> None:
    bucket = bucket_of(COMMANDS[name])
    table, rival = bucket.opened(), txlog.Table(OpenTable(bucket.store))
    table.append(ROW)
    bucket.files.after_write.append(lambda: rival.append(ROW))
    assert bucket.trips_of(COMMANDS[name].ready(table, bucket.opened)) == 2 + 2


@pytest.mark.parametrize("properties", [COPIES, VECTORS], ids=["copies", "vectors"])
@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delete("id = 3"),
        lambda table: table.upsert(rows_of([3]), keys=["id"]),
        lambda table: table.update({"id": txlog.expr("id + 1000")}, "id = 3"),
    ],
    ids=["delete", "upsert", "update"],
)
def test_a_row_change_that_lost_a_race_to_an_append_looks_only_into_its_file(
    change: Callable[[txlog.Table], Any], properties: dict[str, str]
) -> None:
    """The winner, the file that it added (and for an upsert again the list of files, as nobody held it), the commit."""
    bucket = bucket_of(Command(0, lambda table, opened: table.history, properties))
    table, rival = bucket.opened(), txlog.Table(OpenTable(bucket.store))
    table.append(rows_of([100_000]))
    bucket.files.after_write.append(lambda: rival.append(rows_of([1_000_000])))
    assert bucket.trips_of(lambda: change(table)) <= 4 + 2, bucket.trips.requests
    assert bucket.opened().count("id >= 100000") == 2


PARTS = 5


def in_parts(bucket: Bucket, version: int) -> None:
    """The checkpoint of this version as a writer of many parts would have made it."""
    whole = pq.ParquetFile(pa.BufferReader(bucket.log.read(checkpoint_name(version)))).read()
    for number, name in enumerate(multipart_names(version, PARTS)):
        sink = pa.BufferOutputStream()
        pq.write_table(whole.take(list(range(number, len(whole), PARTS))), sink)
        bucket.log.put(name, sink.getvalue().to_pybytes())
    bucket.log.delete(checkpoint_name(version))
    bucket.log.delete("_last_checkpoint")


def without_checksums(bucket: Bucket) -> None:
    for name in [name for name in bucket.log.objects if name.endswith(".crc")]:
        bucket.log.delete(name)


def test_the_parts_of_a_checkpoint_are_read_at_the_same_time() -> None:
    bucket = Bucket(10)
    in_parts(bucket, 10)
    without_checksums(bucket)
    assert bucket.trips_of(bucket.opened) == 3  # the hint, the list, the parts
    table = bucket.opened()
    assert bucket.trips_of(lambda: table.snapshot().files()) == 2  # the look, the parts
    assert bucket.trips.requests_of("open") == PARTS


def test_the_sidecars_of_a_checkpoint_are_read_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_columns, "ROW_GROUP_ROWS", 2)
    monkeypatch.setattr(checkpoint_columns, "ROW_GROUP_ROWS_MIN", 2)
    bucket = Bucket(10, properties={"delta.checkpointPolicy": "v2"})
    without_checksums(bucket)
    assert len([name for name in bucket.log.objects if name.startswith("_sidecars/")]) >= 4
    assert bucket.trips_of(bucket.opened) == 3  # the hint, the list, the top-level file
    table = bucket.opened()
    assert bucket.trips_of(lambda: table.snapshot().files()) == 3  # the look, the top-level file, the sidecars


PARTITIONS = 48
DAYS = pa.schema([("id", pa.int64()), ("day", pa.int64())])
ODD = "id % 2 = 1"


def _rows_of_days(days: int, each: int) -> pa.Table:
    return pa.table({"id": range(each * days), "day": [number // each for number in range(each * days)]}, DAYS)


def _optimized(table: txlog.Table, rows: pa.Table) -> Callable[[], object]:
    table.append(rows)
    return table.optimize


def _purged(table: txlog.Table, rows: pa.Table) -> Callable[[], object]:
    table.delete(ODD)
    return table.purge


def _unmapped(table: txlog.Table, rows: pa.Table) -> Callable[[], object]:
    return lambda: table.drop_feature("columnMapping")


CHANGES_OF_PARTITIONS: dict[str, tuple[Mapping[str, str], Callable[[txlog.Table, pa.Table], Callable[[], object]]]] = {
    "append": (COPIES, lambda table, rows: lambda: table.append(rows)),
    "overwrite": (COPIES, lambda table, rows: lambda: table.overwrite(rows)),
    "delete by copies": (COPIES, lambda table, rows: lambda: table.delete(ODD)),
    "delete by vectors": (VECTORS, lambda table, rows: lambda: table.delete(ODD)),
    "update by copies": (COPIES, lambda table, rows: lambda: table.update({"id": txlog.expr("id + 1000")}, ODD)),
    "update by vectors": (VECTORS, lambda table, rows: lambda: table.update({"id": txlog.expr("id + 1000")}, ODD)),
    "upsert by copies": (COPIES, lambda table, rows: lambda: table.upsert(rows, keys=["day", "id"])),
    "merge by copies": (
        COPIES,
        lambda table, rows: (
            table.merge(rows, "source.id = target.id").when_matched_update({"id": txlog.expr("-target.id")}).execute
        ),
    ),
    "optimize": (COPIES, _optimized),
    "purge": (VECTORS, _purged),
    "drop of the mapping": ({"delta.columnMapping.mode": "name"}, _unmapped),
}


@pytest.mark.parametrize("name", CHANGES_OF_PARTITIONS)
def test_a_change_of_many_partitions_waits_for_the_disk_about_as_often_as_their_append(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that one version names are synced at the same time, whatever writes them."""
    trips, sync = RoundTrips(), _local_disk.fsync

    def counted(descriptor: int) -> None:
        trips.asks("sync")
        sync(descriptor)

    monkeypatch.setattr(_local_disk, "fsync", counted)

    def syncs_of(name: str, folder: str) -> int:
        properties, ready = CHANGES_OF_PARTITIONS[name]
        table = txlog.Table.create(tmp_path / folder, DAYS, ["day"], properties)
        table.append(_rows_of_days(PARTITIONS, 2))
        work = ready(table, _rows_of_days(PARTITIONS, 1))
        table._open_table.post_commit.drain()
        with trips.of():
            work()
            return trips.count

    assert syncs_of(name, "changed") <= 1.5 * syncs_of("append", "appended"), trips.requests


MANY = 96


@pytest.mark.parametrize(
    ("name", "trips"),
    [
        ("append", 4),
        ("update by copies", 7),
        ("update by vectors", 7),
        ("upsert by copies", 5),
        ("optimize", 9),
        ("purge", 11),
    ],
)
def test_small_files_of_many_partitions_share_round_trips_to_a_store(name: str, trips: int) -> None:
    """32 files are written at a time, and 64 are looked into."""
    properties, ready = CHANGES_OF_PARTITIONS[name]
    bucket = Bucket(schema=DAYS, partition_by=["day"], properties=properties)
    table = bucket.opened()
    table.append(_rows_of_days(MANY, 2))
    work = ready(table, _rows_of_days(MANY, 1))
    table._open_table.post_commit.drain()
    assert bucket.trips_of(work) == trips, bucket.trips.requests


@pytest.mark.parametrize(("zorder_by", "trips"), [(None, 7), (["id", "day"], 9)], ids=["compact", "cluster"])
def test_small_files_are_fetched_at_the_same_time_to_be_rewritten(zorder_by: list[str] | None, trips: int) -> None:
    bucket = Bucket(schema=DAYS)
    table = bucket.opened()
    for day in range(20):
        table.append(pa.table({"id": [-day], "day": [day]}, DAYS))
    table._open_table.post_commit.drain()
    assert bucket.trips_of(lambda: table.optimize(zorder_by=zorder_by)) == trips, bucket.trips.requests
