"""Everything that refers to a column, found by one function: examples of each place, and of what does not refer."""

from __future__ import annotations

from pathlib import Path

import pytest

import txlog
from txlog.core.definition._column_references import references_to
from txlog.core.format.properties import column_paths
from txlog.core.versions.decisions.state import TableState
from txlog.table import Table

SCHEMA = (
    "a int, b int, s struct<x: int, y: int>, p string, g int generated always as (a + s.x), q int, w int, `d e` int"
)
PROPERTIES = {
    "delta.constraints.c1": "b > 0 AND `d e` > 0",
    "delta.dataSkippingStatsColumns": "s,q,a,b",
}


def state_of(path: Path, **options: object) -> TableState:
    table = Table.create(path / "t", SCHEMA, properties=PROPERTIES, column_mapping="name", **options)  # type: ignore[arg-type]
    return table._open_table.log.newest_state()


def places(state: TableState, column: str) -> list[str]:
    (path,) = column_paths(column)
    return sorted(each.place for each in references_to(state, path))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("a", ["generated column", "statistics"]),
        ("A", ["generated column", "statistics"]),
        ("b", ["rule", "statistics"]),
        ("`d e`", ["rule"]),
        ("s", ["generated column", "statistics"]),
        ("s.x", ["generated column", "statistics"]),
        ("s.y", ["statistics"]),
        ("p", ["partitioning"]),
        ("g", []),
        ("q", ["statistics"]),
        ("w", []),
    ],
)
def test_each_place_that_names_a_column_is_found(tmp_path: Path, column: str, expected: list[str]) -> None:
    assert places(state_of(tmp_path, partition_by="p"), column) == expected


def test_an_expression_that_txlog_cannot_parse_refers_to_what_its_text_has(tmp_path: Path) -> None:
    """A column may not change on a guess that nothing names it."""
    table = Table.create(tmp_path / "t", "amount int, other int", column_mapping="name")
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    text = commit.read_text()
    added = text.replace(
        '"delta.columnMapping.mode"', '"delta.constraints.odd":"soundex(Amount) > 1","delta.columnMapping.mode"'
    )
    assert added != text
    commit.write_text(added)
    state = txlog.Table.open(table.uri)._open_table.log.newest_state()
    assert places(state, "amount") == ["rule"]
    assert places(state, "other") == []


def test_the_invariant_of_a_column_goes_with_it_and_keeps_its_name(tmp_path: Path) -> None:
    import pyarrow as pa

    metadata = {"delta.invariants": '{"expression":{"expression":"v > 3"}}'}
    schema = pa.schema([("a", pa.int32()), pa.field("v", pa.int32(), metadata=metadata)])
    table = Table.create(tmp_path / "t", schema, column_mapping="name")
    with pytest.raises(txlog.InvalidInputError, match="the invariant of column v"):
        table.rename_column("v", "w")
    table.drop_columns("v")
    assert table.schema.names == ["a"]


def test_a_property_that_another_engine_wrote_wrongly_stays_as_it_is(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "a int, b int", column_mapping="name")
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    text = commit.read_text()
    commit.write_text(
        text.replace(
            '"delta.columnMapping.mode"', '"delta.dataSkippingStatsColumns":"a,,`b","delta.columnMapping.mode"'
        )
    )
    table = txlog.Table.open(table.uri)
    table.rename_column("a", "c")
    table.drop_columns("b")
    assert table.snapshot().properties["delta.dataSkippingStatsColumns"] == "a,,`b"


def test_a_struct_keeps_its_statistics_when_a_member_is_dropped(tmp_path: Path) -> None:
    properties = {"delta.dataSkippingStatsColumns": "s,t.x,t.y,a"}
    schema = "a int, s struct<x: int, y: int>, t struct<x: int, y: int>"
    table = Table.create(tmp_path / "t", schema, properties=properties, column_mapping="name")
    table.drop_columns(["s.x", "t.x"])
    assert table.snapshot().properties["delta.dataSkippingStatsColumns"] == "s,t.y,a"
