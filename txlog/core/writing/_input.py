"""What a caller may pass as ``data``, opened as one stream of Arrow record batches.

In: anything that speaks the Arrow C interface (pyarrow, polars, pandas, duckdb, a Snapshot), or an iterable of
such pieces. Out: a `DataStream`, read once and never collected. ``conform`` matches the columns to the table.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.arrow.text import cut_by_text, first_not_utf8
from txlog.core.util import described, pattern, type_name_of
from txlog.errors import InvalidInputError

_READAHEAD = 4
"""Batches of a dataset to read ahead; Arrow's own default is 16 from each of 4 files."""


class DataStream(msgspec.Struct, frozen=True):
    """Rows on their way in. ``batches`` is read once; a later batch may differ from ``schema`` in its Arrow types.

    An iterable that yielded nothing has an empty ``schema`` and no batches.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    @classmethod
    def of(cls, rows: pa.RecordBatch | pa.Table) -> DataStream:
        """Rows that txlog made or checked before."""
        return cls(rows.schema, iter((rows,) if isinstance(rows, pa.RecordBatch) else rows.to_batches()))


def open_data(data: Any) -> DataStream:
    """Open ``data`` for one pass; it requests a batch only when the caller is done with the previous one.

    Takes a ``pyarrow`` Table, RecordBatch, RecordBatchReader, Dataset or Scanner, a polars LazyFrame, any object with
    ``__arrow_c_stream__`` or ``__arrow_c_array__``, and any iterable of those. A batch with more text than a table's
    string column can hold comes in parts. A `DataStream` is taken as it is. Raises InvalidInputError naming what to
    pass instead, and when it comes to text that is not UTF-8.
    """
    if isinstance(data, DataStream):
        return data
    stream = _opened(data)
    # Polars has made sure of its text itself, in a form that takes longer to check again.
    is_checked = _is_of(data, "polars", "DataFrame") or _is_of(data, "polars", "LazyFrame")
    batches = stream.batches if is_checked else _checked_text(stream.batches)
    return DataStream(stream.schema, itertools.chain.from_iterable(map(cut_by_text, batches)))


def require_utf8(batch: pa.RecordBatch, first_row: int) -> None:
    """Refuse text that no reader could read. ``first_row`` is the number of rows before this batch.

    Raises ``InvalidInputError`` naming the column and the row.
    """
    if (found := first_not_utf8(batch)) is not None:
        name, row = found
        raise InvalidInputError(
            f"column {name} has text that is not UTF-8 (row {first_row + row}, counting from 0), which no reader could"
            " read: decode the bytes with the encoding that they have, or store them in a column of type binary",
            row=first_row + row,
        )


def _checked_text(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        require_utf8(batch, rows)
        rows += batch.num_rows
        yield batch


def _opened(data: Any) -> DataStream:
    if isinstance(data, pa.RecordBatch):
        return DataStream(data.schema, iter((data,)))
    if isinstance(data, pa.Table):
        return DataStream(data.schema, iter(data.to_batches()))
    if isinstance(data, pa.RecordBatchReader):
        return DataStream(data.schema, _read(data.read_next_batch))
    _refuse_what_cannot_stream(data)
    if _is_of(data, "polars", "LazyFrame") and hasattr(data, "collect_batches"):
        return _from_lazy_frame(data)
    if _is_of(data, "txlog", "Rows"):
        return _opened(data.to_batches())  # not as a C stream, which would lose the class of an error
    if _is_of(data, "pyarrow", "Dataset"):
        return _opened(data.scanner(batch_readahead=_READAHEAD, fragment_readahead=1))
    if _is_of(data, "pyarrow", "Scanner"):
        # Not with to_reader: ``read.dataset`` explains how it can wait forever if Python opens the files.
        return DataStream(data.projected_schema, _read(data.to_batches().__next__))
    if _is_of(data, "polars", "DataFrame"):
        _refuse_objects(data)
    if _is_pandas(data):
        return _from_pandas(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _from_arrow_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return _from_arrow_array(data)
    if isinstance(data, Iterable):
        return _from_pieces(iter(data))
    raise _not_data(data)


def _from_arrow_stream(data: Any) -> DataStream:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _unreadable(data, error) from error
    except Exception as error:
        if type(data).__module__.partition(".")[0] not in ("duckdb", "_duckdb"):
            raise
        # DuckDB computes the first rows now, and has its own exception classes.
        raise InvalidInputError(f"the query of the relation failed: {error}") from error
    return DataStream(reader.schema, _read(reader.read_next_batch))


def _from_pandas(frame: Any) -> DataStream:
    """A named index is a column. Arrow leaves out a range index, which pandas makes of consecutive keys."""
    try:
        table = pa.Table.from_pandas(frame, preserve_index=None if frame.index.name is None else True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unreadable(frame, error) from error
    return _without_unnamed_index(DataStream(table.schema, iter(table.to_batches())))


def _unreadable(data: Any, error: Exception) -> InvalidInputError:
    hints = {
        "non-struct": "Pass a frame of named columns",
        "Duplicate column": "Give each column its own name",
        "too large to convert": "Cast integers beyond 64 bits to decimal.Decimal",
        "_pli128": "Cast each column of Int128 to Int64 or Decimal(38, 0)",
    }
    hint = next((hint for text, hint in hints.items() if text in str(error)), "Convert the named column")
    arrow_says = "; ".join(map(str, error.args))
    return InvalidInputError(
        f"this {type_name_of(data)} could not be read as Arrow record batches: {arrow_says}. {hint}"
    )


def _from_lazy_frame(data: Any) -> DataStream:
    """Polars runs the query when the first batch is requested, and passes on batches while it runs."""
    schema = _opened(data.limit(0).collect()).schema

    def batches() -> Iterator[pa.RecordBatch]:
        pieces = iter(data.collect_batches())
        while (piece := _next_of_query(pieces)) is not None:
            yield from _opened(piece).batches

    return DataStream(schema, batches())


def _next_of_query(pieces: Iterator[Any]) -> Any:
    try:
        return next(pieces, None)
    except Exception as error:  # polars has its own exception classes, and is not imported here
        raise InvalidInputError(f"the query of the LazyFrame failed: {error}") from error


def _from_arrow_array(data: Any) -> DataStream:
    try:
        batch = pa.record_batch(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(f"this {type_name_of(data)} is not a struct of columns: {error}") from error
    return DataStream(batch.schema, iter((batch,)))


def _from_pieces(pieces: Iterator[Any]) -> DataStream:
    batches = itertools.chain.from_iterable(_opened(_checked_piece(piece)).batches for piece in pieces)
    first = next(batches, None)
    if first is None:
        return DataStream(pa.schema([]), iter(()))
    return DataStream(first.schema, itertools.chain((first,), batches))


def _read(next_batch: Callable[[], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All batches of a reader. Its producer's exceptions name no txlog call, so they are recognized here."""
    while True:
        try:
            batch = next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"the source of the data failed while it was read: {error}") from error
        yield batch


