"""Pruning by columns compared with the rule for one file: the same verdict on every file, whatever its statistics."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core.format.schema import STRING, Field, Struct, leaf_paths, parse_schema
from txlog.core.format.stats_struct import statistics_as_struct, statistics_type
from txlog.core.predicates import parse_predicate
from txlog.core.predicates.skipping import _many_files as many_files
from txlog.core.predicates.skipping._bounds_columns import bounds_of_text, leaves_of
from txlog.core.predicates.skipping._many_files import FilePruner, prune_files
from txlog.core.predicates.skipping._one_file import Pruner

KINDS = {
    "l": "long",
    "i": "integer",
    "f": "float",
    "d": "double",
    "s": "string",
    "dt": "date",
    "ts": "timestamp",
    "nz": "timestamp_ntz",
    "x": "decimal(9,2)",
    "b": "boolean",
    "p": "string",
    "q": "integer",
}
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in KINDS.items()],
        }
    )
)
PARTITIONS = ("p", "q")
FILES = pa.schema([("partitionValues", pa.map_(pa.string(), pa.string())), ("stats", pa.string())])

# Values as they may stand in JSON: plain ones, and those that one reader takes otherwise than another.
SPELLINGS = {
    "l": ["1", "5", "9", "-0", "1.0", "1e1", "9223372036854775808", '"5"', "true", "null"],
    "i": ["1", "5", "9", "3000000000", "5.5"],
    "f": ["1", "3.14", "-0.0", "1e39", "NaN", '"NaN"', '"Infinity"', '"-Infinity"', "5"],
    "d": ["1.5", "5", "-0.0", "1e308", "NaN", '"Infinity"', "1e400", "12345678901234567890123"],
    "s": [
        '"a"',
        '"m"',
        '"mango"',
        '"z"',
        '""',
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"' + "m" * 40 + '\\ufffd"',
        '"m?\\ufffd"',
        "7",
    ],
    "dt": ['"2024-01-02"', '"2024-01-09"', '"20240102"', '"2024-01-02 03:04:05"', '"2024-02-30"', '"0000-01-01"', "7"],
    "ts": [
        '"2024-01-02T00:00:00.000Z"',
        '"2024-01-09T00:00:00Z"',
        '"2024-01-02T00:00:00.123456789Z"',
        '"2024-01-02T00:00:00.000-08:00"',
        '"2024-01-02 00:00:00"',
        '"9999-12-31T23:59:59.999999Z"',
        '"0001-01-01T00:00:00.000+01:00"',
    ],
    "nz": [
        '"2024-01-02T00:00:00.000"',
        '"2024-01-09T00:00:00"',
        '"2024-01-02T00:00:00.000Z"',
        '"9999-12-31T23:59:59.999"',
    ],
    "x": ["1", "5.25", "9.999", '"5.25"', "1e3", "NaN", "123456789.5"],
    "b": ["true", "false", "1", "null"],
}
COUNTS = ["0", "1", "3", "10", "-1", "1.0", '"3"', "null"]
TERMS = [
    *(
        "l = 5",
        "l > 5",
        "l <= 1",
        "l <> 5",
        "l IN (1, 7)",
        "l IN (0,1,2,3,4,6,7,8,11,12)",
        "l IS NULL",
        "l IS NOT NULL",
    ),
    *("i >= 9", "i < 1", "f = 3.14", "f > 1", "f = CAST('NaN' AS FLOAT)", "d < 1.5", "d >= 5", "d <> 5", "d = 0"),
    *("d IN (0, 1.5, 2, 3, 4, 5, 6, 7, 8, 9, 10)", "d > CAST('NaN' AS DOUBLE)", "s = 'm'", "s LIKE 'm%'", "s > 'z'"),
    *("s NOT LIKE 'ma%'", "s IN ('a', NULL)", "dt = DATE '2024-01-02'", "dt > DATE '2024-01-05'"),
    *("ts <= TIMESTAMP '2024-01-02 00:00:00.0005'", "ts > TIMESTAMP '2024-01-02 00:00:00.001'"),
    *("nz = TIMESTAMP_NTZ '2024-01-02 00:00:00'", "nz > '2024-01-05 00:00:00'", "x = 5.25", "x < 5.25", "x > 9.99"),
    *("b = TRUE", "b IS NULL", "p = 'x'", "p IS NULL", "q > 5", "q = 1", "TRUE", "l = NULL"),
]


@pytest.fixture(scope="module", autouse=True)
def by_columns() -> Iterator[None]:
    """However few the files are: else they would be decided one by one, as what they are compared with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_files, "SINGLE_ROWS", 0)
        yield


