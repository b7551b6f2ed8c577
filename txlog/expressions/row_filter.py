"""The exact filter: a bound predicate as an Arrow expression that keeps the rows where it is true.

In: a predicate. Out: ``pyarrow.compute.Expression`` with SQL's three truth values (Arrow's Kleene logic) and Spark's
order of floats, where Arrow alone would have NaN differ from itself and be greater than nothing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txlog.expressions.predicates import And, Comparison, Constant, In, IsNull, Not, Or, Path, Predicate, StartsWith
from txlog.protocol.schema import DataType, Primitive, type_to_arrow

__all__ = ["to_arrow_expression"]


def to_arrow_expression(predicate: Predicate) -> pc.Expression:
    """The filter for rows in the table's Arrow schema (``schema.to_arrow``). The predicate must be bound."""
    match predicate:
        case And(left, right):
            return to_arrow_expression(left) & to_arrow_expression(right)
        case Or(left, right):
            return to_arrow_expression(left) | to_arrow_expression(right)
        case Not(operand):
            return ~to_arrow_expression(operand)
        case Constant(value):
            return pc.scalar(pa.scalar(value, pa.bool_()))
        case IsNull(path):
            return pc.field(*path).is_null()
        case Comparison(path, operator, value, data_type):
            return _comparison(path, operator, value, _bound(predicate, data_type))
        case In(path, values, has_null, data_type):
            return _membership(path, values, has_null, _bound(predicate, data_type))
        case StartsWith(path, prefix):
            return pc.starts_with(pc.field(*path), prefix)
    raise TypeError(f"not a predicate: {predicate!r}")


def _bound(predicate: Predicate, data_type: DataType | None) -> DataType:
    if data_type is None:
        raise TypeError(f"bind the predicate to a schema first: {predicate}")
    return data_type


def _comparison(path: Path, operator: str, value: Any, data_type: DataType) -> pc.Expression:
    if not _is_float(data_type):
        return _ARROW[operator](pc.field(*path), pc.scalar(pa.scalar(value, type_to_arrow(data_type))))
    column = pc.field(*path).cast(pa.float64())
    if value == value:
        compared = _ARROW[operator](column, pc.scalar(pa.scalar(value, pa.float64())))
        return compared | pc.is_nan(column) if operator in (">", ">=") else compared
    is_nan = pc.is_nan(column)
    match operator:
        case "=" | ">=":
            return is_nan
        case "!=" | "<":
            return ~is_nan
        case "<=":
            return is_nan | ~is_nan
    return is_nan & ~is_nan


def _membership(path: Path, values: tuple[Any, ...], has_null: bool, data_type: DataType) -> pc.Expression:
    """A miss is unknown where the row or the list holds a null; Arrow's ``is_in`` would call it false."""
    column = pc.field(*path)
    arrow_type = type_to_arrow(data_type)
    kept = list(values)
    if _is_float(data_type):
        column, arrow_type = column.cast(pa.float64()), pa.float64()
        kept = [value for value in values if value == value]
        kept += [-value for value in kept if value == 0]  # Arrow tells the two zeros apart, SQL does not
    found = column.isin(pa.array(kept, arrow_type))
    if any(value != value for value in values):
        found = found | pc.is_nan(column)
    unknown = pc.scalar(pa.scalar(None, pa.bool_()))
    return found | unknown if has_null else found | (column.is_null() & unknown)


def _is_float(data_type: DataType) -> bool:
    return isinstance(data_type, Primitive) and data_type.name in ("float", "double")


_ARROW = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
