"""UPSERT: source rows replace the table rows with their keys, or are added if there are none.

In: a `UpsertSource`, and what to do with keys that the table has or lacks. Out: a `RowOperation`. The rows of a file
with a source key are looked up once. Which keys the table has is decided again at each execution, from all live files:
another writer may have deleted or added a key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.changes.tasks.file_rows import FileReader, FileRows
from txlog.core.changes.tasks.operation import Hits, Images, RowOperation, Touched
from txlog.core.changes.tasks.operations.known_keys import KnownKeys, KnownPart, known_keys
from txlog.core.changes.tasks.operations.merge_history import merge_metrics
from txlog.core.changes.tasks.operations.numbered_keys import NumberedKeys
from txlog.core.changes.tasks.operations.sorted_keys import SortedKeys
from txlog.core.changes.tasks.operations.upsert_source import OnDuplicate, UpsertSource, read_source
from txlog.core.format.actions import AddFile, FileId, operation_parameters
from txlog.core.format.arrow.take_rows import joined_rows, taken_batches
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.identity import identity_columns
from txlog.core.format.schema import Struct, fold_name
from txlog.core.predicates.predicate import Predicate
from txlog.core.predicates.skipping.key_pruning import KeyPruner, KeyRanges, key_range
from txlog.core.reading import KeyCache
from txlog.core.util import ambient
from txlog.core.util.arguments import described, invalid, names_in, one_of
from txlog.core.util.lazy import cached_property
from txlog.core.util.wording import argument, setting
from txlog.core.writing.committable import PendingFile
from txlog.core.writing.generated_columns import (
    ComputedColumns,
    Numbers,
    computed_columns,
    generated_of,
    refuse_set_numbers,
    without_computed,
)
from txlog.core.writing.keys import KeyColumn, KeyIndex, key_columns
from txlog.core.writing.write_intent import SchemaMode, check_adds_columns
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "KeyedSource",
    "MissingColumns",
    "UpsertOptions",
    "UpsertRows",
    "WhenMatched",
    "WhenNotMatched",
    "for_source",
    "keeping_numbers",
    "read_upsert",
    "read_upsert_source",
    "source_columns",
    "source_computed",
]

WhenMatched: TypeAlias = Literal["update", "ignore"]
WhenNotMatched: TypeAlias = Literal["insert", "ignore"]
MissingColumns: TypeAlias = Literal["error", "default"]
"""Of table columns that the source lacks: refuse them; or keep them in matched rows, and insert defaults or nulls."""

_SMALL_BYTES = 1 << 20  # a small file has at most one row group to skip, and checking costs as much
_PROBE_ROWS = 1 << 20  # looked up at a time: each lookup's cost grows with the number of source keys


class UpsertOptions(msgspec.Struct, frozen=True):
    """The options that `Table.upsert` documents. Raises ``InvalidInputError`` for invalid values."""

    keys: str | Iterable[str]
    when_matched: WhenMatched = "update"
    when_not_matched: WhenNotMatched = "insert"
    update_columns: Sequence[str] | None = None
    on_duplicate: OnDuplicate = "error"
    sequence_by: str | None = None
    schema_mode: SchemaMode = "strict"
    merge_engine: str | Mapping[str, Any] | None = None
    row_kind: str | None = None
    row_kinds: Mapping[Any, str] | None = None
    missing_columns: MissingColumns = "error"

    def __post_init__(self) -> None:
        check_adds_columns(self.schema_mode)
        for name, choices in (
            ("when_matched", get_args(WhenMatched)),
            ("when_not_matched", get_args(WhenNotMatched)),
            ("on_duplicate", get_args(OnDuplicate)),
            ("missing_columns", get_args(MissingColumns)),
        ):
            if getattr(self, name) not in choices:
                raise invalid(name, getattr(self, name), one_of(choices))
        if self.when_matched == self.when_not_matched == "ignore":
            raise InvalidInputError("an upsert that ignores both matched and unmatched rows does nothing")
        if self.row_kinds is not None and self.row_kind is None:
            raise InvalidInputError(
                f"{argument('row_kinds')} defines the values of the {argument('row_kind')} column: pass"
                f" {argument('row_kind')}, its name, too"
            )
        if self.update_columns is not None and self.when_matched != "update":
            raise InvalidInputError(
                f'{argument("update_columns")} needs {setting("when_matched", "update")}, and it is "ignore"'
            )


def for_source(upsert: UpsertOptions, found: Iterable[str], table: DefinedTable) -> UpsertOptions:
    """The same upsert for a source with the columns ``found``: matched rows keep the columns that it may lack.

    Raises ``InvalidInputError`` if it lacks a column that matched rows are to get.
    """
    names = {fold_name(name) for name in found}
    may_be_set = without_computed(table.schema).names
    lacks = [name for name in may_be_set if fold_name(name) not in names]
    if upsert.missing_columns == "error" or not lacks:
        return upsert
    if upsert.update_columns is not None:
        absent = [name for name in upsert.update_columns if fold_name(str(name)) not in names]
        if absent:
            raise InvalidInputError(f"{argument('update_columns')} names {absent[0]!r}, which the source lacks")
        return upsert
    if upsert.when_matched == "ignore":
        return upsert
    of_keys = _known_by_keys(key_columns(upsert.keys, table.schema, table.partition_columns))
    counted = {column.name for column in identity_columns(table.schema)}
    updated = [name for name in table.schema.names if fold_name(name) in names and name not in {*of_keys, *counted}]
    return replace(upsert, update_columns=tuple(updated)) if updated else replace(upsert, when_matched="ignore")


class KeyedSource(Protocol):
    """Rows with distinct keys. Only a `UpsertSource` holds the rows themselves."""

    @property
    def index(self) -> KeyIndex | NumberedKeys | SortedKeys: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def num_given(self) -> int:
        """The number of rows before rows with equal keys were dropped."""


def read_upsert(
    table: DefinedTable,
    uri: str,
    data: Any,
    upsert: UpsertOptions,
    cache: KeyCache | None = None,
    numbers: Numbers | None = None,
) -> UpsertRows:
    """Read the source of an upsert without a merge engine, and bind the upsert to a table's definition.

    ``cache`` has the keys of data files that the table's handle knows, if there is a handle. ``numbers`` are for the
    identity columns of new rows; None if the source has them. Raises what `read_upsert_source` raises.
    """
    source, updated = read_upsert_source(table, uri, data, upsert, numbers)
    known = None if cache is None else known_keys(cache, source.index, table)
    return UpsertRows(source, upsert, updated, table, known)


def read_upsert_source(
    table: DefinedTable, uri: str, data: Any, upsert: UpsertOptions, numbers: Numbers | None = None
) -> tuple[UpsertSource, tuple[str, ...] | None]:
    """An upsert's source, and the columns that matched rows get from it (None: all).

    ``uri`` is the table's location, for errors. Raises what `source_columns` and `read_source` raise.
    """
    with TxlogError.located(uri, table.version):
        keys, updated, schema = source_columns(upsert, table.schema, table.partition_columns)
        found = read_source(
            data,
            schema,
            keys,
            on_duplicate=upsert.on_duplicate,
            sequence_by=upsert.sequence_by,
            table=uri,
            left_out={*table.schema.names} - {*schema.names},
            computed=source_computed(upsert, table, uri, numbers),
            may_lack=upsert.missing_columns == "default",
        )
    return found, updated


def source_computed(
    upsert: UpsertOptions, table: DefinedTable, uri: str, numbers: Numbers | None
) -> ComputedColumns | None:
    """The columns that the rows of a source may lack, with the defaults of now if the upsert inserts them."""
    if upsert.when_not_matched != "insert":
        numbers = None
    if upsert.missing_columns == "error":
        return generated_of(table.schema, uri, table.partition_columns, numbers, zone=table.time_zone)
    found = computed_columns(table.schema, uri, table.partition_columns, zone=table.time_zone)
    if found is None:
        return None
    found = replace(found, identity=() if numbers is None else found.identity, numbers=numbers)
    return found.at(ambient.now()) if found.is_of_now else found


def _known_by_keys(keys: Iterable[KeyColumn]) -> set[str]:
    """The columns of which matched rows have the source's values already. A struct with a key has other fields too."""
    return {key.path[0] for key in keys if len(key.path) == 1}


