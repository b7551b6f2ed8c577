"""Files of other programs are not taken over where columns are generated."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import txlog
from tests.core.definition.test_generated_columns import TABLES, generating, rows_of
from txlog.table import Table


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return generating(tmp_path / "t", request.param)


def test_files_of_other_programs_are_refused_since_their_rows_are_not_read(table: Table) -> None:
    if table.snapshot().properties.get("delta.columnMapping.mode") == "name":
        pytest.skip("no files of other programs have the names of its columns")
    name = "day=2026-03-01/other.parquet" if table.snapshot().partition_columns else "other.parquet"
    pq.write_table(rows_of((1, 1, 1)), Path(table.uri) / name)
    with pytest.raises(txlog.InvalidInputError, match=r"generated column day.*table\.append"):
        table.add_files([name])
