"""Identity columns as values: what metadata says, the next numbers, and marks that only move on."""

from __future__ import annotations

from typing import Any

import pytest

from txlog.core.format.actions import Metadata
from txlog.core.format.identity import (
    IdentityColumn,
    check_identity_columns,
    identity_columns,
    identity_metadata,
    is_same_but_for_marks,
    with_later_marks,
    with_mark,
)
from txlog.core.format.schema import INTEGER, LONG, STRING, Field, Struct, parse_schema, schema_to_json
from txlog.core.format.schema_ddl import parse_columns
from txlog.errors import CorruptLogError, InvalidInputError

GREATEST = (1 << 63) - 1


def column(start: int = 1, step: int = 1, mark: int | None = None) -> IdentityColumn:
    return IdentityColumn("n", "n", start, step, mark, False)


def metadata(mark: int | None = None, *, name: str = "n", step: int = 1, **fields: Any) -> Metadata:
    counted: dict[str, Any] = identity_metadata(start=1, step=step, takes_values=False)
    if mark is not None:
        counted["delta.identity.highWaterMark"] = mark
    schema = Struct((Field(name, LONG, True, counted), Field("v", STRING)))
    return Metadata("id", schema_to_json(schema), (), {}, {"provider": "parquet", "options": {}}, **fields)


def mark_of(found: Metadata) -> int | None:
    return identity_columns(parse_schema(found.schema_string))[0].mark


@pytest.mark.parametrize(
    ("asked", "start", "step", "takes_values"),
    [
        ("always as identity", 1, 1, False),
        ("by default as identity", 1, 1, True),
        ("always as identity (start with 5)", 5, 1, False),
        ("always as identity (start with -5 increment by -2)", -5, -2, False),
        ("BY DEFAULT AS IDENTITY (INCREMENT BY 10)", 1, 10, True),
    ],
)
def test_ddl_says_what_a_column_counts(asked: str, start: int, step: int, takes_values: bool) -> None:
    schema = parse_columns(f"n bigint not null generated {asked} comment 'c', v string")
    assert identity_columns(schema) == (IdentityColumn("n", "n", start, step, None, takes_values),)
    assert not schema.fields[0].nullable
    assert schema.fields[0].metadata["comment"] == "c"


@pytest.mark.parametrize(
    ("counted", "count", "expected"),
    [
        (column(), 1, (1, 1)),
        (column(), 3, (1, 3)),
        (column(mark=7), 3, (8, 10)),
        (column(10, -5), 3, (10, 0)),
        (column(10, -5, 0), 2, (-5, -10)),
        (column(GREATEST), 1, (GREATEST, GREATEST)),
    ],
)
def test_numbers_continue_after_the_mark(counted: IdentityColumn, count: int, expected: tuple[int, int]) -> None:
    assert counted.next(count) == expected


@pytest.mark.parametrize("counted", [column(GREATEST), column(mark=GREATEST - 1), column(-GREATEST, -1)])
def test_a_column_without_numbers_left_says_so(counted: IdentityColumn) -> None:
    with pytest.raises(InvalidInputError, match="no 3 numbers left"):
        counted.next(3)


@pytest.mark.parametrize(
    ("counted", "value", "expected"),
    [(column(1, 5), 6, 6), (column(1, 5), 7, 11), (column(0, -2), -3, -4), (column(0, -2), -4, -4)],
)
def test_a_value_is_rounded_to_the_next_number(counted: IdentityColumn, value: int, expected: int) -> None:
    assert counted.rounded(value) == expected


@pytest.mark.parametrize(
    ("mine", "newest", "expected"),
    [(5, 9, 9), (9, 5, 9), (None, 5, 5), (5, None, 5)],
)
def test_a_mark_only_moves_on(mine: int | None, newest: int | None, expected: int) -> None:
    assert mark_of(with_later_marks(metadata(mine), metadata(newest))) == expected


def test_a_mark_moves_down_with_negative_steps() -> None:
    assert mark_of(with_later_marks(metadata(-5, step=-1), metadata(-9, step=-1))) == -9
    assert mark_of(with_later_marks(metadata(-9, step=-1), metadata(-5, step=-1))) == -9


def test_the_mark_of_another_column_does_not_matter() -> None:
    assert mark_of(with_later_marks(metadata(5), metadata(9, name="other"))) == 5


def test_definitions_that_differ_in_marks_only_are_the_same() -> None:
    assert is_same_but_for_marks(metadata(5), metadata(9))
    assert is_same_but_for_marks(metadata(), metadata(9))
    assert not is_same_but_for_marks(metadata(5), metadata(5, step=2))
    assert not is_same_but_for_marks(metadata(5), metadata(9, description="mine"))
    assert not is_same_but_for_marks(metadata(5), metadata(9, name="other"))


def test_a_mark_leaves_all_other_metadata_alone() -> None:
    moved = with_mark(metadata(5, description="mine"), column(mark=5), 8)
    assert moved == metadata(8, description="mine")


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"delta.identity.start": 1}, "step None"),
        ({"delta.identity.start": 1, "delta.identity.step": 0}, "step 0"),
        ({"delta.identity.start": "1", "delta.identity.step": 1}, "start '1'"),
        ({"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": "x"}, "mark 'x'"),
    ],
)
def test_metadata_that_no_writer_makes_is_refused(found: dict[str, Any], says: str) -> None:
    with pytest.raises(CorruptLogError, match=says):
        identity_columns(Struct((Field("n", LONG, True, found),)))


@pytest.mark.parametrize(
    ("field", "partitioned", "says"),
    [
        (Field("n", INTEGER), (), "must be bigint"),
        (Field("n", LONG, True, {"CURRENT_DEFAULT": "7"}), (), "default"),
        (Field("n", LONG, True, {"delta.generationExpression": "1"}), (), "computed"),
        (Field("n", LONG), ("N",), "partitioned"),
        (Field("n", LONG, True, {"delta.identity.step": 0}), (), "step 0"),
        (Field("n", LONG, True, {"delta.identity.start": 1 << 63}), (), "fit in a bigint"),
    ],
)
def test_a_definition_that_no_table_can_have_is_refused(field: Field, partitioned: tuple[str, ...], says: str) -> None:
    counted = {**identity_metadata(start=1, step=1, takes_values=True), **field.metadata}
    with pytest.raises(InvalidInputError, match=says):
        check_identity_columns(Struct((Field(field.name, field.type, True, counted),)), partitioned)
