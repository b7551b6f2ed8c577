"""The rows of an open Parquet file, counted against its footer: a damaged column chunk never costs rows silently.

In: a ``ParquetFile``, and the wanted columns and row groups. Out: record batches, each with the position of its first
row. If a column chunk holds fewer values than its row group has rows, Arrow ends its stream of batches early, or pairs
the rows of one row group with the values of the next. So small row groups are read as one piece, which is counted
before anyone sees a row of it, and large ones each alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

_FEW_ROWS = 8_192


def row_count(metadata: Any) -> int:
    """The rows of a file: those of its row groups. Some writers leave the footer's own number at 0."""
    return sum(rows_by_group(metadata))


def rows_by_group(metadata: Any) -> list[int]:
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def check_chunks(metadata: Any) -> None:
    """Raise ``pa.ArrowInvalid`` if a column chunk has another number of values than its row group has rows.

    ``metadata`` has passed `check_footer`. A column inside a list or a map may have any number.
    """
    schema = metadata.schema
    flat = [at for at in range(metadata.num_columns) if not schema.column(at).max_repetition_level]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows = group.num_rows
        for leaf in flat:
            values = group.column(leaf).num_values
            if values != rows:
                raise _short(schema.column(leaf).path, values, number, rows)


def few_rows(parquet: Any, names: Sequence[str], rows: int) -> pa.Table | None:
    """All ``rows`` of a file of which the footer counts only a few; None if they are more, or not there: then
    `counted_batches` says what is wrong."""
    if rows > _FEW_ROWS:
        return None
    try:
        found = parquet.read(names, use_threads=False)
    except pa.ArrowInvalid:
        return None
    return found if found.num_rows == rows else None


def counted_batches(
    parquet: Any,
    names: Sequence[str],
    batch_rows: int,
    groups: Iterable[int] | None = None,
    *,
    use_threads: bool = True,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of these top-level columns, of which there is at least one; ``groups`` ascend, None means all.

    Raises ``pa.ArrowInvalid`` naming the column that lacks values, and what pyarrow raises.
    """
    for piece, first, rows in _pieces(parquet.metadata, batch_rows, groups):
        batches = _read(
            parquet, names, piece, rows, parquet.iter_batches(batch_rows, piece, names, use_threads=use_threads)
        )
        row = first
        for batch in batches if len(piece) == 1 else [*batches]:
            yield row, batch
            row += batch.num_rows


def _pieces(metadata: Any, batch_rows: int, groups: Iterable[int] | None) -> Iterator[tuple[list[int], int, int]]:
    """Consecutive row groups with at most the rows of one batch, or one larger; their first row, and their rows."""
    wanted = range(metadata.num_row_groups) if groups is None else groups
    sizes = rows_by_group(metadata)
    piece: list[int] = []
    first = rows = before = counted = 0
    for group in wanted:
        before += sum(sizes[counted:group])
        counted = group
        if piece and (group != piece[-1] + 1 or rows + sizes[group] > batch_rows):
            yield piece, first, rows
            piece, rows = [], 0
        if not piece:
            first = before
        piece.append(group)
        rows += sizes[group]
    if piece:
        yield piece, first, rows


def _read(
    parquet: Any, names: Sequence[str], piece: Sequence[int], rows: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """All batches, of ``rows`` rows together."""
    count = 0
    while True:
        try:
            batch = next(batches, None)
        except pa.ArrowInvalid as error:  # Arrow sees that columns differ, but does not say which
            raise _first_short(parquet, names, piece) or error from error
        if batch is None:
            break
        count += batch.num_rows
        yield batch
    if count != rows:
        short = f"it has {count} rows instead of the {rows} that its footer says"
        raise _first_short(parquet, names, piece) or pa.ArrowInvalid(short)


def _first_short(parquet: Any, names: Sequence[str], piece: Sequence[int]) -> pa.ArrowInvalid | None:
    for group in piece:
        rows = parquet.metadata.row_group(group).num_rows
        for name in names:
            values = sum(batch.num_rows for batch in parquet.iter_batches(row_groups=[group], columns=[name]))
            if values != rows:
                return _short(name, values, group, rows)
    return None


def _short(name: str, values: int, group: int, rows: int) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(
        f"column {name} has {values} values in row group {group}, which has {rows} rows according to the footer"
    )
