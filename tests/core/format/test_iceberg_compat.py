"""Which definitions may promise Delta's Iceberg compatibility, by the rules of PROTOCOL.md and the RFC of version 3."""

from __future__ import annotations

from typing import Any

import pytest

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import assign
from txlog.core.format.iceberg_compat import check_compatible, check_same_partitioning, with_what_it_needs
from txlog.core.format.properties import ColumnPath
from txlog.core.format.schema import VOID, Field, Struct, schema_to_json
from txlog.core.format.schema_changes import type_at
from txlog.core.format.schema_ddl import parse_columns
from txlog.core.format.type_widening import retyped
from txlog.errors import UnsupportedFeatureError

PLAIN = parse_columns("id int, name string")
ROW_IDS = {"delta.enableRowTracking": "true"}


NOTHING = Struct((Field("v", VOID),))


def promise(version: int, **others: str) -> dict[str, str]:
    key = f"delta.enableIcebergCompatV{version}"
    return {key: "true", "delta.columnMapping.mode": "name", **(ROW_IDS if version == 3 else {}), **others}


def check(schema: Struct, configuration: dict[str, str], *features: str) -> None:
    mapped, _ = assign(schema, 0, lambda field: field.name)
    metadata = Metadata("id", schema_to_json(mapped), (), configuration, {})
    check_compatible({"icebergCompatV1", "icebergCompatV2", "icebergCompatV3", *features}, metadata)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_with_plain_columns_may_promise_every_version(version: int) -> None:
    check(
        parse_columns("i int, l bigint, d decimal(9, 2), t timestamp, n timestamp_ntz, s struct<a: date>"),
        promise(version),
    )


@pytest.mark.parametrize(
    ("schema", "versions"),
    [
        ("a array<int>", {1}),
        ("m map<string, int>", {1}),
        ("s struct<a: array<string>>", {1}),
        ("v variant", {1, 2}),
        ("s struct<v: variant>", {1, 2}),
    ],
)
def test_a_type_that_a_version_forbids_is_named_with_its_path(schema: str, versions: set[int]) -> None:
    for version in (1, 2, 3):
        if version not in versions:
            check(parse_columns(schema), promise(version))
            continue
        with pytest.raises(UnsupportedFeatureError, match=f"V{version} = true does not allow the column") as caught:
            check(parse_columns(schema), promise(version))
        assert caught.value.features == (f"icebergCompatV{version}",)


@pytest.mark.parametrize(
    ("configuration", "features", "said"),
    [
        ({"delta.enableIcebergCompatV2": "true"}, (), "needs column ids: set delta.columnMapping.mode to name"),
        (
            promise(2, **{"delta.enableDeletionVectors": "true"}),
            ("deletionVectors",),
            "does not go with deletion vectors",
        ),
        (promise(1), ("deletionVectors",), "the table feature deletionVectors"),
        (promise(3, **{"delta.enableRowTracking": "false"}), (), "needs row ids"),
        ({**promise(1), **promise(2)}, (), "does not go with delta.enableIcebergCompatV2"),
    ],
)
def test_a_promise_that_other_properties_break_says_which(
    configuration: dict[str, str], features: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=said):
        check(PLAIN, configuration, *features)


def test_a_column_without_a_type_is_not_for_iceberg() -> None:
    for version in (1, 2, 3):
        with pytest.raises(UnsupportedFeatureError, match="the column v, which is void"):
            check(NOTHING, promise(version))


def test_the_third_version_allows_deletion_vectors_and_the_second_knows_the_feature_where_it_is_off() -> None:
    check(PLAIN, promise(3, **{"delta.enableDeletionVectors": "true"}), "deletionVectors")
    check(PLAIN, promise(2), "deletionVectors")


def test_a_property_without_its_feature_promises_nothing() -> None:
    metadata = Metadata("id", schema_to_json(NOTHING), (), {"delta.enableIcebergCompatV2": "true"}, {})
    check_compatible({"appendOnly"}, metadata)


@pytest.mark.parametrize(
    ("before", "after", "fits"),
    [
        ("tinyint", "int", True),
        ("int", "bigint", True),
        ("float", "double", True),
        ("decimal(9, 2)", "decimal(12, 2)", True),
        ("decimal(9, 2)", "decimal(12, 4)", False),
        ("int", "double", False),
        ("int", "decimal(12, 0)", False),
        ("date", "timestamp_ntz", False),
    ],
)
def test_a_type_may_have_become_wider_only_as_iceberg_knows_it(before: str, after: str, fits: bool) -> None:
    path: ColumnPath = ("c",)
    schema = retyped(parse_columns(f"c {before}"), path, type_at(parse_columns(f"c {after}"), path))
    if fits:
        check(schema, promise(2))
        return
    with pytest.raises(UnsupportedFeatureError, match="changes of types that Iceberg does not know"):
        check(schema, promise(2))


def test_a_partitioned_table_keeps_its_partition_columns_and_another_may_get_some() -> None:
    def partitioned(*columns: str) -> Metadata:
        return Metadata("id", schema_to_json(PLAIN), columns, promise(2), {})

    features = {"icebergCompatV2"}
    check_same_partitioning(features, partitioned(), partitioned("id"))
    check_same_partitioning(features, partitioned("id"), partitioned("id"))
    check_same_partitioning(set(), partitioned("id"), partitioned("name"))
    for columns in ((), ("name",), ("id", "name")):
        with pytest.raises(UnsupportedFeatureError, match=r"keep its partition columns \(id\)"):
            check_same_partitioning(features, partitioned("id"), partitioned(*columns))


@pytest.mark.parametrize(
    ("asked", "is_new", "expected"),
    [
        ({}, True, {}),
        ({"delta.enableIcebergCompatV2": "false"}, True, {}),
        ({"delta.enableIcebergCompatV2": "true"}, True, {"delta.columnMapping.mode": "name"}),
        ({"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "id"}, True, {}),
        ({"delta.enableIcebergCompatV2": "true"}, False, {}),
        ({"delta.enableIcebergCompatV3": "true"}, False, ROW_IDS),
        ({"delta.enableIcebergCompatV3": "true", **ROW_IDS}, False, {}),
    ],
)
def test_what_a_version_needs_is_set_with_it_where_nothing_else_is_asked_for(
    asked: dict[str, str], is_new: bool, expected: dict[str, Any]
) -> None:
    assert with_what_it_needs(asked, is_new=is_new) == {**asked, **expected}
