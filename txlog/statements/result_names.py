"""Spark's name for a column of a query that has none: ``count(1)``, ``(a + b)``, ``CAST(a AS INT)``.

In: the expression as it was parsed, and the columns that it may name. Out: its name.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from sqlglot import exp

from txlog.core.format.schema import DATE, INTEGER, STRING, TIMES, DataType, Map, fold_name, type_name
from txlog.core.predicates import IntervalType, cast_to, float_text, lit
from txlog.core.predicates.terms.tree import Value

_OPERATORS: dict[str, str] = {
    **{"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div", "EQ": "=", "LT": "<", "LTE": "<="},
    **{"GT": ">", "GTE": ">=", "NullSafeEQ": "<=>", "And": "AND", "Or": "OR", "BitwiseAnd": "&", "BitwiseOr": "|"},
    **{"BitwiseXor": "^", "BitwiseLeftShift": "<<", "BitwiseRightShift": ">>"},
}
_TYPES = {"TEXT": "STRING", "VARCHAR": "STRING", "TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP"}
_TIMES: dict[str, DataType] = {type_name(kind).upper(): kind for kind in TIMES}
_TYPES |= {name.replace("_", ""): name for name in _TIMES}
_CASTS = frozenset(
    {
        *("tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "binary", "date"),
        "timestamp",
    }
)
"""Functions that are casts, which Spark does not show."""

_REALS = {"dOUBLE": pa.float64(), "fLOAT": pa.float32()}
_WITH_SUFFIX = frozenset({*_REALS, "bIGINT", "sMALLINT", "tINYINT"})
"""What the grammar makes of ``5D``, ``5F``, ``5L``, ``5S`` and ``5Y``; the names of the first two show the value."""

_IN_CAPITALS = frozenset(
    {
        *("ceil", "floor", "sqrt", "exp", "log", "log2", "log10", "power", "degrees", "radians", "signum", "pi", "e"),
        *("rank", "dense_rank", "percent_rank", "regexp_like", "regexp", "expm1", "log1p", "hypot", "atan2", "sin"),
        *("cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atanh", "cbrt"),
    }
)
_OTHER_NAMES = {"array_agg": "collect_list"}
_TRIMS = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}
_OF_UNITS = {
    **{(name, 3): "timestampadd" for name in ("dateadd", "date_add")},
    **{(name, 3): "timestampdiff" for name in ("datediff", "date_diff")},
}
"""Functions that are others with so many values: the first of them is a unit."""
_LEFT_OUT: dict[tuple[str, int], str] = {
    **{("round", 1): "0", ("bround", 1): "0", ("substring", 2): "2147483647", ("substr", 2): "2147483647"},
    **{("lpad", 2): " ", ("rpad", 2): " ", ("replace", 2): "", ("locate", 2): "1", ("position", 2): "1"},
    **{("regexp_replace", 3): "1", ("regexp_extract", 2): "1", ("split", 2): "-1", ("sort_array", 1): "true"},
    **{(name, 1): "yyyy-MM-dd HH:mm:ss" for name in ("from_unixtime", "unix_timestamp", "to_unix_timestamp")},
    **{("percentile", 2): "1", ("months_between", 2): "true", ("str_to_map", 1): ",, :", ("str_to_map", 2): ":"},
}
"""What Spark shows as the last value of a function that has so many."""

_WITHOUT_TYPE = {"from_json": 1, "variant_get": 2, "try_variant_get": 2}
"""Functions that are shown without the type that they make, and how many arguments they then have."""

_OF_INTERVALS = {"make_dt_interval": ["0", "0", "0", "0.000000"], "make_ym_interval": ["0", "0"]}
"""Functions that make intervals, and what they take by themselves."""
_RANKS = ("rank", "dense_rank", "percent_rank", "row_number", "ntile")
_BY_THE_FIRST = ("first", "first_value", "last", "last_value", "any_value")
_FOLDS = ("aggregate", "reduce")
_VARIABLE = "namedlambdavariable()"
_ORDER_OF_ARRAYS = (
    "lambdafunction((IF(((v IS NULL) AND (v IS NULL)), 0, (IF((v IS NULL), 1, (IF((v IS NULL), -1, (IF((v < v), -1,"
    " (IF((v > v), 1, 0)))))))))), v, v)"
).replace("v", _VARIABLE)
"""How array_sort() orders."""


class Known(msgspec.Struct, frozen=True):
    """What a query knows of the parts of its expressions: what WINDOW names, the type of a part, on which some names
    depend, and how many fields of structs the path of a column ends with."""

    windows: Mapping[str, Any] = {}
    type_of: Callable[[Any], DataType | None] = lambda node: None
    fields_of: Callable[[Any], int] = lambda node: 0


def result_name(node: Any, known: Known | None = None) -> str:
    """The name of a column that is computed so: of one that is only cast, its own."""
    known = known or Known()
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) and not known.fields_of(node.this):
        return str(node.this.name)
    inside = node.this if isinstance(node, exp.Cast) else node
    if isinstance(inside, exp.JSONExtract):
        return _last_key(inside)
    return _Namer(known, frozenset()).name(node)


class _Namer:
    def __init__(self, known: Known, variables: frozenset[str]) -> None:
        self.known, self.variables = known, variables
        """``variables`` are those of the lambdas around."""

    def name(self, node: Any) -> str:
        if isinstance(node, (exp.Add, exp.Sub)):
            return self.sum(node)
        operator = _OPERATORS.get(type(node).__name__)
        if operator == "*" and self.is_interval(node.expression):  # which Spark shows first
            return f"({self.name(node.expression)} * {self.name(node.this)})"
        if operator is not None:
            return f"({self.name(node.this)} {operator} {self.name(node.expression)})"
        write = _WRITERS.get(type(node).__name__)
        return str(node.sql(dialect="spark")) if write is None else write(self, node)

    def listed(self, nodes: Sequence[Any]) -> str:
        return ", ".join(map(self.name, nodes))

    # --- operators --------------------------------------------------------------------------------------------

    def sum(self, node: Any) -> str:
        """A sum or a difference; of a date, a number of days is a function's."""
        is_later = isinstance(node, exp.Add) and not isinstance(node.expression, exp.Interval)
        if is_later and isinstance(node.this, exp.Interval):  # Spark shows the moment first
            return self.sum(exp.Add(this=node.expression.copy(), expression=node.this.copy()))
        left, sign = self.name(node.this), "+" if isinstance(node, exp.Add) else "-"
        is_of_date = not isinstance(node.this, exp.Literal) and self.known.type_of(node.this) == DATE
        if isinstance(node.expression, exp.Interval) and not self.is_interval(node.this):
            shown, unit = _interval(node.expression)
            if not is_of_date or unit != "DAY":
                return f"{left} {sign} {shown}"
            days = f"extractansiintervaldays({shown})"
            return f"date_add({left}, {days if sign == '+' else f'(- {days})'})"
        right = self.name(node.expression)
        if self.is_interval(node.expression) and not self.is_interval(node.this):
            if not is_of_date or not self.is_of_days(node.expression):
                return f"{left} {sign} {right}"
            days = f"extractansiintervaldays({right})"
            return f"date_add({left}, {days if sign == '+' else f'(- {days})'})"
        if is_of_date and self.known.type_of(node.expression) != DATE:
            return f"{'date_add' if sign == '+' else 'date_sub'}({left}, {right})"
        return f"({left} {sign} {right})"

    def is_interval(self, node: Any) -> bool:
        match node:
            case exp.Interval():
                return True
            case exp.Paren() | exp.Neg():
                return self.is_interval(node.this)
            case exp.Anonymous() if str(node.this).lower() in _OF_INTERVALS:
                return True
            case exp.Cast():
                return isinstance(node.args["to"].this, exp.Interval)
            case exp.Div():
                return self.is_interval(node.this)
            case exp.Mul() | exp.Add():
                return self.is_interval(node.this) or (
                    self.is_interval(node.expression) and self.known.type_of(node.this) not in TIMES
                )
            case exp.Sub():
                sides = node.this, node.expression
                return all(map(self.is_interval, sides)) or all(self.known.type_of(each) in TIMES for each in sides)
        return isinstance(self.known.type_of(node), IntervalType)

    def is_of_days(self, node: Any) -> bool:
        """Whether it is an interval whose type has only days."""
        if isinstance(node, exp.Paren | exp.Neg):
            return self.is_of_days(node.this)
        if isinstance(node, exp.Cast):
            return self.is_interval(node) and str(node.args["to"].this.args["unit"]).upper() == "DAY"
        kind = None if isinstance(node, exp.Interval) else self.known.type_of(node)
        return isinstance(kind, IntervalType) and kind.last == "day"

    def negated(self, node: Any) -> str:
        inner = node.this
        has_suffix = isinstance(inner, exp.Anonymous) and str(inner.this) in _WITH_SUFFIX
        literal = inner.expressions[0] if has_suffix else inner
        if not isinstance(literal, exp.Literal):
            return f"(- {self.name(inner)})"
        is_zero = set(str(literal.this)) <= set("0.") and not (has_suffix and str(inner.this) in _REALS)
        return self.name(inner) if is_zero else f"-{self.name(inner)}"  # only a float has a zero with a sign

    def is_(self, node: Any) -> str:
        left, right = self.name(node.this), self.name(node.expression)
        return f"({left} {'IS' if isinstance(node.expression, exp.Null) else '<=>'} {right})"

    def not_(self, node: Any) -> str:
        if node.meta.get("is_not") and isinstance(node.this.expression, exp.Null):
            return f"({self.name(node.this.this)} IS NOT NULL)"
        if isinstance(node.this, exp.Like | exp.ILike) and isinstance(node.this.expression, exp.Any | exp.All):
            return f"not{self.like(node.this)}"
        return f"(NOT {self.name(node.this)})"

    def like(self, node: Any) -> str:
        if isinstance(node.expression, exp.Any | exp.All):
            word = f"{'not' * bool(node.args.get('negate'))}like{type(node.expression).__name__.lower()}"
            left = self.name(node.this)
            return f"{word}({f'lower({left})' if isinstance(node, exp.ILike) else left})"
        left, right = self.name(node.this), self.name(node.expression)
        shown = {"Like": f"{left} LIKE {right}", "ILike": f"ilike({left}, {right})"}.get(type(node).__name__)
        shown = f"RLIKE({left}, {right})" if shown is None else shown
        return f"(NOT {shown})" if node.args.get("negate") else shown

    def escaped(self, node: Any) -> str:
        """``s LIKE pattern ESCAPE '/'``, or ILIKE."""
        inner = node.this
        if isinstance(inner, exp.ILike):  # which Spark shows without it
            return self.like(inner)
        sign = self.name(node.expression)
        shown = f"{self.name(inner.this)} LIKE {self.name(inner.expression)} ESCAPE '{sign}'"
        return f"(NOT {shown})" if inner.args.get("negate") else shown

    # --- literals, casts and choices --------------------------------------------------------------------------

    def literal(self, node: Any) -> str:
        text = str(node.this)
        if node.is_string:
            return text
        if text.isdigit():
            return str(int(text))
        if "e" in text.lower():
            return _real(text, pa.float64())
        return str(decimal.Decimal(text))

    def cast(self, node: Any) -> str:
        kind = self.type(node.args["to"])
        is_text = isinstance(node.this, exp.Literal) and node.this.is_string and not isinstance(node, exp.TryCast)
        if is_text and kind in _TIMES and "action" not in node.args:  # which the text of CAST leaves
            return f"{kind} '{_time(str(node.this.this), _TIMES[kind])}'"
        if node.args["to"].this.name in ("ARRAY", "MAP", "STRUCT"):  # which Spark does not show
            return self.name(node.this)
        word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
        return f"{word}({self.name(node.this)} AS {kind})"

    def type(self, kind: Any) -> str:
        if isinstance(kind.this, exp.Interval):
            return f"INTERVAL {str(kind.this.args['unit']).upper()}"
        name = _TYPES.get(kind.this.name, kind.this.name)
        parameters = ",".join(parameter.sql() for parameter in kind.expressions)
        return f"{name}({parameters})" if parameters else str(name)

    def case(self, node: Any) -> str:
        operand = node.this
        parts = []
        for branch in node.args["ifs"]:
            condition = self.name(branch.this)
            condition = condition if operand is None else f"({self.name(operand)} = {condition})"
            parts.append(f"WHEN {condition} THEN {self.name(branch.args['true'])}")
        default = node.args.get("default")
        parts += [] if default is None else [f"ELSE {self.name(default)}"]
        return f"CASE {' '.join(parts)} END"

    def if_(self, node: Any) -> str:
        false = node.args.get("false")
        parts = [self.name(node.this), self.name(node.args["true"]), "NULL" if false is None else self.name(false)]
        return f"(IF({', '.join(parts)}))"

    def last_part(self, node: Any) -> str:
        if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier) and self.is_variable(node.this):
            return f"{_VARIABLE}.{node.name}"
        if isinstance(node, exp.Dot) and not isinstance(next(iter(node.flatten())), exp.Column | exp.Identifier):
            return f"{self.name(node.this)}.{node.name}"
        if isinstance(node, exp.Column):
            return ".".join(str(part.this) for part in node.parts[-1 - self.known.fields_of(node) :])
        return _VARIABLE if self.is_variable(node) else str(node.name)

    def is_variable(self, node: Any) -> bool:
        return isinstance(node, exp.Identifier) and fold_name(str(node.this)) in self.variables

    def tuple(self, node: Any) -> str:
        """``(a, 1)``, which is a struct."""
        names = [
            each.name if isinstance(each, exp.Column) else f"col{at}" for at, each in enumerate(node.expressions, 1)
        ]
        pairs = [f"{name}, {self.name(each)}" for name, each in zip(names, node.expressions, strict=True)]
        return f"named_struct({', '.join(pairs)})"

    # --- functions --------------------------------------------------------------------------------------------

    def function(self, node: Any) -> str:
        name, given = str(node.this).lower(), list(node.expressions)
        if name == "count" and any(isinstance(each, exp.Star) for each in given):
            return "count(1)"
        if name in _CASTS and len(given) == 1:
            kind = _REALS.get(str(node.this))
            return self.name(given[0]) if kind is None else _real(str(given[0].this), kind)
        if name == "positive" and len(given) == 1:
            return f"(+ {self.name(given[0])})"
        if name in ("isnull", "isnotnull"):
            return f"({self.name(given[0])} IS {'NOT ' * (name == 'isnotnull')}NULL)"
        if name in _BY_THE_FIRST and len(given) == 2:
            given = given[:1]
        if name == "unix_timestamp" and not given:
            given = [exp.CurrentTimestamp()]
        if name == "from_json" and isinstance(self.known.type_of(node), Map):
            return "entries"
        if name in _WITHOUT_TYPE:
            given = given[: _WITHOUT_TYPE[name]]
        if name == "position" and len(given) == 1 and isinstance(given[0], exp.In):
            name, given = "locate", [given[0].this, given[0].args["field"]]
        name = _OF_UNITS.get((name, len(given)), name)
        texts = [self.name(each) for each in given]
        if name in _TRIMS and len(given) == 2:
            return f"TRIM({_TRIMS[name]} {texts[0]} FROM {texts[1]})"
        if name == "log" and len(given) == 1:
            texts = ["E()", *texts]
        count = len(given[0].expressions) if given and isinstance(given[0], exp.Distinct) else len(given)
        if (name, count) in _LEFT_OUT:
            texts.append(_LEFT_OUT[name, count])
        if name == "mode" and len(given) == 2:
            return f"mode() WITHIN GROUP (ORDER BY {texts[0]}{' DESC' * (texts[1] == 'true')})"
        if name in _OF_INTERVALS:
            texts += _OF_INTERVALS[name][len(texts) :]
        if name == "array_sort" and len(given) == 1:
            texts.append(_ORDER_OF_ARRAYS)
        if name in _FOLDS:
            texts.append(f"lambdafunction({_VARIABLE}, {_VARIABLE})")
        is_loud = name in _IN_CAPITALS and (name not in ("ceil", "floor") or len(given) == 1)
        name = name.upper() if is_loud else _OTHER_NAMES.get(name, name)
        return f"{name}({', '.join(texts)})"

    def transform(self, node: Any) -> str:
        return f"transform({self.listed([node.this, node.expression])})"

    def lambda_(self, node: Any) -> str:
        names = [fold_name(str(each.name)) for each in node.expressions]
        body = _Namer(self.known, self.variables | {*names}).name(node.this)
        return f"lambdafunction({', '.join([body, *[_VARIABLE] * len(names)])})"

    def filter(self, node: Any) -> str:
        return f"{self.name(node.this)} FILTER (WHERE {self.name(node.expression.this)})"

    def within_group(self, node: Any) -> str:
        key, name = node.expression.expressions[0], str(node.this.this).lower()
        if name.startswith("percentile_") or name == "mode":
            is_desc = bool(key.args.get("desc")) != (name == "mode")  # of mode(), Spark shows the opposite
            return f"{self.name(node.this)} WITHIN GROUP (ORDER BY {self.name(key.this)}{' DESC' * is_desc})"
        shown = re.sub(r"^string_agg\(", "listagg(", self.name(node.this))
        return f"{shown} WITHIN GROUP ({self.order(node.expression)})"

    def order(self, node: Any) -> str:
        keys = [
            f"{self.name(each.this)} {'DESC' if each.args.get('desc') else 'ASC'}"
            f" NULLS {'FIRST' if each.args.get('nulls_first') else 'LAST'}"
            for each in node.expressions
        ]
        return f"ORDER BY {', '.join(keys)}"

    def ignoring_nulls(self, node: Any) -> str:
        inner = node.this
        if isinstance(inner, exp.Anonymous) and str(inner.this).lower() in _BY_THE_FIRST:
            word = {"first_value": "first", "last_value": "last"}.get(str(inner.this).lower(), str(inner.this).lower())
            return f"{word}({self.listed(inner.expressions)})"
        is_place = isinstance(inner, exp.Anonymous) and str(inner.this).lower() == "nth_value"
        return f"{self.name(inner)}{' ignore nulls' * is_place}"

    # --- window functions -------------------------------------------------------------------------------------

    def window(self, node: Any) -> str:
        named = node.args.get("alias")
        of = node if named is None else self.known.windows.get(fold_name(str(named.this)), node)
        partition, order, spec = (of.args.get(key) for key in ("partition_by", "order", "spec"))
        call = node.this
        while isinstance(call, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            call = call.this
        name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
        shown, frame = self.name(node.this), _frame(name, spec, is_ordered=order is not None)
        if spec is not None and str(spec.args["kind"]).upper() == "RANGE" and order is not None:
            frame = self.range(frame, self.known.type_of(order.expressions[0].this))
        if name in ("lag", "lead"):
            given = [self.name(each) for each in call.expressions]
            given += ["1", "NULL"][len(given) - 1 :]
            count = given[1] if name == "lead" else f"-{given[1]}"
            shown, frame = f"{name}({', '.join(given)})", f"ROWS BETWEEN {count} FOLLOWING AND {count} FOLLOWING"
        parts = [f"PARTITION BY {self.listed(partition)}"] if partition else []
        parts += [] if order is None else [self.order(order)]
        return f"{shown} OVER ({' '.join([*parts, frame])})"

    def range(self, frame: str, key: DataType | None) -> str:
        """A frame whose numbers get the type of a key that is no int: Spark then shows those before as negative."""
        return frame if key == INTEGER else re.sub(r"(\d+) PRECEDING", r"(- \1) FOLLOWING", frame)


def _last_key(node: Any) -> str:
    """``b`` of ``v:a.b[0]``."""
    keys = [each for each in node.expression.expressions if isinstance(each, exp.JSONPathKey)]
    return str(keys[-1].this)


def _path(node: Any) -> str:
    """``$.a.b[0]`` of ``v:a.b[0]``."""
    steps = [each for each in node.expression.expressions if not isinstance(each, exp.JSONPathRoot)]
    return "$" + "".join(f".{each.this}" if isinstance(each, exp.JSONPathKey) else f"[{each.this}]" for each in steps)


def _real(text: str, kind: pa.DataType) -> str:
    """A number as Java shows it. Raises ``ArrowInvalid`` if its versions differ."""
    return str(float_text(pa.array([float(text)], kind))[0].as_py())


def _frame(name: str, spec: Any, *, is_ordered: bool) -> str:
    """The rows that a window function is about; without ``spec``, those that it takes by itself."""
    if spec is not None:
        sides = [_side(spec.args.get(each), spec.args.get(f"{each}_side")) for each in ("start", "end")]
        return f"{str(spec.args['kind']).upper()} BETWEEN {sides[0]} AND {sides[1] or 'CURRENT ROW'}"
    if not is_ordered:
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    return f"{'ROWS' if name in _RANKS else 'RANGE'} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def _side(value: Any, side: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, exp.Interval):
        return f"{_interval(value)[0]} {str(side).upper()}"
    word = value.sql() if isinstance(value, exp.Expression) else str(value).upper()
    return word if word == "CURRENT ROW" else f"{word} {str(side).upper()}"


def _interval(node: Any) -> tuple[str, str]:
    """An interval of one whole number, and its unit: a week has seven days, and hours have two digits. Others are
    refused where they are read."""
    given = node.this
    is_negative = isinstance(given, exp.Neg)
    written = str(given.this.this if is_negative else given.this)
    if not re.fullmatch(r"[+-]?\d+", written) or not isinstance(node.args.get("unit"), exp.Var):
        return str(node.sql(dialect="spark")), ""
    count = -int(written) if is_negative else int(written)
    unit = str(node.args["unit"].this).upper().removesuffix("S")
    if unit == "WEEK":
        count, unit = count * 7, "DAY"
    width = 2 if unit in ("HOUR", "MINUTE", "SECOND") else 1
    return f"INTERVAL '{'-' * (count < 0)}{abs(count):0{width}}' {unit}", unit


def _time(text: str, kind: DataType) -> str:
    """A date or time in the query's zone."""
    try:
        shown = cast_to(cast_to(lit(text), kind), STRING)
    except ValueError:
        return text
    return str(shown.value) if isinstance(shown, Value) else text


_WRITERS: dict[str, Callable[[_Namer, Any], str]] = {
    "Alias": lambda namer, node: f"{namer.name(node.this)} AS {node.alias}",
    "Anonymous": _Namer.function,
    "Between": lambda namer, node: (
        f"between({namer.name(node.this)}, {namer.listed([node.args['low'], node.args['high']])})"
    ),
    "Boolean": lambda namer, node: str(bool(node.this)).lower(),
    "Bracket": lambda namer, node: f"{namer.name(node.this)}[{namer.listed(node.expressions)}]",
    "Case": _Namer.case,
    "Cast": _Namer.cast,
    "Column": _Namer.last_part,
    "Concat": lambda namer, node: "".join(map(namer.name, node.expressions)),
    "CurrentDate": lambda namer, node: "current_date()",
    "CurrentTimestamp": lambda namer, node: "current_timestamp()",
    "Distinct": lambda namer, node: f"DISTINCT {namer.listed(node.expressions)}",
    "Dot": _Namer.last_part,
    "DPipe": lambda namer, node: f"concat({namer.listed([node.this, node.expression])})",
    "Escape": _Namer.escaped,
    "Exists": lambda namer, node: "exists()",
    "Extract": lambda namer, node: f"extract({node.this.this} FROM {namer.name(node.expression)})",
    "Filter": _Namer.filter,
    "HexString": lambda namer, node: f"X'{'0' * (len(str(node.this)) % 2)}{str(node.this).upper()}'",
    "Identifier": _Namer.last_part,
    "If": _Namer.if_,
    "IgnoreNulls": _Namer.ignoring_nulls,
    "Interval": lambda namer, node: _interval(node)[0],
    "ILike": _Namer.like,
    "In": lambda namer, node: f"({namer.name(node.this)} IN ({namer.listed(node.expressions)}))",
    "Is": _Namer.is_,
    "JSONExtract": lambda namer, node: f"variant_get({namer.name(node.this)}, {_path(node)}) AS {_last_key(node)}",
    "Lambda": _Namer.lambda_,
    "Like": _Namer.like,
    "Literal": _Namer.literal,
    "NEQ": lambda namer, node: f"(NOT ({namer.name(node.this)} = {namer.name(node.expression)}))",
    "Neg": _Namer.negated,
    "Not": _Namer.not_,
    "NullSafeNEQ": lambda namer, node: f"(NOT ({namer.name(node.this)} <=> {namer.name(node.expression)}))",
    "Null": lambda namer, node: "NULL",
    "Paren": lambda namer, node: namer.name(node.this),
    "RawString": lambda namer, node: str(node.this),
    "RegexpLike": _Namer.like,
    "Tuple": _Namer.tuple,
    "Subquery": lambda namer, node: "scalarsubquery()",
    "Transform": _Namer.transform,
    "TryCast": _Namer.cast,
    "Window": _Namer.window,
    "WithinGroup": _Namer.within_group,
}
