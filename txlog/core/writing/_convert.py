"""Lossless conversions of Arrow arrays to a Delta type: which are allowed, and how they work.

In: a Delta type and the Arrow type of the data. Out: a function from array to array (or None if no conversion is
needed), or a list of `ColumnMismatch` for the caller to report. A value that cannot be converted raises `BadRow`.
This module handles names, nullability and types below a column; ``conform`` handles the columns themselves.
"""

from __future__ import annotations

import decimal
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMPS,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    fold_name,
    timestamp_of,
    type_name,
    type_to_arrow,
)
from txlog.core.wording import setting

Convert: TypeAlias = Callable[[pa.Array], pa.Array]
"""From an array of the data's type to one of the table's type, with equal length. Raises `BadRow`."""


class ColumnMismatch(msgspec.Struct, frozen=True):
    """One column of the data that does not fit the table's, and what to do about it."""

    column: str
    table_type: str
    data_type: str
    advice: str


class BadRow(Exception):
    """A value that cannot be stored. ``row`` counts from 0 in the array being converted."""

    def __init__(self, column: str, row: int, problem: str) -> None:
        super().__init__(column, row, problem)
        self.column = column
        self.row = row
        self.problem = problem


def conversion(target: DataType, source: pa.DataType, column: str, found: list[ColumnMismatch]) -> Convert | None:
    """How arrays of ``source`` become the Arrow type of ``target``; None if they already have it.

    Differences are appended to ``found`` (the result is meaningless then). ``column`` is the dotted path.
    """
    if isinstance(target, Primitive) and target.facts.by_package and not pa.types.is_null(source):
        return _conversion_of_package(target, source, column, found)
    if target == STRING and isinstance(source, pa.BaseExtensionType):
        from txlog.core.format.arrow.uuids import is_uuid, uuid_strings

        if is_uuid(source):
            return uuid_strings
    if target == BOOLEAN and getattr(source, "extension_name", "") == "arrow.bool8":
        return _from_bool8
    unwrapped, unwrap = _unwrapped(source)
    if pa.types.is_null(unwrapped):
        from txlog.core.format.arrow.arrays import absent

        arrow = type_to_arrow(target, column)
        return _chain(unwrap, lambda array: absent(len(array), arrow))
    match target:
        case Struct():
            inner = _struct_conversion(target, unwrapped, column, found)
        case Array():
            inner = _list_conversion(target, unwrapped, column, found)
        case Map():
            inner = _map_conversion(target, unwrapped, column, found)
        case _:
            inner = _leaf_conversion(target, unwrapped, column, found)
    return _chain(unwrap, inner)


def _conversion_of_package(
    target: Primitive, source: pa.DataType, column: str, found: list[ColumnMismatch]
) -> Convert | None:
    from txlog.core.format.type_support import type_support

    support = type_support(target.name)
    convert = None if support is None else support.conversion(source, column)
    if convert is None:
        advice = support.advice if support else f"install the package that makes values of the type {target.name}"
        found.append(ColumnMismatch(column, type_name(target), str(source), advice))
    return convert


def match_fields(
    fields: Sequence[Field], data: Sequence[pa.Field], prefix: str, found: list[ColumnMismatch]
) -> list[int | None]:
    """For each table field, the position of its column in the data: by name, in any order and case.

    None if the data lacks a nullable column; other differences in names are appended to ``found``. Of fields that
    differ only in case, the data must have each by the letter.
    """
    counts = Counter(fold_name(field.name) for field in fields)
    alike = {field.name for field in fields if counts[fold_name(field.name)] > 1}

    def key(name: str) -> tuple[str, bool]:
        return (name, True) if name in alike else (fold_name(name), False)

    by_name: dict[tuple[str, bool], list[int]] = {}
    for position, field in enumerate(data):
        by_name.setdefault(key(field.name), []).append(position)
    positions: list[int | None] = []
    for field in fields:
        at = by_name.pop(key(field.name), [])
        column = prefix + field.name
        if len(at) > 1:
            names = ", ".join(data[position].name for position in at)
            found.append(ColumnMismatch(column, type_name(field.type), f"has {len(at)} columns ({names})", "keep one"))
        elif not at and field.name in alike:
            found.append(ColumnMismatch(column, type_name(field.type), "has no such column", "add it, by the letter"))
        elif not at and not field.nullable:
            found.append(ColumnMismatch(column, f"{type_name(field.type)} not null", "has no such column", "add it"))
        positions.append(at[0] if len(at) == 1 else None)
    for at in by_name.values():
        extra = data[at[0]]
        found.append(
            ColumnMismatch(
                prefix + extra.name,
                "has no such column",
                str(extra.type),
                f"drop it, or add it with {setting('schema_mode', 'merge')}",
            )
        )
    return positions


