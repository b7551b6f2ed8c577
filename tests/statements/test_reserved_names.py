"""Names that the engine of queries reserves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import txlog


@pytest.mark.parametrize("name", ["at", "order", "select"])
def test_a_column_whose_name_duckdb_reserves_is_queried_as_it_is_changed(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "t")
    txlog.write(path, pa.table({name: [1, 2, 3], "n": [4, 5, 6]}))
    quoted = f"`{name}`"
    found = txlog.sql(f"select {quoted}, n from delta.`{path}` where {quoted} < 3 order by {quoted}")
    assert found.read_all().to_pylist() == [{name: 1, "n": 4}, {name: 2, "n": 5}]
    txlog.sql(f"delete from delta.`{path}` where {quoted} < 3")
    assert txlog.Table.open(path).to_arrow().to_pylist() == [{name: 3, "n": 6}]
