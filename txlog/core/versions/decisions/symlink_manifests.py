"""What the symlink manifests of a version hold, by which Presto, Athena and others read a table without Delta.

In: a version of a table and its live files. Out: for each partition the text of ``_symlink_format_manifest/<partition>/
manifest``, which lists the partition's data files, one URI a line, as Spark's Delta writes it. Pure. docs.delta.io,
"Presto, Trino, and Athena to Delta Lake integration using manifests".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from txlog.core.format.column_mapping import MODE_KEY, mapping_mode
from txlog.core.format.paths import hive_directory, location_of, resolve_data_path
from txlog.core.format.properties import SYMLINK_MANIFESTS
from txlog.core.versions.decisions.state import TableState
from txlog.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "_symlink_format_manifest"
NAME = "manifest"
NOTE = "_txlog/symlink_manifests.json"
"""The file of a table that says which version its manifests show."""

Partition = tuple[str | None, ...]


class Manifests(NamedTuple):
    """The text of each manifest, by its path below the table's root, and the paths of those that are to go."""

    texts: dict[str, str]
    gone: list[str]


def manifests_of(root: str, state: TableState, files: pa.Table, touched: set[Partition] | None = None) -> Manifests:
    """What the manifests of these live files hold, for the partitions that were ``touched``; None: for all.

    Raises ``UnsupportedFeatureError`` for a file with a deletion vector, whose deleted rows its readers would see, and
    for mapped columns, which they would look for by other names.
    """
    if mapping_mode(state.metadata.configuration) != "none":
        raise UnsupportedFeatureError(
            f"readers by manifest look for columns by name, and the files of this table have other names ({MODE_KEY})",
            features=("columnMapping",),
        )
    lines: dict[str, list[str]] = {}
    if not state.partition_columns:
        lines[_path((), state)] = []
    columns = (files[name].to_pylist() for name in ("path", "partitionValues", "deletionVector"))
    for path, values, vector in zip(*columns, strict=True):
        partition = partition_of(dict(values), state)
        if touched is not None and partition not in touched:
            continue
        if vector is not None:
            raise UnsupportedFeatureError(
                f"{path} has a deletion vector, and readers by manifest would see its deleted rows: purge() writes such"
                f" files again, or set {SYMLINK_MANIFESTS} to false",
                features=("deletionVectors",),
            )
        lines.setdefault(_path(partition, state), []).append(_uri(root, path))
    gone = [path for each in touched or () if (path := _path(each, state)) not in lines]
    return Manifests({path: "".join(f"{line}\n" for line in found) for path, found in lines.items()}, gone)


def partition_of(values: Mapping[str, Any], state: TableState) -> Partition:
    return tuple(values.get(column) or None for column in state.partition_columns)


def _path(partition: Iterable[str | None], state: TableState) -> str:
    folder = hive_directory(dict(zip(state.partition_columns, partition, strict=True)))
    return f"{FOLDER}/{folder}/{NAME}" if folder else f"{FOLDER}/{NAME}"


def _uri(root: str, path: str) -> str:
    """A data file as Hadoop prints its location: not escaped, and ``file:/...`` on a disk."""
    found = resolve_data_path(path)
    location = f"{root.rstrip('/')}/{found.path}" if found.is_relative else location_of(found)
    return location if "://" in location else f"file:{location}"
