"""Changes of rows in a task: one for each key, whatever the memory, and hashes of keys that Spark shares."""

from __future__ import annotations

import datetime
import decimal
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.changelog.change_buffer import ChangeBuffer
from txlog.changelog.collapse import Changes, collapse, in_order, sorted_by_key
from txlog.changelog.key_hash import key_hashes, tasks_of
from txlog.changelog.row_kinds import KINDS, RowKinds
from txlog.core.format.arrow.buckets import Buckets
from txlog.core.format.schema import LONG, STRING, Decimal, from_arrow
from txlog.core.row_rules import KeyColumn
from txlog.errors import InvalidInputError

KEYS = (KeyColumn(("id",), LONG), KeyColumn(("name",), STRING))

Change = tuple[int, str, int, int, int]
"""id, name, value, kind and sequence."""

given_changes = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["", "a", "b"]),
        st.integers(0, 9),
        st.sampled_from([0, 2, 3]),
        st.integers(0, 3),
    ),
    max_size=30,
)


def changes_of(rows: list[Change], *, has_sequence: bool) -> Changes:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]
    table = pa.table(
        {"id": pa.array(columns[0], pa.int64()), "name": pa.array(columns[1], pa.string()), "v": pa.array(columns[2])}
    )
    sequence = pa.chunked_array([pa.array(columns[4], pa.int64())]) if has_sequence else None
    return Changes(table, np.array(columns[3], dtype=np.int8), sequence)


def rows_of(changes: Changes) -> list[tuple[int, str, int, int]]:
    values = zip(*(column.to_pylist() for column in changes.rows.columns), strict=True)
    return [(*row, int(kind)) for row, kind in zip(values, changes.kinds, strict=True)]


def modelled(rows: list[Change], *, has_sequence: bool) -> set[tuple[int, str, int, int]]:
    """The last change of each key, in plain Python."""
    left: dict[tuple[int, str], Change] = {}
    for row in sorted(rows, key=lambda row: row[4]) if has_sequence else rows:
        left[row[:2]] = row
    return {row[:4] for row in left.values()}


@given(given_changes, st.booleans())
def test_the_last_change_of_each_key_is_left(rows: list[Change], has_sequence: bool) -> None:
    left = rows_of(collapse(changes_of(rows, has_sequence=has_sequence), KEYS))
    assert len(left) == len(set(left))
    assert set(left) == modelled(rows, has_sequence=has_sequence)


@given(given_changes, st.booleans())
def test_changes_are_ordered_by_key_and_then_as_they_came(rows: list[Change], has_sequence: bool) -> None:
    order, last = in_order(changes_of(rows, has_sequence=has_sequence), KEYS)
    wanted: dict[tuple[int, str], list[int]] = {}
    places = range(len(rows))
    for place in sorted(places, key=lambda at: rows[at][4]) if has_sequence else places:
        wanted.setdefault(rows[place][:2], []).append(place)
    found = [list(each) for _, each in itertools.groupby(order.tolist(), lambda at: rows[at][:2])]
    assert sorted(found) == sorted(wanted.values())
    assert sorted(last.tolist()) == sorted(places[-1] for places in wanted.values())


@given(st.lists(given_changes, max_size=6), st.booleans(), st.sampled_from([0, 300, 1 << 20]))
def test_changes_are_the_same_however_little_memory_there_is(
    batches: list[list[Change]], has_sequence: bool, memory_max_bytes: int
) -> None:
    buffer = ChangeBuffer(KEYS, memory_max_bytes)
    for batch in batches:
        buffer.add(changes_of(batch, has_sequence=has_sequence))
    left = [row for part in buffer.drain() for row in rows_of(part)]
    assert buffer.is_spilled == (memory_max_bytes == 0 and any(batches)) or memory_max_bytes == 300
    buffer.close()
    assert len(left) == len(set(left))
    assert set(left) == modelled([row for batch in batches for row in batch], has_sequence=has_sequence)


