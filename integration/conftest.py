"""What the integration tests share: each kind of fixture lives in a module of its own."""

from __future__ import annotations

from typing import Any

import pytest
from fault_tools import memory_folder  # noqa: F401
from servers import *  # noqa: F403
from spark_fixtures import *  # noqa: F403

OWN_SESSIONS = ("test_examples", "test_java_home", "test_spark_stream")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For ``-n 2 --dist loadgroup``: all that needs a JVM in one process, each other module where there is room."""
    for item in items:
        module = item.path.stem
        needs_spark = "spark_session" in getattr(item, "fixturenames", ()) or module in OWN_SESSIONS
        item.add_marker(pytest.mark.xdist_group("spark" if needs_spark else module))


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
