"""The definition of a restored table: the older version's, except for what must never move back.

In: the newest state and the older one. Out: metadata, protocol and domains. Pure. High-water marks stay where they are:
no column id and no identity value is ever given twice. A protocol only grows, since files of both versions stay in the
log. PROTOCOL.md, "Column Mapping", "Identity Columns", "Row Tracking", "Domain Metadata".
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from txlog.log.definition_changes import with_latest_marks
from txlog.log.state import TableState
from txlog.protocol.actions import DomainMetadata, Metadata, Protocol
from txlog.protocol.clustering import CLUSTERING_DOMAIN
from txlog.protocol.column_mapping import MAX_COLUMN_ID_KEY
from txlog.protocol.features import merged
from txlog.protocol.identity import created_again_ms

__all__ = ["merged_definition", "restored_domains"]

_NEVER_BACK = (MAX_COLUMN_ID_KEY, "delta.requireCheckpointProtectionBeforeVersion")


def merged_definition(newest: TableState, older: TableState, now_ms: int) -> tuple[Metadata, Protocol]:
    """Metadata and protocol of the restored table."""
    configuration = dict(older.metadata.configuration)
    for key in _NEVER_BACK:
        marks = [found.metadata.configuration.get(key, "") for found in (older, newest)]
        numbers = [int(mark) for mark in marks if mark.strip().isdecimal()]
        if numbers and key in older.metadata.configuration:
            configuration[key] = str(max(numbers))
    created_ms = created_again_ms(newest.metadata, older.metadata, now_ms)
    changed = replace(older.metadata, configuration=configuration, created_time=created_ms)
    return with_latest_marks(changed, newest.metadata), merged(newest.protocol, older.protocol)


def restored_domains(newest: TableState, older: TableState) -> Iterator[DomainMetadata]:
    """Clustering as it was. Other domains stay with their owners; the row id domain never moves back."""
    before, now = older.domains.get(CLUSTERING_DOMAIN), newest.domains.get(CLUSTERING_DOMAIN)
    if before is not None:
        yield before
    elif now is not None:
        yield replace(now, removed=True)
