"""Creating and opening tables: what defines one, which forms that may take, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from small_table import SCHEMA, ids_of, rows_of

import txlog
from txlog.table import Table


def test_a_created_table_is_version_0_and_empty(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "t", SCHEMA, partition_by=["DAY"], properties={"delta.appendOnly": "false", "team": "x"}
    )
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.num_files, snapshot.to_arrow().num_rows) == (0, 0, 0)
    assert snapshot.schema.names == ["id", "day"]
    assert snapshot.partition_columns == ("day",), "the schema's spelling, not the caller's"
    assert snapshot.properties == {"delta.appendOnly": "false", "team": "x"}
    theirs = deltalake.DeltaTable(str(tmp_path / "t"))
    assert (theirs.version(), theirs.metadata().partition_columns) == (0, ["day"])


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {"id": pa.int64(), "day": pa.string()},
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
        '{"name":"day","type":"string","nullable":true,"metadata":{}}]}',
        {
            "type": "struct",
            "fields": [
                {"name": "id", "type": "long", "nullable": True, "metadata": {}},
                {"name": "day", "type": "string", "nullable": True, "metadata": {}},
            ],
        },
    ],
    ids=["pyarrow", "Arrow types by name", "Delta text", "Delta dict"],
)
def test_a_schema_may_be_given_in_each_of_its_forms(schema: Any, tmp_path: Path) -> None:
    assert Table.create(tmp_path / "t", schema).snapshot().schema == SCHEMA


def test_ddl_is_taken_as_a_schema_wherever_one_is(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint NOT NULL, tags array<string>")
    table.add_columns("price decimal(12,2)")
    expected = {"id": pa.int64(), "tags": pa.list_(pa.string()), "price": pa.decimal128(12, 2)}
    assert {field.name: field.type.equals(expected[field.name]) for field in table.schema} == dict.fromkeys(
        expected, True
    )
    assert [field.nullable for field in table.schema] == [False, True, True]
    with pytest.raises(txlog.InvalidInputError, match="is not of the form"):
        Table.create(tmp_path / "other", "id")


def test_a_table_that_exists_is_an_error_or_with_exist_ok_is_opened(tmp_path: Path) -> None:
    Table.create(tmp_path / "t", SCHEMA).append(rows_of(1))
    with pytest.raises(txlog.TableExistsError, match=r"Table\.open"):
        Table.create(tmp_path / "t", SCHEMA)
    assert ids_of(Table.create(tmp_path / "t", SCHEMA, exist_ok=True)) == [1]


HERE = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("day", pa.string()), ("s", pa.struct([("a", pa.int32())]))]
)


HERE_PROPERTIES = {"delta.appendOnly": "false", "team": "x"}


@pytest.mark.parametrize(
    ("schema", "partition_by", "properties"),
    [
        (HERE, ["day"], HERE_PROPERTIES),
        (HERE, ["DAY"], {}),
        (pa.schema([pa.field("ID", pa.int64(), nullable=False), ("day", pa.string())]), ["day"], {"team": "x"}),
    ],
    ids=["the same", "the same whatever the case", "columns were added since"],
)
def test_exist_ok_opens_a_table_whose_definition_fits(
    schema: pa.Schema, partition_by: list[str], properties: dict[str, str], tmp_path: Path
) -> None:
    Table.create(tmp_path / "t", HERE, ["day"], HERE_PROPERTIES)
    again = Table.create(tmp_path / "t", schema, partition_by, properties, exist_ok=True)
    assert again.snapshot().version == 0


@pytest.mark.parametrize(
    ("schema", "partition_by", "properties", "reported"),
    [
        (HERE.append(pa.field("new", pa.date32())), ["day"], {}, ["new  asked for as date, not in the table"]),
        (HERE.set(0, pa.field("id", pa.int32(), False)), ["day"], {}, ["id  table bigint NOT NULL, asked for as int"]),
        (HERE.set(0, pa.field("id", pa.int64())), ["day"], {}, ["id  table bigint NOT NULL, asked for as bigint"]),
        (HERE.remove(0), ["day"], {}, ["id  table bigint NOT NULL, not asked for"]),
        (
            HERE.set(2, pa.field("s", pa.struct([("a", pa.int8())]))),
            ["day"],
            {},
            ["s.a  table int, asked for as tinyint"],
        ),
        (HERE, [], {}, ["it is partitioned by day, and you asked for one that is not partitioned"]),
        (HERE, ["day"], {"team": "y", "a": "b"}, ["team is 'x', not 'y'", "a is not set, not 'b'"]),
        (
            HERE.set(1, pa.field("day", pa.date32())),
            ["id"],
            {},
            ["day  table string, asked for as date", "one that is partitioned by id"],
        ),
    ],
    ids=[
        "a column more",
        "a type",
        "null allowed",
        "a required column less",
        "a member",
        "partitions",
        "values",
        "all",
    ],
)
def test_exist_ok_refuses_a_table_that_differs_and_says_how(
    schema: pa.Schema, partition_by: list[str], properties: dict[str, str], reported: list[str], tmp_path: Path
) -> None:
    Table.create(tmp_path / "t", HERE, ["day"], HERE_PROPERTIES)
    with pytest.raises(txlog.SchemaMismatchError) as caught:
        Table.create(tmp_path / "t", schema, partition_by, properties, exist_ok=True)
    for text in reported:
        assert text in caught.value.message
    assert caught.value.table == str(tmp_path / "t")
    assert Table.open(tmp_path / "t").snapshot().version == 0


@pytest.mark.parametrize(
    "schema",
    [
        {"id": pa.int64(), "day": "string"},
        [("id", pa.int64())],
        b"id bigint",
        pa.int64(),
        pa.table({"id": [1]}),
        None,
        5,
        b"",
        {},
        pa.null(),
    ],
    ids=str,
)
def test_the_error_for_an_invalid_schema_lists_the_accepted_forms(schema: Any, tmp_path: Path) -> None:
    for use in (
        lambda: Table.create(tmp_path / "t", schema),
        lambda: Table.create(tmp_path / "u", SCHEMA).add_columns(schema),
    ):
        with pytest.raises(
            txlog.InvalidInputError, match=r"give a pyarrow\.Schema.*Spark StructType.*Delta schema"
        ) as caught:
            use()
        assert caught.value.table is not None


@pytest.mark.parametrize("formats", ["iceberg", "hudi", "iceberg,hudi"])
def test_metadata_of_another_format_that_no_write_would_keep_up_to_date_is_not_promised(
    formats: str, tmp_path: Path
) -> None:
    promise = {"delta.universalFormat.enabledFormats": formats}
    with pytest.raises(txlog.UnsupportedFeatureError, match=next(iter(promise))):
        Table.create(tmp_path / "t", SCHEMA, properties=promise)
    table = Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(txlog.UnsupportedFeatureError, match=next(iter(promise))):
        table.set_properties(promise)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"partition_by": ["week"]}, "week"),
        ({"partition_by": "week"}, "week"),
        ({"partition_by": ["id", "day"]}, "partition"),
        ({"partition_by": ["day", "DAY"]}, "(?i)day"),
        ({"properties": {"delta.apendOnly": "true"}}, r"delta\.appendOnly"),
        ({"properties": {"delta.appendOnly": "yes"}}, "yes"),
        ({"properties": {"delta.checkpointInterval": "abc"}}, "abc"),
        ({"schema": pa.schema([("a", pa.int8()), ("A", pa.int8())])}, "(?i)a"),
        ({"schema": pa.schema([("a b", pa.int8())])}, "a b"),
        ({"schema": pa.schema([("n", pa.null())])}, "n"),
        ({"schema": pa.schema([])}, "column"),
        ({"schema": 5}, "schema"),
    ],
)
def test_an_invalid_table_definition_is_refused_and_nothing_is_written(
    arguments: dict[str, Any], named: str, tmp_path: Path
) -> None:
    arguments = {"schema": SCHEMA, **arguments}
    with pytest.raises(txlog.InvalidInputError, match=named) as caught:
        Table.create(tmp_path / "t", **arguments)
    assert "Traceback" not in str(caught.value)
    assert not Table.exists(tmp_path / "t")
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("partition_by", ["day,region", " day , region ", ["day", "region"], ("day", "region")])
def test_partition_columns_are_a_list_or_a_comma_list_wherever_they_are_given(
    partition_by: Any, tmp_path: Path
) -> None:
    columns = "id bigint not null, day date, region string"
    created = Table.create(tmp_path / "created", columns, partition_by)
    txlog.write(tmp_path / "written", created.snapshot(), partition_by=partition_by)
    txlog.write(tmp_path / "written", created.snapshot(), partition_by=partition_by)
    assert Table.create(tmp_path / "written", columns, partition_by, exist_ok=True).version == 1
    for name in ("created", "written"):
        assert Table.open(tmp_path / name).snapshot().partition_columns == ("day", "region")


@pytest.mark.parametrize("wrong", [7, [1], ["day", ""], "day,,region", "day,"])
def test_what_names_no_partition_columns_is_refused_by_the_arguments_name(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid partition_by .*: expected a list of names"):
        txlog.write(tmp_path / "t", pa.table({"id": [1], "day": ["a"]}), partition_by=wrong)
    assert not Table.exists(tmp_path / "t")


def test_one_column_of_a_read_is_a_list_too(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    with pytest.raises(txlog.InvalidInputError, match=r"columns 'id': expected a list of names, such as \['id'\]"):
        table.to_arrow("id")


def test_opening_a_missing_table_is_refused_and_creates_nothing(tmp_path: Path) -> None:
    assert not Table.exists(tmp_path / "nowhere")
    with pytest.raises(txlog.TableNotFoundError, match="nowhere"):
        Table.open(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
    Table.create(tmp_path / "t", SCHEMA)
    assert Table.exists(tmp_path / "t")
    assert Table.exists((tmp_path / "t").as_uri())


def test_a_missing_table_is_not_found_by_a_lookup_error_too(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        Table.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"retry": 3}, "RetryPolicy"),
        ({"hooks": "module:hooks"}, "CommitHooks"),
        ({"hooks": txlog.CommitHooks}, "instance of a subclass"),
    ],
)
def test_an_invalid_retry_policy_or_hook_is_refused_before_anything_is_written(
    options: Any, shown: str, tmp_path: Path
) -> None:
    table = txlog.Table.create(tmp_path, pa.schema({"id": pa.int64()}))
    with pytest.raises(txlog.InvalidInputError, match=shown):
        txlog.Table.open(tmp_path, **options)
    with pytest.raises(txlog.InvalidInputError, match=shown):
        txlog.write(tmp_path, pa.table({"id": [1]}), **options)
    assert table.snapshot().version == 0
    with pytest.raises(txlog.InvalidInputError, match="expected a Table"):
        txlog.Sink(str(tmp_path), "app")  # type: ignore[arg-type]


def test_a_table_is_not_made_by_calling_its_class() -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"use Table.open\(uri\) or Table.create"):
        Table("orders")  # type: ignore[arg-type]
