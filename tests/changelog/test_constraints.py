"""Constraints and lengths of text, where a sink of changes writes the rows, or a merge engine makes them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from tests.core.definition.test_constraints import (
    POSITIVE,
    SCHEMA,
    by_sink,
    constrained,
    limited,
    require_refusal,
    require_short_texts,
    require_written,
    rows_of,
)
from txlog.table import Table


@pytest.fixture(params=[[], ["day"]], ids=["flat", "by day"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return constrained(tmp_path / "t", request.param)


def by_changes(table: Table, rows: pa.Table) -> None:
    by_sink(table, rows, keys=["id"], mode="upsert")


def test_a_sink_of_changes_refuses_a_row_that_violates_a_constraint(table: Table) -> None:
    require_refusal(table, by_changes)


def test_a_sink_of_changes_writes_rows_that_meet_every_constraint(table: Table) -> None:
    require_written(table, by_changes)


@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["flat", "by day"])
def test_a_sink_of_changes_refuses_a_text_that_is_longer_than_its_varchar_column(
    tmp_path: Path, partition_by: list[str]
) -> None:
    require_short_texts(limited(tmp_path / "t", partition_by), by_changes)


def test_only_the_merged_row_has_to_meet_a_constraint(tmp_path: Path) -> None:
    """The changes that a merge engine merges need not: they may lack columns."""
    table = Table.create(tmp_path / "t", SCHEMA, properties={"txlog.merge-engine": "partial-update"})
    table.append(rows_of((1, "mon", 1.0)))
    table.add_constraint("positive", POSITIVE)
    sink = txlog.Sink(table, "app", keys=["id"], mode="upsert")
    with sink.task(1) as task:
        task.write(rows_of((1, "tue", None)))
    sink.commit(1, [task.committable])
    assert table.to_arrow().to_pylist() == [{"id": 1, "day": "tue", "amount": 1.0}]
    with sink.task(2) as task:
        task.write(rows_of((1, None, -1.0)))
    with pytest.raises(txlog.InvalidInputError, match=r"constraint positive.*amount = -1\.0"):
        sink.commit(2, [task.committable])
    assert table.to_arrow().to_pylist() == [{"id": 1, "day": "tue", "amount": 1.0}]
