"""Calls that no careful program makes are refused as InvalidInputError, and leave no version behind.

The text is a lone surrogate: Python holds it, and no file, log or store can.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hostile_log
import pyarrow as pa
import pytest

import txlog
from txlog.core.format.actions import AddFile
from txlog.core.sink._staging import Manifest

LONE = "\ud800"
ROWS = pa.table({"id": [1], "name": ["a"], "day": ["x"]})
SCHEMA_NAME = json.dumps(
    {"type": "struct", "fields": [{"name": LONE, "type": "long", "nullable": True, "metadata": {}}]}
)
SCHEMA_COMMENT = json.dumps(
    {"type": "struct", "fields": [{"name": "q", "type": "long", "nullable": True, "metadata": {"comment": LONE}}]}
)

Call = Callable[[txlog.Table], Any]


def _within(step: Callable[[txlog.table_transaction.Transaction], Any], **options: Any) -> Call:
    def call(table: txlog.Table) -> None:
        with table.transaction(**options) as transaction:
            step(transaction)

    return call


def _add(table: txlog.Table, **changes: Any) -> None:
    """Add the table's own file again, with one field changed."""
    live = table.snapshot().files().to_pylist()[0]
    fields = {"path": live["path"], "partition_values": {"day": "x"}, "size": live["size"], "stats": live["stats"]}
    with table.transaction() as transaction:
        transaction.add(AddFile(modification_time=1, data_change=True, **{**fields, **changes}))


TEXT: dict[str, Call] = {
    "a property": lambda table: table.set_properties({"k": LONE}),
    "a property's key": lambda table: table.set_properties({LONE: "v"}),
    "a property to unset": lambda table: table.unset_properties([LONE]),
    "a property of a new table": lambda table: txlog.Table.create(
        f"{table.uri}/new", ROWS.schema, properties={"a": LONE}
    ),
    "user_metadata": lambda table: table.append(ROWS, user_metadata=LONE),
    "user_metadata of a property": lambda table: table.set_properties({"k": "v"}, user_metadata=LONE),
    "app_id": lambda table: table.append(ROWS, app_id=LONE, checkpoint_id=1),
    "app_id of a sink": lambda table: txlog.Sink(table, app_id=LONE),
    "app_id of a transaction": _within(lambda txn: txn.set_transaction(LONE, 1)),
    "fingerprint": lambda table: table.append(ROWS, app_id="a", checkpoint_id=1, fingerprint=LONE),
    "operation": _within(lambda txn: txn.append(ROWS), operation=LONE),
    "isolation": lambda table: table.transaction(isolation=LONE),
    "a file's path": lambda table: _add(table, path=LONE),
    "a partition value": lambda table: _add(table, partition_values={"day": LONE}),
    "statistics": lambda table: _add(table, stats=LONE),
    "a tag": lambda table: _add(table, tags={"a": LONE}),
    "a path to remove": _within(lambda txn: txn.remove(LONE)),
    "a path to take in": lambda table: table.add_files([f"day=x/{LONE}.parquet"]),
    "a column's name": lambda table: table.add_columns(SCHEMA_NAME),
    "a column's comment": lambda table: table.add_columns(SCHEMA_COMMENT),
    "a new table's column": lambda table: txlog.Table.create(f"{table.uri}/new", SCHEMA_NAME),
    "a partition column": lambda table: txlog.Table.create(f"{table.uri}/new", ROWS.schema, (LONE,)),
    "a column to read": lambda table: table.snapshot().to_arrow([LONE]),
    "a value compared": lambda table: table.snapshot().to_arrow(where=f"name = '{LONE}'"),
    "a partition compared": lambda table: table.snapshot().files(f"day = '{LONE}'"),
    "one of many values": lambda table: table.snapshot().files(f"name in ('a', '{LONE}')"),
    "a prefix": lambda table: table.snapshot().files(f"name like '{LONE}%'"),
    "a column compared": lambda table: table.snapshot().files(f"`{LONE}` = 1"),
    "a read of a transaction": _within(lambda txn: txn.read(f"name = '{LONE}'")),
    "a time": lambda table: table.snapshot(timestamp=LONE),
    "a txn_id": lambda table: table.resolve(LONE, 0),
    "a location": lambda table: txlog.Table.open(LONE),
    "a location that may exist": lambda table: txlog.Table.exists(f"{table.uri}/{LONE}"),
    "a location in a store": lambda table: txlog.Table.open(f"s3://bucket/{LONE}"),
    "a storage option": lambda table: txlog.Table.open("s3://bucket/t", storage_options={"region": LONE}),
    "a storage option's key": lambda table: txlog.Table.open("s3://bucket/t", storage_options={LONE: "x"}),
}

