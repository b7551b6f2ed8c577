"""`Table.optimize(zorder_by=...)`: rows that are near each other come into one file, and none is lost on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.maintenance import _clustering as clustering
from txlog.core.maintenance._compaction import Compaction
from txlog.core.maintenance.rewriting._curve import ClusterColumns, Curve
from txlog.core.maintenance.rewriting._hilbert import Ranks
from txlog.errors import InvalidInputError

VECTORS = {"delta.enableDeletionVectors": "true"}
MakeTable = Callable[..., txlog.Table]
ROWS = 20_000


def points(seed: int = 0, count: int = ROWS) -> pa.Table:
    chance = np.random.default_rng(seed)
    x, y = chance.integers(0, 1000, count), chance.random(count) * 1e-6
    return pa.table({"id": np.arange(count) + seed * count, "x": x, "y": y, "s": [f"name-{n:04}" for n in x]})


def filled(make_table: MakeTable, files: int = 4, **more: Any) -> txlog.Table:
    table = make_table(schema=points(count=1).schema, **more)
    for seed in range(files):
        table.append(points(seed))
    return table


def by_id(table: txlog.Table) -> pa.Table:
    return table.snapshot().to_arrow().sort_by("id")


def touched(table: txlog.Table, where: str) -> float:
    """The share of the files that a filter looks into."""
    return table.snapshot().files(where=where).num_rows / table.snapshot().files().num_rows


@pytest.mark.parametrize("part_bytes", [1 << 40, 100_000], ids=["in memory", "spilled"])
def test_filters_on_either_column_then_skip_most_files_and_every_row_is_there(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(clustering, "PART_BYTES", part_bytes)
    table = filled(make_table, properties=VECTORS)
    table.delete("id % 100 = 3")
    before = by_id(table)
    size = sum(table.snapshot().files().column("size").to_pylist())
    boxes = ["x between 100 and 199", "y between 5e-7 and 6e-7", "s between 'name-0500' and 'name-0590'"]
    assert [touched(table, where) for where in boxes] == [1.0, 1.0, 1.0]
    result = table.optimize(zorder_by=["x", "y"], target_file_size=size // 16)
    assert result.files_removed == 4
    assert 14 <= result.files_added <= 18
    assert by_id(table).equals(before)
    assert max(touched(table, where) for where in boxes) <= 0.5
    assert verify_table(table._open_table.store).is_sound


def test_a_second_clustering_by_the_same_columns_has_nothing_to_do_until_rows_are_added(make_table: MakeTable) -> None:
    table = filled(make_table, 2)
    table.optimize(zorder_by="x,y")
    assert table.optimize(zorder_by=["x", "y"]).versions == ()
    assert table.optimize(zorder_by=["y"]).files_removed == 1
    table.append(points(2))
    assert table.optimize(zorder_by=["y"]).files_removed == 2


def test_history_and_the_tags_of_files_name_the_columns(make_table: MakeTable) -> None:
    table = filled(make_table, 1)
    table.optimize(zorder_by=["x", "s"])
    assert table.history(1)[0]["operationParameters"]["zOrderBy"] == '["x","s"]'
    (tags,) = table.snapshot().files().column("tags").to_pylist()
    assert json.loads(dict(tags)["txlog.clusteredBy"]) == ["x", "s"]


def test_rows_that_are_deleted_meanwhile_are_dead_in_the_new_files(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(make_table, 2, properties=VECTORS)
    table.delete("id % 50 = 1")
    other = txlog.Table.open(table.uri)
    execute, left = Compaction.execute, iter(["id % 50 = 2", "x < 3"])

    def beside_a_delete(self: Compaction, state: Any) -> Any:
        where = next(left, None)
        if where is not None:
            other.delete(where)
        return execute(self, state)

    monkeypatch.setattr(Compaction, "execute", beside_a_delete)
    kept = [row["id"] for row in by_id(table).to_pylist() if row["x"] >= 3 and row["id"] % 50 != 2]
    result = table.optimize(zorder_by=["x", "y"], target_file_size=100_000)
    assert result.vectors_moved > 1
    assert result.bins_given_up == 0
    assert by_id(table)["id"].to_pylist() == kept
    assert verify_table(table._open_table.store).is_sound


def test_small_files_are_placed_on_the_curve_together(make_table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(schema=points(count=1).schema, properties=VECTORS)
    for seed in range(5):
        table.append(points(seed, 10))
    table.delete("id = 7 or id = 31")
    before, placed = by_id(table), []
    pieces = Curve.pieces

    def noted(self: Curve, batch: pa.RecordBatch, numbers: Any) -> Any:
        placed.append(batch.num_rows)
        return pieces(self, batch, numbers)

    monkeypatch.setattr(Curve, "pieces", noted)
    table.optimize(zorder_by=["x", "y"])
    assert placed == [48]
    assert by_id(table).equals(before)


def test_a_partitioned_table_is_clustered_by_a_struct_member_with_nulls(make_table: MakeTable) -> None:
    rows = pa.table({"day": ["a", "b"] * 50, "s": [None if n % 5 == 0 else {"n": n} for n in range(100)]})
    table = make_table(rows, partition_by=["day"])
    assert table.optimize(zorder_by="s.n").files_added == 2
    key = [("day", "ascending")]
    found = table.snapshot().to_arrow().sort_by(key)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, rows.to_pylist()))


def test_a_table_is_clustered_by_a_struct_member_whose_name_begins_with_a_dot(make_table: MakeTable) -> None:
    rows = pa.table({"s": [{".n": n} for n in range(100)]})
    table = make_table(rows)
    table.optimize(zorder_by="s.`.n`")
    found = table.to_arrow()
    assert sorted(found.column("s").to_pylist(), key=repr) == sorted(rows.column("s").to_pylist(), key=repr)


def test_a_partition_without_a_live_row_leaves_no_file(make_table: MakeTable) -> None:
    rows = pa.table({"day": ["a", "b"] * 50, "n": range(100)})
    table = make_table(rows, partition_by=["day"], properties=VECTORS)
    (of_a,) = table.files("day = 'a'")["path"].to_pylist()
    table.delete("day = 'a' and n < 50")
    table.delete("day = 'a' and n < 98")
    other = txlog.Table.open(table.uri)
    execute = Compaction.execute

    def beside_the_last_delete(self: Compaction, state: Any) -> Any:
        other.delete("n = 98")
        return execute(self, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compaction, "execute", beside_the_last_delete)
        table.optimize(zorder_by="n", target_file_size=1)
    assert sorted(table.to_arrow()["n"].to_pylist()) == list(range(1, 100, 2))
    assert of_a not in table.files()["path"].to_pylist()
    assert table.files("day = 'a'").num_rows == 0
    assert verify_table(table._open_table.store).is_sound


def test_tracked_rows_keep_their_ids(make_table: MakeTable) -> None:
    table = filled(make_table, 2, properties={"delta.enableRowTracking": "true"})
    table.optimize(zorder_by=["x", "y"])
    assert by_id(table).num_rows == 2 * ROWS
    assert verify_table(table._open_table.store).is_sound


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("nope", "nope"),
        ("day", "partition column"),
        ("l", "whose type array<bigint> has no order"),
        ("x,x", "twice"),
        ([], "1 to 8 columns"),
        ([f"c{n}" for n in range(9)], "1 to 8 columns"),
        (7, "list of names"),
    ],
)
def test_columns_that_nothing_can_be_clustered_by_are_refused(
    make_table: MakeTable, columns: Any, message: str
) -> None:
    table = make_table(pa.table({"x": [1], "day": ["a"], "l": [[1]]}), partition_by=["day"])
    with pytest.raises(InvalidInputError, match=message):
        table.optimize(zorder_by=columns)
    assert table.version == 0


def test_columns_whose_names_have_dots_and_commas_are_named_as_they_are_or_in_backticks(make_table: MakeTable) -> None:
    rows = pa.table({"a.b": range(100), "c,d": range(100), "e": [{"f": n} for n in range(100)]})
    table = make_table(schema=rows.schema, properties={"delta.columnMapping.mode": "name"})
    table.append(rows)
    for given in (["a.b", "c,d", "e.f"], "`a.b`, `c,d`, e.f", ["`a.b`", "`c,d`", "e.f"]):
        would = table.optimize(zorder_by=given, dry_run=True)
        assert would.files_removed == 1
    table.optimize(zorder_by="a.b")
    assert json.loads(table.history(1)[0]["operationParameters"]["zOrderBy"]) == ["`a.b`"]
    with pytest.raises(InvalidInputError, match=r"there is no column e\.g"):
        table.optimize(zorder_by="e.g")
    with pytest.raises(InvalidInputError, match="with backticks around a name"):
        table.optimize(zorder_by="a b.,c")


def test_rows_that_seemed_small_by_the_first_file_go_through_the_temporary_folder(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a column of long text came later."""
    monkeypatch.setattr(clustering, "PART_BYTES", 100_000)
    table = make_table(schema={"id": pa.int64(), "text": pa.string()})
    table.append(pa.table({"id": range(50), "text": [None] * 50}, schema=table.schema))
    for first in (50, 100, 150):
        table.append(pa.table({"id": range(first, first + 50), "text": ["x" * 9_000] * 50}, schema=table.schema))
    curves = []
    make = Curve.of

    def watched(*arguments: Any) -> Curve:
        curves.append(make(*arguments))
        return curves[-1]

    monkeypatch.setattr(Curve, "of", watched)
    before = by_id(table)
    assert table.optimize(zorder_by="id").files_added == 1
    assert [curve.num_parts > 5 for curve in curves] == [True], "each is sorted by itself"
    assert by_id(table).equals(before)


