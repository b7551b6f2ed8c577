"""The ``add`` actions of tombstone files, whose rows are all dead from the start.

In: files that a task wrote. Out: the same with a durable deletion vector that marks every row, and with the tag.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from txlog.core.format.actions import AddFile
from txlog.core.format.bitmaps import bitmap_of
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.tombstones import TOMBSTONES_TAG
from txlog.core.format.wide_statistics import wide_statistics
from txlog.core.store import FileStore
from txlog.core.writing import UnsentFiles, write_vectors
from txlog.core.writing.committable import PendingFile


def tombstone_adds(
    files: FileStore, written: Iterable[PendingFile], unsent: UnsentFiles, *, modified_ms: int | None = None
) -> list[AddFile]:
    """The ``add`` actions of tombstone files, whose rows a durable vector marks.

    ``modified_ms`` is when the youngest of them was made, if not now.
    """
    pending = list(written)
    vectors, _ = write_vectors(files, [bitmap_of(np.arange(file.num_rows)) for file in pending])
    unsent.own(path.path for path in map(vector_path, vectors) if path is not None)
    found = []
    for file, vector in zip(pending, vectors, strict=True):
        add = file.to_add()
        found.append(
            replace(
                add,
                deletion_vector=vector,
                stats=wide_statistics(add.stats, num_records=file.num_rows),
                tags={**(add.tags or {}), TOMBSTONES_TAG: "true"},
                modification_time=add.modification_time if modified_ms is None else modified_ms,
            )
        )
    return found
