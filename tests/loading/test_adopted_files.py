"""What no reader would take is refused before it is sent: actions made by hand, and commits beyond all limits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.commit_file import DEFAULT_LIMITS, LogLimits, parse_commit, require_within
from txlog.core.store._local_store import local_table_store
from txlog.core.versions.files import DeltaLog
from txlog.errors import InvalidInputError
from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
ROWS = pa.table({"id": [1, 2], "day": ["a", "a"]}, SCHEMA)
INLINE = DeletionVectorDescriptor("i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 44, 6)
"""Rows 3, 4, 7, 11, 18 and 29."""


@pytest.fixture
def table(make_table: Callable[..., Table]) -> Table:
    return make_table(ROWS, SCHEMA, partition_by=["day"])


@pytest.fixture
def by_hand(table: Table) -> AddFile:
    """A file that lies in the table's directory and that no commit names."""
    path = Path(table.uri) / "day=a" / "by-hand.parquet"
    pq.write_table(ROWS.drop(["day"]), path)
    return AddFile("day=a/by-hand.parquet", {"day": "a"}, path.stat().st_size, 1, True, '{"numRecords":2}')


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tags that are a list": ({"tags": ["a"]}, "tags"),
    "a tag that is a number": ({"tags": {"a": 1}}, "tags"),
    "a row id that is text": ({"base_row_id": "7"}, "baseRowId"),
    "a negative row id": ({"base_row_id": -1}, "baseRowId"),
    "a commit version that is a fraction": ({"default_row_commit_version": 1.5}, "defaultRowCommitVersion"),
    "dataChange that is text": ({"data_change": "true"}, "dataChange"),
    "dataChange that is a number": ({"data_change": 1}, "dataChange"),
    "a clustering provider that is a number": ({"clustering_provider": 5}, "clusteringProvider"),
    "no partition values": ({"partition_values": None}, "partitionValues"),
    "a partition value that is a number": ({"partition_values": {"day": 1}}, "partitionValues"),
    "a member that hides the path": ({"extra": {"path": "day=a/other.parquet"}}, "extra must not contain path"),
    "a member that hides the row id": ({"extra": {"baseRowId": 1}}, "extra must not contain baseRowId"),
    "extra that is no dict": ({"extra": [1]}, "extra"),
    "extra that JSON cannot hold": ({"extra": {"a": object()}}, "JSON"),
    "a negative count": ({"stats": '{"numRecords":-1}'}, "numRecords"),
    "a count that is text": ({"stats": '{"numRecords":"2"}'}, "numRecords"),
    "a count that is a fraction": ({"stats": '{"numRecords":2.5}'}, "numRecords"),
    "a count beyond 64 bits": ({"stats": '{"numRecords":9223372036854775808}'}, "numRecords"),
    "a negative count of nulls": ({"stats": '{"numRecords":2,"nullCount":{"id":-1}}'}, r"nullCount\.id"),
    "a count of nulls below a column": ({"stats": '{"nullCount":{"a":{"b":"x"}}}'}, r"nullCount\.a\.b"),
    "counts of nulls that are a list": ({"stats": '{"nullCount":[1]}'}, "nullCount"),
    "bounds that are a number": ({"stats": '{"minValues":1}'}, "minValues"),
    "stats that are a list": ({"stats": "[]"}, "stats"),
    "a vector that is text": ({"deletion_vector": "gone"}, "deletionVector"),
    "a vector where the table has none": ({"deletion_vector": INLINE}, "feature deletionVectors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_action_that_no_reader_would_take_is_refused_before_it_is_sent(
    table: Table, by_hand: AddFile, name: str
) -> None:
    change, reported = REFUSED[name]
    with pytest.raises(InvalidInputError, match=reported), table.transaction() as transaction:
        transaction.add(replace(by_hand, **change))
    assert Table.open(table.uri).snapshot().version == 1


