"""The metadata of columns that Delta and Spark give a meaning: taken from an Arrow schema, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.table import Table

INT64 = pa.int64()
ID = pa.field("id", INT64)
ABOVE_3 = '{"expression":{"expression":"g > 3"}}'


def with_key(key: str, value: str, kind: pa.DataType = INT64) -> pa.Schema:
    """Two columns, the second of which has metadata as deltalake writes it into Arrow schemas."""
    return pa.schema([ID, pa.field("g", kind, metadata={key: value})])


def stored(table: Table) -> dict[str, Any]:
    field = table.snapshot().schema.field("g")
    return dict(json.loads((field.metadata or {}).get(b"delta.metadata", "{}")))


def test_the_schema_of_a_deltalake_table_makes_a_table_with_the_same_generated_column(tmp_path: Path) -> None:
    first = Table.create(tmp_path / "first", "id bigint, g bigint GENERATED ALWAYS AS (id + 1)")
    schema = pa.schema(deltalake.DeltaTable(first.uri).schema().to_arrow())
    table = Table.create(tmp_path / "second", schema)
    table.append(pa.table({"id": [1]}))
    assert table.to_arrow().to_pylist() == [{"id": 1, "g": 2}]


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("delta.generationExpression", "id + 1", pa.int64()),
        ("delta.invariants", ABOVE_3, pa.int64()),
        ("CURRENT_DEFAULT", "7", pa.int64()),
        ("__CHAR_VARCHAR_TYPE_STRING", "varchar(3)", pa.string()),
        ("delta.someLaterKey", "x", pa.int64()),
    ],
)
def test_an_arrow_fields_metadata_is_the_columns(tmp_path: Path, key: str, value: str, kind: pa.DataType) -> None:
    assert stored(Table.create(tmp_path / "t", with_key(key, value, kind))) == {key: value}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.columnMapping.id", "2"),
        ("delta.columnMapping.physicalName", "col-1"),
        ("delta.typeChanges", '[{"fromType":"integer","toType":"long"}]'),
        ("EXISTS_DEFAULT", "7"),
    ],
)
def test_metadata_that_belongs_to_the_table_of_the_schema_stays_there(tmp_path: Path, key: str, value: str) -> None:
    assert stored(Table.create(tmp_path / "t", with_key(key, value))) == {}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("delta.generationExpression", "nope(", r"generated column g \(nope\("),
        ("delta.invariants", "x > 3", "invariant of column g is 'x > 3'"),
        ("delta.invariants", ABOVE_3.replace("g", "nope"), "invariant of column g"),
        ("delta.identity.start", "1", "the identity column g has the start 1, the step None"),
        ("delta.identity.allowExplicitInsert", "false", "the identity column g has the start None"),
        ("delta.identity.start", "one", "column g carries Arrow metadata that is not Delta's"),
        ("__COLLATIONS", '{"g":"icu.UNICODE"}', "g: a collated string"),
    ],
)
def test_metadata_that_txlog_cannot_keep_true_is_refused_and_named(
    tmp_path: Path, key: str, value: str, message: str
) -> None:
    with pytest.raises(txlog.TxlogError, match=message):
        Table.create(tmp_path / "t", with_key(key, value))
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_metadata_of_an_element_has_no_place_in_delta_and_is_refused(tmp_path: Path) -> None:
    element = pa.field("element", pa.int64(), metadata={"delta.invariants": ABOVE_3})
    with pytest.raises(txlog.InvalidInputError, match=r"x\.element has the Arrow metadata delta\.invariants"):
        Table.create(tmp_path / "t", pa.schema([("x", pa.list_(element))]))


def test_an_unchecked_invariant_below_an_array_is_refused_and_named(tmp_path: Path) -> None:
    member = pa.field("g", pa.int64(), metadata={"delta.invariants": ABOVE_3})
    with pytest.raises(txlog.InvalidInputError, match=r"x\.element\.g has an invariant"):
        Table.create(tmp_path / "t", pa.schema([("x", pa.list_(pa.struct([member])))]))


def _add_columns(table: Table, column: pa.Field) -> None:
    table.add_columns(pa.schema([column]))


def _append(table: Table, column: pa.Field) -> None:
    rows = pa.table([pa.array([1]), pa.nulls(1, column.type)], schema=pa.schema([ID, column]))
    table.append(rows, schema_mode="merge")


def _append_a_member(table: Table, column: pa.Field) -> None:
    kind = pa.struct([pa.field("a", pa.int64()), column])
    table.append(pa.table({"s": pa.array([{"a": 1}], kind)}), schema_mode="merge")


def _append_a_member_of_elements(table: Table, column: pa.Field) -> None:
    kind = pa.list_(pa.struct([pa.field("a", pa.int64()), column]))
    table.append(pa.table({"l": pa.array([[{"a": 1}]], kind)}), schema_mode="merge")


def _upsert(table: Table, column: pa.Field) -> None:
    fields = [*table.snapshot().schema, column]
    rows = pa.table(
        [pa.nulls(1, pa.int64()).fill_null(1), *(pa.nulls(1, each.type) for each in fields[1:])],
        schema=pa.schema(fields),
    )
    table.upsert(rows, keys=["id"], schema_mode="merge")


@pytest.mark.parametrize("add", [_add_columns, _append, _append_a_member, _append_a_member_of_elements, _upsert])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.generationExpression", "id + 1"),
        ("delta.invariants", ABOVE_3),
        ("CURRENT_DEFAULT", "7"),
        ("delta.identity.start", "1"),
        ("delta.someLaterKey", "x"),
    ],
)
def test_a_rule_is_not_added_with_a_column_to_a_table_that_may_have_rows(
    tmp_path: Path, add: Callable[[Table, pa.Field], None], key: str, value: str
) -> None:
    members = pa.struct([("a", pa.int64())])
    table = Table.create(tmp_path / "t", pa.schema([ID, ("s", members), ("l", pa.list_(members))]))
    with pytest.raises(txlog.InvalidInputError, match=r"cannot add .*g"):
        add(table, pa.field("g", pa.int64(), metadata={key: value}))
    assert table.version == 0


def test_a_length_of_text_is_added_with_its_column(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", pa.schema([ID]))
    table.add_columns(pa.schema([pa.field("g", pa.string(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"})]))
    with pytest.raises(txlog.InvalidInputError, match="column g is varchar"):
        table.append(pa.table({"id": [1], "g": ["long"]}))


def test_an_overwrite_of_the_schema_takes_the_rules_of_the_data(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", pa.schema([ID]))
    rows = pa.table([pa.array([1]), pa.array([2])], schema=with_key("delta.generationExpression", "id + 1"))
    table.overwrite(rows, schema_mode="overwrite")
    table.append(pa.table({"id": [5]}))
    assert sorted(table.to_arrow()["g"].to_pylist()) == [2, 6]
