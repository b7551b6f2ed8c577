"""Hints for users of other Delta libraries: names that txlog lacks, each with what to use instead.

In: an attribute name that `txlog`, one of its classes or its objects lacks, or an argument that a call does not take.
Out: the error to raise, with one line that says what to use instead; docs/from-deltalake.md says more. It is a
``TxlogError`` and also what Python itself would raise: an ``AttributeError``, so that ``hasattr`` works, or a
``TypeError``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from txlog import errors

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

MADE_BY = {
    "Snapshot": "table.snapshot(version)",
    "Table": "Table.open(uri) or Table.create(uri, schema)",
    "Transaction": "with table.transaction() as txn",
}
"""How to get objects of classes with a private constructor."""

_WITH_BLOCK = "the with block, which commits when it ends, and aborts when an exception leaves it"
_TASK_BLOCK = "the with block, which seals the files when it ends, and removes them when an exception leaves it"
_TASK = "with sink.task(checkpoint_id, task_id) as task: task.write(data)"

_NO_SQL_NAME = 'the name of the column in the mapping, such as table.update({"total": txlog.expr("amount * 2")})'
_DATES = "txlog.expr(\"date_trunc('month', at)\") and the like"
_STRINGS = 'txlog.expr("upper(name)") and the like; .starts_with(prefix) is a method'

_SCHEMAS = "catalog.tables(), whose names begin with their schemas"
_NEW_SCHEMA = "catalog.create(name, schema): in a folder, the first table of a schema makes it"

ELSEWHERE = {
    "txlog": {
        "CommitProperties": 'table.append(data, user_metadata="...", app_id="...", checkpoint_id=1)',
        "DeltaTable": "txlog.Table.open(uri), txlog.Table.create(uri, schema)",
        "Field": "pyarrow.field(name, type)",
        "QueryBuilder": "duckdb or polars on table.to_dataset()",
        "Schema": 'pyarrow.schema([...]), or "id bigint not null, name string"',
        "WriterProperties": 'parquet={"parquet.compression": "zstd"}, or table properties of these names',
        "convert_to_deltalake": "txlog.Table.convert(uri)",
        "create": "txlog.Table.create(uri, schema)",
        "exists": "txlog.Table.exists(uri)",
        "is_deltatable": "txlog.Table.exists(uri)",
        "load": "txlog.Table.open(uri)",
        "open": "txlog.Table.open(uri)",
        "read": "txlog.Table.open(uri).to_arrow(columns, where)",
        "spark": "`import txlog.spark` first",
        "write_deltalake": "txlog.write(uri, data, mode)",
    },
    "Rows": {
        "arrow": "rows.read_all()",
        "collect": "rows.read_all().to_pylist()",
        "column_names": "rows.schema.names",
        "df": "rows.to_pandas()",
        "fetchall": "rows.read_all().to_pylist()",
        "pl": "rows.to_polars()",
        "cast": "rows.to_batches().cast(schema)",
        "close": "rows.to_batches().close()",
        "read_next_batch": "rows.to_batches().read_next_batch()",
        "read_pandas": "rows.to_pandas(), which keeps every integer as it is",
        "show": "print(rows)",
        "to_arrow": "rows.read_all()",
        "to_pylist": "rows.read_all().to_pylist()",
    },
    "SqlResult": {
        "metrics": "result.result.metrics",
        "outcome": "result.result.outcome",
        "version": "result.result.version",
    },
    "Operand": {
        "abs": 'txlog.expr("abs(amount)")',
        "alias": _NO_SQL_NAME,
        "astype": 'txlog.expr("CAST(amount AS int)")',
        "cast": 'txlog.expr("CAST(amount AS int)")',
        "contains": "txlog.expr(\"contains(name, 'x')\")",
        "dt": _DATES,
        "endswith": "txlog.expr(\"endswith(name, 'x')\")",
        "eq": "==",
        "eqNullSafe": 'txlog.expr("a <=> b")',
        "eq_missing": 'txlog.expr("a <=> b")',
        "fill_null": 'txlog.expr("coalesce(amount, 0)")',
        "fillna": 'txlog.expr("coalesce(amount, 0)")',
        "ge": ">=",
        "getField": 'txlog.col("address.city")',
        "getItem": 'txlog.expr("tags[0]")',
        "gt": ">",
        "ilike": "txlog.expr(\"name ILIKE 'x%'\")",
        "is_between": ".between(low, high)",
        "is_nan": 'txlog.expr("isnan(amount)")',
        "is_not_in": "~, as in ~column.is_in(values)",
        "isna": ".is_null()",
        "le": "<=",
        "like": "txlog.expr(\"name LIKE 'x%'\")",
        "list": 'txlog.expr("tags[0]") and the like',
        "lower": 'txlog.expr("lower(name)")',
        "lt": "<",
        "name": _NO_SQL_NAME,
        "ne": "!=",
        "not_in": "~, as in ~column.is_in(values)",
        "notna": ".is_not_null()",
        "notnull": ".is_not_null()",
        "otherwise": 'txlog.expr("CASE WHEN amount > 5 THEN 1 ELSE 0 END")',
        "rlike": "txlog.expr(\"name RLIKE '^x'\")",
        "round": 'txlog.expr("round(amount, 2)")',
        "str": _STRINGS,
        "struct": 'txlog.col("address.city")',
        "substr": 'txlog.expr("substring(name, 1, 3)")',
        "try_cast": 'txlog.expr("TRY_CAST(amount AS int)")',
        "upper": 'txlog.expr("upper(name)")',
        "when": 'txlog.expr("CASE WHEN amount > 5 THEN 1 ELSE 0 END")',
    },
    "Catalog": {
        "create_database": _NEW_SCHEMA,
        "create_namespace": _NEW_SCHEMA,
        "create_schema": _NEW_SCHEMA,
        "create_table": "catalog.create(name, schema)",
        "delete_table": "catalog.drop(name)",
        "drop_table": "catalog.drop(name)",
        "get_table": "catalog.table(name)",
        "list_tables": "catalog.tables(schema)",
        "load_table": "catalog.table(name)",
        "open": "catalog.table(name)",
        "purge_table": "catalog.drop(name)",
        "read": "catalog.table(name).to_arrow(columns, where)",
        "register_table": "catalog.register(name, uri)",
        "rename_table": "catalog.rename(name, to)",
        "schemas": _SCHEMAS,
        "list_namespaces": _SCHEMAS,
        "sql": "txlog.sql(text, catalog)",
        "table_exists": "catalog.exists(name)",
    },
    "Table": {
        "add_feature": 'table.set_properties({"delta.feature.<name>": "supported"}), or the property that needs it',
        "alter": "table.add_columns(schema), table.alter_column(column), table.set_properties(properties)",
        "begin": "with table.transaction() as txn",
        "checkpoint": "table.create_checkpoint()",
        "cleanup_metadata": "table.clean_up_log()",
        "close": "it without closing: it holds nothing open",
        "columns": "table.schema.names",
        "compact": "table.optimize()",
        "compact_logs": "table.compact_log()",
        "convert_to_deltalake": "Table.convert(uri)",
        "create_if_not_exists": "Table.create(uri, schema, exist_ok=True)",
        "create_tag": "table.tag(name, version)",
        "create_write_transaction": "with table.transaction() as txn: txn.add(files); or txlog.Sink(table, app_id)",
        "current_snapshot": "table.snapshot()",
        "delete_tag": "table.untag(name)",
        "deletion_vectors": 'table.files()["deletionVector"]',
        "describe": "table.set_description(text) to set the description; table.description, .schema, .properties",
        "detail": "table.num_files, .properties, .partition_columns",
        "drop_column": "table.drop_columns(columns)",
        "file_uris": 'table.files()["path"], relative to table.uri',
        "for_name": "Table.open(uri)",
        "for_path": "Table.open(uri)",
        "from_data_catalog": "Table.open(uri)",
        "get_add_actions": "table.files()",
        "insert": "table.append(data)",
        "inspect": "table.files(), table.history()",
        "is_deltatable": "Table.exists(uri)",
        "load_cdf": "table.changes(from_version, to_version), table.changes(from_timestamp=...)",
        "load_as_version": "table.snapshot(version), table.snapshot(timestamp=...)",
        "load_version": "table.snapshot(version)",
        "load_with_datetime": "table.snapshot(timestamp=...)",
        "location": "table.uri",
        "maintenance": "table.optimize(), table.vacuum(), table.maintain()",
        "manage_snapshots": "table.tag(name, version), table.restore(version)",
        "metadata": "table.table_id, .name, .description, .properties, .partition_columns",
        "num_rows": "table.count()",
        "plan_files": "table.snapshot().scan_tasks(columns, where)",
        "refresh": "table.snapshot(), which is always the newest version",
        "refs": "table.tags()",
        "reorg": "table.purge()",
        "read": "table.to_arrow(columns, where)",
        "replace_where": "table.overwrite(rows, where=condition)",
        "restore_to_timestamp": "table.restore(timestamp=...)",
        "restore_to_version": "table.restore(version)",
        "rollback": "table.restore(version)",
        "scan": "table.to_batches(columns, where)",
        "set_comment": "table.set_description(text), table.alter_column(column)",
        "set_table_description": "table.set_description(text)",
        "schema_json": "table.schema",
        "snapshots": "table.history()",
        "sort_order": "table.properties",
        "spec": "table.partition_columns",
        "sql": "duckdb or polars on table.to_dataset()",
        "table_changes": "table.changes(from_version, to_version)",
        "table_config": "table.properties",
        "table_uri": "table.uri",
        "to_dask": "txlog.integrations.dask.read(table, columns, where)",
        "to_df": "table.to_pandas()",
        "to_duckdb": "duckdb.from_arrow(table.to_dataset())",
        "to_pyarrow_dataset": "table.to_dataset()",
        "to_pyarrow_table": "table.to_arrow(columns, where)",
        "to_ray": "txlog.integrations.ray.read(table, columns, where)",
        "truncate": "table.delete(all=True)",
        "update_schema": "table.add_columns(schema), table.alter_column(column), table.drop_columns(columns)",
        "update_incremental": "table.snapshot(), which is always the newest version",
        "write": "table.append(data), table.overwrite(data)",
        "z_order": "table.optimize(zorder_by=columns)",
    },
    "RewriteResult": {
        "execute_compaction": "table.optimize() alone: this is its result",
        "execute_z_order_by": "table.optimize(where, zorder_by=columns); this is the result of a table.optimize()",
        "where": "table.optimize(where); this is the result of a table.optimize() of the whole table",
    },
    "MergeBuilder": {
        "commit": ".execute()",
        "merge": ".execute()",
        "run": ".execute()",
        "values": ".when_not_matched_insert({column: value})",
        "when_matched": ".when_matched_update({column: value}) or .when_matched_delete()",
        "when_matched_insert": ".when_not_matched_insert({column: value})",
        "when_not_matched": ".when_not_matched_insert({column: value})",
        "when_not_matched_by_source": ".when_not_matched_by_source_update({column: value}), or the same with _delete()",
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
        "close": "it without closing: it holds nothing open",
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
        "metadata": "snapshot.table_id, .properties, .partition_columns",
        "num_rows": "snapshot.count()",
        "to_pyarrow_dataset": "snapshot.to_dataset()",
        "to_pyarrow_table": "snapshot.to_arrow(columns, where)",
        "to_pydict": "snapshot.to_arrow().to_pydict()",
        "to_pylist": "snapshot.to_arrow().to_pylist()",
    },
}
"""Other libraries' names by class, and what to use here."""


