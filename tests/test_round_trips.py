"""How many round trips to an object store each operation waits for, one after another; and what runs in parallel."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import txlog
from tests.bucket import ROW, Bucket
from txlog.core.operations import _batch_write as batch_write
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.errors import SchemaMismatchError, StorageError

WITH_NAME = pa.table({"id": pa.array([2], pa.int64()), "name": ["a"]})
ADD_NAME = {"name": pa.string()}


class Source:
    """Tables that are read once, and how many were."""

    def __init__(self, *tables: pa.Table) -> None:
        self._tables = iter(tables)
        self.num_read = 0

    def __iter__(self) -> Iterator[pa.Table]:
        for table in self._tables:
            self.num_read += 1
            yield table


def test_an_append_waits_for_its_data_file_and_for_its_commit() -> None:
    bucket = Bucket()
    table = bucket.opened()
    table.append(ROW)
    assert bucket.trips_of(lambda: table.append(ROW)) == 2
    assert [(trip, name) for trip, name, _ in sorted(bucket.trips.requests)] == [
        (1, "read"),  # whether there is a newer version
        (1, "write"),
        (2, "list_from"),  # whether others wait in line, which nobody waits for
        (2, "put_if_absent"),
    ]


def test_an_append_of_a_checkpoint_waits_for_no_more() -> None:
    bucket = Bucket()
    table = bucket.opened()
    table.append(ROW)
    assert bucket.trips_of(lambda: table.append(ROW, app_id="job", checkpoint_id=1)) == 2
    assert bucket.rows() == 2


def test_a_checkpoint_that_the_handle_knows_to_be_committed_is_not_read_at_all() -> None:
    bucket = Bucket()
    bucket.opened().append(ROW, app_id="job", checkpoint_id=1)
    table, source = bucket.opened(), Source(ROW)
    assert bucket.trips_of(lambda: table.append(source, app_id="job", checkpoint_id=1)) <= 1
    assert source.num_read == 1  # the first batch has the schema
    assert bucket.trips.requests_of("write") == 0
    assert bucket.rows() == 1


def test_a_checkpoint_that_another_process_has_committed_leaves_no_file() -> None:
    bucket = Bucket(commits=1)
    table, rival = bucket.opened(), bucket.opened()
    table.append(ROW)
    landed = rival.append(ROW, app_id="job", checkpoint_id=1)
    result = table.append(ROW, app_id="job", checkpoint_id=1)
    assert (result.outcome, result.version) == ("already_committed", landed.version)
    assert bucket.rows() == 3
    assert bucket.orphans() == set()


def test_a_large_checkpoint_of_another_process_is_read_only_as_far_as_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_write, "KEPT_BYTES", 20)
    bucket = Bucket(commits=1)
    table = bucket.opened()
    bucket.opened().append(ROW, app_id="job", checkpoint_id=1)
    source = Source(*[ROW] * 100)
    assert table.append(source, app_id="job", checkpoint_id=1).outcome == "already_committed"
    assert source.num_read == 3  # of 8 bytes each
    assert bucket.orphans() == set()


def test_an_append_of_rows_that_can_be_read_only_once_waits_for_no_more() -> None:
    bucket = Bucket()
    table = bucket.opened()
    table.append(ROW)
    assert bucket.trips_of(lambda: table.append(ROW.to_reader())) == 2
    assert bucket.trips_of(lambda: table.append(Source(ROW, ROW))) == 2
    assert bucket.rows() == 4


@pytest.mark.parametrize("kept_bytes", [0, 20, 1 << 20])
def test_rows_that_can_be_read_only_once_are_written_again_from_the_first_one(
    monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    monkeypatch.setattr(batch_write, "KEPT_BYTES", kept_bytes)
    bucket = Bucket(commits=1)
    table = bucket.opened()
    bucket.opened().add_columns(ADD_NAME)
    source = Source(*(pa.table({"id": pa.array([number], pa.int64())}) for number in range(10, 17)))
    seen: list[int] = []
    table.append(source, on_progress=lambda step, rows, total: seen.append(rows))
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, *range(10, 17)]
    assert table.snapshot().to_arrow(columns=["name"]).num_rows == 8
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert bucket.orphans() == set()


def test_the_first_append_of_a_handle_also_checks_the_store_in_the_meantime() -> None:
    bucket = Bucket()
    table = bucket.opened()
    assert bucket.trips_of(lambda: table.append(ROW)) == 2


def test_an_append_that_lost_a_race_waits_for_two_more_round_trips() -> None:
    bucket = Bucket()
    table, rival = bucket.opened(), txlog.Table(OpenTable(bucket.store))
    table.append(ROW)
    bucket.files.after_write.append(lambda: rival.append(ROW))
    assert bucket.trips_of(lambda: table.append(ROW)) == 2 + 2
    assert bucket.rows() == 3


def test_of_many_versions_that_landed_meanwhile_the_more_are_read_at_once_the_more_there_are() -> None:
    bucket = Bucket()
    table, rival = bucket.opened(), bucket.opened()
    first = table.append(ROW).version
    for _ in range(25):
        rival.append(ROW)
    commits, found = table._open_table.log.commits, list[int]()

    def read() -> None:
        found.extend(each.version for each in commits.following(first, files=True, most=1000))

    assert bucket.trips_of(read) == 6  # 1, 1, 2, 4, 8 and 16 reads, the last of which find the end
    assert found == [*range(first + 1, first + 26)]


@pytest.mark.parametrize("rows", [ROW, WITH_NAME], ids=["of the old columns", "of the new columns"])
def test_rows_are_written_again_where_the_table_was_given_another_column_meanwhile(rows: pa.Table) -> None:
    bucket = Bucket(commits=1)
    table = bucket.opened()
    bucket.opened().add_columns(ADD_NAME)
    result = table.append(rows)
    assert (result.version, result.attempts) == (3, 1)
    assert bucket.opened().snapshot().to_arrow().num_rows == 2
    assert table.snapshot().to_arrow(columns=["name"])["name"].to_pylist() == [
        None,
        *(rows.to_pydict().get("name", [None])),
    ]
    assert bucket.orphans() == set()


def test_a_table_without_columns_is_an_append_of_no_rows_as_ever() -> None:
    bucket = Bucket()
    table = bucket.opened()
    table.append(ROW)
    assert table.append(pa.table({})).version == 2
    assert bucket.rows() == 1


def test_rows_that_fit_no_version_of_the_table_are_refused_as_ever() -> None:
    bucket = Bucket()
    with pytest.raises(SchemaMismatchError, match="name"):
        bucket.opened().append(WITH_NAME)
    assert bucket.orphans() == set()


def test_a_look_that_fails_leaves_no_version_and_no_file() -> None:
    bucket = Bucket(commits=1)
    table = bucket.opened()
    table.append(ROW)
    bucket.log.fails_to_read = f"{3:020}.json"
    with pytest.raises(StorageError, match="could not read"):
        table.append(ROW)
    bucket.log.fails_to_read = None
    assert bucket.rows() == 2
    assert bucket.orphans() == set()


def newest_state(store: TableStore) -> OpenTable:
    open_table = OpenTable(store)
    open_table.log.newest_state()
    return open_table


BY_CHECKSUM, BY_CHECKPOINT = 2, 3  # the hint, the list beside what it shows, and a checkpoint after that


@pytest.mark.parametrize(
    ("commits", "has_checksums", "trips"), [(3, False, 3), (14, True, BY_CHECKSUM), (14, False, BY_CHECKPOINT)]
)
def test_opening_a_table_waits_for_the_hint_and_the_list_beside_what_it_shows(
    commits: int, has_checksums: bool, trips: int
) -> None:
    bucket = Bucket(commits, has_checksums=has_checksums)
    assert bucket.trips_of(bucket.opened) == trips


@pytest.mark.parametrize(("has_checksums", "trips"), [(True, BY_CHECKSUM), (False, BY_CHECKPOINT)])
def test_a_process_that_opens_a_table_waits_for_two_round_trips_more_to_append(has_checksums: bool, trips: int) -> None:
    bucket = Bucket(14, has_checksums=has_checksums)
    assert bucket.trips_of(lambda: bucket.opened().append(ROW)) == trips + 2


@pytest.mark.parametrize(("has_checksums", "trips"), [(True, BY_CHECKSUM), (False, BY_CHECKPOINT)])
def test_opening_a_table_waits_for_a_look_and_one_more_round_trip_for_the_file_list(
    has_checksums: bool, trips: int
) -> None:
    bucket = Bucket(14, has_checksums=has_checksums)
    assert bucket.trips_of(lambda: bucket.opened().snapshot().files()) == trips + 2


# --- with threads ---------------------------------------------------------------------------------------------------

WAIT_S = 30.0


def looks_under_way() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "txlog-work"]


def test_an_append_leaves_no_thread_behind() -> None:
    table = Bucket(commits=1).opened()
    for _ in range(3):
        table.append(ROW)
    for thread in looks_under_way():
        thread.join(WAIT_S)
        assert not thread.is_alive()


class Interrupted(BaseException):
    """As Ctrl-C, or a time limit that a library enforces."""


@pytest.mark.parametrize("error", [Interrupted, ValueError])
def test_an_append_that_is_broken_off_does_not_wait_for_its_look_and_leaves_no_file(
    error: type[BaseException],
) -> None:
    bucket = Bucket(commits=1)
    table = bucket.opened()
    table.append(ROW)
    asked, may_answer = threading.Event(), threading.Event()

    def break_off() -> Iterator[pa.Table]:
        yield ROW
        assert asked.wait(WAIT_S)
        raise error

    def hold_back(name: str) -> None:
        asked.set()
        assert may_answer.wait(WAIT_S)

    bucket.log.before_read = hold_back
    with pytest.raises(error):
        table.append(break_off())
    waiting = looks_under_way()
    assert waiting
    bucket.log.before_read = None
    may_answer.set()
    for thread in waiting:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert bucket.rows() == 2
    assert bucket.orphans() == set()
    assert table.append(ROW).version == 3
