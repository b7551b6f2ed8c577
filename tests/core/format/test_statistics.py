"""Statistics of files: whatever the rows, every bound holds and says as much as it can.

Judges: the rows themselves, what Spark wrote for the same rows (golden tables), and deltalake as a reader.
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import golden
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog.core.format.statistics as protocol_statistics
from txlog.core.format.properties import TableProperties
from txlog.core.format.schema import (
    BOOLEAN,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Field,
    Struct,
    from_arrow,
    leaf_paths,
    parse_schema,
    schema_to_json,
    to_arrow,
)
from txlog.core.format.statistics import FileStatistics, StatisticsPolicy, check_statistics_columns
from txlog.core.format.statistics_read import StatisticsReader
from txlog.errors import InvalidInputError

OLD_PYARROW = int(pa.__version__.partition(".")[0]) < 25

EPOCH = datetime.datetime(1970, 1, 1)
D = decimal.Decimal


def parquet(table: pa.Table, rows_per_group: int = 1_000) -> pq.FileMetaData:
    """The footer of this table as a file with row groups of this size, read back from its bytes."""
    body = io.BytesIO()
    with pq.ParquetWriter(body, table.schema, store_schema=False, use_dictionary=False) as writer:
        for start in range(0, table.num_rows, rows_per_group):
            writer.write_table(table.slice(start, rows_per_group))
    return pq.read_metadata(io.BytesIO(body.getvalue()))


def policy_of(table: pa.Table, **properties: Any) -> StatisticsPolicy:
    return StatisticsPolicy.of(from_arrow(table.schema), TableProperties(**properties), ())


def statistics_text(table: pa.Table, rows_per_group: int = 1_000, **properties: Any) -> str:
    """Floats are looked at one by one, or all at once where they are many: what is found must be the same."""
    footer = parquet(table, rows_per_group)
    texts = set()
    for few_rows in (0, len(table)):
        with mock.patch.object(protocol_statistics, "FEW_ROWS", few_rows):
            collected = FileStatistics(policy_of(table, **properties))
            collected.observe(table)
            texts.add(collected.finish(footer))
    (text,) = texts
    return text


def statistics(table: pa.Table, rows_per_group: int = 1_000, **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(statistics_text(table, rows_per_group, **properties), parse_float=D)
    return found


# --- the property: no bound lies ------------------------------------------------------------------------------------

SPITEFUL = "a~\x00\x7e\x7f\x80é\ud7ff\ue000\ufffd\uffff\U00010000\U0001f600\U0010fffe\U0010ffff"
STRINGS = st.one_of(
    st.text(st.sampled_from(SPITEFUL), max_size=90),
    st.builds(lambda start, rest: start * 31 + rest, st.sampled_from(SPITEFUL), st.text(max_size=40)),
    st.builds(lambda n, rest: "\U0010ffff" * n + rest, st.integers(0, 70), st.text(st.sampled_from(SPITEFUL))),
)
INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(10**15), 10**15))
EDGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf])
COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): INT64,
    pa.float32(): st.one_of(st.floats(width=32), EDGES),
    pa.float64(): st.one_of(st.floats(), EDGES),
    pa.string(): STRINGS,
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-800_000, 3_000_000)),
    pa.timestamp("us", "UTC"): INT64,
    pa.timestamp("us"): INT64,
    pa.decimal128(5, 2): st.integers(-99_999, 99_999).map(lambda n: D(n).scaleb(-2)),
    pa.decimal128(18, 18): st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: D(n).scaleb(-18)),
    pa.decimal128(38, 10): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: D(n).scaleb(-10, decimal.Context(prec=40))
    ),
    pa.list_(pa.float64()): st.lists(st.one_of(st.none(), st.floats()), max_size=2),
    pa.map_(pa.string(), pa.int32()): st.lists(st.tuples(st.text(max_size=3), st.none()), max_size=1),
}
FLAT = list(COLUMNS)


@st.composite
def a_type(draw: st.DrawFn, depth: int = 2) -> pa.DataType:
    if depth and draw(st.integers(0, 3)) == 0:
        members = draw(st.lists(a_type(depth - 1), min_size=1, max_size=3))
        return pa.struct([(f"m{i}", member) for i, member in enumerate(members)])
    return draw(st.sampled_from(FLAT))


def values_of(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(data_type):
        members = {field.name: values_of(field.type) for field in data_type.fields}
        return st.one_of(st.none(), st.fixed_dictionaries(members))
    return st.one_of(st.none(), COLUMNS[data_type])


@st.composite
def a_table(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Rows, and the same rows as an Arrow table in chunks with offsets. Dates and timestamps are plain integers."""
    types = {f"c{i}": kind for i, kind in enumerate(draw(st.lists(a_type(), min_size=1, max_size=4)))}
    count = draw(st.integers(0, 12))
    rows = [{name: draw(values_of(kind)) for name, kind in types.items()} for _ in range(count)]
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    whole = pa.table(columns, schema=pa.schema(types))
    cut = draw(st.integers(0, count))
    return pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]), rows


