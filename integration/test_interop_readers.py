"""Tables we write, read by other engines: deltalake, polars, duckdb and pandas see the rows that were written.

duckdb has its own reader here only if its `delta` extension can be installed, which needs a network; it also reads
through deltalake's Arrow dataset and through our own Arrow stream.
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
from deltalake.exceptions import DeltaError, DeltaProtocolError
from rows import as_rows, in_schema, read_by_deltalake
from sample_tables import SAMPLES, Sample

import txlog

ROOT = Path(__file__).parent.parent


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
    extensions = pytest.importorskip("duckdb_extensions", reason="NOT TESTED: DuckDB's Delta reader is not installed")
    connection = duckdb.connect()
    for name in ("icu", "delta"):
        extensions.import_extension(name)
        connection.load_extension(name)
    connection.execute("set TimeZone = 'UTC'")
    for name in SAMPLES:
        path, expected = written(name)
        rows = connection.execute("select * from delta_scan(?)", [str(path)]).to_arrow_table()
        assert as_rows(in_schema(rows, expected.rows.schema)) == as_rows(expected.rows), name


def test_pandas_builds_a_data_frame_directly_from_a_snapshot(written: Callable[[str], tuple[Path, Sample]]) -> None:
    path, expected = written("columns with special characters")
    frame = pd.DataFrame.from_arrow(txlog.Table.open(path).snapshot())
    assert as_rows(in_schema(pa.Table.from_pandas(frame), expected.rows.schema)) == as_rows(expected.rows)


CALLS: dict[str, Callable[[str], pa.Table]] = {
    "QueryBuilder": lambda uri: read_by_deltalake(deltalake.DeltaTable(uri)),
    "to_pyarrow_table": lambda uri: deltalake.DeltaTable(uri).to_pyarrow_table(),
    "to_pandas": lambda uri: pa.Table.from_pandas(deltalake.DeltaTable(uri).to_pandas(), preserve_index=False),
    "to_pyarrow_dataset": lambda uri: deltalake.DeltaTable(uri).to_pyarrow_dataset().to_table(),
    "read_delta": lambda uri: pl.read_delta(uri).to_arrow(),
    "scan_delta": lambda uri: pl.scan_delta(uri).collect().to_arrow(),
    "use_pyarrow": lambda uri: pl.read_delta(uri, use_pyarrow=True).to_arrow(),
}
REFUSES = (DeltaProtocolError, DeltaError)
NULLS = "nulls, and no error"
TURNED_ON = {
    "delta.enableDeletionVectors": "true",
    "delta.columnMapping.mode": "name",
    "delta.checkpointPolicy": "v2",
    "delta.enableTypeWidening": "true",
}


def _cells_of(page: str) -> dict[str, list[str]]:
    """By property: what the page's table says of QueryBuilder, of deltalake's other calls, and of Polars."""
    lines = (ROOT / page).read_text().splitlines()
    rows = [line for line in lines if line.startswith("|") and any(f"(`{name}`" in line for name in TURNED_ON)]
    found = {}
    for row in rows:
        what, *cells = [cell.strip().replace("**", "") for cell in row.strip("|").split("|")]
        found[what.split("`")[1]] = cells
    return found


def _outcome(call: Callable[[str], pa.Table], uri: str, expected: list[dict[str, object]]) -> str:
    try:
        rows = sorted(call(uri).to_pylist(), key=lambda row: str(row["id"]))
    except REFUSES as error:
        return "refuses" if "support" in str(error) else str(error)
    are_nulls = bool(rows) and all(value is None for row in rows for value in row.values())
    return "reads" if rows == expected else NULLS if are_nulls else repr(rows)


@pytest.mark.parametrize("name", TURNED_ON)
def test_each_reader_does_with_each_feature_what_the_pages_say(name: str, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "name": ["a", "b", "c"]})
    table = txlog.Table.create(tmp_path / "t", rows.schema, properties={name: TURNED_ON[name]})
    table.append(rows)
    table.delete("id = 1")
    by_call = {call: _outcome(CALLS[call], table.uri, rows.slice(1).to_pylist()) for call in CALLS}
    engine, others, polars = _cells_of("docs/read.md")[name]
    assert by_call["QueryBuilder"] == engine
    assert {by_call[call] for call in ("to_pyarrow_table", "to_pandas", "to_pyarrow_dataset")} == {others}
    plain, _, with_pyarrow = polars.partition("; ")
    assert {by_call["read_delta"], by_call["scan_delta"]} == {plain}
    assert by_call["use_pyarrow"] == (with_pyarrow.split()[0] if with_pyarrow else plain)
    assert table.snapshot().to_arrow().to_pylist() == rows.slice(1).to_pylist()


@pytest.mark.parametrize("value", ["a", "a b", "50%", "ü"])
def test_polars_shows_deleted_rows_of_the_partitions_that_the_page_warns_of(value: str, tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id int, p string", ["p"], {"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "p": [value] * 2}))
    table.delete("id = 2")
    assert CALLS["scan_delta"](table.uri)["id"].to_pylist() == ([1] if value == "a" else [1, 2])
    assert CALLS["QueryBuilder"](table.uri)["id"].to_pylist() == [1]
    assert table.to_lazy().collect()["id"].to_list() == [1]


def test_polars_finds_no_file_below_a_folder_with_a_space(tmp_path: Path) -> None:
    txlog.write(tmp_path / "a b" / "t", pa.table({"id": [1]}))
    with pytest.raises(FileNotFoundError):
        pl.scan_delta(tmp_path / "a b" / "t").collect()


def test_the_pages_name_the_versions_of_the_readers_that_were_tried() -> None:
    lines = (ROOT / "docs" / "read.md").read_text().splitlines()
    head = next(line for line in lines if line.startswith("| turned on in the table"))
    for library, version in (("deltalake", deltalake.__version__), ("Polars", pl.__version__)):
        assert f"{library} {version.rpartition('.')[0]}," in head


def test_a_table_with_the_default_properties_asks_nothing_special_of_its_readers(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", pa.table({"id": [1], "name": ["a"]}))
    protocol = deltalake.DeltaTable(str(tmp_path / "t")).protocol()
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)
