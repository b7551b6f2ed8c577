"""What a classic checkpoint holds, and its bytes: one Parquet file, built column by column.

In: a table state, its live files and its tombstones. Out: the bytes, whose actions are counted again after writing, and
the hint that names them. Protocol, metadata and application versions have their own first row group: opening a table
reads nothing else. Files are sorted by partition, so readers can skip row groups. PROTOCOL.md, "Checkpoints",
"Checkpoint Schema".
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.actions import Action
from txlog.core.format.arrow.arrays import STRING_MAP
from txlog.core.format.log_names import checkpoint_name
from txlog.core.versions.decisions.checkpoint.columns import (
    COMPRESSIONS,
    FileColumns,
    count_adds,
    parquet_writer,
)
from txlog.core.versions.decisions.checkpoint.hint import last_checkpoint_bytes
from txlog.core.versions.decisions.retention import retained_tombstones, retained_transactions
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from txlog.core.util import Apply

_TEXTS = pa.list_(pa.field("element", pa.string()))

# Children are nullable although the protocol requires them: Arrow writes no NOT NULL child below a null struct.
_SMALL_TYPES = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _TEXTS),
            ("writerFeatures", _TEXTS),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _TEXTS),
            ("configuration", STRING_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}


class Checkpoint(msgspec.Struct, frozen=True):
    """A built checkpoint. ``hint`` is the content for ``_last_checkpoint``."""

    version: int
    body: bytes
    hint: bytes
    add_files: int
    actions: int


def build_checkpoint(
    state: TableState,
    live: pa.Table,
    tombstones: pa.Table,
    *,
    now_ms: int,
    compression: str = COMPRESSIONS[0],
    apply: Apply = map,
    ahead: Apply = map,
) -> Checkpoint:
    """The classic checkpoint of ``state``. ``live`` is ``FILES_SCHEMA``, ``tombstones`` ``TOMBSTONES_SCHEMA``.

    ``apply`` maps over many rows. ``ahead`` maps over row groups, and may prepare the next one while one is written.
    Raises ``CorruptLogError`` if the written bytes do not hold every file; they must not be published then.
    """
    small = [{action.KEY: action.to_json()} for action in retained_small_actions(state, now_ms=now_ms)]
    kept = retained_tombstones(tombstones, state.properties, now_ms=now_ms)
    columns = FileColumns.of(state)
    schema = columns.schema(_SMALL_TYPES)
    sink = io.BytesIO()  # its memory grows by an eighth at a time; an Arrow buffer doubles
    with parquet_writer(sink, schema, compression) as write:
        write(_small_columns(small))
        for groups in (columns.adds(live, apply), columns.removes(kept)):
            for group in ahead(lambda build: build(), groups):
                write(group)
    body = sink.getvalue()  # without a copy: a view would keep CPython from closing the sink in every order
    actions = len(small) + live.num_rows + kept.num_rows
    _verify(body, state, add_files=live.num_rows, actions=actions)
    hint = last_checkpoint_bytes(state.version, actions=actions, size_bytes=len(body), add_files=live.num_rows)
    return Checkpoint(state.version, body, hint, live.num_rows, actions)


def retained_small_actions(state: TableState, *, now_ms: int) -> list[Action]:
    """The actions in a checkpoint of ``state``, without file actions."""
    transactions = retained_transactions(state.transactions.values(), state.properties, now_ms=now_ms)
    return [state.protocol, state.metadata, *transactions, *state.domains.values()]


def _verify(body: bytes, state: TableState, *, add_files: int, actions: int) -> None:
    """Compare the counts in the footer: a checkpoint that lacks a file would hide rows from every reader."""
    metadata = pq.read_metadata(pa.BufferReader(body))
    written = count_adds(metadata)
    if written != add_files or metadata.num_rows != actions:
        raise CorruptLogError(
            f"the checkpoint built for version {state.version} has {written} files and {metadata.num_rows} actions"
            f" instead of {add_files} and {actions}; it was not published",
            version=state.version,
            path=checkpoint_name(state.version),
        )


def _small_columns(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    arrays = [pa.array([_with_pairs(row.get(root), kind) for row in rows], kind) for root, kind in _SMALL_TYPES.items()]
    return pa.Table.from_arrays(arrays, list(_SMALL_TYPES))


def _with_pairs(value: Any, kind: pa.DataType) -> Any:
    """The value, with each map as a list of pairs, as Arrow needs it."""
    if pa.types.is_map(kind) and isinstance(value, Mapping):
        return list(value.items())
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        return {field.name: _with_pairs(value.get(field.name), field.type) for field in kind}
    return value
