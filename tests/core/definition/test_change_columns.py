"""Columns that are renamed, dropped and altered: what is allowed, what follows, and what the history says."""

from __future__ import annotations

import decimal
import json
import logging
import operator
import re
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import deltalake
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.losing_writer import losing_to
from txlog.audit.verify import verify_table
from txlog.core.row_rules import limits_of
from txlog.errors import ConflictError, InvalidInputError, MetadataChangedError, SchemaMismatchError, TxlogError
from txlog.table import Table

MAPPING = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true"}
ROWS = [
    {"id": 1, "s": {"a": 1, "b": "x"}, "tags": [{"k": 1}], "day": "mon"},
    {"id": 2, "s": None, "tags": None, "day": "tue"},
]
SCHEMA = "id int, s struct<a: int, b: string>, tags array<struct<k: int>>, day string"
MODES = pytest.mark.parametrize("mode", ["begun", "name", "id"])
Change = Callable[[Table], Any]


def rows_of(table: Table) -> list[dict[str, Any]]:
    return sorted(Table.open(table.uri).to_arrow().to_pylist(), key=repr)


def made(path: Path, mode: str = "name", **options: Any) -> Table:
    """A table with rows; ``begun``: it began to map its columns when it had rows."""
    table = Table.create(path / "t", SCHEMA, column_mapping=None if mode == "begun" else mode, **options)  # type: ignore[arg-type]
    table.append(pa.Table.from_pylist(ROWS, schema=table.schema))
    if mode == "begun":
        table.set_properties(MAPPING)
    return table


def last_commit(table: Table) -> list[dict[str, Any]]:
    text = Path(table.uri, "_delta_log", f"{table.version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def sound(table: Table) -> bool:
    return verify_table(table._open_table.store).is_sound


# --- renamed ------------------------------------------------------------------------------------------------------


@MODES
def test_renamed_columns_and_members_keep_their_rows_and_take_new_ones(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path, mode, partition_by=["day"])
    table.rename_column("id", "the key")
    table.rename_column("s.a", "alpha")
    table.rename_column("tags.element.k", "kk")
    table.rename_column("DAY", "weekday")
    new = {"the key": 3, "s": {"alpha": 3, "b": "y"}, "tags": [{"kk": 3}], "weekday": "wed"}
    table.append(pa.Table.from_pylist([new], schema=table.schema))
    table.upsert(pa.Table.from_pylist([{**new, "the key": 2}], schema=table.schema), ["the key"])
    expected = [
        {"the key": 1, "s": {"alpha": 1, "b": "x"}, "tags": [{"kk": 1}], "weekday": "mon"},
        {**new, "the key": 2},
        new,
    ]
    assert rows_of(table) == sorted(expected, key=repr)
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.uri)).execute("select * from t")
    assert sorted(pa.table(theirs.read_all()).select(table.schema.names).to_pylist(), key=repr) == rows_of(table)
    assert table.to_arrow(where="weekday = 'wed' and s.alpha = 3").num_rows == 2
    assert table.snapshot().partition_columns == ("weekday",)
    assert sound(table)


