"""Daft's own dataframes, written to a table and read from it by Daft's workers: `make hunt PART=integrations`."""

from __future__ import annotations

from pathlib import Path

import daft
import deltalake
import pyarrow as pa
import pytest
from pages import tab

import txlog
from txlog.integrations.daft import read, write

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    return txlog.Table.create(tmp_path / "t", SCHEMA)


def rows_of(*ids: int, name: str = "a") -> daft.DataFrame:
    return daft.from_arrow(pa.table({"id": list(ids), "name": [name] * len(ids)}, SCHEMA))


def ids_of(table: txlog.Table) -> list[int]:
    return sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist())


def test_the_tasks_of_a_dataframe_are_one_version(table: txlog.Table) -> None:
    result = write(rows_of(*range(100)).into_batches(40), table)
    assert (result.version, result.metrics.rows, result.metrics.files) == (1, 100, 3)
    assert ids_of(table) == [*range(100)]
    assert write(rows_of(7), table, mode="overwrite").version == 2
    assert ids_of(table) == [7]
    assert write(rows_of(1).where(daft.col("id") > 1), table).metrics.rows == 0


def test_a_run_that_is_repeated_adds_nothing_and_computes_nothing(table: txlog.Table) -> None:
    @daft.func
    def fail(number: int) -> int:
        raise AssertionError("it was computed")

    assert write(rows_of(1, 2), table, app_id="daily", key="a").outcome == "committed"
    failing = rows_of(1, 2).with_column("id", fail(daft.col("id")))
    assert write(failing, table, app_id="daily", key="a").outcome == "already_committed"
    assert ids_of(table) == [1, 2]


def test_rows_with_equal_keys_are_replaced(table: txlog.Table) -> None:
    write(rows_of(1, 2, 3), table)
    result = write(rows_of(3, 4, name="b").into_batches(1), table, mode="upsert", keys="id", app_id="cdc", key="1")
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (1, 1)
    assert ids_of(table) == [1, 2, 3, 4]


def test_a_read_leaves_out_deleted_rows(table: txlog.Table) -> None:
    table.set_properties({"delta.enableDeletionVectors": "true"})
    for start in (0, 10):
        table.append(pa.table({"id": range(start, start + 10), "name": ["a"] * 10}, SCHEMA))
    table.delete("id IN (3, 4)")
    assert sorted(read(table).to_pydict()["id"]) == [0, 1, 2, *range(5, 20)]
    assert sorted(read(table, ["id"], "id > 2").to_pydict()["id"]) == [*range(5, 20)]
    assert read(table.snapshot(1)).count_rows() == 0
    assert read(table).to_arrow().schema.names == ["id", "name"]


def test_what_a_query_of_daft_leaves_out_is_not_read_twice_or_missed(table: txlog.Table) -> None:
    table.append(pa.table({"id": range(10), "name": [str(each) for each in range(10)]}, SCHEMA))
    query = read(table, where="id > 1").where(daft.col("id") < 5).select("name")
    assert sorted(query.to_pydict()["name"]) == ["2", "3", "4"]
    assert read(table).where(daft.col("name") == "7").to_pydict() == {"id": [7], "name": ["7"]}
    assert read(table).where(daft.col("name") > "3").select("id").count_rows() == 6
    assert read(table).limit(3).count_rows() == 3
    assert read(table, ["name", "id"]).column_names == ["name", "id"]


def test_an_error_of_a_task_has_the_cause(table: txlog.Table) -> None:
    table.add_constraint("small", "id < 10")
    with pytest.raises(Exception, match="small"):
        write(rows_of(100), table)
    assert ids_of(table) == []


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint")
    exec(tab("docs/integrations.md", "A dataframe of Daft"), {"table": table})
    assert (table.version, table.count()) == (2, 2000)
