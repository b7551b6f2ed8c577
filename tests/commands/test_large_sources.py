"""Sources of upserts that are stored in a temporary file, as they are above a limit of memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.arrow import spill
from txlog.commands.upsert import source as upsert_source
from txlog.errors import InvalidInputError

KEYS = pytest.mark.parametrize("keys", [["id"], ["name"], ["name", "id"]], ids=", ".join)
BATCHES, PER_BATCH = 40, 50


@pytest.fixture(autouse=True)
def spilled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A limit of a hundred bytes; how many sources were stored in a file, of which every test must have some."""
    written: list[int] = []
    store = spill._spilled

    def counted(*given: Any) -> pa.Table:
        written.append(1)
        return store(*given)

    monkeypatch.setattr(spill, "_spilled", counted)
    defaults = upsert_source.read_source.__kwdefaults__ or {}
    monkeypatch.setattr(upsert_source.read_source, "__kwdefaults__", {**defaults, "memory_max_bytes": 100})
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
