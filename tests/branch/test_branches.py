"""Branches: what they begin with, what their table gets of them, and when. deltalake reads both as another engine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog import Table
from txlog.cli.app import app
from txlog.errors import (
    ChecksFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConflictError,
    InvalidInputError,
    MetadataChangedError,
    NotFoundError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

VECTORS = {"delta.enableDeletionVectors": "true"}
ROW_IDS = {"delta.enableRowTracking": "true"}


def rows_of(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array([day] * len(ids), pa.string())})


def made(path: Path, properties: dict[str, str] | None = None, ids: range = range(10)) -> Table:
    table = Table.create(path / "orders", rows_of(0).schema, properties=VECTORS if properties is None else properties)
    table.append(rows_of(*ids))
    return table


def ids(table: Table | str) -> list[int]:
    found = Table.open(table) if isinstance(table, str) else table
    return sorted(found.to_arrow(columns=["id"])["id"].to_pylist())


def ids_elsewhere(uri: str) -> list[int]:
    """As deltalake reads them, where it knows the table's features."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(uri))
    return sorted(pa.table(builder.execute("select id from t").read_all())["id"].to_pylist())


def data_files(table: Table) -> set[str]:
    return {str(path.relative_to(table.uri)) for path in Path(table.uri).rglob("*.parquet") if "_log" not in str(path)}


def test_a_branch_begins_with_the_rows_of_its_table_and_copies_none(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    before = data_files(table)
    branch = table.branch("backfill")
    assert ids(branch) == ids_elsewhere(branch.uri) == ids(table) == [*range(10)]
    assert data_files(table) == before
    assert table.version == 1  # nothing of the table changed


def test_what_is_written_to_a_branch_shows_in_its_table_once_it_is_published(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    branch = table.branch("backfill")
    branch.append(rows_of(10, 11))
    table.append(rows_of(20))
    assert ids(table) == [*range(10), 20]
    assert ids(branch) == [*range(12)]
    done = branch.publish()
    assert done.version == table.version == 3
    assert ids(table) == ids_elsewhere(table.uri) == [*range(12), 20]


def test_a_published_file_stays_where_it_is(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    branch = table.branch("b")
    branch.append(rows_of(10))
    before = data_files(table)
    branch.publish()
    assert data_files(table) == before
    assert any(add["path"].startswith("_branches/b/") for add in added(table, 2))


def added(table: Table, version: int) -> list[dict[str, Any]]:
    lines = (Path(table.uri) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [json.loads(line)["add"] for line in lines if '"add"' in line[:8]]


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10))
    first = branch.publish()
    again = Table.open(branch.uri).publish()
    assert (again.outcome, again.version) == ("already_committed", first.version)
    assert table.version == first.version


def test_a_branch_is_opened_by_its_name_wherever_a_location_is_taken(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.branch("b")
    by_name = f"{table.uri}@b"
    txlog.write(by_name, rows_of(10))
    txlog.Sink(Table.open(by_name), "job").once("2026-11-20", rows_of(11))
    assert ids(by_name) == [*range(12)]
    assert Table.open(Path(by_name)).uri == Table.open(by_name).uri == f"{table.uri}/_branches/b"
    assert ids(table) == [*range(10)]


def test_a_name_that_is_no_branch_is_refused_with_those_that_are(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.branch("b")
    with pytest.raises(TableNotFoundError, match=r"'c'; open branches: b. Make one with table\.branch\(name\)"):
        Table.open(f"{table.uri}@c")
    with pytest.raises(UnsupportedFeatureError, match=r"branch\('c'\) makes a branch"):
        Table.create(f"{table.uri}@c", rows_of(0).schema)
    assert not (tmp_path / "orders@c").exists()


def test_a_table_with_an_at_in_its_own_name_is_found_first(tmp_path: Path) -> None:
    mine = Table.create(tmp_path / "me@home", rows_of(0).schema)
    mine.append(rows_of(1))
    assert ids(str(tmp_path / "me@home")) == [1]
    assert Table.open(tmp_path / "me@home").uri == str(tmp_path / "me@home")


@pytest.mark.parametrize("name", ["", "a/b", "-x", "ä", "a@b", 7, "x" * 101])
def test_a_name_that_no_folder_should_have_is_refused(name: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="name of a branch"):
        made(tmp_path).branch(name)


def test_a_branch_of_an_old_version_has_its_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.append(rows_of(10))
    branch = table.branch("old", 1)
    branch.append(rows_of(11))
    assert ids(branch) == [*range(10), 11]
    branch.publish()
    assert ids(table) == [*range(12)]


def test_a_version_whose_files_a_vacuum_may_delete_gets_no_branch(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, "delta.deletedFileRetentionDuration": "interval 0 hours"})
    table.overwrite(rows_of(1))
    time.sleep(0.01)
    with pytest.raises(InvalidInputError, match="version 1 cannot have a branch: 1 of its files"):
        table.branch("old", 1)


def test_a_name_in_use_is_refused_and_one_that_is_done_is_used_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.branch("nightly")
    first.append(rows_of(10))
    with pytest.raises(TableExistsError, match="with versions that are not published"):
        table.branch("nightly")
    first.publish()
    second = table.branch("nightly")
    assert second.uri == first.uri
    second.append(rows_of(11))
    second.publish()
    third = table.branch("nightly")
    third.append(rows_of(12))
    third.discard()
    fourth = table.branch("nightly")
    assert ids(fourth) == ids(table) == ids_of_all(table) == [*range(12)]


def ids_of_all(table: Table) -> list[int]:
    return ids(table.uri)


def test_a_discarded_branch_is_not_published(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10))
    assert branch.discard().version == branch.discard().version == 2
    with pytest.raises(InvalidInputError, match="the branch was discarded"):
        branch.publish()
    assert [each.status for each in table.branches()] == ["discarded"]
    assert ids(table) == [*range(10)]


def test_branches_say_where_they_begin_and_what_became_of_them(tmp_path: Path) -> None:
    table = made(tmp_path)
    for name in ("a", "b", "c"):
        table.branch(name).append(rows_of(10))
    Table.open(f"{table.uri}@b").publish()
    Table.open(f"{table.uri}@c").publish(keep=True)
    found = {
        each.name: (each.status, each.version, each.base_version, each.published_version) for each in table.branches()
    }
    assert found == {"a": ("open", 1, 1, None), "b": ("published", 1, 1, 1), "c": ("open", 2, 1, 2)}


def test_a_branch_that_is_kept_publishes_what_came_later(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10))
    branch.publish(keep=True)
    branch.append(rows_of(11))
    branch.delete("id = 10")
    branch.publish(keep=True)
    assert ids(table) == [*range(10), 11]
    branch.delete("id = 3")
    branch.publish()
    assert ids(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 11]
    assert table.version == 4


def test_a_publication_is_one_commit_of_the_table_and_none_of_the_branch(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10))
    before = table.version, branch.version
    branch.publish()
    assert (Table.open(table.uri).version, Table.open(branch.uri).version) == (before[0] + 1, before[1])
    assert table.branches()[0].status == "published"


