"""Intervals inside an expression: what a time is moved by, what two times are apart, and what is made of that.

In: bound operands, of which some are an `Interval`. Out: bound expressions of whole numbers of months or microseconds.
An interval is a part of an expression: it ends in a time, a number or a condition, since no column of a table can hold
one. A query's own columns have the type `IntervalType`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from txlog.core.format.schema import (
    BYTE,
    DATE,
    INTEGER,
    LONG,
    TIMES,
    TIMESTAMP,
    VOID,
    DataType,
    Decimal,
    Primitive,
    TypeFacts,
    timestamp_of,
    type_name,
)
from txlog.core.predicates._build import (
    arithmetic,
    call,
    cast_to,
    chosen,
    clock_of,
    compare,
    convert,
    instant_of,
    is_null,
    literal,
)
from txlog.core.predicates._operands import typed
from txlog.core.predicates.terms.predicate import Constant
from txlog.core.predicates.terms.tree import CallSql, Expression, Reference, Value
from txlog.core.predicates.terms.types import is_integer

_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000
_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_SIZES = {"year": 12, "month": 1, "day": _DAY, "hour": _HOUR, "minute": _MINUTE, "second": _SECOND}
_UNITS = {**_SIZES, "week": 7 * _DAY, "millisecond": 1000, "microsecond": 1}
_DAY_TO_SECOND = re.compile(r"([+-]?)(\d{1,9}) (\d\d):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")
_YEAR_TO_MONTH = re.compile(r"([+-]?)(\d{1,4})-(\d\d?)")
_ALIKE = {"days": "day", "d": "day", "hours": "hour", "hrs": "hour", "minutes": "minute", "mins": "minute"}
_ALIKE |= {"seconds": "second", "secs": "second", "years": "year", "months": "month", "mons": "month"}


class IntervalType(Primitive, frozen=True):
    """The type of a query's column of days and times, which duckdb has as microseconds."""

    first: str
    last: str

    @property
    def facts(self) -> TypeFacts:
        return TypeFacts(arrow=pa.duration("us"), is_ordered=False, has_bounds=False, duckdb="BIGINT")

    @staticmethod
    def of(ends: Iterable[str]) -> IntervalType:
        """The type with the fields from the first of these to the last."""
        found = sorted(ends, key=_FIELDS.index)
        fields = found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"
        return IntervalType(f"interval {fields}", found[0], found[-1])

    def around(self, other: IntervalType) -> IntervalType:
        """The type with the fields of both."""
        return IntervalType.of((self.first, self.last, other.first, other.last))


class Interval(Expression, frozen=True):
    """A number of months or of microseconds, with the fields from the first to the last that its type has in Spark."""

    count: Expression
    first: str
    last: str

    @property
    def is_of_months(self) -> bool:
        return self.first in ("year", "month")

    @property
    def type(self) -> DataType:
        return IntervalType.of((self.first, self.last))

    def __str__(self) -> str:
        return f"an interval of {self.count} {'months' if self.is_of_months else 'microseconds'}"


# --- how an interval begins ---------------------------------------------------------------------------------------


def of_unit(count: int, unit: str) -> Interval:
    """``INTERVAL count unit``."""
    unit = unit.lower().removesuffix("s")
    if unit not in _UNITS:
        raise ValueError(f"there is no interval of a {unit}; there are {', '.join(_UNITS)}")
    field = {"week": "day", "millisecond": "second", "microsecond": "second"}.get(unit, unit)
    kind = INTEGER if field in ("year", "month") else LONG
    return Interval(convert(literal(count * _UNITS[unit]), kind), field, field)


def of_fields(text: str, first: str, last: str) -> Interval:
    """``INTERVAL '1 02:03:04.5' DAY TO SECOND``, or ``'1-2' YEAR TO MONTH``."""
    fields = first.lower(), last.lower()
    days, months = _DAY_TO_SECOND.fullmatch(text), _YEAR_TO_MONTH.fullmatch(text)
    if fields == ("day", "second") and days is not None and int(days[3]) < 24:
        parts = [int(days[at]) * size for at, size in ((2, _DAY), (3, _HOUR), (4, _MINUTE), (5, _SECOND))]
        count = sum(parts) + int((days[6] or "").ljust(6, "0"))
        return Interval(convert(literal(-count if days[1] == "-" else count), LONG), *fields)
    if fields == ("year", "month") and months is not None and int(months[3]) < 12:
        count = int(months[2]) * 12 + int(months[3])
        return Interval(literal(-count if months[1] == "-" else count), *fields)
    raise ValueError("an interval of several fields is '1 02:03:04' DAY TO SECOND or '1-2' YEAR TO MONTH")


