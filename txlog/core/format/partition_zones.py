"""Timestamps without a zone among partition values: older writers stored them in the zone of their session.

In: live files as columns, and the zone of who works on the table. Out: nothing, or the refusal to go on in a zone
in which such a value means another instant than in UTC, where txlog reads it. Spark's Delta reads it in its session's
zone, so a condition would choose other rows there, and a copy of a file would move its rows.
PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.file_columns import partition_column
from txlog.core.format.partition_values import decode
from txlog.core.format.schema import Field, Primitive
from txlog.core.wording import argument
from txlog.errors import CorruptLogError, UnsupportedFeatureError

_TIMESTAMP = Primitive("timestamp")
_ELSEWHERE = datetime.timezone(datetime.timedelta(hours=1))
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def timestamp_partitions(table: DefinedTable, columns: Collection[str] | None = None) -> dict[str, Field]:
    """The table's partition columns that are timestamps, of ``columns`` or of all, by their physical names."""
    fields = physical_fields(table.schema, table.partition_columns)
    return {
        name: field
        for name, field in fields.items()
        if field.type == _TIMESTAMP and (columns is None or field.name in columns)
    }


def check_partition_zones(files: pa.Table, fields: Mapping[str, Field], zone: str) -> None:
    """Refuse files whose values of ``fields`` mean one instant in UTC and another one in ``zone``.

    Args:
        files: Live files, as ``FILES_SCHEMA``.
        fields: As from `timestamp_partitions`.
        zone: The zone of times without one.

    Raises:
        UnsupportedFeatureError: A file has such a value.
    """
    for name, field in fields.items():
        for batch in files.to_batches():
            texts = partition_column(batch, name)
            for text in texts.unique().drop_null().to_pylist():
                if _differs(text, zone):
                    at = pc.index(texts, text).as_py()
                    raise _refusal(field.name, text, batch.column("path")[at].as_py(), zone)


def _differs(text: str, zone: str) -> bool:
    from txlog.core.format.time_zones import instant

    try:
        moment = decode(text, _TIMESTAMP)
        if moment is None or moment == decode(text, _TIMESTAMP, zone=_ELSEWHERE):
            return False
    except (CorruptLogError, OverflowError):  # who needs the value says what is wrong with it
        return False
    clock_us: int = (moment - _EPOCH) // _MICROSECOND
    return instant(clock_us, zone) != clock_us


def _refusal(column: str, text: str, path: str, zone: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the file {path} has {text!r} as its value of the partition column {column}, a timestamp without a zone, which"
        f" an older writer stored in the zone of its session: txlog reads it in UTC, and Spark's Delta in {zone}, which"
        f" are different instants. Work in UTC if that was the writer's zone ({argument('time_zone')}, or"
        " spark.sql.session.timeZone in a Spark session). Otherwise have Spark's Delta read the table in the writer's"
        " zone and overwrite it: it then stores the zone",
        path=path,
        features=("timestamp partition values without a zone",),
    )