def at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if row is None:
            return None
        row = row[name]
    return row


def bound_at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return None
        tree = tree[name]
    return tree


def micros(moment: datetime.datetime) -> int:
    return (moment.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)


def from_json(raw: Any, kind: pa.DataType) -> Any:
    """What the text of a bound says, in the form of the drawn values; independent of the reader under test."""
    if raw is None:
        return None
    if pa.types.is_date(kind):
        return (datetime.date.fromisoformat(raw) - EPOCH.date()).days
    if pa.types.is_timestamp(kind):
        assert raw.endswith("Z") == (kind.tz is not None)
        return micros(datetime.datetime.strptime(raw.removesuffix("Z") + "000", "%Y-%m-%dT%H:%M:%S.%f"))
    return float(raw) if pa.types.is_floating(kind) else raw


def leaves(schema: pa.Schema) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    def below(path: tuple[str, ...], kind: pa.DataType) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
        if pa.types.is_struct(kind):
            for field in kind.fields:
                yield from below((*path, field.name), field.type)
        else:
            yield path, kind

    for field in schema:
        yield from below((field.name,), field.type)


@given(a_table(), st.integers(1, 6), st.integers(1, 40))
def test_every_row_is_within_the_bounds_and_every_null_is_counted(
    drawn: tuple[pa.Table, list[dict[str, Any]]], rows_per_group: int, prefix_length: int
) -> None:
    table, rows = drawn
    text = statistics_text(table, rows_per_group, data_skipping_string_prefix_length=prefix_length)
    found = json.loads(text, parse_float=D)
    parsed = StatisticsReader(from_arrow(table.schema)).read(text)
    assert found["numRecords"] == parsed.num_records == len(rows)
    for path, kind in leaves(table.schema):
        values = [at(row, path) for row in rows]
        assert bound_at(found["nullCount"], path) == parsed.null_count[path] == values.count(None)
        low, high = bound_at(found["minValues"], path), bound_at(found["maxValues"], path)
        check_leaf([value for value in values if value is not None], kind, low, high, prefix_length)
        check_parsed(parsed.minimum.get(path), parsed.maximum.get(path), values, kind)


