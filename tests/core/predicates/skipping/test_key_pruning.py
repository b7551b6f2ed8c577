"""Files that may hold a key: none that holds one is left out, whatever its statistics say or leave out."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.properties import TableProperties
from txlog.core.format.schema import Struct, from_arrow, to_arrow
from txlog.core.format.statistics import FileStatistics, StatisticsPolicy
from txlog.core.predicates import evaluate
from txlog.core.predicates.skipping._key_pruning import KeyPruner, KeyRanges, key_range

KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "i": (pa.int32(), st.integers(-5, 5)),
    "s": (pa.string(), st.text("ab\U0010ffff", max_size=40)),
    "d": (pa.date32(), st.dates()),
    "t": (pa.timestamp("us"), st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))),
    "c": (pa.decimal128(20, 6), st.decimals(-(10**9), 10**9, places=6).map(decimal.Decimal)),
    "b": (pa.binary(), st.binary(max_size=3)),
    "f": (pa.bool_(), st.booleans()),
}


@given(st.data(), st.sampled_from(sorted(KINDS)), st.booleans())
def test_a_file_with_a_key_is_never_left_out(data: Any, name: str, has_statistics: bool) -> None:
    kind, values = KINDS[name]
    held = data.draw(st.lists(st.one_of(values, st.none()), min_size=1, max_size=4))
    asked = data.draw(st.lists(values, min_size=1, max_size=3))
    schema = from_arrow(pa.schema([(name, kind)]))
    rows = pa.table({name: pa.array(held, kind)}, to_arrow(schema))
    stats = _statistics(rows, schema) if has_statistics else None
    columns = [pa.array(asked, kind)]
    pruner = KeyPruner([(name,)], columns, schema, ())
    in_columns = pruner.mask(_files([({}, stats)] * 40)).tolist()
    assert set(in_columns) == {pruner.of_one_file.may_match({}, stats)}, "the rule for one file is the oracle"
    if set(asked) & set(held):
        assert all(in_columns)
    condition = key_range([(name,)], columns, schema)
    if condition is not None:
        kept = rows.filter(evaluate(condition, rows)).column(0).to_pylist()
        assert {value for value in held if value in asked} <= set(kept)


def _statistics(rows: pa.Table, schema: Struct) -> str:
    policy = StatisticsPolicy.of(schema, TableProperties(), ())
    sink = pa.BufferOutputStream()
    collected: list[Any] = []
    with pq.ParquetWriter(sink, rows.schema, metadata_collector=collected) as writer:
        writer.write_table(rows)
    statistics = FileStatistics(policy)
    statistics.observe(rows)
    return statistics.finish(collected[0])


@pytest.mark.parametrize(
    ("low", "high", "may_hold"), [(0, 4, False), (0, 5, True), (6, 8, False), (9, 20, True), (11, 20, False)]
)
def test_bounds_between_keys_exclude_a_file(low: int, high: int, may_hold: bool) -> None:
    schema = from_arrow(pa.schema([("i", pa.int64()), ("p", pa.string())]))
    pruner = KeyPruner([("i",), ("p",)], [pa.array([5, 9, 10]), pa.array(["x", "y", "x"])], schema, ("p",))
    stats = orjson.dumps({"numRecords": 2, "minValues": {"i": low}, "maxValues": {"i": high}}).decode()
    asked: list[dict[str, str | None]] = [{"p": "x"}, {"p": "z"}, {"p": None}]
    by_one_rule = [pruner.of_one_file.may_match(values, stats) for values in asked]
    assert by_one_rule == [may_hold, False, False], "no key has the partition z"
    assert pruner.mask(_files([(values, stats) for values in asked * 20])).tolist() == by_one_rule * 20
    assert pruner.of_one_file.holds_others({"p": "x"}, stats) is (low < 5 or high > 10)


_BOUNDS: dict[str, tuple[pa.DataType, tuple[Any, ...], tuple[Any, ...]]] = {
    "integers": (pa.int64(), (-3, 0, 7, 2**62), (-4, -3, 0, 1, 7, 8, 2**63 - 1, 1.5, "x", None)),
    "strings": (pa.string(), ("", "b", "bc", "\U0001f600"), ("", "a", "b", "bb", "\uffff", "b\ufffd", 3, None)),
    "days": (
        pa.date32(),
        (datetime.date(1, 1, 1), datetime.date(2026, 11, 20)),
        ("2026-11-19", "2026-11-20", "0001-01-01", "10000-01-01", "yesterday", None),
    ),
    "moments": (
        pa.timestamp("us", "UTC"),
        (datetime.datetime(2026, 11, 20, 1, 2, 3, 4567, datetime.timezone.utc),),
        ("2026-11-20T01:02:03.004Z", "2026-11-20T01:02:03.003Z", "2026-11-20T02:02:03.005+01:00", "soon", None),
    ),
    "decimals": (
        pa.decimal128(38, 6),
        (decimal.Decimal("1.000001"), decimal.Decimal(10) ** 25),
        (1, 1.000001, 1e25, 1.0000000000000001e25, -(2**63), 2**63 - 1, 1e40, None),
    ),
}


@given(st.data(), st.sampled_from(sorted(_BOUNDS)))
def test_many_files_are_decided_like_each_by_itself(data: Any, name: str) -> None:
    kind, values, bounds = _BOUNDS[name]
    asked = data.draw(st.lists(st.sampled_from(values), max_size=4))
    days = data.draw(st.lists(st.sampled_from((3, 5)), min_size=len(asked), max_size=len(asked)))
    schema = from_arrow(pa.schema([("k", kind), ("day", pa.int32())]))
    pruner = KeyPruner([("k",), ("day",)], [pa.array(asked, kind), pa.array(days, pa.int32())], schema, ("day",))
    files = [(data.draw(_PARTITIONS), data.draw(_texts(bounds))) for _ in range(40)]
    expected = [pruner.of_one_file.may_match(dict(partition), text) for partition, text in files]
    assert pruner.mask(_files(files)).tolist() == expected


_PARTITIONS = st.sampled_from(({"day": "3"}, {"day": "5"}, {"day": "7"}, {"day": None}, {"day": "x"}, {}))


@st.composite
def _texts(draw: Any, bounds: tuple[Any, ...]) -> str | None:
    """Statistics as writers write them, and as they should not."""
    stats: dict[str, Any] = {}
    for member in ("minValues", "maxValues"):
        if draw(st.booleans()):
            stats[member] = {"k": draw(st.sampled_from(bounds))}
    if draw(st.booleans()):
        stats["numRecords"] = draw(st.sampled_from((0, 2)))
    if draw(st.booleans()):
        stats["nullCount"] = {"k": draw(st.sampled_from((0, 1, 2, 3)))}
    return draw(st.sampled_from((orjson.dumps(stats).decode(),) * 8 + (None, "nonsense")))


def _files(files: Sequence[tuple[Mapping[str, str | None], str | None]]) -> pa.RecordBatch:
    maps = pa.array([list(values.items()) for values, _ in files], pa.map_(pa.string(), pa.string()))
    return pa.RecordBatch.from_arrays(
        [maps, pa.array([text for _, text in files], pa.string())], names=["partitionValues", "stats"]
    )


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=5),
    st.integers(-5, 50),
    st.integers(0, 6),
    st.booleans(),
)
def test_a_file_between_ranges_of_keys_is_left_out(
    steps: list[tuple[int, int]], low: int, width: int, is_text: bool
) -> None:
    ranges: list[tuple[int, int]] = []
    for gap, length in steps:
        first = (ranges[-1][1] if ranges else 0) + gap + 1
        ranges.append((first, first + length))
    kind, written = (pa.string(), "{:05}".format) if is_text else (pa.int64(), int)
    schema = from_arrow(pa.schema([("k", kind)]))
    low, high = low + 10, low + 10 + width
    keys = KeyRanges(*(pa.array([written(each) for each in ends], kind) for ends in zip(*ranges, strict=True)))
    pruner = KeyPruner([("k",)], [keys], schema, ())
    stats = orjson.dumps(
        {"numRecords": 2, "minValues": {"k": written(low)}, "maxValues": {"k": written(high)}}
    ).decode()
    wanted = any(first <= high and low <= last for first, last in ranges)
    assert pruner.of_one_file.may_match({}, stats) is wanted
    assert pruner.mask(_files([({}, stats)] * 40)).tolist() == [wanted] * 40
    assert pruner.of_one_file.holds_others({}, stats) is (low < ranges[0][0] or high > ranges[-1][1])
    condition = key_range([("k",)], [keys], schema)
    assert condition is not None
    rows = pa.table({"k": pa.array([written(each) for each in (ranges[0][0] - 1, ranges[0][0], ranges[-1][1])], kind)})
    assert rows.filter(evaluate(condition, rows)).num_rows == 2
