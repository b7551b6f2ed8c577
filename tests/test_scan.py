"""Which columns of which version are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError, NotFoundError


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    txlog.write(str(tmp_path), pa.table({"a": [1], "b": ["x"]}))
    return txlog.Table.open(str(tmp_path))


def test_columns_match_whatever_their_case_and_come_in_the_order_asked_for(table: txlog.Table) -> None:
    assert table.snapshot().to_arrow(["B", "a"]).to_pylist() == [{"b": "x", "a": 1}]


@pytest.mark.parametrize("columns", [["a", "A"], ["zz"], "ab", [1]], ids=repr)
def test_columns_that_the_table_does_not_have_once_each_are_refused(table: txlog.Table, columns: Any) -> None:
    with pytest.raises(InvalidInputError, match="column"):
        table.snapshot().to_arrow(columns)


@pytest.mark.timeout(20)
def test_a_version_far_beyond_the_newest_is_refused_without_asking_for_all_between(table: txlog.Table) -> None:
    with pytest.raises(NotFoundError, match="the newest is 0"):
        table.snapshot(10**15)
