"""The times of a query in duckdb, as Spark and txlog's own expressions read them, in a zone whose clocks change.

In: a parsed query, and a connection whose session is in the zone. Out: the text for duckdb, in which each instant is
Spark's.

duckdb takes the later instant of a time that clocks show twice, and Spark the earlier one. Spark adds whole days by the
calendar, also where they are written as hours. Casts, truncations and sums become macros that do as Spark does. Its own
plan of the query then shows where duckdb would still make an instant of a time without a zone: a text gets its offset,
a call its cast, and anything else is refused.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import sqlglot
from sqlglot import TokenType, exp

from txlog.core.util.time_zones import offset_of_first
from txlog.errors import InvalidInputError

__all__ = ["add_macros", "in_zone", "replaced"]

_ZONED = "TIMESTAMP WITH TIME ZONE"
_TEXT = r"\s*(\d{4})-(\d\d?)-(\d\d?)(?:[T ]+(\d\d?):(\d\d?)(?::(\d\d?)(?:\.(\d{0,9}))?)?)?\s*"
_CLOCK = re.compile(_TEXT, re.ASCII)
_INSTANTS = (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
_US = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}
_NO_PLACE = 2**64 - 1
_DAY_US = 24 * _US["HOUR"]
_DAYS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_OTHERS = ("generate_series", "range", "time_bucket", "strptime", "try_strptime")
"""Functions of duckdb with results that nobody compared with Spark's."""


def replaced(tree: exp.Expr, rule: Callable[[Any], exp.Expr], *kinds: type[exp.Expr]) -> exp.Expr:
    """The tree with the value of ``rule`` in place of each expression of these kinds, inner ones first."""
    for node in reversed([node for node in tree.walk() if isinstance(node, kinds)]):
        new = rule(node.copy())
        if node is tree:
            return new
        node.replace(new)
    return tree


# --- macros ---------------------------------------------------------------------------------------------------

_MACROS = {
    # by how many microseconds clocks in zone z are ahead of UTC at the instant i, and h hours from the clock time c
    "txlog_offset(z, i)": "epoch_us(timezone(z, i)) - epoch_us(i)",
    "txlog_offset_near(z, c, h)": "txlog_offset(z, make_timestamptz(epoch_us(c) + h * 3600000000))",
    # how many microseconds duckdb's instant of the clock time c is after the first one
    "txlog_late(z, c)": """CASE
        WHEN c IS NULL OR NOT isfinite(c) OR NOT c BETWEEN TIMESTAMP '0001-01-03' AND TIMESTAMP '9999-12-29' THEN 0
        WHEN txlog_offset_near(z, c, -16) > txlog_offset_near(z, c, 16)
            AND timezone(z, make_timestamptz(epoch_us(c) - txlog_offset_near(z, c, -16))) = c
            THEN epoch_us(timezone(z, c)) - epoch_us(c) + txlog_offset_near(z, c, -16)
        ELSE 0 END""",
    # whether the instant i, which duckdb makes of a midnight that no clock shows, is not the first one of its day
    "txlog_misses(z, i)": """isfinite(i) AND timezone(z, i) <> date_trunc('day', timezone(z, i))
        AND txlog_offset(z, i) = txlog_offset(z, make_timestamptz(epoch_us(i) - 1))""",
    # what clocks in zone z show at the instant i, and the first instant at which they show what those in UTC do
    "txlog_from_utc(i, z)": "timezone('UTC', timezone(z, i))",
    "txlog_to_utc(i, z)": """timezone(z, timezone('UTC', i))
        - to_microseconds(CASE WHEN true THEN txlog_late(z, timezone('UTC', i)) END)""",
}
_IN_ZONE = {
    # i is duckdb's instant of x
    "txlog_first(x, i)": """list_transform([i], lambda v: v - to_microseconds(CASE
        WHEN typeof(x) = '{zoned}' OR typeof(x) = '"NULL"' THEN 0
        WHEN typeof(x) = 'DATE' AND txlog_misses({zone}, v) THEN error({refusal})
        WHEN typeof(x) <> 'VARCHAR' OR regexp_full_match(CAST(x AS VARCHAR), {text})
            THEN txlog_late({zone}, CAST(v AS TIMESTAMP))
        ELSE 0 END))[1]""",
    # whose casts are marked
    "txlog_instant(x)": "txlog_first(x, CAST(CASE WHEN 'txlog' = 'txlog' THEN x END AS TIMESTAMPTZ))",
    "txlog_instant_or_null(x)": "txlog_first(x, TRY_CAST(CASE WHEN 'txlog' = 'txlog' THEN x END AS TIMESTAMPTZ))",
    # c is the clock time with which the unit u begins in which v is; its offset stays that of v, if it can
    "txlog_since(u, v, c)": """CASE
        WHEN typeof(v) <> '{zoned}' THEN epoch_us(CAST(v AS TIMESTAMP)) - epoch_us(c)
        WHEN u NOT IN ('day', 'hour', 'minute', 'second', 'millisecond', 'microsecond') THEN CASE
            WHEN txlog_misses({zone}, timezone({zone}, c)) THEN error({refusal})
            ELSE epoch_us(v) - epoch_us(timezone({zone}, c)) + txlog_late({zone}, c) END
        WHEN timezone({zone}, make_timestamptz(epoch_us(v) - epoch_us(CAST(v AS TIMESTAMP)) + epoch_us(c))) = c
            THEN epoch_us(CAST(v AS TIMESTAMP)) - epoch_us(c)
        ELSE epoch_us(v) - epoch_us(timezone({zone}, c)) + txlog_late({zone}, c) END""",
    "txlog_trunc(u, x)": """list_transform([x], lambda v:
        v - to_microseconds(CASE WHEN true THEN txlog_since(u, v, date_trunc(u, CAST(v AS TIMESTAMP))) END))[1]""",
    # w is the sum of the time v and of days or months, by which clocks move to c
    "txlog_too_late(v, w, c)": """CASE
        WHEN typeof(v) <> '{zoned}' THEN 0
        WHEN abs(epoch_us(CAST(w AS TIMESTAMP)) - epoch_us(c)) > 6 * 3600000000 THEN error({refusal})
        WHEN epoch_us(w) - epoch_us(CAST(w AS TIMESTAMP)) = epoch_us(v) - epoch_us(CAST(v AS TIMESTAMP)) THEN 0
        ELSE txlog_late({zone}, c) END""",
    "txlog_plus(x, i)": """list_transform([x], lambda v: list_transform([v + i], lambda w:
        w - to_microseconds(CASE WHEN true THEN txlog_too_late(v, w, CAST(v AS TIMESTAMP) + i) END))[1])[1]""",
}


