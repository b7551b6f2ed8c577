"""How well the files of a table are clustered: which range of a column's values each file has, and how they overlap.

In: the bounds of one column in each live file. Out: `ClusterColumn`: bars of least and greatest values, the overlap
depth, and how many files a look-up of one value must open. Pure. PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import large_type, numbers_of
from txlog.core.format.arrow.wide_years import date_text, timestamp_text
from txlog.core.format.schema import TIMESTAMPS, Struct, leaf_paths
from txlog.core.predicates.skipping import BoundsColumns, ColumnLeaf, bounds_of_text, leaves_of
from txlog.report.commits import shortened

_SLICE_ROWS = 16_384
_SLICE_ROWS_MIN = 64
_RANGES_SHOWN = 160
_POINTS = 160
_TICKS = 5
_VALUE_MAX = 28
_TICK_MAX = 11
_SECOND_US = 1_000_000


class Range(msgspec.Struct, frozen=True):
    """One file: the places of its least and greatest value among all bounds, from 0 to 1, and these values."""

    low: float
    high: float
    text: str


class ClusterColumn(msgspec.Struct, frozen=True):
    """One column. ``known`` of ``files`` have bounds; the others are opened for every value.

    ``opened`` is the mean number of files whose range holds a value, over the least and greatest value of each file;
    ``opened_most`` the greatest. ``ranges`` are the files, or a sample of them, by least value. ``depth`` is how many
    files hold a value, at equally spaced places among the bounds, and ``ticks`` are values at such places.
    """

    name: str
    files: int
    known: int
    opened: float
    opened_most: int
    ranges: tuple[Range, ...]
    depth: tuple[int, ...]
    ticks: tuple[str, ...]


def ordered_paths(schema: Struct, partition_columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The columns that statistics can order, without booleans and partition columns."""
    found = [path for path, _ in leaf_paths(schema) if path[0] not in partition_columns]
    return [leaf.path for leaf in leaves_of(schema, frozenset(found)) if leaf.kind not in ("", "boolean")]


def key_columns(files: pa.Table, schema: Struct, named: Sequence[tuple[str, tuple[str, ...]]]) -> list[ClusterColumn]:
    """The columns that have bounds in some of ``files``.

    Args:
        files: Live files, with the texts of their statistics.
        schema: The table's columns by the names that files have.
        named: The name of each column, and its path in ``schema``.
    """
    leaves = {leaf.path: leaf for leaf in leaves_of(schema, frozenset(path for _, path in named)) if leaf.kind}
    if not leaves:
        return []
    texts = files.column("stats")
    parts = [part for chunk in texts.chunks for part in _bounds(chunk.filter(chunk.is_valid()), [*leaves.values()])]
    found = []
    for name, path in named:
        bounds = [part.columns[path] for part in parts if path in part.columns]
        lows = [each.low for each in bounds if each.low is not None and each.high is not None]
        highs = [each.high for each in bounds if each.low is not None and each.high is not None]
        if lows and path in leaves:
            column = key_column(name, leaves[path], _joined(lows), _joined(highs), files.num_rows)
            found += [column] if column is not None else []
    return found


def key_column(name: str, leaf: ColumnLeaf, low: pa.Array, high: pa.Array, files: int) -> ClusterColumn | None:
    """One column from the bounds of its files, null where unknown; None if all are. ``files`` counts all files."""
    both = pc.and_(low.is_valid(), high.is_valid())
    low, high = low.filter(both), high.filter(both)
    if not len(low):
        return None
    values = _joined([low, high])
    ranks = numbers_of(pc.rank(values, tiebreaker="dense").cast(pa.int64())) - 1
    first, last = ranks[: len(low)], np.maximum(ranks[len(low) :], ranks[: len(low)])
    places = int(ranks.max()) + 1
    begun = np.cumsum(np.bincount(first, minlength=places))
    ended = np.cumsum(np.bincount(last, minlength=places))
    depth = begun - np.concatenate([[0], ended[:-1]]) + (files - len(low))
    scale = max(1, places - 1)
    order = np.lexsort((last, first))
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(_RANGES_SHOWN, len(order))).astype(np.int64))]
    at = np.linspace(0, places - 1, _TICKS).astype(np.int64) if places > 1 else np.zeros(1, np.int64)
    sorted_at = np.searchsorted(np.sort(ranks), at)
    by_rank = values.take(pa.array(np.argsort(ranks, kind="stable")[sorted_at]))
    texts = zip(low.take(pa.array(shown)).to_pylist(), high.take(pa.array(shown)).to_pylist(), strict=True)
    return ClusterColumn(
        name=name,
        files=files,
        known=len(low),
        opened=float(np.concatenate([depth[first], depth[last]]).mean()),
        opened_most=int(depth.max()),
        ranges=tuple(
            Range(float(first[row]) / scale, float(last[row]) / scale, f"{_text(least, leaf)} to {_text(most, leaf)}")
            for row, (least, most) in zip(shown.tolist(), texts, strict=True)
        ),
        depth=tuple(depth[np.linspace(0, places - 1, min(_POINTS, places)).astype(np.int64)].tolist()),
        ticks=_ticks([_text(value, leaf) for value in by_rank.to_pylist()]),
    )


def _ticks(texts: list[str]) -> tuple[str, ...]:
    """Fewer where they would not fit next to each other."""
    return tuple(texts if max(map(len, texts)) <= _TICK_MAX else texts[:: len(texts) // 2 or 1])


def _bounds(texts: pa.StringArray, leaves: Sequence[ColumnLeaf]) -> Iterator[BoundsColumns]:
    """The bounds of all texts that Arrow reads as Python does; a few that it does not count as unknown."""
    for start in range(0, len(texts), _SLICE_ROWS):
        yield from _bounds_of_slice(texts.slice(start, _SLICE_ROWS), leaves)


def _bounds_of_slice(texts: pa.StringArray, leaves: Sequence[ColumnLeaf]) -> Iterator[BoundsColumns]:
    try:
        yield bounds_of_text(texts, leaves)
    except (pa.ArrowException, ValueError):
        if len(texts) > _SLICE_ROWS_MIN:
            step = -(-len(texts) // 8)
            for start in range(0, len(texts), step):
                yield from _bounds_of_slice(texts.slice(start, step), leaves)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """In one array, which may need offsets of 64 bits."""
    return pa.concat_arrays([part.cast(large_type(part.type)) for part in parts])


def _text(value: Any, leaf: ColumnLeaf) -> str:
    """A bound, in the form for comparisons, for people."""
    if leaf.kind == "date":
        return date_text(value)
    if leaf.type in TIMESTAMPS:
        return timestamp_text(value // _SECOND_US * _SECOND_US).replace("T", " ").removesuffix(" 00:00:00")
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}"
    return shortened(f"{value:.0f}" if isinstance(value, float) else str(value), _VALUE_MAX)
