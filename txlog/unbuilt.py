"""What users of other Delta libraries reach for and do not find here: refused by name, with what does it today.

In: the name of an attribute that a `Table` or `Snapshot` lacks. Out: the error to raise, which is an
``UnsupportedFeatureError`` and, since there is no such attribute, an ``AttributeError``: ``hasattr`` stays honest.
"""

from __future__ import annotations

from txlog import errors

__all__ = ["no_attribute", "not_built"]

_OF_PARTITIONS = (
    'in one table.transaction() as txn: txn.remove(*txn.snapshot.files(where)["path"].to_pylist()){}, where the'
    " predicate names whole partitions"
)
_DELETE = f"to delete whole partitions, {_OF_PARTITIONS.format('')}"
_REPLACE = f"to replace whole partitions, {_OF_PARTITIONS.format(' and txn.append(rows)')}"
_OTHER_WRITER = "deltalake does it, also while txlog appends; Spark's Delta does it, in turns with other writers"

NOT_BUILT = {
    "overwrite(where=...)": _REPLACE,
    "overwrite_partitions": _REPLACE,
    "delete": f"{_DELETE}; for single rows, {_OTHER_WRITER}",
    "update": _OTHER_WRITER,
    "upsert": _OTHER_WRITER,
    "merge": _OTHER_WRITER,
    "optimize": _OTHER_WRITER,
    "compact": _OTHER_WRITER,
    "vacuum": _OTHER_WRITER,
    "restore": "table.overwrite(table.snapshot(version)) brings the rows of a version back",
}
"""What a later release builds, and what to do until then."""

ELSEWHERE = {
    "Table": {
        "alter": "table.add_columns(schema), table.set_properties(properties)",
        "checkpoint": "table.create_checkpoint()",
        "cleanup_metadata": "table.clean_up_log()",
        "columns": "table.snapshot().schema.names",
        "count": "table.snapshot().to_arrow(columns=[]).num_rows counts without reading a column",
        "file_uris": 'table.snapshot().files()["path"], relative to table.uri',
        "files": "table.snapshot().files()",
        "load_as_version": "table.snapshot(version), table.snapshot(timestamp=...)",
        "metadata": "table.snapshot().table_id, .properties, .partition_columns",
        "partition_columns": "table.snapshot().partition_columns",
        "properties": "table.snapshot().properties",
        "num_rows": "table.snapshot().to_arrow(columns=[]).num_rows counts without reading a column",
        "protocol": "table.snapshot().protocol",
        "read": "table.snapshot().to_arrow(columns, where)",
        "scan": "table.snapshot().to_batches(columns, where)",
        "schema": "table.snapshot().schema",
        "to_arrow": "table.snapshot().to_arrow(columns, where)",
        "to_batches": "table.snapshot().to_batches(columns, where)",
        "to_pandas": "table.snapshot().to_arrow().to_pandas()",
        "to_polars": "polars.DataFrame(table.snapshot())",
        "to_pyarrow_dataset": "table.snapshot().to_batches(columns, where) reads only what the predicate needs",
        "to_pyarrow_table": "table.snapshot().to_arrow(columns, where)",
        "version": "table.snapshot().version",
        "write": "table.append(data), table.overwrite(data)",
    },
    "Snapshot": {
        "columns": "snapshot.schema.names",
        "count": "snapshot.to_arrow(columns=[]).num_rows counts without reading a column",
        "metadata": "snapshot.table_id, .properties, .partition_columns",
        "num_rows": "snapshot.to_arrow(columns=[]).num_rows counts without reading a column",
        "timestamp": "snapshot.timestamp_ms",
        "to_pandas": "snapshot.to_arrow().to_pandas()",
        "to_polars": "polars.DataFrame(snapshot)",
        "to_pyarrow_dataset": "snapshot.to_batches(columns, where) reads only what the predicate needs",
        "to_pyarrow_table": "snapshot.to_arrow(columns, where)",
        "to_pydict": "snapshot.to_arrow().to_pydict()",
        "to_pylist": "snapshot.to_arrow().to_pylist()",
    },
}
"""What is there under another name, by the class that it is looked for on."""


class UnsupportedFeatureError(errors.UnsupportedFeatureError, AttributeError):
    """The library's own, for an attribute."""


def not_built(name: str, table: str | None) -> UnsupportedFeatureError:
    """The refusal of one of `NOT_BUILT`."""
    return _refusal("Table", name, f"{name} is not in this release. Until it is: {NOT_BUILT[name]}", table)


def no_attribute(owner: object, name: str, table: str | None) -> Exception:
    """The error for an attribute that ``owner`` lacks; ``table`` is where it is, if that is known."""
    kind = type(owner).__name__
    if name in ELSEWHERE.get(kind, {}):
        return _refusal(kind, name, f"a {kind} has no {name}: {ELSEWHERE[kind][name]}", table)
    if kind == "Table" and name in NOT_BUILT:
        return not_built(name, table)
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)


def _refusal(kind: str, name: str, message: str, table: str | None) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(message, table=table, features=(f"{kind}.{name}",))
