"""`apply_changes`: a stream of change envelopes, such as Debezium's from Kafka, applied to a table.

In: a streaming DataFrame with the envelopes in a column ``value``, as Kafka's source gives them, or in the columns
``op``, ``before``, ``after`` and ``source``, as `from_avro` leaves them. Out: a stream writer whose micro-batches are
versions, each exactly once: the newest row of each key (SCD type 1), or all rows that each key had (SCD type 2).

The driver looks over a batch's schemas first, and gives the table new columns. Tasks then turn envelopes into rows,
with what `txlog.mirror` has for them.
"""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

import txlog
from txlog.core.format.schema import backquoted, from_arrow
from txlog.core.util import explains_call, invalid, names_in, one_of
from txlog.errors import InvalidInputError, SchemaMismatchError
from txlog.extend.envelopes import require_one_meaning
from txlog.mirror.debezium import Event, EventField, event_of, row_of
from txlog.mirror.envelope import fields_of, sent_values, united
from txlog.mirror.types import column_type_of
from txlog.spark.errors import crossing, typed_errors
from txlog.spark.hadoop import of_session
from txlog.spark.micro_batch import MicroBatch, foreach_batch
from txlog.spark.scan import read
from txlog.spark.schema import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KIND, _SEQUENCE = "__op", "__sequence"
_START, _END = "__START_AT", "__END_AT"
_NEWEST, _CLOSES = "__newest", "__closes"


