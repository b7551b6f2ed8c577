"""Values that callers pass in Python: as values they arrive as they are, and a plain string is refused.

pyarrow and deltalake read back what was stored.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import pickle
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import deltalake
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import txlog
from txlog import Table, col, expr, lit
from txlog.errors import InvalidInputError

COLUMNS = (
    "id bigint, s string, status string, n bigint, x double, m decimal(38, 2), b boolean, y binary, d date,"
    " t timestamp, z timestamp_ntz, tags array<string>, place struct<zip: string, n: int>, counts map<string, bigint>"
)
HOSTILE = ("status", "null", "007", "current_date()", "it's", "a\\'b", "'; DELETE", ":s", "", "2026-11-20")
MOMENT = dt.datetime(2026, 11, 20, 8, 15, 0, 123456)


class Word(str, enum.Enum):
    OPEN = "open"


def made(path: Path, **rows: Any) -> Table:
    table = Table.create(path / "t", COLUMNS)
    one = dict.fromkeys(table.schema.names) | {"id": 1, "status": "old", "n": 5} | rows
    table.append(pa.Table.from_pylist([one], table.schema))
    return table


def stored(table: Table, name: str) -> Any:
    (value,) = deltalake.DeltaTable(table.uri).to_pyarrow_table()[name].to_pylist()
    return value


SPARE = pa.table({"k": [1], "v": ["new"]})
DOORS: dict[str, Callable[[Table, dict[str, Any]], Any]] = {
    "update": lambda table, values: table.update(values),
    "transaction": lambda table, values: within(table, lambda txn: txn.update(values)),
    "merge": lambda table, values: table.merge(SPARE, "target.id = source.k").when_matched_update(values).execute(),
    "insert": lambda table, values: (
        table.delete(all=True),
        table.merge(SPARE, "target.id = source.k").when_not_matched_insert(values).execute(),
    ),
    "by source": lambda table, values: (
        table.merge(SPARE, "source.k = 7").when_not_matched_by_source_update(values).execute()
    ),
    "merge of a transaction": lambda table, values: within(
        table, lambda txn: txn.merge(SPARE, "target.id = source.k").when_matched_update(values).execute()
    ),
}


def within(table: Table, work: Callable[[txlog.Transaction], Any]) -> None:
    with table.transaction() as txn:
        work(txn)


@pytest.mark.parametrize("door", DOORS)
def test_a_plain_string_is_refused_as_a_value_at_every_door_with_both_ways_named(door: str, tmp_path: Path) -> None:
    table = made(tmp_path)
    for text in ("status", np.str_("status"), Word.OPEN):
        shown = str.__str__(text)
        with pytest.raises(InvalidInputError, match=f"txlog.lit.'{shown}'. .* txlog.expr.'{shown}'. for SQL"):
            DOORS[door](table, {"s": text})
    DOORS[door](table, {"s": lit(Word.OPEN)})
    assert stored(table, "s") == "open"


@pytest.mark.parametrize("door", ["update", "merge", "insert"])
def test_text_is_stored_as_it_is_whatever_it_looks_like(door: str, tmp_path: Path) -> None:
    for at, text in enumerate(HOSTILE):
        table = made(tmp_path / str(at))
        DOORS[door](table, {"s": lit(text)})
        assert stored(table, "s") == text


VALUES: list[tuple[str, Any, Any]] = [
    ("n", 2**60 + 1, 2**60 + 1),
    ("n", np.int64(2**60 + 1), 2**60 + 1),
    ("n", pa.scalar(2**60 + 1), 2**60 + 1),
    ("m", Decimal("123456789012345678901234567890123456.78"), Decimal("123456789012345678901234567890123456.78")),
    ("x", -0.0, -0.0),
    ("x", math.inf, math.inf),
    ("b", np.bool_(False), False),
    ("y", b"\x00'\xff", b"\x00'\xff"),
    ("d", dt.date(1, 1, 1), dt.date(1, 1, 1)),
    ("d", np.datetime64("2026-11-20"), dt.date(2026, 11, 20)),
    ("t", MOMENT.replace(tzinfo=ZoneInfo("Europe/Berlin")), MOMENT.replace(hour=7, tzinfo=dt.timezone.utc)),
    ("t", pd.Timestamp(MOMENT, tz="America/New_York"), MOMENT.replace(hour=13, tzinfo=dt.timezone.utc)),
    ("z", pa.scalar(MOMENT), MOMENT),
    ("n", pd.NA, None),
    ("t", pd.NaT, None),
    ("s", uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ("tags", ["it's", None, "status"], ["it's", None, "status"]),
    ("tags", [], []),
    ("place", {"ZIP": "8'001", "n": 3}, {"zip": "8'001", "n": 3}),
    ("counts", {"a": 2**60 + 1, "null": None}, [("a", 2**60 + 1), ("null", None)]),
    ("counts", {}, []),
]


@pytest.mark.parametrize(("name", "value", "expected"), VALUES, ids=repr)
def test_a_value_arrives_as_it_is(name: str, value: Any, expected: Any, tmp_path: Path) -> None:
    table = made(tmp_path)
    if isinstance(value, uuid.UUID):
        value = lit(value)
    for door in ("update", "insert"):
        DOORS[door](table, {name: value})
        found = stored(table, name)
        assert found == expected
        assert not isinstance(found, float) or math.copysign(1, found) == math.copysign(1, expected)


TYPES = [
    (7, "int"),
    (2**31, "bigint"),
    (np.int64(7), "bigint"),
    (np.int8(7), "tinyint"),
    (np.uint8(7), "smallint"),
    (0.5, "double"),
    (np.float32(0.1), "float"),
    (pa.scalar(7, pa.int16()), "smallint"),
    (pa.scalar(None, pa.int64()), "bigint"),
    (Decimal("1.50"), "decimal(3,2)"),
    (pa.scalar(Decimal("1.5"), pa.decimal128(10, 2)), "decimal(10,2)"),
    (MOMENT, "timestamp"),
    (np.datetime64(MOMENT), "timestamp"),
    (pa.scalar(MOMENT), "timestamp_ntz"),
    (lit(np.int64(7)), "bigint"),
    (None, "void"),
    (b"\x00", "binary"),
]
"""Values, and their types in Spark, which integration/test_spark_sql.py asks."""


@pytest.mark.parametrize(("value", "kind"), TYPES, ids=repr)
def test_a_parameter_keeps_its_type_in_conditions_and_values(value: Any, kind: str, tmp_path: Path) -> None:
    table = made(tmp_path)
    given = {"v": value}
    assert table.count("typeof(:v) = :kind", parameters={**given, "kind": kind}) == 1
    for door in ("update", "merge"):
        text = expr("concat(typeof(:v), s)", given) if door == "update" else expr("typeof(:v)", given)
        DOORS["update"](table, {"s": lit(".")})
        DOORS[door](table, {"s": text})
        assert stored(table, "s").removesuffix(".") == kind


def test_arithmetic_with_a_number_of_numpy_or_arrow_has_its_type(tmp_path: Path) -> None:
    table = made(tmp_path, place={"zip": "1", "n": 1})
    for value in (np.int64(1), pa.scalar(1, pa.int64()), lit(np.int64(1))):
        table.update({"n": col("place.n") + value + (2**31 - 1)})
        assert stored(table, "n") == 2**31 + 1
    with pytest.raises(InvalidInputError, match="overflow"):
        table.update({"n": col("place.n") + 1 + (2**31 - 1)})


def test_nan_arrives_as_nan(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.update({"x": float("nan")})
    assert math.isnan(stored(table, "x"))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("place", {"zip": "1", "n": "x"}, r"column place.n \(int\) cannot be set to 'x'"),
        ("tags", {"a": 1}, "a dict is not a value of this type"),
        ("place", {"zip": "1"}, "the value of field n is missing: pass None"),
        ("place", {"zip": "1", "n": 1, "street": "a"}, "it has no field 'street': it has zip, n"),
        ("place", {"zip": expr("s"), "n": 1}, "a list or a mapping has values only"),
        ("counts", {None: 1}, "a key of a map cannot be NULL"),
        ("s", ["a"], "a list is not a value of this type"),
    ],
)
def test_a_list_or_mapping_that_does_not_fit_is_refused(name: str, value: Any, reason: str, tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match=reason):
        table.update({name: value})


def test_a_column_of_either_side_is_named_with_a_dot_or_by_its_parts(tmp_path: Path) -> None:
    table = made(tmp_path, place={"zip": "8001", "n": 7})
    table.update({"s": col("place.zip"), "n": col("place", "n") * 2 + col("n")})
    assert (stored(table, "s"), stored(table, "n")) == ("8001", 19)
    merge = table.merge(SPARE, col("target.id") == col("source.k"))
    merge.when_matched_update({"s": col("source.v"), "n": -col("target.n")}, col("source.v") == "new").execute()
    assert (stored(table, "s"), stored(table, "n")) == ("new", -19)


def test_a_column_whose_own_name_has_a_dot_comes_first_and_two_meanings_are_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "`source.k` bigint, k bigint, s struct<a: bigint>", column_mapping="name")
    table.append(pa.Table.from_pylist([{"source.k": 1, "k": 2, "s": {"a": 3}}], table.schema))
    assert table.count(col("source.k") == 1) == table.count(col("s.a") == 3) == 1
    merge = table.merge(pa.table({"k": [2]}), "target.k = source.k")
    with pytest.raises(InvalidInputError, match=r"pass col\('source', 'k'\) for the second, and txlog.expr"):
        merge.when_matched_update({"k": col("source.k")}).execute()


WHERES: list[tuple[Any, dict[str, Any] | None]] = [
    ("s = :s", {"s": "it's"}),
    ("id = :id AND s = :s", {"id": np.int64(1), "s": np.str_("it's")}),
    ("id IN (:ids) AND d >= :from", {"ids": [1, 7], "from": dt.date(2026, 1, 1)}),
    ("x BETWEEN :from AND :to", {"from": -1, "to": Decimal("0.5")}),
    ("CASE WHEN b THEN :end ELSE 2 END=:end", {"end": 1}),
    ("t = :t", {"t": MOMENT.replace(tzinfo=dt.timezone.utc)}),
    ("upper(s) LIKE :p", {"p": "IT%"}),
    (expr("s = :s", {"s": "it's"}), None),
    ((col("s") == "it's") & col("b") & ~(col("x") > 1) & (col("n") + 1 > col("id") * 5), None),
    (col("s").is_in(["it's", "b"]) & col("status").is_not_null(), None),
    (col("b"), None),
]
READS: dict[str, Callable[[Table, Any, Any], Any]] = {
    "arrow": lambda table, where, given: table.to_arrow(["id"], where, parameters=given)["id"].to_pylist(),
    "pandas": lambda table, where, given: table.to_pandas(["id"], where, parameters=given)["id"].tolist(),
    "polars": lambda table, where, given: table.to_polars(["id"], where, parameters=given)["id"].to_list(),
    "head": lambda table, where, given: table.head(5, ["id"], where, parameters=given)["id"].to_pylist(),
    "count": lambda table, where, given: [1] * table.count(where, parameters=given),
    "files": lambda table, where, given: [1] * table.files(where, parameters=given).num_rows,
    "tasks": lambda table, where, given: [1] * len(table.scan_tasks(["id"], where, parameters=given)),
    "follow": lambda table, where, given: [
        id for batch in table.follow(1, 0, ["id"], where, parameters=given) for id in batch.rows["id"].to_pylist()
    ],
    "transaction": lambda table, where, given: (
        table.transaction().__enter__().read(where, ["id"], parameters=given)["id"].to_pylist()
    ),
}
ROW = {"s": "it's", "x": 0.25, "b": True, "d": MOMENT.date(), "t": MOMENT.replace(tzinfo=dt.timezone.utc)}


@pytest.mark.parametrize(("where", "given"), WHERES, ids=str)
def test_conditions_take_parameters_and_objects_at_every_door(where: Any, given: Any, tmp_path: Path) -> None:
    table = made(tmp_path, **ROW)
    for read in READS.values():
        assert read(table, where, given) == [1]
    assert pickle.loads(pickle.dumps(where)) is not where or isinstance(where, str)
    table.update({"n": expr("n + :one")}, where, parameters={**(given or {}), "one": 1})
    assert stored(table, "n") == 6
    merge = table.merge(SPARE, "target.id = source.k AND source.v = :v", parameters={"v": "new", "more": 10})
    merge.when_matched_update({"n": expr("target.n + :more")}, "source.v = :v").execute()
    assert stored(table, "n") == 16
    table.overwrite(table.to_arrow(), where, parameters=given)
    assert table.delete(where, parameters=given).metrics.rows_deleted == 1


@pytest.mark.parametrize(
    ("where", "given", "reason"),
    [
        ("s = :s", {"s": "a", "other": 1}, "no SQL of the call has :other"),
        ("s = :s", {"t": 1}, "no SQL of the call has :t"),
        ("s = :s", None, "no value for the parameter :s: pass parameters"),
        ("s = :s", {"s": ["a"]}, "the parameter :s is a list, which only IN accepts"),
        ("s = :s", {"s": col("status")}, "the parameter :s is a value, not"),
        ("s = :s", {"s": dt.timedelta(1)}, "cannot be the parameter :s: it is a duration"),
        ("s = :s", [1], "values by name"),
        (col("s") == "a", {"s": "a"}, "parameters are for conditions that are text"),
        (None, {"s": "a"}, "no SQL of the call has :s"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(where: Any, given: Any, reason: str, tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match=reason):
        table.count(where, parameters=given)


def test_comparisons_without_parentheses_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\(txlog.col\('a'\) == 1\) & \(txlog.col\('b'\) == 2\)"):
        col("a") == 1 & col("b") == 2  # noqa: B015
    with pytest.raises(TypeError, match="has no truth value"):
        bool(col("a"))
