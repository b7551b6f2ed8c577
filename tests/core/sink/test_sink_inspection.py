"""What an operator sees of a table's applications and their staging, and what a cleaning removes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.core.sink._inspection import applications, clean_staging, staged_states
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.result import in_milliseconds

SCHEMA = pa.schema([("id", pa.int64())])
HOUR_MS = 3_600_000


def staged(sink: txlog.Sink, checkpoint_id: int, tasks: int = 1) -> None:
    for task_id in range(tasks):
        with sink.task(checkpoint_id, task_id) as task:
            task.write(pa.table({"id": [checkpoint_id, task_id]}, schema=SCHEMA))
        sink.stage(task.committable)


def sealed(sink: txlog.Sink, checkpoint_id: int, tasks: int = 1) -> None:
    staged(sink, checkpoint_id, tasks)
    sink.prepare(checkpoint_id, range(tasks))


def aged(table: txlog.Table, hours: float) -> None:
    for path in Path(table.uri, "_txlog").rglob("*"):
        then_s = path.stat().st_mtime - hours * 3600
        os.utime(path, (then_s, then_s))


def states(table: txlog.Table) -> dict[tuple[str | None, int], str]:
    return {(each.app_id, each.checkpoint_id): each.state for each in staged_states(open_table_of(table))}


def open_table_of(table: txlog.Table) -> OpenTable:
    return OpenTable(open_store(table.uri))


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=SCHEMA)


def test_applications_are_listed_with_their_last_checkpoint(table: txlog.Table) -> None:
    for checkpoint_id in (3, 4):
        table.append(pa.table({"id": range(checkpoint_id)}, schema=SCHEMA), app_id="b", checkpoint_id=checkpoint_id)
    with table.transaction() as transaction:
        transaction.append(pa.table({"id": [1]}, schema=SCHEMA))
        transaction.set_transaction("a/ü", 2**63 - 1)
        transaction.set_transaction("c", 0)
    found = [(each.app_id, each.checkpoint_id, each.version, each.rows) for each in applications(open_table_of(table))]
    assert found == [("a/ü", 2**63 - 1, 3, 1), ("b", 4, 2, 4), ("c", 0, 3, 1)]
    info = table.history(1)[0]
    assert abs((applications(open_table_of(table))[0].updated_ms or 0) - in_milliseconds(info["timestamp"])) < 10_000


def test_values_that_the_log_no_longer_has_are_none(table: txlog.Table) -> None:
    table.append(pa.table({"id": [1]}, schema=SCHEMA), app_id="a", checkpoint_id=1)
    deltalake.write_deltalake(
        table.uri,
        pa.table({"id": [2]}, schema=SCHEMA),
        mode="append",
        commit_properties=deltalake.CommitProperties(app_transactions=[deltalake.Transaction("theirs", 5)]),
    )
    txlog.Table.open(table.uri).create_checkpoint()
    for version in (0, 1):
        Path(table.uri, "_delta_log", f"{version:020}.json").unlink()
    found = {each.app_id: (each.checkpoint_id, each.version) for each in applications(open_table_of(table))}
    assert found == {"a": (1, None), "theirs": (5, 2)}


def test_a_table_without_applications_has_none(table: txlog.Table) -> None:
    assert applications(open_table_of(table)) == []
    assert staged_states(open_table_of(table)) == []


def test_each_staged_checkpoint_has_a_state(table: txlog.Table, tmp_path: Path) -> None:
    sink = txlog.Sink(table, "app/ü")
    staged(sink, 1)
    sealed(sink, 2, tasks=3)
    shutil.copytree(Path(table.uri, "_txlog"), tmp_path / "before")
    sink.commit(2)
    shutil.copytree(tmp_path / "before", Path(table.uri, "_txlog"), dirs_exist_ok=True)
    sealed(sink, 3, tasks=2)
    staged(sink, 4)
    staged(txlog.Sink(table, "another"), 9)
    assert states(table) == {
        ("another", 9): "partial",
        ("app/ü", 1): "stale",
        ("app/ü", 2): "passed",
        ("app/ü", 3): "sealed",
        ("app/ü", 4): "partial",
    }
    third = staged_states(open_table_of(table))[3]
    assert (third.tasks, third.rows, third.files) == (2, 4, 2)

    aged(table, 5)
    assert clean_staging(open_table_of(table), 6 * HOUR_MS) == []
    would = clean_staging(open_table_of(table), 4 * HOUR_MS, dry_run=True)
    assert len(states(table)) == 5
    assert clean_staging(open_table_of(table), 4 * HOUR_MS) == would
    assert states(table) == {("app/ü", 3): "sealed"}
    assert list(txlog.Sink(table, "app/ü").recover().results) == [3]


def test_a_sealed_checkpoint_that_was_overtaken_is_never_cleaned(table: txlog.Table) -> None:
    """Its rows are nowhere else."""
    sealed(txlog.Sink(table, "app"), 1)
    table.append(pa.table({"id": [5]}, schema=SCHEMA), app_id="app", checkpoint_id=5)
    aged(table, 1000)
    assert states(table) == {("app", 1): "passed"}
    assert clean_staging(open_table_of(table), HOUR_MS) == []
    assert len(states(table)) == 1


def test_unreadable_staging_is_listed_and_unreadable_seals_are_kept(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app")
    sealed(sink, 1)
    staged(sink, 2)
    for path in Path(table.uri, "_txlog", "staging").iterdir():
        path.write_bytes(b"damaged")
    aged(table, 5)
    assert states(table) == {(None, 1): "sealed", (None, 2): "partial"}
    assert [each.checkpoint_id for each in clean_staging(open_table_of(table), HOUR_MS)] == [2]


@pytest.mark.parametrize("older_than_ms", [0, -1, HOUR_MS - 1])
def test_staging_that_may_be_in_use_is_not_cleaned(older_than_ms: Any, table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="one hour"):
        clean_staging(open_table_of(table), older_than_ms)
