"""What of the caller's environment would reach into the tests: another Spark, Hadoop's settings, accounts of clouds.

The tests start many processes, and all inherit the environment, so it is cleaned once, as pytest begins. A test that is
about one of these variables sets it itself. Standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

__all__ = ["clean"]

FOREIGN = re.compile(
    r"AWS_.*|AZURE_.*|GOOGLE_.*"
    r"|SPARK_(HOME|CONF_DIR|DIST_CLASSPATH|LOCAL_DIRS|REMOTE|API_MODE|CONNECT_MODE_ENABLED)"
    r"|HADOOP_.*|YARN_CONF_DIR|HIVE_CONF_DIR"
    r"|PYSPARK_(SUBMIT_ARGS|DRIVER_PYTHON|DRIVER_PYTHON_OPTS|GATEWAY_PORT|GATEWAY_SECRET)"
    r"|PYTHONDONTWRITEBYTECODE"  # else each new process compiles the checkout again
)


def clean(environment: MutableMapping[str, str]) -> None:
    """Take these variables out of this environment."""
    for name in [name for name in environment if FOREIGN.fullmatch(name)]:
        del environment[name]
