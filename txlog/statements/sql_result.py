"""`SqlResult`: what a statement answers, as rows, whatever the statement is.

In: the rows of a query, a stream that is read once; a table about tables; or what a method of `Table` returned. Out:
rows for Arrow, pandas, Polars, a terminal and a notebook.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
import pyarrow as pa

from txlog.core.reading import Rows
from txlog.core.util import explains_names, public_fields, text_records
from txlog.result import WriteResult
from txlog.result.maintenance import CopyResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from txlog.result.maintenance import (
        CloneResult,
        ConvertResult,
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
class SqlResult(Rows):
    """The answer to a statement of SQL, as rows: those of a query, of DESCRIBE and SHOW, or one of what was done.

        txlog.sql("select * from sales.orders", "./warehouse").to_pandas()
        txlog.sql("delete from sales.orders where id = 7", "./warehouse").result.version

    It prints as a table, in a notebook too. The rows of a query are a stream: each is computed when it is asked for.
    `read_all`, `to_pandas` and `to_polars` keep the rows, and may be called again. A stream (`to_batches`, or
    ``__arrow_c_stream__``, by which every library that knows Arrow takes this object) is read once.

    A statement that changes rows answers one row: ``num_affected_rows``, ``num_updated_rows``, ``num_deleted_rows``,
    ``num_inserted_rows`` and ``version``. The end of a transaction answers such a row for each of its tables, with
    ``table`` in front. A statement that maintains a table answers its result's fields. Any other statement answers no
    rows and no columns.

    Attributes:
        result: What the method of `Table` returned that did the work, such as a `WriteResult`; None for rows, and for
            statements without a result, such as CREATE TABLE.
    """

    _again = "run the statement again"

    def __init__(self, answer: pa.RecordBatchReader | pa.Table | Outcome) -> None:
        is_rows = isinstance(answer, pa.RecordBatchReader | pa.Table)
        self.result: Outcome = None if is_rows else answer
        super().__init__(answer if is_rows else _rows_about(answer))

    def __repr__(self) -> str:
        return super().__repr__() if self.schema.names else "done"

    def _repr_html_(self) -> str:
        return super()._repr_html_() if self.schema.names else "done"

    def _as_text(self, names: list[str], rows: list[list[str]]) -> str:
        text = super()._as_text(names, rows)
        is_wide = rows and max(map(len, text.splitlines())) > shutil.get_terminal_size().columns
        return text_records(names, rows) if is_wide and not self._is_stream else text


def committed(results: Iterable[tuple[str, WriteResult]]) -> pa.Table:
    """What a transaction did to each of its tables, which come with their names."""
    rows = [{"table": name, **_changed(result)} for name, result in results]
    return pa.Table.from_pylist(rows, pa.schema([("table", pa.string()), *_CHANGES]))


def _changed(result: WriteResult) -> dict[str, int | None]:
    did = result.metrics
    inserted = did.rows - did.rows_updated
    counts = (did.rows_updated, did.rows_deleted, inserted)
    return dict(zip(_CHANGES.names, (sum(counts), *counts, result.version), strict=True))


def _rows_about(result: Any) -> pa.Table:
    """What was done, as a row; no columns if nobody counts it."""
    if isinstance(result, WriteResult):
        return pa.Table.from_pylist([_changed(result)], _CHANGES)
    if isinstance(result, CopyResult):
        counts = {"num_affected_rows": result.rows, "num_updated_rows": 0, "num_deleted_rows": 0}
        row = {**counts, "num_inserted_rows": result.rows, "version": result.version}
        return pa.Table.from_pylist([row], _CHANGES)
    if not hasattr(result, "__struct_fields__"):
        return pa.table({})
    return pa.Table.from_pylist([dict(_values(public_fields(result)))])


def _values(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        is_one = value is None or isinstance(value, (bool, int, float, str))
        yield name, value if is_one else orjson.dumps(value, default=public_fields).decode()
