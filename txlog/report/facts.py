"""What a report says of a table, as plain values: one struct for each section of the page. Times are ms since the
epoch, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from txlog.core.format.upgrade_note import Verdict
from txlog.core.sink import Application
from txlog.iceberg.exporter import IcebergLag
from txlog.report.clustering import ClusterColumn
from txlog.report.commits import Timeline
from txlog.report.files import Files


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A column, with its type as in DDL."""

    name: str
    type: str
    nullable: bool


class Identity(msgspec.Struct, frozen=True):
    """The table and the version that the report is about."""

    uri: str
    description: str
    version: int
    committed_ms: int | None
    created_ms: int | None
    columns: tuple[DeclaredColumn, ...]
    partition_columns: tuple[str, ...]
    clustering_columns: tuple[str, ...]
    properties: Mapping[str, str]
    reader_version: int
    writer_version: int
    reader_features: tuple[str, ...]
    writer_features: tuple[str, ...]


class FeatureVerdicts(msgspec.Struct, frozen=True):
    """A feature that readers need, and what each of `READERS` does with it."""

    feature: str
    verdicts: tuple[Verdict, ...]
    note: str


class LogFacts(msgspec.Struct, frozen=True):
    """The length of the log. ``commits`` and ``size_bytes`` are of the commit files that are still there."""

    first_version: int
    commits: int
    size_bytes: int
    checkpoints: int
    checkpoint_version: int | None
    checkpoint_ms: int | None
    commits_since: int
    is_due: bool
    is_overdue: bool
    retention_ms: int
    expired_files: int
    expired_bytes: int


class StagedWork(msgspec.Struct, frozen=True):
    """A checkpoint of a sink that is sealed and not committed."""

    app_id: str
    checkpoint_id: int
    rows: int | None
    modified_ms: int


class Tag(msgspec.Struct, frozen=True):
    """A named version."""

    name: str
    version: int
    created_ms: int


class Upkeep(msgspec.Struct, frozen=True):
    """What keeps the table fast, and who writes and follows it. ``vacuum_ms`` is the time of the last vacuum."""

    log: LogFacts
    vacuum_ms: int | None
    sinks: tuple[Application, ...]
    staged: tuple[StagedWork, ...]
    tags: tuple[Tag, ...]
    iceberg: IcebergLag | None


class Remains(msgspec.Struct, frozen=True):
    """Files in the table's folder that may hold deleted data, by what keeps them. ``until_ms`` is None if no time limit
    does."""

    kept_by: str
    files: int
    size_bytes: int
    until_ms: int | None


class Deletion(msgspec.Struct, frozen=True):
    """What the folder's listing shows: what may still hold deleted data, and what a vacuum would delete now."""

    files: int
    remains: tuple[Remains, ...]
    unneeded: int
    unneeded_bytes: int


class Advice(msgspec.Struct, frozen=True):
    """One thing to do. ``command`` can be copied into a terminal. ``is_urgent`` if waiting costs or risks something;
    ``is_optional`` if only the reader can know whether it is wanted."""

    title: str
    why: str
    command: str
    cost: str
    is_urgent: bool = False
    is_optional: bool = False


class Facts(msgspec.Struct, frozen=True):
    """Everything that the page shows. ``is_partial`` if the log has older commits than the ``timeline``. ``deletion``
    is None unless the folder was listed."""

    made_ms: int
    made_by: str
    table: Identity
    timeline: Timeline | None
    is_partial: bool
    files: Files
    keys: tuple[ClusterColumn, ...]
    upkeep: Upkeep
    readers: tuple[FeatureVerdicts, ...]
    deletion: Deletion | None
    advice: tuple[Advice, ...]
