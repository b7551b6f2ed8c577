"""DataFrames of data files that Spark's own Parquet reader reads.

In: a session, groups of files of one table version, and the deleted rows of these files. Out: DataFrames of the
selected columns and rows. The dead rows of a few files are one subquery, in which a file is found by its name. For more
files, the dead rows and partition values of each file are joined by the file's name, or by the end of its path if two
files have the same name. If a file is not found, the query fails, because it would return deleted rows or lose rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.format.column_mapping import physical_name
from txlog.core.format.partition_values import decode
from txlog.core.format.schema import VOID, Field, backquoted, fold_name
from txlog.core.parallel import parallel_map
from txlog.core.predicates.terms.values import ordered
from txlog.core.reading import DeletionVectorReader, ScanTask, Selection
from txlog.spark.columns import carrier_type, condition_column, typed_column, value_column
from txlog.spark.native_files import FEW_FILES, FileGroup
from txlog.spark.table_version import TableVersion, nullable_type

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_VECTORS_AT_ONCE = 8
WORDS_BYTES_MAX = 64 << 20
"""The maximum bytes of deletion vectors that Spark broadcasts to each executor; files with more are left out."""
_FEW_FILES_BYTES_MAX = 8 << 20
"""The maximum bytes of deletion vectors in a subquery, whose result is part of each task."""
_ANY_ROWS = 1 << 62
_READ_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""These override the session's settings: a skipped file would mean missing rows, and a file has dates and times of the
old calendar only if Spark wrote it and says so in the file."""