def make_day_time(*given: Expression) -> Interval:
    """``make_dt_interval(days, hours, minutes, seconds)``."""
    if len(given) > 4:
        raise ValueError(f"make_dt_interval() takes at most 4 values, not {len(given)}")
    count: Expression = convert(literal(0), LONG)
    for value, field in zip(given, ("day", "hour", "minute", "second"), strict=False):
        if field == "second" and not is_integer(value.type):
            if not isinstance(value.type, Decimal):
                raise ValueError(f"make_dt_interval() takes seconds as a decimal, not {type_name(value.type)}")
            whole = arithmetic("*", cast_to(value, Decimal(18, 6)), literal(_SECOND))
            part = cast_to(whole, LONG)
        else:
            part = arithmetic("*", convert(typed_integer(value, "make_dt_interval"), LONG), long(_SIZES[field]))
        count = arithmetic("+", count, part)
    return Interval(count, "day", "second")


def make_year_month(years: Expression | None = None, months: Expression | None = None) -> Interval:
    """``make_ym_interval(years, months)``."""
    name = "make_ym_interval"
    whole = arithmetic("*", typed_integer(years or literal(0), name), literal(12))
    return Interval(arithmetic("+", whole, typed_integer(months or literal(0), name)), "year", "month")


def typed_integer(value: Expression, name: str) -> Expression:
    is_small = is_integer(value.type) and value.type != LONG
    return convert(value, INTEGER) if is_small else typed(value, INTEGER, name)


def long(number: int) -> Expression:
    return convert(literal(number), LONG)


def apart(end: Expression, start: Expression) -> Interval:
    """``end - start`` of two times: of dates the days, else what clocks show."""
    if end.type == start.type == DATE:
        days = convert(call("datediff", (end, start), INTEGER), LONG)
        return Interval(arithmetic("*", days, long(_DAY)), "day", "day")
    return Interval(arithmetic("-", _microseconds(end), _microseconds(start)), "day", "second")


def _microseconds(moment: Expression) -> Expression:
    """Since 1970, of what clocks show."""
    clock = convert(moment, timestamp_of(has_zone=False)) if moment.type == DATE else clock_of(moment)
    is_instant = clock.type == TIMESTAMP
    sql = "unix_micros({})" if is_instant else f"datediff(MICROSECOND, {Value(0, clock.type)}, {{}})"
    return call("to_epoch", (clock,), LONG, (1, CallSql(sql)))


# --- what is made of it -------------------------------------------------------------------------------------------


def combined(operator: str, left: Expression, right: Expression) -> Expression:
    """``left operator right``, of which one is an interval, or both."""
    if isinstance(left, Interval) and isinstance(right, Interval):
        return _both(operator, left, right)
    if isinstance(left, Interval):
        if operator == "+" and right.type in TIMES:
            return moved(right, left)
        if operator in ("*", "/"):
            return _scaled(operator, left, right)
    elif isinstance(right, Interval):
        if operator in ("+", "-") and left.type in TIMES:
            return moved(left, right if operator == "+" else negated(right))
        if operator == "*":
            return _scaled(operator, right, left)
    other = right if isinstance(left, Interval) else left
    raise ValueError(f"cannot compute an interval and a value of type {type_name(other.type)} by {operator}")


def _both(operator: str, left: Interval, right: Interval) -> Interval:
    if operator not in ("+", "-"):
        raise ValueError(f"intervals have no {operator}: CAST both to a number of seconds, as CAST(a - b AS BIGINT)")
    _check_alike(left, right)
    ends = sorted((left.first, left.last, right.first, right.last), key=_FIELDS.index)
    return Interval(arithmetic(operator, left.count, right.count), ends[0], ends[-1])


