"""Columns that only data files still have: which tables may have them, and their place in the name mapping."""

from __future__ import annotations

import json
from typing import Any

import pytest

from txlog.core.format.actions import Metadata
from txlog.core.format.column_mapping import assign
from txlog.core.format.schema import parse_schema, schema_to_json
from txlog.iceberg.metadata.dropped_columns import hidden_columns, may_have_dropped_columns, with_columns


def mapped(highest: int, *names: str, **configuration: str) -> Metadata:
    """A table of a list of strings and further columns, with these names in its files."""
    kinds: list[Any] = [{"type": "array", "elementType": "string", "containsNull": True}, *["long"] * 9]
    columns = [
        {"name": f"c{at}", "type": kind, "nullable": True, "metadata": {}}
        for at, (_, kind) in enumerate(zip(names, kinds, strict=False))
    ]
    numbers = iter(names)
    schema, _ = assign(parse_schema(json.dumps({"type": "struct", "fields": columns})), 0, lambda _: next(numbers))
    given = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(highest), **configuration}
    return Metadata("id", schema_to_json(schema), (), given, {})


@pytest.mark.parametrize(
    ("metadata", "may"),
    [
        (mapped(3, "tags", "a"), False),
        (mapped(4, "tags", "a"), True),
        (mapped(4, "tags", "col-1"), True),
        (mapped(4, "col-1", "col-2"), False),
        (mapped(4, "tags", "a", **{"delta.columnMapping.mode": "none"}), False),
    ],
)
def test_a_table_that_mapped_its_columns_later_may_have_dropped_one(metadata: Metadata, may: bool) -> None:
    assert may_have_dropped_columns(metadata) is may


def test_columns_of_files_are_added_with_ids_that_no_column_has() -> None:
    mapping = [
        {"field-id": 1, "names": ["a"]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},
    ]
    paths = [("s", "y"), ("s", "x"), ("s",), ("l", "element"), ("a",), ("l",)]
    assert with_columns(mapping, paths) == [
        {"field-id": 1, "names": ["a"]},
        {
            "field-id": 2,
            "names": ["s"],
            "fields": [{"field-id": 3, "names": ["x"]}, {"field-id": 2147483443, "names": ["y"]}],
        },
        {"field-id": 2147483445, "names": ["l"], "fields": [{"field-id": 2147483444, "names": ["element"]}]},
    ]


def test_columns_that_only_files_have_are_found_in_a_name_mapping() -> None:
    mapping = [
        {"field-id": 1, "names": ["a"], "fields": [{"field-id": 2, "names": ["x"]}]},
        {"field-id": 2147483540, "names": ["_row-id"]},
    ]
    hidden = {("a", "gone"), ("z",), ("z", "element")}
    assert {*hidden_columns(with_columns(mapping, hidden))} == {*hidden, ("_row-id",)}


def test_columns_that_are_found_later_have_further_ids() -> None:
    first = with_columns([{"field-id": 1, "names": ["a"]}], [("b",), ("c",)])
    assert with_columns(first, [("b",), ("d",)]) == [*first, {"field-id": 2147483443, "names": ["d"]}]
