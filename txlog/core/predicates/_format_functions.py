"""Functions that write values as text, and read parts of URLs: `FORMAT_FUNCTIONS`.

In: bound operands. Out: bound expressions.
"""

from __future__ import annotations

import re

from txlog.core.format.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    type_name,
    types_in,
)
from txlog.core.predicates._build import cast_to, convert
from txlog.core.predicates._format_kernels import PART
from txlog.core.predicates._operands import Make, constant, of_types, typed
from txlog.core.predicates._package_functions import package_function
from txlog.core.predicates.terms.tree import Call, CallSql, Expression
from txlog.core.predicates.terms.types import is_floating, is_integer, is_numeric

_DIGITS_MAX = 38


def _format_string(name: str) -> Make:
    def make(pattern: Expression, *values: Expression) -> Expression:
        written = str(constant(pattern, str, name))
        parts = [found for found in PART.finditer(written) if found["kind"] not in ("%", "n")]
        if any(part["kind"] is None for part in parts):
            raise ValueError(f"{name}() takes %s, %d, %x, %f and %%, with a width and digits, and not {written!r}")
        if len(parts) > len(values):
            raise ValueError(f"{name}() has {len(parts)} places in {written!r}, and {len(values)} values")
        given = [_as_written(value, part, name) for part, value in zip(parts, values, strict=False)]
        texts = ", ".join(["{}"] * len(given))
        sql = CallSql.of(f"{name}(", written, after=f", {texts})" if given else ")")
        return Call("format_string", tuple(given), STRING, (written, sql))

    return make


def _as_written(value: Expression, part: re.Match[str], name: str) -> Expression:
    flags, kind = part["flags"] or "", part["kind"]
    allowed = {"s": "-", "x": "-0", "X": "-0"}.get(kind, "-+ 0,")
    if not set(flags) <= set(allowed) or (("-" in flags or "0" in flags) and not part["width"]):
        raise ValueError(f"{name}() does not take {part[0]!r}")
    fits = {
        "s": value.type == STRING or is_integer(value.type) or is_floating(value.type) or value.type == BOOLEAN,
        "f": is_floating(value.type),
    }
    if not fits.get(kind, is_integer(value.type)) or (part["digits"] is not None and kind != "f"):
        raise ValueError(f"{name}() does not take a {type_name(value.type)} as {part[0]!r}: CAST it")
    if kind == "f":
        return cast_to(convert(value, DOUBLE), STRING)
    return cast_to(value, STRING) if kind == "s" else value


def _format_number(value: Expression, digits: Expression) -> Expression:
    count = constant(digits, int, "format_number")
    if not is_numeric(value.type) or not 0 <= count <= _DIGITS_MAX:
        raise ValueError(
            f"format_number() takes a number and from 0 to {_DIGITS_MAX} digits, not {type_name(value.type)}"
        )
    return Call("format_number", (value,), STRING, (count, CallSql(f"format_number({{}}, {count})")))


def _to_json(value: Expression) -> Expression:
    """Of a struct, an array or a map, or of a type whose package has the function."""
    parts = list(types_in(value.type)) if isinstance(value.type, Struct | Array | Map) else []
    brought = None if parts else package_function("to_json")
    if brought is not None:
        return brought.make(value)
    if not parts or not all(map(_has_json, parts)):
        raise ValueError(
            "to_json() takes a struct, an array or a map of strings, booleans, numbers and dates, and not"
            f" {type_name(value.type)}: CAST it"
        )
    return Call("to_json_text", (value,), STRING, (CallSql("to_json({})"),))


def _has_json(kind: DataType) -> bool:
    if isinstance(kind, Map):
        return kind.key == STRING
    return isinstance(kind, Struct | Array | Decimal) or kind in (STRING, BOOLEAN, DATE) or is_numeric(kind)


def _array_join(values: Expression, separator: Expression, null_text: Expression | None = None) -> Expression:
    if not isinstance(values.type, Array):
        raise ValueError(f"array_join() takes an array, not {type_name(values.type)}")
    texts = convert(cast_to(values, Array(STRING)), Array(STRING))
    operands = [texts, typed(separator, STRING, "array_join")]
    if null_text is not None:
        operands.append(typed(null_text, STRING, "array_join"))
    sql = CallSql(f"array_join({', '.join(['{}'] * len(operands))})")
    return Call("array_join", tuple(operands), STRING, (sql,))


_PARTS_OF_URLS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")


def _parse_url(url: Expression, part: Expression, key: Expression | None = None) -> Expression:
    """``parse_url(url, 'HOST')``, ``parse_url(url, 'QUERY', 'name')``."""
    wanted = str(constant(part, str, "parse_url"))
    name = None if key is None else str(constant(key, str, "parse_url"))
    if wanted not in _PARTS_OF_URLS or (name is not None and wanted != "QUERY"):
        raise ValueError(f"parse_url() takes {', '.join(_PARTS_OF_URLS)}, or 'QUERY' and a name, and not {wanted!r}")
    if name is not None and not re.fullmatch(r"[0-9A-Za-z_-]+", name):
        raise ValueError(f"parse_url() takes the name of letters, digits, _ and -, and not {name!r}")
    sql = CallSql.of("parse_url({}, ", *((wanted,) if name is None else (wanted, name)), after=")")
    return Call("parse_url", (typed(url, STRING, "parse_url"),), STRING, (wanted, name, sql))


FORMAT_FUNCTIONS: dict[str, tuple[int, int | None, Make]] = {
    "format_string": (1, None, _format_string("format_string")),
    "printf": (1, None, _format_string("printf")),
    "format_number": (2, 2, _format_number),
    "to_json": (1, 1, _to_json),
    "url_encode": (1, 1, of_types("url_encode", (STRING,))),
    "url_decode": (1, 1, of_types("url_decode", (STRING,))),
    "array_join": (2, 3, _array_join),
    "parse_url": (2, 3, _parse_url),
}
"""Name -> the minimum and maximum number of operands (None: any), and what builds the expression."""
