"""Deletion vector files, written next to the data files: durable before a commit may name them.

In: a table's files and, for each data file, the positions of its deleted rows. Out: the descriptors for their ``add``
actions. An attempt has one file for all vectors, or more if it gets large. Names are new each time, so a lost attempt's
files are never read or overwritten; a vacuum removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from txlog.core import ambient
from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.deletion_vector_bytes import pack_vectors, vector_file_name
from txlog.core.store import FileStore

if TYPE_CHECKING:
    from pyroaring import BitMap64


def write_vectors(
    files: FileStore, dead: Sequence[BitMap64], *, random_prefix_length: int = 0
) -> tuple[list[DeletionVectorDescriptor], int]:
    """Write one vector for each element of ``dead``; returns their descriptors in the same order, and the bytes
    written.

    ``random_prefix_length`` > 0 puts the files below random directories (``delta.randomizeFilePrefixes``).
    Raises ``StorageError``; nothing names the files by then.
    """
    descriptors: list[DeletionVectorDescriptor] = []
    paths: list[str] = []
    size_bytes = 0
    for packed in pack_vectors(dead):
        uuid = ambient.uuid4()
        prefix = ambient.uuid4().replace("-", "")[:random_prefix_length]
        path = vector_file_name(uuid, prefix)
        size_bytes += files.write(path, packed.body).size
        paths.append(path)
        descriptors += packed.descriptors(uuid, prefix)
    if paths:
        files.make_durable(paths)
    return descriptors, size_bytes
