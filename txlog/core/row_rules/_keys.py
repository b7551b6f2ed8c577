"""Keys: which columns identify a row, and which source row has a table row's key.

In: the names of key columns, and a source's key columns. Out: for columns of keys, each key's source row, or -1.
All operations work on columns: values become numbers by their index among the source's distinct values, and the numbers
of several columns become one, exactly. A null never matches.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import array_of, from_numbers, joined_chunks, large_type
from txlog.core.format.arrow.decimals import truncated
from txlog.core.format.properties import column_paths
from txlog.core.format.schema import PRIMITIVES, DataType, Decimal, Primitive, Struct, type_name
from txlog.core.row_rules._packed_keys import PackedKeys
from txlog.core.util import cached_property, invalid, names_in
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPES = frozenset(name for name, facts in PRIMITIVES.items() if facts.is_ordered and not facts.stored.startswith("f"))
FLAGS_MAX = 1 << 26
_FEW = 8  # if the source has this many times more values, searching its sorted values is faster than a kernel
_INTEGERS = frozenset(("byte", "short", "integer", "long"))


class KeyColumn(msgspec.Struct, frozen=True):
    """One column or struct field of a key: the path of names to it, as the table spells them."""

    path: tuple[str, ...]
    type: DataType
    is_partition: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def why_not_null(self) -> str:
        """Why a row with a null in this column is refused, for error messages."""
        empty = ". Delta stores an empty partition value as null, too" if self.is_partition else ""
        return f"a null is not a key, since it equals nothing{empty}"

    def of(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """The column from rows with the table's names; null if a struct around it is null, or if it is an empty value
        of a partition column.

        More text than an Arrow string array holds comes as ``large_string`` or ``large_binary``.
        """
        column = rows.column(self.path[0])
        for name in self.path[1:]:
            column = pc.struct_field(column, [name])  # a bare ".x" would be the path to x
        found = joined_chunks(column) if isinstance(column, pa.ChunkedArray) else column
        return _without_empty(found) if self.is_partition else found


def with_stored_partition_values(rows: pa.RecordBatch, partition_columns: Iterable[str]) -> pa.RecordBatch:
    """The rows as a reader of the table will see them: Delta stores an empty partition value as null."""
    for name in partition_columns:
        at = rows.schema.get_field_index(name)
        stored = _without_empty(rows.column(at))
        if stored.null_count > rows.column(at).null_count:
            rows = rows.set_column(at, rows.schema.field(at), stored)
    return rows


def _without_empty(values: pa.Array) -> pa.Array:
    """Null instead of empty strings and bytes."""
    kind = values.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)):
        return values
    is_empty = pc.equal(pc.binary_length(values), array_of([0], pa.int32())[0])
    return pc.if_else(is_empty, pa.nulls(1, kind)[0], values)


def compared_as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Keys in the type for comparison, or its large form; null for a value that this type lacks."""
    if values.type == large_type(kind):
        return values
    if not pa.types.is_decimal(kind) or values.type == kind:
        return values.cast(kind)
    exact = values.cast(pa.decimal256(76, max(values.type.scale, kind.scale)))
    limit = pa.scalar(decimal.Decimal(10) ** (kind.precision - kind.scale), exact.type)
    cut = truncated(exact, kind.scale)
    is_there = pc.and_(pc.equal(cut.cast(exact.type), exact), pc.less(pc.abs(exact), limit))
    return pc.if_else(is_there, cut, pa.scalar(None, cut.type)).cast(kind)


def key_columns(
    names: str | Iterable[str], schema: Struct, partition_columns: Iterable[str] = ()
) -> tuple[KeyColumn, ...]:
    """The table columns with the names ``names``, a list or one string with commas; paths with dots name struct fields,
    in which names with dots are in backticks.

    ``partition_columns`` belong to the table that the keys' rows are written to.

    Raises ``InvalidInputError`` for an unknown or repeated column, and for a type that cannot be a key.
    """
    partitions = frozenset(partition_columns)
    found = tuple(_key_column(name, schema, partitions) for name in names_in("keys", names))
    if not found:
        raise InvalidInputError("keys must name at least one column")
    if len({key.path for key in found}) < len(found):
        raise InvalidInputError(f"keys name a column twice: {', '.join(key.name for key in found)}")
    return found


