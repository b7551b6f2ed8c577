"""Appends that lost their races are committed by whoever is first in line, and each writer gets its own answer."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.definition import Definition, commit_definition, new_table
from txlog.core.sink import Sink
from txlog.core.store import PutOutcome, RetryPolicy, TableStore
from txlog.core.store._base import OBJECT_STORE
from txlog.core.store._commit_queue import OPEN, CommitQueue, LocalCommitQueue
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.intents import named_intent
from txlog.errors import CommitRetriesExhaustedError, CommitStateUnknownError, MetadataChangedError, StorageError
from txlog.table import Table
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

GROUPED = {"txlog.groupCommit": "true"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


class World:
    """A table on a store like S3, and handles on it as if each were on a machine of its own."""

    def __init__(self, schema: pa.Schema | None = None, parts: tuple[str, ...] = (), **properties: str) -> None:
        self.log, self.waiting, self.staging = MemoryLogStore(), MemoryLogStore(), MemoryLogStore()
        for store in (self.log, self.waiting, self.staging):
            store.capabilities = OBJECT_STORE
        self.files = MemoryFileStore()
        definition = Definition(*new_table(schema or rows().schema, parts, properties))
        commit_definition(self.writer()._open_table, None, definition, "CREATE TABLE", {})

    def writer(self, *, waits: bool = False, queue: CommitQueue = OPEN, **retry: Any) -> Table:
        """A handle; with ``waits`` one that has just seen others wait. ``queue`` is that of its machine."""
        log, waiting = FaultyLogStore(self.log), FaultyLogStore(self.waiting)
        store = TableStore("memory://table", log, self.files, self.staging, waiting=waiting, commit_queue=queue)
        table = Table(OpenTable(store, RetryPolicy(**retry)))
        if waits:
            see_others(table)
        return table

    def ids(self) -> list[int]:
        return sorted(self.writer().snapshot().to_arrow()["id"].to_pylist())

    def history(self) -> list[dict[str, Any]]:
        return self.writer().history()

    def check(self) -> None:
        found = self.writer().verify()
        assert not found.findings, found


def log_of(table: Table) -> FaultyLogStore:
    store = table._open_table.store.log
    assert isinstance(store, FaultyLogStore)
    return store


def folder_of(table: Table) -> FaultyLogStore:
    store = table._open_table.store.waiting
    assert isinstance(store, FaultyLogStore)
    return store


def see_others(table: Table) -> None:
    """Let the next append of a handle join the line at once."""
    table._open_table._commits.line.crowded_until_s = math.inf  # type: ignore[attr-defined]


def settle() -> None:
    """Wait for the requests that were made beside something."""
    for thread in threading.enumerate():
        if thread.name == "txlog-line":
            thread.join()


def before(event: Callable[[], object]) -> Callable[..., Any]:
    def step(real: Any, *arguments: Any) -> Any:
        event()
        return real(*arguments)

    return step


def after(event: Callable[[], object]) -> Callable[..., Any]:
    def step(real: Any, *arguments: Any) -> Any:
        outcome = real(*arguments)
        event()
        return outcome

    return step


def lose_races(loser: Table, winner: Table, races: int = 2, first_id: int = 100) -> None:
    """The next puts of a handle lose to another one."""
    loser.append(rows(0))  # its first put probes the store
    log_of(loser).script["put_if_absent"] = [
        before(lambda number=number: winner.append(rows(first_id + number))) for number in range(races)
    ]


def test_an_append_that_lost_twice_is_carried_by_another_writer_and_both_get_their_own_result() -> None:
    world = World(**GROUPED)
    winner, loser = world.writer(), world.writer()
    lose_races(loser, winner)
    carried: list[Any] = []
    busy = world.writer(waits=True)
    folder_of(loser).script["put_if_absent"] = [after(lambda: carried.append(busy.append(rows(7, 8))))]
    result = loser.append(rows(1), user_metadata="mine")
    assert (result.version, result.outcome) == (carried[0].version, "committed")
    assert result.txn_id != carried[0].txn_id
    assert (result.metrics.rows, carried[0].metrics.rows) == (1, 2)
    assert result.metrics.lost_races == 2
    assert world.ids() == [0, 1, 7, 8, 100, 101]
    newest = world.history()[0]
    assert [each["txnId"] for each in newest["txlog"]["joined"]] == [carried[0].txn_id, result.txn_id]
    assert [each.get("userMetadata") for each in newest["txlog"]["joined"]] == [None, "mine"]
    assert newest["operationMetrics"]["numOutputRows"] == "3"
    assert ", 2 in one" in repr(world.history())
    settle()
    assert not world.waiting.objects
    world.check()
    assert loser.append(rows(2)).metrics.lost_races == 0, "its handle knows the version that carried it"


def test_an_append_that_lost_to_appends_of_several_writers_is_offered_after_one_race() -> None:
    world = World(**GROUPED)
    first, second, loser = world.writer(waits=True), world.writer(waits=True), world.writer()
    lose_races(loser, first, races=0)
    folder_of(first).script["put_if_absent"] = [after(lambda: second.append(rows(20)))]  # carries that of the first
    log_of(loser).script["put_if_absent"] = [before(lambda: first.append(rows(30)))]
    assert loser.append(rows(1)).metrics.lost_races == 1
    assert [name for name, _ in folder_of(loser).calls if name == "put_if_absent"]
    assert world.ids() == [0, 1, 20, 30]
    settle()
    world.check()


def test_without_the_property_nothing_is_offered() -> None:
    world = World()
    winner, loser = world.writer(), world.writer()
    lose_races(loser, winner)
    loser.append(rows(1))
    assert folder_of(loser).names("put_if_absent") == []
    assert len(folder_of(loser).names("put")) == 1, "it waits in line with a mark"


def test_one_writer_alone_asks_nothing_of_the_folder() -> None:
    world = World(**GROUPED)
    writer = world.writer()
    writer.append(rows(1))
    before_s = len(log_of(writer).calls)
    writer.append(rows(2))
    requests = log_of(writer).calls[before_s:]
    plain = World().writer()
    plain.append(rows(1))
    before_s = len(log_of(plain).calls)
    plain.append(rows(2))
    assert requests == log_of(plain).calls[before_s:]
    settle()
    assert {operation for operation, _ in folder_of(writer).calls} <= {"list_from"}


def test_a_writer_whose_time_is_over_takes_its_append_back_for_good() -> None:
    world = World(**GROUPED)
    writer = world.writer(waits=True, total_timeout=0.0)
    folder_of(writer).script["delete"] = [lambda real, name: None]  # the intent stays, as after a crash
    with pytest.raises(CommitRetriesExhaustedError, match="Nothing landed"):
        writer.append(rows(1))
    settle()
    assert [named_intent(name) is not None for name in world.waiting.objects] == [True]
    assert world.history()[0]["operation"] == "FENCE"
    world.writer(waits=True).append(rows(2))
    assert world.ids() == [2]
    world.check()


def test_a_writer_whose_time_is_over_gets_its_result_if_another_one_was_faster() -> None:
    world = World(**GROUPED)
    writer, other = world.writer(waits=True, total_timeout=0.0), world.writer(waits=True)
    writer._open_table.log.newest_state()
    log_of(writer).script["put_if_absent"] = [None, before(lambda: other.append(rows(2)))]  # the first is a probe
    assert writer.append(rows(1)).version == 1
    assert world.ids() == [1, 2]


def test_an_append_that_may_land_later_is_unknown_until_it_is_resolved() -> None:
    world = World(**GROUPED)
    writer = world.writer(waits=True)
    writer.append(rows(0))
    see_others(writer)

    def fail(real: Any, name: str) -> bytes:
        raise StorageError("503")

    folder_of(writer).script["put_if_absent"] = [after(lambda: log_of(writer).script.update(read=[fail] * 20))]
    folder_of(writer).script["delete"] = [lambda real, name: None]
    with pytest.raises(CommitStateUnknownError) as unknown:
        writer.append(rows(1))
    assert unknown.value.version is not None
    assert unknown.value.txn_id is not None
    asked = world.writer()
    assert asked.resolve(unknown.value.txn_id, unknown.value.version) is False
    world.writer(waits=True).append(rows(2))
    assert world.ids() == [0, 2], "the fence names it, and whoever gathers leaves it out"
    assert world.writer().resolve(unknown.value.txn_id, unknown.value.version) is False
    world.check()


def test_an_append_that_another_writer_carried_meanwhile_is_found_in_a_later_version() -> None:
    world = World(**GROUPED)
    writer, other = world.writer(waits=True), world.writer(waits=True)
    writer.append(rows(0))
    see_others(writer)

    def fail(real: Any, name: str) -> bytes:
        raise StorageError("503")

    def carry() -> None:
        world.writer().append(rows(5))
        other.append(rows(6))
        log_of(writer).script["read"] = [fail] * 20

    folder_of(writer).script["put_if_absent"] = [after(carry)]
    with pytest.raises(CommitStateUnknownError) as unknown:
        writer.append(rows(1))
    assert unknown.value.version is not None
    assert unknown.value.txn_id is not None
    assert world.ids() == [0, 1, 5, 6]
    assert world.writer().resolve(unknown.value.txn_id, unknown.value.version) is True


def test_a_changed_definition_is_the_writers_own_error_and_the_append_never_lands() -> None:
    world = World(**GROUPED)
    writer = world.writer(waits=True)
    writer.append(rows(0))
    see_others(writer)
    change = world.writer()
    folder_of(writer).script["put_if_absent"] = [after(lambda: change.set_properties({"owner": "me"}))]
    folder_of(writer).script["delete"] = [lambda real, name: None]
    with pytest.raises(MetadataChangedError):
        writer.append(rows(1))
    world.writer(waits=True).append(rows(2))
    assert world.ids() == [0, 2]


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_line() -> None:
    world = World(**GROUPED)
    writer = world.writer(waits=True)

    def refuse(real: Any, name: str, body: bytes) -> PutOutcome:
        raise StorageError("403")

    folder_of(writer).script["put_if_absent"] = [refuse]
    assert writer.append(rows(1)).version == 1
    assert world.ids() == [1]


def test_an_intent_that_was_deleted_is_committed_by_its_own_writer() -> None:
    world = World(**GROUPED)
    writer = world.writer(waits=True)
    folder_of(writer).script["put_if_absent"] = [after(world.waiting.objects.clear)]
    assert writer.append(rows(1)).version == 1


def test_who_waits_in_the_line_of_all_machines_keeps_no_turn_of_its_own(tmp_path: Path) -> None:
    world = World(**GROUPED)
    queue = LocalCommitQueue(str(tmp_path))
    writer = world.writer(waits=True, queue=queue)
    found: list[bool] = []

    def look() -> None:
        turn = queue.take(answered=lambda: True)
        found.append(bool(turn._descriptors))
        turn.end()

    folder_of(writer).script["list_from"] = [before(look)]
    writer.append(rows(1))
    assert found == [True]


def test_what_is_no_intent_is_left_where_it_is() -> None:
    world = World(**GROUPED)
    writer = world.writer(waits=True)
    names = [f"{0:020d}.{'0' * 8}-0000-4000-8000-00000000000{number}.intent" for number in range(3)]
    for name, body in zip(names, (b"", b"txlog-intent 9 x\n{}", b"x" * 100), strict=True):
        world.waiting.put(name, body)
    assert writer.append(rows(1)).version == 1
    settle()
    assert set(world.waiting.objects) == set(names)


def test_checkpoints_of_sinks_are_carried_once() -> None:
    world = World(**GROUPED)
    one, other = world.writer(waits=True), world.writer(waits=True)
    done: list[Any] = []

    def commit(table: Table, app_id: str, number: int) -> Any:
        sink = Sink(table, app_id)
        with sink.task(1) as task:
            task.write(rows(number))
        return sink.commit(1, [task.committable])

    folder_of(one).script["put_if_absent"] = [after(lambda: done.append(commit(other, "b", 2)))]
    mine = commit(one, "a", 1)
    assert mine.version == done[0].version == 1
    assert world.ids() == [1, 2]
    for app_id in ("a", "b"):
        assert commit(world.writer(), app_id, 9).outcome == "already_committed"
    joined = world.history()[0]["txlog"]["joined"]
    assert sorted((each["appId"], each["version"]) for each in joined) == [("a", 1), ("b", 1)]
    world.check()


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.enableRowTracking": "true"},
        {"delta.enableInCommitTimestamps": "true"},
        {"delta.enableChangeDataFeed": "true"},
        {"delta.appendOnly": "true"},
    ],
)
def test_many_writers_with_threads_lose_and_repeat_nothing(properties: dict[str, str]) -> None:
    """Handles of their own, as on several machines, each used by several threads."""
    world = World(**GROUPED, **properties)
    handles = [world.writer(waits=True) for _ in range(3)]
    results: list[Any] = []

    def work(number: int) -> None:
        for step in range(6):
            results.append((number * 100 + step, handles[number % 3].append(rows(number * 100 + step))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 54
    assert world.ids() == sorted(number for number, _ in results)
    versions = {entry["version"]: entry for entry in world.history()}
    for _, result in results:
        entry = versions[result.version]
        members = [each["txnId"] for each in entry["txlog"].get("joined", ())] or [entry["txnId"]]
        assert result.txn_id in members
    world.check()
    if "delta.enableChangeDataFeed" in properties:
        feed = world.writer().changes(1).read_all()
        assert sorted(feed["id"].to_pylist()) == world.ids()


def test_the_property_can_be_set_and_unset() -> None:
    world = World()
    table = world.writer()
    table.set_properties({"txlog.groupCommit": True})
    assert table.snapshot().properties["txlog.groupCommit"] == "true"
    with pytest.raises(txlog.InvalidInputError, match="true or false"):
        table.set_properties({"txlog.groupCommit": "sometimes"})
    table.unset_properties(["txlog.groupCommit"])
    lose_races(table, world.writer())
    table.append(rows(1))
    assert folder_of(table).names("put_if_absent") == []