def required(array: pa.Array, column: str, parent: pa.Array | None = None) -> pa.Array:
    """A NOT NULL array, checked on its rows, except where ``parent`` is null.

    The Parquet writer refuses a required child with nulls even below a null parent, so these lose their null mark.
    """
    if not array.null_count:
        return array
    from txlog.core.format.arrow.arrays import without_null_marks

    first = _first_missing(array, parent)
    if first >= 0:
        raise BadRow(column, first, "is null, but the table's column is NOT NULL")
    return without_null_marks(array)


def read_as_required(array: pa.Array, parent: pa.Array) -> pa.Array:
    """The same for a struct field from a file that was written before the member became NOT NULL.

    One that is null where its struct is not is left as the file has it.
    """
    if not array.null_count or _first_missing(array, parent) >= 0:
        return array
    from txlog.core.format.arrow.arrays import without_null_marks

    return without_null_marks(array)


def _first_missing(array: pa.Array, parent: pa.Array | None) -> int:
    missing = array.is_null()
    if parent is not None and parent.null_count:
        from txlog.core.format.arrow.compute import pc

        missing = pc.and_(missing, parent.is_valid())
    first: int = missing.index(True).as_py()
    return first


# --- wrappers around values: dictionaries, run ends, extension types ---------------------------------------------


def _unwrapped(source: pa.DataType) -> tuple[pa.DataType, Convert | None]:
    if isinstance(source, pa.BaseExtensionType):
        inner, unwrap = _unwrapped(source.storage_type)
        return inner, _chain(_storage, unwrap)
    if pa.types.is_dictionary(source):
        inner, unwrap = _unwrapped(_offset_type(source.value_type))
        return inner, _chain(_decode_dictionary, unwrap)
    if pa.types.is_run_end_encoded(source):
        inner, unwrap = _unwrapped(source.value_type)
        return inner, _chain(_decode_run_ends, unwrap)
    return source, None


def _from_bool8(array: pa.Array) -> pa.Array:
    """Arrow's canonical extension type with a byte a value: zero is false, every other number true."""
    return array.storage.cast(pa.bool_())


def _storage(array: pa.Array) -> pa.Array:
    return array.storage


def _decode_run_ends(array: pa.Array) -> pa.Array:
    from txlog.core.format.arrow.compute import pc

    return pc.run_end_decode(array)


def _decode_dictionary(array: pa.Array) -> pa.Array:
    values = array.dictionary
    plain = _offset_type(values.type)
    if plain != values.type:
        # Arrow has no take for view types, which is what polars' categoricals hold.
        array = pa.DictionaryArray.from_arrays(array.indices, values.cast(plain))
    return array.dictionary_decode()