def _key_column(name: str, schema: Struct, partitions: Set[str]) -> KeyColumn:
    found: list[str] = []
    here: DataType = schema
    for part in [name] if schema.find(name) is not None else _parts(name):
        member = here.find(part) if isinstance(here, Struct) else None
        if member is None:
            raise InvalidInputError(f"the table has no column {name!r} to be a key; it has {', '.join(schema.names)}")
        found.append(member.name)
        here = member.type
    check_key_type(name, here)
    return KeyColumn(tuple(found), here, found[0] in partitions)


def _parts(name: str) -> Sequence[str]:
    """``a.b`` and ``a.`x.y``` -> the names of a column and of the fields below it."""
    if "`" not in name:
        return name.split(".")
    try:
        (path,) = column_paths(name)
    except ValueError:
        raise invalid("keys", name, "names of columns, whose dots and commas are in backticks") from None
    return path


def check_key_type(name: str, data_type: DataType) -> None:
    """Raises ``InvalidInputError`` for a type whose values are not clearly equal or different."""
    if isinstance(data_type, Decimal) or (isinstance(data_type, Primitive) and data_type.name in _TYPES):
        return
    is_float = isinstance(data_type, Primitive) and data_type.name in ("float", "double")
    raise InvalidInputError(
        f"column {name} is a {type_name(data_type)}, which cannot be a key"
        + (" (NaN and -0.0 are ambiguous)" if is_float else "")
        + ": use integer, string, binary, boolean, date, timestamp or decimal columns"
    )


def key_text(keys: Sequence[KeyColumn], columns: Sequence[pa.Array], row: int) -> str:
    """``id=42, day=2026-11-20``: one key, for error messages."""
    from txlog.core.format.arrow.wide_years import python_value

    values = (str(python_value(column[row])) for column in columns)
    return ", ".join(f"{key.name}={value[:60]}" for key, value in zip(keys, values, strict=True))


