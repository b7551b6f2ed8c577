"""Paths meant to do harm, on a real disk: nothing outside the table is written or deleted, and nothing hangs.

What is promised: a data file is reached through plain names below the root, and through symbolic links that stay
there; a file elsewhere is read, as shallow clones need, only if the log names it by its absolute path; the log's
folders and files are never reached through a link at all; a pipe or a directory is no file. Checked when a path is
used, not held: who swaps a directory for a link at that moment is not stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.format.actions import AddFile
from txlog.core.store import open_store

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "day": ["x", "y"]})
SECRET = 4_711
DAY_S = 86_400


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory that is none of the table's business, with a file that would make a fine data file."""
    directory = tmp_path / "outside"
    directory.mkdir()
    pq.write_table(pa.table({"id": pa.array([SECRET], pa.int64())}), directory / "secret.parquet")
    (directory / f"{0:020d}.json").write_text("not a log")
    before = _tree(directory)
    yield directory
    assert _tree(directory) == before


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    root = tmp_path / "t"
    txlog.write(str(root), ROWS, partition_by=["day"])
    return root


def _tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


Use = Callable[[str], Any]

USES: dict[str, Use] = {
    "rows": lambda uri: txlog.Table.open(uri).snapshot().to_arrow().column("id").to_pylist(),
    "batches": lambda uri: [
        value
        for batch in txlog.Table.open(uri).snapshot().to_batches(where="id > 0")
        for value in batch.column("id").to_pylist()
    ],
    "files": lambda uri: txlog.Table.open(uri).snapshot().files().num_rows,
    "history": lambda uri: len(txlog.Table.open(uri).history()),
    "verify": lambda uri: verify_table(open_store(uri)).is_sound,
    "clean up": lambda uri: txlog.Table.open(uri).clean_up_log().names,
    "checkpoint": lambda uri: txlog.Table.open(uri).create_checkpoint(),
    "append": lambda uri: txlog.Table.open(uri).append(ROWS).version,
    "overwrite": lambda uri: txlog.Table.open(uri).overwrite(ROWS).version,
    "exists": txlog.Table.exists,
}


def _used(uri: str) -> dict[str, Any]:
    """What each use makes of the table: an answer, or the error, which must be one of ours."""
    found: dict[str, Any] = {}
    for name, use in USES.items():
        try:
            found[name] = use(uri)
        except txlog.TxlogError as error:
            found[name] = error
    for name in ("rows", "batches"):
        assert isinstance(found[name], txlog.TxlogError) or SECRET not in found[name]
    return found


def _log_a_file(root: Path, path: str) -> None:
    add = {"path": path, "partitionValues": {"day": "x"}, "size": 1, "modificationTime": 1, "dataChange": True}
    (root / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"add": add}) + "\n")


# --- a log that names such a path -----------------------------------------------------------------------------

NEVER = (
    "../outside/secret.parquet", "day=x/../../outside/secret.parquet", "./day=x/f.parquet", "day=x//f.parquet", "",
    ".", "..", "%2e%2e/outside/secret.parquet", "%2E%2E%2Foutside%2Fsecret.parquet", "..%2foutside%2fsecret.parquet",
    "..\\outside\\secret.parquet", "..%5coutside%5csecret.parquet", "day=x/%00.parquet", "day=x/\0.parquet",
    "day=x/%0a.parquet", "day=x/f.parquet%", "day=x/%zz.parquet", "day=x/%ff.parquet", "day=x/f.parquet?x=1",
    "day=x/f.parquet#x", "_delta_log/00000000000000000000.json", "%5Fdelta_log/00000000000000000000.json",
    "day=x/_delta_log/f.parquet", "C:f.parquet",
)  # fmt: skip
ELSEWHERE = (
    "{outside}/secret.parquet", "file:{outside}/secret.parquet", "file://{outside}/secret.parquet",
    "file://localhost{outside}/secret.parquet", "{root}-evil/secret.parquet",
)  # fmt: skip
UNREACHABLE = (
    "file://host{outside}/secret.parquet", "http://169.254.169.254/latest/meta-data", "hdfs://other/secret.parquet",
)  # fmt: skip
ABSENT = (
    "%252e%252e/outside/secret.parquet", "~/secret.parquet", "$HOME/secret.parquet", "day=x/" + "n" * 300,
    "d/" * 3000 + "f.parquet", "day=x/e\u0301.parquet", "day=x/\u202egnp.parquet", "day=x/ ", "day=x/-rf", "|true",
)  # fmt: skip


@pytest.mark.parametrize("path", NEVER)
def test_a_path_that_no_writer_may_log_is_damage_and_names_itself(root: Path, path: str) -> None:
    _log_a_file(root, path)
    found = _used(str(root))
    assert isinstance(found["rows"], txlog.CorruptLogError)
    assert isinstance(found["verify"], txlog.TxlogError) or not found["verify"]