def check_leaf(values: list[Any], kind: pa.DataType, low: Any, high: Any, prefix_length: int) -> None:
    """The bounds hold, by the text alone, and are there and tight wherever the type has them."""
    nan = pa.types.is_floating(kind) and any(math.isnan(value) for value in values)
    if not values or nan or pa.types.is_nested(kind) or pa.types.is_binary(kind):
        assert low is None
        assert high is None
        return
    smallest, greatest = min(values), max(values)
    least, most = from_json(low, kind), from_json(high, kind)
    if pa.types.is_string(kind):
        assert least == smallest[:prefix_length]
        if high is None:
            assert greatest.startswith("\U0010ffff" * 2 * prefix_length)
        else:
            assert most >= greatest
            assert len(most) <= 2 * prefix_length + 1
            goes_on = greatest.startswith(greatest[:prefix_length] + "\U0010ffff" * prefix_length)
            assert goes_on or most == greatest or most[:prefix_length] == greatest[:prefix_length]
    elif pa.types.is_date(kind):
        assert least == (smallest if -719_162 <= smallest <= 2_932_896 else None)
        assert most == (greatest if -719_162 <= greatest <= 2_932_896 else None)
    elif pa.types.is_timestamp(kind):
        first, last = -719_162 * 86_400_000_000, 2_932_897 * 86_400_000_000 - 1
        assert least == (smallest // 1_000 * 1_000 if first <= smallest <= last else None)
        assert most == (greatest // 1_000 * 1_000 if first <= greatest <= last else None)
    elif OLD_PYARROW and pa.types.is_floating(kind) and any(math.isinf(value) for value in values):
        assert least <= smallest, "bounds of columns with infinities hold, but are not tight, before pyarrow 25"
        assert most >= greatest
    else:
        assert least == smallest
        assert most == greatest


def check_parsed(low: Any, high: Any, values: list[Any], kind: pa.DataType) -> None:
    """The bounds hold as our reader gives them: a maximum of timestamps widened."""
    for value in values:
        if value is None or (low is None and high is None):
            continue
        if pa.types.is_date(kind):
            assert low is None or (low - EPOCH.date()).days <= value
            assert high is None or value <= (high - EPOCH.date()).days
        elif pa.types.is_timestamp(kind):
            assert low is None or micros(low) <= value
            assert high is None or value <= micros(high)
        else:
            assert low is None or low <= value
            assert high is None or value <= high


@given(st.lists(st.sampled_from([0.0, -0.0]), min_size=1, max_size=4), st.integers(1, 3))
def test_a_minimum_of_zero_is_negative_only_where_a_negative_zero_was_written(
    values: list[float], rows_per_group: int
) -> None:
    """Parquet footers say -0.0 for any zero; a reader that answers MIN from statistics would show it."""
    found = statistics(pa.table({"x": pa.array(values)}), rows_per_group)
    has_negative = any(math.copysign(1, value) < 0 for value in values)
    assert math.copysign(1, found["minValues"]["x"]) == (-1 if has_negative else 1)
    assert math.copysign(1, found["maxValues"]["x"]) == 1


def test_values_beneath_nulls_affect_neither_bounds_nor_negative_zeros() -> None:
    nan_below_null = pa.Array.from_buffers(
        pa.float64(), 2, [pa.py_buffer(b"\x01"), pa.array([1.5, math.nan]).buffers()[1]]
    )
    found = statistics(pa.table({"x": nan_below_null}))
    assert (found["minValues"]["x"], found["nullCount"]["x"]) == (D("1.5"), 1)
    less_below_null = pa.Array.from_buffers(
        pa.float64(), 2, [pa.py_buffer(b"\x01"), pa.array([-0.0, -7.0]).buffers()[1]]
    )
    assert math.copysign(1, statistics(pa.table({"x": less_below_null}))["minValues"]["x"]) == -1


def test_garbage_in_a_later_chunk_does_not_make_an_earlier_nan_forgotten() -> None:
    garbage = pa.Array.from_buffers(pa.float64(), 1, [pa.py_buffer(b"\x00"), pa.array([math.nan]).buffers()[1]])
    table = pa.table({"x": pa.chunked_array([pa.array([1.0, math.nan]), garbage])})
    assert statistics(table)["minValues"] == {}


def test_nan_beneath_a_null_struct_is_no_value() -> None:
    inner = pa.array([1.0, math.nan])
    table = pa.table({"s": pa.StructArray.from_arrays([inner], ["x"], mask=pa.array([False, True]))})
    assert statistics(table)["maxValues"] == {"s": {"x": D("1.0")}}


def test_nan_in_any_batch_leaves_the_column_without_bounds_and_others_with_theirs() -> None:
    batches = [pa.record_batch({"x": [value], "y": [value + 1]}) for value in (1.0, 2.0, 3.0)]
    batches[1] = pa.record_batch({"x": [math.nan], "y": [9.0]})
    collected = FileStatistics(policy_of(pa.Table.from_batches(batches)))
    for batch in batches:
        collected.observe(batch)
    found = json.loads(collected.finish(parquet(pa.Table.from_batches(batches), 1)))
    assert found["minValues"] == {"y": 2.0}
    assert found["maxValues"] == {"y": 9.0}
    assert found["nullCount"] == {"x": 0, "y": 0}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("nested", [False, True])
def test_nan_among_numbers_in_one_row_group_leaves_no_bounds(kind: pa.DataType, nested: bool) -> None:
    values = pa.array([1.0, None, math.nan, -2.0], kind)
    table = pa.table({"x": pa.StructArray.from_arrays([values], ["y"]) if nested else values})
    found = statistics(table)
    assert (found["minValues"], found["maxValues"]) == ({}, {})


def test_only_the_rows_of_a_slice_are_looked_at() -> None:
    whole = pa.table({"x": [math.nan, 0.0, -0.0], "s": pa.array([{"y": math.nan}, {"y": 0.0}, {"y": -0.0}])})
    found = statistics(whole.slice(1, 1))
    assert (math.copysign(1, found["minValues"]["x"]), math.copysign(1, found["minValues"]["s"]["y"])) == (1, 1)
    assert math.copysign(1, statistics(whole.slice(2, 1))["minValues"]["x"]) == -1
    assert statistics(whole.slice(0, 2))["minValues"] == {}


def test_infinities_are_written_as_the_text_that_readers_take() -> None:
    found = statistics(pa.table({"x": [1.0, math.inf], "y": pa.array([-math.inf, 1.0], pa.float32())}))
    assert found["minValues"] == {"x": D("1.0"), "y": "-Infinity"}
    assert found["maxValues"] == {"x": "Infinity", "y": D("1.0")}


# --- what the footer does not say is not claimed --------------------------------------------------------------------


def test_a_file_that_was_not_observed_gets_no_float_bounds_and_no_null_counts_of_lists() -> None:
    table = pa.table({"id": [1, 2], "x": [1.0, 2.0], "list": [[1], None]})
    found = json.loads(FileStatistics(policy_of(table)).finish(parquet(table)))
    assert found == {"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 2}, "nullCount": {"id": 0, "x": 0}}


def test_a_file_that_was_observed_only_in_part_gets_no_float_bounds() -> None:
    table = pa.table({"x": [1.0, math.nan]})
    collected = FileStatistics(policy_of(table))
    collected.observe(table.slice(0, 1))
    assert json.loads(collected.finish(parquet(table)))["minValues"] == {}


@pytest.mark.parametrize("without", [["x"], True, False])
def test_a_row_group_without_statistics_leaves_its_column_without_bounds(without: list[str] | bool) -> None:
    table = pa.table({"x": [1, 2], "y": [1, 2]})
    body = io.BytesIO()
    kept = without is True or (["y"] if without == ["x"] else False)
    pq.write_table(table, body, write_statistics=kept, store_schema=False)
    collected = FileStatistics(policy_of(table))
    collected.observe(table)
    found = json.loads(collected.finish(pq.read_metadata(io.BytesIO(body.getvalue()))))
    expected = {name for name in ("x", "y") if kept is True or (kept and name in kept)}
    assert set(found["minValues"]) == set(found["maxValues"]) == set(found["nullCount"]) == expected


def test_a_string_too_long_for_the_footer_has_no_bounds_in_any_group() -> None:
    table = pa.table({"s": ["a", "b" * 5_000, "c"]})
    found = statistics(table, rows_per_group=1)
    assert "s" not in found["minValues"]
    assert "s" not in found["maxValues"]
    assert found["nullCount"] == {"s": 0}


def test_a_row_group_of_nulls_does_not_hide_the_bounds_of_the_others() -> None:
    table = pa.table({"x": pa.array([None, 5, None, 7], pa.int64())})
    found = statistics(table, rows_per_group=1)
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({"x": 5}, {"x": 7}, {"x": 2})


def test_a_column_of_nulls_has_a_null_count_and_no_bounds() -> None:
    found = statistics(pa.table({"x": pa.nulls(3, pa.int64()), "s": pa.nulls(3, pa.struct([("f", pa.float64())]))}))
    assert found == {"numRecords": 3, "minValues": {}, "maxValues": {}, "nullCount": {"x": 3, "s": {"f": 3}}}


def test_a_file_without_rows_has_zero_counts() -> None:
    found = statistics(pa.table({"x": pa.array([], pa.float64())}))
    assert found == {"numRecords": 0, "minValues": {}, "maxValues": {}, "nullCount": {"x": 0}}


def test_not_null_columns_have_a_null_count_of_zero() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    assert statistics(pa.table({"x": [1]}, schema=schema))["nullCount"] == {"x": 0}


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        (pa.array([1, 2], pa.uint64()), "long"),
        (pa.array([D("1.5")], pa.decimal128(10, 1)), "decimal(10,2)"),
        (pa.array([1], pa.timestamp("us")), "timestamp"),
        (pa.array([b"\xff\xff"], pa.binary()), "string"),
        (pa.array(["a"]), "long"),
    ],
)
def test_a_file_that_holds_a_column_in_another_form_gets_no_bounds_for_it(written: pa.Array, read_as: str) -> None:
    table_schema = parse_schema(
        json.dumps({"type": "struct", "fields": [{"name": "c", "type": read_as, "nullable": True, "metadata": {}}]})
    )
    table = pa.table({"c": written})
    found = json.loads(FileStatistics(StatisticsPolicy.of(table_schema, TableProperties(), ())).finish(parquet(table)))
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"c": 0})


