"""Checks the row ids of a table that tracks rows: whoever follows a row by its id must find this one row.

In: the definition and the live files of one version. Out: what is wrong, once for each rule, with a file as the
example. It reads the log alone. PROTOCOL.md, "Row Tracking", "Row IDs".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from txlog.audit.file_contents import files_of
from txlog.audit.log_rules import LogState
from txlog.core.changes.tasks import FileProblem
from txlog.core.format.actions import DomainMetadata
from txlog.core.format.properties import TableProperties
from txlog.core.store import TableStore
from txlog.core.versions.decisions.proposal import ROW_TRACKING_DOMAIN
from txlog.core.versions.decisions.row_tracking import row_id_mark, tracks_rows
from txlog.errors import CorruptLogError

_AGAIN = "drop the feature rowTracking and set delta.enableRowTracking again: every row then gets a new id"


def check_row_ids(store: TableStore, version: int, state: LogState) -> Iterator[FileProblem]:
    """Check ``version``, of which ``state`` is the definition: a later one has files above that one's high-water mark.

    Yields nothing if it does not track rows, or if the log cannot be read, which is reported elsewhere."""
    metadata, protocol = state.metadata, state.protocol
    if metadata is None or protocol is None or not tracks_rows(protocol, metadata.configuration):
        return
    files = files_of(store, version, "path", "stats", "baseRowId", "defaultRowCommitVersion")
    if files is None:
        return
    if TableProperties.of(metadata.configuration).enable_row_tracking:
        yield from _missing(files)
    yield from _wrong(files.filter(files["baseRowId"].is_valid()), state.domains.get(ROW_TRACKING_DOMAIN))


def _missing(files: pa.Table) -> Iterator[FileProblem]:
    is_bare = np.zeros(files.num_rows, dtype=bool)
    for name in ("baseRowId", "defaultRowCommitVersion"):
        is_bare |= files[name].is_null().to_numpy()
    if is_bare.any():
        message = (
            f"{is_bare.sum():,} live files have no baseRowId or no defaultRowCommitVersion, though"
            f" delta.enableRowTracking promises ids of their rows: {_AGAIN}"
        )
        yield FileProblem("row-ids-missing", message, _path(files, int(is_bare.argmax())))


def _wrong(files: pa.Table, domain: str | None) -> Iterator[FileProblem]:
    """``files`` have ids. A file without rows, or whose rows the log does not count, has none that could be wrong."""
    from txlog.core.format.stats_struct import recorded_rows

    rows = np.concatenate([np.empty(0, np.int64), *(recorded_rows(chunk) for chunk in files["stats"].chunks)])
    first = files["baseRowId"].to_numpy()
    order = np.argsort(first, kind="stable")
    order = order[rows[order] > 0]
    starts, ends = first[order], (first + rows)[order]
    is_shared = np.maximum.accumulate(ends)[:-1] > starts[1:]
    if is_shared.any():
        one, other = (_path(files, int(order[int(is_shared.argmax()) + step])) for step in (0, 1))
        message = f"{is_shared.sum():,} live files have row ids that others have too, as does {one}: {_AGAIN}"
        yield FileProblem("row-ids-shared", message, other)
    try:
        action = None if domain is None else DomainMetadata(ROW_TRACKING_DOMAIN, domain, removed=False)
        is_above = ends > row_id_mark(action) + 1
    except CorruptLogError as error:
        yield FileProblem("row-ids-above-mark", error.message, ROW_TRACKING_DOMAIN)
        return
    if is_above.any():
        message = (
            f"{is_above.sum():,} live files have row ids above the table's high-water mark, which new rows would get"
            f" again: {_AGAIN}"
        )
        yield FileProblem("row-ids-above-mark", message, _path(files, int(order[int(is_above.argmax())])))


def _path(files: pa.Table, row: int) -> str:
    path: str = files["path"][row].as_py()
    return path
