"""txlog processes race each other on a table that Spark's own Delta sometimes has to itself.

Spark's Delta is not safe while any other writer writes (it checks, then renames). In turns it is: everything
acknowledged is in the table, once, and every reader agrees. The lock is the test's own: see `race_worker.turn`.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fault_tools import end_of, process
from race_worker import SCHEMA, Race, turn, work
from races import acknowledged, judge

import txlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS, CALLS, TURNS = 3, 24, 4


@pytest.mark.hunt(part="spark")
def test_processes_that_take_turns_with_sparks_own_delta_lose_and_repeat_nothing(
    delta: SparkSession, tmp_path: Path
) -> None:
    """Spark appends and compacts; in each of its turns, a waiting worker is killed, and another takes its place."""
    uri = str(tmp_path / "t")
    txlog.Table.create(uri, SCHEMA)
    races = [Race(uri, number, CALLS, str(tmp_path / f"{number}.jsonl"), "txlog.turns") for number in range(WORKERS)]
    spark = Race(uri, WORKERS, TURNS, str(tmp_path / "spark.jsonl"), "spark")
    workers = [process(work, race) for race in races]

    def take_turn(number: int) -> dict[str, Any]:
        """Not before the others went on."""
        reported = len(acknowledged(races))
        while len(acknowledged(races)) <= reported and any(worker.is_alive() for worker in workers):
            time.sleep(0.01)
        with turn(spark, alone=True):
            row = delta.createDataFrame([(spark.worker, number)], "worker long, number long")
            row.coalesce(1).write.format("delta").mode("append").save(uri)
            if number % 3 == 2:
                delta.sql(f"optimize delta.`{uri}`").collect()
            victim = number % WORKERS
            workers[victim].kill()
            end_of(workers[victim])
            workers[victim] = process(work, races[victim])
        return {}

    work(spark, call=take_turn)
    assert [end_of(worker) for worker in workers] == [0] * WORKERS
    judge([*races, spark])
    by_spark = ["Spark" in entry.get("engineInfo", "") for entry in txlog.Table.open(uri).history()]
    assert sum(before != after for before, after in pairwise(by_spark)) >= TURNS, "they did not take turns"
