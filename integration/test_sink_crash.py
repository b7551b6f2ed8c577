"""A sink that dies at any step of staging, sealing, committing or removing is ended by its next run: exactly once.

An application writes a checkpoint without rows and one with some, by two tasks each. It dies before each call that
changes or syncs something below its table (`deaths`); then it runs again. A recovery dies the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sink_job
from deaths import judge_every_death
from fault_tools import end_of, process
from sink_job import SinkJob

Record = Callable[[str, object], None]


def _staging_of(job: SinkJob) -> list[str]:
    return sorted(path.name for path in Path(job.uri, "_txlog", "staging").glob("[!.]*"))


def _die_everywhere(
    life: Callable[[SinkJob], None], job: SinkJob, reported: Path, staging: list[str]
) -> tuple[list[str], int]:
    """Whenever ``life`` dies, the same life lived again ends it, and leaves just this in the staging area."""

    def judge(copy: Path, died: str) -> None:
        left = replace(job, uri=str(copy / "t"))
        assert end_of(process(life, left)) == 0, f"{died}: the next run failed"
        assert sink_job.judged(left) == job.expected(), died
        assert _staging_of(left) == staging, died

    child = process(sink_job.watched, life, job, str(reported))
    deaths = judge_every_death(child, Path(job.uri).parent, reported, judge)
    assert sink_job.judged(job) == job.expected()
    assert _staging_of(job) == staging
    return deaths


def test_a_sink_that_dies_at_any_step_is_ended_by_its_next_run(memory_folder: Path, record_property: Record) -> None:
    (memory_folder / "job").mkdir()
    job = SinkJob(str(memory_folder / "job" / "t"), checkpoints=2, empty=(0,))
    deaths, states = _die_everywhere(sink_job.run, job, memory_folder / "reported", [])
    record_property("measured", f"sink crash points: died at each of {len(deaths)} steps, {states} states were left")
    _assert_somebody_died(
        deaths,
        ("mkdir", "_txlog/staging"),
        ("fsync", "_txlog"),
        ("write", "_txlog/staging/"),
        ("fsync", "_txlog/staging/"),
        ("link", f"{1:020}.task.0.0"),
        ("link", f"{1:020}.manifest"),
        ("fsync", "_txlog/staging"),
        ("link", f"_delta_log/{1:020}.json"),
        ("remove", f"{0:020}.manifest"),
        ("remove", f"{1:020}.manifest"),
        ("remove", f"{1:020}.task.1.0"),
    )


@pytest.mark.hunt(part="crashes")
def test_a_recovery_that_dies_at_any_step_is_ended_by_the_next(memory_folder: Path, record_property: Record) -> None:
    (memory_folder / "job").mkdir()
    job = SinkJob(str(memory_folder / "job" / "t"), checkpoints=2)
    assert end_of(process(sink_job.prepared, job)) == 0
    partial = _staging_of(job)[-1:]
    deaths, states = _die_everywhere(sink_job.recover, job, memory_folder / "reported", partial)
    record_property("measured", f"sink recovery: died at each of {len(deaths)} steps, {states} states were left")
    _assert_somebody_died(
        deaths, ("link", f"{2:020}.json"), ("remove", f"{0:020}.manifest"), ("remove", f"{1:020}.task.1.0")
    )


def _assert_somebody_died(deaths: list[str], *steps: tuple[str, str]) -> None:
    for call, of in steps:
        assert any(death.startswith(f"{call} ") and of in death for death in deaths), f"no process died at {call} {of}"
