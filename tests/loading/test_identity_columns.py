"""Clones of tables that count their rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.core.definition.test_identity_columns import GIVEN, made, numbers, rows
from txlog.errors import TxlogError
from txlog.table import Table


def test_a_range_of_a_column_that_clones_took_away_and_brought_back_is_not_used(tmp_path: Path) -> None:
    source, plain = made(tmp_path), Table.create(tmp_path / "plain", "k int, v string")
    source.append(rows(1))
    source.clone(tmp_path / "clone")
    table, other = Table.open(tmp_path / "clone"), Table.open(tmp_path / "clone")
    table.append(rows(2))
    table.append(rows(3))  # leaves a range
    plain.clone(tmp_path / "clone", mode="replace")
    source.clone(tmp_path / "clone", mode="replace")  # whose mark is before the range
    other.append(rows(*range(10, 40)))
    table.append(rows(50))
    found = numbers(table)
    assert len({*found.values()}) == len(found)
    version = table.snapshot().version
    source.clone(tmp_path / "clone", mode="replace")
    assert source.clone(tmp_path / "clone", mode="replace").outcome == "unchanged"
    assert table.snapshot().version == version + 1


def test_files_are_not_added_to_a_table_that_counts_its_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    pq.write_table(GIVEN, Path(table.uri, "a.parquet"))
    with pytest.raises(TxlogError, match=r"identity|IDENTITY"):
        table.add_files(["a.parquet"])