def _check_alike(left: Interval, right: Interval) -> None:
    if left.is_of_months != right.is_of_months:
        raise ValueError("an interval of months and one of days have no common type")


def _scaled(operator: str, interval: Interval, factor: Expression) -> Interval:
    if not is_integer(factor.type) or (operator == "/" and interval.is_of_months):
        raise ValueError(
            f"an interval has no {operator} with a {type_name(factor.type)}: CAST it to a number, as"
            " CAST(a - b AS BIGINT)"
        )
    if operator == "/":
        operands = interval.count, convert(factor, LONG)
        count = call(
            "divided_half_up", operands, LONG, (CallSql("CAST(round({} / CAST({} AS DECIMAL(20, 0))) AS BIGINT)"),)
        )
    else:
        count = arithmetic("*", interval.count, convert(factor, INTEGER) if interval.is_of_months else factor)
    return Interval(count, *(("year", "month") if interval.is_of_months else ("day", "second")))


def cast_to_interval(value: Expression, unit: str) -> Interval:
    """``CAST(value AS INTERVAL HOUR)``: so many of a number, or the whole ones of an interval."""
    unit = unit.lower()
    if unit not in _SIZES:
        raise ValueError(f"a CAST to an interval takes one of {', '.join(_SIZES)}, not {unit}")
    kind = INTEGER if unit in ("year", "month") else LONG
    size = convert(literal(_SIZES[unit]), kind)
    if not isinstance(value, Interval):
        if not is_integer(value.type) or (value.type == LONG and kind == INTEGER):
            raise ValueError(f"a CAST of {type_name(value.type)} to an interval is not supported: CAST it to INT")
        return Interval(arithmetic("*", convert(value, kind), size), unit, unit)
    if value.is_of_months != (kind == INTEGER):
        raise ValueError("an interval of months and one of days have no common type")
    return Interval(arithmetic("*", arithmetic("div", value.count, size), size), unit, unit)


def negated(interval: Interval) -> Interval:
    count = interval.count
    return Interval(call("negate", (count,), count.type), interval.first, interval.last)


def moved(moment: Expression, interval: Interval) -> Expression:
    """``moment + interval``: clocks show the same time whole days and months later."""
    clock, count = clock_of(moment), interval.count
    if interval.is_of_months:
        sql = CallSql("({} + make_ym_interval(0, {}))")
        return instant_of(call("add_months", (clock, count), clock.type, (sql,)), moment)
    if moment.type == DATE:
        if interval.last == "day":
            return call("date_add", (moment, cast_to(arithmetic("div", count, long(_DAY)), INTEGER)), DATE)
        moment = cast_to(moment, TIMESTAMP)
        clock = clock_of(moment)
    sql = CallSql("({} + make_dt_interval(0, 0, 0, CAST({} AS DECIMAL(20, 0)) / 1000000))")
    if clock.type == moment.type:
        return call("moved", (moment, count), moment.type, (1, sql))
    days = arithmetic("*", arithmetic("div", count, long(_DAY)), long(_DAY))
    later = instant_of(call("moved", (clock, days), clock.type, (1, sql)), moment)
    return call("moved", (later, arithmetic("%", count, long(_DAY))), moment.type, (1, sql))


def compared(operator: str, left: Expression, right: Expression) -> Expression:
    """``left operator right``, of two values or of two intervals."""
    if not isinstance(left, Interval) and not isinstance(right, Interval):
        return compare(operator, left, right)
    if not (isinstance(left, Interval) and isinstance(right, Interval)):
        one, other = (left, right) if isinstance(left, Interval) else (right, left)
        if other.type == VOID:
            return is_null(one.count) if operator == "<=>" else Constant(None)  # type: ignore[attr-defined]
        raise ValueError(f"an interval is compared with an interval, not with {type_name(other.type)}")
    _check_alike(left, right)
    return compare(operator, left.count, right.count)