def test_the_schema_a_file_is_written_with_describes_its_columns_as_its_footer_does() -> None:
    names = "byte short integer long float double boolean string binary date timestamp timestamp_ntz decimal(9,2)"
    kinds: list[Any] = [*names.split(), "decimal(38,10)"]
    struct = [{"name": f"s{at}", "type": kind, "nullable": True, "metadata": {}} for at, kind in enumerate(kinds)]
    nested = {"type": "struct", "fields": struct}
    kinds += [nested, {"type": "array", "elementType": nested, "containsNull": True}]
    kinds += [{"type": "map", "keyType": "string", "valueType": nested, "valueContainsNull": True}, "long"]
    fields = [{"name": f"c{at}", "type": kind, "nullable": True, "metadata": {}} for at, kind in enumerate(kinds)]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    policy = StatisticsPolicy.of(schema, TableProperties(data_skipping_num_indexed_cols=-1), ())
    footer = parquet(to_arrow(schema).empty_table())

    def reported(by: pa.Schema) -> list[tuple[tuple[str, ...], int, bool]]:
        return [(leaf.path, leaf.index, leaf.codec is None) for leaf in policy.leaves_in(by)]

    assert reported(to_arrow(schema)) == reported(footer.schema.to_arrow_schema())
    assert len(reported(to_arrow(schema))) == 2 * 14 + 3
    assert all(footer.schema.column(at).path == ".".join(path) for path, at, _ in reported(to_arrow(schema))[:28])


