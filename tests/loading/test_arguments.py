"""Numbers of other libraries as the facts of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import txlog
from tests.core.util.test_arguments import ROWS
from txlog.core.format.actions import AddFile


def test_the_numbers_of_a_file_may_be_of_another_library(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", ROWS.schema)
    table.append(ROWS)
    [live] = table.snapshot().files().to_pylist()
    Path(table.uri, "copy.parquet").write_bytes(Path(table.uri, live["path"]).read_bytes())
    size: Any = np.int64(live["size"])
    with table.transaction() as transaction:
        transaction.add(AddFile("copy.parquet", {}, size, np.int64(1), True, stats=live["stats"]))  # type: ignore[arg-type]
    line = json.loads(Path(table.uri, "_delta_log", f"{2:020d}.json").read_text().splitlines()[1])
    assert (line["add"]["size"], line["add"]["modificationTime"]) == (live["size"], 1)


@pytest.mark.parametrize("data", [made({"id": ["hidden"]}) for made in (pa.table, pl.DataFrame, pd.DataFrame)])
def test_data_in_place_of_a_path_is_shown_by_type_only(tmp_path: Path, data: Any) -> None:
    table = txlog.Table.create(tmp_path / "t", ROWS.schema)
    with pytest.raises(txlog.InvalidInputError) as caught:
        table.add_files([data])
    assert "hidden" not in str(caught.value)
    assert len(caught.value.message) < 300
