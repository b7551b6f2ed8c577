"""Every row that a key had (SCD type 2): the versions of rows that changes begin and end.

In: changes in their order, complete, and the rows that keys have now. Out: versions, to be upserted by the key and the
sequence at which they began: those that ended, with their end, and those that are current by then. A sequence is the
place of a change's transaction in its source's log, or the number of its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from txlog.mirror.changes import DELETE, UPDATE_AFTER
from txlog.mirror.unchanged import Key, Row

START, END = "__START_AT", "__END_AT"
"""The sequences at which a row came and went; a current row has no end."""
_CHUNK_ROWS = 8192


def current_rows(batch: pa.RecordBatch, sequence: int) -> pa.RecordBatch:
    """Rows of a snapshot as current versions that begin with it."""
    count = batch.num_rows
    beside = [pa.array([sequence] * count, pa.int64()), pa.nulls(count, pa.int64())]
    return pa.RecordBatch.from_arrays([*batch.columns, *beside], names=[*batch.schema.names, START, END])


class KnownKey(NamedTuple):
    """What a table has of a key: its current row, if it has one, and the greatest sequence of its versions."""

    current: Row | None
    newest: int


def known_of(rows: Iterable[Row]) -> KnownKey:
    """What these versions of a key are."""
    current, newest = None, -1
    for row in rows:
        current = row if row[END] is None else current
        newest = max(newest, row[START], row[END] or -1)
    return KnownKey(current, newest)


def versions(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[str],
    keys: Sequence[str],
    beside: Sequence[str],
    look_up: Callable[[Sequence[Key]], Mapping[Key, KnownKey]],
) -> Iterator[pa.RecordBatch]:
    """The versions that changes begin or end, each once, as upserts. A change that is not newer than what the table has
    of its key has come again, and is left out.

    Args:
        batches: The changes, with the table's columns and those beside.
        columns: The table's columns at the source.
        keys: Those that identify a row.
        beside: The names of a change's kind and of its sequence.
        look_up: Finds what the table has of keys.
    """
    kind_name, sequence_name = beside
    names = [*columns, START, END]
    known: dict[Key, KnownKey] = {}
    now: dict[Key, Row | None] = {}  # the current rows of keys that changed
    ended: list[Row] = []
    types: dict[str, pa.DataType] = {}
    for batch in batches:
        types = {name: batch.schema.field(name).type for name in columns}
        rows = batch.select([*columns, kind_name, sequence_name]).to_pylist()
        of_row = [tuple(row[name] for name in keys) for row in rows]
        unknown = [key for key in dict.fromkeys(of_row) if key not in known]
        found = look_up(unknown)
        known |= {key: found.get(key, KnownKey(None, -1)) for key in unknown}
        for key, row in zip(of_row, rows, strict=True):
            kind, sequence = row.pop(kind_name), row.pop(sequence_name)
            if sequence <= known[key].newest:
                continue
            old = now.get(key, known[key].current)
            if old is not None and old[START] != sequence:  # else it came and went within a transaction
                ended.append({**old, END: sequence})
            now[key] = None if kind == DELETE else {**row, START: sequence, END: None}
        while len(ended) >= _CHUNK_ROWS:
            yield _batch(ended[:_CHUNK_ROWS], names, types, kind_name)
            ended = ended[_CHUNK_ROWS:]
    ended += [row for row in now.values() if row is not None]
    for begin in range(0, len(ended), _CHUNK_ROWS):
        yield _batch(ended[begin : begin + _CHUNK_ROWS], names, types, kind_name)


def _batch(
    rows: Sequence[dict[str, Any]], names: Sequence[str], types: dict[str, pa.DataType], kind_name: str
) -> pa.RecordBatch:
    arrays = [pa.array([row[name] for row in rows], types.get(name, pa.int64())) for name in names]
    return pa.RecordBatch.from_arrays(
        [*arrays, pa.array([UPDATE_AFTER] * len(rows), pa.string())], names=[*names, kind_name]
    )