@explains_call
def apply_changes(
    df: DataFrame,
    path: str | os.PathLike[str],
    keys: str | Iterable[str],
    *,
    envelope: Literal["debezium"] = "debezium",
    sequence_by: str | None = None,
    stored_as_scd_type: Literal[1, 2] = 1,
    app_id: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """A stream writer that applies change envelopes to a table, each micro-batch exactly once.

        events = spark.readStream.format("kafka").option("subscribe", "shop.public.orders")...load()
        changes = txlog.spark.apply_changes(events, "s3://bucket/orders", ["id"])
        changes.option("checkpointLocation", "/checkpoints/orders").start()

    The envelopes are JSON in the column ``value``, or the columns ``op``, ``before``, ``after`` and ``source``, as
    `from_avro` leaves them. Tombstones change nothing. The table is created with the first batch if its events have
    schemas (``schemas.enable``), and gets new columns then; without schemas it must exist.

    Args:
        df: The stream, of one table's events.
        path: The table.
        keys: The columns that identify a row.
        envelope: The form of the events.
        sequence_by: What orders the changes of a key: a column of ``df``, or a number in the event's ``source``, such
            as "source.lsn". None: the offset that Kafka's source gives, which orders the events of a partition.
        stored_as_scd_type: 1: the table has the newest row of each key. 2: it has every row that a key had, with the
            columns ``__START_AT`` and ``__END_AT``, the sequences at which it began and ended; a current row has no
            end. A change that is not newer than what the key has there is left out.
        app_id: The stream's name in the table; by default the query's id.
        options: The options of ``df.write`` for the table, such as ``storage.<key>``; with type 2 only those.

    Returns:
        A ``DataStreamWriter``: set its checkpoint folder and start it.

    Raises:
        InvalidInputError: An argument is invalid, or ``df`` is no stream or has no envelopes. The query ends with it
            for an event that cannot be applied, or that empties the table (``op = t``).
        SchemaMismatchError: The query ends with it for a change of columns that cannot be followed.
    """
    if envelope != "debezium":
        raise invalid("envelope", envelope, one_of(["debezium"]))
    if stored_as_scd_type not in (1, 2):
        raise invalid("stored_as_scd_type", stored_as_scd_type, "1 or 2")
    ordered = _order(df, sequence_by)
    kind = _History if stored_as_scd_type == 2 else _NewestRows
    apply = kind(path, names_in("keys", keys), options)
    return df.writeStream.foreachBatch(foreach_batch(_Each(apply, ordered), app_id=app_id))


def _order(df: DataFrame, sequence_by: str | None) -> str:
    """What orders the changes of a key. Raises InvalidInputError unless ``df`` is a stream of envelopes that has it."""
    if not getattr(df, "isStreaming", False):
        raise InvalidInputError("apply_changes is for a stream: spark.readStream, not spark.read")
    taken = set(df.columns)
    if "value" not in taken and not {"op", "before", "after"} <= taken:
        raise InvalidInputError(
            f"envelopes are in a column value, or in op, before, after and source; df has {', '.join(df.columns)}"
        )
    ordered = "offset" if sequence_by is None else sequence_by
    if not ordered.startswith("source.") and ordered not in taken:
        raise invalid("sequence_by", sequence_by, "a column of df, or source.NAME: df has no offset that orders it")
    return ordered


class _Each:
    """Applies one micro-batch."""

    def __init__(self, apply: _NewestRows, ordered: str) -> None:
        self._apply = apply
        self._ordered = ordered

    def __call__(self, batch: DataFrame, to: MicroBatch) -> None:
        rows = _envelopes(batch, self._ordered).persist()
        try:
            fields = self._apply.prepare(rows.mapInArrow(_Described(), "fields string").distinct())
            if fields is not None:
                made = _Made(fields, self._ordered)
                self._apply.write(to, rows.mapInArrow(made, made.spark_schema()))
        finally:
            rows.unpersist()


# --- the tables -------------------------------------------------------------------------------------------------------


class _NewestRows:
    """A table with the newest row of each key."""

    beside: tuple[str, ...] = ()
    """The columns that the table has beside those of the events."""

    def __init__(self, path: str | os.PathLike[str], keys: Sequence[str], options: Mapping[str, str] | None) -> None:
        self._path = os.fspath(path)
        self._keys = keys
        self._options = dict(options or {})

    def prepare(self, described: DataFrame) -> tuple[EventField, ...] | None:
        """Give the table the columns of a batch's events. None if the batch has none and there is no table."""
        with typed_errors():
            found = [row[0] for row in described.collect()]
        spark = described.sparkSession
        lists = [_unpacked(text) for text in sorted(found) if text]
        opened = self._opened(spark)
        if opened is None:
            if not lists:
                if found:
                    raise InvalidInputError(
                        "the events do not have their types: let the converter write schemas (schemas.enable), or"
                        " create the table",
                        table=self._path,
                    )
                return None
            columns = pa.schema([(name, field.type.arrow) for name, field in united(lists).items()])
            self._create(spark, columns)
            opened = self._opened(spark)
            assert opened is not None
        has = opened.schema
        now = united(lists)
        for name, field in now.items():
            if name in has.names and has.field(name).type != field.type.arrow:
                raise SchemaMismatchError(
                    f"the type of the column {name} changed: it is {field.type.source}, and was {has.field(name).type}",
                    table=opened.uri,
                )
        for fields in lists:
            require_one_meaning("the table", {*has.names} - {*self.beside}, [field.name for field in fields])
        more = [(name, field.type.arrow) for name, field in now.items() if name not in has.names]
        if more:
            opened.add_columns(pa.schema(more))
        columns = [(each.name, each.type) for each in (*has, *pa.schema(more)) if each.name not in self.beside]
        missing = [each for each in (*self._keys, *self.beside) if each not in has.names + [name for name, _ in more]]
        if missing:
            raise InvalidInputError(
                f"the table has no column {', '.join(missing)}: it needs those of the keys"
                + (f", and {' and '.join(self.beside)} for SCD type 2" if self.beside else ""),
                table=opened.uri,
            )
        return tuple(EventField(name, column_type_of(arrow), "") for name, arrow in columns)

    def write(self, to: MicroBatch, changes: DataFrame) -> None:
        """Apply a batch's changes."""
        given = {
            "upsertKeys": ",".join(self._keys),
            "rowKindColumn": _KIND,
            "sequenceBy": _SEQUENCE,
            **self._options,
        }
        to.write(changes.repartition(*map(_column, self._keys)), self._path, options=given)

    def _columns(self, columns: pa.Schema) -> pa.Schema:
        return columns

    def _stored(self, spark: Any) -> dict[str, str]:
        given = {key.lower(): value for key, value in self._options.items()}
        own = {key.removeprefix("storage."): value for key, value in given.items() if key.startswith("storage.")}
        return {**of_session(spark, self._path), **own}

    def _opened(self, spark: Any) -> txlog.Table | None:
        stored = self._stored(spark)
        if not txlog.Table.exists(self._path, storage_options=stored):
            return None
        return txlog.Table.open(self._path, storage_options=stored)

    def _create(self, spark: Any, columns: pa.Schema) -> None:
        txlog.Table.create(self._path, self._columns(columns), exist_ok=True, storage_options=self._stored(spark))


class _History(_NewestRows):
    """A table with every row that a key had, and the sequences between which it had it."""

    beside = (_START, _END)

    def write(self, to: MicroBatch, changes: DataFrame) -> None:
        from pyspark.sql import Window, functions

        keys = list(self._keys)
        stored = self._stored(changes.sparkSession)
        table = read(changes.sparkSession, self._path, storage_options=stored)
        newest = functions.max(functions.coalesce(_END, _START)).alias(_NEWEST)
        new = (
            changes.dropDuplicates([*keys, _SEQUENCE])
            .join(table.groupBy(*map(_column, keys)).agg(newest), keys, "left")
            .where(f"{_NEWEST} is null or {_SEQUENCE} > {_NEWEST}")
            .drop(_NEWEST)
            .localCheckpoint()  # the merge's source then does not read the table: only what this stream wrote counts
        )
        in_order = Window.partitionBy(*map(_column, keys)).orderBy(_SEQUENCE)
        versions = (
            new.withColumn(_END, functions.lead(_SEQUENCE).over(in_order))
            .where(f"{_KIND} <> 'd'")
            .withColumn(_CLOSES, functions.lit(False))
        )
        ends = new.groupBy(*map(_column, keys)).agg(functions.min(_SEQUENCE).alias(_SEQUENCE))
        source = versions.unionByName(ends.withColumn(_CLOSES, functions.lit(True)), allowMissingColumns=True)
        same_key = " and ".join(f"target.{_column(key)} = source.{_column(key)}" for key in keys)
        inserted = {name: txlog.col("source", name) for name in changes.columns if name not in (_KIND, _SEQUENCE)}
        (
            to.merge(
                source.drop(_KIND),
                self._path,
                f"source.{_CLOSES} and {same_key} and target.{_END} is null",
                storage_options=stored,
            )
            .when_matched_update({_END: txlog.col("source", _SEQUENCE)})
            .when_not_matched_insert(
                {**inserted, _START: txlog.col("source", _SEQUENCE), _END: txlog.col("source", _END)},
                f"not source.{_CLOSES}",
            )
            .execute()
        )

    def _columns(self, columns: pa.Schema) -> pa.Schema:
        return pa.schema([*columns, (_START, pa.int64()), (_END, pa.int64())])


# --- in the tasks -----------------------------------------------------------------------------------------------------


def _envelopes(batch: DataFrame, ordered: str) -> DataFrame:
    """The events as texts, and what orders them, unless the events themselves have it."""
    from pyspark.sql import functions

    if "value" in batch.columns:
        value = functions.col("value").cast("string")
    else:
        value = functions.to_json(functions.struct(*map(_column, batch.columns)), {"ignoreNullFields": "false"})
    sequence = functions.lit(None) if ordered.startswith("source.") else functions.col(_column(ordered))
    return batch.select(value.alias("value"), sequence.cast("long").alias(_SEQUENCE))


class _Described:
    """The schemas of events, each once for a batch; "" for one without a schema."""

    __name__ = "schemas of envelopes"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with crossing():
            for batch in batches:
                events = (event_of(text) for text in batch.column("value").to_pylist())
                found = {None if event.fields is None else event.fields for event in events if event is not None}
                texts = ["" if fields is None else _packed(fields) for fields in found]
                yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["fields"])


