"""`SqlResult`: what a statement answers, as rows, whatever the statement is.

In: the rows of a query, a stream that is read once; a table about tables; or what a method of `Table` returned. Out:
rows for Arrow, pandas, Polars, a terminal and a notebook.
"""

from __future__ import annotations

import datetime
import itertools
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
import pyarrow as pa

from txlog.core.format.arrow.wide_years import python_values
from txlog.core.reading import to_pandas
from txlog.core.util.api_hints import explains_names
from txlog.core.util.html import html_table
from txlog.core.util.text_table import shortened, text_records, text_table
from txlog.core.util.values import public_fields
from txlog.errors import InvalidInputError
from txlog.result import WriteResult, counted
from txlog.snapshot import require_library

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import polars as pl

    from txlog.core.reading import DtypeBackend, TypesMapper
    from txlog.result.maintenance import (
        CloneResult,
        ConvertResult,
        CopyResult,
        RestoreResult,
        RewriteResult,
        VacuumResult,
    )

    Outcome: TypeAlias = (
        WriteResult
        | RewriteResult
        | VacuumResult
        | RestoreResult
        | CloneResult
        | ConvertResult
        | CopyResult
        | int
        | None
    )

__all__ = ["SqlResult"]

_SHOWN_ROWS, _SHOWN_CHARACTERS = 20, 60
_CHANGES = pa.schema(
    [
        ("num_affected_rows", pa.int64()),
        ("num_updated_rows", pa.int64()),
        ("num_deleted_rows", pa.int64()),
        ("num_inserted_rows", pa.int64()),
        ("version", pa.int64()),
    ]
)
"""The columns of Spark's answer to a MERGE, and the version."""


@explains_names
class SqlResult:
    """The answer to a statement of SQL, as rows: those of a query, of DESCRIBE and SHOW, or one of what was done.

        txlog.sql("select * from sales.orders", "./warehouse").to_pandas()
        txlog.sql("delete from sales.orders where id = 7", "./warehouse").result.version

    It prints as a table, in a notebook too. The rows of a query are a stream: each is computed when it is asked for.
    `read_all`, `to_pandas` and `to_polars` keep the rows, and may be called again. A stream (`to_batches`, or
    ``__arrow_c_stream__``, by which every library that knows Arrow takes this object) is read once.

    A statement that changes rows answers one row: ``num_affected_rows``, ``num_updated_rows``, ``num_deleted_rows``,
    ``num_inserted_rows`` and ``version``. One that maintains a table answers its result's fields. Any other statement
    answers no rows and no columns.

    Attributes:
        result: What the method of `Table` returned that did the work, such as a `WriteResult`; None for rows, and for
            statements without a result, such as CREATE TABLE.
    """

    def __init__(self, answer: pa.RecordBatchReader | pa.Table | Outcome) -> None:
        self.result: Outcome = None
        self._is_query = isinstance(answer, pa.RecordBatchReader)
        self._stream: pa.RecordBatchReader | None = None
        self._table: pa.Table | None = None
        if self._is_query:
            self._stream = answer
        elif isinstance(answer, pa.Table):
            self._table = answer
        else:
            self.result = answer
            self._table = _rows_about(answer)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._stream.schema if self._table is None and self._stream is not None else self._known().schema

    def read_all(self) -> pa.Table:
        """All rows.

        Returns:
            The rows, in memory. They are kept for the next call.

        Raises:
            InvalidInputError: The query failed at one of its rows; or its rows were read as a stream before.
            TxlogError: What reading the tables raises.
        """
        if self._table is None:
            self._table = self._taken().read_all()
        return self._table

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream, a bounded batch at a time.

        Returns:
            A reader of record batches that can be read once.

        Raises:
            InvalidInputError: The rows were read as a stream before.
        """
        return self._taken() if self._table is None else self._table.to_reader()

    def to_pandas(
        self,
        *,
        types_mapper: TypesMapper | None = None,
        dtype_backend: DtypeBackend | None = None,
    ) -> pd.DataFrame:
        """All rows as a pandas DataFrame, with every value as it is.

        Args:
            types_mapper: As for `Table.to_pandas`.
            dtype_backend: As for `Table.to_pandas`.

        Returns:
            The rows, in memory. Needs pandas.

        Raises:
            InvalidInputError: pandas cannot be imported.
            TxlogError: What `read_all` raises.
        """
        require_library("pandas")
        return to_pandas(self.read_all(), types_mapper, dtype_backend)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars DataFrame.

        Returns:
            The rows, in memory. Needs polars.

        Raises:
            InvalidInputError: polars cannot be imported.
            TxlogError: What `read_all` raises.
        """
        require_library("polars")
        import polars

        return polars.DataFrame(self.read_all())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names, rows, has_more = self._shown()
        if not names:
            return "done"
        numbers = {at for at, field in enumerate(self.schema) if _is_number(field.type)}
        text = text_table(names, rows, numbers)
        if not self._is_query and rows and max(map(len, text.splitlines())) > shutil.get_terminal_size().columns:
            text = text_records(names, rows)
        return f"{text}\n{_counted(rows, has_more=has_more)}"

    def _repr_html_(self) -> str:
        names, rows, has_more = self._shown()
        return f"{html_table(names, rows)}<p>{_counted(rows, has_more=has_more)}</p>" if names else "done"

    def _known(self) -> pa.Table:
        if self._table is None:
            raise InvalidInputError(
                "the rows of this query were read as a stream, which ends with the last of them: run the statement"
                " again, or call read_all() first, which keeps them"
            )
        return self._table

    def _taken(self) -> pa.RecordBatchReader:
        """The stream, which nobody else gets."""
        if self._stream is None:
            self._known()
        taken, self._stream = self._stream, None
        assert taken is not None
        return taken

    def _shown(self) -> tuple[list[str], list[list[str]], bool]:
        """The names of the columns, the first rows as text, and whether there are more. The stream keeps all rows."""
        if self._table is None:
            stream = self._taken()
            first: list[pa.RecordBatch] = []
            while sum(map(len, first)) <= _SHOWN_ROWS and (batch := next(stream, None)) is not None:
                first.append(batch)
            self._stream = pa.RecordBatchReader.from_batches(stream.schema, itertools.chain(first, stream))
            head = pa.Table.from_batches(first, stream.schema)
        else:
            head = self._table
        most = _SHOWN_ROWS if self._is_query else len(head)
        columns = [[_cell(value) for value in python_values(column)] for column in head.slice(0, most).columns]
        rows = [list(row) for row in zip(*columns, strict=True)]
        if self._is_query:
            rows = [[shortened(text, _SHOWN_CHARACTERS) for text in row] for row in rows]
        return head.column_names, rows, len(head) > most


def _counted(rows: list[list[str]], *, has_more: bool) -> str:
    return f"the first {counted(len(rows), 'row')}; read_all() has all" if has_more else counted(len(rows), "row")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _rows_about(result: Any) -> pa.Table:
    """What was done, as a row; no columns if nobody counts it."""
    if isinstance(result, WriteResult):
        did = result.metrics
        inserted = did.rows - did.rows_updated
        counts = (did.rows_updated, did.rows_deleted, inserted)
        values = (sum(counts), *counts, result.version)
        return pa.Table.from_pylist([dict(zip(_CHANGES.names, values, strict=True))], _CHANGES)
    if not hasattr(result, "__struct_fields__"):
        return pa.table({})
    return pa.Table.from_pylist([dict(_values(public_fields(result)))])


def _values(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        is_one = value is None or isinstance(value, (bool, int, float, str))
        yield name, value if is_one else orjson.dumps(value, default=public_fields).decode()
