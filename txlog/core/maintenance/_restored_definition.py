"""The definition of a restored table: the older version's, except for what must never move back.

In: the newest state, the older one, and what was given out since. Out: metadata, protocol and domains. Pure. High-water
marks stay where they are, or where they were when their feature was dropped: no column id, row id or identity value is
given twice. If row tracking was dropped in between, the old row ids are gone with it: what the table promises of row
ids stays as it is now, and no row gets its old id back. A protocol only grows, since files of both versions stay in the
log. PROTOCOL.md, "Column Mapping", "Identity Columns", "Row Tracking", "Domain Metadata".
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from txlog.core.format.actions import DomainMetadata, Metadata, Protocol
from txlog.core.format.clustering import CLUSTERING_DOMAIN
from txlog.core.format.column_mapping import MAX_COLUMN_ID_KEY
from txlog.core.format.features import merged
from txlog.core.format.identity import created_again_ms
from txlog.core.maintenance._assigned_numbers import GivenNumbers
from txlog.core.versions.decisions.definition_changes import with_latest_marks
from txlog.core.versions.decisions.proposal import ROW_TRACKING_DOMAIN
from txlog.core.versions.decisions.row_tracking import ROW_TRACKING_PROPERTIES, row_id_domain, row_id_mark
from txlog.core.versions.decisions.state import TableState

_PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


def merged_definition(
    newest: TableState, older: TableState, given: GivenNumbers, now_ms: int
) -> tuple[Metadata, Protocol]:
    """Metadata and protocol of the restored table."""
    configuration = dict(older.metadata.configuration)
    if given.begins_anew:
        now = newest.metadata.configuration
        configuration = {key: text for key, text in configuration.items() if key not in ROW_TRACKING_PROPERTIES}
        configuration |= {key: now[key] for key in ROW_TRACKING_PROPERTIES if key in now}
    if MAX_COLUMN_ID_KEY in configuration:
        configuration[MAX_COLUMN_ID_KEY] = str(given.column_id)
    marks = [found.metadata.configuration.get(_PROTECTED, "") for found in (older, newest)]
    numbers = [int(mark) for mark in marks if mark.strip().isdecimal()]
    if numbers and _PROTECTED in configuration:
        configuration[_PROTECTED] = str(max(numbers))
    created_ms = created_again_ms(newest.metadata, older.metadata, now_ms, was_lost=given.has_lost_marks)
    changed = given.marked(replace(older.metadata, configuration=configuration, created_time=created_ms))
    return with_latest_marks(changed, newest.metadata), merged(newest.protocol, older.protocol)


def restored_domains(newest: TableState, older: TableState, given: GivenNumbers) -> Iterator[DomainMetadata]:
    """Clustering as it was. Other domains stay with their owners; the row id domain never moves back, and it comes back
    with its feature."""
    if given.row_id > row_id_mark(newest.domains.get(ROW_TRACKING_DOMAIN)):
        yield row_id_domain(given.row_id)
    before, now = older.domains.get(CLUSTERING_DOMAIN), newest.domains.get(CLUSTERING_DOMAIN)
    if before is not None:
        yield before
    elif now is not None:
        yield replace(now, removed=True)