def test_a_branch_is_published_once_in_a_table_that_forgets_what_applications_wrote(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.setTransactionRetentionDuration": "interval 1 millisecond"})
    kept, branch = table.branch("kept"), table.branch("b")
    kept.append(rows_of(11))
    kept.publish(keep=True)
    branch.append(rows_of(10))
    branch.publish()
    time.sleep(0.01)
    table.create_checkpoint()
    for name in ("b", "kept"):
        assert Table.open(f"{table.uri}@{name}").publish(keep=True).outcome == "already_committed"
    assert ids(table) == [*range(12)]
    for commit in (Path(table.uri) / "_delta_log").glob("0*[23].json"):
        commit.unlink()
    with pytest.raises(InvalidInputError, match="it is unknown whether this branch was published"):
        Table.open(f"{table.uri}@kept").publish()


def test_a_branch_without_changes_publishes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    assert branch.publish().outcome == "empty"
    assert table.version == 1
    branch = table.branch("b")
    branch.append(rows_of(10))
    branch.delete("id = 10")
    assert branch.publish().outcome == "empty"
    assert table.version == 1


CHANGES: dict[str, Callable[[Table], Any]] = {
    "delete": lambda t: t.delete("id = 3"),
    "delete everything": lambda t: t.delete(all=True),
    "update": lambda t: t.update({"day": txlog.lit("u")}, "id = 4"),
    "upsert": lambda t: t.upsert(rows_of(5, 30, day="u"), keys="id"),
    "overwrite": lambda t: t.overwrite(rows_of(40)),
    "overwrite where": lambda t: t.overwrite(rows_of(41, day="z"), where="day = 'z'"),
    "optimize": lambda t: (t.append(rows_of(50)), t.optimize()),
    "purge": lambda t: (t.delete("id = 7"), t.purge()),
    "several": lambda t: (
        t.append(rows_of(60, 61)),
        t.delete("id = 60 or id = 1"),
        t.update({"id": txlog.expr("id + 100")}, "id = 2"),
    ),
    "restore": lambda t: (t.delete("id = 1"), t.append(rows_of(70)), t.restore(1)),
    "columns": lambda t: (t.add_columns("extra int"), t.append(rows_of(80))),
}


def sorted_rows(table: Table) -> list[Any]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        pytest.param(
            name,
            properties,
            id=f"{name}-{properties}",
            marks=pytest.mark.hunt(part="branches") if (at + place) % 3 and place < 3 else (),
        )
        for at, name in enumerate(CHANGES)
        for place, properties in enumerate([VECTORS, ROW_IDS, {**VECTORS, **ROW_IDS}, {}])
    ],
)
def test_the_table_has_the_branch_s_rows_after_a_publication(
    name: str, properties: dict[str, str], tmp_path: Path
) -> None:
    table = made(tmp_path, properties)
    branch = table.branch("b")
    branch.append(rows_of(20))
    CHANGES[name](branch)
    wanted = sorted_rows(branch)
    branch.publish()
    assert sorted_rows(table) == sorted_rows(Table.open(table.uri)) == wanted
    assert table.verify().is_sound
    if not properties:
        assert ids_elsewhere(table.uri) == ids(table)