@pytest.mark.parametrize(
    ("unit", "ticks"),
    [("ms", [-1_501, 1_500]), ("us", [-1_500_001, 1_500_999]), ("ns", [-1_500_000_001, 1_500_999_999])],
)
def test_timestamps_of_every_unit_are_cut_down_to_milliseconds(unit: str, ticks: list[int]) -> None:
    table = pa.table({"at": pa.array(ticks, pa.timestamp(unit, "UTC")), "ntz": pa.array(ticks, pa.timestamp(unit))})
    found = statistics(table)
    assert found["minValues"] == {"at": "1969-12-31T23:59:58.499Z", "ntz": "1969-12-31T23:59:58.499"}
    assert found["maxValues"] == {"at": "1970-01-01T00:00:01.500Z", "ntz": "1970-01-01T00:00:01.500"}


# --- strings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "maximum"),
    [
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 32 + "\x7f"),
        ("a" * 32 + "\x7e", "a" * 32 + "\x7f"),
        ("a" * 32 + "\x7f", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\ufffd", "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0001f600" * 3, "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffffb", "a" * 32 + "\U0010ffff\x7f"),
        ("\U0001f600" * 40, "\U0001f600" * 32 + "\U0010ffff"),
        ("\U0010ffff" * 33, "\U0010ffff" * 33),
        ("\U0010ffff" * 64, "\U0010ffff" * 64),
        ("\U0010ffff" * 64 + "a", "\U0010ffff" * 64 + "\x7f"),
        ("\U0010ffff" * 65, None),
        ("a" + "\U0010ffff" * 64 + "z", "b"),
        ("\ud7ff" + "\U0010ffff" * 70, "\ue000"),
        ("\U0010ffff" * 70 + "a", None),
    ],
)
def test_a_long_maximum_is_cut_and_raised_by_one_character(text: str, maximum: str | None) -> None:
    found = statistics(pa.table({"s": [text]}))
    assert found["minValues"]["s"] == text[:32]
    assert found["maxValues"].get("s") == maximum


