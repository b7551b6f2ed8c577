"""`TransactionTable`: a table of a transaction, as statements use tables.

In: the `Transaction` of the table. Out: the methods of `Table` that statements call, which change the table when the
transaction commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from txlog.errors import InvalidInputError
from txlog.extend import builder_of, open_table_of, state_of
from txlog.snapshot import Snapshot
from txlog.statements.engine import Source
from txlog.statements.query import Reading

if TYPE_CHECKING:
    from txlog.core.changes.plan import MergeBuilder
    from txlog.core.changes.tasks.operations import MergeOptions
    from txlog.table import Table
    from txlog.table_transaction import Transaction


class TransactionTable:
    """A table of a transaction. What a session says about commits does not apply to it: its engine says nothing."""

    def __init__(self, table: Table, transaction: Transaction) -> None:
        self.uri = table.uri
        self._table = table
        self._transaction = transaction

    def snapshot(self) -> Snapshot:
        """The version that the transaction began with, with the columns and properties that it has given the table."""
        of_table = open_table_of(self._transaction)
        return Snapshot(of_table.log, state_of(self._transaction), of_table.task_store)

    def source(self, reading: Reading) -> Source:
        """The rows for a query. Raises InvalidInputError if the transaction has changed the table."""
        builder = builder_of(self._transaction)
        if not builder.is_empty:
            name = reading.table
            raise InvalidInputError(
                f"{name.text}, which is read at {name.at}, was changed by an earlier statement of the transaction, and"
                " queries see tables as they were before it: put the query first, or commit before it",
                table=self.uri,
            )
        builder.read_table()
        return Source(self._table, self._transaction.snapshot)

    # --- rows -----------------------------------------------------------------------------------------------------

    def write(self, rows: Any, mode: str, options: Mapping[str, Any]) -> None:
        if mode == "append":
            self._transaction.append(rows)
        else:
            self._transaction.overwrite(rows, options["where"])

    def merge(self, rows: Any, merge: MergeOptions) -> MergeBuilder[None]:
        aliases = merge.source_alias, merge.target_alias
        return self._transaction.merge(rows, merge.on, source_alias=aliases[0], target_alias=aliases[1])

    def delete(self, where: str | None, *, all: bool, **session: Any) -> None:
        self._transaction.delete(where, all=all)

    def update(self, values: Mapping[str, object], where: str | None, **session: Any) -> None:
        self._transaction.update(values, where)

    # --- the definition -------------------------------------------------------------------------------------------

    def add_columns(self, schema: str, **session: Any) -> None:
        self._transaction.add_columns(schema)

    def rename_column(self, column: str, name: str, **session: Any) -> None:
        self._transaction.rename_column(column, name)

    def drop_columns(self, columns: list[str], **session: Any) -> None:
        self._transaction.drop_columns(columns)

    def alter_column(self, column: str, *, user_metadata: str | None = None, **options: Any) -> None:
        self._transaction.alter_column(column, **options)

    def sync_identity(self, column: str, **session: Any) -> None:
        self._transaction.sync_identity(column)

    def set_properties(self, properties: Mapping[str, str], **session: Any) -> None:
        self._transaction.set_properties(properties)

    def set_description(self, description: str, **session: Any) -> None:
        self._transaction.set_description(description)

    @contextmanager
    def transaction(self, **session: Any) -> Iterator[_Steps]:
        """Several changes by one statement."""
        yield _Steps(self._transaction)


class _Steps:
    """The transaction, as one statement's own transaction, whose result comes with the commit."""

    def __init__(self, transaction: Transaction) -> None:
        self.add_columns = transaction.add_columns
        self.alter_column = transaction.alter_column
        self.result = None
