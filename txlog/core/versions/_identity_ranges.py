"""Numbers for identity columns: ranges that a commit of its own reserves, so that rows are appended blindly.

In: an open table and a definition. Out: `TableNumbers`, which give numbers that no other row of the table has or gets,
in this process and in tasks elsewhere. No number is given out twice, because two commits that move one high-water mark
conflict, and the later one counts on from the earlier one. PROTOCOL.md, "Identity Columns".
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa

from txlog.core import ambient
from txlog.core.format.actions import Metadata, operation_parameters
from txlog.core.format.column_mapping import schema_of
from txlog.core.format.identity import IDENTITY_PREFIX, IdentityColumn, identity_columns, with_mark
from txlog.core.format.properties import is_of_a_package
from txlog.core.store import TableStore, open_store
from txlog.core.util import cached_property, repr_without
from txlog.core.versions._commit_errors import raise_conflict
from txlog.core.versions._number_ranges import NumberRange
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.errors import ConflictReason, InvalidInputError, MetadataChangedError, ProtocolChangedError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from txlog.core.points import Point


class GivesNumbers(Protocol):
    def __call__(self, open_table: OpenTable, state: TableState, column: IdentityColumn, count: int) -> Metadata:
        """The metadata from whose high-water mark the next ``count`` numbers of a column may be counted: that of
        ``state``, the newest version, or one with another mark. It becomes the table's. An entry of the group
        ``txlog.numbers`` that has the name of the property which switches it on."""


def _offered() -> Point[GivesNumbers]:
    from txlog.core.points import Point  # most tables ask no package

    return Point("txlog.numbers", "what gives numbers to tables with")


def numbers_of(open_table: OpenTable, state: TableState) -> TableNumbers | None:
    """The numbers for new rows of a version's identity columns; None if it has none."""
    metadata = state.metadata
    if IDENTITY_PREFIX not in metadata.schema_string:
        return None
    options = dict(open_table.storage_options or {})
    owned = None if open_table.store.owner is None else open_table.store
    provider = open_table.credential_provider if owned is None else None
    found = TableNumbers(open_table.uri, options, provider, state.version, metadata.id, metadata.created_time, owned)
    found.__dict__["_open_table"] = open_table
    return found


class TableNumbers(msgspec.Struct, frozen=True, dict=True):
    """The `Numbers` of a table that was defined as at a version. In another process, it opens the table there.

    ``table_id`` and ``created_ms`` tell a table from a later one at the same place. ``owned`` are the stores of a table
    whose versions have an owner, which its location alone does not tell. ``storage_options`` may hold secrets, so the
    repr leaves them out. A credential provider crosses to another process if it can be pickled.
    """

    uri: str
    storage_options: Mapping[str, str]
    credential_provider: Callable[[], object] | None
    version: int
    table_id: str
    created_ms: int | None
    owned: TableStore | None = None

    __repr__ = repr_without("storage_options", "credential_provider")

    def take(self, column: IdentityColumn, count: int) -> pa.Array:
        """``count`` numbers. Raises MetadataChangedError if the column was replaced, and what a commit raises."""
        reserve = functools.partial(_reserve, self._open_table, self, column)
        return self._open_table.number_ranges.take(
            (self.table_id, self.created_ms), self.version, column, count, reserve
        )

    @cached_property
    def _open_table(self) -> OpenTable:
        if self.owned is not None:
            return OpenTable(self.owned, storage_options=self.storage_options)
        options = tuple(sorted(self.storage_options.items()))
        return _open_in_process(self.uri, options, pickle.dumps(self.credential_provider))


@functools.lru_cache(maxsize=16)
def _open_in_process(uri: str, storage_options: tuple[tuple[str, str], ...], provider: bytes) -> OpenTable:
    """The handle that the tasks of this process share. ``provider`` is pickled, since each task has its own copy."""
    options, credential_provider = dict(storage_options), pickle.loads(provider)
    store = open_store(uri, options, credential_provider)
    return OpenTable(store, storage_options=options, credential_provider=credential_provider)


def _reserve(open_table: OpenTable, table: TableNumbers, column: IdentityColumn, least: int, count: int) -> NumberRange:
    """A new range, by a commit. Another change of the definition does not matter if the column is still there."""
    while True:
        state = open_table.log.newest_state(refresh=False)
        if state.version < table.version:
            state = open_table.log.newest_state()
        open_table.check_writable(state)
        plan = _Reservation(open_table, table, column, count, least)
        plan.require_column(state)
        try:
            result = open_table.commit_plan(plan, state)
        except (MetadataChangedError, ProtocolChangedError):
            open_table.log.newest_state()
            continue
        assert result.version is not None
        return NumberRange(plan.first, plan.count, plan.count, result.version)


class _Reservation:
    """The `Plan` that moves a high-water mark, by ``count`` numbers, or by the ``least`` if there are not so many."""

    def __init__(
        self, open_table: OpenTable, table: TableNumbers, column: IdentityColumn, count: int, least: int
    ) -> None:
        self._open_table = open_table
        self._table = table
        self._column = column
        self._least = least
        self._txn_id = ambient.uuid4()
        self.count = count
        self.first = 0
        self.metrics = WriteMetrics()

    def execute(self, state: TableState) -> Proposal:
        """Raises MetadataChangedError if the table no longer has the column; InvalidInputError if it has no numbers
        left."""
        try:
            metadata, column, mark = self._next(state)
        except InvalidInputError:
            self.count = self._least
            metadata, column, mark = self._next(state)
        builder = ProposalBuilder(state)
        builder.define(with_mark(metadata, column, mark))
        return builder.build(
            OperationInfo("RESERVE IDENTITY", operation_parameters(column=column.name, first=self.first, last=mark)),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE,
            is_reexecutable=True,
        )

    def _next(self, state: TableState) -> tuple[Metadata, IdentityColumn, int]:
        """The definition with which the numbers may be counted, its column, and the last of the numbers."""
        column, metadata = self.require_column(state), state.metadata
        for key in filter(is_of_a_package, metadata.configuration):
            if (gives := _offered().get(key)) is not None:
                metadata = gives(self._open_table, state, column, self.count)
        if metadata is not state.metadata:
            columns = identity_columns(schema_of(metadata))
            column = next(each for each in columns if each.physical == column.physical)
        self.first, mark = column.next(self.count)
        return metadata, column, mark

    def remaining_work_s(self, state: TableState) -> float:
        return 0.0

    def require_column(self, state: TableState) -> IdentityColumn:
        """The column in this version. Raises MetadataChangedError if it has been replaced."""
        wanted, metadata = self._column, state.metadata
        is_same = (metadata.id, metadata.created_time) == (self._table.table_id, self._table.created_ms)
        for each in identity_columns(state.schema) if is_same else ():
            if (each.physical, each.start, each.step) == (wanted.physical, wanted.start, wanted.step):
                return each
        detail = f"or an earlier commit replaced the table or its identity column {wanted.name}"
        reason = ConflictReason("MetadataChangedError", state.version, "unknown", detail)
        return raise_conflict((reason,), self._open_table.uri)
