"""What a V2 checkpoint holds: a short top-level file in JSON, and sidecars in Parquet that hold the files.

In: a table state, live files and tombstones as columns, and the sidecars of the last checkpoint that can be reused.
Out: the bytes of each new sidecar, the old sidecars to keep, the bytes of the top-level file and the hint. Files and
tombstones are in different sidecars: tombstones expire, and a reused sidecar must not hold any. PROTOCOL.md, "V2 Spec",
"Sidecar Files", "Last Checkpoint File".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.actions import CheckpointMetadata, Sidecar, action_to_json
from txlog.core.versions.decisions.checkpoint.classic import retained_small_actions
from txlog.core.versions.decisions.checkpoint.columns import (
    COMPRESSIONS,
    ROW_GROUP_ROWS,
    FileColumns,
    count_adds,
    parquet_writer,
)
from txlog.core.versions.decisions.checkpoint.hint import last_checkpoint_bytes
from txlog.core.versions.decisions.checkpoint.order import RowGroup
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from txlog.core.util import Apply


def wants_v2(state: TableState) -> bool:
    """Whether checkpoints of this table are V2: its policy requests it, and its protocol makes readers support it."""
    return state.properties.checkpoint_policy == "v2" and "v2Checkpoint" in (state.protocol.reader_features or ())


# --- sidecars ---------------------------------------------------------------------------------------------


class StoredSidecar(msgspec.Struct, frozen=True):
    """A sidecar in the log: its entry in the top-level file, and how many files and actions it holds."""

    action: Sidecar
    add_files: int
    actions: int


def sidecar_groups(
    columns: FileColumns, live: pa.Table, tombstones: pa.Table, apply: Apply = map
) -> Iterator[RowGroup]:
    """The content of each new sidecar: one row group. ``tombstones`` are the retained ones."""
    yield from columns.adds(live, apply)
    yield from columns.removes(tombstones)


def encode_sidecar(
    columns: FileColumns, group: RowGroup, compression: str = COMPRESSIONS[0]
) -> tuple[memoryview, int, int]:
    """The bytes of one sidecar, and the files and actions counted in them.

    Raises ``CorruptLogError`` if one is missing.
    """
    table = group()
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, columns.schema(), compression) as write:
        write(table)
    body = sink.getvalue()
    metadata = pq.read_metadata(pa.BufferReader(body))
    add_files = table.num_rows if table.schema.names == ["add"] else 0
    if (count_adds(metadata), metadata.num_rows) != (add_files, table.num_rows):
        raise CorruptLogError(
            f"a sidecar has {count_adds(metadata)} files and {metadata.num_rows} actions instead of {add_files} and"
            f" {table.num_rows}; the checkpoint was not published"
        )
    return memoryview(body), add_files, table.num_rows


def serves_again(untouched: Sequence[StoredSidecar], added: int) -> list[StoredSidecar]:
    """Which unchanged sidecars to keep, if ``added`` files are written in any case.

    A sidecar with at most as many files as are written in any case is merged with them. So a sidecar at least doubles
    each time its files are rewritten, until it is full: few sidecars are small, and each file is rarely rewritten.
    """
    kept = sorted(untouched, key=lambda sidecar: sidecar.add_files, reverse=True)
    while kept and kept[-1].add_files <= min(added, ROW_GROUP_ROWS // 2):
        added += kept.pop().add_files
    return kept


# --- the top-level file -----------------------------------------------------------------------------------


class TopLevel(msgspec.Struct, frozen=True):
    """The top-level file of one V2 checkpoint: its bytes, and the counts for the hint."""

    version: int
    body: bytes
    sidecars: tuple[Sidecar, ...]
    add_files: int
    actions: int
    size_bytes: int

    def hint(self, name: str, modified_ms: int) -> bytes:
        """The content for ``_last_checkpoint``, once the file has this name."""
        v2: dict[str, Any] = {
            "path": name,
            "sizeInBytes": len(self.body),
            "modificationTime": modified_ms,
            "sidecarFiles": [sidecar.to_json() for sidecar in self.sidecars],
        }
        return last_checkpoint_bytes(
            self.version, actions=self.actions, size_bytes=self.size_bytes, add_files=self.add_files, v2=v2
        )


def top_level(state: TableState, sidecars: Iterable[StoredSidecar], *, now_ms: int) -> TopLevel:
    """The top-level file that names ``sidecars``."""
    named = list(sidecars)
    small = [CheckpointMetadata(state.version), *retained_small_actions(state, now_ms=now_ms)]
    actions = [*small, *(sidecar.action for sidecar in named)]
    body = b"".join(orjson.dumps(action_to_json(action)) + b"\n" for action in actions)
    return TopLevel(
        state.version,
        body,
        tuple(sidecar.action for sidecar in named),
        sum(sidecar.add_files for sidecar in named),
        len(actions) + sum(sidecar.actions for sidecar in named),
        len(body) + sum(sidecar.action.size_in_bytes for sidecar in named),
    )
