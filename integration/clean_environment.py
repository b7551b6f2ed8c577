"""Removes what would leak from the caller's environment into the tests: another Python path, another Spark, Java's and
Hadoop's settings, cloud accounts.

The tests start many processes, and all inherit the environment, so it is cleaned once, when a program starts: pytest,
the demo, the benchmarks, the hunt. A test about one of these variables sets it itself. Only the standard library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import MutableMapping

__all__ = ["clean", "in_the_way"]

FOREIGN = re.compile(
    r"AWS_.*|AZURE_.*|GOOGLE_.*"
    r"|SPARK_.*|PYSPARK_(?!PYTHON$).*"
    r"|HADOOP_.*|YARN_.*|HIVE_.*"
    r"|CLASSPATH|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|PYTHON(PATH|HOME|STARTUP|WARNINGS|OPTIMIZE|SAFEPATH|IOENCODING)"
    r"|PYTHONDONTWRITEBYTECODE"  # otherwise each new process compiles the checkout again
)


def clean(environment: MutableMapping[str, str]) -> None:
    """Take these variables out of this environment."""
    for name in [name for name in environment if FOREIGN.fullmatch(name)]:
        del environment[name]


def in_the_way() -> str | None:
    """What keeps the tests from running here, in one line."""
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        return f"file names are in {encoding} here, and those of the tests need UTF-8: use make, or set LC_ALL=C.UTF-8"
    return None
