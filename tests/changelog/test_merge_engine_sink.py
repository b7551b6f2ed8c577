"""A sink into a table with a merge engine: tasks stage changelogs, and each checkpoint's commit merges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import merge_model
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.audit.verify import verify_table
from txlog.errors import InvalidInputError, SchemaMismatchError

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.int32()), ("n", pa.int64()), ("t", pa.string())])
CHANGES = pa.schema([*SCHEMA, ("op", pa.string())])
SUM = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.t.aggregate-function": "last_value"}
COUNT = {"merge-engine": "aggregation", **{f"fields.{name}.aggregate-function": "count" for name in "sn"}}
Row = dict[str, Any]


def row(k: int, s: int | None = None, n: int | None = None, t: str | None = None) -> Row:
    return {"k": k, "s": s, "n": n, "t": t}


def changes(*steps: tuple[str, Row]) -> pa.Table:
    return pa.Table.from_pylist([{**each, "op": kind} for kind, each in steps], CHANGES)


def made(path: Path, options: dict[str, str]) -> txlog.Table:
    stored = {f"txlog.{name}": value for name, value in options.items()}
    return txlog.Table.create(str(path), SCHEMA, properties={"delta.enableDeletionVectors": "true", **stored})


def found(table: txlog.Table) -> dict[int, Row]:
    rows = table.snapshot().to_arrow().to_pylist()
    assert len({each["k"] for each in rows}) == len(rows)
    return {each["k"]: each for each in rows}


def sink_of(table: txlog.Table, **how: Any) -> txlog.Sink:
    return txlog.Sink(table, "app", **{"mode": "upsert", "keys": ["k"], "row_kind": "op", **how})


def staged(sink: txlog.Sink, checkpoint_id: int, *parts: pa.Table) -> None:
    for task_id, part in enumerate(parts):
        with sink.task(checkpoint_id, task_id) as task:
            for batch in part.to_batches(max_chunksize=3):
                task.write(batch)
        sink.stage(task.committable)
    sink.prepare(checkpoint_id, range(len(parts)))


ROWS = st.builds(
    row,
    st.integers(0, 6),
    st.one_of(st.none(), st.integers(0, 4)),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.sampled_from(["a", "b"])),
)
ENGINES = [
    ({"merge-engine": "deduplicate"}, "IUD"),
    ({"merge-engine": "deduplicate", "sequence.field": "s"}, "IU"),
    ({"merge-engine": "first-row", "ignore-delete": "true"}, "IUDB"),
    ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, "IUD"),
    ({"merge-engine": "partial-update", "fields.s.sequence-group": "n,t"}, "IU"),
    (SUM, "IUDB"),
    (COUNT, "IUDB"),
]
KINDS = {"I": "+I", "U": "+U", "D": "-D", "B": "-U"}


@given(
    which=st.sampled_from(range(len(ENGINES))),
    steps=st.lists(st.lists(st.tuples(st.integers(0, 3), ROWS), max_size=8), min_size=1, max_size=3),
    compacts=st.booleans(),
)
def test_checkpoints_of_two_tasks_leave_what_plain_python_leaves(
    tmp_path_factory: pytest.TempPathFactory, which: int, steps: list[list[tuple[int, Row]]], compacts: bool
) -> None:
    options, letters = ENGINES[which]
    table = made(tmp_path_factory.mktemp("t") / "t", options)
    sink = sink_of(table)
    drawn = []
    for checkpoint_id, part in enumerate(steps):
        own = [(KINDS[letters[number % len(letters)]], each) for number, each in part]
        drawn += own
        rows = changes(*own)
        tasks = sink.partition_of(rows, 2).to_pylist() if rows.num_rows else []
        parts = [rows.filter(pa.array([each == task for each in tasks], pa.bool_())) for task in range(2)]
        staged(sink, checkpoint_id, *parts)
        if checkpoint_id % 2:
            sink = sink_of(txlog.Table.open(table.uri))  # the process that staged it is gone
            sink.recover()
        else:
            sink.commit(checkpoint_id)
        if compacts:
            table.optimize()
    assert found(table) == merge_model.apply(options, SCHEMA.names, {}, drawn)
    assert verify_table(table._open_table.store).is_sound


def test_a_checkpoint_is_merged_once_however_often_it_is_committed(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SUM)
    sink = sink_of(table)
    part = changes(("+I", row(1, None, 5)), ("+I", row(1, None, 6)), ("-U", row(2, None, 3)))
    staged(sink, 0, part)
    sink.commit(0)
    again = sink_of(txlog.Table.open(table.uri))
    assert not again.recover().results
    with again.task(0, 0, attempt=1) as task:
        task.write(part)
    assert again.commit(0, [task.committable]).outcome == "already_committed"
    assert found(table) == {1: row(1, None, 11), 2: row(2, None, -3)}
    left = [path for path in (tmp_path / "t").rglob("*") if "keys" in path.name and path.is_file()]
    assert len(left) <= 1, "only what the replay staged is left, for a vacuum"


def test_rows_of_one_key_from_two_tasks_are_merged_where_their_order_does_not_matter(tmp_path: Path) -> None:
    counted = made(tmp_path / "c", COUNT | {"fields.t.aggregate-function": "max"})
    sink = sink_of(counted)
    staged(sink, 0, changes(("+I", row(1, 1, 1, "b"))), changes(("+I", row(1, 1, None, "a"))))
    sink.commit(0)
    assert found(counted) == {1: row(1, 2, 1, "b")}
    summed = sink_of(made(tmp_path / "s", SUM))  # with a last_value
    with pytest.raises(InvalidInputError, match=r"tasks 0 and 1 both have rows with k=1, and merge-engine aggregation"):
        staged(summed, 0, changes(("+I", row(1, 1, 1))), changes(("+I", row(2)), ("+I", row(1, 1, 1))))


def test_a_sink_takes_kinds_that_the_tables_engine_takes_and_no_others(tmp_path: Path) -> None:
    sink = sink_of(made(tmp_path / "t", {"merge-engine": "first-row"}))
    with pytest.raises(InvalidInputError, match="merge-engine first-row cannot retract"), sink.task(0) as task:
        task.write(changes(("-D", row(1))))
    partial = sink_of(made(tmp_path / "p", {"merge-engine": "partial-update"}))
    with partial.task(0) as task:
        task.write(pa.table({"k": [1], "op": ["+I"], "t": ["a"]}))
    partial.commit(0, [task.committable])
    assert found(partial._table) == {1: row(1, None, None, "a")}
    summed = sink_of(made(tmp_path / "s", SUM))
    with pytest.raises(SchemaMismatchError, match="the changes lack s, n"), summed.task(0) as task:
        task.write(pa.table({"k": [1], "op": ["+I"], "t": ["a"]}))


def test_a_sink_that_asks_for_another_merge_than_the_table_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SUM)
    sink_of(table, merge_engine={"merge-engine": "aggregate", "fields.n.aggregate-function": "sum"})
    with pytest.raises(InvalidInputError, match=r"differ from txlog\.merge-engine = first-row"):
        sink_of(table, merge_engine="first-row")
    plain = made(tmp_path / "p", {})
    with pytest.raises(InvalidInputError, match=r'set_properties\(\{"txlog.merge-engine": "first-row"\}\)'):
        sink_of(plain, merge_engine="first-row")
    with pytest.raises(InvalidInputError, match="orders rows with one key by arrival"):
        sink_of(table, sequence_by="s").task(0)


def test_columns_that_change_places_or_come_between_seal_and_commit_are_read_by_name(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"merge-engine": "partial-update"})
    sink = sink_of(table)
    staged(sink, 0, changes(("+I", row(1, 2, 3, "a"))))
    reordered = pa.schema([SCHEMA.field(name) for name in ("k", "t", "n", "s")])
    table.overwrite(pa.Table.from_pylist([row(9, 9, 90, "i")], reordered), schema_mode="overwrite")
    staged(sink_of(txlog.Table.open(table.uri)), 1, changes(("+U", row(9, None, 91))))
    added = pa.schema([*reordered, ("later", pa.int64())])
    table.append(pa.Table.from_pylist([{**row(8), "later": 1}], added), schema_mode="merge")
    now = txlog.Table.open(table.uri)
    assert list(now.snapshot().schema.names) == ["k", "t", "n", "s", "later"]
    sink_of(now).commit(0)
    sink_of(now).commit(1)
    assert found(now)[1] == {**row(1, 2, 3, "a"), "later": None}
    assert found(now)[9] == {**row(9, 9, 91, "i"), "later": None}


PAIR = pa.struct([("a", pa.string()), ("b", pa.string())])
NESTED = pa.schema([("k", pa.int64()), ("s", PAIR), ("l", pa.list_(PAIR)), ("m", pa.map_(pa.string(), PAIR))])
PAIRS = ("s", "l.element", "m.value")


def swap_fields(table: txlog.Table) -> None:
    for pair in PAIRS:
        table.rename_column(f"{pair}.a", "x")
        table.rename_column(f"{pair}.b", "a")
        table.rename_column(f"{pair}.x", "b")


def rename_field(table: txlog.Table) -> None:
    for pair in PAIRS:
        table.rename_column(f"{pair}.a", "c")


def add_field(table: txlog.Table) -> None:
    more = pa.struct([("a", pa.string())])
    table.add_columns(pa.schema([("s", more), ("l", pa.list_(more)), ("m", pa.map_(pa.string(), more))]))


def drop_field(table: txlog.Table) -> None:
    table.drop_columns([f"{pair}.a" for pair in PAIRS])


@pytest.mark.parametrize("options", [{}, {"txlog.merge-engine": "deduplicate"}], ids=["no engine", "engine"])
@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize(
    ("steps", "pair"),
    [
        ([swap_fields], {"b": "A", "a": "B"}),
        ([rename_field], {"c": "A", "b": "B"}),
        ([rename_field, add_field], {"c": "A", "b": "B", "a": None}),
        ([drop_field], {"b": "B"}),
        ([drop_field, add_field], {"b": "B", "a": None}),
    ],
    ids=["swap", "rename", "rename and add", "drop", "drop and add"],
)
def test_struct_fields_that_are_renamed_or_dropped_between_seal_and_commit_keep_their_own_values(
    tmp_path: Path, options: dict[str, str], mode: Any, steps: list[Callable[[txlog.Table], None]], pair: Row
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), NESTED, properties=options, column_mapping=mode)
    sink = sink_of(table, row_kind=None)
    given = {"a": "A", "b": "B"}
    rows = [{"k": 1, "s": given, "l": [given, None], "m": {"x": given}}, {"k": 2, "s": None, "l": None, "m": None}]
    staged(sink, 0, pa.Table.from_pylist(rows, NESTED))
    for step in steps:
        step(txlog.Table.open(table.uri))
    sink.commit(0)
    assert found(table) == {
        1: {"k": 1, "s": pair, "l": [pair, None], "m": [("x", pair)]},
        2: {"k": 2, "s": None, "l": None, "m": None},
    }


def test_a_column_that_is_dropped_between_seal_and_commit_is_left_out(tmp_path: Path) -> None:
    properties = {"txlog.merge-engine": "deduplicate"}
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, properties=properties, column_mapping="name")
    sink = sink_of(table)
    staged(sink, 0, changes(("+I", row(1, 2, 3, "a"))))
    table.drop_columns(["n", "t"])
    table.add_columns("t string")
    sink.commit(0)
    assert found(table) == {1: {"k": 1, "s": 2, "t": None}}


def test_rows_whose_keys_the_table_no_longer_finds_are_refused_before_the_seal(tmp_path: Path) -> None:
    properties = {"txlog.merge-engine": "deduplicate"}
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, properties=properties, column_mapping="name")
    sink = sink_of(table)
    for task_id in range(2):
        with sink.task(0, task_id) as task:
            task.write(changes(("+I", row(task_id))))
        sink.stage(task.committable)
    table.drop_feature("columnMapping")
    with pytest.raises(InvalidInputError, match="was written for other columns than the table has now: its rows have"):
        sink.prepare(0, range(2))
    assert found(table) == {}


def test_a_checkpoint_that_was_sealed_before_the_table_had_an_engine_is_refused_saying_so(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {})
    sink = sink_of(table)
    staged(sink, 0, changes(("+I", row(1, 2, 3, "a"))))
    table.set_properties({"txlog.merge-engine": "first-row"})
    with pytest.raises(InvalidInputError, match="written while the table had no merge engine, but it has one now"):
        sink_of(txlog.Table.open(table.uri)).commit(0)
    assert found(table) == {}


def test_a_checkpoint_that_was_sealed_before_the_table_lost_its_engine_is_refused_saying_so(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"merge-engine": "first-row"})
    staged(sink_of(table), 0, changes(("+I", row(1, 2, 3, "a"))))
    table.unset_properties(["txlog.merge-engine"])
    with pytest.raises(InvalidInputError, match="written while the table had a merge engine, but it has none now"):
        sink_of(txlog.Table.open(table.uri)).commit(0)
    assert found(table) == {}
    table.set_properties({"txlog.merge-engine": "first-row"})
    sink_of(txlog.Table.open(table.uri)).commit(0)
    assert found(table) == {1: row(1, 2, 3, "a")}


GROUPED = {"merge-engine": "partial-update", "fields.s.sequence-group": "n"}
PRODUCT = {"merge-engine": "aggregation", **{f"fields.{name}.aggregate-function": "product" for name in "sn"}}
PRODUCT |= {"fields.t.aggregate-function": "max", "fields.t.ignore-retract": "true"}
REMOVED = COUNT | {"fields.t.aggregate-function": "max", "aggregation.remove-record-on-delete": "true"}


@pytest.mark.parametrize(
    ("options", "one", "two"),
    [
        ({"merge-engine": "deduplicate", "sequence.field": "s"}, ("+I", row(1, 5, 1)), ("+I", row(1, 5, 2))),
        ({"merge-engine": "deduplicate", "sequence.field": "s"}, ("+I", row(1, None, 1)), ("+I", row(1, None, 2))),
        (GROUPED, ("+I", row(1, 5, 1)), ("+I", row(1, 5, 2))),
        (GROUPED, ("+I", row(1, 5, 1, "a")), ("+I", row(1, 6, 2, "b"))),
        (SUM | {"sequence.field": "s"}, ("+I", row(1, 5, 1, "a")), ("+I", row(1, 5, 1, "b"))),
        (PRODUCT, ("+I", row(1, 5, 2)), ("-D", row(1, 5, 2))),
        (REMOVED, ("+I", row(1, 5, 2)), ("-D", row(1, 5, 2))),
    ],
    ids=["tie", "nulls", "tie of a group", "outside groups", "tie of a function", "product", "remove on delete"],
)
def test_rows_of_two_tasks_whose_order_decides_and_is_unknown_are_refused_before_the_seal(
    tmp_path: Path, options: dict[str, str], one: tuple[str, Row], two: tuple[str, Row]
) -> None:
    sink = sink_of(made(tmp_path / "t", options))
    with pytest.raises(InvalidInputError, match=r"tasks 0 and 1 both have rows with k=1.*must know which came later"):
        staged(sink, 0, changes(one), changes(two))
    assert not sink.recover().results


@pytest.mark.parametrize(
    ("options", "one", "two", "wanted"),
    [
        ({"sequence.field": "s"}, [("+I", row(1, 5, 1))], [("+I", row(1, 6, 2)), ("+I", row(1, 4, 3))], row(1, 6, 2)),
        ({"sequence.field": "s"}, [("+I", row(1, 5, 1)), ("+I", row(1, 6, 2))], [("+I", row(1, 5, 3))], row(1, 6, 2)),
        (GROUPED, [("+I", row(1, 5, 1, "a"))], [("+I", row(1, 6, 2)), ("+I", row(1, None, 9))], row(1, 6, 2, "a")),
        (PRODUCT, [("+I", row(1, 5, 2))], [("+U", row(1, 3, 2, "a"))], row(1, 15, 4, "a")),
        (REMOVED, [("+I", row(1, 5, 2))], [("+U", row(1, 3, 2, "a"))], row(1, 2, 2, "a")),
    ],
    ids=["sequence", "tie that an other outdoes", "groups", "product", "count"],
)
def test_rows_of_two_tasks_with_a_sequence_are_merged_whichever_task_has_them(
    tmp_path: Path, options: dict[str, str], one: list[tuple[str, Row]], two: list[tuple[str, Row]], wanted: Row
) -> None:
    for at, parts in enumerate(((one, two), (two, one))):
        table = made(tmp_path / str(at), {"merge-engine": "deduplicate", **options})
        sink = sink_of(table)
        staged(sink, 0, *(changes(*part) for part in parts))
        sink.commit(0)
        assert found(table) == {1: wanted}


MEMBERS = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())])


def test_a_null_in_a_required_struct_field_is_named_in_the_task(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("m", MEMBERS)])
    table = txlog.Table.create(str(tmp_path / "t"), schema, properties={"txlog.merge-engine": "partial-update"})
    loose = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    sink = sink_of(table, row_kind=None)
    bad = pa.table({"k": [1, 2], "m": pa.array([None, {"x": None, "y": 1}], loose)})
    with pytest.raises(InvalidInputError, match=r"column m.x is null, but the table.s column is NOT NULL \(row 1"):
        sink.task(0).write(bad)
    with pytest.raises(InvalidInputError, match=r"column m.x is null, but the table.s column is NOT NULL \(row 1"):
        table.upsert(bad, ["k"])
    with sink.task(0) as task:
        task.write(pa.table({"k": [1], "m": pa.array([{"x": 4, "y": None}], loose)}))
        task.write(pa.table({"k": [1], "m": pa.array([None], loose)}))
    sink.commit(0, [task.committable])
    assert found(table) == {1: {"k": 1, "m": {"x": 4, "y": None}}}


def test_a_deleted_row_may_lack_values_unless_the_feed_shows_it_as_it_came(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), pa.field("r", pa.int64(), nullable=False)])
    for producer in ("lookup", "input"):
        properties = {"delta.enableChangeDataFeed": "true", "txlog.changelog-producer": producer}
        properties |= {"txlog.merge-engine": "deduplicate"}
        table = txlog.Table.create(str(tmp_path / producer), schema, properties=properties)
        table.append(pa.table({"k": [1, 2], "r": [1, 2]}))
        sink = sink_of(table)
        with pytest.raises(InvalidInputError, match="column r must not be null, but is in row 0"):
            sink.task(0).write(pa.table({"k": [1], "r": pa.array([None], pa.int64()), "op": ["+U"]}))
        if producer == "lookup":
            with sink.task(0) as task:
                task.delete(pa.table({"k": [1]}))
            sink.commit(0, [task.committable])
            assert found(table) == {2: {"k": 2, "r": 2}}
        else:
            with pytest.raises(InvalidInputError, match=r"column r must not be null.*changelog-producer = input"):
                sink.task(0).delete(pa.table({"k": [1]}))
