"""Variants that are written in typed columns: equal rows come back, the log bounds the parts, and filters skip files.

The oracles are JSON's own module for the rows, and duckdb for the files.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog import variant
from txlog.core.format.package_bounds import bounds_as_text
from txlog.core.format.schema import DataType, Struct
from txlog.core.format.schema_ddl import parse_columns
from txlog.core.format.z85 import z85_bytes
from txlog.variant.bounds import bound_of_part, encoded_bounds, path_text
from txlog.variant.encoding import Part, encode, names_of
from txlog.variant.shredder import Shredder, found_shape
from txlog.variant.type_support import SUPPORT

SHREDS = {"delta.enableVariantShredding": "true"}
BY_PROPERTY = {**SHREDS, "txlog.variant.shredding": "v struct<a: bigint, b: struct<c: string>>"}

VALUES: list[Any] = [
    {"a": 1, "b": {"c": "x", "d": [1, {"e": None}]}, "f": True},
    {"a": 2, "b": {"c": "y"}},
    {"a": None, "b": None},
    {"a": "text", "b": {"c": 5}},
    {"a": {"deep": 1}, "b": [1, 2]},
    {"a": 3},
    {},
    [],
    [{"a": 1}],
    5,
    "a",
    None,
    {"b": {}},
    {"z": 1, "a": -(2**63), "é": decimal.Decimal("1.50")},
    {"": {"": 1}, "a": 2**63},
]


def shape(text: str) -> DataType:
    return parse_columns(f"v {text}").fields[0].type


def rows(values: list[Any], first: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + len(values)), pa.int64()), "v": variant.from_python(values)})


def live_files(table: txlog.Table) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = table.files().to_pylist()
    return sorted(files, key=lambda file: json.loads(file["stats"])["minValues"]["id"])


def bounds_of(file: Mapping[str, Any], tree: str) -> dict[str, Any]:
    """The bounds of the column ``v`` as another reader takes them apart."""
    text = json.loads(file["stats"])[tree].get("v")
    if text is None:
        return {}
    body = z85_bytes(text)
    names = names_of(body)
    width, count = (body[0] >> 6) + 1, len(names)
    start = 1 + width * (count + 2) + sum(len(name.encode()) for name in names)
    found: dict[str, Any] = Part(names, body, start).python()
    return found


@pytest.mark.parametrize(
    "text",
    [
        "struct<a: bigint>",
        "struct<a: bigint, b: struct<c: string>>",
        "struct<a: string, b: struct<c: bigint, d: string>, f: boolean>",
        "struct<a: struct<deep: decimal(18, 2)>, `é`: decimal(18, 4), ``: struct<``: bigint>>",
        "struct<a: bigint, b: struct<d: array<bigint>>>",
        "struct<b: array<bigint>, z: array<array<struct<a: bigint>>>>",
        "array<struct<a: bigint, b: array<string>>>",
        "array<bigint>",
        "bigint",
        "string",
        "double",
    ],
)
def test_whatever_is_typed_equal_variants_come_back(text: str) -> None:
    given = variant.from_python([*VALUES, None])
    shredder = Shredder(shape(text))
    stored = shredder.stored(given)
    assert stored.type == shredder.kind
    assert stored.is_valid().to_pylist() == given.is_valid().to_pylist()
    assert SUPPORT.from_file(stored).equals(given) or variant.to_python(SUPPORT.from_file(stored)) == [*VALUES, None]


def test_values_that_are_typed_are_not_stored_twice() -> None:
    stored = Shredder(shape("struct<a: bigint>")).stored(variant.from_python([{"a": 1}, {"a": 2, "b": 3}, {"a": "x"}]))
    values = stored.field("value").to_pylist()
    typed = stored.field("typed_value").field("a")
    assert values[0] is None
    assert [each["typed_value"] for each in typed.to_pylist()] == [1, 2, None]
    assert [each["value"] is None for each in typed.to_pylist()] == [True, True, False]
    metadata = stored.field("metadata").to_pylist()[1]
    assert Part(names_of(metadata), values[1]).python() == {"b": 3}


def test_bytes_that_are_no_variant_are_stored_as_they_are_and_bound_nothing() -> None:
    metadata, value = encode({"a": 1})
    damaged = pa.StructArray.from_arrays(
        [pa.array([value, value[:-1]]), pa.array([metadata, metadata])],
        fields=list(variant.from_python([1]).type),
    )
    shredder = Shredder(shape("struct<a: bigint>"))
    stored = shredder.stored(damaged)
    assert stored.field("value").to_pylist()[1] == value[:-1]
    assert [each["typed_value"] for each in stored.field("typed_value").field("a").to_pylist()] == [1, None]
    assert shredder.bounds() == (None, None)


def test_a_damaged_element_takes_back_what_its_row_has_stored_already() -> None:
    metadata, value = encode([{"a": 1}, {"a": 2}])
    bad = value[:-2] + b"\x5c\x02"
    damaged = pa.StructArray.from_arrays(
        [pa.array([value, bad, value]), pa.array([metadata] * 3)],
        fields=list(variant.from_python([1]).type),
    )
    stored = Shredder(shape("array<struct<a: bigint>>")).stored(damaged)
    assert stored.field("value").to_pylist() == [None, bad, None]
    typed = stored.field("typed_value")
    assert [each and len(each) for each in typed.to_pylist()] == [2, None, 2]
    assert SUPPORT.from_file(stored).field("value").to_pylist() == [value, bad, value]


def test_elements_that_overlap_fill_no_columns() -> None:
    """Each level has 200 elements that are the same bytes: 200 ** 6 values."""
    value = b"\0"
    for _ in range(6):
        value = bytes((0x03 | 1 << 2, 200)) + b"\0\0" * 200 + len(value).to_bytes(2, "little") + value
    hostile = pa.StructArray.from_arrays(
        [pa.array([value]), pa.array([encode([])[0]])], fields=list(variant.from_python([1]).type)
    )
    assert found_shape(hostile) is None
    stored = Shredder(shape("array<array<array<array<array<array<bigint>>>>>>")).stored(hostile)
    assert stored.field("value").to_pylist() == [value]
    assert stored.field("typed_value").to_pylist() == [None]


# --- what is found in the first rows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "struct<a: bigint, b: string>"),
        ([{"a": 1}, {"a": decimal.Decimal("1.25")}, {"a": None}], "struct<a: decimal(18, 2)>"),
        ([{"a": 1}, {"a": "x"}], None),
        ([{"a": {"b": {"c": 1.5}}, "l": [1]}], "struct<a: struct<b: struct<c: double>>, l: array<bigint>>"),
        ([{"l": [1, "x"], "m": [], "n": [None, 1]}], "struct<n: array<bigint>>"),
        (
            [{"l": []}, {"l": [[{"a": 1, "b": "x"}], [{"a": 2}]]}],
            "struct<l: array<array<struct<a: bigint, b: string>>>>",
        ),
        ([{"l": [1]}, {"l": 1}], None),
        ([{"a": 1}] * 19 + [{"a": 1, "rare": 1}], "struct<a: bigint>"),
        (["x", "y"], "string"),
        (["x", 1], None),
        ([None, None], None),
        ([], None),
        ([{"a": datetime.date(2026, 1, 1), "b": datetime.time(1)}], "struct<a: date>"),
    ],
)
def test_the_first_rows_show_which_parts_are_typed(values: list[Any], expected: str | None) -> None:
    found = found_shape(variant.from_python(values))
    assert found == (None if expected is None else _by_name(shape(expected)))


def _by_name(data_type: DataType) -> DataType:
    return (
        Struct(tuple(sorted(data_type.fields, key=lambda each: each.name)))
        if isinstance(data_type, Struct)
        else data_type
    )


# --- bounds in the log ----------------------------------------------------------------------------------------------


def test_the_log_has_the_bounds_of_parts_whose_values_all_have_one_type(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint, v variant", properties=BY_PROPERTY)
    table.append(rows([{"a": 5, "b": {"c": "m"}}, {"a": -300, "b": {"c": "b"}}, {"b": {"c": "z"}}, None]))
    table.append(rows([{"a": 5}, {"a": "mixed"}, {"b": {"c": "x" * 40}}], 10))
    table.append(rows([{"other": 1}, [1]], 20))
    first, second, third = live_files(table)
    assert bounds_of(first, "minValues") == {"$['a']": -300, "$['b']['c']": "b"}
    assert bounds_of(first, "maxValues") == {"$['a']": 5, "$['b']['c']": "z"}
    assert bounds_of(second, "minValues") == {"$['b']['c']": "x" * 32}
    assert bounds_of(second, "maxValues")["$['b']['c']"] > "x" * 40
    assert bounds_of(third, "minValues") == bounds_of(third, "maxValues") == {}
    assert json.loads(first["stats"])["nullCount"] == {"id": 0, "v": 1}
    assert table.verify().findings == ()


def test_both_bounds_of_a_part_have_one_type_in_the_log() -> None:
    shredder = Shredder(shape("struct<a: bigint, d: decimal(18, 2)>"))
    shredder.stored(
        variant.from_python([{"a": 1, "d": decimal.Decimal(1)}, {"a": 70_000, "d": decimal.Decimal("99999.25")}])
    )
    low, high = shredder.bounds()
    for part in ("$['a']", "$['d']"):
        assert _kind(low, part) == _kind(high, part)


def _kind(text: str | None, part: str) -> str:
    assert text is not None
    body = z85_bytes(text)
    names = names_of(body)
    start = 1 + ((body[0] >> 6) + 1) * (len(names) + 2) + sum(len(name.encode()) for name in names)
    return dict(Part(names, body, start).fields())[part].kind


def test_no_number_bounds_a_nan() -> None:
    shredder = Shredder(shape("struct<x: double>"))
    shredder.stored(variant.from_python([{"x": 1.5}, {"x": math.nan}]))
    assert shredder.bounds() == (None, None)


def test_a_path_is_written_as_the_rfc_normalizes_it() -> None:
    assert path_text(("a", "it's", "b\\c", "\n", "\x01")) == r"$['a']['it\'s']['b\\c']['\n']['\u0001']"


PARTS: list[tuple[str, Any, str, Any]] = [
    ("bigint", 5, "bigint", 5),
    ("bigint", 5, "int", 5),
    ("bigint", 2**40, "int", None),
    ("bigint", 5, "decimal(3, 1)", 5),
    ("bigint", 500, "decimal(3, 1)", None),
    ("bigint", 5, "double", 5.0),
    ("bigint", 5, "string", None),
    ("string", "x", "string", "x"),
    ("string", "5", "bigint", None),
    ("decimal(18, 2)", decimal.Decimal("1.25"), "decimal(10, 2)", 1.25),
    ("decimal(18, 2)", decimal.Decimal("1.25"), "decimal(10, 1)", None),
    ("decimal(18, 2)", decimal.Decimal("-1.75"), "bigint", -1),
    ("date", datetime.date(2026, 1, 2), "date", "2026-01-02"),
    ("date", datetime.date(2026, 1, 2), "timestamp", None),
    ("boolean", True, "boolean", True),
]


@pytest.mark.parametrize(("stored", "value", "wanted", "expected"), PARTS)
def test_a_bound_is_taken_only_as_a_type_whose_order_is_the_same(
    stored: str, value: Any, wanted: str, expected: Any
) -> None:
    text = encoded_bounds({("a",): (shape(stored), value, value)}, is_maximum=False)
    assert bound_of_part(text, "$['a']", shape(wanted), is_maximum=False) == expected


@pytest.mark.parametrize("text", [None, 5, "", "abc", "00000", "0" * 40, "#####", {"a": 1}])
def test_what_is_no_text_of_bounds_says_nothing(text: Any) -> None:
    assert bound_of_part(text, "$['a']", shape("bigint"), is_maximum=True) is None


def test_damaged_texts_of_bounds_say_nothing_or_something_but_never_raise() -> None:
    text = encoded_bounds({("a",): (shape("bigint"), 1, 9), ("b",): (shape("string"), "x", "y")}, is_maximum=True)
    assert text is not None
    random_ = random.Random(7)
    for _ in range(300):
        at = random_.randrange(len(text))
        damaged = text[:at] + random_.choice("0zZ#@. é") + text[at + 1 :]
        bound_of_part(damaged, "$['a']", shape("bigint"), is_maximum=True)


# --- skipped files --------------------------------------------------------------------------------------------------

CONDITIONS = {
    "variant_get(v, '$.a', 'long') > 3905": "a > 3905",
    "v:a::int = 1205": "a = 1205",
    "v:a::bigint IN (5, 777)": "a IN (5, 777)",
    "v:a::decimal(12, 2) < 12.5": "a < 12.5",
    "v:b.c::string = 'name 2500'": "c = 'name 2500'",
    "v:a::bigint BETWEEN 1990 AND 2010": "a BETWEEN 1990 AND 2010",
    "NOT (v:a::bigint >= 100)": "NOT (a >= 100)",
    "v:a::bigint < 100 OR v:b.c::string > 'name 999'": "a < 100 OR c > 'name 999'",
    "try_variant_get(v, '$.a', 'int') >= 3990 AND id > 0": "a >= 3990 AND id > 0",
}


@pytest.fixture(scope="module", params=[40, pytest.param(1000, marks=pytest.mark.hunt(part="large"))])
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> txlog.Table:
    """A table of so many files whose variants have the same values as its plain columns."""
    columns = "id bigint, a bigint, c string, v variant"
    table = txlog.Table.create(tmp_path_factory.mktemp("many") / "t", columns, properties=SHREDS)
    with table.transaction() as txn:
        for number in range(request.param):
            ids = range(number * 100, number * 100 + 100, 5)
            names = [f"name {id}" for id in ids]
            variants = variant.from_python([{"a": id, "b": {"c": name}} for id, name in zip(ids, names, strict=True)])
            txn.append(pa.table({"id": list(ids), "a": list(ids), "c": names, "v": variants}))
    return table


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_filter_on_a_part_opens_the_files_that_a_filter_on_a_plain_column_opens(
    condition: str, many: txlog.Table
) -> None:
    plain = CONDITIONS[condition]
    opened = [many.snapshot().files(where=each)["path"].to_pylist() for each in (condition, plain)]
    assert sorted(opened[0]) == sorted(opened[1])
    assert 0 < len(opened[1]) < many.files().num_rows
    found, expected = (many.to_arrow(["id"], where=each)["id"].to_pylist() for each in (condition, plain))
    assert sorted(found) == sorted(expected)
    assert expected


def test_a_filter_on_a_part_opens_no_other_file(many: txlog.Table, tmp_path: Path) -> None:
    """All files that the filter on the plain column leaves out are gone from a copy."""
    for at, (condition, plain) in enumerate(CONDITIONS.items()):
        shutil.copytree(many.uri, tmp_path / str(at))
        table = txlog.Table.open(tmp_path / str(at))
        needed = {*table.snapshot().files(where=plain)["path"].to_pylist()}
        others = [path for path in table.files()["path"].to_pylist() if path not in needed]
        for path in others:
            Path(table.uri, path).unlink()
        assert others
        assert table.to_arrow(["id"], where=condition).num_rows == many.to_arrow(["id"], where=plain).num_rows > 0


@pytest.mark.parametrize("condition", ["v:a::string = '5'", "v:x::int = 5", "v:a[0]::int = 5", "v:a::double > 5"])
def test_a_part_without_bounds_or_with_another_order_skips_nothing(condition: str, many: txlog.Table) -> None:
    assert many.snapshot().files(where=condition).num_rows == many.files().num_rows


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize("text", [None, "s struct<w: struct<a: bigint>, t: struct<u: struct<a: bigint>>>"])
def test_variants_in_structs_are_shredded_and_skip_files_as_columns_do(
    tmp_path: Path, mode: str, text: str | None
) -> None:
    properties = {**SHREDS, "delta.columnMapping.mode": mode} | ({"txlog.variant.shredding": text} if text else {})
    columns = "id bigint, s struct<n: int, w: variant, t: struct<u: variant>>, many array<variant>"
    table = txlog.Table.create(tmp_path / "t", columns, properties=properties)
    kind = table.to_arrow().schema
    struct, inner = kind.field("s").type, kind.field("s").type.field("t").type
    values = {first: [{"a": first + at, "b": ["x", {"c": at}]} for at in range(20)] for first in (0, 100)}
    for first, given in values.items():
        made = variant.from_python(given)
        parts = [pa.array(range(20), pa.int32()), made, pa.StructArray.from_arrays([made], fields=list(inner))]
        structs = pa.StructArray.from_arrays(parts, fields=list(struct))
        lists = pa.ListArray.from_arrays(pa.array([*range(21), 20], pa.int32()), made, kind.field("many").type)
        ids = pa.array([*range(first, first + 20), first + 50], pa.int64())
        table.append(pa.table([ids, pa.chunked_array([structs, pa.nulls(1, struct)]), lists], schema=kind))
    for condition in ("s.w:a::int = 105", "s.t.u:a::bigint BETWEEN 104 AND 106 AND id = 105"):
        assert table.snapshot().files(where=condition).num_rows == 1
        assert table.to_arrow(["id"], where=condition)["id"].to_pylist() == [105]
    rows = table.to_arrow().sort_by("id")
    found = rows["s"].combine_chunks().flatten()
    expected = [each for first in values for each in (*values[first], None)]
    assert variant.to_python(found[1]) == variant.to_python(found[2].flatten()[0]) == expected
    assert variant.to_python(rows["many"].combine_chunks().flatten()) == [each for each in expected if each]
    assert table.verify().findings == ()
    if mode == "none":
        path = Path(table.uri, live_files(table)[0]["path"])
        shapes = pq.read_schema(path).field("s").type
        typed = [each.field("typed_value").type for each in (shapes.field("w").type, shapes.field("t").type[0].type)]
        assert all(each.field("a").type.field("typed_value").type == pa.int64() for each in typed)
        query = f"SELECT sum(s.w.a::BIGINT), sum(s.t.u.a::BIGINT), any_value(s.w.b::JSON) FROM '{path}' WHERE id = 7"
        (row,) = duckdb.sql(query).fetchall()
        assert (row[0], row[1], json.loads(row[2])) == (7, 7, ["x", {"c": 7}])


def test_mapped_columns_and_copies_keep_their_bounds(tmp_path: Path) -> None:
    properties = {**SHREDS, "delta.columnMapping.mode": "name"}
    table = txlog.Table.create(tmp_path / "t", "id bigint, s struct<x: int>, v variant", properties=properties)
    for first in (0, 100):
        table.append(rows([{"a": first + at} for at in range(20)], first))
    table.rename_column("v", "body")
    table.update({"id": txlog.expr("id + 1000")}, "body:a::int = 105")
    assert table.snapshot().files(where="body:a::int < 50").num_rows == 1
    assert table.to_arrow(where="body:a::int = 105")["id"].to_pylist() == [1105]
    table.optimize()
    assert sorted(json.loads(text)["a"] for text in variant.to_json(table.to_arrow()["body"]).to_pylist()) == [
        *range(20),
        *range(100, 120),
    ]


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_that_have_only_typed_statistics_keep_the_bounds(tmp_path: Path, policy: str) -> None:
    only_typed = {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
    properties = {**SHREDS, **only_typed, "delta.checkpointPolicy": policy}
    table = txlog.Table.create(tmp_path / "t", "id bigint, v variant, s struct<w: variant>", properties=properties)

    def append(id: int, a: Any) -> None:
        data = rows([{"a": a, "b": f"name {id}"}], id)
        table.append(data.append_column("s", pa.StructArray.from_arrays([data["v"].chunk(0)], ["w"])))

    known = {5, 100, None}
    for id, a in ((5, 5), (100, 100), (200, "text")):
        append(id, a)
    for _ in range(2):  # the second checkpoint takes them from the first
        table.create_checkpoint()
        table = txlog.Table.open(table.uri)
        for condition in (
            "v:a::int = 100",
            "variant_get(v, '$.a', 'int') > 50 AND id > 50",
            "s.w:b::string = 'name 100'",
        ):
            assert table.files(where=f"{condition} AND id < 200").num_rows == 1
            assert table.to_arrow(where=f"{condition} AND id < 200")["id"].to_pylist() == [100]
        lows = [json.loads(text)["minValues"] for text in table.files()["stats"].to_pylist()]
        assert {bound_of_part(each["v"], "$['a']", shape("bigint"), is_maximum=False) for each in lows} == known
        assert [each["s"]["w"] for each in lows] == [each["v"] for each in lows]
        append(300, 300)
        known = {*known, 300}


def test_typed_bounds_of_other_writers_are_taken_in_any_form_and_damaged_ones_left_out() -> None:
    metadata, value = encode({"$['a']": 5})
    shredded = pa.array(
        [{"metadata": metadata, "value": None, "typed_value": {"$['a']": {"value": None, "typed_value": 5}}}, None],
        pa.struct(
            [
                ("metadata", pa.binary()),
                ("value", pa.binary()),
                (
                    "typed_value",
                    pa.struct([("$['a']", pa.struct([("value", pa.binary()), ("typed_value", pa.int64())]))]),
                ),
            ]
        ),
    )
    binaries = pa.struct([("metadata", pa.large_binary()), ("value", pa.large_binary())])
    plain = pa.array([{"metadata": metadata, "value": value}, None], binaries)
    for bounds in (shredded, plain):
        text, absent = bounds_as_text(bounds).to_pylist()
        assert bound_of_part(text, "$['a']", shape("bigint"), is_maximum=True) == 5
        assert absent is None
    assert bounds_as_text(pa.array([{"metadata": None, "value": value}], binaries)).to_pylist() == [None]
    assert bounds_as_text(pa.array([{"other": b"x"}], pa.struct([("other", pa.binary())]))).to_pylist() == [None]
    texts = [encoded_bounds({("a",): (shape("bigint"), 5, 5)}, is_maximum=False), "0" * 40, "no Z85", "", None]
    assert [each is None for each in SUPPORT.typed_bounds(pa.array(texts, pa.string())).to_pylist()] == [
        False,
        *[True] * 4,
    ]


# --- the property, and other readers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "v",
        "v struct<a: array<void>>",
        "v struct<a: array<variant>>",
        "v struct<a: variant>",
        "v struct<a: map<string, int>>",
        "v strukt<a: int>",
    ],
)
def test_a_property_that_names_no_parts_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"txlog\.variant\.shredding"):
        txlog.Table.create(tmp_path / "t", "id bigint, v variant", properties={"txlog.variant.shredding": text})


def test_the_property_decides_what_is_typed_and_without_shredding_nothing_is(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint, v variant", properties=BY_PROPERTY)
    table.append(rows([{"z": 1}]))
    table.set_properties({"delta.enableVariantShredding": "false"})
    table.append(rows([{"z": 1}], 10))
    kinds = [pq.read_schema(Path(table.uri, file["path"])).field("v").type for file in live_files(table)]
    assert str(kinds[0].field("typed_value").type).startswith("struct<a: struct<value: binary, typed_value: int64>")
    assert {member.name for member in kinds[1]} == {"metadata", "value"}
    assert variant.to_json(table.to_arrow()["v"]).to_pylist() == ['{"z":1}'] * 2


def test_duckdb_reads_the_files_as_variants(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint, v variant", properties=SHREDS)
    values = [{"a": at, "b": {"c": f"x{at}", "d": [at, None]}, "m": at if at % 2 else "odd"} for at in range(30)]
    table.append(rows([*values, [1, 2], 5, {}, None]))
    (file,) = live_files(table)
    found = duckdb.sql(
        f"SELECT v::JSON, v.a::BIGINT, v.b.c::VARCHAR FROM '{Path(table.uri, file['path'])}' ORDER BY id LIMIT 30"
    ).fetchall()
    assert [(json.loads(text), a, c) for text, a, c in found] == [(each, each["a"], each["b"]["c"]) for each in values]


def test_random_documents_come_back_whatever_is_typed(tmp_path: Path) -> None:
    random_ = random.Random(11)

    def made(depth: int) -> Any:
        kinds = [
            lambda: random_.randrange(-(10**6), 10**6),
            lambda: random_.choice(["", "x", "ü" * 3, "y" * 70]),
            lambda: random_.choice([True, False, None]),
            lambda: decimal.Decimal(random_.randrange(10**4)).scaleb(-random_.randrange(4)),
            lambda: random_.random(),
        ]
        if depth:
            names = random_.sample("abcdef", random_.randrange(5))
            kinds += [lambda: {name: made(depth - 1) for name in names}] * 4
            kinds += [lambda: [made(depth - 1) for _ in range(random_.randrange(3))]]
        return random_.choice(kinds)()

    for turn in range(6):
        values = [made(3) for _ in range(60)]
        given = variant.from_python(values)
        for found in (found_shape(given), shape("struct<a: struct<b: bigint>, c: string, d: decimal(18, 3)>")):
            if found is not None:
                back = variant.to_python(SUPPORT.from_file(Shredder(found).stored(given)))
                assert back == variant.to_python(given), (turn, found)
