"""Dagster: an IO manager that keeps each asset in a table, and each of its partitions in rows of the table.

In: what assets return: anything that ``Table.append`` accepts. Out: Arrow tables, or pandas' and Polars' DataFrames.
Needs ``pip install dagster``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from dagster import (
    ConfigurableIOManager,
    DagsterInvariantViolationError,
    InputContext,
    MultiPartitionsDefinition,
    OutputContext,
    TimeWindow,
    TimeWindowPartitionsDefinition,
)
from pydantic import Field

import txlog
from txlog.core.writing import open_data
from txlog.errors import InvalidInputError

__all__ = ["TxlogIOManager"]


class TxlogIOManager(ConfigurableIOManager):  # type: ignore[misc]
    """Materializing an asset replaces its rows, and materializing a partition replaces the partition's, in one version.

    So a materialization that is run again leaves the same rows. An asset with partitions names the column that tells
    them apart: ``@asset(partitions_def=..., metadata={"partition_expr": "day"})``, and with a
    ``MultiPartitionsDefinition`` one for each dimension: ``{"partition_expr": {"date": "day", "region": "region"}}``. A
    time window is compared as a date, or as a date with a time if it does not begin at midnight, in the time zone of
    the partitions; with a column of instants (``timestamp``), as instants. Each materialization has the table's
    version, the number of rows and the size as metadata.
    """

    root: str = Field(description="The folder or bucket of the tables; an asset's key is its path below it.")
    storage_options: dict[str, str] = Field(default={}, description="As for txlog.Table.open.")

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        """Replace the rows of the asset, or of its partitions. Raises what ``Table.overwrite`` raises."""
        uri, stream = self._uri(context), open_data(obj)
        where = None
        if context.has_asset_partitions:
            is_there = txlog.Table.exists(uri, storage_options=self.storage_options)
            schema = txlog.Table.open(uri, storage_options=self.storage_options).schema if is_there else stream.schema
            where = _condition(context, context.definition_metadata, schema)
        result = txlog.write(
            uri,
            stream,
            "overwrite",  # also where no table was a moment ago: another run may make it first
            where=where,
            user_metadata=f"dagster run {context.run_id}",
            storage_options=self.storage_options,
        )
        facts = {"uri": uri, "version": result.version, "dagster/row_count": result.metrics.rows}
        context.add_output_metadata({**facts, "size_bytes": result.metrics.bytes, "files": result.metrics.files})

    def load_input(self, context: InputContext) -> Any:
        """Read the asset, or its partitions, as the type that the input asks for. Raises what ``Table.open`` raises."""
        upstream = context.upstream_output
        metadata = {} if upstream is None else upstream.definition_metadata
        table = txlog.Table.open(self._uri(context), storage_options=self.storage_options)
        is_part = context.has_asset_partitions
        where = _condition(context, metadata, table.schema) if is_part else None
        wanted = context.dagster_type.typing_type
        library = getattr(wanted, "__module__", "").partition(".")[0]
        if library == "pandas":
            return table.to_pandas(where=where)
        if library == "polars":
            return table.to_polars(where=where)
        if wanted in (Any, pa.Table, object):
            return table.to_arrow(where=where)
        raise InvalidInputError(f"an input of type {wanted} cannot be loaded: use pyarrow.Table, or a DataFrame")

    def _uri(self, context: InputContext | OutputContext) -> str:
        return "/".join([self.root.rstrip("/"), *context.asset_key.path])


def _condition(context: InputContext | OutputContext, metadata: Any, schema: pa.Schema) -> Any:
    """The rows of the partitions of a run, as a condition on columns of ``schema``."""
    given = (metadata or {}).get("partition_expr")
    definition = context.asset_partitions_def
    if isinstance(definition, MultiPartitionsDefinition):
        return _condition_of_dimensions(context, definition, given, schema)
    if not isinstance(given, str):
        raise _unnamed(context, "partitions", "column", '"..."')
    try:
        windows = [context.asset_partitions_time_window]
    except (ValueError, DagsterInvariantViolationError):  # the partitions are no windows of time
        return txlog.col(given).is_in([str(key) for key in context.asset_partition_keys])
    return _is_within(given, windows, schema)


def _condition_of_dimensions(
    context: InputContext | OutputContext, definition: MultiPartitionsDefinition, columns: Any, schema: pa.Schema
) -> Any:
    """The rows of exactly the keys of a run, which are not always every combination of their dimensions' keys."""
    # The windows of time come last, since those that follow each other are one.
    dimensions = sorted(definition.partitions_defs, key=lambda each: _has_windows(each.partitions_def))
    if not isinstance(columns, dict) or not all(isinstance(columns.get(each.name), str) for each in dimensions):
        names = ", ".join(f'"{each.name}": "..."' for each in dimensions)
        raise _unnamed(context, "partitions of several dimensions", "column of each", f"{{{names}}}")
    last_keys: dict[tuple[str, ...], list[str]] = {}
    for key in map(str, context.asset_partition_keys):
        parts = definition.get_partition_key_from_str(key).keys_by_dimension
        *others, last = (parts[each.name] for each in dimensions)
        last_keys.setdefault(tuple(others), []).append(last)

    def among(dimension: Any, keys: Sequence[str]) -> Any:
        column, partitions = columns[dimension.name], dimension.partitions_def
        if not _has_windows(partitions):
            return txlog.col(column).is_in(keys)
        return _is_within(column, list(map(partitions.time_window_for_partition_key, keys)), schema)

    found = [
        functools.reduce(operator.and_, map(among, dimensions, [*([key] for key in others), keys]))
        for others, keys in last_keys.items()
    ]
    return functools.reduce(operator.or_, found) if found else txlog.col(columns[dimensions[0].name]).is_in([])


def _has_windows(partitions: Any) -> bool:
    return isinstance(partitions, TimeWindowPartitionsDefinition)


def _is_within(column: str, windows: Sequence[TimeWindow], schema: pa.Schema) -> Any:
    """Whether a column's value is in one of the windows."""
    kind = next((each.type for each in schema if each.name.lower() == column.lower()), None)
    is_instant = kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None
    spans: list[tuple[datetime, datetime]] = []
    for begin, end in sorted((each.start, each.end) for each in windows):
        if spans and spans[-1][1] == begin:
            begin = spans.pop()[0]
        spans.append((begin, end))
    found = []
    for span in spans:
        begin, end = (_moment(each.astimezone(timezone.utc) if is_instant else each) for each in span)
        found.append((txlog.col(column) >= begin) & (txlog.col(column) < end))
    return functools.reduce(operator.or_, found)


def _unnamed(context: InputContext | OutputContext, partitions: str, column: str, example: str) -> InvalidInputError:
    return InvalidInputError(
        f"asset {context.asset_key.to_user_string()} has {partitions}, and nothing says which rows belong to one:"
        f' name the {column} by metadata={{"partition_expr": {example}}}'
    )


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%d" if (when.hour, when.minute, when.second) == (0, 0, 0) else "%Y-%m-%d %H:%M:%S")
