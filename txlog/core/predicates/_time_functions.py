"""The SQL functions of dates and times, and intervals: `TIME_FUNCTIONS`, in the zone of the text (`zones`).

In: bound operands. Out: bound expressions.
"""

from __future__ import annotations

from typing import Any

from txlog.core.format.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMPS,
    DataType,
    Decimal,
    type_name,
)
from txlog.core.format.time_zones import zone_name
from txlog.core.predicates._build import arithmetic, call, cast_to, clock_of, convert, instant_of, literal
from txlog.core.predicates._calendar_kernels import DAYS_OF_WEEK, UNITS_BETWEEN
from txlog.core.predicates._operands import Make, constant, day, instant, moment, of_types, typed
from txlog.core.predicates._time_patterns import pattern_parts
from txlog.core.predicates._time_reading import check_read
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Value
from txlog.core.predicates.terms.types import is_floating, is_integer, is_numeric
from txlog.core.predicates.terms.values import fit, parse_timestamp
from txlog.core.predicates.terms.zones import current_zone


def _date_part(name: str) -> Make:
    return lambda value: call(name, (day(value, name),), INTEGER)


def _time_part(name: str) -> Make:
    def make(value: Expression) -> Expression:
        return call(name, (clock_of(moment(value, name)),), INTEGER)

    return make


def extracted(word: str, value: Expression) -> Expression:
    """``EXTRACT(word FROM value)``. Raises ``ValueError`` for a word that Spark lacks."""
    part = _WORDS_OF_PARTS.get(word.lower())
    if part is None:
        raise ValueError(f"EXTRACT takes {', '.join(sorted(set(_WORDS_OF_PARTS.values())))}, and not {word}")
    if part == "second":
        return _extracted_second(value)
    if part == "dayofweek_iso":
        return call("+", (TIME_FUNCTIONS["weekday"][2](value), literal(1)), INTEGER)
    if part == "yearofweek":
        return call(part, (day(value, "EXTRACT"),), INTEGER, (CallSql("EXTRACT(YEAROFWEEK FROM {})"),))
    return TIME_FUNCTIONS[{"week": "weekofyear", "doy": "dayofyear"}.get(part, part)][2](value)


_WORDS_OF_PARTS = {
    word: part
    for part, words in {
        "year": "year y years yr yrs",
        "yearofweek": "yearofweek",
        "quarter": "quarter qtr",
        "month": "month mon mons months",
        "week": "week w weeks",
        "day": "day d days",
        "dayofweek": "dayofweek dow",
        "dayofweek_iso": "dayofweek_iso dow_iso",
        "doy": "doy",
        "hour": "hour h hours hr hrs",
        "minute": "minute m min mins minutes",
        "second": "second s sec seconds secs",
    }.items()
    for word in words.split()
}
"""The words of EXTRACT and date_part, and the part that each means."""


def _extracted_second(value: Expression) -> Expression:
    """With the fraction of the second, unlike ``second(value)``."""
    if value.type not in TIMESTAMPS:
        raise ValueError(f"EXTRACT(SECOND FROM ...) takes a timestamp, not {type_name(value.type)}")
    return call("extract_second", (clock_of(value),), Decimal(8, 6), (CallSql("EXTRACT(SECOND FROM {})"),))


def _shifted(name: str, what: str) -> Make:
    def make(value: Expression, count: Expression) -> Expression:
        if not is_integer(count.type) or count.type == LONG:
            raise ValueError(f"{name}() takes a number of {what} of type int, not {type_name(count.type)}")
        return call(name, (day(value, name), convert(count, INTEGER)), DATE)

    return make


def _datediff(end: Expression, start: Expression) -> Expression:
    return call("datediff", (day(end, "datediff"), day(start, "datediff")), INTEGER)


# --- texts ----------------------------------------------------------------------------------------------------


def _to_date(value: Expression, pattern: Expression | None = None) -> Expression:
    return cast_to(value, DATE) if pattern is None else _parsed("to_date", value, pattern, DATE)


def _to_timestamp(value: Expression, pattern: Expression | None = None) -> Expression:
    if pattern is None:
        return cast_to(value, TIMESTAMP)
    return cast_to(_parsed("to_timestamp", value, pattern, TIMESTAMP_NTZ), TIMESTAMP)


def _parsed(name: str, text: Expression, pattern: Expression, result: DataType) -> Expression:
    written = str(constant(pattern, str, name))
    if check_read(written, name):
        result = TIMESTAMP
    return call(name, (typed(text, STRING, name),), result, (written,))


def _date_format(value: Expression, pattern: Expression) -> Expression:
    written = str(constant(pattern, str, "date_format"))
    pattern_parts(written, "date_format")
    return call("date_format", (clock_of(instant(value, "date_format")),), STRING, (written,))


# --- units ----------------------------------------------------------------------------------------------------

_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_CLOCK_UNITS = {"day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second"}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


def _unit(operand: Expression, units: dict[str, str], name: str) -> str:
    written = str(constant(operand, str, name)).lower()
    if written not in units:
        raise ValueError(f"{name}() supports the units {', '.join(sorted(set(units.values())))}, not {written!r}")
    return units[written]


