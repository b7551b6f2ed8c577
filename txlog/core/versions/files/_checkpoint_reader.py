"""Reading checkpoints: classic, multi-part and V2 (JSON or Parquet, with or without sidecars).

In: the names of one checkpoint. Out: its small actions (protocol, metadata, ...) without reading the file list, or its
files as Arrow batches. Any defect of a checkpoint raises ``CorruptLogError``; the caller then falls back to an older
one. PROTOCOL.md, "Checkpoints".
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from txlog.core.format.actions import Action, AddFile, RemoveFile, Sidecar, action_from_json
from txlog.core.format.commit_file import Commit, LogLimits, parse_actions
from txlog.core.format.file_columns import FILES_SCHEMA, TOMBSTONES_SCHEMA
from txlog.core.format.log_names import SIDECARS, LogFileKind
from txlog.core.format.wire import ActionError, shown
from txlog.core.parallel import parallel_map
from txlog.core.store import TableStore
from txlog.core.versions.decisions import files
from txlog.core.versions.decisions.segment import CheckpointFiles
from txlog.core.versions.decisions.typed_statistics import STATS_PARSED
from txlog.core.versions.files._checkpoint_parquet import CheckpointParquet, CheckpointPiece
from txlog.errors import CorruptLogError, NotFoundError, StorageError

if TYPE_CHECKING:
    from txlog.core.predicates.skipping import FilePruner

LOG_DIRECTORY = "_delta_log"

_SMALL = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")

# An empty list or map has no leaf with a value, so it is not read; these values replace it.
_EMPTY: dict[str, dict[str, Any]] = {"metaData": {"partitionColumns": [], "configuration": {}, "format": {}}}

_FILES_AT_ONCE = 8

T = TypeVar("T")

Opened: TypeAlias = "Mapping[str, CheckpointParquet | bytes]"
"""The top-level files of a checkpoint by name: Parquet files with their footers, and the bytes of a JSON file."""

_NONE: Opened = {}


class CheckpointReader:
    """Reads the checkpoints of one table. Thread-safe: it keeps no state."""

    def __init__(self, store: TableStore, limits: LogLimits) -> None:
        self._store = store
        self._limits = limits
        self._is_remote = not store.log.capabilities.has_cheap_calls

    def small_actions(self, checkpoint: CheckpointFiles) -> list[Action]:
        """All but the file actions. Raises ``CorruptLogError``, ``NotFoundError``, ``StorageError``."""
        return self._small(checkpoint, _SMALL)

    def _small(self, checkpoint: CheckpointFiles, keys: Collection[str], opened: Opened = _NONE) -> list[Action]:
        """The small actions with these ``keys``. ``opened`` are files of the checkpoint that were read already."""

        def read(name: str) -> list[Action]:
            with self._reading(name, checkpoint.version):
                file = opened.get(name) or self._top_level(name)
                if isinstance(file, CheckpointParquet):
                    return self._parquet_small_actions(file, keys)
                actions = self._json_actions(file, name, checkpoint.version, files=False)
                return [action for action in actions if action.KEY in keys]

        return [action for found in self._side_by_side(read, checkpoint.names) for action in found]

    def opened(self, checkpoint: CheckpointFiles) -> Opened:
        """The top-level files of the checkpoint, for `adds`. Raises what `small_actions` raises."""

        def read(name: str) -> CheckpointParquet | bytes:
            with self._reading(name, checkpoint.version):
                return self._top_level(name)

        return dict(zip(checkpoint.names, self._side_by_side(read, checkpoint.names), strict=True))

    def adds(
        self,
        checkpoint: CheckpointFiles,
        only: FilePruner | files.NamedFiles | None = None,
        *,
        opened: Opened | None = None,
        newest: files.Newest | None = None,
        without: Collection[str] = (),
        statistics: bool = True,
        typed: pa.StructType | None = None,
        batch_rows: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The live files at the checkpoint, as batches of ``FILES_SCHEMA``; with ``only``, just those that may match or
        have a name.

        Files in ``newest`` are left out. ``without`` are the names of sidecars to skip. Without ``statistics``, these
        columns are null, and most of the checkpoint need not be read. With ``typed``, the last column is
        ``stats_parsed`` of this type. ``opened`` is what `opened` returned, if the caller called it. With
        ``batch_rows``, no batch from a Parquet file has more rows, and few batches are in memory. Raises what
        `small_actions` raises.
        """
        names = [name for name in FILES_SCHEMA.names if statistics or name != "stats"]
        fields = [*names, STATS_PARSED] if typed else names
        pieces = self._pieces(checkpoint, AddFile.KEY, fields, only, without, batch_rows, opened)
        return self._converted(checkpoint, pieces, partial(files.adds_of_batch, statistics=typed), newest or {})

    def removes(
        self,
        checkpoint: CheckpointFiles,
        newest: files.Newest | None = None,
        only: files.NamedFiles | None = None,
        *,
        opened: Opened | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The tombstones at the checkpoint, as batches of ``TOMBSTONES_SCHEMA``, without files in ``newest``; with
        ``only``, just those that have a name.

        ``opened`` is as for `adds`, which may read the same afterwards. Raises what `small_actions` raises.
        """
        if opened is not None:  # each reader may decode as much as the limits allow
            opened = {name: copy.copy(file) for name, file in opened.items()}
        pieces = self._pieces(checkpoint, RemoveFile.KEY, TOMBSTONES_SCHEMA.names, only, opened=opened)
        return self._converted(checkpoint, pieces, files.removes_of_batch, newest or {})

    def sidecars(self, checkpoint: CheckpointFiles) -> list[Sidecar]:
        """The sidecars that the checkpoint names. Raises what `small_actions` raises."""
        return self._sidecars(checkpoint)

    def _sidecars(self, checkpoint: CheckpointFiles, opened: Opened = _NONE) -> list[Sidecar]:
        return [action for action in self._small(checkpoint, (Sidecar.KEY,), opened) if type(action) is Sidecar]

    def untouched_adds(self, sidecar: Sidecar, version: int, schema: pa.Schema, newest: files.Newest) -> int | None:
        """How many files a sidecar holds if another checkpoint can reuse it unchanged; otherwise None.

        It can if it has exactly the columns of ``schema``, the recorded size, only files, and none of the files in
        ``newest``. Raises what `small_actions` raises.
        """
        with self._reading(SIDECARS, version):
            name = sidecar_name(sidecar)
        with self._reading(name, version):
            file = self._parquet(name)
            units, groups = file.units((AddFile.KEY, RemoveFile.KEY)), file.groups()
            if (
                file.size_bytes != sidecar.size_in_bytes
                or not file.schema.equals(schema)
                or file.live_units(groups, {"path": units["remove.path"]})
            ):
                return None
            keys = file.live_units(groups, {unit: units[unit] for unit in ("add.path", "add.deletionVector")})
            add_files = 0
            for batch in file.batches(groups, keys) if keys else ():
                if files.mentions(newest, batch):
                    return None
                add_files += batch.num_rows - batch.column(AddFile.KEY).null_count
            return add_files

    def require_readable(self, name: str, version: int, body: bytes | memoryview) -> None:
        """Decode a file that is about to be published, as readers will. Raises ``CorruptLogError`` past limits."""
        with self._reading(name, version):
            if name.endswith(".json"):
                for _ in parse_actions(bytes(body), name, version=version, table=self._store.uri, limits=self._limits):
                    pass
                return
            source = partial(pa.BufferReader, pa.py_buffer(body))
            opened = CheckpointParquet(name, source, self._limits, is_remote=False)
            for root, schema in ((AddFile.KEY, FILES_SCHEMA), (RemoveFile.KEY, TOMBSTONES_SCHEMA)):
                file = copy.copy(opened)  # each reader may decode as much as the limits allow
                for piece in file.pieces(root, schema.names, None):
                    for _ in piece.read():
                        pass

    def size_bytes(self, checkpoint: CheckpointFiles) -> int:
        """The total size of the checkpoint's files, sidecars included. Raises what `small_actions` raises."""
        names = checkpoint.names
        top_level = sum(self._store.log.stat(name).size for name in names)
        if checkpoint.kind is not LogFileKind.V2_CHECKPOINT:
            return top_level
        return top_level + sum(sidecar.size_in_bytes for sidecar in self.sidecars(checkpoint))

    def _converted(
        self,
        checkpoint: CheckpointFiles,
        pieces: Iterator[CheckpointPiece],
        convert: Callable[[pa.RecordBatch], pa.RecordBatch | None],
        newest: files.Newest,
    ) -> Iterator[pa.RecordBatch]:
        """The contents of the pieces, in order. It reads small pieces two at a time, large ones batch by batch.

        A conversion error names the file.
        """

        def finished(batch: pa.RecordBatch) -> pa.RecordBatch | None:
            converted = convert(batch)
            if converted is None:
                return None
            converted.validate(full=True)  # Parquet accepts any bytes as a string
            return files.left_after(newest, converted)

        def batches(piece: CheckpointPiece) -> Iterator[pa.RecordBatch]:
            with self._reading(piece.name, checkpoint.version):
                for batch in (map if piece.is_small else parallel_map)(finished, piece.read()):
                    if batch is not None and batch.num_rows:
                        yield batch

        for is_small, run in itertools.groupby(pieces, lambda piece: piece.is_small):
            for found in parallel_map(lambda piece: list(batches(piece)), run) if is_small else map(batches, run):
                yield from found

    def _pieces(
        self,
        checkpoint: CheckpointFiles,
        root: str,
        fields: Sequence[str],
        only: FilePruner | files.NamedFiles | None = None,
        without: Collection[str] = (),
        batch_rows: int | None = None,
        opened: Opened | None = None,
    ) -> Iterator[CheckpointPiece]:
        """The file actions under ``root``, from the top-level files and from the sidecars."""
        opened = self.opened(checkpoint) if opened is None else opened
        sidecars = self._sidecars(checkpoint, opened)  # before another thread reads a piece of the same file
        for name in checkpoint.names:
            file = opened[name]
            if isinstance(file, CheckpointParquet):
                with self._reading(name, checkpoint.version):
                    yield from file.pieces(root, fields, only, batch_rows=batch_rows)
            else:
                yield CheckpointPiece(
                    name, False, partial(self._json_batches, file, name, checkpoint.version, root, only)
                )
        with self._reading(checkpoint.names[0], checkpoint.version):
            named = [name for name in map(sidecar_name, sidecars) if name not in without]
        for name, file in zip(named, self._side_by_side(partial(self._parquet_of, checkpoint), named), strict=True):
            with self._reading(name, checkpoint.version):
                yield from file.pieces(root, fields, only, batch_rows=batch_rows)

    # --- JSON --------------------------------------------------------------------------------------------

    def _json_actions(self, body: bytes, name: str, version: int, *, files: bool) -> list[Action]:
        parsed = parse_actions(body, name, version=version, table=self._store.uri, limits=self._limits, files=files)
        return [action for action in parsed if action is not None]

    def _json_batches(
        self, body: bytes, name: str, version: int, root: str, only: FilePruner | files.NamedFiles | None
    ) -> Iterator[pa.RecordBatch]:
        actions = self._json_actions(body, name, version, files=True)
        newest: files.Newest = files.fold_commits([Commit(version, tuple(actions), None, 0)])
        if isinstance(only, files.NamedFiles):
            newest, only = only.among(newest), None
        if root == AddFile.KEY:
            live = files.reconcile([], newest, None if only is None else only.mask)
            yield from _as_rows(live, root)
        else:
            yield from _as_rows(files.reconcile_tombstones([], newest), root)

    # --- Parquet -----------------------------------------------------------------------------------------

    def _parquet_small_actions(self, file: CheckpointParquet, keys: Collection[str]) -> list[Action]:
        units = file.units(keys)
        found: list[Action] = []
        for group in file.groups():
            live = file.live_units([group], units)
            left = {root: file.set_rows(group, root) for root in {unit.partition(".")[0] for unit in live}}
            for batch in file.batches([group], live) if live else ():
                found += _actions_of_batch(batch)
                for root in left:
                    left[root] -= batch.num_rows - batch.column(root).null_count
                if not any(left.values()):
                    break  # only file actions follow, perhaps a million, and their rows are null here
        return found

    def _top_level(self, name: str) -> CheckpointParquet | bytes:
        return self._store.log.read(name) if name.endswith(".json") else self._parquet(name)

    def _parquet_of(self, checkpoint: CheckpointFiles, name: str) -> CheckpointParquet:
        with self._reading(name, checkpoint.version):
            return self._parquet(name)

    def _parquet(self, name: str) -> CheckpointParquet:
        return CheckpointParquet(name, partial(self._open, name), self._limits, is_remote=self._is_remote)

    def _open(self, name: str) -> Any:
        try:
            return self._store.files.open(f"{LOG_DIRECTORY}/{name}")
        except NotFoundError:
            # A log store need not share its objects with the file store (the in-memory one does not).
            return pa.BufferReader(self._store.log.read(name))

    def _side_by_side(self, work: Callable[[str], T], names: Sequence[str]) -> Iterable[T]:
        """``work`` of each file, in order; of several at once where each is a request."""
        return parallel_map(work, names, threads=_FILES_AT_ONCE) if self._is_remote else map(work, names)

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
    """A sidecar's name below the log. Only the last segment of its path counts: all sidecars are in one folder."""
    from urllib.parse import unquote

    name = unquote(sidecar.path).replace("\\", "/").rsplit("/", 1)[-1]
    if name in ("", ".", ".."):
        raise ActionError(f"sidecar.path {sidecar.path!r} names no file")
    return f"{SIDECARS}/{name}"


# --- small actions ----------------------------------------------------------------------------------------


def _actions_of_batch(batch: pa.RecordBatch) -> Iterator[Action]:
    for root, column in zip(batch.schema.names, batch.columns, strict=True):
        for row in _set_rows(column):
            fields = column[row].as_py()
            if not isinstance(fields, dict):
                raise ActionError(f"{root} must be an object, not {shown(fields)}")
            action = action_from_json({root: _completed(root, fields)})
            if action is not None:
                yield action


def _set_rows(column: pa.StructArray) -> list[int]:
    """The rows that are not null, from the validity bitmap: pyarrow.compute takes 27 ms to import."""
    if not column.null_count:
        return list(range(len(column)))
    bitmap = np.frombuffer(column.buffers()[0], dtype=np.uint8)
    bits = np.unpackbits(bitmap, bitorder="little")[column.offset : column.offset + len(column)]
    rows: list[int] = np.flatnonzero(bits).tolist()
    return rows


def _completed(root: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row with the values of empty lists and maps restored."""
    values = {**_EMPTY.get(root, {}), **{key: value for key, value in row.items() if value is not None}}
    if root == "metaData" and isinstance(values["format"], dict) and isinstance(values["format"].get("options"), list):
        values["format"] = {**values["format"], "options": dict(values["format"]["options"])}
    if root == "protocol":
        if values.get("minReaderVersion") == 3:
            values.setdefault("readerFeatures", [])
        if values.get("minWriterVersion") == 7:
            values.setdefault("writerFeatures", [])
    return values
