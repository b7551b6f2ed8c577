"""Deletes files in the metadata folder that no reader needs: from expired snapshots and unfinished exports.

In: the metadata folder and its newest metadata. Out: which files were deleted, and when to look again. A file stays if
it is young, if a retained snapshot needs it, if a reader who opened an older metadata file within the last hour may
need it, or if it may belong to an export in progress.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from txlog.core import ambient
from txlog.core.parallel import do_all, parallel_map
from txlog.core.store import ObjectMeta
from txlog.errors import IcebergExportError, NotFoundError
from txlog.iceberg.metadata.manifest import DELETES, file_paths
from txlog.iceberg.metadata.manifest_list import ManifestFile, read_manifest_list
from txlog.iceberg.metadata.names import content_version, metadata_name, metadata_number
from txlog.iceberg.metadata.table_metadata import Exported, parsed
from txlog.iceberg.metadata_folder import MetadataFolder

GRACE_MS = 3_600_000
"""How long every file stays: a scan that began on an older metadata file is planned within this time."""

_METADATA_FILES = 20  # the newest ones are kept, however old
_AT_ONCE = 8
_MOST = 2_000  # files deleted at a time: an ending process waits for it
_SHARE = 100  # wait this many times the duration of the last search before the folder is listed again


class CleanedUp(NamedTuple):
    """The deleted names, and how long the next cleanup should wait because it would find nothing or cost too much."""

    names: list[str]
    wait_s: float


def clean_up_metadata(folder: MetadataFolder, exported: Exported) -> CleanedUp:
    """Delete what is no longer needed.

    Args:
        folder: The metadata folder.
        exported: Its newest metadata, which must have been published.

    Raises:
        IcebergExportError: A manifest list or a manifest cannot be read; nothing is deleted then.
        StorageError: The store does not answer.
    """
    began_s = ambient.monotonic_s()
    listed = folder.store.list_from("")
    now_ms = next((meta.modified_ms for meta in listed if meta.name == metadata_name(exported.number)), None)
    if now_ms is None:
        return CleanedUp([], 0.0)  # the listing is older than the newest metadata
    names = _unneeded(folder, exported, [meta for meta in listed if now_ms - meta.modified_ms >= GRACE_MS])
    searched_s = ambient.monotonic_s() - began_s
    do_all(folder.store.delete, names[:_MOST], threads=_AT_ONCE)
    if len(names) > _MOST:
        return CleanedUp(names[:_MOST], 0.0)
    return CleanedUp(names, max(_SHARE * searched_s, _young_s(listed, now_ms)))


def _young_s(listed: Sequence[ObjectMeta], now_ms: int) -> float:
    """How long the oldest metadata file is still young. Until then, nothing may be deleted: readers may have opened
    any of the files."""
    times = [meta.modified_ms for meta in listed if metadata_number(meta.name) is not None]
    return (min(times) + GRACE_MS - now_ms) / 1000


def _unneeded(folder: MetadataFolder, exported: Exported, old: Sequence[ObjectMeta]) -> list[str]:
    """The names of the files to delete, all at least an hour old."""
    before = _newest_of(folder, old)
    if before is None:
        return []
    candidates = [meta.name for meta in old if _may_go(meta, exported, before)]
    if not candidates:
        return []
    needed = {*_needed(folder, exported.document["snapshots"])}
    with contextlib.suppress(IcebergExportError, NotFoundError):  # it is damaged, so no reader needs it
        needed.update(_needed(folder, _dropped_since(before, exported)))
    return [name for name in candidates if name not in needed]


def _newest_of(folder: MetadataFolder, old: Sequence[ObjectMeta]) -> Exported | None:
    """The newest of our metadata files that are at least an hour old. Readers may have opened it and may still need all
    its snapshots, although a rebuild drops all of them, and each export the oldest.
    """
    for number in sorted(filter(None, (metadata_number(meta.name) for meta in old)), reverse=True):
        name = metadata_name(number)
        try:
            return Exported(number, parsed(folder.store.read(name), name), ())
        except (IcebergExportError, NotFoundError):  # another library's, or deleted since
            continue
    return None


def _dropped_since(before: Exported, exported: Exported) -> list[Mapping[str, Any]]:
    """The snapshots that readers of ``before`` may still read."""
    lists = {snapshot["manifest-list"] for snapshot in exported.document["snapshots"]}
    return [each for each in before.document["snapshots"] if each["manifest-list"] not in lists]


def _may_go(meta: ObjectMeta, exported: Exported, before: Exported) -> bool:
    """Content of versions newer than ``before`` belongs to younger metadata, or to an export in progress: an exporter
    may be suspended for long between its puts.
    """
    number = metadata_number(meta.name)
    if number is not None:
        return number <= exported.number - _METADATA_FILES
    version = content_version(meta.name)
    return version is not None and version <= before.version


def _needed(folder: MetadataFolder, snapshots: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The names of all lists, manifests and delete files that snapshots use."""
    manifests: dict[str, ManifestFile] = {}
    lists = [snapshot["manifest-list"] for snapshot in snapshots]
    for path, body in zip(lists, parallel_map(folder.read_content, lists, threads=_AT_ONCE), strict=True):
        yield _name(path)
        manifests.update((each.path, each) for each in read_manifest_list(body, path))
    yield from map(_name, manifests)
    deletes = [path for path, manifest in manifests.items() if manifest.content == DELETES and manifest.live_files]
    for path, body in zip(deletes, parallel_map(folder.read_content, deletes, threads=_AT_ONCE), strict=True):
        yield from map(_name, file_paths(body, path))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