def _date_trunc(unit: Expression, value: Expression) -> Expression:
    given = instant(value, "date_trunc")
    name = _unit(unit, _UNITS | _CLOCK_UNITS, "date_trunc")
    if name in _UNITS.values():
        return cast_to(call("trunc", (day(given, "date_trunc"),), DATE, (name,)), TIMESTAMP)
    clock = clock_of(given)
    return instant_of(call("date_trunc", (clock,), clock.type, (name,)), given)


def _trunc(value: Expression, unit: Expression) -> Expression:
    return call("trunc", (day(value, "trunc"),), DATE, (_unit(unit, _UNITS, "trunc"),))


def _from_epoch(name: str, microseconds: int) -> Make:
    def make(number: Expression) -> Expression:
        if not is_integer(number.type):
            raise ValueError(f"{name}() takes a whole number, not {type_name(number.type)}: CAST it")
        return call("from_epoch", (convert(number, LONG),), TIMESTAMP, (microseconds, CallSql(f"{name}({{}})")))

    return make


def _to_epoch(name: str, microseconds: int) -> Make:
    options = microseconds, CallSql(f"{name}({{}})")
    return lambda value: call("to_epoch", (typed(value, TIMESTAMP, name),), LONG, options)


def _in_another_zone(name: str) -> Make:
    def make(moment: Expression, zone: Expression) -> Expression:
        if isinstance(moment, Value) and isinstance(moment.value, str):
            moment = Value(fit(parse_timestamp(moment.value), TIMESTAMP, current_zone()).value, TIMESTAMP)
        if moment.type in (DATE, TIMESTAMP_NTZ, STRING):
            moment = cast_to(moment, TIMESTAMP)
        written = zone_name(str(constant(zone, str, name)), what=name)
        return call(name, (typed(moment, TIMESTAMP, name),), TIMESTAMP, (written,))

    return make


