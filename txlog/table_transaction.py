"""`Transaction`: several reads and writes of one table as one version.

In: calls inside a ``with table.transaction()`` block, which all see one snapshot. Out: one proposal. It is committed
when the block ends normally; an exception in the block aborts it and deletes its data files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of, live_rows
from txlog.core.operations import (
    RegionReplacement,
    WriteOptions,
    check_removable,
    decided_by_partitions,
    history_metrics,
    history_operation,
    history_parameters,
    plan_for_rows,
)
from txlog.core.util import check_text, explains_calls, explains_names, invalid, one_of, whole_number
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.writing import open_data, write_task
from txlog.core.writing.commit_options import CommitOptions, check_app_id
from txlog.errors import InvalidInputError, NotFoundError, TxlogError
from txlog.result import WriteMetrics, WriteResult
from txlog.snapshot import Snapshot, with_values, with_values_of

if TYPE_CHECKING:
    from txlog.core.changes.plan import ChangeFiles, MergeBuilder
    from txlog.core.changes.tasks import RowOperation
    from txlog.core.changes.tasks.operations import MissingColumns, OnDuplicate, WhenMatched, WhenNotMatched
    from txlog.core.definition import DefinitionChange, MakeChange
    from txlog.core.predicates import AnyCondition, Parameters
    from txlog.core.progress import OnProgress
    from txlog.core.versions import TablePart
    from txlog.core.versions.decisions.state import TableState
    from txlog.core.writing.write_intent import RowMode

__all__ = ["IsolationLevel", "Transaction"]

Step: TypeAlias = "Callable[[ProposalBuilder, TableState], WriteMetrics]"
"""One change of rows or files, put into the proposal for a version."""
_OF_STEPS = ("rows", "rows_deleted", "rows_copied", "rows_inserted", "rows_updated", "vectors")

IsolationLevel: TypeAlias = Literal["Serializable", "WriteSerializable", "SnapshotIsolation"]


@explains_calls
@explains_names
class Transaction:
    """Several reads and writes of a table as one version. Made by `Table.transaction`, whose arguments it has.

    It is a context manager for one ``with`` block, on one thread. It commits when the block ends normally; an exception
    in the block aborts it, and deletes the files that it wrote:

        with table.transaction() as txn:
            late = txn.read("day = '2026-11-20' and status = 'late'")
            txn.delete("day = '2026-11-20'")
            txn.append(corrected(late))
        print(txn.result)

    All operations see the version in `snapshot`. A writing operation also sees what earlier ones in the block wrote.
    """

    def __init__(
        self,
        open_table: OpenTable,
        *,
        isolation: IsolationLevel | None = None,
        operation: str | None = None,
        data_change: bool = True,
        user_metadata: str | None = None,
        refresh: bool = True,
        state: TableState | None = None,
    ) -> None:
        self._open_table = open_table
        self._isolation = _isolation(isolation)
        self._operation = operation
        self._data_change = data_change
        self._user_metadata = user_metadata
        self._read_state = self._state = state or open_table.writable_state(refresh=refresh)
        self._definitions: list[DefinitionChange] = []
        self._snapshot = Snapshot(open_table.log, self._state, open_table.task_store)
        self._builder = ProposalBuilder(self._state, data_change=data_change)
        self._applications: list[tuple[str, int]] = []
        self._unsent = open_table.unsent_files()
        self._change_files: ChangeFiles | None = None
        self._steps: list[Step] = []
        self._did = WriteMetrics()
        self._regions: list[str] = []
        self._overwrites_partitions = self._removes_by_name = False
        self._is_open = self._is_over = False
        self._result: WriteResult | None = None

    # --- reads --------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The version that the whole transaction sees. As with `Table.snapshot`, this counts as a read by the
        handle."""
        self._count_as_read()
        return self._snapshot

    def read(
        self,
        where: AnyCondition | None = None,
        columns: Sequence[str] | None = None,
        *,
        parameters: Parameters | None = None,
    ) -> pa.Table:
        """The rows of the snapshot that satisfy a condition. The transaction then depends on them.

        If a concurrent commit adds or removes rows that this read would have seen, the commit fails with a conflict,
        according to the isolation level.

        Args:
            where: A condition in SQL, or one built from `txlog.col`; None means all rows.
            parameters: Values for ``:name`` in the condition, as for `Table.delete`.
            columns: The names of the columns to read; None means all.

        Returns:
            The rows as one Arrow table. They do not include rows that this transaction wrote.

        Raises:
            InvalidInputError: A column or the condition does not fit the table.
            TxlogError: What `Snapshot.to_batches` raises for files that cannot be read.
        """
        where = with_values(where, parameters)
        self._require_open()
        self._count_as_read()
        if where is None:
            self._builder.read_table()
            return self._snapshot.to_arrow(columns)
        from txlog.core.predicates import bind_predicate
        from txlog.core.reading import ScanPlan, select

        log, state = self._open_table.log, self._read_state
        with TxlogError.located(self._open_table.uri, state.version):
            predicate = bind_predicate(where, state.schema, zone=state.time_zone, now=ambient.now())
        plan = ScanPlan(select(log.uri, state, columns, predicate), log.matching_files(state, predicate))
        self._builder.read_where(predicate, plan.files.column("path").to_pylist())
        return plan.to_arrow(log.store)

    # --- the definition -----------------------------------------------------------------------------------------

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set table properties in this version: see `Table.set_properties`, and `rename_column` for the order.

        Args:
            properties: The values by key.

        Raises:
            InvalidInputError: A key or a value is invalid, or the transaction has written rows.
        """
        from txlog.core.definition import properties_set

        self._define(lambda state: properties_set(state, properties))

    def add_columns(self, schema: object) -> None:
        """Add nullable columns in this version: see `Table.add_columns`, and `rename_column` for the order.

        Args:
            schema: The new columns, as for `Table.add_columns`.

        Raises:
            SchemaMismatchError: A column exists with another type.
            InvalidInputError: A new column is NOT NULL, or the transaction has written rows.
        """
        from txlog.core.definition import added_columns

        self._define(lambda state: added_columns(state, schema))

    def rename_column(self, column: str, name: str) -> None:
        """Rename a column in this version: see `Table.rename_column`.

        The definition is changed before rows are written: all writing operations after this one use the new names, and
        `read` and `snapshot` still have the old ones. Reads of some rows then count as reads of the whole table.

        Args:
            column: The column, as for `Table.rename_column`.
            name: The new name.

        Raises:
            InvalidInputError: As for `Table.rename_column`, or the transaction has written rows.
        """
        from txlog.core.definition import renamed_column

        self._define(lambda state: renamed_column(state, column, name))

    def drop_columns(self, columns: str | Iterable[str]) -> None:
        """Drop columns in this version: see `Table.drop_columns`, and `rename_column` for the order.

        Args:
            columns: One column or several, as for `Table.drop_columns`.

        Raises:
            InvalidInputError: As for `Table.drop_columns`, or the transaction has written rows.
        """
        from txlog.core.definition import dropped_columns

        self._define(lambda state: dropped_columns(state, columns))

    def alter_column(
        self,
        column: str,
        *,
        type: str | pa.DataType | None = None,
        nullable: bool | None = None,
        comment: str | None = None,
        default: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> None:
        """Change properties of a column in this version: see `Table.alter_column`, and `rename_column` for the order.

        Args:
            column: The column, as for `Table.alter_column`.
            type: A wider type.
            nullable: Whether the column may be null. A new NOT NULL counts as a read of the whole table.
            comment: The comment.
            default: The default, in SQL.
            first: Whether the column becomes the first one.
            after: The neighbor that it comes after.

        Raises:
            InvalidInputError: As for `Table.alter_column`, or the transaction has written rows.
        """
        from txlog.core.definition import ColumnAlteration, altered_column

        asked = ColumnAlteration(type, nullable, comment, default, first, after)
        self._define(lambda state: altered_column(state, column, asked))

    def set_description(self, description: str | None = None, *, name: str | None = None) -> None:
        """Set the table's description or name in this version: see `Table.set_description`.

        Args:
            description: The text; an empty one removes it.
            name: The name in the table's metadata.

        Raises:
            InvalidInputError: Neither is given, or the transaction has written rows.
        """
        from txlog.core.definition import described_table

        self._define(lambda state: described_table(state, description, name))

    def sync_identity(self, column: str) -> None:
        """Move the high-water mark of an identity column in this version: see `Table.sync_identity`, and
        `rename_column` for the order. It counts as a read of the whole table.

        Args:
            column: The identity column.

        Raises:
            InvalidInputError: There is no such identity column, or the transaction has written rows.
        """
        from txlog.core.definition import IdentitySync

        self._define(IdentitySync(self._open_table, column))

    def _define(self, make: MakeChange) -> None:
        from txlog.core.definition import define, require_met

        self._require_open()
        if self._builder.has_files:
            raise InvalidInputError(
                "a transaction changes the table's definition before it writes or removes rows: put this call first",
                table=self._open_table.uri,
                version=self._state.version,
            )
        with TxlogError.located(self._open_table.uri, self._state.version):
            change = make(self._state)
        if change.definition is None:
            return
        if change.depends_on_files:
            require_met(self._open_table, self._state, change, self._open_table.log.files(self._state))
            self._builder.read_table()
        define(self._builder, change.definition)
        self._builder.read_whole_tables()
        self._state = self._state.defined_as(change.definition.metadata, change.definition.protocol)
        self._definitions.append(change)

    # --- writes -------------------------------------------------------------------------------------------------

    def append(self, data: object) -> None:
        """Write rows as new files of this version.

        Args:
            data: Anything `Table.append` takes.

        Raises:
            SchemaMismatchError: Columns of the data differ; the message lists all of them.
            InvalidInputError: A row cannot be stored.
            StorageError: The store failed.
        """
        self._require_open()
        self._write(data, WriteOptions())

    def overwrite(
        self,
        data: object,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        row_mode: RowMode | None = None,
    ) -> None:
        """Replace every row of the table, or the rows that satisfy a condition: see `Table.overwrite`.

        Rows that this transaction appended earlier count as part of the table.

        Args:
            data: The new rows: anything `Table.append` takes.
            where: A condition in SQL on the table's columns, which each row of ``data`` must satisfy. None replaces
                every row.
            parameters: Values for ``:name`` in the condition, as for `Table.delete`.
            row_mode: How to remove rows from files that keep other rows: "merge-on-read" or "copy-on-write", as for
                `Table.delete`.

        Raises:
            InvalidInputError: A row is outside ``where``, or the table is append-only.
            TxlogError: What `append` raises.
        """
        where = with_values(where, parameters)
        self._require_open()
        self._write(data, WriteOptions(mode="overwrite", where=where, row_mode=row_mode))

    def overwrite_partitions(self, data: object) -> None:
        """Replace the partitions that have rows in ``data``: see `Table.overwrite_partitions`.

        Rows that this transaction appended earlier count as part of the table.

        Args:
            data: The new rows: anything `Table.append` takes.

        Raises:
            InvalidInputError: The table is not partitioned or is append-only.
            TxlogError: What `append` raises.
        """
        self._require_open()
        self._write(data, WriteOptions(mode="overwrite_partitions"))
        self._overwrites_partitions = True

    def remove_partitions(self, where: AnyCondition, *, parameters: Parameters | None = None) -> None:
        """Remove every row of some partitions, without reading a file. The condition counts as read.

        Args:
            where: A condition on partition columns only, such as ``"day < '2026-01-01'"``.
            parameters: Values for ``:name`` in the condition, as for `Table.delete`.

        Raises:
            InvalidInputError: Partition values do not decide the condition, or the table is append-only.
        """
        from txlog.core.predicates import bind_predicate

        where = with_values(where, parameters)
        self._require_open()
        with TxlogError.located(self._open_table.uri, self._state.version):
            check_removable(self._state)
            predicate = bind_predicate(where, self._state.schema, zone=self._state.time_zone)

        def remove(builder: ProposalBuilder, state: TableState) -> WriteMetrics:
            live = builder.live(self._open_table.log.matching_files(state, predicate))
            replaced = decided_by_partitions(self._open_table, state, predicate, live)
            builder.read_where(predicate, live.column("path").to_pylist(), "deleted")
            builder.remove(*replaced.removed)
            return WriteMetrics(rows_deleted=replaced.rows_deleted)

        self._do(remove)
        self._regions.append(where if isinstance(where, str) else str(predicate))

    def delete(
        self,
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        all: bool = False,
        row_mode: RowMode | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Delete the rows for which a condition is true, including rows of this transaction: see `Table.delete`.

        Delta's rules apply to the transaction as a whole, and it never reruns: ``on_conflict`` is "fail" and
        ``read_version`` is the version of `snapshot`. Use `set_transaction` for applications.

        Args:
            where: A condition in SQL, or one built from `txlog.col`.
            parameters: Values for ``:name`` in the condition, as for `Table.delete`.
            all: Delete every row; then without ``where``.
            row_mode: "merge-on-read" or "copy-on-write", as for `Table.delete`; None lets the table decide.
            on_progress: As for `Table.delete`.

        Raises:
            InvalidInputError: There is neither a condition nor ``all=True``, the condition does not fit the table, the
                table is append-only, or the transaction has ``data_change=False``.
            TxlogError: What `Snapshot.to_batches` raises for files that cannot be read.
        """
        from txlog.core.changes.plan import check_delete
        from txlog.core.changes.tasks.operations import DeleteSpec

        where = with_values(where, parameters)
        self._require_open()
        check_delete(where, all)
        with TxlogError.located(self._open_table.uri, self._state.version):
            operation = DeleteSpec(where).bind(self._state)
        self._change_rows("a delete", operation, row_mode, on_progress)
        self._regions += [] if where is None else [where if isinstance(where, str) else str(operation.predicate)]

    def update(
        self,
        values: Mapping[str, object],
        where: AnyCondition | None = None,
        *,
        parameters: Parameters | None = None,
        row_mode: RowMode | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Set columns of the rows for which a condition is true: see `Table.update`, and `delete` for conflicts.

        Args:
            values: The new values by column or struct field, as for `Table.update`; a plain string is refused.
            where: A condition, as for `delete`; None means all rows.
            parameters: Values for ``:name`` in the condition and in `txlog.expr`.
            row_mode: As for `delete`.
            on_progress: As for `delete`.

        Raises:
            InvalidInputError: A value does not fit its column, or is null for a NOT NULL column.
            TxlogError: What `delete` raises.
        """
        from txlog.core.changes.tasks.operations import UpdateSpec

        values, where = with_values_of(values, where, parameters)
        self._require_open()
        with TxlogError.located(self._open_table.uri, self._state.version):
            operation = UpdateSpec(values, where).bind(self._state)
        self._change_rows("an update", operation, row_mode, on_progress)

    def upsert(
        self,
        data: object,
        keys: str | Iterable[str],
        *,
        when_matched: WhenMatched = "update",
        when_not_matched: WhenNotMatched = "insert",
        update_columns: Sequence[str] | None = None,
        missing_columns: MissingColumns = "error",
        on_duplicate: OnDuplicate = "error",
        sequence_by: str | None = None,
        merge_engine: str | Mapping[str, object] | None = None,
        row_kind: str | None = None,
        row_kinds: Mapping[int, str] | Mapping[str, str] | None = None,
        row_mode: RowMode | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Update the rows whose keys are in ``data``, and insert the others: see `Table.upsert`.

        Conflicts are as for `delete`.

        Args:
            data: Anything `Table.append` takes, with every column of the table.
            keys: The columns that identify a row, as for `Table.upsert`.
            row_mode: As for `delete`.
            on_progress: As for `delete`.

        The other arguments are the same as for `Table.upsert`.

        Raises:
            SchemaMismatchError: Columns are missing or do not fit.
            InvalidInputError: A key is null or repeated, or a row kind is invalid.
            TxlogError: What `delete` raises.
        """
        from txlog.core.changes.plan import bound_upsert
        from txlog.core.changes.tasks.operations import UpsertOptions

        self._require_open()
        upsert = UpsertOptions(
            keys,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            update_columns=update_columns,
            on_duplicate=on_duplicate,
            sequence_by=sequence_by,
            merge_engine=merge_engine,
            missing_columns=missing_columns,
            row_kind=row_kind,
            row_kinds=row_kinds,
        )
        operation = bound_upsert(self._open_table, self._state, data, upsert)
        self._change_rows("an upsert", operation, row_mode, on_progress)

    def merge(
        self,
        data: object,
        on: AnyCondition | Iterable[str],
        *,
        parameters: Parameters | None = None,
        source_alias: str = "source",
        target_alias: str = "target",
        row_mode: RowMode | None = None,
        on_progress: OnProgress | None = None,
    ) -> MergeBuilder[None]:
        """Start a merge of ``data``; add clauses, then call ``execute()``: see `Table.merge`.

        Conflicts are as for `delete`. Rows of this transaction count as part of the table. Without ``execute()``,
        nothing is merged.

        Args:
            data: Anything `Table.append` takes.
            on: Which rows match, as for `Table.merge`: a condition, or the names of key columns.
            parameters: Values for ``:name`` in ``on`` and in the SQL of all clauses.
            source_alias: The name of ``data`` in conditions and values.
            target_alias: The name of the table in conditions and values.
            row_mode: As for `delete`.
            on_progress: As for `delete`.

        Returns:
            A builder, to which clauses are added. Its ``execute()`` returns None: the merge is part of `result`.

        Raises:
            TxlogError: ``execute()`` raises what `upsert` raises.
        """
        from txlog.core.changes.plan import MergeBuilder, bound_merge
        from txlog.core.changes.tasks.operations import MergeClause, MergeOptions

        self._require_open()
        merge = MergeOptions(on, source_alias, target_alias, parameters=parameters)

        def run(clauses: tuple[MergeClause, ...]) -> None:
            self._require_open()
            operation = bound_merge(self._open_table, self._state, data, merge, clauses)
            self._change_rows("a merge", operation, row_mode, on_progress)

        return MergeBuilder(self._open_table.uri, merge, run)

    def _change_rows(
        self, what: str, operation: RowOperation, mode: RowMode | None, on_progress: OnProgress | None
    ) -> None:
        from txlog.core.changes.plan import RowOptions, change_in_transaction

        if not self._data_change:
            raise InvalidInputError(f"{what} changes rows, and this transaction has data_change=False")
        options = RowOptions(mode, CommitOptions(on_conflict="fail"), on_progress)
        self._do(
            change_in_transaction(
                self._open_table, self._state, self._unsent, what, operation, options, self._recorder()
            )
        )
        operation.report()

    def _do(self, step: Step) -> None:
        """Make one change of the transaction, which a later version may need again."""
        self._did = _sum(self._did, step(self._builder, self._state))
        self._steps.append(step)

    def _recorder(self) -> ChangeFiles | None:
        """Writes the change files of this version; None if the feed is off, or rows only move."""
        from txlog.core.changes.plan import ChangeFiles

        if self._change_files is None and self._data_change:
            self._change_files = ChangeFiles.of(self._open_table, self._state, self._unsent)
        return self._change_files

    def _write(self, data: object, options: WriteOptions) -> None:
        job, stream = plan_for_rows(self._open_table, open_data(data), options, self._state)
        files = write_task(self._open_table.store.files, job.plan, job.task(), stream).files
        self._unsent.own(file.path for file in files)
        region: RegionReplacement | None = None
        if not job.intent.is_append:
            region = RegionReplacement(self._open_table, self._state, job, self._unsent, self._recorder())
            self._regions += [job.intent.where] if job.intent.where is not None else []

        def write(builder: ProposalBuilder, state: TableState) -> WriteMetrics:
            replaced = None if region is None else region.replace(builder, state, files)
            builder.add(*[file.to_add() for file in files])
            rows = sum(file.num_rows for file in files)
            if replaced is None:
                return WriteMetrics(rows=rows)
            return WriteMetrics(rows=rows, rows_deleted=replaced.rows_deleted, rows_copied=replaced.rows_copied)

        self._do(write)

    def add(self, *files: AddFile) -> None:
        """Add data files that another program wrote. Each is synced to disk.

        Args:
            *files: The ``add`` actions; each file must exist with its full size.

        Raises:
            NotFoundError: A file does not exist.
            InvalidInputError: A file has another size, or no reader could read it as part of this table.
            StorageError: The store failed.
        """
        self._take_over(files)

    def _take_over(self, files: Sequence[AddFile], *, are_looked_at: bool = False) -> None:
        from txlog.core.format.statistics_read import num_records
        from txlog.core.operations import operation

        self._require_open()
        take_over = operation("take_over")
        taken = take_over(self._open_table, state=self._state, files=files, are_looked_at=are_looked_at)

        def add(builder: ProposalBuilder, state: TableState) -> WriteMetrics:
            builder.add(*taken, are_new=False)
            return WriteMetrics(rows=sum(num_records(file.stats) or 0 for file in taken))

        self._do(add)

    def remove(self, *paths: str | pa.Array | pa.ChunkedArray) -> None:
        """Remove live files. They count as read. A file whose rows this transaction marked as deleted is removed too.

        Args:
            *paths: Paths as in the log, or columns of paths (``snapshot.files(where)["path"]``).

        Raises:
            NotFoundError: The snapshot has no live file with this path, or an earlier operation of this transaction
                removed it or wrote its rows to another file.
        """
        self._require_open()
        columns = pa.Array | pa.ChunkedArray
        named = [path for each in paths for path in (each.to_pylist() if isinstance(each, columns) else [each])]
        for path in named:
            check_text("a path", path)

        def remove(builder: ProposalBuilder, state: TableState) -> WriteMetrics:
            return WriteMetrics(rows_deleted=self._remove(builder, state, named))

        self._do(remove)
        self._removes_by_name = self._removes_by_name or bool(named)

    def _remove(self, builder: ProposalBuilder, state: TableState, named: Sequence[str]) -> int:
        """Remove live files by their paths. Returns how many rows they had."""
        files, rows = self._open_table.log.files(state), 0
        known = files.filter(pc.is_in(files.column("path"), value_set=pa.array(named, pa.string())))
        found = {add.path: builder.current(add) for add in add_files_of(known)}
        for path in dict.fromkeys(named):
            add = found.get(path)
            if add is None:
                problem = f'the table has no live file {path}: use paths of txn.snapshot.files()["path"]'
                if path in found:
                    problem = (
                        f"an earlier operation of this transaction removed file {path} or wrote its rows to another"
                        " file: remove files first, or remove rows by a condition (delete)"
                    )
                raise NotFoundError(problem, table=self._open_table.uri, version=state.version, path=path)
            builder.remove(add)
            rows += live_rows(add)
        return rows

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record the last version of an application (a ``txn`` action): the commit then happens at most once.

        Args:
            app_id: The permanent name of the application.
            version: The number of the application's batch. It must grow. If the table already has it, the transaction
                commits nothing, and the outcome of its result is "already_committed".

        Raises:
            InvalidInputError: The name or the number is invalid.
        """
        self._require_open()
        number = whole_number("version", version, table=self._open_table.uri)
        check_app_id(app_id)
        self._applications.append((app_id, number))
        self._builder.set_transaction(app_id, number)

    # --- the end ------------------------------------------------------------------------------------------------

    @property
    def result(self) -> WriteResult:
        """The result of the commit; set when the ``with`` block has ended normally."""
        if self._result is None:
            raise InvalidInputError("the transaction has not committed: its result is ready after its with block")
        return self._result

    def __repr__(self) -> str:
        added, removed = len(self._builder.adds), len(self._builder.removes)
        state = "open" if self._is_open else "ended without a commit" if self._is_over else "not begun"
        return (
            f"Transaction({self._open_table.uri}, on version {self._state.version}, {added} files added,"
            f" {removed} removed, {state if self._result is None else self._result})"
        )

    def _count_as_read(self) -> None:
        """An overwrite's rows may come from here: rows appended up to this version are replaced, not kept."""
        self._open_table.last_read.read(self._state.metadata.id, self._state.version)

    def _require_open(self) -> None:
        """Raise for a call outside the block: otherwise its work would be lost without an error."""
        if not self._is_open:
            raise InvalidInputError(
                "a transaction works only inside its with block, and only once: begin another with table.transaction()",
                table=self._open_table.uri,
            )

    def __enter__(self) -> Transaction:
        if self._is_open or self._is_over:
            raise InvalidInputError("a transaction is for one with block: begin another", table=self._open_table.uri)
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open, self._is_over = False, True
        with self._unsent:
            if kind is None:
                self._result = self._replayed() or self._commit()

    def _end(self) -> None:
        """End it as a part of a transaction over several tables, which has committed it or not."""
        self._is_open, self._is_over = False, True
        self._unsent.discard()

    def _replayed(self) -> WriteResult | None:
        """The result if all applications' versions are already in the table. If only some are, raise an error."""
        committed: dict[str, int | None] = {}
        states: dict[str, str] = {}
        refusals: list[InvalidInputError] = []
        for app_id, version in self._applications:
            last = self._state.transaction_version(app_id)
            try:
                replay = self._open_table.replay_of(self._state, app_id, version)
            except InvalidInputError as error:
                refusals.append(error)
                states[app_id] = f"is behind {last}, and no retained commit has it"
                continue
            if replay is None:
                states[app_id] = f"is new (the last one is {last})" if last is not None else "is the first"
            else:
                committed[app_id] = replay.version
                states[app_id] = f"is already in v{replay.version}" if replay.version is not None else "is committed"
        if len(states) == 1 and refusals:
            raise refusals[0]
        if not committed and not refusals:
            return None
        if len(committed) < len(states):
            each = "; ".join(f"{version} of {app_id!r} {states[app_id]}" for app_id, version in self._applications)
            raise InvalidInputError(
                f"some of this transaction's applications have already committed and some have not: {each}. Commit them"
                " separately: the rows that are in the table must not be written again",
                table=self._open_table.uri,
                version=self._state.version,
            )
        versions = [version for version in committed.values() if version is not None]
        return WriteResult(max(versions, default=None), "already_committed", 0, ambient.uuid4())

    def _commit(self) -> WriteResult:
        if self._builder.is_empty and not (self._steps and self._builder.tells_reads):
            # All reads see one version, so no concurrent commit can make them wrong.
            return WriteResult(self._state.version, "committed", 0, "")
        proposal, metrics = self._proposed(self._builder, self._did)
        return self._open_table.commit(proposal, self._read_state, metrics, unsent=self._unsent)

    def _part(self) -> TablePart:
        """What the transaction does to its table, as a part of one over several tables."""
        from txlog.core.versions import TablePart

        proposal, metrics = self._proposed(self._builder, self._did)
        again = self._again if self._builder.removes else None
        return TablePart(self._open_table, self._read_state, proposal, metrics, self._unsent, again)

    def _again(self, state: TableState) -> tuple[Proposal, WriteMetrics]:
        """The same changes on a later version with the same definition, and what they do there."""
        builder, did = ProposalBuilder(state, data_change=self._data_change), WriteMetrics()
        for change in self._definitions:
            if change.definition is not None:
                from txlog.core.definition import define

                define(builder, change.definition)
                state = state.defined_as(change.definition.metadata, change.definition.protocol)
        for app_id, version in self._applications:
            builder.set_transaction(app_id, version)
        if self._change_files is not None:
            self._change_files.begin()
        for step in self._steps:
            did = _sum(did, step(builder, state))
        return self._proposed(builder, did)

    def _proposed(self, builder: ProposalBuilder, did: WriteMetrics) -> tuple[Proposal, WriteMetrics]:
        """The transaction as a proposal for the version of ``builder``; ``did`` is what its steps did to rows."""
        adds, removes = builder.adds, builder.removes
        recorder = None if builder.is_empty else self._recorder()
        change_files = 0 if recorder is None else recorder.finish(builder)
        metrics = replace(
            did,
            files=len(adds),
            bytes=sum(add.size for add in adds),
            files_removed=len(removes),
            change_files=change_files,
        )
        operation = self._operation or history_operation(self._definitions, adds, removes)
        parameters = history_parameters(
            operation,
            self._regions,
            is_overwrite=bool(removes),
            overwrites_partitions=self._overwrites_partitions,
            definitions=self._definitions,
        )
        recorded = history_metrics(operation, metrics, removes)
        info = OperationInfo(operation, parameters, recorded, self._user_metadata)
        if self._removes_by_name and adds:  # the added files have rows that the removed ones had
            builder.give_new_row_ids()
        isolation = self._open_table.isolation(self._state, self._isolation)
        return self._open_table.proposed(builder, info, isolation), metrics


def _sum(*metrics: WriteMetrics) -> WriteMetrics:
    """What steps did to rows. The files are counted at the end."""
    return WriteMetrics(**{name: sum(getattr(each, name) for each in metrics) for name in _OF_STEPS})


def _isolation(name: str | None) -> Isolation | None:
    try:
        return None if name is None else Isolation(name)
    except ValueError:
        raise invalid("isolation", name, one_of(level.value for level in Isolation)) from None
