"""The keys of a checkpoint: found as by one look-up in a dictionary, and in little memory however many they are."""

from __future__ import annotations

import datetime
import decimal
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.changelog.key_files import read_keys
from txlog.changelog.staged_changes import rows_reader
from txlog.changelog.staged_keys import gather_keys
from txlog.core.changes.tasks.operations import ColumnValues, SortedKeys, sort_order
from txlog.core.format.schema import from_arrow
from txlog.core.predicates.skipping import KeyRanges
from txlog.core.reading import KeyNumbers, KeyValues, new_key_numbers
from txlog.core.row_rules import KeyColumn, key_columns

KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), st.sampled_from([0, 1, 8, 9, -1, 2**63 - 1, -(2**63)]) | st.integers(-20, 20)),
    "date": (pa.date32(), st.dates(datetime.date(1969, 12, 1), datetime.date(1970, 1, 20))),
    "string": (pa.string(), st.text("ab", max_size=3)),
    "decimal": (pa.decimal128(20, 2), st.decimals(-3, 3, places=2).map(decimal.Decimal)),
}


def _columns_of(kinds: list[str], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[at] for row in rows], KINDS[kind][0]) for at, kind in enumerate(kinds)]


def _keys(kinds: list[str]) -> tuple[KeyColumn, ...]:
    schema = pa.schema([(f"k{at}", KINDS[kind][0]) for at, kind in enumerate(kinds)])
    return key_columns(schema.names, from_arrow(schema))


@given(st.data(), st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2))
def test_each_key_is_found_at_its_place_and_no_other_key_or_null_is(data: Any, kinds: list[str]) -> None:
    rows = st.tuples(*(KINDS[kind][1] for kind in kinds))
    held = data.draw(st.lists(rows, unique=True, max_size=20))
    asked = data.draw(st.lists(rows | rows.map(lambda row: (None, *row[1:])), max_size=20))
    columns = _columns_of(kinds, held)
    numbers = new_key_numbers([column.type for column in columns])
    values = numbers.of(columns)[0]
    order = sort_order(values)
    places = SortedKeys(_keys(kinds), numbers, values.at(order)).source_rows(_columns_of(kinds, asked))
    assert [None if at < 0 else held[order[at]] for at in places] == [row if row in held else None for row in asked]


class _Halves(KeyNumbers):
    """Numbers whose first halves are all equal, which chance makes once in ages."""

    def of(self, columns: Any) -> Any:
        values, rows = super().of(columns)
        return KeyValues(np.zeros(len(values), np.uint64), values.second), rows


def test_keys_with_the_same_first_half_are_distinguished_by_the_second() -> None:
    words = pa.array([f"word {number}" for number in range(100)])
    numbers = _Halves([pa.string()], b"x" * 32)
    values = numbers.of([words])[0]
    order = sort_order(values)
    found = SortedKeys(_keys(["string"]), numbers, values.at(order)).source_rows([words])
    assert order[found].tolist() == list(range(100))
    others = pa.array([f"other {number}" for number in range(100)])
    assert set(SortedKeys(_keys(["string"]), numbers, values.at(order)).source_rows([others]).tolist()) == {-1}


def test_a_column_is_described_by_its_values_while_they_are_few_and_then_by_a_range() -> None:
    few, many = (ColumnValues(_keys(["string"])[0], distinct_max=3) for _ in range(2))
    for each in ("b", "a", "b", "c"):
        few.add(pa.array([each, "a"]))
    assert sorted(few.found().to_pylist()) == ["a", "b", "c"]
    many.add(pa.array(["m", "n"]))
    many.join(few)
    many.add(pa.array(["z", "y"]))
    ranges = many.found()
    assert isinstance(ranges, KeyRanges)
    assert (ranges.lows.to_pylist(), ranges.highs.to_pylist()) == (["a"], ["z"])


@pytest.mark.parametrize("are_deletes", [False, True], ids=["data files", "key files"])
@pytest.mark.parametrize("is_text", [False, True], ids=["integers", "strings"])
def test_only_a_number_for_each_key_and_one_batch_of_keys_are_held_in_memory(
    tmp_path: Path, is_text: bool, are_deletes: bool
) -> None:
    num_keys, width = 300_000, 100
    schema = pa.schema([("id", pa.string() if is_text else pa.int64())])
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    sink = txlog.Sink(table, "app", mode="upsert", keys=["id"])
    with sink.task(1) as task:
        ids = pa.array(np.random.default_rng(5).permutation(num_keys))
        texts = pc.utf8_lpad(ids.cast(pa.string()), width, "0")
        for first in range(0, num_keys, 50_000):
            part = pa.table([(texts if is_text else ids).slice(first, 50_000)], schema=schema)
            (task.delete if are_deletes else task.write)(part)
    del ids, texts
    keys, files = key_columns(["id"], from_arrow(schema)), table._open_table.store.files
    before_bytes = pa.total_allocated_bytes()
    read = [
        (len(rows), pa.total_allocated_bytes() - before_bytes)
        for file in task.committable.keys
        for rows in read_keys(files, file, keys, table.uri)
    ]
    if are_deletes:
        assert sum(rows for rows, _ in read) == num_keys
        assert max(rows for rows, _ in read) <= num_keys // 2
    if is_text and are_deletes:
        assert max(held_bytes for _, held_bytes in read) < num_keys * width * 3 // 4
    numbers = new_key_numbers([schema.field(0).type])
    tracemalloc.start()
    try:
        new_rows = rows_reader(table._open_table, table._open_table.log.newest_state(), keys)
        staged = gather_keys(files, [task.committable], keys, table.uri, numbers, new_rows)
        held_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert staged.num_rows == num_keys
    number_bytes = 16 if is_text else 8
    assert held_bytes < num_keys * (number_bytes + 24), "numbers, rows, flags, and whether they are deleted"
    assert peak_bytes < num_keys * (2 * number_bytes + 48) + (2 * 150_000 * (width + 100) if is_text else 0)
