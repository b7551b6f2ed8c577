"""`Table.update`: values of every form, rows that move, and values that no column takes."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import txlog
from tests.other_writers import commit_files
from tests.watched import noted_reads
from txlog.audit.verify import verify_table
from txlog.core.changes.plan import MergeBuilder
from txlog.core.changes.tasks import _row_work as row_work
from txlog.core.changes.tasks import _small_files as small_files
from txlog.core.changes.tasks.operations import _update as update
from txlog.core.format.schema import INTEGER, LONG, STRING, Field, Struct
from txlog.errors import InvalidInputError

VECTORS = {"delta.enableDeletionVectors": "true"}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("x", pa.float64()), ("n", pa.int32())])


def made(tmp_path: Path, properties: dict[str, str] | None = None) -> txlog.Table:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, ["day"], properties or {})
    for day in "ab":
        table.append(pa.table({"id": range(4), "day": [day] * 4, "x": [0.5, 1.5, None, 3.5], "n": [1] * 4}, SCHEMA))
    return table


def found(table: txlog.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.snapshot().to_arrow(columns).to_pylist()), key=repr)


@MODES
def test_an_update_sets_the_values_of_matched_rows_and_keeps_all_others(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path, properties)
    result = table.update({"x": txlog.expr("x * 2 + id"), "N": 7}, "x > 1 and day = 'a'")
    assert found(table, "day", "id", "x", "n") == [
        ("a", 0, 0.5, 1), ("a", 1, 4.0, 7), ("a", 2, None, 1), ("a", 3, 10.0, 7),
        ("b", 0, 0.5, 1), ("b", 1, 1.5, 1), ("b", 2, None, 1), ("b", 3, 3.5, 1),
    ]  # fmt: skip
    did = result.metrics
    assert (did.rows_updated, did.rows_deleted, did.rows_inserted, did.rows_copied) == (2, 0, 0, 0 if properties else 2)
    assert verify_table(table._open_table.store).is_sound
    reported = table.history(1)[0]
    assert (reported["operation"], reported["operationMetrics"]["numUpdatedRows"]) == ("UPDATE", "2")
    assert orjson.loads(reported["operationParameters"]["predicate"]) == ["(x > 1.0 AND day = 'a')"]


@MODES
@pytest.mark.parametrize("has_room", [True, False], ids=["room", "no room"])
def test_columns_of_the_condition_are_read_once_where_there_is_room_for_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], has_room: bool
) -> None:
    table = made(tmp_path, properties)
    monkeypatch.setattr(row_work, "SMALL_BYTES", 0)
    if not has_room:
        monkeypatch.setattr(update, "KEPT_MAX_BYTES", 30)
    read = noted_reads(monkeypatch)
    table.update({"x": txlog.expr("x + n"), "n": txlog.expr("n + 1")}, "id <> 2 AND n = 1 AND day <> 'c'")
    changed_rows = ("x",) if properties and has_room else ("id", "x", "n")  # of a small file with its copy
    assert sorted(read) == sorted([("id", "n"), changed_rows] * 2)
    monkeypatch.undo()
    changed = [("a", 0, 1.5, 2), ("a", 1, 2.5, 2), ("a", 2, None, 1), ("a", 3, 4.5, 2)]
    assert found(table, "day", "id", "x", "n") == [*changed, *(("b", *row[1:]) for row in changed)]


@MODES
@pytest.mark.parametrize("has_room", [True, False], ids=["room", "no room"])
def test_a_small_file_is_read_once_where_there_is_room_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], has_room: bool
) -> None:
    table = made(tmp_path, properties)
    if not has_room:
        monkeypatch.setattr(small_files, "HELD_BYTES", 0)
    read = noted_reads(monkeypatch)
    table.update({"x": txlog.expr("x + n"), "n": txlog.expr("n + 1")}, "id <> 2 AND n = 1 AND day <> 'c'")
    once, twice = [("id", "n", "x")] * 2, [("id", "n")] * 2 + [("id", "n", "x")] * 2
    assert sorted(tuple(sorted(columns)) for columns in read) == (once if has_room else twice)


@MODES
def test_rows_may_move_to_another_partition_and_all_rows_may_match(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    table.update({"day": txlog.expr("upper(day)")})
    assert table.snapshot().files("day = 'A'").num_rows == 1
    assert found(table, "day", "id") == [(day, id) for day in "AB" for id in range(4)]
    table.update({"day": None}, "id = 0")
    assert (None, 0) in found(table, "day", "id")


def test_update_values_may_be_sql_python_values_or_functions(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.update({"day": txlog.expr("'it''s'"), "x": decimal.Decimal("2.5"), "n": None}, "id = 0")
    assert found(table, "id", "day", "x", "n")[0] == (0, "it's", 2.5, None)
    table.update({"n": lambda rows: pc.add(rows.column("n"), rows.column("id"))}, "id > 0")
    assert [row[1] for row in found(table, "id", "n") if row[0] > 0] == [2, 2, 3, 3, 4, 4]
    for bad in (lambda rows: 5, lambda rows: pa.array([1]), lambda rows: pa.array(["x"] * rows.num_rows)):
        with pytest.raises(InvalidInputError, match="function for column n"):
            table.update({"n": bad}, "id >= 0")


def test_current_timestamp_is_one_moment(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    for number in range(3):
        table.append(pa.table({"id": [number], "at": [None]}, schema))
    table.update({"at": txlog.expr("current_timestamp()")})
    [moment] = set(table.snapshot().to_arrow(["at"]).column(0).to_pylist())
    assert abs(moment - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=10)


@pytest.mark.parametrize(
    "values",
    [
        *({}, None, "x = 1", {"nope": 1}, {"x": 1, "X": 2}, {"n": object()}, {1: 2}, {"x": "y"}),
        *({"x": txlog.expr("y + 1")}, {"n": txlog.expr("'text'")}, {"x": txlog.expr("rand()")}),
    ],
)
def test_values_that_mean_nothing_are_refused_before_a_row_is_read(tmp_path: Path, values: Any) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError):
        table.update(values, "id = 1")
    assert table.snapshot().version == 2


def test_a_value_that_does_not_fit_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    schema = Struct((Field("id", INTEGER), Field("s", STRING, nullable=False)))
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    table.append(pa.table({"id": pa.array([1, 2**30], pa.int32()), "s": ["a", "b"]}))
    with pytest.raises(InvalidInputError, match="s"):
        table.update({"s": None}, "id = 1")
    with pytest.raises(InvalidInputError):
        table.update({"id": txlog.expr("id * 1000000")})
    assert found(table, "id", "s") == [(1, "a"), (2**30, "b")]
    assert table.snapshot().version == 1


@pytest.mark.parametrize("mode", [None, "copy-on-write"])
def test_rows_at_the_ends_of_row_groups_are_updated(tmp_path: Path, mode: Any) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "k bigint, v bigint", properties=VECTORS)
    data = tmp_path / "t" / "written-elsewhere.parquet"
    pq.write_table(pa.table({"k": range(8), "v": range(8)}), data, row_group_size=2)
    commit_files(table, data.name)
    table.update({"v": txlog.expr("v + 100")}, "k IN (2, 5, 6)", row_mode=mode)
    updated = sorted(zip(*table.snapshot().to_arrow().to_pydict().values(), strict=True))
    assert updated == [(k, k + 100 if k in (2, 5, 6) else k) for k in range(8)]


@MODES
@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_error_for_a_value_that_cannot_be_computed_names_table_and_version(
    tmp_path: Path, properties: dict[str, str], in_transaction: bool
) -> None:
    table = made(tmp_path, properties)
    with pytest.raises(InvalidInputError, match="overflow") as caught:  # noqa: PT012
        if in_transaction:
            with table.transaction() as txn:
                txn.update({"id": txlog.expr("9223372036854775807 + id")})
        table.update({"id": txlog.expr("9223372036854775807 + id")})
    assert (caught.value.table, caught.value.version) == (table.uri, 2)


STRICT = pa.schema([("k", pa.int64()), pa.field("v", pa.int64(), nullable=False), ("day", pa.string())])


@pytest.mark.parametrize("properties", [{"delta.enableDeletionVectors": "true"}, {}], ids=["vectors", "copies"])
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update({"v": txlog.expr("nullif(v, 1)")}),
        lambda t: t.update({"v": None}, "k = 2"),
        lambda t: (
            t.merge(pa.table({"k": [1], "v": [None]}), ["k"])
            .when_matched_update({"v": txlog.expr("source.v")})
            .execute()
        ),
        lambda t: t.merge(pa.table({"k": [7]}), ["k"]).when_not_matched_insert({"k": txlog.expr("source.k")}).execute(),
    ],
)
def test_new_versions_of_rows_are_not_null_where_the_column_is_not(
    tmp_path: Path, change: Callable[[txlog.Table], object], properties: dict[str, str]
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), STRICT, ["day"], properties)
    table.append(pa.table({"k": [1, 2], "v": [1, 2], "day": ["a", "a"]}, STRICT))
    files = sorted((tmp_path / "t").rglob("*.*"))
    with pytest.raises(InvalidInputError, match=r"(?i)null"):
        change(table)
    assert table.version == 1
    assert sorted((tmp_path / "t").rglob("*.*")) == files, "nothing is left behind"


@pytest.mark.parametrize("properties", [{"delta.enableDeletionVectors": "true"}, {}], ids=["vectors", "copies"])
def test_rows_move_to_the_partition_that_their_new_values_name(tmp_path: Path, properties: dict[str, str]) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), STRICT, ["day"], properties)
    table.append(pa.table({"k": [1, 2, 3], "v": [1, 2, 3], "day": ["a", "a", "b"]}, STRICT))
    table.update({"day": txlog.expr("'b'")}, "k = 1")
    table.update({"day": None}, "k = 3")
    table.upsert(pa.table({"k": [2], "v": [20], "day": ["c"]}, STRICT), ["k"])
    for day, found in (("= 'a'", []), ("= 'b'", [1]), ("= 'c'", [2]), ("is null", [3])):
        assert table.snapshot().to_arrow(where=f"day {day}")["k"].to_pylist() == found


# --- fields of structs --------------------------------------------------------------------------------------------

NESTED = "id int, k int, at struct<place: struct<zip: int, city: string>, n: int, `x.y`: int>"


def nested(tmp_path: Path) -> txlog.Table:
    table = txlog.Table.create(tmp_path / "t", NESTED, properties=VECTORS)
    rows = [{"place": {"zip": 1, "city": "a"}, "n": 1, "x.y": 5}, {"place": None, "n": 2, "x.y": 6}, None]
    table.append(pa.table({"id": range(3), "k": range(3), "at": pa.array(rows, table.schema.field("at").type)}))
    return table


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"at.n": txlog.expr("at.n + 10")}, [((1, "a"), 11, 5), (None, 12, 6), (None, None, None)]),
        ({"AT.Place.ZIP": 7}, [((7, "a"), 1, 5), ((7, None), 2, 6), ((7, None), None, None)]),
        ({"at.place": None}, [(None, 1, 5), (None, 2, 6), (None, None, None)]),
        ({"at.n": 0, "at.place.city": txlog.lit("b")}, [((1, "b"), 0, 5), ((None, "b"), 0, 6), ((None, "b"), 0, None)]),
        ({"at.`x.y`": txlog.expr("at.n")}, [((1, "a"), 1, 1), (None, 2, 2), (None, None, None)]),
        ({"at.n": txlog.expr("k"), "k": txlog.expr("at.n")}, [((1, "a"), 0, 5), (None, 1, 6), (None, 2, None)]),
    ],
)  # fmt: skip
def test_a_struct_whose_fields_are_set_keeps_its_other_fields(
    tmp_path: Path, values: dict[str, Any], expected: list[Any]
) -> None:
    table = nested(tmp_path)
    assert table.update(values).metrics.rows_updated == 3
    rows = [row["at"] for row in table.to_arrow().sort_by("id").to_pylist()]
    assert [(each["place"] and (*each["place"].values(),), each["n"], each["x.y"]) for each in rows] == expected


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"at.q": 1}, "there is no column 'at.q': at, a struct<.*>, has place, n, x.y"),
        ({"k.n": 1}, "there is no column 'k.n': k, a int, has no fields"),
        ({"at": None, "at.n": 1}, "column at is set twice"),
        ({"at.n": 1, "AT.N": 2}, "column at.n is set twice"),
        ({"at.n": txlog.expr("'text'")}, r"column at.n \(int\) cannot be set to 'text': a value of type string"),
        ({"at.n": lambda rows: rows["k"]}, "column at.n cannot be set to function"),
    ],
)
def test_a_field_that_cannot_be_set_is_refused_and_named(tmp_path: Path, values: Any, reason: str) -> None:
    table = nested(tmp_path)
    with pytest.raises(InvalidInputError, match=reason):
        table.update(values)
    assert table.version == 1


def test_a_field_of_elements_is_refused_as_the_array_is_set_as_a_whole(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "tags array<struct<a: int>>")
    with pytest.raises(InvalidInputError, match=r"column tags is array<.*>, which can only be set as a whole"):
        table.update({"tags.element.a": 1})


STRICT_FIELDS = "k int, s struct<x: int, y: struct<w: int not null>>, l array<struct<w: int not null>>"


@MODES
@pytest.mark.parametrize(
    ("change", "s", "items"),
    [
        (lambda t: t.update({"s": None, "l": None}), None, None),
        (lambda t: t.update({"s.y": None}), {"x": 1, "y": None}, [{"w": 1}]),
        (lambda t: t.update({"s": lambda rows: pa.nulls(len(rows), t.schema.field("s").type)}), None, [{"w": 1}]),
        (lambda t: t.update({"l": txlog.expr("array(s.y, NULL)")}), {"x": 1, "y": {"w": 1}}, [{"w": 1}, None]),
        (lambda t: merge(t).when_matched_update({"s": None}).execute(), None, [{"w": 1}]),
        (
            lambda t: merge(t).when_matched_update({"s.y": txlog.expr("NULL")}).execute(),
            {"x": 1, "y": None},
            [{"w": 1}],
        ),
        (
            lambda t: (t.delete(all=True), merge(t).when_not_matched_insert({"k": txlog.expr("source.k")}).execute()),
            None,
            None,
        ),
    ],
)
def test_a_struct_with_required_fields_is_set_to_null(
    tmp_path: Path, change: Callable[[txlog.Table], object], s: Any, items: Any, properties: dict[str, str]
) -> None:
    table = txlog.Table.create(tmp_path / "t", STRICT_FIELDS, properties=properties)
    table.append(pa.Table.from_pylist([{"k": 1, "s": {"x": 1, "y": {"w": 1}}, "l": [{"w": 1}]}], table.schema))
    change(table)
    assert table.to_arrow().to_pylist() == [{"k": 1, "s": s, "l": items}]


def merge(table: txlog.Table) -> MergeBuilder[txlog.WriteResult]:
    return table.merge(pa.table({"k": pa.array([1], pa.int32())}), ["k"])


def test_a_column_computed_from_a_field_follows_it_and_a_required_field_takes_no_null(tmp_path: Path) -> None:
    inner = Struct((Field("n", INTEGER, nullable=False), Field("text", STRING)))
    twice = Field("twice", INTEGER, metadata={"delta.generationExpression": "at.n * 2"})
    table = txlog.Table.create(tmp_path / "t", Struct((Field("at", inner), twice)))
    table.append(pa.table({"at": pa.array([{"n": 1, "text": "a"}], table.schema.field("at").type)}))
    table.update({"at.n": 5})
    assert table.to_arrow().to_pylist() == [{"at": {"n": 5, "text": "a"}, "twice": 10}]
    with pytest.raises(InvalidInputError, match=r"at\.n"):
        table.update({"at.n": None})


def test_an_identity_column_is_not_set_however_its_name_is_written(tmp_path: Path) -> None:
    number = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True}
    table = txlog.Table.create(tmp_path / "t", Struct((Field("id", LONG, metadata=number), Field("n", INTEGER))))
    table.append(pa.table({"n": pa.array([1], pa.int32())}))
    for name in ("id", "ID", "`id`"):
        with pytest.raises(InvalidInputError, match="column id is GENERATED BY DEFAULT AS IDENTITY"):
            table.update({name: 5})
