"""Arrow's arrays made by their buffers are those that pyarrow makes; no list of files and no append imports pandas."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.arrow.arrays import array_of, flags_of, from_flags, from_numbers, numbers_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
LONG = st.integers(-(2**63), 2**63 - 1)
PAIRS = st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=3)
MEMBERS = {"s": TEXT, "n": LONG, "b": st.booleans(), "m": PAIRS}
STRUCT = pa.struct({"s": pa.string(), "n": pa.int64(), "b": pa.bool_(), "m": pa.map_(pa.string(), pa.string())})
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.int64(), LONG),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.map_(pa.string(), pa.string()), PAIRS),
    (STRUCT, st.fixed_dictionaries({}, optional={name: st.none() | each for name, each in MEMBERS.items()})),
    (pa.decimal128(9, 2), st.decimals(0, 9, places=2)),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(st.data())
def test_an_array_equals_the_one_that_pyarrow_makes(kind: pa.DataType, values: Any, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.none() | values, max_size=20))
    made = array_of(drawn, kind)
    made.validate(full=True)
    assert made.equals(pa.array(drawn, kind))


@given(st.lists(st.none() | st.booleans(), max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_flags_and_numbers_of_any_slice_equal_its_values(flags: list[bool | None], start: int, rows: int) -> None:
    expected = [bool(flag) for flag in flags[start : start + rows]]
    assert flags_of(pa.array(flags, pa.bool_()).slice(start, rows)).tolist() == expected
    numbers = from_numbers(np.arange(len(flags)), np.array([flag is not None for flag in flags], bool))
    assert numbers.null_count == flags.count(None)
    assert numbers_of(numbers.slice(start, rows)).tolist() == list(range(len(flags)))[start : start + rows]
    assert from_flags(np.array(expected, bool)).to_pylist() == expected


@pytest.mark.skipif(find_spec("pandas") is None, reason="NOT TESTED: pandas is not installed")
def test_a_list_of_files_imports_no_pandas(tmp_path: Path) -> None:
    """Which takes longer than most lists; pyarrow does where it is asked to make an array of Python's values."""
    for at in range(3):
        rows = pa.table({"id": [at, 9], "d": [0.5, at], "name": ["a", "b"], "p": ["x", "y"]})
        write_deltalake(str(tmp_path), rows, mode="append", partition_by=["p"])
        if at == 1:
            DeltaTable(str(tmp_path)).create_checkpoint()
    script = """
import sys
from txlog import Table
snapshot = Table.open(sys.argv[1]).snapshot()
for where in (None, "p = 'x'", "p = 'x' AND id < 2", "id > 5 OR d >= 1", "name LIKE 'a%'", "id IN (1, 2)"):
    print(snapshot.files(where).num_rows, end=" ")
print("pandas" in sys.modules)
"""
    reported = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert reported.stdout.split() == ["6", "3", "2", "3", "3", "2", "False"]


@pytest.mark.skipif(find_spec("pandas") is None, reason="NOT TESTED: pandas is not installed")
def test_an_append_to_a_table_partitioned_by_any_type_imports_no_pandas(tmp_path: Path) -> None:
    moment = datetime.datetime(2026, 11, 20, 18, 30)
    by = {
        "text": pa.array(["a", None], pa.string()),
        "number": pa.array([1, 2], pa.int32()),
        "double": pa.array([0.5, None], pa.float64()),
        "exact": pa.array([Decimal("1.50"), Decimal("0.00")], pa.decimal128(9, 2)),
        "flag": pa.array([True, None], pa.bool_()),
        "day": pa.array([moment.date(), None], pa.date32()),
        "instant": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "clock": pa.array([moment, None], pa.timestamp("us")),
    }
    pq.write_table(pa.table({"id": [1, 2], **by}), tmp_path / "rows.parquet")
    script = """
import sys
import pyarrow.parquet as pq
import txlog
rows = pq.ParquetFile(sys.argv[1] + "/rows.parquet").read()
print("pandas" in sys.modules)
txlog.write(sys.argv[1] + "/t", rows, partition_by=sys.argv[2:])
txlog.Table.open(sys.argv[1] + "/t").append(rows)
print("pandas" in sys.modules)
"""
    reported = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), *by], capture_output=True, text=True, check=True
    )
    assert reported.stdout.split() == ["False", "False"]
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 4
