"""Dates and times of Spark 2 in files that are taken over."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.errors import IcebergExportError


@pytest.mark.parametrize(
    "name", ["theirs.parquet", "part-00000-973cdd43-5ec1-435d-aefc-3a44f9abb192-c000.snappy.parquet"]
)
def test_dates_of_spark_2_are_read_rewritten_and_found_as_spark_reads_them(name: str, tmp_path: Path) -> None:
    """The day 1500-03-01 has another number in the calendar of Spark 2; the log's bounds have today's."""
    days = pa.array([-171595, None, 0], pa.int32()).view(pa.date32())
    path = tmp_path / name
    rows = pa.table({"id": [1, 2, 3], "d": days})
    pq.write_table(rows.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), path, row_group_size=1)
    converted = txlog.Table.convert(tmp_path)
    assert converted.version == 0
    table = txlog.Table.open(tmp_path)
    assert "d" not in json.loads(table.snapshot().files()["stats"][0].as_py())["maxValues"]
    right = [dt.date(1500, 3, 1), None, dt.date(1970, 1, 1)]
    assert table.to_arrow()["d"].to_pylist() == right
    assert table.count("d = date'1500-03-01'") == 1
    assert table.snapshot().to_dataset().to_table().to_pydict()["d"] == right
    assert table.snapshot().to_dataset().count_rows(pc.field("d") == right[0]) == 1
    with pytest.raises(IcebergExportError, match=r"parquet has dates .* calendar of Spark 2"):
        table.export_iceberg()
    table.update({"id": txlog.expr("id + 10")}, "id = 2")
    assert path.name not in table.snapshot().files()["path"].to_pylist()
    assert table.to_arrow().sort_by("id")["d"].to_pylist() == [right[0], right[2], None]


def test_an_error_about_a_value_of_spark_2_names_the_file(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "t": pa.array([-(2**52)], pa.int64()).view(pa.timestamp("us", "UTC"))})
    pq.write_table(rows.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}), tmp_path / "theirs.parquet")
    txlog.Table.convert(tmp_path)
    table = txlog.Table.open(tmp_path)
    with pytest.raises(txlog.UnsupportedFeatureError, match=r"theirs\.parquet: column t has a time before 1900"):
        table.to_arrow()
    assert table.to_arrow(["id"]).num_rows == 1
    with pytest.raises(txlog.UnsupportedFeatureError, match="column t has a time before 1900"):
        table.update({"id": txlog.expr("id + 10")}, "id = 1")
    assert table.version == 0