def test_the_history_of_changes_has_sparks_words(tmp_path: Path) -> None:
    table = made(tmp_path, **{"properties": WIDENING})
    table.rename_column("s.a", "a.b")
    table.drop_columns(["s.b", "day"])
    table.alter_column("id", type="bigint", comment="key", first=True)
    table.alter_column("tags", after="id")
    table.alter_column("id", type=pa.decimal128(22, 2))
    table.set_description("all orders")
    found = [(entry["operation"], entry["operationParameters"]) for entry in table.history(6)]
    columns = [json.loads(parameters.get("column", "{}")) for _, parameters in found]
    for each in columns:
        metadata = each.get("metadata", {})
        for key in [key for key in metadata if key.startswith("delta.columnMapping.")]:
            del metadata[key]
    assert [(operation, {**parameters, "column": ""}) for operation, parameters in reversed(found)] == [
        ("RENAME COLUMN", {"oldColumnPath": "s.a", "newColumnPath": "s.`a.b`", "column": ""}),
        ("DROP COLUMNS", {"columns": '["s.b","day"]', "column": ""}),
        ("CHANGE COLUMN", {"position": "FIRST", "column": ""}),
        ("CHANGE COLUMN", {"position": "AFTER id", "column": ""}),
        ("CHANGE COLUMN", {"column": ""}),
        ("SET TBLPROPERTIES", {"properties": '{"comment":"all orders"}', "column": ""}),
    ]
    changes = [{"fromType": "integer", "toType": "long"}]
    assert columns[::-1][2:5] == [
        {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "key"}},
        {"name": "tags", "type": "array", "nullable": True, "metadata": {}},
        {
            "name": "id",
            "type": "decimal(22,2)",
            "nullable": True,
            "metadata": {"comment": "key", "delta.typeChanges": changes},
        },
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.rename_column("nope", "x"), "there is no column 'nope': the table has id, s, tags, day"),
        (lambda t: t.rename_column("s.c", "x"), r"there is no column 's\.c': s, a struct<a:int,b:string>, has a, b"),
        (lambda t: t.rename_column("id", "DAY"), "id cannot be renamed to DAY: there is a column day"),
        (lambda t: t.rename_column("tags.element", "x"), r"tags\.element has no name of its own"),
        (lambda t: t.rename_column("id", ""), "name"),
        (lambda t: t.rename_column(7, "x"), "column"),
        (lambda t: t.drop_columns([]), "columns"),
        (lambda t: t.drop_columns(["id", "ID"]), "a column is named twice: id, id"),
        (lambda t: t.drop_columns(["id", "s", "tags", "day"]), "day is the only column of the table"),
        (lambda t: t.drop_columns(["tags.element.k"]), r"the struct tags\.element, which can be dropped as a whole"),
        (lambda t: t.alter_column("id"), "pass one of type, nullable, comment, default, first, after"),
        (lambda t: t.alter_column("id", nullable="no"), "Invalid nullable .no.: expected True or False"),
        (lambda t: t.alter_column("id", type="string"), r"from int to string: only to a wider one \(bigint, double"),
        (lambda t: t.alter_column("id", type="smallint"), "from int to smallint: only to a wider one"),
        (lambda t: t.alter_column("s", type="int"), r"name the field, such as 'a\.b'"),
        (lambda t: t.alter_column("id", type=7), "type"),
        (lambda t: t.alter_column("id", first=True, after="day"), "pass first or after, not both"),
        (lambda t: t.alter_column("s.a", after="id"), r"there is no column 'id' next to s\.a"),
        (lambda t: t.alter_column("tags.element", comment="x"), "not a column: only its type can be changed"),
        (lambda t: t.alter_column("s.a", default="7"), r"s\.a is a part of a column"),
        (lambda t: t.alter_column("id", default="'x'"), "the default of column id"),
        (lambda t: t.alter_column("tags.element.k", nullable=False), "inside an array or a map"),
        (lambda t: t.alter_column("s", nullable=False), "rows of the table violate the NOT NULL of column s"),
        (lambda t: t.set_description(), "pass description or name"),
        (lambda t: t.set_description(7), "description"),
    ],
)
def test_a_change_that_cannot_be_made_says_why_and_makes_no_version(
    tmp_path: Path, change: Change, message: str
) -> None:
    table = made(tmp_path, **{"properties": WIDENING})
    with pytest.raises(InvalidInputError, match=message):
        change(table)
    assert table.version == 1


@pytest.mark.parametrize("change", [lambda t: t.rename_column("id", "x"), lambda t: t.drop_columns("id")])
def test_without_column_mapping_a_change_says_what_to_set_and_who_can_read_the_table_then(
    tmp_path: Path, change: Change
) -> None:
    table = Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(InvalidInputError) as caught:
        change(table)
    assert 'table.set_properties({"delta.columnMapping.mode": "name"})' in str(caught.value)
    assert "nulls without an error" in str(caught.value)
    assert "Polars refuses" in str(caught.value)


def test_a_change_to_what_is_there_already_makes_no_version(tmp_path: Path) -> None:
    table = made(tmp_path, **{"properties": WIDENING})
    for change in (
        lambda: table.rename_column("id", "id"),
        lambda: table.alter_column("id", type="int", nullable=True, comment="", first=True),
        lambda: table.set_description(""),
    ):
        assert str(change()).startswith("WriteResult(version=1, nothing to change")
    table.rename_column("id", "ID")
    assert table.schema.names[0] == "ID"


# --- what refers to a column --------------------------------------------------------------------------------------


