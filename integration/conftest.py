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
from go_servers import GO_PACKAGES
from servers import *  # noqa: F403
from spark_fixtures import *  # noqa: F403
from xdist.scheduler import LoadScopeScheduling

clean(os.environ)  # before any module of tests reads it or starts a process

# What runs in the session of one process and what in that of the other, by file: a JVM takes long over what it does for
# the first time, so that commands of Spark's own Delta and reads, writes and streams of ours warm up one JVM each.
SESSIONS = {
    "spark-delta": (
        *("test_change_feed", "test_interop_maintenance", "test_interop_row_ids", "test_interop_rows"),
        *(
            "test_spark_checkpoints",
            "test_spark_clones",
            "test_spark_conflicts",
            "test_spark_delta_peer",
            "test_spark_features",
            "test_feature_matrix",
        ),
        *("test_spark_merge", "test_spark_overwrite", "test_spark_pages", "test_spark_rows", "test_spark_turns"),
    ),
    "spark": (
        *("test_spark_expressions", "test_spark_failures", "test_spark_jars", "test_spark_read", "test_spark_session"),
        *("test_spark_source_read", "test_spark_stream", "test_spark_stream_read", "test_spark_types"),
        *("test_spark_write", "test_stream_changes"),
    ),
    "spark-s3": ("test_spark_s3",),  # one job, in its own process
    "spark-ends": ("test_spark_process_end",),  # two of them
}
PROGRAMS = ("test_examples", "test_java_home")

# What takes longest, the longest first: what is left for the end is short.
LONGEST = (
    "spark-delta",
    "spark",
    "more of Spark",
    "spark-s3",
    "spark-ends",
    "programs",
    "test_simulation",
    "test_crash_requests",
    "test_races",
    "test_power_cut",
    "test_crash_points",
    *GO_PACKAGES,  # by now they should be built
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
    return SessionsTogether(config, log)


class SessionsTogether(LoadScopeScheduling):
    """With ``--no-loadscope-reorder``: the files of a session go to one process, and any other test by itself to the
    process that is free. xdist's own groups do nothing under pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        stem = Path(nodeid.partition("::")[0]).stem
        return next((session for session, stems in SESSIONS.items() if stem in stems), nodeid)


def _group_of(item: pytest.Item) -> str:
    for session, stems in SESSIONS.items():
        if item.path.stem in stems:
            return session
    if "spark_session" in getattr(item, "fixturenames", ()):
        return "more of Spark"
    server = item.callspec.params.get("any_s3_server") if hasattr(item, "callspec") else None
    if server in GO_PACKAGES:
        return str(server)
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
