"""What the live and the removed files of a version show: sizes, dead rows, and what a vacuum may delete when.

In: the live files and the tombstones as Arrow tables. Out: `Files`, counted column by column. Pure.
PROTOCOL.md, "Add File and Remove File", "Deletion Vectors".
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.audit.files_summary import summary_of
from txlog.core.format.arrow.arrays import flags_of, numbers_of
from txlog.core.format.properties import DAY_MS
from txlog.core.format.stats_struct import recorded_rows
from txlog.core.maintenance import DEAD_FRACTION_MAX
from txlog.core.versions.decisions.state import TableState
from txlog.result.audits import FilesSummary

_DAYS_SHOWN = 10


class DeadRows(msgspec.Struct, frozen=True):
    """``rows`` are live, None if a file does not count its rows; ``share`` of all rows in files are dead. Of the
    ``files`` with dead rows, ``many`` have more than `DEAD_FRACTION_MAX` of theirs."""

    rows: int | None
    dead: int
    share: float | None
    files: int
    size_bytes: int
    many: int


class WaitingFiles(msgspec.Struct, frozen=True):
    """Removed files that a vacuum may delete from ``from_ms`` on, until a day later; days without any are left out."""

    from_ms: int
    files: int
    size_bytes: int


class RemovedFiles(msgspec.Struct, frozen=True):
    """``expired`` files may be deleted now, since their retention ended after the last vacuum; ``waiting`` are those
    whose retention has not ended, by day. All times are ms since the epoch."""

    files: int
    size_bytes: int
    expired: int
    expired_bytes: int
    retention_ms: int
    last_ms: int | None
    waiting: tuple[WaitingFiles, ...]


class Files(msgspec.Struct, frozen=True):
    """The files of one version."""

    summary: FilesSummary
    dead: DeadRows
    removed: RemovedFiles


def files_of(state: TableState, files: pa.Table, removed: pa.Table, *, now_ms: int) -> Files:
    """The facts of the live ``files`` of a version and of the removed files that wait for a vacuum."""
    summary = summary_of(state, files, removed, now_ms=now_ms)
    retention_ms = state.properties.deleted_file_retention_ms
    return Files(summary, _dead_rows(files, summary), _removed(removed, retention_ms, now_ms))


def _dead_rows(files: pa.Table, summary: FilesSummary) -> DeadRows:
    counted = [recorded_rows(chunk) for chunk in files.column("stats").chunks]
    rows = np.concatenate([np.zeros(0, np.int64), *counted])
    cardinality = pc.struct_field(files.column("deletionVector"), "cardinality")
    dead = numbers_of(pc.fill_null(cardinality, 0).combine_chunks().cast(pa.int64()))
    marked = flags_of(pc.is_valid(cardinality).combine_chunks())
    sizes = numbers_of(files.column("size").combine_chunks().cast(pa.int64()))
    is_known = bool((rows >= 0).all())
    total, gone = int(rows[rows >= 0].sum()), int(dead.sum())
    many = marked & ((rows <= 0) | (dead > DEAD_FRACTION_MAX * rows))
    return DeadRows(
        rows=max(0, total - gone) if is_known else None,
        dead=gone,
        share=min(1.0, gone / total) if is_known and total else (0.0 if is_known else None),
        files=summary.files_with_deleted_rows,
        size_bytes=int(sizes[marked].sum()),
        many=int(many.sum()),
    )


def _removed(tombstones: pa.Table, retention_ms: int, now_ms: int) -> RemovedFiles:
    times = numbers_of(pc.fill_null(tombstones.column("deletionTimestamp"), 0).combine_chunks().cast(pa.int64()))
    sizes = numbers_of(pc.fill_null(tombstones.column("size"), 0).combine_chunks().cast(pa.int64()))
    until = times.astype(np.float64) + retention_ms  # a hostile time must not overflow
    is_expired, is_waiting = until <= now_ms, until > now_ms
    later, later_sizes = until[is_waiting], sizes[is_waiting]
    days = np.minimum((later - now_ms) // DAY_MS, _DAYS_SHOWN - 1).astype(np.int64)
    return RemovedFiles(
        files=len(times),
        size_bytes=int(sizes.sum()),
        expired=int(is_expired.sum()),
        expired_bytes=int(sizes[is_expired].sum()),
        retention_ms=retention_ms,
        last_ms=int(later.max()) if len(later) else None,
        waiting=tuple(
            WaitingFiles(now_ms + day * DAY_MS, int((days == day).sum()), _sum(later_sizes[days == day]))
            for day in np.unique(days).tolist()
        ),
    )


def _sum(sizes: Any) -> int:
    return int(sizes.sum())
