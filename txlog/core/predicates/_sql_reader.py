"""Converts sqlglot's tree. Each method accepts the nodes whose every part it knows, and refuses all others.

In: a parsed text and the columns that it may name. Out: bound expressions from ``build`` and ``functions``. An
overlooked flag could change which rows are deleted, so it checks the flags of every node.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from sqlglot import exp

from txlog.core.format.schema import (
    BOOLEAN,
    DATE,
    LONG,
    PARSED_TYPES,
    STRING,
    TIMES,
    TIMESTAMP,
    VOID,
    DataType,
    Decimal,
    timestamp_of,
    type_name,
)
from txlog.core.format.schema_input import from_any
from txlog.core.predicates._build import (
    arithmetic,
    as_condition,
    balanced,
    call,
    cast_to,
    check_sign,
    compare,
    is_null,
    like,
    like_any_case,
    like_column,
    literal,
    member,
    try_cast_to,
)
from txlog.core.predicates._grammar import SUFFIXES, NullSafeEQ, plain_equal
from txlog.core.predicates._intervals import (
    INTERVALS,
    Interval,
    apart,
    as_number,
    called,
    cast_to_interval,
    chosen_of,
    combined,
    compared,
    negated,
    of_column,
    of_fields,
    of_unit,
    part,
    unwanted,
)
from txlog.core.predicates._lambdas import LAMBDA_FUNCTIONS, LambdaScope
from txlog.core.predicates._scope import Scope
from txlog.core.predicates.terms.predicate import And, Constant, Not, Or, Predicate, UnlikeTextError
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Path, Value
from txlog.core.predicates.terms.types import is_integer, is_numeric
from txlog.core.predicates.terms.values import fit, parse_date, parse_timestamp
from txlog.core.predicates.terms.zones import current_zone
from txlog.errors import InvalidInputError

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    NullSafeEQ: "<=>",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
_RANKS: dict[type[exp.Expression], int] = {
    exp.BitwiseOr: 1,
    exp.BitwiseXor: 2,
    exp.BitwiseAnd: 3,
    exp.BitwiseLeftShift: 4,
    exp.BitwiseRightShift: 4,
    exp.DPipe: 5,
}
"""How tightly operators bind in Spark, which the parser takes for alike, from the left. ``||`` binds as ``+`` does."""
_NOT_COMPARED: tuple[type[exp.Expression], ...] = (
    exp.Not,
    exp.Between,
    exp.In,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.Escape,
    exp.Is,
    exp.NullSafeNEQ,
)
"""What is no operand of a comparison without parentheses, as no comparison is on the right: in Spark all comparisons
bind alike, from the left, and more tightly than these; sqlglot reads ``a = b IN (c)`` as ``a = (b IN (c))``."""
_CONDITIONS: tuple[type[exp.Expression], ...] = (exp.And, exp.Or, *_NOT_COMPARED, *_COMPARISONS)
_NAMES = {"AtTimeZone": "AT TIME ZONE", "RegexpLike": "RLIKE", "CurrentDate": "current_date", "Anonymous": "a function"}

_INSTEAD = {
    "AtTimeZone": "Write from_utc_timestamp(at, 'Europe/Berlin') for the time that clocks there showed",
    "SimilarTo": "Write LIKE or RLIKE",
    "Any": "Write one comparison for each value, with OR between them",
    "Window": "Compute it first: it is a value of several rows",
    "Select": "Compute it first, and write its values",
    "Subquery": "Compute it first, and write its values",
    "Exists": "Compute it first, and write its values",
    "Interval": "Write one whole number and its unit, as INTERVAL 3 DAYS, or INTERVAL '1 02:03:04' DAY TO SECOND",
}
"""The nearest to write for constructs that cannot be evaluated."""

_OF_TWO = ("aggregate", "reduce", "zip_with")
"""Functions with a lambda behind two operands."""
_MOVED = ("dateadd", "date_add", "timestampadd")
_BETWEEN = ("datediff", "date_diff", "timestampdiff")
_OF_UNITS = (*_MOVED, *_BETWEEN)

_OF_THE_READER = (
    *("current_date", "current_timestamp", "current_timezone", "date_part", "datepart", "localtimestamp", "now"),
    *("position", "sequence", "struct", "unix_timestamp"),
)
"""Functions that the reader takes apart itself."""


class _UnquotedDateError(InvalidInputError):
    """The library's ``InvalidInputError``, for ``2026-11-20`` without quotes, which is a number."""

    kind = "InvalidInputError"


