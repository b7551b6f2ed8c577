"""What a new schema may hold, and how schemas merge: every refusal names its column."""

from __future__ import annotations

from typing import Any

import pytest

from tests.packages import hide
from txlog.core.format.schema import (
    BINARY,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
)
from txlog.core.format.schema_merge import accepts, check_partition_columns, check_schema, merge
from txlog.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError


def struct(**members: DataType) -> Struct:
    return Struct(tuple(Field(name, kind) for name, kind in members.items()))


def test_an_ordinary_nested_schema_is_accepted() -> None:
    check_schema(struct(a=LONG, b=struct(a=STRING), c=Array(struct(a=DATE)), d=Map(STRING, Decimal(38, 0))))


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (Struct(()), "it has no columns"),
        (struct(s=Struct(())), "s: a struct without fields"),
        (struct(Day=LONG, day=LONG), "day: another column has the name 'Day', as case does not count"),
        (struct(day=LONG, **{"DAY": LONG}), "DAY: another column has the name 'day'"),
        (struct(list=Array(struct(x=LONG, X=LONG))), "list.element.X: another column has the name 'x'"),
        (struct(map=Map(STRING, struct(x=LONG, X=LONG))), "map.value.X: another column has the name 'x'"),
        (struct(n=VOID), "n: a column of only nulls"),
        (struct(n=Array(VOID)), "n.element: a column of only nulls"),
        (struct(n=struct(m=VOID)), "n.m: a column of only nulls"),
        (struct(d=Decimal(39, 0)), "d: decimal(39,0) is out of range"),
        (struct(d=Decimal(5, 6)), "d: decimal(5,6) is out of range"),
        (Struct((Field("", LONG), Field("b", LONG))), "a column: its name is empty"),
        (struct(s=Struct((Field("", LONG),))), "its name is empty"),
        *((Struct((Field(f"a{c}b", LONG),)), repr(c)) for c in " ,;{}()\n\t="),
    ],
)
def test_a_schema_no_table_may_have_is_refused_by_column(schema: Struct, complaint: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        check_schema(schema)
    assert complaint in str(raised.value)


def test_every_problem_of_a_schema_is_listed_together() -> None:
    with pytest.raises(InvalidInputError) as raised:
        check_schema(struct(**{"a b": LONG, "n": VOID, "N": LONG}))
    assert all(column in str(raised.value) for column in ("a b: ", "n: ", "N: "))


def test_two_equal_names_are_duplicates_too() -> None:
    with pytest.raises(InvalidInputError, match="has the name 'a'"):
        check_schema(Struct((Field("a", LONG), Field("a", STRING))))


@pytest.mark.parametrize(
    "nested", [Array, lambda inner: Map(STRING, inner), lambda inner: struct(a=inner)], ids=["list", "map", "struct"]
)
def test_a_type_that_other_readers_find_too_deep_is_refused_and_one_level_less_is_not(nested: Any) -> None:
    data_type: DataType = LONG
    for _ in range(31):
        data_type = nested(data_type)
    check_schema(struct(a=data_type))
    with pytest.raises(InvalidInputError, match="it nests deeper than 32 levels"):
        check_schema(struct(a=nested(data_type)))


def test_a_field_that_makes_a_column_too_deep_is_refused_wherever_it_is_added() -> None:
    def lists(levels: int, inner: DataType) -> DataType:
        return lists(levels - 1, Array(inner)) if levels else inner

    table = struct(a=lists(20, struct(x=LONG)))
    assert merge(table, struct(a=lists(20, struct(y=lists(10, LONG))))) != table
    with pytest.raises(InvalidInputError, match="nest deeper than 32 levels"):
        merge(table, struct(a=lists(20, struct(y=lists(11, LONG)))))


def test_a_variant_is_refused_by_column_where_no_package_makes_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "txlog.types:variant")
    with pytest.raises(UnsupportedFeatureError, match=r"v\.element is a variant") as raised:
        check_schema(struct(v=Array(VARIANT)))
    assert raised.value.features == ("variantType",)


def test_partition_columns_take_the_spelling_of_the_schema() -> None:
    assert check_partition_columns(struct(Year=INTEGER, Day=DATE, x=LONG), ["day", "YEAR"]) == ("Day", "Year")
    assert check_partition_columns(struct(a=LONG), []) == ()


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["z"], "no column 'z'"),
        (["a", "A"], "'a' is given twice"),
        (["s"], "'s' is a struct<x:bigint>"),
        (["l"], "'l' is a array<bigint>"),
        (["m"], "'m' is a map<string,bigint>"),
        (["n"], "'n' is a void"),
        (["v"], "'v' is a variant"),
    ],
)
def test_a_column_that_cannot_partition_a_table_is_named(columns: list[str], complaint: str) -> None:
    schema = struct(a=LONG, s=struct(x=LONG), l=Array(LONG), m=Map(STRING, LONG), n=VOID, v=VARIANT)
    with pytest.raises(InvalidInputError) as raised:
        check_partition_columns(schema, columns)
    assert complaint in str(raised.value)


