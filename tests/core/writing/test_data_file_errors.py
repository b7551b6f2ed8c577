"""A data file that the operating system refuses to take: a typed error at whichever byte, and nothing left behind."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import txlog

ROWS = pa.table({"number": pa.array(range(200_000), pa.int64())})


@contextmanager
def no_file_larger_than(size_bytes: int) -> Iterator[None]:
    """The one fault of a disk that every process may ask for; Python ignores the signal that goes with it."""
    before, keeps_none = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    sys.dont_write_bytecode = True  # a package that is imported for the first time would keep half of it
    try:
        yield
    finally:
        sys.dont_write_bytecode = keeps_none
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size_bytes", [0, 4, 1000, 300_000], ids="{} bytes".format)
@pytest.mark.parametrize("target_file_size", [None, 1 << 20], ids=["one file", "rolled"])
def test_a_file_that_does_not_fit_is_a_storage_error_and_leaves_nothing(
    tmp_path: Path, size_bytes: int, target_file_size: int | None
) -> None:
    table = txlog.Table.create(tmp_path / "t", ROWS.schema)
    with no_file_larger_than(size_bytes), pytest.raises(txlog.StorageError, match="File too large") as caught:
        table.append(ROWS, target_file_size=target_file_size)
    assert str(caught.value.path).endswith(".parquet")
    assert os.listdir(tmp_path / "t") == ["_delta_log"]
    assert table.snapshot().version == 0
    assert table.append(ROWS).version == 1


def test_a_copy_of_passed_on_bytes_that_does_not_fit_is_a_storage_error_and_leaves_nothing(tmp_path: Path) -> None:
    rows = ROWS.append_column("text", pa.array([f"{number * 7_919 % 1_000_003:032}" for number in range(200_000)]))
    table = txlog.Table.create(tmp_path / "t", rows.schema)
    table.append(rows)
    before = sorted(os.listdir(tmp_path / "t"))
    with no_file_larger_than(300_000), pytest.raises(txlog.StorageError, match="File too large") as caught:
        table.update({"number": txlog.expr("number + 1")}, "number < 5")
    assert str(caught.value.path).endswith(".parquet")
    assert sorted(os.listdir(tmp_path / "t")) == before
    assert table.snapshot().version == 1
