"""The numbers that a table has given out since one of its versions: row ids, column ids and identity values.

In: that version, and the actions of all later ones. Out: the highest of each. The newest version alone does not tell:
whoever drops a feature takes its high-water mark out of the table, and whoever turns it on again counts from the
beginning. Pure. PROTOCOL.md, "Row Tracking", "Column Mapping", "Identity Columns".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from txlog.core.format.actions import Action, DomainMetadata, Metadata, Protocol
from txlog.core.format.column_mapping import MAX_COLUMN_ID_KEY
from txlog.core.format.features import features_of
from txlog.core.format.identity import IDENTITY_PREFIX, IdentityColumn, has_columns_of, identity_columns, with_marks
from txlog.core.format.properties import TableProperties
from txlog.core.format.schema import parse_schema
from txlog.core.versions.decisions.proposal import ROW_TRACKING_DOMAIN
from txlog.core.versions.decisions.row_tracking import row_id_mark
from txlog.core.versions.decisions.state import TableState


def counts(state: TableState) -> bool:
    """Whether the version has anything that gives out numbers."""
    metadata = state.metadata
    is_mapped = MAX_COLUMN_ID_KEY in metadata.configuration
    return is_mapped or IDENTITY_PREFIX in metadata.schema_string or _tracks_rows(state.protocol)


class GivenNumbers:
    """The highest numbers that ``older`` and the versions after it gave out; `see` takes those, ascending.

    Attributes:
        row_id: The highest row id; -1 if there is none.
        column_id: The highest column id; 0 if there is none.
        begins_anew: Whether the rows of ``older`` had ids, and row tracking was dropped since.
        has_lost_marks: Whether a later version lacks an identity column of ``older``, and with it the column's mark.
    """

    def __init__(self, older: TableState) -> None:
        self.row_id = row_id_mark(older.domains.get(ROW_TRACKING_DOMAIN))
        self.column_id = _max_column_id(older.metadata)
        self.begins_anew = self.has_lost_marks = False
        self._older = older.metadata
        self._had_row_ids = _tracks_rows(older.protocol)
        self._marks = [_Mark(column) for column in _columns(older.metadata)]

    def see(self, actions: Iterable[Action]) -> None:
        """Take the actions of the next version. Raises CorruptLogError if a mark or a schema cannot be read."""
        for action in actions:
            if isinstance(action, DomainMetadata):
                if action.domain == ROW_TRACKING_DOMAIN and not action.removed:
                    self.row_id = max(self.row_id, row_id_mark(action))
            elif isinstance(action, Protocol):
                self.begins_anew |= self._had_row_ids and not _tracks_rows(action)
            elif isinstance(action, Metadata):
                self._see_definition(action)

    def _see_definition(self, metadata: Metadata) -> None:
        self.column_id = max(self.column_id, _max_column_id(metadata))
        if self._marks:
            self.has_lost_marks |= not has_columns_of(metadata, self._older)
            for column, mark in itertools.product(_columns(metadata), self._marks):
                mark.see(column)

    def marked(self, metadata: Metadata) -> Metadata:
        """The definition of ``older`` with what each identity column has given out."""
        moved = [each for each in self._marks if each.number != each.column.mark]
        return with_marks(metadata, {each.column.name: each.number for each in moved if each.number is not None})


class _Mark:
    """How far one identity column has counted, under whatever names it had: the end of column mapping changes the name
    in files. Another column that takes one of the names counts too, which at most leaves numbers out."""

    def __init__(self, column: IdentityColumn) -> None:
        self.column, self.number = column, column.mark
        self._names = {column.name, column.physical}

    def see(self, other: IdentityColumn) -> None:
        if self._names.isdisjoint((other.name, other.physical)):
            return
        self._names |= {other.name, other.physical}
        if other.mark is not None:
            number, before_first = self.column.rounded(other.mark), self.column.start - self.column.step
            if self.column.is_beyond(number, before_first if self.number is None else self.number):
                self.number = number


def _tracks_rows(protocol: Protocol) -> bool:
    return "rowTracking" in features_of(protocol)[1]


def _columns(metadata: Metadata) -> tuple[IdentityColumn, ...]:
    if IDENTITY_PREFIX not in metadata.schema_string:
        return ()
    return identity_columns(parse_schema(metadata.schema_string))


def _max_column_id(metadata: Metadata) -> int:
    return TableProperties.of(metadata.configuration).max_column_id
