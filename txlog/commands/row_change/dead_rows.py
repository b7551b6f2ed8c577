"""The warning about files that are mostly dead rows: once for a file, and again when much more of it is dead.

In: a commit's files with deletion vectors, and the part of each file's rows that these mark. Out: a log record, where
there is something new to say. Vectors save the rewriting of a file, not the reading of its dead rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from txlog.commit.open_table import OpenTable
from txlog.result import counted
from txlog.util.logs import logger

__all__ = ["DEAD_FRACTION_MAX", "newly_dead", "warn_of_dead_rows"]

DEAD_FRACTION_MAX = 0.5
"""Above this part of a file's rows marked as deleted, a change warns."""

_REMEMBERED_MAX = 10_000


def warn_of_dead_rows(open_table: OpenTable, version: int | None, fractions: Mapping[str, float]) -> None:
    """``fractions`` are the parts of files' rows that are dead, by path."""
    told = open_table.dead_fractions_told
    new = newly_dead(fractions, told)
    if not new:
        return
    if len(told) + len(new) > _REMEMBERED_MAX:
        told.clear()
    told.update(new)
    files = f"{counted(len(new), 'file')} are" if len(new) > 1 else "a file is"
    logger.warning(
        "%s: as of v%s %s mostly dead rows (%.0f %% of one file's), which readers still read:"
        " table.optimize() rewrites such files without them",
        *(open_table.uri, version, files, 100 * max(new.values())),
    )


def newly_dead(fractions: Mapping[str, float], told: Mapping[str, float]) -> dict[str, float]:
    """Those to tell of: above the limit, and not told, or with less than half of the rows left that were left then."""
    return {
        path: fraction
        for path, fraction in fractions.items()
        if fraction > DEAD_FRACTION_MAX and (path not in told or 1 - fraction < (1 - told[path]) / 2)
    }
