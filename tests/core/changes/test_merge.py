"""`Table.merge`: clauses in order, joins by keys, and what a plain Python model of MERGE makes of the same rows."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.audit.verify import verify_table
from txlog.core.definition import create_table
from txlog.core.versions import OpenTable
from txlog.errors import ConcurrentAppendError, InvalidInputError, SchemaMismatchError
from txlog.table import Table
from txlog.testing.memory_store import memory_table_store

VECTORS = {"delta.enableDeletionVectors": "true"}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64())])


def rows(*given: tuple[Any, Any, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def made(properties: dict[str, str] | None = None, *given: tuple[Any, Any, Any]) -> Table:
    open_table = OpenTable(memory_table_store())
    create_table(open_table, SCHEMA, ["day"], properties or {})
    table = Table(open_table)
    table.append(rows(*(given or ((1, "a", 10), (2, "a", 20), (3, "b", 30), (None, "b", 40)))))
    return table


def found(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.snapshot().to_arrow().to_pylist()), key=repr)


@MODES
@pytest.mark.parametrize("condition", ["t.d = s.d", "t.d >= s.d and t.d <= s.d", "t.at = s.at"])
def test_rows_are_joined_by_dates_beyond_pythons_years(properties: dict[str, str], condition: str) -> None:
    open_table = OpenTable(memory_table_store())
    schema = pa.schema([("d", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64())])
    create_table(open_table, schema, [], properties)
    table = Table(open_table)

    def of(days: list[int], v: int) -> pa.Table:
        columns = [
            pa.array(days, pa.int32()),
            pa.array([day * 86_400_000_000 for day in days]),
            pa.array([v] * len(days)),
        ]
        return pa.table(columns, schema.names).cast(schema)

    table.append(of([-800_000, 0], 1))
    table.append(of([1, 3_000_000], 1))
    table.merge(of([-800_000, 1, 3_000_000], 2), condition, source_alias="s", target_alias="t").when_matched_update(
        {"v": txlog.expr("s.v")}
    ).execute()
    after = table.snapshot().to_arrow()
    assert sorted(zip(after["d"].cast(pa.int32()).to_pylist(), after["v"].to_pylist(), strict=True)) == [
        (-800_000, 2),
        (0, 1),
        (1, 2),
        (3_000_000, 2),
    ]


@MODES
def test_matched_rows_are_updated_or_deleted_and_others_inserted(properties: dict[str, str]) -> None:
    table = made(properties)
    changes = pa.table(
        {"id": [1, 2, 9, None], "day": ["z", "a", "c", "n"], "v": [11, 22, 99, 0], "op": ["u", "d", "u", "u"]}
    )
    result = (
        table.merge(changes, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.op = 'd'")
        .when_matched_update({"v": txlog.expr("t.v + s.v"), "day": txlog.expr("s.day")})
        .when_not_matched_insert({"id": txlog.expr("s.id"), "v": txlog.expr("s.v * 10")}, "s.id is not null")
        .execute()
    )
    assert found(table) == [(1, "z", 21), (3, "b", 30), (9, None, 990), (None, "b", 40)]
    did = result.metrics
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted) == (1, 1, 1)
    assert verify_table(table._open_table.store).is_sound
    reported = table.history(1)[0]
    assert reported["operation"] == "MERGE"
    assert orjson.loads(reported["operationParameters"]["matchedPredicates"]) == [
        {"predicate": "s.op = 'd'", "actionType": "delete"},
        {"actionType": "update"},
    ]


@MODES
def test_rows_that_no_source_row_matches_are_updated_or_deleted(properties: dict[str, str]) -> None:
    table = made(properties)
    (
        table.merge(rows((1, "a", 11)), ["id"])
        .when_matched_update_all()
        .when_not_matched_by_source_delete("target.v >= 30 and target.id is not null")
        .when_not_matched_by_source_update({"v": txlog.expr("target.v + 1")})
        .execute()
    )
    assert found(table) == [(1, "a", 11), (2, "a", 21), (None, "b", 41)]


@MODES
def test_each_row_of_a_key_is_changed_by_itself(properties: dict[str, str]) -> None:
    table = made(properties, (1, "a", 1), (1, "b", 2), (1, "b", 3))
    table.merge(rows((1, "x", 100)), "target.id = source.id").when_matched_update(
        {"v": txlog.expr("target.v + source.v")}
    ).execute()
    assert found(table) == [(1, "a", 101), (1, "b", 102), (1, "b", 103)]


def test_terms_on_the_table_alone_narrow_the_match() -> None:
    table = made()
    merge = table.merge(rows((1, "a", 11), (3, "b", 33)), "target.id = source.id and target.day = 'a'")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert found(table) == [(1, "a", 11), (2, "a", 20), (3, "b", 30), (3, "b", 33), (None, "b", 40)]


def test_two_source_rows_that_match_one_table_row_are_refused_and_others_are_inserted() -> None:
    table = made()
    twice = rows((1, "a", 1), (7, "a", 7), (1, "a", 2), (7, "b", 8))
    with pytest.raises(InvalidInputError, match="id=1"):
        table.merge(twice, ["id"]).when_matched_update_all().execute()
    table.merge(twice, ["id"]).when_not_matched_insert_all().execute()
    assert [row for row in found(table) if row[0] in (1, 7)] == [(1, "a", 10), (7, "a", 7), (7, "b", 8)]


@pytest.mark.parametrize(
    ("on", "match"),
    [
        ("target.v + source.v", "must be a boolean"),
        ("target.day > array(source.v)", "cannot be compared"),
        ("target.nope = source.id", "nope"),
        ("id", r"give the list on=\['id'\], or write target.id = source.id"),
        ([], "empty"),
    ],
)
def test_a_join_that_is_no_condition_on_the_two_sides_is_refused(on: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        made().merge(rows((1, "a", 1)), on).when_matched_delete().execute()


def test_the_error_for_an_unknown_side_of_a_join_lists_the_names_and_their_arguments() -> None:
    table, source = made({}, (1, "a", 1)), rows((1, "a", 9))
    aliases = r"write target\.id for the table or source\.id for the source; target_alias and source_alias give"
    with pytest.raises(InvalidInputError, match=rf"t\.id does not say which side it belongs to: {aliases}"):
        table.merge(source, "t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(InvalidInputError, match=r"s\.v does not say which side"):
        table.merge(source, ["id"]).when_matched_update({"v": txlog.expr("s.v")}).execute()
    with pytest.raises(
        InvalidInputError, match=r"there is no column w: the table has id, day, v, the source id, day, v"
    ):
        table.merge(source, ["id"]).when_matched_update({"v": txlog.expr("w + 1")}).execute()
    named = table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
    named.when_matched_update({"v": txlog.expr("s.v")}).execute()
    assert found(table) == [(1, "a", 9)]


def test_a_merge_shows_its_table_join_and_clauses() -> None:
    table = made()
    merge = table.merge(rows((1, "a", 1)), "target.id = source.id")
    assert repr(merge) == f"MergeBuilder({table.uri}, on='target.id = source.id', no clause yet)"
    merge.when_matched_delete().when_not_matched_insert_all()
    assert repr(merge).endswith(", matched delete, not matched insert)")


def test_invalid_merge_clauses_are_refused() -> None:
    table, source = made(), rows((1, "a", 1))
    lacking = source.drop_columns(["v"])
    with pytest.raises(InvalidInputError, match="without a clause"):
        table.merge(source, ["id"]).execute()
    with pytest.raises(SchemaMismatchError, match="lacks v"):
        table.merge(lacking, ["id"]).when_matched_update_all().execute()
    with pytest.raises(InvalidInputError, match="columns of the target, which has no such rows"):
        table.merge(source, ["id"]).when_not_matched_insert_all("target.v > 1").execute()
    with pytest.raises(InvalidInputError, match="columns of the source"):
        table.merge(source, ["id"]).when_not_matched_by_source_update({"v": txlog.expr("source.v")}).execute()
    with pytest.raises(InvalidInputError, match="no column"):
        table.merge(source, ["id"]).when_matched_update({"nope": 1}).execute()
    assert table.snapshot().version == 1


def test_merge_keys_of_different_integer_widths_match(tmp_path: Path) -> None:
    table = made()
    source = pa.table({"key": pa.array([1, 2**40], pa.int64()), "w": [5, 6]})
    small = txlog.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int32()), ("v", pa.int64())]))
    small.append(pa.table({"id": pa.array([1, 2], pa.int32()), "v": [1, 2]}))
    small.merge(source, "target.id = source.key").when_matched_update({"v": txlog.expr("source.w")}).execute()
    assert sorted(small.snapshot().to_arrow().column("v").to_pylist()) == [2, 5]
    narrow = pa.table({"key": pa.array([3], pa.int8())})
    table.merge(narrow, "source.key = target.id").when_matched_delete().execute()
    assert 3 not in [row[0] for row in found(table)]


@pytest.mark.parametrize("condition", ["target.d = source.k", "source.k = target.d"])
@pytest.mark.parametrize(
    "kind", [pa.decimal128(12, 4), pa.decimal128(38, 37), pa.decimal128(38, 0), pa.decimal128(5, 1)]
)
def test_merge_keys_of_different_decimals_match_if_they_are_equal(
    tmp_path: Path, kind: pa.DataType, condition: str
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "d decimal(10,2), v bigint")
    held = ["1.50", "2.00", "-7.25", None]
    kept = pa.array([None if text is None else decimal.Decimal(text) for text in held], pa.decimal128(10, 2))
    table.append(pa.table({"d": kept, "v": [0, 0, 0, 0]}))
    asked = [decimal.Decimal(text) for text in ("1.5", "2", "1.5001", "-7.25", "9", "123456789012")]
    asked = [value for value in asked if fits(value, kind)]
    source = pa.table({"k": pa.array(asked, kind), "w": range(1, len(asked) + 1)})
    merge = table.merge(source, condition).when_matched_update({"v": txlog.expr("source.w")})
    merge.when_not_matched_insert({"v": txlog.expr("-source.w")}).execute()
    read = table.snapshot().to_arrow()
    left = {row["d"]: row["v"] for row in read.to_pylist() if row["v"] >= 0}
    values = [None if text is None else decimal.Decimal(text) for text in held]
    assert left == {value: asked.index(value) + 1 if value in asked else 0 for value in values}
    inserted = sorted(-row["v"] for row in read.to_pylist() if row["v"] < 0)
    assert inserted == [number for number, value in enumerate(asked, start=1) if value not in values]


def fits(value: decimal.Decimal, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except pa.ArrowInvalid:
        return False
    return True


def test_a_merge_may_have_hundreds_of_clauses() -> None:
    table = made()
    merge = table.merge(rows((1, "a", 5), (2, "a", 6), (9, "c", 7)), ["id"])
    for number in range(300):
        merge.when_matched_update({"v": number}, f"source.v = {1000 + number}")
        merge.when_not_matched_insert({"id": txlog.expr("source.id"), "v": number}, f"source.v = {1000 + number}")
    merge.when_matched_update({"v": txlog.expr("source.v")}).when_not_matched_insert_all().execute()
    assert found(table) == [(1, "a", 5), (2, "a", 6), (3, "b", 30), (9, "c", 7), (None, "b", 40)]


keys = st.one_of(st.integers(0, 4), st.none())
numbers = st.one_of(st.integers(0, 9), st.none())
table_rows = st.lists(st.tuples(keys, st.sampled_from("ab"), numbers), max_size=6)
source_rows = st.lists(
    st.tuples(keys, st.sampled_from("ab"), numbers),
    max_size=4,
    unique_by=lambda row: object() if row[0] is None else row[0],
)


def model(old: list[Any], new: list[Any], with_source: bool) -> list[Any]:
    """Row by row: delete where s.v < 3, otherwise update v; insert where s.v is known; count up what has no source
    row."""
    by_key = {row[0]: row for row in new if row[0] is not None}
    result, matched = [], set()
    for key, day, value in old:
        mine = by_key.get(key)
        if mine is None:
            result.append(
                (key, day, None if value is None else value + 1) if with_source and day == "a" else (key, day, value)
            )
            continue
        matched.add(key)
        if mine[2] is None or mine[2] >= 3:
            result.append((key, mine[1], None if value is None or mine[2] is None else value + mine[2]))
    return result + [row for row in new if row[0] not in matched and row[2] is not None]


@MODES
@given(table_rows, source_rows, st.booleans())
def test_any_merge_gives_the_same_rows_as_a_plain_python_model(
    properties: dict[str, str], old: list[Any], new: list[Any], with_source: bool
) -> None:
    table = made(properties, *(old or [(None, "a", None)]))
    if not old:
        table.delete(all=True)
    merge = (
        table.merge(rows(*new), "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.v < 3")
        .when_matched_update({"v": txlog.expr("t.v + s.v"), "day": txlog.expr("s.day")})
        .when_not_matched_insert_all("s.v is not null")
    )
    if with_source:
        merge.when_not_matched_by_source_update({"v": txlog.expr("t.v + 1")}, "t.day = 'a'")
    merge.execute()
    assert found(table) == sorted(model(old, new, with_source), key=repr)


def test_a_tied_merge_reads_the_whole_table_if_a_clause_is_for_rows_without_source() -> None:
    table = made()
    version = table.snapshot().version
    table.append(rows((100, "z", 5)))  # far from the keys of the source
    tied = table.merge(rows((1, "a", 11)), ["id"], read_version=version)
    with pytest.raises(ConcurrentAppendError):
        tied.when_not_matched_by_source_delete().execute()
    table.merge(rows((1, "a", 11)), ["id"], read_version=version).when_matched_update_all().execute()
    assert found(table) == [(1, "a", 11), (100, "z", 5), (2, "a", 20), (3, "b", 30), (None, "b", 40)]


@pytest.mark.parametrize("how", ["mapped", "commented"])
def test_nested_columns_are_merged_whatever_metadata_their_members_have(tmp_path: Path, how: str) -> None:
    place = [("x", pa.int64()), ("tags", pa.list_(pa.struct([("t", pa.string())])))]
    note = {b"comment": b"east"} if how == "commented" else None
    noted = pa.struct([pa.field(name, kind, metadata=note) for name, kind in place])
    properties = {"delta.columnMapping.mode": "name"} if how == "mapped" else {}
    schema = pa.schema([("id", pa.int64()), ("at", noted), ("before", noted)])
    table = txlog.Table.create(tmp_path / "t", schema, properties=properties)
    plain = pa.schema([("id", pa.int64()), ("at", pa.struct(place)), ("before", pa.struct(place))])
    first = {"x": 1, "tags": [{"t": "a"}]}
    table.append(pa.Table.from_pylist([{"id": 1, "at": first, "before": None}], plain))
    moved, new = {"x": 2, "tags": [{"t": "b"}, None]}, {"x": 3, "tags": None}
    source = pa.Table.from_pylist([{"id": 1, "at": moved}, {"id": 2, "at": new}], plain)
    (
        table.merge(source, on=["id"])
        .when_matched_update(
            {"at": txlog.expr("source.at"), "before": txlog.expr("coalesce(target.before, target.at)")}
        )
        .when_not_matched_insert_all()
        .execute()
    )
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "at": moved, "before": first},
        {"id": 2, "at": new, "before": None},
    ]


STRICT = "struct<x: int not null, y: string, in: struct<n: int not null, m: int>>"


def strict_rows(id: int, *structs: dict[str, Any] | None) -> dict[str, Any]:
    return {"id": id, "s": structs[0], "l": [*structs], "m": [("k", structs[-1])]}


def test_nested_columns_are_merged_by_the_names_of_fields_which_the_source_may_leave_nullable(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", f"id bigint, s {STRICT}, l array<{STRICT}>, m map<string, {STRICT}>")
    old = {"x": 1, "y": "a", "in": {"n": 1, "m": None}}
    table.append(pa.Table.from_pylist([strict_rows(1, old), strict_rows(2, old), strict_rows(3, old)], table.schema))
    wide = pa.struct([("IN", pa.struct([("m", pa.int64()), ("n", pa.int8())])), ("y", pa.string()), ("x", pa.int64())])
    types = [("id", pa.int64()), ("s", wide), ("l", pa.list_(wide)), ("m", pa.map_(pa.string(), wide))]
    one = {"IN": {"m": 7, "n": 8}, "y": "b", "x": 9}
    bare = {"IN": None, "y": None, "x": 10}
    source = pa.Table.from_pylist(
        [strict_rows(1, one, bare, None), strict_rows(2, None), strict_rows(4, bare)], pa.schema(types)
    )
    table.merge(source, ["id"]).when_matched_update_all().when_not_matched_insert_all().execute()
    one, bare = {"x": 9, "y": "b", "in": {"n": 8, "m": 7}}, {"x": 10, "y": None, "in": None}
    assert table.to_arrow().sort_by("id").to_pylist() == [
        strict_rows(1, one, bare, None),
        strict_rows(2, None),
        strict_rows(3, old),
        strict_rows(4, bare),
    ]
    table.update({"s": txlog.expr("named_struct('y', 'c', 'x', id, 'in', named_struct('m', 1, 'n', 2))")}, "id = 4")
    assert table.to_arrow(where="id = 4")["s"].to_pylist() == [{"x": 4, "y": "c", "in": {"n": 2, "m": 1}}]
    for wrong, reason in (
        ({"IN": None, "y": None, "x": None}, r"column s\.x is null"),
        ({"IN": {"m": 1, "n": None}, "y": None, "x": 1}, r"column s\.in\.n is null"),
        ({"IN": None, "y": None, "x": 1 << 40}, "1099511627776"),
    ):
        rows = pa.Table.from_pylist([{"id": 1, "s": wrong}], pa.schema(types[:2]))
        with pytest.raises(InvalidInputError, match=reason):
            table.merge(rows, ["id"]).when_matched_update({"s": txlog.expr("source.s")}).execute()
    other = pa.table({"id": [1], "s": [{"x": 1, "y": "a"}]})
    with pytest.raises(InvalidInputError, match="a value of type struct<x:bigint,y:string> cannot be stored as"):
        table.merge(other, ["id"]).when_matched_update({"s": txlog.expr("source.s")}).execute()


def test_a_clause_for_all_columns_leaves_out_those_that_it_excepts() -> None:
    table = made()
    source = pa.table({"id": [1, 9], "v": [11, 99]})
    merge = table.merge(source, ["id"]).when_matched_update_all(except_cols=["DAY"])
    merge.when_not_matched_insert_all(except_cols=["day"]).execute()
    assert found(table) == [(1, "a", 11), (2, "a", 20), (3, "b", 30), (9, None, 99), (None, "b", 40)]
    with pytest.raises(InvalidInputError, match="except_cols names 'nope'"):
        table.merge(source, ["id"]).when_matched_update_all(except_cols=["day", "nope"]).execute()
    with pytest.raises(InvalidInputError, match=r"Use \['day'\]"):
        table.merge(source, ["id"]).when_matched_update_all(except_cols="day")


def test_a_column_that_every_clause_excepts_is_not_added_to_the_table() -> None:
    table = made()
    source = pa.table({"id": [1], "v": [11], "kept": ["k"], "left": [5]})
    merge = table.merge(source, ["id"], schema_mode="merge")
    merge.when_matched_update_all(except_cols=["left"]).execute()
    assert table.schema.names == ["id", "day", "v", "kept"]
    assert table.to_arrow(where="id = 1").to_pylist() == [{"id": 1, "day": "a", "v": 11, "kept": "k"}]


def test_clauses_for_existing_rows_set_fields_of_structs_and_keep_the_others(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id int, at struct<n: int, text: string>")
    kind = table.schema.field("at").type
    ids = pa.array([1, 2], pa.int32())
    table.append(pa.table({"id": ids, "at": pa.array([{"n": 1, "text": "a"}, {"n": 2, "text": "b"}], kind)}))
    source = pa.table({"id": pa.array([1, 3], pa.int32()), "n": pa.array([10, 30], pa.int32())})

    def merge() -> Any:
        return table.merge(source, "target.id = source.id")

    merge().when_matched_update({"at.n": txlog.expr("source.n + target.at.n")}).when_not_matched_by_source_update(
        {"at.text": txlog.expr("target.at.text || '!'")}
    ).when_not_matched_insert({"id": txlog.expr("source.id")}).execute()
    assert [(*row.values(),) for row in table.to_arrow().sort_by("id").to_pylist()] == [
        (1, {"n": 11, "text": "a"}),
        (2, {"n": 2, "text": "b!"}),
        (3, None),
    ]
    with pytest.raises(InvalidInputError, match=r"an insert sets whole columns, not at\.n: write named_struct"):
        merge().when_not_matched_insert({"id": txlog.expr("source.id"), "at.n": txlog.expr("source.n")}).execute()


def test_sides_of_a_merge_have_different_names_of_any_characters(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id int, v int")
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "v": pa.array([1, 2], pa.int32())}))
    source = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([10], pa.int32())})
    for names in ({"source_alias": "t", "target_alias": "T"}, {"source_alias": "Target"}, {"target_alias": "source"}):
        with pytest.raises(InvalidInputError, match="expected another name than the table's"):
            table.merge(source, "t.id = t.id", **names).when_matched_update_all().execute()
    for wrong in ("", None, 1):
        with pytest.raises(InvalidInputError, match="Invalid target_alias"):
            table.merge(source, ["id"], target_alias=wrong)  # type: ignore[arg-type]
    merge = table.merge(source, ["id"], source_alias="my rows", target_alias="a.b").when_matched_update(
        {"v": txlog.expr("`my rows`.v + `a.b`.v")}
    )
    assert merge.execute().metrics.rows_updated == 1
    assert table.to_arrow().sort_by("id")["v"].to_pylist() == [11, 2]
    for at, name in enumerate(("my rows", "s-1", "a.b", "select", "s`x", "é")):
        for side in ("source_alias", "target_alias"):
            new = pa.table({"id": pa.array([1, 9 + at], pa.int32()), "v": pa.array([10 + at, 0], pa.int32())})
            merge = table.merge(new, ["id"], **{side: name}).when_matched_update_all().when_not_matched_insert_all()
            assert merge.execute().metrics.rows_updated == (1 if side == "source_alias" else 2)
            assert table.to_arrow(where="id = 1")["v"].to_pylist() == [10 + at]
    with pytest.raises(InvalidInputError, match=r"both sides have a column id: write `a\.b`\.id or `my rows`\.id"):
        table.merge(source, "id = v", source_alias="my rows", target_alias="a.b").when_matched_delete().execute()


def test_a_struct_that_lacks_a_field_is_refused_by_the_field(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, s struct<a: bigint, b: bigint>")
    rows = pa.table({"id": [1], "s": pa.array([{"a": 1, "c": 2}], pa.struct({"a": pa.int64(), "c": pa.int64()}))})
    merge = table.merge(rows, "target.id = source.id").when_not_matched_insert_all()
    with pytest.raises(InvalidInputError, match=r"column s .*: it lacks b, and it also has c"):
        merge.execute()


@pytest.mark.parametrize(
    "values",
    [None, {"s": txlog.expr("source.s")}, {"s.b": txlog.expr("source.s.b")}, {"extra": txlog.expr("source.extra")}],
)
def test_a_merge_that_sets_what_only_the_source_has_says_how_to_add_it(tmp_path: Path, values: Any) -> None:
    table = Table.create(tmp_path / "t", "id bigint, s struct<a: bigint>")
    table.append(pa.table({"id": [1], "s": [{"a": 1}]}))
    rows = pa.table({"id": [1], "s": [{"a": 2, "b": 3}], "extra": [4]})

    def merged(**options: Any) -> None:
        merge = table.merge(rows, "target.id = source.id", **options)
        (merge.when_matched_update_all() if values is None else merge.when_matched_update(values)).execute()

    with pytest.raises(InvalidInputError, match=r'; schema_mode="merge" adds what the source has and the table lacks$'):
        merged()
    merged(schema_mode="merge")
    added = {"b", "extra"} if values is None else {each.split(".")[-1].replace("s", "b") for each in values}
    assert added <= {*table.snapshot().delta_schema.names, *table.to_arrow()["s"].type.names}
    with pytest.raises(InvalidInputError) as raised:  # nothing that more columns would mend
        table.merge(rows, "target.id = source.id").when_matched_update({"id": txlog.expr("'x'")}).execute()
    assert "schema_mode" not in str(raised.value)