def test_what_refers_to_a_column_follows_its_new_name(tmp_path: Path) -> None:
    properties = {"delta.dataSkippingStatsColumns": "id,s.a,v"}
    schema = "id int, s struct<a: int>, v int"
    table = Table.create(tmp_path / "t", schema, properties=properties, cluster_by=["id", "s.a"], column_mapping="name")
    for column, name in (("id", "key"), ("s.a", "b.c"), ("v", "value")):
        table.rename_column(column, name)
    kept = {key: value for key, value in table.snapshot().properties.items() if "olumnMapping" not in key}
    assert kept == {"delta.dataSkippingStatsColumns": "key,s.`b.c`,value"}
    with pytest.raises(InvalidInputError, match=r"clustered by key"):
        table.drop_columns("key")


RULED = "a int, b int, c int, p int, g int generated always as (a + 1), s struct<x: int, y: int>"


@pytest.mark.parametrize(
    ("column", "cause"),
    [
        ("a", r"the generated column g \(a \+ 1\) is computed from it"),
        ("b", r"the constraint positive \(b > 0 AND s\.x > 0\) names it"),
        ("s.x", r"the constraint positive"),
        ("s", r"the constraint positive"),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        lambda table, column: table.rename_column(column, "other"),
        lambda table, column: table.drop_columns(column),
        lambda table, column: table.alter_column(column, type="bigint"),
    ],
    ids=["rename", "drop", "widen"],
)
def test_a_column_that_a_rule_is_about_stays_and_the_error_names_the_rule(
    tmp_path: Path, column: str, cause: str, change: Callable[[Table, str], Any]
) -> None:
    table = Table.create(tmp_path / "t", RULED, "p", WIDENING, column_mapping="name")
    table.add_constraint("positive", "b > 0 AND s.x > 0")
    if column == "s":
        change = lambda table, column: table.drop_columns(column)  # noqa: E731
    with pytest.raises(InvalidInputError, match=cause):
        change(table, column)
    assert table.version == 1
    table.rename_column("s.y", "z")
    table.drop_columns(["s.z", "c"])


def test_a_column_goes_together_with_what_is_computed_from_it(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", RULED, "p", column_mapping="name")
    table.drop_columns(["a", "g"])
    assert table.schema.names == ["b", "c", "p", "s"]
    with pytest.raises(InvalidInputError, match="partitioned by p"):
        table.drop_columns("p")


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda table: table.drop_columns("p"), r"partitioned by p. No change .* schema_mode=\"overwrite\" and other"),
        (lambda table: table.drop_columns(["c", "p"]), "partitioned by p. No change"),
        (lambda table: table.drop_columns("b"), r"the constraint positive \(b > 0\) names it"),
        (lambda table: table.rename_column("a", "z"), r"the generated column g .* is computed from it"),
        (lambda table: table.drop_columns("a"), r"the generated column g .* is computed from it"),
        (lambda table: table.drop_columns(["a", "b", "c", "g", "s"]), "the constraint positive"),
        (lambda table: table.drop_columns(["s.x", "s.y"]), "s would have no field left|only"),
    ],
)
def test_what_no_column_mapping_would_allow_is_refused_without_advising_it(
    tmp_path: Path, change: Callable[[Table], Any], cause: str
) -> None:
    table = Table.create(tmp_path / "t", RULED, "p")
    table.add_constraint("positive", "b > 0")
    with pytest.raises(InvalidInputError, match=cause) as refused:
        change(table)
    assert "columnMapping" not in str(refused.value)
    with pytest.raises(InvalidInputError, match=r"delta\.columnMapping\.mode"):
        table.drop_columns("c")
    with pytest.raises(InvalidInputError, match=r"delta\.columnMapping\.mode"):
        table.rename_column("p", "q")


def test_a_struct_with_a_clustering_column_in_it_stays(tmp_path: Path) -> None:
    """Spark's Delta 4.4 drops it, and then can neither write nor alter the table."""
    table = Table.create(tmp_path / "t", "a int, s struct<x: int, y: int>", cluster_by="s.x", column_mapping="name")
    for column in ("s", "s.x"):
        with pytest.raises(InvalidInputError, match=r"clustered by s\.x"):
            table.drop_columns(column)
    table.drop_columns("s.y")


def test_a_column_that_clustering_begins_to_use_meanwhile_is_not_dropped(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "a int, b int", cluster_by="a", column_mapping="name")
    with pytest.raises(ConflictError, match=r"delta\.clustering"):
        losing_to(table, lambda other: other.cluster_by("b")).drop_columns("b")


# --- dropped ------------------------------------------------------------------------------------------------------


