"""Overwrites of partitions that lost their races are committed by whoever is first in line, as appends are."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from tests.core.versions.test_offered_append import (
    GROUPED,
    World,
    after,
    folder_of,
    log_of,
    see_others,
    settle,
)
from txlog.core.format.log_names import commit_name
from txlog.core.versions._offered_append import OfferedAppend
from txlog.core.versions.decisions.intents import named_intent
from txlog.core.versions.files import _delta_log
from txlog.errors import CommitRetriesExhaustedError, CommitStateUnknownError, ConflictError, StorageError
from txlog.table import Table


def rows(part: str, *ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [part] * len(ids)})


class Parts(World):
    """A table with partitions a, b and c, each with a row."""

    def __init__(self, **properties: str) -> None:
        super().__init__(rows("a", 1).schema, ("part",), **properties)
        self.writer().append(pa.concat_tables(rows(part, number) for number, part in enumerate("abc")))

    def rows(self) -> list[tuple[str, int]]:
        found = self.writer().snapshot().to_arrow().select(["part", "id"]).to_pylist()
        return sorted((row["part"], row["id"]) for row in found)


def overwrite(table: Table, part: str, *ids: int, **how: Any) -> txlog.WriteResult:
    return table.overwrite_partitions(rows(part, *ids), on_conflict="rerun", **how)


def test_two_overwrites_share_a_version_and_each_writer_gets_its_own_result() -> None:
    world = Parts(**GROUPED)
    first, second = world.writer(waits=True), world.writer(waits=True)
    carried: list[Any] = []
    folder_of(first).script["put_if_absent"] = [after(lambda: carried.append(overwrite(second, "b", 20, 21)))]
    result = overwrite(first, "a", 10, user_metadata="mine")
    assert result.version == carried[0].version == 2
    assert world.rows() == [("a", 10), ("b", 20), ("b", 21), ("c", 2)]
    newest = world.history()[0]
    assert [(each["txnId"], each["files"], each["removed"]) for each in newest["txlog"]["joined"]] == [
        (carried[0].txn_id, 1, 1),
        (result.txn_id, 1, 1),
    ]
    assert (newest["isBlindAppend"], newest["isolationLevel"]) == (False, "Serializable")
    for each, rows_written in ((result, 1), (carried[0], 2)):
        assert (each.metrics.rows, each.metrics.files_removed, each.metrics.rows_deleted) == (rows_written, 1, 1)
    settle()
    assert not world.waiting.objects
    world.check()


def left_by(writer: Table, step: Callable[[], object]) -> Callable[..., Any]:
    """Once the writer has left its intent, do this."""
    folder_of(writer).script["put_if_absent"] = [after(step)]
    return step


def crash_in_line(writer: Table, part: str, *ids: int) -> None:
    """Its intent stays, since a crashed writer deletes nothing."""

    def crash() -> None:
        raise KeyboardInterrupt

    left_by(writer, crash)
    folder_of(writer).script["delete"] = [lambda real, name: None]
    with pytest.raises(KeyboardInterrupt):
        overwrite(writer, part, *ids)


def test_whoever_commits_an_overwrite_replaces_what_its_partition_holds_by_then() -> None:
    world = Parts(**GROUPED)
    first, second, third = world.writer(waits=True), world.writer(waits=True), world.writer()

    def carry() -> None:
        third.append(rows("a", 11, 12))
        third.append(rows("b", 13))
        overwrite(second, "c", 30)

    left_by(first, carry)
    result = overwrite(first, "a", 10)
    assert result.version == 4
    assert world.rows() == [("a", 10), ("b", 1), ("b", 13), ("c", 30)]
    assert (result.metrics.files_removed, result.metrics.rows_deleted) == (2, 3), "as it was when it was committed"
    assert [each["removed"] for each in world.history()[0]["txlog"]["joined"]] == [1, 2]
    world.check()


def test_a_long_list_of_files_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_delta_log, "SHORT_BYTES", 0)
    world = Parts(**GROUPED)
    first, second = world.writer(waits=True), world.writer(waits=True)

    def carry() -> None:
        world.writer().append(rows("a", 11))
        overwrite(second, "b", 20)

    left_by(first, carry)
    assert overwrite(first, "a", 10).metrics.files_removed == 2
    assert log_of(first).names("read").count(commit_name(2)) == 1, "to follow the log, and not to list the files again"


def test_two_overwrites_of_one_partition_take_two_versions_and_the_later_one_stays() -> None:
    world = Parts(**GROUPED)
    first, second, third = (world.writer(waits=True) for _ in range(3))
    done: list[Any] = []

    def carry() -> None:
        left_by(second, lambda: done.append(overwrite(third, "c", 30)))
        done.append(overwrite(second, "a", 20))

    left_by(first, carry)
    mine = overwrite(first, "a", 10)
    versions = [mine.version, done[1].version, done[0].version]
    assert sorted({mine.version, done[1].version}) == [2, 3], "apart, and nobody waits longer than that"
    assert done[0].version in versions[:2]
    assert world.rows() == [("a", 10 if mine.version == 3 else 20), ("b", 1), ("c", 30)]
    world.check()


def test_an_overwrite_shares_no_version_with_an_append() -> None:
    """A stream that skips versions with changed rows would lose the append."""
    world = Parts(**GROUPED)
    first, second = world.writer(waits=True), world.writer(waits=True)
    done: list[Any] = []
    left_by(first, lambda: done.append(second.append(rows("b", 5))))
    result = overwrite(first, "a", 10)
    assert {result.version, done[0].version} == {2, 3}
    assert {entry["version"]: entry["isBlindAppend"] for entry in world.history()[:2]} == {
        result.version: False,
        done[0].version: True,
    }
    assert world.rows() == [("a", 10), ("b", 1), ("b", 5), ("c", 2)]


def test_an_overwrite_that_fails_instead_of_running_again_is_not_offered() -> None:
    world = Parts(**GROUPED)
    writer = world.writer(waits=True)
    assert writer.overwrite_partitions(rows("a", 10)).version == 2
    assert folder_of(writer).names("put_if_absent") == []
    assert len(folder_of(writer).names("put")) == 1, "it waits in line with a mark"


def test_a_writer_whose_time_is_over_takes_its_overwrite_back_for_good() -> None:
    world = Parts(**GROUPED)
    writer = world.writer(waits=True, total_timeout=0.0)
    folder_of(writer).script["delete"] = [lambda real, name: None]  # the intent stays, as after a crash
    with pytest.raises(CommitRetriesExhaustedError, match="Nothing landed"):
        overwrite(writer, "a", 10)
    settle()
    assert world.waiting.objects
    assert world.history()[0]["operation"] == "FENCE"
    overwrite(world.writer(waits=True), "b", 20)
    assert world.rows() == [("a", 0), ("b", 20), ("c", 2)]
    world.check()


def test_an_overwrite_of_a_crashed_writer_lands_once_or_never() -> None:
    world = Parts(**GROUPED)
    writer = world.writer(waits=True)
    crash_in_line(writer, "a", 10)
    other = world.writer(waits=True)
    assert overwrite(other, "b", 20).version == 2
    assert world.rows() == [("a", 10), ("b", 20), ("c", 2)]
    world.writer().append(rows("a", 11))
    overwrite(world.writer(waits=True), "c", 30)
    assert world.rows() == [("a", 10), ("a", 11), ("b", 20), ("c", 30)], "its intent is still there, and has landed"
    world.check()


def test_a_handle_waits_once_for_a_crashed_writer_of_the_other_kind() -> None:
    world = Parts(**GROUPED)
    crashed = world.writer(waits=True)
    crash_in_line(crashed, "a", 10)
    writer = world.writer(waits=True)
    looks = []
    for number in range(2):
        before_them = len(folder_of(writer).names("list_from"))
        writer.append(rows("a", 20 + number))
        looks.append(len(folder_of(writer).names("list_from")) - before_them)
    assert looks[0] > looks[1] == 1
    assert overwrite(world.writer(waits=True), "b", 30).version == 4, "who is of its kind commits it too"
    assert world.rows() == [("a", 10), ("b", 30), ("c", 2)]


@pytest.mark.parametrize("knows", [True, False], ids=["seen", "read back"])
def test_an_overwrite_of_a_crashed_writer_does_not_undo_a_later_one(knows: bool) -> None:
    world = Parts(**GROUPED)
    writer, other = world.writer(waits=True), world.writer(waits=True)
    crash_in_line(writer, "a", 10)
    assert overwrite(other, "a", 11).version == 2
    overwrite(other if knows else world.writer(waits=True), "b", 20)
    assert world.rows() == [("a", 11), ("b", 20), ("c", 2)]


def test_a_writer_whose_partition_was_replaced_leaves_its_overwrite_again_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Parts(**GROUPED)
    writer, other, third = world.writer(waits=True), world.writer(), world.writer(waits=True)
    left_by(writer, lambda: overwrite(other, "a", 11))
    turns, is_turn, pause = [False], OfferedAppend._is_turn, OfferedAppend.pause

    def someone_is_ahead(offer: Any, *given: Any) -> bool:
        return turns.pop() if turns else is_turn(offer, *given)

    def carried_meanwhile(offer: Any) -> None:
        monkeypatch.setattr(OfferedAppend, "pause", pause)
        newest = max(found for name in world.waiting.objects if (found := named_intent(name)) is not None)
        assert newest[0] == 2, "the version that replaced the partition"
        overwrite(third, "b", 20)

    monkeypatch.setattr(OfferedAppend, "_is_turn", someone_is_ahead)
    monkeypatch.setattr(OfferedAppend, "pause", carried_meanwhile)
    result = overwrite(writer, "a", 10)
    assert (result.version, len(world.history()[0]["txlog"]["joined"])) == (3, 2)
    assert world.rows() == [("a", 10), ("b", 20), ("c", 2)]
    settle()
    assert not world.waiting.objects
    world.check()


def test_an_overwrite_that_may_land_later_is_unknown_until_it_is_resolved() -> None:
    world = Parts(**GROUPED)
    writer = world.writer(waits=True)
    overwrite(writer, "c", 30)
    see_others(writer)

    def fail(real: Any, name: str) -> bytes:
        raise StorageError("503")

    left_by(writer, lambda: log_of(writer).script.update(read=[fail] * 20))
    folder_of(writer).script["delete"] = [lambda real, name: None]
    with pytest.raises(CommitStateUnknownError) as unknown:
        overwrite(writer, "a", 10)
    assert unknown.value.version is not None
    assert unknown.value.txn_id is not None
    assert world.writer().resolve(unknown.value.txn_id, unknown.value.version) is False
    overwrite(world.writer(waits=True), "b", 20)
    assert world.rows() == [("a", 0), ("b", 20), ("c", 30)], "the fence names it, and whoever gathers leaves it out"


def test_after_a_change_of_the_definition_nobody_commits_it_but_its_writer() -> None:
    world = Parts(**GROUPED)
    writer, change = world.writer(waits=True), world.writer()

    def carry() -> None:
        change.set_properties({"owner": "me"})
        overwrite(world.writer(waits=True), "b", 20)
        assert world.rows() == [("a", 0), ("b", 20), ("c", 2)]

    left_by(writer, carry)
    assert overwrite(writer, "a", 10).version == 4
    assert world.rows() == [("a", 10), ("b", 20), ("c", 2)]


def test_an_overwrite_of_a_checkpoint_lands_once() -> None:
    world = Parts(**GROUPED)
    first, second = world.writer(waits=True), world.writer(waits=True)
    app: dict[str, Any] = {"app_id": "job", "checkpoint_id": 1, "fingerprint": "offsets"}
    left_by(first, lambda: overwrite(second, "b", 20))
    assert overwrite(first, "a", 10, **app).version == 2
    world.writer().append(rows("a", 11))
    again = overwrite(world.writer(), "a", 10, **app)
    assert (again.outcome, again.version) == ("already_committed", 2)
    with pytest.raises(txlog.InvalidInputError, match="'offsets' there"):
        overwrite(world.writer(), "a", 10, **app | {"fingerprint": "others"})
    assert world.rows() == [("a", 10), ("a", 11), ("b", 20), ("c", 2)]


def test_what_a_handle_replaced_among_others_is_no_change_of_others() -> None:
    world = Parts(**GROUPED)
    first, second = world.writer(waits=True), world.writer(waits=True)
    first.snapshot()
    left_by(first, lambda: overwrite(second, "b", 20))
    overwrite(first, "a", 10)
    first.overwrite_partitions(rows("a", 11))
    with pytest.raises(ConflictError, match=r"added part=b.* to what this WRITE replaces"):
        first.overwrite_partitions(rows("b", 21))
    assert world.rows() == [("a", 11), ("b", 20), ("c", 2)]


@pytest.mark.parametrize(
    "properties", [{}, {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}]
)
def test_many_writers_replace_and_append_as_if_one_after_the_other(properties: dict[str, str], tmp_path: Path) -> None:
    world = Parts(**GROUPED, **properties, **{"delta.enableChangeDataFeed": "true"})
    handles = [world.writer(waits=True) for _ in range(4)]
    results: dict[str, tuple[bool, str, int]] = {}

    def work(number: int) -> None:
        for step in range(4):
            row, part, replaces = 100 * number + step, "abc"[(number + step) % 3], (number + step) % 4 != 0
            handle = handles[number]
            see_others(handle)
            result = overwrite(handle, part, row) if replaces else handle.append(rows(part, row))
            results[result.txn_id] = replaces, part, row

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16
    expected: dict[str, list[int]] = {"a": [0], "b": [1], "c": [2]}
    for entry in reversed(world.history()[:-2]):
        for txn_id in [each["txnId"] for each in entry["txlog"].get("joined", ())] or [entry["txnId"]]:
            replaces, part, row = results.pop(txn_id)
            expected[part] = [row] if replaces else [*expected[part], row]
    assert not results
    found = sorted((part, row) for part, ids in expected.items() for row in ids)
    assert world.rows() == found
    assert sorted(as_deltalake_reads(world, tmp_path)) == found
    assert sorted(as_changes_say(world)) == found
    world.check()


def as_deltalake_reads(world: World, folder: Path) -> list[tuple[str, int]]:
    for name, (body, _) in world.log.objects.items():
        (folder / "_delta_log").mkdir(exist_ok=True)
        (folder / "_delta_log" / name).write_bytes(body)
    for name, (body, *_) in world.files.objects.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(body)
    rows = deltalake.DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return [(row["part"], row["id"]) for row in rows]


def as_changes_say(world: World) -> list[tuple[str, int]]:
    """The rows that the change feed leaves."""
    left: Counter[tuple[str, int]] = Counter()
    for row in world.writer().changes(1).read_all().to_pylist():
        left[row["part"], row["id"]] += {"insert": 1, "delete": -1}[row["_change_type"]]
    assert set(left.values()) <= {0, 1}
    return [*left.elements()]


def test_who_is_next_after_a_version_of_the_other_kind_reads_what_it_will_carry_meanwhile() -> None:
    world = Parts(**GROUPED)

    def crash() -> None:
        raise KeyboardInterrupt

    def leave(write: Callable[[Table], object]) -> None:
        writer = world.writer(waits=True)
        left_by(writer, crash)
        folder_of(writer).script["delete"] = [lambda real, name: None]
        with pytest.raises(KeyboardInterrupt):
            write(writer)

    leave(lambda writer: writer.append(rows("a", 5)))
    (ahead,) = world.waiting.objects
    writer = world.writer(waits=True)
    writer._open_table._commits.line.round_trip_s = lambda: 0.1  # type: ignore[union-attr]
    left_by(writer, lambda: leave(lambda other: overwrite(other, "b", 20)))
    folder_of(writer).script["read"] = [after(lambda: world.waiting.objects.pop(ahead))]
    assert overwrite(writer, "c", 30).version == 2
    assert world.rows() == [("a", 0), ("b", 20), ("c", 30)]
    calls = [operation for operation, _ in folder_of(writer).calls]
    assert calls.index("read") < len(calls) - 1 - calls[::-1].index("list_from"), "before it was its turn"
    assert calls.count("read") == 1