def test_changes_of_few_keys_stay_few_also_after_the_first_went_to_files(monkeypatch: pytest.MonkeyPatch) -> None:
    spilled: list[int] = []
    add = Buckets.add
    monkeypatch.setattr(Buckets, "add", lambda self, rows, at: (spilled.append(rows.num_rows), add(self, rows, at))[1])
    buffer = ChangeBuffer((KeyColumn(("id",), LONG),), 1 << 20)

    def of_keys(ids: Any) -> Changes:
        rows = pa.table({"id": np.asarray(ids, np.int64), "v": np.arange(len(ids))})
        return Changes(rows, np.full(len(ids), 2, np.int8))

    buffer.add(of_keys(np.arange(60_000)))
    assert buffer.is_spilled
    for _ in range(20):
        buffer.add(of_keys(np.full(30_000, 7)))
    rows = {row[0]: row[1] for part in buffer.drain() for row in zip(*part.rows.to_pydict().values(), strict=True)}
    buffer.close()
    assert spilled == [60_000, 1]
    assert rows == {**{key: key for key in range(60_000)}, 7: 29_999}


def test_the_sequence_counts_as_memory_that_is_taken() -> None:
    buffer = ChangeBuffer((KeyColumn(("id",), LONG),), 1 << 20)
    text = pa.chunked_array([[f"{at:02000}" for at in range(1_000)]])
    buffer.add(Changes(pa.table({"id": np.arange(1_000)}), np.full(1_000, 2, np.int8), text))
    assert buffer.is_spilled
    buffer.close()


def test_changes_can_be_sorted_by_their_keys() -> None:
    rows: list[Change] = [(2, "a", 1, 0, 0), (1, "b", 2, 0, 0), (1, "a", 3, 3, 0)]
    assert [row[:2] for row in rows_of(sorted_by_key(changes_of(rows, has_sequence=False), KEYS))] == [
        (1, "a"),
        (1, "b"),
        (2, "a"),
    ]


def test_buckets_give_rows_back_in_order_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    buckets = Buckets(4)
    for first in (0, 10):
        numbers = np.arange(first, first + 10)
        buckets.add(pa.table({"n": numbers}), numbers % 3)
    found = [part.column("n").to_pylist() for part in buckets.drain()]
    assert found == [[n for n in range(20) if n % 3 == bucket] for bucket in range(3)]
    buckets.close()
    assert list(tmp_path.iterdir()) == []


def test_the_four_kinds_have_the_codes_of_flink() -> None:
    assert KINDS == ("+I", "-U", "+U", "-D")


# --- hashes -----------------------------------------------------------------------------------------------------

EXACT = [
    # As Spark 4 answers `SELECT xxhash64(...)`. Programs rely on the tasks of keys, so no release changes them.
    (pa.array([1], pa.int32()), -6698625589789238999),
    (pa.array([1], pa.int64()), -7001672635703045582),
    (pa.array([-(2**15)], pa.int16()), -904511417458573795),
    (pa.array([-(2**7)], pa.int8()), 4160238337661960656),
    (pa.array([True]), -6698625589789238999),
    (pa.array(["Spark"]), -4294468057691064905),
    (pa.array(["日本語"]), -619341062884681239),
    (pa.array([bytes(range(77))]), 509606241253238381),
    (pa.array([datetime.date(1900, 1, 1)]), 87636426632586988),
    (pa.array([-1], pa.timestamp("us", "UTC")), 3858142552250413010),
    (pa.array([-1], pa.timestamp("us")), 3858142552250413010),
    (pa.array([decimal.Decimal("-1.50")], pa.decimal128(18, 2)), -3700955262752989823),
    (pa.array([None], pa.int64()), 42),
]


@pytest.mark.parametrize(("column", "hash_of_key"), EXACT, ids=[f"{column.type}-{each}" for column, each in EXACT])
def test_hashes_equal_sparks(column: pa.Array, hash_of_key: int) -> None:
    kind = from_arrow(pa.schema([("k", column.type)])).fields[0].type
    assert key_hashes([KeyColumn(("k",), kind)], [column]).tolist() == [hash_of_key]


