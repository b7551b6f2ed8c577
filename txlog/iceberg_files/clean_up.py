"""Deletes files of the metadata folder that no reader needs: of expired snapshots, of exports that never finished.

In: the metadata folder and its newest metadata. Out: which files were deleted. A file stays if a retained snapshot
needs it, if it is young, so that whoever read an older metadata file can go on, or if it may belong to an export that
is under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from txlog.errors import IcebergExportError, NotFoundError
from txlog.iceberg.manifest import DELETES, file_paths
from txlog.iceberg.manifest_list import ManifestFile, read_manifest_list
from txlog.iceberg.names import content_version, metadata_name, metadata_number
from txlog.iceberg.table_metadata import Exported, current_snapshot, parsed
from txlog.iceberg_files.metadata_folder import MetadataFolder
from txlog.store.base import ObjectMeta
from txlog.util.parallel import parallel_map

__all__ = ["clean_up_metadata"]

GRACE_MS = 3_600_000
"""How long every file stays: a scan that began on an older metadata file is planned by then."""

_METADATA_FILES = 20  # the newest ones are kept, whatever their age
_AT_ONCE = 8
_MOST = 2_000  # in one go: an ending process waits for it


def clean_up_metadata(folder: MetadataFolder, exported: Exported) -> list[str]:
    """Delete what is not needed any more. Returns the names deleted.

    Args:
        folder: The metadata folder.
        exported: Its newest metadata, which must have been published.

    Raises:
        IcebergExportError: A manifest list or a manifest cannot be read; nothing is deleted then.
        StorageError: The store does not answer.
    """
    listed = folder.store.list_from("")
    now_ms = next((meta.modified_ms for meta in listed if meta.name == metadata_name(exported.number)), None)
    if now_ms is None:
        return []  # the listing is older than the newest metadata
    candidates = [meta for meta in listed if now_ms - meta.modified_ms >= GRACE_MS and _may_go(meta, exported)]
    if not candidates:
        return []
    needed = {*_needed(folder, exported), *_needed_by_readers(folder, exported, listed, now_ms)}
    names = [meta.name for meta in candidates if meta.name not in needed][:_MOST]
    for _ in parallel_map(folder.store.delete, names, threads=_AT_ONCE):
        pass
    return names


def _may_go(meta: ObjectMeta, exported: Exported) -> bool:
    """Content of newer versions belongs to an export that is under way; one of older versions loses its race."""
    number = metadata_number(meta.name)
    if number is not None:
        return number <= exported.number - _METADATA_FILES
    version = content_version(meta.name)
    return version is not None and version < exported.version


def _needed(folder: MetadataFolder, exported: Exported) -> Iterator[str]:
    """The names of all lists, manifests and delete files of retained snapshots."""
    manifests: dict[str, ManifestFile] = {}
    lists = [snapshot["manifest-list"] for snapshot in exported.document["snapshots"]]
    for path, body in zip(lists, parallel_map(folder.read_content, lists, threads=_AT_ONCE), strict=True):
        yield _name(path)
        manifests.update((each.path, each) for each in read_manifest_list(body, exported.format_version, path))
    yield from map(_name, manifests)
    deletes = [path for path, manifest in manifests.items() if manifest.content == DELETES and manifest.live_files]
    for path, body in zip(deletes, parallel_map(folder.read_content, deletes, threads=_AT_ONCE), strict=True):
        yield from map(_name, file_paths(body, path))


def _needed_by_readers(
    folder: MetadataFolder, exported: Exported, listed: Sequence[ObjectMeta], now_ms: int
) -> Iterator[str]:
    """The names that whoever opened the newest metadata file an hour ago may still open: a rebuild drops its snapshot.

    Files that only a later one names are younger. Another library's metadata, or one with a gap, keeps nothing.
    """
    old = (meta for meta in listed if now_ms - meta.modified_ms >= GRACE_MS)
    number = max((metadata_number(meta.name) or 0 for meta in old), default=0)
    if not 0 < number < exported.number:
        return
    name = metadata_name(number)
    try:
        document = parsed(folder.store.read(name), name)
        snapshot = current_snapshot(document)
        if snapshot is None or any(
            each["snapshot-id"] == snapshot["snapshot-id"] for each in exported.document["snapshots"]
        ):
            return
        alone = {**document, "snapshots": [snapshot]}
        yield from list(_needed(folder, Exported(number, alone, ())))
    except (IcebergExportError, NotFoundError):
        return


def _name(path: str) -> str:
    return path.rpartition("/")[2]