class NativeFrames:
    """Makes the DataFrames of one selection.

    Args:
        spark: The session.
        table: The table version.
        selection: The columns and rows to read.
        root: The table's location as Hadoop names it.

    Attributes:
        left_out: The tasks whose deletion vectors are too large to send.
    """

    def __init__(self, spark: SparkSession, table: TableVersion, selection: Selection, root: str) -> None:
        import json

        from pyspark.sql.types import StructType

        self._spark = spark
        self._log = table.log
        self._selection = selection
        self._root = root
        self._types = table.spark_schema()
        self._stored_types = StructType.fromJson(json.loads(table.state.metadata.schema_string))
        constant = {fold_name(name) for name in selection.partition_columns}
        self._constants = [each for each in selection.needed() if fold_name(each.name) in constant]
        self._stored = [each for each in selection.needed() if each not in self._constants and each.type != VOID]
        self._words: dict[str, NDArray[np.int64]] = {}
        self.left_out: list[ScanTask] = []

    def with_vectors_loaded(self, tasks: Sequence[ScanTask]) -> list[ScanTask]:
        """Load the deletion vectors of the tasks.

        Returns:
            The tasks that are not in ``left_out``.

        Raises:
            CorruptLogError: A deletion vector is damaged.
            StorageError: The store failed.
        """
        reader = DeletionVectorReader(self._log.store, self._selection.version)
        kept = [task for task in tasks if task.deletion_vector is None]
        size_bytes = 0

        def load(task: ScanTask) -> tuple[ScanTask, NDArray[np.int64]]:
            assert task.deletion_vector is not None
            return task, words_of(reader.dead_rows(task.deletion_vector, _ANY_ROWS))

        with_vector = (task for task in tasks if task.deletion_vector is not None)
        for task, words in parallel_map(load, with_vector, threads=_VECTORS_AT_ONCE):
            size_bytes += words.nbytes
            if size_bytes > WORDS_BYTES_MAX:
                self.left_out.append(task)
                continue
            self._words[task.path] = words
            kept.append(task)
        return kept

    def of(self, group: FileGroup) -> DataFrame:
        """The selected columns and rows of a group's files."""
        frame = self._stored_rows(group.tasks)
        values: dict[str, Column] = {}
        if group.has_vectors and group.partition_values is not None and self._are_few(group.tasks):
            frame = self._live_rows_of_few(frame, group.tasks)
        elif group.has_vectors or group.partition_values is None:
            frame, values = self._joined(frame, group)
        if group.partition_values is not None:
            values = self._literals(dict(group.partition_values))
        return self._selected(frame, values)

    def _are_few(self, tasks: Sequence[ScanTask]) -> bool:
        """Whether the dead rows of these files fit in a subquery, and their names identify them."""
        size_bytes = sum(self._words_of_file(task).nbytes for task in tasks)
        names = {_name_of(task) for task in tasks}
        return len(names) == len(tasks) <= FEW_FILES and size_bytes <= _FEW_FILES_BYTES_MAX

    def _live_rows_of_few(self, frame: DataFrame, tasks: Sequence[ScanTask]) -> DataFrame:
        """The live rows of a few files.

        All files are one read. With a union of one read per file, Spark would copy every row, since it compiles a read
        together with what follows, but not through a union. A comparison with each name takes less time than a join by
        name, because the result is the same for all rows of a file.
        """
        from pyspark.sql import functions as F

        # A literal would be part of every text that Spark makes of the plan, which takes longer than reading a small
        # file. A subquery's result is not part of the plan, and this one runs no job.
        words = pa.array([[self._words_of_file(task) for task in tasks]], pa.list_(pa.list_(pa.int64())))
        side = self._spark.createDataFrame(pa.table({"words": words}))
        name = F.col("_metadata.file_name")
        first, *others = ((name == F.lit(_name_of(task)), F.lit(at)) for at, task in enumerate(tasks))
        number = F.when(*first)
        for each in others:
            number = number.when(*each)
        number = number.otherwise(self._lost(name).cast("int"))
        return frame.where(_is_live(F.get(side.scalar(), number), F.col("_metadata.row_index")))

    def _words_of_file(self, task: ScanTask) -> NDArray[np.int64]:
        """The dead rows of a file as a bitmap, without words if it has no deletion vector."""
        return np.zeros(0, dtype=np.int64) if task.deletion_vector is None else self._words[task.path]

    def _lost(self, key: Column) -> Column:
        """An error that stops the query: no file of the log has this key.

        The key must be a column of the files, or Spark would raise the error during planning.
        """
        from pyspark.sql import functions as F

        return F.raise_error(F.concat(F.lit(f"txlog does not know the file of these rows: {self._root} "), key))

    def _stored_rows(self, tasks: Sequence[ScanTask]) -> DataFrame:
        """The stored columns of these files, with all rows, including dead ones."""
        reader = self._spark.read.schema(self._physical_schema()).options(**_READ_OPTIONS)
        return reader.parquet(*(f"{self._root}/{task.path}" for task in tasks))

    def _literals(self, partition_values: Mapping[str, str | None]) -> dict[str, Column]:
        return {
            each.name: value_column(_ordered_value(each, partition_values), each.type, self._types[each.name].dataType)
            for each in self._constants
        }

    def _selected(self, frame: DataFrame, values: Mapping[str, Column]) -> DataFrame:
        """The requested columns of the rows that match; ``values`` are the columns that files do not have."""
        from pyspark.sql import functions as F

        columns = [self._column(each, values).alias(each.name) for each in self._selection.needed()]
        frame = frame.select(*columns)
        if self._selection.predicate is not None:
            frame = frame.where(condition_column(self._selection.predicate, self._types))
            frame = frame.select(*[F.col(backquoted(each.name)) for each in self._selection.fields])
        return frame

    # --- columns ----------------------------------------------------------------------------------------------------

    def _physical_schema(self) -> StructType:
        from pyspark.sql.types import StructType

        fields = {field.name: field for field in self._stored_types}
        physical = nullable_type(StructType([fields[each.name] for each in self._stored]), _PHYSICAL_NAME)
        assert isinstance(physical, StructType)
        return physical

    def _column(self, column: Field, values: Mapping[str, Column]) -> Column:
        from pyspark.sql import functions as F

        if column.name in values:
            return values[column.name]
        kind = self._types[column.name].dataType
        if column.type == VOID:
            return F.lit(None).cast(kind)
        # This cast only renames struct fields, by position.
        return _not_pushed_down(F.col(backquoted(physical_name(column))).cast(kind), kind)

    # --- what differs by file ---------------------------------------------------------------------------------------

    def _joined(self, frame: DataFrame, group: FileGroup) -> tuple[DataFrame, dict[str, Column]]:
        """The live rows of a group's files with the partition values of their files."""
        from pyspark.sql import functions as F

        prefix = self._free_prefix()
        key, row, side_key, words = (prefix + name for name in ("key", "row", "file", "words"))
        found_by, ends = _key_of_file(group)
        with_key = frame.withColumns({key: found_by, row: F.col("_metadata.row_index")})
        columns: dict[str, pa.Array] = {side_key: pa.array(ends, pa.string())}
        if group.has_vectors:
            columns[words] = pa.array([self._words_of_file(task) for task in group.tasks], pa.list_(pa.int64()))
        names = {} if group.partition_values is not None else {
            each.name: f"{prefix}{at}" for at, each in enumerate(self._constants)
        }  # fmt: skip
        for each in self._constants if names else ():
            found = [_ordered_value(each, task.partition_values) for task in group.tasks]
            columns[names[each.name]] = pa.array(found, carrier_type(each.type))
        side = self._spark.createDataFrame(pa.table(columns))
        joined = with_key.join(F.broadcast(side), F.col(key) == F.col(side_key), "left")
        live = _is_live(F.col(words), F.col(row)) if group.has_vectors else F.lit(True)
        rows = joined.where(F.when(F.col(side_key).isNull(), self._lost(F.col(key)).cast("boolean")).otherwise(live))
        values = {
            each.name: typed_column(F.col(names[each.name]), each.type, self._types[each.name].dataType)
            for each in (self._constants if names else ())
        }
        return rows, values

    def _free_prefix(self) -> str:
        """A prefix that no column of the files has."""
        taken = [fold_name(physical_name(each)) for each in self._stored]
        prefix = "txlog_"
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        return prefix