@MODES
def test_a_dropped_column_is_gone_and_one_of_its_name_begins_empty(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path, mode)
    table.drop_columns(["s.b", "day"])
    assert rows_of(table) == [
        {"id": 1, "s": {"a": 1}, "tags": [{"k": 1}]},
        {"id": 2, "s": None, "tags": None},
    ]
    table.add_columns("day string")
    assert table.to_arrow(["day"])["day"].to_pylist() == [None, None]
    table.append(pa.table({"id": pa.array([3], pa.int32()), "day": ["new"]}))
    assert sorted(map(str, table.to_arrow(["day"])["day"].to_pylist())) == ["None", "None", "new"]
    assert table.to_arrow(where="day is null").num_rows == 2
    assert sound(table)


@MODES
def test_a_purge_takes_the_values_of_dropped_columns_out_of_the_files(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path, mode)
    table.drop_columns(["day", "s.b"])
    before = rows_of(table)
    assert table.purge().files_removed == 1
    (path,) = table.snapshot().files()["path"].to_pylist()
    assert len(pq.ParquetFile(Path(table.uri, path)).schema.names) == 3  # id, s.a and tags.element.k
    assert rows_of(table) == before


# --- altered ------------------------------------------------------------------------------------------------------

WIDENINGS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("tinyint", "smallint", [-128, 5, 127], [-32768, 32767]),
    ("tinyint", "bigint", [-128, 5, 127], [-(2**63), 2**63 - 1]),
    ("tinyint", "double", [-128, 5, 127], [-1.5, 1e300]),
    ("tinyint", "decimal(12,2)", [-128, 5, 127], [decimal.Decimal("-0.25"), decimal.Decimal("9999999999.99")]),
    ("smallint", "int", [-32768, 5, 32767], [-(2**31), 2**31 - 1]),
    ("int", "bigint", [-(2**31), 5, 2**31 - 1], [-(2**40), 2**40]),
    ("int", "double", [-(2**31), 5, 2**31 - 1], [0.5, 5.5]),
    ("int", "decimal(10,0)", [-(2**31), 5, 2**31 - 1], [decimal.Decimal(9999999999)]),
    ("bigint", "decimal(38,18)", [-(2**63), 5, 2**63 - 1], [decimal.Decimal("5.000000000000000001")]),
    ("float", "double", [1.100000023841858, 5.0, -(2.0**127)], [1.1, 5.000000001, 1e300]),
    ("decimal(5,2)", "decimal(12,4)", [decimal.Decimal("-9.99"), decimal.Decimal("5.00")], [decimal.Decimal("5.0001")]),
    ("decimal(5,2)", "decimal(38,35)", [decimal.Decimal("-9.99"), decimal.Decimal("5.00")], [decimal.Decimal("5.1")]),
    ("date", "timestamp_ntz", [date(1969, 12, 31), date(2026, 1, 5)], [datetime(2026, 1, 5, 0, 0, 0, 1)]),
]


