"""Hints for users of other Delta libraries: names that txlog does not have, each with what to use instead.

In: the name of an attribute that `txlog` or one of its classes lacks, or of an argument that a call does not take. Out:
the error to raise. It is a ``TxlogError`` and also what Python itself would raise: an ``AttributeError``, so that
``hasattr`` works, or a ``TypeError``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

from txlog import errors

__all__ = ["explains_call", "explains_calls", "no_attribute", "not_built"]

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

MADE_BY = {
    "Snapshot": "table.snapshot(version)",
    "Table": "Table.open(uri) or Table.create(uri, schema)",
    "Transaction": "with table.transaction() as txn",
}
"""How to get objects of the classes whose constructor is private."""

_OTHER_WRITER = "deltalake does it, also while txlog appends; Spark's Delta does it, in turns with other writers"

NOT_BUILT = {
    "optimize": _OTHER_WRITER,
    "compact": _OTHER_WRITER,
    "vacuum": _OTHER_WRITER,
    "restore": "table.overwrite(table.snapshot(version)) brings the rows of a version back",
}
"""Operations that this release does not have, and what to use until a later release has them."""

_WITH_BLOCK = "the with block, which commits when it ends, and aborts when an exception leaves it"
_TASK_BLOCK = "the with block, which seals the files when it ends, and removes them when an exception leaves it"
_COUNT = ".to_arrow(columns=[]).num_rows, which counts without reading a column"
_TASK = "with sink.task(checkpoint_id, task_id) as task: task.write(data)"

ELSEWHERE = {
    "txlog": {
        "CommitProperties": 'table.append(data, user_metadata="...", app_id="...", checkpoint_id=1)',
        "DeltaTable": "txlog.Table.open(uri), txlog.Table.create(uri, schema)",
        "Field": "pyarrow.field(name, type)",
        "QueryBuilder": "duckdb or polars on table.snapshot(), which is an Arrow stream",
        "Schema": 'pyarrow.schema([...]), or "id bigint not null, name string"',
        "WriterProperties": "table.append(data, target_file_size=...), and the table property"
        " delta.parquet.compression.codec",
        "convert_to_deltalake": "txlog.Table.create(uri, schema) and table.add_files(paths)",
        "create": "txlog.Table.create(uri, schema)",
        "exists": "txlog.Table.exists(uri)",
        "is_deltatable": "txlog.Table.exists(uri)",
        "load": "txlog.Table.open(uri)",
        "open": "txlog.Table.open(uri)",
        "read": "txlog.Table.open(uri).snapshot().to_arrow(columns, where)",
        "spark": "`import txlog.spark` first",
        "write_deltalake": "txlog.write(uri, data, mode)",
    },
    "Table": {
        "alter": "table.add_columns(schema), table.set_properties(properties)",
        "begin": "with table.transaction() as txn",
        "checkpoint": "table.create_checkpoint()",
        "cleanup_metadata": "table.clean_up_log()",
        "columns": "table.schema.names",
        "convert_to_deltalake": "Table.create(uri, schema) and table.add_files(paths)",
        "count": f"table.snapshot(){_COUNT}",
        "file_uris": 'table.snapshot().files()["path"], relative to table.uri',
        "files": "table.snapshot().files()",
        "for_name": "Table.open(uri)",
        "for_path": "Table.open(uri)",
        "from_data_catalog": "Table.open(uri)",
        "get_add_actions": "table.snapshot().files()",
        "insert": "table.append(data)",
        "is_deltatable": "Table.exists(uri)",
        "load_as_version": "table.snapshot(version), table.snapshot(timestamp=...)",
        "load_version": "table.snapshot(version)",
        "load_with_datetime": "table.snapshot(timestamp=...)",
        "metadata": "table.snapshot().table_id, .properties, .partition_columns",
        "num_rows": f"table.snapshot(){_COUNT}",
        "partition_columns": "table.snapshot().partition_columns",
        "partitions": 'table.snapshot().files()["partitionValues"]',
        "properties": "table.snapshot().properties",
        "protocol": "table.snapshot().protocol",
        "read": "table.snapshot().to_arrow(columns, where)",
        "scan": "table.snapshot().to_batches(columns, where)",
        "table_config": "table.snapshot().properties",
        "table_uri": "table.uri",
        "to_arrow": "table.snapshot().to_arrow(columns, where)",
        "to_batches": "table.snapshot().to_batches(columns, where)",
        "to_pandas": "table.snapshot().to_arrow().to_pandas()",
        "to_polars": "polars.DataFrame(table)",
        "to_pyarrow_dataset": "table.snapshot().to_batches(columns, where), which reads only what the predicate needs",
        "to_pyarrow_table": "table.snapshot().to_arrow(columns, where)",
        "transaction_version": 'table.snapshot().transaction_version("app")',
        "update_incremental": "table.snapshot(), which is the newest version each time",
        "write": "table.append(data), table.overwrite(data)",
    },
    "Transaction": {
        "abort": _WITH_BLOCK,
        "begin": "with table.transaction() as txn, which begins it",
        "commit": _WITH_BLOCK,
        "files": "txn.snapshot.files(where)",
        "rollback": _WITH_BLOCK,
        "schema": "txn.snapshot.schema",
        "to_arrow": "txn.read(where, columns)",
        "version": "txn.snapshot.version for what it sees, txn.result.version for what it became",
        "write": "txn.append(data)",
    },
    "Sink": {
        "append": _TASK,
        "close": "nothing in its place: a sink holds nothing open",
        "flush": "sink.prepare(checkpoint_id, tasks) to seal what is staged, sink.commit(checkpoint_id) to commit it",
        "snapshot": "sink.prepare(checkpoint_id, tasks)",
        "write": _TASK,
    },
    "SinkTask": {
        "append": "task.write(data)",
        "close": _TASK_BLOCK,
        "commit": f"{_TASK_BLOCK}; then sink.stage(task.committable) to keep them",
        "result": "task.committable",
    },
    "Snapshot": {
        "columns": "snapshot.schema.names",
        "count": f"snapshot{_COUNT}",
        "metadata": "snapshot.table_id, .properties, .partition_columns",
        "num_rows": f"snapshot{_COUNT}",
        "timestamp": "snapshot.timestamp_ms",
        "to_pandas": "snapshot.to_arrow().to_pandas()",
        "to_polars": "polars.DataFrame(snapshot)",
        "to_pyarrow_dataset": "snapshot.to_batches(columns, where), which reads only what the predicate needs",
        "to_pyarrow_table": "snapshot.to_arrow(columns, where)",
        "to_pydict": "snapshot.to_arrow().to_pydict()",
        "to_pylist": "snapshot.to_arrow().to_pylist()",
    },
}
"""Names of other libraries by class, and what to use here."""


SAME_AS = {
    "configuration": "properties",
    "custommetadata": "user_metadata",
    "filter": "where",
    "filters": "where",
    "ifnotexists": "exist_ok",
    "options": "storage_options",
    "partitioncolumns": "partition_by",
    "partitioncols": "partition_by",
    "maxretries": "max_attempts",
    "numretries": "max_attempts",
    "partitionfilters": "where",
    "path": "uri",
    "joincols": "keys",
    "keycolumns": "keys",
    "predicate": "where",
    "replacewhere": "where",
    "retries": "max_attempts",
    "savemode": "mode",
    "tableoruri": "uri",
    "tableuri": "uri",
    "newvalues": "values",
    "set": "values",
    "txnappid": "app_id",
    "txnversion": "checkpoint_id",
    "updates": "values",
}
"""Arguments of other libraries, in lower case and without underscores, and their names here."""

_MERGE = 'schema_mode="merge" adds the columns that the table lacks'
_AS_IT_WAS = "table.snapshot(version) and table.snapshot(timestamp=...) are the table as it was"
INSTEAD = {
    "commitproperties": "use the arguments user_metadata, app_id and checkpoint_id",
    "description": "table comments are not in this release; user_metadata is kept in each commit",
    "mergeschema": _MERGE,
    "mode": "table.append(data) adds rows, table.overwrite(data, where) replaces all or some,"
    " table.overwrite_partitions(data) whole partitions; txlog.write(uri, data, mode) is any of these",
    "overwriteschema": 'schema_mode="overwrite" of an overwrite gives the table the columns of the data',
    "name": "a table is identified by its location; user_metadata is kept in each commit",
    "partitionby": "set the partitioning when you create the table: Table.create(uri, schema, partition_by=[...])",
    "timestamp": _AS_IT_WAS,
    "timestampasof": _AS_IT_WAS,
    "version": _AS_IT_WAS,
    "versionasof": _AS_IT_WAS,
    "writerproperties": 'use target_file_size, and the table property "delta.parquet.compression.codec"',
}
"""Arguments of other libraries that have no counterpart in the same call, and what to use instead."""


class InvalidInputError(errors.InvalidInputError, TypeError):
    """The library's ``InvalidInputError``, for a call with the wrong arguments. It is a ``TypeError`` too."""