def _checked_piece(piece: Any) -> Any:
    if hasattr(piece, "__arrow_c_stream__") or hasattr(piece, "__arrow_c_array__") or _is_pandas(piece):
        return piece
    if isinstance(piece, Mapping):
        raise InvalidInputError(
            "data is a sequence of dicts: pass pyarrow.Table.from_pylist(rows). It puts nulls where a dict lacks a"
            " column that the first one has, so if they have different columns, make a table of each kind of them"
        )
    raise InvalidInputError(
        f"data yields {type_name_of(piece)}: an iterable must yield record batches (or tables, or data frames)"
    )


def _refuse_what_cannot_stream(data: Any) -> None:
    if isinstance(data, type):
        raise InvalidInputError(f"data is {described(data)}, not an instance of it")
    if type(data).__name__ == "LazyFrame" and not hasattr(data, "collect_batches"):
        raise InvalidInputError("data is a LazyFrame, which this polars does not stream: pass lazy_frame.collect()")
    if type(data).__name__ == "DuckDBPyConnection":
        raise InvalidInputError("data is a duckdb connection: pass the relation that connection.sql(query) returns")
    if type(data).__module__.startswith("pyspark."):
        raise InvalidInputError(
            'data is a Spark DataFrame: use df.write.format("txlog").mode("append").save(uri),'
            " or txlog.spark.upsert and txlog.spark.merge, which take it as the source"
        )
    if isinstance(data, Mapping):
        raise InvalidInputError("data is a dict: pass pyarrow.table(data)")
    if isinstance(data, str | bytes | bytearray | memoryview | os.PathLike):
        raise InvalidInputError(
            f"data is {type_name_of(data)}, not rows: read the file first, with pyarrow.parquet.read_table(path) or"
            " pyarrow.csv.open_csv(path); `txlog append` takes files as they are"
        )


def _refuse_objects(frame: Any) -> None:
    """Polars exports a Python object as its memory address."""
    objects = [name for name, kind in frame.schema.items() if str(kind) == "Object"]
    if objects:
        raise InvalidInputError(
            f"polars columns of Python objects cannot be stored ({', '.join(objects)}): cast each to a polars type,"
            " or drop it"
        )


def _is_of(data: Any, library: str, name: str) -> bool:
    """Whether ``data`` has this class of a library, without importing the library."""
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in type(data).__mro__)


def _is_pandas(data: Any) -> bool:
    """Whether it is a pandas data frame; before pandas 2.2, they have no Arrow interface."""
    return type(data).__name__ == "DataFrame" and type(data).__module__.partition(".")[0] == "pandas"


def _without_unnamed_index(stream: DataStream) -> DataStream:
    """Without the column that pandas makes of an unnamed index, as any filter leaves one: it is not data."""
    kept = [at for at, name in enumerate(stream.schema.names) if not _UNNAMED_INDEX.fullmatch(name)]
    if len(kept) == len(stream.schema):
        return stream
    schema = pa.schema([stream.schema.field(at) for at in kept])
    return DataStream(schema, (batch.select(kept) for batch in stream.batches))


_UNNAMED_INDEX = pattern(r"__index_level_\d+__")


def _not_data(data: Any) -> InvalidInputError:
    return InvalidInputError(
        f"data is {type_name_of(data)}: pass a pyarrow Table or Dataset, a polars DataFrame or LazyFrame, a pandas"
        " DataFrame, a duckdb relation, or an iterable of record batches"
    )
