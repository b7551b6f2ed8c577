"""Rows find their partition: the same answer as a loop over rows would give, for every partition type."""

from __future__ import annotations

import datetime
from collections import defaultdict
from decimal import Decimal as D
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.partition_values import encode
from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Struct,
    to_arrow,
)
from txlog.core.writing._task_writer import PartitionKey, Router
from txlog.errors import InvalidInputError

UTC = datetime.timezone.utc
VALUES: dict[DataType, list[Any]] = {
    STRING: [
        "",
        "a",
        "US/East",
        "50%",
        "a=b",
        "line\nbreak",
        "smile 😀",
        "x" * 300,
        "Ü",
        " ",
        "__HIVE_DEFAULT_PARTITION__",
    ],
    INTEGER: [0, -1, 2**31 - 1],
    LONG: [0, -(2**63), 7],
    DOUBLE: [0.0, -0.0, 1.5, float("nan"), float("inf"), 1e300],
    BOOLEAN: [True, False],
    DATE: [datetime.date(1, 1, 1), datetime.date(2024, 2, 29)],
    TIMESTAMP: [datetime.datetime(2024, 1, 1, 5, 6, 7, 8, tzinfo=UTC), datetime.datetime(1969, 12, 31, tzinfo=UTC)],
    TIMESTAMP_NTZ: [datetime.datetime(2024, 1, 1, 5, 6, 7, 8), datetime.datetime(2024, 1, 1)],
    BINARY: [b"", b"abc"],
    Decimal(10, 3): [D("0.000"), D("-1.500"), D("1234567.891")],
}


def routed(fields: list[Field], rows: list[dict[str, Any]]) -> dict[PartitionKey, list[int]]:
    schema = Struct((*fields, Field("row", LONG)))
    batch = pa.RecordBatch.from_pylist([{**row, "row": n} for n, row in enumerate(rows)], to_arrow(schema))
    router = Router(schema, [field.name for field in fields])
    found: dict[PartitionKey, list[int]] = {}
    for key, part in router.route(batch, ["row"]):
        assert key not in found
        assert part.schema.names == ["row"]
        found[key] = part["row"].to_pylist()
    return found


def by_loop(fields: list[Field], rows: list[dict[str, Any]]) -> dict[PartitionKey, list[int]]:
    found: dict[PartitionKey, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        found[tuple(encode(row[field.name], field.type) for field in fields)].append(number)
    return dict(found)


@given(st.data())
def test_rows_are_grouped_as_a_loop_over_rows_would_group_them(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    fields = [Field(f"p{n}", data_type) for n, data_type in enumerate(types)]
    row = st.fixed_dictionaries({f.name: st.none() | st.sampled_from(VALUES[f.type]) for f in fields})
    rows = data.draw(st.lists(row, min_size=1, max_size=40))
    assert routed(fields, rows) == by_loop(fields, rows)


@pytest.mark.parametrize("distinct", [1, 200, 300])
def test_any_number_of_partitions_keeps_each_row_once_and_in_order(distinct: int) -> None:
    values = [(n * 7919) % distinct for n in range(max(1000, distinct))]
    found = routed([Field("p", LONG)], [{"p": value} for value in values])
    assert len(found) == distinct
    assert sum(map(len, found.values())) == len(values)
    assert all(rows == sorted(rows) and {values[n] for n in rows} == {int(key[0] or 0)} for key, rows in found.items())


def test_more_partitions_than_fit_into_16_bits_are_kept_apart() -> None:
    schema = Struct((Field("p", LONG), Field("x", LONG)))
    batch = pa.record_batch({"p": list(range(66_000, 0, -1)), "x": list(range(66_000))})
    codes, keys = Router(schema, ["p"])._codes(batch)
    assert [keys[code] for code in codes.tolist()] == [(str(n),) for n in range(66_000, 0, -1)]


def test_two_wide_partition_columns_do_not_overflow_their_codes() -> None:
    rows = [{"a": n % 1500, "b": (n * 31) % 1499, "c": n % 2} for n in range(1500)]
    fields = [Field("a", LONG), Field("b", LONG), Field("c", LONG)]
    assert routed(fields, rows) == by_loop(fields, rows)


def test_a_batch_of_one_partition_is_not_copied() -> None:
    schema = Struct((Field("p", LONG), Field("x", LONG)))
    batch = pa.record_batch({"p": [5, 5], "x": [1, 2]})
    ((key, rows),) = Router(schema, ["p"]).route(batch, ["x"])
    assert key == ("5",)
    assert rows["x"].buffers()[1].address == batch["x"].buffers()[1].address


def test_a_routed_part_does_not_hold_the_memory_of_the_whole_batch() -> None:
    schema = Struct((Field("p", LONG), Field("x", LONG)))
    batch = pa.record_batch({"p": [n % 10 for n in range(10_000)], "x": list(range(10_000))})
    for _, rows in Router(schema, ["p"]).route(batch, ["x"]):
        assert rows.get_total_buffer_size() < 10_000


def test_partition_columns_are_found_whatever_their_case() -> None:
    schema = Struct((Field("Day", STRING), Field("x", LONG)))
    ((key, _),) = Router(schema, ["day"]).route(pa.record_batch({"Day": ["a"], "x": [1]}), ["x"])
    assert key == ("a",)


@pytest.mark.parametrize(
    ("field", "values", "reason"),
    [
        (Field("p", STRING, False), pa.array(["a", ""]), "NOT NULL"),
        (Field("p", BINARY), pa.array([b"\xff"]), "UTF-8"),
        (Field("p", DATE), pa.array([-2_000_000], pa.date32()), "years 1 to 9999"),
    ],
)
def test_the_error_for_an_impossible_partition_value_names_the_column(
    field: Field, values: pa.Array, reason: str
) -> None:
    router = Router(Struct((field, Field("x", LONG))), ["p"])
    batch = pa.record_batch({"p": values, "x": pa.nulls(len(values), pa.int64())})
    with pytest.raises(InvalidInputError, match=f"p.*{reason}"):
        list(router.route(batch, ["x"]))


def test_a_nested_partition_column_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="p is a array<bigint>: a table cannot be partitioned by it"):
        Router(Struct((Field("p", Array(LONG)), Field("x", LONG))), ["p"])


def test_a_partition_column_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="partition column day"):
        Router(Struct((Field("x", LONG),)), ["day"])
