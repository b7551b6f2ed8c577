"""Sinks of several tables that one checkpoint feeds: every table gets it once, and none gets it alone."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import txlog
from tests.sink_groups import (
    SCHEMA,
    TASKS,
    Make,
    Meanwhile,
    changed_in_the_moment_of_the_decision,
    checkpoints_of,
    copy_of,
    discard_at_any_moment_of_a_commit,
    group_of,
    in_every,
    new_stores,
    observed,
    staged,
    tables_of,
)
from txlog.core.format.log_names import commit_name
from txlog.core.sink._checkpoint_commits import CheckpointGivenUp
from txlog.core.sink._inspection import applications
from txlog.core.sink._recovery import Recovery
from txlog.core.sink._staging import StagedCheckpoint
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.prepared import is_part
from txlog.testing.faults import Crashed, Fault, StoreCall

IN_THE_HUNT = pytest.mark.hunt(part="crashes")
ROWS = {0: (1, 1), 1: (1, 0), 2: (0, 1)}
"""The rows of each task of a checkpoint for each of two tables; the first one decides."""


pytestmark = pytest.mark.usefixtures("clock")  # who meets a prepared table waits for its writer first


@pytest.fixture
def tables(make_table: Make) -> list[txlog.Table]:
    return [make_table(schema=SCHEMA, name=name) for name in ("a", "b", "c")]


def sealed(sinks: Sequence[txlog.Sink], group: txlog.SinkGroup, checkpoint_id: int) -> None:
    staged(sinks, checkpoint_id)
    assert group.prepare(checkpoint_id, [range(TASKS)] * len(sinks), fingerprint=f"offsets of {checkpoint_id}")


def sealed_without_the_deciding_table(sinks: Sequence[txlog.Sink], checkpoint_id: int) -> txlog.SinkGroup:
    """What a coordinator leaves that dies before its last seal."""
    staged(sinks, checkpoint_id)
    group = txlog.SinkGroup(*sinks)
    for sink in group._in_turn[:-1]:
        sink._seal(*sink._sealable(sink._commits.job(checkpoint_id), range(TASKS), group._together))
    return group


def work_of(table: txlog.Table) -> list[StagedCheckpoint]:
    """What is staged, without what says that the rounds of a checkpoint are over."""
    return [each for each in txlog.Sink(table, "app")._staging.checkpoints() if each.has_work]


def recoveries_of(door: txlog.Sink | txlog.SinkGroup) -> list[Recovery]:
    found = door.recover()
    return [found] if isinstance(found, Recovery) else [*found]


def staging_of(table: txlog.Table, *, after_a_death: bool = False) -> list[str]:
    """What is staged. After a death, a vacuum finds the work of transactions that are over."""
    staging = table._open_table.store.staging
    names = [] if staging is None else [meta.name for meta in staging.list_from("")]
    return [name for name in names if not (after_a_death and is_part(name))]


def forget_commits(table: txlog.Table) -> None:
    """Clean up the log up to a checkpoint of its newest version, which is no commit of a sink."""
    table.append(pa.table({"checkpoint": [], "task": []}, SCHEMA))
    table.create_checkpoint()
    for version in range(table.version):
        (Path(table.uri) / "_delta_log" / commit_name(version)).unlink()


def test_a_checkpoint_lands_in_each_table_once(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    for checkpoint_id in (1, 2):
        sealed(sinks, group, checkpoint_id)
        assert [result.outcome for result in group.commit(checkpoint_id)] == ["committed"] * 3
    assert in_every(tables, 1, 2)
    assert [deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows for table in tables] == [2 * TASKS] * 3
    assert [staging_of(table) for table in tables] == [[], [], []]
    assert group.last_checkpoint_id() == 2
    assert [result.outcome for result in group.commit(2)] == ["already_committed"] * 3
    assert not group.prepare(2, [range(TASKS)] * 3, fingerprint="offsets of 2")


def test_a_replay_of_an_older_checkpoint_finds_it_in_the_tables_that_had_rows(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    staged(sinks[:1], 1, (1,))
    assert group.prepare(1, [range(TASKS), (), ()], fingerprint="offsets of 1")
    assert [result.outcome for result in group.commit(1)] == ["committed", "empty", "empty"]
    sealed(sinks, group, 2)
    group.commit(2)
    for again in (group, group_of(tables)[1]):
        assert not again.prepare(1, [range(TASKS), (), ()], fingerprint="offsets of 1")
        with pytest.raises(txlog.InvalidInputError, match="fingerprint"):
            again.prepare(1, [range(TASKS), (), ()], fingerprint="others")
        assert [result.outcome for result in again.commit(1)] == ["already_committed", "empty", "empty"]
    with pytest.raises(txlog.InvalidInputError, match="is older than the last one committed"):
        group.commit(0)
    assert checkpoints_of(tables[0]) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert [staging_of(table) for table in tables] == [[], [], []]


def test_one_table_whose_log_has_the_commit_proves_the_checkpoint_for_all(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 2)
    group.commit(2)
    for cleaned in tables[1:]:
        forget_commits(cleaned)
    again = group_of(tables)[1]
    assert not again.prepare(2, [range(TASKS)] * 3, fingerprint="offsets of 2")
    forget_commits(tables[0])
    again = group_of(tables)[1]
    with pytest.raises(txlog.InvalidInputError, match="nothing shows whether it was made from the same input"):
        again.prepare(2, [range(TASKS)] * 3, fingerprint="offsets of 2")
    assert not again.prepare(2, [range(TASKS)] * 3)
    assert [result.outcome for result in again.commit(2)] == ["already_committed"] * 3
    assert in_every(tables, 2)


def test_preparing_a_checkpoint_that_all_tables_have_reports_no_dropped_replay(
    tables: list[txlog.Table], caplog: pytest.LogCaptureFixture
) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    group.commit(1)
    with caplog.at_level("WARNING", "txlog"):
        assert not group.prepare(1, [range(TASKS)] * 3, fingerprint="offsets of 1")
    assert caplog.messages == []


def test_an_error_after_checkpoints_were_recovered_says_which(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    sealed(sinks, group, 2)
    second = group._in_turn[0]._staging.checkpoints("app")[1]
    group._in_turn[0]._staging.remove(name for name in second.names if ".task." in name)
    with pytest.raises(txlog.NotFoundError) as raised:
        group_of(tables)[1].recover()
    assert [list(recovery.results) for recovery in raised.value.recovery] == [[1]] * 3


def test_nothing_is_sealed_before_every_table_is_ready(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    staged(sinks[:2], 1, (1, 1))
    with pytest.raises(txlog.InvalidInputError, match="not every task staged") as raised:
        group.prepare(1, [range(TASKS)] * 3)
    assert raised.value.table == tables[2].uri
    assert not any("manifest" in name for table in tables for name in staging_of(table))
    with pytest.raises(txlog.InvalidInputError, match="the tasks of each of the 3 sinks"):
        group.prepare(1, [range(TASKS)] * 2)
    with pytest.raises(txlog.InvalidInputError, match="not sealed"):
        group.commit(1)


def test_a_checkpoint_that_not_all_tables_were_sealed_for_lands_in_none(tables: list[txlog.Table]) -> None:
    sinks, _ = group_of(tables)
    sealed_without_the_deciding_table(sinks, 1)
    sinks, group = group_of(tables)
    assert [dict(recovery.partial) for recovery in group.recover()] == [{1: {0: (0,), 1: (0,)}}] * 3
    assert in_every(tables)
    assert group.discard(1)
    assert not group.discard(1)
    sealed(sinks, group, 1)
    group.commit(1)
    assert in_every(tables, 1)


def test_what_a_discard_notes_in_a_table_is_no_application_to_operators(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    assert group.discard(1)
    assert [txlog.Table.open(table.uri).history(1)[0]["operation"] for table in tables].count("DISCARD CHECKPOINT") == 1
    for table in tables:
        assert applications(OpenTable(table._open_table.store)) == []


def test_a_recovery_ends_what_one_table_has_and_the_others_lack(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    sealed(sinks, group, 2)
    first = group._in_turn[0]
    first._commits.commit_sealed(first._staging.checkpoints("app")[0], (), 0, group._together)
    _, again = group_of(tables[::-1])  # the order of the sinks does not matter
    with pytest.raises(txlog.InvalidInputError, match=r"is in .* already: group\.commit\(1\)"):
        again.discard(1)
    outcomes = sorted(recovery.results[1].outcome for recovery in again.recover())
    assert outcomes == ["already_committed", "committed", "committed"]
    assert in_every(tables, 1, 2)
    assert [staging_of(table) for table in tables] == [[], [], []]


def test_a_checkpoint_waits_for_the_ones_before_it(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    sealed(sinks, group, 2)
    with pytest.raises(txlog.InvalidInputError, match="2 has to wait"):
        group.commit(2)
    assert in_every(tables)


def test_a_sink_alone_does_not_end_what_was_sealed_for_several(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    for end in (sinks[0].recover, lambda: sinks[0].commit(1), lambda: sinks[0].discard(1), lambda: sinks[0].abandon(1)):
        with pytest.raises(txlog.InvalidInputError, match="only the SinkGroup of the same tables"):
            end()
    with pytest.raises(txlog.InvalidInputError, match="together with the tables"):
        group_of(tables[:2])[1].recover()
    group.recover()
    with sinks[0].task(2) as task:
        pass
    sinks[0].prepare(2, [task.committable])
    with pytest.raises(txlog.InvalidInputError, match="was sealed alone"):
        group.recover()
    assert in_every(tables, 1)


def test_staged_work_that_another_program_removed_is_an_error_and_no_table_is_left_behind_silently(
    tables: list[txlog.Table],
) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    robbed = group._in_turn[0]
    robbed._staging.remove(robbed._staging.checkpoints("app")[0].names)
    _, group = group_of(tables)
    with pytest.raises(txlog.InvalidInputError, match="removed by another program") as raised:
        group.recover()
    assert raised.value.table == robbed._open_table.uri
    group.discard(1)
    sinks, group = group_of(tables)
    staged(sinks, 1, attempt=1)
    group.prepare(1, [range(TASKS)] * 3)
    group.commit(1)
    assert in_every(tables, 1)


def test_an_abandoned_checkpoint_stays_where_it_landed_and_the_stream_continues(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    first = group._in_turn[0]
    first._commits.commit_sealed(first._staging.checkpoints("app")[0], (), 0, group._together)
    found = group.abandon(1)
    assert sorted(each.rows for each in found) == [0, TASKS, TASKS]
    assert sorted(len(checkpoints_of(table)) for table in tables) == [0, 0, TASKS]
    assert [staging_of(table) for table in tables] == [[], [], []]
    assert group.last_checkpoint_id() == 1


def test_no_table_gives_up_a_checkpoint_while_another_waits_for_an_earlier_one(tables: list[txlog.Table]) -> None:
    sinks, _ = group_of(tables)
    group = sealed_without_the_deciding_table(sinks, 1)
    with pytest.raises(txlog.InvalidInputError, match="2 has to wait"):
        group.abandon(2)
    assert group.last_checkpoint_id() is None


def test_a_seal_is_refused_while_another_process_discards_the_checkpoint(tables: list[txlog.Table]) -> None:
    sinks, _ = group_of(tables)
    group = sealed_without_the_deciding_table(sinks, 1)
    deciding = group._deciding
    late = deciding._sealable(deciding._commits.job(1), range(TASKS), group._together)
    group_of(tables)[1].discard(1)
    with pytest.raises(txlog.NotFoundError, match="Nothing was sealed"):
        deciding._seal(*late)
    assert not any(recovery.results or recovery.partial for recovery in group_of(tables)[1].recover())


def test_a_process_that_meets_the_end_of_a_checkpoint_finds_tables_without_rows_empty() -> None:
    stores = new_stores(3)
    sinks, group = group_of(tables_of(stores))
    rows = [int(sink is group._in_turn[0]) for sink in sinks]
    staged(sinks, 1, rows)
    group.prepare(1, [range(TASKS)] * 3)
    for at in itertools.count(1):
        copies = [copy_of(store) for store in stores]
        other = Meanwhile(at, lambda now=copies: group_of(tables_of(now))[1].commit(1))
        outcomes = {result.outcome for result in other.group(copies).commit(1)}
        assert outcomes <= {"committed", "already_committed", "empty"}
        for number, table in zip(rows, tables_of(copies), strict=True):
            assert len(checkpoints_of(table)) == TASKS * number
        if other.calls < at:
            break


@pytest.mark.parametrize("dies", [True, False], ids=["dies", "lives"])
def test_a_discard_at_any_moment_of_a_commit_takes_the_rows_from_all_tables_or_from_none(dies: bool) -> None:
    discard_at_any_moment_of_a_commit(dies=dies)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=IN_THE_HUNT)])
def test_a_reader_of_all_tables_at_any_moment_of_a_commit_sees_the_checkpoint_whole(step: int) -> None:
    stores = new_stores(2)
    sinks, group = group_of(tables_of(stores))
    staged(sinks, 1, (1, 1))
    group.prepare(1, [range(TASKS)] * 2)
    seen: list[list[int]] = []
    for at in itertools.count(1, step):
        copies = [copy_of(store) for store in stores]

        def read(now: Sequence[TableStore] = copies) -> None:
            seen.append([snapshot.count() for snapshot in txlog.read_together(tables_of(now))])

        other = Meanwhile(at, read)
        other.group(copies).commit(1)
        if other.calls < at:
            break
    assert [each for at, each in enumerate(seen) if at == 0 or each != seen[at - 1]] == [[0, 0], [TASKS, TASKS]]


def test_a_table_that_refuses_the_rows_since_the_moment_of_the_decision_can_be_left_without_them(
    make_table: Make,
) -> None:
    def change(table: deltalake.DeltaTable) -> None:
        table.alter.add_constraint({"early": "checkpoint < 1"})

    tables, group = changed_in_the_moment_of_the_decision(make_table, change)
    with pytest.raises(txlog.MetadataChangedError, match="added the constraint early") as raised:
        group.commit(1)
    assert raised.value.table == tables[0].uri
    with pytest.raises(txlog.MetadataChangedError):
        group_of(tables)[1].recover()
    assert [each.rows for each in group_of(tables)[1].abandon(1)] == [TASKS, 0]
    assert [deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows for table in tables] == [TASKS, 2 * TASKS]
    assert group.last_checkpoint_id() == 1


@pytest.mark.parametrize("is_group", [True, False], ids=["a group", "a sink"])
def test_what_was_partial_and_is_sealed_since_stays_sealed(tables: list[txlog.Table], is_group: bool) -> None:
    """A twin follows the documented start: recover, and discard what is partial."""
    sinks, group = group_of(tables)
    staged(sinks, 1)
    others, twin = group_of(tables)
    doors = [twin] if is_group else others
    assert all(1 in each.partial for door in doors for each in recoveries_of(door))
    if is_group:
        assert group.prepare(1, [range(TASKS)] * 3)
    else:
        for sink in sinks:
            sink.prepare(1, range(TASKS))
    assert not any(door.discard(1) for door in doors)
    for door in [group] if is_group else sinks:
        door.commit(1)
    assert in_every(tables, 1)


def test_what_was_partial_and_is_sealed_since_goes_if_it_is_discarded_once_more(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    staged(sinks, 1)
    _, twin = group_of(tables)
    twin.recover()
    group.prepare(1, [range(TASKS)] * 3)
    assert not twin.discard(1)
    assert twin.discard(1)
    with pytest.raises(txlog.InvalidInputError, match="not sealed"):
        group.commit(1)
    assert in_every(tables)
    staged(sinks, 1, attempt=1)
    group.prepare(1, [range(TASKS)] * 3)
    group.commit(1)
    assert in_every(tables, 1)


def test_a_commit_to_a_table_at_any_moment_of_a_discard_is_completed_or_discarded_too() -> None:
    stores = new_stores(3)
    sinks, group = group_of(tables_of(stores))
    sealed(sinks, group, 1)
    ends = set()
    for at in itertools.count(1):
        copies = [copy_of(store) for store in stores]

        def commit_first(now: Sequence[TableStore] = copies) -> None:
            running = group_of(tables_of(now))[1]
            first = running._in_turn[0]
            mine, deciding = first._staging.checkpoints("app"), running._deciding._staging.checkpoints("app")
            if mine and deciding and running._deciding._staging.is_sealed(deciding[0]):
                with contextlib.suppress(CheckpointGivenUp):
                    first._commits.commit_sealed(mine[0], mine, 0, running._together)

        other = Meanwhile(at, commit_first)
        ours = other.group(copies)
        try:
            ours.discard(1)
            expected: tuple[int, ...] = ()
        except txlog.InvalidInputError:
            group_of(tables_of(copies))[1].recover()
            expected = (1,)
        assert in_every(tables_of(copies), *expected), f"committed at call {at}"
        assert not any(work_of(table) for table in tables_of(copies))
        if other.calls < at:
            break
        ends.add(expected)
    assert ends == {(), (1,)}


def test_a_recovery_that_meets_a_discard_and_half_a_new_seal_commits_none_of_it() -> None:
    stores = new_stores(2)
    sinks, group = group_of(tables_of(stores))
    staged(sinks, 1, (1, 1))
    group.prepare(1, [range(TASKS)] * 2)
    for at in itertools.count(1):
        copies = [copy_of(store) for store in stores]

        def seal_half_anew(now: Sequence[TableStore] = copies) -> None:
            sinks, group = group_of(tables_of(now))
            with contextlib.suppress(txlog.InvalidInputError):  # a table has it by then
                group.discard(1)
                staged(sinks, 1, (1, 1), attempt=1)
                first = group._in_turn[0]
                first._seal(*first._sealable(first._commits.job(1), dict.fromkeys(range(TASKS), 1), group._together))

        other = Meanwhile(at, seal_half_anew)
        other.group(copies).recover()
        if other.calls < at:
            break
        tables = tables_of(copies)
        assert in_every(tables) or in_every(tables, 1), f"sealed anew at call {at}"


def test_a_recovery_keeps_what_is_sealed_while_it_looks() -> None:
    """A twin seals what is partial, commits it to the first table, and dies."""
    stores = new_stores(2)
    sinks, _ = group_of(tables_of(stores))
    staged(sinks, 1, (1, 1))
    for at in itertools.count(1):
        copies = [copy_of(store) for store in stores]

        def seal_and_begin(now: Sequence[TableStore] = copies) -> None:
            group = group_of(tables_of(now))[1]
            group.prepare(1, [range(TASKS)] * 2)
            first = group._in_turn[0]
            first._commits.commit_sealed(first._staging.checkpoints("app")[0], (), 0, group._together)

        other = Meanwhile(at, seal_and_begin)
        other.group(copies).recover()
        if other.calls < at:
            break
        group_of(tables_of(copies))[1].recover()
        assert in_every(tables_of(copies), 1), f"sealed at call {at}"


def test_of_two_that_discard_none_meets_the_seal_of_the_next_round() -> None:
    """The second one is suspended at any call, while the first one ends, and the checkpoint is sealed again."""
    stores = new_stores(2)
    sinks, _ = group_of(tables_of(stores))
    staged(sinks, 1, (1, 1))
    for at in itertools.count(1):
        copies = [copy_of(store) for store in stores]

        def discard_and_seal_again(now: Sequence[TableStore] = copies) -> None:
            sinks, group = group_of(tables_of(now))
            group.discard(1)
            staged(sinks, 1, (1, 1), attempt=1)
            group.prepare(1, [dict.fromkeys(range(TASKS), 1)] * 2)

        other = Meanwhile(at, discard_and_seal_again)
        slow = other.group(copies)
        slow.recover()
        slow.discard(1)
        if other.calls < at:
            break
        group_of(tables_of(copies))[1].recover()
        assert in_every(tables_of(copies), 1), f"sealed again at call {at}"


@pytest.mark.parametrize("number", [1, 2], ids=["a sink", "a group"])
def test_an_empty_seal_of_a_twin_at_any_moment_of_the_next_checkpoint_blocks_nothing(number: int) -> None:
    def door_of(stores: Sequence[TableStore]) -> tuple[list[txlog.Sink], txlog.Sink | txlog.SinkGroup]:
        sinks, group = group_of(tables_of(stores))
        return sinks, group if number > 1 else sinks[0]

    def prepare(door: txlog.Sink | txlog.SinkGroup, checkpoint_id: int, attempt: int = 0) -> object:
        tasks = dict.fromkeys(range(TASKS), attempt)
        return door.prepare(checkpoint_id, [tasks] * number if isinstance(door, txlog.SinkGroup) else tasks)

    stores = new_stores(number)
    sinks, door = door_of(stores)
    staged(sinks, 0, (0,) * number)
    prepare(door, 0)
    door.commit(0)
    staged(sinks, 0, (0,) * number, attempt=1)  # by a twin that was suspended
    staged(sinks, 1, (1,) * number)
    prepare(door, 1)
    late = 0
    for at in itertools.count(1):
        copies = [copy_of(store) for store in stores]

        def seal(now: Sequence[TableStore] = copies) -> None:
            nonlocal late
            with contextlib.suppress(txlog.InvalidInputError, txlog.NotFoundError):
                late += prepare(door_of(now)[1], 0, 1) not in (None, False)

        other = Meanwhile(at, seal)
        running = other.group(copies)
        with contextlib.suppress(txlog.InvalidInputError):  # a seal that came before it looked is waited for
            (running if number > 1 else running._sinks[0]).commit(1)
        if other.calls < at:
            break
        sinks, door = door_of(copies)
        door.recover()
        staged(sinks, 2, (1,) * number)
        prepare(door, 2)
        door.commit(2)
        assert in_every(tables_of(copies), 1, 2), f"sealed at call {at}"
        assert not any(work_of(table) for table in tables_of(copies)), f"sealed at call {at}"
    assert late > 1


def test_sinks_of_two_applications_or_of_one_table_are_no_group(tables: list[txlog.Table]) -> None:
    first, other = txlog.Sink(tables[0], "app"), txlog.Sink(tables[1], "other")
    with pytest.raises(txlog.InvalidInputError, match="have one app_id"):
        txlog.SinkGroup(first, other)
    with pytest.raises(txlog.InvalidInputError, match="the same table"):
        txlog.SinkGroup(first, txlog.Sink(tables[0], "app"))
    with pytest.raises(txlog.InvalidInputError, match="a Sink for each table"):
        txlog.SinkGroup()


def test_a_group_crosses_processes(tables: list[txlog.Table]) -> None:
    _, group = group_of(tables)
    assert repr(pickle.loads(pickle.dumps(group))) == repr(group)


# --- a process that dies at any call ---------------------------------------------------------------------------------


class Death:
    """The process dies before its n-th call to any store, and calls nothing any more."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def __call__(self, call: StoreCall) -> Fault | None:
        self.calls += 1
        return Fault("crash_before") if self.calls >= self.at else None

    def store(self, real: TableStore) -> TableStore:
        return observed(real, self)


