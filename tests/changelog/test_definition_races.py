"""Upserts and sinks whose rows are merged, beside a change of the rules by which they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from tests.core.definition.test_definition_races import VECTORS, made
from tests.losing_writer import losing_to
from txlog.table import Table

SUM = {**VECTORS, "txlog.merge-engine": "aggregation", "txlog.fields.v.aggregate-function": "sum"}
LATEST = {**VECTORS, "txlog.merge-engine": "deduplicate"}


def upserts(table: Table, k: int, v: int, kind: str = "+I") -> Any:
    return table.upsert(pa.table({"k": [k], "v": [v], "kind": [kind]}), ["k"], row_kind="kind")


def sinks(table: Table, k: int, v: int, kind: str = "+I") -> Any:
    sink = txlog.Sink(table, "job", mode="upsert", keys=["k"], row_kind="kind")
    with sink.task(checkpoint_id=1, task_id=0) as task:
        task.write(pa.table({"k": [k], "v": [v], "kind": [kind]}))
    return sink.commit(1, [task.committable])


@pytest.mark.parametrize("write", [upserts, sinks])
@pytest.mark.parametrize(
    ("before", "rules", "row"),
    [
        (LATEST, {"txlog.merge-engine": "aggregation", "txlog.fields.v.aggregate-function": "sum"}, (1, 10, "+I")),
        (SUM, {"txlog.fields.v.aggregate-function": "max"}, (1, 10, "+I")),
        (LATEST, {"txlog.sequence.field": "v"}, (1, 0, "+I")),
        (
            {**LATEST, "txlog.sequence.field": "v"},
            {"txlog.tombstone-retention": "interval 1 days"},
            (1, 9, "-D"),
        ),
    ],
    ids=["an engine", "a function", "a sequence", "tombstones"],
)
def test_a_concurrently_changed_merge_rule_stops_an_upsert_merged_by_the_old_one(
    write: Callable[..., Any], before: dict[str, str], rules: dict[str, str], row: Any, tmp_path: Path
) -> None:
    table = made(tmp_path, before)

    def rival(other: Table) -> None:
        other.set_properties(rules)
        other.upsert(pa.table({"k": [1], "v": [5]}), ["k"])

    with pytest.raises(txlog.MetadataChangedError):
        write(losing_to(table, rival), *row)
    expected = 6 if "sum" in rules.values() else 5
    assert table.snapshot().to_arrow(where="k = 1").column("v").to_pylist() == [expected], "only the rival's"


def test_an_upsert_that_is_tried_again_merges_by_the_new_rules(tmp_path: Path) -> None:
    table = made(tmp_path, LATEST)
    with pytest.raises(txlog.MetadataChangedError):
        upserts(losing_to(table, lambda other: other.set_properties(SUM)), 1, 10)
    upserts(table, 1, 10)
    assert table.snapshot().to_arrow(where="k = 1").column("v").to_pylist() == [11]
