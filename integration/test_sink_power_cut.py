"""A power cut takes nothing that a sink acknowledged: what was staged can be sealed, what was sealed is recovered.

As in `test_power_cut`: the table lies on an ext4 disk in a file, and a picture of the file shows what had reached the
medium. The application of `sink_job` is stopped before each of its steps while the picture is taken.

Some 80 pictures, 15 s to 45 s on two busy cores. Needs root and loop mounts; skipped, saying so, where there are none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sink_job
from fault_tools import end_of, mounted_image, new_image, process, require_loop_mounts, stopped_or_ended
from sink_job import SinkJob
from staging_contract import staging_of

from txlog.core.store import open_store

Record = Callable[[str, object], None]


def _assert_all_is_there(job: SinkJob, acknowledged: list[str], where: str) -> None:
    """Each file that is named exists at its size, and what is sealed is committed by a recovery alone."""
    store = open_store(job.uri)
    if "committed" in acknowledged:
        assert sink_job.judged(job) == job.expected(), where
    elif "sealed" in acknowledged:
        assert end_of(process(sink_job.recover, job)) == 0, where
        assert sink_job.judged(job) == job.expected(), where
    elif acknowledged:
        (staged,) = staging_of(store).checkpoints()
        tasks = {int(line.split()[1]): 0 for line in acknowledged}
        assert staged.attempts.keys() >= tasks.keys(), where
        for _, committable in staging_of(store).tasks(staged, tasks):
            files = [*committable.files, *committable.keys]
            assert [store.files.stat(file.path).size for file in files] == [file.size_bytes for file in files], where
    assert end_of(process(sink_job.run, job)) == 0, where
    assert sink_job.judged(job) == job.expected(), where


@pytest.mark.hunt(part="power-cuts")
@pytest.mark.parametrize(
    ("tasks", "upserts"), [pytest.param(2, False, id="append"), pytest.param(1, True, id="upsert")]
)
def test_a_power_cut_at_any_step_takes_nothing_that_a_sink_acknowledged(
    tasks: int, upserts: bool, tmp_path: Path, record_property: Record
) -> None:
    require_loop_mounts("that what a sink staged and sealed survives a power cut")
    image, reported, ledger = new_image(tmp_path / "image"), tmp_path / "reported", tmp_path / "ledger"
    steps, seen = 0, set()
    with mounted_image(image, tmp_path / "disk") as disk:
        job = SinkJob(str(disk / "t"), checkpoints=1, tasks=tasks, upserts=upserts)
        if upserts:
            job.begin()
        child = process(sink_job.stopping, job, str(reported), str(ledger))
        try:
            while stopped_or_ended(child):
                steps += 1
                picture = Path(shutil.copyfile(image, tmp_path / f"picture-{steps}"))
                acknowledged = ledger.read_text().splitlines()
                shows = (hashlib.sha1(picture.read_bytes()).digest(), len(acknowledged))
                if shows not in seen:  # most steps change nothing on the medium
                    seen.add(shows)
                    with mounted_image(picture, tmp_path / f"disk-{steps}") as after:
                        step = reported.read_text().splitlines()[-1]
                        where = f"before step {steps}, {step}, {acknowledged} acknowledged"
                        _assert_all_is_there(replace(job, uri=str(after / "t")), acknowledged, where)
                picture.unlink()
                assert child.pid is not None
                os.kill(child.pid, signal.SIGCONT)
        finally:
            child.kill()
        assert child.exitcode == 0
        assert ledger.read_text().splitlines() == [*(f"staged {task}" for task in range(tasks)), "sealed", "committed"]
    record_property("measured", f"sink power cut: at each of {steps} steps, which left {len(seen)} different disks")
    assert len(seen) > 8, "the pictures do not show what happens"
