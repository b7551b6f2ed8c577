"""The jars of Spark sessions and of Delta's kernel: where Ivy gets them, one process at a time.

    python integration/spark_jars.py        fetches all that the integration tests need, beside other work

Ivy resolves into a separate cache, with separate settings. Spark's settings look into ~/.m2 first, and take a POM there
for the whole package, though its JAR may be missing. ``DEFAULT_ARTIFACT_REPOSITORY``, which Spark knows too, is the
address of a repository to ask first, such as a mirror.

Two processes that fetch the same jar at the same moment, on a machine that has none yet, damage each other's files, and
a session fails to start: so sessions start under a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from caches import cache_folder
from java_home import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DELTA_PACKAGE", "fetched", "ivy_settings", "jar_settings", "kernel_jars", "start_session"]

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
KERNEL_VERSION = "4.4.0"
KERNEL_WHOLE = ("delta-kernel-unitycatalog",)
KERNEL_ALONE = ("delta-kernel-api", "delta-kernel-defaults")
"""Without what they depend on, which pyspark brings."""


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
    with _alone():
        return builder.getOrCreate()


def kernel_jars() -> tuple[Path, list[Path]]:
    """Fetches the jars of Delta's kernel: their folder, and those that could not be fetched."""
    folder = cache_folder("kernel") / KERNEL_VERSION
    missing = []
    for name in (*KERNEL_WHOLE, *KERNEL_ALONE):
        jar = folder / f"{name}-{KERNEL_VERSION}.jar"
        if not jar.exists():
            alone = ["-notransitive"] if name in KERNEL_ALONE else []
            retrieve = ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
            _fetch(f"io.delta:{name}:{KERNEL_VERSION}", folder / "cache", *alone, *retrieve)
        missing += [] if jar.exists() else [jar]
    return folder, missing


def fetched(package: str, folder: Path) -> Path | None:
    """The folder with the jars of a package and of all that it needs, fetched if they are not there; None if they
    cannot be had."""
    jars = folder / "jars"
    if not jars.exists():
        coming = folder / f"coming-{os.getpid()}"
        _fetch(package, folder / "cache", "-retrieve", f"{coming}/[artifact]-[revision].[ext]")
        _, name, version = package.split(":")
        if not (coming / f"{name}-{version}.jar").exists():
            return None
        with contextlib.suppress(OSError):  # another process has fetched them meanwhile
            coming.rename(jars)
    return jars


def _fetch(package: str, cache: Path, *arguments: str) -> None:
    """Have Ivy fetch a package. Whether it could is to be seen from the files."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    settings = cache_folder("ivy") / f"settings-{os.getpid()}-fetch.xml"
    settings.write_text(ivy_settings(os.environ))
    command = [
        f"{java_home()}/bin/java",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        f"{Path(spark.origin).parent}/jars/*",
        "org.apache.ivy.Main",
    ]
    command += ["-settings", str(settings), "-cache", str(cache), "-confs", "default"]
    command += ["-dependency", *package.split(":"), *arguments]
    try:
        subprocess.run(command, capture_output=True, check=False, timeout=300)
    finally:
        settings.unlink()


@contextmanager
def _alone() -> Iterator[None]:
    with (cache_folder("ivy") / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    with _alone():
        _fetch(DELTA_PACKAGE, cache_folder("ivy") / "cache")
    kernel_jars()
