"""txlog's values and conditions as Spark columns. They are exact under every session time zone and setting.

In: values in their ordered form (``core.predicates.terms.values``: integers for dates and timestamps), columns of such
values, and bound predicates. Out: Spark columns.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.core.format.schema import DATE, TIMES, DataType, Primitive, backquoted, type_to_arrow
from txlog.core.predicates.terms.predicate import And, Comparison, Constant, In, IsNull, Not, Or, Predicate, StartsWith
from txlog.core.predicates.terms.tree import Path

if TYPE_CHECKING:
    from pyspark.sql import Column

_DAY_US = 86_400_000_000
_COMPARED = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<>": operator.ne,
    "!=": operator.ne,
}


def carrier_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that holds the ordered form of a type's values."""
    if data_type in TIMES:
        return pa.int32() if data_type == DATE else pa.int64()
    return type_to_arrow(data_type)


def typed_column(carrier: Column, data_type: DataType, spark_type: Any) -> Column:
    """Convert a column of ordered values to a column of ``data_type``."""
    from pyspark.sql import functions as F

    match data_type:
        case Primitive("timestamp"):
            return F.timestamp_micros(carrier.cast("bigint"))
        case Primitive("timestamp_ntz"):
            # Spark has no function from microseconds to timestamp_ntz that ignores the session's time zone.
            micros = carrier.cast("bigint")
            in_day = F.pmod(micros, F.lit(_DAY_US))
            days = (micros - in_day) / F.lit(_DAY_US)  # a double, which holds every number of days exactly
            seconds = in_day.cast("decimal(18,6)") / F.lit(Number(1_000_000))
            return F.lit("1970-01-01 00:00:00").cast("timestamp_ntz") + F.make_dt_interval(
                days.cast("int"), F.lit(0), F.lit(0), seconds.cast("decimal(18,6)")
            )
        case Primitive("date"):
            return F.date_from_unix_date(carrier.cast("int"))
    return carrier.cast(spark_type)


def value_column(value: Any, data_type: DataType, spark_type: Any) -> Column:
    """Convert one ordered value, or None, to a constant of ``data_type``."""
    from pyspark.sql import functions as F

    if value is None:
        return F.lit(None).cast(spark_type)
    return typed_column(F.lit(value), data_type, spark_type)


def is_translatable(predicate: Predicate) -> bool:
    """Whether `condition_column` can translate a bound predicate. It cannot if one term uses several columns."""
    match predicate:
        case And(left, right) | Or(left, right):
            return is_translatable(left) and is_translatable(right)
        case Not(operand):
            return is_translatable(operand)
        case Constant() | Comparison() | In() | StartsWith() | IsNull():
            return True
    return False


def condition_column(predicate: Predicate, spark_types: Any) -> Column:
    """Translate a bound predicate to a boolean Spark column.

    Args:
        predicate: A predicate for which `is_translatable` is true.
        spark_types: The table's columns, a ``StructType``.
    """
    from pyspark.sql import functions as F

    match predicate:
        case And(left, right):
            return condition_column(left, spark_types) & condition_column(right, spark_types)
        case Or(left, right):
            return condition_column(left, spark_types) | condition_column(right, spark_types)
        case Not(operand):
            return ~condition_column(operand, spark_types)
        case Constant(value):
            return F.lit(value).cast("boolean")
        case IsNull(path):
            return _column(path).isNull()
        case StartsWith(path, prefix):
            return _column(path).startswith(prefix)
        case Comparison(path, sign, value, data_type) if data_type is not None:
            column, (constant,) = _comparable(path, (value,), data_type, spark_types)
            compared = _COMPARED[sign](column, constant)
            assert not isinstance(compared, bool)
            return compared
        case In(path, values, has_null, data_type) if data_type is not None:
            column, constants = _comparable(path, values, data_type, spark_types)
            found = column.isin(*constants)
            return F.when(found, F.lit(True)) if has_null else found
    raise TypeError(f"this predicate has no translation to a Spark column: {predicate!r}")


def _comparable(
    path: Path, values: Iterable[Any], data_type: DataType, spark_types: Any
) -> tuple[Column, list[Column]]:
    """A column and constants in one type. Floats are compared as doubles: 0.1 is none of them, and lies below the
    nearest one."""
    kind = _spark_type(path, spark_types)
    if data_type == Primitive("float"):
        from pyspark.sql.types import DoubleType

        data_type, kind = Primitive("double"), DoubleType()
        return _column(path).cast(kind), [value_column(each, data_type, kind) for each in values]
    return _column(path), [value_column(each, data_type, kind) for each in values]


def _column(path: Path) -> Column:
    from pyspark.sql import functions as F

    return F.col(".".join(map(backquoted, path)))


def _spark_type(path: Path, spark_types: Any) -> Any:
    return functools.reduce(lambda kind, name: kind[name].dataType, path, spark_types)
