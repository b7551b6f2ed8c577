"""A condition of Polars or Narwhals as a bound condition, if it has the same value for every row.

In: a ``polars.Expr`` or ``narwhals.Expr``, and a schema. Out: a tree as from SQL text. Polars shows what an expression
is made of: the name of its operation in its serialized form, and its operands by ``meta.pop``. What Polars computes
otherwise than SQL (arithmetic that wraps, casts, a bigint compared as a double) is refused by name.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import orjson

from txlog.core.format.scalars import plain
from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPS,
    DataType,
    Decimal,
    Struct,
    to_arrow,
    type_name,
)
from txlog.core.predicates._build import as_condition, balanced, compare, is_null, literal, member
from txlog.core.predicates._functions import function
from txlog.core.predicates.terms.predicate import And, Not, Or, Predicate, resolve
from txlog.core.predicates.terms.tree import Expression, Reference, Value
from txlog.core.predicates.terms.types import is_floating, is_integer
from txlog.core.predicates.terms.values import as_float32
from txlog.core.util import described
from txlog.errors import InvalidInputError

_COMPARISONS = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">=", "EqValidity": "<=>"}
_CLOSED = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_ENDS = {"StartsWith": "startswith", "EndsWith": "endswith"}
_EXACT_IN_A_DOUBLE = 2**53


def is_frame_expression(value: object) -> bool:
    """Whether the caller passed an expression of Polars or Narwhals."""
    kind = type(value)
    return kind.__name__ == "Expr" and kind.__module__.partition(".")[0] in ("polars", "narwhals")


def read_frame_expression(expression: Any, schema: Struct) -> Predicate:
    """The bound condition.

    Raises:
        InvalidInputError: Names what is not understood, and what to write instead.
    """
    try:
        if type(expression).__module__.startswith("narwhals"):
            expression = _of_narwhals(expression, schema)
        return as_condition(_PolarsReader(schema).read(expression))
    except InvalidInputError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidInputError(
            f"the condition {described(str(expression))} cannot be translated exactly: {reason}. Write it with"
            " txlog.col or as SQL, or filter the rows that are read"
        ) from None


def _of_narwhals(expression: Any, schema: Struct) -> Any:
    """The same condition of Polars: Narwhals makes it where it filters a frame of Polars."""
    try:
        import narwhals
        import polars
    except ImportError as error:
        raise ValueError(f"a condition of Narwhals needs polars too ({error})") from None
    frame = polars.DataFrame(to_arrow(schema).empty_table()).lazy()
    made: Any = narwhals.from_native(frame).filter(expression).to_native()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the form is not stable: what is not known here is refused
        plan = orjson.loads(made.serialize(format="json"))
        return polars.Expr.deserialize(io.BytesIO(orjson.dumps(plan["Filter"]["predicate"])), format="json")


class _PolarsReader:
    def __init__(self, schema: Struct) -> None:
        self._schema = schema

    def read(self, node: Any) -> Expression:
        name, detail = self._operation(node)
        operands = [each for each in reversed(node.meta.pop()) if isinstance(each, type(node))]
        match name:
            case "Column":
                return self._column((str(detail),))
            case "Literal":
                return self._literal(node)
            case "Binary":
                return self._binary(str(detail), [self.read(each) for each in operands])
            case "Not":
                return Not(as_condition(self.read(operands[0])))
            case "AllHorizontal" | "AnyHorizontal":
                terms = [as_condition(self.read(each)) for each in operands]
                return balanced(terms, And if name == "AllHorizontal" else Or)
            case "IsNull" | "IsNotNull":
                found = as_condition(is_null(self.read(operands[0])))
                return found if name == "IsNull" else Not(found)
            case "IsNan" | "IsNotNan":
                return self._nan(self.read(operands[0]), "=" if name == "IsNan" else "!=")
            case "IsBetween":
                value, *ends = map(self.read, operands)
                signs = _CLOSED[detail["closed"]]
                return And(*(as_condition(_compared(s, value, end)) for s, end in zip(signs, ends, strict=True)))
            case "IsIn":
                return self._member(self.read(operands[0]), operands[1], detail)
            case "StartsWith" | "EndsWith":
                return function(_ENDS[name], [self.read(each) for each in operands])
            case "FieldByName":
                return self._field(self.read(operands[0]), str(detail))
        raise ValueError(f"there is no equivalent of {name}")

    @staticmethod
    def _operation(node: Any) -> tuple[str, Any]:
        """The name of the outermost operation, and what it says beside its operands."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = orjson.loads(node.meta.serialize(format="json"))
        ((kind, inside),) = found.items()
        if kind == "BinaryExpr":
            return "Binary", inside["op"]
        if kind != "Function":
            return kind, inside
        what = inside["function"]
        while isinstance(what, dict):
            ((name, within),) = what.items()
            if name not in ("Boolean", "StringExpr", "StructExpr"):
                return name, within
            what = within
        return str(what), None

    def _column(self, path: tuple[str, ...]) -> Reference:
        found, kind = resolve(path, self._schema)
        if found != path:
            raise ValueError(f"there is no column {path[0]}: Polars tells it from {found[0]}")
        return Reference(found, kind)

    def _field(self, parent: Expression, name: str) -> Expression:
        if not isinstance(parent, Reference):
            raise ValueError("a field of something that is not a column")
        return self._column((*parent.path, name))

    @staticmethod
    def _values(node: Any) -> list[Any]:
        """A literal's values. Raises ``ValueError`` for those that Python cannot hold."""
        import polars

        series = polars.select(node).to_series()
        if isinstance(series.dtype, polars.List):
            series = series.explode() if series.list.len().item() else series.explode().clear()
        is_ns = isinstance(series.dtype, polars.Datetime) and series.dtype.time_unit == "ns"
        if is_ns and (series.dt.nanosecond() % 1000).any():
            raise ValueError("it has a fraction of a microsecond")
        return [plain(each) for each in series.to_list()]

    def _literal(self, node: Any) -> Value:
        (value,) = self._values(node)
        return literal(value)

    def _binary(self, operator: str, operands: Sequence[Expression]) -> Expression:
        if operator in _COMPARISONS:
            return _compared(_COMPARISONS[operator], *operands)
        if operator == "NotEqValidity":
            return Not(as_condition(_compared("<=>", *operands)))
        if operator in ("And", "Or", "LogicalAnd", "LogicalOr") and all(each.type == BOOLEAN for each in operands):
            left, right = map(as_condition, operands)
            return And(left, right) if operator.endswith("And") else Or(left, right)
        raise ValueError(f"Polars and SQL may compute {operator} differently")

    @staticmethod
    def _nan(value: Expression, operator: str) -> Expression:
        if not is_floating(value.type):
            raise ValueError(f"{type_name(value.type)} has no NaN")
        return compare(operator, value, literal(float("nan")))

    def _member(self, value: Expression, items: Any, how: Any) -> Expression:
        values = self._values(items)
        if None in values or (isinstance(how, dict) and how.get("nulls_equal")):
            raise ValueError("Polars and SQL differ about null in a list")
        found = [literal(each) for each in values]
        for item in found:
            _check(value.type, item)
        return member(value, found)


