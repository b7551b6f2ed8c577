"""The source of a row change in Spark: it is materialized once, and its keys are checked.

In: a DataFrame and how it joins the table. Out: a DataFrame, and its `SourceSummary`. From then on Spark's storage
holds the rows, so they are not recomputed. If an executor with some of them is lost, the job fails; `lost_rows` knows
the error, and the caller prepares the source again. Every row has a fixed number. The driver receives counts, one
repeated key, and the least and greatest keys, and the rows themselves only if the source is small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.changes.plan import SourceSummary
from txlog.core.changes.tasks import PartSource, SourceShape, SourceSpec, TaskTable, UpsertSpec
from txlog.core.format.schema import (
    BINARY,
    LONG,
    Field,
    Struct,
    backquoted,
    fold_name,
    has_package_type,
    to_arrow,
    type_to_arrow,
)
from txlog.core.row_rules import compared_as
from txlog.core.wording import argument, setting
from txlog.core.writing import completed, completer_for, refuse_unavailable, require_utf8
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import counted
from txlog.spark.errors import crossing, typed_errors
from txlog.spark.options import table_path
from txlog.spark.python_frames import name_in_plans, without_scheme
from txlog.spark.schema import frame_schema, spark_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

SMALL_BYTES = 4 << 20
"""A source of at most this size is sent to every task and to the driver as a whole; a larger one is joined in Spark."""

NUMBER, SIZE, KEYS, DATA = "number", "size", "keys", "data"
"""The columns of a materialized source: a row's number, its size in bytes, its key (null if a part of it is null), and
the row as a struct."""

_SAIL_FOLDER = "execution.checkpoint.path"
_LOST = re.compile(r"Checkpoint block rdd_\d+_\d+ not found")


def reads_table(frame: DataFrame, uri: str) -> bool:
    """Whether this DataFrame reads the table: by txlog, or by Spark's own readers as Delta or Parquet.

    Spark Connect shows no plan, so of what reads the table there in Python workers, nothing is recognized.
    """
    folder = f"{without_scheme(uri)}/"
    if any(without_scheme(file).startswith(folder) for file in frame.inputFiles()):
        return True
    of_jvm = getattr(frame, "_jdf", None)
    if of_jvm is None:
        return False
    plan = of_jvm.queryExecution().analyzed()
    names = (f"{without_scheme(path)}/" for path in _paths_in(plan))
    return name_in_plans(uri) in plan.toString() or folder in names


def _paths_in(plan: Any) -> Iterator[str]:
    """The paths of the data sources that a plan reads, those in its subqueries included."""
    whole = [plan, *_each(plan.subqueriesAll())]
    for leaf in (leaf for part in whole for leaf in _each(part.collectLeaves())):
        if leaf.getClass().getSimpleName() == "DataSourceV2Relation":
            path = leaf.options().get("path")
            if path is not None:
                yield table_path(path)


def _each(sequence: Any) -> Iterator[Any]:
    """The members of a sequence of Scala's."""
    return (sequence.apply(at) for at in range(sequence.size()))


def lost_rows(error: Exception) -> bool:
    """Whether Spark raised this because rows of a materialized source were on an executor that is gone."""
    return _LOST.search(str(error)) is not None


def prepare_source(
    frame: DataFrame, spec: SourceSpec, target: TaskTable, table: str, *, copies: int = 1
) -> tuple[DataFrame, SourceSummary]:
    """Materialize the rows of ``frame`` once.

    Args:
        frame: The user's DataFrame.
        spec: The change.
        target: The table's definition.
        table: The table's URI, for errors.
        copies: On how many executors the rows are kept, 1 to 3.

    Returns:
        A DataFrame with the columns `NUMBER`, `SIZE`, `KEYS` and `DATA`, and what the driver knows about it.

    Raises:
        InvalidInputError: A key is null or repeated, or ``sequence_by`` is not a source column.
        SchemaMismatchError: The columns do not fit the table.
        UnsupportedFeatureError: txlog cannot write a column's type.
    """
    with TxlogError.located(table, target.version):
        found = frame_schema(frame.schema)
        shape = spec.shape(target, found, table)
        sequence = _sequence(spec)
        beside = sequence if sequence is not None and shape.schema.find(sequence) is None else None
        left_out = {fold_name(name) for name in (*shape.left_out, *([] if beside is None else [beside]))}
        kept = Struct(tuple(field for field in found.fields if fold_name(field.name) not in left_out))
        completer_for(shape.schema, to_arrow(kept), shape.computed, table)
        if beside is not None and found.find(beside) is None:
            raise InvalidInputError(
                f"{argument('sequence_by')} names {beside!r}, which the source lacks; it has {', '.join(found.names)}"
            )
    with typed_errors():
        # The numbers of the rows are in the order of a sequence that the table does not store.
        ordered = frame if beside is None else frame.orderBy(backquoted(beside))
        keying = _keying(frame.columns, shape, table, beside, is_upsert=isinstance(spec, UpsertSpec))
        keyed = _kept(_numbered(ordered).mapInArrow(keying, _spark_type_of(shape)), copies)
        facts, ends = _facts(keyed, shape, spec)
        num_given = num_rows = facts["rows"]
        if spec.needs_distinct_keys:
            _refuse_bad_keys(facts, shape, spec, table)
            num_rows = facts["keys"]
            if num_rows < num_given:
                keyed = _kept(_last_of_each_key(keyed, spec, shape), copies)
        few = None
        # PySpark's toArrow takes no column of a package's type with a null; tasks get the rows as they are.
        if facts["bytes"] <= SMALL_BYTES and not has_package_type(shape.schema):
            few = part_source(keyed.select(NUMBER, DATA).toArrow())
    return keyed, SourceSummary(spec, shape, num_rows, num_given, tuple(ends), few)