@pytest.mark.parametrize(
    ("old", "new", "before", "after", "place"),
    [
        pytest.param(
            *widening,
            place,
            id=f"{place}-{widening[0]} to {widening[1]}",
            marks=() if (at + number) % 3 == 0 else pytest.mark.hunt(part="definitions"),
        )
        for at, widening in enumerate(WIDENINGS)
        for number, place in enumerate(("column", "partition", "member"))
    ],
)
def test_a_wider_column_reads_and_skips_right_on_both_sides_of_the_change(
    tmp_path: Path, old: str, new: str, before: list[Any], after: list[Any], place: str
) -> None:
    """Each file has one value, and every comparison with every value is compared with Python's own: of a state read
    from commits, and of one read from a checkpoint."""
    kind = f"v struct<x: {old}>" if place == "member" else f"v {old}"
    path = "v.x" if place == "member" else "v"
    table = Table.create(tmp_path / "t", f"n int, {kind}", ["v"] if place == "partition" else None, WIDENING)

    def append(number: int, value: Any) -> None:
        held = {"x": value} if place == "member" else value
        table.append(pa.Table.from_pylist([{"n": number, "v": held}], schema=table.schema))

    if place == "partition" and old == "float":
        before = [5.0, -0.5]  # the log has the text 1.1, which as a double is another value, in Spark too
    values = [*before, *after]
    for number, value in enumerate(before):
        append(number, value)
    result = table.alter_column(path, type=new)
    assert bool(result.notes) == (new == "timestamp_ntz")
    for number, value in enumerate(after, start=len(before)):
        append(number, value)
    asked = [
        value if not isinstance(value, date) or isinstance(value, datetime) else _midnight(value) for value in values
    ]
    kind_now = Table.create(tmp_path / "u", f"v {new}").schema.field("v").type
    reference = txlog.col(*path.split("."))
    for is_checkpointed in (False, True):
        if is_checkpointed:
            table.create_checkpoint()
        snapshot = Table.open(table.uri).snapshot()
        column = snapshot.to_arrow()["v"].combine_chunks()
        column = column.field("x") if place == "member" else column
        assert sorted(column.to_pylist()) == sorted(asked)
        assert column.type == kind_now
        for bound in asked:
            for condition, keeps in (
                (reference < bound, operator.lt),
                (reference >= bound, operator.ge),
                (reference == bound, operator.eq),
            ):
                found = snapshot.to_arrow(["n"], condition)["n"].to_pylist()
                expected = [number for number, value in enumerate(asked) if keeps(value, bound)]
                assert sorted(found) == expected, (str(condition), is_checkpointed)
    keys = pa.Table.from_pylist(
        [{"n": 0, "v": {"x": asked[0]} if place == "member" else asked[0]}], schema=table.schema
    )
    table.upsert(keys, ["n"])
    assert table.count() == len(values)
    table.optimize()
    assert table.count() == len(values)
    assert sound(table)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)


def test_type_changes_are_recorded_where_the_protocol_wants_them(tmp_path: Path) -> None:
    schema = "a tinyint, l array<int>, m map<int, struct<x: smallint>>, d array<map<date, array<float>>>"
    table = Table.create(tmp_path / "t", schema, properties=WIDENING)
    for column, kind in (
        ("a", "smallint"),
        ("a", "bigint"),
        ("l.element", "bigint"),
        ("m.key", "bigint"),
        ("m.value.x", "int"),
        ("d.element.value.element", "double"),
        ("d.element.key", "timestamp_ntz"),
    ):
        table.alter_column(column, type=kind)
    fields = json.loads(next(line["metaData"] for line in last_commit(table) if "metaData" in line)["schemaString"])
    found = {field["name"]: field["metadata"].get("delta.typeChanges") for field in fields["fields"]}
    assert found == {
        "a": [{"fromType": "byte", "toType": "short"}, {"fromType": "short", "toType": "long"}],
        "l": [{"fromType": "integer", "toType": "long", "fieldPath": "element"}],
        "m": [{"fromType": "integer", "toType": "long", "fieldPath": "key"}],
        "d": [
            {"fromType": "float", "toType": "double", "fieldPath": "element.value.element"},
            {"fromType": "date", "toType": "timestamp_ntz", "fieldPath": "element.key"},
        ],
    }
    x = fields["fields"][2]["type"]["valueType"]["fields"][0]
    assert x["metadata"] == {"delta.typeChanges": [{"fromType": "short", "toType": "integer"}]}


def test_a_wider_type_needs_the_property_and_the_error_says_who_reads_such_a_table(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match=r"delta\.enableTypeWidening.*deltalake, Polars and DuckDB"):
        table.alter_column("id", type="bigint")


WIDER = {
    "id": pa.int64(),
    "s": pa.struct([("a", pa.float64()), ("b", pa.string())]),
    "tags": pa.list_(pa.struct([("k", pa.int64())])),
    "day": pa.string(),
}
WIDER_ROW = {"id": 2**40, "s": {"a": 0.5, "b": None}, "tags": [{"k": 2**40}], "day": None}


@pytest.mark.parametrize(
    "write",
    [
        lambda t, rows: t.append(rows, schema_mode="merge"),
        lambda t, rows: t.upsert(rows, ["id"], schema_mode="merge"),
        lambda t, rows: (
            t.merge(rows, ["id"], schema_mode="merge").when_matched_update_all().when_not_matched_insert_all().execute()
        ),
        lambda t, rows: t.overwrite(rows, where="id > 5", schema_mode="merge"),
    ],
    ids=["append", "upsert", "merge", "overwrite"],
)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_merge_of_schemas_widens_columns_if_the_table_allows_it(
    tmp_path: Path, write: Callable[[Table, pa.Table], Any], vectors: str
) -> None:
    table = made(tmp_path, properties={**WIDENING, "delta.enableDeletionVectors": vectors})
    write(table, pa.Table.from_pylist([WIDER_ROW], schema=pa.schema(WIDER)))
    assert table.schema.field("id").type == pa.int64()
    assert table.schema.field("s").type.field("a").type == pa.float64()
    found = Table.open(table.uri).to_arrow(["id", "s", "tags"]).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": 1, "s": {"a": 1.0, "b": "x"}, "tags": [{"k": 1}]},
        {"id": 2, "s": None, "tags": None},
        {"id": 2**40, "s": {"a": 0.5, "b": None}, "tags": [{"k": 2**40}]},
    ]
    assert sound(table)


