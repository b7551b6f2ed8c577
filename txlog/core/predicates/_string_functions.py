"""The SQL functions of strings and bytes: `STRING_FUNCTIONS`.

In: bound operands. Out: bound expressions. `patterns` decides which regular expressions are understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    INTEGER,
    LONG,
    STRING,
    VOID,
    Array,
    DataType,
    Decimal,
    Primitive,
    type_name,
)
from txlog.core.predicates._build import call, cast_to, convert, like, literal
from txlog.core.predicates._operands import Make, constant, of_types, typed
from txlog.core.predicates._patterns import java_pattern, java_replacement, matches_empty
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Value
from txlog.core.predicates.terms.types import can_cast, common_type, is_integer


def _of_string(name: str, result: DataType = STRING) -> Make:
    return of_types(name, (STRING,), result)


def _with_pattern(name: str) -> Make:
    def make(text: Expression, pattern: Expression) -> Expression:
        if not isinstance(pattern, Value):
            return of_types(name, (STRING, STRING), BOOLEAN)(text, pattern)
        return call(name, (typed(text, STRING, name),), BOOLEAN, (constant(pattern, str, name),))

    return make


def _starts_with(text: Expression, prefix: Expression) -> Expression:
    """As LIKE, which skips files, if that has the same prefix."""
    if not isinstance(prefix, Value):
        return of_types("startswith", (STRING, STRING), BOOLEAN)(text, prefix)
    found = constant(prefix, str, "startswith")
    if any(special in found for special in "%_\\"):
        return call("startswith", (typed(text, STRING, "startswith"),), BOOLEAN, (found,))
    return like(typed(text, STRING, "startswith"), found + "%")


def concat(*values: Expression) -> Expression:
    if any(isinstance(value.type, Array) for value in values):
        return _arrays_in_a_row(values)
    return call("concat", [_as_text(value, "concat") for value in values], STRING)


def _arrays_in_a_row(values: Sequence[Expression]) -> Expression:
    kind: DataType | None = values[0].type
    for value in values:
        kind = common_type(kind, value.type) if kind is not None and value.type != VOID else None
    if kind is None:
        types = ", ".join(sorted({type_name(value.type) for value in values}))
        raise ValueError(f"concat() takes strings, or arrays of one type, not {types}: CAST them")
    sql = CallSql(f"concat({', '.join(['{}'] * len(values))})")
    return call("concat_arrays", [convert(value, kind) for value in values], kind, (sql,))


def _concat_ws(separator: Expression, *values: Expression) -> Expression:
    """The texts, and those in arrays."""
    texts = [_texts_of(each) if isinstance(each.type, Array) else _as_text(each, "concat_ws") for each in values]
    return call("concat_ws", [_as_text(separator, "concat_ws"), *texts], STRING)


def _texts_of(values: Expression) -> Expression:
    return values if values.type in _TEXTS else cast_to(values, Array(STRING))


_TEXTS = (Array(STRING), Array(STRING, contains_null=False))


def _as_text(value: Expression, name: str) -> Expression:
    """A number, a day, a time or a boolean as text, as Spark casts it where it needs one."""
    casts = isinstance(value.type, Primitive | Decimal) and value.type != BINARY and can_cast(value.type, STRING)
    return typed(cast_to(value, STRING) if casts else value, STRING, name)


def _substring(text: Expression, position: Expression, length: Expression | None = None) -> Expression:
    """The text from a position on. Positions count from 1, negative ones from the end; Spark reads 0 as 1."""
    is_plain = all(isinstance(each, Value) for each in (position, *filter(None, (length,)))) and text.type != BINARY
    if not is_plain or (length is not None and constant(position, int, "substring") < 0):
        return _part_of(text, position, literal(2**31 - 1) if length is None else length)
    start = constant(position, int, "substring")
    if start == -(2**31):
        raise ValueError("substring() from -2147483648 loses a letter in Spark: write right(s, n)")
    count = None if length is None else max(0, constant(length, int, "substring"))
    first = start if start < 0 else max(start - 1, 0)
    stop = None if count is None else first + count
    return call("substring", (typed(text, STRING, "substring"),), STRING, (first, stop))


def _part_of(text: Expression, position: Expression, length: Expression) -> Expression:
    """The same for bytes, from the end, and for positions of each row."""
    given = text if text.type == BINARY else typed(text, STRING, "substring")
    bounds = [typed(each, INTEGER, "substring") for each in (position, length)]
    return call("part_of", (given, *bounds), given.type, (CallSql("substring({}, {}, {})"),))


def _trimmed(name: str, side: str) -> Make:
    """Without spaces at its ends, or without the letters of the first operand."""

    def make(text: Expression, other: Expression | None = None) -> Expression:
        if other is None:
            return call(name, (typed(text, STRING, name),), STRING)
        return _stripped(side, typed(other, STRING, name), typed(text, STRING, name))

    return make


def _stripped(side: str, text: Expression, letters: Expression) -> Expression:
    return call("strip", (text, letters), STRING, (side, CallSql(f"trim({side} {{1}} FROM {{0}})")))


def _btrim(text: Expression, letters: Expression | None = None) -> Expression:
    if letters is None:
        return _of_string("trim")(text)
    return _stripped("BOTH", typed(text, STRING, "btrim"), typed(letters, STRING, "btrim"))


def _left(text: Expression, count: Expression) -> Expression:
    if not isinstance(count, Value):
        return of_types("left", (STRING, INTEGER))(text, count)
    length = max(0, constant(count, int, "left"))
    return call("substring", (typed(text, STRING, "left"),), STRING, (0, length))


def _right(text: Expression, count: Expression) -> Expression:
    if not isinstance(count, Value):
        return of_types("right", (STRING, INTEGER))(text, count)
    length = max(0, constant(count, int, "right"))
    span = (-length, None) if length else (0, 0)
    return call("substring", (typed(text, STRING, "right"),), STRING, span)


def _replace(text: Expression, search: Expression, replacement: Expression | None = None) -> Expression:
    if not isinstance(search, Value) or not isinstance(replacement, Value | None):
        return of_types("replace", (STRING, STRING, STRING))(text, search, replacement or literal(""))
    words = (constant(search, str, "replace"), "" if replacement is None else constant(replacement, str, "replace"))
    return call("replace", (typed(text, STRING, "replace"),), STRING, words)


def _locate(search: Expression, text: Expression, start: Expression | None = None) -> Expression:
    begin = literal(1) if start is None else typed(start, INTEGER, "locate")
    return call("locate", (typed(search, STRING, "locate"), typed(text, STRING, "locate"), begin), INTEGER)


def _padded(name: str) -> Make:
    def make(text: Expression, length: Expression, pad: Expression | None = None) -> Expression:
        filling = literal(" ") if pad is None else pad
        return of_types(name, (STRING, INTEGER, STRING))(text, length, filling)

    return make


# --- regular expressions --------------------------------------------------------------------------------------


def _rlike(text: Expression, pattern: Expression) -> Expression:
    written = constant(pattern, str, "rlike")
    options = java_pattern(written), CallSql.of("({} RLIKE ", written, after=")")
    return call("rlike", (typed(text, STRING, "rlike"),), BOOLEAN, options)


def _regexp_replace(text: Expression, pattern: Expression, replacement: Expression) -> Expression:
    name = "regexp_replace"
    written = constant(pattern, str, name)
    read = java_pattern(written, is_test=False)
    if matches_empty(read):
        raise ValueError(f"{name}() takes a pattern that does not match an empty string, unlike {written!r}")
    replaced = constant(replacement, str, name)
    new = java_replacement(replaced, len(_groups(read)))
    sql = CallSql.of("regexp_replace({}, ", written, replaced, after=")")
    return call(name, (typed(text, STRING, name),), STRING, (read, new, sql))


def _regexp_extract(text: Expression, pattern: Expression, group: Expression | None = None) -> Expression:
    """A group of the first match, or with the group 0 the whole match."""
    name = "regexp_extract"
    number = 1 if group is None else constant(group, int, name)
    written = constant(pattern, str, name)
    read = java_pattern(written, is_test=False, captures=number != 0)
    groups = _groups(read)
    if not 0 <= number <= len(groups):
        raise ValueError(f"{name}() takes a group from 0 to {len(groups)} of this pattern, not {number}")
    if number == 0:
        read = f"(?P<found>{read})"
    for at in reversed(range(len(groups) if number else 0)):
        begin = "(?P<found>" if at == number - 1 else "(?:"
        read = f"{read[: groups[at]]}{begin}{read[groups[at] + 1 :]}"
    sql = CallSql.of("regexp_extract({}, ", written, number, after=")")
    return call(name, (typed(text, STRING, name),), STRING, (read, sql))


def _regexp_count(text: Expression, pattern: Expression) -> Expression:
    written = constant(pattern, str, "regexp_count")
    read = java_pattern(written, is_test=False, captures=False)
    if matches_empty(read):
        raise ValueError(f"regexp_count() takes a pattern that does not match an empty string, unlike {written!r}")
    sql = CallSql.of("regexp_count({}, ", written, after=")")
    return call("regexp_count", (typed(text, STRING, "regexp_count"),), INTEGER, (read, sql))


def _groups(pattern: str) -> list[int]:
    """Where the capturing groups of a pattern begin; `java_pattern` writes no other parenthesis as itself."""
    return [found.start() for found in re.finditer(r"\((?!\?)", pattern)]


def _split(text: Expression, pattern: Expression, limit: Expression | None = None) -> Expression:
    """The parts between separators, or each letter; at most so many if the limit is above zero."""
    written = str(constant(pattern, str, "split"))
    count = -1 if limit is None else constant(limit, int, "split")
    separator = re.sub(r"\\([^0-9A-Za-z])", r"\1", written)
    if not separator and count > 0:
        raise ValueError("split() into letters does not take a limit")
    if separator and java_pattern(written) != java_pattern(re.sub(r"([^0-9A-Za-z])", r"\\\1", separator)):
        return _split_by_pattern(text, written, limit, count)
    sql = CallSql.of("split({}, ", *((written,) if limit is None else (written, count)), after=")")
    options = separator, count, sql
    return Call("split", (typed(text, STRING, "split"),), Array(STRING, contains_null=False), options)


def _split_by_pattern(text: Expression, written: str, limit: Expression | None, count: int) -> Expression:
    read = java_pattern(written, is_test=False, captures=False)
    if matches_empty(read):
        raise ValueError(f"split() takes a pattern that does not match an empty string, unlike {written!r}")
    sql = CallSql.of("split({}, ", *((written,) if limit is None else (written, count)), after=")")
    return Call("split_regex", (typed(text, STRING, "split"),), Array(STRING, contains_null=False), (read, count, sql))


# --- JSON -----------------------------------------------------------------------------------------------------

_PATH_PART = re.compile(r"\.(?P<name>[^.\[\]*'\s]+)|\['(?P<quoted>[^'?]+)'\]|\[(?P<place>\d{1,9})\]")


def _get_json_object(text: Expression, path: Expression) -> Expression:
    name = "get_json_object"
    written = str(constant(path, str, name))
    parts: list[str | int] = []
    end = 1 if written.startswith("$") else 0
    while end and end < len(written):
        found = _PATH_PART.match(written, end)
        if found is None:
            break
        parts.append(int(found["place"]) if found["place"] else found["name"] or found["quoted"])
        end = found.end()
    if end != len(written) or not end:
        raise ValueError(
            f"{name}() takes a path such as '$.a.b', '$[0]' or '$[''a.b'']', without *, and not {written!r}"
        )
    sql = CallSql.of("get_json_object({}, ", written, after=")")
    return call(name, (typed(text, STRING, name),), STRING, (tuple(parts), sql))


# --- bytes ----------------------------------------------------------------------------------------------------


def _of_bytes(name: str, result: DataType, kernel: str | None = None, *options: Any) -> Make:
    """A function of a string's UTF-8 bytes, or of bytes."""

    def make(value: Expression) -> Expression:
        if value.type not in (STRING, BINARY, VOID):
            raise ValueError(f"{name}() takes a string or binary, not {type_name(value.type)}")
        operand = convert(value, STRING) if value.type == VOID else value
        return call(kernel or name, (operand,), result, options)

    return make


