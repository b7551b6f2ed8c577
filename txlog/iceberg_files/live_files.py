"""The live files of the newest exported version, as Iceberg readers find them: to compare them with the Delta log's.

In: the metadata folder and what was exported. Out: the location of each data file with its number of dead rows.
"""

from __future__ import annotations

from txlog.iceberg.definition import define
from txlog.iceberg.manifest import DATA, read_entries
from txlog.iceberg.table_metadata import Exported
from txlog.iceberg_files.metadata_folder import MetadataFolder
from txlog.protocol.actions import Metadata

__all__ = ["live_files"]


def live_files(folder: MetadataFolder, exported: Exported, metadata: Metadata) -> dict[str, int]:
    """Data files by their absolute location, with how many rows of each are deleted.

    Args:
        folder: The metadata folder.
        exported: Its newest metadata.
        metadata: The table's metadata at the exported version.

    Raises:
        IcebergExportError: A manifest cannot be read.
        StorageError: The store does not answer.
    """
    definition = define(metadata, exported.format_version, exported.document)
    dead: dict[str, int] = {}
    data = set()
    for manifest in exported.manifests:
        if not manifest.live_files:
            continue
        body = folder.read_content(manifest.path)
        for entry in read_entries(body, definition.partition, exported.format_version, manifest.path):
            if manifest.content == DATA:
                data.add(entry.path)
            else:
                dead[entry.path] = dead.get(entry.path, 0) + entry.rows
    return {path: dead.get(path, 0) for path in data | dead.keys()}
