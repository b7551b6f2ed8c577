"""A job that dies at any step of any write is finished by running it again: no operator, nothing lost or twice.

The job of `crash_job` dies before each call that changes or syncs something below its table (`deaths`), and is killed
in the middle of each write to its log: while data files are written, sealed and committed, at the checkpoint and its
hint, and in the cleanup of the log. After each death a fresh process finds a legal state, and running the job again
ends it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import crash_job
import pytest
from crash_job import ACTS, Job
from deaths import judge_every_death
from fault_tools import end_of, process

Record = Callable[[str, object], None]


def _job(folder: Path) -> Job:
    return Job(str(folder / "t"), str(folder / "ledger"))


def _assert_the_next_run_ends_it(job: Job, died: str) -> None:
    acknowledged = crash_job.acknowledged(job)
    found = crash_job.judged(job)
    assert acknowledged <= found <= acknowledged + 1, f"{died}: {acknowledged} was acknowledged, {found} is there"
    again = process(crash_job.run, job)
    assert end_of(again) == 0, f"{died}: the next run failed"
    assert crash_job.judged(job) == len(ACTS) - 1, died


def _writes_of_a_whole_run(folder: Path) -> list[str]:
    reported = folder / "reported"
    whole = process(crash_job.run_watched, _job(folder), "none", -1, str(reported))
    assert end_of(whole) == 0
    return [step for step in reported.read_text().splitlines() if step.startswith("write ")]


def test_a_job_that_dies_at_any_step_is_ended_by_its_next_run(memory_folder: Path, record_property: Record) -> None:
    def judge(copy: Path, died: str) -> None:
        _assert_the_next_run_ends_it(_job(copy), died)

    folder, reported = memory_folder / "job", memory_folder / "reported"
    folder.mkdir()
    child = process(crash_job.run_watched, _job(folder), "stop", -1, str(reported))
    deaths, states = judge_every_death(child, folder, reported, judge)
    record_property(
        "measured", f"crash points: a job died at each of its {len(deaths)} steps, {states} states were left"
    )
    assert len(deaths) > 100
    assert states > 30
    for call, of in (
        ("open", "day=d0"),
        ("open", ".parquet.inprogress"),
        ("fsync", ".parquet.inprogress"),
        ("link", ".snappy.parquet"),
        ("fsync", "day=d1"),
        ("write", "_delta_log/#"),  # a file without a name
        ("fsync", "_delta_log/#"),
        ("link", f"{len(ACTS):020}.json"),
        ("fsync", "_delta_log"),
        ("link", ".checkpoint.parquet"),
        ("rename", "_last_checkpoint"),
        ("remove", f"{0:020}.json"),
        ("remove", f"{3:020}.checkpoint.parquet"),
    ):
        assert any(death.startswith(f"{call} ") and of in death for death in deaths), f"no process died at {call} {of}"


@pytest.mark.hunt(part="crashes")
def test_a_job_that_dies_in_the_middle_of_any_write_is_ended_by_its_next_run(
    memory_folder: Path, record_property: Record
) -> None:
    states = set()

    def die_at(number: int) -> None:
        folder = memory_folder / f"job-{number}"
        folder.mkdir()
        job = _job(folder)
        exit_code = end_of(process(crash_job.run_watched, job, "tear", number, str(memory_folder / f"told-{number}")))
        died = f"died in the middle of write {number}, {writes[number]}"
        assert exit_code == -signal.SIGKILL, f"{died}: exit code {exit_code}"
        state = crash_job.left(job)
        if state not in states:
            states.add(state)
            _assert_the_next_run_ends_it(job, died)

    writes = _writes_of_a_whole_run(memory_folder)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(die_at, range(len(writes))))
    record_property("measured", f"crash points: a job died in the middle of each of its {len(writes)} log writes")
    assert len(writes) > 10
