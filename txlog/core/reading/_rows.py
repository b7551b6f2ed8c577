"""`Rows`: a stream of rows for Arrow, pandas, Polars, a terminal and a notebook.

In: a reader of record batches, or a table. Out: the same rows, in the form that the caller wants, with every value as
it is in the table.
"""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.core.format.arrow.wide_years import python_values
from txlog.core.util import explains_names, html_table, shortened, text_table
from txlog.core.whole_import import require_library
from txlog.errors import InvalidInputError
from txlog.result import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import polars as pl

    from txlog.core.reading._pandas import DtypeBackend, TypesMapper

_SHOWN_ROWS, _SHOWN_CHARACTERS = 20, 60


@explains_names
class Rows:
    """Rows that are read when they are asked for.

        table.changes(12).to_pandas()
        for batch in table.changes(12): ...

    They print as a table, in a notebook too. `read_all`, `to_pandas` and `to_polars` keep the rows, and may be called
    again. A stream (a loop over the batches, `to_batches`, or ``__arrow_c_stream__``, by which every library that knows
    Arrow takes this object) is read once.
    """

    _again = "ask for them again"
    """How to get the rows once more."""

    def __init__(self, rows: pa.RecordBatchReader | pa.Table) -> None:
        self._schema: pa.Schema = rows.schema
        self._is_stream = isinstance(rows, pa.RecordBatchReader)
        self._stream: pa.RecordBatchReader | None = rows if self._is_stream else None
        self._table: pa.Table | None = None if self._is_stream else rows

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def read_all(self) -> pa.Table:
        """All rows.

        Returns:
            The rows, in memory. They are kept for the next call.

        Raises:
            InvalidInputError: The rows were read as a stream before; or a query failed at one of its rows.
            TxlogError: What reading the table raises.
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
        from txlog.core.reading._pandas import to_pandas

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

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names, rows, has_more = self._shown()
        return f"{self._as_text(names, rows)}\n{_counted(rows, has_more=has_more)}"

    def _repr_html_(self) -> str:
        names, rows, has_more = self._shown()
        return f"{html_table(names, rows)}<p>{_counted(rows, has_more=has_more)}</p>"

    def _as_text(self, names: list[str], rows: list[list[str]]) -> str:
        return text_table(names, rows, {at for at, field in enumerate(self.schema) if _is_number(field.type)})

    def _known(self) -> pa.Table:
        if self._table is None:
            raise InvalidInputError(
                f"these rows were read as a stream, which ends with the last of them: {self._again}, or call"
                " read_all() first, which keeps them"
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
        most = _SHOWN_ROWS if self._is_stream else len(head)
        columns = [[_cell(value) for value in python_values(column)] for column in head.slice(0, most).columns]
        rows = [list(row) for row in zip(*columns, strict=True)]
        if self._is_stream:
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
