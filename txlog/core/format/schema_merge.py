"""Which schemas a new table may have, and how a table's schema grows to fit new data.

In: `Struct`s. Out: a merged `Struct`, or an error that lists every column at fault. Merging only adds nullable
columns (at any depth); types never widen here, though readers handle widened types.
PROTOCOL.md, "Schema Serialization Format" and "Change Metadata".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from txlog.core.format.column_mapping import MAPPING_PREFIX, is_mapped
from txlog.core.format.schema import (
    BYTE,
    COLLATIONS_KEY,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    fold_name,
    type_name,
    with_fields,
)
from txlog.core.format.type_support import is_supported
from txlog.core.format.type_widening import TYPE_CHANGES_KEY, is_widening
from txlog.core.format.upgrade_note import readers_note
from txlog.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError

OF_ONE_TABLE = (MAPPING_PREFIX, TYPE_CHANGES_KEY, "EXISTS_DEFAULT")
"""Metadata of columns that belongs to the table that a schema comes from: ids, physical names, past types, and the
defaults of rows that were there before a column."""

_INVALID_CHARACTERS = frozenset(" ,;{}()\n\t=")
"""Spark's Parquet writer refuses these characters in names; Delta allows them only with column mapping."""

_INTEGERS = (BYTE, SHORT, INTEGER, LONG, Decimal(20, 0))
"""``Decimal(20, 0)`` is the type of an unsigned 64-bit column."""


# --- a new schema -----------------------------------------------------------------------------------------


def check_schema(schema: Struct, *, any_name: bool = False) -> None:
    """Refuse a schema with which this release cannot create a table. ``any_name``: columns are mapped.

    Raises InvalidInputError listing every problem by column: no columns, an empty struct, names that are empty,
    equal except for case or contain one of `` ,;{}()\\n\\t=``, ``void`` types, decimals out of range, types that nest
    deeper than 32 levels.
    Raises UnsupportedFeatureError naming the first column whose type only a package makes that is not installed.
    """
    problems = list(_problems(schema, "", any_name))
    problems += [
        f"{member.name}: it nests deeper than {_DEPTH_MAX} levels, which other readers do not take: flatten it"
        for member in schema.fields
        if _depth(member.type) > _DEPTH_MAX - 1
    ]
    if problems:
        raise InvalidInputError("this schema cannot be written:\n  " + "\n  ".join(problems))


def check_partition_columns(schema: Struct, columns: Sequence[str]) -> tuple[str, ...]:
    """The partition columns in the schema's own spelling.

    Raises InvalidInputError for a name the schema lacks, one given twice, a nested or void type, or when no
    column would remain for the data files.
    """
    found: list[str] = []
    for name in columns:
        member = schema.find(name)
        if member is None:
            raise InvalidInputError(f"there is no column {name!r} to partition by; the columns are {_listed(schema)}")
        if member.name in found:
            raise InvalidInputError(f"column {member.name!r} is given twice to partition by")
        if not isinstance(member.type, Decimal) and not (
            isinstance(member.type, Primitive) and member.type.facts.is_ordered
        ):
            raise InvalidInputError(
                f"column {member.name!r} is a {type_name(member.type)}: a table cannot be partitioned by it"
            )
        found.append(member.name)
    if len(found) == len(schema.fields):
        raise InvalidInputError("every column is a partition column: at least one must remain for the data files")
    return tuple(found)


_DEPTH_MAX = 32
"""A list takes two levels of a Parquet schema, of which Arrow reads 100. A struct takes three of the schema's JSON, of
which deltalake's parser reads 128."""


def _problems(data_type: DataType, column: str, any_name: bool) -> Iterator[str]:
    if isinstance(data_type, Primitive) and data_type.facts.by_package and not is_supported(data_type.name):
        raise UnsupportedFeatureError(
            f"column {column} is a {type_name(data_type)}, and no installed package makes such values (by an entry"
            " point of the group txlog.types): install the one that does",
            features=(data_type.facts.feature,),
        )
    if data_type == VOID:
        yield (
            f"{column}: a column of only nulls (void) has no type: name its type in a schema, by"
            " Table.create(uri, schema) or table.add_columns(schema), before you write the rows;"
            " or cast the column, or leave it out"
        )
    elif isinstance(data_type, Decimal):
        if not 1 <= data_type.precision <= 38 or not 0 <= data_type.scale <= data_type.precision:
            yield f"{column}: {type_name(data_type)} is out of range (precision 1 to 38, scale 0 to precision)"
    elif isinstance(data_type, Array):
        yield from _problems(data_type.element, f"{column}.element", any_name)
    elif isinstance(data_type, Map):
        yield from _problems(data_type.key, f"{column}.key", any_name)
        yield from _problems(data_type.value, f"{column}.value", any_name)
    elif isinstance(data_type, Struct):
        yield from _struct_problems(data_type, column, any_name)


