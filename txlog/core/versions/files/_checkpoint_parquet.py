"""One Parquet file of a checkpoint: which leaves hold a value, and its rows in pieces that can be read separately.

In: a function that opens the file. Out: record batches with only the leaves that hold a value. Reading fails as soon as
the batches exceed the limits for a file of that size. Leaves without values, which are common in checkpoints, are not
read. PROTOCOL.md, "Checkpoint Schema".
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from txlog.core.format.commit_file import LogLimits
from txlog.core.parallel import parallel_map
from txlog.core.versions.decisions.files import NamedFiles
from txlog.core.versions.files._bounded_batches import beside, bounded_batches
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from txlog.core.predicates.skipping import FilePruner

BATCH_ROWS = 32_768  # four times as many would exceed the memory limit for a million files
FILTERED_ROWS = 16_384  # few of them are kept, so their memory is reused
_BATCH_BYTES = 64 << 20
READ_BYTES = 1 << 20
PIECE_ROWS = 65_536
_TEXT = "add.stats"
_SLOT_BYTES = 17  # the most that a null takes in Arrow: a decimal and a bit


class CheckpointPiece(msgspec.Struct, frozen=True):
    """Some of a checkpoint's rows. ``read`` may be called in any thread; a piece that ``is_small`` fits in memory."""

    name: str
    is_small: bool
    read: Callable[[], Iterable[pa.RecordBatch]]


