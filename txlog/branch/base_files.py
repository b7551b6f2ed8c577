"""How the files of a branch become those of a version of its table: by the few that differ, however many there are.

In: files as columns. Out: actions. Work on what is the same is column by column. And whether a vacuum may have taken
files of a version of the table before the branch named them.
"""

from __future__ import annotations

import pyarrow as pa

from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import canonical_path
from txlog.extend import OpenTable, TableState

__all__ = ["differing", "removed_meanwhile"]


def differing(files: pa.Table, others: pa.Table) -> tuple[list[AddFile], list[AddFile]]:
    """Those of the ``files`` (``FILES_SCHEMA``) that the ``others`` lack, by path and deletion vector, and those of the
    others that the files lack."""
    if not files.num_rows:
        return [], add_files_of(others)
    only = _without(files, others), _without(others, files)
    keys = [{(canonical_path(add.path), add.key[1]) for add in each} for each in only]
    respelled = keys[0] & keys[1]  # another engine may have spelled a path in its own way
    here, there = ([add for add in each if (canonical_path(add.path), add.key[1]) not in respelled] for each in only)
    return here, there


def removed_meanwhile(table: OpenTable, base: TableState, known: TableState) -> list[AddFile]:
    """The files and vectors of ``base``, which a branch has just named, that a vacuum may have deleted before, since it
    began after the version ``known``. One that begins later sees the branch, and one that began earlier keeps what was
    removed since. Raises what loading a version raises."""
    newest = table.log.newest_state()
    if newest.vacuum is None or newest.vacuum.version <= known.version:
        return []
    return differing(table.log.files(base), table.log.files(newest))[0]


def _without(files: pa.Table, others: pa.Table) -> list[AddFile]:
    from txlog.core.format.arrow.compute import pc

    return add_files_of(files.filter(pc.invert(pc.is_in(_keys(files), value_set=_keys(others)))))


def _keys(files: pa.Table) -> pa.ChunkedArray:
    from txlog.core.format.arrow.compute import pc

    vectors = files["deletionVector"]
    if vectors.null_count == len(vectors):
        return files["path"]
    kind, name, offset = (
        pc.struct_field(vectors, member).cast(pa.string()) for member in ("storageType", "pathOrInlineDv", "offset")
    )
    key = pc.binary_join_element_wise(files["path"], kind, name, offset, "\n", null_handling="replace")
    return pc.if_else(vectors.is_valid(), key, files["path"])
