"""The values of numpy, pandas and pyarrow as Python's own, wherever a caller passes one value.

In: what `frame["x"].max()` and the like return. Out: None, a bool, int, float, Decimal, str, bytes, date or datetime
that means the same, and the type that numpy or pyarrow gives it; NaT and NA are None. numpy and pandas are not
imported: whoever has such a value has imported its package.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from txlog.core.format.schema import BINARY, BOOLEAN, DATE, STRING, TIMESTAMP, VOID, DataType, from_arrow

_EXACT = frozenset({type(None), bool, int, float, str, bytes, decimal.Decimal, datetime.date, datetime.datetime})
_NULLS = frozenset({"NaTType", "NAType"})
_EPOCH = datetime.datetime(1970, 1, 1)
_DATE_UNITS = frozenset({"Y", "M", "W", "D"})
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (bool, bool),
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, bytes),
    (bytearray, bytes),
    (memoryview, bytes),
    (decimal.Decimal, decimal.Decimal),
)


def plain(value: Any) -> Any:
    """The value as a Python value of its own; unchanged if it is of another kind, such as a list or an expression.

    Raises ``ValueError`` for what no column can hold as it is: a duration, a time of day, fractions of a microsecond,
    a year beyond 9999, an array.
    """
    if type(value) in _EXACT:
        return _finite(value) if type(value) is decimal.Decimal else value
    package = type(value).__module__.partition(".")[0]
    if package == "numpy":
        return _of_numpy(value)
    if package == "pandas":
        return _of_pandas(value)
    if package == "uuid" and type(value).__name__ == "UUID":
        return str(value)
    if package == "pyarrow" and hasattr(value, "as_py"):
        return _of_arrow(value)
    if isinstance(value, datetime.datetime | datetime.date):
        return value
    if isinstance(value, datetime.timedelta):
        raise ValueError("it is a duration, which Delta has no type for: pass a number, such as its seconds")
    if isinstance(value, datetime.time):
        raise ValueError("it is a time of day, which Delta has no type for: pass a string or a number")
    for base, convert in _BASES:
        if isinstance(value, base):
            return _finite(convert(value)) if base is decimal.Decimal else convert(value)
    return value


def scalar_type(value: Any) -> DataType | None:
    """The type of a number of numpy or a scalar of pyarrow, which `plain` takes; None if Python's own value has it."""
    package = type(value).__module__.partition(".")[0]
    if package == "numpy" and value.dtype.kind in "iuf" and value.dtype.itemsize <= 8:
        kind = pa.from_numpy_dtype(value.dtype)
    elif package == "pyarrow":
        kind = value.type
    else:
        return None
    found = from_arrow(pa.schema([("value", kind)])).fields[0].type
    is_own = found == VOID or (found in (BOOLEAN, STRING, BINARY, DATE, TIMESTAMP) and value.is_valid)
    return None if is_own else found


def _finite(value: decimal.Decimal) -> decimal.Decimal:
    if not value.is_finite():
        raise ValueError("a decimal column holds neither NaN nor infinity: pass a float, such as float('nan')")
    return value


def _of_numpy(value: Any) -> Any:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind and getattr(value, "ndim", 0) > 0:
        raise ValueError(f"it is an array of {value.size} values, where one value is expected")
    if hasattr(value, "__array__") and type(value).__name__ == "ndarray":
        return plain(value[()])
    if kind == "b":
        return bool(value)
    if kind in ("i", "u"):
        return int(value)
    if kind == "f":
        return _double(value)
    if kind == "U":
        return str.__str__(value)
    if kind == "S":
        return bytes(value)
    if kind == "M":
        return _of_datetime64(value)
    if kind == "m" and str(value) == "NaT":
        return None
    if kind == "m":
        raise ValueError("it is a duration, which Delta has no type for: pass a number, such as its seconds")
    raise ValueError(
        f"a value of the numpy type {getattr(value, 'dtype', type(value).__name__)} has no meaning in a table"
    )


def _double(value: Any) -> float:
    found = float(value)
    if found != value and value == value:
        raise ValueError("it has more digits than a double: round it to one")
    return found


def _of_datetime64(value: Any) -> datetime.date | datetime.datetime | None:
    if str(value) == "NaT":
        return None
    unit = value.dtype.str.partition("[")[2].rstrip("]").lstrip("0123456789")
    exact = value.astype("datetime64[us]")
    if exact != value:
        raise ValueError("it has a fraction of a microsecond, which no column can hold: round it to microseconds")
    found = exact.item()
    if not isinstance(found, datetime.datetime):
        raise ValueError("its year is not in 1 to 9999")
    return found.date() if unit in _DATE_UNITS else found


def _of_pandas(value: Any) -> Any:
    if type(value).__name__ in _NULLS:
        return None
    if isinstance(value, datetime.datetime):
        if getattr(value, "nanosecond", 0):
            raise ValueError("it has a fraction of a microsecond, which no column can hold: round it to microseconds")
        return value.to_pydatetime()  # type: ignore[attr-defined]
    if isinstance(value, datetime.timedelta):
        raise ValueError("it is a duration, which Delta has no type for: pass a number, such as its total_seconds()")
    raise ValueError(f"a pandas {type(value).__name__} is not one value")


def _of_arrow(value: Any) -> Any:
    kind = str(value.type)
    if not value.is_valid:
        return None
    if kind.startswith("timestamp[ns"):
        nanoseconds, zone = value.value, value.type.tz
        if nanoseconds % 1000:
            raise ValueError("it has a fraction of a microsecond, which no column can hold: round it to microseconds")
        moment = _EPOCH + datetime.timedelta(microseconds=nanoseconds // 1000)
        return moment if zone is None else moment.replace(tzinfo=datetime.timezone.utc)
    if kind.startswith("duration"):
        raise ValueError("it is a duration, which Delta has no type for: pass a number, such as its seconds")
    try:
        found = value.as_py()
    except OverflowError:
        raise ValueError("its year is not in 1 to 9999") from None
    return plain(found) if type(found).__module__.partition(".")[0] != "pyarrow" else found