def test_without_the_property_a_merge_of_schemas_leaves_types_alone(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match="column id"):
        table.append(pa.table({"id": [2**40]}), schema_mode="merge")
    table.append(pa.table({"id": [7]}), schema_mode="merge")
    with pytest.raises(SchemaMismatchError):
        table.append(pa.table({"id": [0.5]}), schema_mode="merge")
    assert table.schema.field("id").type == pa.int32()


def test_a_column_of_a_rule_is_not_widened_by_a_merge_of_schemas(tmp_path: Path) -> None:
    table = made(tmp_path, properties=WIDENING)
    table.add_constraint("positive", "id > 0")
    with pytest.raises(InvalidInputError, match=r"id cannot become bigint: the constraint positive"):
        table.append(pa.table({"id": [2**40]}), schema_mode="merge")


def test_not_null_is_added_after_a_check_of_all_rows_and_then_enforced(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.alter_column("id", nullable=False)
    table.alter_column("s.a", nullable=False)  # a struct that is null has no member that could be null
    before = rows_of(table)
    table.update({"day": txlog.expr("'fri'")}, "id = 1")
    table.append(pa.Table.from_pylist([{**ROWS[0], "id": 7}], schema=table.schema))
    table.optimize()
    table.purge()
    assert rows_of(table) == sorted([{**before[0], "day": "fri"}, before[1], {**ROWS[0], "id": 7}], key=repr)
    kinds = pa.schema([("id", pa.int32()), ("s", pa.struct([("a", pa.int32())]))])
    for bad in ({"id": None, "s": {"a": 1}}, {"id": 4, "s": {"a": None}}):
        with pytest.raises(TxlogError):
            table.append(pa.Table.from_pylist([bad], schema=kinds))
    table.alter_column("id", nullable=True)
    table.append(pa.table({"id": pa.array([None], pa.int32())}))
    with pytest.raises(InvalidInputError, match="violate the NOT NULL of column id"):
        table.alter_column("id", nullable=False)
    table.delete("id is null")
    table.alter_column("id", nullable=False)


def test_rows_that_are_added_while_not_null_is_checked_are_checked_too(tmp_path: Path) -> None:
    table = made(tmp_path)
    null = pa.table({"id": pa.array([None], pa.int32())})
    with pytest.raises(InvalidInputError, match="violate the NOT NULL"):
        losing_to(table, lambda other: other.append(null)).alter_column("id", nullable=False)
    table.delete("id is null")
    fine = pa.table({"id": pa.array([9], pa.int32())})
    losing_to(table, lambda other: other.append(fine)).alter_column("id", nullable=False)
    assert table.count() == 3


def test_comments_places_and_defaults_of_columns_change_alone_or_together(tmp_path: Path) -> None:
    table = made(tmp_path)
    result = table.alter_column("day", comment="of the week", default="'sun'", after="id")
    assert "Writers need allowColumnDefaults" in result.notes[0]
    assert table.schema.names == ["id", "day", "s", "tags"]
    table.alter_column("s.b", first=True)
    assert [field.name for field in table.schema.field("s").type] == ["b", "a"]
    table.append(pa.table({"id": pa.array([3], pa.int32())}))
    assert sorted(table.to_arrow(["day"])["day"].to_pylist()) == ["mon", "sun", "tue"]
    table.alter_column("day", comment="", default="")
    metadata = json.loads(table.schema.field("day").metadata[b"delta.metadata"])
    assert not {"comment", "CURRENT_DEFAULT"} & metadata.keys()


def test_a_table_has_a_description_and_a_name(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.set_description("all orders", name="orders")
    metadata = deltalake.DeltaTable(table.uri).metadata()
    assert (metadata.description, metadata.name) == ("all orders", "orders")
    table.set_description("", name="")
    metadata = deltalake.DeltaTable(table.uri).metadata()
    assert (metadata.description, metadata.name) == (None, None)


# --- beside others ------------------------------------------------------------------------------------------------


CHANGES: dict[str, Change] = {
    "rename": lambda t: t.rename_column("id", "key"),
    "drop": lambda t: t.drop_columns("day"),
    "widen": lambda t: t.alter_column("id", type="bigint"),
    "describe": lambda t: t.set_description("x"),
}
WRITES: dict[str, Change] = {
    "append": lambda t: t.append(pa.table({"id": pa.array([5], pa.int32())})),
    "delete": lambda t: t.delete("id = 1"),
    "upsert": lambda t: t.upsert(pa.Table.from_pylist([ROWS[0]], schema=t.schema), ["id"]),
    "optimize": lambda t: t.optimize(),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_column_change_continues_after_any_row_write(tmp_path: Path, change: str, write: str) -> None:
    table = made(tmp_path, properties=WIDENING)
    table.append(pa.Table.from_pylist([{**ROWS[0], "id": 3}], schema=table.schema))
    result = CHANGES[change](losing_to(table, WRITES[write]))
    assert result.version == 4
    assert result.metrics.lost_races == 1
    assert table.count() == {"append": 4, "delete": 2}.get(write, 3)
    assert sound(table)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("change", ["rename", "drop", "widen"])
def test_a_write_that_loses_to_a_change_of_columns_conflicts_and_succeeds_when_run_again(
    tmp_path: Path, change: str, write: str
) -> None:
    table = made(tmp_path, properties=WIDENING)
    table.append(pa.Table.from_pylist(ROWS[:1], schema=table.schema))
    ours = losing_to(table, CHANGES[change])
    with pytest.raises(MetadataChangedError):
        WRITES[write](ours)
    assert table.version == 3
    if (change, write) not in (("rename", "append"), ("rename", "delete"), ("rename", "upsert")):
        WRITES[write](ours)
        assert table.version == 4


@pytest.mark.parametrize("one", CHANGES)
@pytest.mark.parametrize("other", ["rename", "drop", "widen"])
def test_of_two_changes_of_columns_at_once_one_conflicts(tmp_path: Path, one: str, other: str) -> None:
    table = made(tmp_path, properties=WIDENING)
    with pytest.raises(MetadataChangedError):
        CHANGES[one](losing_to(table, CHANGES[other]))
    assert table.version == 2


# --- column mapping and protocols ---------------------------------------------------------------------------------


def test_a_table_is_made_with_column_mapping(tmp_path: Path) -> None:
    assert made(tmp_path / "name").snapshot().properties["delta.columnMapping.mode"] == "name"
    with pytest.raises(InvalidInputError, match="column_mapping is name, and the property"):
        Table.create(tmp_path / "u", SCHEMA, properties={"delta.columnMapping.mode": "id"}, column_mapping="name")
    with pytest.raises(InvalidInputError, match="column_mapping"):
        Table.create(tmp_path / "u", SCHEMA, column_mapping="yes")  # type: ignore[arg-type]
    Table.create(tmp_path / "u", SCHEMA, properties={"delta.columnMapping.mode": "id"}, column_mapping="id")


def test_an_upgrade_of_the_protocol_is_said_in_the_result_and_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = Table.create(tmp_path / "t", SCHEMA)
    with caplog.at_level(logging.WARNING, "txlog"):
        (note,) = table.set_properties(MAPPING).notes
    assert note in caplog.text
    assert note.startswith("The table's protocol is now reader version 2, writer version 5. ")
    assert "Readers need columnMapping: deltalake's to_pyarrow_table and to_pandas" in note
    assert "checkConstraints, changeDataFeed, generatedColumns, which the table does not use yet" in note
    table.append(pa.Table.from_pylist(ROWS, schema=table.schema))
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist() == [1, 2], "not renamed yet"
    table.rename_column("id", "key")
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table()["key"].to_pylist() == [None, None], "as the note says"
    with pytest.raises(Exception, match=r"(?i)mapping|unsupported"):
        polars.read_delta(table.uri)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"my.key": "1"}, None),
        ({"delta.appendOnly": "true"}, None),
        (
            {"delta.minWriterVersion": "4"},
            "checkConstraints, changeDataFeed, generatedColumns, which the table does not use yet",
        ),
        (
            {"delta.feature.deletionVectors": "supported"},
            "Readers need deletionVectors, which the table does not use yet: ",
        ),
        ({"delta.enableChangeDataFeed": "true"}, "Every reader still works"),
        ({"delta.enableDeletionVectors": "true"}, "Readers need deletionVectors: "),
    ],
)
def test_properties_that_upgrade_the_protocol_say_what_nothing_uses(
    tmp_path: Path, properties: dict[str, str], said: str | None
) -> None:
    notes = Table.create(tmp_path / "t", SCHEMA).set_properties(properties).notes
    assert (said is None) == (not notes)
    assert said is None or said in notes[0]


