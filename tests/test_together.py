"""Transactions over several tables: all of them or none, whatever dies; and readers that see each one whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from tests.bucket import Bucket
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.core.versions._commit_together import _Together
from txlog.testing.faults import Crashed, Fault, FaultyLogStore, StoreCall

ROW = pa.table({"id": pa.array([1], pa.int64())})
CALLS_MAX = 400


def made(folder: Path, *names: str) -> list[txlog.Table]:
    """Tables by ascending id: the last one decides a transaction over all of them."""
    tables = [txlog.Table.create(str(folder / name), "id bigint") for name in names]
    return sorted(tables, key=lambda table: table.snapshot().table_id)


def anew(table: txlog.Table) -> txlog.Table:
    """The table as another process opens it."""
    return txlog.Table.open(table.uri)


def ids(table: txlog.Table) -> list[int]:
    return sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist())


def append_to_all(tables: Sequence[txlog.Table]) -> tuple[txlog.WriteResult, ...]:
    with txlog.transaction(tables) as txn:
        for table in tables:
            txn[table].append(ROW)
    return txn.results


class Calls:
    """All store calls of one process. At one of them, it gets a fault, or another process acts first."""

    def __init__(self, at: int, kind: str = "", act: Callable[[], object] = lambda: None) -> None:
        self.at, self.kind, self.act, self.count, self.is_past = at, kind, act, 0, False

    def __call__(self, call: StoreCall) -> Fault | None:
        self.count += 1
        if self.count == self.at:
            self.is_past = True
            self.act()
            if self.kind and Fault(self.kind).is_of(call.operation):
                return Fault(self.kind)
        return Fault("crash_before") if self.is_past and self.kind.startswith("crash") else None

    def opened(self, tables: Sequence[txlog.Table], **retry: Any) -> list[txlog.Table]:
        """The tables as this process sees them. Its calls count from now on."""
        found = []
        for table in tables:
            real = table._open_table.store
            assert real.staging is not None
            log = FaultyLogStore(real.log, self, files=real.files)
            store = TableStore(real.uri, log, real.files, FaultyLogStore(real.staging, self))
            found.append(txlog.Table(OpenTable(store, txlog.RetryPolicy(**retry))))
        self.count = 0
        return found


def of_each_call(kind: str = "") -> Iterator[Calls]:
    """A process for each of its store calls, until one makes fewer calls."""
    for at in range(1, CALLS_MAX):
        calls = Calls(at, kind)
        yield calls
        if not calls.is_past:
            return
    raise AssertionError("the process makes more calls than that")


def ended(tables: Sequence[txlog.Table]) -> list[list[int]]:
    """The rows of each table after its next writer, which appends none."""
    for table in tables:
        anew(table).set_properties({"seen": "yes"})
        assert not anew(table)._open_table.log.newest_state().is_prepared
    return [ids(table) for table in tables]


def test_all_tables_get_their_part(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b", "c")
    results = append_to_all(tables)
    assert [ids(table) for table in tables] == [[1], [1], [1]]
    assert [result.version for result in results] == [anew(table).version for table in tables] == [2, 2, 1]
    assert staged_in(tables) == []
    assert all(result.outcome == "committed" and result.metrics.rows == 1 for result in results)


IN_THE_HUNT = pytest.mark.hunt(part="crashes")


def staged_in(tables: Sequence[txlog.Table]) -> list[str]:
    return [path.name for table in tables for path in Path(table.uri, "_txlog/staging").glob("*")]


@pytest.mark.parametrize("kind", ["crash_before", pytest.param("crash_after", marks=IN_THE_HUNT)])
def test_a_transaction_that_dies_at_any_call_lands_in_all_tables_or_in_none(
    tmp_path: Path, clock: Any, kind: str
) -> None:
    outcomes = set()
    for calls in of_each_call(kind):
        tables = made(tmp_path, f"{calls.at}-a", f"{calls.at}-b", f"{calls.at}-c")
        with contextlib.suppress(Crashed):
            append_to_all(calls.opened(tables))
        found = ended(tables)
        assert found in ([[]] * 3, [[1]] * 3), calls.at
        outcomes.add(str(found))
    assert len(outcomes) == 2


@pytest.mark.parametrize(
    "kind", ["fail_after", *(pytest.param(kind, marks=IN_THE_HUNT) for kind in ("fail_before", "late"))]
)
def test_a_transaction_that_loses_any_answer_says_what_became_of_it(tmp_path: Path, clock: Any, kind: str) -> None:
    for calls in of_each_call(kind):
        tables = made(tmp_path, f"{calls.at}-a", f"{calls.at}-b")
        mine = calls.opened(tables, max_attempts=1)
        try:
            append_to_all(mine)
            lands = True
        except txlog.CommitStateUnknownError as error:
            lands = txlog.resolve(error.table or "", error.txn_id, error.version)
        except txlog.TxlogError:
            lands = False
        assert ended(tables) == [[1] * lands] * 2, calls.at


def test_another_writer_at_any_call_waits_or_gives_the_transaction_up(tmp_path: Path, clock: Any) -> None:
    """It waits until the transaction seems dead. Then that may go on, and tries again."""
    for calls in of_each_call():
        tables = made(tmp_path, f"{calls.at}-a", f"{calls.at}-b")

        def act(tables: Sequence[txlog.Table] = tables) -> None:
            for table in tables:
                anew(table).append(pa.table({"id": [7]}))

        calls.act = act
        append_to_all(calls.opened(tables))
        assert ended(tables) == [[1, 7] if calls.is_past else [1]] * 2, calls.at


def test_a_reader_at_any_call_sees_the_transaction_whole(tmp_path: Path, clock: Any) -> None:
    seen = set()
    for calls in of_each_call():
        tables = made(tmp_path, f"{calls.at}-a", f"{calls.at}-b")

        def act(tables: Sequence[txlog.Table] = tables) -> None:
            found = [snapshot.count() for snapshot in txlog.read_together([table.uri for table in tables])]
            assert len({*found}) == 1
            seen.add(found[0])

        append_to_all(tables)
        calls.act = act
        append_to_all(calls.opened(tables))
    assert seen == {1, 2}


def claims(tables: Sequence[txlog.Table], at: int, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Read all tables, and write to one if there is no row in any."""
    with txlog.transaction(tables) as txn:
        if not any(txn[table].read().num_rows for table in tables):
            meanwhile()
            txn[tables[at]].append(ROW)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_write_skew_over_two_tables_is_found(tmp_path: Path, first: int, second: int) -> None:
    tables = made(tmp_path, "a", "b")
    others = [anew(table) for table in tables]
    with pytest.raises(txlog.ConcurrentAppendError):
        claims(tables, first, lambda: claims(others, second))
    found = [ids(table) for table in tables]
    assert found[second] == [1]
    assert found[first] == []