def keeping_numbers(upsert: UpsertOptions, table: DefinedTable) -> UpsertOptions:
    """The upsert of a table where matched rows keep the values of identity columns: it updates all other columns.

    Raises ``InvalidInputError`` for an identity column to update, and for a key that new rows may not bring.
    """
    schema = table.schema
    columns = identity_columns(schema)
    if not columns:
        return upsert
    keys = names_in("keys", upsert.keys)
    of_keys = _known_by_keys(key_columns(keys, schema, table.partition_columns))
    counted = [column for column in columns if column.name in of_keys and not column.takes_values]
    if counted and upsert.when_not_matched == "insert":
        raise InvalidInputError(
            f"the key {counted[0].name} is {counted[0].kind}, so that no new row can bring it: pass"
            f" {setting('when_not_matched', 'ignore')}, or upsert by another key"
        )
    upsert = replace(upsert, keys=keys)
    if upsert.when_matched != "update" or isinstance(upsert.update_columns, str):
        return upsert
    if upsert.update_columns is not None:
        refuse_set_numbers(schema, {field.name for field in map(schema.find, upsert.update_columns) if field})
        return upsert
    updated = [field.name for field in without_computed(schema).fields if field.name not in of_keys]
    return replace(upsert, update_columns=updated) if updated else replace(upsert, when_matched="ignore")


