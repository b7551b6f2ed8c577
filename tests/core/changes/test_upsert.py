"""`Table.upsert`: which rows take which places, keys of every kind, and sources that are refused."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import txlog
from tests.other_writers import commit_files
from txlog.audit.verify import verify_table
from txlog.core.changes.tasks.operations import _upsert_source as upsert_source
from txlog.core.format.schema import LONG, STRING
from txlog.core.row_rules import KeyColumn, KeyIndex
from txlog.errors import ConcurrentAppendError, InvalidInputError, SchemaMismatchError

VECTORS = {"delta.enableDeletionVectors": "true"}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64())])


def rows(*given: tuple[Any, Any, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def made(tmp_path: Path, properties: dict[str, str] | None = None) -> txlog.Table:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, ["day"], properties or {})
    table.append(rows((1, "a", 10), (2, "a", 20), (3, "b", 30), (None, "b", 40)))
    return table


def found(table: txlog.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.snapshot().to_arrow().to_pylist()), key=repr)


@MODES
def test_known_keys_are_replaced_also_in_other_partitions_and_new_ones_inserted(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path, properties)
    result = table.upsert(rows((1, "c", 11), (4, "a", 44)), ["id"])
    assert found(table) == [(1, "c", 11), (2, "a", 20), (3, "b", 30), (4, "a", 44), (None, "b", 40)]
    did = result.metrics
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted, did.rows) == (1, 1, 0, 2)
    assert did.vectors == (1 if properties else 0)
    assert did.rows_copied == (0 if properties else 1)
    assert verify_table(table._open_table.store).is_sound


@MODES
def test_all_rows_of_a_key_are_replaced_by_one(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    table.append(rows((1, "b", 12), (1, "a", 13)))
    result = table.upsert(rows((1, "a", 99)), ["id"])
    assert found(table) == [(1, "a", 99), (2, "a", 20), (3, "b", 30), (None, "b", 40)]
    assert (result.metrics.rows_updated, result.metrics.rows_deleted) == (1, 2)


@MODES
def test_matched_or_other_rows_can_be_ignored(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    table.upsert(rows((1, "a", 11), (5, "a", 55)), ["id"], when_matched="ignore")
    assert found(table) == [(1, "a", 10), (2, "a", 20), (3, "b", 30), (5, "a", 55), (None, "b", 40)]
    table.upsert(rows((1, "a", 11), (6, "a", 66)), ["id"], when_not_matched="ignore")
    assert found(table) == [(1, "a", 11), (2, "a", 20), (3, "b", 30), (5, "a", 55), (None, "b", 40)]
    assert table.upsert(rows((1, "a", 0)), ["id"], when_matched="ignore").version == 3, "nothing to do, no commit"


@MODES
def test_update_columns_leaves_the_others_as_they_are_in_each_row_of_the_key(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path, properties)
    table.append(rows((1, "b", 12)))
    source = pa.table({"id": [1, 9], "v": [7, 8]})
    table.upsert(source, ["id"], update_columns=["v"], when_not_matched="ignore")
    assert found(table) == [(1, "a", 7), (1, "b", 7), (2, "a", 20), (3, "b", 30), (None, "b", 40)]
    with pytest.raises(SchemaMismatchError, match="lacks day"):
        table.upsert(source, ["id"], update_columns=["v"])


def test_columns_of_the_table_that_an_update_does_not_set_are_left_out_of_the_source(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.upsert(rows((1, "z", 7), (9, "z", 8)), ["id"], update_columns=["v"], when_not_matched="ignore")
    assert found(table) == [(1, "a", 7), (2, "a", 20), (3, "b", 30), (None, "b", 40)]
    unknown = rows((1, "z", 7)).append_column("w", pa.array([1]))
    with pytest.raises(SchemaMismatchError, match="w  table has no such column"):
        table.upsert(unknown, ["id"], update_columns=["v"], when_not_matched="ignore")


def test_a_null_key_matches_nothing_in_the_table_and_is_refused_in_the_source(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match=r"key id is null in row 1 of the source .* and in 1 more"):
        table.upsert(rows((1, "a", 1), (None, "a", 2), (None, "b", 2)), ["id"])
    with pytest.raises(InvalidInputError, match=r"in row 0 of the source \(counting from 0\): a null is not a key"):
        table.upsert(rows((None, "a", 2)), ["id"])
    assert table.snapshot().version == 1


@pytest.mark.parametrize("engine", [None, "deduplicate"])
def test_an_empty_string_is_no_key_where_it_is_a_partition_value(tmp_path: Path, engine: str | None) -> None:
    """Delta stores it as null: each upsert of such a row would insert it once more."""
    table = made(tmp_path)
    given = rows((1, "a", 1), (2, "", 2))
    with pytest.raises(
        InvalidInputError, match=r"key day is null in row 1 .* Delta stores an empty partition value as null"
    ):
        table.upsert(given, ["id", "day"], merge_engine=engine)
    assert table.version == 1
    flat = txlog.Table.create(str(tmp_path / "flat"), SCHEMA)
    for _ in range(2):
        flat.upsert(given, ["id", "day"], merge_engine=engine)
    assert found(flat) == [(1, "a", 1), (2, "", 2)]


def test_a_key_twice_is_named_by_its_text_if_it_is_a_date_beyond_pythons_years(tmp_path: Path) -> None:
    late = pa.table({"d": pa.array([3_000_000, 3_000_000], pa.int32()).cast(pa.date32())})
    table = txlog.Table.create(str(tmp_path / "t"), late.schema)
    with pytest.raises(InvalidInputError, match=r"one key, d=\+10183-09-21"):
        table.upsert(late, ["d"])


def test_a_key_twice_in_the_source_is_named_or_the_last_or_first_row_counts(tmp_path: Path) -> None:
    table = made(tmp_path)
    twice = rows((1, "a", 5), (2, "a", 9), (1, "b", 4))
    with pytest.raises(InvalidInputError, match=r"rows 0 and 2 of the source .* one key, id=1"):
        table.upsert(twice, ["id"])
    table.upsert(twice, ["id"], on_duplicate="last")
    assert (1, "b", 4) in found(table)
    table.upsert(twice, ["id"], on_duplicate="last", sequence_by="v")
    assert (1, "a", 5) in found(table)
    assert table.history(1)[0]["operationMetrics"]["numSourceRows"] == "3"
    table.upsert(twice, ["id"], on_duplicate="first")
    assert [row for row in found(table) if row[0] in (1, 2)] == [(1, "a", 5), (2, "a", 9)]
    with pytest.raises(InvalidInputError, match='on_duplicate="first" contradicts a merge engine'):
        table.upsert(twice, ["id"], on_duplicate="first", merge_engine="deduplicate")
    with pytest.raises(InvalidInputError, match='on_duplicate="last"'):
        table.upsert(twice, ["id"], sequence_by="v")
    with pytest.raises(InvalidInputError, match="lacks"):
        table.upsert(twice, ["id"], on_duplicate="last", sequence_by="w")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (pa.table({"id": [1], "day": ["a"]}), "lacks v"),
        (pa.table({"id": [1], "day": ["a"], "v": [1], "w": [1]}), "w"),
        (pa.table({"id": ["x"], "day": ["a"], "v": [1]}), "id"),
    ],
)
def test_a_source_with_other_columns_is_refused(tmp_path: Path, data: pa.Table, match: str) -> None:
    table = made(tmp_path)
    with pytest.raises(SchemaMismatchError, match=match):
        table.upsert(data, ["id"])


@pytest.mark.parametrize("how", [{}, {"update_columns": ["at"], "when_not_matched": "ignore"}])
def test_a_source_that_lacks_members_of_a_column_is_refused(tmp_path: Path, how: dict[str, Any]) -> None:
    """They would be null in each row that has the key."""
    place = pa.struct([("x", pa.int64()), ("y", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("at", place), ("all", pa.list_(place)), ("by", pa.map_("string", place))])
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    full = {"x": 1, "y": "one"}
    table.append(pa.Table.from_pylist([{"id": 1, "at": full, "all": [full], "by": [("a", full)]}], schema))
    part = pa.struct([("X", pa.int64())])
    kinds = pa.schema([("id", pa.int64()), ("at", part), ("all", pa.list_(part)), ("by", pa.map_("string", part))])
    source = pa.Table.from_pylist([{"id": 1, "at": {"X": 2}, "all": [], "by": []}], kinds)
    lacking = r"lacks at\.y" + ("" if how else r", all\.element\.y, by\.value\.y")
    with pytest.raises(SchemaMismatchError, match=lacking):
        table.upsert(source, ["id"], **how)
    assert table.to_arrow()["at"].to_pylist() == [full]
    nulls = pa.table({"id": [1], "at": pa.nulls(1), "all": pa.nulls(1), "by": pa.nulls(1)})
    table.upsert(nulls, ["id"], **how)
    assert table.to_arrow()["at"].to_pylist() == [None]


@pytest.mark.parametrize("keys", ["id", "id, day", ["id", "day"]])
def test_keys_are_a_list_or_one_string(tmp_path: Path, keys: Any) -> None:
    rows = pa.table({"id": [1, 2], "day": ["a", "b"], "value": [1, 1]})
    table = txlog.Table.create(str(tmp_path / "t"), rows.schema)
    table.append(rows)
    table.upsert(pa.table({"id": [2, 3], "day": ["b", "c"], "value": [5, 5]}), keys)
    assert sorted(table.to_arrow()["value"].to_pylist()) == [1, 5, 5]


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ("id, nope", "no column 'nope'"),
        ("", "at least one"),
        ([], "at least one"),
        (["nope"], "no column 'nope'"),
        (["id", "ID"], "twice"),
        (["f"], "NaN"),
        (["m"], "cannot be a key"),
        (["l"], "cannot be a key"),
        (["s"], "cannot be a key"),
        ([1], "list of names"),
        (5, "list of names"),
    ],
)
def test_what_cannot_be_a_key_is_refused(tmp_path: Path, keys: Any, match: str) -> None:
    members = [("id", pa.int64()), ("f", pa.float64()), ("m", pa.map_(pa.string(), pa.int64()))]
    members += [("l", pa.list_(pa.int64())), ("s", pa.struct([("z", pa.int64())]))]
    schema = pa.schema(members)
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    with pytest.raises(InvalidInputError, match=match):
        table.upsert(pa.table({"id": [1]}), keys)


DAY, MOMENT = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
KINDS = [
    (pa.int8(), [1, -128, 127]),
    (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    (pa.string(), ["", "a" * 50, "a" * 49 + "b"]),
    (pa.binary(), [b"", b"\x00", b"\xff" * 40]),
    (pa.bool_(), [True, False]),
    (pa.date32(), [DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.timestamp("us"), [MOMENT, MOMENT + datetime.timedelta(microseconds=1)]),
    (pa.timestamp("us", "UTC"), [MOMENT, MOMENT + datetime.timedelta(microseconds=1)]),
    (pa.decimal128(30, 10), [decimal.Decimal("12345678901234567890.1234567891"), decimal.Decimal("-1.5")]),
]


@MODES
@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda each: str(each) if isinstance(each, pa.DataType) else "")
@pytest.mark.parametrize("is_partition", [False, True])
def test_keys_of_every_kind_find_their_rows(
    tmp_path: Path, kind: pa.DataType, values: list[Any], is_partition: bool, properties: dict[str, str]
) -> None:
    if is_partition and (pa.types.is_binary(kind) or "" in values):
        values = ["z"] if pa.types.is_string(kind) else [b"z"]
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    table = txlog.Table.create(str(tmp_path / "t"), schema, ["k"] if is_partition else [], properties)
    for value in values:
        table.append(pa.table({"k": pa.array([value], kind), "v": [0]}))
    result = table.upsert(pa.table({"k": pa.array(values, kind), "v": [*range(1, len(values) + 1)]}), ["k"])
    assert (result.metrics.rows_updated, result.metrics.rows_inserted) == (len(values), 0)
    assert sorted(table.snapshot().to_arrow().column("v").to_pylist()) == [*range(1, len(values) + 1)]


@MODES
def test_upsert_keys_may_be_composite_and_members_of_structs(tmp_path: Path, properties: dict[str, str]) -> None:
    place = pa.struct([("zip", pa.string()), ("n", pa.int32())])
    schema = pa.schema([("who", pa.string()), ("at", place), ("v", pa.int64())])

    def people(*given: tuple[str, Any, int]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in given], schema)

    table = txlog.Table.create(str(tmp_path / "t"), schema, (), properties)
    first, second = {"zip": "10115", "n": 1}, {"zip": "10115", "n": 2}
    table.append(people(("x", first, 1), ("y", first, 2), ("x", second, 3), ("x", None, 4), ("x", {"n": 1}, 5)))
    table.upsert(people(("x", first, 10), ("y", second, 20)), ["who", "AT.zip", "at.n"])
    values = table.snapshot().to_arrow().column("v").to_pylist()
    assert sorted(values) == [2, 3, 4, 5, 10, 20]


@MODES
def test_names_of_keys_may_have_dots_and_commas(tmp_path: Path, properties: dict[str, str]) -> None:
    schema = pa.schema(
        [("a.b", pa.int64()), ("s", pa.struct([("x.y", pa.int64()), ("`,", pa.int64())])), ("v", pa.int64())]
    )
    table = txlog.Table.create(tmp_path / "t", schema, properties={**properties, "delta.columnMapping.mode": "name"})

    def rows(v: int) -> pa.Table:
        return pa.Table.from_pylist([{"a.b": 1, "s": {"x.y": 2, "`,": 3}, "v": v}], schema)

    table.append(rows(0))
    for number, keys in enumerate((["a.b"], ["`a.b`"], ["s.`x.y`"], ["s.```,`", "a.b"], "`a.b`, s.`x.y`"), 1):
        assert table.upsert(rows(number), keys).metrics.rows_updated == 1, keys
        assert table.to_arrow() == rows(number)
        assert table.verify(keys).is_sound
    for keys in (["s.`x.y"], ["s.`x.y`, v"], ["s.x.y"], ["s.`x`"]):
        with pytest.raises(InvalidInputError, match=r"names of columns, whose dots|has no column"):
            table.upsert(rows(9), keys)


@MODES
def test_a_key_whose_name_begins_with_a_dot_is_no_other_field(tmp_path: Path, properties: dict[str, str]) -> None:
    schema = pa.schema([("s", pa.struct([(".x", pa.int64()), ("x", pa.int64())])), ("v", pa.int64())])

    def rows(*given: tuple[int, int, int]) -> pa.Table:
        return pa.Table.from_pylist([{"s": {".x": key, "x": other}, "v": v} for key, other, v in given], schema)

    table = txlog.Table.create(tmp_path / "t", schema, properties=properties)
    table.append(rows((1, 2, 10), (2, 1, 20)))
    table.upsert(rows((1, 1, 11)), ["s.`.x`"])
    assert table.to_arrow().sort_by("v") == rows((1, 1, 11), (2, 1, 20))


def test_the_source_may_be_the_table_itself_and_larger_than_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upsert_source, "MEMORY_MAX_BYTES", 1000)
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA)
    table.append(pa.table({"id": range(5000), "day": ["a"] * 5000, "v": [0] * 5000}, SCHEMA))
    batches = pa.table({"id": range(2500, 7500), "day": ["b"] * 5000, "v": [1] * 5000}, SCHEMA).to_batches(700)
    result = table.upsert(iter(batches), ["id"])
    assert (result.metrics.rows_updated, result.metrics.rows_inserted) == (2500, 2500)
    assert table.upsert(table.snapshot(), ["id"]).metrics.rows_updated == 7500
    assert table.snapshot().to_arrow(["id"]).num_rows == 7500


def test_an_empty_source_changes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.upsert(rows(), ["id"]).version == 1
    assert table.upsert(iter(()), ["id"]).version == 1
    table.upsert(rows(), ["id"], app_id="feed", checkpoint_id=1)
    assert table.snapshot().transaction_version("feed") == 1


def test_an_upsert_as_of_a_version_is_no_lost_update(tmp_path: Path) -> None:
    """Two users read v = 10 and both write 11: with the version that they read, one of them gets an error."""
    table, other = made(tmp_path), txlog.Table.open(str(tmp_path / "t"))
    version = table.snapshot().version
    other.upsert(rows((1, "a", 11)), ["id"], read_version=version)
    with pytest.raises(txlog.ConflictError):
        table.upsert(rows((1, "a", 11)), ["id"], read_version=version)
    other.append(rows((50, "z", 1)))
    table.upsert(rows((3, "b", 31)), ["id"], read_version=table.snapshot().version - 1)
    with pytest.raises(ConcurrentAppendError):
        table.upsert(rows((50, "z", 2)), ["id"], read_version=version)


def test_history_shows_what_an_upsert_did_under_sparks_names(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.upsert(rows((1, "a", 11), (9, "a", 9)), ["id", "day"])
    reported = table.history(1)[0]
    assert reported["operation"] == "MERGE"
    assert reported["operationParameters"]["predicate"] == '["(t.id = s.id) AND (t.day = s.day)"]'
    assert reported["operationParameters"]["matchedPredicates"] == '[{"actionType":"update"}]'
    counts = reported["operationMetrics"]
    assert (counts["numTargetRowsInserted"], counts["numTargetRowsUpdated"]) == ("1", "1")
    assert reported["isBlindAppend"] is False


# --- keys -------------------------------------------------------------------------------------------------------

small = st.integers(-3, 3)
words = st.sampled_from(["", "a", "b", "ab"])
pairs = st.tuples(small, words)


@given(st.lists(pairs, max_size=12), st.lists(st.tuples(st.one_of(small, st.none()), st.one_of(words, st.none()))))
def test_an_index_of_keys_finds_what_a_dictionary_finds(mine: list[Any], theirs: list[Any]) -> None:
    keys = (KeyColumn(("n",), LONG), KeyColumn(("w",), STRING))

    def columns(given: list[Any]) -> list[pa.Array]:
        return [pa.array([row[0] for row in given], pa.int64()), pa.array([row[1] for row in given], pa.string())]

    index = KeyIndex(keys, columns(mine))
    last = {row: at for at, row in enumerate(mine)}
    assert index.source_rows(columns(theirs)).tolist() == [last.get(row, -1) for row in theirs]
    assert index.last_rows().tolist() == [last[row] == at for at, row in enumerate(mine)]
    repeated = index.first_repeated()
    assert (repeated is None) == (len(last) == len(mine))
    if repeated is not None:
        assert mine[repeated[0]] == mine[repeated[1]]
    single = KeyIndex(keys[:1], columns(mine)[:1])
    last_number = {row[0]: at for at, row in enumerate(mine)}
    assert single.source_rows(columns(theirs)[:1]).tolist() == [last_number.get(row[0], -1) for row in theirs]


def test_keys_at_the_ends_of_the_range_differ() -> None:
    ends = pa.array([-(2**63), 2**63 - 1, 5], pa.int64())
    for mine in ([-(2**63)], [2**63 - 1], [5], [5, 6, 7]):
        index = KeyIndex([KeyColumn(("n",), LONG)], [pa.array(mine, pa.int64())])
        expected = [mine.index(value) if value in mine else -1 for value in ends.to_pylist()]
        assert index.source_rows([ends]).tolist() == expected


@MODES
@pytest.mark.parametrize(
    ("matched", "other", "left"),
    [("ignore", "insert", [(1, "a", 11), (2, "a", 20)]), ("update", "ignore", [(2, "a", 21)])],
)
def test_a_key_whose_row_is_dead_is_not_in_the_table(
    tmp_path: Path, properties: dict[str, str], matched: Any, other: Any, left: list[Any]
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, properties=properties)
    table.append(rows((1, "a", 10), (2, "a", 20)))
    table.delete("id = 1")  # beside a row that lives, so that a vector marks it where there are vectors
    result = table.upsert(rows((1, "a", 11), (2, "a", 21)), ["id"], when_matched=matched, when_not_matched=other)
    assert found(table) == left
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (len(left) - 1, int(matched == "update"))


def test_a_key_of_two_columns_matches_in_both_or_not_at_all() -> None:
    keys = [KeyColumn(("a",), LONG), KeyColumn(("b",), STRING)]
    index = KeyIndex(keys, [pa.array([10, 10, 20]), pa.array(["x", "y", "x"])])
    asked = [pa.array([10, 10, 20, 20, 20, 20, 10, None]), pa.array(["x", "y", "x", "y", "z", None, None, "x"])]
    assert index.source_rows(asked).tolist() == [0, 1, 2, -1, -1, -1, -1, -1]


@pytest.mark.parametrize("on_conflict", ["rerun", "fail"])
def test_an_upsert_that_matches_nothing_is_still_no_blind_append(tmp_path: Path, on_conflict: Any) -> None:
    """Another engine's MERGE that looked for the same keys has to lose to it."""
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.upsert(pa.table({"id": [9]}), ["id"], on_conflict=on_conflict)
    entry = table.history(1)[0]
    assert (entry["isBlindAppend"], entry["readVersion"], entry["operation"]) == (False, 1, "MERGE")


