"""One version of a table for Spark: its state, its live files, and its columns in Spark's types.

In: a location, storage options, and a version or a time. Out: a `TableVersion`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from txlog.core import ambient
from txlog.core.catalogs import open_place
from txlog.core.format.features import check_can_read
from txlog.core.format.schema import fold_name
from txlog.core.predicates import bind_predicate
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.reading import ScanPlan, Selection, select
from txlog.core.util import whole_number
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog, milliseconds
from txlog.errors import InvalidInputError, TxlogError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType


class TableVersion(msgspec.Struct, frozen=True):
    """A pinned version of a table."""

    log: DeltaLog
    state: TableState

    def plan(self, columns: Sequence[str] | None = None, where: Any = None) -> ScanPlan:
        """Plan a scan: the columns, and the files that may have matching rows.

        Args:
            columns: The columns to read; None means all.
            where: A condition in SQL or a predicate; None means all rows.

        Raises:
            InvalidInputError: A column or the condition does not fit the table.
        """
        selection = self.select(columns, where)
        self.log.check_zones(self.state, {field.name for field in selection.needed()})
        predicate = selection.predicate
        files = self.log.files(self.state) if predicate is None else self.log.matching_files(self.state, predicate)
        return ScanPlan(selection, files)

    def select(self, columns: Sequence[str] | None = None, where: Any = None) -> Selection:
        """Bind the columns and the condition to the table, without choosing files. Raises what `plan` raises."""
        uri = self.log.uri
        predicate: Predicate | None = None
        if where is not None:
            with TxlogError.located(uri, self.state.version):
                predicate = bind_predicate(where, self.state.schema, zone=self.state.time_zone, now=ambient.now())
        return select(uri, self.state, columns, predicate)

    def spark_schema(self) -> StructType:
        """All columns of the table in Spark's types, all nullable, as in Spark's file sources."""
        from pyspark.sql.types import StructType

        found = nullable_type(StructType.fromJson(json.loads(self.state.metadata.schema_string)))
        assert isinstance(found, StructType)
        return found

    def differing_type(self, requested: StructType) -> str | None:
        """A message about the first column whose type differs from the table's; None if all types are equal.

        Names are compared regardless of case.
        """
        types = {fold_name(each.name): each for each in self.spark_schema()}
        for each in requested:
            found = types.get(fold_name(each.name))
            if found is not None and found.dataType.simpleString() != each.dataType.simpleString():
                return f"column {each.name} is a {found.dataType.simpleString()}, not a {each.dataType.simpleString()}"
        return None


def open_version(
    path: str, zone: str, storage_options: Mapping[str, str] | None = None, version: Any = None, timestamp: Any = None
) -> TableVersion:
    """Open a version of a table.

    Args:
        path: The table's location.
        zone: The zone of times without one.
        storage_options: Options of the store.
        version: The number of a version; None means the newest, or the one at ``timestamp``.
        timestamp: A time as for ``Table.snapshot``: the newest version at or before it.

    Raises:
        InvalidInputError: Both a version and a timestamp are given, or one of them is invalid.
        NotFoundError: The table no longer has this version, or not yet.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table needs a reader feature that this release lacks.
    """
    log = DeltaLog(open_place(path, storage_options), time_zone=zone)
    if version is not None and timestamp is not None:
        raise InvalidInputError("pass a version or a timestamp, not both", table=log.uri)
    if timestamp is not None:
        version = log.version_at(milliseconds(timestamp, zone))
    state = log.newest_state() if version is None else log.state_at(whole_number("version", version, table=log.uri))
    with TxlogError.located(log.uri, state.version):
        check_can_read(state.protocol, state.metadata)
    return TableVersion(log, state)


def nullable_type(data_type: Any, name_key: str | None = None) -> Any:
    """A Spark type without field metadata, with all parts nullable.

    Args:
        data_type: A Spark type.
        name_key: The metadata key of the new field names, such as physical names; None keeps the names.
    """
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(data_type, StructType):
        return StructType(
            [
                StructField(
                    each.name if name_key is None else (each.metadata or {}).get(name_key, each.name),
                    nullable_type(each.dataType, name_key),
                )
                for each in data_type
            ]
        )
    if isinstance(data_type, ArrayType):
        return ArrayType(nullable_type(data_type.elementType, name_key))
    if isinstance(data_type, MapType):
        return MapType(nullable_type(data_type.keyType, name_key), nullable_type(data_type.valueType, name_key))
    return data_type
