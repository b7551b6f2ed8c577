"""Numbers of identity columns and row ids that a table sets aside for a branch, so that no row has those of another.

In: an open table. Out: the last number of a block that a commit of the table put beyond its high-water mark. A branch
gets a block of each kind when it is made. If it needs more numbers of a column, whoever writes to it draws another
block: `draw` is an entry of the group ``txlog.numbers``. PROTOCOL.md, "Identity Columns", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from txlog.branch.known import origin_of, table_and_branch
from txlog.core.format.actions import Metadata, operation_parameters
from txlog.core.format.identity import IDENTITY_PREFIX, IdentityColumn, identity_columns, with_marks
from txlog.core.format.properties import BRANCH
from txlog.errors import ConflictError, MetadataChangedError, ProtocolChangedError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import (
    ROW_TRACKING_DOMAIN,
    Isolation,
    OperationInfo,
    ProposalBuilder,
    row_id_domain,
    row_id_mark,
    tracks_rows,
)

ROW_IDS = 1 << 40
"""How many row ids are set aside for a branch. There are 2**63, and nobody sees the gaps."""
NUMBERS = 1 << 24
"""How many numbers of an identity column are in a block, at least."""


def first_numbers(
    table: OpenTable, newest: TableState, *, branch: str, base_version: int
) -> tuple[dict[str, int], int | None]:
    """The last number of a new branch's block of each identity column, by physical name, and its last row id; None if
    the table does not track rows. Raises what a commit raises."""

    def marks(state: TableState) -> tuple[dict[str, int], int | None]:
        row_ids = None
        if tracks_rows(state.protocol, state.metadata.configuration):
            row_ids = row_id_mark(state.domains.get(ROW_TRACKING_DOMAIN)) + ROW_IDS
        return {each.physical: each.next(NUMBERS)[1] for each in _columns(state)}, row_ids

    return _set_aside(table, newest, marks, branch=branch, baseVersion=base_version)[:2]


def newest_below_row_ids(
    table: OpenTable, newest: TableState, *, branch: str, row_ids: int | None
) -> tuple[TableState, int | None]:
    """A version of the table whose rows all have ids below those that a branch gives, and the last of these, None if
    the table does not track rows: ``newest`` and ``row_ids``, or else a version that sets another block aside. Raises
    what a commit raises."""
    if row_ids is None and not tracks_rows(newest.protocol, newest.metadata.configuration):
        return newest, None
    if row_ids is not None and row_id_mark(newest.domains.get(ROW_TRACKING_DOMAIN)) <= row_ids:
        return newest, row_ids

    def marks(state: TableState) -> tuple[dict[str, int], int]:
        return {}, row_id_mark(state.domains.get(ROW_TRACKING_DOMAIN)) + ROW_IDS

    _, last, version = _set_aside(table, newest, marks, branch=branch)
    return newest if version is None else table.log.state_at(version), last


def draw(open_table: OpenTable, state: TableState, column: IdentityColumn, count: int) -> Metadata:
    """The metadata of a branch with which ``count`` more numbers of a column are its own. Raises what a commit of its
    table raises."""
    origin = origin_of(state)
    last = None if origin is None else origin.numbers.get(column.physical)
    if origin is None or last is None or not column.is_beyond(column.next(count)[1], last):
        return state.metadata
    table, size = table_and_branch(open_table)[0], max(NUMBERS, count)

    def marks(state: TableState) -> tuple[dict[str, int], int | None]:
        return {each.physical: each.next(size)[1] for each in _columns(state) if each.physical == column.physical}, None

    drawn, *_ = _set_aside(table, table.writable_state(), marks, branch=origin.name, column=column.name)
    if not drawn:  # the table has no such column any more, so it takes over no rows of this branch
        return state.metadata
    own = replace(origin, numbers={**origin.numbers, **drawn})
    configuration = {**state.metadata.configuration, BRANCH: own.to_text()}
    marked = with_marks(state.metadata, {column.name: drawn[column.physical] - size * column.step})
    return replace(marked, configuration=configuration)


def _columns(state: TableState) -> tuple[IdentityColumn, ...]:
    return identity_columns(state.schema) if IDENTITY_PREFIX in state.metadata.schema_string else ()


def _set_aside(
    table: OpenTable,
    newest: TableState,
    marks_of: Callable[[TableState], tuple[dict[str, int], int | None]],
    **parameters: object,
) -> tuple[dict[str, int], int | None, int | None]:
    """Commit high-water marks of identity columns, by physical name, and of row ids, which are those of a version.
    Returns the version too; None if there was nothing to commit."""
    while True:
        marks, row_ids = marks_of(newest)
        if not marks and row_ids is None:
            return marks, row_ids, None
        builder = ProposalBuilder(newest)
        if marks:
            named = {each.name: marks[each.physical] for each in _columns(newest) if each.physical in marks}
            builder.define(with_marks(newest.metadata, named))
        if row_ids is not None:
            builder.set_domain(row_id_domain(row_ids))
        info = OperationInfo("RESERVE FOR BRANCH", operation_parameters(**parameters))
        try:
            return marks, row_ids, table.commit_change(builder, info, Isolation.SERIALIZABLE).version
        except (MetadataChangedError, ProtocolChangedError, ConflictError):
            newest = table.writable_state()
