"""Which rows differ between two versions, from their files alone: no change data feed is needed.

In: an open table, two versions, and perhaps key columns. Out: an Arrow stream of rows with a change type. Files that
both versions have are not read, and of a file with another deletion vector only the rows that the vectors disagree on.
What is read is compared as a multiset, so a row that was only moved to another file cancels out. Much data is cut into
parts by a hash, in a temporary folder, so memory is bounded by the largest part.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core import ambient
from txlog.core.changes.tasks import plain_times
from txlog.core.format.arrow.arrays import array_of, from_numbers, numbers_of, one_array
from txlog.core.format.arrow.spill import no_room, temporary_folder
from txlog.core.format.change_data import CHANGE_TYPE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from txlog.core.format.changed_rows import rows_between
from txlog.core.format.features import check_can_read
from txlog.core.format.paths import canonical_path
from txlog.core.format.schema import LONG, Field
from txlog.core.maintenance import difference
from txlog.core.operations import Follower
from txlog.core.predicates import HASH_KERNELS, bind_predicate
from txlog.core.predicates.terms.tree import Call
from txlog.core.reading import ChangeReader, Rows, VersionChanges, select
from txlog.core.row_rules import KeyColumn, key_columns
from txlog.core.util import invalid
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.errors import TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.format.changed_rows import ChangedRows
    from txlog.core.predicates import AnyCondition

PART_BYTES = 64 << 20
"""About how many bytes of data files are compared at a time."""
_PARTS_MAX = 256
_KIND = CHANGE_TYPE.name


def diff_rows(
    open_table: OpenTable,
    *,
    from_version: int,
    to_version: int,
    columns: Sequence[str] | None,
    keys: Any,
    where: AnyCondition | None,
) -> Rows:
    """See `Table.diff_rows`."""
    log = open_table.log
    before, after = log.state_at(from_version), log.state_at(to_version)
    older, newer = sorted((before, after), key=lambda state: state.version)
    with TxlogError.located(log.uri, newer.version):
        check_can_read(newer.protocol, newer.metadata)
        key = () if keys is None else key_columns(keys, newer.schema)
        fields = _compared(newer, columns, key)
        predicate = None
        if where is not None:
            predicate = bind_predicate(where, newer.schema, zone=newer.time_zone, now=ambient.now())
    selection = select(log.uri, newer, predicate=predicate)
    read = {field.name for field in fields} | (predicate.columns() if predicate is not None else frozenset())
    Follower(log, newer, selection, frozenset(read)).check_definition(older, older.version)
    reader = ChangeReader(log.store, selection, (*fields, CHANGE_TYPE), predicate)
    files = _changed_files(log.files(before), log.files(after))
    rows = reader.batches(VersionChanges(newer.version, 0, tuple(files)))
    parts = _parts(rows, reader.schema, key, sum(each.size_bytes for each in files), log.uri)
    found = (batch for part in parts for batch in _differing(part, key).to_batches())
    return Rows(pa.RecordBatchReader.from_batches(reader.schema, found))


def _compared(state: TableState, columns: Sequence[str] | None, keys: Sequence[KeyColumn]) -> tuple[Field, ...]:
    """The columns to compare: the keys, and those asked for."""
    if columns is None:
        return state.schema.fields
    asked = select("", state, columns).fields
    if not asked:
        raise invalid("columns", columns, "the names of one column or more")
    by_key = [field for field in state.schema.fields if field.name in {each.path[0] for each in keys}]
    return tuple({field.name: field for field in (*by_key, *asked)}.values())


def _changed_files(before: pa.Table, after: pa.Table) -> list[ChangedRows]:
    """The rows of files of which only one version has the file, or both with different deletion vectors."""
    found = difference(before, after)
    gone = {canonical_path(add.path): add for add in found.added}
    come = {canonical_path(add.path): add for add in found.removed}
    changed: list[ChangedRows] = []
    for path in dict.fromkeys((*gone, *come)):
        old = gone.get(path)
        removed = None if old is None else old.removed(deletion_timestamp=0, data_change=True)
        changed += rows_between(removed, come.get(path))
    return changed


# --- parts that fit into memory -----------------------------------------------------------------------------------


def _parts(
    rows: Iterator[pa.RecordBatch], schema: pa.Schema, keys: Sequence[KeyColumn], size_bytes: int, uri: str
) -> Iterator[pa.Table]:
    """The rows as tables; rows that are equal, or have the same key, are in the same one."""
    names = [key.path[0] for key in keys] or [name for name in schema.names if name != _KIND]
    hashed = [name for name in names if _has_hash(schema.field(name).type)]
    count = min(1 + size_bytes // PART_BYTES, _PARTS_MAX)
    if count == 1 or not hashed:
        yield pa.Table.from_batches(rows, schema)
        return
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder())
            paths = [os.path.join(folder, f"{number}.arrow") for number in range(count)]
            with contextlib.ExitStack() as writing:
                writers = [writing.enter_context(pa.ipc.new_file(path, schema)) for path in paths]
                for batch in rows:
                    places = _hashes(batch, hashed) % np.uint64(count)
                    for number in np.unique(places).tolist():
                        writers[number].write_batch(batch.filter(pa.array(places == number)))
        except OSError as error:
            raise no_room("the rows to compare", error, uri) from error
        for path in paths:
            yield pa.ipc.open_file(pa.memory_map(path)).read_all()


def _has_hash(kind: pa.DataType) -> bool:
    types = pa.types
    return not (types.is_nested(kind) or types.is_decimal(kind) or types.is_null(kind))


def _hashes(batch: pa.RecordBatch, names: Sequence[str]) -> NDArray[np.uint64]:
    hashes = HASH_KERNELS["xxhash64"](Call("xxhash64", (), LONG), *(batch.column(name) for name in names))
    return numbers_of(hashes).view(np.uint64)


# --- the comparison -----------------------------------------------------------------------------------------------


def _differing(part: pa.Table, keys: Sequence[KeyColumn]) -> pa.Table:
    """The rows that one version has more often than the other, each as often as it has it more."""
    names = [name for name in part.schema.names if name != _KIND]
    rows, groups = _grouped([part.column(name) for name in names], part.num_rows)
    signs = np.where(pc.equal(part.column(_KIND), INSERT).to_numpy(zero_copy_only=False), 1, -1)[rows]
    surplus = np.bincount(groups, signs, minlength=1).astype(np.int64)[groups]
    is_more = signs * surplus > 0
    rows, groups, surplus = rows[is_more], groups[is_more], surplus[is_more]
    left = part.take(from_numbers(np.sort(rows[_rank_in(groups) < np.abs(surplus)])))
    return left if not keys else _with_updates(left, keys)


def _with_updates(part: pa.Table, keys: Sequence[KeyColumn]) -> pa.Table:
    """A deleted and an inserted row, alone with their key, become the old and the new row of an update.

    A null in a key equals nothing.
    """
    columns = [key.of(part.combine_chunks()) for key in keys]
    rows, groups = _grouped(columns, part.num_rows)
    is_new = pc.equal(part.column(_KIND), INSERT).to_numpy(zero_copy_only=False)
    is_null = np.zeros(part.num_rows, bool)
    for column in columns:
        is_null |= column.is_null().to_numpy(zero_copy_only=False)
    new, old = (np.bincount(groups, mask[rows] & ~is_null[rows], minlength=1) for mask in (is_new, ~is_new))
    is_pair = ((new == 1) & (old == 1))[groups]
    pairs = rows[is_pair][np.lexsort((is_new[rows[is_pair]], groups[is_pair]))]
    others = np.sort(rows[~is_pair])
    moved = part.take(from_numbers(np.concatenate([others, pairs])))
    updates = array_of([UPDATE_PREIMAGE, UPDATE_POSTIMAGE] * (len(pairs) // 2), pa.string())
    kinds = pa.concat_arrays([moved.column(_KIND).combine_chunks().slice(0, len(others)), updates])
    return moved.set_column(moved.schema.get_field_index(_KIND), moved.schema.field(_KIND), kinds)


def _grouped(columns: Sequence[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the rows, those with equal values next to each other, and the number of each one's group."""
    names = [str(at) for at in range(len(columns))]
    found = pa.table([*map(_comparable, columns), from_numbers(np.arange(count))], names=[*names, "row"])
    lists = found.group_by(names, use_threads=False).aggregate([("row", "list")]).column("row_list").combine_chunks()
    return pc.list_flatten(lists).to_numpy(), pc.list_parent_indices(lists).to_numpy()


def _comparable(column: pa.ChunkedArray | pa.Array) -> Any:
    """Values that Arrow can group by: equal ones stay equal, NaN and NaN, 0.0 and -0.0, null and null."""
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.bool_())
    if pa.types.is_floating(kind):
        nan, zero = pa.scalar(float("nan"), kind), pa.scalar(0, kind)
        return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))
    if pa.types.is_nested(kind):
        texts = [None if value is None else repr(value) for value in plain_times(one_array(column)).to_pylist()]
        return array_of(texts, pa.large_string())
    return column


def _rank_in(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each row in its group, from 0; rows of a group are next to each other."""
    if not len(groups):
        return groups
    begins = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    return np.arange(len(groups)) - np.repeat(begins, np.diff(begins, append=len(groups)))