def _struct_problems(struct: Struct, column: str, any_name: bool) -> Iterator[str]:
    if not struct.fields:
        yield f"{column}: a struct without fields cannot be written" if column else "it has no columns"
    spelled: dict[str, str] = {}
    has_warned = False
    for member in struct.fields:
        inner = f"{column}.{member.name}" if column else member.name
        if not member.name:
            yield f"{inner or 'a column'}: its name is empty"
        if member.metadata.get(COLLATIONS_KEY):
            yield f"{inner}: a collated string (__COLLATIONS), which txlog cannot compare: leave the collation out"
        bad = sorted(_INVALID_CHARACTERS.intersection(member.name))
        if bad and not any_name:
            yield (
                f"{inner}: its name has {', '.join(map(repr, bad))}, which Delta allows only under column mapping: name"
                " it otherwise, or give the table the property delta.columnMapping.mode=name"
                f"{'' if has_warned else '. ' + readers_note('columnMapping')}"
            )
            has_warned = True
        folded = fold_name(member.name)
        if folded in spelled:
            as_case = "" if spelled[folded] == member.name else ", as case does not count"
            yield f"{inner}: another column has the name {spelled[folded]!r}{as_case}"
        spelled.setdefault(folded, member.name)
        yield from _problems(member.type, inner, any_name)


def _listed(schema: Struct) -> str:
    return ", ".join(schema.names)


# --- a schema that grows --------------------------------------------------------------------------------------


class Mismatch(msgspec.Struct, frozen=True):
    """One column whose data does not fit the table; ``table`` and ``data`` are types as text."""

    column: str
    table: str
    data: str
    advice: str

    def __str__(self) -> str:
        return f"{self.column}  table {self.table}, data {self.data}  -> {self.advice}"


def mismatch_error(mismatches: Iterable[Mismatch]) -> SchemaMismatchError:
    """The error that lists each column that differs, one a line."""
    lines = [str(mismatch) for mismatch in mismatches]
    differ = "1 column differs" if len(lines) == 1 else f"{len(lines)} columns differ"
    return SchemaMismatchError("\n  ".join([differ, *lines]))


def merge(table: Struct, data: Struct) -> Struct:
    """The table's schema with the columns of ``data`` that it lacks, at the end, nullable (``schema_mode="merge"``).

    Names match without regard to case and keep the table's spelling. Members of structs, also inside arrays and
    maps, are added too. Returns ``table`` if nothing is missing. Raises SchemaMismatchError if a column
    of both has different types (see `accepts`), InvalidInputError if a new one cannot be written.
    """
    mismatches: list[Mismatch] = []
    merged = _merge_struct(table, data, "", mismatches)
    if mismatches:
        raise mismatch_error(mismatches)
    if merged != table and _depth(merged) > max(_DEPTH_MAX, _depth(table)):
        raise InvalidInputError(
            f"the new columns nest deeper than {_DEPTH_MAX} levels, which other readers do not accept: flatten them"
        )
    return merged


def adds_members(there: Field, given: Field) -> bool:
    """Whether a column of data has members that the table's column lacks, and fits to it otherwise."""
    if isinstance(there.type, Primitive):
        return False
    column = Struct((there,))
    try:
        return merge(column, Struct((replace(given, name=there.name),))) != column
    except SchemaMismatchError:  # it may be used otherwise than for the column of its name
        return False


def _depth(data_type: DataType) -> int:
    if isinstance(data_type, Struct):
        return 1 + max((_depth(member.type) for member in data_type.fields), default=0)
    if isinstance(data_type, Map):
        return 1 + max(_depth(data_type.key), _depth(data_type.value))
    return 1 + _depth(data_type.element) if isinstance(data_type, Array) else 0


def reads(table: Struct, written: Struct) -> bool:
    """Whether files written for the schema ``written`` are read correctly under ``table``; both have physical names.

    They are if columns and struct fields were only added, and are nullable; became wider, as their history says;
    or were dropped from a table that maps its columns, and some are left.
    """
    before = {member.name: member for member in written.fields}
    dropped = before.keys() - set(table.names)
    if dropped and (not is_mapped(table) or len(dropped) == len(before)):
        return False
    return all(
        member.nullable
        if member.name not in before
        else _reads_type(member.type, before[member.name].type, is_widened=TYPE_CHANGES_KEY in member.metadata)
        and (member.nullable or not before[member.name].nullable)
        for member in table.fields
    )


