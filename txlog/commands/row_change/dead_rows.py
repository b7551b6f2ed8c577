"""The warning about files that are mostly dead rows: once for a file, and again when many more of its rows are dead.

In: a commit's files with deletion vectors, and the fraction of rows that these mark in each file. Out: a log record, if
there is something new to report. Vectors save the rewriting of a file, not the reading of its dead rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from txlog.commit.open_table import OpenTable
from txlog.result import counted
from txlog.util.logs import logger

__all__ = ["DEAD_FRACTION_MAX", "newly_dead", "warn_of_dead_rows"]

DEAD_FRACTION_MAX = 0.5
"""A change warns when more than this fraction of a file's rows is marked as deleted."""

_REMEMBERED_MAX = 10_000


def warn_of_dead_rows(open_table: OpenTable, version: int | None, fractions: Mapping[str, float]) -> None:
    """``fractions`` are the fractions of dead rows in files, by path."""
    warned = open_table.warned_dead_fractions
    new = newly_dead(fractions, warned)
    if not new:
        return
    if len(warned) + len(new) > _REMEMBERED_MAX:
        warned.clear()
    warned.update(new)
    files = f"{counted(len(new), 'file')} are" if len(new) > 1 else "a file is"
    logger.warning(
        "%s: as of v%s %s mostly dead rows (%.0f %% in one file), which readers still read:"
        " table.optimize() rewrites such files without them",
        *(open_table.uri, version, files, 100 * max(new.values())),
    )


def newly_dead(fractions: Mapping[str, float], warned: Mapping[str, float]) -> dict[str, float]:
    """The files to warn of: above the limit, and not warned of yet or with half of their rows lost since then."""
    return {
        path: fraction
        for path, fraction in fractions.items()
        if fraction > DEAD_FRACTION_MAX and (path not in warned or 1 - fraction < (1 - warned[path]) / 2)
    }
