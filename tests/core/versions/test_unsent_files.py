"""Data files are deleted only while nothing was sent; nothing that runs after the commit turns it into an error."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from tests.bucket import Bucket
from txlog.core import ambient
from txlog.core.store import Attempt, LocalLogStore, PutOutcome
from txlog.core.store._base import refused
from txlog.core.store._local_store import LocalFileStore
from txlog.core.versions._open_table import OpenTable
from txlog.core.writing import UnsentFiles
from txlog.table import Table
from txlog.testing.stopped_clock import StoppedClock

ROWS = pa.table({"id": pa.array([7], pa.int64())})

FAULTS = [txlog.InvalidInputError("mine"), txlog.StorageError("mine"), ValueError("mine"), OSError("mine")]


class RaisingHandler(logging.Handler):
    """A handler of a user's that, unlike those of the standard library, lets its own errors out."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(logging.DEBUG)
        self.fault = fault
        self.seen = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.seen += 1
        raise self.fault


@pytest.fixture
def raising_handler(request: pytest.FixtureRequest) -> Iterator[RaisingHandler]:
    handler = RaisingHandler(request.param)
    logger = logging.getLogger("txlog")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def append(table: Table) -> object:
    return table.append(ROWS)


def append_in_a_transaction(table: Table) -> object:
    with table.transaction() as transaction:
        transaction.append(ROWS)
    return transaction.result


def commit_by_a_sink(table: Table) -> object:
    sink = txlog.Sink(table, app_id="app")
    with sink.task(checkpoint_id=1) as task:
        task.write(ROWS)
    return sink.commit(1, [task.committable])


WRITES = [append, append_in_a_transaction, commit_by_a_sink]


def rows_of(table: OpenTable) -> int:
    return Table(OpenTable(table.store)).snapshot().to_arrow().num_rows


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("raising_handler", FAULTS, indirect=True, ids=repr)
def test_a_log_handler_that_raises_does_not_undo_a_commit(
    table: OpenTable, raising_handler: RaisingHandler, write: Callable[[Table], Any]
) -> None:
    assert write(Table(table)).version == 2
    assert raising_handler.seen
    assert rows_of(table) == 3