def test_rows_of_one_place_on_the_curve_are_spread_over_files_of_equal_size(make_table: MakeTable) -> None:
    """As if most rows have one value."""
    table = make_table(schema={"id": pa.int64(), "country": pa.string()})
    countries = ["us" if id % 10 else f"c{id % 7}" for id in range(20_000)]
    table.append(pa.table({"id": range(20_000), "country": countries}))
    before = by_id(table)
    table.optimize(zorder_by="country", target_file_size=table.size_bytes // 10)
    rows = [json.loads(stats)["numRecords"] for stats in table.files()["stats"].to_pylist()]
    assert len(rows) >= 9
    assert max(rows) <= 3_000
    assert by_id(table).equals(before)
    assert touched(table, "country = 'c3'") <= 0.5


def test_the_parts_of_a_curve_ascend_and_a_place_that_several_cuts_have_fills_several_parts() -> None:
    columns = ClusterColumns((("x",),))
    curve = Curve(columns, (Ranks.of(pa.array([1]), 12),), np.array([5, 7, 7, 7, 9], np.uint64))
    distances = np.array([0, 5, 6, 7, 7, 7, 7, 8, 9, 10], np.uint64)
    numbers = np.arange(len(distances), dtype=np.uint64)
    assert curve.num_parts == 6
    assert curve.parts(distances, numbers).tolist() == [0, 1, 1, 4, 3, 2, 4, 4, 5, 5]
