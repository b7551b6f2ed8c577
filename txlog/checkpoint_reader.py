"""Reading checkpoints: classic, multi-part and V2 (JSON or Parquet, with or without sidecars).

In: the names of one checkpoint. Out: its small actions (protocol, metadata, ...) without touching the file list,
or its files as Arrow batches. Only leaves that hold a value are decoded. Whatever is wrong with a checkpoint
is ``CorruptLogError``, so that the caller falls back to an older one. PROTOCOL.md, "Checkpoints".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.bounded_batches import bounded_batches
from txlog.errors import CorruptLogError, NotFoundError, StorageError
from txlog.log import files
from txlog.log.segment import CheckpointFiles
from txlog.protocol.actions import Action, ActionError, AddFile, RemoveFile, Sidecar, action_from_json
from txlog.protocol.commit_file import Commit, Limits, parse_actions
from txlog.protocol.log_names import SIDECARS, LogFileKind
from txlog.protocol.wire import shown
from txlog.store.base import TableStore

if TYPE_CHECKING:
    from txlog.log.file_pruning import FilePruner

__all__ = ["LOG_DIRECTORY", "CheckpointReader", "sidecar_name"]

LOG_DIRECTORY = "_delta_log"

_SMALL = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
_BATCH_ROWS = 32_768  # four times as much breaks the memory bound of a million files
_BATCH_BYTES = 64 << 20
_READ_BYTES = 1 << 20

# An empty list or map has no leaf with a value, so it is not read: what its absence means.
_EMPTY: dict[str, dict[str, Any]] = {"metaData": {"partitionColumns": [], "configuration": {}, "format": {}}}


class CheckpointReader:
    """Reads the checkpoints of one table. Thread-safe: it keeps no state."""

    def __init__(self, store: TableStore, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    def small_actions(self, checkpoint: CheckpointFiles) -> list[Action]:
        """All but the file actions. Raises ``CorruptLogError``, ``NotFoundError``, ``StorageError``."""
        found: list[Action] = []
        for name in checkpoint.names:
            with self._reading(name, checkpoint.version):
                if name.endswith(".json"):
                    found += self._json_actions(name, checkpoint.version, files=False)
                else:
                    found += self._parquet_small_actions(name)
        return found

    def adds(
        self, checkpoint: CheckpointFiles, pruner: FilePruner | None = None, *, without: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The live files at the checkpoint, as batches of ``FILES_SCHEMA``; with ``pruner`` those that may match.

        ``without`` are the names of sidecars to be passed over. Raises as `small_actions`.
        """
        return self._converted(checkpoint, AddFile.KEY, files.FILES_SCHEMA, files.adds_of_batch, pruner, without)

    def removes(self, checkpoint: CheckpointFiles) -> Iterator[pa.RecordBatch]:
        """The tombstones at the checkpoint, as batches of ``TOMBSTONES_SCHEMA``. Raises as `small_actions`."""
        return self._converted(checkpoint, RemoveFile.KEY, files.TOMBSTONES_SCHEMA, files.removes_of_batch)

    def sidecars(self, checkpoint: CheckpointFiles) -> list[Sidecar]:
        """The sidecars that the checkpoint names. Raises as `small_actions`."""
        return [action for action in self.small_actions(checkpoint) if type(action) is Sidecar]

    def untouched_adds(self, sidecar: Sidecar, version: int, schema: pa.Schema, newest: files.Newest) -> int | None:
        """How many files a sidecar holds, if it can stand in another checkpoint just as it is; else None.

        So it is where it has just the columns of ``schema``, the size it is said to have, files only, and ``newest``
        speaks of none of these. Raises as `small_actions`.
        """
        with self._reading(SIDECARS, version):
            name = sidecar_name(sidecar)
        with self._reading(name, version), self._parquet(name) as (file, size_bytes):
            groups = list(range(file.metadata.num_row_groups))
            units = _units(file.metadata, (AddFile.KEY, RemoveFile.KEY))
            if (
                size_bytes != sidecar.size_in_bytes
                or not file.schema_arrow.equals(schema)
                or _live_units(file.metadata, groups, {"path": units["remove.path"]})
            ):
                return None
            keys = _live_units(file.metadata, groups, {u: units[u] for u in ("add.path", "add.deletionVector")})
            add_files = 0
            for batch in self._bounded(file, name, size_bytes, groups, keys) if keys else ():
                if files.mentions(newest, batch):
                    return None
                add_files += batch.num_rows - batch.column(AddFile.KEY).null_count
            return add_files

    def size_bytes(self, checkpoint: CheckpointFiles) -> int:
        """What all its files take, sidecars included. Raises as `small_actions`."""
        names = checkpoint.names
        top_level = sum(self._store.log.head(name).size for name in names)
        if checkpoint.kind is not LogFileKind.V2_CHECKPOINT:
            return top_level
        return top_level + sum(sidecar.size_in_bytes for sidecar in self.sidecars(checkpoint))

    def _converted(
        self,
        checkpoint: CheckpointFiles,
        root: str,
        schema: pa.Schema,
        convert: Callable[[pa.RecordBatch], pa.RecordBatch | None],
        pruner: FilePruner | None = None,
        without: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """The file actions under ``root``; whatever does not convert names the file it stands in."""
        for name, batches in self._file_batches(checkpoint, root, tuple(schema.names), pruner, without):
            with self._reading(name, checkpoint.version):
                for batch in batches:
                    converted = convert(batch)
                    if converted is not None:
                        converted.validate(full=True)  # Parquet lets any bytes pass for text
                        yield converted

    def _file_batches(
        self,
        checkpoint: CheckpointFiles,
        root: str,
        fields: tuple[str, ...],
        pruner: FilePruner | None,
        without: Collection[str],
    ) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
        for name in checkpoint.names:
            if name.endswith(".json"):
                yield name, self._json_batches(name, checkpoint.version, root, pruner)
            else:
                yield name, self._parquet_batches(name, root, fields, pruner)
        for action in self.sidecars(checkpoint):
            with self._reading(checkpoint.names[0], checkpoint.version):
                sidecar = sidecar_name(action)
            if sidecar not in without:
                yield sidecar, self._parquet_batches(sidecar, root, fields, pruner)

    # --- JSON --------------------------------------------------------------------------------------------

    def _json_actions(self, name: str, version: int, *, files: bool) -> list[Action]:
        body = self._store.log.read(name)
        parsed = parse_actions(body, name, version=version, table=self._store.uri, limits=self._limits, files=files)
        wanted = [action for action in parsed if action is not None]
        return wanted if files else [action for action in wanted if action.KEY in _SMALL]

    def _json_batches(self, name: str, version: int, root: str, pruner: FilePruner | None) -> Iterator[pa.RecordBatch]:
        actions = self._json_actions(name, version, files=True)
        newest = files.fold_commits([Commit(version, tuple(actions), None, 0)])
        if root == AddFile.KEY:
            live = files.reconcile([], newest, None if pruner is None else pruner.mask)
            yield from _as_rows(live, root)
        else:
            yield from _as_rows(files.reconcile_tombstones([], newest), root)

    # --- Parquet -----------------------------------------------------------------------------------------

    def _parquet_small_actions(self, name: str) -> list[Action]:
        found: list[Action] = []
        with self._parquet(name) as (file, size_bytes):
            units = _units(file.metadata, _SMALL)
            for group in range(file.metadata.num_row_groups):
                live = _live_units(file.metadata, [group], units)
                if live:
                    for batch in self._bounded(file, name, size_bytes, [group], live):
                        found += _actions_of_batch(batch)
        return found

    def _parquet_batches(
        self, name: str, root: str, fields: tuple[str, ...], pruner: FilePruner | None
    ) -> Iterator[pa.RecordBatch]:
        with self._parquet(name) as (file, size_bytes):
            metadata = file.metadata
            units = _units(metadata, (root,))
            path = units.get(f"{root}.path")
            if path is None:
                return
            groups = [g for g in range(metadata.num_row_groups) if _live_units(metadata, [g], {"path": path})]
            if not groups:
                return
            wanted = {f"{root}.{field}" for field in fields} & units.keys()
            columns = _live_units(metadata, groups, {unit: units[unit] for unit in wanted})
            parsed = f"{root}.stats_parsed"
            if root == AddFile.KEY and parsed in units and _lacks_text(metadata, groups, units):
                columns.append(parsed)
            if pruner is None:
                yield from self._bounded(file, name, size_bytes, groups, columns)
                return
            from txlog.checkpoint_filter import CheckpointFilter

            def read(group: int, wanted: list[str]) -> Iterator[pa.RecordBatch]:
                return self._bounded(file, name, size_bytes, [group], wanted)

            yield from CheckpointFilter(pruner, metadata).batches(groups, columns, read)

    def _bounded(
        self, file: Any, name: str, size_bytes: int, groups: list[int], columns: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows, refused as soon as they cost more than `Limits` allows a checkpoint file of this size."""
        most_rows, most_bytes = self._limits.checkpoint_rows(size_bytes), self._limits.checkpoint_memory(size_bytes)
        if file.metadata.num_rows > most_rows:
            raise CorruptLogError(
                f"checkpoint file {name} of {size_bytes} bytes claims {file.metadata.num_rows} rows, more than the"
                f" limit of {most_rows}"
            )
        decoded_bytes = 0
        for batch in bounded_batches(file, columns, rows=_BATCH_ROWS, size_bytes=_BATCH_BYTES, row_groups=groups):
            decoded_bytes += batch.nbytes
            if decoded_bytes > most_bytes:
                raise CorruptLogError(
                    f"checkpoint file {name} of {size_bytes} bytes decodes to more than the limit of {most_bytes} bytes"
                )
            yield batch

    @contextlib.contextmanager
    def _parquet(self, name: str) -> Iterator[tuple[Any, int]]:
        import pyarrow.parquet as pq

        # Reading ahead pays where a request costs more than the bytes it brings; on a disk it only costs memory.
        remote = self._store.log.lists_itself_completely
        read_bytes = 0 if remote else _READ_BYTES
        with (
            contextlib.closing(self._open(name)) as source,
            pq.ParquetFile(source, pre_buffer=remote, buffer_size=read_bytes) as file,
        ):
            yield file, source.size()

    def _open(self, name: str) -> Any:
        try:
            return self._store.files.open(f"{LOG_DIRECTORY}/{name}")
        except NotFoundError:
            # A log store need not share its objects with the file store (the one in memory does not).
            return pa.BufferReader(self._store.log.read(name))

    @contextlib.contextmanager
    def _reading(self, name: str, version: int) -> Iterator[None]:
        try:
            yield
        except CorruptLogError as error:
            if error.path is None:
                error.table, error.version, error.path = self._store.uri, version, name
            raise
        except (StorageError, NotFoundError):
            raise
        except (pa.ArrowException, ActionError, OSError, ValueError, KeyError, TypeError) as error:
            raise CorruptLogError(
                f"checkpoint file {name} cannot be read: {error}", table=self._store.uri, version=version, path=name
            ) from error


def _as_rows(table: pa.Table, root: str) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches():
        yield pa.RecordBatch.from_struct_array(pa.StructArray.from_arrays([batch.to_struct_array()], [root]))


def sidecar_name(sidecar: Sidecar) -> str:
    """Sidecars stand in the table's own folder, so of a longer path only the last segment counts."""
    from urllib.parse import unquote

    name = unquote(sidecar.path).replace("\\", "/").rsplit("/", 1)[-1]
    if name in ("", ".", ".."):
        raise ActionError(f"sidecar.path {sidecar.path!r} names no file")
    return f"{SIDECARS}/{name}"


# --- which leaves to read ---------------------------------------------------------------------------------


def _units(metadata: Any, roots: Iterable[str]) -> dict[str, list[int]]:
    """Leaf numbers per ``root.field``, the unit that is read or left out whole (half a map cannot be read)."""
    wanted = set(roots)
    units: dict[str, list[int]] = {}
    schema = metadata.schema
    for leaf in range(metadata.num_columns):
        parts = schema.column(leaf).path.split(".", 2)
        if parts[0] in wanted and len(parts) > 1:
            units.setdefault(f"{parts[0]}.{parts[1]}", []).append(leaf)
    return units


def _live_units(metadata: Any, groups: Iterable[int], units: dict[str, list[int]]) -> list[str]:
    """The units with a value in any of the row groups; a leaf without statistics may have one."""
    row_groups = [metadata.row_group(group) for group in groups]
    return [
        unit
        for unit, leaves in units.items()
        if any(_null_count(group, leaf) != group.column(leaf).num_values for group in row_groups for leaf in leaves)
    ]


def _null_count(row_group: Any, leaf: int) -> int | None:
    statistics = row_group.column(leaf).statistics
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _lacks_text(metadata: Any, groups: Iterable[int], units: dict[str, list[int]]) -> bool:
    """Whether some file may have no ``add.stats``, so that its statistics are looked for in ``add.stats_parsed``."""
    text = units.get("add.stats")
    if text is None:
        return True
    for group in groups:
        row_group = metadata.row_group(group)
        absent, no_file = _null_count(row_group, text[0]), _null_count(row_group, units["add.path"][0])
        if absent is None or absent != no_file:
            return True
    return False


# --- small actions ----------------------------------------------------------------------------------------


def _actions_of_batch(batch: pa.RecordBatch) -> Iterator[Action]:
    for root, column in zip(batch.schema.names, batch.columns, strict=True):
        for row in _set_rows(column):
            fields = column[row].as_py()
            if not isinstance(fields, dict):
                raise ActionError(f"{root} must be an object, is {shown(fields)}")
            action = action_from_json({root: _completed(root, fields)})
            if action is not None:
                yield action


def _set_rows(column: pa.StructArray) -> list[int]:
    """The rows that are not null, read off the validity bitmap: pyarrow.compute takes 27 ms to import."""
    import numpy as np

    if not column.null_count:
        return list(range(len(column)))
    bitmap = np.frombuffer(column.buffers()[0], dtype=np.uint8)
    bits = np.unpackbits(bitmap, bitorder="little")[column.offset : column.offset + len(column)]
    rows: list[int] = np.flatnonzero(bits).tolist()
    return rows


def _completed(root: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row with what empty lists and maps stand for put back."""
    values = {**_EMPTY.get(root, {}), **{key: value for key, value in row.items() if value is not None}}
    if root == "metaData" and isinstance(values["format"], dict) and isinstance(values["format"].get("options"), list):
        values["format"] = {**values["format"], "options": dict(values["format"]["options"])}
    if root == "protocol":
        if values.get("minReaderVersion") == 3:
            values.setdefault("readerFeatures", [])
        if values.get("minWriterVersion") == 7:
            values.setdefault("writerFeatures", [])
    return values
