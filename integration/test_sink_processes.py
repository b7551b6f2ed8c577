"""Many processes stage together and are killed with kill -9, coordinators too: every row is in the table, once.

The test is the engine: it starts every task of a checkpoint in its own process, kills some of them at random
moments, starts those again as their next attempt, and hands the attempts that ended well to two coordinators at a
time, some of which it kills as well. On a disk and on an object store.

Up to 40 s on two busy cores.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import sink_job
from fault_tools import end_of, process
from servers import S3Location
from sink_job import SinkJob
from staging_contract import STAGING_CONTRACT

from txlog.core.store import TableStore, open_store

Record = Callable[[str, object], None]
LIFETIME_S = 0.4
KILLS_EACH = 3


class Engine:
    """Starts processes, and kills a good part of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.killed = 0

    def doomed(self, life: Callable[..., Any], *arguments: Any, kills: int) -> BaseProcess:
        """A process that may be killed, while ``kills`` are left."""
        started = process(life, *arguments)
        if kills > 0 and self.random.random() < 0.6:
            killer = threading.Timer(self.random.uniform(0, LIFETIME_S), started.kill)
            killer.daemon = True
            killer.start()
        return started

    def ended_well(self, child: BaseProcess) -> bool:
        exit_code = end_of(child)
        assert exit_code in (0, -9), f"{child} ended by itself with code {exit_code}"
        self.killed += exit_code != 0
        return exit_code == 0

    def staged(self, job: SinkJob, checkpoint_id: int) -> dict[int, int]:
        """The attempt of each task that ended well."""
        attempts: dict[int, int] = {}
        for attempt in range(KILLS_EACH + 1):
            running = {
                task_id: self.doomed(sink_job.stage, job, checkpoint_id, task_id, attempt, kills=KILLS_EACH - attempt)
                for task_id in range(job.tasks)
                if task_id not in attempts
            }
            attempts |= {task_id: attempt for task_id, child in running.items() if self.ended_well(child)}
        return attempts

    def coordinated(self, job: SinkJob, checkpoint_id: int, attempts: dict[int, int]) -> None:
        """By two coordinators at the same time, until one of them succeeds."""
        for kills in range(KILLS_EACH, -1, -1):
            twins = [self.doomed(sink_job.coordinate, job, checkpoint_id, attempts, kills=kills) for _ in range(2)]
            ended_well = [self.ended_well(child) for child in twins]
            if any(ended_well):
                return


def _run(job: SinkJob, seed: int, record_property: Record) -> None:
    engine = Engine(seed)
    table = job.begin()
    begun = table.version
    for checkpoint_id in range(job.checkpoints):
        engine.coordinated(job, checkpoint_id, engine.staged(job, checkpoint_id))
    assert end_of(process(sink_job.recover, job)) == 0
    assert sink_job.judged(job) == job.expected(), f"seed {seed}"
    assert table.snapshot().version == begun + job.checkpoints, f"seed {seed}: a version for each checkpoint"
    left = open_store(job.uri, job.storage_options).staging
    assert left is not None
    assert left.list_from("") == [], f"seed {seed}"
    record_property(
        "measured",
        f"sink processes: {job.checkpoints} checkpoints of {job.tasks} tasks, seed {seed}; processes"
        f" killed with kill -9: {engine.killed}; every row once",
    )


def test_processes_that_stage_and_are_killed_lose_nothing(
    memory_folder: Path, seed: int, record_property: Record
) -> None:
    job = SinkJob(str(memory_folder / "t"), checkpoints=5, tasks=6)
    _run(job, seed, record_property)


@pytest.mark.hunt(part="races")
def test_processes_that_stage_changes_and_are_killed_lose_nothing(
    memory_folder: Path, seed: int, record_property: Record
) -> None:
    job = SinkJob(str(memory_folder / "t"), checkpoints=2, tasks=3, upserts=True)
    _run(job, seed, record_property)


@pytest.mark.hunt(part="races")
def test_processes_that_stage_on_an_object_store_and_are_killed_lose_nothing(
    s3_location: S3Location, seed: int, record_property: Record
) -> None:
    job = SinkJob(s3_location.uri, checkpoints=3, tasks=4, storage_options=s3_location.storage_options)
    _run(job, seed, record_property)


@pytest.mark.parametrize("check", STAGING_CONTRACT, ids=lambda check: check.__name__)
def test_a_server_keeps_the_staging_contract(any_s3_location: S3Location, check: Callable[[TableStore], None]) -> None:
    check(open_store(any_s3_location.uri, any_s3_location.storage_options))
