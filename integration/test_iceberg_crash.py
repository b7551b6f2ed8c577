"""A job that dies at any step of its commits and Iceberg exports is finished by running it again.

The process stops before each call that changes or syncs something below its table (`deaths`), and what a kill at that
moment leaves is put back in the table's place. An Iceberg reader then sees rows of a version that was committed, and
the next run leaves each version exported once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import crash_job
import pyarrow as pa
import pytest
from deaths import judge_every_death
from fault_tools import end_of, process
from iceberg_tables import metadata_file, snapshots
from pyiceberg.table import StaticTable
from steps import note_steps, stop

import txlog
from txlog.core import ambient

Record = Callable[[str, object], None]


def _ids(first: int) -> pa.Table:
    return pa.table({"id": list(range(first, first + 4))})


ACTS: tuple[Callable[[txlog.Table], object], ...] = (
    lambda table: table.append(_ids(0)),
    lambda table: table.append(_ids(4)),
    lambda table: table.delete("id % 4 = 1"),
    lambda table: table.upsert(_ids(6), keys=["id"]),
)
ROWS = ([], [0, 1, 2, 3], list(range(8)), [0, 2, 3, 4, 6, 7], [0, 2, 3, 4, 6, 7, 8, 9])
"""The rows of each version."""


def _run(uri: str, iceberg: str, reported: str | None) -> None:
    if reported is not None:
        note_steps(uri, reported, stop)
    with ambient.use(crash_job.Waits()):
        properties = {"txlog.iceberg": iceberg, "delta.enableDeletionVectors": "true"}
        table = txlog.Table.create(uri, "id bigint", properties=properties, exist_ok=True)
        for act in ACTS[table.version :]:
            act(table)
            table._open_table.post_commit.drain()  # the export runs on a thread
        table.export_iceberg()  # a process that died after its last commit left this to its successor


def _assert_readers_see_commits(uri: str, died: str) -> txlog.Table | None:
    if not txlog.Table.exists(uri):
        return None
    table = txlog.Table.open(uri)
    assert sorted(table.to_arrow()["id"].to_pylist()) == ROWS[table.version], died
    if any(Path(uri, "_iceberg").rglob("v*.metadata.json")):
        for each in snapshots(table):
            read = StaticTable.from_metadata(str(metadata_file(table))).scan(snapshot_id=each.id)
            assert sorted(read.to_arrow()["id"].to_pylist()) == ROWS[each.version], (died, each.version)
    return table


@pytest.mark.hunt(part="crashes")
@pytest.mark.parametrize("iceberg", ["v2", "v3"])
def test_an_export_that_dies_at_any_step_is_finished_by_the_next_run(
    memory_folder: Path, record_property: Record, iceberg: str
) -> None:
    folder, left, reported = memory_folder / "job", memory_folder / "left", memory_folder / "reported"
    folder.mkdir()
    left.mkdir()
    uri = str(folder / "t")
    found: list[tuple[Path, str]] = []

    def keep(copy: Path, died: str) -> None:
        found.append((Path(shutil.copytree(copy, mkdtemp(dir=left), dirs_exist_ok=True)), died))

    steps, _ = judge_every_death(process(_run, uri, iceberg, str(reported)), folder, reported, keep)
    for copy, died in found:  # metadata names its files by their whole paths
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        _assert_readers_see_commits(uri, died)
        assert end_of(process(_run, uri, iceberg, None)) == 0, f"{died}: the next run failed"
        table = _assert_readers_see_commits(uri, died)
        assert table is not None
        assert table.version == len(ACTS)
        assert [each.version for each in snapshots(table)][-1] == len(ACTS), died
        assert table.verify().findings == (), died
    record_property("measured", f"Iceberg {iceberg}: a job died at each of {len(steps)} steps, {len(found)} states")
    for of in ("_iceberg", ".metadata.json", "version-hint.text", ".avro"):
        assert any(of in step for step in steps), f"no process died at {of}"
