"""Row ids: the numbers that a commit gives to the rows of its new files, on a table that tracks rows.

In: a proposal and the table state it would build on. Out: the same proposal with a first row id and a commit version on
each new file, and the table's high-water mark moved. A retry starts from the proposal as it was planned and assigns
new numbers, since another commit has taken the first ones. PROTOCOL.md, "Row Tracking", "Row IDs".
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from msgspec.structs import replace

from txlog.core.format.actions import Action, AddFile, DomainMetadata, Protocol
from txlog.core.format.statistics_read import num_records
from txlog.core.format.wire import INT64_MAX
from txlog.core.versions.decisions.proposal import ROW_TRACKING_DOMAIN, Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CorruptLogError, InvalidInputError

SUSPENDED = "delta.rowTrackingSuspended"
"""If true, new files get no row ids, although the protocol lists the feature."""

ROW_TRACKING_PROPERTIES = (
    "delta.enableRowTracking",
    SUSPENDED,
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
"""What a table's definition says of row ids: whether they are promised, and where rewritten files keep them."""

_HIGH_WATER_MARK = "rowIdHighWaterMark"


def tracks_rows(protocol: Protocol, configuration: Mapping[str, str]) -> bool:
    """Whether every new file needs row ids: if the protocol lists the feature, enabled or not."""
    return "rowTracking" in (protocol.writer_features or ()) and not is_suspended(configuration)


def is_suspended(configuration: Mapping[str, str]) -> bool:
    return configuration.get(SUSPENDED, "false").strip().lower() == "true"


def with_row_ids(proposal: Proposal, state: TableState | None) -> Proposal:
    """``proposal`` with row ids for version ``state.version + 1``; unchanged if the table does not track rows.

    A file that has an id keeps the id and its version, since its rows are already numbered. A proposal that moves the
    high-water mark itself is numbered above that. Raises ``InvalidInputError`` for a new file without a row count,
    ``CorruptLogError`` if the table's high-water mark cannot be read.
    """
    protocol = proposal.protocol or (state.protocol if state else None)
    metadata = proposal.metadata or (state.metadata if state else None)
    if protocol is None or metadata is None or not tracks_rows(protocol, metadata.configuration):
        return proposal
    before = mark = row_id_mark(state.domains.get(ROW_TRACKING_DOMAIN) if state else None)
    mark = max([mark, *(row_id_mark(each) for each in proposal.domains if each.domain == ROW_TRACKING_DOMAIN)])
    version = state.version + 1 if state else 0
    actions: list[Action] = []
    for action in proposal.actions:
        if type(action) is DomainMetadata and action.domain == ROW_TRACKING_DOMAIN:
            continue
        if type(action) is AddFile:
            if action.base_row_id is None:
                action, mark = _numbered(action, mark)
            if action.default_row_commit_version is None:
                action = replace(action, default_row_commit_version=version)
        actions.append(action)
    if mark > INT64_MAX:
        raise InvalidInputError(
            "too few row ids are left for the new rows: create a new table, and copy the rows into it"
        )
    if mark > before:
        actions.insert(0, row_id_domain(mark))
    return replace(proposal, actions=tuple(actions))


def _numbered(add: AddFile, mark: int) -> tuple[AddFile, int]:
    rows = num_records(add.stats)
    if rows is None:
        raise InvalidInputError(
            f"the table tracks rows, so each new file needs a row count: {add.path} has no numRecords"
        )
    return replace(add, base_row_id=mark + 1), mark + rows


def row_id_domain(mark: int) -> DomainMetadata:
    """The domain of a table that has given the row ids up to ``mark``."""
    return DomainMetadata(ROW_TRACKING_DOMAIN, orjson.dumps({_HIGH_WATER_MARK: mark}).decode(), removed=False)


def row_id_mark(domain: DomainMetadata | None) -> int:
    """The highest row id given so far, which the domain of a table says; -1 before the first.

    Raises ``CorruptLogError`` if it does not say.
    """
    if domain is None:
        return -1
    try:
        mark = orjson.loads(domain.configuration)[_HIGH_WATER_MARK]
    except (ValueError, KeyError, TypeError):
        mark = None
    if type(mark) is not int or mark < -1:
        raise CorruptLogError(
            f"metadata domain {ROW_TRACKING_DOMAIN} has {domain.configuration[:100]!r}, which has no high-water"
            " mark, so new rows cannot get row ids"
        )
    return mark