def test_row_changes_land_where_nobody_else_changed_the_same_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.delete("id = 3")
    branch.update({"day": txlog.lit("ours")}, "id = 4")
    table.delete("id = 8")
    table.append(rows_of(20))
    branch.publish()
    assert ids(table) == [0, 1, 2, 4, 5, 6, 7, 9, 20]
    assert table.to_arrow(where="id = 4")["day"].to_pylist() == ["ours"]
    assert table.verify().is_sound


def test_an_upsert_on_a_branch_lands_beside_one_of_other_keys(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.upsert(rows_of(2, 3, day="ours"), keys="id")
    table.upsert(rows_of(7, 100, day="theirs"), keys="id")
    branch.publish()
    days = dict(sorted_rows(table))
    assert {n: days[n] for n in (2, 3, 7, 100)} == {2: "ours", 3: "ours", 7: "theirs", 100: "theirs"}
    assert len(sorted_rows(table)) == 11


COLLIDING: dict[str, tuple[Callable[[Table], Any], Callable[[Table], Any], type[ConflictError]]] = {
    "the same row": (
        lambda t: t.update({"day": txlog.lit("ours")}, "id = 4"),
        lambda t: t.delete("id = 4"),
        ConcurrentDeleteDeleteError,
    ),
    "a row that is moved into what was deleted": (
        lambda t: t.delete("id >= 8"),
        lambda t: t.update({"id": txlog.expr("id + 100")}, "id = 4"),
        ConcurrentAppendError,
    ),
    "the same new key": (
        lambda t: t.upsert(rows_of(50), keys="id"),
        lambda t: t.upsert(rows_of(50), keys="id"),
        ConcurrentAppendError,
    ),
    "a file that is gone": (lambda t: t.delete("id = 4"), lambda t: t.overwrite(rows_of(1)), ConflictError),
    "a new constraint": (
        lambda t: t.append(rows_of(10)),
        lambda t: t.add_constraint("small", "id < 10"),
        MetadataChangedError,
    ),
}


@pytest.mark.parametrize("name", COLLIDING)
def test_what_collides_is_named_and_nothing_is_published(name: str, tmp_path: Path) -> None:
    ours, theirs, error = COLLIDING[name]
    table = made(tmp_path)
    branch = table.branch("b")
    ours(branch)
    theirs(table)
    before = table.version, sorted_rows(table)
    with pytest.raises(error, match=r"rebase the branch on the newest version") as raised:
        branch.publish()
    assert raised.value.reasons
    assert raised.value.table == table.uri
    assert (table.version, sorted_rows(table)) == before
    assert [each.status for each in table.branches()] == ["open"]


REBASED: dict[str, tuple[Callable[[Table], Any], Callable[[Table], Any], list[int]]] = {
    "appends": (lambda t: t.append(rows_of(20)), lambda t: t.append(rows_of(30)), [*range(10), 20, 30]),
    "a delete of rows that others added": (
        lambda t: (t.delete("id >= 8"), t.append(rows_of(20))),
        lambda t: (t.append(rows_of(21)), t.update({"id": txlog.expr("id + 100")}, "id = 4")),
        [0, 1, 2, 3, 5, 6, 7, 20],
    ),
    "deletes in one file": (lambda t: t.delete("id = 1"), lambda t: t.delete("id = 2"), [0, 3, 4, 5, 6, 7, 8, 9]),
    "a constraint": (lambda t: t.append(rows_of(20)), lambda t: t.add_constraint("c", "id < 50"), [*range(10), 20]),
    "a column": (
        lambda t: (t.append(rows_of(20)), t.delete("id = 0")),
        lambda t: (t.add_columns("extra int"), t.append(rows_of(30))),
        [*range(1, 10), 20, 30],
    ),
}


@pytest.mark.parametrize("name", REBASED)
def test_a_rebased_branch_has_the_newest_rows_of_its_table_with_its_own_changes(name: str, tmp_path: Path) -> None:
    ours, theirs, wanted = REBASED[name]
    table = made(tmp_path)
    branch = table.branch("b")
    ours(branch)
    theirs(table)
    assert branch.rebase().version == branch.version
    assert ids(branch) == ids(branch.uri) == wanted
    assert table.branches()[0].base_version == table.version
    assert branch.snapshot().delta_schema == table.snapshot().delta_schema
    before = branch.version
    assert branch.rebase().version == before == branch.version
    assert branch.verify().is_sound
    branch.publish()
    assert ids(table) == wanted
    assert table.verify().is_sound


THEIRS: dict[str, tuple[Callable[[Table], Any], list[int]]] = {
    "a compaction": (lambda t: (t.append(rows_of(30)), t.optimize()), [0, 3, 4, 5, 6, 7, 8, 20, 30]),
    "a purge": (lambda t: (t.delete("id = 5"), t.purge()), [0, 3, 4, 6, 7, 8, 20]),
    "a delete of the same row": (lambda t: t.delete("id in (2, 3)"), [0, 4, 5, 6, 7, 8, 20]),
    "an update of the same row": (
        lambda t: t.update({"id": txlog.expr("id + 100")}, "id = 2"),
        [0, 3, 4, 5, 6, 7, 8, 20, 102],
    ),
    "new rows for all": (lambda t: t.overwrite(rows_of(1, 4)), [4, 20]),
}


@pytest.mark.parametrize("name", THEIRS)
def test_deletes_are_done_again_where_others_moved_or_changed_the_same_rows(name: str, tmp_path: Path) -> None:
    theirs, wanted = THEIRS[name]
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(9, 20))
    branch.delete("id in (1, 2) or id = 9")
    theirs(table)
    before = Table.open(branch.uri).version
    branch.rebase()
    assert branch.version > before
    assert ids(branch) == wanted
    branch.publish()
    assert ids(table) == wanted
    assert table.verify().is_sound


