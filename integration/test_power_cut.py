"""A power cut takes nothing that was acknowledged: commits and the data files that they name are there, whole.

The table lies on an ext4 disk in a file. Copying the file while the disk is mounted keeps what had reached the
medium, and nothing that only the page cache knew: a power cut. The job of `crash_job` is stopped at each of its steps
while the picture is taken, on a disk with a journal and on one without, where a file and its name reach the medium
apart. As a control, the same pictures must show that writers which do not sync lose their work.

Up to 100 s on two busy cores, most of it waiting. Needs root and loop mounts; skipped, saying so, where there are none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import crash_job
import deltalake
import pyarrow as pa
import pytest
from crash_job import ACTS, Job
from fault_tools import end_of, has_journal, mounted_image, new_image, process, require_loop_mounts, stopped_or_ended

import txlog
import txlog.core.store._local_disk

WHAT = "that acknowledged commits survive a power cut"
Record = Callable[[str, object], None]


@pytest.fixture
def image(request: pytest.FixtureRequest, memory_folder: Path) -> Path:
    """In memory: what has reached the image is what counts, and not what has reached a disk below it."""
    require_loop_mounts(WHAT)
    return new_image(memory_folder / "image", journal=getattr(request, "param", True))


@pytest.fixture
def disk(image: Path, tmp_path: Path) -> Iterator[Path]:
    with mounted_image(image, tmp_path / "disk") as disk:
        yield disk


def _after_the_cut(image: Path, name: str) -> Path:
    """A copy of what is on the medium now."""
    return Path(shutil.copyfile(image, image.with_name(f"picture-{name}")))


def _assert_nothing_is_lost(picture: Path, job: Job, acknowledged: int, where: str) -> None:
    """The table is in a legal state, from which the next run of the job ends it."""
    if not has_journal(picture):  # it is mended when the machine starts
        subprocess.run(["e2fsck", "-fy", str(picture)], check=False, capture_output=True)
    with mounted_image(picture, picture.with_suffix(".disk")) as disk:
        there = Job(str(disk / Path(job.uri).name), str(picture.with_suffix(".ledger")))
        found = crash_job.judged(there)
        assert acknowledged <= found <= acknowledged + 1, f"{where}: {acknowledged} was acknowledged, {found} is there"
        again = process(crash_job.run, there)
        assert end_of(again) == 0, f"{where}: the next run failed"
        assert crash_job.judged(there) == len(ACTS) - 1, where


def _last_line(reported: Path) -> str:
    return reported.read_text().splitlines()[-1]


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(True, id="journal", marks=pytest.mark.hunt(part="power-cuts")),
        pytest.param(False, id="none", marks=pytest.mark.hunt(part="power-cuts")),
    ],
    indirect=True,
)
def test_a_power_cut_at_any_step_takes_nothing_that_was_acknowledged(
    image: Path, disk: Path, tmp_path: Path, record_property: Record
) -> None:
    job = Job(str(disk / "t"), str(tmp_path / "ledger"))
    reported = tmp_path / "reported"
    child = process(crash_job.run_watched, job, "stop", -1, str(reported))
    steps, seen = 0, set()
    try:
        while stopped_or_ended(child):
            steps += 1
            picture = _after_the_cut(image, str(steps))
            shows = (hashlib.sha1(picture.read_bytes()).digest(), crash_job.acknowledged(job))
            if shows not in seen:
                _assert_nothing_is_lost(picture, job, shows[1], f"before step {steps}, {_last_line(reported)}")
            picture.unlink()  # most steps change nothing on the medium
            seen.add(shows)
            assert child.pid is not None
            os.kill(child.pid, signal.SIGCONT)
    finally:
        child.kill()
    assert child.exitcode == 0
    assert crash_job.acknowledged(job) == len(ACTS) - 1
    _assert_nothing_is_lost(_after_the_cut(image, "end"), job, len(ACTS) - 1, "after the last step")
    record_property("measured", f"power cut: at each of {steps} steps, which left {len(seen) + 1} different disks")
    assert len(seen) > len(ACTS) * 3, "the pictures do not show what happens"


def _run_without_sync(job: Job) -> None:
    os.fsync = lambda _: None
    crash_job.run(job)


def test_a_job_without_syncs_loses_acknowledged_rows_in_a_power_cut(image: Path, disk: Path, tmp_path: Path) -> None:
    """The control: with its syncs taken out, the very same job loses what it acknowledged."""
    job = Job(str(disk / "t"), str(tmp_path / "ledger"))
    careless = process(_run_without_sync, job)
    assert end_of(careless) == 0
    picture = _after_the_cut(image, "careless")
    assert crash_job.acknowledged(job) == len(ACTS) - 1 == crash_job.judged(job)
    with pytest.raises((AssertionError, txlog.TxlogError)):
        _assert_nothing_is_lost(picture, job, len(ACTS) - 1, "after the last step")


def test_a_power_cut_loses_unsynced_writes_of_others_and_keeps_our_acknowledged_ones(
    image: Path, disk: Path, tmp_path: Path
) -> None:
    """deltalake's append and a plain file, both written before our last commit began and after it ended."""
    job = Job(str(disk / "t"), str(tmp_path / "ledger"))
    ours = process(crash_job.run, job)
    assert end_of(ours) == 0
    rows = txlog.Table.open(job.uri).snapshot().to_arrow()
    deltalake.write_deltalake(str(disk / "theirs"), rows)
    (disk / "plain").write_bytes(b"written, not synced")
    assert deltalake.DeltaTable(str(disk / "theirs")).version() == 0
    picture = _after_the_cut(image, "both")
    with mounted_image(picture, tmp_path / "after") as after:
        there = Job(str(after / "t"), "")
        assert crash_job.judged(there) == len(ACTS) - 1
        assert not (after / "plain").exists() or (after / "plain").read_bytes() != b"written, not synced"
        assert not deltalake.DeltaTable.is_deltatable(str(after / "theirs"))


