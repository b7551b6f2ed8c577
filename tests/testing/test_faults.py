"""Each fault of the kit does what its documentation says, and the line of a run makes the same faults happen again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.writes import write_batch
from txlog.core.format.log_names import checkpoint_name, commit_name
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome, TableStore, open_store
from txlog.core.versions import OpenTable
from txlog.core.versions.files import DeltaLog
from txlog.core.writing.commit_options import CommitOptions
from txlog.errors import CommitStateUnknownError, InvalidInputError, StorageError
from txlog.table import Table
from txlog.testing.faults import FAULTS, Crashed, FaultyFileStore, faulty_table_store, parse_faults, random_faults
from txlog.testing.memory_store import memory_table_store

ROWS = pa.table({"id": [1, 2, 3]})
BODY = b'{"commitInfo":{}}\n'
COMMITS = [commit_name(version) for version in range(4)]
FIFTH = commit_name(4)


@pytest.fixture
def store() -> TableStore:
    return memory_table_store()


@pytest.fixture
def table(store: TableStore) -> TableStore:
    """Versions 0 to 3 of three rows each."""
    for _ in range(4):
        write_batch(OpenTable(store), ROWS, WriteOptions(create=True))
    return store


def put(store: TableStore, version: int = 0) -> PutOutcome:
    return store.log.put_if_absent(commit_name(version), BODY)


def names(store: TableStore) -> list[str]:
    return [meta.name for meta in store.log.list_from("") if meta.name.endswith((".json", ".parquet"))]


def rows_in(store: TableStore) -> int:
    count: int = Table(OpenTable(store)).snapshot().to_arrow().num_rows
    return count


# --- one put --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "answer", "is_there"),
    [
        ("fail_before", PutOutcome.UNKNOWN, False),
        ("fail_after", PutOutcome.UNKNOWN, True),
        ("conflict", PutOutcome.ALREADY_EXISTS, False),
        ("not_durable", PutOutcome.NOT_DURABLE, True),
        ("late", PutOutcome.UNKNOWN, False),
        ("slow", PutOutcome.WRITTEN, True),
    ],
)
def test_a_faulty_put_answers_and_lands_as_named(
    fault: str, answer: PutOutcome, is_there: bool, store: TableStore, clock: Any
) -> None:
    faulty = faulty_table_store(store, f"put_if_absent#1={fault}")
    assert put(faulty) is answer
    assert names(store) == COMMITS[:is_there]
    assert faulty.log.line == f"put_if_absent#1={fault}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "refused"])
def test_any_other_call_that_fails_raises(fault: str, table: TableStore) -> None:
    with pytest.raises(StorageError, match=r"lost|refused"):
        faulty_table_store(table, f"read#1={fault}").log.read(COMMITS[0])


def test_a_refused_put_is_an_error_and_nothing_is_there(store: TableStore) -> None:
    with pytest.raises(StorageError, match="refused"):
        put(faulty_table_store(store, "put_if_absent#1=refused"))
    assert names(store) == []


def test_a_late_put_lands_before_the_call_it_was_given_and_only_where_the_name_is_free(store: TableStore) -> None:
    faulty = faulty_table_store(store, "put_if_absent#1=late=2 put_if_absent#2=late")
    assert put(faulty) is put(faulty, 1) is PutOutcome.UNKNOWN
    assert names(store) == []
    faulty.log.list_from("")
    assert names(store) == COMMITS[:1]
    assert put(faulty, 1) is PutOutcome.WRITTEN
    (left,) = faulty.log.in_flight  # type: ignore[attr-defined]
    assert left.land() is PutOutcome.ALREADY_EXISTS


def test_a_slow_call_sleeps_for_the_given_time_on_the_ambient_clock(store: TableStore, clock: Any) -> None:
    faulty = faulty_table_store(store, "put_if_absent#1=slow=2.5 list_from#1=slow")
    put(faulty)
    faulty.log.list_from("")
    assert clock.slept_s == [2.5, 1.0]


# --- death ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "is_there"), [("crash_before", False), ("crash_after", True)])
def test_a_crashed_process_makes_no_further_calls(fault: str, is_there: bool, store: TableStore) -> None:
    faulty = faulty_table_store(store, f"put_if_absent#1={fault}")
    for version in range(2):
        with pytest.raises(Crashed):
            put(faulty, version)
    assert names(store) == COMMITS[:is_there]


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_torn_temporary_file_is_ignored_by_readers_and_writers(place: str, tmp_path: Path) -> None:
    store = memory_table_store() if place == "memory" else open_store(str(tmp_path / "t"))
    put(store)
    with pytest.raises(Crashed):
        put(faulty_table_store(store, "put_if_absent#1=torn_temporary"), 1)
    assert names(store) == COMMITS[:1]
    if place == "disk":
        (torn,) = (path for path in (tmp_path / "t" / "_delta_log").iterdir() if path.name != COMMITS[0])
        assert torn.name.startswith(".")
        assert torn.read_bytes() == BODY[: len(BODY) // 2]
    assert put(store, 1) is PutOutcome.WRITTEN


# --- listings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "seen"),
    [("stale", [0, 1, 2]), ("stale=2", [0, 1]), ("hole", [1, 2, 3]), ("hole=3", [0, 1, 3]), ("hole=9", [0, 1, 2, 3])],
)
def test_a_listing_lacks_the_versions_that_the_fault_names(fault: str, seen: list[int], table: TableStore) -> None:
    faulty = faulty_table_store(table, f"list_from#1={fault}")
    assert names(faulty) == [COMMITS[version] for version in seen]
    assert names(faulty) == COMMITS


# --- what others do meanwhile ---------------------------------------------------------------------------------


def test_a_log_is_cleaned_up_under_a_writer_and_holds_the_same_rows(table: TableStore) -> None:
    ours = OpenTable(faulty_table_store(table, "put_if_absent#1=cleaned_up"))
    result = Table(ours).append(ROWS)
    assert (result.version, result.outcome) == (4, "committed")
    assert names(table)[:3] == [checkpoint_name(3), COMMITS[3], FIFTH]
    assert rows_in(table) == 15


@pytest.mark.parametrize(
    ("call", "error", "left"),
    [("make_durable#1", StorageError, COMMITS[:1]), ("put_if_absent#1", CommitStateUnknownError, [COMMITS[0], FIFTH])],
    ids=["before the put", "at the put"],
)
def test_a_commit_into_a_table_that_is_created_again_is_never_acknowledged(
    call: str, error: type[Exception], left: list[str], table: TableStore
) -> None:
    before = DeltaLog(table).newest_state().metadata
    ours = Table(OpenTable(faulty_table_store(table, f"{call}=recreated")))
    with pytest.raises(error, match="version 3, which it builds on, is gone"):
        ours.append(ROWS)
    assert names(table) == left
    after = DeltaLog(table).state_at(0).metadata
    assert (after.id != before.id, after.schema_string) == (True, before.schema_string)


# --- saying which ---------------------------------------------------------------------------------------------


def test_a_job_under_faults_lands_once_and_its_line_repeats_the_faults(
    clock: Any,
) -> None:
    def run(faults: Any) -> tuple[str, list[tuple[str, str]]]:
        store = memory_table_store()
        faulty = faulty_table_store(store, faults)
        checkpoint_id = 0
        while checkpoint_id < 4:
            options = WriteOptions(create=True, commit=CommitOptions("job", checkpoint_id))
            with contextlib.suppress(StorageError, CommitStateUnknownError):
                write_batch(OpenTable(faulty), ROWS, options)
                checkpoint_id += 1
        assert rows_in(store) == 12
        return faulty.log.line, faulty.log.calls  # type: ignore[attr-defined]

    line, calls = run(random_faults(11, 0.3))
    assert {word.partition("=")[2] for word in line.split()} == {"fail_before", "fail_after", "conflict"}
    assert [operation for operation, _ in run(line)[1]] == [operation for operation, _ in calls]


def test_a_file_store_fails_at_the_given_calls(store: TableStore) -> None:
    files = FaultyFileStore(store.files, "publish#1=fail_before")
    with files.create("a.parquet").sink as sink:
        sink.write(b"bytes")
    output = files.create("b.parquet")
    with pytest.raises(StorageError, match="lost"):
        output.publish()


def test_every_fault_is_described_and_every_other_word_refused() -> None:
    assert all(fault.__doc__ for fault in FAULTS.values())
    words = ("put_if_absent=late", "put_if_absent#0=late", "put_if_absent#1=burns", "put_if_absent#1=late=x")
    for line in (*words, "read#1=conflict", "put_if_absent#1=hole"):
        with pytest.raises(InvalidInputError):
            parse_faults(line)
