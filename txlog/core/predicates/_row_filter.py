"""The exact filter: Arrow's computation of the predicate leaves that compare a column with literals.

In: a column and literals. Out: SQL's three truth values (Arrow's Kleene logic), with Spark's order of floats. In Arrow
itself, NaN differs from itself and is not greater than any number.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.schema import type_to_arrow
from txlog.core.predicates.terms.types import is_floating

ARROW_COMPARISONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def comparison(column: Any, operator: str, value: Any, data_type: Any) -> Any:
    """``column operator value``."""
    import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas

    compare = ARROW_COMPARISONS[operator]
    if not is_floating(data_type):
        return compare(column, pa.scalar(value, type_to_arrow(data_type)))
    column = _as_double(column)
    is_nan = pc.is_nan(column)
    if value == value:
        compared = compare(column, pa.scalar(value, pa.float64()))
        return pc.or_kleene(compared, is_nan) if operator in (">", ">=") else compared
    match operator:
        case "=" | ">=":
            return is_nan
        case "!=" | "<":
            return pc.invert(is_nan)
        case "<=":
            return pc.or_kleene(is_nan, pc.invert(is_nan))
    return pc.and_kleene(is_nan, pc.invert(is_nan))


def membership(column: Any, values: tuple[Any, ...], has_null: bool, data_type: Any) -> Any:
    """``column IN (values)``. Without a match, the result is unknown if the value is null or the list has a null;
    Arrow's ``is_in`` would return false."""
    import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas

    arrow_type = type_to_arrow(data_type)
    kept = list(values)
    if is_floating(data_type):
        column, arrow_type = _as_double(column), pa.float64()
        kept = [value for value in values if value == value]
        kept += [-value for value in kept if value == 0]  # Arrow distinguishes the two zeros, SQL does not
    found = pc.is_in(column, value_set=pa.array(kept, arrow_type))
    if any(value != value for value in values):
        found = pc.or_kleene(found, pc.is_nan(column))
    unknown = pa.scalar(None, pa.bool_())
    return pc.or_kleene(found, unknown if has_null else pc.and_kleene(pc.is_null(column), unknown))


def _as_double(column: Any) -> Any:
    return column.cast(pa.float64())
