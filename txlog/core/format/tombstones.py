"""Tombstone files: data files that are no rows. All their rows are dead from the start, and tell of deleted keys.

In: an ``add`` action, or a table's properties. Out: whether the file is one, and whether the table keeps such files.
Every writer must know them, since a rewrite of live rows would lose theirs; what makes and joins them is an extension.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from txlog.core.format.actions import AddFile
from txlog.core.format.properties import TOMBSTONE_RETENTION, interval_ms

TOMBSTONES_TAG: Final = "txlog.tombstones"
"""The tag of a tombstone file."""


def is_tombstones(add: AddFile) -> bool:
    """Whether a live file holds only tombstones."""
    return TOMBSTONES_TAG in (add.tags or {}) and add.deletion_vector is not None


def retention_ms(configuration: Mapping[str, str]) -> int | None:
    """How long tombstones are kept; None if the table keeps none. Raises ``InvalidInputError`` if it does not say."""
    return interval_ms(configuration, TOMBSTONE_RETENTION)
