"""Decimals with more digits than their type declares, as a producer of Arrow data may hand them over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError
from txlog.table import Table

KIND = pa.decimal128(5, 2)


def decimals(*unscaled: int, kind: pa.DataType = KIND) -> pa.Array:
    """A decimal array with these unscaled values, unchecked, as other libraries make them."""
    body = b"".join(each.to_bytes(kind.byte_width, "little", signed=True) for each in unscaled)
    return pa.Array.from_buffers(kind, len(unscaled), [None, pa.py_buffer(body)])


def _table(values: pa.Array, name: str = "d") -> pa.Table:
    return pa.table({"id": list(range(len(values))), name: values})


TOO_LONG = _table(decimals(1, 100_000))
SHAPES: dict[str, pa.Array] = {
    "d": decimals(1, -100_000),
    "s": pa.StructArray.from_arrays([decimals(1, 100_000)], fields=[pa.field("d", KIND)]),
    "l": pa.ListArray.from_arrays([0, 1, 3], decimals(1, 2, 100_000)),
    "m": pa.MapArray.from_arrays([0, 1, 2], ["a", "b"], decimals(1, 100_000)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_decimal_beyond_its_digits_is_refused_with_column_and_row(name: str, tmp_path: Path) -> None:
    rows = _table(SHAPES[name], name)
    with pytest.raises(pa.ArrowInvalid):
        rows.validate(full=True)
    with pytest.raises(InvalidInputError, match=rf"column {name}.*1000\.00.*decimal\(5,2\).*\(row 1"):
        txlog.write(tmp_path / "new", rows)
    table = Table.create(tmp_path / "t", rows.schema)
    with pytest.raises(InvalidInputError, match=r"more digits"):
        table.append(rows)
    assert table.version == 0
    assert table.append(rows.slice(0, 1)).version == 1


DOORS: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: table.append(TOO_LONG),
    "overwrite": lambda table: table.overwrite(TOO_LONG),
    "upsert": lambda table: table.upsert(TOO_LONG, keys=["id"]),
    "merge": lambda table: table.merge(TOO_LONG, "target.id = source.id").when_not_matched_insert_all().execute(),
    "update": lambda table: table.update({"d": lambda rows: decimals(*[100_000] * rows.num_rows)}),
    "a wider type": lambda table: table.append(_table(decimals(1, 10**6, kind=pa.decimal256(5, 2)))),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_a_decimal_beyond_its_digits(door: str, tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", TOO_LONG.schema)
    table.append(_table(decimals(99_999, -99_999)))
    with pytest.raises(InvalidInputError, match=r"digits|cannot store"):
        DOORS[door](table)
    assert table.version == 1
    assert table.to_arrow().validate(full=True) is None


def test_hugeints_of_39_digits_are_refused(tmp_path: Path) -> None:
    kind = pa.decimal128(38, 0)
    with pytest.raises(InvalidInputError, match=r"decimal\(38,0\).*\(row 0"):
        txlog.write(tmp_path / "t", pa.table({"d": decimals(10**38, kind=kind)}))
    assert txlog.write(tmp_path / "t", pa.table({"d": decimals(10**38 - 1, kind=kind)})).version == 0


def test_undefined_decimals_below_nulls_are_taken(tmp_path: Path) -> None:
    values = pa.StructArray.from_arrays(
        [decimals(1, 10**9)], fields=[pa.field("d", KIND)], mask=pa.array([False, True])
    )
    assert txlog.write(tmp_path / "t", pa.table({"s": values})).version == 0
    assert Table.open(tmp_path / "t").to_arrow()["s"].null_count == 1
