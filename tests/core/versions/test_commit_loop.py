"""The commit loop with nobody beside it: it commits, rebases, and finds what became of its put by itself.

deltalake reads the tables back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import txlog
from txlog.core.store import PutOutcome
from txlog.core.versions._attempt import CommitOutcome
from txlog.core.versions._commit_loop import CommitRun, Peers
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions._plan import Plan
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import CommitRetriesExhaustedError, ConflictError
from txlog.table import Table


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


class Overtaken(Peers):
    """Nobody, but before each put another writer acts."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def gather(self, run: CommitRun) -> Proposal:
        self._act()
        return run.proposal


class Alone:
    """In place of a handle's `Committer`: each commit runs the loop without other writers of its own."""

    def __init__(self, open_table: OpenTable, peers: Callable[[], Peers]) -> None:
        self._context = open_table._commits
        self._peers = peers

    def submit(
        self,
        proposal: Proposal,
        state: TableState | None,
        *,
        plan: Plan | None = None,
        unsent: UnsentFiles | None = None,
    ) -> CommitOutcome:
        outcome = CommitRun(self._context, proposal, state, self._peers(), plan, unsent).run()
        assert isinstance(outcome, CommitOutcome)
        return outcome


def opened_alone(path: Path, peers: Callable[[], Peers] = Peers, **retry: Any) -> Table:
    table = txlog.Table.open(path, retry=txlog.RetryPolicy(**retry))
    table._open_table._committer = Alone(table._open_table, peers)  # type: ignore[assignment]
    return table


def appends_once(path: Path) -> Callable[[], object]:
    """Another writer's append of one row, the first time that it is called."""
    left = [3]
    return lambda: left and txlog.Table.open(path).append(rows(left.pop()))


def ids(path: Path) -> list[int]:
    return sorted(pa.table(DeltaTable(str(path)).to_pyarrow_table())["id"].to_pylist())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    txlog.Table.create(tmp_path / "table", schema=rows().schema).append(rows(1, 2))
    return tmp_path / "table"


def test_a_commit_with_nobody_beside_it_rebases_over_another_writer(path: Path) -> None:
    rival = appends_once(path)
    result = opened_alone(path, lambda: Overtaken(rival)).append(rows(4))
    assert (result.version, result.attempts, result.metrics.lost_races) == (3, 2, 1)
    assert ids(path) == [1, 2, 3, 4]


def test_a_delete_with_nobody_beside_it_reruns_for_the_rows_that_came_first(path: Path) -> None:
    rival = appends_once(path)
    did = opened_alone(path, lambda: Overtaken(rival)).delete("id >= 2").metrics
    assert (did.rows_deleted, did.reexecutions) == (2, 1)
    assert ids(path) == [1]


def test_a_commit_with_nobody_beside_it_finds_itself_after_a_lost_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened_alone(path)
    versions = table._open_table.log.versions
    real = type(versions).put

    def lands_unheard(self: Any, attempt: Any) -> PutOutcome:
        real(self, attempt)
        return PutOutcome.UNKNOWN

    monkeypatch.setattr(type(versions), "put", lands_unheard)
    assert table.append(rows(3)).attempts == 1
    assert ids(path) == [1, 2, 3]


def test_a_commit_with_nobody_beside_it_that_loses_every_race_lands_nothing(path: Path) -> None:
    rival = txlog.Table.open(path)
    table = opened_alone(path, lambda: Overtaken(lambda: rival.append(rows(3))), total_timeout=0.0)
    with pytest.raises(CommitRetriesExhaustedError, match="lost 1 race in 1 attempt"):
        table.append(rows(4))
    assert ids(path) == [1, 2, 3]


def test_a_commit_with_nobody_beside_it_tells_a_conflict(path: Path) -> None:
    rival = txlog.Table.open(path)
    table = opened_alone(path, lambda: Overtaken(lambda: rival.add_constraint("small", "id < 4")))
    with pytest.raises(ConflictError, match="Nothing landed"):
        table.append(rows(4))
    assert ids(path) == [1, 2]