def test_write_skew_is_missed_without_the_check_of_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _Together, "_check", lambda self, part, state: setattr(part, "valid", part.valid.rebased(state.version))
    )
    tables = made(tmp_path, "a", "b")
    others = [anew(table) for table in tables]
    claims(tables, 0, lambda: claims(others, 1))
    assert [ids(table) for table in tables] == [[1], [1]]


def update_all(tables: Sequence[txlog.Table], meanwhile: Callable[[], object]) -> None:
    with txlog.transaction(tables) as txn:
        for table in tables:
            txn[table].update({"id": txlog.lit(2)})
        meanwhile()


def test_a_conflict_in_one_table_lets_nothing_land(tmp_path: Path) -> None:
    for lost in (0, 1, 2):
        tables = made(tmp_path, f"{lost}-a", f"{lost}-b", f"{lost}-c")
        append_to_all(tables)
        with pytest.raises(txlog.ConflictError):
            update_all(tables, partial(anew(tables[lost]).delete, all=True))
        assert ended(tables) == [[] if at == lost else [1] for at in range(3)]
        assert staged_in(tables) == []


def test_row_changes_see_each_other_s_tables_and_land_together(tmp_path: Path) -> None:
    orders, stock = made(tmp_path, "orders", "stock")
    orders.append(pa.table({"id": [1, 2, 3]}))
    stock.append(pa.table({"id": [10]}))
    with txlog.transaction([orders, stock.uri]) as txn:
        late = txn[orders].read("id > 1")
        txn[orders].delete("id > 1")
        txn[stock.uri].append(late)
        txn[stock.uri].merge(pa.table({"id": [10, 11]}), on=["id"]).when_not_matched_insert_all().execute()
    assert ids(orders) == [1]
    assert ids(stock) == [2, 3, 10, 11]
    assert [result.metrics.rows_deleted for result in txn.results] == [2, 0]