def _offset_type(value_type: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(value_type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(value_type) else value_type


def _chain(first: Convert | None, second: Convert | None) -> Convert | None:
    if first is None or second is None:
        return first or second
    return lambda array: second(first(array))


# --- leaves -------------------------------------------------------------------------------------------------------


def _leaf_conversion(
    target: Primitive | Decimal, source: pa.DataType, column: str, found: list[ColumnMismatch]
) -> Convert | None:
    arrow = type_to_arrow(target, column)
    if source == arrow:
        return _within_digits(target, column) if isinstance(target, Decimal) else None
    if not _loses_nothing(target, source):
        found.append(ColumnMismatch(column, type_name(target), str(source), _advice(target, source)))
        return None
    if isinstance(target, Decimal) and pa.types.is_integer(source):
        # Arrow wants a precision for the integer type's whole range; a wide type in between checks the values instead.
        wide = pa.decimal256(20 + target.scale, target.scale)
        return _checked_cast(lambda array: array.cast(wide).cast(arrow), column, arrow)
    if isinstance(target, Decimal):
        return _chain(_checked_cast(_plain_cast(arrow), column, arrow), _within_digits(target, column))
    if pa.types.is_large_string(source) or pa.types.is_large_binary(source):
        from txlog.core.format.arrow.arrays import small_offsets

        return _checked_cast(lambda array: small_offsets(array).cast(arrow), column, arrow)
    return _checked_cast(_plain_cast(arrow), column, arrow)


def _loses_nothing(target: Primitive | Decimal, source: pa.DataType) -> bool:
    """Whether a safe cast either converts each value of ``source`` exactly or refuses it."""
    types = pa.types
    if isinstance(target, Decimal):
        if not types.is_decimal(source):
            return bool(types.is_integer(source))
        whole_digits = source.precision - source.scale
        return bool(source.scale <= target.scale and whole_digits <= target.precision - target.scale)
    if target == STRING:
        return bool(types.is_string(source) or types.is_large_string(source) or types.is_string_view(source))
    if target == BINARY:
        return isinstance(source, pa.FixedSizeBinaryType) or source in _BINARY_FORMS
    if target in (FLOAT, DOUBLE):
        widest = 32 if target == FLOAT else 64
        return bool(types.is_integer(source) or (types.is_floating(source) and source.bit_width <= widest))
    if target == DATE:
        return bool(types.is_date(source))
    if target in TIMESTAMPS:
        return bool(types.is_timestamp(source) and target == timestamp_of(has_zone=source.tz is not None))
    return bool(types.is_integer(source)) and target not in (BOOLEAN, VOID)


_WHOLE_NUMBERS = (BYTE, SHORT, INTEGER, LONG)
_BINARY_FORMS = (pa.binary(), pa.large_binary(), pa.binary_view())


def _advice(target: Primitive | Decimal, source: pa.DataType) -> str:
    if pa.types.is_timestamp(source) and target == TIMESTAMP:
        return "add its time zone: cast it to timestamp('us', tz='UTC'), in pandas with .dt.tz_localize(\"UTC\")"
    if pa.types.is_timestamp(source) and target in TIMESTAMPS:
        return "cast it to timestamp('us'), without a zone"
    if pa.types.is_timestamp(source) and target == DATE:
        return "cast it to date32(), in pandas with .dt.date"
    if pa.types.is_decimal(source) and isinstance(target, Decimal):
        return f"cast it to decimal128({target.precision}, {target.scale})"
    if pa.types.is_floating(source) and isinstance(target, Decimal):
        return (
            "make the values decimal.Decimal, or round them and cast them to"
            f" decimal128({target.precision}, {target.scale})"
        )
    if pa.types.is_floating(source) and target in _WHOLE_NUMBERS:  # pandas turns integers with a gap into floats
        return 'cast it to whole numbers, in pandas with .astype("Int64")'
    return "cast it"


def _within_digits(target: Decimal, column: str) -> Convert:
    """Refuses values with more digits than their type declares: Arrow takes them from a producer as they are."""
    greatest = decimal.Decimal((0, (9,) * target.precision, -target.scale))

    def check(array: pa.Array) -> pa.Array:
        row = _beyond(array, greatest)
        if row is not None:
            raise BadRow(column, row, f"has {_shown(array[row])}, which has more digits than {type_name(target)}")
        return array

    return check


def _beyond(array: pa.Array, greatest: decimal.Decimal) -> int | None:
    """The first row whose value is above ``greatest`` or below its negative; None if there is none."""
    from txlog.core.format.arrow.compute import pc

    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or (-greatest <= low and high <= greatest):
        return None
    return next(row for row, value in enumerate(array.to_pylist()) if value is not None and abs(value) > greatest)


def _plain_cast(arrow: pa.DataType) -> Convert:
    return lambda array: array.cast(arrow)


def _checked_cast(cast: Convert, column: str, arrow: pa.DataType) -> Convert:
    def convert(array: pa.Array) -> pa.Array:
        try:
            return cast(array)
        except pa.ArrowInvalid:
            row = _first_failure(cast, array)
            raise BadRow(column, row, f"has {_shown(array[row])}, which {arrow} cannot store exactly") from None

    return convert


def _first_failure(cast: Convert, array: pa.Array) -> int:
    """The position of the first value that does not convert, by halving."""
    start, length = 0, len(array)
    while length > 1:
        half = length // 2
        try:
            cast(array.slice(start, half))
        except pa.ArrowInvalid:
            length = half
        else:
            start, length = start + half, length - half
    return start


def _shown(value: pa.Scalar) -> str:
    try:
        text = str(value.cast(pa.string()).as_py())
    except pa.ArrowException:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- nested types -------------------------------------------------------------------------------------------------


def _mismatch(target: DataType, source: pa.DataType, column: str) -> ColumnMismatch:
    return ColumnMismatch(column, type_name(target), str(source), "cast it")


def _struct_conversion(target: Struct, source: pa.DataType, column: str, found: list[ColumnMismatch]) -> Convert | None:
    if not pa.types.is_struct(source):
        found.append(_mismatch(target, source, column))
        return None
    from txlog.core.format.arrow.arrays import absent

    arrow = type_to_arrow(target, column)
    positions = match_fields(target.fields, list(source), f"{column}.", found)
    members = [
        None if at is None else conversion(field.type, source.field(at).type, f"{column}.{field.name}", found)
        for field, at in zip(target.fields, positions, strict=True)
    ]
    if source == arrow and not has_required(target) and not any(members):
        return None

    def convert(array: pa.Array) -> pa.Array:
        # Values below a null struct are undefined.
        visible = array.flatten() if array.null_count else [array.field(at) for at in range(source.num_fields)]
        children = []
        for field, arrow_field, at, member in zip(target.fields, arrow, positions, members, strict=True):
            child = absent(len(array), arrow_field.type) if at is None else visible[at]
            child = member(child) if member else child
            if not field.nullable:
                child = required(child, f"{column}.{field.name}", array)
            children.append(child)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)

    return convert


def _list_conversion(target: Array, source: pa.DataType, column: str, found: list[ColumnMismatch]) -> Convert | None:
    from txlog.core.format.arrow.arrays import LIST_TYPES, offsets_and_mask

    if not isinstance(source, LIST_TYPES):
        found.append(_mismatch(target, source, column))
        return None
    arrow = type_to_arrow(target, column)
    element = f"{column}.element"
    inner = conversion(target.element, source.value_type, element, found)
    if source == arrow and inner is None and target.contains_null and not has_required(target.element):
        return None

    def convert(array: pa.Array) -> pa.Array:
        offsets, mask = offsets_and_mask(array)
        values = array.flatten()
        with _RowsOfLists(offsets):
            values = inner(values) if inner else values
            if not target.contains_null:
                values = required(values, element)
        return pa.ListArray.from_arrays(offsets, values, type=arrow, mask=mask)

    return convert


def _map_conversion(target: Map, source: pa.DataType, column: str, found: list[ColumnMismatch]) -> Convert | None:
    entry = _map_entry(source)
    if entry is None:
        found.append(_mismatch(target, source, column))
        return None
    from txlog.core.format.arrow.arrays import as_list_of_entries, offsets_and_mask

    arrow = type_to_arrow(target, column)
    key_column, value_column = f"{column}.key", f"{column}.value"
    keys_inner = conversion(target.key, entry[0].type, key_column, found)
    values_inner = conversion(target.value, entry[1].type, value_column, found)

    def convert(array: pa.Array) -> pa.Array:
        array = as_list_of_entries(array)
        offsets, mask = offsets_and_mask(array)
        entries = array.flatten()
        keys, values = entries.field(0), entries.field(1)
        with _RowsOfLists(offsets):
            required(entries, f"{column}.entry")
            keys = required(keys_inner(keys) if keys_inner else keys, key_column)
            values = values_inner(values) if values_inner else values
            if not target.value_contains_null:
                values = required(values, value_column)
        return pa.MapArray.from_arrays(offsets, keys, values, type=arrow, mask=mask)

    simple = target.value_contains_null and not has_required(target.key) and not has_required(target.value)
    return None if source == arrow and simple and not (keys_inner or values_inner) else convert


def _map_entry(source: pa.DataType) -> tuple[pa.Field, pa.Field] | None:
    """Key and value of a map, or of a list of (key, value) structs, which is what polars makes of maps."""
    if pa.types.is_map(source):
        return source.key_field, source.item_field
    from txlog.core.format.arrow.arrays import LIST_TYPES

    if isinstance(source, LIST_TYPES) and pa.types.is_struct(source.value_type):
        members = list(source.value_type)
        if [member.name for member in members] == ["key", "value"]:
            return members[0], members[1]
    return None


class _RowsOfLists:
    """Turns the position of a bad element into the row of the list that holds it."""

    def __init__(self, offsets: pa.Array) -> None:
        self._offsets = offsets

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, BadRow):
            error.row = int(self._offsets.to_numpy().searchsorted(error.row, side="right")) - 1


def has_required(target: DataType) -> bool:
    """Whether anything below ``target`` is NOT NULL, so its rows must be checked."""
    match target:
        case Struct(fields):
            return any(not field.nullable or has_required(field.type) for field in fields)
        case Array(element, contains_null):
            return not contains_null or has_required(element)
        case Map(key, value, value_contains_null):
            return not value_contains_null or has_required(key) or has_required(value)
    return False
