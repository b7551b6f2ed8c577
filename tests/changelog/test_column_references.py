"""Merge engines name columns, which are then neither dropped nor renamed."""

from __future__ import annotations

from pathlib import Path

import txlog
from tests.core.definition.test_column_references import places
from txlog.core.definition._column_references import with_new_name
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
