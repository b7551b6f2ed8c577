"""Methods and arguments that other libraries have: the error gives the call that works here."""

from __future__ import annotations

import inspect
import pickle

import pyarrow as pa
import pyarrow.csv
import pytest
from small_table import rows_of

import txlog
from txlog.core.util._names_elsewhere import ELSEWHERE
from txlog.table import Table

ADVICE = [
    "Table.exists(uri)",
    "Table.open(uri)",
    "table.compact_log()",
    "table.set_description(text)",
    "table.schema.names",
    "table.uri",
    "table.snapshot(timestamp=...)",
    'table.transaction_version("app")',
    'table.files()["partitionValues"]',
    "table.snapshot(), which is always the newest version",
    "Table.convert(uri)",
    "table.add_columns(schema)",
    "table.set_properties(properties)",
    "table.clean_up_log()",
    "table.create_checkpoint()",
    "table.snapshot(version)",
    "table.table_id",
    "table.files()",
    'table.files()["path"]',
    "table.partition_columns",
    "table.properties",
    "table.protocol",
    "table.schema",
    "table.schema.names",
    "table.count()",
    "table.to_dataset()",
    "table.to_arrow(columns, where)",
    "table.version",
    "table.to_pandas()",
    "table.to_batches(columns, where)",
    "table.append(data)",
    "table.overwrite(data)",
    "table.drop_columns(columns)",
    "Table.create(uri, schema, exist_ok=True)",
    "snapshot.schema.names",
    "snapshot.table_id",
    "snapshot.count()",
    "snapshot.to_dataset()",
    "snapshot.to_arrow().to_pydict()",
    "snapshot.to_arrow().to_pylist()",
    "table.to_arrow().to_pydict()",
    "table.to_arrow().to_pylist()",
    "pyarrow.csv.write_csv(table.to_arrow(), path)",
    "pyarrow.csv.write_csv(snapshot.to_arrow(), path)",
    "print(table.head(20).to_pandas())",
    'txlog.Table.open("URI@NAME").discard()',
    "snapshot.to_arrow(columns, where)",
    "snapshot.to_batches(columns, where)",
    "table.changes(from_version, to_version)",
    "table.num_files",
    "table.delete(all=True)",
    "table.overwrite(rows, where=condition)",
    "table.tag(name, version)",
    "table.optimize()",
    "table.optimize(zorder_by=columns)",
    "table.purge()",
    "table.restore(version)",
    "table.restore(timestamp=...)",
    "table.verify()",
    "table.uri",
    "table.history()",
    "table.tags()",
    "table.to_arrow()",
    "table.to_lazy().sink_parquet(path)",
    "snapshot.to_lazy().sink_parquet(path)",
    "table.branch(name)",
    "table.branches()",
    "table.verify(keys=columns)",
    "table.to_arrow(columns)",
    "table.to_arrow(where=condition)",
    "table.snapshot()",
]


ADVICE_WITHOUT_CALL = ("add_feature", "begin", "close", "create_write_transaction", "delete_tag", "to_dask", "to_ray")


@pytest.mark.parametrize("advice", ADVICE)
def test_the_call_that_an_error_advises_works(advice: str, table: Table) -> None:
    table.set_properties({"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"})
    table.append(rows_of(1))
    versions = {"from_version": table.version, "to_version": table.version}
    given = {**versions, "columns": ["id"], "where": "id = 1", "version": 1, "properties": {"a": "b"}}
    given |= {"name": "a", "condition": "id < 9", "text": "orders"}
    names = {"schema": pa.schema([("new", pa.int8())]), "data": rows_of(2), "rows": rows_of(3), **given}
    code = advice.partition(", which")[0].partition(" and ")[0].replace("timestamp=...", "timestamp='2999-01-01'")
    uri = table.uri + "-new" if code.startswith("Table.create") else table.uri
    if "URI@NAME" in code:
        code = code.replace("URI@NAME", table.branch("staged").uri)
    names |= {"txlog": txlog, "pyarrow": pa, "path": f"{table.uri}/../file"}
    eval(code, {"Table": Table, "table": table, "snapshot": table.snapshot(), "uri": uri, **names})


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in ("Table", "Snapshot") for name in ELSEWHERE[kind] if name not in ADVICE_WITHOUT_CALL],
)
def test_a_name_of_another_library_is_answered_with_a_call_that_works(kind: str, name: str, table: Table) -> None:
    owner = table if kind == "Table" else table.snapshot()
    with pytest.raises(txlog.InvalidInputError, match=f"a {kind} has no {name}: use ") as caught:
        getattr(owner, name)
    assert any(advice in caught.value.message for advice in ADVICE)
    assert not hasattr(owner, name)
    assert not hasattr(type(owner), name)


def test_a_misspelled_name_is_an_attribute_error_like_any_other(table: Table) -> None:
    with pytest.raises(AttributeError, match="'Table' object has no attribute 'apend'") as caught:
        table.apend(rows_of(1))  # type: ignore[attr-defined]
    assert not isinstance(caught.value, txlog.TxlogError)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (
            "txlog.write(table.uri, data, column_mapping='name')",
            "write() has no argument 'column_mapping': pass properties=",
        ),
        ("Table.open(table.uri, version=1)", "Table.open() has no argument 'version': table.snapshot(version) and"),
        ("Table.open(table.uri, options={})", "it is called 'storage_options' here"),
        ("Table.create(table.uri, schema, partitionBy=['id'])", "it is called 'partition_by' here"),
        ("Table.create(table.uri, schema, configuration={})", "it is called 'properties' here"),
        ("txlog.write(table.uri, data, partition_cols=['id'])", "it is called 'partition_by' here"),
        (
            "table.append(data, schemaMode='merge')",
            "Table.append() has no argument 'schemaMode': it is called 'schema_mode'",
        ),
        ("table.append(data, mergeSchema=True)", 'schema_mode="merge" adds the columns'),
        ("table.append(data, mode='overwrite')", "table.overwrite(data, where) replaces all or some"),
        ("table.append(data, partition_by=['id'])", "set the partitioning when you create the table"),
        ("table.append(data, user_meta='x')", "did you mean 'user_metadata'?"),
        ("table.append(data, 'merge')", "it takes data, schema_mode, "),
        ("table.append()", "missing 1 required positional argument: 'data'"),
        ("table.snapshot().to_arrow(filter='id = 1')", "it is called 'where' here"),
        ("table.snapshot(colour=1)", "it takes version, timestamp"),
    ],
)
def test_a_call_with_an_argument_of_another_library_is_answered_with_ours(table: Table, call: str, advice: str) -> None:
    names = {"Table": Table, "txlog": txlog, "table": table, "schema": table.schema, "data": rows_of(1)}
    with pytest.raises(txlog.InvalidInputError) as caught:
        eval(call, names)
    assert advice in caught.value.message
    assert isinstance(caught.value, TypeError)
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message
    assert table.version == 0


def test_an_error_of_the_callers_own_code_is_not_taken_for_a_wrong_call(table: Table) -> None:
    def progress() -> None:  # takes no rows, and is called with them
        pass

    with pytest.raises(TypeError, match="progress") as caught:
        table.append(rows_of(1), on_progress=progress)  # type: ignore[arg-type]
    assert not isinstance(caught.value, txlog.TxlogError)
    assert str(inspect.signature(Table.append)).startswith("(self, data: 'object', *, schema_mode: 'SchemaMode'")