def _sha2(value: Expression, bits: Expression) -> Expression:
    length = constant(bits, int, "sha2") or 256
    if length not in (224, 256, 384, 512):
        raise ValueError(f"sha2() takes 224, 256, 384 or 512 bits, not {length}")
    return _of_bytes("sha2", STRING, "digest", f"sha{length}", CallSql.of("sha2({}, ", length, after=")"))(value)


def _length(value: Expression) -> Expression:
    return _of_bytes("octet_length", INTEGER)(value) if value.type == BINARY else _of_string("length", INTEGER)(value)


def _encoded(text: Expression, encoding: Expression) -> Expression:
    if str(constant(encoding, str, "encode")).upper() != "UTF-8":
        raise ValueError("encode() takes 'UTF-8'")
    return cast_to(typed(text, STRING, "encode"), BINARY)


def _chosen_by_place(place: Expression, *values: Expression) -> Expression:
    texts = [typed(each, STRING, "elt") for each in values]
    return call("elt", (typed(place, INTEGER, "elt"), *texts), STRING)


def _of_long(name: str) -> Make:
    def make(number: Expression) -> Expression:
        if not is_integer(number.type):
            raise ValueError(f"{name}() takes a whole number, not {type_name(number.type)}")
        return call(name, (convert(number, LONG),), STRING)

    return make