TYPES: dict[str, Call] = {
    "resolve: a number for txn_id": lambda table: table.resolve(3, 1),  # type: ignore[arg-type]
    "resolve: no version": lambda table: table.resolve("x", None),  # type: ignore[arg-type]
    "resolve: a text for version": lambda table: table.resolve("x", "1"),  # type: ignore[arg-type]
    "resolve: a flag for version": lambda table: table.resolve("x", True),
    "resolve: a negative version": lambda table: table.resolve("x", -1),
    "resolve: a version beyond the next": lambda table: table.resolve("x", 2**70),
    "history: a text": lambda table: table.history("x"),  # type: ignore[arg-type]
    "history: a negative number": lambda table: table.history(-1),
    "snapshot: a text": lambda table: table.snapshot("1"),  # type: ignore[arg-type]
    "set_transaction: a number for app_id": _within(lambda txn: txn.set_transaction(1, 1)),
    "set_transaction: a negative version": _within(lambda txn: txn.set_transaction("a", -1)),
    "partition_by: a number": lambda table: txlog.Table.create(f"{table.uri}/new", ROWS.schema, 5),  # type: ignore[arg-type]
    "partition_by: numbers": lambda table: txlog.write(f"{table.uri}/new", ROWS, partition_by=[5]),  # type: ignore[list-item]
    "properties: a list": lambda table: txlog.Table.create(f"{table.uri}/new", ROWS.schema, properties=["a"]),  # type: ignore[arg-type]
    "properties of a write: a list": lambda table: txlog.write(f"{table.uri}/new", ROWS, properties=["a"]),  # type: ignore[arg-type]
    "properties to unset: a number": lambda table: table.unset_properties(5),  # type: ignore[arg-type]
    "files to take in: a number": lambda table: table.add_files(5),  # type: ignore[arg-type]
    "columns: a number": lambda table: table.snapshot().to_arrow(5),  # type: ignore[arg-type]
    "add: a path": _within(lambda txn: txn.add("part-0.parquet")),
    "add: a path that leaves the table": lambda table: _add(table, path="../x"),
    "add: no value for a partition column": lambda table: _add(table, partition_values={}),
    "add: a value for another column": lambda table: _add(table, partition_values={"day": "x", "id": "1"}),
    "add: statistics that are no object": lambda table: _add(table, stats="[]"),
    "remove: a number": _within(lambda txn: txn.remove(1)),
    "data: a class": lambda table: table.append(pa.Table),
    "a committable: text": lambda table: txlog.Committable.from_bytes("x"),  # type: ignore[arg-type]
}


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(ROWS, partition_by=["day"])


@pytest.mark.parametrize("name", [*TEXT, *TYPES])
def test_a_call_with_invalid_arguments_is_refused_and_writes_nothing(table: txlog.Table, name: str) -> None:
    with pytest.raises(txlog.InvalidInputError) as caught:
        {**TEXT, **TYPES}[name](table)
    str(caught.value).encode(errors="backslashreplace")
    assert txlog.Table.open(table.uri).snapshot().version == 0
    assert not txlog.Table.exists(f"{table.uri}/new")


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        (lambda table: table.append(None), "data is None: pass a pyarrow Table"),
        (lambda table: table.append(pa.Table), "data is the class Table, not an instance of it"),
        (lambda table: txlog.Sink(table, None), "Invalid app_id None: expected a non-empty string"),  # type: ignore[arg-type]
        (_within(lambda txn: txn.set_transaction(None, 1)), "Invalid app_id None: expected a non-empty string"),
        (
            _within(lambda txn: txn.remove("day=x/gone.parquet")),
            "the table has no live file day=x/gone.parquet: use paths of txn.snap",
        ),
        (
            lambda table: table.add_files(["s3://b/x.parquet"]),
            "s3://b/x.parquet: this is not the path of a data file below the table",
        ),
        (lambda table: _add(table, partition_values={}), "parquet has values for []"),
        (lambda table: _add(table, size=1), "bytes, but the add action has size 1"),
        (lambda table: _add(table, path="s3://b/x"), "s3://b/x is not relative to the table's root"),
    ],
)
def test_a_refusal_names_what_it_refuses_and_what_to_give_instead(
    table: txlog.Table, call: Call, reported: str
) -> None:
    with pytest.raises(txlog.TxlogError) as caught:
        call(table)
    assert reported in str(caught.value)
    assert "NoneType" not in str(caught.value)


