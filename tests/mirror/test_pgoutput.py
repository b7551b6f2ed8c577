"""Messages of PostgreSQL's plugin pgoutput, as the documentation of its protocol spells them."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.errors import InvalidInputError
from txlog.mirror.pgoutput import (
    UNCHANGED,
    BeginMessage,
    ChangeMessage,
    CommitMessage,
    RelationColumn,
    RelationMessage,
    TruncateMessage,
    decoded,
)

RELATION = struct.pack(">cI", b"R", 16385) + b"shop\0orders\0" + struct.pack(">cH", b"d", 2)
RELATION += b"\1id\0" + struct.pack(">ii", 23, -1) + b"\0amount\0" + struct.pack(">ii", 1700, 655366)


def texts(*values: bytes | None) -> bytes:
    body = struct.pack(">H", len(values))
    for value in values:
        body += (
            b"n" if value is None else b"u" if value == b"UNCHANGED" else struct.pack(">cI", b"t", len(value)) + value
        )
    return body


def test_a_transaction_has_its_place_and_its_time() -> None:
    assert decoded(struct.pack(">cqqi", b"B", 0x16B374D848, 1_000_000, 7)) == BeginMessage(
        0x16B374D848, 946_684_801_000
    )
    assert decoded(struct.pack(">cbqqq", b"C", 0, 5, 9, 1)) == CommitMessage(5, 9)


def test_a_table_has_its_columns_and_their_types() -> None:
    columns = (RelationColumn("id", 23, -1, True), RelationColumn("amount", 1700, 655366, False))
    assert decoded(RELATION) == RelationMessage(16385, "shop", "orders", columns)
    whole = RELATION.replace(b"orders\0d", b"orders\0f")
    assert decoded(whole) == RelationMessage(16385, "shop", "orders", columns, logs_whole_rows=True)


def test_changes_have_the_old_row_the_new_one_or_both() -> None:
    number = struct.pack(">I", 16385)
    assert decoded(b"I" + number + b"N" + texts(b"1", None)) == ChangeMessage("I", 16385, None, ["1", None])
    assert decoded(b"U" + number + b"N" + texts(b"1", b"UNCHANGED")) == ChangeMessage(
        "U", 16385, None, ["1", UNCHANGED]
    )
    moved = b"U" + number + b"K" + texts(b"1", None) + b"N" + texts(b"2", "\u00e9".encode())
    assert decoded(moved) == ChangeMessage("U", 16385, ["1", None], ["2", "\u00e9"])
    assert decoded(b"D" + number + b"O" + texts(b"1", b"x")) == ChangeMessage("D", 16385, ["1", "x"], None, True)


def test_tables_that_are_truncated_together_come_together() -> None:
    assert decoded(struct.pack(">cIbII", b"T", 2, 1, 7, 9)) == TruncateMessage((7, 9))


def test_what_says_nothing_about_rows_is_left_out_and_what_is_unknown_is_refused() -> None:
    assert decoded(b"Y\0\0\0\1public\0mood\0") is None
    with pytest.raises(InvalidInputError, match="unknown kind"):
        decoded(b"Z")
    with pytest.raises(InvalidInputError, match="unknown kind"):
        decoded(b"")


@pytest.mark.hypothesis
@given(st.sampled_from([RELATION, b"U\0\0@\1K" + texts(b"1", None) + b"N" + texts(b"2", b"x")]), st.data())
def test_a_message_that_is_cut_short_or_damaged_is_refused_or_another_message(
    whole: bytes, data: st.DataObject
) -> None:
    cut = whole[: data.draw(st.integers(1, len(whole)))]
    place = data.draw(st.integers(0, len(cut) - 1))
    damaged = cut[:place] + data.draw(st.binary(min_size=1, max_size=2)) + cut[place + 1 :]
    with contextlib.suppress(InvalidInputError):
        decoded(damaged)
