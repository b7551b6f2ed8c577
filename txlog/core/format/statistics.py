"""Statistics of a data file we wrote: the JSON text of ``add.stats``, from the file's Parquet footer.

In: which columns get statistics (``StatisticsPolicy``), the batches written into the file (only for what a footer
lacks: floats, null arrays and maps), and the footer. Out: one JSON object with only true bounds. A bound that is
unknown, or cannot be written so that all readers understand it, is left out: a missing bound costs a reader time, a
wrong one costs it rows. Reading is in ``statistics_read``. PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import orjson
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.column_mapping import physical_schema
from txlog.core.format.properties import TableProperties
from txlog.core.format.schema import (
    TIMESTAMPS,
    Array,
    DataType,
    Decimal,
    Map,
    Primitive,
    Struct,
    fold_name,
    leaf_paths,
    timestamp_of,
)
from txlog.core.format.wire import INT64_MAX, shown
from txlog.core.util import cached_property
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from txlog.core.format.arrow.footer_statistics import FooterStatistics
    from txlog.core.format.arrow.parquet import pq

LAST_CHARACTER = "\U0010ffff"
"""Sorts at or above every character: writers append it to a maximum that they cut."""

ColumnPath: TypeAlias = tuple[str, ...]


class StatisticsPolicy(msgspec.Struct, frozen=True, dict=True):
    """Which leaf columns of a table get statistics, in schema order, and to how many characters strings are cut."""

    leaves: tuple[tuple[ColumnPath, DataType], ...]
    string_prefix_length: int = 32

    @cached_property
    def floats(self) -> tuple[ColumnPath, ...]:
        return tuple(path for path, data_type in self.leaves if data_type in _FLOATS)

    @cached_property
    def nested(self) -> tuple[ColumnPath, ...]:
        return tuple(path for path, data_type in self.leaves if isinstance(data_type, Array | Map))

    @classmethod
    def of(cls, schema: Struct, properties: TableProperties, partition_columns: Iterable[str]) -> StatisticsPolicy:
        """The columns that ``delta.dataSkippingStatsColumns`` names, otherwise the first
        ``delta.dataSkippingNumIndexedCols`` leaves (32 if unset, all if -1). An array or map counts as one leaf;
        partition columns have no statistics and do not count. The paths are those in the files (physical names).
        """
        stored = schema.without(tuple(partition_columns))
        leaves = tuple(leaf_paths(physical_schema(stored)))
        named = properties.data_skipping_stats_columns
        if named is not None:
            wanted = {_folded(path) for path in named}
            leaves = tuple(
                leaf
                for leaf, (path, _) in zip(leaves, leaf_paths(stored), strict=True)
                if any(prefix in wanted for prefix in _prefixes(_folded(path)))
            )
        elif properties.data_skipping_num_indexed_cols >= 0:
            leaves = leaves[: properties.data_skipping_num_indexed_cols]
        return cls(leaves, properties.data_skipping_string_prefix_length)

    def leaves_in(self, schema: pa.Schema) -> tuple[FileLeaf, ...]:
        """The columns that a file with this schema has, with the types that Parquet returns."""
        found = dict(file_leaves(schema))
        return tuple(
            FileLeaf(path, found[place][0], _codec_of(data_type, found[place][1], self.string_prefix_length))
            for path, data_type in self.leaves
            if (place := _place(path, data_type)) in found
        )


def _place(path: ColumnPath, data_type: DataType) -> ColumnPath:
    """The column of the file that is null where the leaf is. Of a type whose values are structs, it is the last member
    that has no nulls: files may leave out the others."""
    arrow = data_type.facts.arrow if isinstance(data_type, Primitive) else None
    if not isinstance(arrow, pa.StructType):
        return path
    return (*path, [member.name for member in arrow if not member.nullable][-1])


class FileLeaf(msgspec.Struct, frozen=True):
    """A column of a file by its path, its place in the footer, and how its bounds are read (None: they are not)."""

    path: ColumnPath
    index: int
    codec: _Codec | None


def check_statistics_columns(schema: Struct, properties: TableProperties, partition_columns: Iterable[str]) -> None:
    """Raise InvalidInputError if ``delta.dataSkippingStatsColumns`` names a column that the data files lack."""
    data_columns = schema.without(tuple(partition_columns))
    known = {prefix for path, _ in leaf_paths(data_columns) for prefix in _prefixes(path)}
    folded = {_folded(path) for path in known}
    for path in properties.data_skipping_stats_columns or ():
        if _folded(path) not in folded:
            raise InvalidInputError(
                f"table property delta.dataSkippingStatsColumns names {'.'.join(path)!r}, which is not a data column "
                f"of the table ({', '.join(data_columns.names)})"
            )


class FileStatistics:
    """Collects the statistics of one data file: ``observe`` each batch written into it, then ``finish``.

    ``leaves`` are ``policy.leaves_in(schema)``, for writers of many files with one schema; otherwise they come from the
    footer. Not thread-safe, like the writer of one file. Without ``observe`` (a file of another writer), float columns
    get no bounds, and arrays and maps get no null count.
    """

    def __init__(self, policy: StatisticsPolicy, leaves: tuple[FileLeaf, ...] | None = None) -> None:
        self._policy = policy
        self._leaves = leaves
        self._floats = {path: _FloatsSeen() for path in policy.floats}
        self._nulls = {path: _NullsSeen() for path in policy.nested}
        self._kept: list[tuple[str, ColumnPath, Any]] = []

    def keep(self, paths: Iterable[ColumnPath], stats: str | None) -> None:
        """These floats, arrays and maps, which are not among the policy's columns, have the same values as those of
        another file, whose ``add.stats`` are ``stats``: for what its footer lacks. Text that is no JSON counts as none.
        """
        try:
            document = orjson.loads(stats or "{}")
        except ValueError:
            return
        for tree, is_value in (("minValues", _is_float), ("maxValues", _is_float), ("nullCount", _is_count)):
            for path in paths:
                value = value_at(document, (tree, *path))
                if is_value(value):
                    self._kept.append((tree, path, value))

    def bound(self, path: ColumnPath, low: Any, high: Any) -> None:
        """Put bounds of a column whose type has its own kind of them; None is no bound."""
        if any(path == known for known, _ in self._policy.leaves):
            bounds = (("minValues", path, low), ("maxValues", path, high))
            self._kept += [each for each in bounds if each[2] is not None]

    def observe(self, data: pa.RecordBatch | pa.Table) -> None:
        """Look at rows as they are written, of all columns or of some; columns are found by the table's names. Costs a
        pass over the floats."""
        if not self._floats and not self._nulls:
            return
        names = {*data.schema.names}
        for path, seen in (*self._floats.items(), *self._nulls.items()):
            for column in _chunks(data, path) if path[0] in names else ():
                seen.look(column)

    @property
    def floats(self) -> Iterable[ColumnPath]:
        """The columns whose bounds only `observe` finds."""
        return self._floats.keys()

    def finish(self, metadata: pq.FileMetaData, believed: FooterStatistics | None = None) -> str:
        """The text for ``add.stats``, given the footer of the file that the observed batches became.

        ``believed``: which statistics of the footer are true, of a file that another program wrote.
        """
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        leaves = self._leaves
        if leaves is None:
            leaves = _of_another_writer(self._policy.leaves_in(schema := metadata.schema.to_arrow_schema()), schema)
        return self._text(leaves, groups, sum(group.num_rows for group in groups), believed)

    def _text(
        self, leaves: tuple[FileLeaf, ...], groups: list[Any], num_rows: int, believed: FooterStatistics | None
    ) -> str:
        trees: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
        for leaf in leaves:
            path, codec = leaf.path, leaf.codec
            nulls = self._nulls.get(path)
            if nulls is not None:
                if nulls.num_rows == num_rows:
                    _put(trees["nullCount"], path, nulls.null_count)
                continue
            null_count: int | None
            seen = self._floats.get(path)
            if seen is not None and seen.num_rows == num_rows:
                null_count, bounds = seen.null_count, seen.bounds
            else:
                readable = codec if seen is None else None
                null_count, bounds = _read_footer(groups, leaf.index, readable.decode if readable else None, believed)
            _put(trees["nullCount"], path, null_count)
            if codec and bounds:
                _put(trees["minValues"], path, codec.minimum(bounds[0]))
                _put(trees["maxValues"], path, codec.maximum(bounds[1]))
        for tree, path, value in self._kept:
            _put(trees[tree], path, value)
        return orjson.dumps({"numRecords": num_rows, **trees}).decode()


# --- what footers lack -----------------------------------------------------------------------------------------


class _NullsSeen:
    """The rows and the nulls of one array or map."""

    __slots__ = ("null_count", "num_rows")

    def __init__(self) -> None:
        self.num_rows = self.null_count = 0

    def look(self, column: pa.Array) -> None:
        self.num_rows += len(column)
        self.null_count += column.null_count


class _FloatsSeen(_NullsSeen):
    """The nulls and the bounds of one float column. Ours have none in the footer; those of other writers do not say
    whether there is NaN, which Parquet leaves out of its bounds and engines sort differently, or -0.0.
    """

    __slots__ = ("_high", "_low", "_nan")

    def __init__(self) -> None:
        super().__init__()
        self._low, self._high = math.inf, -math.inf
        self._nan = False

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The minimum, which is -0.0 if the column may hold that, and the maximum; None with NaN or without values."""
        return None if self._nan or self._low > self._high else (self._low, self._high)

    def look(self, column: pa.Array) -> None:
        super().look(column)
        if self._nan or column.null_count == len(column):
            return
        if len(column) <= FEW_ROWS:
            self._look_at_each(column.to_pylist())
            return
        values = _values(column)
        low = float(np.minimum.reduce(values))  # NaN if there is one
        if low == 0 and bool(np.signbit(values).any()):
            low = -0.0
        self._extend(low, float(np.maximum.reduce(values)))

    def _look_at_each(self, values: list[float | None]) -> None:
        """For a few values. NumPy's fixed cost would be higher."""
        for value in values:
            if value is not None:
                self._extend(value, value)

    def _extend(self, low: float, high: float) -> None:
        self._nan |= low != low
        if low < self._low or (low == 0 == self._low and math.copysign(1, low) < 0):
            self._low = low
        self._high = max(self._high, high)