class _Made:
    """The rows of events, with these columns, their kinds and their sequences."""

    __name__ = "rows of envelopes"

    def __init__(self, fields: Sequence[EventField], ordered: str) -> None:
        self._fields = tuple(fields)
        self._columns = pa.schema([(field.name, field.type.arrow) for field in self._fields])
        self._in_source = ordered.removeprefix("source.") if ordered.startswith("source.") else None

    def spark_schema(self) -> Any:
        """The schema of the rows, for Spark."""
        return spark_type(from_arrow(self._schema()))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with crossing():
            for batch in batches:
                yield self._rows(batch)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows: list[dict[str, Any]] = []
        kinds, sequences = [], []
        for text, given in zip(*(batch.column(place).to_pylist() for place in range(2)), strict=True):
            event = event_of(text)
            if event is None:
                continue
            if event.kind == "T":
                raise InvalidInputError(
                    "an event empties the table (op = 't'), which no micro-batch does: end the stream, delete all rows,"
                    " and go on with the events after it; or let Debezium leave them out (skipped.operations = t)"
                )
            rows.append(self._row(event))
            kinds.append("d" if event.kind == "D" else "u")
            sequences.append(given if self._in_source is None else self._sequence(event))
        arrays = [sent_values(field, [row.get(field.name) for row in rows]) for field in self._fields]
        arrays = [pa.array(kinds, pa.string()), pa.array(sequences, pa.int64()), *arrays]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema())

    def _row(self, event: Event) -> dict[str, Any]:
        row = event.before if event.kind == "D" else event.after
        assert row is not None
        fields = fields_of(self._columns, row) if event.fields is None else event.fields
        return {field.name: value for field, value in zip(fields, row_of(row, fields), strict=True)}

    def _sequence(self, event: Event) -> int:
        assert self._in_source is not None
        found = event.source.get(self._in_source)
        if not isinstance(found, int):
            raise InvalidInputError(f"the event's source has no number {self._in_source}, which orders the changes")
        return found

    def _schema(self) -> pa.Schema:
        return pa.schema([(_KIND, pa.string()), (_SEQUENCE, pa.int64()), *self._columns])


def _packed(fields: Sequence[EventField]) -> str:
    return base64.b64encode(pickle.dumps(tuple(fields))).decode()


def _unpacked(text: str) -> tuple[EventField, ...]:
    found: tuple[EventField, ...] = pickle.loads(base64.b64decode(text))  # of this stream's own tasks
    return found


def _column(name: str) -> str:
    return backquoted(name)