VECTORS: dict[str, tuple[DeletionVectorDescriptor, str | None, str]] = {
    "at an absolute path where nothing is": (
        DeletionVectorDescriptor("p", "/elsewhere/deletion_vector_1.bin", 1, 40, 1),
        '{"numRecords":2}',
        "belongs to another table",
    ),
    "in a file that is not there": (
        DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 1, 40, 1),
        '{"numRecords":2}',
        "file is missing",
    ),
    "of a kind that means nothing": (DeletionVectorDescriptor("x", "a", 1, 40, 1), '{"numRecords":2}', "type 'x'"),
    "that marks rows which are not there": (INLINE, '{"numRecords":2}', "has 2 rows"),
    "of a file without a count": (INLINE, None, "numRecords"),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_deletion_vector_that_a_scan_could_not_read_is_refused(table: Table, by_hand: AddFile, name: str) -> None:
    vector, stats, reported = VECTORS[name]
    give_deletion_vectors(table)
    with pytest.raises(InvalidInputError, match=reported), table.transaction() as transaction:
        transaction.add(replace(by_hand, deletion_vector=vector, stats=stats))
    assert Table.open(table.uri).snapshot().version == 2


def test_a_file_with_a_deletion_vector_that_can_be_read_is_taken(table: Table) -> None:
    give_deletion_vectors(table)
    path = Path(table.uri) / "day=a" / "many.parquet"
    pq.write_table(pa.table({"id": range(100)}), path)
    size = path.stat().st_size
    with table.transaction() as transaction:
        transaction.add(
            AddFile("day=a/many.parquet", {"day": "a"}, size, 1, True, '{"numRecords":100}', deletion_vector=INLINE)
        )
    assert table.snapshot().to_arrow().num_rows == 2 + 100 - INLINE.cardinality


@pytest.mark.parametrize("delete", ["id = 0", "id in (0, 99)"])
@pytest.mark.parametrize("not_null", [None, 50])
def test_null_counts_of_a_file_whose_rows_were_dead_already_stay_true_through_later_deletes(
    table: Table, not_null: int | None, delete: str
) -> None:
    """Tight null counts leave out dead rows: all nulls are as many as live rows, and one row less is not all."""
    table.set_properties({"delta.enableDeletionVectors": "true"})
    table.add_columns(pa.schema([("n", pa.int64())]))
    path = Path(table.uri) / "day=a" / "many.parquet"
    numbers = pa.array([id if id == not_null else None for id in range(100)], pa.int64())
    pq.write_table(pa.table({"id": pa.array(range(100), pa.int64()), "n": numbers}), path)
    live = 100 - INLINE.cardinality
    counts = {"id": 0, "n": live - (not_null is not None)}
    stats = json.dumps({"numRecords": 100, "tightBounds": True, "nullCount": counts})
    with table.transaction() as transaction:
        transaction.add(
            AddFile("day=a/many.parquet", {"day": "a"}, path.stat().st_size, 1, True, stats, deletion_vector=INLINE)
        )
    for condition in (delete, "id = 1 and n is null", "id = 2"):
        table.delete(f"day = 'a' and n is null and {condition}", row_mode="merge-on-read")
        expected = [] if not_null is None else [not_null]
        assert table.to_arrow(where="n is not null")["id"].to_pylist() == expected
        named = [path for path in table.snapshot().files("n is not null")["path"].to_pylist() if "many" in path]
        assert len(named) == len(expected), "a file of nulls alone is known as one"
        assert table.to_arrow(where="n is null").num_rows == table.count() - len(expected)


def give_deletion_vectors(table: Table) -> None:
    """The next version has the feature, as another engine would give it."""
    log = Path(table.uri) / "_delta_log"
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    (log / f"{2:020d}.json").write_text(json.dumps({"protocol": protocol}) + "\n")


LONG = "x" * DEFAULT_LIMITS.line_bytes

