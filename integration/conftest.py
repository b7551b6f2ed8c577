"""What the integration tests share: each kind of fixture lives in a module of its own."""

from __future__ import annotations

from typing import Any

import pytest
from fault_tools import memory_folder  # noqa: F401
from go_servers import GO_PACKAGES
from servers import *  # noqa: F403
from spark_fixtures import *  # noqa: F403

PROGRAMS = ("test_examples", "test_java_home", "test_spark_stream")

# What takes longest, the longest first: what is left for the end is short.
LONGEST = (
    "spark",
    "programs",
    "test_simulation",
    "test_crash_requests",
    "test_races",
    "test_power_cut",
    "test_crash_points",
    *GO_PACKAGES,  # by now they should be built
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order for ``--dist loadgroup --no-loadscope-reorder``, which without a group gives each test by itself to
    the process that is free; each of them comes to have a Spark session of its own.
    """
    order = {group: number for number, group in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(_group_of(item), len(order)))


def _group_of(item: pytest.Item) -> str:
    if "spark_session" in getattr(item, "fixturenames", ()):
        return "spark"
    server = item.callspec.params.get("any_s3_server") if hasattr(item, "callspec") else None
    if server in GO_PACKAGES:
        return str(server)
    return "programs" if item.path.stem in PROGRAMS else item.path.stem


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