def add_macros(connection: duckdb.DuckDBPyConnection, zone: str, *, changes: bool) -> None:
    """Define what queries in a zone call. ``zone`` is duckdb's name for it; with ``changes``, its clocks change."""
    refusal = f"clocks in {zone} skip a time there of which duckdb and Spark take other instants: use the time zone UTC"
    words = {"zone": zone, "refusal": refusal, "text": _TEXT}
    quoted = {name: _quoted(word) for name, word in words.items()}
    macros = _MACROS | {name: body.format(zoned=_ZONED, **quoted) for name, body in _IN_ZONE.items() if changes}
    connection.execute(";".join(f"CREATE MACRO {name} AS ({body})" for name, body in macros.items()))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# --- what the query says itself -------------------------------------------------------------------------------


def in_zone(
    connection: duckdb.DuckDBPyConnection, tree: exp.Expr, zone: str, tables: Sequence[str], settings: Sequence[str]
) -> str:
    """The text for duckdb, whose ``tables`` and ``settings`` the connection has. Raises InvalidInputError."""
    tree = replaced(tree, _cast, exp.Cast)
    tree = replaced(tree, _truncated, exp.TimestampTrunc)
    tree = replaced(tree, _sum, exp.Add, exp.Sub, exp.TimestampAdd)
    tree = replaced(tree, _framed, exp.WindowSpec)
    planner = connection.cursor()
    try:
        for setting in settings:
            planner.execute(f"SET {setting}")
        for table in tables:
            _make_empty(planner, table, connection.view(table))
        return _with_offsets(planner, tree.sql("duckdb", identify=True), zone)
    finally:
        planner.close()


def _make_empty(planner: duckdb.DuckDBPyConnection, table: str, rows: duckdb.DuckDBPyRelation) -> None:
    """A table of the same columns: duckdb from 2.0 on cannot show a plan that reads Arrow's memory."""
    columns = (
        f"{exp.to_identifier(name, quoted=True).sql('duckdb')} {kind}"
        for name, kind in zip(rows.columns, rows.types, strict=True)
    )
    planner.execute(f"CREATE TEMP TABLE {table} ({', '.join(columns)})")


def _cast(node: exp.Cast) -> exp.Expr:
    if not node.to.is_type(*_INSTANTS) or isinstance(node.this, exp.Literal):
        return node
    return exp.func("txlog_instant_or_null" if isinstance(node, exp.TryCast) else "txlog_instant", node.this)