def test_many_small_files_share_look_ups(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, properties=VECTORS)
    batches = [rows((n, "a", n), (n + 1_000, "b", n), (None, "c", n)) for n in range(150)]
    names = [f"{number}.parquet" for number in range(151)]
    for name, batch in zip(names, [*batches, SCHEMA.empty_table()], strict=True):
        pq.write_table(batch, tmp_path / "t" / name)
    commit_files(table, *names)
    for turn in range(3):  # the second remembers the keys, the third knows them
        given = rows(*((key, "new", turn) for key in (0, 63, 64, 65, 149, 1_128, 5_000 + turn)))
        assert table.upsert(given, ["id"]).metrics.rows_inserted == 1
    kept = {n: n for n in range(150)} | {n + 1_000: n for n in range(150)}
    kept |= dict.fromkeys((0, 63, 64, 65, 149, 1_128, 5_002), 2) | {5_000: 0, 5_001: 1}
    assert {key: value for key, _, value in found(table) if key is not None} == kept
    assert len(found(table)) == len(kept) + 150


# --- few rows beside copies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [[], ["day"]], ids=["flat", "partitioned"])
@pytest.mark.parametrize(
    "properties",
    [{}, {"delta.enableRowTracking": "true"}, {"delta.enableChangeDataFeed": "true"}],
    ids=["plain", "row ids", "feed"],
)
def test_copies_of_small_files_and_the_rows_of_a_source_share_a_file(
    tmp_path: Path, partitions: list[str], properties: dict[str, str]
) -> None:
    data = pa.table({"id": range(20), "day": ["a", "b"] * 10, "v": [0] * 20})
    table = txlog.Table.create(str(tmp_path / "t"), data.schema, partitions, properties)
    table.append(data)
    expected = {row["id"]: row for row in data.to_pylist()}
    for number, id in enumerate((3, 4, 3, 30, 5, 31)):
        row = {"id": id, "day": "ab"[id % 2 == 1], "v": number + 1}
        table.upsert(pa.Table.from_pylist([row], data.schema), ["id"])
        expected[id] = row
    changes = table.merge(pa.table({"id": [6, 32]}), "source.id = target.id").when_matched_update(
        {"v": txlog.expr("-1")}
    )
    changes.when_not_matched_insert(
        {"id": txlog.expr("source.id"), "day": txlog.expr("'a'"), "v": txlog.expr("0")}
    ).execute()
    expected[6]["v"], expected[32] = -1, {"id": 32, "day": "a", "v": 0}
    assert table.num_files == (4 if partitions else 3)  # the rows 30 and 31 touch no file: each leaves one
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [expected[id] for id in sorted(expected)]
    read = pa.table(DeltaTable(str(tmp_path / "t")).to_pyarrow_table()).sort_by("id")
    assert read.select(data.schema.names).to_pylist() == found
    assert not table.verify(footers=True).findings
    if "delta.enableChangeDataFeed" in properties:
        last = table.changes(table.version, table.version).read_all().to_pylist()
        assert sorted((row["id"], row["_change_type"]) for row in last) == [
            (6, "update_postimage"),
            (6, "update_preimage"),
            (32, "insert"),
        ]


def test_the_copy_of_a_large_file_stays_alone(tmp_path: Path) -> None:
    data = pa.table({"id": range(200_000), "v": [n * 7_919 % 1_000_003 for n in range(200_000)]})
    table = txlog.Table.create(str(tmp_path / "t"), data.schema)
    table.append(data)
    table.upsert(pa.table({"id": [3], "v": [1]}), ["id"])
    assert table.num_files == 2
    table.upsert(pa.table({"id": [3, 4], "v": [2, 2]}), ["id"])
    assert table.num_files == 2
    assert table.count("v = 2 AND id IN (3, 4)") == 2
    assert table.count() == 200_000
