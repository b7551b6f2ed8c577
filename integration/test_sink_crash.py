"""A sink that dies at any step of staging, sealing, committing or removing is ended by its next run: exactly once.

An application writes a checkpoint without rows and one with some, by two tasks each. It is killed before each call that
changes or syncs something below its table; then it runs again. A recovery is killed the same way, over and over.

Some 90 deaths; up to 60 s on two busy cores, most of it processor time.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import sink_job
from fault_tools import end_of, process
from sink_job import SinkJob

Record = Callable[[str, object], None]


def _steps_of(life: Callable[[SinkJob], None], job: SinkJob, reported: Path) -> list[str]:
    assert end_of(process(sink_job.watched, life, job, -1, str(reported))) == 0
    return reported.read_text().splitlines()


def _died_at(life: Callable[[SinkJob], None], job: SinkJob, at: int, reported: Path) -> str:
    exit_code = end_of(process(sink_job.watched, life, job, at, str(reported)))
    step = reported.read_text().splitlines()[-1]
    assert exit_code == -signal.SIGKILL, f"step {at}, {step}: exit code {exit_code}"
    return step


def _staging_of(job: SinkJob) -> list[str]:
    return sorted(path.name for path in Path(job.uri, "_txlog", "staging").glob("[!.]*"))


def _died_everywhere(steps: int, die_at: Callable[[int], str]) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(die_at, range(steps)))


def test_a_sink_that_dies_at_any_step_is_ended_by_its_next_run(memory_folder: Path, record_property: Record) -> None:
    job = SinkJob(str(memory_folder / "whole"), checkpoints=2, empty=(0,))
    steps = _steps_of(sink_job.run, job, memory_folder / "reported")
    assert sink_job.judged(job) == job.expected()
    assert _staging_of(job) == []

    def die_at(at: int) -> str:
        doomed = replace(job, uri=str(memory_folder / f"t{at}"))
        step = _died_at(sink_job.run, doomed, at, memory_folder / f"told-{at}")
        assert end_of(process(sink_job.run, doomed)) == 0, f"died at step {at}, {step}: the next run failed"
        assert sink_job.judged(doomed) == job.expected(), f"died at step {at}, {step}"
        assert _staging_of(doomed) == [], f"died at step {at}, {step}"
        return step

    deaths = _died_everywhere(len(steps), die_at)
    record_property("measured", f"sink crash points: died at each of {len(deaths)} steps, and the next run ended it")
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


def test_a_recovery_that_dies_at_any_step_is_ended_by_the_next(memory_folder: Path, record_property: Record) -> None:
    job = SinkJob(str(memory_folder / "pattern"), checkpoints=2)
    assert end_of(process(sink_job.prepared, job)) == 0
    left = _staging_of(job)
    whole = replace(job, uri=shutil.copytree(job.uri, memory_folder / "whole").as_posix())
    steps = _steps_of(sink_job.recover, whole, memory_folder / "reported")

    def die_at(at: int) -> str:
        doomed = replace(job, uri=shutil.copytree(job.uri, memory_folder / f"t{at}").as_posix())
        step = _died_at(sink_job.recover, doomed, at, memory_folder / f"told-{at}")
        assert end_of(process(sink_job.recover, doomed)) == 0, f"died at step {at}, {step}"
        assert sink_job.judged(doomed) == job.expected(), f"died at step {at}, {step}"
        assert _staging_of(doomed) == [left[-1]], f"died at step {at}, {step}"
        return step

    deaths = _died_everywhere(len(steps), die_at)
    record_property("measured", f"sink recovery: died at each of {len(deaths)} steps, and the next ended it")
    _assert_somebody_died(
        deaths, ("link", f"{2:020}.json"), ("remove", f"{0:020}.manifest"), ("remove", f"{1:020}.task.1.0")
    )


def _assert_somebody_died(deaths: list[str], *steps: tuple[str, str]) -> None:
    for call, of in steps:
        assert any(death.startswith(f"{call} ") and of in death for death in deaths), f"nobody died at {call} {of}"
