"""What of a bound expression duckdb computes itself: only what has Spark's value there, by name and operand types.

In: a bound tree, and duckdb's text for each column of it. Out: duckdb's text; or None, and the expression is computed
by `txlog.core.predicates._evaluate` in a function that duckdb calls. integration/test_spark_sql_values.py compares both
ways with Spark.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    TIMESTAMPS,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    type_name,
)
from txlog.core.predicates import pattern_parts
from txlog.core.predicates.terms.predicate import (
    And,
    BooleanExpression,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StartsWith,
)
from txlog.core.predicates.terms.tree import Call, Expression, Path, Reference, Value
from txlog.core.predicates.terms.types import is_floating, is_integer
from txlog.core.predicates.terms.zones import UTC

OWN_ERROR = "txlog: "
"""What the messages begin with that txlog has duckdb raise."""
_DAYS = (-719_162, 2_932_896)  # the years 1 to 9999
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_OF_ASCII = ("upper", "lower")
"""duckdb has the other case of some letters beyond ASCII as other letters."""
_WIDEST = 38
_STRFTIME = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def duckdb_type(data_type: DataType) -> str:
    """duckdb's name of a type."""
    match data_type:
        case Primitive() if data_type.facts.duckdb:
            return data_type.facts.duckdb
        case Decimal(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case Array(element):
            return f"{duckdb_type(element)}[]"
        case Map(key, value):
            return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
        case Struct(fields):
            return f"STRUCT({', '.join(f'{identifier(each.name)} {duckdb_type(each.type)}' for each in fields)})"
    raise ValueError(f"duckdb has no type {type_name(data_type)}")


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def literal(value: Any, data_type: DataType) -> str | None:
    """A value of this type, in the form that bound expressions have it; None if duckdb cannot write it."""
    if value is None:
        return f"CAST(NULL AS {duckdb_type(data_type)})"
    if isinstance(data_type, Decimal):
        return f"CAST('{decimal.Decimal(value):f}' AS {duckdb_type(data_type)})"
    if is_integer(data_type):
        return f"CAST({value} AS {duckdb_type(data_type)})"
    if is_floating(data_type):
        shown = "nan" if math.isnan(value) else repr(float(value))
        return f"CAST('{shown}' AS {duckdb_type(data_type)})"
    match data_type:
        case _ if data_type == BOOLEAN:
            return "true" if value else "false"
        case _ if data_type == STRING:
            return None if "\0" in value else text_literal(value)
        case _ if data_type == BINARY:
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case _ if data_type == DATE and _DAYS[0] <= value <= _DAYS[1]:
            return f"(DATE '1970-01-01' + CAST({value} AS INTEGER))"
        case _ if data_type == TIMESTAMP and _MICROSECONDS[0] <= value <= _MICROSECONDS[1]:
            return f"make_timestamptz(CAST({value} AS BIGINT))"
        case _ if data_type in TIMESTAMPS and _MICROSECONDS[0] <= value <= _MICROSECONDS[1]:
            return f"make_timestamp(CAST({value} AS BIGINT))"
    return None


def native(
    node: Expression, columns: Mapping[str, str], otherwise: Callable[[Expression], str] | None = None
) -> str | None:
    """The text for duckdb, whose value has the type of ``node``. ``otherwise`` gives the call of a function with an
    expression's value, for the rows in which duckdb's may be another one."""
    try:
        return _ExpressionWriter(columns, otherwise).text(node)
    except _NotNative:
        return None


class _NotNative(Exception):
    """duckdb has no text with this value."""


class _ExpressionWriter:
    def __init__(self, columns: Mapping[str, str], otherwise: Callable[[Expression], str] | None) -> None:
        self.columns, self.otherwise = columns, otherwise

    def text(self, node: Expression) -> str:
        match node:
            case Reference(path):
                return self.column(path)
            case Value(value, data_type):
                return self.literal(value, data_type)
            case Constant(value):
                return self.literal(value, BOOLEAN)
            case Comparison(path, operator, value, data_type):
                assert data_type is not None
                return f"({self.column(path)} {operator} {self.literal(value, data_type)})"
            case In():
                return self.membership(node)
            case StartsWith(path, prefix):
                return f"starts_with({self.column(path)}, {self.literal(prefix, STRING)})"
            case IsNull(path):
                return f"({self.column(path)} IS NULL)"
            case Not(operand):
                return f"(NOT {self.text(operand)})"
            case BooleanExpression(condition):
                return self.text(condition)
            case And(left, right):
                return self.connected(left, "AND", right)
            case Or(left, right):
                return self.connected(left, "OR", right)
            case Call():
                return self.call(node)
        raise _NotNative

    def column(self, path: Path) -> str:
        found = self.columns[path[0]]
        for name in path[1:]:
            found = f"struct_extract({found}, {text_literal(name)})"
        return found

    def literal(self, value: Any, data_type: DataType) -> str:
        found = literal(value, data_type)
        if found is None:
            raise _NotNative
        return found

    def membership(self, node: In) -> str:
        """For values that Arrow cannot take from duckdb without another package, the column is a CASE: duckdb then
        compares itself."""
        column = self.column(node.path)
        data_type = node.column_type
        assert data_type is not None
        if data_type in TIMES:
            column = f"CASE WHEN {column} IS NULL THEN NULL ELSE {column} END"
        values = [self.literal(value, data_type) for value in node.values]
        if not values:
            return f"(CASE WHEN {column} IS NULL{' OR true' if node.has_null else ''} THEN NULL ELSE false END)"
        return f"({column} IN ({', '.join([*values, *['NULL'] * node.has_null])}))"

    def connected(self, left: Expression, word: str, right: Expression) -> str:
        """An operand that may fail is not computed in duckdb, which may compute it for a row that the other decides."""
        from txlog.core.predicates import can_fail

        if can_fail(left) or can_fail(right):
            raise _NotNative
        return f"({self.text(left)} {word} {self.text(right)})"

    def call(self, node: Call) -> str:
        if node.name in _OF_ASCII and self.otherwise is not None:
            text = self.text(node.arguments[0])
            same = f"{text} IS NULL OR strlen({text}) = length({text})"
            return f"CASE WHEN {same} THEN {node.name}({text}) ELSE {self.otherwise(node)} END"
        types = [argument.type for argument in node.arguments]
        write = _CALLS.get(node.name)
        found = None if write is None else write(node, types, [self.text(each) for each in node.arguments])
        if found is None:
            raise _NotNative
        return found


def raised(message: str, kind: str) -> str:
    """What raises an error in the place of a value."""
    return f"CAST(error({text_literal(OWN_ERROR + message)}) AS {kind})"


Write = Callable[[Call, list[DataType], list[str]], "str | None"]


def _compared(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    left, right = types
    is_known = left == right and isinstance(left, Primitive) and left.facts.is_ordered
    if not is_known and not (isinstance(left, Decimal) and isinstance(right, Decimal) and left.scale == right.scale):
        return None
    operator = "IS NOT DISTINCT FROM" if node.name == "<=>" else node.name
    return f"({texts[0]} {operator} {texts[1]})"


def _added(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    """Of integers, with their overflows; of doubles; and of decimals whose digits all have a place."""
    if is_integer(node.type):
        return f"({texts[0]} {node.name} {texts[1]})"
    if node.type == DOUBLE:
        return f"({texts[0]} {node.name} {texts[1]})"
    if not isinstance(node.type, Decimal) or node.type.precision >= _WIDEST:
        return None
    one, other = types
    assert isinstance(one, Decimal)
    assert isinstance(other, Decimal)
    if node.name == "*":
        left = f"CAST({texts[0]} AS DECIMAL({_WIDEST - other.precision}, {one.scale}))"
        return f"CAST({left} * {texts[1]} AS {duckdb_type(node.type)})"
    wide = f"DECIMAL({_WIDEST - 1}, {node.type.scale})"
    return f"CAST(CAST({texts[0]} AS {wide}) {node.name} CAST({texts[1]} AS {wide}) AS {duckdb_type(node.type)})"


def _divided(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    """Of whole numbers and doubles; a division by zero is an error, and not duckdb's null."""
    if not all(map(is_integer, types)) and not (node.name == "/" and node.type == DOUBLE):
        return None
    operator = {"div": "//"}.get(node.name, node.name)
    divisor = node.arguments[1]
    divided = f"({texts[0]} {operator} {texts[1]})"
    if isinstance(divisor, Value) and divisor.value not in (None, 0, -1):
        return divided
    if operator == "%":  # of the least number and -1, duckdb's is an overflow
        divided = f"CASE WHEN {texts[1]} = -1 THEN {texts[0]} * 0 ELSE {divided} END"
    error = raised(f"{node.failed}: divide by zero{node.or_null}", duckdb_type(node.type))
    return f"CASE WHEN {texts[1]} = 0 AND {texts[0]} IS NOT NULL THEN {error} ELSE {divided} END"


def _negated(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    return f"(-{texts[0]})" if is_integer(node.type) or isinstance(node.type, Decimal) else None


def _is_null(node: Call, types: list[DataType], texts: list[str]) -> str:
    return f"({texts[0]} IS NULL)"


def _case(node: Call, types: list[DataType], texts: list[str]) -> str:
    pairs = zip(texts[:-1:2], texts[1::2], strict=True)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CASE {branches} ELSE {texts[-1]} END"


def _cast(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    (source,), target = types, node.type
    if (node.options or (UTC,))[0] == UTC and source in TIMES and target in TIMES:
        if target == TIMESTAMP:
            return f"make_timestamptz(epoch_us({texts[0]}))"
        return f"CAST({_clock(texts[0], source)} AS {duckdb_type(target)})"
    if is_floating(source) and is_integer(target):  # duckdb rounds, and is an error for the same values
        return f"CAST(trunc({texts[0]}) AS {duckdb_type(target)})"
    to_wider = is_integer(source) and is_integer(target)
    of_whole = is_integer(source) and (target in (DOUBLE, STRING) or isinstance(target, Decimal))
    is_decimal = isinstance(source, Decimal) and isinstance(target, Decimal) and target.scale >= source.scale
    return f"CAST({texts[0]} AS {duckdb_type(target)})" if to_wider or of_whole or is_decimal else None


def _clock(text: str, data_type: DataType) -> str:
    """What clocks in UTC show, without duckdb's slower rules of zones."""
    return f"make_timestamp(epoch_us({text}))" if data_type == TIMESTAMP else text


def _rounded(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    """Half away from zero, as CAST rounds a decimal in duckdb."""
    (source,), digits = types, node.options[0]
    if not isinstance(source, Decimal) or digits < 0:
        return None
    return f"CAST({texts[0]} AS {duckdb_type(node.type)})"


def _part(node: Call, types: list[DataType], texts: list[str]) -> str:
    return f"CAST({node.name}({_clock(texts[0], types[0])}) AS INTEGER)"


def _written(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    """A time by a pattern, whose parts have the same digits in duckdb."""
    parts = pattern_parts(node.options[0], node.name)
    if any(part[0].isalpha() and part not in _STRFTIME for part in parts):
        return None
    written = text_literal("".join(_STRFTIME.get(part, part.strip("'")) for part in parts))
    clock = _clock(texts[0], types[0])
    error = raised("date_format() takes years from 1 to 9999", "VARCHAR")
    first, last = (f"make_timestamp(CAST({end} AS BIGINT))" for end in _MICROSECONDS)
    return f"CASE WHEN {clock} < {first} OR {clock} > {last} THEN {error} ELSE strftime({clock}, {written}) END"


def _like(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    pattern = literal(node.options[0], STRING)
    return None if pattern is None else f"({texts[0]} LIKE {pattern} ESCAPE '\\')"


def _substring(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    start, stop = node.options[:2]
    if types != [STRING] or start < 0 or (stop is not None and stop < start):
        return None
    length = "" if stop is None else f", {stop - start}"
    return f"substring({texts[0]}, {start + 1}{length})"


def _trimmed(node: Call, types: list[DataType], texts: list[str]) -> str:
    return f"{node.name}({texts[0]}, ' ')"


def _shifted(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    return f"({texts[0]} {'+' if node.name == 'date_add' else '-'} {texts[1]})" if types == [DATE, INTEGER] else None


def _called(name: str, *types: DataType) -> Write:
    def write(node: Call, given: list[DataType], texts: list[str]) -> str | None:
        found = f"{name}({', '.join(texts)})"
        kind = f"CAST({found} AS {duckdb_type(node.type)})" if node.type in (INTEGER, LONG) else found
        return None if tuple(given) != types or node.options else kind

    return write


def _joined(node: Call, types: list[DataType], texts: list[str]) -> str | None:
    return f"({' || '.join(texts)})" if set(types) == {STRING} and not node.options else None


_CALLS: dict[str, Write] = {
    **dict.fromkeys((*_COMPARISONS, "<=>"), _compared),
    **dict.fromkeys(("+", "-", "*"), _added),
    **dict.fromkeys(("/", "div", "%"), _divided),
    **dict.fromkeys(("year", "month", "day", "quarter", "hour", "minute", "second"), _part),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _trimmed),
    "date_format": _written,
    "like": _like,
    "substring": _substring,
    **dict.fromkeys(("date_add", "date_sub"), _shifted),
    "negate": _negated,
    "is_null": _is_null,
    "case": _case,
    "coalesce": lambda node, types, texts: f"coalesce({', '.join(texts)})",
    "cast": _cast,
    "round": _rounded,
    "concat": _joined,
    "length": _called("length", STRING),
    "isnan": lambda node, types, texts: f"coalesce(isnan({texts[0]}), false)",
    "startswith": _called("starts_with", STRING, STRING),
    "endswith": _called("ends_with", STRING, STRING),
    "contains": _called("contains", STRING, STRING),
}
"""How duckdb writes each operator and function that has Spark's value there, for operands of these types."""