def part(word: str, interval: Interval) -> Expression:
    """``EXTRACT(word FROM interval)``."""
    field = _ALIKE.get(word.lower(), word.lower())
    first, last = (_FIELDS.index(each) for each in (interval.first, interval.last))
    if field not in _FIELDS[first : last + 1]:
        raise ValueError(f"EXTRACT({word.upper()}) takes an interval with that field, not one from {interval.first}")
    count = interval.count
    if field in ("year", "day"):
        return cast_to(arithmetic("div", count, _like(count, _SIZES[field])), INTEGER)
    around = {"month": 12, "hour": _DAY, "minute": _HOUR, "second": _MINUTE}[field]
    rest = arithmetic("%", count, _like(count, around))
    if field == "second":
        return cast_to(arithmetic("/", cast_to(rest, Decimal(8, 0)), literal(_SECOND)), Decimal(8, 6))
    return cast_to(arithmetic("div", rest, _like(count, _SIZES[field])), BYTE)


def _like(count: Expression, number: int) -> Expression:
    return convert(literal(number), count.type)


def as_number(interval: Interval, data_type: DataType) -> Expression:
    """``CAST(interval AS BIGINT)``: in its last field."""
    if not is_integer(data_type):
        raise ValueError(
            f"an interval is no {type_name(data_type)}: CAST it AS BIGINT, which is its number of"
            f" {'months' if interval.is_of_months else interval.last + 's'}"
        )
    whole = arithmetic("div", interval.count, _like(interval.count, _SIZES[interval.last]))
    return cast_to(whole, data_type)


# --- intervals as values --------------------------------------------------------------------------------------------


def chosen_of(conditions: Sequence[Expression], values: Sequence[Expression]) -> Expression:
    """``CASE WHEN condition THEN value ... ELSE value END``, of values or of intervals."""
    return _like_intervals(values, lambda given: chosen(conditions, given))


def called(make: Callable[..., Expression], name: str, operands: Sequence[Expression]) -> Expression:
    """``coalesce(...)`` and the like, of values or of intervals."""
    if not any(isinstance(each, Interval) for each in operands):
        return make(operands)
    if name in ("isnull", "isnotnull"):
        return make([each.count if isinstance(each, Interval) else each for each in operands])
    if name not in _OF_INTERVALS:
        raise unwanted()
    conditions = operands[: _OF_INTERVALS[name]]
    return _like_intervals(operands[len(conditions) :], lambda given: make([*conditions, *given]))


_OF_INTERVALS = dict.fromkeys(("coalesce", "nvl", "ifnull", "greatest", "least", "nullif", "abs", "negative"), 0)
_OF_INTERVALS |= {"if": 1, "nvl2": 1}
"""Functions that make an interval of intervals, and how many operands of another type are in front."""


def _like_intervals(values: Sequence[Expression], make: Callable[[list[Expression]], Expression]) -> Expression:
    """What is made of the numbers of intervals, as an interval with the fields of all."""
    intervals = [each for each in values if isinstance(each, Interval)]
    if not intervals:
        return make(list(values))
    others = [each for each in values if not isinstance(each, Interval) and each.type != VOID]
    if others:
        raise ValueError(f"an interval and a value of type {type_name(others[0].type)} have no common type")
    for each in intervals:
        _check_alike(intervals[0], each)
    ends = sorted((end for each in intervals for end in (each.first, each.last)), key=_FIELDS.index)
    count = make([each.count if isinstance(each, Interval) else each for each in values])
    return Interval(count, ends[0], ends[-1])


def of_column(found: Expression) -> Expression:
    """A query's column: as an interval, if it is one."""
    if isinstance(found, Reference) and isinstance(found.type, IntervalType):
        return Interval(Reference(found.path, LONG, found.side), found.type.first, found.type.last)
    return found


def unwanted() -> ValueError:
    return ValueError(
        "an interval is no value here: it is a part of an expression, as in ts + (b - a) or b - a > INTERVAL 1 DAY, and"
        " one of days and times may be a column of a query. Write CAST(b - a AS BIGINT) for its seconds, or"
        " datediff(b, a) for days"
    )


INTERVALS: dict[str, Callable[..., Interval]] = {
    "make_dt_interval": make_day_time,
    "make_ym_interval": make_year_month,
}
"""Functions that make intervals."""
