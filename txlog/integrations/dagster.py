"""Dagster: an IO manager that keeps each asset in a table, and each of its partitions in rows of the table.

In: what assets return: anything that ``Table.append`` accepts. Out: Arrow tables, or pandas' and Polars' DataFrames.
Needs ``pip install dagster``.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from dagster import ConfigurableIOManager, DagsterInvariantViolationError, InputContext, OutputContext
from pydantic import Field

import txlog
from txlog.errors import InvalidInputError
from txlog.writer.input import open_data

__all__ = ["TxlogIOManager"]


class TxlogIOManager(ConfigurableIOManager):  # type: ignore[misc]
    """Materializing an asset replaces its rows, and materializing a partition replaces the partition's, in one version.

    So a materialization that is run again leaves the same rows. An asset with partitions names the column that tells
    them apart: ``@asset(partitions_def=..., metadata={"partition_expr": "day"})``. A time window is compared as a date,
    or as a date with a time if it does not begin at midnight, in the time zone of the partitions; with a column of
    instants (``timestamp``), as instants. Each materialization has the table's version, the number
    of rows and the size as metadata.
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
            where = _condition(context, _column(context, context.definition_metadata), schema)
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
        where = _condition(context, _column(context, metadata), table.schema) if is_part else None
        rows = table.to_arrow(where=where)
        wanted = context.dagster_type.typing_type
        library = getattr(wanted, "__module__", "").partition(".")[0]
        if library == "pandas":
            return rows.to_pandas()
        if library == "polars":
            import polars

            return polars.from_arrow(rows)
        if wanted in (Any, pa.Table, object):
            return rows
        raise InvalidInputError(f"an input of type {wanted} cannot be loaded: use pyarrow.Table, or a DataFrame")

    def _uri(self, context: InputContext | OutputContext) -> str:
        return "/".join([self.root.rstrip("/"), *context.asset_key.path])


def _column(context: InputContext | OutputContext, metadata: Any) -> str:
    """The column that tells the partitions of an asset apart."""
    column = (metadata or {}).get("partition_expr")
    if not isinstance(column, str):
        raise InvalidInputError(
            f"asset {context.asset_key.to_user_string()} has partitions, and nothing says which rows belong to one:"
            ' name the column by metadata={"partition_expr": "..."}'
        )
    return column


def _condition(context: InputContext | OutputContext, column: str, schema: pa.Schema) -> Any:
    """The rows of the partitions of a run, as a condition on columns of ``schema``."""
    try:
        window = context.asset_partitions_time_window
    except (ValueError, DagsterInvariantViolationError):  # the partitions are no windows of time
        return txlog.col(column).isin(context.asset_partition_keys)
    kind = next((each.type for each in schema if each.name.lower() == column.lower()), None)
    is_instant = kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None
    begin, end = (_moment(each.astimezone(timezone.utc) if is_instant else each) for each in window)
    return (txlog.col(column) >= begin) & (txlog.col(column) < end)


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%d" if (when.hour, when.minute, when.second) == (0, 0, 0) else "%Y-%m-%d %H:%M:%S")
