"""Files that are gone are taken out of a table, after saying what is lost, and never on a doubtful answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from txlog.audit.verify import verify_table
from txlog.core.store._local_store import LocalFileStore
from txlog.errors import ConflictError, InvalidInputError, NotFoundError, StorageError
from txlog.table import Table
from txlog.testing.faults import StoreCall, with_faults


def of_three_files(tmp_path: Path) -> Table:
    """Files of 3, 2 and 4 rows, in partitions "a b", "a b" and null."""
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    made = Table.create(tmp_path / "t", "id bigint, p string", ["p"], properties)
    for first, count, value in ((0, 3, "a b"), (10, 2, "a b"), (20, 4, None)):
        numbers = range(first, first + count)
        made.append(pa.table({"id": numbers, "p": pa.array([value] * count, pa.string())}))
    return made


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return of_three_files(tmp_path)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


def path_of(table: Table, number: int) -> Path:
    """The data file that begins with this id."""
    [found] = [file["path"] for file in table.snapshot().files(f"id = {number}").to_pylist()]
    [path] = Path(table.uri).rglob(found.rpartition("/")[2])
    return path


def test_a_table_with_all_files_is_left_alone(table: Table) -> None:
    done = table.repair(remove=True)
    assert (done.version, done.files, done.files_checked, table.version) == (None, (), 3, 3)


def test_a_dry_run_says_what_would_be_lost_and_changes_nothing(table: Table) -> None:
    table.delete("id = 21")
    size_bytes = sum(path_of(table, number).stat().st_size for number in (0, 20))
    for number in (0, 20):
        path_of(table, number).unlink()
    found = table.repair()
    assert (found.version, len(found.files), found.rows, found.size_bytes) == (None, 2, 6, size_bytes)
    assert {(each.values["p"], each.files, each.rows) for each in found.partitions} == {("a b", 1, 3), (None, 1, 3)}
    assert table.version == 4
    with pytest.raises(NotFoundError):
        table.to_arrow()


def test_files_that_are_gone_are_removed_and_the_rest_can_be_read(table: Table) -> None:
    gone = path_of(table, 10)
    gone.unlink()
    done = table.repair(remove=True, user_metadata="why")
    assert (done.version, done.rows, len(done.files)) == (4, 2, 1)
    assert ids(table) == [0, 1, 2, 20, 21, 22, 23]
    info = table.history()[0]
    assert (info["operation"], info["userMetadata"]) == ("FSCK", "why")
    assert info["operationMetrics"]["numRemovedFiles"] == "1"
    assert verify_table(table._open_table.store).is_sound
    assert table.repair(remove=True).version is None


def test_deltalake_reads_what_a_repair_left(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    for number in (1, 2):
        table.append(pa.table({"id": [number]}))
    path_of(table, 1).unlink()
    table.repair(remove=True)
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist() == [2]


def test_the_change_feed_continues_across_a_repair(table: Table) -> None:
    path_of(table, 10).unlink()
    version = table.repair(remove=True).version
    assert version is not None
    table.append(pa.table({"id": [50], "p": ["c"]}))
    found = pa.Table.from_batches(table.changes(version)).to_pylist()
    assert [(row["id"], row["_change_type"]) for row in found] == [(50, "insert")]


def test_a_file_whose_vector_is_gone_is_removed_and_named_apart(table: Table) -> None:
    table.delete("id = 21")
    next(Path(table.uri).glob("deletion_vector_*.bin")).unlink()
    found = table.repair()
    assert (found.without_vector, found.rows) == (found.files, 3)
    table.repair(remove=True)
    assert ids(table) == [0, 1, 2, 10, 11]
    assert len([*Path(table.uri).glob("p=*/*.parquet")]) == 3  # the bytes stay until a vacuum


def test_a_table_without_any_file_left_is_not_emptied_by_itself(table: Table) -> None:
    for path in Path(table.uri).glob("p=*/*.parquet"):
        path.unlink()
    assert table.repair().rows == 9
    with pytest.raises(InvalidInputError, match=r"not be mounted here.*allow_empty=True"):
        table.repair(remove=True)
    table.repair(remove=True, allow_empty=True)
    assert ids(table) == []


@pytest.mark.parametrize("call", ["list", "stat"])
def test_nothing_is_removed_if_the_store_fails(table: Table, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path_of(table, 10).unlink()

    def fails(*_: Any, **__: Any) -> Any:
        raise StorageError("the store does not answer")

    monkeypatch.setattr(LocalFileStore, call, fails)
    with pytest.raises(StorageError, match="does not answer"):
        table.repair(remove=True)
    assert Table.open(table.uri).version == 3


def test_a_file_that_only_the_list_lacks_stays(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(*_: Any, **__: Any) -> Iterator[Any]:
        return iter(())

    monkeypatch.setattr(LocalFileStore, "list", empty)
    assert table.repair(remove=True).files == ()


def test_a_file_of_a_clones_source_that_is_gone_is_removed_from_the_clone(table: Table, tmp_path: Path) -> None:
    table.clone(tmp_path / "c", shallow=True)
    clone = Table.open(tmp_path / "c")
    clone.append(pa.table({"id": [7], "p": ["x"]}))
    path_of(table, 10).unlink()
    assert clone.repair().files[0].startswith("file:/")
    clone.repair(remove=True)
    assert ids(clone) == [0, 1, 2, 7, 20, 21, 22, 23]
    with pytest.raises(NotFoundError):
        table.to_arrow()


def overtaken(table: Table, act: Callable[[], object], times: int = 1) -> Table:
    """A handle whose puts come after what others do, so often."""
    left = [times]

    def after_others(put: Callable[..., object], *commit: object) -> object:
        act()
        return put(*commit)

    def step(call: StoreCall) -> Callable[..., object] | None:
        if call.operation != "put_if_absent" or not left[0]:
            return None
        left[0] -= 1
        return after_others

    return with_faults(table, step)


def test_a_repair_looks_again_when_another_commit_removed_the_file(table: Table) -> None:
    for number in (0, 10):
        path_of(table, number).unlink()
    other = Table.open(table.uri)
    [first, _] = other.repair().files

    def removes() -> None:
        with other.transaction() as txn:
            txn.remove(first)

    assert len(overtaken(table, removes).repair(remove=True).files) == 1
    assert ids(table) == [20, 21, 22, 23]


def test_appends_of_others_do_not_disturb_a_repair(table: Table) -> None:
    path_of(table, 10).unlink()
    other = Table.open(table.uri)
    overtaken(table, lambda: other.append(pa.table({"id": [60], "p": ["a b"]}))).repair(remove=True)
    assert ids(table) == [0, 1, 2, 20, 21, 22, 23, 60]


def test_a_conflict_that_does_not_end_is_raised(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, p bigint", ["p"])
    table.append(pa.table({"id": range(12), "p": range(12)}))
    other, left = Table.open(table.uri), table.files()["path"].to_pylist()[1:]
    for path in left:
        (tmp_path / "t" / path).unlink()

    def removes() -> None:
        with other.transaction() as txn:
            txn.remove(left.pop())

    with pytest.raises(ConflictError):
        overtaken(table, removes, times=len(left)).repair(remove=True)