HOSTILE_BODIES = (
    b"", b"[]", b"{}", b'"x"', b"[" * 2000, b'{"files":1}', b'{"files":[1]}', b'{"files":[{"path":1}]}',
    b'{"files":[],"app_id":"a","checkpoint_id":1.5,"job_id":"j","task_id":0,"attempt":0,"table_id":"t","read_version":0}',
    b'{"files":[],"app_id":1,"checkpoint_id":1,"job_id":"j","task_id":0,"attempt":0,"table_id":"t","read_version":0}',
    b'{"files":[],"app_id":null,"checkpoint_id":null,"job_id":"j","task_id":0,"attempt":0,"table_id":"t",'
    b'"read_version":18446744073709551616}',
    b'{"files":[],"surprise":1}',
)  # fmt: skip


@pytest.mark.parametrize("body", HOSTILE_BODIES)
def test_a_committable_with_a_right_checksum_and_wrong_fields_is_refused(body: bytes) -> None:
    checksum = hashlib.sha256(body).hexdigest().encode()
    with pytest.raises(txlog.InvalidInputError, match="not a txlog committable"):
        txlog.Committable.from_bytes(b"txlog-committable 1 " + checksum + b"\n" + body)


@pytest.mark.parametrize("kind", [txlog.Committable, Manifest])
def test_a_format_of_thousands_of_digits_is_no_format(kind: Any) -> None:
    word = {txlog.Committable: b"txlog-committable", Manifest: b"txlog-manifest"}[kind]
    with pytest.raises(txlog.InvalidInputError, match="are not a"):
        kind.from_bytes(word + b" " + b"9" * 5000 + b" x\n{}")


def test_a_forged_committable_is_refused_or_its_commit_can_be_read(tmp_path: Path) -> None:
    """Its checksum is right each time: a program that can write a message can write that."""
    rows = pa.table({"id": [1, 2], "name": ["a", None], "day": [datetime.date(2026, 1, 1)] * 2})
    table = txlog.Table.create(str(tmp_path / "t"), rows.schema, ("day",))
    with txlog.Sink(table, "app").task(checkpoint_id=1) as task:
        task.write(rows)
    head, _, text = task.committable.to_bytes().partition(b"\n")
    kind_and_format, sent = head.rpartition(b" ")[0], json.loads(text)
    log = tmp_path / "t" / "_delta_log"
    before = set(log.iterdir())
    rng, refused = random.Random(4), 0
    for _ in range(250):
        place = rng.choice(list(hostile_log._places(sent)))
        value = rng.choice((*hostile_log.HOSTILE_VALUES, "delete", "rename"))
        body = hostile_log._edited(json.loads(json.dumps(sent)), place, value).encode("utf-8", "surrogatepass")
        checksum = hashlib.sha256(body).hexdigest().encode()
        try:
            committable = txlog.Committable.from_bytes(kind_and_format + b" " + checksum + b"\n" + body)
            txlog.Sink(txlog.Table.open(table.uri), "app").commit(1, [committable])
        except txlog.TxlogError:
            refused += 1
            continue
        assert txlog.Table.open(table.uri).snapshot().to_arrow().num_rows in (0, 2), (place, value)
        for file in set(log.iterdir()) - before:
            file.unlink()
    assert refused > 100


@pytest.mark.parametrize("below", ["", "/sub/table"], ids=["the location", "above the location"])
def test_the_error_for_a_plain_file_in_a_tables_place_says_so(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    location = f"{file}{below}"
    assert not txlog.Table.exists(location)
    with pytest.raises(txlog.TableNotFoundError, match=f"{file} is a file"):
        txlog.Table.open(location)
    with pytest.raises(txlog.StorageError, match=f"{file} is a file"):
        txlog.Table.create(location, ROWS.schema)
    with pytest.raises(txlog.StorageError, match=f"{file} is a file"):
        txlog.write(location, ROWS)
    assert file.read_text() == "x"