def _numbered(frame: DataFrame) -> DataFrame:
    """The rows with a number each, as the last column. The columns are named by their places, as `_keying` expects:
    Spark does not hand over columns whose names have dots or backticks."""
    from pyspark.sql import functions as F

    placed = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
    return placed.select("*", F.monotonically_increasing_id().alias(NUMBER))


def _kept(frame: DataFrame, copies: int) -> DataFrame:
    """The rows, computed now and only once, and kept by the engine, on as many executors as there are ``copies``.

    Raises ``InvalidInputError`` if this is a Sail server that was not told where to keep them.
    """
    from pyspark import StorageLevel

    try:
        if copies == 1:
            return frame.localCheckpoint()
        return frame.localCheckpoint(storageLevel=StorageLevel(True, False, False, False, copies))
    except Exception as error:
        if _SAIL_FOLDER not in str(error):
            raise
        raise InvalidInputError(
            f"Sail keeps the rows of the source in the folder {_SAIL_FOLDER}, which is not set: set the environment"
            " variable SAIL_EXECUTION__CHECKPOINT__PATH to a folder (which all its workers reach) before its server"
            " starts"
        ) from error


def part_source(rows: pa.Table) -> PartSource:
    """Unpack rows of a materialized source: the columns `NUMBER` and `DATA`."""
    schema = pa.schema([*rows.schema.field(DATA).type])
    batches = [pa.RecordBatch.from_arrays(chunk.flatten(), schema=schema) for chunk in rows.column(DATA).chunks]
    return PartSource(pa.Table.from_batches(batches, schema), rows.column(NUMBER).to_numpy())


# --- in tasks -------------------------------------------------------------------------------------------------------


def _spark_type_of(shape: SourceShape) -> Any:
    keys = Struct(tuple(Field(f"k{at}", key.type) for at, key in enumerate(shape.source_keys)) or (Field("k0", LONG),))
    columns = (Field(NUMBER, LONG), Field(SIZE, LONG), Field(KEYS, keys), Field(DATA, shape.schema))
    return spark_type(Struct(columns))


