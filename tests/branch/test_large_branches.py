"""Branches that begin with a checkpoint, as those of many files do. deltalake reads them as another engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from txlog import Table
from txlog.errors import NotFoundError, TableExistsError

COLUMNS = "id bigint, day string"
DAYS = ("a", "b %25", "ü/:")


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlog.branch.creation.AS_ACTIONS_MAX", 2)


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": [DAYS[each % 3] for each in ids]})


def made(path: Path, properties: dict[str, str] | None = None) -> Table:
    table = Table.create(path / "the orders", COLUMNS, ["day"], properties)
    table.append(rows_of(*range(6)))
    return table


def ids(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow(columns=["id"])["id"].to_pylist())


def ids_elsewhere(uri: str) -> list[int]:
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(uri))
    return sorted(pa.table(builder.execute("select id from t").read_all())["id"].to_pylist())


def log_of(table: Table) -> set[str]:
    return {path.name for path in (Path(table.uri) / "_delta_log").iterdir() if not path.name.endswith(".crc")}


def file_actions(table: Table, version: int) -> list[dict[str, Any]]:
    lines = (Path(table.uri) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [action for line in lines for key, action in json.loads(line).items() if key in ("add", "remove")]


def test_a_branch_of_many_files_begins_with_a_checkpoint_and_is_read_by_another_engine(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    assert log_of(branch) == {f"{1:020}.json", f"{1:020}.checkpoint.parquet", "_last_checkpoint"}
    assert file_actions(branch, 1) == []
    assert ids(branch) == ids_elsewhere(branch.uri) == [*range(6)]
    assert [each["operation"] for each in branch.history()] == ["CLONE"]
    branch.append(rows_of(10))
    branch.delete("id = 3")
    deltalake.write_deltalake(branch.uri, rows_of(11), mode="append")
    assert branch.diff().files_added > 0
    assert branch.verify().is_sound
    table.append(rows_of(20))
    branch.publish()
    assert ids(table) == ids_elsewhere(table.uri) == [0, 1, 2, 4, 5, 10, 11, 20]
    assert table.verify().is_sound


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_its_files_have_the_names_that_actions_give_them(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpointPolicy": policy,
    }
    table = made(tmp_path, properties)
    before = table.branch("b")
    before.append(rows_of(6, 7, 8))
    before.publish()
    table.delete("id = 4 or id = 7")
    large = table.branch("large")
    monkeypatch.setattr("txlog.branch.creation.AS_ACTIONS_MAX", 100)
    small = table.branch("small")
    assert (large.version, small.version) == (1, 0)
    columns = ["path", "partitionValues", "size", "stats", "deletionVector", "baseRowId", "defaultRowCommitVersion"]
    found = [
        sorted(each.snapshot().files().select(columns).to_pylist(), key=lambda row: row["path"])
        for each in (large, small)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 5
    assert ids(large) == ids(small) == [0, 1, 2, 3, 5, 6, 8]
    assert large.verify().is_sound


def test_a_name_is_used_again_by_the_few_actions_that_differ(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.branch("b").discard()
    table.append(rows_of(9))
    again = table.branch("b")
    (newest,) = (action["path"] for action in file_actions(table, table.version))
    assert [Path(action["path"]).name for action in file_actions(again, again.version)] == [Path(newest).name]
    assert ids(again) == ids_elsewhere(again.uri) == [0, 1, 2, 3, 4, 5, 9]


def test_a_rebase_writes_the_few_actions_that_differ(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableDeletionVectors": "true"})
    branch = table.branch("b")
    branch.append(rows_of(10))
    branch.delete("id = 0")
    table.append(rows_of(9))
    table.delete("id = 3")
    version = branch.rebase().version
    assert version is not None
    assert len(file_actions(branch, version)) < 2 * 3 + 2
    assert ids(branch) == [1, 2, 4, 5, 9, 10]
    branch.publish()
    assert ids(table) == [1, 2, 4, 5, 9, 10]


def test_a_version_before_the_first_does_not_exist(tmp_path: Path) -> None:
    branch = made(tmp_path).branch("b")
    with pytest.raises(NotFoundError):
        branch.snapshot(0)


def test_a_lost_checkpoint_of_a_branch_is_written_again_from_its_table(tmp_path: Path) -> None:
    """As after the death of a process that made the branch: nobody reads a branch that is not whole."""
    table = made(tmp_path)
    branch = table.branch("b")
    for name in (f"{1:020}.checkpoint.parquet", "_last_checkpoint", f"{1:020}.crc"):
        (Path(branch.uri) / "_delta_log" / name).unlink(missing_ok=True)
    table.append(rows_of(9))
    assert table.branches() == []
    assert not Table.exists(f"{table.uri}@b")
    with pytest.raises(TableExistsError, match="a branch 'b' from version 1 already"):
        table.branch("b")
    assert ids(branch) == ids_elsewhere(branch.uri) == [*range(6)]
    assert [each.status for each in table.branches()] == ["open"]
