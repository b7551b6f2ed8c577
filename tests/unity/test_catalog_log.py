"""The versions of a managed table: the contract of version owners, and what becomes of a commit at each answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import txlog
from txlog.core.store import (
    Attempt,
    Fork,
    LocalLogStore,
    LogCapabilities,
    ObjectMeta,
    PutOutcome,
    RepairedForks,
    RetryPolicy,
    VersionFile,
    VersionLog,
    last_answer,
)
from txlog.errors import (
    CommitStateUnknownError,
    CorruptLogError,
    ForkedTableError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from txlog.testing.contract import VERSION_LOG_CONTRACT
from txlog.testing.unity_server import UnityServer
from txlog.unity.messages import LoadedTable

NAME = "main.s.t"
ROW = pa.table({"id": pa.array([1], pa.int64())})
QUICK = RetryPolicy(min_wait=0.001, max_wait=0.01, total_timeout=0.3)
REPEATS = ("accepted", "0.6.0", "refused")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with UnityServer(tmp_path / "server") as server:
        yield server


def created(server: UnityServer) -> txlog.Table:
    return txlog.Catalog(server.uri).create(NAME, "id bigint")


def opened(server: UnityServer, retry: RetryPolicy | None = None) -> txlog.Table:
    return txlog.Catalog(server.uri).table(NAME, retry=retry)


def versions_of(table: txlog.Table) -> VersionLog:
    return table._open_table.store.versions


def log_of(table: txlog.Table) -> list[str]:
    return sorted(name for name in os.listdir(f"{table.uri}/_delta_log") if name.endswith(".json") and len(name) == 25)


def rows(server: UnityServer) -> int:
    return opened(server).to_arrow().num_rows


class AfterFirst:
    """A managed table always has a version 0. This is the `VersionLog` of what follows: version N is its N + 1."""

    def __init__(self, versions: VersionLog) -> None:
        self._versions = versions

    @property
    def capabilities(self) -> LogCapabilities:
        return self._versions.capabilities

    def put(self, attempt: Attempt) -> PutOutcome:
        return self._versions.put(Attempt(attempt.version + 1, attempt.body))

    def read(self, version: int) -> bytes:
        return self._versions.read(version + 1)

    def stat(self, version: int) -> ObjectMeta:
        return self._versions.stat(version + 1)

    def tail(self, after: int, listed: Mapping[int, VersionFile] | None = None) -> Mapping[int, VersionFile]:
        shifted = None if listed is None else {version + 1: file for version, file in listed.items()}
        return {version - 1: file for version, file in self._versions.tail(after + 1, shifted).items() if version}

    def make_durable(self, version: int) -> None:
        self._versions.make_durable(version + 1)

    def publish(self, version: int) -> None:
        self._versions.publish(version + 1)

    def forks(self) -> Sequence[Fork]:
        return self._versions.forks()

    def mend(self, *, give_up: bool) -> RepairedForks:
        return self._versions.mend(give_up=give_up)

    def wait_by(self, policy: RetryPolicy) -> None:
        self._versions.wait_by(policy)

    def round_trip_s(self) -> float:
        return self._versions.round_trip_s()

    def name_of(self, version: int) -> str:
        return self._versions.name_of(version + 1)


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("check", VERSION_LOG_CONTRACT, ids=lambda check: check.__name__)
def test_version_log_contract_of_a_catalog(
    server: UnityServer, check: Callable[[VersionLog], None], repeats: Any
) -> None:
    server.switches.repeats = repeats
    check(AfterFirst(versions_of(created(server))))


class Once:
    """Cuts the first request that adds a commit, in one way."""

    def __init__(self, how: Any, times: int = 1, action: str = "add-commit") -> None:
        self.how, self.left, self.action = how, times, action

    def __call__(self, method: str, path: str, body: Any) -> Any:
        updates = [each["action"] for each in (body or {}).get("updates", ())]
        if method != "POST" or self.action not in updates or not self.left:
            return None
        self.left -= 1
        return self.how


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("how", ["before", "after", "clash", "busy"])
def test_a_commit_lands_once_whatever_answer_is_lost(server: UnityServer, how: str, repeats: Any) -> None:
    server.switches.repeats = repeats
    table = created(server)
    server.switches.cut = Once(how, times=2)
    result = table.append(ROW)
    assert (result.version, result.outcome, server.table(NAME)["latest"]) == (1, "committed", 1)
    assert rows(server) == 1
    staged = os.listdir(f"{table.uri}/_delta_log/_staged_commits")
    assert len(staged) == 1, "a commit is staged once, however often it is sent"


def test_a_commit_whose_answers_are_all_lost_is_unknown_and_is_resolved(server: UnityServer) -> None:
    created(server)
    table = opened(server, QUICK)
    server.switches.cut = lambda method, path, body: "before" if method == "POST" else None
    with pytest.raises(CommitStateUnknownError, match="the store's last answer: ") as raised:
        table.append(ROW)
    server.switches.cut = None
    assert raised.value.table == f"uc://{NAME}"  # its location would not open it
    assert opened(server).resolve(raised.value.txn_id, raised.value.version) is False
    assert (rows(server), opened(server).version) == (0, 1)


class Unanswered:
    """The puts of files whose path has ``part`` have no answer ``times`` times, as when a store answers 500."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, part: str, times: int) -> None:
        self.left, put = times, LocalLogStore.put_if_absent

        def put_if_absent(store: LocalLogStore, name: str, body: bytes | memoryview) -> PutOutcome:
            if part in name and self.left:
                self.left -= 1
                last_answer.words = "500 InternalError"
                return PutOutcome.UNKNOWN
            return put(store, name, body)

        monkeypatch.setattr(LocalLogStore, "put_if_absent", put_if_absent)


