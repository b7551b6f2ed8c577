"""What the integration tests share: each kind of fixture has its own module."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path
from typing import Any

import pytest
from clean_environment import clean, in_the_way
from clouds import *  # noqa: F403
from fault_tools import memory_folder  # noqa: F401
from servers import *  # noqa: F403
from spark_fixtures import *  # noqa: F403
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

clean(os.environ)  # before any module of tests reads it or starts a process

# The other files whose tests use the Spark session; those named test_spark_... do, too. Few processes run all of them,
# since a JVM takes long over what it does for the first time.
WITH_SPARK = {
    *("test_change_feed", "test_feature_matrix", "test_interop_log", "test_interop_maintenance"),
    *("test_interop_row_ids", "test_interop_rows", "test_sink_vacuum", "test_stream_changes"),
}
WITH_A_SERVER = ("test_mirror",)
"""Files whose tests share a server that takes long to start: they stay in one process, too."""
PROGRAMS = ("test_examples", "test_java_home")
SPARK_PROCESSES = 2

# What takes longest, the longest first: what is left for the end is short.
LONGEST = (
    "spark",
    "programs",
    "test_simulation",
    "test_crash_requests",
    "test_races",
    "test_power_cut",
    "test_crash_points",
)


@pytest.fixture
def seed() -> int:
    """When processes are killed: the same in every run, unless TXLOG_RACE_SEED is another number or ``random``."""
    asked = os.environ.get("TXLOG_RACE_SEED", "19")
    return random.SystemRandom().randrange(1 << 32) if asked == "random" else int(asked)


def pytest_configure() -> None:
    if problem := in_the_way():
        raise pytest.UsageError(problem)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {group: number for number, group in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(_group_of(item), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return SparkTogether(config, log)


class SparkTogether(LoadScopeScheduling):
    """With ``--no-loadscope-reorder``: the files with Spark go to the first processes, and any other test by itself to
    one that has no Spark, or nothing else to do. xdist's own groups do nothing under pytest 9.

    Spark keeps one processor and a half busy, and many of the others wait for a disk, or for processes that they end.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = _file_of(nodeid)
        return file.stem if file.stem in WITH_A_SERVER or _has_spark(file) else nodeid

    def _assign_work_unit(self, node: WorkerController) -> None:
        first_without_spark = min(SPARK_PROCESSES, max(self.numnodes - 1, 1))
        is_for_spark = int(node.gateway.id.removeprefix("gw")) < first_without_spark
        fitting = (scope for scope in self.workqueue if _has_spark(_file_of(scope)) == is_for_spark)
        if (scope := next(fitting, None)) is not None:
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def _file_of(nodeid: str) -> Path:
    return Path(nodeid.partition("::")[0])


def _has_spark(file: Path) -> bool:
    return file.stem.startswith("test_spark_") or file.stem in WITH_SPARK


def _group_of(item: pytest.Item) -> str:
    if _has_spark(item.path):
        return "spark"
    return "programs" if item.path.stem in PROGRAMS else item.path.stem


def pytest_collection_finish() -> None:
    """What the collection made stays to the end: no later round of the garbage collector need look at it. Those rounds
    may be rarer, too: each story of the schedule explorer makes thousands of objects that reference counts free.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "measured":
                terminalreporter.write_line(value)
    reasons = {str(report.longrepr[2]) for report in terminalreporter.getreports("skipped")}
    not_tested = sorted(reason for reason in reasons if "NOT TESTED" in reason)
    if not_tested:
        terminalreporter.section("NOT EVERYTHING COULD BE TESTED HERE", sep="!", red=True, bold=True)
        for reason in not_tested:
            terminalreporter.write_line(reason)
