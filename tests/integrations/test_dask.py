"""Dask's own dataframes, written to a table and read from it, by threads and by a cluster's processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dask
import dask.dataframe as dd
import deltalake
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster

import txlog
from txlog.integrations.dask import read, write

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def frame_of(*ids: int, name: str = "a") -> dd.DataFrame:
    return dd.from_pandas(pd.DataFrame({"id": list(ids), "name": name}), npartitions=3)


def ids_of(table: txlog.Table) -> list[int]:
    return sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    return txlog.Table.create(tmp_path / "t", SCHEMA)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


def test_the_partitions_of_a_dataframe_are_one_version(table: txlog.Table) -> None:
    result = write(frame_of(1, 2, 3, 4, 5), table)
    assert (result.version, result.metrics.rows, result.metrics.files) == (1, 5, 3)
    assert ids_of(table) == [1, 2, 3, 4, 5]
    write(frame_of(7), table, mode="overwrite")
    assert ids_of(table) == [7]


def test_a_run_that_is_repeated_adds_nothing_and_computes_nothing(table: txlog.Table) -> None:
    def lost() -> pd.DataFrame:
        raise AssertionError("it was computed")

    assert write(frame_of(1, 2), table, app_id="daily", key="2026-11-20").outcome == "committed"
    broken = dd.from_delayed([dask.delayed(lost)()], meta={"id": "int64", "name": "object"})
    assert write(broken, table, app_id="daily", key="2026-11-20").outcome == "already_committed"
    assert txlog.Sink(table, "daily").committed("2026-11-20") is not None
    assert ids_of(table) == [1, 2]


def test_rows_with_equal_keys_are_replaced(table: txlog.Table) -> None:
    write(frame_of(1, 2, 3), table)
    result = write(frame_of(3, 4, name="b"), table, mode="upsert", keys="id", app_id="cdc", key="1")
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (1, 1)
    assert ids_of(table) == [1, 2, 3, 4]


def test_a_read_leaves_out_deleted_rows_and_keeps_types(table: txlog.Table) -> None:
    table.set_properties({"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"id": [1, 2, 3, 4], "name": ["a", None, "c", "d"]}, SCHEMA))
    table.delete("id = 3")
    found = read(table)
    assert found.compute()["id"].tolist() == [1, 2, 4]
    assert found.dtypes.to_dict() == found.compute().dtypes.to_dict()
    assert read(table, columns=["id"], where="id > 1").compute().to_dict("list") == {"id": [2, 4]}
    empty = read(table.snapshot(0), columns=["id"])
    assert (list(empty.columns), len(empty)) == (["id"], 0)


def test_a_named_index_is_a_column_and_an_unnamed_one_is_left_out(table: txlog.Table) -> None:
    frame = frame_of(*range(9))
    write(frame[frame["id"] % 2 == 0], table)
    assert table.to_arrow().schema.names == ["id", "name"]
    write(frame.set_index("id"), table, mode="overwrite")
    assert ids_of(table) == list(range(9))
    with pytest.raises(txlog.TxlogError, match="other"):
        write(frame.set_index("id").rename_axis(index="other"), table)


def test_the_columns_of_a_read_are_named_in_any_case_and_an_unknown_one_is_a_typed_error(table: txlog.Table) -> None:
    for ids in ([], [1, 2]):
        if ids:
            write(frame_of(*ids), table)
        assert read(table, ["NAME", "id"]).compute().to_dict("list") == {"name": ["a"] * len(ids), "id": ids}
        with pytest.raises(txlog.InvalidInputError, match="there is no column 'nope'"):
            read(table, ["nope"])


def test_a_cluster_writes_reads_and_works(table: txlog.Table, client: Client) -> None:
    for start in range(3):
        write(frame_of(*range(10 * start, 10 * start + 10)), table, app_id="daily", key=str(start))
    assert txlog.Table.open(table.uri, workers=client).optimize().files_added == 1
    assert sorted(read(table).compute()["id"]) == ids_of(table) == [*range(30)]
