"""Branches that go on after a publication, and names that are used again after the table's definition changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from txlog import Table
from txlog.errors import ConflictError, InvalidInputError

VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow()["id"].to_pylist())


def made(path: Path, properties: dict[str, str] | None = None) -> Table:
    table = Table.create(path / "t", rows_of().schema, properties=properties or {})
    table.append(rows_of(1, 2, 3))
    return table


def test_rows_copied_from_a_file_that_was_published_are_not_doubled_if_others_change_that(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(10, 11, 12))
    branch.publish(keep=True)
    branch.delete("id = 10")  # copies 11 and 12
    table.delete("id = 12")
    with pytest.raises(ConflictError):
        branch.publish()
    assert ids(table) == [1, 2, 3, 10, 11]
    branch.rebase()
    branch.publish()
    assert ids(table) == [1, 2, 3, 11]


def test_a_kept_branch_changes_all_that_is_left_of_a_file_in_which_it_published_a_delete(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    branch = table.branch("b")
    branch.delete("id = 1")
    branch.publish(keep=True)
    branch.update({"id": 20}, "id >= 2")
    branch.publish()
    assert ids(table) == [20, 20]
    assert table.verify().is_sound


def test_the_rows_that_a_rebase_carried_are_read_if_the_branch_has_none_left(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    branch = table.branch("b")
    branch.delete("id > 0")
    table.overwrite(rows_of(4))
    branch.rebase()
    assert ids(branch) == []
    branch.publish()
    assert ids(table) == []


def test_an_empty_branch_is_published_again_without_an_error(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    assert [Table.open(branch.uri).publish().outcome for _ in range(2)] == ["empty", "empty"]
    branch.append(rows_of(4))
    branch.discard()
    with pytest.raises(InvalidInputError, match="was discarded"):
        branch.publish()


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
def test_a_delete_of_only_its_own_rows_is_not_done_again_once_a_kept_branch_was_published(
    properties: dict[str, str], tmp_path: Path
) -> None:
    table = made(tmp_path, properties)
    branch = table.branch("b")
    branch.append(rows_of(7))
    branch.delete("id = 7")
    branch.publish(keep=True)
    assert branch.publish(keep=True).outcome == "already_committed"
    table.append(rows_of(7))
    branch.rebase()
    branch.append(rows_of(8))
    branch.publish()
    assert ids(table) == [1, 2, 3, 7, 8]


def test_a_name_is_used_again_after_the_table_began_to_map_columns(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, n bigint GENERATED ALWAYS AS IDENTITY")
    table.append(rows_of(1, 2))
    table.branch("b").publish()
    table.set_properties(MAPPED)
    table.rename_column("id", "key")
    branch = table.branch("b")
    branch.append(pa.table({"key": [3]}))
    table.rename_column("key", "id")
    branch.publish()
    assert ids(table) == [1, 2, 3]
    numbers = table.to_arrow()["n"].to_pylist()
    assert len({*numbers}) == 3


def test_a_branch_with_identity_columns_is_rebased_on_a_table_that_maps_columns(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, n bigint GENERATED ALWAYS AS IDENTITY")
    branch = table.branch("b")
    branch.append(rows_of(3))
    numbers = branch.to_arrow()["n"].to_pylist()
    table.set_properties(MAPPED)
    table.rename_column("n", "number")
    branch.rebase()
    branch.append(rows_of(4))
    found = sorted(branch.to_arrow()["number"].to_pylist())
    assert found == [numbers[0], numbers[0] + 1]
    branch.publish()
    assert ids(table) == [3, 4]


def test_a_name_is_used_again_after_the_table_began_to_track_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.branch("b").publish()
    table.set_properties({"delta.enableRowTracking": "true"})
    branch = table.branch("b")
    assert branch.verify().is_sound
    branch.update({"id": 20}, "id = 1")
    branch.publish()
    assert ids(table) == [2, 3, 20]
    assert table.verify().is_sound


def test_a_diff_of_a_branch_shows_no_property_that_nobody_set(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    table.append(rows_of(4))
    branch.append(rows_of(5))
    branch.rebase()
    branch.publish(keep=True)
    assert branch.diff(0).properties == ()


def test_a_kept_branch_goes_on_after_it_published_a_definition_of_its_own(tmp_path: Path) -> None:
    table = made(tmp_path, MAPPED)
    branch = table.branch("b")
    branch.rename_column("id", "key")
    branch.publish(keep=True)
    branch.append(pa.table({"key": [4]}))
    branch.publish(keep=True)
    table.append(pa.table({"key": [5]}))
    branch.rebase()
    branch.add_columns("extra int")
    branch.append(pa.table({"key": [6], "extra": pa.array([1], pa.int32())}))
    branch.publish(keep=True)
    assert sorted(table.to_arrow()["key"].to_pylist()) == [*range(1, 7)]
    assert sorted(table.to_arrow()["extra"].to_pylist(), key=str) == [1, *[None] * 5]


@pytest.mark.parametrize("is_published", [False, True])
def test_a_rebase_carries_the_definition_of_the_branch_which_is_published_then(
    is_published: bool, tmp_path: Path
) -> None:
    table = made(tmp_path, MAPPED)
    branch = table.branch("b")
    if is_published:
        branch.append(rows_of(4))
        branch.publish(keep=True)
    branch.add_columns("extra int")
    branch.append(pa.table({"id": [5], "extra": pa.array([1], pa.int32())}))
    for number in (6, 7):
        table.append(rows_of(number))
        branch.rebase()
    branch.publish(keep=True)
    branch.append(pa.table({"id": [8], "extra": pa.array([1], pa.int32())}))
    assert branch.publish().outcome == "committed"
    assert ids(table) == [1, 2, 3, *([4] if is_published else []), 5, 6, 7, 8]
    assert 1 in table.to_arrow()["extra"].to_pylist()


def test_a_condition_on_a_name_that_only_the_branch_has_is_a_conflict_by_name(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.set_properties(MAPPED)
    branch.rename_column("id", "key")
    branch.update({"key": 7}, "key = 1")
    table.set_properties({"delta.enableTypeWidening": "true"})
    table.append(rows_of(5))
    for call in (branch.publish, branch.rebase):
        with pytest.raises(ConflictError):
            call()


def test_rows_that_a_rebase_copied_are_not_doubled_by_the_next_one(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", rows_of().schema)
    for number in (1, 2, 3):
        table.append(rows_of(number))
    branch = table.branch("b")
    branch.delete("id = 3")  # copies no row
    table.optimize()
    branch.rebase()  # copies 1 and 2
    assert ids(branch) == [1, 2]
    table.delete("id = 1")
    with pytest.raises(ConflictError):
        branch.publish()
    branch.rebase()
    assert ids(branch) == [2]
    branch.publish()
    assert ids(table) == [2]


def test_a_kept_branch_follows_what_others_made_of_a_definition_that_it_published(tmp_path: Path) -> None:
    table = made(tmp_path, MAPPED)
    branch = table.branch("b")
    branch.add_columns("extra int")
    branch.publish(keep=True)
    table.rename_column("id", "key")
    branch.append(pa.table({"id": [4], "extra": pa.array([1], pa.int32())}))
    branch.publish(keep=True)
    branch.append(pa.table({"id": [5], "extra": pa.array([1], pa.int32())}))
    branch.rebase()
    assert branch.to_arrow().column_names == ["key", "extra"]
    branch.publish()
    assert sorted(table.to_arrow()["key"].to_pylist()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: table.delete("id = 3"), [1]),
        (lambda table: table.update({"id": 30}, "id = 3"), [1, 30]),
        (lambda table: (table.append(rows_of(2, 4)), table.optimize()), [1, 3, 4]),
        (lambda table: table.overwrite(rows_of(2, 5)), [5]),
    ],
    ids=["deleted", "updated", "moved", "replaced"],
)
def test_without_vectors_a_delete_is_done_again_in_files_that_others_changed(
    change: Callable[[Table], Any], left: list[int], tmp_path: Path
) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(20))
    branch.delete("id = 2")  # copies 1 and 3
    change(table)
    branch.rebase()
    assert ids(branch) == sorted([*left, 20])
    table.append(rows_of(2, 6))
    table.optimize()
    branch.rebase()  # of a branch whose copies a rebase made
    branch.publish()
    assert ids(table) == sorted([*left, 6, 20])
    assert table.verify().is_sound


def test_rows_of_the_table_that_were_copied_together_with_new_ones_are_not_taken_anew(tmp_path: Path) -> None:
    table = made(tmp_path)
    branch = table.branch("b")
    branch.append(rows_of(20, 21))
    branch.delete("id in (2, 20)")
    table.delete("id = 1")
    with pytest.raises(ConflictError, match=r"wrote what it kept of part-.* together with new rows.*make a new branch"):
        branch.rebase()
    assert ids(branch) == [1, 3, 21]
