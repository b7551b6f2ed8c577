"""Versions of several tables in which each transaction over several of them is whole: in all, or in none.

In: open tables. Out: a version of each, the newest where possible. Nothing is written, and nobody is waited for.

Each table is looked at, and then each once more. Before a transaction takes effect anywhere, it has prepared all its
tables but the deciding one, and it takes effect there first. So for whatever took effect in a version of the first
look, the second look of every other table shows the effect, or that the table is prepared. Where a version of the first
look lacks an effect that another one has, that other one goes back before it; then perhaps a third one, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txlog.core.format.commit_file import Commit
from txlog.core.parallel import begin
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions._prepared_tables import preparation_of
from txlog.core.versions.decisions.prepared import PreparedTable, is_effect, number_of, tables_of, transaction_of
from txlog.core.versions.decisions.state import TableState


def states_together(tables: Sequence[OpenTable]) -> list[TableState]:
    """A version of each table, in which each transaction over several of them is whole.

    Raises what `DeltaLog.newest_state` raises, and ``NotFoundError`` if a version to go back to is cleaned up.
    """
    first = _newest(tables)
    return first if len(tables) < 2 else _Cut(tables, first, _newest(tables)).whole()


def _newest(tables: Sequence[OpenTable]) -> list[TableState]:
    asked = [begin(table.log.newest_state) for table in tables]
    return [answer() for answer in asked]


class _Cut:
    """The versions of the first look, each of which may go back."""

    def __init__(self, tables: Sequence[OpenTable], first: Sequence[TableState], then: Sequence[TableState]) -> None:
        self._tables = tables
        self._first = first
        self._versions = [state.version for state in first]
        self._lacked: list[tuple[str, tuple[PreparedTable, ...]]] = []
        """Transactions, each with all its tables, whose effect one of the versions lacks."""
        for each in zip(tables, first, then, strict=True):
            self._look_for_lacked(*each)

    def whole(self) -> list[TableState]:
        while self._lacked:
            transaction, places = self._lacked.pop()
            since = {place.table_id: place.since for place in places}
            for at, state in enumerate(self._first):
                if state.metadata.id in since:
                    self._go_back(at, transaction, since[state.metadata.id])
        return [
            state if state.version == version else table.log.state_at(version)
            for table, state, version in zip(self._tables, self._first, self._versions, strict=True)
        ]

    def _look_for_lacked(self, table: OpenTable, first: TableState, then: TableState) -> None:
        """The transactions whose effect the first look at a table lacks, although that at another may have it."""
        if first.is_prepared:
            found = preparation_of(table, first)
            self._lacked += [] if found is None else [(found.transaction, found.tables)]
        if number_of(then) != number_of(first):
            self._note(table.log.commits_between(first.version + 1, then.version, files=False))

    def _go_back(self, at: int, transaction: str, since: int) -> None:
        """Let a table's version be one before the transaction took effect. What took effect since is lacked too."""
        passed: list[Commit] = []
        for version in range(self._versions[at], since, -1):
            commit = self._tables[at].log.read_commit(version, files=False)
            if transaction_of(commit) == transaction and is_effect(commit):
                self._versions[at] = version - 1
                self._note(passed)
                return
            passed.append(commit)

    def _note(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            transaction = transaction_of(commit)
            if transaction is not None:
                self._lacked.append((transaction, tables_of(commit)))
