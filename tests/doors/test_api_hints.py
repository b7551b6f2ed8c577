"""What a person tries who knows another library: each is answered with what is meant here, and that works."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
import txlog.spark
from txlog.core.util import _names_elsewhere as names_elsewhere
from txlog.core.util._names_elsewhere import ELSEWHERE, MADE_BY

ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]})
EXTRA = ROWS.append_column("note", pa.array(["x", "y"]))
WITH_BLOCK = "the with block, which commits when it ends, and aborts when an exception leaves it"
TASK_BLOCK = "the with block, which seals the files when it ends, and removes them when an exception leaves it"


def _failing_half_way() -> Iterator[pa.Table]:
    yield ROWS
    raise ZeroDivisionError


def test_each_hint_is_one_line() -> None:
    source = inspect.getsource(names_elsewhere)
    tables = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Dict)]
    hints = [(key, value) for each in tables for key, value in zip(each.keys, each.values, strict=True)]
    assert len(hints) > 150
    assert not [key.value for key, value in hints if not isinstance(value, ast.Dict) and key.lineno != value.end_lineno]


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=ROWS.schema, partition_by=["day"])


@pytest.fixture
def owners(table: txlog.Table, tmp_path: Path) -> Iterator[dict[str, Any]]:
    sink = txlog.Sink(table, "app")
    with table.transaction() as transaction, sink.task(1) as task:
        merge = table.merge(ROWS, ["id"])
        yield {
            "txlog": txlog,
            "Catalog": txlog.Catalog(str(tmp_path)),
            "Table": table,
            "Transaction": transaction,
            "Sink": sink,
            "SinkTask": task,
            "MergeBuilder": merge,
            "Operand": txlog.col("x"),
        }


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in ELSEWHERE
        if kind not in ("Snapshot", "RewriteResult", "SqlResult", "Rows")
        for name in ELSEWHERE[kind]
    ],
)
def test_a_name_of_another_library_raises_an_error_with_the_txlog_name(
    kind: str, name: str, owners: dict[str, Any]
) -> None:
    owner = owners[kind]
    called = "Column" if kind == "Operand" else kind
    with pytest.raises(txlog.InvalidInputError, match=f"{called} has no {name}: use ") as caught:
        owner.__getattr__(name)
    assert isinstance(caught.value, AttributeError)
    assert caught.value.kind == "InvalidInputError"
    is_there = name in getattr(owner, "__dict__", ())  # txlog.spark is, once it was imported
    assert is_there or not hasattr(owner, name)
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message


@pytest.mark.parametrize(
    "kind", ["txlog", "Catalog", "Table", "Transaction", "Sink", "SinkTask", "MergeBuilder", "Operand"]
)
def test_an_unknown_name_is_a_plain_attribute_error(kind: str, owners: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'colour'") as caught:
        _ = owners[kind].colour
    assert not isinstance(caught.value, txlog.TxlogError)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("is_deltatable", "Table.exists(uri)"),
        ("isDeltaTable", "Table.exists(uri)"),
        ("for_path", "Table.open(uri)"),
        ("forPath", "Table.open(uri)"),
        ("createIfNotExists", "Table.create(uri, schema, exist_ok=True)"),
        ("convertToDeltalake", "Table.convert(uri)"),
    ],
)
def test_a_class_method_of_another_library_is_answered_on_the_class(name: str, use: str) -> None:
    with pytest.raises(txlog.InvalidInputError) as caught:
        getattr(txlog.Table, name)
    assert str(caught.value).startswith(f"Table has no {name}: use ")
    assert str(caught.value).endswith(use)
    assert not hasattr(txlog.Table, name)


def test_an_unknown_name_on_the_class_is_a_plain_attribute_error() -> None:
    with pytest.raises(AttributeError, match="type object 'Table' has no attribute 'colour'") as caught:
        _ = txlog.Table.colour  # type: ignore[attr-defined]
    assert not isinstance(caught.value, txlog.TxlogError)


def test_camel_case_is_answered_with_our_spelling(table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"has no whenMatchedUpdateAll: use \.when_matched_update_all$"):
        table.merge(ROWS, ["id"]).whenMatchedUpdateAll()  # type: ignore[attr-defined]
    with pytest.raises(txlog.InvalidInputError, match=r"a Table has no addColumns: use \.add_columns$"):
        table.addColumns("x int")  # type: ignore[attr-defined]


def test_the_hints_for_transactions_work(table: txlog.Table) -> None:
    reported = ELSEWHERE["Transaction"]
    assert reported["commit"] == reported["rollback"] == reported["abort"] == WITH_BLOCK
    with table.transaction() as txn:
        txn.append(ROWS)
    assert (txn.snapshot.version, txn.result.version) == (0, 1)
    with pytest.raises(ZeroDivisionError), table.transaction() as txn:
        txn.append(_failing_half_way())
    assert table.snapshot().version == 1
    where, rows = "day = 'a'", ROWS.slice(0, 1)
    with table.transaction() as txn:
        assert txn.read(where, ["id"]).num_rows == 1
        txn.remove_partitions(where)
        txn.append(rows)
    assert table.snapshot().to_arrow().num_rows == 2


def test_the_hints_for_sinks_work(table: txlog.Table) -> None:
    assert ELSEWHERE["SinkTask"]["close"] == TASK_BLOCK
    sink = txlog.Sink(table, "app")
    with sink.task(1, 0) as task:
        task.write(ROWS)
    sink.stage(task.committable)
    assert sink.prepare(1, [0]) is not None
    assert sink.commit(1).metrics.rows == 2
    with pytest.raises(ZeroDivisionError), sink.task(2, 0) as task:
        task.write(_failing_half_way())
    assert len(list(Path(table.uri).rglob("*.parquet"))) == table.snapshot().num_files


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda table: txlog.write(table_or_uri=table.uri, data=ROWS), "it is called 'uri' here"),  # type: ignore[call-arg]
        (
            lambda table: table.append(ROWS, commit_properties=None),
            "use the arguments user_metadata, app_id",
        ),
        (lambda table: table.append(ROWS, writer_properties=None), "use parquet={"),
        (
            lambda table: table.merge(ROWS, ["id"]).when_matched_update(set={"day": "'c'"}),
            "it is called 'updates' here",
        ),
        (
            lambda table: table.merge(ROWS, ["id"]).when_matched_delete(condition="source.id = 1"),
            "it is called 'predicate' here",
        ),
        (lambda table: table.merge(ROWS, predicate="t.id = s.id"), "it is called 'on' here"),  # type: ignore[call-arg]
        (lambda table: table.upsert(ROWS, on=["id"]), "it is called 'keys' here"),  # type: ignore[call-arg]
        (lambda table: table.merge(source=ROWS, on=["id"], source_alias="s"), "it is called 'data' here"),
        (lambda table: table.append(ROWS, keys=["id"]), "table.upsert(rows, keys) writes by key"),
        (lambda table: table.update(new_values={"day": "c"}), "with txlog.lit('open') for a text"),  # type: ignore[call-arg]
        (lambda table: table.changes(starting_version=1), "it is called 'from_version' here"),  # type: ignore[call-arg]
        (lambda table: table.changes(0, ending_version=1), "it is called 'to_version' here"),
        (lambda table: table.changes(0, ending_timestamp="2026-11-20"), "it is called 'to_timestamp' here"),
        (lambda table: table.follow(0, ending_timestamp="2026-11-20"), "timestamp=...).version is the version"),
        (lambda table: table.changes("2026-11-20"), "table.snapshot(timestamp=...).version is the version at a time"),
        (lambda table: table.restore(datetime(2026, 11, 20)), "timestamp=...).version is the version at a time"),
        (lambda table: table.restore(target=1), "it is called 'version' here"),
        (lambda table: table.restore(tag="x"), "table.snapshot(tag=...).version is the version of a name"),
        (lambda table: table.optimize(z_order=["id"]), "it is called 'zorder_by' here"),
        (lambda table: table.to_pandas(limit=10), "table.head(n, columns, where) returns the first rows"),
        (lambda table: table.optimize(target_file_size="128mb"), "expected a whole number of bytes from 1"),
        (lambda table: table.optimize(cluster_by=["id"]), "it is called 'zorder_by' here"),
        (lambda table: table.vacuum(full=True), "a vacuum lists all files unless lite=True"),
        (lambda table: table.vacuum(keep_versions=[1]), "table.tag(name, version) keeps a version readable"),
        (lambda table: txlog.spark.read(None, path=table.uri), "it is called 'uri' here"),
        (lambda table: txlog.spark.read(None, table.uri, versionAsOf=1), "it is called 'version' here"),
        (lambda table: table.optimize.compact(), "Table.optimize is a method and has no compact: use table.optimize()"),  # type: ignore[attr-defined]
        (lambda table: table.optimize.z_order(["id"]), "use table.optimize(zorder_by=columns)"),  # type: ignore[attr-defined]
        (
            lambda table: table.optimize().executeZOrderBy("id"),  # type: ignore[attr-defined]
            "a RewriteResult has no executeZOrderBy: use table.optimize(where, zorder_by=columns)",
        ),
        (lambda table: table.update(set={"day": "'c'"}), "it is called 'values' here"),
        (lambda table: table.delete(condition="id = 1"), "it is called 'where' here"),
        (lambda table: table.append(ROWS, save_mode="append"), "table.append(data) adds rows"),
        (lambda table: txlog.Table(table.uri, version=1), MADE_BY["Table"]),
        (lambda table: txlog.Table(), MADE_BY["Table"]),  # type: ignore[call-arg]
        (lambda table: txlog.Table(table.uri), MADE_BY["Table"]),
        (lambda table: txlog.Snapshot(version=1), MADE_BY["Snapshot"]),  # type: ignore[call-arg]
        (lambda table: txlog.Transaction(), MADE_BY["Transaction"]),  # type: ignore[call-arg]
        (lambda table: txlog.Sink(table), "missing 1 required positional argument: 'app_id'"),  # type: ignore[call-arg]
        (
            lambda table: txlog.Sink(table, txnAppId="app"),
            "Sink() has no argument 'txnAppId': it is called 'app_id' here",
        ),
        (
            lambda table: txlog.Sink(table.uri, "app"),
            "expected a Table, as Table.open(uri) returns",
        ),
        (lambda table: txlog.Sink(table, "app").task(1, task=3), "did you mean 'task_id'?"),  # type: ignore[call-arg]
        (lambda table: table.publish("backfill"), 'Table.open("LOCATION@BRANCH").publish()'),  # type: ignore[misc]
        (lambda table: table.transaction(level="Serializable"), "it takes isolation, operation"),
        (
            lambda table: table.append(ROWS, on_progress=5),
            "Invalid on_progress 5: expected a function of the name of a step, how much of it is done, and the total",
        ),
        (
            lambda table: txlog.Table.open(table.uri, hooks=txlog.CommitHooks),
            "Invalid hooks the class CommitHooks: expected an instance",
        ),
        (
            lambda table: table.append([ROWS, EXTRA], schema_mode="merge"),
            "the columns of the first one decide which are added",
        ),
    ],
)
def test_a_call_with_wrong_arguments_says_what_to_use(
    call: Callable[[Any], Any], advice: str, table: txlog.Table
) -> None:
    with pytest.raises(txlog.InvalidInputError) as caught:
        call(table)
    assert advice in caught.value.message


def test_a_wrong_argument_of_a_transactions_method_is_explained(table: txlog.Table) -> None:
    with (
        pytest.raises(txlog.InvalidInputError, match=r"Transaction\.append\(\) has no argument 'mode'"),
        table.transaction() as txn,
    ):
        txn.append(ROWS, mode="append")  # type: ignore[call-arg]
    assert table.snapshot().version == 0


def test_hinted_objects_can_be_copied(table: txlog.Table) -> None:
    done = table.optimize()
    assert copy.copy(done) == pickle.loads(pickle.dumps(done)) == done
    assert repr(done) == "RewriteResult(nothing to rewrite)"
    sink = txlog.Sink(table, "app")
    assert repr(copy.copy(sink)) == repr(pickle.loads(pickle.dumps(sink))) == repr(sink)


def test_data_passed_as_the_location_is_shown_by_type_only(tmp_path: Path) -> None:
    for call in (
        lambda: txlog.write(ROWS, str(tmp_path / "t")),  # type: ignore[arg-type]
        lambda: txlog.write(ROWS, tmp_path / "t"),  # type: ignore[arg-type]
    ):
        with pytest.raises(txlog.InvalidInputError) as caught:
            call()
        assert str(caught.value) == "txlog.write(uri, data): pass the location first, then the pyarrow.Table"
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid table location of type pyarrow\.Schema: expected"):
        txlog.Table.create(ROWS.schema, str(tmp_path / "t"))  # type: ignore[arg-type]
    with pytest.raises(txlog.InvalidInputError, match="Invalid table location of type dict: expected a path") as caught:
        txlog.Table.open({"secret_access_key": "hidden"})  # type: ignore[arg-type]
    assert "hidden" not in str(caught.value)


def test_a_task_says_what_it_is_and_runs_once(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    with sink.task(1, 2, 3) as task:
        assert repr(task) == "SinkTask(app_id='app', checkpoint_id=1, task_id=2, attempt=3, open)"
        task.write(ROWS)
    assert repr(task).endswith("attempt=3, sealed)")
    with pytest.raises(txlog.InvalidInputError, match="a higher attempt number"), task:
        pass
    assert sink.commit(1, [task.committable]).metrics.rows == 2
    failed = sink.task(2)
    with pytest.raises(txlog.SchemaMismatchError), failed:
        failed.write(EXTRA)
    assert repr(failed).endswith("attempt=0, aborted)")