class KeyIndex:
    """A source's keys, ready for lookups. ``columns`` have no nulls. Thread-safe."""

    def __init__(self, keys: Sequence[KeyColumn], columns: Sequence[pa.Array]) -> None:
        self.keys = tuple(keys)
        self.columns = tuple(columns)
        self._packed = PackedKeys.of(columns, FLAGS_MAX)
        if self._packed is not None:
            self.code_of_row = self._packed.key_of_row
            self._row_of_code = self._packed.row_of_key
            self.num_keys = len(self._row_of_code)
            return
        self._distinct = [pc.unique(column) for column in columns]
        self._levels: list[NDArray[np.int64]] = []
        if len(self._distinct[0]) == len(columns[0]):  # in row order
            codes = np.arange(len(columns[0]))
        else:
            codes = _codes(columns[0], self._distinct[0])
        for column, distinct in zip(columns[1:], self._distinct[1:], strict=True):
            level, codes = np.unique(codes * len(distinct) + _codes(column, distinct), return_inverse=True)
            self._levels.append(level)
        self.code_of_row = codes.astype(np.int64)
        self.num_keys = int(codes.max()) + 1 if len(codes) else 0
        self._row_of_code = np.zeros(self.num_keys, dtype=np.int64)
        self._row_of_code[codes] = np.arange(len(codes))  # the last of several rows

    @staticmethod
    def suits(keys: Sequence[KeyColumn], columns: Sequence[pa.Array]) -> bool:
        """Whether lookups of these keys, without nulls, are fast however many there are: few integers lie between."""
        if len(keys) > 1 or not isinstance(keys[0].type, Primitive) or keys[0].type.name not in _INTEGERS:
            return False
        ends = pc.min_max(columns[0])
        return not len(columns[0]) or ends["max"].as_py() - ends["min"].as_py() < FLAGS_MAX

    @property
    def num_rows(self) -> int:
        """The number of rows that have the keys."""
        return len(self.code_of_row)

    @property
    def last_row_of_keys(self) -> NDArray[np.int64]:
        """The last row that has each key."""
        return self._row_of_code

    def last_rows(self, order: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
        """Which rows stay if only the last row of each key does: by arrival, or in the given order."""
        last = self._row_of_code
        if order is not None:
            last = np.zeros(self.num_keys, dtype=np.int64)
            last[self.code_of_row[order]] = order
        stays = np.zeros(len(self.code_of_row), dtype=bool)
        stays[last] = True
        return stays

    def first_repeated(self) -> tuple[int, int] | None:
        """The first two rows that share a key; None if all keys are distinct."""
        if self.num_keys == len(self.code_of_row):
            return None
        order = np.argsort(self.code_of_row, kind="stable")
        sorted_codes = self.code_of_row[order]
        again = np.flatnonzero(sorted_codes[1:] == sorted_codes[:-1])
        at = again[np.argmin(order[again + 1])]
        return int(order[at]), int(order[at + 1])

    @property
    def is_cheap(self) -> bool:
        """Whether a lookup costs nothing besides the rows looked up."""
        return self._packed is not None or self._flags is not None

    def source_rows(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """For each key in ``columns``, the source row that has it; -1 if none does."""
        found = np.full(len(columns[0]), -1, dtype=np.int64)
        at, rows = self.matches(columns)
        found[at] = rows
        return found

    def matches(self, columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The indices of the keys in ``columns`` that the source has, ascending, and each one's source row."""
        if self.num_keys == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if self._packed is not None:
            matched, codes = self._packed.matches(columns)
            return matched, self._row_of_code[codes]
        at = self._possible(columns[0])
        if at is not None:
            columns = [column.take(from_numbers(at)) for column in columns]
        codes = self._first_codes(columns[0], is_certain=at is not None)
        for column, distinct, level in zip(columns[1:], self._distinct[1:], self._levels, strict=True):
            other = _codes(column, distinct)
            combined = codes * len(distinct) + other
            place = np.minimum(np.searchsorted(level, combined), len(level) - 1)
            codes = np.where((codes >= 0) & (other >= 0) & (level[place] == combined), place, -1)
        matched = np.flatnonzero(codes >= 0)
        rows = self._row_of_code[codes[matched]]
        return (matched if at is None else at[matched]), rows

    def _first_codes(self, column: pa.Array, *, is_certain: bool) -> NDArray[np.int64]:
        """`_codes` of the first key column. With ``is_certain``, each value is an integer among the distinct ones."""
        if not is_certain or len(column) > len(self._sorted[0]) // _FEW:
            return _codes(column, self._distinct[0])
        # Each kernel call builds a hash table of the distinct values; for few values, that costs more than it saves.
        values, places = self._sorted
        wanted = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        found: NDArray[np.int64] = places[np.searchsorted(values, wanted)]
        return found

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct values of the first key column, which are integers, sorted, and their indices."""
        values = self._distinct[0].to_numpy(zero_copy_only=False).astype(np.int64)
        places = np.argsort(values)
        return values[places], places

    @cached_property
    def _flags(self) -> tuple[int, NDArray[np.bool_]] | None:
        """One flag for each integer from the least key to the greatest, if they are not too many."""
        if not isinstance(self.keys[0].type, Primitive) or self.keys[0].type.name not in _INTEGERS:
            return None
        if self.num_keys == 0:
            return None
        values = self._distinct[0].to_numpy(zero_copy_only=False).astype(np.int64)
        low, high = int(values.min()), int(values.max())
        if high - low >= FLAGS_MAX:
            return None
        flags = np.zeros(high - low + 2, dtype=bool)
        flags[values - low] = True
        return low, flags

    def _possible(self, column: pa.Array) -> NDArray[np.int64] | None:
        """Where the first key column holds one of the source's values; None if finding out is expensive."""
        if self._flags is None or column.null_count:
            return None
        low, flags = self._flags
        values = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        # As an unsigned number, a difference is in range only if the value is; no key has the last flag.
        places = (values - low).view(np.uint64)
        np.minimum(places, np.uint64(len(flags) - 1), out=places)
        return np.flatnonzero(flags[places.view(np.int64)])


def _codes(column: pa.Array, distinct: pa.Array) -> NDArray[np.int64]:
    """The index of each value among the distinct ones; -1 for null and for other values."""
    if column.type != distinct.type:  # one of them is large
        column, distinct = column.cast(large_type(column.type)), distinct.cast(large_type(distinct.type))
    places = pc.index_in(column, value_set=distinct)
    if places.null_count:
        places = pc.fill_null(places, -1)
    found: NDArray[np.int64] = places.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
