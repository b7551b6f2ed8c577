"""A Delta table's definition as Iceberg has it: types, ids, names, partitions, and what is refused with a reason."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import assign
from txlog.core.format.schema import parse_schema, schema_to_json
from txlog.errors import IcebergExportError
from txlog.iceberg.metadata.definition import NAME_MAPPING, IcebergDefinition, define


def column(name: str, kind: Any, *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns)}


def array(element: Any, *, nulls: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": nulls}


def mapping(key: Any, value: Any, *, nulls: bool = True) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nulls}


def table(*columns: dict[str, Any], partition_by: tuple[str, ...] = (), **configuration: str) -> Metadata:
    return Metadata("id", orjson.dumps(struct(*columns)).decode(), partition_by, configuration, {})


def mapped_table(*columns: dict[str, Any], partition_by: tuple[str, ...] = ()) -> Metadata:
    """As txlog makes it: with ids inside lists and maps too."""
    numbers = iter(range(100))
    schema, _ = assign(parse_schema(orjson.dumps(struct(*columns)).decode()), 0, lambda _: f"col-{next(numbers)}")
    return Metadata("id", schema_to_json(schema), partition_by, {"delta.columnMapping.mode": "name"}, {})


def after(*definitions: IcebergDefinition) -> dict[str, Any]:
    """The Iceberg metadata that an export leaves which had these definitions, one after the other."""
    newest = definitions[-1]
    return {
        "schemas": list({each.schema["schema-id"]: each.schema for each in definitions}.values()),
        "current-schema-id": newest.schema["schema-id"],
        "partition-specs": list({each.spec["spec-id"]: each.spec for each in definitions}.values()),
        "default-spec-id": newest.spec["spec-id"],
        "last-column-id": newest.last_column_id,
        "last-partition-id": newest.last_partition_id,
        "properties": {NAME_MAPPING: orjson.dumps(newest.name_mapping).decode()},
    }


def types(definition: IcebergDefinition) -> dict[str, Any]:
    return {each["name"]: each["type"] for each in definition.schema["fields"]}


def test_every_primitive_type_has_the_type_that_iceberg_reads_its_parquet_column_as() -> None:
    expected = {
        "string": "string",
        "long": "long",
        "integer": "int",
        "short": "int",
        "byte": "int",
        "float": "float",
        "double": "double",
        "boolean": "boolean",
        "binary": "binary",
        "date": "date",
        "timestamp": "timestamptz",
        "timestamp_ntz": "timestamp",
        "decimal(9,2)": "decimal(9, 2)",
        "decimal(38,0)": "decimal(38, 0)",
    }
    assert types(define(table(*(column(name, name) for name in expected)), 2, None)) == expected


def test_columns_are_numbered_in_order_each_before_what_is_inside_it() -> None:
    made = define(
        table(
            column("a", "long", nullable=False, comment="the first"),
            column("s", struct(column("x", "string"), column("y", array("date", nulls=False)))),
            column("m", mapping("string", struct(column("q", "integer")), nulls=False)),
        ),
        2,
        None,
    )
    y = {"type": "list", "element-id": 5, "element": "date", "element-required": True}
    q = {"id": 9, "name": "q", "required": False, "type": "int"}
    m = {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value-required": True}
    assert made.schema == {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "a", "required": True, "type": "long", "doc": "the first"},
            {
                "id": 2,
                "name": "s",
                "required": False,
                "type": struct(
                    {"id": 3, "name": "x", "required": False, "type": "string"},
                    {"id": 4, "name": "y", "required": False, "type": y},
                ),
            },
            {"id": 6, "name": "m", "required": False, "type": {**m, "value": struct(q)}},
        ],
    }
    assert made.last_column_id == 9
    assert [(leaf.path, leaf.field_id) for leaf in made.leaves] == [(("a",), 1), (("s", "x"), 3)]
    assert made.name_mapping[1] == {
        "field-id": 2,
        "names": ["s"],
        "fields": [
            {"field-id": 3, "names": ["x"]},
            {"field-id": 4, "names": ["y"], "fields": [{"field-id": 5, "names": ["element"]}]},
        ],
    }


def test_a_new_column_gets_the_next_id_and_the_others_keep_theirs() -> None:
    first = define(table(column("a", "long"), column("b", "string")), 2, None)
    second = define(table(column("new", "date"), column("a", "long"), column("b", "string")), 2, after(first))
    assert [(each["name"], each["id"]) for each in second.schema["fields"]] == [("new", 3), ("a", 1), ("b", 2)]
    assert second.schema["schema-id"] == 1
    assert not second.drops_history


def test_a_schema_that_comes_back_has_its_old_number() -> None:
    first = define(table(column("a", "long")), 2, None)
    second = define(table(column("a", "long"), column("b", "long")), 2, after(first))
    third = define(table(column("a", "long")), 2, after(first, second))
    assert (third.schema, third.last_column_id) == (first.schema, 2)


def test_a_dropped_column_stays_in_the_name_mapping_and_has_its_id_when_it_comes_back() -> None:
    whole = table(column("a", "long"), column("s", struct(column("x", "long"), column("y", "long"))))
    first = define(whole, 2, None)
    second = define(table(column("s", struct(column("y", "long")))), 2, after(first))
    inner = [{"field-id": 4, "names": ["y"]}, {"field-id": 3, "names": ["x"]}]
    assert second.name_mapping == [
        {"field-id": 2, "names": ["s"], "fields": inner},
        {"field-id": 1, "names": ["a"]},
    ]
    third = define(whole, 2, after(first, second))
    assert third.schema == first.schema
    assert not third.drops_history


@pytest.mark.parametrize(("old", "new"), [("integer", "long"), ("float", "double"), ("decimal(9,2)", "decimal(18,2)")])
def test_a_column_that_iceberg_may_widen_keeps_its_id(old: str, new: str) -> None:
    first = define(table(column("a", old)), 2, None)
    second = define(table(column("a", new)), 2, after(first))
    assert (second.schema["fields"][0]["id"], second.schema["schema-id"], second.drops_history) == (1, 1, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [("long", "integer"), ("string", "date"), ("decimal(9,2)", "decimal(9,3)"), ("date", array("date"))],
)
def test_history_ends_where_a_name_comes_to_mean_another_column(old: Any, new: Any) -> None:
    first = define(table(column("gone", "string"), column("a", old)), 2, None)
    second = define(table(column("a", new)), 2, after(first))
    assert second.drops_history
    assert second.schema == define(table(column("a", new)), 2, None).schema
    assert [entry["names"] for entry in second.name_mapping] == [["a"]]


def test_a_mapped_table_has_deltas_ids_and_the_names_of_its_files() -> None:
    made = define(mapped_table(column("a b", "long"), column("l", array(struct(column("x", "long"))))), 2, None)
    fields = made.schema["fields"]
    assert [(each["name"], each["id"]) for each in fields] == [("a b", 1), ("l", 2)]
    assert (fields[1]["type"]["element-id"], fields[1]["type"]["element"]["fields"][0]["id"]) == (3, 4)
    inner = [{"field-id": 3, "names": ["element"], "fields": [{"field-id": 4, "names": ["col-2"]}]}]
    assert made.name_mapping == [
        {"field-id": 1, "names": ["col-0"]},
        {"field-id": 2, "names": ["col-1"], "fields": inner},
    ]
    assert made.files_need_element_ids
    assert [leaf.path for leaf in made.leaves] == [("col-0",)]


def test_a_renamed_column_keeps_its_id_and_its_partition_field() -> None:
    first_metadata = mapped_table(column("p", "date"), column("a", "long"), partition_by=("p",))
    renamed = first_metadata.schema_string.replace('"name":"p"', '"name":"day"')
    first = define(first_metadata, 2, None)
    second = define(Metadata("id", renamed, ("day",), first_metadata.configuration, {}), 2, after(first))
    assert second.schema["fields"][0] == {"id": 1, "name": "day", "required": False, "type": "date"}
    assert (second.spec, second.drops_history) == (first.spec, False)
    [field] = second.partition
    assert (field.name, field.physical_name, field.source_id, field.field_id) == ("p", "col-0", 1, 1000)


def test_a_partition_field_gives_its_name_up_to_another_column() -> None:
    metadata = mapped_table(column("p", "date"), column("a", "long"), partition_by=("p",))
    swapped = metadata.schema_string.replace('"name":"p"', '"name":"day"').replace('"name":"a"', '"name":"p"')
    first = define(metadata, 2, None)
    second = define(Metadata("id", swapped, ("day",), metadata.configuration, {}), 2, after(first))
    assert second.spec == {
        "spec-id": 1,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "day", "transform": "identity"}],
    }


def test_a_table_that_begins_to_map_its_columns_keeps_its_history() -> None:
    columns = (column("a", "long"), column("l", array("long")), column("s", struct(column("x", "date"))))
    first = define(table(*columns), 2, None)
    schema, _ = assign(parse_schema(table(*columns).schema_string), 0, lambda field: field.name)
    mapped = Metadata("id", schema_to_json(schema), (), {"delta.columnMapping.mode": "name"}, {})
    second = define(mapped, 2, after(first))
    assert (second.schema, second.name_mapping, second.drops_history) == (first.schema, first.name_mapping, False)


def test_history_ends_where_an_id_comes_to_mean_another_column() -> None:
    whole = define(table(column("a", "long"), column("b", "long")), 2, None)
    first = define(table(column("a", "long")), 2, after(whole))  # and id 2 is still that of b
    schema, _ = assign(
        parse_schema(table(column("a", "long"), column("c", "long")).schema_string), 0, lambda field: field.name
    )
    mapped = Metadata("id", schema_to_json(schema), (), {"delta.columnMapping.mode": "name"}, {})
    assert define(mapped, 2, after(whole, first)).drops_history


def test_partitions_are_identities_of_their_columns() -> None:
    made = define(
        table(column("a", "long"), column("p", "string"), column("q", "date"), partition_by=("q", "p")), 2, None
    )
    assert made.spec == {
        "spec-id": 0,
        "fields": [
            {"source-id": 3, "field-id": 1000, "name": "q", "transform": "identity"},
            {"source-id": 2, "field-id": 1001, "name": "p", "transform": "identity"},
        ],
    }
    assert [(each.physical_name, each.field_id) for each in made.partition] == [("q", 1000), ("p", 1001)]
    assert made.last_partition_id == 1001


def test_a_repartitioned_table_has_a_new_spec_and_can_go_back() -> None:
    columns = (column("a", "long"), column("p", "string"))
    first = define(table(*columns, partition_by=("p",)), 2, None)
    second = define(table(*columns, partition_by=("a",)), 2, after(first))
    assert (second.spec["spec-id"], second.spec["fields"][0]["field-id"]) == (1, 1001)
    assert define(table(*columns, partition_by=("p",)), 2, after(first, second)).spec == first.spec


WIDER = [("integer", "long"), ("float", "double"), ("decimal(4,2)", "decimal(12,2)")]


@pytest.mark.parametrize("make", [table, mapped_table])
@pytest.mark.parametrize(("old", "new"), WIDER)
def test_history_ends_where_a_partition_column_gets_a_wider_type(old: str, new: str, make: Any) -> None:
    first = define(make(column("a", "long"), column("p", old), partition_by=("p",)), 2, None)
    wider = make(column("a", "long"), column("p", new), partition_by=("p",))
    second = define(wider, 2, after(first))
    assert second.drops_history
    assert second.spec["spec-id"] == 0
    assert not define(wider, 2, after(second)).drops_history


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_history_ends_where_a_former_partition_column_gets_a_wider_type(old: str, new: str) -> None:
    first = define(table(column("p", old), partition_by=("p",)), 2, None)
    second = define(table(column("p", old)), 2, after(first))
    assert not second.drops_history
    assert define(table(column("p", new)), 2, after(first, second)).drops_history


def test_history_ends_where_a_former_partition_column_is_dropped() -> None:
    first = define(table(column("a", "long"), column("p", "string"), partition_by=("p",)), 2, None)
    second = define(table(column("a", "long"), column("p", "string")), 2, after(first))
    third = define(table(column("a", "long")), 2, after(first, second))
    assert [each.drops_history for each in (first, second, third)] == [False, False, True]
    assert third.spec == {"spec-id": 0, "fields": []}


def test_the_hidden_columns_of_row_tracking_have_icebergs_ids() -> None:
    keys = {
        "delta.rowTracking.materializedRowIdColumnName": "_row-id",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
    }
    first = define(table(column("a", "long"), **keys), 3, None)
    hidden = [{"field-id": 2147483540, "names": ["_row-id"]}, {"field-id": 2147483539, "names": ["_row-version"]}]
    assert first.name_mapping[1:] == hidden
    assert define(table(column("a", "long"), **keys), 3, after(first)).name_mapping == first.name_mapping


# --- refused ------------------------------------------------------------------------------------------------------


def test_a_variant_needs_format_version_3() -> None:
    metadata = table(column("s", struct(column("v", "variant"))))
    with pytest.raises(IcebergExportError, match=r"column s\.v is a variant.*txlog\.iceberg to v3"):
        define(metadata, 2, None)
    assert types(define(metadata, 3, None))["s"]["fields"][0]["type"] == "variant"


@pytest.mark.parametrize("kind", ["string", array("string")])
def test_strings_that_compare_by_a_collation_are_refused(kind: Any) -> None:
    collations = {"__COLLATIONS": {"name": "icu.UTF8_LCASE"}}
    with pytest.raises(IcebergExportError, match=r"column s\.name has a collation"):
        define(table(column("s", struct(column("name", kind, **collations)))), 3, None)


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_column_without_a_type_is_refused(format_version: int) -> None:
    with pytest.raises(IcebergExportError, match="column a is of type void"):
        define(table(column("a", "void")), format_version, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [("integer", "double"), ("date", "timestamp_ntz"), ("long", "decimal(20,0)"), ("decimal(9,2)", "decimal(12,3)")],
)
def test_a_type_widening_that_iceberg_does_not_support_is_refused(old: str, new: str) -> None:
    changes = [{"fromType": "byte", "toType": "short"}, {"fromType": old, "toType": new}]
    with pytest.raises(IcebergExportError, match=re.escape(f"column a was widened from {old} to {new}")):
        define(table(column("a", new, **{"delta.typeChanges": changes})), 2, None)


@pytest.mark.parametrize(
    ("old", "new"), [("byte", "long"), ("short", "integer"), ("float", "double"), ("decimal(9,2)", "decimal(12,2)")]
)
def test_a_type_widening_that_iceberg_supports_is_exported(old: str, new: str) -> None:
    changes = [{"fromType": old, "toType": new}]
    widened = define(table(column("a", new, **{"delta.typeChanges": changes})), 2, None)
    assert widened.schema == define(table(column("a", new)), 2, None).schema


@pytest.mark.parametrize("kind", [array("long"), mapping("string", array("long")), array(struct(column("x", "long")))])
def test_a_mapped_list_or_map_without_ids_inside_is_refused(kind: Any) -> None:
    metadata = mapped_table(column("s", struct(column("l", kind))))
    fields = orjson.loads(metadata.schema_string)
    del fields["fields"][0]["type"]["fields"][0]["metadata"]["delta.columnMapping.nested.ids"]
    bare = Metadata("id", orjson.dumps(fields).decode(), (), metadata.configuration, {})
    define(metadata, 2, None)
    with pytest.raises(IcebergExportError, match=r"column s\.l is a list or a map"):
        define(bare, 2, None)


def test_names_that_iceberg_cannot_distinguish_are_refused() -> None:
    metadata = table(column("s.x", "long"), column("s", struct(column("x", "long"))))
    with pytest.raises(IcebergExportError, match=r"column s\.x is also the path"):
        define(metadata, 2, None)


def test_files_of_a_table_with_a_change_data_feed_may_hold_the_kind_of_change() -> None:
    feed = {"delta.enableChangeDataFeed": "false"}
    made = define(table(column("a", "long"), **feed), 2, None)
    assert made.name_mapping[1:] == [{"field-id": 2_147_483_446, "names": ["_change_type"]}]
    assert made.last_column_id == 1
    own = define(table(column("_change_type", "string"), **feed), 2, None)
    assert [entry["field-id"] for entry in own.name_mapping] == [1]


def test_partition_columns_are_optional_because_no_file_holds_them() -> None:
    columns = (column("a", "string", nullable=False), column("part", "string", nullable=False))
    made = define(table(*columns, partition_by=("part",)), 2, None)
    assert [each["required"] for each in made.schema["fields"]] == [True, False]
