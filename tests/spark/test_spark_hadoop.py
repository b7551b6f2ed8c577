"""Hadoop's settings of S3 as options of txlog: what a session has, and what a store of ours makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from txlog.core.store._options import StorageKind, parse_options
from txlog.spark.hadoop import of_session, storage_options, write_options_of_session


def session(**settings: str) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(getAll=settings))


def test_the_credentials_of_a_session_become_storage_options() -> None:
    settings = {
        "spark.hadoop.fs.s3a.access.key": "id",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.session.token": "token",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.app.name": "x",
    }
    found = storage_options(session(**settings))
    assert found == {
        "storage.access_key_id": "id",
        "storage.secret_access_key": "secret",
        "storage.session_token": "token",
        "storage.region": "eu-west-1",
    }
    parse_options({key.removeprefix("storage."): value for key, value in found.items()}, StorageKind.S3)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"endpoint": "https://s3.example"}, {"storage.endpoint": "https://s3.example"}),
        ({"endpoint": "s3.example"}, {"storage.endpoint": "https://s3.example"}),
        (
            {"endpoint": "localhost:9000", "connection.ssl.enabled": "false"},
            {"storage.endpoint": "http://localhost:9000", "storage.allow_http": "true"},
        ),
        (
            {"endpoint": "http://localhost:9000"},
            {"storage.endpoint": "http://localhost:9000", "storage.allow_http": "true"},
        ),
        (
            {"endpoint": "s3.eu-west-1.amazonaws.com"},
            {"storage.endpoint": "https://s3.eu-west-1.amazonaws.com", "storage.region": "eu-west-1"},
        ),
        (
            {"endpoint": "s3.eu-west-1.amazonaws.com", "endpoint.region": "us-east-2"},
            {"storage.endpoint": "https://s3.eu-west-1.amazonaws.com", "storage.region": "us-east-2"},
        ),
        (
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {"storage.skip_signature": "true"},
        ),
        ({"aws.credentials.provider": "a.AnonymousAWSCredentialsProvider,b.Other"}, {}),
        ({"access.key": ""}, {}),
    ],
)
def test_an_endpoint_has_scheme_and_region_and_http_only_if_configured(
    settings: dict[str, str], expected: dict[str, str]
) -> None:
    assert storage_options(session(**{f"fs.s3a.{key}": value for key, value in settings.items()})) == expected


def test_a_setting_made_in_the_running_session_takes_precedence() -> None:
    both = {"spark.hadoop.fs.s3a.access.key": "old", "fs.s3a.access.key": "new"}
    assert storage_options(session(**both)) == {"storage.access_key_id": "new"}


class HadoopConfiguration:
    """Hadoop's configuration as py4j shows it: what a program or a file has set, over the defaults."""

    def __init__(self, **settings: str) -> None:
        self.defaults = {"fs.s3a.connection.ssl.enabled": "true"}
        self.settings = settings

    def get(self, key: str) -> str | None:
        return self.settings.get(key, self.defaults.get(key))

    def getPropertySources(self, key: str) -> list[str]:
        return ["programmatically"] if key in self.settings else ["core-default.xml"]


def classic_session(settings: dict[str, str], hadoop: dict[str, str]) -> Any:
    state = SimpleNamespace(newHadoopConf=lambda: HadoopConfiguration(**hadoop))
    return SimpleNamespace(
        conf=SimpleNamespace(getAll=settings), _jsparkSession=SimpleNamespace(sessionState=lambda: state)
    )


def test_what_only_hadoops_configuration_has_is_taken_but_no_default_of_its() -> None:
    """A program gives credentials to ``hadoopConfiguration()``, also newer ones than the session began with."""
    at_start = {"spark.hadoop.fs.s3a.access.key": "old", "spark.hadoop.fs.s3a.connection.ssl.enabled": "false"}
    hadoop = {"fs.s3a.access.key": "new", "fs.s3a.secret.key": "secret", "fs.s3a.endpoint": "localhost:9000"}
    expected = {
        "storage.access_key_id": "new",
        "storage.secret_access_key": "secret",
        "storage.endpoint": "http://localhost:9000",
        "storage.allow_http": "true",
    }
    assert storage_options(classic_session(at_start, hadoop)) == expected
    now = {**at_start, "fs.s3a.access.key": "newest"}
    assert storage_options(classic_session(now, hadoop))["storage.access_key_id"] == "newest"


@pytest.mark.parametrize("uri", ["s3://mine/t", "s3a://mine/t/", "s3://mine"])
def test_the_settings_of_a_bucket_are_for_its_tables_alone(uri: str) -> None:
    settings = {
        "fs.s3a.access.key": "of all",
        "fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.bucket.mine.access.key": "of mine",
        "fs.s3a.bucket.other.access.key": "of other",
    }
    expected = {"storage.access_key_id": "of mine", "storage.secret_access_key": "secret"}
    for found in (session(**settings), classic_session({}, {**settings, "fs.s3a.bucket.mine.access.key": "of mine"})):
        assert storage_options(found, uri) == write_options_of_session(found, uri) == expected
        assert of_session(found, uri) == {"access_key_id": "of mine", "secret_access_key": "secret"}
        assert storage_options(found)["storage.access_key_id"] == "of all"


def test_only_s3_paths_get_session_options_and_unreadable_settings_give_none() -> None:
    known = session(**{"fs.s3a.access.key": "id"})
    assert of_session(known, "s3a://b/t") == of_session(known, "s3://b/t") == {"access_key_id": "id"}
    assert write_options_of_session(known, "s3://b/t") == {"storage.access_key_id": "id"}
    assert of_session(known, "/local") == of_session(known, "az://b/t") == {}
    assert of_session(SimpleNamespace(conf=None), "s3://b/t") == {}
