"""Jars for Spark come from the tests' sources, whatever this user's Maven and Ivy have cached."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_jars import jar_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "org.example:thing:1"
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>thing</artifactId><version>1</version></project>"""


def with_pom(repository: Path) -> Path:
    """The folder of the package in this repository of Maven's form, with a POM and no JAR yet."""
    folder = repository / "org" / "example" / "thing" / "1"
    folder.mkdir(parents=True)
    (folder / "thing-1.pom").write_text(POM)
    return folder


def resolved(spark: SparkSession, package: str, settings: dict[str, str]) -> list[str]:
    """The names of the jars that Spark resolves this package to by these settings, as it does when a session starts."""
    jvm: Any = spark._jvm
    some, none = jvm.scala.Option.apply, jvm.scala.Option.empty()
    maven, out = jvm.org.apache.spark.util.MavenUtils, jvm.java.lang.System.err
    ivy = some(settings["spark.jars.ivy"])
    nothing = jvm.org.apache.spark.api.python.PythonUtils.toSeq(jvm.java.util.ArrayList())
    loaded, without_cache = (maven.loadIvySettings(settings["spark.jars.ivySettings"], none, ivy, out) for _ in "12")
    jars = maven.resolveMavenCoordinates(package, loaded, some(without_cache), True, nothing, False, out)
    return [Path(jars.apply(number)).name for number in range(jars.size())]


def test_a_pom_without_its_jar_in_the_maven_cache_of_the_user_hides_no_package(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pom(tmp_path / "home" / ".m2" / "repository")
    repository = tmp_path / "repository"
    with zipfile.ZipFile(with_pom(repository) / "thing-1.jar", "w") as jar:
        jar.writestr("empty", "")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", repository.as_uri() + "/")
    (tmp_path / "ivy").mkdir()
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    home = system.setProperty("user.home", str(tmp_path / "home"))
    try:
        found = resolved(spark, PACKAGE, jar_settings(PACKAGE, tmp_path / "ivy"))
    finally:
        system.setProperty("user.home", home)
    assert found == ["org.example_thing-1.jar"]
