"""Generated columns and defaults, where rows come as changes or a merge engine makes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from tests.core.definition.test_generated_columns import (
    BY_STATE,
    FIELDS,
    ODD_EXPRESSIONS,
    TABLES,
    by_sink,
    commit_metadata,
    data_files,
    defaulting,
    found_in,
    generating,
    require_computed,
    require_right_values,
    rows_of,
    schema_of,
    set_expression,
    with_values,
)
from txlog.table import Table


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return generating(tmp_path / "t", request.param)


def by_engine(table: Table, rows: pa.Table) -> None:
    table.upsert(rows, keys=["id"], merge_engine="deduplicate")


def by_changes(table: Table, rows: pa.Table) -> None:
    by_sink(table, rows, keys=["id"], mode="upsert")


@pytest.mark.parametrize("write", [by_engine, by_changes])
def test_rows_that_replace_others_get_them_computed(table: Table, write: Callable[[Table, pa.Table], None]) -> None:
    require_computed(table, write)


def test_given_values_of_an_upsert_with_an_engine_are_taken_if_they_are_right_and_refused_if_not(table: Table) -> None:
    require_right_values(table, by_engine, data_files(table))


def test_given_values_of_a_sink_of_changes_are_taken_if_they_are_right_and_refused_if_not(table: Table) -> None:
    require_right_values(table, by_changes, None)


def test_a_generated_column_can_be_a_part_of_the_key_of_changes(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", schema_of(*FIELDS), partition_by=["day"])
    table.append(rows_of((1, 1, 10), (1, 3, 30)))
    by_sink(table, rows_of((1, 3, 31)), keys=["id", "day"], mode="upsert")
    assert sorted(row["amount"] for row in table.to_arrow().to_pylist()) == [10, 31]


@pytest.mark.parametrize("expression", ODD_EXPRESSIONS)
def test_changes_are_refused_if_an_expression_cannot_be_evaluated(table: Table, expression: str) -> None:
    odd = commit_metadata(table, lambda metadata: set_expression(metadata, "twice", expression))
    before, files = found_in(odd), data_files(odd)
    with pytest.raises(txlog.UnsupportedFeatureError, match="cannot compute the generated column twice"):
        by_changes(odd, rows_of((9, 9, 9)))
    assert (found_in(odd), data_files(odd)) == (before, files)


def test_changes_must_have_columns_with_defaults(tmp_path: Path) -> None:
    with pytest.raises(txlog.SchemaMismatchError, match="the changes lack n, s"):
        by_changes(defaulting(tmp_path / "d"), pa.table({"id": [1]}))


def test_a_column_generated_from_an_empty_partition_value_of_a_change_is_computed_from_null(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", BY_STATE, "state")
    table.upsert(pa.table({"id": [1], "state": [""], "kind": ["+I"]}), ["id"], row_kind="kind")
    assert table.to_arrow().select(["id", "note", "state"]).to_pylist() == [{"id": 1, "note": None, "state": None}]
    table.append(table.to_arrow())  # what the table holds meets its own expressions


@pytest.mark.parametrize("engine", [None, "deduplicate", "first-row"])
def test_deleted_rows_of_a_sink_of_changes_need_keys_only(tmp_path: Path, engine: str | None) -> None:
    properties = {"txlog.merge-engine": engine, "txlog.ignore-delete": "true"} if engine == "first-row" else {}
    properties = {"txlog.merge-engine": engine} if engine == "deduplicate" else properties
    table = Table.create(tmp_path / "t", schema_of(*FIELDS), properties=properties)
    table.append(rows_of((1, 1, 10), (2, 2, 20)))
    sink = txlog.Sink(table, "app", keys=["id"], mode="upsert", row_kind="kind")
    with sink.task(1) as task:
        new = with_values(rows_of((8, 3, 8))).append_column("kind", pa.array(["+I"]))
        task.write(pa.concat_tables([new, pa.table({"id": [1], "kind": ["-D"]})], promote_options="default"))
        task.delete(pa.table({"id": [2]}))
        task.write(rows_of((9, 4, 9)).append_column("kind", pa.array(["+U"])))
    sink.commit(1, [task.committable])
    left = [] if engine != "first-row" else [(1, 1, 10, 20), (2, 2, 20, 40)]
    assert found_in(table) == [*left, (8, 3, 8, 16), (9, 4, 9, 18)]


def test_engines_that_merge_columns_one_by_one_are_refused(table: Table, tmp_path: Path) -> None:
    for engine in ("partial-update", "aggregation"):
        with pytest.raises(txlog.UnsupportedFeatureError, match="day, twice of the table is generated"):
            table.set_properties({"txlog.merge-engine": engine})
        with pytest.raises(txlog.UnsupportedFeatureError, match="day, twice of the table is generated"):
            table.upsert(rows_of((1, 1, 1)), ["id"], merge_engine=engine)
        with pytest.raises(txlog.UnsupportedFeatureError, match="is generated or has a default"):
            Table.create(tmp_path / engine, schema_of(*FIELDS), properties={"txlog.merge-engine": engine})