class CheckpointParquet:
    """One file with its footer. ``is_remote``: a request costs more than the bytes it returns."""

    def __init__(self, name: str, open_source: Callable[[], Any], limits: LogLimits, *, is_remote: bool) -> None:
        from txlog.core.format.arrow.parquet import pq
        from txlog.core.format.arrow.parquet_footer import check_footer, read_footer

        self.name = name
        self._open_source = open_source
        self._is_remote = is_remote
        self._remote_source: Any = None
        with self._source() as source:
            self.size_bytes: int = source.size()
            footer = read_footer(source)
        end = pa.BufferReader(footer)
        file = pq.ParquetFile(end)
        self.metadata = file.metadata
        check_footer(footer, self.metadata)
        self.schema = file.schema_arrow
        rows = sum(self.metadata.row_group(group).num_rows for group in self.groups())
        # A small file was read whole and needs no second look. One thread reads so few rows.
        self._whole = (file, end) if len(footer) == self.size_bytes and rows < PIECE_ROWS else None
        self._paths = [self.metadata.schema.column(leaf).path for leaf in range(self.metadata.num_columns)]
        self._memory_bytes = limits.checkpoint_memory(self.size_bytes)
        self._decoded_bytes = 0
        most_rows = limits.checkpoint_rows(self.size_bytes)
        if self.metadata.num_rows > most_rows:
            raise CorruptLogError(
                f"checkpoint file {name} of {self.size_bytes} bytes claims {self.metadata.num_rows} rows, more than the"
                f" limit of {most_rows}"
            )

    def units(self, roots: Iterable[str]) -> dict[str, list[int]]:
        """Leaf numbers per ``root.field``, which is read or left out as a unit (half a map cannot be read)."""
        wanted = set(roots)
        units: dict[str, list[int]] = {}
        for leaf, path in enumerate(self._paths):
            parts = path.split(".", 2)
            if parts[0] in wanted and len(parts) > 1:
                units.setdefault(f"{parts[0]}.{parts[1]}", []).append(leaf)
        return units

    def live_units(self, groups: Iterable[int], units: dict[str, list[int]]) -> list[str]:
        """The units with a value in any row group; a leaf without statistics may have one."""
        row_groups = [self.metadata.row_group(group) for group in groups]
        return [
            unit
            for unit, leaves in units.items()
            if any(_has_value(group.column(leaf)) for group in row_groups for leaf in leaves)
        ]

    def set_rows(self, group: int, root: str) -> float:
        """The number of rows of a row group where ``root`` is set; infinite if the footer does not record it.

        It equals the number of values in the fullest leaf, since each action has a required field.
        """
        counts: list[float] = [0]
        row_group = self.metadata.row_group(group)
        for leaf in range(self.metadata.num_columns):
            column = self.metadata.schema.column(leaf)
            if column.path.startswith(f"{root}.") and not column.max_repetition_level:
                chunk = row_group.column(leaf)
                nulls = _null_count(chunk)
                counts.append(math.inf if nulls is None else chunk.num_values - nulls)
        return max(counts)

    def groups(self) -> list[int]:
        return list(range(self.metadata.num_row_groups))

    def batches(self, groups: list[int], columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these row groups. Raises as soon as they exceed `LogLimits`."""
        with self._open() as (file, source):
            yield from self._bounded(file, source, groups, columns)

    def pieces(
        self, root: str, fields: Collection[str], only: FilePruner | NamedFiles | None, *, batch_rows: int | None = None
    ) -> Iterator[CheckpointPiece]:
        """The ``fields`` of the file actions under ``root``; with ``only``, just those that may match or have a name.

        With ``batch_rows`` no piece is small, and no batch has more rows.
        """
        units = self.units((root,))
        path = units.get(f"{root}.path")
        if path is None:
            return
        groups = [group for group in self.groups() if self.live_units([group], {"path": path})]
        wanted = {f"{root}.{field}" for field in fields} & units.keys()
        columns = self.live_units(groups, {unit: units[unit] for unit in wanted})
        parsed = f"{root}.stats_parsed"
        if "stats" in fields and parsed in units and parsed not in columns and self._lacks_text(groups, units):
            columns.append(parsed)
        for run in self._runs(groups):
            rows = sum(self.metadata.row_group(group).num_rows for group in run)
            is_small = rows <= 2 * PIECE_ROWS and batch_rows is None
            apply = map if is_small else parallel_map
            yield CheckpointPiece(self.name, is_small, partial(self._read, root, run, columns, only, apply, batch_rows))

    def _runs(self, groups: list[int]) -> Iterator[list[int]]:
        """The row groups in runs that are worth a thread; a remote file's are one run, for fewer requests."""
        run: list[int] = []
        rows = 0
        for group in groups:
            run.append(group)
            rows += self.metadata.row_group(group).num_rows
            if rows >= PIECE_ROWS and not self._is_remote:
                yield run
                run, rows = [], 0
        if run:
            yield run

    def _read(
        self,
        root: str,
        groups: list[int],
        columns: list[str],
        only: FilePruner | NamedFiles | None,
        apply: Any,
        batch_rows: int | None,
    ) -> Iterator[pa.RecordBatch]:
        with self._open() as (file, source):
            if only is None:
                yield from self._bounded(file, source, groups, columns, batch_rows or BATCH_ROWS)
                return
            from txlog.core.versions.files._checkpoint_filter import CheckpointFilter, NameFilter

            def read(group: int, wanted: list[str]) -> Iterator[pa.RecordBatch]:
                return self._bounded(file, source, [group], wanted, FILTERED_ROWS)

            chosen: NameFilter | CheckpointFilter
            chosen = NameFilter(only, root) if isinstance(only, NamedFiles) else CheckpointFilter(only, self.metadata)
            yield from chosen.batches(groups, columns, read, apply, at_once=self._is_remote)

    def _bounded(
        self, file: Any, source: Any, groups: list[int], columns: list[str], rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        slots_bytes = _SLOT_BYTES * sum(map(len, self._leaves_of(columns)))
        for batch in self._decoded(file, source, groups, columns, rows):
            # A null in a wide, sparse table costs Arrow a slot but the file nothing. Batches are bounded without this.
            self._decoded_bytes += max(0, batch.nbytes - slots_bytes * batch.num_rows)
            if self._decoded_bytes > self._memory_bytes:
                raise CorruptLogError(
                    f"checkpoint file {self.name} of {self.size_bytes} bytes decodes to more than the limit of"
                    f" {self._memory_bytes} bytes"
                )
            yield batch

    def _leaves_of(self, columns: list[str]) -> list[list[int]]:
        units = self.units({column.partition(".")[0] for column in columns})
        return [units[column] for column in columns if column in units]

    def _decoded(
        self, file: Any, source: Any, groups: list[int], columns: list[str], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """In two threads if nothing else is read meanwhile: statistics text is most of a checkpoint."""
        read = partial(bounded_batches, file, source, rows=rows, size_bytes=_BATCH_BYTES, row_groups=groups)
        others = [column for column in columns if column != _TEXT]
        few_rows = sum(self.metadata.row_group(group).num_rows for group in groups) <= 2 * PIECE_ROWS
        if self._is_remote or few_rows or not 0 < len(others) < len(columns):
            return read(columns)
        return beside(read(others), read([_TEXT]))

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[Any, Any]]:
        from txlog.core.format.arrow.parquet import pq

        if self._whole is not None:
            yield self._whole
            return
        # Reading ahead pays off if a request costs more than the bytes it returns; on a disk it only costs memory.
        remote, read_bytes = self._is_remote, 0 if self._is_remote else READ_BYTES
        with (
            self._source() as source,
            pq.ParquetFile(source, metadata=self.metadata, pre_buffer=remote, buffer_size=read_bytes) as file,
        ):
            yield file, source

    @contextlib.contextmanager
    def _source(self) -> Iterator[Any]:
        source = self._remote_source or self._open_source()
        if self._is_remote:
            self._remote_source = source  # reopening it would cost a request
        try:
            yield source
        finally:
            if not self._is_remote:
                source.close()

    def _lacks_text(self, groups: Iterable[int], units: dict[str, list[int]]) -> bool:
        """Whether some file may have no ``add.stats``; its statistics may then be in ``add.stats_parsed``."""
        text = units.get("add.stats")
        if text is None:
            return True
        for group in groups:
            row_group = self.metadata.row_group(group)
            absent, no_file = (_null_count(row_group.column(leaf)) for leaf in (text[0], units["add.path"][0]))
            if absent is None or absent != no_file:
                return True
        return False


def _has_value(chunk: Any) -> bool:
    return bool(_null_count(chunk) != chunk.num_values)


def _null_count(chunk: Any) -> int | None:
    statistics = chunk.statistics
    return None if statistics is None else statistics.null_count  # None if the footer does not record it
