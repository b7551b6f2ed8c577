"""Tables that Spark wrote, exported as Iceberg: PyIceberg reads the rows that we read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import txlog

pytestmark = golden.needed

TABLES = {
    "basic-with-inserts-deletes-checkpoint",
    "basic-with-inserts-merge",
    "cdf-column-mapping-id-mode",
    "cdf-table",
    "compacted-log-files-table",
    "data-reader-array-complex-objects",
    "data-reader-map",
    "data-reader-nested-struct",
    "data-reader-timestamp_ntz-name-mode",
    "data-skipping-basic-stats-all-types-checkpoint",
    "dv-partitioned-with-checkpoint",
    "kernel-timestamp-int96",
    "log-replay-special-characters-a",
    "parquet-all-types",
    "parsed-stats",
    "partition_cm",
    "snapshot-data3",
    "time-travel-schema-changes-a",
    "timestamp-partitioned-table",
    "v1-single-part-struct-stats-only",
    "v2-checkpoints-json-with-last-checkpoint",
    "v2-parquet-sidecars-struct-stats-only",
    "with-short-dv",
}


def rows_of(table: pa.Table) -> list[str]:
    """Rows in an order of their own. PyIceberg reads a null list or map of structs as an empty one."""
    rows = [{name: None if value == [] else value for name, value in row.items()} for row in table.to_pylist()]
    return sorted(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("name", sorted(TABLES & set(golden.NAMES)))
def test_pyiceberg_reads_an_exported_table_of_spark_as_we_do(name: str, tmp_path: Path) -> None:
    for log in golden.unpack(name, tmp_path).rglob("_delta_log"):
        table = txlog.Table.open(log.parent)
        rows: Any = StaticTable.from_metadata(table.export_iceberg().metadata_location).scan().to_arrow()
        assert rows_of(rows) == rows_of(table.to_arrow())
