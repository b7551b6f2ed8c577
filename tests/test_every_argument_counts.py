"""Every keyword argument of a call that writes has an effect, or the call is refused. None is ignored.

An argument has an effect if the commit, the files, the functions that are called or the error differ from those of the
same call without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from write_outcomes import commits_since

import txlog
from txlog.table import Table

ROWS = pa.table({"id": pa.array([1, 4], pa.int64()), "day": ["mon", "mon"]})
MORE = ROWS.append_column("more", pa.array([7, 8], pa.int64()))
TWICE = pa.table({"id": pa.array([1, 1], pa.int64()), "day": ["tue", "mon"]})
MANY = pa.table({"id": pa.array(range(5, 60_000), pa.int64()), "day": ["mon"] * 59_995})
REGION = "id NOT IN (2, 3)"
FEW = "id < unix_seconds(TIMESTAMP '1970-01-01 00:00:05')"
called: list[str] = []
outcomes_without: dict[str, Any] = {}


class Hooks(txlog.CommitHooks):
    def on_commit(self, table: str, result: txlog.WriteResult) -> None:
        called.append("on_commit")


@dataclass(frozen=True, eq=False)
class Given:
    """An argument in a situation in which it can matter: other rows, further arguments, or a rival."""

    value: Any
    rows: Any = None
    beside: dict[str, Any] | None = None
    before: Callable[[Table], object] | None = None
    meanwhile: Callable[[Table], object] | None = None


def changes_what_is_replaced(table: Table) -> None:
    table.update({"day": txlog.expr("'wed'")}, "id = 1")


class Seen(ThreadPoolExecutor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        called.append("submit")
        return super().submit(fn, *args, **kwargs)


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "append": (Table.append, {}),
    "overwrite": (Table.overwrite, {}),
    "overwrite of a region": (Table.overwrite, {"where": REGION}),
    "overwrite of partitions": (Table.overwrite_partitions, {}),
    "delete": (lambda table, rows, **how: table.delete("id = 1", **how), {}),
    "update": (lambda table, rows, **how: table.update({"day": txlog.expr("'fri'")}, "id = 1", **how), {}),
    "upsert": (lambda table, rows, **how: table.upsert(rows, ["id"], **how), {}),
    "merge": (lambda table, rows, **how: _merged(table, rows, how), {}),
    "write to append": (lambda table, rows, **how: txlog.write(table.uri, rows, "append", **how), {}),
    "write to overwrite": (lambda table, rows, **how: txlog.write(table.uri, rows, "overwrite", **how), {}),
    "write of a region": (
        lambda table, rows, **how: txlog.write(table.uri, rows, "overwrite", **how),
        {"where": REGION},
    ),
    "write of partitions": (lambda table, rows, **how: txlog.write(table.uri, rows, "overwrite_partitions", **how), {}),
}
DOCUMENTED = {
    "delete": Table.delete,
    "update": Table.update,
    "upsert": Table.upsert,
    "merge": Table.merge,
    **dict.fromkeys([name for name in CALLS if name.startswith("write")], txlog.write),
}
IDENTITY = {"app_id": "orders", "checkpoint_id": 7}
ARGUMENTS = {
    "all": Given(True),
    "app_id": Given("orders", beside={"checkpoint_id": 7}),
    "checkpoint_id": Given(7, beside={"app_id": "orders"}),
    "fingerprint": Given("offsets", beside=IDENTITY),
    "user_metadata": Given("by hand"),
    "dry_run": Given(value=True),
    "read_version": Given(0, before=changes_what_is_replaced),
    "on_conflict": Given(None, meanwhile=changes_what_is_replaced),
    "column_rules": Given("keep"),
    "row_mode": Given("copy-on-write"),
    "schema_mode": Given("merge", MORE),
    "partition_by": Given(["id"]),
    "cluster_by": Given(["id"]),
    "properties": Given({"delta.appendOnly": "true"}),
    "parquet": Given({"parquet.compression": "gzip"}),
    "target_file_size": Given(1, MANY),
    "on_progress": Given(lambda *numbers: called.append("on_progress")),
    "when_matched": Given("ignore"),
    "when_not_matched": Given("ignore"),
    "update_columns": Given(["id"]),
    "missing_columns": Given("default", ROWS.select(["id"])),
    "on_duplicate": Given("last", TWICE),
    "sequence_by": Given("day", TWICE, beside={"on_duplicate": "last"}),
    "merge_engine": Given("first-row"),
    "row_kind": Given("kind", ROWS.append_column("kind", pa.array(["-D", "+I"]))),
    "row_kinds": Given({"x": "-D"}, ROWS.append_column("kind", pa.array(["x", "+I"])), beside={"row_kind": "kind"}),
    "source_alias": Given("target"),
    "target_alias": Given("source"),
    "storage_options": Given({"nothing": "of value"}),
    "retry": Given("never"),
    "hooks": Given(Hooks()),
    "where": Given(REGION),
    "parameters": Given({"unnamed": 1}),
    "workers": Given(Seen(1)),
    "time_zone": Given("+05:00", before=lambda table: table.add_constraint("few", FEW)),
}


def arguments_of(call: str) -> list[str]:
    parameters = inspect.signature(DOCUMENTED.get(call, CALLS[call][0])).parameters.values()
    named = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY or each.name == "partition_by"]
    # A provider of credentials is for object stores, and a program may pass it whatever its table's location is.
    return [name for name in named if name not in {*CALLS[call][1], "credential_provider"}]


@pytest.mark.parametrize(("call", "name"), [(call, name) for call in CALLS for name in arguments_of(call)])
def test_no_argument_of_a_write_is_ignored(call: str, name: str, tmp_path: Path) -> None:
    given = ARGUMENTS[name]
    value = given.value
    if name == "on_conflict":
        value = "rerun" if "write" in call or call == "append" else "fail"
    if (call, name) == ("delete", "parquet"):  # a vector is no file that is encoded
        given = replace(given, beside={"row_mode": "copy-on-write"})
    # Written once for all arguments in it.
    situation = f"{call} {id(given.rows)} {replace(given, value=None, rows=None)}"
    if situation not in outcomes_without:
        outcomes_without[situation] = outcome_of(tmp_path / "without", call, given, {})
    without = outcomes_without[situation]
    assert outcome_of(tmp_path / "with", call, given, {name: value}) != without, without


@pytest.mark.parametrize("call", CALLS)
def test_the_same_call_twice_has_the_same_outcome(call: str, tmp_path: Path) -> None:
    """Or else the test above could not fail."""
    given = Given(None)
    assert outcome_of(tmp_path / "one", call, given, {}) == outcome_of(tmp_path / "two", call, given, {})


def outcome_of(folder: Path, call: str, given: Given, arguments: dict[str, Any]) -> Any:
    called.clear()
    old = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["mon", "mon", "tue"]})
    properties = {"delta.enableDeletionVectors": "true"}
    txlog.write(folder / "t", old, partition_by=["day"], properties=properties)
    table = Table.open(folder / "t")
    if given.before is not None:
        given.before(Table.open(table.uri))
    first = table.version + 1
    rows: Any = ROWS if given.rows is None else given.rows
    if given.meanwhile is not None:
        rows = pa.RecordBatchReader.from_batches(rows.schema, _beside(table, given.meanwhile, rows))
    write, fixed = CALLS[call]
    error = None
    try:
        write(table, rows, **fixed, **(given.beside or {}), **arguments)
    except Exception as raised:
        error = type(raised).__name__, getattr(raised, "message", str(raised))
    return commits_since(folder / "t", first), sorted(called), error


def _beside(table: Table, rival: Callable[[Table], object], rows: pa.Table) -> Any:
    rival(Table.open(table.uri))
    yield from rows.to_batches()


def _merged(table: Table, rows: Any, how: dict[str, Any]) -> txlog.WriteResult:
    on = "target.id = source.id"
    return table.merge(rows, on, **how).when_matched_update_all().when_not_matched_insert_all().execute()
