"""What of the caller's environment would reach into the tests: another Python path, another Spark, Java's and Hadoop's
settings, cloud accounts.

The tests start many processes, and all inherit the environment, so it is cleaned once, as a program begins: pytest, the
demo, the benchmarks, the hunt. A test that is about one of these variables sets it itself. Standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

__all__ = ["clean"]

FOREIGN = re.compile(
    r"AWS_.*|AZURE_.*|GOOGLE_.*"
    r"|SPARK_.*|PYSPARK_(?!PYTHON$).*"
    r"|HADOOP_.*|YARN_.*|HIVE_.*"
    r"|CLASSPATH|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|PYTHON(PATH|HOME|STARTUP|WARNINGS|OPTIMIZE|SAFEPATH|IOENCODING)"
    r"|PYTHONDONTWRITEBYTECODE"  # else each new process compiles the checkout again
)


def clean(environment: MutableMapping[str, str]) -> None:
    """Take these variables out of this environment."""
    for name in [name for name in environment if FOREIGN.fullmatch(name)]:
        del environment[name]