class UnknownNameError(errors.InvalidInputError, AttributeError):
    """The library's ``InvalidInputError``, for an attribute of another library. It is an ``AttributeError`` too."""

    kind = "InvalidInputError"


class UnsupportedFeatureError(errors.UnsupportedFeatureError, AttributeError):
    """The library's ``UnsupportedFeatureError``, for an attribute. It is an ``AttributeError`` too."""


def not_built(name: str, table: str | None) -> UnsupportedFeatureError:
    """The error for one of the operations in `NOT_BUILT`."""
    message = f"{name} is not in this release. Until it is: {NOT_BUILT[name]}"
    return UnsupportedFeatureError(message, table=table, features=(f"Table.{name}",))


def no_attribute(owner: object, name: str, table: str | None) -> Exception:
    """The error for an attribute that ``owner`` lacks; ``table`` is its URI, if known."""
    kind = "txlog" if isinstance(owner, ModuleType) else type(owner).__name__
    if name in ELSEWHERE.get(kind, {}):
        what = kind if kind == "txlog" else f"a {kind}"
        return UnknownNameError(f"{what} has no {name}: use {ELSEWHERE[kind][name]}", table=table)
    if kind == "Table" and name in NOT_BUILT:
        return not_built(name, table)
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)


# --- arguments ------------------------------------------------------------------------------------------------------