def _truncated(node: exp.TimestampTrunc) -> exp.Expr:
    return exp.func("txlog_trunc", exp.Literal.string(node.text("unit").lower()), node.this)


def _sum(node: exp.Add | exp.Sub | exp.TimestampAdd) -> exp.Expr:
    if isinstance(node, exp.TimestampAdd):
        parts = _parts(exp.Interval(this=node.expression, unit=node.args.get("unit")))
        return node if parts is None else _moved(node.this, *parts)
    base, moves = node.this, node.expression
    if isinstance(node, exp.Add) and _parts(base) is not None:
        base, moves = moves, base
    parts = _parts(moves)
    if parts is None:
        return node
    sign = -1 if isinstance(node, exp.Sub) else 1
    months, days, microseconds = (sign * part for part in parts)
    more = int(microseconds / _DAY_US)  # whole days are days of the calendar, as in Spark
    return _moved(base, months, days + more, microseconds - more * _DAY_US)


def _moved(base: exp.Expr, months: int, days: int, microseconds: int) -> exp.Expr:
    for unit, count in (("to_months", months), ("to_days", days)):
        if count:
            base = exp.func("txlog_plus", base, exp.func(unit, exp.Literal.number(count)))
    if microseconds or not (months or days):
        base = exp.Paren(this=exp.Add(this=base, expression=_microseconds(microseconds)))
    return base


def _microseconds(count: int) -> exp.Expr:
    return exp.func("to_microseconds", exp.Literal.number(count))


def _parts(node: Any) -> tuple[int, int, int] | None:
    """The months, days and microseconds of an interval with literal numbers; None for another expression."""
    if isinstance(node, exp.Paren):
        return _parts(node.this)
    if isinstance(node, exp.Add):
        one, other = _parts(node.this), _parts(node.expression)
        return None if one is None or other is None else tuple(map(sum, zip(one, other, strict=True)))  # type: ignore[return-value]
    if not isinstance(node, exp.Interval) or not isinstance(node.unit, exp.Var):
        return None
    unit = node.unit.name.upper().removesuffix("S")
    try:
        number = float(node.this.sql("duckdb").strip("'"))
    except ValueError:
        return None
    if unit in _US:
        return 0, 0, round(number * _US[unit])
    if number != int(number) or unit not in (*_DAYS, *_MONTHS):
        return None
    return int(number) * _MONTHS.get(unit, 0), int(number) * _DAYS.get(unit, 0), 0


def _framed(node: exp.WindowSpec) -> exp.Expr:
    """A frame whose hours and minutes the plan can tell from days."""
    for side in ("start", "end"):
        parts = _parts(node.args.get(side))
        if parts is not None and parts[:2] == (0, 0) and abs(parts[2]) < _DAY_US:
            node.set(side, _microseconds(parts[2]))
    return node


# --- what duckdb makes of it ----------------------------------------------------------------------------------


def _with_offsets(connection: duckdb.DuckDBPyConnection, text: str, zone: str) -> str:
    planned = connection.execute(f"SELECT json_serialize_plan({_quoted(text)})").fetchall()[0][0]
    plan = json.loads(planned)
    if plan["error"]:
        connection.sql(text)  # raises what is wrong with the text
        raise _refused(zone, f"cannot say what it does ({plan['error_message']})", "write the query in another way")
    places: dict[int, str] = {}
    for node in _nodes(_in_older_words(plan["plans"])):
        _check(node, zone, places)
    return _rewritten(text, places, zone)


def _in_older_words(value: Any) -> Any:
    """A plan of duckdb 2 as duckdb 1 shows it: there a cast is no function, a text that is cast to an instant is its
    value, and a function has a plain name."""
    if isinstance(value, list):
        return [_in_older_words(each) for each in value]
    if not isinstance(value, dict):
        return value
    node = {key: _in_older_words(each) for key, each in value.items()}
    if node.get("expression_class") != "BOUND_FUNCTION" or "qname" not in node:
        return node
    if node["type"] != "OPERATOR_CAST":
        return {**node, "name": node["qname"]["path"][-1]}
    (child,) = node.pop("children")
    is_text = child["expression_class"] == "BOUND_CONSTANT" and child["value"]["type"]["id"] == "VARCHAR"
    if is_text and node["return_type"]["id"] == _ZONED:
        return {**child, "value": {**child["value"], "type": node["return_type"]}}
    return {**node, "expression_class": "BOUND_CAST", "child": child}


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of the plan, outer ones first."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
        waiting.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _check(node: dict[str, Any], zone: str, places: dict[int, str]) -> None:
    """Add the place of what becomes an instant by itself, and how to write it instead. Raises InvalidInputError for
    what duckdb may compute otherwise."""
    made = json.dumps(node.get("return_type") or {})
    kind = node.get("expression_class")
    if kind == "BOUND_CONSTANT" and node["value"]["type"]["id"] == _ZONED:
        places[node["query_location"]] = ""
    elif kind == "BOUND_CAST" and made.count(_ZONED):
        child = node["child"]
        before = child.get("return_type") or child["value"]["type"]
        if before["id"] in ("NULL", _ZONED) or json.dumps(before).count(_ZONED) == made.count(_ZONED):
            return
        if not _is_ours(child):
            what = child.get("alias") or "..."
            places[child.get("query_location", _NO_PLACE)] = f"CAST({what} AS TIMESTAMP)"
    elif kind == "BOUND_FUNCTION" and _ZONED in made:
        _check_function(node, zone)


