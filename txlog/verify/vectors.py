"""Reads and checks the deletion vectors of a table's live files: a damaged vector stops every reader.

In: a table's stores. Out: what is wrong, by data file: a vector's file that is gone, a size, checksum or count that
does not agree, a position that the data file lacks, or a vector whose data file does not count its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pyarrow.compute as pc

from txlog.errors import CorruptLogError, TxlogError, UnsupportedFeatureError
from txlog.log_files.delta_log import DeltaLog
from txlog.protocol.actions import DeletionVectorDescriptor
from txlog.protocol.statistics_read import num_records
from txlog.read.deletion_vectors import DeletionVectorReader
from txlog.store.table_store import TableStore
from txlog.util.parallel import parallel_map

__all__ = ["VectorProblem", "check_vectors"]

_PARALLEL = 16


class VectorProblem(msgspec.Struct, frozen=True):
    """What is wrong with the vector of one data file; ``path`` is the vector's own file where it has one."""

    rule: str
    message: str
    path: str
    is_warning: bool = False


def check_vectors(store: TableStore) -> Iterator[VectorProblem]:
    """Read every vector of the newest version. A log that cannot be read is reported elsewhere: nothing is yielded."""
    try:
        log = DeltaLog(store)
        state = log.newest_state()
        files = log.files(state).select(["path", "stats", "deletionVector"])
    except TxlogError:
        return
    reader = DeletionVectorReader(store, state.version)
    for batch in files.filter(pc.is_valid(files.column("deletionVector"))).to_batches(max_chunksize=1024):
        found = parallel_map(partial(_problem, reader), batch.to_pylist(), threads=_PARALLEL)
        yield from (problem for problem in found if problem is not None)


def _problem(reader: DeletionVectorReader, row: dict[str, Any]) -> VectorProblem | None:
    rows = num_records(row["stats"])
    vector = row["deletionVector"]
    at = f"at offset {vector['offset']}" if vector["offset"] is not None else "inline"
    if rows is None:
        message = f"has a deletion vector ({at}), and no numRecords in its statistics, which writers must keep"
        return VectorProblem("uncounted-vector", message, row["path"])
    try:
        reader.dead_rows(DeletionVectorDescriptor.from_json(vector), rows)
    except CorruptLogError as error:
        return VectorProblem("bad-vector", f"{error.message}, {at}, for {row['path']}", error.path or row["path"])
    except UnsupportedFeatureError as error:
        return VectorProblem("vector-not-checked", error.message, error.path or row["path"], is_warning=True)
    except TxlogError as error:
        message = f"the deletion vector of {row['path']}, {at}, cannot be read: {error.message}"
        return VectorProblem("unreachable-vector", message, error.path or row["path"])
    return None