def test_definitions_change_together(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b")
    with txlog.transaction(tables) as txn:
        for each in txn:
            each.add_columns("note string")
            each.append(pa.table({"id": [1], "note": ["x"]}))
    assert [deltalake.DeltaTable(table.uri).to_pyarrow_table().column_names for table in tables] == [["id", "note"]] * 2


@IN_THE_HUNT
def test_another_engine_appends_at_any_call_and_both_land(tmp_path: Path, clock: Any) -> None:
    for calls in of_each_call():
        tables = made(tmp_path, f"{calls.at}-a", f"{calls.at}-b")
        append_to_all(tables)

        def act(tables: Sequence[txlog.Table] = tables) -> None:
            deltalake.write_deltalake(tables[0].uri, pa.table({"id": [7]}), mode="append")

        calls.act = act
        with txlog.transaction(mine := calls.opened(tables)) as txn:
            txn[mine[0]].append(ROW)
            txn[mine[1]].append(ROW)
        assert ended(tables) == [[1, 1, 7] if calls.is_past else [1, 1], [1, 1]]


def update_both(tables: Sequence[txlog.Table]) -> None:
    with txlog.transaction(tables) as txn:
        for table in tables:
            txn[table].update({"id": txlog.expr("id + 10")}, "id < 5")


def test_row_changes_run_again_over_what_another_engine_deletes_after_the_decision(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b")
    for table in tables:
        table.append(pa.table({"id": [1, 2]}))
    calls = decided(tables, lambda table: deltalake.DeltaTable(table.uri).delete("id = 1"))
    update_both(calls.opened(tables))
    assert [ids(table) for table in tables] == [[12], [11, 12]]


@IN_THE_HUNT
def test_row_changes_run_again_over_what_another_engine_deletes_at_any_call(tmp_path: Path, clock: Any) -> None:
    """Before the decision it is a conflict. After it, the change is made again on the rows that are left."""
    outcomes = set()
    for calls in of_each_call():
        tables = made(tmp_path, f"{calls.at}-a", f"{calls.at}-b")
        for table in tables:
            table.append(pa.table({"id": [1, 2]}))

        def act(tables: Sequence[txlog.Table] = tables) -> None:
            deltalake.DeltaTable(tables[0].uri).delete("id = 1")

        calls.act = act
        try:
            update_both(calls.opened(tables))
        except txlog.ConflictError:
            assert ended(tables) == [[2], [1, 2]]
            outcomes.add("refused")
        else:
            found = ended(tables)
            assert found in ([[12], [11, 12]], [[11, 12], [11, 12]]), calls.at
            outcomes.add(str(found[0]))
    assert outcomes == {"refused", "[12]", "[11, 12]"}


def decided(tables: Sequence[txlog.Table], act: Callable[[txlog.Table], object]) -> Calls:
    """A process that is about to give the first table its part, when another engine acts there."""

    class AtTheEnd(Calls):
        def __call__(self, call: StoreCall) -> Fault | None:
            is_put = call.operation == "put_if_absent" and call.name.endswith(".json")
            if is_put and len(deltalake.DeltaTable(tables[-1].uri).history()) > decisions and not self.is_past:
                self.is_past = True
                act(tables[0])
                return Fault(self.kind) if self.kind else None
            return Fault("crash_before") if self.is_past and self.kind else None

    decisions = len(deltalake.DeltaTable(tables[-1].uri).history())
    return AtTheEnd(0)


def test_rows_follow_a_column_that_another_engine_adds_after_the_decision(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b")

    def act(table: txlog.Table) -> None:
        field = deltalake.Field("note", deltalake.schema.PrimitiveType("string"), nullable=True)
        deltalake.DeltaTable(table.uri).alter.add_columns(field)

    calls = decided(tables, act)
    append_to_all(calls.opened(tables))
    assert calls.is_past
    assert [ids(table) for table in tables] == [[1], [1]]


@pytest.mark.parametrize("kind", ["", "crash_after"])
def test_a_rule_that_another_engine_makes_after_the_decision_leaves_the_table_out_and_says_so(
    tmp_path: Path, kind: str, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tables = made(tmp_path, "a", "b")
    calls = decided(tables, lambda table: deltalake.DeltaTable(table.uri).alter.add_constraint({"few": "id > 5"}))
    if kind:
        calls.kind = "crash_before"
        with pytest.raises(Crashed):
            append_to_all(calls.opened(tables))
    else:
        with pytest.raises(
            txlog.errors.PartlyCommittedError, match=r"is committed in .*, but could not be here"
        ) as raised:
            append_to_all(calls.opened(tables))
        assert raised.value.table == tables[0].uri
    assert ended(tables) == [[], [1]]
    assert "Its changes of this table are lost" in caplog.text
    assert "ROLLBACK PREPARED" in [each["operation"] for each in deltalake.DeltaTable(tables[0].uri).history()]


def test_a_read_that_another_engine_makes_stale_after_the_last_check_is_told(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b")
    append_to_all(tables)
    calls = decided(tables, lambda table: deltalake.DeltaTable(table.uri).delete("id = 1"))
    mine = calls.opened(tables)
    with txlog.transaction(mine) as txn:
        rows = txn[mine[0]].read()
        txn[mine[0]].append(rows)
        txn[mine[1]].append(rows)
    assert "what was read does not show v4 (DELETE)" in txn.results[0].notes[0]
    assert [ids(table) for table in tables] == [[1], [1, 1]]


def in_doubt(tables: Sequence[txlog.Table]) -> None:
    """A transaction whose writer died after the decision, and before the first table has its part."""
    calls = decided(tables, lambda table: None)
    calls.kind = "crash_before"
    with pytest.raises(Crashed):
        append_to_all(calls.opened(tables))
    assert anew(tables[0])._open_table.log.newest_state().is_prepared


def test_a_table_whose_deciding_table_was_dropped_is_not_stuck(tmp_path: Path, clock: Any) -> None:
    tables = made(tmp_path, "a", "b")
    in_doubt(tables)
    shutil.rmtree(tables[1].uri)
    anew(tables[0]).append(pa.table({"id": [7]}))  # perhaps it is only out of this process's sight
    assert anew(tables[0])._open_table.log.newest_state().is_prepared
    clock.elapsed_s += 8 * 24 * 3600
    anew(tables[0]).append(pa.table({"id": [8]}))
    assert not anew(tables[0])._open_table.log.newest_state().is_prepared
    assert ids(tables[0]) == [7, 8]


def test_a_table_keeps_its_part_if_another_has_its_own_and_the_deciding_one_was_replaced(
    tmp_path: Path, clock: Any
) -> None:
    tables = made(tmp_path, "a", "b", "c")
    in_doubt(tables)
    anew(tables[1]).append(pa.table({"id": [7]}))
    shutil.rmtree(tables[2].uri)
    txlog.Table.create(tables[2].uri, "id bigint")
    anew(tables[0]).append(pa.table({"id": [7]}))
    assert [ids(table) for table in tables] == [[1, 7], [1, 7], []]


def test_a_member_that_was_replaced_gets_nothing_of_the_transaction(tmp_path: Path, clock: Any) -> None:
    tables = made(tmp_path, "a", "b")
    in_doubt(tables)
    shutil.rmtree(tables[0].uri)
    again = txlog.Table.create(tables[0].uri, "id bigint")
    again.append(pa.table({"id": [7]}))
    assert [ids(table) for table in tables] == [[7], [1]]


def test_a_writer_that_cannot_reach_the_deciding_table_goes_on_and_says_so(
    tmp_path: Path, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tables = made(tmp_path, "a", "b")
    in_doubt(tables)
    away = Path(tables[1].uri).rename(tmp_path / "away")
    anew(tables[0]).append(pa.table({"id": [7]}))
    assert "cannot be asked from here" in caplog.text
    assert ids(tables[0]) == [7]
    away.rename(tables[1].uri)
    anew(tables[0]).maintain()
    assert [ids(table) for table in tables] == [[1, 7], [1]]


def test_readers_see_neither_part_of_a_transaction_whose_writer_died(tmp_path: Path, clock: Any) -> None:
    tables = made(tmp_path, "a", "b")
    append_to_all(tables)
    in_doubt(tables)
    assert [snapshot.count() for snapshot in txlog.read_together(tables)] == [1, 1]
    assert [ids(table) for table in tables] == [[1], [1, 1]]
    anew(tables[0]).maintain()
    assert [snapshot.count() for snapshot in txlog.read_together(tables)] == [2, 2]


def test_a_vacuum_keeps_what_is_staged(tmp_path: Path, clock: Any) -> None:
    tables = made(tmp_path, "a", "b")
    in_doubt(tables)
    (left,) = staged_in(tables)
    part = Path(tables[0].uri, "_txlog/staging", left)
    body = part.read_bytes()
    clock.elapsed_s += 40 * 24 * 3600
    anew(tables[0]).vacuum()
    assert [ids(table) for table in tables] == [[1], [1]]
    assert staged_in(tables) == []
    part.write_bytes(body)  # of a writer that died before it removed it
    os.utime(part, (clock.now_ms() / 1000 - 2 * 24 * 3600,) * 2)
    anew(tables[0]).vacuum()
    assert staged_in(tables) == []


@pytest.mark.parametrize("number", [2, 3, 5])
def test_on_an_object_store_the_parts_land_one_round_trip_after_the_decision(number: int) -> None:
    buckets = [Bucket(commits=1) for _ in range(number)]
    trips = buckets[0].trips
    for bucket in buckets:
        bucket.trips = trips
    tables = [bucket.opened() for bucket in buckets]
    append_to_all(tables)  # the first commit of a handle asks whether the store refuses names that are taken
    with trips.of(), txlog.transaction(tables) as txn:
        for table in tables:
            txn[table].append(ROW)
        written = trips.count
    *_, decided = [at for at, name, what in trips.requests if name == "put_if_absent" and what.endswith("3.json")]
    landed = [at for at, name, what in trips.requests if name == "put_if_absent" and what.endswith("5.json")]
    assert trips.count - written == number + 4
    assert (len(landed), {*landed}) == (number - 1, {decided + 1})


def test_transactions_of_many_threads_all_land(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b", "c")

    def run(order: Sequence[int]) -> None:
        for _ in range(3):
            append_to_all([anew(tables[at]) for at in order])

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(run, order) for order in ((0, 1), (1, 0), (2, 1, 0), (0, 2))]:
            done.result()
    assert [len(ids(table)) for table in tables] == [12, 9, 6]


def test_an_error_in_the_block_aborts_it_and_leaves_no_file(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b")
    append_to_all(tables)
    before = [[*Path(table.uri).rglob("*")] for table in tables]
    with pytest.raises(ZeroDivisionError):
        update_all(tables, lambda: 1 // 0)
    assert [[*Path(table.uri).rglob("*")] for table in tables] == before


def test_a_transaction_of_which_one_table_takes_part_is_an_ordinary_commit(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b")
    with txlog.transaction(tables) as txn:
        txn[tables[0]].append(ROW)
    assert [result.version for result in txn.results] == [1, 0]
    with txlog.transaction(tables) as txn:
        assert [each.read().num_rows for each in txn] == [1, 0]
    assert [anew(table).version for table in tables] == [1, 0]


def test_an_application_s_batch_lands_once(tmp_path: Path) -> None:
    tables = made(tmp_path, "a", "b")
    outcomes = []
    for _ in range(2):
        with txlog.transaction(tables) as txn:
            for each in txn:
                each.append(ROW)
                each.set_transaction("app", 1)
        outcomes.append([result.outcome for result in txn.results])
    assert outcomes == [["committed"] * 2, ["already_committed"] * 2]
    assert [ids(table) for table in tables] == [[1], [1]]


def test_times_without_a_zone_are_in_the_zone_of_each_table(tmp_path: Path) -> None:
    """Midnight in Tokyo is 15:00 in UTC, on the day before."""
    moments = pa.array([f"2026-01-01T{hour}:00:00Z" for hour in ("14", "15", "23")]).cast(pa.timestamp("us", "UTC"))
    uris = [str(tmp_path / name) for name in ("a", "b")]
    for uri in uris:
        txlog.Table.create(uri, "at timestamp").append(pa.table({"at": moments}))
    tables = [txlog.Table.open(uris[0], time_zone="Asia/Tokyo"), txlog.Table.open(uris[1])]
    since = "at >= '2026-01-02 00:00:00'"
    assert [each.to_arrow(where=since).num_rows for each in txlog.read_together(tables)] == [2, 0]
    with txlog.transaction(tables) as txn:
        assert [txn[table].read(since).num_rows for table in tables] == [2, 0]
        for table in tables:
            txn[table].delete(since)
    assert [deltalake.DeltaTable(uri).to_pyarrow_table().num_rows for uri in uris] == [1, 3]


def test_wrong_calls_say_what_to_do(tmp_path: Path) -> None:
    a, b = made(tmp_path, "a", "b")
    for call, problem in (
        (lambda: txlog.transaction([]), "pass a list of tables"),
        (lambda: txlog.transaction(a), "pass a list of tables"),  # type: ignore[arg-type]
        (lambda: txlog.transaction([a, a.uri]), "given twice"),
        (lambda: txlog.read_together([a, a]), "given twice"),
        (lambda: txlog.transaction([a, b])[a].append(ROW), "only inside its with block"),
        (lambda: txlog.transaction([a, b])["c"], "is not part of this transaction"),
        (lambda: txlog.transaction([a, b]).results, "has not committed"),
    ):
        with pytest.raises(txlog.InvalidInputError, match=problem):
            call()
    with pytest.raises(txlog.TableNotFoundError):
        txlog.transaction([a, str(tmp_path / "none")])