@pytest.mark.parametrize("path", UNREACHABLE)
def test_a_path_on_another_host_or_of_an_unknown_scheme_is_not_looked_at(root: Path, outside: Path, path: str) -> None:
    _log_a_file(root, path.format(outside=outside))
    found = _used(str(root))
    assert isinstance(found["rows"], txlog.UnsupportedFeatureError)
    assert found["verify"] is True  # with a warning


@pytest.mark.parametrize("path", ELSEWHERE)
def test_another_tables_file_is_read_as_clones_need_and_never_changed(root: Path, outside: Path, path: str) -> None:
    evil = outside.parent / "t-evil"
    evil.mkdir()
    (evil / "secret.parquet").write_bytes((outside / "secret.parquet").read_bytes())
    before = _tree(evil)
    _log_a_file(root, path.format(outside=outside, root=root))
    table = txlog.Table.open(root)
    assert SECRET in table.to_arrow()["id"].to_pylist()
    table.delete(f"id = {SECRET}")
    table.optimize()
    table.vacuum(0, force=True)
    assert SECRET not in table.to_arrow()["id"].to_pylist()
    assert _tree(evil) == before


@pytest.mark.parametrize("path", ABSENT)
def test_a_logged_path_that_no_file_can_have_raises_a_txlog_error(root: Path, path: str) -> None:
    _log_a_file(root, path)
    found = _used(str(root))
    assert isinstance(found["rows"], (txlog.NotFoundError, txlog.CorruptLogError, txlog.StorageError))
    assert isinstance(found["verify"], txlog.TxlogError) or not found["verify"]


@pytest.mark.parametrize("path", [*NEVER, *ELSEWHERE, *ABSENT])
def test_no_path_that_is_unsafe_or_absent_can_be_added_or_removed(root: Path, outside: Path, path: str) -> None:
    path = path.format(outside=outside, root=root)
    table = txlog.Table.open(str(root))

    def within(step: Callable[[Any], None]) -> Callable[[], None]:
        def call() -> None:
            with table.transaction() as transaction:
                step(transaction)

        return call

    add = AddFile(path=path, partition_values={"day": "x"}, size=1, modification_time=1, data_change=True)
    calls = [
        lambda: table.add_files([path]),
        within(lambda transaction: transaction.add(add)),
        within(lambda transaction: transaction.remove(path)),
    ]
    for call in calls:
        with pytest.raises((txlog.InvalidInputError, txlog.NotFoundError, txlog.StorageError)):
            call()
    assert txlog.Table.open(str(root)).snapshot().version == 0


# --- symbolic links, pipes and directories ------------------------------------------------------------------------


def _data_file(root: Path) -> Path:
    return next((root / "day=x").glob("*.parquet"))


def _link_file(root: Path, outside: Path) -> None:
    file = _data_file(root)
    file.unlink()
    file.symlink_to(outside / "secret.parquet")


def _link_chain(root: Path, outside: Path) -> None:
    (root / "hop").symlink_to(outside / "secret.parquet")
    file = _data_file(root)
    file.unlink()
    file.symlink_to(root / "hop")


def _link_directory(root: Path, outside: Path) -> None:
    name = _data_file(root).name
    for file in (root / "day=x").iterdir():
        file.unlink()
    (root / "day=x").rmdir()
    (root / "day=x").symlink_to(root / ".." / "outside")
    _log_a_file(root, "day=x/secret.parquet")
    assert name


@pytest.mark.parametrize("lay", [_link_file, _link_chain, _link_directory])
def test_a_link_out_of_the_table_is_not_followed_to_data(
    root: Path, outside: Path, lay: Callable[[Path, Path], None]
) -> None:
    lay(root, outside)
    found = _used(str(root))
    assert isinstance(found["rows"], txlog.StorageError)
    assert "through a symbolic link" in str(found["rows"])
    assert found["verify"] is False
    with pytest.raises(txlog.TxlogError):
        txlog.Table.open(str(root)).add_files(["day=x/secret.parquet"])


def test_a_partition_behind_a_link_out_of_the_table_is_not_written(root: Path, outside: Path) -> None:
    _link_directory(root, outside)
    with pytest.raises(txlog.StorageError, match="through a symbolic link"):
        txlog.Table.open(str(root)).append(ROWS)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "absent")


def _directory(path: Path) -> None:
    path.mkdir()


STRANGE = {"a loop": _loop, "a link to nothing": _dangling, "a directory": _directory, "a named pipe": os.mkfifo}