def explains_calls(owner: Class) -> Class:
    """Decorate a class: a call of it or of a public method with the wrong arguments raises ``InvalidInputError``."""
    for name, member in list(vars(owner).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(owner, name, type(member)(explains_call(member.__func__)))
        elif isinstance(member, FunctionType):
            setattr(owner, name, explains_call(member))
    return owner


def explains_call(function: Function) -> Function:
    """Decorate one function as `explains_calls` does."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:
                raise  # the function had started: the error comes from inside it
            raise _wrong_call(function, named, str(error)) from None

    return cast(Function, call)


def _wrong_call(function: Callable[..., Any], named: Mapping[str, Any], python_says: str) -> InvalidInputError:
    import inspect

    owner, _, method = function.__qualname__.rpartition(".")
    called = owner if method == "__init__" else function.__qualname__
    if method == "__init__" and owner in MADE_BY:
        return InvalidInputError(f"Do not call {owner}(): use {MADE_BY[owner]}")
    takes = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    unknown = next((name for name in named if name not in takes), None)
    if unknown is None:
        return InvalidInputError(f"{python_says.replace(function.__qualname__, called)}; it takes {', '.join(takes)}")
    return InvalidInputError(f"{called}() takes no {unknown!r}: {_advice(unknown, takes)}")


def _advice(unknown: str, takes: list[str]) -> str:
    import difflib

    folded = {_folded(name): name for name in takes}
    key = _folded(SAME_AS.get(_folded(unknown), unknown))
    if key in folded:
        return f"it is called {folded[key]!r} here"
    if key in INSTEAD:
        return INSTEAD[key]
    close = difflib.get_close_matches(key, folded, n=1)
    return f"did you mean {folded[close[0]]!r}?" if close else f"it takes {', '.join(takes)}"


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