def life(stores: Sequence[TableStore]) -> None:
    """An application, from what an earlier life left to its last checkpoint."""
    tables = [OpenTable(store) for store in stores]
    sinks = [txlog.Sink(txlog.Table(table), "app") for table in tables]
    group = txlog.SinkGroup(*sinks)
    for checkpoint_id in {each for recovery in group.recover() for each in recovery.partial}:
        group.discard(checkpoint_id)
    last = group.last_checkpoint_id()
    for checkpoint_id in range(0 if last is None else last + 1, len(ROWS)):
        staged(sinks, checkpoint_id, ROWS[checkpoint_id])
        if group.prepare(checkpoint_id, [range(TASKS)] * len(sinks), fingerprint=str(checkpoint_id)):
            group.commit(checkpoint_id)
    for table in tables:
        table.post_commit.drain()


def judge(stores: Sequence[TableStore], died: str) -> None:
    for number, store in enumerate(stores):
        rows = [
            (checkpoint_id, task_id)
            for checkpoint_id, counts in ROWS.items()
            for task_id in range(TASKS)
            if counts[number]
        ]
        table = txlog.Table(OpenTable(store))
        assert checkpoints_of(table) == rows, died
        assert staging_of(table, after_a_death=True) == [], died


@pytest.mark.parametrize("first", [1, *(pytest.param(n, marks=IN_THE_HUNT) for n in (2, 3, 4))])
def test_a_group_that_dies_at_any_call_is_ended_by_its_next_life(first: int) -> None:
    for at in itertools.count(first, 4):
        stores = new_stores()
        death = Death(at)
        with contextlib.suppress(Crashed):
            life([death.store(store) for store in stores])
        if death.calls < at:
            break
        life(stores)
        judge(stores, f"died at call {at}")
    assert at > 100