@pytest.mark.parametrize("part", [f"{1:020}.json", "_staged_commits"])
def test_a_commit_waits_by_its_policy_for_a_store_that_does_not_take_its_files(
    server: UnityServer, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    created(server)
    table = opened(server, RetryPolicy(min_wait=0.001, max_wait=0.01, total_timeout=60))
    store = Unanswered(monkeypatch, part, times=7)
    assert (table.append(ROW).outcome, store.left) == ("committed", 0)
    assert (rows(server), log_of(table)) == (1, [f"{version:020}.json" for version in range(2)])


def test_a_writer_waits_by_its_policy_to_publish_the_version_before_its_own(
    server: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(server)
    store = Unanswered(monkeypatch, f"{1:020}.json", times=10_000)
    with pytest.raises(CommitStateUnknownError, match="no answer says that it was; the store's last answer: 500 Inter"):
        opened(server, QUICK).append(ROW)
    assert store.left < 9_990, "it is tried until the policy ends"
    store.left = 7
    assert opened(server, RetryPolicy(min_wait=0.001, max_wait=0.01)).append(ROW).version == 2
    assert (rows(server), store.left) == (2, 0)


def test_the_first_version_of_a_managed_table_waits_for_its_store(
    server: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Unanswered(monkeypatch, f"{0:020}.json", times=7)
    assert (created(server).version, store.left) == (0, 0)


def test_a_commit_that_the_catalog_has_no_time_for_is_known_not_to_have_landed(server: UnityServer) -> None:
    created(server)
    table = opened(server, QUICK)
    server.switches.cut = Once("clash", times=10_000)
    with pytest.raises(txlog.CommitRetriesExhaustedError, match="Nothing landed"):
        table.append(ROW)
    server.switches.cut = None
    assert (rows(server), opened(server).version) == (0, 0)


@pytest.mark.parametrize("repeats", REPEATS)
def test_a_commit_that_was_published_before_its_answer_came_is_no_lost_race(server: UnityServer, repeats: Any) -> None:
    """0.6.0 answers 409 to a repeat whose record was dropped: our own success looks like a loss."""
    server.switches.repeats = repeats
    table = created(server)

    def accept_publish_and_cut(method: str, path: str, body: Any) -> Any:
        if method != "POST" or body["updates"][0]["action"] != "add-commit":
            return None
        server.switches.cut = publish_next
        return "after"

    def publish_next(method: str, path: str, body: Any) -> None:
        server.switches.cut = None
        versions_of(opened(server)).publish(1)
        server.table(NAME)["commits"] = []

    server.switches.cut = accept_publish_and_cut
    assert (table.append(ROW).version, rows(server), opened(server).version) == (1, 1, 1)


def test_writers_that_race_all_land(server: UnityServer) -> None:
    created(server)
    handles = [opened(server) for _ in range(4)]
    for handle in handles:  # each is behind by the commits of those before it
        handle.append(ROW)
    assert (rows(server), opened(server).version) == (4, 4)


def test_versions_are_published_in_order_and_reported_once_they_are_on_disk(server: UnityServer) -> None:
    table = created(server)
    for count in range(1, 13):
        table.append(ROW)
        published = server.table(NAME)["published"]
        assert log_of(table)[: published + 1] == [f"{version:020}.json" for version in range(published + 1)]
        assert server.table(NAME)["latest"] == count
    table._open_table.post_commit.drain()
    assert log_of(table) == [f"{version:020}.json" for version in range(13)]
    assert server.table(NAME)["published"] > 0
    assert rows(server) == 12


def test_a_backlog_of_unpublished_versions_is_published_by_whoever_is_refused(server: UnityServer) -> None:
    table = created(server)
    versions = versions_of(table)
    for _ in range(4):  # a writer that is killed before it publishes anything
        table.append(ROW)
    table._open_table.post_commit.drain()
    server.switches.unpublished_max = len(server.table(NAME)["commits"])
    assert server.switches.unpublished_max > 0
    assert opened(server, QUICK).append(ROW).version == 5
    versions.publish(5)
    assert len(log_of(table)) == 6


def test_a_checkpoint_stands_on_published_versions_only(server: UnityServer, tmp_path: Path) -> None:
    table = created(server)
    for _ in range(3):
        table.append(ROW)
    table.create_checkpoint()
    assert len(log_of(table)) == 4
    assert rows(server) == 3


def test_a_published_file_that_the_catalog_does_not_name_is_no_version(server: UnityServer) -> None:
    table = created(server)
    table.append(ROW)
    table._open_table.post_commit.drain()
    log = Path(table.uri) / "_delta_log"
    (log / f"{2:020}.json").write_bytes((log / f"{1:020}.json").read_bytes())
    assert (opened(server).version, rows(server)) == (1, 1)


def test_an_answer_that_names_another_writers_commit_is_no_acknowledgement(server: UnityServer) -> None:
    """As of a proxy that gives an older answer: a status does not say whose version it is."""
    table, other = created(server), opened(server)
    whole = server._answered

    def answered(method: str, *rest: Any) -> tuple[int, Any]:
        if method == "POST":
            server._answered = whole  # type: ignore[method-assign]
            other.append(ROW)
            return whole("GET", *rest)  # 200, and version 1 is the other writer's
        return whole(method, *rest)

    server._answered = answered  # type: ignore[method-assign]
    assert (table.append(ROW).version, rows(server)) == (2, 2)


def test_a_staged_file_without_the_catalogs_word_is_no_version(server: UnityServer) -> None:
    table = created(server)
    server.switches.cut = Once("before", times=10_000)
    with pytest.raises(CommitStateUnknownError):
        opened(server, QUICK).append(ROW)
    server.switches.cut = None
    assert len(os.listdir(f"{table.uri}/_delta_log/_staged_commits")) == 1
    assert (opened(server).version, rows(server)) == (0, 0)


def test_a_version_whose_staged_file_is_deleted_once_it_is_published_is_still_read(server: UnityServer) -> None:
    """Another program publishes it and tidies up between the catalog's answer and the read."""
    table = created(server)
    server.switches.unpublished_max = 10
    table.append(ROW)
    late = versions_of(opened(server))
    assert late._known.commits
    late_stat = late.stat(1)
    versions_of(opened(server)).publish(1)
    for staged in (Path(table.uri) / "_delta_log" / "_staged_commits").iterdir():
        staged.unlink()
    assert len(late.read(1)) == late_stat.size
    late.make_durable(1)
    (Path(table.uri) / "_delta_log" / f"{1:020}.json").write_bytes(b"{}")
    with pytest.raises(ForkedTableError, match="is another commit"):
        versions_of(opened(server)).read(1)


def test_an_accepted_commit_whose_file_is_cut_off_is_reported(server: UnityServer) -> None:
    table = created(server)
    server.switches.unpublished_max = 10
    table.append(ROW)
    table._open_table.post_commit.drain()
    (staged,) = (Path(table.uri) / "_delta_log" / "_staged_commits").iterdir()
    staged.write_bytes(staged.read_bytes()[:-10])
    assert rows(server) == 1  # it is published
    (Path(table.uri) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(CorruptLogError, match="bytes"):
        opened(server)


def test_a_commit_that_no_connection_took_is_known_not_to_have_landed(server: UnityServer) -> None:
    created(server)
    versions = versions_of(opened(server))
    server.close()
    outcomes: list[PutOutcome] = []
    body = b'{"commitInfo":{}}\n'
    thread = threading.Thread(target=lambda: outcomes.append(versions.put(Attempt(1, body))))  # has no connection yet
    thread.start()
    thread.join()
    assert outcomes == [PutOutcome.BLOCKED]


def test_an_older_answer_of_the_catalog_is_not_taken_for_news(server: UnityServer) -> None:
    table = created(server)
    versions = versions_of(opened(server))
    older = versions._client.get(versions._name.path, LoadedTable)
    table.append(ROW)
    versions.tail(-1)
    versions._learn(older)
    asked = len(server.requests)
    assert versions.read(1)
    assert len(server.requests) == asked, "the catalog was asked for a version that was known"


def test_nothing_is_published_above_a_version_that_is_not_in_the_folder(server: UnityServer) -> None:
    table = created(server)
    for _ in range(4):
        table.append(ROW)
    table._open_table.post_commit.drain()
    versions = versions_of(opened(server))
    last = max((each for each in versions._known.commits.values()), key=lambda each: each.version)
    versions._known = msgspec.structs.replace(versions._known, commits={4: last})
    log = Path(table.uri) / "_delta_log"
    for version in (3, 4):
        (log / f"{version:020}.json").unlink()
    with pytest.raises(NotFoundError):
        versions.publish(4)
    assert not (log / f"{4:020}.json").exists()


def test_a_version_that_leaves_a_gap_is_not_sent(server: UnityServer) -> None:
    """The server takes the first commit of a table at any version, and nobody could read it."""
    versions = versions_of(created(server))
    with pytest.raises(StorageError, match="gap"):
        versions.put(Attempt(2, b"body"))
    assert server.table(NAME)["latest"] == 0


def test_a_gap_that_another_program_made_is_reported(server: UnityServer) -> None:
    table = created(server)
    name = f"{5:020}.{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}.json"
    record = {"version": 5, "timestamp": 1, "file-name": name, "file-size": 1, "file-modification-timestamp": 1}
    server.table(NAME).update(commits=[record], latest=5, newest=name)
    with pytest.raises(CorruptLogError):
        opened(server)
    with pytest.raises((CorruptLogError, txlog.NotFoundError)):
        versions_of(table).publish(5)
    assert log_of(table) == [f"{0:020}.json"]


def test_a_time_that_does_not_rise_is_not_sent(server: UnityServer) -> None:
    versions = versions_of(created(server))
    body = b'{"commitInfo":{"inCommitTimestamp":%d}}\n'
    assert versions.put(Attempt(1, body % 100)) is PutOutcome.WRITTEN
    with pytest.raises(StorageError, match="time"):
        versions.put(Attempt(2, body % 100))
    assert server.table(NAME)["latest"] == 1


@pytest.mark.parametrize("name", ["../../secret.json", f"{1:020}.json", f"{2:020}.{'0' * 36}.json"])
def test_a_name_that_is_no_staged_commit_is_not_read(server: UnityServer, name: str) -> None:
    created(server)
    record = {"version": 1, "timestamp": 1, "file-name": name, "file-size": 1, "file-modification-timestamp": 1}
    server.table(NAME).update(commits=[record], latest=1, newest=name)
    with pytest.raises(CorruptLogError, match="not a staged commit"):
        opened(server)


def test_what_was_staged_for_a_lost_race_is_removed(server: UnityServer) -> None:
    created(server)
    first, second = opened(server), opened(server)
    first.append(ROW)
    second.append(ROW)
    second.append(ROW)
    assert len(os.listdir(f"{first.uri}/_delta_log/_staged_commits")) == 3


# --- a table that is not what it was --------------------------------------------------------------------------------


def test_a_table_that_is_dropped_while_it_is_open_is_not_found(server: UnityServer) -> None:
    table = created(server)
    txlog.Catalog(server.uri).drop(NAME)
    for use in (lambda: table.append(ROW), lambda: table.snapshot(), lambda: table.delete("id = 1")):
        with pytest.raises(TableNotFoundError, match="was dropped"):
            use()


def test_a_table_that_is_renamed_while_it_is_open_says_its_new_name(server: UnityServer) -> None:
    table = created(server)
    txlog.Catalog(server.uri).rename(NAME, "main.s.other")
    with pytest.raises(TableNotFoundError, match=r"renamed to main\.s\.other"):
        table.append(ROW)


def test_a_table_that_is_made_again_while_it_is_open_is_another_one(server: UnityServer) -> None:
    table = created(server)
    txlog.Catalog(server.uri).drop(NAME)
    created(server)
    with pytest.raises(TableNotFoundError, match="another table"):
        table.append(ROW)
    assert (rows(server), opened(server).version) == (0, 0)


def test_a_table_that_is_dropped_after_an_answer_was_lost_leaves_the_commit_unknown(server: UnityServer) -> None:
    table = created(server)

    def cut_then_drop(method: str, path: str, body: Any) -> Any:
        if method != "POST":
            return None
        server.switches.cut = None
        server._book["tables"].pop(NAME)
        return "before"

    server.switches.cut = cut_then_drop
    with pytest.raises(CommitStateUnknownError, match="was dropped"):
        table.append(ROW)


def test_a_change_of_the_definition_is_tied_to_the_one_that_the_catalog_has_and_an_append_is_not(
    server: UnityServer,
) -> None:
    table, sent = created(server), []

    def note(method: str, path: str, body: Any) -> None:
        if "requirements" in (body or {}):
            sent.append([each["type"] for each in body["requirements"]])

    server.switches.cut = note
    table.append(ROW)
    table.set_properties({"a": "b"})
    assert sent == [["assert-table-uuid"], ["assert-table-uuid", "assert-etag"]]


# --- creation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_table_is_created_once_whatever_answer_is_lost(server: UnityServer, how: Any) -> None:
    def cut(method: str, path: str, body: Any) -> Any:
        if not path.endswith("/tables") or method != "POST":
            return None
        server.switches.cut = None
        return how

    server.switches.cut = cut
    table = created(server)
    assert (table.version, server.table(NAME)["latest"]) == (0, 0)
    table.append(ROW)
    assert rows(server) == 1


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_creation_whose_answers_are_all_lost_is_resolved_by_name(
    server: UnityServer, how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXLOG_CATALOG", server.uri)
    asked = []

    def cut(method: str, path: str, body: Any) -> Any:
        if path.endswith("/tables") and method == "POST":
            asked.append(path)
        return (how if len(asked) == 1 and method == "POST" else "before") if asked else None

    server.switches.cut = cut
    with pytest.raises(CommitStateUnknownError, match=f"txlog.resolve\\('uc://{NAME}', ") as raised:
        txlog.Catalog(server.uri).create(NAME, "id bigint", retry=QUICK)
    server.switches.cut = None
    error = raised.value
    assert (error.table, error.version) == (f"uc://{NAME}", 0)
    if how == "before":
        with pytest.raises(CommitStateUnknownError, match="give the table's schema"):
            txlog.resolve(error.table, error.txn_id, 0)
    assert txlog.resolve(error.table, error.txn_id, 0, "id bigint") is (how == "after")
    assert opened(server).version == 0


def test_a_name_that_another_writer_takes_first_is_refused(server: UnityServer) -> None:
    def take(method: str, path: str, body: Any) -> None:
        if path.endswith("/tables"):
            server.switches.cut = None
            created(server)

    server.switches.cut = take
    with pytest.raises(TableExistsError, match="another table"):
        created(server)
    assert opened(server).version == 0


def test_a_first_write_whose_rows_are_gone_is_not_repeated_if_another_writer_takes_the_name(
    server: UnityServer,
) -> None:
    def take(method: str, path: str, body: Any) -> None:
        if path.endswith("/tables"):
            server.switches.cut = None
            created(server)

    server.switches.cut = take
    with pytest.raises(TableExistsError):
        txlog.Catalog(server.uri).write(NAME, pa.RecordBatchReader.from_batches(ROW.schema, ROW.to_batches()))
    assert (opened(server).version, rows(server)) == (0, 0)


def test_version_0_has_all_that_the_catalog_wants(server: UnityServer) -> None:
    table = created(server)
    record = server.table(NAME)
    assert record["properties"]["io.unitycatalog.tableId"] == record["uuid"]
    features = table._open_table.log.newest_state().protocol.writer_features
    assert features is not None
    assert {"catalogManaged", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck"} <= set(features)
