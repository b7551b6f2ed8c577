"""What the integration tests share: each kind of fixture lives in a module of its own."""

from __future__ import annotations

from typing import Any

import fault_tools
import spark_fixtures
from fault_tools import memory_folder  # noqa: F401
from servers import *  # noqa: F403
from spark_fixtures import *  # noqa: F403


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "measured":
                terminalreporter.write_line(value)
    spark_fixtures.say_what_was_missing(terminalreporter)
    fault_tools.say_what_was_left_out(terminalreporter)