@pytest.mark.parametrize("name", STRANGE)
def test_a_special_file_in_place_of_a_data_file_is_an_error_and_never_blocks(root: Path, name: str) -> None:
    file = _data_file(root)
    file.unlink()
    STRANGE[name](file)
    found = _used(str(root))
    assert isinstance(found["rows"], (txlog.StorageError, txlog.NotFoundError, txlog.CorruptLogError))
    assert isinstance(found["append"], int)


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("version", [0, 1])
def test_a_special_file_in_place_of_a_commit_is_an_error_and_never_blocks(root: Path, name: str, version: int) -> None:
    commit = root / "_delta_log" / f"{version:020d}.json"
    commit.unlink(missing_ok=True)
    STRANGE[name](commit)
    found = _used(str(root))
    assert isinstance(found["append"], txlog.TxlogError)
    assert os.path.lexists(commit)


def test_an_oversized_commit_file_is_refused_before_it_is_read(root: Path) -> None:
    with (root / "_delta_log" / f"{1:020d}.json").open("wb") as commit:
        commit.truncate(64 << 30)
    found = _used(str(root))
    assert "File too large" in str(found["rows"])
    assert isinstance(found["append"], txlog.StorageError)


def test_a_link_within_the_table_is_followed_to_data(root: Path) -> None:
    file = _data_file(root)
    file.rename(root / "moved")
    file.symlink_to(root / "moved")
    assert _used(str(root))["rows"] == [1, 2]
    (root.parent / "link").symlink_to(root)
    assert _used(str(root.parent / "link"))["append"] > 0


def _move_the_log(root: Path, target: Path) -> None:
    (root / "_delta_log").rename(target)
    (root / "_delta_log").symlink_to(target)


@pytest.mark.parametrize("where", ["outside", "in the table", "nowhere"])
def test_a_log_behind_a_link_is_neither_read_nor_written_nor_cleaned(root: Path, outside: Path, where: str) -> None:
    target = root / "hidden" if where == "in the table" else root.parent / "elsewhere"
    _move_the_log(root, target)
    if where == "nowhere":
        for file in target.iterdir():
            file.unlink()
        target.rmdir()
    else:
        _age(target)
    before = _tree(target) if target.exists() else None
    for name, answer in _used(str(root)).items():
        assert isinstance(answer, txlog.StorageError), name
        assert "_delta_log is a symbolic link" in str(answer)
    with pytest.raises(txlog.StorageError, match="_delta_log is a symbolic link"):
        txlog.Table.create(str(root), ROWS.schema, exist_ok=True)
    assert (_tree(target) if target.exists() else None) == before


# --- cleaning up ----------------------------------------------------------------------------------------------


def _age(directory: Path) -> None:
    """Everything in there was written long ago."""
    for path in directory.rglob("*"):
        when = path.lstat().st_mtime - 100 * DAY_S
        os.utime(path, (when, when), follow_symlinks=False)


def _old_table(root: Path) -> Path:
    """A table whose versions 0 to 2 are due to leave the log: a checkpoint of version 3 is old enough."""
    table = txlog.Table.create(str(root), ROWS.schema, properties={"delta.logRetentionDuration": "interval 1 days"})
    for _ in range(3):
        table.append(ROWS)
    table.create_checkpoint()
    _age(root / "_delta_log")
    table.append(ROWS)
    return root / "_delta_log"


def test_clean_up_deletes_nothing_in_a_log_with_a_link_and_nothing_behind_one(tmp_path: Path, outside: Path) -> None:
    log = _old_table(tmp_path / "old")
    (log / f"{1:020d}.json").rename(log / "kept")
    (log / f"{1:020d}.json").symlink_to(outside / f"{0:020d}.json")
    (log / ".x.json.80a083e8-7026-4e79-81be-64bd76c43a11.tmp").symlink_to(outside / "secret.parquet")
    _age(log)
    before, behind = _tree(log), _tree(outside)
    table = txlog.Table.open(str(tmp_path / "old"))
    with pytest.raises(txlog.StorageError, match=f"{1:020d}.json is a symbolic link"):
        table.clean_up_log()
    assert (_tree(log), _tree(outside)) == (before, behind)
    (log / f"{1:020d}.json").unlink()
    (log / "kept").rename(log / f"{1:020d}.json")
    assert {f"{0:020d}.json", f"{2:020d}.json"} <= set(table.clean_up_log().names)
    assert _tree(outside) == behind


