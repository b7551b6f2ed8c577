"""`transaction` and `read_together`: several tables changed as one, and read as one.

In: tables, or where they are. Out: a `JointTransaction`, which is one `Transaction` for each table; snapshots of one
moment. What is committed, and when others see it, is in ``core/versions/_commit_together``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TypeAlias

from txlog.core.util import explains_call, explains_names
from txlog.core.versions import OpenTable, commit_together, open_table_of, states_together
from txlog.core.versions.decisions.state import TableState
from txlog.errors import InvalidInputError
from txlog.result import WriteResult
from txlog.snapshot import Snapshot
from txlog.table import Table
from txlog.table_transaction import IsolationLevel, Transaction

__all__ = ["AnyTable", "JointTransaction", "read_together", "transaction"]

AnyTable: TypeAlias = "Table | str | os.PathLike[str]"
"""A table, or its location or name, as `Table.open` takes it."""


@explains_call
def transaction(
    tables: Sequence[AnyTable], isolation: IsolationLevel | None = None, *, user_metadata: str | None = None
) -> JointTransaction:
    """Change several tables together: all of them, or none.

        with txlog.transaction([orders, stock]) as txn:
            late = txn[orders].read("status = 'late'")
            txn[orders].delete("status = 'late'")
            txn[stock].append(returned(late))
        print(txn.results)

    Args:
        tables: The tables, two or more: a `Table`, or what `Table.open` takes.
        isolation: For all tables, as for `Table.transaction`.
        user_metadata: A note for the history of each table.

    Returns:
        A context manager for one ``with`` block.

    Raises:
        InvalidInputError: There are no tables, or one is given twice.
        TxlogError: What `Table.open` and `Table.transaction` raise.
    """
    return JointTransaction(_opened(tables), isolation, user_metadata)


@explains_call
def read_together(tables: Sequence[AnyTable]) -> tuple[Snapshot, ...]:
    """A snapshot of each table. Together they show every `transaction` over several of the tables as a whole: all of
    its changes, or none.

    These are the newest versions, except where a transaction has reached only some of the tables: there, you get the
    version before it. This waits for nobody and writes nothing.

    Args:
        tables: The tables: a `Table`, or what `Table.open` takes.

    Returns:
        The snapshots, in the order of the tables.

    Raises:
        InvalidInputError: There are no tables, or one is given twice.
        TxlogError: What `Table.open` and `Table.snapshot` raise.
    """
    opened = [open_table_of(table) for _, table in _opened(tables)]
    states = _states(opened)
    for each, state in zip(opened, states, strict=True):
        each.last_read.read(state.metadata.id, state.version)
    return tuple(Snapshot(each.log, state, each.task_store) for each, state in zip(opened, states, strict=True))


@explains_names
class JointTransaction:
    """Reads and writes of several tables that become visible together. Made by `txlog.transaction`.

    ``txn[table]`` is a `Transaction` of that table, in which all its methods work; the key is what was passed to
    `txlog.transaction`. ``a, b = txn`` gives them in order. The versions that they see are those of `read_together`.

    It commits when the block ends normally. An exception in the block aborts it, and deletes the files that it wrote.
    Afterwards all tables have their part, or none: a part that this process could not write any more is written by the
    next writer of that table, and a note in its result says so.

    Raises, when the block ends:
        ConflictError: A concurrent commit to one of the tables makes what was read or changed invalid. Nothing landed.
        CommitRetriesExhaustedError: Others committed faster. Nothing landed.
        StorageError: A store failed. Nothing landed.
        CommitStateUnknownError: It may have landed; `txlog.resolve` for the error's table finds out, for all tables.
        PartlyCommittedError: Another engine committed to a table in the moment of the decision, and the two do not go
            together.
    """

    def __init__(
        self,
        tables: Sequence[tuple[AnyTable, Table]],
        isolation: IsolationLevel | None = None,
        user_metadata: str | None = None,
    ) -> None:
        self._keys = [key for key, _ in tables]
        opened = [open_table_of(table) for _, table in tables]
        self._members: list[Transaction] = []
        for open_table, state in zip(opened, _states(opened), strict=True):
            open_table.check_writable(state)
            member = Transaction(open_table, isolation=isolation, user_metadata=user_metadata, state=state)
            self._members.append(member)
        self._is_over = False
        self._results: tuple[WriteResult, ...] | None = None

    def __getitem__(self, table: AnyTable) -> Transaction:
        """The transaction of a table.

        Raises:
            InvalidInputError: The table takes no part.
        """
        for key, member in zip(self._keys, self._members, strict=True):
            if key is table or (isinstance(key, str | os.PathLike) and key == table):
                return member
        raise InvalidInputError(
            f"{table} is not part of this transaction: use a table or a location that was passed to txlog.transaction"
        )

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def results(self) -> tuple[WriteResult, ...]:
        """The result for each table, in order; set when the ``with`` block has ended normally. That of a table without
        a change has the version that was read.

        Raises:
            InvalidInputError: The transaction has not committed.
        """
        if self._results is None:
            raise InvalidInputError("the transaction has not committed: its results are ready after its with block")
        return self._results

    def __repr__(self) -> str:
        state = "not committed" if self._results is None else ", ".join(map(str, self._results))
        return f"JointTransaction({', '.join(open_table_of(member).uri for member in self._members)}, {state})"

    def __enter__(self) -> JointTransaction:
        if self._is_over:
            raise InvalidInputError("a transaction is for one with block: begin another with txlog.transaction(tables)")
        self._is_over = True
        for member in self._members:
            member.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._results = self._replayed() or commit_together([member._part() for member in self._members])
        finally:
            for member in self._members:
                member._end()

    def _replayed(self) -> tuple[WriteResult, ...] | None:
        """The results if the batches of all tables that `Transaction.set_transaction` names are there already."""
        found = [(member, member._replayed()) for member in self._members if member._applications]
        done = [each for each in found if each[1] is not None]
        if not done:
            return None
        if len(done) < len(found):
            there = ", ".join(open_table_of(member).uri for member, _ in done)
            raise InvalidInputError(
                f"the batches of this transaction are in some tables already ({there}), and not in the others: commit"
                " the tables separately"
            )
        by_member = {id(member): result for member, result in found}
        return tuple(
            by_member.get(id(member)) or WriteResult(member._read_state.version, "already_committed", 0, "")
            for member in self._members
        )


def _opened(tables: Sequence[AnyTable]) -> list[tuple[AnyTable, Table]]:
    if isinstance(tables, str | os.PathLike | Table) or not isinstance(tables, Sequence) or not tables:
        raise InvalidInputError("pass a list of tables, or of their locations")
    return [(each, each if isinstance(each, Table) else Table.open(each)) for each in tables]


def _states(opened: Sequence[OpenTable]) -> list[TableState]:
    OpenTable.opened_together(opened)
    states = states_together(opened)
    ids = [state.metadata.id for state in states]
    twice = next((each.uri for each, table_id in zip(opened, ids, strict=True) if ids.count(table_id) > 1), None)
    if twice is not None:
        raise InvalidInputError("this table is given twice: give each table once", table=twice)
    return states
