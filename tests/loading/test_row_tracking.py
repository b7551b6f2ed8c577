"""Files without a number of rows, where a table numbers its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import txlog
from tests.core.versions.test_row_tracking import TRACKED, rows
from txlog.errors import InvalidInputError


def test_a_file_whose_rows_are_not_counted_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    txlog.write(tmp_path, rows(5), properties=TRACKED)
    table = txlog.Table.open(tmp_path)
    from txlog.core.format.actions import AddFile

    live = table.snapshot().files().to_pylist()[0]
    (tmp_path / "other.parquet").write_bytes((tmp_path / live["path"]).read_bytes())
    with pytest.raises(InvalidInputError, match="numRecords"), table.transaction() as txn:
        txn.add(AddFile("other.parquet", {}, live["size"], 1, True, stats='{"minValues":{}}'))
    assert table.snapshot().version == 0
