"""Starts Spark sessions that need jars, one process at a time.

In: the builder of a session. Out: the session. Ivy fetches the jars. Two processes that fetch the same one at the same
moment, on a machine that has none yet, damage each other's files, and a session fails to start.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["start_session"]


def start_session(builder: SparkSession.Builder) -> SparkSession:
    """Start the builder's session while no other process of the tests starts one."""
    folder = Path.home() / ".cache" / "txlog"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return builder.getOrCreate()
