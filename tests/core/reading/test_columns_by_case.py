"""Tables of older writers, whose columns differ only in case: a name by the letter is that column, at every door."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import txlog
from tests.columns_by_case import ROWS, made


@pytest.fixture(params=[False, True], ids=["plain", "partitioned by one of them"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> txlog.Table:
    return made(tmp_path, request.param)


def rows(table: txlog.Table) -> list[Any]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: (row["key"], row.get("KEY")))


READS: dict[str, Callable[[txlog.Table], Any]] = {
    "columns": lambda table: table.to_arrow(columns=["KEY"])["KEY"].to_pylist(),
    "a condition": lambda table: [*range(2, 2 + 4 * table.count("KEY = 6 OR KEY = 2"), 4)],
    "tasks": lambda table: [
        row["KEY"] for task in table.snapshot().scan_tasks(["KEY"]) for row in task.to_arrow().to_pylist()
    ],
    "a dataset": lambda table: table.to_dataset().to_table(columns=["KEY"])["KEY"].to_pylist(),
    "a dataset's condition": lambda table: [
        row["KEY"] for row in table.to_dataset().to_table(filter=pc.field("KEY") > 0).to_pylist()
    ],
    "a member": lambda table: [row["s"]["AA"] for row in table.to_arrow(where="s.AA = 2 OR s.AA = 6").to_pylist()],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_name_by_the_letter_reads_that_column(read: Callable[[txlog.Table], Any], table: txlog.Table) -> None:
    assert read(table) == [2, 6]


def test_all_rows_have_the_values_of_both_columns(table: txlog.Table) -> None:
    assert rows(table) == ROWS.to_pylist()


DOUBTFUL: dict[str, Callable[[txlog.Table], Any]] = {
    "columns": lambda table: table.to_arrow(columns=["Key"]),
    "a condition": lambda table: table.count("Key = 6"),
    "tasks": lambda table: table.snapshot().scan_tasks(["Key"]),
    "delete": lambda table: table.delete("Key = 6"),
    "update": lambda table: table.update({"Key": txlog.expr("1")}),
    "upsert": lambda table: table.upsert(ROWS, keys=["Key"]),
    "alter": lambda table: table.alter_column("Key", comment="x"),
    "move": lambda table: table.alter_column("s", after="Key"),
    "cluster by": lambda table: table.cluster_by(["Key"]),
    "constraint": lambda table: table.add_constraint("c", "Key > 0"),
}


@pytest.mark.parametrize("use", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_name_that_fits_several_columns_is_an_error(use: Callable[[txlog.Table], Any], table: txlog.Table) -> None:
    with pytest.raises(txlog.errors.InvalidInputError, match="may be any of key, KEY"):
        use(table)


def test_a_member_that_fits_several_is_an_error_and_one_by_the_letter_is_not(table: txlog.Table) -> None:
    assert table.count("s.aa = 5") == table.count("S.AA = 6") == 1
    with pytest.raises(txlog.errors.InvalidInputError, match="may be any of aa, AA"):
        table.count("s.aA = 1")
    with pytest.raises(txlog.errors.InvalidInputError, match="may be any of aa, AA"):
        table.alter_column("s.aA", comment="x")


def schema_in_log(table: txlog.Table) -> Any:
    log = sorted(Path(table.uri, "_delta_log").glob("*.json"))[-1]
    (found,) = [each["metaData"] for each in map(json.loads, log.read_text().splitlines()) if "metaData" in each]
    return json.loads(found["schemaString"])["fields"]


def test_a_change_of_the_definition_changes_what_is_named_by_the_letter(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.alter_column("s.AA", comment="this")
    assert [each["metadata"] for each in schema_in_log(table)[2]["type"]["fields"]] == [{}, {"comment": "this"}]
    table.alter_column("key", after="KEY")
    table.alter_column("s", after="KEY")
    assert [each["name"] for each in schema_in_log(table)] == ["KEY", "s", "key"]
    table.set_properties({"delta.columnMapping.mode": "name"})
    table.rename_column("s.AA", "kept")
    table.drop_columns(["s.kept", "KEY"])
    assert rows(table) == [{"s": {"aa": 1}, "key": 1}, {"s": {"aa": 5}, "key": 5}]


def test_changes_change_the_column_that_is_named_by_the_letter(table: txlog.Table) -> None:
    assert table.update({"KEY": txlog.expr("KEY + 10")}, where="KEY = 6").metrics.rows_updated == 1
    assert [(row["key"], row["KEY"]) for row in rows(table)] == [(1, 2), (5, 16)]
    assert table.delete("KEY = 2").metrics.rows_deleted == 1
    assert [(row["key"], row["KEY"]) for row in rows(table)] == [(5, 16)]


def test_an_append_must_have_both_columns_by_the_letter(table: txlog.Table) -> None:
    more = pa.table({"KEY": [8], "key": [7], "s": [{"AA": 8, "aa": 7}]})
    table.append(more)
    assert rows(table)[-1] == {"key": 7, "KEY": 8, "s": {"aa": 7, "AA": 8}}
    for names in (["Key", "KEY", "s"], ["key", "Key", "s"]):
        with pytest.raises((txlog.errors.SchemaMismatchError, txlog.errors.InvalidInputError), match="Key"):
            table.append(more.rename_columns(names))
    with pytest.raises(txlog.errors.SchemaMismatchError):
        table.append(more.drop_columns(["KEY"]))


def test_an_upsert_and_a_merge_find_rows_by_the_column_that_is_named_by_the_letter(table: txlog.Table) -> None:
    source = pa.table({"key": [5], "KEY": [2], "s": [{"aa": 9, "AA": 9}]})
    table.upsert(source, keys=["KEY"])
    assert [(row["key"], row["KEY"], row["s"]["aa"]) for row in rows(table)] == [(5, 2, 9), (5, 6, 5)]
    table.merge(source, on="target.KEY = source.KEY").when_matched_delete().execute()
    assert [(row["key"], row["KEY"]) for row in rows(table)] == [(5, 6)]


def test_a_file_without_one_of_them_has_nulls_there(tmp_path: Path) -> None:
    table = made(tmp_path)
    pq.write_table(ROWS.slice(0, 1).drop_columns(["KEY"]), tmp_path / "f.parquet")
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    old, new = (json.loads(log.read_text().splitlines()[2])["add"]["size"], (tmp_path / "f.parquet").stat().st_size)
    log.write_text(log.read_text().replace(str(old), str(new)))
    table = txlog.Table.open(str(tmp_path))
    assert table.to_arrow(columns=["KEY"])["KEY"].to_pylist() == [None, 6]
    assert table.to_dataset().to_table(columns=["KEY"])["KEY"].to_pylist() == [None, 6]


def test_a_file_whose_columns_both_fit_a_column_in_other_case_is_an_error(tmp_path: Path) -> None:
    """Nobody can say which one it is."""
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("key", pa.int64())]))
    table.append(pa.table({"key": [1]}))
    (path,) = table.files()["path"].to_pylist()
    (old,) = table.files()["size"].to_pylist()
    pq.write_table(pa.table({"Key": [1], "KEY": [2]}), tmp_path / "t" / path)
    log = tmp_path / "t" / "_delta_log" / f"{1:020}.json"
    log.write_text(log.read_text().replace(f'"size":{old}', f'"size":{(tmp_path / "t" / path).stat().st_size}'))
    table = txlog.Table.open(table.uri)
    for read in (table.to_arrow, lambda: table.to_dataset().to_table()):
        with pytest.raises(txlog.errors.TxlogError, match="matches several columns of the file: Key, KEY"):
            read()


CHANGES: dict[str, Callable[[txlog.Table, pa.Table], Any]] = {
    "a merge by the name": lambda table, rows: table.merge(rows, ["KEY"]).when_matched_update_all().execute(),
    "a merge by a condition": lambda table, rows: (
        table.merge(rows, "target.KEY = source.KEY")
        .when_matched_update({"key": txlog.expr("source.key"), "s": txlog.expr("source.s")})
        .execute()
    ),
    "an upsert": lambda table, rows: table.upsert(rows, keys=["KEY"]),
    "an overwrite": lambda table, rows: table.overwrite(rows, where="KEY = 6"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_rows_that_come_in_are_taken_by_the_letter_at_every_depth(
    change: Callable[[txlog.Table, pa.Table], Any], table: txlog.Table
) -> None:
    change(table, pa.table({"KEY": [6], "s": [{"AA": 8, "aa": 7}], "key": [9]}))
    assert rows(table) == [ROWS.to_pylist()[0], {"key": 9, "KEY": 6, "s": {"aa": 7, "AA": 8}}]


def test_a_column_that_the_data_lacks_does_not_take_the_values_of_another(table: txlog.Table) -> None:
    with pytest.raises(txlog.errors.SchemaMismatchError, match="lacks key"):
        table.upsert(pa.table({"KEY": [6], "s": [{"AA": 8, "aa": 7}]}), keys=["KEY"])


def test_a_wider_type_widens_the_column_that_is_named_by_the_letter(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.set_properties({"delta.enableTypeWidening": "true"})
    members = pa.struct([("aa", pa.int64()), ("AA", pa.int64())])
    decimals = pa.decimal128(22, 0)
    more = pa.table({"key": [7], "KEY": pa.array([8], decimals), "s": pa.array([{"aa": 1, "AA": 2}], members)})
    table.append(more, schema_mode="merge")
    assert [str(table.to_arrow().schema.field(name).type) for name in ("key", "KEY")] == ["int64", "decimal128(22, 0)"]
