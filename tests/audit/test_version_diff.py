"""What changed between two versions: definition, files, and rows where the change feed has them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app
from txlog.result.audits import Change, RowChanges


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": ["x"] * len(ids)})


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """Version 1 has ten rows in a file; version 2 deletes two of them, 3 updates one, 4 adds a file of three."""
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(tmp_path / "t", "id bigint, name string", properties=properties, column_mapping="name")
    table.append(_rows(*range(10)))
    table.delete("id < 2")
    table.update({"name": txlog.expr("'y'")}, "id = 5")
    table.append(_rows(20, 21, 22))
    return table


def test_a_diff_counts_files_and_the_rows_that_the_feed_has(table: txlog.Table) -> None:
    found = table.diff(1, 4)
    assert (found.rows_before, found.rows_after, found.rows) == (10, 11, RowChanges(3, 1, 2))
    assert (found.files_added, found.files_removed, found.files_marked) == (2, 0, 1)
    assert found.bytes_added > 0 == found.bytes_removed
    assert (found.columns, found.definition, found.properties, found.rows_unknown) == ((), (), (), None)
    assert table.diff(1) == found
    assert table.diff(4, 4).rows == RowChanges(0, 0, 0)
    backwards = table.diff(4, 1)
    assert (backwards.files_added, backwards.files_removed, backwards.rows) == (0, 2, None)


def test_a_diff_of_definitions_names_each_change(table: txlog.Table) -> None:
    before = table.version
    table.add_columns("price decimal(9,2)")
    table.rename_column("name", "title")
    table.drop_columns("id")
    table.set_description("all orders")
    table.set_properties({"delta.logRetentionDuration": "interval 9 days"})
    found = table.diff(before)
    assert found.columns == (
        Change("id", "bigint", None),
        Change("name", "name string", "title string"),
        Change("price", None, "decimal(9,2)"),
    )
    assert found.definition == (Change("description", None, "all orders"),)
    changed = {each.what: (each.before, each.after) for each in found.properties}
    assert changed["delta.logRetentionDuration"] == (None, "interval 9 days")
    assert (found.files_added, found.files_removed, found.files_marked) == (0, 0, 0)


def test_without_the_feed_a_diff_says_why_rows_are_not_known(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint, name string")
    table.append(_rows(1, 2))
    found = table.diff(0, 1)
    assert (found.rows_before, found.rows_after, found.rows) == (0, 2, None)
    assert "delta.enableChangeDataFeed" in (found.rows_unknown or "")
    with pytest.raises(txlog.NotFoundError):
        table.diff(0, 7)
    with pytest.raises(txlog.InvalidInputError):
        table.diff("0", 1)  # type: ignore[arg-type]


def test_the_command_shows_a_diff_and_prints_it_as_json(table: txlog.Table) -> None:
    table.set_properties({"a.b": "c"})
    shown = CliRunner().invoke(app, ["diff", table.uri, "1", "5"]).stdout.splitlines()
    assert [line.split() for line in shown[:2]] == [["what", "before", "after"], ["a.b", "-", "c"]]
    assert shown[2].startswith("2 files added, ")
    assert shown[2].endswith("0 files removed, 0 B; 1 file with other deleted rows")
    assert shown[3] == "rows: 10 to 11; 3 inserted, 1 updated, 2 deleted"
    told = json.loads(CliRunner().invoke(app, ["diff", table.uri, "1", "--json"]).stdout)
    assert (told["to_version"], told["rows"]["inserted"], told["properties"][0]["after"]) == (5, 3, "c")


def test_the_constraint_command_adds_and_drops_one(table: txlog.Table) -> None:
    added = CliRunner().invoke(app, ["constraint", table.uri, "small", "id < 100"])
    assert added.stdout == f"{table.uri} is at version 5: every row must meet id < 100\n"
    assert txlog.Table.open(table.uri).properties["delta.constraints.small"] == "id < 100"
    violated = CliRunner().invoke(app, ["constraint", table.uri, "tiny", "id < 5"])
    assert violated.exit_code == 1
    dropped = CliRunner().invoke(app, ["constraint", table.uri, "small", "--drop"])
    assert dropped.stdout == f"{table.uri} is at version 6: dropped the constraint small\n"
    again = CliRunner().invoke(app, ["constraint", table.uri, "small", "--drop", "--if-exists"])
    assert (again.exit_code, again.stdout) == (0, f"{table.uri} is at version 6: nothing to change\n")
    for wrong in (["small"], ["small", "id < 1", "--drop"], ["small", "id < 1", "--if-exists"]):
        assert CliRunner().invoke(app, ["constraint", table.uri, *wrong]).exit_code == 2
