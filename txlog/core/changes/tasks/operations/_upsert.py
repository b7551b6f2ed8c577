"""UPSERT: source rows replace the table rows with their keys, or are added if there are none.

In: a `UpsertSource`, and what to do with keys that the table has or lacks. Out: a `RowOperation`. How it finds the rows
with a key is ``_keyed_change``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.tasks import Images, MatchedFile, MatchedRows
from txlog.core.changes.tasks.operations._keyed_change import KeyedChange, KeyedSource
from txlog.core.changes.tasks.operations._known_keys import KnownKeys, known_keys
from txlog.core.changes.tasks.operations._upsert_source import OnDuplicate, UpsertSource, read_source
from txlog.core.format.arrow.take_rows import joined_rows, taken_batches
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.identity import identity_columns
from txlog.core.format.schema import Struct, fold_name
from txlog.core.reading import KeyCache
from txlog.core.row_rules import (
    ComputedColumns,
    KeyColumn,
    Numbers,
    computed_columns,
    generated_of,
    key_columns,
    refuse_set_numbers,
    without_computed,
)
from txlog.core.util import described, invalid, names_in, one_of
from txlog.core.wording import argument, setting
from txlog.core.writing.write_intent import SchemaMode, check_adds_columns
from txlog.errors import InvalidInputError, TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

WhenMatched: TypeAlias = Literal["update", "ignore"]
WhenNotMatched: TypeAlias = Literal["insert", "ignore"]
MissingColumns: TypeAlias = Literal["error", "default"]
"""Of table columns that the source lacks: refuse them; or keep them in matched rows, and insert defaults or nulls."""


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
    if upsert.missing_columns == "error":
        return upsert
    names = {fold_name(name) for name in found}
    may_be_set = without_computed(table.schema).names
    if all(fold_name(name) in names for name in may_be_set):
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
            f"the key {counted[0].name} is {counted[0].kind}, so new rows cannot have a value for it: pass"
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


class UpsertRows(KeyedChange):
    """The `RowOperation` of an upsert."""

    def __init__(
        self,
        source: KeyedSource,
        upsert: UpsertOptions,
        updated: tuple[str, ...] | None,
        table: DefinedTable,
        known: KnownKeys | None,
    ) -> None:
        super().__init__(source, table, known, replaces_rows=upsert.when_matched == "update")
        self._upsert = upsert
        self._updated = updated
        self._computed = None
        if updated is not None:
            self._computed = generated_of(table.schema, None, table.partition_columns, zone=table.time_zone)
        self._recomputed = () if self._computed is None else self._computed.recomputed(updated or ())
        self._new_values: pa.Table | None = None
        if updated is not None and isinstance(source, UpsertSource):
            self._new_values = joined_rows(source.rows.select(list(updated)))
        self._names = list(table.schema.names)
        self.makes_images = updated is not None
        is_plain = upsert.when_matched == "update" and upsert.when_not_matched == "insert"
        self.writes_every_source_row = is_plain and not self.makes_images and self.num_source_rows > 0
        new = {*(updated or ()), *(each.name for each in self._recomputed)}
        self.image_fields = tuple(field for field in table.schema.fields if field.name not in new)
        if updated is not None and self._computed is None:
            self.changed_fields = tuple(field for field in table.schema.fields if field.name in new)

    def parameters(self) -> dict[str, str]:
        upsert = self._upsert
        return self.history(
            ["update"] if upsert.when_matched == "update" else [],
            ["insert"] if upsert.when_not_matched == "insert" else [],
        )

    def images(self, rows: pa.RecordBatch | None, hits: MatchedRows) -> Iterator[Images]:
        assert self._updated is not None
        assert self._new_values is not None
        assert rows is not None
        assert hits.source_rows is not None
        for first, new in taken_batches(self._new_values, hits.source_rows):
            old = rows.slice(first, new.num_rows)
            yield self._image(old, new), np.arange(first, first + new.num_rows)

    def changes(self, rows: pa.RecordBatch, hits: MatchedRows) -> Iterator[Images]:
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

    def inserted(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        is_matched = self.matched(touched)
        is_written = np.zeros(len(is_matched), dtype=bool)
        if self._upsert.when_not_matched == "insert":
            is_written |= ~is_matched
        if self._upsert.when_matched == "update" and self._updated is None:
            is_written |= is_matched
        return is_written

    def updated(self, touched: Sequence[MatchedFile]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        if self._updated is None:
            return super().updated(touched)
        return [np.ones(len(each.replaced), bool) for each in touched], np.zeros(self.num_source_rows, dtype=bool)

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        assert isinstance(self._source, UpsertSource)
        return self._source.batches(is_written)

    def counts(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        inserted, updated, deleted = super().counts(touched, is_written)
        if self._updated is not None:
            return inserted, updated + deleted, 0
        return inserted, updated, deleted
