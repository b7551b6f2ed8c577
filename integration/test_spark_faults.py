"""Faults of the jobs that Spark runs for txlog: rows are exact, no version is half done, a vacuum finds all orphans."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import java_home
import pytest
import spark_fault_job
from maintained_tables import COMMANDS, random_table
from pyspark import cloudpickle
from rows import assert_sound
from spark_fault_job import FAULTS, LOST_ROWS, WORKS, at_each_report, dies_twice, fails_twice, waits
from test_spark_s3 import python_path

import txlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The workers cannot import it, so its faults travel as code.
cloudpickle.register_pickle_by_value(spark_fault_job)

Read = Callable[..., "DataFrame"]
Left = tuple[int, list[str]]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Without files that no commit names."""
    folder = random_table(tmp_path / "base", 0)
    txlog.Table.open(folder).vacuum(0, force=True)
    return folder


def done_alone(base: Path, work: str) -> Left:
    """What one process leaves of a copy."""
    folder = base.with_name(f"{work} alone")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    COMMANDS[work.split()[-1]](txlog.Table.open(folder))
    return left(folder)


def left(folder: Path) -> Left:
    table = txlog.Table.open(folder)
    return table.version, sorted(map(repr, table.to_arrow().to_pylist()))


def judge(folder: Path, expected: Left, read_delta: Read) -> None:
    """The table is as expected, and a vacuum of a copy leaves just the files that the version names."""
    assert left(folder) == expected
    theirs = [{name: row[name] for name in ("id", "day", "note")} for row in read_delta(folder).collect()]
    assert sorted(map(repr, theirs)) == expected[1]
    assert_sound(str(folder))
    copy = Path(shutil.copytree(folder, folder.with_name(f"{folder.name} {expected[0]} vacuumed")))
    table = txlog.Table.open(copy)
    table.vacuum(0, force=True)
    files = [path.relative_to(copy) for path in copy.rglob("*.parquet")]
    named = set(table.files().column("path").to_pylist())
    assert {str(path) for path in files if path.parts[0] != "_delta_log"} == named
    assert left(copy)[1] == expected[1]
    assert_sound(str(copy))


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("fault", [fails_twice, dies_twice])
@pytest.mark.parametrize("work", WORKS)
def test_work_whose_tasks_fail_twice_after_they_wrote_their_files_is_done_once(
    base: Path, spark: SparkSession, read_delta: Read, work: str, fault: Callable[[str], None]
) -> None:
    expected = done_alone(base, work)
    flag = base.with_name("flag")
    with at_each_report(partial(fault, str(flag))):
        WORKS[work](spark, str(base))
    assert flag.exists()
    judge(base, expected, read_delta)


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("work", WORKS)
def test_work_that_is_cancelled_leaves_the_version_that_it_found_and_can_be_done_again(
    base: Path, spark: SparkSession, read_delta: Read, work: str
) -> None:
    before, expected = left(base), done_alone(base, work)
    flag = base.with_name("flag")
    with ThreadPoolExecutor(1) as pool, at_each_report(partial(waits, str(flag))):
        doing = pool.submit(WORKS[work], spark, str(base))
        while not flag.exists():
            assert not doing.done(), doing.exception()
            time.sleep(0.05)
        spark.sparkContext.cancelAllJobs()
        with pytest.raises(Exception, match="cancel"):
            doing.result()
    judge(base, before, read_delta)
    WORKS[work](spark, str(base))
    judge(base, expected, read_delta)


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize(
    ("work", "job"), [("optimize", 1), ("cluster", 2), ("upsert", 1), ("spread upsert", 1), ("spread upsert", 2)]
)
def test_a_driver_that_is_killed_as_its_tasks_have_reported_leaves_the_version_that_it_found(
    base: Path, spark: SparkSession, read_delta: Read, work: str, job: int
) -> None:
    before, expected = left(base), done_alone(base, work)
    died = program("killed", work, str(base), str(job))
    assert died.returncode == -9, died.stderr[-5000:]
    judge(base, before, read_delta)
    WORKS[work](spark, str(base))
    judge(base, expected, read_delta)


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("fault", FAULTS)
def test_work_on_executors_that_die_or_whose_slow_task_is_run_twice_is_done_once_or_not_at_all(
    base: Path, spark: SparkSession, read_delta: Read, fault: str
) -> None:
    """If the executor that dies holds the rows of a source, which are computed once, the work begins again."""
    folder = base.with_name("cluster")
    works = [*WORKS, *([LOST_ROWS] if fault == "executor dies" else [])]
    for work in works:
        shutil.copytree(base, folder / work)
    ran = program("cluster", fault, str(folder))
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert [work for work in works if f"{work} is done" in ran.stdout.splitlines()] == works, ran.stdout
    for work in works:
        expected = done_alone(base, "upsert" if work == LOST_ROWS else work)
        assert (folder / f"{work}.flag").exists(), "no fault"
        if fault == "slow" or "upsert" not in work:
            assert (folder / f"{work}.flag.again").exists(), "no task was run again"
        judge(folder / work, expected, read_delta)


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, spark_fault_job.__file__, *arguments],
        env={**java_home.spark_environment(), **python_path()},
        capture_output=True,
        text=True,
        timeout=600,
    )
