"""Columns that come with a change of rows: an upsert or a merge may add those of its source to the table.

In: the table's definition and the columns of the source. Out: the definition with the columns that the table lacks,
struct fields too, and with wider types if the table takes them: as an append with ``schema_mode="merge"``. If others
changed the definition first, such a change is made again from its beginning (`made_again`), of a `RepeatableSource`
that can be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from txlog.core.changes.tasks.operations import MEMORY_MAX_BYTES
from txlog.core.format.schema import Field, fold_name, from_arrow
from txlog.core.format.schema_merge import adds_members
from txlog.core.format.statistics import ColumnPath
from txlog.core.util import logger
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import DataStream, open_data
from txlog.core.writing.commit_options import CommitOptions
from txlog.core.writing.write_intent import SchemaMode
from txlog.errors import MetadataChangedError, ProtocolChangedError

if TYPE_CHECKING:
    from txlog.core.definition import Definition

Done = TypeVar("Done")

_ATTEMPTS_MAX = 20


def made_again(
    change: Callable[[], Done],
    schema_mode: SchemaMode | None,
    commit: CommitOptions,
    can_repeat: Callable[[], bool] = lambda: True,
) -> Done:
    """What ``change`` returns, called again while others change the definition before it commits, if it may add
    columns. Not if its rows come from a version of the table. Raises what ``change`` raises."""
    repeats = schema_mode == "merge" and commit.read_version is None and not commit.reads_table
    for _ in range(_ATTEMPTS_MAX if repeats else 0):
        try:
            return change()
        except (MetadataChangedError, ProtocolChangedError) as error:
            if not can_repeat():
                raise
            logger.info("the change is planned again, since another commit came first: %s", error)
    return change()


class RepeatableSource:
    """Data that can be opened again: what a stream yields is kept, if it is not too much."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._stream: DataStream | None = None
        self._kept: list[pa.RecordBatch] = []
        self._left_bytes = MEMORY_MAX_BYTES

    def can_be_opened(self) -> bool:
        return self._left_bytes >= 0

    def opened(self) -> DataStream:
        """The rows from the first on. Raises what `open_data` raises."""
        if self._stream is None:
            self._stream = open_data(self._data)
        return DataStream(self._stream.schema, self._batches(self._stream))

    def _batches(self, stream: DataStream) -> Iterator[pa.RecordBatch]:
        yield from self._kept
        for batch in stream.batches:
            self._left_bytes -= batch.nbytes
            if self.can_be_opened():
                self._kept.append(batch)
            else:
                self._kept.clear()
            yield batch


def with_new_columns(
    state: TableState, data_schema: pa.Schema, only: Iterable[ColumnPath] | None = None
) -> Definition | None:
    """Add the columns and struct fields of data that the table lacks, and take wider types; None if none change.

    ``only`` limits this to the columns and struct fields that it names.
    """
    from txlog.core.definition import is_wider, with_columns

    paths = None if only is None else {tuple(map(fold_name, path)) for path in only}
    named = data_schema if paths is None else _cut_to(paths, data_schema)
    fields = [field for field in named if is_wider(state, field) or _is_new(field, state.schema.find(field.name))]
    return with_columns(state, from_arrow(pa.schema(fields))) if fields else None


def _cut_to(paths: Set[ColumnPath], fields: Iterable[pa.Field]) -> list[pa.Field]:
    """The fields that folded ``paths`` name; a struct of which they name members has only these."""
    found: list[pa.Field] = []
    for field in fields:
        name = fold_name(field.name)
        below = {path[1:] for path in paths if path[0] == name}
        if () in below:
            found.append(field)
        elif below and pa.types.is_struct(field.type) and (members := _cut_to(below, field.type)):
            found.append(field.with_type(pa.struct(members)))
    return found


def _is_new(field: pa.Field, there: Field | None) -> bool:
    """Whether a column of data is not ``there`` in the table, or has members that the table's column lacks."""
    return there is None or adds_members(there, from_arrow(pa.schema([field])).fields[0])