class SqlReader:
    """Reads one text."""

    Mistake = (_UnquotedDateError, UnlikeTextError)
    """The errors for what is wrong in every engine: text that means something else than its author thinks."""

    @staticmethod
    def check_call(name: str) -> None:
        """Raises ``ValueError`` if no function has this name, which is in lower case, whatever its arguments are."""
        if name not in (*_OF_THE_READER, *_OF_UNITS, *INTERVALS, *LAMBDA_FUNCTIONS):
            from txlog.core.predicates._functions import check_function

            check_function(name)

    def __init__(self, sql_text: str, scope: Scope) -> None:
        self.sql_text = sql_text
        self.scope = scope
        self._shown = repr(sql_text if len(sql_text) <= 200 else sql_text[:200] + "...")

    # --- conditions -------------------------------------------------------------------------------------------

    def whole_condition(self, node: exp.Expression) -> Predicate:
        """Read a whole text as a condition, which NULL alone is not."""
        inner = node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if not isinstance(inner, _CONDITIONS) and self.value(inner).type == VOID:
            raise self._wrong(
                node, ValueError("a condition is a boolean, and NULL has no type: write CAST(NULL AS BOOLEAN)")
            )
        return self.condition(node)

    def condition(self, node: exp.Expression) -> Predicate:
        """Read a node as a condition."""
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            self._takes(node, "this", "expression")
            if isinstance(node.this, _NOT_COMPARED) or isinstance(node.expression, (*_NOT_COMPARED, *_COMPARISONS)):
                raise self._wrong(node, ValueError("two conditions in a row: put parentheses around one of them"))
            left, right = self.operand(node.this), self.operand(node.expression)
            return self._built(node, lambda: compared(operator, left, right))
        match node:
            case exp.And() | exp.Or():
                return self._chain(node)
            case exp.Not():
                self._takes(node, "this")
                return Not(self.condition(node.this))
            case exp.Paren():
                self._takes(node, "this")
                return self.condition(node.this)
            case exp.Between():
                self._takes(node, "this", "low", "high")
                operand = self.operand(node.this)
                low, high = self.operand(node.args["low"]), self.operand(node.args["high"])
                above = self._built(node, lambda: compared(">=", operand, low))
                return And(above, self._built(node, lambda: compared("<=", operand, high)))
            case exp.In():
                if not node.expressions:
                    raise self._refused(node, "IN without a list of values, such as IN (1, 2),")
                self._takes(node, "this", "expressions")
                if isinstance(node.this, exp.Tuple):
                    return self._in_tuples(node)
                operand = self.operand(node.this)
                if isinstance(operand, Interval):
                    spans = [self.operand(each) for each in node.expressions]
                    equal = [self._built(node, lambda each=each: compared("=", operand, each)) for each in spans]  # type: ignore[misc]
                    return balanced(equal, Or)
                items = self._items(node.expressions)
                return self._built(node, lambda: member(operand, items))
            case exp.Like() | exp.ILike():
                return self._like(node)
            case exp.Escape() if isinstance(node.this, exp.Like | exp.ILike):
                self._takes(node, "this", "expression")
                return self._like(node.this, node.expression)
            case exp.RegexpLike():
                self._takes(node, "this", "expression", "negate")
                operand, pattern = self.value(node.this), self.value(node.expression)
                from txlog.core.predicates._functions import function

                found = self._built(node, lambda: function("rlike", [operand, pattern]))
                return Not(found) if node.args.get("negate") else found
            case exp.Is():
                return self._is(node)
            case exp.NullSafeNEQ():
                self._takes(node, "this", "expression")
                left, right = self.value(node.this), self.value(node.expression)
                return Not(self._built(node, lambda: compare("<=>", left, right)))
        value = self.value(node)
        return self._built(node, lambda: value)

    def _in_tuples(self, node: exp.In) -> Predicate:
        """``(a, b) IN ((1, 2), (3, 4))``, in which NULL equals NULL, as in a struct."""
        operands = [self.value(each) for each in node.this.expressions]
        found: list[Predicate] = []
        for given in node.expressions:
            values = [self.value(each) for each in given.expressions] if isinstance(given, exp.Tuple) else []
            if len(values) != len(operands):
                raise self._wrong(node, ValueError(f"IN compares {len(operands)} values with as many in parentheses"))
            pairs = list(zip(operands, values, strict=True))
            for one, other in pairs:
                if one.type != other.type:
                    types = f"{type_name(one.type)} with {type_name(other.type)}"
                    raise self._wrong(node, ValueError(f"IN of several values compares no {types}: CAST one of them"))
            equal = [self._built(node, lambda pair=pair: compare("<=>", *pair)) for pair in pairs]  # type: ignore[misc]
            found.append(balanced(equal, And))
        return balanced(found, Or)

    def _items(self, nodes: Sequence[exp.Expression]) -> list[Expression]:
        """The values of a list, to which a parameter that is a list adds each of its own."""
        found: list[Expression] = []
        for node in nodes:
            given = self._given(node) if isinstance(node, exp.Placeholder) else None
            found += map(literal, given) if isinstance(given, list) else [self.value(node)]
        return found

    def _built(self, node: exp.Expression, make: Callable[[], Expression]) -> Predicate:
        try:
            return as_condition(make())
        except ValueError as error:
            raise self._wrong(node, error) from None

    def _chain(self, node: exp.Expression) -> Predicate:
        """Read a chain of ANDs, or of ORs, as a balanced tree."""
        kind = type(node)
        terms: list[exp.Expression] = []
        waiting = [node]
        while waiting:
            term = waiting.pop()
            if type(term) is kind:
                self._takes(term, "this", "expression")
                waiting += [term.expression, term.this]
            else:
                terms.append(term)
        return balanced([self.condition(term) for term in terms], And if kind is exp.And else Or)

    def _like_several(self, node: exp.Expression, escape: Any) -> Predicate:
        """``s LIKE ANY ('a%', 'b%')`` and ``ALL``: with NOT, each comparison is negated."""
        patterns = node.expression.this
        items = patterns.expressions if isinstance(patterns, exp.Tuple) else [getattr(patterns, "this", None)]
        if not all(isinstance(each, exp.Literal) and each.is_string for each in items):
            raise self._refused(node.expression, "LIKE ANY or ALL of other patterns than literal strings")
        given = {**node.args, "expression": None}
        terms = [self._like(type(node)(**{**given, "expression": each}), escape) for each in items]
        return balanced(terms, Or if isinstance(node.expression, exp.Any) else And)

    def _like(self, node: exp.Expression, escape: Any = None) -> Predicate:
        """Newer sqlglot releases represent NOT LIKE by a flag on the node, older ones by a NOT around it."""
        self._takes(node, "this", "expression", "negate")
        if isinstance(node.expression, exp.Any | exp.All):
            return self._like_several(node, escape)
        operand, pattern = self.value(node.this), self.value(node.expression)
        is_text = isinstance(pattern, Value) and (isinstance(pattern.value, str) or pattern.value is None)
        if not is_text and (escape is not None or isinstance(node, exp.ILike) or pattern.type != STRING):
            raise self._refused(node, "a pattern of ILIKE, or with ESCAPE, that is not a literal string")
        make = like_any_case if isinstance(node, exp.ILike) else like
        if not isinstance(pattern, Value):
            found = self._built(node, lambda: like_column(operand, pattern))
        elif pattern.value is None:
            found = Constant(None)
        else:
            text = str(pattern.value)
            found = self._built(node, lambda: make(operand, text if escape is None else _escaped(text, escape)))
        return Not(found) if node.args.get("negate") else found

    def _is(self, node: exp.Expression) -> Predicate:
        self._takes(node, "this", "expression")
        operand, what = self.operand(node.this), node.expression
        if isinstance(what, exp.Null):
            return self._built(node, lambda: is_null(operand.count if isinstance(operand, Interval) else operand))
        if isinstance(what, exp.Boolean):
            truth = Value(bool(what.this), BOOLEAN, bool(what.this))
            return self._built(node, lambda: compare("<=>", operand, truth))
        raise self._refused(node)

    # --- values -----------------------------------------------------------------------------------------------

    def value(self, node: exp.Expression) -> Expression:
        """Read a node as a value. A condition is a boolean value."""
        found = self.operand(node)
        if isinstance(found, Interval):
            raise self._wrong(node, unwanted())
        return found

    def operand(self, node: exp.Expression) -> Expression:
        """Read a node as a part of an expression: a value, or an interval."""
        if isinstance(node, _CONDITIONS):
            return self.condition(node)
        try:
            found = self._value(node)
        except ValueError as error:
            raise self._wrong(node, error) from None
        operator = _ARITHMETIC.get(type(node))
        if operator and isinstance(found, Call) and any(map(_has_a_cast, found.arguments)):
            return msgspec.structs.replace(found, written=f"{_text(node.this)} {operator} {_text(node.expression)}")
        return found

    def _check_order(self, node: exp.Expression) -> None:
        """Raise for operators without parentheses that Spark binds in another order than the parser."""
        mine, other = _RANKS.get(type(node)), node.args.get("expression")
        below = _RANKS.get(type(node.this)) if isinstance(node.this, exp.Expression) else None
        is_looser = mine is not None and below is not None and below < mine
        if not is_looser and not (isinstance(node, exp.DPipe) and isinstance(other, (exp.Add, exp.Sub))):
            return
        raise ValueError("operators that bind differently stand side by side: put parentheses around one of them")

    def _value(self, node: exp.Expression) -> Expression:
        self._check_order(node)
        operator = _ARITHMETIC.get(type(node))
        if operator is not None:
            self._takes(node, "this", "expression", "typed", "safe")
            return self._arithmetic(operator, node)
        match node:
            case exp.Paren():
                self._takes(node, "this")
                return self.operand(node.this)
            case exp.Interval():
                return self._span(node)
            case exp.Column() | exp.Dot() | exp.Identifier():
                return self._column(node)
            case exp.Placeholder():
                return self._parameter(node)
            case exp.Null() | exp.Boolean() | exp.Literal() | exp.HexString() | exp.RawString():
                return literal(self._literal(node))
            case exp.Neg():
                return self._negated(node)
            case exp.BitwiseNot() | exp.BitwiseLeftShift() | exp.BitwiseRightShift():
                return self._bits(node)
            case exp.Cast() if type(node) is exp.Cast:
                return self._cast(node)
            case exp.TryCast():
                self._takes(node, "this", "to", "safe")
                operand = self.value(node.this)
                return try_cast_to(operand, self._type(node, operand.type))
            case exp.Concat() if all(isinstance(each, exp.Literal) for each in node.expressions):  # 'a' 'b'
                return literal("".join(str(each.this) for each in node.expressions))
            case exp.DPipe():
                self._takes(node, "this", "expression", "safe")
                from txlog.core.predicates._string_functions import concat

                return concat(self.value(node.this), self.value(node.expression))
            case exp.Case():
                return self._case(node)
            case exp.If():
                self._takes(node, "this", "true", "false")
                false = node.args.get("false")
                otherwise = literal(None) if false is None else self.operand(false)
                return chosen_of([self.condition(node.this)], [self.operand(node.args["true"]), otherwise])
            case exp.Extract():
                self._takes(node, "this", "expression")
                return self._extracted(str(node.this.this), node.expression)
            case exp.CurrentDate() | exp.CurrentTimestamp():
                self._takes(node)
                return self._moment("current_date" if isinstance(node, exp.CurrentDate) else "current_timestamp")
            case exp.Bracket():
                return self._item(node)
            case exp.JSONExtract():
                return self._inside(node)
            case exp.Anonymous():
                return self._function(node)
            case exp.Transform():
                self._takes(node, "this", "expression")
                return self._with_lambda(node, "transform", [node.this, node.expression])
        raise self._refused(node)

    def _arithmetic(self, operator: str, node: exp.Expression) -> Expression:
        one, other = node.this, node.expression
        if isinstance(one, exp.Interval) and isinstance(other, exp.Interval):
            raise ValueError("write an interval of several units as INTERVAL '1 02:00:00' DAY TO SECOND")
        if isinstance(one, exp.Interval) and operator == "+":
            one, other = other, one
        left = self.operand(one)
        is_of_one_unit = isinstance(other, exp.Interval) and isinstance(other.args.get("unit"), exp.Var)
        if is_of_one_unit and operator in ("+", "-") and not isinstance(left, Interval):
            from txlog.core.predicates._time_functions import shifted_by

            return shifted_by(left, *self._interval(other, 1 if operator == "+" else -1))
        right = self.operand(other)
        if isinstance(left, Interval) or isinstance(right, Interval):
            return combined(operator, left, right)
        if operator == "-" and left.type in TIMES and right.type in TIMES:
            return apart(left, right)
        return arithmetic(operator, left, right)

    def _span(self, node: exp.Interval) -> Interval:
        """``INTERVAL 3 DAYS``, ``INTERVAL '1 02:03:04' DAY TO SECOND``."""
        unit = node.args.get("unit")
        if not isinstance(unit, exp.IntervalSpan):
            return of_unit(*self._interval(node, 1))
        self._takes(node, "this", "unit")
        return of_fields(str(node.this.this), str(unit.this.this), str(unit.expression.this))

    def _extracted(self, word: str, node: exp.Expression) -> Expression:
        value = self.operand(node)
        if isinstance(value, Interval):
            return part(word, value)
        from txlog.core.predicates._time_functions import extracted

        return extracted(word, value)

    def _function(self, node: exp.Expression) -> Expression:
        from txlog.core.predicates._collection_functions import times_between
        from txlog.core.predicates._functions import function

        self._takes(node, "this", "expressions")
        name = str(node.this).lower()
        if name in ("current_date", "current_timestamp", "now") and not node.expressions:
            return self._moment(name)
        arguments = node.expressions
        if name == "unix_timestamp" and not arguments:
            return function(name, [self._moment("current_timestamp")])
        if name == "position" and len(arguments) == 1 and isinstance(arguments[0], exp.In):  # position(a IN b)
            self._takes(arguments[0], "this", "field")
            arguments = [arguments[0].this, arguments[0].args["field"]]
        if name == "localtimestamp" and not arguments:
            return cast_to(self._moment(name), timestamp_of(has_zone=False))
        if name == "current_timezone" and not arguments:
            return self._session_zone()
        if name == "sequence" and len(arguments) == 3:
            start, stop, step = self.value(arguments[0]), self.value(arguments[1]), self.operand(arguments[2])
            if isinstance(step, Interval):
                if not isinstance(step.count, Value) or not isinstance(step.count.value, int):
                    raise ValueError("sequence() takes a literal interval, such as INTERVAL 1 DAY")
                return times_between(start, stop, step.count.value, is_of_months=step.is_of_months)
            return function(name, [start, stop, step])
        if name in _OF_UNITS and len(arguments) == 3:
            return self._of_unit(name, arguments)
        if name in ("date_part", "datepart") and len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
            return self._extracted(str(arguments[0].this), arguments[1])
        if name in INTERVALS:
            return INTERVALS[name](*map(self.value, arguments))
        if arguments and isinstance(arguments[-1], exp.Lambda):
            return self._with_lambda(node, name, arguments)
        if name == "struct" and any(isinstance(argument, exp.Alias) for argument in arguments):
            return self._struct(arguments)
        return called(lambda given: function(name, given), name, [self.operand(each) for each in arguments])

    def _of_unit(self, name: str, arguments: Sequence[exp.Expression]) -> Expression:
        """``dateadd(DAY, 1, x)``, ``datediff(DAY, x, y)``: in front is a word."""
        word, *operands = arguments
        if not isinstance(word, exp.Column) or len(word.parts) > 1 or word.this.args.get("quoted"):
            raise ValueError(f"{name}() of three values takes a unit in front, such as {name}(DAY, ...)")
        from txlog.core.predicates._time_functions import between, moved

        return (moved if name in _MOVED else between)(str(word.name), *map(self.value, operands))

    def _bits(self, node: exp.Expression) -> Expression:
        """``~n``, ``n << 2``, ``n >> 2``."""
        self._takes(node, "this", "expression")
        operand = self.value(node.this)
        if not isinstance(node, exp.BitwiseNot):
            from txlog.core.predicates._functions import function

            name = "shiftleft" if isinstance(node, exp.BitwiseLeftShift) else "shiftright"
            return function(name, [operand, self.value(node.expression)])
        if not is_integer(operand.type):
            raise ValueError(f"~ takes a whole number, not {type_name(operand.type)}")
        return call("~", (operand,), operand.type, (CallSql("~{}"),))

    def _with_lambda(self, node: exp.Expression, name: str, arguments: Sequence[Any]) -> Expression:
        """``name(values, ..., x -> body)``."""
        *operands, last = arguments
        counts, make = LAMBDA_FUNCTIONS.get(name, ((), None))
        if make is None or not isinstance(last, exp.Lambda) or len(operands) != (2 if name in _OF_TWO else 1):
            raise self._refused(node, f"a lambda in {name}()")
        self._takes(last, "this", "expressions")
        names = [str(each.name) for each in last.expressions]
        if len(names) not in counts or len({name.lower() for name in names}) < len(names):
            raise ValueError(f"the lambda of {name}() has {' or '.join(map(str, counts))} variables of different names")

        def body(types: Sequence[DataType]) -> tuple[Expression, LambdaScope]:
            scope = LambdaScope(self.scope, names, types)
            return type(self)(self.sql_text, scope).value(last.this), scope  # type: ignore[arg-type]

        return make(*map(self.value, operands), body)

    def _struct(self, nodes: Sequence[exp.Expression]) -> Expression:
        """``struct(a AS x, b)``."""
        from txlog.core.predicates._functions import function

        pairs: list[Expression] = []
        for at, node in enumerate(nodes, 1):
            if isinstance(node, exp.Alias):
                self._takes(node, "this", "alias")
                name, node = str(node.alias), node.this
            else:
                name = str(node.name) if isinstance(node, (exp.Column, exp.Dot)) else f"col{at}"
            pairs += [literal(name), self.value(node)]
        return function("named_struct", pairs)

    def _interval(self, interval: exp.Interval, sign: int) -> tuple[int, str]:
        """The number and the unit."""
        self._takes(interval, "this", "unit")
        count, unit = interval.this, interval.args.get("unit")
        if isinstance(count, exp.Neg):
            count, sign = count.this, -sign
        written = str(count.this) if isinstance(count, exp.Literal) else ""
        if not re.fullmatch(r"[+-]?\d{1,9}", written) or not isinstance(unit, exp.Var):
            raise self._refused(interval, "an interval other than a whole number and a unit, such as INTERVAL 3 DAYS,")
        if str(unit.this).upper().removesuffix("S") == "QUARTER":
            raise self._refused(interval, "an interval of quarters, which Spark does not have,")
        return sign * int(written), str(unit.this)

    def _session_zone(self) -> Expression:
        if self.scope.now is None:
            raise ValueError("current_timezone() changes with the session: write the zone itself")
        return literal(current_zone())

    def _moment(self, name: str) -> Expression:
        if self.scope.now is None:
            raise ValueError(f"{name} changes over time: write the date or time itself")
        moment = fit(self.scope.now, TIMESTAMP).value
        now = Value(moment, TIMESTAMP)
        return cast_to(now, DATE) if name == "current_date" else now

    def _case(self, node: exp.Expression) -> Expression:
        self._takes(node, "this", "ifs", "default")
        operand = None if node.this is None else self.value(node.this)
        conditions: list[Expression] = []
        values: list[Expression] = []
        for branch in node.args["ifs"]:
            if operand is None:
                conditions.append(self._branch(branch.this))
            else:
                conditions.append(as_condition(compare("=", operand, self.value(branch.this))))
            values.append(self.operand(branch.args["true"]))
        default = node.args.get("default")
        return chosen_of(conditions, [*values, literal(None) if default is None else self.operand(default)])

    def _branch(self, node: exp.Expression) -> Predicate:
        """The condition of WHEN, which in Spark is a boolean: a NULL without a type is none."""
        value = self.value(node)
        if value.type == VOID:
            raise self._wrong(node, ValueError("WHEN takes a boolean, not NULL: write CAST(NULL AS BOOLEAN)"))
        return self._built(node, lambda: value)

    def _column(self, node: exp.Expression) -> Expression:
        if isinstance(node, exp.Dot) and not isinstance(_root(node), exp.Column | exp.Identifier):
            return self._field(node)
        path = self._path(node)
        try:
            return of_column(self.scope.find(path))
        except InvalidInputError as error:
            raise InvalidInputError(f"{error.template}{self._place(node)}") from None

    def _field(self, node: exp.Dot) -> Expression:
        """``values[0].name``: a field of what is no column."""
        self._takes(node, "this", "expression")
        if not isinstance(node.expression, exp.Identifier):
            raise self._refused(node, "this field")
        from txlog.core.predicates._nested_functions import field

        try:
            return field(self.value(node.this), str(node.expression.this))
        except InvalidInputError as error:
            raise InvalidInputError(f"{error.template}{self._place(node)}") from None

    def _item(self, node: exp.Bracket) -> Expression:
        """``values[0]``."""
        from txlog.core.predicates._nested_functions import item

        self._takes(node, "this", "expressions", "offset", "safe", "returns_list_for_maps")
        if len(node.expressions) != 1:
            raise self._refused(node)
        return item(self.value(node.this), self.value(node.expressions[0]))

    def _inside(self, node: exp.JSONExtract) -> Expression:
        """``v:a.b[0]``: a part of a variant."""
        self._takes(node, "this", "expression", "variant_extract", "requires_json")
        steps = node.expression.expressions if isinstance(node.expression, exp.JSONPath) else ()
        path = "$"
        for step in steps:
            match step:
                case exp.JSONPathRoot():
                    continue
                case exp.JSONPathKey():
                    path += f"['{step.this}']"
                case exp.JSONPathSubscript() if isinstance(step.this, int):
                    path += f"[{step.this}]"
                case _:
                    raise self._refused(node, "this path")
        from txlog.core.predicates._functions import function

        return function("variant_get", [self.value(node.this), literal(path)])

    def _path(self, node: exp.Expression) -> Path:
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            return (*self._path(node.this), str(node.expression.this))
        if isinstance(node, exp.Identifier):  # a variable of a lambda
            return (str(node.this),)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return tuple(str(part.this) for part in node.parts)
        raise self._refused(node, "a field of something that is not a column")

    # --- literals and casts -----------------------------------------------------------------------------------

    def _literal(self, node: exp.Expression) -> Any:
        match node:
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal():
                return str(node.this) if node.is_string else _number(str(node.this))
            case exp.RawString():
                return str(node.this)
            case exp.HexString():
                return bytes.fromhex(str(node.this).rjust(len(str(node.this)) + len(str(node.this)) % 2, "0"))
        return None

    def _parameter(self, node: exp.Expression) -> Expression:
        """``:name``."""
        value = self._given(node)
        if isinstance(value, list):
            raise ValueError(f"the parameter :{node.this} is a list, which only IN accepts: a IN (:{node.this})")
        return literal(value)

    def _given(self, node: exp.Expression) -> Any:
        self._takes(node, "this")
        if not isinstance(node.this, str):
            raise self._refused(node, "a parameter without a name")
        try:
            return self.scope.parameter(node.this)
        except ValueError as error:
            raise self._wrong(node, error) from None

    def _negated(self, node: exp.Expression) -> Expression:
        self._takes(node, "this")
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            value = self._literal(node.this)
            # The sign comes before the type: -2147483648 is an int, 2147483648 is not. A minus would round a decimal to
            # 28 digits.
            return literal(value.copy_negate() if isinstance(value, decimal.Decimal) else -value)
        operand = self.operand(node.this)
        if isinstance(operand, Interval):
            return negated(operand)
        if not is_numeric(operand.type):
            raise ValueError(f"cannot negate {type_name(operand.type)}")
        check_sign(operand)
        return call("negate", (operand,), operand.type)

    def _cast(self, node: exp.Expression) -> Expression:
        """``CAST(x AS type)``, ``x::type``, and the typed literals ``DATE '2026-11-20'``, ``1.5D``."""
        self._takes(node, "this", "to")
        operand = self.operand(node.this)
        if isinstance(node.args["to"].this, exp.Interval):
            return cast_to_interval(operand, str(node.args["to"].this.args["unit"]))
        if isinstance(operand, Interval):
            return as_number(operand, self._type(node, LONG))
        wanted = self._type(node, operand.type)
        if isinstance(operand, Value) and isinstance(operand.value, str):
            moment = _moment_of(operand.value, wanted)
            if moment is not None:
                return Value(fit(moment, wanted, self.scope.zone).value, wanted, moment)
        made = cast_to(operand, wanted)
        if isinstance(made, Call) and isinstance(operand, Value):
            raise ValueError(f"{operand.value!r} is not a value of type {type_name(wanted)}")
        return made

    def _type(self, node: exp.Expression, source: DataType) -> DataType:
        wanted = node.args["to"]
        if wanted.this.name in ("ARRAY", "MAP", "STRUCT"):
            return from_any({"value": wanted.sql(dialect="databricks")}).fields[0].type
        # Those of a nested type are types themselves.
        parameters = [parameter.sql() for parameter in wanted.expressions]
        if wanted.this.name == "DECIMAL" and len(parameters) <= 2 and all(text.isdigit() for text in parameters):
            precision, scale = [*map(int, parameters), *((10, 0)[len(parameters) :])]
            if 1 <= precision <= 38 and scale <= precision:
                return Decimal(precision, scale)
        known = PARSED_TYPES.get(wanted.this.name)
        if known is None or parameters:
            raise ValueError(f"a CAST to {wanted.sql(dialect='databricks')} is not supported")
        return known

    # --- refusals ---------------------------------------------------------------------------------------------

    def _takes(self, node: exp.Expression, *names: str) -> None:
        for name, value in node.args.items():
            if name not in names and value not in (None, False, [], ""):
                raise self._refused(node)

    def _refused(self, node: exp.Expression, what: str | None = None) -> InvalidInputError:
        construct = what or _NAMES.get(type(node).__name__, type(node).__name__.upper())
        instead = _INSTEAD.get(type(node).__name__) or (
            "Use comparison, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, arithmetic, CASE, CAST, or a function listed in"
            " docs/expressions.md"
        )
        return InvalidInputError(
            f"{construct} is not supported in an expression: {_text(node)}{self._place(node)}. {instead}"
        )

    def _wrong(self, node: exp.Expression, error: ValueError) -> InvalidInputError:
        dates = (re.fullmatch(r"(\d{4}) - (\d\d?) - (\d\d?)", _text(part)) for part in node.find_all(exp.Sub))
        if (date := next(filter(None, dates), None)) is not None:
            meant = "-".join(part.zfill(2) for part in date.groups())
            return _UnquotedDateError(f"a date without quotes{self._place(node)}: write DATE '{meant}'")
        if isinstance(error, InvalidInputError):
            is_placed = f" (in {self._shown}" in str(error)
            kind = UnlikeTextError if isinstance(error, UnlikeTextError) else InvalidInputError
            return error if is_placed else kind(f"{error.template}{self._place(node)}")
        of_bits = node.find(exp.BitwiseAnd, exp.BitwiseOr) is not None and "boolean" in str(error)
        hint = ". & and | are operators on bits: conditions are combined by AND and OR" if of_bits else ""
        return InvalidInputError(f"cannot read {_text(node)}{self._place(node)}: {error}{hint}")

    def _place(self, node: exp.Expression) -> str:
        """Where a node is, for an error message: the whole text, and the position if the parser knows it."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if not starts:
            return f" (in {self._shown})"
        return f" (in {self._shown}, at {line_and_column(self.sql_text, min(starts))})"


def line_and_column(text: str, at: int) -> str:
    """The place of a character, given its index, in the words of an error: ``line 1, column 9``."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"line {line}, column {column}"


