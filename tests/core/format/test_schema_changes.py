"""Changes of a schema as pure functions: paths, new names, places, wider types and rules, by examples and by law."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.column_rules import dropped_rules, with_rules_of
from txlog.core.format.properties import column_paths, path_text
from txlog.core.format.schema import Decimal, Struct, schema_to_json, type_name
from txlog.core.format.schema_changes import column_path, dropped, field_at, moved, renamed, type_at
from txlog.core.format.schema_ddl import parse_columns
from txlog.core.format.type_widening import is_widening, may_widen, retyped, unknown_changes, wider_types
from txlog.errors import InvalidInputError

SCHEMA = parse_columns(
    "a int, s struct<x: int, `y.z`: string>, l array<struct<k: int>>, m map<int, struct<v: int>>, `a.b` int, `c d` int"
)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("a", ("a",)),
        ("A", ("a",)),
        ("s.X", ("s", "x")),
        ("s.`y.z`", ("s", "y.z")),
        ("`S`.`x`", ("s", "x")),
        ("a.b", ("a.b",)),
        ("c d", ("c d",)),
        ("l.element", ("l", "element")),
        ("l.element.k", ("l", "element", "k")),
        ("m.key", ("m", "key")),
        ("m.value.v", ("m", "value", "v")),
    ],
)
def test_a_path_is_found_in_the_schemas_spelling(given: str, path: tuple[str, ...]) -> None:
    assert column_path(given, SCHEMA) == path
    assert (field_at(SCHEMA, path) is None) == (path[-1] in ("element", "key"))
    assert column_path(path_text(path), SCHEMA) == path


@pytest.mark.parametrize("given", ["", "b", "s.y.z", "s.q", "a.x", "l.k", "m.v", "a, s", "`a", None, 7, ("a",)])
def test_what_names_no_column_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputError):
        column_path(given, SCHEMA)


@given(st.lists(st.text("aé. `,x1", min_size=1).filter(str.strip), min_size=1, max_size=3))
def test_the_text_of_a_path_is_read_as_the_path(path: list[str]) -> None:
    assert column_paths(path_text(tuple(path))) == (tuple(path),)


def names(schema: Struct) -> str:
    return type_name(schema)


def test_names_and_places_change_where_they_are_and_nowhere_else() -> None:
    before = names(SCHEMA)
    assert names(renamed(SCHEMA, ("l", "element", "k"), "kk")) == before.replace("<k:int>", "<kk:int>")
    assert names(renamed(SCHEMA, ("m", "value", "v"), "w")) == before.replace("<v:int>", "<w:int>")
    assert names(dropped(SCHEMA, ("s", "x"))) == before.replace("x:int,y.z", "y.z")
    assert dropped(SCHEMA, ("a",)).names == SCHEMA.names[1:]
    assert names(dropped(SCHEMA, ("s", "x"), ("a",))) == names(dropped(dropped(SCHEMA, ("a",)), ("s", "x")))
    assert moved(SCHEMA, ("c d",), None).names == ("c d", "a", "s", "l", "m", "a.b")
    assert moved(SCHEMA, ("a",), "M").names == ("s", "l", "m", "a", "a.b", "c d")
    assert names(moved(SCHEMA, ("s", "y.z"), None)) == before.replace("x:int,y.z:string", "y.z:string,x:int")
    for change in (lambda: renamed(SCHEMA, ("l", "element"), "x"), lambda: dropped(SCHEMA, ("m", "key"))):
        with pytest.raises(InvalidInputError, match="not a column"):
            change()
    for place in ("a", "nope"):
        with pytest.raises(InvalidInputError, match="next to"):
            moved(SCHEMA, ("a",), place)


TYPES = parse_columns(
    "a tinyint, b smallint, c int, d bigint, e float, f double, g date, h timestamp_ntz, i timestamp, j string,"
    " k boolean, l binary, m decimal(5,2), n decimal(10,0), o decimal(20,0), p decimal(12,4), q decimal(38,0)"
)
ALLOWED = {
    "tinyint": "smallint int bigint double decimal(10,0) decimal(20,0) decimal(38,0)",
    "smallint": "int bigint double decimal(10,0) decimal(20,0) decimal(38,0)",
    "int": "bigint double decimal(10,0) decimal(20,0) decimal(38,0)",
    "bigint": "decimal(20,0) decimal(38,0)",
    "float": "double",
    "date": "timestamp_ntz",
    "decimal(5,2)": "decimal(12,4)",
    "decimal(10,0)": "decimal(20,0) decimal(38,0)",
    "decimal(20,0)": "decimal(38,0)",
}
"""PROTOCOL.md, "Type Widening": the list of type changes, for the types above."""


@pytest.mark.parametrize(("old", "new"), [*itertools.product(TYPES.fields, TYPES.fields)])
def test_types_become_wider_as_the_protocol_lists_it_and_in_no_other_way(old: Any, new: Any) -> None:
    allowed = type_name(new.type) in ALLOWED.get(type_name(old.type), "").split()
    assert may_widen(old.type, new.type) == allowed
    assert is_widening(old.type, new.type) >= allowed
    assert [*wider_types(Struct((old,)), Struct((new,)))] == [], "another name, or the same type"
    same_name = Struct((type(new)(old.name.upper(), new.type),))
    assert [*wider_types(Struct((old,)), same_name)] == ([((old.name,), new.type)] if allowed else [])


def test_a_short_decimal_for_a_small_integer_is_read_but_not_made() -> None:
    """Spark makes it, and the protocol wants ten digits before the point."""
    byte = TYPES.fields[0].type
    assert is_widening(byte, Decimal(5, 0))
    assert not may_widen(byte, Decimal(5, 0))


def test_the_history_of_types_grows_and_is_one_that_readers_know() -> None:
    schema = parse_columns("l array<map<int, struct<x: float>>>")
    for path, kind in (
        (("l", "element", "key"), "bigint"),
        (("l", "element", "value", "x"), "double"),
        (("l", "element", "key"), "decimal(20,0)"),
    ):
        schema = retyped(schema, path, parse_columns(f"v {kind}").fields[0].type)
        assert type_name(type_at(schema, path)) == kind
    assert unknown_changes(schema) == []
    text = schema_to_json(schema)
    assert '{"fromType":"integer","toType":"long","fieldPath":"element.key"}' in text
    assert '{"fromType":"long","toType":"decimal(20,0)","fieldPath":"element.key"}' in text
    assert '"delta.typeChanges":[{"fromType":"float","toType":"double"}]' in text


def test_rules_of_columns_are_listed_and_kept_where_the_type_is_the_same() -> None:
    table = parse_columns(
        "a int not null comment 'c', s struct<x: int not null comment 'd'>, b int comment 'e', gone int"
    )
    new = parse_columns("A int, s struct<x: int, y: int>, b string, more int")
    assert [*dropped_rules(table, new)] == [
        "NOT NULL of a",
        "the comment of a",
        "NOT NULL of s.x",
        "the comment of s.x",
        "the comment of b",
    ]
    assert [*dropped_rules(table, with_rules_of(table, new))] == ["the comment of b"]
    assert with_rules_of(table, with_rules_of(table, new)) == with_rules_of(table, new)
    assert [*dropped_rules(new, new)] == []
