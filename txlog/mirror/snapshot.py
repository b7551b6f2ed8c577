"""The rows of tables at one moment, from which the stream continues.

In: the database's address, tables. Out: the position of the moment, and each table's rows as Arrow batches. The slot
that exports the moment ends with it, so a snapshot that is broken off leaves nothing behind.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv as pv

from txlog.mirror.changes import stored
from txlog.mirror.connection import Queries, SourceAway, Stream, identifier, told_if_it_waits
from txlog.mirror.sources import SourceTable

_CHUNK_BYTES = 8 << 20
_TRIES = 5
_FILES = """
select count(*) from pg_catalog.pg_class c
where (c.oid = %s or c.oid in (select relid from pg_catalog.pg_partition_tree(%s)))
  and c.relfilenode is distinct from coalesce(pg_catalog.pg_relation_filenode(c.oid), 0)
"""
"""The files of a table that a TRUNCATE or an ALTER TABLE has replaced since the snapshot. Rows in the new ones are
invisible to it, and the old ones are gone: PostgreSQL documentation, "Caveats" of concurrency control."""


class SourceSnapshot:
    """The rows at one moment. ``position``: the stream has every change that they do not contain, from here on."""

    def __init__(self, queries: Queries, position: int) -> None:
        self._queries = queries
        self.position = position

    def rows(self, table: SourceTable) -> Iterator[pa.RecordBatch]:
        """The rows of a table, with its columns. Raises `SourceAway`; InvalidInputError for values that Delta lacks."""
        chunk: list[bytes] = []
        size = 0
        for row in self._queries.copied(f"copy ({_query(table)}) to stdout (format csv)"):
            chunk.append(row)
            size += len(row)
            if size >= _CHUNK_BYTES:
                yield _parsed(table, b"".join(chunk))
                chunk, size = [], 0
        if chunk:
            yield _parsed(table, b"".join(chunk))


@contextmanager
def source_snapshot(
    address: str, slot: str, found: Callable[[Queries], Sequence[SourceTable]]
) -> Iterator[tuple[SourceSnapshot, Sequence[SourceTable]]]:
    """A snapshot of the tables that ``found`` names, which no one can drop or rewrite until it ends."""
    for _ in range(_TRIES):
        stream = Stream(address)
        try:
            with told_if_it_waits(address):
                position, snapshot = stream.exported_snapshot(slot)
            queries = Queries(address)
            try:
                queries.run("begin isolation level repeatable read read only")
                queries.run(f"set transaction snapshot {queries.literal(snapshot)}")
                tables = found(queries)
                for table in tables:
                    queries.run(f"lock table {identifier(table.schema, table.name)} in access share mode")
                replaced = sum(queries.rows(_FILES, table.number, table.number)[0][0] for table in tables)
                if not replaced:
                    yield SourceSnapshot(queries, position), tables
                    return
            finally:
                queries.close()
        finally:
            stream.close()
    raise SourceAway(f"each of {_TRIES} snapshots met a table that was truncated or rewritten meanwhile")


def _query(table: SourceTable) -> str:
    """The query for a table's rows, each column as the stream has it."""
    only = "" if table.has_partitions else "only "
    where = f" where {table.condition}" if table.condition else ""
    names = ", ".join(identifier(column.name) for column in table.columns)
    return f"select {names} from {only}{identifier(table.schema, table.name)}{where}"


def _parsed(table: SourceTable, text: bytes) -> pa.RecordBatch:
    names = [column.name for column in table.columns]
    found = pv.read_csv(
        io.BytesIO(text),
        pv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=[str(place) for place in range(len(names))]
        ),
        pv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pv.ConvertOptions(
            column_types={str(place): pa.string() for place in range(len(names))},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    arrays = [
        stored(table.shown, column.name, values.combine_chunks(), column.type)
        for column, values in zip(table.columns, found.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)