def _values(column: pa.Array) -> np.ndarray[Any, Any]:
    """A float column with one of its values in place of each null, which is several times as fast as taking them out.

    There must be a value.
    """
    values: np.ndarray[Any, Any]
    if column.null_count:
        from txlog.core.format.arrow.compute import pc

        column = pc.fill_null(column, column[pc.index(pc.is_valid(column), True).as_py()])
    width = column.type.bit_width // 8
    values = np.frombuffer(column.buffers()[1], f"f{width}", len(column), column.offset * width)
    return values


def _chunks(data: pa.RecordBatch | pa.Table, path: ColumnPath) -> list[pa.Array]:
    column = data.column(path[0])
    chunks = list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]
    if len(path) == 1:
        return chunks
    from txlog.core.format.arrow.arrays import visible_member

    return [visible_member(chunk, path[1:]) for chunk in chunks]


# --- the footer ---------------------------------------------------------------------------------------------------


def file_leaves(schema: pa.Schema) -> Iterator[tuple[ColumnPath, tuple[int, pa.DataType]]]:
    """Each leaf by its path, with the index of its (first) Parquet column.

    From the Arrow form of the Parquet schema, since Parquet's dotted column paths are ambiguous.
    """
    index = 0
    for member in schema:
        yield from _leaves_below((member.name,), member.type, index)
        index += leaf_count(member.type)