@st.composite
def statistics(draw: st.DrawFn) -> str | None:
    whole = draw(st.sampled_from([None, "", "not json", "[]", "{}", '{"numRecords":1}{"numRecords":2}', " {} ", "{"]))
    if draw(st.integers(0, 9)) == 0:
        return whole
    members = []
    if draw(st.booleans()):
        members.append(f'"numRecords":{draw(st.sampled_from(COUNTS))}')
    if draw(st.integers(0, 4)) == 0:
        members.append(f'"tightBounds":{draw(st.sampled_from(["true", "false", "null", "0"]))}')
    for tree in ("minValues", "maxValues"):
        chosen = draw(st.lists(st.sampled_from(sorted(SPELLINGS)), unique=True, max_size=4))
        # Mostly the plain spellings, so that the columns decide and not the fallback alone.
        values = [draw(st.sampled_from(SPELLINGS[name][: draw(st.sampled_from([2, 2, 2, 20]))])) for name in chosen]
        members.append(f'"{tree}":{{' + ",".join(f'"{n}":{v}' for n, v in zip(chosen, values, strict=True)) + "}")
    nulls = draw(st.lists(st.sampled_from(["l", "s", "b"]), unique=True))
    members.append('"nullCount":{' + ",".join(f'"{n}":{draw(st.sampled_from(COUNTS[:5]))}' for n in nulls) + "}")
    return "{" + ",".join(members) + "}"


PARTITION = st.fixed_dictionaries(
    {}, optional={"p": st.sampled_from(["x", "y", "", None]), "q": st.sampled_from(["1", "9", "one", None])}
)
CONDITION = st.recursive(
    st.sampled_from(TERMS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda condition: f"(NOT {condition})"),
    ),
    max_leaves=4,
)


def table_of(files: list[tuple[dict[str, Any], str | None]]) -> pa.Table:
    rows = [{"partitionValues": list(values.items()), "stats": text} for values, text in files]
    return pa.Table.from_pylist(rows, schema=FILES)


@given(st.lists(st.tuples(PARTITION, statistics()), max_size=12), CONDITION)
def test_the_column_rule_agrees_with_the_rule_for_one_file(
    files: list[tuple[dict[str, Any], str | None]], condition: str
) -> None:
    predicate = parse_predicate(condition, SCHEMA)
    one_by_one = Pruner(predicate, SCHEMA, PARTITIONS)
    expected = [one_by_one.may_match(values, text) for values, text in files]
    assert prune_files(table_of(files), predicate, SCHEMA, PARTITIONS).to_pylist() == expected


PLAIN = (
    '{"numRecords":10,"minValues":{"l":%d,"i":1,"f":1.5,"d":2.5,"s":"aa","dt":"2024-01-02","ts":"2024-01-02T03:04:05.678Z",'
    '"nz":"2024-01-02T03:04:05.678","x":1.25},"maxValues":{"l":%d,"i":9,"f":3.14,"d":9.5,"s":"zz","dt":"2024-01-09",'
    '"ts":"2024-01-09T03:04:05.678Z","nz":"2024-01-09T03:04:05.678","x":9.75},"nullCount":{"l":0,"s":10}}'
)


def test_statistics_as_writers_write_them_are_read_by_columns_alone() -> None:
    """Else pruning would be right, and fall back to a file at a time."""
    paths = frozenset((name,) for name in SPELLINGS)
    found = bounds_of_text(pa.array([PLAIN % (n, n + 5) for n in range(100)]), leaves_of(SCHEMA, paths))
    assert not found.odd.any()
    assert found.columns[("l",)].low.to_pylist() == list(range(100))  # type: ignore[union-attr]
    assert found.columns[("f",)].high[0].as_py() == np.float32(3.14)  # type: ignore[index]


@pytest.mark.parametrize("condition", [term for term in TERMS if "p " not in term and "q " not in term])
def test_typed_statistics_agree_with_their_json(condition: str) -> None:
    texts = pa.array([PLAIN % (n, n + 5) for n in range(-3, 12)] + [None, "{}", '{"numRecords":0}'])
    predicate = parse_predicate(condition, SCHEMA)
    kind = statistics_type(leaf_paths(SCHEMA.without(PARTITIONS)))
    maps = pa.array([[]] * len(texts), FILES.field(0).type)
    pruner = FilePruner(Pruner(predicate, SCHEMA, PARTITIONS))
    by_text = pruner.mask(pa.RecordBatch.from_arrays([maps, texts], schema=FILES))
    by_struct = pruner.mask_of_struct(maps, statistics_as_struct(texts, kind)) if pruner.needs_statistics else by_text
    assert by_struct.tolist() == by_text.tolist()