@pytest.mark.parametrize("linked", [range(5), range(3, 5), range(1, 2)], ids=["all", "the newest", "one between"])
def test_a_log_whose_files_are_links_is_neither_read_nor_taken_for_an_absent_table(
    tmp_path: Path, linked: range
) -> None:
    root = tmp_path / "t"
    table = txlog.Table.create(str(root), ROWS.schema)
    for _ in range(4):
        table.append(ROWS)
    (tmp_path / "cache").mkdir()
    for version in linked:
        commit = root / "_delta_log" / f"{version:020d}.json"
        commit.rename(tmp_path / "cache" / commit.name)
        commit.symlink_to(tmp_path / "cache" / commit.name)
    for use in (
        lambda: txlog.Table.open(str(root)).to_arrow(),
        lambda: txlog.write(str(root), ROWS),
        lambda: txlog.Table.open(str(root)).verify(),
    ):
        with pytest.raises(
            txlog.StorageError, match=r"\.json is a symbolic link, .* Replace the link by what it leads to"
        ):
            use()


@pytest.mark.parametrize("inside", [True, False], ids=["in the table", "outside"])
def test_clean_up_deletes_no_sidecar_behind_a_link(tmp_path: Path, outside: Path, inside: bool) -> None:
    log = _old_table(tmp_path / "old")
    target = tmp_path / "old" / "data" if inside else outside
    target.mkdir(exist_ok=True)
    doomed = "80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
    if inside:
        (target / doomed).write_bytes(b"a data file")
        (target / f".{doomed}.80a083e8-7026-4e79-81be-64bd76c43a11.tmp").write_bytes(b"of others")
        _age(target)
    before = _tree(target)
    (log / "_sidecars").symlink_to(target)
    table = txlog.Table.open(str(tmp_path / "old"))
    with pytest.raises(txlog.StorageError, match="_sidecars is a symbolic link"):
        table.clean_up_log()
    assert _tree(target) == before
    assert table.snapshot().to_arrow().num_rows == 8


# --- strange, and fine ------------------------------------------------------------------------------------------

FINE = (
    "x", "a b", "a%20b", "100%", "a/b", "..", ".", "~", "-rf", "e\u0301", "\u00e9", "\U0001f3b5", "\u202egnp", "a\nb",
    "a\tb", "\u0001", "'\"`$(true)", "a\\b", "CON", "x" * 300, "\u00e9" * 150, " lead", "trail ", "trail.", "?#&=+:@",
)  # fmt: skip


def test_partitions_of_any_text_are_written_below_the_root_and_read_by_others(tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "odd"
    txlog.write(str(root), pa.table({"id": pa.array(range(len(FINE)), pa.int64()), "day": FINE}), partition_by=["day"])
    rows = dict(zip(*txlog.Table.open(str(root)).snapshot().to_arrow().to_pydict().values(), strict=True))
    assert rows == dict(enumerate(FINE))
    theirs = pa.table(deltalake.DeltaTable(str(root)).to_pyarrow_table().to_pydict())
    assert dict(zip(theirs["id"].to_pylist(), theirs["day"].to_pylist(), strict=True)) == rows
    assert {path.name for path in tmp_path.iterdir()} == {"odd", "outside"}


def test_files_of_any_name_are_taken_in_and_read_by_others(tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "odd"
    table = txlog.Table.create(str(root), pa.schema([("id", pa.int64())]))
    names = [name for name in FINE if "/" not in name and len(name.encode()) < 200 and name.isprintable()]
    names = [f"{name}.parquet" for name in names if "\\" not in name]
    for number, name in enumerate(names):
        pq.write_table(pa.table({"id": [number]}), root / name)
    table.add_files(names)
    numbers = list(range(len(names)))
    assert sorted(table.snapshot().to_arrow().column("id").to_pylist()) == numbers
    assert sorted(deltalake.DeltaTable(str(root)).to_pyarrow_table().column("id").to_pylist()) == numbers


def error_of(use: Callable[[], object]) -> txlog.TxlogError:
    with pytest.raises(txlog.TxlogError) as raised:
        use()
    return raised.value


@pytest.mark.parametrize("path", ["x?y", "x#y", "100%"])
@pytest.mark.parametrize("action", ["add", "remove"])
def test_an_error_about_a_path_in_the_log_names_the_table(tmp_path: Path, action: str, path: str) -> None:
    table = txlog.Table.create(tmp_path / "t", ROWS.schema)
    held = table.snapshot().files()
    fields = {"partitionValues": {}, "size": 1, "modificationTime": 1} if action == "add" else {}
    line = json.dumps({action: {"path": path, "dataChange": True, **fields}})
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").write_text(f'{{"commitInfo":{{"operation":"X"}}}}\n{line}\n')
    fresh = txlog.Table.open(tmp_path / "t")
    uses: list[Callable[[], object]] = [
        lambda: fresh.snapshot().files(),
        lambda: fresh.snapshot().files("id = 1"),
        lambda: fresh.snapshot().to_arrow(),
        lambda: table.snapshot().files(),
        lambda: fresh.overwrite(ROWS),
    ]
    assert {(error.table, error.version) for error in map(error_of, uses)} == {(table.uri, 1)}
    assert held.num_rows == 0
