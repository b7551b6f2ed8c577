"""Merge engines name columns, which are then not dropped, and their properties follow a new name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from tests.core.definition.test_column_references import places
from txlog.core.definition._column_references import with_new_name
from txlog.errors import InvalidInputError
from txlog.table import Table


def test_clustering_and_merge_engines_refer_to_columns(tmp_path: Path) -> None:
    properties = {
        "txlog.merge-engine": "partial-update",
        "txlog.fields.a, b.sequence-group": "q , w",
        "txlog.fields.q.aggregate-function": "sum",
    }
    schema = "k int, s struct<x: int, y: int>, a int, b int, q int, w int"
    table = Table.create(tmp_path / "t", schema, properties=properties, cluster_by=["k", "s.x"], column_mapping="name")
    state = table._open_table.log.newest_state()
    found = {name: places(state, name) for name in ("k", "s", "s.x", "s.y", "a", "b", "q", "w")}
    assert found == {
        "k": ["clustering"],
        "s": ["clustering"],
        "s.x": ["clustering"],
        "s.y": [],
        "a": ["merge engine"],
        "b": ["merge engine"],
        "q": ["merge engine", "merge engine"],
        "w": ["merge engine"],
    }
    _, renamed = with_new_name(state.metadata, ("a",), "first")
    assert renamed["txlog.fields.first, b.sequence-group"] == "q , w"
    _, renamed = with_new_name(state.metadata, ("w",), "w2")
    assert renamed["txlog.fields.a, b.sequence-group"] == "q ,w2"
    table.rename_column("w", "w2")
    table.rename_column("q", "q2")
    assert txlog.Table.open(table.uri).snapshot().properties["txlog.fields.q2.aggregate-function"] == "sum"


def test_the_properties_of_an_engine_follow_the_new_name_of_a_column(tmp_path: Path) -> None:
    properties = {
        "delta.dataSkippingStatsColumns": "id,s.a,v",
        "txlog.merge-engine": "partial-update",
        "txlog.fields.g.sequence-group": "v,w",
        "txlog.fields.v.aggregate-function": "sum",
    }
    schema = "id int, s struct<a: int>, v int, w int, g int"
    table = Table.create(tmp_path / "t", schema, properties=properties, cluster_by=["id", "s.a"], column_mapping="name")
    for column, name in (("id", "key"), ("s.a", "b.c"), ("v", "value"), ("g", "seq")):
        table.rename_column(column, name)
    kept = {key: value for key, value in table.snapshot().properties.items() if "olumnMapping" not in key}
    assert kept == {
        "delta.dataSkippingStatsColumns": "key,s.`b.c`,value",
        "txlog.merge-engine": "partial-update",
        "txlog.fields.seq.sequence-group": "value,w",
        "txlog.fields.value.aggregate-function": "sum",
    }
    table.upsert(pa.table({"key": [1], "value": [2], "w": [3], "seq": [1], "s": [{"b.c": 1}]}), ["key"])
    table.upsert(pa.table({"key": [1], "value": [2], "w": [4], "seq": [2], "s": [{"b.c": 1}]}), ["key"])
    assert table.to_arrow(["key", "value", "w"]).to_pylist() == [{"key": 1, "value": 4, "w": 4}]
    with pytest.raises(InvalidInputError, match=r"clustered by key"):
        table.drop_columns("key")
    with pytest.raises(InvalidInputError, match=r"txlog\.fields\.seq\.sequence-group = value,w names value"):
        table.drop_columns("value")