def source_columns(
    upsert: UpsertOptions, schema: Struct, partition_columns: Iterable[str]
) -> tuple[tuple[KeyColumn, ...], tuple[str, ...] | None, Struct]:
    """The key columns, the columns that matched rows get (None: all), and the columns that the source must have.

    Raises ``InvalidInputError`` for names that are not columns, and for types that cannot be keys.
    """
    if upsert.sequence_by is not None and upsert.on_duplicate != "last":
        raise InvalidInputError(
            f"{argument('sequence_by')} decides which of several rows is the last: pass"
            f" {setting('on_duplicate', 'last')} too, or a {argument('merge_engine')}"
        )
    keys = key_columns(upsert.keys, schema, partition_columns)
    updated = _updated_columns(upsert, keys, schema)
    return keys, updated, _source_schema(upsert, keys, updated, schema)


def _updated_columns(upsert: UpsertOptions, keys: Sequence[KeyColumn], schema: Struct) -> tuple[str, ...] | None:
    """The columns that matched rows get from the source; None if whole rows are replaced."""
    if upsert.update_columns is None:
        return None
    if isinstance(upsert.update_columns, str):
        raise invalid("update_columns", upsert.update_columns, "a list of names")
    found = []
    of_keys = _known_by_keys(keys)
    for name in upsert.update_columns:
        field = schema.find(name) if isinstance(name, str) else None
        if field is None:
            raise InvalidInputError(
                f"{argument('update_columns')} names {described(name)}, which is not a column; the columns are"
                f" {', '.join(schema.names)}"
            )
        if field.name in of_keys:
            raise InvalidInputError(
                f"{argument('update_columns')} names {field.name}, a key column: matched rows have its value already"
            )
        found.append(field.name)
    if not found:
        raise InvalidInputError(
            f"{argument('update_columns')} is empty: pass {setting('when_matched', 'ignore')} to leave matched rows"
            " as they are"
        )
    return tuple(dict.fromkeys(found))


def _source_schema(
    upsert: UpsertOptions, keys: Sequence[KeyColumn], updated: tuple[str, ...] | None, schema: Struct
) -> Struct:
    """All columns of the table, or only those that are used if no row is inserted."""
    if upsert.when_not_matched == "insert" or updated is None:
        return schema
    needed = {*updated, *(key.path[0] for key in keys)}
    needed |= {fold_name(upsert.sequence_by)} if upsert.sequence_by else set()
    return Struct(tuple(f for f in schema.fields if f.name in needed or fold_name(f.name) in needed))