def _keying(
    names: list[str], shape: SourceShape, table: str, beside: str | None, *, is_upsert: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` on `_numbered` rows, whose columns have these names; ``beside`` is a sequence that
    is not stored."""

    def keyed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = 0
        for batch in batches:
            with crossing():
                if is_upsert:
                    refuse_unavailable(batch.rename_columns([*names, NUMBER]), number)
                yield _keyed(batch, names, shape, table, number, beside)
            number += batch.num_rows

    return keyed


def _keyed(
    batch: pa.RecordBatch, names: list[str], shape: SourceShape, table: str, row: int, beside: str | None
) -> pa.RecordBatch:
    """Convert numbered source rows to the types in use, and add each row's average size in bytes, and key."""
    left_out = {fold_name(name) for name in (*shape.left_out, *([] if beside is None else [beside]))}
    if beside is not None:
        at = [fold_name(name) for name in names].index(fold_name(beside))
        _refuse_unordered(batch.column(at).null_count, beside, table)
    *columns, numbers = batch.columns
    kept = [at for at, name in enumerate(names) if fold_name(name) not in left_out]
    batch = pa.RecordBatch.from_arrays(columns, names=names).select(kept)
    require_utf8(batch, row)
    fitted = completed(shape.schema, batch, shape.computed, table, row)
    fitted = pa.RecordBatch.from_arrays(fitted.columns, schema=to_arrow(shape.schema))
    keys = [compared_as(key.of(fitted), type_to_arrow(key.type)) for key in shape.source_keys]
    keys = keys or [pa.repeat(pa.scalar(0, pa.int64()), fitted.num_rows)]  # a struct of Spark has a member
    is_null = np.zeros(fitted.num_rows, dtype=bool)
    for column in keys:
        is_null |= column.is_null().to_numpy(zero_copy_only=False)
    size = 1 + fitted.nbytes // max(1, fitted.num_rows)
    return pa.RecordBatch.from_arrays(
        [
            numbers,
            pa.repeat(pa.scalar(size, pa.int64()), fitted.num_rows),
            pa.StructArray.from_arrays(keys, names=[f"k{at}" for at in range(len(keys))], mask=pa.array(is_null)),
            pa.StructArray.from_arrays(fitted.columns, names=fitted.schema.names),
        ],
        names=[NUMBER, SIZE, KEYS, DATA],
    )


# --- facts for the driver -------------------------------------------------------------------------------------------


def _facts(keyed: DataFrame, shape: SourceShape, spec: SourceSpec) -> tuple[dict[str, Any], list[pa.Array]]:
    """Counts with an example of a repeated key as text, and the least and the greatest value of each key column.

    One Spark job computes them. Python's own types do not hold every value, such as a date after the year 9999.
    """
    import pyspark.sql.functions as F

    key, rows = F.col(KEYS), F.col("rows")
    sequence = _sequence_column(spec, shape)
    unordered = F.lit(0) if sequence is None else F.sum(sequence.isNull().cast("long"))
    each = keyed.groupBy(KEYS).agg(
        F.count(F.lit(1)).alias("rows"), F.sum(SIZE).alias("bytes"), unordered.alias("unordered")
    )
    bounds = [
        how(f"{KEYS}.k{at}").alias(f"{name}{at}")
        for at in range(len(shape.table_keys))
        for name, how in (("min", F.min), ("max", F.max))
    ]
    found = each.agg(
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        F.coalesce(F.sum("unordered"), F.lit(0)).alias("unordered"),
        F.coalesce(F.sum(F.when(key.isNull(), rows)), F.lit(0)).alias("null"),
        F.count(key).alias("keys"),
        F.count(F.when(key.isNotNull() & (rows > 1), 1)).alias("repeated"),
        F.max_by(_as_texts(shape), F.when(key.isNotNull(), rows)).alias("example"),
        *bounds,
    ).toArrow()
    counts = found.select(range(found.num_columns - len(bounds)))
    ends = [
        pa.chunked_array([*found[f"min{at}"].chunks, *found[f"max{at}"].chunks]).drop_null().combine_chunks()
        for at in range(len(shape.table_keys))
    ]
    types = [type_to_arrow(key.type) for key in shape.table_keys]
    return dict(counts.to_pylist()[0]), [end.cast(kind) for end, kind in zip(ends, types, strict=True)]


def _as_texts(shape: SourceShape) -> Column:
    """A key as texts for people."""
    from pyspark.sql import functions as F

    types = [key.type for key in shape.source_keys] or [LONG]
    parts = [(F.hex if kind == BINARY else F.col)(f"{KEYS}.k{at}") for at, kind in enumerate(types)]
    return F.array(*(part.cast("string") for part in parts))


def _sequence(spec: SourceSpec) -> str | None:
    return spec.upsert.sequence_by if isinstance(spec, UpsertSpec) else None


def _sequence_column(spec: SourceSpec, shape: SourceShape) -> Column | None:
    """The sequence, if it is among the data; otherwise the numbers of the rows have its order."""
    from pyspark.sql import functions as F

    name = _sequence(spec)
    return None if name is None or shape.schema.find(name) is None else F.col(f"{DATA}.{backquoted(name)}")


def _refuse_unordered(count: int, name: str | None, table: str) -> None:
    if count:
        raise InvalidInputError(
            f"{argument('sequence_by')} column {name} has {count} nulls, which have no order: fill or drop those rows",
            table=table,
        )


def _refuse_bad_keys(facts: dict[str, Any], shape: SourceShape, spec: SourceSpec, table: str) -> None:
    names = [key.name for key in shape.table_keys]
    if facts["null"]:
        raise InvalidInputError(
            f"the key ({', '.join(names)}) of {facts['null']} rows of the source is null or contains a null, which"
            " equals nothing, so it cannot identify a row. Fill or drop those rows",
            table=table,
        )
    _refuse_unordered(facts["unordered"], _sequence(spec), table)
    if facts["repeated"] and _sequence(spec) is None:
        key = ", ".join(f"{name}={facts['example'][at][:60]}" for at, name in enumerate(names))
        raise InvalidInputError(
            f"several rows of the source have the same key ({counted(facts['repeated'], 'such key')}), for example"
            f" {key}. To use the row with the greatest value of a column, set {setting('on_duplicate', 'last')} and"
            f" {setting('sequence_by', '<column>')}",
            table=table,
        )


def _last_of_each_key(keyed: DataFrame, spec: SourceSpec, shape: SourceShape) -> DataFrame:
    import pyspark.sql.functions as F
    from pyspark.sql import Window

    sequence = _sequence_column(
        spec, shape
    )  # without one, `_refuse_bad_keys` has raised, or the numbers have its order
    by = [F.col(NUMBER).desc()] if sequence is None else [sequence.desc(), F.col(NUMBER).desc()]
    ranked = keyed.withColumn("rank", F.row_number().over(Window.partitionBy(KEYS).orderBy(*by)))
    return ranked.where("rank = 1").drop("rank")
