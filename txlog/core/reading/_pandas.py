"""Arrow rows as a pandas DataFrame in which every value is the row's own.

In: an Arrow table. Out: a ``pandas.DataFrame``. pandas' arrays of numpy integers have no null: pyarrow's own conversion
makes floats of integers beside a null, which rounds those above 2^53. Here they stay integers, also inside lists,
structs and maps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import pandas as pd
import pyarrow as pa

from txlog.core.util import invalid, one_of
from txlog.core.wording import argument
from txlog.errors import InvalidInputError

DtypeBackend: TypeAlias = Literal["numpy_nullable", "pyarrow"]
TypesMapper: TypeAlias = Callable[[pa.DataType], Any]
"""Gives an Arrow type the pandas dtype of its columns; None leaves a column as it is by default."""

_INTEGERS = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}
_NULLABLE = _INTEGERS | {
    pa.bool_(): pd.BooleanDtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.string(): pd.StringDtype(),
    pa.large_string(): pd.StringDtype(),
}
"""What `pandas.read_parquet` gives with ``dtype_backend="numpy_nullable"``."""


def to_pandas(
    rows: pa.Table, types_mapper: TypesMapper | None = None, dtype_backend: DtypeBackend | None = None
) -> pd.DataFrame:
    """The rows in pandas' types.

    Args:
        rows: The rows.
        types_mapper: As in ``pyarrow.Table.to_pandas``: the pandas dtype of an Arrow type, or None for the default.
        dtype_backend: As in ``pandas.read_parquet``: "numpy_nullable" or "pyarrow". None: numpy's types, and pandas'
            nullable integers where integers have nulls.

    Raises:
        InvalidInputError: Both are given, or one is something else.
    """
    if types_mapper is not None and dtype_backend is not None:
        raise InvalidInputError(
            f"{argument('types_mapper')} and {argument('dtype_backend')} both decide the columns' types: pass one"
        )
    if types_mapper is not None and not callable(types_mapper):
        raise invalid("types_mapper", types_mapper, "a function of an Arrow type, such as pandas.ArrowDtype")
    if dtype_backend not in (None, *get_args(DtypeBackend)):
        raise invalid("dtype_backend", dtype_backend, one_of(get_args(DtypeBackend)))
    asked = {"numpy_nullable": _NULLABLE.get, "pyarrow": pd.ArrowDtype}
    mapper = types_mapper if dtype_backend is None else asked[dtype_backend]
    frame = rows.to_pandas(types_mapper=mapper, integer_object_nulls=True, ignore_metadata=True)
    for place, (field, column) in enumerate(zip(rows.schema, rows.columns, strict=True)):
        integers = _INTEGERS.get(field.type)
        if integers is not None and column.null_count and pd.api.types.is_object_dtype(frame.dtypes.iloc[place]):
            frame.isetitem(place, pd.Series(integers.__from_arrow__(column), index=frame.index))
    return frame
