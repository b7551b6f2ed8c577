"""The manifests of a version whose files are all listed anew, built while the files are read.

In: files, some at a time, each with its manifest's number; for files that Iceberg knows from another format, where they
come from. Out: the manifests. Entries are compressed as they come,
without an object for each: a million files take about 60 MB. Iceberg spec, "Manifests".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of, from_numbers
from txlog.iceberg.metadata.avro import Block, constant, joined, longs
from txlog.iceberg.metadata.file_encoder import EncodedTable, PartitionValues
from txlog.iceberg.metadata.live_manifests import Layout, Moment
from txlog.iceberg.metadata.manifest import ADDED, EXISTING, entry_start
from txlog.iceberg.metadata.manifest_list import ManifestFile
from txlog.iceberg.metadata.names import NewFile

_LATEST = 2**63 - 1


class NewManifests:
    """Manifests in progress, by their numbers."""

    def __init__(self, layout: Layout, moment: Moment, origins: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._layout = layout
        self._origins = origins
        self._moment = moment
        self._start = constant(entry_start(ADDED, moment.snapshot_id, moment.version))
        self._growing: dict[int, _Growing] = {}

    def add(self, files: EncodedTable, manifest_numbers: Any, locations: Sequence[str] = ()) -> None:
        """Add each file to the manifest with its number. ``locations`` are those of the files, if they have origins."""
        sequence_numbers = np.array([self._origins[each][1] for each in locations] if self._origins else (), np.int64)
        entries = joined([self._starts(locations), files.records])
        order = np.argsort(manifest_numbers, kind="stable")
        entries = entries.take(from_numbers(order))
        rows, partitions = files.rows[order], files.partition_numbers[order]
        numbers, starts = np.unique(manifest_numbers[order], return_index=True)
        for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(order)], strict=True):
            growing = self._growing.setdefault(number, _Growing())
            growing.add(entries.slice(start, end - start), int(rows[start:end].sum()))
            if self._origins:
                growing.oldest = min(growing.oldest, int(sequence_numbers[order[start:end]].min()))
            growing.partitions.update(files.partitions[at] for at in np.unique(partitions[start:end]).tolist())

    def _starts(self, locations: Sequence[str]) -> Any:
        if not self._origins:
            return self._start
        return array_of([entry_start(EXISTING, *self._origins[each]) for each in locations], pa.binary())

    def finished(self, first_row_id: int | None) -> Iterator[tuple[NewFile, ManifestFile]]:
        """The manifests, by number. ``first_row_id`` is the first row id reserved for them (v3)."""
        layout = self._layout
        for number in sorted(self._growing):
            growing = self._growing.pop(number)  # otherwise all their bytes would be in memory twice
            yield layout.writer.write_new(
                growing.block,
                b"".join(growing.lengths),
                growing.rows,
                layout.encoder.summaries(list(growing.partitions)),
                snapshot_id=self._moment.snapshot_id,
                version=self._moment.version,
                first_row_id=first_row_id,
                oldest=growing.oldest if self._origins else None,
            )
            if first_row_id is not None:
                first_row_id += growing.rows


class _Growing:
    def __init__(self) -> None:
        self.block = Block()
        self.lengths: list[bytes] = []
        self.rows = 0
        self.oldest = _LATEST
        self.partitions: set[PartitionValues] = set()

    def add(self, entries: pa.BinaryArray, rows: int) -> None:
        offsets = np.frombuffer(entries.buffers()[1], np.int32)[entries.offset : entries.offset + len(entries) + 1]
        self.block.add(len(entries), memoryview(entries.buffers()[2])[offsets[0] : offsets[-1]])
        self.lengths.append(_body(longs(np.diff(offsets))))
        self.rows += rows


def _body(values: pa.BinaryArray) -> bytes:
    return bytes(values.buffers()[2])
