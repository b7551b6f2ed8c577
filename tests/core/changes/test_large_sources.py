"""Sources of upserts that are stored in a temporary file, as they are above a limit of memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.changes.tasks.operations import _numbered_keys as numbered_keys
from txlog.core.changes.tasks.operations import _upsert_source as upsert_source
from txlog.core.row_rules import _keys as keys_of_writer
from txlog.errors import InvalidInputError

KEYS = pytest.mark.parametrize("keys", [["id"], ["name"], ["name", "id"]], ids=", ".join)
BATCHES, PER_BATCH = 40, 50


@pytest.fixture(autouse=True, params=[0, 1 << 20], ids=["many", "few"])
def many_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From how many rows on the keys are numbers, and no longer in a hash table."""
    monkeypatch.setattr(numbered_keys, "MANY_ROWS", request.param)
    monkeypatch.setattr(numbered_keys, "ROWS_AT_ONCE", 333)
    monkeypatch.setattr(numbered_keys, "RANGES_MAX", 7)
    monkeypatch.setattr(keys_of_writer, "FLAGS_MAX", 1 if request.param == 0 else 1 << 26)


@pytest.fixture(autouse=True)
def spilled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A limit of a hundred bytes; how many sources were stored in a file, of which every test must have some."""
    written: list[int] = []
    make = tempfile.mkstemp

    def counted(**options: Any) -> Any:
        written.append(1)
        return make(**options)

    monkeypatch.setattr(tempfile, "mkstemp", counted)
    monkeypatch.setattr(upsert_source, "MEMORY_MAX_BYTES", 100)
    yield written
    assert written


def batches(numbers: list[int]) -> Iterator[pa.RecordBatch]:
    """A row of each number, in batches: ``v`` is its place in the source."""
    for first in range(0, len(numbers), PER_BATCH):
        some = numbers[first : first + PER_BATCH]
        names = [f"the name of {number}" for number in some]
        yield pa.record_batch({"id": some, "name": names, "v": range(first, first + len(some))})


def distinct() -> list[int]:
    count = BATCHES * PER_BATCH
    return [number * 7919 % count for number in range(count)]


@KEYS
@pytest.mark.parametrize(("first", "second"), [(0, 1999), (3, 4), (777, 1501), (49, 50)])
def test_two_rows_with_one_key_are_found_however_far_apart_they_are(
    tmp_path: Path, keys: list[str], first: int, second: int
) -> None:
    table = txlog.Table.create(tmp_path, "id bigint, name string, v bigint")
    numbers = distinct()
    numbers[second] = numbers[first]
    match = rf"rows {first} and {second} of the source .* have one key, .*\b{numbers[first]}\b"
    with pytest.raises(InvalidInputError, match=match):
        table.upsert(batches(numbers), keys)
    assert table.version == 0
    table.upsert(batches(distinct()), keys)
    assert table.count() == len(numbers)


@KEYS
def test_upserts_in_a_row_find_the_keys_that_the_handle_keeps(tmp_path: Path, keys: list[str]) -> None:
    table = txlog.Table.create(tmp_path, "id bigint, name string, v bigint")
    for turn in range(4):
        numbers = [number + 500 * turn for number in distinct()]
        did = table.upsert(batches(numbers), keys).metrics
        assert (did.rows_inserted, did.rows_updated) == ((2000, 0) if turn == 0 else (500, 1500))
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(3500))


@KEYS
def test_known_rows_keep_their_other_columns_if_some_are_updated(tmp_path: Path, keys: list[str]) -> None:
    table = txlog.Table.create(tmp_path, "id bigint, name string, v bigint, w string")
    table.append(pa.table({"id": [5, 9000], "name": ["the name of 5", "x"], "v": [-1, -1], "w": ["kept", "kept"]}))
    table.upsert(batches(distinct()), keys, update_columns=["v"], when_not_matched="ignore")
    row = {"id": 5, "name": "the name of 5", "v": distinct().index(5), "w": "kept"}
    assert table.to_arrow(where="id = 5").to_pylist() == [row]
    assert table.count() == 2


@KEYS
@pytest.mark.parametrize("sequence_by", [None, "v"])
def test_the_last_of_rows_far_apart_counts(tmp_path: Path, keys: list[str], sequence_by: str | None) -> None:
    table = txlog.Table.create(tmp_path, "id bigint, name string, v bigint")
    table.upsert(batches(distinct()[:1000]), keys)
    numbers = [number % 613 for number in distinct()]
    last = {number: place for place, number in enumerate(numbers)}
    table.upsert(batches(numbers), keys, on_duplicate="last", sequence_by=sequence_by)
    left = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
    assert {number: left[number] for number in last} == last
    assert table.count() == len(last) + sum(number not in last for number in distinct()[:1000])


@pytest.mark.parametrize("sorted_by", ["id", "name"])
def test_rows_are_found_in_the_files_at_both_ends_of_the_keys(tmp_path: Path, sorted_by: str) -> None:
    """Of a key column with repeated values, too."""
    table = txlog.Table.create(tmp_path, "id bigint, name string, v bigint")
    for first in range(0, 2000, 100):
        table.append(pa.table({"id": range(first, first + 100), "name": [f"{first // 400}"] * 100, "v": [-1] * 100}))
    given = [number for number in distinct() if number < 300 or number > 1700]
    rows = pa.table({"id": given, "name": [f"{number // 400}" for number in given], "v": [0] * len(given)})
    keys = ["id", "name"] if sorted_by == "id" else ["name", "id"]
    did = table.upsert(iter(rows.to_batches(20)), keys).metrics
    assert (did.rows_inserted, did.rows_updated) == (0, len(given))
    assert table.count("v = 0") == len(given)
    assert table.count() == 2000
