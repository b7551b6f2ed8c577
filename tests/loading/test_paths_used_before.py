"""Data files under the path of a file that earlier versions still show: another file is refused, the same is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of

SCHEMA = pa.schema([("id", pa.int64())])
PATH = "taken over.parquet"
SECOND_NS = 1_000_000_000


def written(table: txlog.Table, *ids: int, at_s: int) -> None:
    """A data file of another program, last modified at this second."""
    file = Path(table.uri) / PATH
    pq.write_table(pa.table({"id": ids}, SCHEMA), file, compression="none", use_dictionary=False)
    os.utime(file, ns=(at_s * SECOND_NS, at_s * SECOND_NS))


def add_of(table: txlog.Table, version: int) -> AddFile:
    log = table._open_table.log
    (found,) = (add for add in add_files_of(log.files(log.state_at(version))) if "taken" in add.path)
    return found


def added(table: txlog.Table) -> None:
    table.add_files([PATH])


def added_by_hand(table: txlog.Table) -> None:
    status = (Path(table.uri) / PATH).stat()
    add = AddFile("taken%20over.parquet", {}, status.st_size, status.st_mtime_ns // 1_000_000, True, '{"numRecords":3}')
    with table.transaction() as transaction:
        transaction.add(add)


def removed(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.remove(add_of(table, table.version).path)


def clean(table: txlog.Table) -> None:
    """The log begins at the version before the file was removed."""
    table.create_checkpoint()
    for version in range(table.version):
        (Path(table.uri) / "_delta_log" / f"{version:020}.json").unlink()


ADDS = pytest.mark.parametrize("add", [added, added_by_hand])


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    found = make_table(schema=SCHEMA)
    written(found, 1, 2, 3, at_s=1_000)
    found.add_files([PATH])
    return found


@ADDS
@pytest.mark.parametrize("checkpoint", [True, False], ids=["checkpoint", "commits"])
@pytest.mark.parametrize(
    ("ids", "at_s"), [((4, 5, 6), 2_000), ((4, 5, 6, 7), 1_000)], ids=["another time", "another size"]
)
def test_a_file_that_took_the_path_of_a_removed_one_is_refused(
    table: txlog.Table, add: Callable[[txlog.Table], None], ids: tuple[int, ...], at_s: int, checkpoint: bool
) -> None:
    removed(table)
    if checkpoint:
        table.create_checkpoint()
    version = table.version
    written(table, *ids, at_s=at_s)
    with pytest.raises(txlog.InvalidInputError, match="Give it a new name, and add that one") as caught:
        add(txlog.Table.open(table.uri))
    assert (caught.value.path, caught.value.version) == ("taken%20over.parquet", version)
    assert txlog.Table.open(table.uri).version == version
    os.rename(Path(table.uri) / PATH, Path(table.uri) / "copy.parquet")
    table.add_files(["copy.parquet"])
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(ids)


@ADDS
def test_a_file_with_a_reused_path_is_refused_if_the_old_files_commit_is_cleaned_up(
    table: txlog.Table, add: Callable[[txlog.Table], None]
) -> None:
    clean(table)
    removed(table)
    written(table, 4, 5, 6, at_s=2_000)
    with pytest.raises(txlog.InvalidInputError, match="another file named"):
        add(txlog.Table.open(table.uri))


@ADDS
def test_the_very_file_that_was_removed_can_be_added_again(
    table: txlog.Table, add: Callable[[txlog.Table], None]
) -> None:
    for _ in range(2):
        removed(table)
        table.create_checkpoint()
        add(txlog.Table.open(table.uri))
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_file_that_txlog_wrote_can_be_added_again_after_a_restore_and_a_delete(table: txlog.Table) -> None:
    table.append(pa.table({"id": [9]}))
    (path,) = (path for path in table.snapshot().files()["path"].to_pylist() if "taken" not in path)
    table.delete(all=True)
    table.restore(2)
    table.delete(all=True)
    table.add_files([path])
    assert table.to_arrow()["id"].to_pylist() == [9]
    written(table, 7, 8, 9, at_s=3_000)
    with pytest.raises(txlog.InvalidInputError, match="another file named"):
        table.add_files([PATH])


def test_a_file_that_was_written_over_a_live_one_of_its_size_is_refused(table: txlog.Table) -> None:
    written(table, 4, 5, 6, at_s=2_000)
    with pytest.raises(txlog.InvalidInputError, match="another file named"):
        added_by_hand(table)
    written(table, 1, 2, 3, at_s=1_000)
    added_by_hand(table)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("name", ["given", "random"])
def test_adding_a_file_reads_only_paths_and_nothing_if_txlog_made_its_name(
    make_table: Callable[..., txlog.Table], name: str
) -> None:
    table = make_table(schema=SCHEMA)
    path = Path(table.uri) / "file.parquet"
    table.append(pa.table({"id": [1]}))
    (txlog_path,) = table.snapshot().files()["path"].to_pylist()
    pq.write_table(pa.table({"id": [1]}), path)
    with table.transaction() as transaction:
        for number in range(300):
            os.link(path, path.with_name(f"{number}.parquet"))
            stats, tags = f'{{"numRecords":1,"mine":"{os.urandom(2_000).hex()}"}}', {"mine": os.urandom(2_000).hex()}
            transaction.add(AddFile(f"{number}.parquet", {}, path.stat().st_size, 1, True, stats, tags))
    table.create_checkpoint()
    new = path.with_name("new.parquet" if name == "given" else txlog_path.replace("-0-", "-1-"))
    os.link(path, new)
    handle = txlog.Table.open(table.uri)
    with handle.transaction() as transaction:
        read = bytes_read(handle)
        transaction.add(AddFile(new.name, {}, path.stat().st_size, 1, True, '{"numRecords":1}'))
    (checkpoint,) = (Path(table.uri) / "_delta_log").glob("*.checkpoint.parquet")
    assert sum(read) < 250_000 < 1_000_000 < checkpoint.stat().st_size
    assert (sum(read) == 0) == (name == "random")


def bytes_read(table: txlog.Table) -> list[int]:
    """How many bytes the handle reads from each checkpoint from now on."""
    files, found = table._open_table.store.files, []
    real = files.open

    class Counted:
        def __init__(self, source: Any) -> None:
            self._source = source

        def read(self, size: int | None = None) -> Any:
            body = self._source.read(size)
            found.append(len(body))
            return body

        def __getattr__(self, name: str) -> Any:
            return getattr(self._source, name)

    def open(path: str) -> Any:
        return pa.PythonFile(Counted(real(path)), mode="r")

    files.open = open  # type: ignore[method-assign]
    return found


def test_adding_files_reads_no_commit_below_the_checkpoint_unless_a_path_was_used_before(table: txlog.Table) -> None:
    for number in range(5):
        table.append(pa.table({"id": [number]}))
    removed(table)
    table.create_checkpoint()
    os.link(Path(table.uri) / PATH, Path(table.uri) / "new.parquet")

    def read_below_the_checkpoint(path: str) -> set[int]:
        handle = txlog.Table.open(table.uri)
        log, seen = handle._open_table.store.log, []
        real = log.read

        def read(name: str) -> Any:
            seen.append(name)
            return real(name)

        log.read = read  # type: ignore[method-assign]
        handle.add_files([path])
        return {int(name[:20]) for name in seen if name.endswith(".json") and int(name[:20]) < 6}

    assert read_below_the_checkpoint("new.parquet") == set()
    assert read_below_the_checkpoint(PATH) == {0, 1, 2, 3, 4, 5}
