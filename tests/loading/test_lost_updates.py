"""Adding files to a table is no read of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.core.operations.test_lost_updates import Overwrite, by_region, made, rows_of
from txlog.table import Table


@by_region
def test_adding_files_is_not_a_read(tmp_path: Path, overwrite: Overwrite) -> None:
    table = made(tmp_path)
    table.snapshot()
    Table.open(table.uri).delete("day = 'mon'")
    (tmp_path / "t/day=tue").mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [9]}), tmp_path / "t/day=tue/other.parquet")
    table.add_files(["day=tue/other.parquet"])
    with pytest.raises(txlog.ConflictError):
        overwrite(table, rows_of((6, "mon")))
