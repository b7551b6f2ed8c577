"""Names that a table gave twice: its column mapping was removed, and then a new column got the name of an older one.

Files from before have the older column under that name. Every way to read earlier versions with the columns of today
refuses such rows. What can be read agrees with what deltalake finds in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import typer.testing

import txlog
from txlog.cli.app import app
from txlog.spark.errors import TxlogErrorInSpark, error_from
from txlog.spark.source import TxlogDataSource

SCHEMA = pa.schema({"id": pa.int64(), "x": pa.string(), "y": pa.string(), "s": pa.struct({"a": pa.int64()})})
PROPERTIES = {"delta.enableChangeDataFeed": "true"}
Step = Callable[[txlog.Table], Any]


def row(id: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": id, "x": f"x{id}", "y": f"y{id}", "s": {"a": id}}], SCHEMA)


def map_columns(table: txlog.Table) -> None:
    table.set_properties({"delta.columnMapping.mode": "name"})


def unmap_columns(table: txlog.Table) -> None:
    table.drop_feature("columnMapping")


def drop_and_add(table: txlog.Table) -> None:
    table.drop_columns(["y"])
    unmap_columns(table)
    table.add_columns("y string")


def drop_and_add_field(table: txlog.Table) -> None:
    table.add_columns("s struct<b: bigint>")
    table.drop_columns(["s.a"])
    unmap_columns(table)
    table.add_columns("s struct<a: bigint>")


def swap(table: txlog.Table) -> None:
    for old, new in (("x", "other"), ("y", "x"), ("other", "y")):
        table.rename_column(old, new)
    unmap_columns(table)


def drop_and_add_and_map(table: txlog.Table) -> None:
    drop_and_add(table)
    map_columns(table)


def unmap_twice(table: txlog.Table) -> None:
    unmap_columns(table)
    map_columns(table)
    drop_and_add(table)


GIVEN_TWICE = (drop_and_add, drop_and_add_field, swap, drop_and_add_and_map, unmap_twice)


def made(path: Path, change: Step) -> txlog.Table:
    table = txlog.Table.create(str(path), SCHEMA, properties=PROPERTIES)
    table.append(row(1))
    map_columns(table)
    change(table)
    table.append(row(2))
    return table


def streamed(table: txlog.Table, **options: str) -> list[dict[str, Any]]:
    try:
        source = TxlogDataSource({"path": table.uri, "startingversion": "1", **options})
        reader = source.streamReader(source.schema())
        start = reader.initialOffset()
        parts = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    except TxlogErrorInSpark as error:
        raise error_from(error) or error from None


def by_command(*arguments: str) -> Step:
    def run(table: txlog.Table) -> None:
        done = typer.testing.CliRunner().invoke(app, [arguments[0], table.uri, *arguments[1:]])
        if "SchemaMismatchError" in done.output:
            raise txlog.SchemaMismatchError(done.output)
        assert done.exit_code == 0, done.output

    return run


ROWS: dict[str, Step] = {
    "follow": lambda table: [row for batch in table.follow(1) for row in batch.rows.to_pylist()],
    "changes": lambda table: table.changes(1).read_all().to_pylist(),
    "changes in SQL": lambda table: txlog.sql(f"SELECT * FROM table_changes('{table.uri}', 1)").read_all().to_pylist(),
    "a stream": streamed,
    "a stream of the feed": lambda table: streamed(table, readchangefeed="true"),
}
DOORS = {
    **ROWS,
    "differing rows": lambda table: table.diff_rows(1).read_all(),
    "changes on the command line": by_command("changes", "--from", "1"),
    "differing rows on the command line": by_command("diff-rows", "1"),
}


@pytest.mark.parametrize("change", GIVEN_TWICE)
def test_rows_of_a_column_whose_name_was_given_again_are_refused_at_every_door(change: Step, tmp_path: Path) -> None:
    table = made(tmp_path / "t", change)
    for door, read in DOORS.items():
        with pytest.raises(txlog.SchemaMismatchError, match=r"dropped or renamed|was renamed to"):
            print(door, read(table))


def swap_and_swap_back(table: txlog.Table) -> None:
    swap(table)
    map_columns(table)
    swap(table)


@pytest.mark.parametrize("change", [unmap_columns, swap_and_swap_back])
def test_rows_from_before_a_removal_are_read_if_every_column_has_its_name_again(change: Step, tmp_path: Path) -> None:
    table = made(tmp_path / "t", change)
    whole = deltalake.DeltaTable(table.uri).to_pyarrow_table().sort_by("id").to_pylist()
    for door, read in ROWS.items():
        found = [{name: each[name] for name in SCHEMA.names} for each in read(table)]
        assert sorted(found, key=lambda each: each["id"]) == whole, door


@pytest.mark.parametrize("change", GIVEN_TWICE)
def test_columns_that_stayed_the_same_are_read_over_a_removal(change: Step, tmp_path: Path) -> None:
    table = made(tmp_path / "t", change)
    kept = ["id"] if change is swap else ["id", "x"]
    whole = table.to_arrow(columns=kept)
    if change is not drop_and_add_and_map:
        assert whole.sort_by("id") == deltalake.DeltaTable(table.uri).to_pyarrow_table(columns=kept).sort_by("id")
    assert table.changes(1, columns=kept).read_all().select(kept) == whole.sort_by("id")
    followed = pa.Table.from_batches([batch.rows for batch in table.follow(1, columns=kept)])
    assert followed == whole.sort_by("id")


def test_what_followed_the_end_of_a_column_is_read_with_the_one_that_got_its_name(tmp_path: Path) -> None:
    def change(table: txlog.Table) -> None:
        table.drop_columns(["y"])
        table.append(row(3).drop_columns(["y"]))
        unmap_columns(table)
        table.add_columns("y string")

    table = made(tmp_path / "t", change)
    table.append(row(4))
    dropped = next(each["version"] for each in table.history() if each["operation"] == "DROP COLUMNS")
    found = table.changes(dropped).read_all().select(["id", "x", "y", "s"]).sort_by("id")
    whole = deltalake.DeltaTable(table.uri).to_pyarrow_table(columns=["id", "x", "y", "s"]).sort_by("id")
    assert found.to_pylist() == whole.filter(pc.field("id") > 1).to_pylist()
