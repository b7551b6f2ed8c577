"""The jars of Spark sessions: where Ivy gets them, one process at a time.

Ivy resolves into a separate cache, with separate settings. Spark's settings look into ~/.m2 first, and take a POM there
for the whole package, though its JAR may be missing. ``DEFAULT_ARTIFACT_REPOSITORY``, which Spark knows too, is the
address of a repository to ask first, such as a mirror.

Two processes that fetch the same jar at the same moment, on a machine that has none yet, damage each other's files, and
a session fails to start: so sessions start under a lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from caches import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ivy_settings", "jar_settings", "start_session"]


def jar_settings(packages: str, folder: Path | None = None) -> dict[str, str]:
    """Spark's settings for a session with these packages (``group:name:version``, with commas between them)."""
    folder = folder or cache_folder("ivy")
    text = ivy_settings(os.environ)
    settings = folder / f"settings-{os.getpid()}.xml"
    settings.write_text(text)
    shared = settings.replace(folder / "settings.xml")  # whole at any time for the processes that read it
    return {
        "spark.jars.packages": packages,
        "spark.jars.ivy": str(folder),
        "spark.jars.ivySettings": str(shared),
    }


def ivy_settings(environment: Mapping[str, str]) -> str:
    """The text of Ivy's settings file: a repository that the environment names, then Maven's central one."""
    given = environment.get("DEFAULT_ARTIFACT_REPOSITORY")
    first = f'<ibiblio name="given" m2compatible="true" root={quoteattr(given)}/>' if given else ""
    return (
        '<ivysettings><settings defaultResolver="all"/><resolvers><chain name="all" returnFirst="true">'
        f'{first}<ibiblio name="central" m2compatible="true"/>'
        "</chain></resolvers></ivysettings>\n"
    )


def start_session(builder: SparkSession.Builder) -> SparkSession:
    """Start the builder's session while no other process of the tests starts one."""
    with (cache_folder("ivy") / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return builder.getOrCreate()