ON_METHODS = {
    "Table.optimize": {"compact": "table.optimize()", "z_order": "table.optimize(zorder_by=columns)"},
}
"""Other libraries' calls on what is a method here, ``table.optimize.compact()``, and what to use instead."""

SAME_AS = {
    "clusterby": "zorder_by",
    "condition": "where predicate on",
    "configuration": "properties",
    "custommetadata": "user_metadata",
    "endingtimestamp": "to_timestamp",
    "endingversion": "to_version",
    "endversion": "to_version",
    "filter": "where",
    "filters": "where",
    "ifnotexists": "exist_ok",
    "ignoremissingfiles": "allow_missing_files",
    "joincols": "keys",
    "keycolumns": "keys",
    "maxretries": "max_attempts",
    "numretries": "max_attempts",
    "on": "keys",
    "options": "storage_options",
    "partitioncols": "partition_by",
    "partitioncolumns": "partition_by",
    "partitionfilters": "where",
    "path": "uri",
    "predicate": "where on",
    "replacewhere": "where",
    "retries": "max_attempts",
    "savemode": "mode",
    "set": "values updates",
    "startingtimestamp": "from_timestamp",
    "startingversion": "from_version",
    "startversion": "from_version",
    "tableoruri": "uri",
    "tableuri": "uri",
    "target": "version",
    "timestampasof": "timestamp",
    "txnappid": "app_id",
    "txnversion": "checkpoint_id",
    "updates": "values",
    "values": "updates",
    "versionasof": "version",
    "where": "predicate",
    "zorder": "zorder_by",
    "zorderby": "zorder_by",
}
"""Other libraries' arguments, in lower case and without underscores, and their names here, separated by spaces."""

