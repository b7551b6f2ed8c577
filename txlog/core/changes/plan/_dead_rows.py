"""The warning about files that are mostly dead rows: once an hour for each handle, and not for small files.

In: a commit's files with deletion vectors, and the fraction of rows that these mark in each file. Out: a log record, if
it is due. Vectors save the rewriting of a file, not the reading of its dead rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from txlog.core import ambient
from txlog.core.format.actions import FileId
from txlog.core.util import logger
from txlog.core.versions import OpenTable
from txlog.result import counted

DEAD_FRACTION_MAX = 0.5
"""A change warns if more than this fraction of a file's rows is marked as deleted."""

_SIZE_BYTES_MIN = 1 << 20  # reading a smaller file costs less than reading the warning
_PAUSE_MS = 3_600_000


def warn_of_dead_rows(open_table: OpenTable, version: int | None, fractions: Mapping[FileId, float]) -> None:
    """``fractions`` are the fractions of dead rows in files."""
    large = [
        fraction
        for (_, size_bytes, _), fraction in fractions.items()
        if fraction > DEAD_FRACTION_MAX and size_bytes >= _SIZE_BYTES_MIN
    ]
    now_ms, last_ms = ambient.now_ms(), open_table.warned_of_dead_rows_ms
    if not large or (last_ms is not None and 0 <= now_ms - last_ms < _PAUSE_MS):
        return
    open_table.warned_of_dead_rows_ms = now_ms
    files = f"{counted(len(large), 'file')} are" if len(large) > 1 else "a file is"
    logger.warning(
        "%s: as of v%s %s mostly dead rows (%.0f %% in one file), which readers still read:"
        " table.optimize() rewrites such files without them",
        *(open_table.uri, version, files, 100 * max(large)),
    )
