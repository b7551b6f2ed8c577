"""`ProposalBuilder` turns all changes of a transaction into one `Proposal`.

In: the table's state that the change was planned on (None: it creates the table), then, in order, what the change does
and reads. Out: a proposal. Several steps on one file become one pair of actions: a file that ends up unchanged has
none, and a new file that is removed again is left out. Pure: the caller passes ids and times. PROTOCOL.md, "Add File
and Remove File", "Add CDC File", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from txlog.core.format.actions import (
    Action,
    AddCDCFile,
    AddFile,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from txlog.core.format.column_mapping import schema_of
from txlog.core.format.paths import canonical_path
from txlog.core.format.properties import BRANCH, TableProperties
from txlog.core.versions.decisions.definition_changes import is_same_definition, with_latest_marks
from txlog.core.versions.decisions.proposal import (
    TABLE_READ,
    BecomeOfRows,
    Isolation,
    OperationInfo,
    Proposal,
    ReadSet,
    ReadsTold,
)
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from txlog.core.predicates.terms.predicate import Predicate
    from txlog.core.versions.decisions.state import TableState

_IDENTITY_TAG = "delta.identity.schemaUpdate"


class _File(msgspec.Struct):
    """One file before the change (None: it is new) and after it (None: removed)."""

    before: AddFile | None
    after: AddFile | None


class ProposalBuilder:
    """Collects what one transaction does to one version of a table; `build` makes it a proposal.

    Args:
        state: The version that the change was planned on; None for the commit that creates the table.
        data_change: Whether the rows of the table change; False for files that only move rows (``dataChange``).
    """

    def __init__(self, state: TableState | None, *, data_change: bool = True) -> None:
        self.state = state
        self._data_change = data_change
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._domains: list[DomainMetadata] = []
        self._transactions: list[SetTransaction] = []
        self._applications_read: set[str] = set()
        self._files: dict[str, _File] = {}
        self._changes: list[AddCDCFile] = []
        self._adds_are_new = True
        self._whole_table = False
        self._predicates: list[tuple[Predicate, BecomeOfRows]] = []
        self._read_files: set[str] = set()
        self._lists_files = True
        self._partitions: set[tuple[str | None, ...]] | None = None
        self._domains_read: set[str] = set()
        self._source: Isolation | None = None
        self._keeps_row_ids = True
        self._reads_whole_tables = False

    # --- what the change does -----------------------------------------------------------------------------------

    def define(self, metadata: Metadata | None, protocol: Protocol | None = None) -> None:
        """Set the table's metadata, its protocol, or both; None leaves one as it is. High-water marks of identity
        columns do not go back."""
        if metadata is not None and self.state is not None:
            metadata = with_latest_marks(metadata, self.state.metadata)
        self._metadata = metadata or self._metadata
        self._protocol = protocol or self._protocol

    def set_domain(self, domain: DomainMetadata) -> None:
        """Set or remove a metadata domain."""
        self._domains.append(domain)

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record the last version of an application: the commit then happens at most once."""
        self._transactions.append(SetTransaction(app_id, version))

    def read_application(self, app_id: str) -> None:
        """Depend on the last version of an application that the commit does not set."""
        self._applications_read.add(app_id)

    def add(self, *files: AddFile, are_new: bool = True) -> None:
        """Add files. ``are_new`` False: another program wrote them, so one may already be in the table."""
        self._adds_are_new &= are_new
        for file in files:
            key = canonical_path(file.path)
            if key in self._files and self._files[key].after is not None:
                raise InvalidInputError(f"a commit contains the add of file {file.path} twice")
            found = self._files.setdefault(key, _File(None, None))
            found.after = self._as_change(file)

    def remove(self, *files: AddFile) -> None:
        """Remove live files, as the log has them. They count as read."""
        for file in files:
            self._live(file).after = None

    def replace_vector(
        self, file: AddFile, vector: DeletionVectorDescriptor | None, *, stats: str | None = None
    ) -> None:
        """Give a live file another deletion vector (None: none).

        ``stats`` are the file's statistics with the vector; None keeps the current ones. Every other field stays.
        """
        found = self._live(file)
        if found.after is None:
            raise InvalidInputError(f"{file.path} is removed by this commit: it cannot also get a deletion vector")
        found.after = replace(
            found.after,
            deletion_vector=vector,
            stats=found.after.stats if stats is None else stats,
            data_change=self._data_change,
        )

    def live(self, files: pa.Table) -> pa.Table:
        """The live ``files`` of the planned version, as changed so far, including the change's own new files.

        ``files`` may be only some of them (see ``core.versions.decisions.files.FILES_SCHEMA``); the change's own files
        are always included.
        """
        newest = {
            (canonical_path(action.path), action.key[1]): action
            for action in self._actions(0)
            if isinstance(action, AddFile | RemoveFile)
        }
        if not newest:
            return files
        from txlog.core.versions.decisions.files import reconcile

        return reconcile(files.to_batches(), newest)

    def current(self, file: AddFile) -> AddFile | None:
        """A live file of the planned version, as changed so far; None if this change removed it."""
        found = self._files.get(canonical_path(file.path))
        return file if found is None else found.after

    def is_new(self, file: AddFile) -> bool:
        """Whether this change added the file, so that the planned version does not have it."""
        found = self._files.get(canonical_path(file.path))
        return found is not None and found.before is None

    def give_new_row_ids(self) -> None:
        """Some updated or copied rows get other row ids, which a table that promises stable ids records."""
        self._keeps_row_ids = False

    def change_data(self, *files: AddCDCFile) -> None:
        """Files with the row-level changes of this version; if there is one, all changes must be in such files."""
        self._changes += files

    def _as_change(self, file: AddFile) -> AddFile:
        return file if file.data_change == self._data_change else replace(file, data_change=self._data_change)

    def _live(self, file: AddFile) -> _File:
        """A file of the table, or one that this change added before."""
        key = canonical_path(file.path)
        found = self._files.get(key)
        if found is None:
            found = self._files[key] = _File(file, file)
        if found.before is not None:
            self._read_files.add(file.path)
        return found

    # --- what the change read -----------------------------------------------------------------------------------

    def read_table(self) -> None:
        """The result depends on every row of the table."""
        self._whole_table = True

    def read_source(self, level: Isolation) -> None:
        """The new rows were made from rows of the table; ``level`` decides which changes of them conflict."""
        self._source = level

    def read_where(self, predicate: Predicate, files: Iterable[str] | None, rows: BecomeOfRows = "read") -> None:
        """The result depends on the rows that satisfy ``predicate``, bound to the schema, even if there are none.

        ``files`` are the paths, as the log writes them, of the files that may hold such rows; None: not listed.
        ``rows`` is what becomes of them.
        """
        if self._reads_whole_tables:
            self.read_table()
            return
        self._predicates.append((predicate, rows))
        if files is None:
            self._lists_files = False
        else:
            self._read_files.update(files)

    def read_whole_tables(self) -> None:
        """From now on, and for what was read so far, a read of some rows counts as one of the whole table: the change
        gives columns other names, so that predicates before and after it cannot be judged together."""
        self._reads_whole_tables = True
        self._whole_table = self._whole_table or bool(self._predicates) or self._partitions is not None
        self._predicates, self._partitions = [], None

    def read_partitions(self, partitions: Iterable[tuple[str | None, ...]]) -> None:
        """The result depends on all rows of these partitions, named as `partition_values.partition_key` does."""
        if self._reads_whole_tables:
            self.read_table()
            return
        self._partitions = (self._partitions or set()) | {*partitions}

    def read_domain(self, domain: str) -> None:
        """The result depends on this metadata domain, or on its absence."""
        self._domains_read.add(domain)

    # --- the end ------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether the change does nothing."""
        return not self._actions(0)

    @property
    def has_files(self) -> bool:
        """Whether the change adds or removes a file."""
        return bool(self._files)

    @property
    def is_of_branch(self) -> bool:
        """Whether it changes a branch: its history says what a change read, even of a change that found no row, since a
        publication is judged by that, and a rebase deletes again."""
        return self.state is not None and BRANCH in self.state.metadata.configuration

    @property
    def tells_reads(self) -> bool:
        """Whether it changes a branch, and history says of something that the change read it."""
        return self.is_of_branch and bool(self._reads_told())

    @property
    def adds(self) -> tuple[AddFile, ...]:
        """The files that the commit will add, including those with a new deletion vector."""
        return tuple(action for action in self._actions(0) if isinstance(action, AddFile))

    @property
    def removes(self) -> tuple[RemoveFile, ...]:
        """The files that the commit will remove, including those that it adds again with another deletion vector."""
        return tuple(action for action in self._actions(0) if isinstance(action, RemoveFile))

    def build(
        self,
        info: OperationInfo,
        *,
        txn_id: str,
        now_ms: int,
        isolation: Isolation,
        is_reexecutable: bool = False,
        is_tied_to_version: bool = False,
        replaces_partitions: bool = False,
    ) -> Proposal:
        """The transaction as one proposal.

        Args:
            info: What history says of it.
            txn_id: The id of the logical transaction; the same for every attempt and every re-execution.
            now_ms: The time of removed files and recorded applications, ms since the epoch.
            isolation: The level for the check against concurrent commits.
            is_reexecutable: Whether a plan made this change, and can make another one for a newer version.
            is_tied_to_version: Whether the caller named the version that this change comes from.
            replaces_partitions: Whether the plan replaces the partitions of the added files, and does nothing else.

        Raises:
            InvalidInputError: The transaction creates a table and sets no metadata.
        """
        if self.state is not None:
            schema, partition_columns = self.state.schema, self.state.partition_columns
        elif self._metadata is not None:
            schema, partition_columns = schema_of(self._metadata), self._metadata.partition_columns
        else:
            raise InvalidInputError("the commit that creates a table must set both metaData and protocol")
        tells_reads = not (is_reexecutable and self._files) and self.is_of_branch
        return Proposal(
            txn_id=txn_id,
            read_version=self.state.version if self.state else -1,
            actions=self._actions(now_ms),
            read_set=self._read_set(),
            isolation=isolation,
            operation=info.operation,
            schema=schema,
            partition_columns=partition_columns,
            operation_parameters=dict(info.parameters),
            operation_metrics=dict(info.metrics),
            user_metadata=info.user_metadata,
            fingerprint=info.fingerprint,
            adds_are_new=self._adds_are_new,
            is_reexecutable=is_reexecutable,
            is_tied_to_version=is_tied_to_version,
            replaces_partitions=replaces_partitions,
            tags=self._tags(),
            planned_on=self.state.metadata if self.state else None,
            planned_protocol=self.state.protocol if self.state else None,
            reads_told=self._reads_told() if tells_reads else None,
        )

    def _reads_told(self) -> ReadsTold:
        """What commitInfo says of the read set."""
        if self._whole_table or self._partitions or self._source is not None:
            return TABLE_READ
        return [{"where": str(predicate), "rows": rows} for predicate, rows in self._predicates]

    def _read_set(self) -> ReadSet:
        return ReadSet(
            whole_table=self._whole_table,
            predicates=tuple([predicate for predicate, _ in self._predicates]),
            files=frozenset(self._read_files) if self._lists_files else None,
            partitions=None if self._partitions is None else frozenset(self._partitions),
            app_ids=frozenset(self._applications_read),
            domains=frozenset(self._domains_read),
            source=self._source,
        )

    def _tags(self) -> dict[str, str]:
        """commitInfo's ``tags``: PROTOCOL.md, "Row Tracking". By another one, Spark's writers go on after a commit that
        changes nothing of the definition but high-water marks."""
        if self._metadata is not None:
            properties = TableProperties.of(self._metadata.configuration)
        elif self.state is not None:
            properties = self.state.properties
        else:
            return {}
        tags = {}
        if properties.enable_row_tracking:
            tags["delta.rowTracking.preserved"] = "true" if self._keeps_row_ids else "false"
        if self._metadata is not None and self.state is not None and self._protocol is None:
            before = self.state.metadata
            if before != self._metadata and is_same_definition(before, self._metadata):
                tags[_IDENTITY_TAG] = "true"
        return tags

    def _actions(self, now_ms: int) -> tuple[Action, ...]:
        """Definition first, then applications, then removes before adds, then change data."""
        if self.state is not None and self.state.in_commit_timestamp_ms is not None:
            # If a clock is behind, a file must not be removed before the version that has it: it would expire too
            # early.
            now_ms = max(now_ms, self.state.in_commit_timestamp_ms)
        removes: list[RemoveFile] = []
        adds: list[AddFile] = []
        for file in self._files.values():
            if file.before is not None:
                if file.after is not None and file.before.key == file.after.key:
                    if file.before.base_row_id is None and file.after.base_row_id is not None:
                        adds.append(file.after)  # the same file with the ids that its rows have got
                    continue
                removes.append(file.before.removed(deletion_timestamp=now_ms, data_change=self._data_change))
            if file.after is not None:
                adds.append(file.after)
        definition = [action for action in (self._protocol, self._metadata) if action is not None]
        transactions = [replace(each, last_updated=now_ms) for each in self._transactions]
        return (*definition, *self._domains, *transactions, *removes, *adds, *self._changes)