def test_a_null_key_leaves_the_hash_of_the_other_keys_unchanged() -> None:
    numbers, names = pa.array([1, 1, None], pa.int64()), pa.array(["a", None, "a"])
    both = key_hashes(KEYS, [numbers, names])
    assert both[1] == key_hashes(KEYS[:1], [numbers])[0]
    assert both[2] == key_hashes(KEYS[1:], [names])[0]
    assert both[0] not in both[1:]


@given(st.lists(st.text(max_size=70), max_size=20), st.integers(0, 3))
def test_a_hash_does_not_depend_on_the_rows_around(values: list[str], offset: int) -> None:
    column = pa.array(["x" * offset, *values])
    sliced = key_hashes(KEYS[1:], [column.slice(1)])
    alone = [int(key_hashes(KEYS[1:], [pa.array([value])])[0]) for value in values]
    assert sliced.tolist() == alone


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7, -7], pa.int8()),
        pa.array([7, -7], pa.int16()),
        pa.array([True, False]),
        pa.array([b"", b"\xff" * 33]),
        pa.array([datetime.date(1969, 1, 1), datetime.date(2026, 11, 22)]),
        pa.array([0, -1], pa.timestamp("us", "UTC")),
        pa.array([decimal.Decimal("-1.50"), decimal.Decimal("1.50")], pa.decimal128(18, 2)),
    ],
    ids=lambda column: str(column.type),
)
def test_keys_of_every_type_are_dealt_out(column: pa.Array) -> None:
    kind = from_arrow(pa.schema([("k", column.type)])).fields[0].type
    tasks = tasks_of([KeyColumn(("k",), kind)], [column], 1 << 40)
    assert len(set(tasks.tolist())) == 2
    assert (tasks >= 0).all()


def test_wide_decimals_have_no_shared_hash() -> None:
    wide = pa.array([decimal.Decimal(1)], pa.decimal128(38, 0))
    with pytest.raises(InvalidInputError, match="more than 18 there is no hash"):
        key_hashes([KeyColumn(("k",), Decimal(38, 0))], [wide])


@pytest.mark.parametrize(
    "column",
    [pa.array([True]), pa.array([1.0]), pa.array([["c"]]), pa.array([{"a": "c"}]), pa.array([b"c"])],
    ids=["boolean", "float", "list", "struct", "binary"],
)
def test_columns_of_other_types_are_no_row_kinds(column: pa.Array) -> None:
    with pytest.raises(InvalidInputError, match="row kind"):
        RowKinds().of(column, "op")


def test_strings_of_any_kind_whole_numbers_and_booleans_with_a_meaning_are_row_kinds() -> None:
    for column in (
        pa.array(["-D", "+I"]),
        pa.array(["d", "c"], pa.large_string()),
        pa.array(["d", "c"], pa.string_view()),
        pa.array(["d", "c"]).dictionary_encode(),
        pa.array([3, 0], pa.int8()),
        pa.array([3, 0], pa.uint64()),
    ):
        assert RowKinds().of(column, "op").tolist() == [3, 0]
    assert RowKinds({True: "-D", False: "+I"}).of(pa.array([True, False]), "op").tolist() == [3, 0]


def test_given_words_add_to_the_known_ones_and_given_numbers_replace_them() -> None:
    added = RowKinds({"gone": "-D", "c": "+U"})
    assert added.of(pa.array(["gone", "c", "update", "-U"]), "op").tolist() == [3, 2, 2, 1]
    assert added.of(pa.array([3, 0]), "op").tolist() == [3, 0]
    assert RowKinds({1: "+I", 2: "-D"}).of(pa.array([2, 1]), "op").tolist() == [3, 0]
    for numbers in (RowKinds({1: "+I", 2: "-D"}), RowKinds({True: "-D", False: "+I"})):
        assert numbers.of(pa.array(["d"]), "op").tolist() == [3]
        with pytest.raises(InvalidInputError, match="Invalid row kind 3"):
            numbers.of(pa.array([3]), "op")