def test_a_rebase_names_what_an_update_cannot_be_done_again_for(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.update({"day": txlog.lit("u")}, "id = 4")
    table.update({"id": txlog.lit(4)}, "id = 9")
    before = branch.version, branch.to_arrow()
    with pytest.raises(ConcurrentAppendError, match=r"v2 \(UPDATE\).*make a new branch of the newest version"):
        branch.rebase()
    assert (branch.version, branch.to_arrow()) == (before[0] + 1, before[1])  # one that says that a rebase began


def test_a_rebase_refuses_rows_that_a_new_constraint_forbids(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(20))
    table.add_constraint("small", "id < 15")
    assert [each.check for each in branch.check().failures] == ["id < 15"]
    with pytest.raises(InvalidInputError, match=r"new constraint id < 15: 1 fail, such as .*20"):
        branch.rebase()
    branch.delete("id = 20")
    branch.append(rows_of(14))
    branch.rebase()
    branch.publish()
    assert ids(table) == [*range(10), 14]


def test_a_branch_that_published_and_was_rebased_publishes_only_what_is_new(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10))
    branch.publish(keep=True)
    table.delete("id = 0")
    branch.append(rows_of(11))
    branch.rebase()
    assert ids(branch) == [*range(1, 12)]
    branch.append(rows_of(12))
    branch.publish()
    assert ids(table) == [*range(1, 13)]


def test_what_was_published_after_a_rebase_is_not_published_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10))
    branch.publish(keep=True)
    branch.append(rows_of(11, 12))
    table.append(rows_of(20))
    branch.rebase()
    branch.publish(keep=True)
    table.delete("id = 11")  # it would come back with its file
    branch.append(rows_of(13))
    branch.publish()
    assert ids(table) == [*range(11), 12, 13, 20]