def shifted_by(moment: Expression, count: int, unit: str) -> Expression:
    """``moment + INTERVAL count unit``. Raises ``ValueError`` for an unknown unit, and for hours after a date."""
    unit = unit.lower().removesuffix("s")
    if moment.type not in TIMES:
        raise ValueError(f"an interval is added to a date or a timestamp, not to {type_name(moment.type)}")
    sql = CallSql(f"({{}} + INTERVAL '{count}' {unit.upper()})")
    clock = clock_of(moment)
    if unit in _MONTHS:
        return instant_of(call("interval_months", (clock,), clock.type, (count * _MONTHS[unit], sql)), moment)
    if unit not in _MICROSECONDS:
        raise ValueError(f"there is no interval of a {unit}; there are {', '.join([*_MICROSECONDS, *_MONTHS])}")
    microseconds = count * _MICROSECONDS[unit]
    if moment.type == DATE and unit not in ("day", "week"):
        moment = cast_to(moment, TIMESTAMP)
        clock = clock_of(moment)
    if moment.type != DATE:
        return _later(moment, clock, microseconds, sql)
    return call("date_add", (moment, literal(microseconds // _MICROSECONDS["day"])), DATE)


def _later(moment: Expression, clock: Expression, microseconds: int, sql: CallSql) -> Expression:
    """As in Spark, the clock shows the same time some whole days later; what is left of the interval has its length."""
    if clock.type == moment.type:
        return call("interval_microseconds", (moment,), moment.type, (microseconds, sql))
    whole = abs(microseconds) // _MICROSECONDS["day"] * _MICROSECONDS["day"]
    days = whole if microseconds > 0 else -whole
    if not days:
        return call("interval_microseconds", (moment,), moment.type, (microseconds, sql))
    days_later = instant_of(call("interval_microseconds", (clock,), clock.type, (days, sql)), moment)
    if days == microseconds:
        return days_later
    return call("interval_microseconds", (days_later,), moment.type, (microseconds - days, CallSql("{}")))


# --- between two moments -----------------------------------------------------------------------------------------


def _months_between(end: Expression, start: Expression, rounded: Expression | None = None) -> Expression:
    is_rounded = True if rounded is None else constant(rounded, bool, "months_between")
    given = [instant(each, "months_between") for each in (end, start)]
    sql = CallSql(f"months_between({{}}, {{}}, {str(is_rounded).lower()})")
    return call("months_between", given, DOUBLE, (is_rounded, current_zone(), sql))


def _next_day(value: Expression, name: Expression) -> Expression:
    written = str(constant(name, str, "next_day"))
    if written.lower() not in DAYS_OF_WEEK:
        raise ValueError(f"next_day() takes a day of the week, such as 'MON', not {written!r}")
    options = written.lower(), CallSql.of("next_day({}, ", written, after=")")
    return call("next_day", (day(value, "next_day"),), DATE, options)


def _unix_time(value: Expression, pattern: Expression | None = None) -> Expression:
    """The seconds since 1970, cut towards it; of a text, by a pattern; of a time without a zone, as in UTC."""
    if value.type == STRING:
        value = _to_timestamp(value, literal("yyyy-MM-dd HH:mm:ss") if pattern is None else pattern)
    return call("unix_timestamp", (moment(value, "unix_timestamp"),), LONG)


def moved(unit: str, count: Expression, value: Expression) -> Expression:
    """``dateadd(unit, count, value)``, in which an hour has its length: a timestamp, of a date too."""
    given = value if value.type in TIMESTAMPS else instant(value, "dateadd")
    name = {"dayofyear": "day"}.get(unit.lower(), unit.lower())
    if name not in UNITS_BETWEEN:
        raise ValueError(f"dateadd() takes the units {', '.join(UNITS_BETWEEN)}, not {unit}")
    if not is_integer(count.type) or count.type == LONG:
        raise ValueError(f"dateadd() takes a count of type int, not {type_name(count.type)}")
    size, is_of_days = UNITS_BETWEEN[name], name in ("day", "week")
    if isinstance(count, Value) and isinstance(count.value, int) and (size < 0 or is_of_days):
        return shifted_by(given, count.value, name)
    clock, number, sql = clock_of(given), convert(count, INTEGER), CallSql(f"dateadd({name.upper()}, {{1}}, {{0}})")
    if size < 0:
        months = arithmetic("*", number, literal(-size))
        return instant_of(call("add_months", (clock, months), clock.type, (sql,)), given)
    moment = clock if is_of_days else given
    return instant_of(call("moved", (moment, number), moment.type, (size, sql)), given)


def between(unit: str, start: Expression, end: Expression) -> Expression:
    """``datediff(unit, start, end)``: the whole units that pass."""
    name = unit.lower()
    if name not in UNITS_BETWEEN:
        raise ValueError(f"datediff() takes the units {', '.join(UNITS_BETWEEN)}, not {unit}")
    clocks = [clock_of(instant(each, "datediff")) for each in (start, end)]
    return call("timestampdiff", clocks, LONG, (name, CallSql(f"datediff({name.upper()}, {{}}, {{}})")))


_UNITS_OF_EPOCH: dict[str, Any] = {"seconds": 1_000_000, "millis": 1000, "micros": 1}


def _to_timestamp_ntz(value: Expression, pattern: Expression | None = None) -> Expression:
    if pattern is None:
        return cast_to(value, TIMESTAMP_NTZ)
    found = _parsed("to_timestamp", value, pattern, TIMESTAMP_NTZ)
    if found.type != TIMESTAMP_NTZ:
        raise ValueError("to_timestamp_ntz() takes a pattern without an offset")
    return found


def _make_timestamp(*parts: Expression) -> Expression:
    """``make_timestamp(year, month, day, hour, minute, second)``."""
    *whole, second = parts
    numbers = [typed(each, INTEGER, "make_timestamp") for each in whole]
    if not is_numeric(second.type) or is_floating(second.type):
        raise ValueError(f"make_timestamp() takes seconds as a whole number or a decimal, not {type_name(second.type)}")
    clock = Call("make_timestamp", (*numbers, convert(second, Decimal(16, 6))), TIMESTAMP_NTZ)
    return convert(clock, TIMESTAMP)


TIME_FUNCTIONS: dict[str, tuple[int, int | None, Make]] = {
    "date_add": (2, 2, _shifted("date_add", "days")),
    "date_sub": (2, 2, _shifted("date_sub", "days")),
    "add_months": (2, 2, _shifted("add_months", "months")),
    "datediff": (2, 2, _datediff),
    "months_between": (2, 3, _months_between),
    "next_day": (2, 2, _next_day),
    "unix_timestamp": (1, 2, _unix_time),
    "last_day": (1, 1, lambda value: call("last_day", (day(value, "last_day"),), DATE)),
    "make_date": (3, 3, of_types("make_date", (INTEGER, INTEGER, INTEGER), DATE)),
    "to_date": (1, 2, _to_date),
    "to_timestamp": (1, 2, _to_timestamp),
    "to_timestamp_ntz": (1, 2, _to_timestamp_ntz),
    "make_timestamp": (6, 6, _make_timestamp),
    "date_trunc": (2, 2, _date_trunc),
    "trunc": (2, 2, _trunc),
    "date_format": (2, 2, _date_format),
    "from_utc_timestamp": (2, 2, _in_another_zone("from_utc_timestamp")),
    "to_utc_timestamp": (2, 2, _in_another_zone("to_utc_timestamp")),
    **{f"timestamp_{unit}": (1, 1, _from_epoch(f"timestamp_{unit}", size)) for unit, size in _UNITS_OF_EPOCH.items()},
    **{f"unix_{unit}": (1, 1, _to_epoch(f"unix_{unit}", size)) for unit, size in _UNITS_OF_EPOCH.items()},
    **{
        name: (1, 1, _date_part(name))
        for name in ("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "weekofyear")
    },
    **{name: (1, 1, _time_part(name)) for name in ("hour", "minute", "second")},
}
"""Name -> the minimum and maximum number of operands (None: any), and what builds the expression."""
