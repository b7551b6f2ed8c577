"""What becomes of a mirror's columns when the source's change: catalogs of a database, and what must follow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from txlog.core.catalogs import name_parts
from txlog.errors import SchemaMismatchError
from txlog.mirror.columns import StreamColumn, followed, moved_rows
from txlog.mirror.properties import MirrorColumn
from txlog.mirror.sources import SourceColumn, target_name
from txlog.mirror.types import ColumnType

INT, TEXT = ColumnType("integer", pa.int32()), ColumnType("text", pa.string())
KNOWN = (MirrorColumn("id", 1, "int32"), MirrorColumn("name", 2, "string"), MirrorColumn("note", 3, "string"))
ID = SourceColumn("id", 1, INT)


def after(stream: str, *catalog: SourceColumn, known: tuple[MirrorColumn, ...] = KNOWN) -> list[tuple[str, int]] | None:
    """The names and numbers of the columns that follow, where the stream has these; all but id are texts."""
    now = [StreamColumn(name, INT if name == "id" else TEXT) for name in stream.split()]
    found = followed("shop.t", known, now, [ID, *catalog])
    return None if found is None else [(column.name, column.number) for column in found]


def text(name: str, number: int, existing: str | None = None, *, is_filled: bool = False) -> SourceColumn:
    return SourceColumn(name, number, TEXT, existing, is_filled)


def test_nothing_changes_if_the_columns_are_the_same() -> None:
    assert after("id name note", text("name", 2), text("note", 3)) is None


def test_columns_are_dropped_added_and_renamed_by_the_numbers_that_stay_with_them() -> None:
    assert after("id name", text("name", 2)) == [("id", 1), ("name", 2)]
    assert after("id name note more", text("name", 2), text("note", 3), text("more", 4))[3] == ("more", 4)  # type: ignore[index]
    assert after("id title note", text("title", 2), text("note", 3)) == [("id", 1), ("title", 2), ("note", 3)]
    dropped_and_added = after("id name more", text("name", 2), text("more", 4))
    assert dropped_and_added == [("id", 1), ("name", 2), ("more", 4)]


def test_names_that_swap_take_their_values_with_them() -> None:
    with pytest.raises(SchemaMismatchError, match="there is a new one of this name"):
        after("id note name", text("note", 2), text("name", 3))


def test_a_catalog_that_is_ahead_of_the_stream_is_understood_or_nothing_is_guessed() -> None:
    assert after("id title note", text("heading", 2), text("note", 3)) == [("id", 1), ("title", 2), ("note", 3)]
    assert after("id name note more", text("name", 2), text("note", 3))[3] == ("more", 0)  # type: ignore[index]
    with pytest.raises(SchemaMismatchError, match="the catalog does not say which"):
        after("id title subtitle", text("heading", 2), text("subheading", 3))
    with pytest.raises(SchemaMismatchError, match=r"--resync shop\.t"):
        after("id name note more", text("name", 2), text("note", 3), text("x", 4), text("y", 5))


def test_values_that_only_the_rows_show_are_not_guessed() -> None:
    with pytest.raises(SchemaMismatchError, match="more has a default"):
        after("id name note more", text("name", 2), text("note", 3), text("more", 4, is_filled=True))
    with pytest.raises(SchemaMismatchError, match="the type of the column id changed"):
        followed("shop.t", [MirrorColumn("id", 1, "int64")], [StreamColumn("id", INT)], [ID])


def test_rows_move_to_the_new_columns() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", "b"], "note": ["x", "y"], "_change": ["+I", "+I"]})
    new = [
        MirrorColumn("title", 2, "string"),
        MirrorColumn("more", 4, "string", "seven"),
        MirrorColumn("id", 1, "int32"),
    ]
    moved = moved_rows(batch, KNOWN, new, {"more": TEXT})
    expected = {"title": ["a", "b"], "more": ["seven", "seven"], "id": [1, 2], "_change": ["+I", "+I"]}
    assert moved.to_pydict() == expected


@pytest.mark.parametrize(
    ("schema", "name", "expected"),
    [
        ("public", "orders-2", "public.orders-2"),
        ("Shop", "Order Items", "shop.order_items"),
        ("public", "a.b`c", "public.a_b_c"),
        ("public", "_x", "public.t_x"),
        ("public", "größe", "public.gr__e"),
        ("public", "x" * 200, f"public.{'x' * 128}"),
    ],
)
def test_a_mirror_has_a_name_that_catalogs_take(schema: str, name: str, expected: str) -> None:
    assert target_name(schema, name) == expected
    assert name_parts(expected, 2) == tuple(expected.split("."))
