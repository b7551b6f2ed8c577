"""Files are added, cloned and converted on executors as in threads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from maintained_tables import left_by, random_table

import txlog
from tests.core.workers.test_executors import new_processes
from txlog.audit.verify import verify_table
from txlog.core.store import open_store


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with new_processes() as executor:
        yield executor


def test_existing_files_are_added_on_processes_as_in_threads(tmp_path: Path, processes: Executor) -> None:
    base = random_table(tmp_path / "base", 0)
    found = []
    for kind, workers in (("alone", None), ("spread", processes)):
        folder = Path(shutil.copytree(base, tmp_path / kind))
        table = txlog.Table.open(folder)
        result = table.add_files("day=a", workers=workers)
        assert result.metrics.files == 2
        assert table.add_files("day=a", workers=workers).metrics.files == 0, "there is nothing new"
        found.append(left_by(folder, result))
    assert found[0] == found[1]


def test_clones_conversions_and_repairs_run_on_processes(tmp_path: Path, processes: Executor) -> None:
    table = txlog.Table.open(random_table(tmp_path / "base", 0))
    rows = sorted(table.to_arrow()["id"].to_pylist())
    done = table.clone(tmp_path / "clone", workers=processes)
    clone = txlog.Table.open(tmp_path / "clone")
    assert done.files_copied
    assert sorted(clone.to_arrow()["id"].to_pylist()) == rows
    for number in range(5):
        (tmp_path / "plain").mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), tmp_path / "plain" / f"{number}.parquet")
    assert txlog.Table.convert(tmp_path / "plain", workers=processes).files == 5
    plain = txlog.Table.open(tmp_path / "plain")
    (tmp_path / "plain" / "3.parquet").unlink()
    assert plain.repair(remove=True, workers=processes).rows == 1
    assert sorted(plain.to_arrow()["id"].to_pylist()) == [0, 1, 2, 4]
    assert all(verify_table(open_store(each.uri)).is_sound for each in (clone, plain))