def test_partitioning_by_every_column_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one must remain"):
        check_partition_columns(struct(a=LONG, b=LONG), ["a", "b"])


def test_merging_a_schema_that_adds_nothing_leaves_it_equal_whatever_order_and_case() -> None:
    table = Struct((Field("Id", LONG, nullable=False, metadata={"comment": "k"}), Field("b", struct(X=LONG))))
    assert merge(table, Struct((Field("B", struct(x=LONG)), Field("ID", LONG)))) == table
    assert merge(table, struct(id=LONG)) == table


def test_missing_columns_are_added_last_and_nullable_at_every_depth() -> None:
    required = Struct((Field("x", Array(LONG, contains_null=False), nullable=False),))
    data = Struct((Field("new", required, nullable=False), Field("a", LONG)))
    merged = merge(struct(a=LONG), data)
    assert merged == Struct((Field("a", LONG), Field("new", Struct((Field("x", Array(LONG)),)))))


def test_missing_members_are_added_inside_structs_arrays_and_map_values() -> None:
    table = struct(s=struct(a=LONG), l=Array(struct(a=LONG), contains_null=False), m=Map(STRING, struct(a=LONG)))
    data = struct(s=struct(b=DATE), l=Array(struct(b=DATE)), m=Map(STRING, struct(A=LONG, b=DATE)))
    assert merge(table, data) == struct(
        s=struct(a=LONG, b=DATE),
        l=Array(struct(a=LONG, b=DATE), contains_null=False),
        m=Map(STRING, struct(a=LONG, b=DATE)),
    )


def test_a_merged_new_column_keeps_its_comment_but_not_its_old_tables_metadata() -> None:
    metadata = {"comment": "c", "delta.columnMapping.id": 4, "delta.typeChanges": [], "EXISTS_DEFAULT": "7"}
    merged = merge(struct(a=LONG), Struct((Field("b", LONG, metadata=metadata),)))
    assert merged.fields[1].metadata == {"comment": "c"}


@pytest.mark.parametrize("key", ["delta.invariants", "delta.identity.start", "CURRENT_DEFAULT", "delta.someLaterKey"])
def test_a_merged_new_column_with_a_rule_is_refused_at_every_depth(key: str) -> None:
    rule = Struct((Field("b", LONG, metadata={key: "x"}),))
    for data in (rule, struct(new=rule), struct(new=Array(rule)), struct(m=Map(STRING, rule))):
        with pytest.raises(InvalidInputError, match=f"cannot add b with {key}"):
            merge(struct(m=Map(STRING, struct(a=LONG))), data)


def test_columns_of_another_type_are_all_listed_with_both_types() -> None:
    table = struct(a=INTEGER, s=struct(t=TIMESTAMP), l=Array(LONG))
    with pytest.raises(SchemaMismatchError) as raised:
        merge(table, struct(A=STRING, s=struct(T=TIMESTAMP_NTZ), l=Array(DOUBLE), fresh=LONG))
    text = str(raised.value)
    assert "3 columns differ" in text
    assert "a  table int, data string" in text
    assert "s.t  table timestamp, data timestamp_ntz" in text
    assert "l.element  table bigint, data double" in text


def test_a_nested_column_does_not_merge_with_a_flat_one() -> None:
    with pytest.raises(SchemaMismatchError, match="1 column differs"):
        merge(struct(a=struct(x=LONG)), struct(a=LONG))


@pytest.mark.parametrize(
    "fresh", [struct(n=VOID), struct(**{"a b": LONG}), struct(s=struct(x=LONG, X=LONG)), struct(s=Struct(()))]
)
def test_a_new_column_that_cannot_be_written_is_refused(fresh: Struct) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be added|equal but for case"):
        merge(struct(a=LONG), fresh)


def test_data_with_two_columns_equal_but_for_case_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="B, b"):
        merge(struct(a=LONG, b=LONG), struct(b=LONG, B=LONG))


@pytest.mark.parametrize(
    ("table", "data", "fits"),
    [
        (LONG, LONG, True),
        (BYTE, LONG, True),  # values are range-checked when written
        (LONG, BYTE, True),
        (LONG, Decimal(20, 0), True),  # unsigned 64-bit integers
        (STRING, VOID, True),
        (Decimal(20, 0), LONG, True),
        (DOUBLE, LONG, True),
        (FLOAT, BYTE, True),
        (DOUBLE, FLOAT, True),
        (FLOAT, DOUBLE, False),
        (Decimal(10, 2), Decimal(5, 1), True),
        (Decimal(10, 2), Decimal(10, 1), False),
        (Decimal(10, 2), Decimal(10, 3), False),
        (Decimal(10, 2), DOUBLE, False),
        (STRING, BINARY, False),
        (DATE, TIMESTAMP, False),
        (TIMESTAMP, TIMESTAMP_NTZ, False),
        (STRING, LONG, False),
    ],
)
def test_data_fits_a_column_only_where_no_value_changes_its_meaning(
    table: DataType, data: DataType, fits: bool
) -> None:
    assert accepts(table, data) is fits