def _reads_type(table: DataType, written: DataType, *, is_widened: bool) -> bool:
    if isinstance(table, Struct) and isinstance(written, Struct):
        return reads(table, written)
    if isinstance(table, Array) and isinstance(written, Array):
        is_read = _reads_type(table.element, written.element, is_widened=is_widened)
        return is_read and (table.contains_null or not written.contains_null)
    if isinstance(table, Map) and isinstance(written, Map):
        return (
            (table.value_contains_null or not written.value_contains_null)
            and _reads_type(table.key, written.key, is_widened=is_widened)
            and _reads_type(table.value, written.value, is_widened=is_widened)
        )
    return table == written or (is_widened and is_widening(written, table))


def accepts(table: DataType, data: DataType) -> bool:
    """Whether values of leaf type ``data`` may be written to a column of type ``table``.

    True for equal types, for ``void`` (nulls), and where each value is stored exactly or refused when it is written: a
    number in a wider type, and any integer, whose values are range-checked.
    """
    if isinstance(data, Decimal) and isinstance(table, Decimal):
        whole_digits = data.precision - data.scale
        return data.scale <= table.scale and whole_digits <= table.precision - table.scale
    if data in _INTEGERS:
        return isinstance(table, Decimal) or table in (*_INTEGERS[:4], FLOAT, DOUBLE)
    return table == data or data == VOID or (data == FLOAT and table == DOUBLE)


def _merge_struct(table: Struct, data: Struct, column: str, mismatches: list[Mismatch]) -> Struct:
    known, new = _paired(table, data, column)
    fields = []
    for member in table.fields:
        other = known.get(member.name)
        if other is not None:
            inner = f"{column}.{member.name}" if column else member.name
            member = replace(member, type=_merge_type(member.type, other.type, inner, mismatches))
        fields.append(member)
    added = Struct(tuple(map(_as_new, new)))
    if added.fields:
        problems = list(_struct_problems(added, column, is_mapped(table)))
        if problems:
            raise InvalidInputError("these new columns cannot be added:\n  " + "\n  ".join(problems))
    return Struct((*fields, *added.fields))


def _merge_type(table: DataType, data: DataType, column: str, mismatches: list[Mismatch]) -> DataType:
    if isinstance(table, Struct) and isinstance(data, Struct):
        return _merge_struct(table, data, column, mismatches)
    if isinstance(table, Array) and isinstance(data, Array):
        return replace(table, element=_merge_type(table.element, data.element, f"{column}.element", mismatches))
    if isinstance(table, Map) and isinstance(data, Map):
        return replace(
            table,
            key=_merge_type(table.key, data.key, f"{column}.key", mismatches),
            value=_merge_type(table.value, data.value, f"{column}.value", mismatches),
        )
    if not accepts(table, data):
        mismatches.append(Mismatch(column, type_name(table), type_name(data), "cast it"))
    return table


def _paired(table: Struct, data: Struct, column: str) -> tuple[dict[str, Field], list[Field]]:
    """The members of the data by the table's names for them, and those that the table lacks.

    Raises InvalidInputError if two of them would be one column.
    """
    known: dict[str, Field] = {}
    new: dict[str, Field] = {}
    for member in data.fields:
        there = table.find(member.name)
        found, name = (new, fold_name(member.name)) if there is None else (known, there.name)
        if name in found:
            where = f" in {column}" if column else ""
            twice = ", ".join(sorted({found[name].name, member.name}))
            raise InvalidInputError(f"the data has columns{where} whose names differ only in case: {twice}")
        found[name] = member
    return known, list(new.values())


def _as_new(member: Field) -> Field:
    """A column that is added to an existing table: old files lack it, so it is nullable at every depth.

    Ids, physical names, past types and the defaults of older rows belong to the table that the column came from. Rules
    of ``delta.`` and defaults would have to hold for the rows that are there, so they are refused.
    """
    kept = {key: value for key, value in member.metadata.items() if not key.startswith(OF_ONE_TABLE)}
    refused = sorted(key for key in kept if key.startswith(("delta.", "CURRENT_DEFAULT")))
    if refused:
        raise InvalidInputError(
            f"cannot add {member.name} with {', '.join(refused)} in its metadata, since existing rows may break"
            " that rule: remove it from the schema of the data. A new table may have it"
        )
    return Field(member.name, with_fields(member.type, _as_new, parts_nullable=True), True, kept)