def _hex(value: Expression) -> Expression:
    if is_integer(value.type):
        return call("hex", (convert(value, LONG),), STRING)
    return _of_bytes("hex", STRING)(value)


STRING_FUNCTIONS: dict[str, tuple[int, int | None, Make]] = {
    "upper": (1, 1, _of_string("upper")),
    "lower": (1, 1, _of_string("lower")),
    "length": (1, 1, _length),
    "octet_length": (1, 1, _of_bytes("octet_length", INTEGER)),
    "bit_length": (1, 1, _of_bytes("bit_length", INTEGER)),
    "trim": (1, 2, _trimmed("trim", "BOTH")),
    "ltrim": (1, 2, _trimmed("ltrim", "LEADING")),
    "rtrim": (1, 2, _trimmed("rtrim", "TRAILING")),
    "reverse": (1, 1, _of_string("reverse")),
    "concat": (1, None, concat),
    "concat_ws": (1, None, _concat_ws),
    "substring": (2, 3, _substring),
    "substring_index": (3, 3, of_types("substring_index", (STRING, STRING, INTEGER))),
    "left": (2, 2, _left),
    "right": (2, 2, _right),
    "lpad": (2, 3, _padded("lpad")),
    "rpad": (2, 3, _padded("rpad")),
    "repeat": (2, 2, of_types("repeat", (STRING, INTEGER))),
    "replace": (2, 3, _replace),
    "translate": (3, 3, of_types("translate", (STRING, STRING, STRING))),
    "startswith": (2, 2, _starts_with),
    "endswith": (2, 2, _with_pattern("endswith")),
    "contains": (2, 2, _with_pattern("contains")),
    "locate": (2, 3, _locate),
    "instr": (2, 2, lambda text, search: _locate(search, text)),
    "rlike": (2, 2, _rlike),
    "regexp_replace": (3, 3, _regexp_replace),
    "regexp_extract": (2, 3, _regexp_extract),
    "regexp_count": (2, 2, _regexp_count),
    "split": (2, 3, _split),
    "initcap": (1, 1, _of_string("initcap")),
    "ascii": (1, 1, _of_string("ascii", INTEGER)),
    "space": (1, 1, lambda count: of_types("repeat", (STRING, INTEGER))(literal(" "), count)),
    "find_in_set": (2, 2, of_types("find_in_set", (STRING, STRING), INTEGER)),
    "split_part": (3, 3, of_types("split_part", (STRING, STRING, INTEGER))),
    "levenshtein": (2, 2, of_types("levenshtein", (STRING, STRING), INTEGER)),
    "btrim": (1, 2, _btrim),
    "encode": (2, 2, _encoded),
    "elt": (2, None, _chosen_by_place),
    "chr": (1, 1, _of_long("chr")),
    "bin": (1, 1, _of_long("bin")),
    "get_json_object": (2, 2, _get_json_object),
    "md5": (1, 1, _of_bytes("md5", STRING, "digest", "md5", CallSql("md5({})"))),
    "sha1": (1, 1, _of_bytes("sha1", STRING, "digest", "sha1", CallSql("sha1({})"))),
    "sha2": (2, 2, _sha2),
    "crc32": (1, 1, _of_bytes("crc32", LONG)),
    "base64": (1, 1, _of_bytes("base64", STRING)),
    "hex": (1, 1, _hex),
    "unbase64": (1, 1, of_types("unbase64", (STRING,), BINARY)),
    "unhex": (1, 1, of_types("unhex", (STRING,), BINARY)),
}
"""Name -> the minimum and maximum number of operands (None: any), and what builds the expression."""