@pytest.mark.parametrize("raising_handler", FAULTS[:1], indirect=True, ids=repr)
def test_a_raising_log_handler_does_not_hide_how_the_commit_ended(
    table: OpenTable, scripted_log: Any, raising_handler: RaisingHandler
) -> None:
    def lands_and_interrupts(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        raise KeyboardInterrupt

    scripted_log.script["put_if_absent"] = [lands_and_interrupts]
    with pytest.raises(KeyboardInterrupt):
        Table(table).append(ROWS)
    assert raising_handler.seen
    assert rows_of(table) == 3


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fault", [*FAULTS, KeyboardInterrupt(), SystemExit()], ids=repr)
def test_no_class_of_exception_that_follows_a_put_deletes_the_files_of_a_landed_commit(
    table: OpenTable, scripted_log: Any, fault: BaseException, write: Callable[[Table], Any]
) -> None:
    def lands_and_raises(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        raise fault

    scripted_log.script["put_if_absent"] = [lands_and_raises]
    with pytest.raises(type(fault)):
        write(Table(table))
    assert rows_of(table) == 3


@pytest.mark.parametrize("write", [append, append_in_a_transaction])
@pytest.mark.parametrize("fault", [txlog.StorageError("mine"), KeyboardInterrupt()], ids=repr)
def test_whatever_ends_a_write_before_its_first_put_leaves_no_file(
    table: OpenTable, scripted_log: Any, files: Any, fault: BaseException, write: Callable[[Table], Any]
) -> None:
    def fails(real: Any, name: str) -> object:
        raise fault

    before = set(files.objects)
    scripted_log.script["stat"] = [fails]  # the look at the version to be, before it is put
    with pytest.raises(type(fault)):
        write(Table(table))
    assert set(files.objects) == before


def test_on_progress_that_raises_leaves_neither_version_nor_file(table: OpenTable, files: Any) -> None:
    def refuse(step: str, rows: int, total: int | None) -> None:
        raise txlog.InvalidInputError("enough")

    before = set(files.objects)
    with pytest.raises(txlog.InvalidInputError, match="enough"):
        Table(table).append(ROWS, on_progress=refuse)
    assert (Table(table).snapshot().version, set(files.objects)) == (1, before)


def test_a_commit_whose_state_cannot_be_kept_is_acknowledged(
    table: OpenTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise txlog.CorruptLogError("cannot be folded")

    monkeypatch.setattr(table.log, "advance", fails)
    assert Table(table).append(ROWS).version == 2
    assert "is committed, but its state was not cached" in caplog.text
    assert rows_of(table) == 3


def test_files_of_a_commit_that_was_never_sent_are_deleted_and_others_stay(files: Any) -> None:
    for path in ("a", "b"):
        files.publish(path, b"bytes")
    with UnsentFiles(files) as unsent:
        unsent.own(["a"])
    with UnsentFiles(files) as sent:
        sent.own(["b"])
        sent.mark_sent()
    assert set(files.objects) == {"b"}


@pytest.mark.parametrize("is_sent", [False, True])
def test_files_that_a_thread_hands_over_after_the_end_are_deleted_unless_something_was_sent(
    files: Any, is_sent: bool
) -> None:
    with UnsentFiles(files) as unsent:
        if is_sent:
            unsent.mark_sent()
    unsent.own([files.publish("late", b"bytes").name])
    assert ("late" in files.objects) is is_sent


def test_many_files_of_a_commit_that_was_never_sent_are_deleted_in_one_request() -> None:
    bucket = Bucket()
    files = bucket.trips.watched(bucket.store).files
    unsent = UnsentFiles(files)
    unsent.own([bucket.files.publish(f"{number}.parquet", b"bytes").name for number in range(5)])
    assert bucket.trips_of(unsent.discard) == 1
    assert not bucket.files.objects


def test_a_file_that_cannot_be_deleted_is_named_and_the_others_are_deleted(
    files: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delete = type(files).delete

    def fails_for_one(self: Any, path: str) -> None:
        if path == "b":
            raise txlog.StorageError("no right to delete", path=path)
        delete(self, path)

    monkeypatch.setattr(type(files), "delete", fails_for_one)
    with UnsentFiles(files) as unsent:
        unsent.own([files.publish(path, b"bytes").name for path in "abc"])
    assert set(files.objects) == {"b"}
    assert "1 data files of a write that was not committed stay until a vacuum: b (no right to delete)" in caplog.text


@pytest.mark.parametrize("hours", [5, 7, 24 * 8])
@pytest.mark.parametrize("is_vacuumed", [True, False])
def test_a_write_suspended_for_hours_commits_no_file_that_a_vacuum_deleted(
    tmp_path: Path, hours: int, is_vacuumed: bool
) -> None:
    clock = StoppedClock()
    with ambient.use(clock):
        table = Table.create(tmp_path / "t", ROWS.schema)
        transaction = table.transaction()
        transaction.__enter__()
        transaction.append(ROWS)
        clock.pass_hours(hours)
        (file,) = (tmp_path / "t").glob("*.parquet")
        if is_vacuumed and hours > 6:
            file.unlink()
            with pytest.raises(txlog.NotFoundError, match=f"1 of 1 data files .* {hours}.0 hours ago .*{file.name}"):
                transaction.__exit__(None, None, None)
            assert Table.open(table.uri).version == 0
        else:
            transaction.__exit__(None, None, None)
            assert Table.open(table.uri).to_arrow() == ROWS


def test_a_late_commit_looks_for_its_files_once(table: OpenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stat, looked_for = StoppedClock(), table.store.files.stat, []
    with ambient.use(clock):
        transaction = Table(table).transaction()
        transaction.__enter__()
        transaction.append(ROWS)
        clock.pass_hours(7)
        monkeypatch.setattr(table.store.files, "stat", lambda path: looked_for.append(path) or stat(path))
        transaction.__exit__(None, None, None)
    assert len(looked_for) == 1
    assert rows_of(table) == 3


def test_a_commit_that_waited_for_a_day_looks_for_its_files_before_it_sends_again(
    table: OpenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, put = StoppedClock(), table.log.versions.put
    attempts, before = [], {*table.store.files.objects}

    def wait_before_the_put(attempt: Attempt) -> PutOutcome:
        attempts.append(attempt)
        if len(attempts) == 1:
            clock.pass_hours(24)
            for path in table.store.files.objects.keys() - before:
                table.store.files.delete(path)
            append(Table(OpenTable(table.store)))
        return put(attempt)

    monkeypatch.setattr(table.log.versions, "put", wait_before_the_put)
    with ambient.use(clock), pytest.raises(txlog.NotFoundError, match="are missing"):
        append(Table(table))
    assert len(attempts) == 1
    assert rows_of(table) == 3  # one each of the table, as it was, and of the other writer


@pytest.mark.parametrize("write", [append, append_in_a_transaction])
def test_a_put_that_the_disk_refuses_leaves_no_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Table], Any]
) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema)
    real = os.open

    def read_only_log(path: Any, *how: Any, **named: Any) -> int:
        if str(path).startswith(f"{tmp_path}/t/_delta_log") and how[0] & os.O_WRONLY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *how, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only_log)
        with pytest.raises(txlog.StorageError, match="Permission denied"):
            write(table)
    assert not list((tmp_path / "t").glob("*.parquet"))
    assert write(table).version == 1


def test_a_data_file_of_a_refused_commit_that_cannot_be_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema)

    def refuses(*_: Any) -> Any:
        raise refused(txlog.StorageError("no right to write"))

    def cannot(*_: Any) -> Any:
        raise txlog.StorageError("no right to delete")

    monkeypatch.setattr(LocalLogStore, "put_if_absent", refuses)
    monkeypatch.setattr(LocalFileStore, "delete", cannot)
    with pytest.raises(txlog.StorageError, match="no right to write"):
        table.append(ROWS)
    (left,) = (tmp_path / "t").glob("*.parquet")
    assert f"stay until a vacuum: {left.name} (no right to delete)" in caplog.text
