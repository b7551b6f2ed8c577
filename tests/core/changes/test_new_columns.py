"""Merges and upserts that bring new columns with them: in one version, in the log and in the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from tests.losing_writer import losing_to
from txlog.audit.verify import verify_table
from txlog.table import Table

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
MORE = pa.table({"k": [1, 9], "v": [-1, -9], "note": ["one", "nine"], "other": [1.0, 9.0]})
TABLES = pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableDeletionVectors": "true"},
        {},
        {"delta.columnMapping.mode": "name"},
        {"delta.columnMapping.mode": "id", "delta.enableRowTracking": "true"},
    ],
    ids=["vectors", "copies", "by name", "by id, tracked"],
)
Change = Callable[..., Any]


def made(path: Path, properties: dict[str, str]) -> Table:
    table = Table.create(path / "t", SCHEMA, (), properties)
    table.append(pa.table({"k": [1, 2, 3], "v": [10, 20, 30]}))
    return table


def merged(table: Table, source: Any = MORE) -> Any:
    builder = table.merge(source, ["k"], schema_mode="merge")
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


def upserted(table: Table, source: Any = MORE) -> Any:
    return table.upsert(source, ["k"], schema_mode="merge")


def rows(table: Table) -> list[dict[str, Any]]:
    return sorted(Table.open(table.uri).snapshot().to_arrow().to_pylist(), key=lambda row: row["k"])


@TABLES
@pytest.mark.parametrize("change", [merged, upserted])
def test_a_change_with_new_columns_adds_them_all_to_the_table(
    tmp_path: Path, properties: dict[str, str], change: Change
) -> None:
    table = made(tmp_path, properties)
    assert change(table).version == 2
    assert table.schema.names == ["k", "v", "note", "other"]
    assert rows(table) == [
        {"k": 1, "v": -1, "note": "one", "other": 1.0},
        {"k": 2, "v": 20, "note": None, "other": None},
        {"k": 3, "v": 30, "note": None, "other": None},
        {"k": 9, "v": -9, "note": "nine", "other": 9.0},
    ]
    assert verify_table(table._open_table.store).is_sound
    assert change(table).version == 3, "nothing to add any more"
    if not properties:
        assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == 4


@pytest.mark.parametrize("change", [merged, upserted])
def test_a_concurrent_append_does_not_stop_a_change_that_adds_columns(tmp_path: Path, change: Change) -> None:
    table = made(tmp_path, {"delta.columnMapping.mode": "name"})
    ours = losing_to(table, lambda t: t.append(pa.table({"k": [9, 10], "v": [90, 100]})))
    assert change(ours).version == 3
    assert [(row["k"], row["v"], row["note"]) for row in rows(table)] == [
        (1, -1, "one"),
        (2, 20, None),
        (3, 30, None),
        (9, -9, "nine"),
        (10, 100, None),
    ]


@pytest.mark.parametrize("change", [merged, upserted])
@pytest.mark.parametrize(
    "rival",
    [
        lambda t: t.add_columns(pa.schema([("note", pa.string())])),
        lambda t: t.append(pa.table({"k": [7], "v": [70], "note": ["seven"]}), schema_mode="merge"),
        lambda t: t.upsert(pa.table({"k": [7], "v": [70], "note": ["seven"]}), ["k"], schema_mode="merge"),
        lambda t: t.set_properties({"my.key": "1"}),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_change_that_adds_columns_is_made_again_on_a_definition_that_others_changed_first(
    tmp_path: Path, change: Change, rival: Callable[[Table], Any], is_stream: bool
) -> None:
    table = made(tmp_path, {})
    data = iter(MORE.to_batches(1)) if is_stream else MORE
    assert change(losing_to(table, rival), data).version == 3
    found = deltalake.DeltaTable(table.uri).to_pyarrow_table().select(["k", "v", "note", "other"]).to_pylist()
    expected = [(1, -1, "one", 1.0), (2, 20, None, None), (3, 30, None, None), (9, -9, "nine", 9.0)]
    others = [(7, 70, "seven", None)] * (len(found) == 5)
    assert sorted(tuple(row.values()) for row in found) == sorted([*expected, *others])
    assert verify_table(table._open_table.store).is_sound


@pytest.mark.parametrize("change", [merged, upserted])
@pytest.mark.parametrize(
    "rival",
    [
        lambda t: t.append(pa.table({"k": [7], "note": [7]}), schema_mode="merge"),
        lambda t: t.add_constraint("small", "v > 0"),
    ],
)
def test_a_change_that_adds_columns_is_refused_if_others_contradict_it(
    tmp_path: Path, change: Change, rival: Callable[[Table], Any]
) -> None:
    table = made(tmp_path, {})
    with pytest.raises(txlog.InvalidInputError, match=r"note|small"):
        change(losing_to(table, rival))
    assert table.version == 2


def test_a_change_that_adds_columns_to_the_version_that_its_rows_come_from_is_not_made_again(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    ours = losing_to(table, lambda t: t.add_columns(pa.schema([("note", pa.string())])))
    with pytest.raises(txlog.MetadataChangedError):
        ours.upsert(MORE, ["k"], schema_mode="merge", read_version=1)
    assert table.version == 2


def test_clauses_that_name_columns_add_only_these(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    builder = table.merge(MORE, "target.k = source.k", schema_mode="merge")
    builder.when_matched_update({"note": txlog.expr("upper(source.note)")}).execute()
    assert table.schema.names == ["k", "v", "note"]
    assert [row["note"] for row in rows(table)] == ["ONE", None, None]
    assert [row["v"] for row in rows(table)] == [10, 20, 30]


@pytest.mark.parametrize(
    ("name", "value", "added"),
    [
        ("c d", "source.`c d`", {"c d": 7}),
        ("`c d`", "source.`c d`", {"c d": 7}),
        ("`C.D`", "source.`c.d`", {"c.d": 8}),
        ("c.d", "source.`c.d`", {"c.d": 8}),
        ("s.y", "source.s.y", {"s": {"x": 1, "y": 9}}),
        ("`s`.`y`", "source.s.y", {"s": {"x": 1, "y": 9}}),
    ],
)
def test_clauses_add_the_columns_and_struct_fields_that_they_name_however_they_write_them(
    tmp_path: Path, name: str, value: str, added: dict[str, Any]
) -> None:
    table = Table.create(tmp_path / "t", "k bigint, s struct<x: bigint>", column_mapping="name")
    table.append(pa.table({"k": [1], "s": [{"x": 1}]}))
    source = pa.table({"k": [1], "s": [{"x": 5, "y": 9}], "c d": [7], "c.d": [8]})
    table.merge(source, ["k"], schema_mode="merge").when_matched_update({name: txlog.expr(value)}).execute()
    assert rows(table) == [{"k": 1, "s": {"x": 1}} | added]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("s.a", "source.s.a", "struct<a: bigint, n: int, t: struct<x: bigint>>"),
        ("s.n", "source.s.n", "struct<a: bigint, n: bigint, t: struct<x: bigint>>"),
        ("S.Secret", "source.s.secret", "struct<a: bigint, n: int, t: struct<x: bigint>, secret: bigint>"),
        ("s.t.x", "source.s.t.x", "struct<a: bigint, n: int, t: struct<x: bigint>>"),
        ("s.t.y", "source.s.t.y", "struct<a: bigint, n: int, t: struct<x: bigint, y: bigint>>"),
        ("s.t", "source.s.t", "struct<a: bigint, n: int, t: struct<x: bigint, y: bigint>>"),
    ],
)
def test_a_clause_that_sets_a_struct_field_changes_no_other_field(
    tmp_path: Path, name: str, value: str, expected: str
) -> None:
    definition = "k bigint, s struct<a: bigint, n: int, t: struct<x: bigint>>"
    table = Table.create(tmp_path / "t", definition, properties={"delta.enableTypeWidening": "true"})
    table.append(pa.Table.from_pylist([{"k": 1, "s": {"a": 1, "n": 2, "t": {"x": 3}}}], table.schema))
    given = {"a": 7, "n": 1 << 40, "t": {"x": 8, "y": 9}, "secret": 4, "bad name": 5}
    source = pa.table({"k": [1], "s": [given]})
    table.merge(source, ["k"], schema_mode="merge").when_matched_update({name: txlog.expr(value)}).execute()
    assert table.schema == Table.create(tmp_path / "expected", f"k bigint, s {expected}").schema


def test_a_name_that_is_the_tables_own_column_adds_no_struct_of_the_source(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k bigint, `s.a` bigint", column_mapping="name")
    table.append(pa.table({"k": [1], "s.a": [1]}))
    source = pa.table({"k": [1], "s": [{"a": 7}]})
    table.merge(source, ["k"], schema_mode="merge").when_matched_update({"s.a": txlog.expr("source.s.a")}).execute()
    assert rows(table) == [{"k": 1, "s.a": 7}]


def test_columns_that_a_merge_source_lacks_survive_updates_and_are_null_in_inserts(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    merged(table, pa.table({"k": [1, 9], "note": ["one", "nine"]}))
    assert [(row["v"], row["note"]) for row in rows(table)] == [(10, "one"), (20, None), (30, None), (None, "nine")]


@pytest.mark.parametrize("change", [merged, upserted])
def test_columns_are_not_added_unless_requested(tmp_path: Path, change: Change) -> None:
    table = made(tmp_path, {})
    with pytest.raises(txlog.SchemaMismatchError):
        table.upsert(MORE, ["k"])
    table.merge(MORE, ["k"]).when_matched_update_all().execute()
    assert table.schema.names == SCHEMA.names
    with pytest.raises(txlog.InvalidInputError, match="schema_mode"):
        table.upsert(MORE, ["k"], schema_mode="overwrite")
    with pytest.raises(txlog.InvalidInputError, match="schema_mode"):
        table.merge(MORE, ["k"], schema_mode="all")  # type: ignore[arg-type]


@TABLES
@pytest.mark.parametrize("change", [merged, upserted])
def test_members_that_structs_of_the_table_lack_are_added_as_an_append_adds_them(
    tmp_path: Path, properties: dict[str, str], change: Change
) -> None:
    def rows_with(member: dict[str, pa.DataType], given: list[Any]) -> pa.Table:
        place = pa.struct({"x": pa.int64(), **member})
        kinds = pa.schema([("k", pa.int64()), ("at", place), ("tags", pa.list_(place))])
        return pa.Table.from_pylist(
            [{"k": k, "at": at, "tags": None if at is None else [at]} for k, at in given], kinds
        )

    table = Table.create(tmp_path / "t", rows_with({}, []).schema, (), properties)
    table.append(rows_with({}, [(1, {"x": 1}), (2, {"x": 2}), (3, None)]))
    source = rows_with({"y": pa.string()}, [(1, {"x": -1, "y": "one"}), (9, {"x": -9, "y": None})])
    with pytest.raises(txlog.TxlogError):
        table.upsert(source, ["k"])
    ours = losing_to(table, lambda t: t.append(rows_with({}, [(4, {"x": 4})])))
    assert change(ours, source).version == 3
    expected = [
        (1, {"x": -1, "y": "one"}),
        (2, {"x": 2, "y": None}),
        (3, None),
        (4, {"x": 4, "y": None}),
        (9, {"x": -9, "y": None}),
    ]
    assert rows(table) == [{"k": k, "at": at, "tags": None if at is None else [at]} for k, at in expected]
    assert verify_table(table._open_table.store).is_sound


def test_a_source_column_of_another_type_adds_nothing_to_the_tables(tmp_path: Path) -> None:
    place = pa.struct([("x", pa.int64())])
    table = Table.create(tmp_path / "t", pa.schema([("k", pa.int64()), ("at", place), ("v", pa.int64())]))
    table.append(pa.table({"k": [1], "at": pa.array([{"x": 1}], place), "v": [1]}))
    source = pa.table({"k": [1], "at": ["Rome"], "v": [2]})
    begun = table.merge(source, ["k"], schema_mode="merge")
    begun.when_matched_update({"at": txlog.expr("target.at"), "v": txlog.expr("length(source.at)")}).execute()
    assert rows(table) == [{"k": 1, "at": {"x": 1}, "v": 4}]


@pytest.mark.parametrize(
    "write",
    [
        lambda table, rows: table.append(rows, schema_mode="merge"),
        lambda table, rows: table.overwrite(rows, schema_mode="merge"),
        upserted,
    ],
    ids=["append", "overwrite", "upsert"],
)
def test_nested_columns_of_narrower_types_bring_new_members_with_them(write: Change, tmp_path: Path) -> None:
    """As a plain append takes them: no value changes."""
    table = Table.create(tmp_path / "t", "k bigint, s struct<a:double>, m map<string,decimal(9,2)>")
    narrow = pa.struct([("a", pa.float32()), ("b", pa.int32())])
    kinds = pa.schema([("k", pa.int64()), ("s", narrow), ("m", pa.map_(pa.string(), pa.int16()))])
    write(table, pa.Table.from_pylist([{"k": 1, "s": {"a": 1.5, "b": 2}, "m": [("x", 3)]}], kinds))
    assert table.to_arrow().to_pylist() == [{"k": 1, "s": {"a": 1.5, "b": 2}, "m": [("x", 3)]}]
