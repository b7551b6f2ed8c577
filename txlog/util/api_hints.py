"""What users of other Delta libraries reach for and do not find here: refused by name, with what does it today.

In: the name of an attribute that `txlog` or one of its classes lacks, or of an argument that a call does not take. Out:
the error to raise, which is a ``TxlogError`` and what Python raises there: an ``AttributeError``, so that ``hasattr``
stays honest, or a ``TypeError``.
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
    "Table": "Table.open(uri) opens a table, Table.create(uri, schema) makes one",
    "Transaction": "with table.transaction() as txn",
}
"""What makes the objects of classes that nobody calls."""

_OF_PARTITIONS = (
    'in one table.transaction() as txn: txn.remove(txn.snapshot.files(where)["path"]){}, where the'
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

_WITH_BLOCK = "its with block commits when it ends, and aborts when an exception leaves it"
_TASK_BLOCK = "its with block seals the files when it ends, and removes them when an exception leaves it"
_TASK = "with sink.task(checkpoint_id, task_id) as task: task.write(data)"

ELSEWHERE = {
    "txlog": {
        "DeltaTable": "txlog.Table.open(uri), txlog.Table.create(uri, schema)",
        "create": "txlog.Table.create(uri, schema)",
        "load": "txlog.Table.open(uri)",
        "open": "txlog.Table.open(uri)",
        "read": "txlog.Table.open(uri).snapshot().to_arrow(columns, where)",
        "spark": "import txlog.spark first",
        "write_deltalake": "txlog.write(uri, data, mode)",
    },
    "Table": {
        "alter": "table.add_columns(schema), table.set_properties(properties)",
        "begin": "with table.transaction() as txn",
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
    "Transaction": {
        "abort": _WITH_BLOCK,
        "begin": "with table.transaction() as txn begins it",
        "commit": _WITH_BLOCK,
        "delete": _DELETE,
        "files": "txn.snapshot.files(where)",
        "overwrite": _REPLACE,
        "rollback": _WITH_BLOCK,
        "schema": "txn.snapshot.schema",
        "to_arrow": "txn.read(where, columns)",
        "version": "txn.snapshot.version is what it sees, txn.result.version what it became",
        "write": "txn.append(data)",
    },
    "Sink": {
        "append": _TASK,
        "close": "a sink holds nothing open",
        "flush": "sink.prepare(checkpoint_id, tasks) seals what is staged, sink.commit(checkpoint_id) commits it",
        "snapshot": "sink.prepare(checkpoint_id, tasks)",
        "write": _TASK,
    },
    "SinkTask": {
        "append": "task.write(data)",
        "close": _TASK_BLOCK,
        "commit": f"{_TASK_BLOCK}; sink.stage(task.committable) keeps them",
        "result": "task.committable",
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
    "predicate": "where",
    "replacewhere": "where",
    "retries": "max_attempts",
    "savemode": "mode",
    "txnappid": "app_id",
    "txnversion": "checkpoint_id",
}
"""Arguments as other libraries call them, small and without underscores."""

_MERGE = 'schema_mode="merge" adds the columns that the table lacks'
_AS_IT_WAS = "table.snapshot(version) and table.snapshot(timestamp=...) are the table as it was"
INSTEAD = {
    "mergeschema": _MERGE,
    "mode": "table.append(data) adds rows, table.overwrite(data) replaces all; txlog.write(uri, data, mode) is either",
    "overwriteschema": f"another schema is not in this release; {_MERGE}",
    "partitionby": "a table is partitioned as it was made: Table.create(uri, schema, partition_by=[...])",
    "timestamp": _AS_IT_WAS,
    "timestampasof": _AS_IT_WAS,
    "version": _AS_IT_WAS,
    "versionasof": _AS_IT_WAS,
}
"""Arguments that another call takes, or that are values of another argument here."""


class InvalidInputError(errors.InvalidInputError, TypeError):
    """The library's own, for a call that does not fit."""


class UnsupportedFeatureError(errors.UnsupportedFeatureError, AttributeError):
    """The library's own, for an attribute."""


def not_built(name: str, table: str | None) -> UnsupportedFeatureError:
    """The refusal of one of `NOT_BUILT`."""
    return _refusal("Table", name, f"{name} is not in this release. Until it is: {NOT_BUILT[name]}", table)


def no_attribute(owner: object, name: str, table: str | None) -> Exception:
    """The error for an attribute that ``owner`` lacks; ``table`` is where it is, if that is known."""
    kind = "txlog" if isinstance(owner, ModuleType) else type(owner).__name__
    if name in ELSEWHERE.get(kind, {}):
        what = kind if kind == "txlog" else f"a {kind}"
        return _refusal(kind, name, f"{what} has no {name}: {ELSEWHERE[kind][name]}", table)
    if kind == "Table" and name in NOT_BUILT:
        return not_built(name, table)
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)


def _refusal(kind: str, name: str, message: str, table: str | None) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(message, table=table, features=(f"{kind}.{name}",))


# --- arguments ------------------------------------------------------------------------------------------------------


def explains_calls(owner: Class) -> Class:
    """The class, which and whose public methods answer a call that does not fit with an ``InvalidInputError``."""
    for name, member in list(vars(owner).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(owner, name, type(member)(explains_call(member.__func__)))
        elif isinstance(member, FunctionType):
            setattr(owner, name, explains_call(member))
    return owner


def explains_call(function: Function) -> Function:
    """As `explains_calls`, for one function."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:
                raise  # it began: the error is from inside of it
            raise _wrong_call(function, named, str(error)) from None

    return cast(Function, call)


def _wrong_call(function: Callable[..., Any], named: Mapping[str, Any], python_says: str) -> InvalidInputError:
    import inspect

    owner, _, method = function.__qualname__.rpartition(".")
    called = owner if method == "__init__" else function.__qualname__
    if method == "__init__" and owner in MADE_BY:
        return InvalidInputError(f"{owner}() is not for callers: {MADE_BY[owner]}")
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
