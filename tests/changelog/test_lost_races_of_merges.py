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
