"""Changelog producers: the change data feed of tables with a merge engine, and tables that follow it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import merge_model
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.errors import InvalidInputError

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("t", pa.string())])
CHANGES = pa.schema([*SCHEMA, ("op", pa.string())])
FEED = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
SUM = {"txlog.merge-engine": "aggregation", "txlog.fields.n.aggregate-function": "sum"}
LAST = {"txlog.merge-engine": "deduplicate"}
Row = dict[str, Any]


def made(path: Path, properties: Mapping[str, str]) -> txlog.Table:
    return txlog.Table.create(str(path), SCHEMA, properties={**FEED, **properties})


def row(k: int, n: int | None = None, t: str | None = None) -> Row:
    return {"k": k, "n": n, "t": t}


def changes(*steps: tuple[str, Row]) -> pa.Table:
    return pa.Table.from_pylist([{**each, "op": kind} for kind, each in steps], CHANGES)


def upsert(table: txlog.Table, *steps: tuple[str, Row]) -> int | None:
    return table.upsert(changes(*steps), ["k"], row_kind="op").version


def reported(table: txlog.Table, version: int | None) -> list[tuple[Any, ...]]:
    """The changes of one version, in the order of the feed."""
    assert version is not None
    rows = table.changes(version, version).read_all().to_pylist()
    return [(each["_change_type"], each["k"], each["n"], each["t"]) for each in rows]


def found(table: txlog.Table) -> dict[int, Row]:
    rows = table.snapshot().to_arrow().to_pylist()
    assert len({each["k"] for each in rows}) == len(rows)
    return {each["k"]: each for each in rows}


def follow(source: txlog.Table, target: txlog.Table, first: int) -> int:
    """Bring the changes from a version on into another table; returns the version to resume from."""
    newest = source.snapshot().version
    if first <= newest:
        rows = source.changes(first, newest).read_all().drop_columns(["_commit_version", "_commit_timestamp"])
        target.upsert(rows, ["k"], row_kind="_change_type")
    return newest + 1


ROWS = st.builds(
    row, st.integers(0, 4), st.one_of(st.none(), st.integers(-3, 3)), st.one_of(st.none(), st.sampled_from("ab"))
)


@given(
    which=st.sampled_from([SUM, LAST, {**LAST, "txlog.changelog-producer.row-deduplicate": "true"}]),
    commits=st.lists(st.lists(st.tuples(st.sampled_from(("+I", "-U", "+U", "-D")), ROWS), max_size=6), max_size=4),
    follows=st.lists(st.booleans(), min_size=4, max_size=4),
    compacts=st.booleans(),
)
def test_tables_that_follow_tables_over_three_hops_are_equal(
    tmp_path_factory: pytest.TempPathFactory,
    which: dict[str, str],
    commits: list[list[tuple[str, Row]]],
    follows: list[bool],
    compacts: bool,
) -> None:
    place = tmp_path_factory.mktemp("t")
    lookup = {"txlog.changelog-producer": "lookup"}
    first = made(place / "0", {**which, **lookup})
    hops = [first, *(made(place / str(at), {**LAST, **lookup}) for at in (1, 2, 3))]
    next_version = [0, 0, 0]

    def pass_on() -> None:
        for at, (source, target) in enumerate(itertools.pairwise(hops)):
            next_version[at] = follow(source, target, next_version[at])

    if which is not SUM:  # a -U is about the row that it carries: test_feeds
        commits = [[step for step in commit if step[0] != "-U"] for commit in commits]
    for commit, follows_now in zip(commits, follows, strict=False):
        upsert(first, *commit)
        if follows_now:
            pass_on()
        if compacts:
            first.optimize()
    pass_on()
    options = {name.removeprefix("txlog."): value for name, value in which.items()}
    expected = merge_model.apply(options, SCHEMA.names, {}, [step for commit in commits for step in commit])
    assert [found(table) for table in hops] == [expected] * 4


def test_a_lookup_shows_the_old_and_the_new_row_of_each_key_that_changes(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {**SUM, "txlog.changelog-producer": "lookup"})
    assert reported(table, upsert(table, ("+I", row(1, 1)), ("+I", row(1, 2)))) == [("insert", 1, 3, None)]
    version = upsert(table, ("+I", row(1, 4, "a")), ("+I", row(2, 1)))
    assert Counter(reported(table, version)) == Counter(
        [("update_preimage", 1, 3, None), ("update_postimage", 1, 7, "a"), ("insert", 2, 1, None)]
    )


def test_input_shows_the_rows_of_the_changelog_as_they_came(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {**LAST, "txlog.changelog-producer": "input"})
    steps = [("+I", row(1, 1)), ("+I", row(2, 1)), ("-U", row(1, 1)), ("+U", row(1, 2)), ("-D", row(2, 1))]
    words = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}
    assert reported(table, upsert(table, *steps)) == [(words[kind], *each.values()) for kind, each in steps]
    assert found(table) == {1: row(1, 2)}
    version = table.upsert(pa.Table.from_pylist([row(1, 5)], SCHEMA), ["k"]).version
    assert reported(table, version) == [("insert", 1, 5, None)], "a row without a kind is an insert"
    follower = made(tmp_path / "f", LAST)
    follow(table, follower, 0)
    assert found(follower) == found(table)
    kept = made(tmp_path / "k", {**LAST, "txlog.changelog-producer": "input", "txlog.ignore-delete": "true"})
    assert reported(kept, upsert(kept, ("+I", row(1, 1)), ("-D", row(1, 1)))) == [("insert", 1, 1, None)]


def test_the_feed_shows_the_rows_of_a_sink_as_they_came_too(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {**LAST, "txlog.changelog-producer": "input"})
    sink = txlog.Sink(table, "app", mode="upsert", keys=["k"], row_kind="op")
    with sink.task(0) as task:
        task.write(changes(("+I", row(1, 1)), ("-U", row(1, 1)), ("+U", row(1, 2))))
    version = sink.commit(0, [task.committable]).version
    assert reported(table, version) == [
        ("insert", 1, 1, None),
        ("update_preimage", 1, 1, None),
        ("update_postimage", 1, 2, None),
    ]


def test_input_shows_rows_that_leave_the_table_as_it_was(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {**LAST, "txlog.sequence.field": "n", "txlog.changelog-producer": "input"})
    sink = txlog.Sink(table, "app", mode="upsert", keys=["k"], row_kind="op")
    for number, steps in enumerate(
        (
            [("+I", row(1, 5))],
            [("+U", row(1, 3))],
            [("-D", row(2, 1))],
            [("+I", row(3, 1)), ("-D", row(3, 2))],
        )
    ):
        with sink.task(number) as task:
            task.write(changes(*steps))
        version = sink.commit(number, [task.committable]).version
        told = {"+I": "insert", "+U": "update_postimage", "-D": "delete"}
        assert reported(table, version) == [(told[kind], *each.values()) for kind, each in steps]
        assert reported(table, upsert(table, *steps[-1:])) == [(told[steps[-1][0]], *steps[-1][1].values())]
        assert found(table) == {1: row(1, 5)}
    theirs = pa.table(deltalake.DeltaTable(table.uri).load_cdf(0).read_all())
    assert theirs.num_rows == table.changes(0).read_all().num_rows == 9
    assert table.verify().is_sound


def test_the_feed_of_a_retract_stream_has_both_rows_of_each_update(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {**LAST, "txlog.changelog-producer": "input"})
    sink = txlog.Sink(table, "app", mode="retract", keys=["k"], row_kind="op")
    checkpoints = (
        [("+I", row(1, 1)), ("+I", row(2, 1)), ("+I", row(3, 1))],
        [("-U", row(1, 1)), ("+U", row(1, 2)), ("-U", row(2, 1)), ("-D", row(3, 1))],
        [("+U", row(2, 2))],
    )
    words = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}
    for number, steps in enumerate(checkpoints):
        with sink.task(number) as task:
            task.write(changes(*steps))
        sink.stage(task.committable)
        sink.prepare(number, [0])
        version = txlog.Sink(table, "app").recover().results[number].version
        assert reported(table, version) == [(words[kind], *each.values()) for kind, each in steps]
        assert found(table) == merge_model.apply(
            {"merge-engine": "deduplicate"},
            SCHEMA.names,
            {},
            [("-D" if kind == "-U" else kind, each) for steps in checkpoints[: number + 1] for kind, each in steps],
        )


@pytest.mark.parametrize("engine", [SUM, LAST])
def test_updates_that_change_nothing_are_left_out_if_the_property_is_set(
    tmp_path: Path, engine: dict[str, str]
) -> None:
    table = made(tmp_path / "t", {**engine, "txlog.changelog-producer.row-deduplicate": "true"})
    upsert(table, ("+I", row(1, 1, "a")), ("+I", row(2, 2)))
    same = row(1, 0, "a") if engine is SUM else row(1, 1, "a")
    version = upsert(table, ("+U", same), ("+U", row(2, 5)))
    new = 7 if engine is SUM else 5
    assert reported(table, version) == [("update_preimage", 2, 2, None), ("update_postimage", 2, new, None)]
    assert upsert(table, ("+U", same)) == version, "no commit without a change"


def test_unchanged_values_of_any_type_are_left_out(tmp_path: Path) -> None:
    properties = {**LAST, "txlog.changelog-producer.row-deduplicate": "true", "delta.enableChangeDataFeed": "true"}
    columns = "id bigint, x double, l array<double>, m map<string, struct<a: int>>, s struct<a: string, b: float>"
    table = txlog.Table.create(tmp_path / "t", columns, properties=properties)
    nan = float("nan")
    same = {"id": 1, "x": nan, "l": [1.0, nan, None], "m": [("k", {"a": None})], "s": {"a": None, "b": 0.0}}
    table.upsert(pa.Table.from_pylist([same], table.schema), ["id"])
    for change in ({}, {"x": 1.0}, {"l": [1.0, nan]}, {"m": [("k", {"a": 1})]}, {"s": {"a": None, "b": -0.0}}):
        before = table.version
        table.upsert(pa.Table.from_pylist([same | change], table.schema), ["id"])
        assert (table.version == before) == (not change), change
        if change:
            table.upsert(pa.Table.from_pylist([same], table.schema), ["id"])
            assert table.version == before + 2, change


def test_producers_that_contradict_the_feed_are_refused_when_they_are_set(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {})
    for properties, match in (
        ({"txlog.changelog-producer": "none"}, "contradicts delta.enableChangeDataFeed"),
        ({"txlog.changelog-producer": "input"}, "set txlog.merge-engine too"),
        (
            {"txlog.changelog-producer": "input", "txlog.merge-engine": "first-row"},
            "first-row leaves out rows of known keys",
        ),
        ({"txlog.changelog-producer.row-deduplicate": "true"}, "is for tables with a merge engine"),
        ({"txlog.changelog-producer": "lookup", "delta.enableChangeDataFeed": "false"}, "which is off"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            table.set_properties(properties)
    table.set_properties({"txlog.changelog-producer": "none", "delta.enableChangeDataFeed": "false"})
