"""What a program learns of its commits: hooks, log lines, the result; and that none of it can harm a commit."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import txlog
from tests.writes import write_batch
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome, TableStore
from txlog.core.versions import OpenTable
from txlog.hooks import LostRace
from txlog.table import Table

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


class Recorded(txlog.CommitHooks):
    """Keeps the events of its calls, and raises ``fault`` after each, if one is given."""

    def __init__(self, fault: BaseException | None = None) -> None:
        self.reported: list[tuple[str, Any]] = []
        self.fault = fault

    def _keep(self, name: str, what: Any) -> None:
        self.reported.append((name, what))
        if self.fault is not None:
            raise self.fault

    def on_commit(self, table: str, result: txlog.WriteResult) -> None:
        self._keep("commit", result)

    def on_retry(self, table: str, lost: LostRace) -> None:
        self._keep("retry", lost)

    def on_conflict(self, table: str, error: txlog.ConflictError) -> None:
        self._keep("conflict", error)


@pytest.fixture
def watched(scripted_log: Any, files: Any, clock: Any) -> Callable[[txlog.CommitHooks], Table]:
    """The one table of this test, at version 0, through a handle with hooks."""
    store = TableStore("memory://table", scripted_log, files)
    append(Table(OpenTable(store)))

    def opened(hooks: txlog.CommitHooks) -> Table:
        return Table(OpenTable(store, hooks=hooks))

    return opened


def append(table: Table, **options: Any) -> txlog.WriteResult:
    return write_batch(table._open_table, ROWS, WriteOptions(create=True, **options))


def let_another_win(table: Table, scripted_log: Any, act: Callable[[Table], object]) -> None:
    """Just before the next commit is put, another writer commits."""

    def step(real: Any, name: str, body: bytes) -> PutOutcome:
        act(Table(OpenTable(table._open_table.store)))
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [step]


def test_a_hook_is_called_for_each_commit_with_its_result(watched: Any) -> None:
    hooks = Recorded()
    table = watched(hooks)
    result = table.append(ROWS)
    table.set_properties({"delta.appendOnly": "true"})
    assert [name for name, _ in hooks.reported] == ["commit", "commit"]
    assert hooks.reported[0][1] == result
    assert (result.metrics.rows, result.metrics.files) == (2, 1)


def test_a_lost_race_is_reported_before_the_commit_and_in_result_commit_and_log_line(
    watched: Any, scripted_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = Recorded()
    table = watched(hooks)
    let_another_win(table, scripted_log, append)
    with caplog.at_level(logging.INFO, "txlog"):
        result = table.append(ROWS)
    assert [name for name, _ in hooks.reported] == ["retry", "commit"]
    lost = hooks.reported[0][1]
    assert (lost.version, lost.winner_operation, lost.attempts) == (1, "WRITE", 1)
    assert lost.txn_id == result.txn_id
    assert result.metrics.lost_to == {"WRITE": 1}
    info = orjson.loads(table._open_table.store.log.read(f"{2:020}.json").splitlines()[0])["commitInfo"]
    assert info["txlog"]["lostTo"] == {"WRITE": 1}
    assert info["txlog"]["waitedMs"] == round(result.metrics.waited_s * 1000)
    line = caplog.records[-1]
    assert "1 race lost (1 to WRITE)" in line.getMessage()
    assert line.txlog["rows"] == 2  # type: ignore[attr-defined]
    assert line.txlog["version"] == 2  # type: ignore[attr-defined]


def test_a_conflict_is_reported_to_the_hook_and_raised(watched: Any, scripted_log: Any) -> None:
    hooks = Recorded()
    table = watched(hooks)
    let_another_win(table, scripted_log, lambda other: other.set_properties({"delta.appendOnly": "true"}))
    with pytest.raises(txlog.MetadataChangedError) as caught:
        table.append(ROWS)
    assert hooks.reported == [("conflict", caught.value)]
    assert caught.value.reasons[0].winner_version == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", [RuntimeError("mine"), txlog.CommitRetriesExhaustedError("not yours")], ids=repr)
def test_a_hook_that_fails_neither_loses_nor_doubles_a_commit(
    fault: Exception, watched: Any, scripted_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = Recorded(fault)
    table = watched(hooks)
    let_another_win(table, scripted_log, append)
    assert table.append(ROWS, app_id="a", checkpoint_id=1).version == 2
    assert table.append(ROWS, app_id="a", checkpoint_id=1).outcome == "already_committed"
    assert table.snapshot().to_arrow().num_rows == 6
    assert [name for name, _ in hooks.reported] == ["retry", "commit"]
    assert sum("a hook failed" in record.getMessage() for record in caplog.records) == 2


def test_an_interrupt_inside_a_hook_is_raised_and_the_commit_is_kept(watched: Any) -> None:
    table = watched(Recorded(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        table.append(ROWS)
    assert table.snapshot().version == 1


def test_every_way_to_open_a_table_takes_hooks_and_pickling_drops_them(tmp_path: Path) -> None:
    hooks = Recorded()
    path = str(tmp_path / "t")
    txlog.Table.create(path, ROWS.schema, hooks=hooks).append(ROWS)
    txlog.write(path, ROWS, hooks=hooks)
    table = txlog.Table.open(path, hooks=hooks)
    sink = txlog.Sink(table, "app")
    with sink.task(0) as task:
        task.write(ROWS)
    sink.commit(0, [task.committable])
    assert [name for name, _ in hooks.reported] == ["commit"] * 4
    pickle.loads(pickle.dumps(table)).append(ROWS)
    assert len(hooks.reported) == 4