def _check_function(node: dict[str, Any], zone: str) -> None:
    children, name = node["children"], node["name"]
    if name in ("+", "-"):
        for child in children:
            if (child.get("return_type") or {}).get("id") == "INTERVAL" and not _is_known(child):
                raise _refused(
                    zone, "adds this interval in another way", "write INTERVAL and a number, such as INTERVAL 6 HOURS"
                )
    elif name in _OTHERS:
        raise _refused(zone, f"computes {name} of times in another way", "make it of dates or numbers")


def _is_ours(child: dict[str, Any]) -> bool:
    """Whether a cast of this is the one of ``txlog_instant``."""
    return child["expression_class"] == "BOUND_CASE" and json.dumps(child["case_checks"]).count('"txlog"') > 1


def _is_known(interval: dict[str, Any]) -> bool:
    """Whether an interval is days, or what ``_sum`` made."""
    inner: dict[str, Any]
    inner, *more = interval.get("children") or [{}]
    is_literal = bool(more)
    while inner.get("name") == "trunc" or inner.get("expression_class") == "BOUND_CAST":
        is_literal |= inner.get("name") == "trunc"
        inner = inner["children"][0] if "children" in inner else inner["child"]
    kind = inner.get("expression_class")
    if interval.get("name") == "to_microseconds":
        return not is_literal and kind in ("BOUND_CONSTANT", "BOUND_CASE", "CASE")
    return kind == "BOUND_CONSTANT" and (
        interval.get("name") == "to_days" or (interval.get("name") == "to_months" and not is_literal)
    )


def _rewritten(text: str, places: dict[int, str], zone: str) -> str:
    """The text in which texts at these places have an offset, where their time is shown twice, and calls are casts."""
    tokens = sqlglot.tokenize(text, dialect="duckdb")
    for at in range(len(tokens) - 1, -1, -1):
        token = tokens[at]
        if token.start not in places:
            continue
        end = _end_of_call(tokens, at)
        if token.token_type == TokenType.STRING:
            found = _CLOCK.fullmatch(token.text)
            first = None if found is None else _first(found, zone)
            new = None if first is None else _quoted(first)
        elif end is not None:
            new = f"txlog_instant({text[token.start : end]})"
        else:
            continue
        del places[token.start]
        if new is not None:
            text = f"{text[: token.start]}{new}{text[token.end + 1 if end is None else end :]}"
    for instead in filter(None, places.values()):
        raise _refused(zone, f"makes an instant of {instead.split()[0][5:]} by itself", f"write {instead}")
    return text


def _end_of_call(tokens: list[Any], at: int) -> int | None:
    """Where a function's call ends that begins with this token."""
    if tokens[at].token_type == TokenType.CURRENT_DATE:
        return int(tokens[at].end) + 1
    open_ones = 0
    for token in tokens[at + 1 :]:
        open_ones += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if open_ones <= 0:
            return int(token.end) + 1 if token.token_type == TokenType.R_PAREN and token is not tokens[at + 1] else None
    return None


def _first(found: re.Match[str], zone: str) -> str | None:
    """The text with the offset of the first of two instants; None for any other time."""
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        clock = datetime.datetime(year, month, day, hour, minute, second)
    except ValueError:  # duckdb says what is wrong with it
        return None
    offset_s = offset_of_first(clock, zone)
    return None if offset_s is None else f"{clock.isoformat(' ')}.{found[7] or 0}{_offset_text(offset_s)}"


def _offset_text(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3600)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{rest // 60:02}" + (f":{rest % 60:02}" if rest % 60 else "")


def _refused(zone: str, what: str, instead: str) -> InvalidInputError:
    return InvalidInputError(
        f"it {what}, and may take other instants than Spark and txlog's other statements where clocks in {zone} change:"
        f" {instead}, or use the time zone UTC"
    )