TOO_LONG: dict[str, Callable[[Table], object]] = {
    "user_metadata": lambda table: table.append(ROWS, user_metadata=LONG),
    "app_id": lambda table: table.append(ROWS, app_id=LONG[:-10], checkpoint_id=1),
    "a property": lambda table: table.set_properties({"note": LONG}),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_line_that_every_reader_refuses_is_not_sent(table: Table, name: str) -> None:
    before = sorted(Path(table.uri).rglob("*.parquet"))
    with pytest.raises(InvalidInputError, match="limit of 67108864"):
        TOO_LONG[name](table)
    assert Table.open(table.uri).snapshot().version == 1
    assert sorted(Path(table.uri).rglob("*.parquet")) == before


@pytest.mark.parametrize(
    ("limits", "reported"),
    [(LogLimits(commit_bytes=500), "limit of 500"), (LogLimits(actions=2), "lines, more than the limit of 2")],
)
def test_a_commit_beyond_what_one_may_cost_its_readers_is_not_sent(
    table: Table, limits: LogLimits, reported: str
) -> None:
    open_table = table._open_table
    open_table.log.limits = limits
    with pytest.raises(InvalidInputError, match=reported):
        table.append(pa.table({"id": [1, 2], "day": ["a", "b"]}, SCHEMA))
    assert DeltaLog(local_table_store(table.uri)).newest_state().version == 1


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (b'{"txn":{"appId":"aaa","version":1}}', True),
        (b'{"txn":{"appId":"aa","version":1}}', False),
        (b'{"txn":{"appId":"aa","version":1}}\n' * 2, False),
        (b'{"txn":{"appId":"aa","version":1}}\n' * 3, True),
        (b'{"a":1}\n{"txn":{"appId":"aaa","version":1}}\n', True),
    ],
)
def test_a_commit_is_refused_before_the_put_exactly_if_a_reader_would_refuse_it(body: bytes, refused: bool) -> None:
    limits = LogLimits(line_bytes=34, actions=2)

    def says(check: Callable[[], object]) -> bool:
        try:
            check()
        except txlog.CorruptLogError:
            return True
        return False

    assert says(lambda: require_within(limits, body, 1)) == refused
    assert says(lambda: parse_commit(body, 1, limits=limits)) == refused


# --- names that other files had -------------------------------------------------------------------------------------


def test_a_file_with_a_removed_files_name_is_refused(table: Table, by_hand: AddFile) -> None:
    path = Path(table.uri) / by_hand.path
    table.add_files([by_hand.path])
    table.overwrite(ROWS)
    pq.write_table(ROWS.drop(["day"]).slice(0, 1), path)
    before = table.version
    for add in (
        lambda: table.add_files([by_hand.path]),
        lambda: added(table, replace(by_hand, size=path.stat().st_size, stats='{"numRecords":1}')),
    ):
        with pytest.raises(InvalidInputError, match="another file named day=a/by-hand") as raised:
            add()
        assert (raised.value.path, raised.value.version) == (by_hand.path, before)
    table.create_checkpoint()
    with pytest.raises(InvalidInputError, match="another file named"):
        txlog.Table.open(table.uri).add_files([by_hand.path])


def test_a_file_of_the_same_size_that_was_written_after_the_removal_is_refused(table: Table, by_hand: AddFile) -> None:
    path = Path(table.uri) / by_hand.path
    table.add_files([by_hand.path])
    table.overwrite(ROWS)
    later_s = time.time() + 100
    os.utime(path, (later_s, later_s))
    with pytest.raises(InvalidInputError, match="another file named"):
        table.add_files([by_hand.path])


def test_the_same_file_may_come_back(table: Table, by_hand: AddFile) -> None:
    table.add_files([by_hand.path])
    table.overwrite(ROWS)
    table.add_files([by_hand.path])
    assert by_hand.path in table.snapshot().files().column("path").to_pylist()


def test_a_live_file_may_not_be_added_with_another_size(table: Table, by_hand: AddFile) -> None:
    table.add_files([by_hand.path])
    path = Path(table.uri) / by_hand.path
    pq.write_table(ROWS.drop(["day"]).slice(0, 1), path)
    with pytest.raises(InvalidInputError, match="another file named"):
        added(table, replace(by_hand, size=path.stat().st_size, stats='{"numRecords":1}'))


def added(table: Table, file: AddFile) -> None:
    with table.transaction() as txn:
        txn.add(file)
