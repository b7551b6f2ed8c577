"""Writes one checkpoint: classic, or V2 if the table requests it, then the hint that names it.

In: a table state. Out: the checkpoint in the log, complete, durable and verified before any reader can see it, or
nothing if the table must have no checkpoint from txlog. ``core/versions/decisions/checkpoint/`` decides what a
checkpoint holds. PROTOCOL.md, "Checkpoints", "Sidecar Files", "Last Checkpoint File".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core import ambient
from txlog.core.format.actions import Sidecar
from txlog.core.format.commit_file import LogLimits
from txlog.core.format.file_columns import TOMBSTONES_SCHEMA
from txlog.core.format.log_names import SIDECARS, LogFileKind, checkpoint_name, v2_checkpoint_name
from txlog.core.parallel import parallel_map
from txlog.core.store import PutOutcome, TableStore
from txlog.core.util import logger
from txlog.core.versions.decisions import clean_up
from txlog.core.versions.decisions.checkpoint.classic import Checkpoint, build_checkpoint
from txlog.core.versions.decisions.checkpoint.columns import COMPRESSIONS, FileColumns
from txlog.core.versions.decisions.checkpoint.order import RowGroup
from txlog.core.versions.decisions.checkpoint.v2 import (
    StoredSidecar,
    encode_sidecar,
    serves_again,
    sidecar_groups,
    top_level,
    wants_v2,
)
from txlog.core.versions.decisions.files import Newest, reconcile_tombstones, with_added
from txlog.core.versions.decisions.retention import retained_tombstones
from txlog.core.versions.decisions.segment import CheckpointFiles
from txlog.core.versions.decisions.state import TableState, Totals
from txlog.core.versions.files._checkpoint_reader import CheckpointReader, sidecar_name
from txlog.core.versions.files._file_loader import FileLoader
from txlog.core.versions.files._listing import publish_hint
from txlog.core.versions.files._small_pages import small_pages
from txlog.errors import CorruptLogError, NotFoundError, StorageError

T = TypeVar("T")

_LONGEST_HOURS = 12
"""How long the sidecars of a checkpoint are safe from log cleanups before its top-level file names them. A cleanup
deletes a sidecar that no checkpoint names once it is a day old, and then maybe within a second."""


class CheckpointWriter:
    """Writes the checkpoints of one table. Thread-safe. Concurrent writers are safe, even in other processes."""

    def __init__(self, store: TableStore, limits: LogLimits) -> None:
        self._store = store.log
        self._versions = store.versions
        self._table = store.uri
        self._files = FileLoader(store, limits)
        self._reader = CheckpointReader(store, limits)

    def write(self, state: TableState, files: pa.Table | None = None) -> tuple[CheckpointFiles | None, Totals | None]:
        """Publish a checkpoint of ``state``, or return the existing one. None if the table must have no checkpoint.

        ``files`` are those of the first version of a log, which nothing else in it has. Also returns the number of
        files and their bytes, if all are known. Raises ``CorruptLogError``, ``StorageError``, ``NotFoundError``.
        """
        with small_pages():
            return self._write_v2(state, files) if wants_v2(state) else self._write_classic(state, files)

    def build(self, state: TableState) -> bytes:
        """A classic checkpoint of ``state`` without removed files, checked but not published. Raises what `write`
        raises."""
        with small_pages():
            live, tombstones = self._files.files_and_tombstones(state, FileColumns.of(state).statistics)
            return self._built(state, live, tombstones.slice(0, 0)).body

    # --- classic -----------------------------------------------------------------------------------------------

    def _listed(self, state: TableState, columns: FileColumns, files: pa.Table | None) -> tuple[pa.Table, pa.Table]:
        if files is not None:
            return files, TOMBSTONES_SCHEMA.empty_table()
        return self._files.files_and_tombstones(state, columns.statistics)

    def _write_classic(self, state: TableState, files: pa.Table | None) -> tuple[CheckpointFiles | None, Totals]:
        live, tombstones = self._listed(state, FileColumns.of(state), files)
        name, checkpoint = checkpoint_name(state.version), self._built(state, live, tombstones)
        totals = _totals(live)
        if not self._publish(name, checkpoint.body):
            return None, totals  # another writer's checkpoint, which that writer's hint names
        publish_hint(self._store, self._table, state.version, checkpoint.hint)
        return CheckpointFiles(state.version, LogFileKind.CLASSIC_CHECKPOINT, (name,), len(checkpoint.body)), totals

    def _built(self, state: TableState, live: pa.Table, tombstones: pa.Table) -> Checkpoint:
        now_ms = ambient.now_ms()

        def build(compression: str) -> Checkpoint:
            ahead = partial(parallel_map, threads=1)
            choices: dict[str, Any] = {"compression": compression, "apply": parallel_map, "ahead": ahead}
            return build_checkpoint(state, live, tombstones, now_ms=now_ms, **choices)

        return self._readable(checkpoint_name(state.version), state.version, build, lambda built: built.body)

    # --- V2 ----------------------------------------------------------------------------------------------------

    def _write_v2(self, state: TableState, files: pa.Table | None) -> tuple[CheckpointFiles, Totals | None]:
        """Write under a unique name, unless this version already has a checkpoint: a second one would be useless."""
        began = ambient.instant()
        newest_checkpoint = self._files.newest_checkpoint(state)
        if newest_checkpoint is not None and newest_checkpoint.version == state.version:
            return newest_checkpoint, None
        columns = FileColumns.of(state)
        found = None
        if newest_checkpoint is not None and newest_checkpoint.kind is LogFileKind.V2_CHECKPOINT:
            found = self._increment(state, newest_checkpoint, columns)
        kept, live, tombstones = found or ([], *self._listed(state, columns, files))
        now_ms = ambient.now_ms()
        retained = retained_tombstones(tombstones, state.properties, now_ms=now_ms)
        written = list(self._write_sidecars(state.version, columns, live, retained, now_ms))
        checkpoint = top_level(state, [*kept, *written], now_ms=now_ms)
        expected = sum(sidecar.add_files for sidecar in kept) + live.num_rows
        if checkpoint.add_files != expected:
            raise CorruptLogError(
                f"the checkpoint built for version {state.version} has {checkpoint.add_files} files instead of"
                f" {expected}; it was not published",
                table=self._table,
                version=state.version,
            )
        name = v2_checkpoint_name(state.version, ambient.uuid4(), "json")
        self._reader.require_readable(name, state.version, checkpoint.body)
        self._require_sidecars_stay(state, began)
        self._publish_new(name, checkpoint.body)
        try:
            self._require_sidecars_stay(state, began)
        except StorageError:
            if not self._has_all(written + kept):  # otherwise a log cleanup may have already deleted what comes before
                self._store.delete(name)
                raise
        publish_hint(self._store, self._table, state.version, checkpoint.hint(name, self._store.stat(name).modified_ms))
        published = CheckpointFiles(state.version, LogFileKind.V2_CHECKPOINT, (name,), checkpoint.size_bytes)
        return published, None if kept else _totals(live)

    def _has_all(self, sidecars: Iterable[StoredSidecar]) -> bool:
        try:
            for sidecar in sidecars:
                self._store.stat(sidecar_name(sidecar.action))
        except NotFoundError:
            return False
        return True

    def _require_sidecars_stay(self, state: TableState, began: ambient.Instant) -> None:
        """Raise StorageError if a log cleanup may have deleted sidecars of a checkpoint begun at this moment."""
        hours = ambient.age_s(began) / 3600
        if hours > _LONGEST_HOURS:
            raise StorageError(
                f"writing the checkpoint of version {state.version} took {hours:.0f} hours, maybe because the machine"
                " was suspended. The checkpoint is not published, since a log cleanup may have deleted its sidecars."
                " The table is complete without it, and a later commit writes another one",
                table=self._table,
                version=state.version,
            )

    def _increment(
        self, state: TableState, base: CheckpointFiles, columns: FileColumns
    ) -> tuple[list[StoredSidecar], pa.Table, pa.Table] | None:
        """The reusable sidecars of ``base``, the files outside these, and all tombstones; None if there are none.

        ``base`` must be the newest checkpoint, not just the newest known one: a log cleanup deletes sidecars that only
        older checkpoints name.
        """
        if not self._stays(base, state):
            return None
        try:
            newest = self._files.newest_after(state, base)
            untouched = self._untouched(base, columns, newest)
            added = sum(1 for action in newest.values() if action.KEY == "add")
            kept = serves_again(untouched, added)
            if not kept:
                return None
            names = {sidecar_name(sidecar.action) for sidecar in kept}
            adds = self._reader.adds(base, newest=newest, without=names, typed=columns.statistics)
            live = with_added(adds, newest, None, columns.statistics)
            return kept, live, reconcile_tombstones(self._reader.removes(base), newest)
        except (CorruptLogError, NotFoundError) as error:
            logger.warning("%s: writing a full checkpoint, since the last one cannot be read: %s", self._table, error)
            return None

    def _stays(self, base: CheckpointFiles, state: TableState) -> bool:
        """Whether no log cleanup deletes ``base`` soon. One may once the next version is older than the retention:
        another process may be writing a checkpoint of that version with other sidecars."""
        cutoff_ms = clean_up.cutoff_ms(state.properties, now_ms=ambient.now_ms() + _LONGEST_HOURS * 3_600_000)
        try:
            return self._versions.stat(base.version + 1).modified_ms > cutoff_ms
        except NotFoundError:
            return False

    def _untouched(self, base: CheckpointFiles, columns: FileColumns, newest: Newest) -> list[StoredSidecar]:
        schema = columns.schema()
        sidecars = self._reader.sidecars(base)
        counts = [self._reader.untouched_adds(sidecar, base.version, schema, newest) for sidecar in sidecars]
        return [StoredSidecar(sidecar, count, count) for sidecar, count in zip(sidecars, counts, strict=True) if count]

    def _write_sidecars(
        self, version: int, columns: FileColumns, live: pa.Table, tombstones: pa.Table, now_ms: int
    ) -> Iterator[StoredSidecar]:
        groups = sidecar_groups(columns, live, tombstones, parallel_map)

        def encode(group: RowGroup) -> tuple[memoryview, int, int]:
            build = partial(encode_sidecar, columns, group)
            return self._readable(SIDECARS, version, build, lambda built: built[0])

        for body, add_files, actions in parallel_map(encode, groups):
            name = f"{ambient.uuid4()}.parquet"
            self._publish_new(f"{SIDECARS}/{name}", body)
            yield StoredSidecar(Sidecar(name, len(body), now_ms), add_files, actions)

    # --- small things --------------------------------------------------------------------------------------------

    def _readable(
        self, name: str, version: int, build: Callable[[str], T], body_of: Callable[[T], bytes | memoryview]
    ) -> T:
        """The result of ``build`` with a compression that readers do not take for a decompression bomb.

        Raises ``CorruptLogError`` if there is no such compression: the checkpoint is then not published.
        """
        for compression in COMPRESSIONS:
            built = build(compression)
            try:
                self._reader.require_readable(name, version, body_of(built))
                return built
            except CorruptLogError as error:
                refusal = error
        raise refusal

    def _publish_new(self, name: str, body: bytes | memoryview) -> None:
        if not self._publish(name, body):
            raise StorageError(f"{name} already exists with different content", table=self._table, path=name)

    def _publish(self, name: str, body: bytes | memoryview) -> bool:
        """Publish ``name``, and return whether it now holds these bytes durably, not another writer's.

        Raises ``StorageError`` if that is unknown, or if a power cut could undo it.
        """
        outcome = self._store.put_if_absent(name, body)
        if outcome is PutOutcome.WRITTEN:
            return True
        if outcome is PutOutcome.NOT_DURABLE:
            raise StorageError(
                f"{name} is visible, but its directory could not be synced: the hint does not name it, since a power"
                " cut could undo it",
                table=self._table,
                path=name,
            )
        try:
            found_bytes = self._store.stat(name).size
        except NotFoundError as error:
            raise StorageError(
                f"the answer to the write of {name} was lost, and the file does not exist: write it again",
                table=self._table,
                path=name,
            ) from error
        if found_bytes != len(body):
            return False
        self._store.make_durable(name)
        return True


def _totals(live: pa.Table) -> Totals:
    return Totals(live.num_rows, pc.sum(live.column("size")).as_py() or 0)
