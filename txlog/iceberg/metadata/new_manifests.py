"""The manifests of a version whose files are all new to Iceberg, built while the files are read.

In: files, some at a time, each with its manifest's number. Out: the manifests. Entries are compressed as they come,
without an object for each: a million files take about 60 MB. Iceberg spec, "Manifests".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import from_numbers
from txlog.iceberg.metadata.avro import Block, constant, joined, longs
from txlog.iceberg.metadata.file_encoder import EncodedTable, PartitionValues
from txlog.iceberg.metadata.live_manifests import Layout, Moment
from txlog.iceberg.metadata.manifest import ADDED, entry_start
from txlog.iceberg.metadata.manifest_list import ManifestFile
from txlog.iceberg.metadata.names import NewFile

__all__ = ["NewManifests"]


class NewManifests:
    """Manifests in progress, by their numbers."""

    def __init__(self, layout: Layout, moment: Moment) -> None:
        self._layout = layout
        self._moment = moment
        self._start = constant(entry_start(ADDED, moment.snapshot_id, moment.version))
        self._growing: dict[int, _Growing] = {}

    def add(self, files: EncodedTable, manifest_numbers: Any) -> None:
        """Add each file to the manifest with its number."""
        entries = joined([self._start, files.records])
        order = np.argsort(manifest_numbers, kind="stable")
        entries = entries.take(from_numbers(order))
        rows, partitions = files.rows[order], files.partition_numbers[order]
        numbers, starts = np.unique(manifest_numbers[order], return_index=True)
        for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(order)], strict=True):
            growing = self._growing.setdefault(number, _Growing())
            growing.add(entries.slice(start, end - start), int(rows[start:end].sum()))
            growing.partitions.update(files.partitions[at] for at in np.unique(partitions[start:end]).tolist())

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
            )
            if first_row_id is not None:
                first_row_id += growing.rows


class _Growing:
    def __init__(self) -> None:
        self.block = Block()
        self.lengths: list[bytes] = []
        self.rows = 0
        self.partitions: set[PartitionValues] = set()

    def add(self, entries: pa.BinaryArray, rows: int) -> None:
        offsets = np.frombuffer(entries.buffers()[1], np.int32)[entries.offset : entries.offset + len(entries) + 1]
        self.block.add(len(entries), memoryview(entries.buffers()[2])[offsets[0] : offsets[-1]])
        self.lengths.append(_body(longs(np.diff(offsets))))
        self.rows += rows


def _body(values: pa.BinaryArray) -> bytes:
    return bytes(values.buffers()[2])
