"""Which data files Spark's own Parquet reader may read, and in which groups: pure decisions.

In: the tasks of a scan. Out: `FileGroup`s for Spark's reader, and the tasks that txlog's reader must take. Spark
splits, expands, decodes or skips some paths, so rows would be missing or repeated; it only receives paths of plain
characters. The end of a file's path, which is the same in every spelling, identifies a row's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from txlog.core.format.column_mapping import physical_name
from txlog.core.format.schema import VOID, Array, DataType, Map, Struct, fold_name
from txlog.core.format.type_widening import was_integer
from txlog.core.reading import ScanTask, Selection

BRANCHES_MAX = 64
"""The maximum number of partition value combinations with separate Spark reads. Separate reads let Spark skip
partitions later, but if there are more, planning takes longer than skipping saves."""

FEW_FILES = 16
"""Up to this many files, files with and without deletion vectors are one Spark read, since Spark copies the rows of a
union. With more files, it is not worth reading row positions of all files for the few that have vectors."""

_PLAIN_ROOT = re.compile(r"(?:(?:s3a?|abfss?|gs)://[A-Za-z0-9._@-]+)?(?:/[A-Za-z0-9=_+.-]+)*/?")
_PLAIN_PATH = re.compile(r"(?:[A-Za-z0-9=+-][A-Za-z0-9=_+.-]*/)*[A-Za-z0-9+-][A-Za-z0-9=_+.-]*")
_METADATA = "_metadata"
_SKIPPED_BY_SPARK = "._COPYING_"


class FileGroup(msgspec.Struct):
    """The files of one Spark read, all at the same depth below the root. If they are more than a few, all or none have
    deletion vectors.

    ``partition_values`` are the values of all files, or None if the files differ.
    """

    depth: int
    partition_values: tuple[tuple[str, str | None], ...] | None
    tasks: list[ScanTask] = msgspec.field(default_factory=list)

    @property
    def has_vectors(self) -> bool:
        """Whether some of the files have deletion vectors."""
        return any(task.deletion_vector is not None for task in self.tasks)


def hadoop_root(uri: str) -> str | None:
    """A table's location as Hadoop names it, without a trailing slash; None if Spark would misread it.

    Args:
        uri: The table's URI, as a store shows it: a local path, or one with a scheme.
    """
    if not uri or not _PLAIN_ROOT.fullmatch(uri):
        return None
    if uri.startswith("s3://"):
        uri = "s3a://" + uri.removeprefix("s3://")
    return uri.rstrip("/") if "://" in uri else "file://" + uri.rstrip("/")


def is_plain_path(path: str) -> bool:
    """Whether Spark reads a file at this path, relative to the root, exactly once.

    Commas separate paths, ``%`` and spaces are decoded or encoded, brackets and stars are patterns, and files whose
    names begin with ``_`` or ``.`` are left out.
    """
    return _PLAIN_PATH.fullmatch(path) is not None and not path.endswith(_SKIPPED_BY_SPARK)


def reads_natively(selection: Selection) -> bool:
    """Whether Spark's reader finds the needed columns and can read their types.

    Spark's reader finds columns by id only if a session setting is on, and otherwise returns nulls without an error. It
    does not support void inside another type, cannot read integers as decimals, and uses the name ``_metadata`` itself.
    """
    if selection.column_mapping_mode == "id" or was_integer(Struct(tuple(selection.needed()))):
        return False
    return not any(
        _has_inner_void(each.type) or fold_name(physical_name(each)) == _METADATA for each in selection.needed()
    )


def groups_of(tasks: Iterable[ScanTask], branches_max: int = BRANCHES_MAX) -> tuple[list[FileGroup], list[ScanTask]]:
    """Group the files for Spark's reader.

    Args:
        tasks: The tasks of a scan.
        branches_max: With more combinations of partition values than this, a group holds files with different values.

    Returns:
        The groups, and the tasks with paths that Spark would misread.
    """
    plain: list[ScanTask] = []
    others: list[ScanTask] = []
    for task in tasks:
        (plain if is_plain_path(task.path) else others).append(task)
    values = [tuple(sorted(task.partition_values.items())) for task in plain]
    is_split = len(set(values)) <= branches_max
    groups: dict[tuple[object, ...], FileGroup] = {}
    for task, own in zip(plain, values, strict=True):
        depth, shared = task.path.count("/") + 1, own if is_split else None
        groups.setdefault((depth, shared), FileGroup(depth, shared)).tasks.append(task)
    return [part for group in groups.values() for part in _parts_of(group)], others


def _parts_of(group: FileGroup) -> list[FileGroup]:
    """The group, or its files with and without deletion vectors if they are more than a few."""
    if len(group.tasks) <= FEW_FILES:
        return [group]
    without = [task for task in group.tasks if task.deletion_vector is None]
    having = [task for task in group.tasks if task.deletion_vector is not None]
    return [FileGroup(group.depth, group.partition_values, tasks) for tasks in (without, having) if tasks]


def _has_inner_void(data_type: DataType) -> bool:
    inner: Sequence[DataType] = ()
    match data_type:
        case Struct(fields):
            inner = [member.type for member in fields]
        case Array(element):
            inner = [element]
        case Map(key, value):
            inner = [key, value]
    return any(each == VOID or _has_inner_void(each) for each in inner)