_MERGE = 'schema_mode="merge" adds the columns that the table lacks'
_AS_IT_WAS = "table.snapshot(version) and table.snapshot(timestamp=...) show the table as it was"
_VERSION_AT = "table.snapshot(timestamp=...).version is the version at a time"
INSTEAD = {
    "columnmapping": 'pass properties={"delta.columnMapping.mode": "name"}',
    "commitproperties": "use the arguments user_metadata, app_id and checkpoint_id",
    "enforceretentionduration": "force=True accepts a retention that is shorter than the table's",
    "endingtimestamp": _VERSION_AT,
    "fromtimestamp": _VERSION_AT,
    "full": "a vacuum lists all files unless lite=True",
    "keepversions": "table.tag(name, version) keeps a version readable",
    "description": "table.set_description(text) sets the description; user_metadata is kept in each commit",
    "limit": "table.head(n, columns, where) returns the first rows",
    "mergeengine": "table.upsert(rows, keys, merge_engine=...); Spark's df.write takes upsertKeys and mergeEngine",
    "mergeschema": _MERGE,
    "mode": "table.append(data) adds rows, table.overwrite(data, where) replaces all or some",
    "overwriteschema": 'schema_mode="overwrite" of an overwrite gives the table the columns of the data',
    "newvalues": "use values, or updates in a merge; a string there is SQL, so the string open is written \"'open'\"",
    "name": "a table is identified by its location; user_metadata is kept in each commit",
    "partitionby": "set the partitioning when you create the table: Table.create(uri, schema, partition_by=[...])",
    "protocoldowngradeallowed": "a restore never takes features out of the protocol",
    "startingtimestamp": _VERSION_AT,
    "tag": "table.snapshot(tag=...).version is the version of a name",
    "timestamp": _AS_IT_WAS,
    "timestampasof": _AS_IT_WAS,
    "totimestamp": _VERSION_AT,
    "version": _AS_IT_WAS,
    "versionasof": _AS_IT_WAS,
    "writerproperties": 'use parquet={"parquet.compression": "zstd"}, or table properties of these names',
}
"""Other libraries' arguments without an equivalent in the same call, and what to use instead."""


