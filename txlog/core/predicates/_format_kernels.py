"""What computes the functions of `FORMAT_FUNCTIONS`, row by row: `FORMAT_KERNELS`. Texts are those that Java writes.

In: a call and its arguments. Out: an array, or a scalar if all arguments are scalars.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from typing import Any
from urllib.parse import quote_plus, unquote_plus

import pyarrow as pa

from txlog.core.format.schema import LONG, Array, DataType, Map, Struct
from txlog.core.predicates._float_texts import float_text
from txlog.core.predicates._row_kernels import by_row
from txlog.core.predicates.terms.tree import Call

PART = re.compile(r"%(?:(?P<flags>[-+ 0,]*)(?P<width>\d+)?(?:\.(?P<digits>\d+))?(?P<kind>[sdxXfn%]))?")
"""A place of format_string()."""
_WIDE = decimal.Context(prec=400, Emax=9999, Emin=-9999)


def _formatted(call: Call, *values: Any) -> str:
    given = iter(zip(values, call.arguments, strict=True))

    def written(part: re.Match[str]) -> str:
        match part["kind"]:
            case "%":
                return "%"
            case "n":
                return "\n"
        value, argument = next(given)
        return _one(part, value, argument.type)

    return PART.sub(written, call.options[0])


def _one(part: re.Match[str], value: Any, kind: DataType) -> str:
    flags, width, letter = part["flags"] or "", int(part["width"] or 0), part["kind"]
    if value is None:  # cut to its first letters by a precision, as Java does
        shown, flags = ("NULL" if letter == "X" else "null")[: int(part["digits"] or 4)], flags.replace("0", "")
    elif letter == "f" and value in ("NaN", "Infinity", "-Infinity"):
        shown, flags = f"+{value}" if "+" in flags and value[0] == "I" else value, flags.replace("0", "")
    elif letter in "xX":
        shown = f"{value & (2**64 - 1 if kind == LONG else 2**32 - 1):{letter}}"
    elif letter == "s":
        shown = value
    else:
        number = decimal.Decimal(value) if letter == "d" else _rounded(value, int(part["digits"] or 6))
        sign = "+" if "+" in flags else " " if " " in flags else "-"
        shown = f"{number:{sign}{',' if ',' in flags else ''}f}"
    missing = width - len(shown.encode("utf-16-le")) // 2  # Java counts so
    if "-" in flags:
        return shown + " " * missing
    if "0" in flags:
        begin = 1 if shown[:1] in ("-", "+", " ") and letter in "df" else 0
        return shown[:begin] + "0" * missing + shown[begin:]
    return " " * missing + shown


def _rounded(text: str, digits: int) -> decimal.Decimal:
    unit = decimal.Decimal(1).scaleb(-digits, _WIDE)
    return decimal.Decimal(text).quantize(unit, decimal.ROUND_HALF_UP, _WIDE)


def _with_commas(call: Call, value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    count = call.options[0]
    shortest = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    exact = decimal.Decimal(value) if -shortest.as_tuple().exponent > count else shortest  # type: ignore[operator]
    found = exact.quantize(decimal.Decimal(1).scaleb(-count, _WIDE), decimal.ROUND_HALF_EVEN, _WIDE)
    return f"{found:,f}"


def _json_text(call: Call, value: Any) -> str:
    return _json(value, call.arguments[0].type)


def _json(value: Any, kind: DataType) -> str:
    if value is None:
        return "null"
    match kind:
        case Struct(fields):
            present = [(each, value[each.name]) for each in fields if value[each.name] is not None]
            return "{" + ",".join(f"{_quoted(each.name)}:{_json(part, each.type)}" for each, part in present) + "}"
        case Array(element):
            return "[" + ",".join(_json(each, element) for each in value) + "]"
        case Map(_, item):
            return "{" + ",".join(f"{_quoted(key)}:{_json(each, item)}" for key, each in value) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = float_text(pa.array([value], pa.float32() if kind.name == "float" else pa.float64()))[0].as_py()  # type: ignore[union-attr]
        return str(text) if math.isfinite(value) else f'"{text}"'
    if isinstance(value, datetime.date):
        return f'"{value.isoformat()}"'
    return _quoted(value) if isinstance(value, str) else str(value)


_ESCAPES = re.compile(r"\\u00[0-9a-f]{2}")


def _quoted(text: str) -> str:
    """As Jackson writes it: other than Python, with capital digits."""
    return _ESCAPES.sub(lambda found: "\\u" + found[0][2:].upper(), json.dumps(text, ensure_ascii=False))


def _url_encoded(call: Call, text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


def _url_decoded(call: Call, text: str) -> str:
    try:
        if re.search("%(?![0-9a-fA-F]{2})", text):
            raise ValueError("a % without two digits")
        return unquote_plus(text, errors="strict")
    except ValueError as error:
        raise pa.ArrowInvalid(f"url_decode() of {text!r}: {error}") from None


_SIGN = r"A-Za-z0-9_\-!.~'()*;:&=+$,"
_ESCAPED = "%[0-9A-Fa-f]{2}"
_URL = re.compile(
    r"(?P<PROTOCOL>[A-Za-z][A-Za-z0-9+.-]*)://"
    rf"(?P<AUTHORITY>(?:(?P<USERINFO>(?:[{_SIGN}]|{_ESCAPED})*)@)?"
    r"(?P<HOST>(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?"
    r"|(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9]))(?::[0-9]{1,9})?)?"
    rf"(?P<PATH>(?:/(?:[{_SIGN}@/]|{_ESCAPED})*)?)(?:\?(?P<QUERY>(?:[{_SIGN}@/?]|{_ESCAPED})*))?(?:\#(?P<REF>(?:[{_SIGN}@/?]|{_ESCAPED})*))?"
)
"""The URLs of which Java has the same parts. It reads more."""


def _part_of_url(call: Call, url: str) -> str | None:
    found = _URL.fullmatch(url)
    if found is None or not (found["AUTHORITY"] or found["PATH"]):
        raise pa.ArrowInvalid(f"parse_url() of {url!r}, which is no plain URL, such as https://host/path?name=value")
    wanted, name = call.options[:2]
    query = found["QUERY"]
    if wanted == "FILE":
        return found["PATH"] if query is None else f"{found['PATH']}?{query}"
    if name is None or query is None:
        part: str | None = found[wanted]
        return part
    value = re.search(f"(?:&|^){name}=([^&]*)", query)
    return None if value is None else str(value[1])


def _joined(call: Call, values: list[str | None], separator: str, null_text: str | None = None) -> str:
    texts = values if null_text is None else [null_text if each is None else each for each in values]
    return separator.join(each for each in texts if each is not None)


FORMAT_KERNELS: dict[str, Any] = {
    "format_string": by_row(_formatted, takes_null=True),
    "format_number": by_row(_with_commas),
    "to_json_text": by_row(_json_text),
    "url_encode": by_row(_url_encoded),
    "url_decode": by_row(_url_decoded),
    "array_join": by_row(_joined),
    "parse_url": by_row(_part_of_url),
}
FORMAT_FALLIBLE = frozenset({"to_json_text", "url_decode", "parse_url"})