def test_an_upgrade_that_keeps_the_versions_names_the_new_features(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", {"at": pa.timestamp("us")})
    (note,) = table.set_properties({"delta.enableDeletionVectors": "true"}).notes
    assert note.startswith("The table now has deletionVectors. Readers need deletionVectors: ")


@pytest.mark.parametrize(
    ("properties", "level"),
    [({"delta.enableChangeDataFeed": "true"}, "INFO"), ({"delta.enableDeletionVectors": "true"}, "WARNING")],
)
def test_only_an_upgrade_that_shuts_readers_out_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, properties: dict[str, str], level: str
) -> None:
    table = Table.create(tmp_path / "t", SCHEMA)
    with caplog.at_level(logging.INFO, "txlog"):
        table.set_properties(properties)
    assert [record.levelname for record in caplog.records if "protocol is now" in record.message] == [level]


# --- lengths of text ----------------------------------------------------------------------------------------------


@MODES
def test_parts_of_a_column_keep_their_lengths_of_text_whatever_they_are_called(tmp_path: Path, mode: str) -> None:
    schema = "k int, s struct<a: varchar(3), b: array<char(2)>, c: string>, m map<varchar(1), struct<v: varchar(4)>>"
    table = Table.create(tmp_path / "t", schema, column_mapping=None if mode == "begun" else mode)  # type: ignore[arg-type]
    if mode == "begun":
        table.set_properties(MAPPING)
    table.rename_column("s.a", "aa")
    table.rename_column("s.c", "n m")
    table.add_columns("s struct<z: varchar(5), a: string, aa: varchar(9)>")
    table.drop_columns("s.b")
    table.rename_column("m.value.v", "w")
    table.alter_column("s.z", first=True)
    table.rename_column("s", "t")

    def limits() -> dict[str, str]:
        return {limit.name: limit.sql for limit in limits_of(table._open_table.log.newest_state().schema)}

    assert limits() == {"t.aa": "varchar(3)", "t.z": "varchar(5)", "m.element": "varchar(1)", "m.value.w": "varchar(4)"}
    text = table._open_table.log.newest_state().schema.fields[1].metadata["__CHAR_VARCHAR_TYPE_STRING"]
    assert text == "struct<z:varchar(5),aa:varchar(3),`n m`:string,a:string>"
    with pytest.raises(InvalidInputError, match=r"t\.aa is varchar\(3\)"):
        table.append(pa.table({"t": [{"aa": "long"}]}), schema_mode="merge")
    table.append(pa.table({"t": [{"aa": "abc", "a": "long"}]}), schema_mode="merge")
    table.drop_columns(["t.aa", "t.z", "m"])
    assert limits() == {}


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"),
    [
        ("varchar(3)", "varchar(4)", True),
        ("char(3)", "varchar(3)", True),
        ("char(3)", "string", True),
        ("varchar(3)", "varchar(2)", False),
        ("char(3)", "varchar(2)", False),
        ("char(3)", "char(4)", False),
        ("varchar(3)", "char(4)", False),
        ("string", "varchar(4)", False),
    ],
)
def test_a_text_may_only_get_longer(tmp_path: Path, before: str, after: str, is_allowed: bool) -> None:
    table = Table.create(tmp_path / "t", f"k int, v {before}")
    if is_allowed:
        table.alter_column("v", type=after)
    else:
        with pytest.raises(InvalidInputError, match=f"cannot change from .* to {re.escape(after)}"):
            table.alter_column("v", type=after)
    limits = [limit.sql for limit in limits_of(table._open_table.log.newest_state().schema)]
    assert limits == [text for text in [after if is_allowed else before] if text != "string"]


def test_the_last_column_that_is_in_files_cannot_be_dropped(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k int, p int", partition_by="p", column_mapping="name")
    with pytest.raises(InvalidInputError, match="partition"):
        table.drop_columns("k")
