"""A job that dies at any step of any write is finished by running it again: no operator, nothing lost or twice.

The job of `crash_job` is killed before each call that changes or syncs something below its table, and in the middle
of each write to its log: while data files are written, sealed and committed, at the checkpoint and its hint, and in
the cleanup of the log. After each death a fresh process finds a legal state, and running the job again ends it. Many
deaths leave the same files as another (those before an fsync, which a kill does not undo): they are judged once.

Most of it is processor time.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import crash_job
from crash_job import ACTS, Job
from fault_tools import end_of, process

Record = Callable[[str, object], None]


def _assert_the_next_run_ends_it(job: Job, died: str) -> None:
    acknowledged = crash_job.acknowledged(job)
    found = crash_job.judged(job)
    assert acknowledged <= found <= acknowledged + 1, f"{died}: {acknowledged} was acknowledged, {found} is there"
    again = process(crash_job.run, job)
    assert end_of(again) == 0, f"{died}: the next run failed"
    assert crash_job.judged(job) == len(ACTS) - 1, died


def _die_at_every(folder: Path, deed: str, steps: int) -> tuple[list[str], int]:
    """What the job was about to do at each death, and how many states they left."""
    states = set()

    def die_at(at: int) -> str | None:
        job = Job(str(folder / f"t{at}"), str(folder / f"ledger-{at}"))
        reported = folder / f"told-{at}"
        doomed = process(crash_job.run_watched, job, deed, at, str(reported))
        exit_code = end_of(doomed)
        if exit_code == 0:
            return None
        step = reported.read_text().splitlines()[-1]
        assert exit_code == -signal.SIGKILL, f"step {at}, {step}: exit code {exit_code}"
        state = crash_job.left(job)
        if state not in states:
            states.add(state)
            _assert_the_next_run_ends_it(job, f"died at step {at}, {step}")
        shutil.rmtree(job.uri, ignore_errors=True)
        return step

    with ThreadPoolExecutor(2) as pool:
        deaths = [death for death in pool.map(die_at, range(steps)) if death is not None]
    assert len(deaths) == steps
    return deaths, len(states)


def _steps_of_a_whole_run(folder: Path) -> list[str]:
    reported = folder / "reported"
    whole = process(crash_job.run_watched, Job(str(folder / "t"), str(folder / "ledger")), "none", -1, str(reported))
    assert end_of(whole) == 0
    return reported.read_text().splitlines()


def test_a_job_that_dies_at_any_step_is_ended_by_its_next_run(memory_folder: Path, record_property: Record) -> None:
    deaths, states = _die_at_every(memory_folder, "die", len(_steps_of_a_whole_run(memory_folder)))
    record_property(
        "measured", f"crash points: a job died at each of its {len(deaths)} steps, {states} states were left"
    )
    assert len(deaths) > 100
    assert states > 50
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
        assert any(death.startswith(f"{call} ") and of in death for death in deaths), f"nobody died at {call} {of}"


def test_a_job_that_dies_in_the_middle_of_any_write_is_ended_by_its_next_run(
    memory_folder: Path, record_property: Record
) -> None:
    writes = [step for step in _steps_of_a_whole_run(memory_folder) if step.startswith("write ")]
    deaths, _ = _die_at_every(memory_folder, "tear", len(writes))
    record_property("measured", f"crash points: a job died in the middle of each of its {len(deaths)} log writes")
    assert len(deaths) > 10