class WrongCallError(errors.InvalidInputError, TypeError):
    """The library's ``InvalidInputError``, for a call with the wrong arguments. It is a ``TypeError`` too."""

    kind = "InvalidInputError"


class UnknownNameError(errors.InvalidInputError, AttributeError):
    """The library's ``InvalidInputError``, for an attribute of another library. It is an ``AttributeError`` too."""

    kind = "InvalidInputError"


def no_attribute(owner: object, name: str, table: str | None) -> Exception:
    """The error for an attribute that ``owner`` lacks; ``table`` is its URI, if known."""
    is_class = isinstance(owner, type)
    kinds = ["txlog"]
    if not isinstance(owner, ModuleType):
        kinds = [each.__name__ for each in (owner if isinstance(owner, type) else type(owner)).__mro__]
    kind = kinds[0]
    what = kind if kind == "txlog" or is_class else f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"
    hints = {other: use for each in reversed(kinds) for other, use in ELSEWHERE.get(each, {}).items()}
    use = _instead_of(name, owner, hints)
    if use is not None:
        return UnknownNameError(f"{what} has no {name}: use {use}", table=table)
    has = f"type object {kind!r}" if is_class else f"{kind!r} object"
    return AttributeError(f"{has} has no attribute {name!r}", name=name, obj=owner)