def test_a_version_we_build_on_survives_a_power_cut_even_if_its_writer_did_not_sync(
    image: Path, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of txlog's whose process died before it synced the log's directory, and one of deltalake's, which syncs
    nothing: an open handle commits above them, and then one that is opened for it.
    """
    rows = pa.table({"id": pa.array([1], pa.int64())})
    ours = txlog.Table.create(disk / "t", rows.schema)
    ours.append(rows)
    with monkeypatch.context() as died:
        sync = txlog.core.store._local_disk.fsync_directory
        died.setattr(
            txlog.core.store._local_disk, "fsync_directory", lambda path: path.endswith("_delta_log") or sync(path)
        )
        txlog.Table.open(ours.uri).append(rows)
    assert ours.append(rows).version == 3
    with mounted_image(_after_the_cut(image, "txlog"), tmp_path / "first") as after:
        assert txlog.Table.open(after / "t").snapshot().to_arrow()["id"].to_pylist() == [1, 1, 1]

    for name, open_handle in (("open", ours), ("opened", None)):
        for _ in range(2):
            deltalake.write_deltalake(ours.uri, rows, mode="append")
        version = (open_handle or txlog.Table.open(ours.uri)).append(rows).version
        with mounted_image(_after_the_cut(image, name), tmp_path / name) as after:
            snapshot = txlog.Table.open(after / "t").snapshot()
            assert snapshot.version == version
            assert snapshot.files().num_rows == version


@pytest.mark.parametrize("journal", [True, False])
def test_an_ext4_keeps_names_in_order_only_with_a_journal(journal: bool, memory_folder: Path, tmp_path: Path) -> None:
    """One device after the other, in one process: what it held before does not count."""
    require_loop_mounts("that an ext4 without a journal is not taken for one that has it")
    image = new_image(memory_folder / "image", journal=journal)
    with mounted_image(image, tmp_path / "disk") as disk:
        descriptor = os.open(disk, os.O_RDONLY)
        try:
            assert txlog.core.store._local_disk.keeps_names_in_order(descriptor) is journal
        finally:
            os.close(descriptor)