# --- which columns --------------------------------------------------------------------------------------------------


def wide(count: int) -> Struct:
    nested = Struct((Field("x", LONG), Field("y", Struct((Field("z", STRING),)))))
    return Struct((Field("day", STRING), Field("nested", nested), *(Field(f"c{i}", LONG) for i in range(count))))


def chosen(**properties: Any) -> list[str]:
    policy = StatisticsPolicy.of(wide(40), TableProperties(**properties), ("DAY",))
    return [".".join(path) for path, _ in policy.leaves]


def test_the_first_32_leaves_have_statistics_and_partition_columns_do_not_count() -> None:
    assert chosen() == ["nested.x", "nested.y.z", *(f"c{i}" for i in range(30))]


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (3, 3), (-1, 42), (1_000, 42)])
def test_the_number_of_indexed_leaves_is_the_tables_choice(limit: int, count: int) -> None:
    assert len(chosen(data_skipping_num_indexed_cols=limit)) == count


def test_named_columns_take_the_place_of_the_first_ones_with_all_their_members() -> None:
    named = (("C39",), ("nested", "Y"), ("day",), ("unknown",))
    assert chosen(data_skipping_stats_columns=named, data_skipping_num_indexed_cols=0) == ["nested.y.z", "c39"]
    assert chosen(data_skipping_stats_columns=(("nested",),)) == ["nested.x", "nested.y.z"]
    assert chosen(data_skipping_stats_columns=()) == []


def test_a_named_column_that_does_not_exist_is_refused_when_set() -> None:
    good = TableProperties(data_skipping_stats_columns=(("nested", "y"), ("C3",)))
    check_statistics_columns(wide(4), good, ("day",))
    for missing in (("c99",), ("day",), ("nested", "q")):
        bad = TableProperties(data_skipping_stats_columns=(missing,))
        with pytest.raises(InvalidInputError, match=missing[-1]):
            check_statistics_columns(wide(4), bad, ("day",))


def test_names_with_dots_are_not_mistaken_for_members() -> None:
    table = pa.table({"a.b": [1], "a": pa.array([{"b": 7}])})
    assert statistics(table)["maxValues"] == {"a.b": 1, "a": {"b": 7}}