def test_unusual_statistics_of_one_file_do_not_affect_other_files() -> None:
    texts = [PLAIN % (n, n + 5) for n in range(5_000)]
    texts[1_234] = '{"numRecords":10,"minValues":{"l":1.0},"maxValues":{"l":7}}'
    files = [({"p": "x", "q": "1"}, text) for text in texts]
    mask = prune_files(table_of(files), parse_predicate("l = 7 AND p = 'x'", SCHEMA), SCHEMA, PARTITIONS)
    assert np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist() == [2, 3, 4, 5, 6, 7, 1_234]


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(("precision", "scale"), [(38, 18), (38, 0), (18, 6)])
def test_decimals_whose_bounds_deltalake_rounded_are_found(
    precision: int, scale: int, typed: bool, tmp_path: Path
) -> None:
    """It writes them as 64-bit floats, those without a fraction as 64-bit integers, however large they are."""
    digits = ("12345678901234567890123456789012345678", "99999999999999999999", "9007199254740993", "123456789012")
    values = [
        decimal.Decimal(f"{sign}{text[:precision]}").scaleb(-scale, decimal.Context(prec=60))
        for text in digits
        for sign in ("", "-")
    ]
    uri, kind = str(tmp_path / "t"), pa.decimal128(precision, scale)
    for value in values:
        deltalake.write_deltalake(uri, pa.table({"x": pa.array([value], kind)}), mode="append")
    table = txlog.Table.open(uri)
    if typed:
        table.set_properties({"delta.checkpoint.writeStatsAsJson": "false"})
        table.create_checkpoint()
    snapshot = txlog.Table.open(uri).snapshot()
    for value in values:
        assert snapshot.to_arrow(where=f"x = {value:f}")["x"].to_pylist() == [value]
        assert snapshot.to_arrow(where=f"x < {value:f}").num_rows == sum(other < value for other in values)
    assert snapshot.files(f"x > {max(values) / 2:f}").num_rows < len(values), "and most files are still passed over"


def test_pruning_many_files_keeps_the_files_that_the_rule_keeps() -> None:
    """More than one slice, and in one of them a text that Arrow's reader takes for something else."""
    plain = '{"numRecords":10,"minValues":{"l":%d,"s":"é"},"maxValues":{"l":%d,"s":null},"nullCount":{"l":0}}'
    texts = [plain % (n, n + 5) for n in range(40_000)]
    texts[30_000] = '{"numRecords":10,"minValues":{"l":1.0},"maxValues":{"l":7}}'
    files = table_of([({}, text) for text in texts])
    mask = prune_files(files, parse_predicate("l = 7", SCHEMA), SCHEMA, PARTITIONS)
    assert [row for row, kept in enumerate(mask.to_pylist()) if kept] == [2, 3, 4, 5, 6, 7, 30_000]


@pytest.mark.parametrize(
    "value", ["p" * 31 + "\U0001f600x", "p" * 32 + "\U0001f600", "o" * 40 + "\U0001f600", "x\U0001f600"]
)
@pytest.mark.parametrize("greatest", ["p" * 31 + "B", "p" * 32 + "\uffff", "q", "p" * 50, "y"])
def test_the_greatest_maximum_of_many_files_is_above_every_value_of_a_file_whose_own_was_cut(
    value: str, greatest: str
) -> None:
    """An older Delta cut a value's UTF-16 units, so that the mark at the end stands below the emoji that follows."""
    units = value.encode("utf-16-le")
    cut = units[:64].decode("utf-16-le", "replace").replace("\ufffd", "?") + "\ufffd" if len(units) > 64 else value
    (leaf,) = leaves_of(Struct((Field("s", STRING),)), frozenset([("s",)]))
    bound = leaf.bound(max(cut, greatest), is_maximum=True)
    assert bound is None or bound >= value
    assert leaf.bound("0" * 36, is_maximum=True) == "0" * 30 + "1"


def _cut_by_spark(text: str) -> str:
    """Delta's maximum: 32 UTF-16 units, none of them half of a character, and the last character of all."""
    units = text.encode("utf-16-le")
    return text if len(units) <= 64 else units[:64].decode("utf-16-le", "ignore") + "\U0010ffff"


@pytest.mark.parametrize("num_files", [3, 40])
def test_a_maximum_cut_before_the_last_character_hides_no_row(num_files: int, tmp_path: Path) -> None:
    last = "\U0010ffff"
    tails = ("", "z", "\u00e9", last)
    texts = [
        "a" * length + last * count + tail for length in (31, 1, 30, 32, 33) for count in (2, 1, 33) for tail in tails
    ][:num_files]
    table = txlog.Table.create(tmp_path / "t", "s string")
    with table.transaction() as transaction:
        for text in texts:
            transaction.append(pa.table({"s": [text]}))
    path = tmp_path / "t" / "_delta_log" / f"{1:020}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            (text,) = pq.read_table(tmp_path / "t" / line["add"]["path"])["s"].to_pylist()
            stats = json.loads(line["add"]["stats"])
            stats["maxValues"] = {"s": _cut_by_spark(text)}
            line["add"]["stats"] = json.dumps(stats)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    table = txlog.Table.open(tmp_path / "t")
    for text in texts:
        for where in (txlog.col("s") == text, txlog.col("s") >= text, txlog.col("s").starts_with(text)):
            assert text in table.to_arrow(where=where)["s"].to_pylist()
    table.create_checkpoint()
    assert all(txlog.Table.open(tmp_path / "t").count(txlog.col("s") == text) for text in texts)