def _key_of_file(group: FileGroup) -> tuple[Column, list[str]]:
    """A key that identifies the files of a group: as a Spark column, and its value for each file.

    Spark computes the end of a path for each row, so the file's name is used if no two files have the same one.
    """
    from pyspark.sql import functions as F

    names = [_name_of(task) for task in group.tasks]
    if len(set(names)) == len(names):
        return F.col("_metadata.file_name"), names
    return F.substring_index(F.col("_metadata.file_path"), "/", -group.depth), [task.path for task in group.tasks]


def _name_of(task: ScanTask) -> str:
    return task.path.rpartition("/")[2]


def words_of(dead: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Pack ascending positions into a bitmap: bit ``position % 64`` of word ``position // 64``."""
    if not len(dead):
        return np.zeros(0, dtype=np.int64)
    words = np.zeros(int(dead[-1] >> np.uint64(6)) + 1, dtype=np.uint64)
    np.bitwise_or.at(words, dead >> np.uint64(6), np.left_shift(np.uint64(1), dead & np.uint64(63)))
    return words.view(np.int64)


def _is_live(words: Column, row: Column) -> Column:
    from pyspark.sql import functions as F

    word = F.coalesce(F.get(words, F.shiftright(row, 6).cast("int")), F.lit(0).cast("bigint"))
    return F.getbit(word, row.bitwiseAND(F.lit(63)).cast("int")) == F.lit(0)


def _ordered_value(column: Field, partition_values: Mapping[str, str | None]) -> Any:
    name = physical_name(column)
    key = next((key for key in partition_values if fold_name(key) == fold_name(name)), name)
    value = decode(partition_values.get(key), column.type)
    return None if value is None else ordered(value, column.type)


def _not_pushed_down(column: Column, kind: Any) -> Column:
    """The same column, in a form whose floats Spark does not compare with row group statistics.

    These statistics ignore NaN, but Spark's filters treat NaN as the greatest number, so Spark would lose rows.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import DoubleType, FloatType, StructType

    if isinstance(kind, (FloatType, DoubleType)):
        return F.nanvl(column, F.lit(float("nan")).cast(kind))
    if isinstance(kind, StructType) and _has_floats(kind):
        members = [_not_pushed_down(column.getField(each.name), each.dataType).alias(each.name) for each in kind]
        return F.when(column.isNotNull(), F.struct(*members))
    return column


def _has_floats(kind: Any) -> bool:
    """Whether a filter can apply to a float inside the type. It cannot apply to one in an array or map."""
    from pyspark.sql.types import DoubleType, FloatType, StructType

    if isinstance(kind, StructType):
        return any(_has_floats(each.dataType) for each in kind)
    return isinstance(kind, (FloatType, DoubleType))