def _compared(operator: str, left: Expression, right: Expression) -> Expression:
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Value):
            _check(other.type, value)
            return compare(operator, left, right)
    if left.type != right.type:
        raise ValueError(f"Polars may round where it compares {type_name(left.type)} with {type_name(right.type)}")
    return compare(operator, left, right)


def _check(kind: DataType, value: Value) -> None:
    """Raises ``ValueError`` if Polars converts the two to another type to compare them, which may round or fail."""
    if value.value is None or _is_alike(kind, value):
        return
    raise ValueError(f"Polars may round or fail where it compares {type_name(kind)} with {value}")


def _is_alike(kind: DataType, value: Value) -> bool:
    given = value.value
    if is_integer(kind):
        return is_integer(value.type) or (value.type == DOUBLE and kind != LONG)
    if kind in (FLOAT, DOUBLE) and (is_integer(value.type) or value.type == DOUBLE):
        assert isinstance(given, int | float)
        return (isinstance(given, float) or abs(given) <= _EXACT_IN_A_DOUBLE) and (
            kind == DOUBLE or given != given or as_float32(float(given)) == given
        )
    if isinstance(kind, Decimal):
        return isinstance(value.type, Decimal) and value.type.scale <= kind.scale
    if kind in TIMESTAMPS:
        is_zoned = getattr(value.written, "tzinfo", None) is not None
        return value.type == TIMESTAMP and is_zoned == (kind == TIMESTAMP)
    return kind in (STRING, BOOLEAN, BINARY, DATE) and value.type == kind
