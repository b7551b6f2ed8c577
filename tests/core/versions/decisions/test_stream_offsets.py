"""Offsets of a stream from a table: each file once, in order, within the limits, in the words of Delta's source."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.versions.decisions.stream_offsets import (
    FileRange,
    ReadLimits,
    StreamOffset,
    VersionSizes,
    end_of_batch,
    file_ranges,
    replayed_start,
)
from txlog.errors import InvalidInputError

History = list[list[int]]
"""The sizes of the files that each version added."""


def at(version: int, index: int = -1, is_initial: bool = False) -> StreamOffset:
    return StreamOffset("t", version, index, is_initial)


def versions_from(start: StreamOffset, history: History) -> Iterator[VersionSizes]:
    if start.is_initial:
        yield VersionSizes(start.version, True, [size for sizes in history[: start.version + 1] for size in sizes])
    for version in range(start.version + int(start.is_initial), len(history)):
        yield VersionSizes(version, False, history[version])


def files_of(ranges: Iterator[FileRange], history: History) -> list[tuple[int, int, int]]:
    """The files of ranges, each as (version that added it, its number there, its size)."""
    everything = [[(version, at, size) for at, size in enumerate(sizes)] for version, sizes in enumerate(history)]
    found = []
    for each in ranges:
        versions = everything[: each.version + 1] if each.is_initial else [everything[each.version]]
        found += list(itertools.chain.from_iterable(versions))[each.first : each.stop]
    return found


HISTORIES = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6)
LIMITS = st.builds(ReadLimits, st.none() | st.integers(1, 4), st.none() | st.integers(1, 12), st.booleans())


def test_the_file_that_reaches_the_limit_of_bytes_is_the_last_of_its_batch() -> None:
    assert end_of_batch(at(1), versions_from(at(1), [[], [5, 5, 5]]), ReadLimits(size_bytes=5)) == at(1, 0)
    assert end_of_batch(at(1), versions_from(at(1), [[], [5, 5, 5]]), ReadLimits(size_bytes=6)) == at(1, 1)
    assert end_of_batch(at(1), versions_from(at(1), [[], [5, 5, 5]]), ReadLimits(size_bytes=10)) == at(1, 1)


@given(history=HISTORIES, limits=LIMITS, data=st.data())
def test_batches_give_each_file_once_in_order_within_the_limits(
    history: History, limits: ReadLimits, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(history) - 1))
    is_initial = data.draw(st.booleans())
    start = at(first, is_initial=is_initial)
    seen: list[tuple[int, int, int]] = []
    for _ in range(100):
        end = end_of_batch(start, versions_from(start, history), limits)
        end = StreamOffset.from_json(json.loads(json.dumps(end.to_json())), "t")
        batch = files_of(file_ranges(start, end), history)
        if limits.by_version and not end.is_initial:
            assert end.index == -1
        elif not limits.by_version:
            assert limits.files is None or len(batch) <= limits.files
            assert limits.size_bytes is None or sum(size for _, _, size in batch[:-1]) < limits.size_bytes
        seen += batch
        if end == start:
            break
        start = end
    assert start == at(len(history))
    skipped = 0 if is_initial else first
    assert seen == [(v, n, size) for v, sizes in enumerate(history) for n, size in enumerate(sizes) if v >= skipped]


@given(history=HISTORIES, limits=LIMITS, data=st.data())
def test_the_first_batch_has_the_same_files_when_it_runs_again_after_more_was_committed(
    history: History, limits: ReadLimits, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(history) - 1))
    start = at(first, is_initial=True)
    end = end_of_batch(start, versions_from(start, history), limits)
    for later in range(first, len(history)):
        again = replayed_start(at(later, is_initial=True), end)
        assert files_of(file_ranges(again, end), history) == files_of(file_ranges(start, end), history)


def test_a_batch_that_begins_a_snapshot_ends_with_it_at_the_latest() -> None:
    """Only then does its end show the version of the snapshot."""
    start = at(1, is_initial=True)
    assert end_of_batch(start, versions_from(start, [[1], [1], [1]]), ReadLimits()) == at(2)
    assert end_of_batch(at(1, 0, True), versions_from(start, [[1], [1], [1]]), ReadLimits()) == at(3)


def test_a_file_larger_than_the_limit_is_a_batch_and_versions_without_files_are_passed_over() -> None:
    history: History = [[], [50, 50], [], [], [1]]
    limits = ReadLimits(size_bytes=10)
    assert end_of_batch(at(0), versions_from(at(0), history), limits) == at(1, 0)
    assert end_of_batch(at(1, 0), versions_from(at(1, 0), history), limits) == at(2)
    assert end_of_batch(at(2), versions_from(at(2), history), limits) == at(5)
    assert end_of_batch(at(5), versions_from(at(5), history), limits) == at(5)


def test_no_more_versions_are_asked_for_than_the_limits_need() -> None:
    def versions() -> Iterator[VersionSizes]:
        yield VersionSizes(0, False, [1, 1])
        raise AssertionError("asked for another version")

    assert end_of_batch(at(0), versions(), ReadLimits(files=2)) == at(1)


WIRE = {
    "of a snapshot": ((1, 4, -1, True), at(4, -1, True)),
    "of a file": ((1, 4, 7, False), at(4, 7)),
    "before a change of the schema": ((3, 4, -20, False), at(4)),
    "behind the last file": ((1, 4, 9223372036854775707, False), at(5)),
}


@pytest.mark.parametrize("kind", WIRE)
def test_offsets_that_deltas_source_writes_are_understood(kind: str) -> None:
    (source_version, version, index, is_initial), offset = WIRE[kind]
    written = {
        "sourceVersion": source_version,
        "reservoirId": "t",
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": is_initial,
    }
    assert StreamOffset.from_json(written, "t") == offset


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reservoirId": "u"}, "is for the table with id u, but the location now has the table with id t"),
        ({"sourceVersion": 4}, "format that this release cannot read"),
        ({"reservoirVersion": "4"}, "not a Delta table's"),
        ({"index": None}, "not a Delta table's"),
        ({"isStartingVersion": None}, "format that this release cannot read"),
    ],
)
def test_an_offset_of_something_else_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        StreamOffset.from_json({**at(4).to_json(), **change}, "t")
    assert message in caught.value.message


def test_a_batch_of_two_streams_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be of one stream"):
        list(file_ranges(at(3), at(4, 0, True)))