def test_a_delete_that_was_published_is_not_done_again_on_rows_that_others_add_later(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.delete("id = 3")
    branch.publish(keep=True)
    table.append(rows_of(3))
    branch.append(rows_of(20))
    branch.rebase()
    assert ids(branch) == [*range(10), 20]
    branch.publish()
    assert ids(table) == [*range(10), 20]


def test_a_column_that_the_table_got_meanwhile_is_null_in_published_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10))
    table.add_columns("extra int")
    branch.publish()
    assert table.to_arrow(where="id = 10").to_pylist() == [{"id": 10, "day": "a", "extra": None}]


def test_numbers_of_identity_columns_never_meet(tmp_path: Path) -> None:
    columns = "n bigint generated always as identity, id bigint"
    table = Table.create(tmp_path / "t", columns)
    table.append(pa.table({"id": [1, 2]}))
    branch = table.branch("b")
    other = table.branch("c")
    for each in (branch, table, other):
        each.append(pa.table({"id": [3, 4]}))
    branch.publish()
    other.publish()
    table.append(pa.table({"id": [5]}))
    numbers = table.to_arrow()["n"].to_pylist()
    assert len(set(numbers)) == len(numbers) == 9


def test_a_branch_that_needs_more_numbers_draws_them_from_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("numbers", "creation"):
        monkeypatch.setattr(f"txlog.branch.{room}.NUMBERS", 4)
    columns = "n bigint generated always as identity (start with -1 increment by -2), id bigint, day string"
    table = Table.create(tmp_path / "orders", columns)
    branches = [table.branch(name) for name in ("b", "c")]
    for first in (0, 3, 6):
        for number, each in enumerate((table, *branches)):
            each.append(rows_of(*range(first + 10 * number, first + 10 * number + 3)))
    assert sum(each["operation"] == "RESERVE FOR BRANCH" for each in table.history()) > 2
    branches[0].rebase()
    branches[0].append(rows_of(19))
    for each in branches:
        each.publish()
    rows = Table.open(table.uri).to_arrow()
    assert rows.num_rows == 28
    assert len(set(rows["n"].to_pylist())) == 28
    assert table.verify().is_sound


def test_row_ids_of_a_branch_are_its_own_and_stay_when_it_is_published(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, **ROW_IDS})
    branch, other = table.branch("b"), table.branch("c")
    for each in (branch, other, table):
        each.append(rows_of(10, 11))
    own = {add["baseRowId"] for add in added(branch, 1)}
    branch.publish()
    other.publish()
    table.append(rows_of(12))
    assert {add["baseRowId"] for add in added(table, 5)} == own
    first = [add["baseRowId"] for version in range(table.version + 1) for add in added(table, version)]
    assert all(later - earlier >= 2 for earlier, later in zip(sorted(first), sorted(first)[1:], strict=False))
    assert table.verify().is_sound


def test_a_check_shows_each_row_that_fails(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.add_constraint("small", "id < 100")
    branch = table.branch("b")
    branch.append(rows_of(10, 11, 12))
    assert branch.check().passed
    found = branch.check(["id <> 11", "day = 'a'"])
    assert not found.passed
    assert found.num_rows == 3
    assert found.checks == ("id < 100", "id <> 11", "day = 'a'")
    assert [(each.check, each.num_rows, each.rows["id"].to_pylist()) for each in found.failures] == [
        ("id <> 11", 1, [11])
    ]


def test_a_check_looks_at_new_rows_only_and_takes_null_for_a_failure(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(pa.table({"id": pa.array([10, None], pa.int64()), "day": pa.array(["a", "a"])}))
    found = branch.check("id > 5")  # rows of the table are not what is published
    assert [each.rows["id"].to_pylist() for each in found.failures] == [[None]]


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=str)
def test_a_check_leaves_out_rows_that_the_branch_only_copied(properties: dict[str, str], tmp_path: Path) -> None:
    table = made(tmp_path, properties)
    branch = table.branch("b")
    branch.update({"day": txlog.lit("u")}, "id = 4")
    assert branch.check("id > 3").passed
    assert [each.rows["id"].to_pylist() for each in branch.check("id > 4").failures] == [[4]]
    table.append(rows_of(20))
    branch.rebase()
    assert [each.rows["id"].to_pylist() for each in branch.check("id > 4").failures] == [[4]]
    with pytest.raises(InvalidInputError, match="was rebased on version 2"):
        branch.diff()


def test_a_check_that_fits_no_column_is_shown_as_it_was_written(tmp_path: Path) -> None:
    branch = made(tmp_path).branch("b")
    branch.append(rows_of(10))
    with pytest.raises(InvalidInputError, match=r"no column dya: .* \(in 'dya > 1', at line 1, column 1\)"):
        branch.check(["id > 0", "dya > 1"])


def test_a_check_by_a_query_fails_if_it_has_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(3))
    twice = "SELECT id FROM {branch} GROUP BY id HAVING count(*) > 1"
    assert [each.rows["id"].to_pylist() for each in branch.check([twice]).failures] == [[3]]
    more = "SELECT 1 AS n WHERE (SELECT count(*) FROM {branch}) > (SELECT count(*) FROM {table}) + 5"
    assert branch.check(more).passed
    with pytest.raises(InvalidInputError, match="does not read the branch"):
        branch.check("SELECT 1")