def _has_a_cast(operand: Expression) -> bool:
    return "CAST(" in str(operand)


def _root(node: exp.Expression) -> exp.Expression:
    """What the fields are read of: ``a`` of ``a.b.c``."""
    while isinstance(node, exp.Dot):
        node = node.this
    return node


_SUFFIX_OF = {name: suffix for suffix, name in SUFFIXES.items()}


def _text(node: exp.Expression) -> str:
    return str(
        node.transform(plain_equal).transform(_as_written).sql(dialect="spark", normalize_functions=False)
    )  # RLIKE, as users write it


def _as_written(node: exp.Expression) -> exp.Expression:
    """``v:a.b`` and ``a AT TIME ZONE b``, in dialects that write them so, and ``1.0D``, of which the grammar makes a
    call."""
    if isinstance(node, exp.Anonymous) and node.this in _SUFFIX_OF:
        return exp.Var(this="".join([*(str(each.this) for each in node.expressions), _SUFFIX_OF[node.this]]))
    if isinstance(node, exp.AtTimeZone):  # which Spark lacks
        return exp.Var(this=node.sql(dialect="duckdb"))
    return exp.Var(this=node.sql(dialect="databricks")) if isinstance(node, exp.JSONExtract) else node


def _escaped(pattern: str, escape: exp.Expression) -> str:
    """A pattern of LIKE with another sign that escapes, as one with backslashes."""
    sign = str(escape.this) if isinstance(escape, exp.Literal) and escape.is_string else ""
    if len(sign) != 1:
        raise ValueError("ESCAPE takes a literal string of one character")
    found, at = "", 0
    while at < len(pattern):
        letter, at = pattern[at], at + 1
        if letter == sign:
            letter, at = pattern[at : at + 1], at + 1
            if letter not in ("%", "_", sign) or not letter:
                raise ValueError(f"in this LIKE pattern, {sign} must be followed by %, _ or another {sign}")
            found += letter if letter not in "%_\\" else f"\\{letter}"
        else:
            found += "\\\\" if letter == "\\" else letter
    return found


def _number(text: str) -> int | float | decimal.Decimal:
    """The number with the type that Spark gives it: 1 is an integer, 1.5 a decimal, 1e3 a double."""
    if text.isdigit():
        return int(text)
    if "e" not in text.lower():
        return decimal.Decimal(text)
    number = float(text)
    if number == float("inf"):
        raise ValueError("the number is too large for a double")
    return number


def _moment_of(text: str, data_type: DataType) -> datetime.date | datetime.datetime | None:
    """The date or time that a literal of the usual form means; None for others, and for other types."""
    if data_type not in TIMES:
        return None
    try:
        moment = parse_date(text) if data_type == DATE else parse_timestamp(text)
    except ValueError:
        return None
    has_zone = isinstance(moment, datetime.datetime) and moment.tzinfo is not None
    return moment if data_type == TIMESTAMP or not has_zone else None
