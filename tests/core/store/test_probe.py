from __future__ import annotations

import threading
from pathlib import Path

import pytest

from txlog.core.store._base import PutOutcome, last_answer
from txlog.core.store._open import open_store
from txlog.core.store._probe import probe_newest_commit, probe_store
from txlog.core.store._table_store import TableStore
from txlog.core.store._versions import Attempt
from txlog.errors import StorageError, UnsupportedFeatureError
from txlog.testing.faulty_s3 import FaultyS3, PutFault
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore, memory_table_store

COMMIT = f"{0:020}.json"


class IgnoringLogStore(MemoryLogStore):
    """Takes every conditional put, as some servers do."""

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        self.put(name, body)
        return PutOutcome.WRITTEN


class LyingLogStore(MemoryLogStore):
    """Says that the name is taken, and replaces its bytes all the same."""

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        outcome = super().put_if_absent(name, body)
        self.put(name, body)
        return outcome


class LateLogStore(MemoryLogStore):
    """Checks, then acts: right in turns, wrong in a race."""

    def __init__(self) -> None:
        super().__init__()
        self.all_have_checked = threading.Barrier(16)

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        if name in self.objects:
            return PutOutcome.ALREADY_EXISTS
        if name.endswith(".race"):
            self.all_have_checked.wait(30)
        self.put(name, body)
        return PutOutcome.WRITTEN


class SilentLogStore(MemoryLogStore):
    """Never answers, and nothing lands."""

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        return PutOutcome.UNKNOWN


class WordyLogStore(MemoryLogStore):
    """Refuses each put in words of its own, which say nothing about what landed."""

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        last_answer.words = "400 Bad Request: InvalidHeaderValue"
        return PutOutcome.UNKNOWN


class BusyLogStore(MemoryLogStore):
    """Does not answer the first put, which lands late, when it is repeated, or never."""

    def __init__(self, *, lands_late: bool) -> None:
        super().__init__()
        self.lands_late, self.is_first = lands_late, True

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        if self.is_first:
            self.is_first = False
            return PutOutcome.UNKNOWN
        if self.lands_late:
            self.lands_late = False
            self.put(name, body)
        return super().put_if_absent(name, body)


def table_store(log: MemoryLogStore) -> TableStore:
    return TableStore(uri="memory://probed", log=log, files=MemoryFileStore())


def test_a_probe_of_a_sound_store_finds_it_safe_and_leaves_nothing() -> None:
    store = memory_table_store()
    report = probe_store(store)
    assert report.is_safe
    assert report.winners == 1
    assert store.log.list_from("") == []
    report.require_safe()


def test_a_local_directory_is_safe_and_can_be_named(tmp_path: object) -> None:
    report = probe_store(str(tmp_path))
    assert (report.is_safe, report.winners, report.uri) == (True, 1, str(tmp_path))


def test_a_store_that_ignores_the_condition_is_refused() -> None:
    log = IgnoringLogStore()
    report = probe_store(table_store(log))
    assert report.winners == 16
    assert "it accepted a second create of the same name" in report.problems
    with pytest.raises(
        UnsupportedFeatureError, match="memory://probed: this store lets two writers overwrite each other"
    ):
        report.require_safe()
    assert log.objects == {}


def test_a_probe_finds_a_store_unsafe_that_replaces_an_existing_object() -> None:
    assert "a create replaced an existing object" in probe_store(table_store(LyingLogStore())).problems


def test_a_store_that_checks_before_it_acts_is_caught_by_the_race() -> None:
    report = probe_store(table_store(LateLogStore()))
    assert report.winners == 16
    assert not report.is_safe


@pytest.mark.parametrize("lands_late", [True, False])
def test_a_store_that_does_not_answer_once_is_probed_again(lands_late: bool) -> None:
    log = BusyLogStore(lands_late=lands_late)
    report = probe_store(table_store(log))
    assert report.is_safe, report
    assert log.objects == {}


def test_a_store_that_does_not_answer_cannot_be_probed() -> None:
    with pytest.raises(StorageError, match="could not be probed"):
        probe_store(table_store(SilentLogStore()))


def test_a_store_that_refuses_every_put_is_quoted() -> None:
    with pytest.raises(StorageError, match="400 Bad Request: InvalidHeaderValue"):
        probe_store(table_store(WordyLogStore()))


def test_a_refused_put_of_the_newest_commit_proves_the_store() -> None:
    store = memory_table_store()
    store.log.put_if_absent(COMMIT, b"body")
    assert probe_newest_commit(store.versions, Attempt(0, b"body")) is True
    assert store.log.read(COMMIT) == b"body"


def test_an_accepted_second_put_of_the_newest_commit_stops_the_writer() -> None:
    with FaultyS3() as server:
        store = open_store("s3://bucket/table", server.storage_options)
        store.log.put_if_absent(COMMIT, b"body")
        server.script(PutFault.IGNORE_CONDITION)
        with pytest.raises(UnsupportedFeatureError, match="a second time"):
            probe_newest_commit(store.versions, Attempt(0, b"body"))
        assert store.log.read(COMMIT) == b"body"


def test_a_lost_answer_to_the_probe_proves_nothing() -> None:
    with FaultyS3() as server:
        store = open_store("s3://bucket/table", server.storage_options)
        store.log.put_if_absent(COMMIT, b"body")
        server.script(PutFault.ERROR_500)
        assert probe_newest_commit(store.versions, Attempt(0, b"body")) is False


def test_a_probe_of_a_server_is_safe() -> None:
    with FaultyS3() as server:
        report = probe_store("s3://bucket/table", server.storage_options)
        assert (report.is_safe, report.winners) == (True, 1)
        assert report.round_trip_s > 0
        assert server.keys() == []


def test_a_probe_of_a_disk_leaves_no_folder_that_it_made(tmp_path: Path) -> None:
    assert probe_store(tmp_path / "a" / "b").is_safe
    assert list(tmp_path.iterdir()) == []


def test_a_probe_of_a_disk_leaves_the_folders_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    assert probe_store(tmp_path / "empty").is_safe
    assert [*tmp_path.rglob("*")] == [tmp_path / "empty", tmp_path / "empty" / "_delta_log"]


def test_a_store_that_was_probed_can_be_written_to(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    probe_store(store)
    assert store.log.put_if_absent(COMMIT, b"{}") is PutOutcome.WRITTEN
    assert (tmp_path / "t" / "_delta_log" / COMMIT).read_bytes() == b"{}"
