"""Rows of one file that are changes of a version, and the rows that differ between two states of one file.

In: a ``remove`` and an ``add`` of one file. Out: a `ChangedRows` for each set of rows to read. PROTOCOL.md, "Change
Data Files".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, RemoveFile
from txlog.core.format.change_data import DELETE, INSERT


class ChangedRows(msgspec.Struct, frozen=True):
    """Rows of one file that are changes of a version.

    Attributes:
        path: The file, as the log names it.
        partition_values: Its partition values; None if the log does not have them (an old ``remove``).
        size_bytes: Its size in the log; 0 if the log does not have it.
        change_type: What happened to each of the rows; None in a change file, whose rows have a column for it.
        vector: Rows that it marks are not changes.
        dead_under: If set, only rows that it marks are changes.
    """

    path: str
    partition_values: Mapping[str, str | None] | None
    size_bytes: int
    change_type: str | None
    vector: DeletionVectorDescriptor | None = None
    dead_under: DeletionVectorDescriptor | None = None


def rows_between(remove: RemoveFile | None, add: AddFile | None) -> list[ChangedRows]:
    """The rows that are removed and added when ``remove`` (None: a new file) is followed by ``add`` (None: no file)."""
    gone = [] if remove is None else rows_removed(remove, add)
    come = [] if add is None else rows_added(add, remove)
    return [*gone, *come]


def rows_removed(remove: RemoveFile, add: AddFile | None) -> Iterator[ChangedRows]:
    """The rows that are removed when ``remove`` is followed by ``add`` (None: no file)."""
    values, size = remove.partition_values, remove.size or 0
    if add is None:
        yield ChangedRows(remove.path, values, size, DELETE, remove.deletion_vector)
    elif add.deletion_vector is not None and add.key[1] != remove.key[1]:
        yield ChangedRows(
            add.path, add.partition_values, add.size, DELETE, remove.deletion_vector, dead_under=add.deletion_vector
        )


def rows_added(add: AddFile, remove: RemoveFile | None) -> Iterator[ChangedRows]:
    """The rows that are added when ``remove`` (None: a new file) is followed by ``add``."""
    values, size = add.partition_values, add.size
    if remove is None:
        yield ChangedRows(add.path, values, size, INSERT, add.deletion_vector)
    elif remove.deletion_vector is not None and add.key[1] != remove.key[1]:
        yield ChangedRows(add.path, values, size, INSERT, add.deletion_vector, dead_under=remove.deletion_vector)
