"""The partitions of live files, whose values the log may spell in several ways, and the files of the named ones.

In: a table's definition, its live files, and for the files the partitions. Out: partitions, files. PROTOCOL.md,
"Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from txlog.core.format.actions import AddFile
from txlog.core.format.arrow.arrays import partition_texts
from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.partition_values import canonical_text
from txlog.core.versions.decisions.state import TableState


def files_in_partitions(files: pa.Table, state: TableState, keys: Collection[tuple[str | None, ...]]) -> list[AddFile]:
    """The live ``files`` in the partitions ``keys`` (see `partition_values.partition_key`)."""
    found = []
    for batch, partitions in _with_partitions(files, state):
        mask = [key in keys for key in partitions]
        found += add_files_of(pa.Table.from_batches([batch.filter(pa.array(mask, pa.bool_()))]))
    return found


def partitions_of(files: pa.Table, state: TableState) -> set[tuple[str | None, ...]]:
    """The partitions of the live ``files``: the texts of their values, in the order of the partition columns."""
    names = [field.name for field in physical_fields(state.schema, state.partition_columns).values()]
    order = [names.index(column) for column in state.partition_columns]
    return {tuple(key[at] for at in order) for _, keys in _with_partitions(files, state) for key in set(keys)}


def _with_partitions(
    files: pa.Table, state: TableState
) -> Iterator[tuple[pa.RecordBatch, Iterator[tuple[str | None, ...]]]]:
    """The files, some at a time, and the partition of each (see `partition_values.partition_key`)."""
    fields = physical_fields(state.schema, state.partition_columns)
    texts: dict[str, dict[str | None, str | None]] = {name: {} for name in fields}
    for batch in files.to_batches():
        columns = [partition_texts(batch.column("partitionValues"), name)[0].to_pylist() for name in fields]
        for (name, each), column in zip(fields.items(), columns, strict=True):
            for text in set(column) - texts[name].keys():
                texts[name][text] = canonical_text(text, each.type)
        spelled = [[texts[name][text] for text in column] for name, column in zip(fields, columns, strict=True)]
        yield batch, zip(*spelled, strict=True)