def test_an_abandonment_that_dies_at_any_call_leaves_the_rows_in_all_tables_or_in_none() -> None:
    for at in itertools.count(1):
        stores = new_stores()
        sinks, group = group_of([txlog.Table(OpenTable(store)) for store in stores])
        staged(sinks, 0, ROWS[0])
        group.prepare(0, [range(TASKS)] * len(sinks))
        death = Death(sys.maxsize)
        dying = group_of([txlog.Table(OpenTable(death.store(store))) for store in stores])[1]
        death.at, death.calls = at, 0
        with contextlib.suppress(Crashed):
            dying.abandon(0)
        if death.calls < at:
            break
        tables = [txlog.Table(OpenTable(store)) for store in stores]
        group_of(tables)[1].recover()
        assert in_every(tables) or in_every(tables, 0), f"died at call {at}"
        ended = group_of(tables)[1]
        ended.abandon(0)
        assert [sink.last_checkpoint_id() for sink in ended._sinks] == [0, 0], f"died at call {at}"
        assert in_every(tables) or in_every(tables, 0), f"died at call {at}"
        assert not any(staging_of(table, after_a_death=True) for table in tables), f"died at call {at}"
    assert at > 10


@pytest.mark.parametrize("refusing", [0, 1])
def test_an_abandonment_that_one_table_refuses_leaves_the_checkpoint_to_all(refusing: int) -> None:
    stores = new_stores()
    sinks, group = group_of(tables_of(stores))
    staged(sinks, 0, ROWS[0])
    group.prepare(0, [range(TASKS)] * len(sinks))

    def fails(call: StoreCall) -> Fault | None:
        return Fault("refused") if call.operation == "put_if_absent" and call.name.endswith(".json") else None

    faulty = [observed(store, fails) if number == refusing else store for number, store in enumerate(stores)]
    with pytest.raises(txlog.StorageError):
        group_of(tables_of(faulty))[1].abandon(0)
    assert [sink.last_checkpoint_id() for sink in group_of(tables_of(stores))[0]] == [None, None]
    group_of(tables_of(stores))[1].recover()
    assert in_every(tables_of(stores), 0)


def test_a_sink_says_for_which_tables_each_of_its_checkpoints_is_sealed(tables: list[txlog.Table]) -> None:
    sinks, group = group_of(tables)
    sealed(sinks, group, 1)
    alone = txlog.Sink(tables[0], "other")
    with alone.task(7) as task:
        task.write(pa.table({"checkpoint": [7], "task": [0]}, SCHEMA))
    alone.prepare(7, [task.committable])
    ids = tuple(sorted(table.table_id for table in tables))
    assert [sink.sealed() for sink in sinks] == [{1: ids}] * 3
    assert alone.sealed() == {7: (tables[0].table_id,)}
    group.commit(1)
    assert [sink.sealed() for sink in sinks] == [{}] * 3
