"""`Table.upsert` with a merge engine: equal to plain Python however a changelog is cut, with compactions between."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import merge_model
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.audit.verify import verify_table
from txlog.changelog.merged_rows import MergedRows
from txlog.errors import InvalidInputError, SchemaMismatchError

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.int32()), ("n", pa.int64()), ("t", pa.string())])
SUM = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.t.aggregate-function": "last_value"}

Row = dict[str, Any]


def row(k: int, s: int | None = None, n: int | None = None, t: str | None = None) -> Row:
    return {"k": k, "s": s, "n": n, "t": t}


def changelog(*steps: tuple[str, Row]) -> pa.Table:
    schema = pa.schema([*SCHEMA, ("op", pa.string())])
    return pa.Table.from_pylist([{**each, "op": kind} for kind, each in steps], schema)


def stored(options: Mapping[str, str]) -> dict[str, str]:
    return {f"txlog.{name}": value for name, value in options.items()}


def made(path: Path, options: Mapping[str, str], properties: Mapping[str, str] = VECTORS) -> txlog.Table:
    return txlog.Table.create(str(path), SCHEMA, properties={**properties, **stored(options)})


def found(table: txlog.Table) -> dict[int, Row]:
    rows = table.snapshot().to_arrow().to_pylist()
    assert len({each["k"] for each in rows}) == len(rows), "each key has one row"
    return {each["k"]: each for each in rows}


ROWS = st.builds(
    row,
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(0, 4)),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.sampled_from(["a", "b"])),
)
ENGINES: list[tuple[dict[str, str], Sequence[str]]] = [
    ({"merge-engine": "deduplicate"}, ("+I", "+U", "-D")),
    ({"merge-engine": "deduplicate", "ignore-delete": "true"}, ("+I", "-D")),
    ({"merge-engine": "deduplicate", "sequence.field": "s"}, ("+I", "+U")),
    ({"merge-engine": "first-row", "ignore-delete": "true"}, ("+I", "+U", "-D")),
    ({"merge-engine": "partial-update"}, ("+I", "+U")),
    ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, ("+I", "+U", "-D")),
    ({"merge-engine": "partial-update", "fields.s.sequence-group": "n,t"}, ("+I", "+U")),
    (SUM, ("+I", "-U", "+U", "-D")),
    ({**SUM, "aggregation.remove-record-on-delete": "true"}, ("+I", "-U", "+U", "-D")),
]


@given(
    which=st.sampled_from(range(len(ENGINES))),
    properties=st.sampled_from([VECTORS, {}, {**VECTORS, **FEED}]),
    steps=st.lists(st.tuples(st.sampled_from("IUud"), ROWS), min_size=1, max_size=14),
    cuts=st.lists(st.tuples(st.integers(1, 13), st.booleans()), max_size=3),
)
def test_every_engine_leaves_what_plain_python_leaves_however_a_changelog_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    which: int,
    properties: dict[str, str],
    steps: list[tuple[str, Row]],
    cuts: list[tuple[int, bool]],
) -> None:
    options, kinds = ENGINES[which]
    drawn = [(kinds["IUud".index(letter) % len(kinds)], each) for letter, each in steps]
    table = made(tmp_path_factory.mktemp("t") / "t", options, properties)
    other = txlog.Table.open(table.uri)
    ends = sorted({0, len(drawn), *(min(at, len(drawn)) for at, _ in cuts)})
    compacts = dict(cuts)
    for number, (start, end) in enumerate(itertools.pairwise(ends)):
        writer = (table, other)[number % 2]
        writer.upsert(changelog(*drawn[start:end]), ["k"], row_kind="op")
        if compacts.get(end):
            other.optimize()
    expected = merge_model.apply(options, SCHEMA.names, {}, drawn)
    assert found(table) == expected
    assert verify_table(table._open_table.store).is_sound
    if properties.get("delta.enableChangeDataFeed"):
        assert folded(table) == expected


def folded(table: txlog.Table) -> dict[int, Row]:
    """The table by its change feed alone, each update of which has both of its rows."""
    left: dict[int, Row] = {}
    changes = table.changes(0).read_all().to_pylist()
    for _, version in itertools.groupby(changes, key=lambda change: change["_commit_version"]):
        gone, come = {}, {}
        for change in version:
            kind = change["_change_type"]
            own = {name: change[name] for name in SCHEMA.names}
            if kind in ("delete", "update_preimage"):
                assert left.pop(own["k"]) == own
                gone[own["k"]] = kind
            else:
                come[own["k"]] = (kind, own)
        pre = {key for key, kind in gone.items() if kind == "update_preimage"}
        assert pre == {key for key, (kind, _) in come.items() if kind == "update_postimage"}
        left.update({key: own for key, (_, own) in come.items()})
    return left


@MODES
def test_rows_of_two_upserts_are_summed_and_retracted(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", SUM, properties)
    table.upsert(
        changelog(("+I", row(1, 1, 10, "a")), ("+I", row(1, 1, 5, "b")), ("+I", row(2, 1, 1))), ["k"], row_kind="op"
    )
    result = table.upsert(changelog(("-U", row(1, 1, 10, "a")), ("+U", row(1, 1, 7, "c"))), ["k"], row_kind="op")
    assert found(table) == {1: row(1, 1, 12, "c"), 2: row(2, 1, 1)}
    did = result.metrics
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted) == (0, 1, 0)


@MODES
def test_deletes_need_only_their_keys(tmp_path: Path, properties: dict[str, str]) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
    table = txlog.Table.create(str(tmp_path / "t"), schema, properties=properties)
    table.append(pa.table({"k": [1, 2, 3], "n": [1, 2, 3]}, schema))
    result = table.upsert(pa.table({"k": [2, 9], "op": ["-D", "-D"]}), ["k"], row_kind="op")
    assert (result.metrics.rows_deleted, result.metrics.rows) == (1, 0)
    gone_or_new = pa.table({"k": [1, 4], "n": [None, 4], "what": ["gone", "there"]})
    table.upsert(gone_or_new, ["k"], row_kind="what", row_kinds={"gone": "-D", "there": "+I"})
    assert sorted(table.snapshot().to_arrow()["k"].to_pylist()) == [3, 4]
    with pytest.raises(InvalidInputError, match="n"):
        table.upsert(pa.table({"k": [4], "n": pa.array([None], pa.int64()), "op": ["+U"]}), ["k"], row_kind="op")
    assert table.upsert(pa.table({"k": [77], "op": ["-D"]}), ["k"], row_kind="op").metrics.rows == 0


def test_late_rows_lose_against_the_tables_and_nothing_is_written_for_them(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {})
    engine: dict[str, Any] = {"keys": ["k"], "merge_engine": "deduplicate", "sequence_by": "s"}
    table.upsert(pa.Table.from_pylist([row(1, 5, 50), row(1, 7, 70), row(2, 3, 30)], SCHEMA), **engine)
    result = table.upsert(pa.Table.from_pylist([row(1, 6, 60), row(2, 3, 31)], SCHEMA), **engine)
    assert found(table) == {1: row(1, 7, 70), 2: row(2, 3, 31)}
    assert (result.metrics.rows_updated, result.metrics.rows_inserted) == (1, 0)
    before = table.snapshot().version
    assert table.upsert(pa.Table.from_pylist([row(1, 1, 10)], SCHEMA), **engine).version == before


REMOVING = pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "deduplicate"},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"},
    ],
    ids=lambda options: options["merge-engine"],
)
LAST_VALUES = {
    "merge-engine": "aggregation",
    "sequence.field": "s",
    "fields.default-aggregate-function": "last_value",
}
EARLY, GONE, LATE = ("+I", row(1, 3, 30)), ("-D", row(1, 5)), ("+U", row(1, 4, 40))


@REMOVING
def test_in_one_commit_a_late_row_does_not_bring_back_what_a_delete_of_a_greater_sequence_took(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path / "t", {**options, "sequence.field": "s"})
    sink = txlog.Sink(table, "app", mode="upsert", keys=["k"], row_kind="op")
    for number, steps in enumerate(itertools.permutations((EARLY, GONE, LATE))):
        table.upsert(changelog(*steps), ["k"], row_kind="op")
        assert found(table) == {}
        tasks = []
        for task_id, step in enumerate(steps):
            with sink.task(number, task_id) as task:
                task.write(changelog(step))
            tasks.append(task.committable)
        sink.commit(number, tasks)
        assert found(table) == {}


@REMOVING
def test_an_engine_that_removes_deleted_rows_accepts_late_rows_of_later_commits(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path / "t", {**options, "sequence.field": "s"})
    for step, left in ((EARLY, {1: EARLY[1]}), (("-D", row(1, 2)), {1: EARLY[1]}), (GONE, {}), (LATE, {1: LATE[1]})):
        table.upsert(changelog(step), ["k"], row_kind="op")
        assert found(table) == left


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({"merge-engine": "partial-update", "fields.s.sequence-group": "n,t"}, ("-D", row(1, 5))),
        (LAST_VALUES, ("-D", row(1, 5, 30))),
        ({"merge-engine": "deduplicate", "sequence.field": "s"}, ("+U", row(1, 5))),
    ],
    ids=["sequence group", "values taken back", "a row that says it is gone"],
)
def test_an_engine_that_keeps_the_row_of_a_deleted_key_ignores_late_rows_of_later_commits(
    tmp_path: Path, options: dict[str, str], gone: tuple[str, Row]
) -> None:
    table = made(tmp_path / "t", options)
    for step, left in ((EARLY, EARLY[1]), (gone, row(1, 5)), (LATE, row(1, 5)), (("+U", row(1, 6, 60)), row(1, 6, 60))):
        table.upsert(changelog(step), ["k"], row_kind="op")
        assert found(table) == {1: left}


def test_a_partial_update_leaves_columns_that_its_rows_lack(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {"merge-engine": "partial-update"})
    table.upsert(pa.table({"k": [1], "n": [5]}), ["k"])
    table.upsert(pa.table({"k": [1, 2], "t": ["a", "b"]}), ["k"])
    assert found(table) == {1: row(1, None, 5, "a"), 2: row(2, None, None, "b")}
    with pytest.raises(SchemaMismatchError, match="lack k"):
        table.upsert(pa.table({"t": ["a"]}), ["k"])


@pytest.mark.parametrize("properties", [VECTORS, {}, FEED], ids=["vectors", "copies", "feed"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "deduplicate"])
@pytest.mark.parametrize("options", [{}, {"sequence.field": "n"}, {"changelog-producer.row-deduplicate": "true"}])
def test_rows_with_a_required_field_in_a_struct_are_merged(
    tmp_path: Path, properties: dict[str, str], engine: str, options: dict[str, str]
) -> None:
    below = pa.struct([pa.field("y", pa.int64(), nullable=False)])
    place = pa.struct([pa.field("x", pa.int64(), nullable=False), ("below", below)])
    schema = pa.schema([("k", pa.int64()), ("at", place), ("n", pa.int64())])
    options = stored({**options, "merge-engine": engine})
    table = txlog.Table.create(str(tmp_path / "t"), schema, properties={**properties, **options})

    def rows(*given: tuple[int, Any, int]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, each, strict=True)) for each in given], schema)

    here, there = {"x": 1, "below": {"y": 1}}, {"x": 2, "below": None}
    table.upsert(rows((1, here, 1), (2, None, 1), (3, here, 1)), ["k"])
    table.upsert(rows((1, there, 2), (2, here, 2), (4, None, 2)), ["k"])
    merged = rows((1, there, 2), (2, here, 2), (3, here, 1), (4, None, 2))
    assert table.to_arrow().sort_by("k").to_pylist() == merged.to_pylist()
    assert verify_table(table._open_table.store).is_sound


@MODES
def test_a_lost_race_merges_again_with_what_the_winner_wrote(
    tmp_path: Path, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t", SUM, {**properties, **FEED})
    table.upsert(pa.Table.from_pylist([row(1, 0, 1), row(2, 0, 1)], SCHEMA), ["k"])
    winner = txlog.Table.open(table.uri)
    decisions: list[int] = []
    batches = MergedRows.source_batches

    def after_the_winner(self: MergedRows, is_written: Any) -> Any:
        decisions.append(self.num_decisions)
        if len(decisions) == 1:
            winner.upsert(pa.Table.from_pylist([row(1, 0, 100), row(3, 0, 1)], SCHEMA), ["k"])
        return batches(self, is_written)

    monkeypatch.setattr(MergedRows, "source_batches", after_the_winner)
    result = table.upsert(
        changelog(("+I", row(1, 0, 10)), ("-U", row(2, 0, 1)), ("+U", row(4, 0, 4))), ["k"], row_kind="op"
    )
    assert (result.version, max(decisions)) == (3, 2)
    expected = {1: row(1, 0, 111), 2: row(2, None, 0), 3: row(3, 0, 1), 4: row(4, 0, 4)}
    assert found(table) == folded(table) == expected


def test_a_transaction_merges_with_its_own_rows(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SUM)
    with table.transaction() as txn:
        txn.append(pa.Table.from_pylist([row(1, 0, 1)], SCHEMA))
        txn.upsert(changelog(("+I", row(1, 0, 2)), ("+I", row(2, 0, 2))), ["k"], row_kind="op")
    assert found(table) == {1: row(1, 0, 3), 2: row(2, 0, 2)}


def test_every_writer_merges_by_the_tables_properties(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SUM)
    same = {"merge-engine": "aggregate", "txlog.fields.n.aggregate-function": "SUM"}
    table.upsert(pa.Table.from_pylist([row(1, 0, 1)], SCHEMA), ["k"], merge_engine=same)
    table.upsert(pa.Table.from_pylist([row(1, 0, 1)], SCHEMA), ["k"])
    assert found(table)[1]["n"] == 2
    for engine in ("deduplicate", {"fields.n.aggregate-function": "max"}):
        with pytest.raises(InvalidInputError, match=r"how its rows are merged \(merge-engine aggregation\)"):
            table.upsert(pa.Table.from_pylist([row(1, 0, 1)], SCHEMA), ["k"], merge_engine=engine)
    with pytest.raises(InvalidInputError, match="update_columns is for upserts without a merge engine"):
        table.upsert(pa.Table.from_pylist([row(1, 0, 1)], SCHEMA), ["k"], update_columns=["n"])


def test_properties_of_merging_are_checked_when_they_are_set(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {})
    for properties, match in (
        ({"txlog.merge-engine": "sum"}, "Invalid table property txlog.merge-engine 'sum': expected"),
        ({"txlog.merge-engine": "aggregation", "txlog.fields.t.aggregate-function": "sum"}, "t is a string"),
        ({"txlog.fields.n.aggregate-function": "sum"}, "deduplicate takes whole rows, and has no aggregate functions"),
        (
            {"txlog.merge-engine": "aggregation", "txlog.fields.x.aggregate-function": "sum"},
            "'x', which is not a column",
        ),
        ({"txlog.fields.n.agregate-function": "sum"}, "unknown table property"),
        ({"txlog.ignore-delete": "yes"}, "expected true or false"),
        ({"txlog.changelog-producer": "full-compaction"}, "expected 'none', 'input' or 'lookup'"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            table.set_properties(properties)
    table.set_properties({"txlog.Merge-Engine": "AGGREGATE", "txlog.fields.n.AGGREGATE-FUNCTION": "Sum"})
    configuration = table.snapshot().properties
    assert configuration["txlog.merge-engine"] == "aggregation"
    assert configuration["txlog.fields.n.aggregate-function"] == "sum"
    with pytest.raises(InvalidInputError, match="takes whole rows"):
        table.set_properties({"txlog.merge-engine": "deduplicate"})
    with pytest.raises(InvalidInputError, match="has no option 'changelog-producer'"):
        table.upsert(pa.table({"k": [1]}), ["k"], merge_engine={"changelog-producer": "none"})


def test_a_source_without_rows_changes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SUM)
    assert table.upsert(changelog(), ["k"], row_kind="op").version == 0
    with pytest.raises(InvalidInputError, match="row_kind names 'op', which the source lacks"):
        table.upsert(pa.Table.from_pylist([row(1)], SCHEMA), ["k"], row_kind="op")


def test_partitions_and_nested_keys_are_merged_too(tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.struct([("a", pa.int64()), ("b", pa.string())])), ("day", pa.string()), ("n", pa.int64())]
    )
    options = stored({"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"})
    table = txlog.Table.create(str(tmp_path / "t"), schema, ["day"], {**VECTORS, **options})
    rows = [
        {"id": {"a": a, "b": b}, "day": day, "n": 1} for a, b, day in ((1, "x", "mo"), (1, "y", "mo"), (1, "x", "tu"))
    ]
    for each in rows:
        table.upsert(pa.Table.from_pylist([each], schema), ["id.a", "id.b"])
    left = sorted(table.snapshot().to_arrow().to_pylist(), key=repr)
    assert left == [{**rows[1]}, {**rows[2], "n": 2}] or left == [{**rows[2], "n": 2}, {**rows[1]}]


@pytest.mark.parametrize("function", ["sum", "product"])
def test_a_result_that_does_not_fit_its_column_is_refused_with_table_and_version(tmp_path: Path, function: str) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": function}
    table = made(tmp_path / "t", options)
    table.upsert(pa.Table.from_pylist([row(1, 1, 2**63 - 1)], SCHEMA), ["k"])
    with pytest.raises(InvalidInputError, match=f"the {function} of column n does not fit its type, int64") as refused:
        table.upsert(pa.Table.from_pylist([row(1, 1, 2)], SCHEMA), ["k"])
    assert (refused.value.table, refused.value.version) == (table.uri, 1)
    assert "C long" not in str(refused.value)
    assert found(table) == {1: row(1, 1, 2**63 - 1)}