def test_columns_have_their_own_names_whatever_precedes_them_in_the_file() -> None:
    table = pa.table(
        {"m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), "l": [[{"q": 1, "r": 2}]], "x": [5]}
    )
    assert statistics(table)["maxValues"] == {"x": 5}


# --- Spark as judge -------------------------------------------------------------------------------------------------


def physical(schema: Struct) -> Struct:
    """The schema by physical names: what a data file of a column-mapped table holds."""

    def renamed(field: Field) -> Field:
        inner = physical(field.type) if isinstance(field.type, Struct) else field.type
        return Field(field.metadata.get("delta.columnMapping.physicalName", field.name), inner, field.nullable)

    return Struct(tuple(renamed(field) for field in schema.fields))


def as_we_write(path: Path) -> pa.Table:
    """The rows of a data file; timestamps, which old Spark wrote without statistics, as microseconds."""
    table = pq.ParquetFile(path).read()
    fields = [
        pa.field(f.name, pa.timestamp("us", f.type.tz and "UTC") if pa.types.is_timestamp(f.type) else f.type)
        for f in table.schema
    ]
    for position, field in enumerate(table.schema):
        if field.type == pa.timestamp("ns"):  # INT96 carries no zone; the column is a timestamp with one
            fields[position] = pa.field(field.name, pa.timestamp("us", "UTC"))
    return table.cast(pa.schema(fields))


def same_as_spark(ours: Any, spark: Any, kind: Any) -> bool:
    """Whether two trees of values agree. Numbers may be spelled differently, floats are equal as 32-bit values, and
    an instant is the same in every zone.
    """
    if isinstance(kind, Struct):
        return spark.keys() <= ours.keys() and all(
            same_as_spark(ours[name], value, kind.find(name).type) for name, value in spark.items()
        )
    if kind == FLOAT and not isinstance(spark, int):
        return pa.scalar(float(ours), pa.float32()) == pa.scalar(float(spark), pa.float32())
    if kind in (TIMESTAMP, TIMESTAMP_NTZ) and isinstance(spark, str):
        return bool(datetime.datetime.fromisoformat(zone(ours)) == datetime.datetime.fromisoformat(zone(spark)))
    return bool(ours == spark)


def zone(text: str) -> str:
    return text.replace("Z", "+00:00")


@pytest.fixture(scope="module")
def spark_files(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], list[tuple[Path, Struct, dict[str, Any]]]]:
    """(data file, schema of data files, Spark's statistics) of every file a golden table added with rows."""
    folder = tmp_path_factory.mktemp("golden")

    def files(name: str) -> list[tuple[Path, Struct, dict[str, Any]]]:
        table = next(log.parent for log in golden.unpack(name, folder).glob("**/_delta_log"))
        lines = [
            json.loads(line, parse_float=D)
            for log in sorted((table / "_delta_log").glob("*.json"))
            for line in log.read_text().splitlines()
        ]
        schema = next(parse_schema(line["metaData"]["schemaString"]) for line in lines if "metaData" in line)
        adds = [line["add"] for line in lines if "add" in line]
        return [
            (table / add["path"], physical(schema), json.loads(add["stats"], parse_float=D))
            for add in adds
            if json.loads(add["stats"])["numRecords"]
        ]

    return files


INT96_IS_COUNTED = not OLD_PYARROW
"""Older pyarrow reads no statistics of a timestamp in INT96, not even how many are null: those are then unknown."""
TABLES = ["stats-writing-all-types", "timestamp-truncation-stats", "data-skipping-basic-stats-all-types"]


@golden.needed
@pytest.mark.parametrize("name", TABLES)
def test_statistics_equal_what_spark_wrote_for_the_same_rows(name: str, spark_files: Any) -> None:
    files = spark_files(name)
    assert files
    for path, schema, spark in files:
        table = as_we_write(path)
        collected = FileStatistics(StatisticsPolicy.of(schema, TableProperties(), ()))
        collected.observe(table)
        ours = json.loads(collected.finish(parquet(table)), parse_float=D)
        for side in ("minValues", "maxValues"):
            assert same_as_spark(ours[side], spark[side], schema)
        assert ours["nullCount"] == spark["nullCount"]
        assert bounded(ours, schema) == bounded(spark, schema) | leaves_of_type(schema, BOOLEAN)


