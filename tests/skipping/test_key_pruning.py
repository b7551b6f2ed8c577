"""Files that may hold a key: none that holds one is left out, whatever its statistics say or leave out."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.protocol.properties import TableProperties
from txlog.protocol.schema import Struct, from_arrow, to_arrow
from txlog.protocol.statistics import FileStatistics, StatisticsPolicy
from txlog.skipping.key_pruning import KeyPruner, key_range

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
    if set(asked) & set(held):
        assert pruner.may_hold({}, stats)
    condition = key_range([(name,)], columns, schema)
    if condition is not None:
        kept = rows.filter(condition.to_arrow()).column(0).to_pylist()
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
    assert pruner.may_hold({"p": "x"}, stats) is may_hold
    assert pruner.may_hold({"p": "z"}, stats) is False, "a partition that no key has"
    assert pruner.may_hold({"p": None}, stats) is False
    assert pruner.holds_others({"p": "x"}, stats) is (low < 5 or high > 10)
