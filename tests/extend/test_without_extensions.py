"""Methods of `Table` that packages bring, where no package brings them: each refuses, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.packages import hide
from txlog.core.format.actions import AddFile

ROWS = pa.table({"id": [1, 2]})
CALLS: dict[str, Callable[[txlog.Table, Path], Any]] = {
    "add_files": lambda table, _: table.add_files(["written.parquet"]),
    "audit": lambda table, _: table.audit().__enter__(),
    "branch": lambda table, _: table.branch("b"),
    "branches": lambda table, _: table.branches(),
    "check": lambda table, _: of_branch(table).check(),
    "check_deleted": lambda table, _: table.check_deleted(),
    "clone": lambda table, there: table.clone(there / "clone"),
    "convert": lambda _, there: txlog.Table.convert(there / "files"),
    "copy_into": lambda table, there: table.copy_into(str(there / "files")),
    "diff": lambda table, _: table.diff(0, 1),
    "diff_rows": lambda table, _: table.diff_rows(0, 1).read_all(),
    "discard": lambda table, _: of_branch(table).discard(),
    "export_iceberg": lambda table, _: table.export_iceberg(),
    "publish": lambda table, _: of_branch(table).publish(),
    "rebase": lambda table, _: of_branch(table).rebase(),
    "report": lambda table, _: table.report(),
    "take_over": lambda table, there: added(table, there),
    "verify": lambda table, _: table.verify(),
}
NO_METHOD = {"base_of_branch", "files_summary", "iceberg_lag"}
"""Operations that other calls ask for, which do without them or say so themselves."""


def of_branch(table: txlog.Table) -> txlog.Table:
    """The table's branch, which is there already."""
    return txlog.Table.open(f"{table.uri}/_branches/there")


def added(table: txlog.Table, there: Path) -> None:
    file = there / "table" / "written.parquet"
    with table.transaction() as txn:
        txn.add(AddFile(file.name, {}, file.stat().st_size, 0, True))


def test_each_operation_that_a_package_of_ours_brings_is_called_here() -> None:
    ours = {each.name for each in entry_points(group="txlog.operations") if each.value.startswith("txlog.")}
    assert ours == {*CALLS, *NO_METHOD}


@pytest.mark.parametrize("name", CALLS)
def test_a_method_whose_package_is_absent_refuses_and_leaves_everything_as_it_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = txlog.Table.create(tmp_path / "table", ROWS.schema)
    table.append(ROWS)
    table.branch("there")
    (tmp_path / "files").mkdir()
    pq.write_table(ROWS, tmp_path / "files" / "1.parquet")
    pq.write_table(ROWS, tmp_path / "table" / "written.parquet")
    before = everything(tmp_path)
    hide(monkeypatch, f"txlog.operations:{name}")
    with pytest.raises(
        txlog.UnsupportedFeatureError, match=r"no installed package offers.*txlog\.operations"
    ) as raised:
        CALLS[name](table, tmp_path)
    assert raised.value.features == (name,)
    assert everything(tmp_path) == before
    monkeypatch.undo()
    CALLS[name](txlog.Table.open(table.uri), tmp_path)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
