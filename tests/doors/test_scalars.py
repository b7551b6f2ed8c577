"""Values of numpy, pandas and pyarrow wherever a caller passes one value: they mean what Python's own value means."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import deltalake
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import txlog
from txlog.core.format.scalars import plain
from txlog.errors import InvalidInputError
from txlog.table import Table

MOMENT = dt.datetime(2026, 11, 20, 8, 15, 0, 123456)
ZONED = MOMENT.replace(tzinfo=ZoneInfo("Europe/Berlin"))


class Word(str, enum.Enum):
    A = "a"


SAME: list[tuple[Any, Any]] = [
    *((kind(2), 2) for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)),
    *((kind(2.5), 2.5) for kind in (np.float16, np.float32, np.float64, np.longdouble)),
    (np.bool_(True), True),
    (np.str_("it's"), "it's"),
    (np.bytes_(b"a"), b"a"),
    (np.array(5), 5),
    (np.datetime64("2026"), dt.date(2026, 1, 1)),
    (np.datetime64("2026-11"), dt.date(2026, 11, 1)),
    (np.datetime64("2026-11-20"), dt.date(2026, 11, 20)),
    (np.datetime64("2026-11-20T08"), dt.datetime(2026, 11, 20, 8)),
    *((np.datetime64(MOMENT, unit), MOMENT) for unit in ("us", "ns")),
    (np.datetime64("NaT"), None),
    (np.datetime64("NaT", "ns"), None),
    (np.timedelta64("NaT"), None),
    (pd.Timestamp(MOMENT), MOMENT),
    (pd.Timestamp(ZONED), ZONED),
    (pd.NaT, None),
    (pd.NA, None),
    (pa.scalar(None), None),
    (pa.scalar(None, pa.int64()), None),
    (pa.scalar(2), 2),
    (pa.scalar("a"), "a"),
    (pa.scalar(MOMENT), MOMENT),
    (pa.scalar(pd.Timestamp(MOMENT).value, pa.timestamp("ns")), MOMENT),
    (pa.scalar(pd.Timestamp(ZONED).value, pa.timestamp("ns", "Europe/Berlin")), ZONED),
    (pa.scalar(decimal.Decimal("1.50")), decimal.Decimal("1.50")),
    (pa.array(["a"]).dictionary_encode()[0], "a"),
    (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([2], pa.int8()))[0], True),
    (Word.A, "a"),
    (bytearray(b"a"), b"a"),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
]
NO_VALUE: list[Any] = [
    np.datetime64(1, "ns"),
    np.datetime64("99999-01-01"),
    np.timedelta64(1, "s"),
    np.array([1, 2]),
    np.complex64(1),
    np.void(b"a"),
    pd.Timestamp(1),
    pd.Timedelta(1, "s"),
    pd.Period("2026"),
    pa.scalar(1, pa.timestamp("ns")),
    pa.scalar(10**14, pa.timestamp("s")),
    pa.scalar(dt.timedelta(1)),
    pa.scalar(dt.time(1)),
    dt.timedelta(1),
    dt.time(1),
    *(decimal.Decimal(text) for text in ("sNaN", "NaN", "Infinity")),
]


@pytest.mark.parametrize(("value", "same"), SAME, ids=repr)
def test_a_value_of_a_library_is_pythons_own(value: Any, same: Any) -> None:
    found = plain(value)
    assert found == same
    assert type(found) is type(same)


@pytest.mark.parametrize("value", NO_VALUE, ids=repr)
def test_what_no_column_can_hold_is_refused_wherever_a_value_is_taken(value: Any, tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "s string")
    takes: list[Callable[[], Any]] = [
        lambda: txlog.lit(value),
        lambda: txlog.col("s") == value,
        lambda: txlog.col("s").is_in([value]),
        lambda: table.update({"s": value}),
        lambda: txlog.sql("SELECT :v AS v", parameters={"v": value}),
        lambda: table.snapshot(timestamp=value),
    ]
    for take in takes:
        with pytest.raises(InvalidInputError):
            take()


ROWS = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int64()),
        "f": [1.5, 2.5, None],
        "x": pa.array([decimal.Decimal("1.00"), decimal.Decimal("2.00"), None], pa.decimal128(10, 2)),
        "b": [True, False, None],
        "s": ["a", "it's", None],
        "y": [b"a", b"b", None],
        "d": [dt.date(2026, 11, 20), dt.date(2026, 11, 21), None],
        "t": pa.array([ZONED, ZONED + dt.timedelta(1), None], pa.timestamp("us", "UTC")),
        "n": pa.array([MOMENT, MOMENT + dt.timedelta(1), None], pa.timestamp("us")),
    }
)
GIVEN: list[tuple[str, Any]] = [
    ("i", pd.Series([1, 2, None]).max()),
    ("i", np.int32(2)),
    ("i", pa.scalar(2)),
    ("f", np.float64(2.5)),
    ("f", np.float32(2.5)),
    ("x", np.float64(2)),
    ("x", np.int64(2)),
    ("b", np.bool_(False)),
    ("s", np.str_("it's")),
    ("s", pa.scalar("it's")),
    ("y", np.bytes_(b"b")),
    ("d", np.datetime64("2026-11-21")),
    ("t", pd.Timestamp(ZONED + dt.timedelta(1))),
    ("t", pa.scalar(ZONED + dt.timedelta(1))),
    ("n", pd.Timestamp(MOMENT + dt.timedelta(1))),
    ("n", np.datetime64(MOMENT + dt.timedelta(1), "ns")),
]


@pytest.mark.parametrize(("name", "value"), GIVEN, ids=repr)
def test_each_door_takes_the_values_of_other_libraries(name: str, value: Any, tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema)
    table.append(ROWS)
    second = ROWS.slice(1, 1).to_pylist()
    column = txlog.col(name)
    for where in (column == value, column == txlog.lit(value), column.is_in([value, pd.NA])):
        assert table.to_arrow(where=where).to_pylist() == second
    found = txlog.sql(f"SELECT * FROM delta.`{table.uri}` WHERE {name} = :v", parameters={"v": value})
    assert pa.table(found).num_rows == 1
    table.delete(column == value)
    assert table.count() == 2
    if name == "x" and isinstance(value, float):  # as Python's: a double is not stored as a decimal
        return
    if isinstance(value, str):
        named = (
            r"a string may be text or SQL: pass txlog\.lit\(\"it's\"\) for the text itself, or txlog\.expr\(\"it's\"\)"
        )
        merge = table.merge(pa.table({"k": [1]}), "source.k = 2").when_not_matched_insert({name: value})
        for change in (lambda: table.update({name: value}), merge.execute):
            with pytest.raises(InvalidInputError, match=named):
                change()
    else:
        table.update({name: value})
    table.update({name: txlog.lit(value)})
    stored = deltalake.DeltaTable(table.uri).to_pyarrow_table()[name].to_pylist()
    assert stored == ROWS[name].to_pylist()[1:2] * 2
    merge = table.merge(pa.table({"k": [1]}), "source.k = 2").when_not_matched_insert({name: txlog.lit(value)})
    merge.execute()
    assert table.count(column == value) == 3


@pytest.mark.parametrize("null", [None, pd.NaT, pd.NA, np.datetime64("NaT"), pa.scalar(None)], ids=repr)
def test_nat_and_na_are_null(null: Any, tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema)
    table.append(ROWS)
    with pytest.raises(InvalidInputError, match="is never true: use is_null"):
        table.count(txlog.col("t") == null)
    assert table.count(txlog.col("t").is_in([null])) == 0
    table.update({"t": null})
    table.update({"s": txlog.lit(null)})
    assert table.to_arrow()["t"].null_count == table.to_arrow()["s"].null_count == 3
    assert pa.table(txlog.sql("SELECT :v IS NULL AS is_null", parameters={"v": null}))["is_null"].to_pylist() == [True]


def test_a_string_that_is_a_column_or_has_quotes_is_set_as_it_is(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "s string, status string")
    table.append(pa.table({"s": ["x"], "status": ["old"]}))
    for text in ("status", "it's", "a\\'b", "2026-11-20", ""):
        table.update({"s": txlog.lit(text)})
        assert table.to_arrow()["s"].to_pylist() == [text]
    table.update({"s": txlog.col("status")})
    assert table.to_arrow()["s"].to_pylist() == ["old"]
