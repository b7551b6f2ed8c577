"""Protects selective overwrites from lost updates: what other writers changed since the caller last read the table.

In: a planned overwrite and the files it would replace. Out: these files without the ones that others appended
meanwhile, whose rows count as later; or a ``ConflictError`` for any other change.
``core/versions/decisions/lost_updates`` has the rules.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

import pyarrow as pa

from txlog.core.format.paths import canonical_path
from txlog.core.predicates.terms.predicate import Constant, Predicate
from txlog.core.versions import READ_AGAIN, OpenTable, raise_conflict
from txlog.core.versions.decisions.partitions import files_in_partitions
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import WriteJob
from txlog.errors import ConflictError, ConflictReason, NotFoundError


def without_unseen(
    open_table: OpenTable,
    state: TableState,
    job: WriteJob,
    files: pa.Table,
    partitions: Collection[tuple[str | None, ...]] | None = None,
) -> pa.Table:
    """The live ``files`` that the caller of ``job`` had read.

    ``partitions`` None: the predicate's rows, or all rows if there is no predicate.

    Raises ``ConflictError`` if one of ``job.unseen_versions`` changed what is replaced, or was cleaned up.
    """
    unseen = [version for version in job.unseen_versions if version <= state.version]
    if job.rows_of_version is None or not unseen:
        return files
    versions = range(job.rows_of_version + 1, unseen[-1] + 1)
    from txlog.core.predicates.skipping import without_nan_doubts
    from txlog.core.versions.decisions.lost_updates import Region, unseen_changes

    predicate = None
    if partitions is None:
        replaced = Constant(True) if job.plan.rows_where is None else job.plan.rows_where
        predicate = without_nan_doubts(replaced, state.schema)
    try:
        commits = [open_table.log.read_commit(version) for version in versions]
        then = open_table.log.state_at(job.rows_of_version)
        paths = _paths_in_region(open_table, then, state, predicate, partitions)
    except NotFoundError:
        detail = f"and v{job.rows_of_version}, which the rows were made from, can no longer be read"
        _conflict(open_table, (ConflictReason("ConcurrentDeleteReadError", unseen[0], "or a later one", detail),))
    region = Region(
        state.schema,
        state.partition_columns,
        predicate,
        None if partitions is None else frozenset(partitions),
        frozenset(map(canonical_path, paths)),
    )
    own, own_appends = {*versions} - {*unseen}, open_table.last_read.own_appends
    found = unseen_changes(region, commits, own, open_table.isolation(state, job.commit.isolation), own_appends)
    if found.reasons:
        _conflict(open_table, found.reasons)
    if not found.later:
        return files
    return files.filter(
        pa.array([canonical_path(path) not in found.later for path in files.column("path").to_pylist()])
    )


def _paths_in_region(
    open_table: OpenTable,
    then: TableState,
    state: TableState,
    predicate: Predicate | None,
    partitions: Collection[tuple[str | None, ...]] | None,
) -> list[str]:
    """The files of the version ``then`` that may hold rows of what is replaced. ``state`` has the predicate's names."""
    log = open_table.log
    before = log.files(then) if predicate is None else log.matching_files(then, predicate, named=state)
    if partitions is not None:
        return [add.path for add in files_in_partitions(before, then, partitions)]
    paths: list[str] = before.column("path").to_pylist()
    return paths


def _conflict(open_table: OpenTable, reasons: tuple[ConflictReason, ...]) -> NoReturn:
    try:
        raise_conflict(reasons, open_table.uri, READ_AGAIN)
    except ConflictError as error:
        open_table.report_conflict(error)
        raise
