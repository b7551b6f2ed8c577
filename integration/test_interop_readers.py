"""Tables we write, read by other engines: deltalake, polars, duckdb and pandas see the rows that were written.

duckdb has no reader of its own here unless its `delta` extension can be installed, which needs a network: besides,
it reads through deltalake's Arrow dataset and through our own Arrow stream.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from rows import as_rows, in_schema, read_by_deltalake
from sample_tables import SAMPLES, Sample

import txlog


def _by_txlog(path: Path) -> pa.Table:
    return txlog.Table.open(path).snapshot().to_arrow()


def _by_deltalake(path: Path) -> pa.Table:
    return read_by_deltalake(deltalake.DeltaTable(str(path)))


def _by_deltalake_dataset(path: Path) -> pa.Table:
    return deltalake.DeltaTable(str(path)).to_pyarrow_table()


def _by_polars(path: Path) -> pa.Table:
    return pl.scan_delta(str(path)).collect().to_arrow()


def _by_polars_stream(path: Path) -> pa.Table:
    return pl.DataFrame(txlog.Table.open(path).snapshot()).to_arrow()


def _by_duckdb_dataset(path: Path) -> pa.Table:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_dataset()
    return duckdb.connect().register("rows", rows).sql("select * from rows").to_arrow_table()


def _by_duckdb_stream(path: Path) -> pa.Table:
    rows = txlog.Table.open(path).snapshot()
    return duckdb.connect().register("rows", rows).sql("select * from rows").to_arrow_table()


READERS: dict[str, Callable[[Path], pa.Table]] = {
    "txlog": _by_txlog,
    "deltalake": _by_deltalake,
    "deltalake's dataset": _by_deltalake_dataset,
    "polars": _by_polars,
    "polars, through our stream": _by_polars_stream,
    "duckdb, through deltalake's dataset": _by_duckdb_dataset,
    "duckdb, through our stream": _by_duckdb_stream,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Sample]]:
    """A sample, written once by us."""
    folder = tmp_path_factory.mktemp("samples")

    def write(name: str) -> tuple[Path, Sample]:
        path, sample = folder / name.replace(" ", "_"), SAMPLES[name]
        if not path.exists():
            for rows in sample.appends:
                txlog.write(path, rows, partition_by=sample.partition_by)
        return path, sample

    return write


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("reader", READERS)
def test_an_engine_reads_the_rows_that_we_wrote(
    reader: str, sample: str, written: Callable[[str], tuple[Path, Sample]]
) -> None:
    path, expected = written(sample)
    rows = READERS[reader](path)
    assert sorted(rows.column_names) == sorted(expected.rows.column_names)
    assert as_rows(in_schema(rows, expected.rows.schema)) == as_rows(expected.rows)


def test_duckdbs_delta_extension_reads_the_rows_that_we_wrote(written: Callable[[str], tuple[Path, Sample]]) -> None:
    connection = duckdb.connect()
    try:
        connection.install_extension("delta")
        connection.load_extension("delta")
    except duckdb.Error as error:
        pytest.skip(
            f"NOT TESTED: with duckdb's delta extension, which cannot be had here: {str(error).splitlines()[0]}"
        )
    for name in SAMPLES:
        path, expected = written(name)
        rows = connection.execute("select * from delta_scan(?)", [str(path)]).fetch_arrow_table()
        assert as_rows(in_schema(rows, expected.rows.schema)) == as_rows(expected.rows), name


def test_pandas_builds_a_data_frame_directly_from_a_snapshot(written: Callable[[str], tuple[Path, Sample]]) -> None:
    path, expected = written("columns with special characters")
    frame = pd.DataFrame.from_arrow(txlog.Table.open(path).snapshot())
    assert as_rows(in_schema(pa.Table.from_pandas(frame), expected.rows.schema)) == as_rows(expected.rows)
