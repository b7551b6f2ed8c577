"""Reads what a report needs: a table's log, the small files that txlog keeps next to it, and its folder if asked.

In: an open table. Out: `Facts`. No data file is read. Every step that another command has is that command's own dry
run. Where a fact cannot be had, such as the plan of a compaction that this release may not run, the page leaves it out.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

import txlog
from txlog.audit.deletion_check import check_deleted
from txlog.audit.files_summary import files_and_removed
from txlog.core import ambient
from txlog.core.format.clustering import CLUSTERED_BY, clustering_columns
from txlog.core.format.column_mapping import physical_path, physical_schema
from txlog.core.format.features import features_of
from txlog.core.format.properties import path_text
from txlog.core.format.schema import type_name
from txlog.core.format.upgrade_note import reader_verdicts, readers_note
from txlog.core.maintenance import LAST_VACUUM, VacuumOptions, named_versions, optimize, vacuum
from txlog.core.operations import OPERATIONS
from txlog.core.progress import OnProgress
from txlog.core.sink import applications, staged_states
from txlog.core.versions import OpenTable, clean_up_log
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import list_log
from txlog.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.report.advice import advice_for
from txlog.report.clustering import ClusterColumn, key_columns, ordered_paths
from txlog.report.commits import CommitFacts, CommitLine, Timeline, commit_facts, commit_line, timeline_of
from txlog.report.facts import (
    DeclaredColumn,
    Deletion,
    Facts,
    FeatureVerdicts,
    Identity,
    LogFacts,
    Remains,
    StagedWork,
    Tag,
    Upkeep,
)
from txlog.report.files import files_of
from txlog.result import in_milliseconds
from txlog.result.maintenance import LogCleanUp

_LINES_KEPT = 15
_PROGRESS_EVERY = 256
_KEYS_MAX = 4
_OTHER_KEYS_MAX = 3
_TRIED = 6
_FILES_TRIED = 1_000

Path = tuple[str, ...]


def gather(open_table: OpenTable, *, commits: int | None, lists_folder: bool, on_step: OnProgress) -> Facts:
    """The facts of the newest version. ``commits`` limits how many of the newest commits are read; None reads all.

    Raises ``CorruptLogError``, ``NotFoundError``, ``StorageError``, and ``InvalidInputError`` for a wrong limit.
    """
    log, now_ms = open_table.log, ambient.now_ms()
    state = log.on_newest_checkpoint(log.newest_state())
    timeline = _timeline(open_table, state, commits, on_step)
    on_step("reading the list of files", 0, 1)
    live, removed = files_and_removed(log, state)
    vacuum_ms = _last_vacuum_ms(open_table)
    files = files_of(state, live, removed, now_ms=now_ms)
    keys = _keys(state, live)
    on_step("reading the list of files", 1, 1)
    on_step("planning what to do", 0, 1)
    table = _identity(open_table, state)
    upkeep = _upkeep(open_table, state, vacuum_ms)
    planned = _if_possible(lambda: optimize(open_table, dry_run=True))
    on_step("planning what to do", 1, 1)
    return Facts(
        made_ms=now_ms,
        made_by=f"txlog {txlog.__version__}",
        table=table,
        timeline=timeline,
        is_partial=timeline is not None and timeline.first_version > upkeep.log.first_version,
        files=files,
        keys=tuple(keys),
        upkeep=upkeep,
        readers=tuple(
            FeatureVerdicts(name, reader_verdicts(name), readers_note(name)) for name in table.reader_features
        ),
        deletion=_deletion(open_table, on_step) if lists_folder else None,
        advice=advice_for(table, files, upkeep, planned, now_ms=now_ms),
    )


# --- commits ------------------------------------------------------------------------------------------------------


def _timeline(open_table: OpenTable, state: TableState, limit: int | None, on_step: OnProgress) -> Timeline | None:
    count, summaries = open_table.log.commits_oldest_first(state, limit)
    found: list[CommitFacts] = []
    newest: deque[CommitLine] = deque(maxlen=_LINES_KEPT)
    for number, each in enumerate(summaries, 1):
        info = each.commit_info.fields if each.commit_info else {}
        found.append(commit_facts(each.version, each.timestamp_ms, info))
        if number > count - _LINES_KEPT:
            newest.append(commit_line(each.version, each.timestamp_ms, info))
        if number % _PROGRESS_EVERY == 0 or number == count:
            on_step("reading commits", number, count)
    return timeline_of(found, newest)


# --- the table ----------------------------------------------------------------------------------------------------


def _identity(open_table: OpenTable, state: TableState) -> Identity:
    reads, writes = features_of(state.protocol)
    metadata = state.metadata
    return Identity(
        uri=open_table.uri,
        description=metadata.description or metadata.name or "",
        version=state.version,
        committed_ms=_time_of(open_table, state.version),
        created_ms=metadata.created_time,
        columns=tuple(DeclaredColumn(each.name, type_name(each.type), each.nullable) for each in state.schema.fields),
        partition_columns=state.partition_columns,
        clustering_columns=tuple(map(path_text, clustering_columns(state.domains, state.schema))),
        properties=dict(sorted(metadata.configuration.items())),
        reader_version=state.protocol.min_reader_version,
        writer_version=state.protocol.min_writer_version,
        reader_features=reads,
        writer_features=writes,
    )


def _time_of(open_table: OpenTable, version: int) -> int | None:
    """When a version was committed; None if its commit was cleaned up."""
    with contextlib.suppress(NotFoundError):
        return open_table.log.timestamp_ms(version)
    return None


def _keys(state: TableState, live: pa.Table) -> list[ClusterColumn]:
    """The clustering columns; else those that files were clustered by; else the first that have different values. A
    single file has no order."""
    if live.num_rows < 2:
        return []
    paths = [*clustering_columns(state.domains, state.schema)] or _tagged(state, live)
    if paths:
        return _key_columns(state, live, paths)[:_KEYS_MAX]
    paths = ordered_paths(state.schema, state.partition_columns)[:_TRIED]
    by_name = {path_text(path): path for path in paths}
    varied = [each.name for each in _key_columns(state, live.slice(0, _FILES_TRIED), paths) if len(each.ticks) > 1]
    return _key_columns(state, live, [by_name[name] for name in varied[:_OTHER_KEYS_MAX]])


def _key_columns(state: TableState, live: pa.Table, paths: Sequence[Path]) -> list[ClusterColumn]:
    with contextlib.suppress(KeyError):  # a column that the schema lacks
        named = [(path_text(path), physical_path(state.schema, path)) for path in paths]
        return key_columns(live, physical_schema(state.schema), named)
    return []


def _tagged(state: TableState, live: pa.Table) -> list[Path]:
    for tags in live.column("tags").combine_chunks().drop_null().slice(0, 1000).to_pylist():
        text = dict(tags).get(CLUSTERED_BY)
        with contextlib.suppress(ValueError, TypeError):
            names = [tuple(name.split(".")) for name in orjson.loads(text)] if text else []
            if names and all(state.schema.find(name[0]) is not None for name in names):
                return names
    return []


# --- upkeep -------------------------------------------------------------------------------------------------------


def _upkeep(open_table: OpenTable, state: TableState, vacuum_ms: int | None) -> Upkeep:
    store = open_table.store
    staged = [each for each in staged_states(open_table) if each.state == "sealed"]
    ask = None if store.iceberg is None else OPERATIONS.get("iceberg_lag")
    lag = None if ask is None else ask(open_table, newest=state.version)
    return Upkeep(
        log=_log(open_table, state),
        vacuum_ms=vacuum_ms,
        sinks=tuple(applications(open_table)),
        staged=tuple(
            StagedWork(each.app_id or each.staged.key, each.checkpoint_id, each.rows, each.modified_ms)
            for each in staged
        ),
        tags=tuple(Tag(each.name, each.version, in_milliseconds(each.created)) for each in named_versions(store)),
        iceberg=lag,
    )


def _log(open_table: OpenTable, state: TableState) -> LogFacts:
    log = open_table.log
    listing = list_log(log.store)
    checkpoint = state.segment.checkpoint
    expired = _if_possible(lambda: clean_up_log(log, state, dry_run=True)) or LogCleanUp((), 0, None, True)
    return LogFacts(
        first_version=min(listing.commits, default=state.version),
        commits=len(listing.commits),
        size_bytes=sum(each.size for each in listing.commits.values()),
        checkpoints=len(listing.checkpoints),
        checkpoint_version=None if checkpoint is None else checkpoint.version,
        checkpoint_ms=None if checkpoint is None else _time_of(open_table, checkpoint.version),
        commits_since=state.segment.tail_commits,
        is_due=log.checkpoint_is_due(state),
        is_overdue=log.checkpoint_is_overdue(state),
        retention_ms=state.properties.log_retention_ms,
        expired_files=len(expired.names),
        expired_bytes=expired.size_bytes,
    )


def _last_vacuum_ms(open_table: OpenTable) -> int | None:
    with contextlib.suppress(NotFoundError):
        return open_table.store.log.stat(LAST_VACUUM).modified_ms
    return None


def _if_possible(plan: Callable[[], Any]) -> Any:
    """What ``plan`` returns; None if the table needs a feature of writers that this release lacks."""
    try:
        return plan()
    except (UnsupportedFeatureError, InvalidInputError):
        return None


# --- the folder ---------------------------------------------------------------------------------------------------


def _deletion(open_table: OpenTable, on_step: OnProgress) -> Deletion:
    on_step("looking at the table's folder", 0, 2)
    found = check_deleted(open_table, version=None)
    on_step("looking at the table's folder", 1, 2)
    doomed = _if_possible(lambda: vacuum(open_table, VacuumOptions(dry_run=True)))
    on_step("looking at the table's folder", 2, 2)
    groups: dict[str, list[Any]] = {}
    for each in found.remains:
        groups.setdefault(each.kept_by if each.name is None else f"{each.kept_by}: {each.name}", []).append(each)
    return Deletion(
        files=found.files,
        remains=tuple(
            Remains(kept_by, len(of), sum(each.size_bytes for each in of), _latest(each.until for each in of))
            for kept_by, of in groups.items()
        ),
        unneeded=len(doomed.paths) if doomed else 0,
        unneeded_bytes=doomed.size_bytes if doomed else 0,
    )


def _latest(times: Iterator[datetime | None]) -> int | None:
    found = [*times]
    return None if None in found else max(in_milliseconds(each) for each in found if each is not None)
