"""`read`: a version of a table as a DataFrame whose files Spark's own Parquet reader reads.

In: a session, a location, a version or time, columns and a condition. Out: a DataFrame. The log provides the files,
their partition values and their deleted rows. txlog's reader in Spark's Python workers reads the files whose paths
Spark would misread, and every file if the condition has no exact translation to Spark.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from txlog.core.parallel import new_lock
from txlog.core.predicates import with_parameters
from txlog.core.util import explains_call
from txlog.spark.columns import is_translatable
from txlog.spark.hadoop import check_session, is_sail, of_session
from txlog.spark.native_files import FileGroup, groups_of, hadoop_root, reads_natively
from txlog.spark.native_frames import NativeFrames
from txlog.spark.python_frames import PythonFrames
from txlog.spark.settings import zone_of_session
from txlog.spark.table_version import open_version
from txlog.spark.text_settings import require_own_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from txlog.core.predicates import AnyCondition, Parameters
    from txlog.core.reading import ScanTask

_LIST_IN_DRIVER = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LIST_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_FIRST_READERS = "spark.sql.sources.useV1SourceList"
_LIST_TASKS_MAX = "64"
_settings_lock = new_lock()


@explains_call
def read(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    version: int | None = None,
    timestamp: datetime | date | str | int | None = None,
    where: AnyCondition | None = None,
    columns: Sequence[str] | None = None,
    *,
    parameters: Parameters | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A version of a table as a DataFrame, read at the speed of Spark's own Parquet reader.

    The version is fixed by this call: later actions on the DataFrame, and joins with itself, see the same rows.

    Args:
        spark: A SparkSession.
        uri: The table's location, as for ``Table.open``. Spark reads the files through Hadoop (``fs.s3a.*`` and the
            like), txlog reads the log.
        version: The number of a version; None means the newest.
        timestamp: A time, as for ``Table.snapshot``, in place of a version.
        where: A condition in SQL, as for ``Snapshot.to_arrow``: returns only matching rows, and reads only files that
            may hold some. Times without a zone are in the session's.
        columns: The columns to return, in this order; None means all.
        parameters: Values for ``:name`` in the condition, as for `Table.delete`.
        storage_options: The store's options for reading the log; by default those from the session's ``fs.s3a.*``.

    Returns:
        A DataFrame of the table's columns, all of them nullable.

    Raises:
        InvalidInputError: A column or the condition does not fit the table, or both version and timestamp are given.
        NotFoundError: The table no longer has this version, or not yet.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table needs a reader feature that this release lacks.
        CorruptLogError: The log or a deletion vector is damaged.
        StorageError: The store failed.
    """
    check_session(spark)
    (where,) = with_parameters(parameters, where)
    require_own_reading(spark, where)
    location = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    storage_options = of_session(spark, location) if storage_options is None else storage_options
    table = open_version(location, zone_of_session(spark), storage_options, version, timestamp)
    plan = table.plan(columns, where)
    tasks = list(plan.tasks())
    python = PythonFrames(spark, table, location, storage_options)
    root = hadoop_root(table.log.uri)
    predicate = plan.selection.predicate
    if root is None or not reads_natively(plan.selection) or not (predicate is None or is_translatable(predicate)):
        return python.of(tasks, plan.selection)
    native = NativeFrames(spark, table, plan.selection, root)
    knows_files = _knows_files(spark)
    groups, others = groups_of(native.with_vectors_loaded(tasks)) if knows_files else _groups_of_equal_rows(tasks)
    others += native.left_out
    with _few_listing_tasks(spark, root, len(tasks)):
        frames = [native.of(group) for group in groups]
    if others or not frames:
        frames.append(python.of(others, plan.selection))
    return functools.reduce(lambda left, right: left.union(right), frames)


def _knows_files(spark: SparkSession) -> bool:
    """Whether the session's Parquet reader says which file, and where in it, a row comes from.

    Sail's does not, nor does Spark's second reader, which a setting chooses.
    """
    if is_sail(spark):
        return False
    return "parquet" in [each.strip() for each in spark.conf.get(_FIRST_READERS, "parquet").lower().split(",")]


def _groups_of_equal_rows(tasks: Sequence[ScanTask]) -> tuple[list[FileGroup], list[ScanTask]]:
    """For a reader that knows no files: files whose rows all live, and which have equal partition values."""
    plain = [task for task in tasks if task.deletion_vector is None]
    groups, others = groups_of(plain, branches_max=len(plain))
    return groups, [*others, *(task for task in tasks if task.deletion_vector is not None)]


@contextlib.contextmanager
def _few_listing_tasks(spark: SparkSession, root: str, files: int) -> Iterator[None]:
    """Let Spark check many paths without a task for each: in the driver for local paths, otherwise in a few tasks.

    The settings apply to the whole session, so they are restored immediately.
    """
    name, value = (_LIST_IN_DRIVER, str(1 << 30)) if root.startswith("file:") else (_LIST_TASKS, _LIST_TASKS_MAX)
    with _settings_lock:
        before = spark.conf.get(_LIST_IN_DRIVER)
        if before is not None and files <= int(before):
            yield
            return
        before = spark.conf.get(name)
        spark.conf.set(name, value)
        try:
            yield
        finally:
            spark.conf.set(name, str(before))