def _leaves_below(path: ColumnPath, data_type: pa.DataType, index: int) -> Iterator[tuple[ColumnPath, Any]]:
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if not pa.types.is_struct(data_type):
        yield path, (index, data_type)
        return
    for member in data_type.fields:
        yield from _leaves_below((*path, member.name), member.type, index)
        index += leaf_count(member.type)


def leaf_count(data_type: pa.DataType) -> int:
    """How many Parquet columns a type takes."""
    if isinstance(data_type, pa.BaseExtensionType):
        return leaf_count(data_type.storage_type)
    if not pa.types.is_nested(data_type):
        return 1
    return sum(leaf_count(data_type.field(position).type) for position in range(data_type.num_fields))


def _read_footer(
    groups: list[Any], index: int, decode: Callable[[Any], Any] | None, believed: FooterStatistics | None
) -> tuple[int | None, tuple[Any, Any] | None]:
    """The null count and the bounds of one column over all row groups; unknown if it
    is unknown for one row group."""
    null_count: int | None = 0
    lows: list[Any] = []
    highs: list[Any] = []
    for group in groups:
        statistics = group.column(index).statistics if believed is None else believed.of(group, index)
        if statistics is None:
            return None, None
        if not statistics.has_null_count:
            null_count = None
        elif null_count is not None:
            null_count += statistics.null_count
        if decode is None:
            continue
        if statistics.has_min_max:
            try:
                lows.append(decode(statistics.min_raw))
                highs.append(decode(statistics.max_raw))
            except ValueError:
                decode = None
        elif not statistics.has_null_count or statistics.null_count != group.num_rows:
            decode = None
    return null_count, (min(lows), max(highs)) if decode and lows else None