class UpsertRows(RowOperation):
    """The `RowOperation` of an upsert."""

    name = "MERGE"
    uses_key_cache = True

    def __init__(
        self,
        source: KeyedSource,
        upsert: UpsertOptions,
        updated: tuple[str, ...] | None,
        table: DefinedTable,
        known: KnownKeys | None,
    ) -> None:
        self._source = source
        self._known = known
        self.num_source_rows = source.num_rows
        self._upsert = upsert
        self._updated = updated
        self._computed = None
        if updated is not None:
            self._computed = generated_of(table.schema, None, table.partition_columns, zone=table.time_zone)
        self._recomputed = () if self._computed is None else self._computed.recomputed(updated or ())
        self._new_values: pa.Table | None = None
        if updated is not None and isinstance(source, UpsertSource):
            self._new_values = joined_rows(source.rows.select(list(updated)))
        self._index = source.index
        keys = self._index.keys
        paths = [key.path for key in keys]
        self._paths, self._table = paths, table
        self._names = list(table.schema.names)
        names = {path[0] for path in paths}
        self._fields = tuple(field for field in table.schema.fields if field.name in names)
        self.makes_images = updated is not None
        self.replaces_rows = upsert.when_matched == "update"
        is_plain = upsert.when_matched == "update" and upsert.when_not_matched == "insert"
        self.writes_every_source_row = is_plain and not self.makes_images and not self.is_empty
        new = {*(updated or ()), *(each.name for each in self._recomputed)}
        self.image_fields = tuple(field for field in table.schema.fields if field.name not in new)
        if updated is not None and self._computed is None:
            self.changed_fields = tuple(field for field in table.schema.fields if field.name in new)

    @cached_property
    def _pruner(self) -> KeyPruner:
        """Made only if a file is not known: for a small source it costs more than everything else."""
        return KeyPruner(self._paths, self._values_of_keys, self._table.schema, self._table.partition_columns)

    @cached_property
    def _range(self) -> Predicate | None:
        return key_range(self._paths, self._values_of_keys, self._table.schema)

    @property
    def _values_of_keys(self) -> Sequence[pa.Array | KeyRanges]:
        """The values of each key column, or ranges that hold them."""
        return self._index.ranges if isinstance(self._index, NumberedKeys) else self._index.columns

    @property
    def is_empty(self) -> bool:
        """Whether the source has no row."""
        return self.num_source_rows == 0

    @property
    def reads(self) -> Predicate | None:
        return self._range

    def parameters(self) -> dict[str, str]:
        condition = " AND ".join(f"(t.{key.name} = s.{key.name})" for key in self._index.keys)
        upsert = self._upsert
        return operation_parameters(
            predicate=[condition],
            matchedPredicates=[{"actionType": "update"}] if upsert.when_matched == "update" else [],
            notMatchedPredicates=[{"actionType": "insert"}] if upsert.when_not_matched == "insert" else [],
            notMatchedBySourcePredicates=[],
        )

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        return merge_metrics(self._source.num_given, done)

    # --- look-up --------------------------------------------------------------------------------------------

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        return self._pruner.mask_of_table(files)

    def look_up(self, rows: FileRows, add: AddFile) -> Hits:
        parts: list[KnownPart] | None = [] if self._known is not None and self._known.is_wanted(add) else None
        is_narrow = (
            parts is None
            and add.size > _SMALL_BYTES
            and self._pruner.of_one_file.holds_others(add.partition_values, add.stats)
        )
        positions, source_rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        reader = rows.reader(self._fields, self._range if is_narrow else None, filters_rows=False)
        for numbers, columns in self._keys_in(reader, add):
            at, matched = self._index.matches(columns)
            positions.append(numbers[at])
            source_rows.append(matched)
            if parts is not None and self._known is not None:
                parts.append(self._known.part_of(columns, numbers))
        if parts is not None and self._known is not None:
            self._known.offer(add, parts)
        return self._hits(np.concatenate(positions).astype(np.uint64), np.concatenate(source_rows))

    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> list[Hits]:
        offers = [self._known is not None and self._known.is_wanted(add) for add in adds]
        reader = rows.reader(self._fields)
        found = [list(reader.batches(add, with_dead_rows=True)) for add in adds]
        counts = [sum(len(numbers) for numbers, _ in batches) for batches in found]
        if not any(counts):
            return [self._hits(np.empty(0, np.uint64), np.empty(0, np.int64)) for _ in adds]
        numbers = np.concatenate([numbers for batches in found for numbers, _ in batches])
        table = pa.Table.from_batches([batch for batches in found for _, batch in batches])
        columns = [key.of(table) for key in self._index.keys]
        at, source_rows = self._index.matches(columns)
        positions = numbers[at].astype(np.uint64)
        ends = np.cumsum(counts)
        cuts = [0, *np.searchsorted(at, ends).tolist()]
        for add, is_offered, count, end in zip(adds, offers, counts, ends.tolist(), strict=True):
            if is_offered and count and self._known is not None:
                of_file = [column.slice(end - count, count) for column in columns]
                self._known.offer(add, [self._known.part_of(of_file, numbers[end - count : end])])
        return [self._hits(positions[start:end], source_rows[start:end]) for start, end in itertools.pairwise(cuts)]

    def _keys_in(self, reader: FileReader, add: AddFile) -> Iterator[tuple[NDArray[np.int64], list[pa.Array]]]:
        """The positions and key columns of a file, many rows at a time."""
        batches = reader.batches(add, with_dead_rows=True)
        at_once = 0 if self._index.is_cheap else _PROBE_ROWS
        waiting: list[tuple[NDArray[np.int64], pa.RecordBatch]] = []
        for each in itertools.chain(batches, [None]):
            if each is not None:
                waiting.append(each)
            if waiting and (each is None or sum(len(numbers) for numbers, _ in waiting) >= at_once):
                table = pa.Table.from_batches([batch for _, batch in waiting])
                numbers = np.concatenate([numbers for numbers, _ in waiting])
                waiting = []
                yield numbers, [key.of(table) for key in self._index.keys]

    def _hits(self, positions: NDArray[np.uint64], source_rows: NDArray[np.int64]) -> Hits:
        stays = np.zeros(len(positions), dtype=bool) if self._upsert.when_matched == "ignore" else None
        return Hits(positions, source_rows, stays)

    def recall(self, files: pa.Table, *, are_all_live: bool) -> dict[FileId, Hits]:
        if self._known is None:
            return {}
        found = self._known.recall(files, are_all_live=are_all_live)
        none = self._hits(np.empty(0, np.uint64), np.empty(0, np.int64))  # in most files if there are many
        return {
            file: self._hits(each.positions, each.keys) if len(each.positions) else none for file, each in found.items()
        }

    def find_kept(self, adds: Sequence[AddFile]) -> dict[FileId, Hits]:
        found = {} if self._known is None else self._known.find_kept(adds)
        return {file: self._hits(each.positions, each.keys) for file, each in found.items()}

    def keep(self) -> None:
        if self._known is not None:
            self._known.keep()

    def keep_beside(self) -> None:
        if self._known is not None:
            self._known.keep_beside()

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[np.bool_]) -> None:
        if self._known is not None:
            self._known.keep_written(files, is_written)

    # --- rows -----------------------------------------------------------------------------------------------

    def images(self, rows: pa.RecordBatch | None, hits: Hits) -> Iterator[Images]:
        assert self._updated is not None
        assert self._new_values is not None
        assert rows is not None
        assert hits.source_rows is not None
        for first, new in taken_batches(self._new_values, hits.source_rows):
            old = rows.slice(first, new.num_rows)
            yield self._image(old, new), np.arange(first, first + new.num_rows)

    def changes(self, rows: pa.RecordBatch, hits: Hits) -> Iterator[Images]:
        assert self._new_values is not None
        assert hits.source_rows is not None
        names = [field.name for field in self.changed_fields]
        for first, new in taken_batches(self._new_values, hits.source_rows):
            yield new.select(names), np.arange(first, first + new.num_rows)

    def _image(self, old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
        """Table rows with the source's updated columns, and the generated columns that follow from them."""
        assert self._updated is not None
        recomputed = {each.name: each for each in self._recomputed}
        names = [name for name in self._names if name not in recomputed]
        rows = pa.RecordBatch.from_arrays(
            [(new if name in self._updated else old).column(name) for name in names], names=names
        )
        if self._computed is None:
            return rows
        self._computed.check(self._computed.given(self._updated), rows)
        columns = [recomputed[name].of(rows) if name in recomputed else rows.column(name) for name in self._names]
        return pa.RecordBatch.from_arrays(columns, names=self._names)

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_] | None:
        is_matched = self.matched(touched)
        is_written = np.zeros(len(is_matched), dtype=bool)
        if self._upsert.when_not_matched == "insert":
            is_written |= ~is_matched
        if self._upsert.when_matched == "update" and self._updated is None:
            is_written |= is_matched
        return is_written

    def updated(self, touched: Sequence[Touched]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        """If several rows have one key, the first comes back as the source row, unless all are updated."""
        comes_back = np.zeros(self.num_source_rows, dtype=bool)
        found = []
        for each in touched:
            if self._updated is not None:
                found.append(np.ones(len(each.replaced), bool))
                continue
            hits = each.hits.at(np.searchsorted(each.hits.positions, each.replaced))
            assert hits.source_rows is not None
            is_first = np.zeros(len(hits.source_rows), dtype=bool)
            is_first[np.unique(hits.source_rows, return_index=True)[1]] = True
            found.append(is_first & ~comes_back[hits.source_rows])
            comes_back[hits.source_rows] = True
        return found, comes_back

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        assert isinstance(self._source, UpsertSource)
        return self._source.batches(is_written)

    def counts(self, touched: Sequence[Touched], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        assert is_written is not None
        is_matched = self.matched(touched)
        replaced = sum(len(each.replaced) for each in touched)
        inserted = int((is_written & ~is_matched).sum())
        if self._updated is not None:
            return inserted, replaced, 0
        updated = int((is_written & is_matched).sum())
        return inserted, updated, replaced - updated

    def matched(self, touched: Sequence[Touched]) -> NDArray[np.bool_]:
        """Which source rows have a table row with their key."""
        is_matched = np.zeros(self.num_source_rows, dtype=bool)
        for each in touched:
            is_matched[each.live_source_rows] = True
        return is_matched
