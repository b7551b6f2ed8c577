"""Upserts with a merge engine that lost a race: rows that stayed the same are decided again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from tests.core.operations.test_lost_races import losing_to

PAIRS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def pairs(*given: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in given], PAIRS)


@pytest.mark.parametrize("properties", [{"delta.enableDeletionVectors": "true"}, {}], ids=["vectors", "copies"])
@pytest.mark.parametrize(
    ("other_file", "rival"),
    [
        ([], lambda table: table.append(pairs((1, 10)))),
        ([(1, 11), (7, 0)], lambda table: table.delete("k = 1 and v = 11")),
    ],
    ids=["a row goes that stayed", "a row stays that went"],
)
def test_after_a_lost_race_the_rows_of_an_unchanged_file_go_by_what_is_decided_then(
    tmp_path: Path,
    properties: dict[str, str],
    other_file: list[tuple[int, int]],
    rival: Callable[[txlog.Table], object],
) -> None:
    """A row that equals its new version stays if it is the only one of its key, which other files decide."""
    rules = {"txlog.merge-engine": "deduplicate", "txlog.changelog-producer.row-deduplicate": "true"}
    table = txlog.Table.create(str(tmp_path / "t"), PAIRS, properties={**properties, **rules})
    table.append(pairs((1, 10), (2, 20), (3, 30)))
    if other_file:
        table.append(pairs(*other_file))
    done = losing_to(table, rival).upsert(pairs((1, 10), (2, 25)), ["k"])
    assert done.metrics.reexecutions == 1
    expected = [(1, 10), (2, 25), (3, 30)] + ([(7, 0)] if other_file else [])
    assert sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist()) == expected
    assert table.verify().is_sound


@pytest.mark.parametrize("properties", [{"delta.enableDeletionVectors": "true"}, {}], ids=["vectors", "copies"])
@pytest.mark.parametrize(("before", "meanwhile", "left"), [(10, 20, [20]), (20, 10, [])])
def test_after_a_lost_race_the_changes_of_a_key_are_about_the_row_that_the_winner_left(
    tmp_path: Path, properties: dict[str, str], before: int, meanwhile: int, left: list[int]
) -> None:
    """A -U is about the table's row if that is equal, and otherwise about the new row before it."""
    table = txlog.Table.create(
        str(tmp_path / "t"), PAIRS, properties={**properties, "delta.enableChangeDataFeed": "true"}
    )
    table.append(pairs((1, before), (2, 2)))
    loser = losing_to(table, lambda other: other.update({"v": txlog.lit(meanwhile)}, where="k = 1"))
    sink = txlog.Sink(loser, "app", mode="retract", keys=["k"], row_kind="op")
    with sink.task(1) as task:
        task.write(pa.table({"k": [1, 1, 3], "v": [20, 20, 3], "op": ["+I", "-U", "+I"]}))
    done = sink.commit(1, [task.committable])
    assert done.metrics.reexecutions == 1
    rows = [(1, each) for each in left] + [(2, 2), (3, 3)]
    assert sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist()) == rows
    changes = table.changes(done.version, done.version).read_all().to_pylist()
    new = sorted((row["k"], row["v"]) for row in changes if row["_change_type"] in ("insert", "update_postimage"))
    assert new == [(1, each) for each in left] + [(3, 3)]
    assert table.verify().is_sound
