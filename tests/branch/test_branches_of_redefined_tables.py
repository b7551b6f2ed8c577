"""Branches whose table gets another definition meanwhile: what is rebased and published, and what is refused by name.
deltalake reads the result as another engine, where it knows the table's features."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog import Table
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.errors import InvalidInputError, MetadataChangedError
from txlog.testing.faults import StoreCall, faulty_table_store

VECTORS = {"delta.enableDeletionVectors": "true"}
WIDENING = {"delta.enableTypeWidening": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
Does = Callable[[Table], Any]


def rows_of(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "day": pa.array([day] * len(ids), pa.string())})


def made(path: Path, properties: dict[str, str] | None = None) -> Table:
    table = Table.create(path / "orders", rows_of(0).schema, properties=properties or {})
    table.append(rows_of(0, 1, 2, 3))
    return table


def sorted_rows(table: Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=repr)


def rows_elsewhere(uri: str) -> list[dict[str, Any]]:
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(uri))
    return sorted(pa.table(builder.execute("select * from t").read_all()).to_pylist(), key=repr)


def row(id_: int, day: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": id_, "day": day, **more}


def _map(table: Table) -> None:
    table.set_properties(MAPPED)


def _rename(table: Table) -> None:
    table.set_properties(MAPPED)
    table.rename_column("day", "date")
    table.append(rows_of(30).rename_columns(["id", "date"]))


def _drop(table: Table) -> None:
    table.set_properties(MAPPED)
    table.drop_columns("day")


def _swap(table: Table) -> None:
    table.set_properties(MAPPED)
    table.rename_column("id", "old")
    table.add_columns("id int")
    table.append(pa.table({"old": pa.array([3], pa.int32()), "day": ["x"], "id": pa.array([1], pa.int32())}))


def _widen(table: Table) -> None:
    table.set_properties(WIDENING)
    table.alter_column("id", type="bigint")
    table.append(pa.table({"id": [2**40], "day": ["w"]}))


BASE = [row(n) for n in range(4)]
FOLLOWED: dict[str, tuple[Does, list[dict[str, Any]]]] = {
    "mapping": (_map, [*BASE, row(20)]),
    "a new name": (_rename, [{"id": n, "date": "a"} for n in (0, 1, 2, 3, 20, 30)]),
    "a dropped column": (_drop, [{"id": n} for n in (0, 1, 2, 3, 20)]),
    "a wider type": (_widen, [*BASE, row(20), row(2**40, "w")]),
    "a change feed": (lambda t: t.set_properties({"delta.enableChangeDataFeed": "true"}), [*BASE, row(20)]),
    "row tracking": (lambda t: t.set_properties({"delta.enableRowTracking": "true"}), [*BASE, row(20)]),
    "deletion vectors": (lambda t: t.set_properties(VECTORS), [*BASE, row(20)]),
    "only appends": (lambda t: t.set_properties({"delta.appendOnly": "true"}), [*BASE, row(20)]),
    "timestamps in commits": (lambda t: t.set_properties({"delta.enableInCommitTimestamps": "true"}), [*BASE, row(20)]),
    "no constraint": (lambda t: t.drop_constraint("positive"), [*BASE, row(20)]),
}


@pytest.mark.parametrize("is_rebased", [False, True], ids=["published", "rebased"])
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_branch_of_appends_follows_its_table_s_definition(name: str, is_rebased: bool, tmp_path: Path) -> None:
    change, wanted = FOLLOWED[name]
    table = made(tmp_path)
    if name == "no constraint":
        table.add_constraint("positive", "id >= 0")
    branch = table.branch("b")
    branch.append(rows_of(20))
    change(table)
    if is_rebased:
        branch.rebase()
        assert sorted_rows(branch) == sorted_rows(Table.open(branch.uri)) == sorted(wanted, key=repr)
        assert branch.snapshot().delta_schema == table.snapshot().delta_schema
        assert branch.verify().is_sound
    branch.publish()
    assert sorted_rows(table) == sorted_rows(Table.open(table.uri)) == sorted(wanted, key=repr)
    assert table.verify().is_sound
    if name == "a wider type":  # deltalake does not know the feature; Spark does, in test_spark_branches
        return
    for each in (table, branch) if is_rebased else (table,):
        assert rows_elsewhere(each.uri) == sorted(wanted, key=repr)


@pytest.mark.parametrize(
    "name", ["a new name", "a wider type", "a change feed", "mapping", "a column of the same name"]
)
@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
def test_deletes_are_done_again_under_the_new_definition(name: str, properties: dict[str, str], tmp_path: Path) -> None:
    table = made(tmp_path, properties)
    branch = table.branch("b")
    branch.delete("id = 3 or id > 1000")
    branch.append(rows_of(20))
    change, wanted = (_swap, None) if name == "a column of the same name" else FOLLOWED[name]
    change(table)
    branch.rebase()
    if wanted is None:
        found = [(each["old"], each["id"]) for each in sorted_rows(branch)]
        assert sorted(found) == [(0, None), (1, None), (2, None), (20, None)]
    else:
        assert sorted_rows(branch) == [each for each in sorted(wanted, key=repr) if each["id"] not in (3, 2**40)]
    before = sorted_rows(branch)
    branch.append(table.to_arrow().slice(0, 0))
    branch.publish()
    assert sorted_rows(table) == before
    assert table.verify().is_sound


def test_a_condition_is_judged_under_the_name_that_the_column_has_by_now(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, **MAPPED})
    branch = table.branch("b")
    branch.delete("id = 3")
    table.rename_column("id", "old")
    table.add_columns("id int")
    table.append(pa.table({"old": pa.array([9], pa.int32()), "day": ["x"], "id": pa.array([3], pa.int32())}))
    branch.publish()
    assert sorted(each["old"] for each in sorted_rows(table)) == [0, 1, 2, 9]
    again = table.branch("c")
    again.delete("old = 9")
    table.rename_column("old", "n")
    table.update({"n": txlog.lit(9)}, "n = 0")  # a row that the branch would have deleted
    with pytest.raises(Exception, match="rebase the branch") as raised:
        again.publish()
    assert type(raised.value).__name__ == "ConcurrentAppendError"


def test_a_branch_with_a_new_name_of_its_own_judges_its_earlier_conditions_by_the_old_one(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, **MAPPED})
    branch = table.branch("b")
    branch.delete("id = 3")
    branch.rename_column("id", "old")
    branch.add_columns("id int")
    table.update({"id": txlog.lit(3)}, "id = 0")
    with pytest.raises(Exception, match="rebase the branch") as raised:
        branch.publish()
    assert type(raised.value).__name__ == "ConcurrentAppendError"


def test_rows_get_ids_that_nobody_else_gives_if_the_table_tracks_rows_by_now(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    branch = table.branch("b")
    branch.append(rows_of(20, 21))
    branch.delete("id = 1")
    table.set_properties({"delta.enableRowTracking": "true"})
    table.append(rows_of(30))
    branch.rebase()
    table.append(rows_of(31))
    branch.append(rows_of(22))
    branch.publish()
    adds = [json.loads(line)["add"] for line in _lines(table, table.version) if line.startswith('{"add"')]
    own = [add for add in adds if add["path"].startswith("_branches/")]
    assert len(own) == 2
    assert all(add["baseRowId"] >= 5 for add in own)
    assert table.verify().is_sound
    assert branch.verify().is_sound
    assert sorted(each["id"] for each in sorted_rows(table)) == [0, 2, 3, 20, 21, 22, 30, 31]


def _lines(table: Table, version: int) -> list[str]:
    return (Path(table.uri) / "_delta_log" / f"{version:020}.json").read_text().splitlines()


def test_the_new_feed_of_a_table_has_the_changes_that_a_branch_made_before(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    branch = table.branch("b")
    branch.delete("id = 3")
    branch.append(rows_of(20))
    table.set_properties({"delta.enableChangeDataFeed": "true"})
    version = branch.publish().version
    assert version is not None
    found = table.changes(version, version).read_all().select(["id", "_change_type"]).to_pylist()
    assert sorted((each["id"], each["_change_type"]) for each in found) == [(3, "delete"), (20, "insert")]


def test_fields_in_structs_are_renamed_dropped_and_widened_too(tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    rows = pa.table({"s": pa.array([{"a": 1, "b": "x"}], kind), "n": pa.array([[1]], pa.list_(pa.int32()))})
    table = Table.create(tmp_path / "orders", rows.schema, properties={**VECTORS, **WIDENING, **MAPPED})
    table.append(rows)
    branch = table.branch("b")
    branch.append(rows)
    branch.delete("s.a = 1 and n[0] = 1")
    branch.append(rows)
    table.rename_column("s.a", "c")
    table.drop_columns("s.b")
    table.alter_column("s.c", type="bigint")
    table.alter_column("n.element", type="bigint")
    table.append(pa.table({"s": pa.array([{"c": 1}]), "n": pa.array([[1]])}))
    branch.rebase()
    assert sorted_rows(branch) == [{"s": {"c": 1}, "n": [1]}]
    branch.publish()
    assert sorted_rows(table) == [{"s": {"c": 1}, "n": [1]}]


@pytest.mark.parametrize("ours", [lambda t: t.append(rows_of(20)), lambda t: t.delete("id = 3")], ids=["add", "del"])
def test_a_publication_is_judged_again_on_a_definition_that_came_first(ours: Does, tmp_path: Path) -> None:
    uri = made(tmp_path, VECTORS).uri
    changes = [_rename]

    def decide(call: StoreCall) -> None:
        if call.operation == "put_if_absent" and changes and is_publishing:
            changes.pop()(Table.open(uri))

    is_publishing = False
    branch = Table(OpenTable(faulty_table_store(open_store(uri), decide))).branch("b")
    ours(branch)
    is_publishing = True
    branch.publish()
    assert not changes
    assert {each["id"] for each in sorted_rows(Table.open(uri))} in ({0, 1, 2, 3, 20, 30}, {0, 1, 2, 30})


def test_a_rebase_carries_the_features_of_its_table(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(20))
    table.add_constraint("small", "id < 50")
    branch.rebase()
    assert branch.snapshot().protocol.min_writer_version == 3  # constraints are of it


REFUSED: dict[str, tuple[dict[str, str], Does, Does, str]] = {
    "row tracking under copied rows": (
        {},
        lambda t: t.update({"day": txlog.lit("u")}, "id = 1"),
        lambda t: t.set_properties({"delta.enableRowTracking": "true"}),
        "turned on row tracking: rows that the branch changed or copied before would lose their row ids",
    ),
    "another type": (
        {},
        lambda t: t.append(rows_of(20)),
        lambda t: t.overwrite(pa.table({"id": ["x"], "day": ["y"]}), schema_mode="overwrite"),
        "changed the type of the column id from int to string",
    ),
    "a column that files still have": (
        {},
        lambda t: t.append(rows_of(20)),
        lambda t: t.overwrite(pa.table({"day": ["y"]}), schema_mode="overwrite"),
        "removed the column id without column mapping",
    ),
    "another partitioning": (
        {},
        lambda t: t.append(rows_of(20)),
        lambda t: t.overwrite(rows_of(1), schema_mode="overwrite", partition_by=["day"]),
        "partitioned the table by other columns",
    ),
    "only appends": (
        VECTORS,
        lambda t: t.delete("id = 1"),
        lambda t: t.set_properties({"delta.appendOnly": "true"}),
        "allows only appends to the table",
    ),
    "no vectors": (
        VECTORS,
        lambda t: t.delete("id = 1"),
        lambda t: t.set_properties({"delta.enableDeletionVectors": "false"}),
        "turned off deletion vectors, and the branch has some",
    ),
    "both": (
        {},
        lambda t: (t.add_columns("extra int"), t.append(rows_of(20))),
        lambda t: t.set_properties(MAPPED),
        "changed the table's definition, as the branch does",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_branch_does_not_follow_is_refused_by_name(name: str, tmp_path: Path) -> None:
    properties, ours, theirs, text = REFUSED[name]
    table = made(tmp_path, properties)
    branch = table.branch("b")
    ours(branch)
    theirs(table)
    before = table.version, branch.version
    for call in (branch.rebase, branch.publish):
        with pytest.raises(MetadataChangedError, match=text):
            call()
    assert (table.version, branch.version) == before


def test_a_column_that_may_not_be_null_any_more_is_checked_in_the_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(pa.table({"id": pa.array([20, None], pa.int32()), "day": ["a", "a"]}))
    table.alter_column("id", nullable=False)
    with pytest.raises(MetadataChangedError, match="made the column id NOT NULL"):
        branch.publish()
    with pytest.raises(InvalidInputError, match="new constraint `id` IS NOT NULL: 1 fail"):
        branch.rebase()
    branch.delete("id is null")
    branch.rebase()
    branch.publish()
    assert sorted(each["id"] for each in sorted_rows(table)) == [0, 1, 2, 3, 20]


def test_a_check_reads_the_table_s_constraints_under_its_own_names(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(20, 70))
    table.set_properties(MAPPED)
    table.rename_column("id", "n")
    table.add_constraint("small", "n < 50")
    found = branch.check("id <> 20")
    assert [(each.check, each.num_rows) for each in found.failures] == [("n < 50", 1), ("id <> 20", 1)]
    with pytest.raises(InvalidInputError, match=r"new constraint n < 50: 1 fail, such as \{'n': 70"):
        branch.rebase()


def test_a_constraint_is_not_forgotten_with_the_commits_before_it(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(70))
    table.add_constraint("small", "id < 50")
    table.create_checkpoint()
    for version in range(3):
        if version < table.version:
            (Path(table.uri) / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(MetadataChangedError, match="added the constraint id < 50"):
        Table.open(branch.uri).publish()