def bounded(found: dict[str, Any], schema: Struct) -> set[tuple[str, ...]]:
    return {path for path, _ in leaf_paths(schema) if bound_at(found["minValues"], path) is not None}


def leaves_of_type(schema: Struct, wanted: Any) -> set[tuple[str, ...]]:
    return {path for path, data_type in leaf_paths(schema) if data_type == wanted}


@golden.needed
@pytest.mark.parametrize("name", TABLES)
def test_footers_that_spark_wrote_give_sparks_bounds_but_for_timestamps_without_statistics(
    name: str, spark_files: Any
) -> None:
    for path, schema, spark in spark_files(name):
        collected = FileStatistics(StatisticsPolicy.of(schema, TableProperties(), ()))
        collected.observe(pq.ParquetFile(path).read())
        text = collected.finish(pq.read_metadata(path))
        ours = json.loads(text, parse_float=D)
        without = leaves_of_type(schema, TIMESTAMP)
        assert bounded(ours, schema) == bounded(spark, schema) - without | leaves_of_type(schema, BOOLEAN)
        if INT96_IS_COUNTED:
            assert ours["nullCount"] == spark["nullCount"]
        for leaf in bounded(spark, schema) - without:
            assert bound_at(ours["nullCount"], leaf) == bound_at(spark["nullCount"], leaf)
            for side in ("minValues", "maxValues"):
                kind = dict(leaf_paths(schema))[leaf]
                assert same_as_spark(bound_at(ours[side], leaf), bound_at(spark[side], leaf), kind)


# --- deltalake as reader --------------------------------------------------------------------------------------------

NOW = datetime.datetime(2024, 5, 6, 7, 8, 9, 123_456, tzinfo=datetime.timezone.utc)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "flag": [True, None, False],
        "x": [1.5, math.inf, -0.0],
        "s": ["a" * 40 + "\U0001f600", "\U0010ffff" * 33, "b"],
        "at": pa.array([NOW, None, NOW.replace(year=9999, month=12, day=31)], pa.timestamp("us", "UTC")),
        "amount": pa.array([D("12345678901234567890.123456789"), None, D("-0.000000001")], pa.decimal128(38, 9)),
        "place": pa.array([{"city": "Ulm", "height": 478.0}, None, {"city": None, "height": -3.0}]),
    }
)
FILTERS = {
    "id = 2": pc.field("id") == 2,
    "flag": pc.field("flag") == pa.scalar(True),
    "x > 100": pc.field("x") > 100.0,
    "x <= 0": pc.field("x") <= 0.0,
    "s > 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'": pc.field("s") > "a" * 40 + "b",
    "s >= 'c'": pc.field("s") >= "c",
    "at >= now": pc.field("at") >= pa.scalar(NOW, pa.timestamp("us", "UTC")),
    "amount > 1": pc.field("amount") > pa.scalar(D("12345678901234567890.123456788"), pa.decimal128(38, 9)),
    "at is null": pc.field("at").is_null(),
}


@pytest.mark.parametrize("where", FILTERS)
def test_deltalake_finds_every_row_through_our_statistics(where: str, tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "0b6b7a7c-0b6b-4a7c-8b6b-7a7c0b6b7a7c",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema_to_json(from_arrow(ROWS.schema)),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    for row in range(ROWS.num_rows):
        table = ROWS.slice(row, 1)
        pq.write_table(table, tmp_path / f"{row}.parquet", store_schema=False)
        add = {"path": f"{row}.parquet", "partitionValues": {}, "modificationTime": 0, "dataChange": True}
        size = (tmp_path / f"{row}.parquet").stat().st_size
        actions.append({"add": {**add, "size": size, "stats": statistics_text(table)}})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    found = deltalake.DeltaTable(tmp_path).to_pyarrow_dataset().to_table(filter=FILTERS[where])
    expected = ROWS.filter(FILTERS[where])
    assert expected.num_rows
    assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist())
