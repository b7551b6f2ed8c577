"""Reads changes that tasks staged as rows: those of a table with a merge engine, and those of open keys.

In: files, and the table's columns as they are now. Out: `StagedRows` in these columns, which are found by their
physical names at every depth, as in data files. Commits refuse a definition that data files of the task would not fit.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from txlog.changelog.staged_files import batches_of, opened, unusable
from txlog.changelog.staged_rows import FEED_PLACES, KIND, PLACE, TOLD, staged_columns
from txlog.core.changes.tasks.operations import stored_rows
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.core.format.schema import Struct, to_arrow
from txlog.core.reading import ParquetColumns
from txlog.core.row_rules import KeyColumn
from txlog.core.store import FileStore
from txlog.core.writing import nullable
from txlog.core.writing.committable import KeyFile
from txlog.errors import CorruptLogError, InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OWN = pa.schema([(KIND, pa.int8()), (PLACE, pa.int64()), ("task", pa.int64())])


class StagedRows(msgspec.Struct, frozen=True):
    """Changes in order: by task and in each as they arrived, or as a change data feed orders them.

    Attributes:
        rows: The table's columns.
        kinds: As ``row_kinds`` numbers them.
        tasks: The task_id of each row.
        feed_order: `change_order.feed_order` of each row; None if they are not a feed's.
        told: The physical names of the columns in which changes of open keys tell about themselves.
    """

    rows: pa.Table
    kinds: NDArray[np.int8]
    tasks: NDArray[np.int64]
    feed_order: NDArray[np.int64] | None
    told: frozenset[str]


def gather_rows(
    files: FileStore,
    staged: Iterable[tuple[int, KeyFile]],
    schema: Struct,
    keys: Sequence[KeyColumn],
    table: str,
    counts: Callable[[int, pa.RecordBatch], NDArray[np.bool_]] | None = None,
) -> StagedRows:
    """The rows of all these files, each with its task_id; ``counts`` marks those of a task that count.

    A column added to the table after the task wrote the file is null in its rows; one dropped since is left out.

    Raises ``NotFoundError``, ``StorageError``; ``InvalidInputError`` if a file is damaged, or was written for a table
    with other keys or types.
    """
    told: set[str] = set()
    wanted = pa.schema([*to_arrow(nullable(schema)), *_OWN])

    def parts() -> Iterator[pa.RecordBatch]:
        for task_id, file in staged:
            for rows, kinds_and_places, of_open in _read(files, file, schema, keys, table):
                for text in () if of_open is None else of_open.unique().to_pylist():
                    told.update(json.loads(text))
                task = pa.repeat(pa.scalar(task_id, pa.int64()), rows.num_rows)
                batch = pa.RecordBatch.from_arrays([*rows.columns, *kinds_and_places, task], schema=wanted)
                yield batch if counts is None else batch.filter(pa.array(counts(task_id, rows)))

    found = stored_rows(parts(), wanted, table)
    width = len(wanted) - len(_OWN)
    places, tasks = (found.column(width + at).to_numpy() for at in (1, 2))
    is_of_feed = len(places) > 0 and int(places.min()) >= FEED_PLACES
    order = np.lexsort((tasks, places) if is_of_feed else (places, tasks))
    if (order != np.arange(len(order))).any():
        found, places, tasks = taken_rows(found, order), places[order], tasks[order]
    kinds = found.column(width).to_numpy()
    feed_order = places - FEED_PLACES if is_of_feed else None
    return StagedRows(found.select(range(width)), kinds, tasks, feed_order, frozenset(told))


def _read(
    files: FileStore, file: KeyFile, schema: Struct, keys: Sequence[KeyColumn], table: str
) -> Iterator[tuple[pa.RecordBatch, list[pa.Array], pa.Array | None]]:
    """The rows of a file in the columns of ``schema``, their kinds and places, and what changes of open keys tell."""
    wanted = to_arrow(nullable(schema))
    fields = staged_columns(schema)
    with opened(files, file, table, are_rows=True) as parquet:
        with _for_these_columns(file, table):
            columns = ParquetColumns(parquet.schema_arrow, fields, "name")
        told = [TOLD] if file.is_open else []
        for batch in batches_of(parquet, file, [*columns.names, KIND, PLACE, *told]):
            with _for_these_columns(file, table):
                found = [columns.array(batch, field) for field in fields]
                rows = pa.RecordBatch.from_arrays(found, schema=wanted)
            lost = [key.name for key in keys if key.of(rows).null_count]
            if lost:  # the task refused null keys
                raise _of_other_columns(file, f"its rows have no {', '.join(lost)}", table)
            yield rows, [batch.column(KIND), batch.column(PLACE)], batch.column(TOLD) if told else None


@contextlib.contextmanager
def _for_these_columns(file: KeyFile, table: str) -> Iterator[None]:
    try:
        yield
    except (CorruptLogError, pa.ArrowException) as error:
        raise _of_other_columns(file, str(error), table) from error


def _of_other_columns(file: KeyFile, problem: str, table: str) -> InvalidInputError:
    return unusable(file, f"was written for other columns than the table has now: {problem}", table)
