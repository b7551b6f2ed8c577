"""The live files of the newest exported version, as Iceberg readers find them, for comparison with the Delta log.

In: the metadata folder and what was exported. Out: each data file's location, its number of dead rows, and how often it
is listed.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from txlog.core.format.actions import Metadata
from txlog.iceberg.metadata.definition import define
from txlog.iceberg.metadata.manifest import DATA, read_entries
from txlog.iceberg.metadata.table_metadata import Exported
from txlog.iceberg.metadata_folder import MetadataFolder


class SeenFile(NamedTuple):
    """A data file: how many of its rows are deleted, and how often readers read it, which should be once."""

    dead_rows: int
    times: int = 1


def live_files(folder: MetadataFolder, exported: Exported, metadata: Metadata) -> dict[str, SeenFile]:
    """Data files by absolute location: how many of each one's rows are deleted, and how often it is listed.

    Args:
        folder: The metadata folder.
        exported: Its newest metadata.
        metadata: The table's metadata at the exported version.

    Raises:
        IcebergExportError: A manifest cannot be read.
        StorageError: The store does not answer.
    """
    definition = define(metadata, exported.format_version, exported.document)
    dead: Counter[str] = Counter()
    data: Counter[str] = Counter()
    for manifest in exported.manifests:
        if not manifest.live_files:
            continue
        body = folder.read_content(manifest.path)
        for entry in read_entries(body, definition.partition, exported.format_version, manifest.path):
            if manifest.content == DATA:
                data[entry.path] += 1
            else:
                dead[entry.path] += entry.rows
    return {path: SeenFile(dead[path], data[path]) for path in data.keys() | dead.keys()}
