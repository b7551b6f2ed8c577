"""Row changes inside ``with table.transaction()``: several, in order, on rows of their own too, as one version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.changes.tasks import FileReader
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.errors import InvalidInputError

VECTORS = {"delta.enableDeletionVectors": "true"}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def rows(*given: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [row[0] for row in given], "v": [row[1] for row in given]}, SCHEMA)


def made(tmp_path: Path, properties: dict[str, str]) -> txlog.Table:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, (), properties)
    table.append(rows((1, 10), (2, 20), (3, 30), (4, 40)))
    return table


def found(table: txlog.Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in table.snapshot().to_arrow().to_pylist())


def files_of(table: txlog.Table) -> int:
    return sum(1 for path in Path(table.uri).iterdir() if path.is_file())


@MODES
def test_several_changes_make_one_version_and_see_each_other(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    with table.transaction() as txn:
        txn.append(rows((5, 50), (6, 60)))
        txn.delete("id in (1, 5)")
        txn.upsert(rows((2, 21), (7, 70)), ["id"])
        txn.update({"v": txlog.expr("v + 1")}, "id >= 6 or id = 2")
        txn.delete("v = 71")
    assert found(table) == [(2, 22), (3, 30), (4, 40), (6, 61)]
    assert txn.result.version == 2
    did = txn.result.metrics
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted) == (1, 4, 3)
    assert verify_table(table._open_table.store).is_sound
    log = Path(table.uri) / "_delta_log" / f"{2:020}.json"
    paths = [line["remove"]["path"] for line in map(orjson.loads, log.read_bytes().splitlines()) if "remove" in line]
    assert len(paths) == len(set(paths)) == 1, "one pair of actions for each file of the table"


@MODES
def test_changes_that_are_aborted_leave_neither_version_nor_file(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    before = files_of(table)

    def aborted() -> None:
        with table.transaction() as txn:
            txn.delete("id = 1")
            txn.upsert(rows((2, 21)), ["id"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        aborted()
    assert (found(table)[0], table.snapshot().version, files_of(table)) == ((1, 10), 1, before)


@MODES
def test_a_merge_is_a_part_of_the_transaction(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    with table.transaction() as txn:
        txn.append(rows((5, 50)))
        builder = txn.merge(rows((1, 0), (5, 1), (9, 9)), "t.id = s.id", source_alias="s", target_alias="t")
        builder.when_matched_delete("s.v = 0").when_matched_update_all().when_not_matched_insert_all().execute()
        txn.merge(rows((2, 0)), ["id"]).when_matched_delete()  # never executed
        txn.delete("id = 3")
    assert found(table) == [(2, 20), (4, 40), (5, 1), (9, 9)]
    did = txn.result.metrics
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted, table.version) == (1, 1, 2, 2)
    with pytest.raises(InvalidInputError, match="with block"):
        builder.execute()
    with pytest.raises(InvalidInputError, match="without a clause"), table.transaction() as txn:
        txn.merge(rows((1, 0)), ["id"]).execute()


CALLS: list[Callable[[Any], object]] = [
    lambda it: it.delete("id = 1"),
    lambda it: it.update({"v": 0}, "id = 1"),
    lambda it: it.upsert(rows((1, 0)), ["id"]),
    lambda it: it.merge(rows((1, 0), (9, 0)), ["id"]).when_matched_update_all().when_not_matched_insert_all().execute(),
    lambda it: it.overwrite(rows((1, 0)), "id = 1"),
    lambda it: it.overwrite(rows((1, 0))),
]


@MODES
@pytest.mark.parametrize("call", CALLS)
def test_a_change_that_fails_before_its_commit_leaves_no_file(
    tmp_path: Path, properties: dict[str, str], call: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, properties)
    before = files_of(table)

    def broken(*arguments: Any, **named: Any) -> None:
        raise OSError("the machine is on fire")

    monkeypatch.setattr(ProposalBuilder, "build", broken)
    with pytest.raises(OSError, match="on fire"):
        call(table)
    assert (table.snapshot().version, files_of(table)) == (1, before)


@pytest.mark.parametrize("call", CALLS)
def test_inside_a_transaction_a_change_conflicts_by_deltas_rules(tmp_path: Path, call: Callable[[Any], object]) -> None:
    table, other = made(tmp_path, VECTORS), txlog.Table.open(str(tmp_path / "t"))

    def raced() -> None:
        with table.transaction() as txn:
            call(txn)
            other.delete("id = 2")

    with pytest.raises(txlog.ConflictError):
        raced()
    assert found(table) == [(1, 10), (3, 30), (4, 40)]


def test_a_transaction_that_only_moves_rows_refuses_to_change_them(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    with pytest.raises(InvalidInputError, match="data_change"), table.transaction(data_change=False) as txn:
        txn.delete("id = 1")
    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(InvalidInputError, match="append-only"), table.transaction() as txn:
        txn.delete("id = 1")


def test_a_look_up_that_fails_waits_for_the_source_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, VECTORS)
    before = files_of(table)

    def broken(*arguments: Any, **named: Any) -> None:
        raise OSError("the machine is on fire")

    monkeypatch.setattr(FileReader, "whole", broken)
    with pytest.raises(OSError, match="on fire"):
        table.upsert(rows((1, 0), (9, 0)), ["id"])
    assert (table.snapshot().version, files_of(table)) == (1, before)
