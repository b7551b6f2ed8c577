"""Which manifest each file of a whole table goes into."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import adds_to_batch
from txlog.iceberg.metadata.whole_table import FileBatches, in_manifests


def batches(*parts: list[tuple[str | None, str]]) -> FileBatches:
    """Files in these partitions, in several batches."""

    def read(with_stats: bool) -> Iterator[pa.RecordBatch]:
        for number, values in enumerate(parts):
            adds = [
                AddFile(f"{number}-{at}", {"part": part, "year": year}, 1, 1, True)
                for at, (part, year) in enumerate(values)
            ]
            yield adds_to_batch(adds)

    return read


def test_files_of_a_partition_come_together_whatever_batch_they_are_in() -> None:
    read = batches([("b", "1"), ("a", "2"), (None, "1")], [("b", "1"), ("a", "1"), ("a", "2")])
    found = list(in_manifests(read, ["part", "year"], files_per_manifest=2))
    assert np.concatenate([numbers for _, numbers in found]).tolist() == [1, 0, 2, 2, 0, 1]
    assert [path for files, _ in found for path in files.column("path").to_pylist()] == [
        "0-0", "0-1", "0-2", "1-0", "1-1", "1-2"
    ]  # fmt: skip


def test_files_without_partitions_keep_their_order() -> None:
    read = batches([("a", "1")] * 3, [("a", "1")] * 4)
    found = list(in_manifests(read, [], files_per_manifest=3))
    assert np.concatenate([numbers for _, numbers in found]).tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_a_table_without_files_has_no_manifest() -> None:
    assert list(in_manifests(batches(), ["part"])) == []
