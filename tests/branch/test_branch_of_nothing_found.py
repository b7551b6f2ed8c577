"""Changes on a branch that find no row: what they looked for counts in a publication, and a rebase deletes again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog import Table
from txlog.errors import ConcurrentAppendError

SERIALIZABLE = {"delta.isolationLevel": "Serializable"}


def rows_of(*keys: int, v: str = "x") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([v] * len(keys), pa.string())})


def made(path: Path, properties: dict[str, str] | None = None) -> Table:
    table = Table.create(path / "t", rows_of().schema, properties=properties)
    table.append(rows_of(1))
    return table


def keys(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow()["k"].to_pylist())


def _in_transaction(branch: Table) -> None:
    with branch.transaction() as txn:
        txn.delete("k = 5")


LOOKS: dict[str, Callable[[Table], Any]] = {
    "delete": lambda t: t.delete("k = 5"),
    "delete once": lambda t: t.delete("k = 5", app_id="job", checkpoint_id=1),
    "delete that fails in a race": lambda t: t.delete("k = 5", on_conflict="fail"),
    "delete in a transaction": _in_transaction,
    "delete by SQL": lambda t: txlog.sql(f"DELETE FROM delta.`{t.uri}` WHERE k = 5", "."),
    "update": lambda t: t.update({"v": txlog.lit("u")}, "k = 5"),
    "merge": lambda t: t.merge(rows_of(5), "target.k = source.k").when_matched_update_all().execute(),
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_a_change_looked_for_and_did_not_find_is_a_conflict_if_others_add_it(name: str, tmp_path: Path) -> None:
    table = made(tmp_path, SERIALIZABLE)
    branch = table.branch("b")
    LOOKS[name](branch)
    branch.append(rows_of(5, v="branch"))
    table.append(rows_of(9))
    table.upsert(rows_of(5, v="table"), ["k"])
    with pytest.raises(ConcurrentAppendError):
        branch.publish()
    assert keys(table) == [1, 5, 9]
    if name.startswith("delete"):
        branch.rebase()
        assert branch.snapshot().to_arrow(where="k = 5")["v"].to_pylist() == ["branch"]
        branch.publish()
        assert keys(table) == [1, 5, 9]


def test_a_change_that_found_nothing_lands_beside_other_rows(tmp_path: Path) -> None:
    table = made(tmp_path, SERIALIZABLE)
    branch = table.branch("b")
    for look in LOOKS.values():
        look(branch)
    branch.append(rows_of(5))
    table.append(rows_of(9))
    table.delete("k = 1")
    assert branch.publish().outcome == "committed"
    assert keys(table) == [5, 9]


def test_it_counts_on_a_branch_that_only_moved_rows_too(tmp_path: Path) -> None:
    table = made(tmp_path, SERIALIZABLE)
    table.append(rows_of(2))
    branch = table.branch("b")
    branch.delete("k = 5")
    assert branch.optimize().files_removed == 2
    table.append(rows_of(5))
    with pytest.raises(ConcurrentAppendError):
        branch.publish()


def test_a_change_without_effect_is_recorded_on_branches_alone(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    for each, recorded in ((table, 0), (branch, 1)):
        before = each.version
        each.delete("k = 5", dry_run=True)
        each.upsert(rows_of(), ["k"])
        each.merge(rows_of(), "target.k = source.k").when_matched_delete().execute()
        assert each.version == before
        each.delete("k = 5")
        assert each.version == before + recorded
    assert branch.diff().files_added == 0
    assert branch.publish().outcome == "empty"
