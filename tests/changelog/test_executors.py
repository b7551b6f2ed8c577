"""Upserts that merge rows run in this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import txlog


def test_an_upsert_that_cannot_run_on_workers_says_so_or_runs_in_this_process(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint, n int")
    wider = pa.table({"id": [1], "n": pa.array([1], pa.int32()), "more": ["x"]})
    with ThreadPoolExecutor(2) as workers:
        with pytest.raises(txlog.InvalidInputError, match="merges rows by a merge engine runs in this process"):
            table.upsert(wider, "id", merge_engine="deduplicate", workers=workers)
        assert table.version == 0
        engine = {"txlog.merge-engine": "deduplicate"}
        table.set_properties(engine)
        txlog.Table.open(table.uri, workers=workers).upsert(wider, "id", schema_mode="merge")
    assert table.to_arrow().to_pylist() == wider.to_pylist()