def test_an_audit_publishes_what_passes_its_checks_in_one_version(tmp_path: Path) -> None:
    table = made(tmp_path)
    with table.audit("id > 3", user_metadata="by audit") as staged:
        staged.append(rows_of(10))
        staged.append(rows_of(11))
        table.delete("id = 0")
    assert ids(table) == [*range(1, 12)]
    assert table.version == 3
    assert table.history(1)[0]["userMetadata"] == "by audit"
    assert [each.status for each in table.branches()] == ["published"]


def test_an_audit_that_fails_publishes_nothing_and_shows_the_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    failed = table.audit(["id > 3", "id <> 11"], name="nightly")
    with pytest.raises(ChecksFailedError, match=r"id <> 11: 1 row fails.*'id': 11") as raised, failed as staged:
        staged.append(rows_of(10, 11))
    assert raised.value.check.failures[0].rows["id"].to_pylist() == [11]
    with pytest.raises(ZeroDivisionError), table.audit() as staged:
        staged.append(rows_of(12 // (table.version - 1)))
    assert table.version == 1
    assert {each.status for each in table.branches()} == {"discarded"}


def test_an_audit_is_rebased_and_checked_again_if_others_changed_what_it_read(tmp_path: Path) -> None:
    table = made(tmp_path)
    with table.audit() as staged:
        staged.delete("id >= 8")
        table.update({"id": txlog.expr("id + 100")}, "id = 4")
    assert ids(table) == [0, 1, 2, 3, 5, 6, 7]
    with pytest.raises(ConcurrentDeleteDeleteError), table.audit() as staged:
        _ = staged.update({"day": txlog.lit("u")}, "id = 1"), table.delete("id = 1")
    assert ids(table) == [0, 2, 3, 5, 6, 7]
    assert {each.status for each in table.branches()} == {"published", "discarded"}


def test_what_is_no_branch_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    for call in (table.publish, table.discard, table.check, table.diff):
        with pytest.raises(InvalidInputError, match="this table is not a branch"):
            call()
    with pytest.raises(InvalidInputError, match="a branch has no branches"):
        table.branch("b").branch("c")


def test_a_diff_of_a_branch_compares_it_with_what_it_began_with(tmp_path: Path) -> None:
    branch = made(tmp_path).branch("b")
    branch.append(rows_of(10))
    branch.delete("id = 3")
    assert branch.diff().files_added == 1
    kinds = branch.diff_rows().read_all().select(["id", "_change_type"]).to_pylist()
    assert sorted((each["id"], each["_change_type"]) for each in kinds) == [(3, "delete"), (10, "insert")]


def test_a_vacuum_keeps_what_an_open_branch_reads_and_deletes_what_is_left_of_the_others(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, "delta.deletedFileRetentionDuration": "interval 0 hours"})
    opened, gone, published = (table.branch(name) for name in ("opened", "gone", "published"))
    for number, each in enumerate((opened, gone, published)):
        each.append(rows_of(10 + number))
    gone.discard()
    published.publish()
    table.delete("id < 5")
    table.optimize()
    assert table.branches()[1].kept_until is not None
    time.sleep(0.01)
    table.vacuum(force=True)
    opened.vacuum()
    assert ids(opened) == [*range(11)]
    assert ids(table) == [5, 6, 7, 8, 9, 12]
    assert [each.name for each in table.branches()] == ["opened"]
    left = [path for path in (tmp_path / "orders" / "_branches" / "gone").rglob("*") if path.is_file()]
    assert {path.parent.name for path in left} == {"_delta_log"}  # the commit that keeps others from writing to it
    for path in left:
        os.utime(path, (time.time() - 100_000,) * 2)
    table.vacuum(force=True)
    assert not any(path.is_file() for path in (tmp_path / "orders" / "_branches" / "gone").rglob("*"))
    opened.publish()
    assert ids(table) == [5, 6, 7, 8, 9, 10, 12]


@pytest.mark.parametrize("change", ["overwrite", "delete"])
def test_a_vacuum_of_the_table_stands_against_no_publication(change: str, tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    CHANGES[change](branch)
    table.append(rows_of(30))
    table.vacuum()
    wanted = sorted([*ids(branch), 30])
    branch.publish()
    assert ids(table) == wanted


def test_a_forced_vacuum_of_the_table_keeps_what_an_open_branch_reads(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    branch = table.branch("b")
    branch.append(rows_of(10))
    table.overwrite(rows_of(20))
    for lite in (False, True):
        table.vacuum(retention_hours=0, force=True, lite=lite)
    assert ids(branch) == ids_elsewhere(branch.uri) == [*range(11)]
    branch.publish()
    assert ids(table) == [10, 20]


def test_a_forced_vacuum_of_a_branch_keeps_what_its_table_has(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    branch = table.branch("b")
    for more in (10, 11):
        branch.append(rows_of(more))
        branch.publish(keep=True)
    table.delete("id = 11")  # its file may still be read for a week
    branch.overwrite(rows_of(12))
    branch.overwrite(rows_of(13))
    gone = branch.vacuum(retention_hours=0, force=True).paths
    assert len(gone) == 1
    assert ids(table) == ids_elsewhere(table.uri) == [*range(11)]
    assert sorted(table.snapshot(3).to_arrow()["id"].to_pylist()) == [*range(12)]
    assert ids(branch) == [13]


def test_a_vacuum_of_a_branch_by_another_engine_deletes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    branch = table.branch("b")
    branch.append(rows_of(10))
    branch.delete("id = 10 or id = 3")
    branch.append(rows_of(11))
    branch.publish(keep=True)
    branch.overwrite(rows_of(12))
    before = data_files(table)
    for full in (False, True):
        assert deltalake.DeltaTable(branch.uri).vacuum(dry_run=False, full=full) == []
    assert data_files(table) == before


def test_a_vacuum_of_the_table_by_another_engine_leaves_branches_alone(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    branch = table.branch("b")
    branch.append(rows_of(10))
    for full in (False, True):
        vacuumed = deltalake.DeltaTable(table.uri).vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False, full=full
        )
        assert vacuumed == []
    assert ids(branch) == [*range(11)]
    branch.publish()
    for full in (False, True):
        deltalake.DeltaTable(table.uri).vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False, full=full
        )
    assert ids(table) == ids_elsewhere(table.uri) == [*range(11)]


def test_what_is_written_to_a_branch_after_it_ended_is_kept_and_can_be_published(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, "delta.deletedFileRetentionDuration": "interval 0 hours"})
    branch = table.branch("b")
    branch.append(rows_of(10))
    branch.publish()
    branch.append(rows_of(11))
    time.sleep(0.01)
    table.vacuum(force=True)
    assert [each.status for each in table.branches()] == ["open"]
    branch.publish()
    assert ids(table) == [*range(12)]


@pytest.mark.parametrize("ends", ["discard", "publish"])
def test_a_branch_that_is_written_after_it_ended_is_published(ends: str, tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    getattr(branch, ends)()
    branch.append(rows_of(10))
    assert [each.status for each in table.branches()] == ["open"]
    branch.publish()
    assert ids(table) == [*range(11)]


def test_a_branch_of_a_table_that_was_made_anew_is_not_published(tmp_path: Path) -> None:
    import shutil

    table = made(tmp_path)
    table.branch("b").append(rows_of(10))
    shutil.rmtree(tmp_path / "orders" / "_delta_log")
    again = Table.create(tmp_path / "orders", rows_of(0).schema)
    with pytest.raises(InvalidInputError, match="was made of another table"):
        Table.open(f"{again.uri}@b").publish()
    assert ids(again) == []


def test_a_lost_file_of_the_table_is_missed_by_name(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    (gone,) = Path(table.uri).glob("*.parquet")
    gone.unlink()
    with pytest.raises(NotFoundError, match=gone.name):
        branch.to_arrow()


def test_the_change_feed_of_the_table_has_the_net_changes_of_a_publication(tmp_path: Path) -> None:
    table = made(tmp_path, {**VECTORS, "delta.enableChangeDataFeed": "true"}, range(4))
    branch = table.branch("b")
    branch.append(rows_of(5, 6))
    branch.update({"day": txlog.lit("u")}, "id = 2")
    branch.delete("id in (3, 5)")
    wanted = sorted(tuple(row.values()) for row in branch.diff_rows().read_all().to_pylist())
    version = branch.publish().version
    assert version is not None
    rows = table.changes(version, version).read_all().select(["id", "day", "_change_type"]).to_pylist()
    found = sorted(tuple(row.values()) for row in rows)
    assert found == wanted == [(2, "a", "delete"), (2, "u", "insert"), (3, "a", "delete"), (6, "a", "insert")]


def test_sql_makes_lists_rebases_publishes_and_drops_branches(tmp_path: Path) -> None:
    table = made(tmp_path)
    at = f"delta.`{table.uri}`"
    for name in ("b", "c"):
        txlog.sql(f"alter table {at} create branch {name} version as of 1")
        txlog.sql(f"insert into delta.`{table.uri}@{name}` values (10, 'x')")
    table.append(rows_of(20))
    txlog.sql(
        f"alter table {at} rebase branch b; alter table {at} publish branch b keep; alter table {at} drop branch c"
    )
    shown = txlog.sql(f"show branches {at}").read_all().select(["branch", "status", "baseVersion"]).to_pylist()
    assert [tuple(each.values()) for each in shown] == [("b", "open", "2"), ("c", "discarded", "1")]
    assert ids(table) == [*range(11), 20]
    with pytest.raises(
        TableNotFoundError, match=r"'d'; open branches: b. Make one with ALTER TABLE \.\.\. CREATE BRANCH"
    ):
        txlog.sql(f"alter table {at} publish branch d")


def test_a_script_writes_to_a_branch_that_it_makes(tmp_path: Path) -> None:
    catalog = txlog.Catalog(tmp_path)
    made(tmp_path)
    at = f"delta.`{tmp_path}/./orders@b`"
    script = f"alter table delta.`{tmp_path}/orders` create branch b; insert into {at} values (10, 'x')"
    txlog.sql(f"{script}; select * from {at}", catalog)
    assert ids(f"{tmp_path}/orders@b") == [*range(11)]
    other = at.replace("@b", "@c")
    with pytest.raises(TableNotFoundError, match=r"there is no table delta\.`.*@c`.*nothing was run"):
        txlog.sql(f"alter table delta.`{tmp_path}/orders` create branch d; insert into {other} values (1, 'x')")


def test_the_command_line_makes_checks_publishes_and_lists_branches(tmp_path: Path) -> None:
    table = made(tmp_path)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 10, "day": "x"}\n')

    def run(*words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code == code, done.output
        return json.loads(done.output)

    at = f"{table.uri}@b"
    assert run("branch", table.uri, "b", "--version", "1")["version"] == 0
    run("append", at, str(rows))
    found = run("check", at, "--check", "id < 10", code=1)
    assert (found["passed"], found["failures"][0]["rows"]) == (False, [{"id": 10, "day": "x"}])
    shown = CliRunner().invoke(app, ["check", at, "--check", "id < 10"]).output
    assert shown.splitlines()[0] == "id < 10: 1 row fails"
    assert run("check", at)["passed"]
    assert run("rebase", at)["version"] == 1
    assert run("publish", at)["version"] == 2
    assert [(each["name"], each["status"]) for each in run("branches", table.uri)["branches"]] == [("b", "published")]
    run("branch", table.uri, "c")
    assert run("discard", f"{table.uri}@c")["outcome"] == "committed"
    shown = CliRunner().invoke(app, ["check", at, "--check", "id < 10"]).output
    assert "all meet 1 condition" in shown
    told = run("publish", table.uri, code=1)["error"]["message"]
    assert told.endswith("as in URI@NAME, or make one with txlog branch URI NAME")
    assert ids(table) == [*range(11)]


def test_a_rebased_branch_gives_row_ids_above_all_that_it_has(tmp_path: Path) -> None:
    table = made(tmp_path, ROW_IDS)
    branch = table.branch("b")
    branch.append(rows_of(20))
    table.append(rows_of(30))
    branch.rebase()
    assert branch.rebase().version == branch.version
    branch.append(rows_of(21))
    assert branch.verify().is_sound
    branch.publish()
    table.append(rows_of(31))
    assert table.verify().is_sound
    assert ids(table) == [*range(10), 20, 21, 30, 31]