# --- bounds, from Parquet's raw values to JSON ----------------------------------------------------------------------


def _of_another_writer(leaves: tuple[FileLeaf, ...], schema: pa.Schema) -> tuple[FileLeaf, ...]:
    """The leaves without the bounds of dates and times that mean others than the footer's numbers say."""
    from txlog.core.format.arrow.old_calendar import old_calendar

    if old_calendar(schema.metadata) is None:
        return leaves
    types = dict(file_leaves(schema))
    return tuple(replace(each, codec=None) if pa.types.is_temporal(types[each.path][1]) else each for each in leaves)


class _Codec(msgspec.Struct, frozen=True):
    """``decode`` makes raw footer values comparable (ValueError: not to be trusted); the others make JSON or None."""

    decode: Callable[[Any], Any]
    minimum: Callable[[Any], Any]
    maximum: Callable[[Any], Any]


_FLOATS = (Primitive("float"), Primitive("double"))
_INTEGERS = ("byte", "short", "integer", "long")
FEW_ROWS = 32
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_LAST_DAY = datetime.date.max.toordinal()
_DAY_MS = 86_400_000
_TICKS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def _same(value: Any) -> Any:
    return value


_AS_IT_IS = _Codec(_same, _same, _same)


def _codec_of(data_type: DataType, file_type: pa.DataType, prefix_length: int) -> _Codec | None:
    """None if the type has no bounds, or the file stores it in a form whose raw values we would misread."""
    if isinstance(data_type, Decimal):
        if not pa.types.is_decimal(file_type) or file_type.scale != data_type.scale:
            return None
        return _Codec(_unscaled, *2 * (lambda value: _decimal_json(value, data_type.scale),))
    name = data_type.name if isinstance(data_type, Primitive) else ""
    if data_type in _FLOATS and pa.types.is_floating(file_type):
        return _FLOAT
    if name in _INTEGERS and pa.types.is_signed_integer(file_type):
        return _AS_IT_IS
    if name == "boolean" and pa.types.is_boolean(file_type):
        # Spark writes none, but if only this column has none, one reader (deltalake's dataset) concludes "no rows".
        return _AS_IT_IS
    if name == "string" and pa.types.is_string(file_type):
        return _Codec(
            bytes.decode, lambda text: text[:prefix_length], lambda text: _string_maximum(text, prefix_length)
        )
    if name == "date" and pa.types.is_date32(file_type):
        return _Codec(_same, _date_json, _date_json)
    if data_type in TIMESTAMPS and pa.types.is_timestamp(file_type):
        if data_type != timestamp_of(has_zone=file_type.tz is not None) or file_type.unit not in _TICKS_PER_MS:
            return None
        ticks, zone = _TICKS_PER_MS[file_type.unit], "Z" if name == "timestamp" else ""
        return _Codec(_same, *2 * (lambda value: _timestamp_json(value // ticks, zone),))
    return None


def _float_json(value: float) -> float | str:
    """Infinities as strings, as Spark writes them and every reader accepts them."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


_FLOAT = _Codec(_same, _float_json, lambda value: _float_json(0.0 if value == 0 else value))


def _unscaled(raw: int | bytes) -> int:
    return raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)


def _decimal_json(unscaled: int, scale: int) -> orjson.Fragment:
    """All digits, as a JSON number: a float would lose some of them."""
    digits = str(abs(unscaled)).zfill(scale + 1)
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return orjson.Fragment(f"-{text}" if unscaled < 0 else text)


def _date_json(days: int) -> str | None:
    """None outside the years 1 to 9999, where engines do not agree on the text."""
    ordinal = days + _EPOCH_DAY
    return datetime.date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= _LAST_DAY else None


def _timestamp_json(milliseconds: int, zone: str) -> str | None:
    """Milliseconds, rounded down for both bounds: readers add one to a maximum, as the protocol requires."""
    days, rest_ms = divmod(milliseconds, _DAY_MS)
    day = _date_json(days)
    if day is None:
        return None
    seconds, fraction_ms = divmod(rest_ms, 1_000)
    minutes, seconds = divmod(seconds, 60)
    return f"{day}T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{fraction_ms:03}{zone}"


def above_all(prefix: str) -> str | None:
    """The least string above all that begin with ``prefix``; None if there is none."""
    kept = prefix.rstrip(LAST_CHARACTER)
    if not kept:
        return None
    last = ord(kept[-1])
    return kept[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)  # between them are halves of surrogate pairs


def _string_maximum(text: str, prefix_length: int) -> str | None:
    """A string at or above ``text`` with few more than ``prefix_length`` characters; None if there is none.

    It is a prefix of the text and one character that sorts above the next one. Lengths count code points, which sort
    like UTF-8 bytes, so no character is split.
    """
    if len(text) <= prefix_length:
        return text
    end = prefix_length
    while end < len(text) and text[end] == LAST_CHARACTER:
        end += 1  # nothing sorts above this one: keep it
    if end == len(text) and end <= 2 * prefix_length:
        return text
    if end == len(text) or end > 2 * prefix_length:
        return above_all(text[:prefix_length])
    return text[:end] + ("\x7f" if text[end] < "\x7f" else LAST_CHARACTER)


# --- the JSON tree ------------------------------------------------------------------------------------------------


def _put(tree: dict[str, Any], path: ColumnPath, value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def value_at(tree: Any, path: ColumnPath) -> Any:
    """What a tree of objects, such as ``minValues``, has for a column; None if it has nothing."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _is_float(value: Any) -> bool:
    return type(value) in (int, float) or value in ("Infinity", "-Infinity")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= INT64_MAX


def _folded(path: ColumnPath) -> ColumnPath:
    return tuple(map(fold_name, path))


def _prefixes(path: ColumnPath) -> list[ColumnPath]:
    return [path[:length] for length in range(1, len(path) + 1)]


def with_bounds(stats: str | None) -> set[ColumnPath]:
    """The columns with a minimum or a maximum in ``add.stats``. Text that is no JSON has none."""
    try:
        document = orjson.loads(stats or "{}")
    except ValueError:
        return set()
    trees = [value_at(document, (name,)) for name in ("minValues", "maxValues")]
    return {path for tree in trees if isinstance(tree, dict) for path in _paths(tree, ())}


def _paths(tree: Mapping[str, Any], above: ColumnPath) -> Iterator[ColumnPath]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))
        elif value is not None:
            yield *above, name


def statistics_problem(text: str | None) -> str | None:
    """Why these statistics are invalid, as a phrase to follow the file's name; None if they are valid.

    For a file that is about to be added. Readers handle invalid statistics differently: some fail at each scan.
    """
    if text is None:
        return None
    try:
        document = orjson.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return f"has stats that are not the text of a JSON object: {shown(text)}"
    for name, allowed in (("minValues", dict), ("maxValues", dict), ("nullCount", dict), ("tightBounds", bool)):
        if document.get(name) is not None and type(document[name]) is not allowed:
            return f"has stats whose {name} must be {_JSON_NAMES[allowed]}, not {shown(document[name])}"
    counts = {"numRecords": document.get("numRecords"), "nullCount": document.get("nullCount")}
    for name, value in _leaves(counts):
        if value is not None and not (type(value) is int and 0 <= value <= INT64_MAX):
            return f"has stats whose {name} must be an integer from 0 to 2**63-1, not {shown(value)}"
    return None


_JSON_NAMES = {dict: "an object", bool: "true or false"}


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