def _instead_of(name: str, owner: object, hints: Mapping[str, str]) -> str | None:
    """What to use in place of ``name``, which may also be spelled in camel case (``whenMatchedUpdate``)."""
    if name in hints or name.startswith("_"):
        return hints.get(name)
    folded = _folded(name)
    own = next((f".{each}" for each in dir(owner) if not each.startswith("_") and _folded(each) == folded), None)
    return own or next((hint for each, hint in hints.items() if _folded(each) == folded), None)


class Hinted(type):
    """The metaclass of classes where users try other libraries' names, such as ``Table.is_deltatable(uri)``."""

    if not TYPE_CHECKING:  # a type checker reports a misspelled name

        def __getattr__(cls, name: str) -> NoReturn:
            raise no_attribute(cls, name, None)


def explains_names(owner: Class) -> Class:
    """Decorate a class: for a name that its objects lack, they raise `no_attribute` with the URI of ``_open_table``."""
    owner.__getattr__ = _no_attribute  # type: ignore[attr-defined]  # a type checker still reports a misspelled name
    return owner


def _no_attribute(owner: Any, name: str) -> NoReturn:
    own = getattr(owner, "__dict__", {}) if name != "__dict__" else {}  # which an object of slots lacks
    open_table = own.get("_open_table")  # which classes without a table lack, and objects that fail to begin
    raise no_attribute(owner, name, open_table and open_table.uri)


# --- arguments ------------------------------------------------------------------------------------------------------


def explains_calls(owner: Class) -> Class:
    """Decorate a class: calling it or a public method with wrong arguments raises ``InvalidInputError``."""
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
            raise _wrong_call(function, given, named, str(error)) from None

    for name, use in ON_METHODS.get(function.__qualname__, {}).items():
        setattr(call, name, _refused(f"{function.__qualname__} is a method and has no {name}: use {use}"))
    return cast(Function, call)


def explains_options(options: type) -> Callable[[Function], Function]:
    """Decorate a function whose ``**options`` are the keys of the ``TypedDict`` ``options``, as `explains_call` does.

    ``help`` and ``inspect.signature`` list the keys.
    """
    import inspect

    def decorated(function: Function) -> Function:
        found = inspect.signature(function)
        own = [each for each in found.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        keys = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in options.__annotations__.items()
        ]
        signature = found.replace(parameters=[*own, *keys])

        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            try:
                signature.bind(*given, **named)
            except TypeError as error:
                raise _wrong_call(call, (), named, f"{function.__qualname__}(): {error}") from None
            return function(*given, **named)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Function, call)

    return decorated


def _refused(message: str) -> Callable[..., NoReturn]:
    def refuse(*given: Any, **named: Any) -> NoReturn:
        raise UnknownNameError(message)

    return refuse


def _wrong_call(
    function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], python_says: str
) -> WrongCallError:
    import inspect

    owner, _, method = function.__qualname__.rpartition(".")
    called = owner if method == "__init__" else f"{_heir(owner, given)}.{method}".lstrip(".")
    if method == "__init__" and owner in MADE_BY:
        return WrongCallError(f"Do not call {owner}(): use {MADE_BY[owner]}")
    takes = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    unknown = next((name for name in named if name not in takes), None)
    if unknown is None:
        return WrongCallError(f"{python_says.replace(function.__qualname__, called)}; it takes {', '.join(takes)}")
    return WrongCallError(f"{called}() has no argument {unknown!r}: {_advice(unknown, takes)}")


def _heir(owner: str, given: tuple[Any, ...]) -> str:
    """The class of the object that a method of ``owner`` was called on, which may have inherited it."""
    kind = given[0] if given and isinstance(given[0], type) else type(given[0]) if given else object
    return kind.__name__ if any(each.__name__ == owner for each in kind.__mro__) else owner


def _advice(unknown: str, takes: list[str]) -> str:
    import difflib

    folded = {_folded(name): name for name in takes}
    key = _folded(unknown)
    same = [key, *map(_folded, SAME_AS.get(key, "").split())]
    for known in same:
        if known in folded:
            return f"it is called {folded[known]!r} here"
    for known in same:
        if known in INSTEAD:
            return INSTEAD[known]
    close = difflib.get_close_matches(key, folded, n=1)
    return f"did you mean {folded[close[0]]!r}?" if close else f"it takes {', '.join(takes)}"


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
