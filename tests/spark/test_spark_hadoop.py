"""Hadoop's settings of S3 as options of txlog: what a session has, and what a store of ours makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from txlog.spark.hadoop import of_session, storage_options
from txlog.store.options import Cloud, parse_options


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
    parse_options({key.removeprefix("storage."): value for key, value in found.items()}, Cloud.S3)


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
        ({"access.key": ""}, {}),
    ],
)
def test_an_endpoint_has_its_scheme_and_plain_http_is_allowed_only_if_configured(
    settings: dict[str, str], expected: dict[str, str]
) -> None:
    assert storage_options(session(**{f"fs.s3a.{key}": value for key, value in settings.items()})) == expected


def test_a_setting_made_in_the_running_session_takes_precedence() -> None:
    both = {"spark.hadoop.fs.s3a.access.key": "old", "fs.s3a.access.key": "new"}
    assert storage_options(session(**both)) == {"storage.access_key_id": "new"}


def test_only_s3_paths_get_session_options_and_unreadable_settings_give_none() -> None:
    known = session(**{"fs.s3a.access.key": "id"})
    assert of_session(known, "s3a://b/t") == of_session(known, "s3://b/t") == {"storage.access_key_id": "id"}
    assert of_session(known, "/local") == of_session(known, "az://b/t") == {}
    assert of_session(SimpleNamespace(conf=None), "s3://b/t") == {}
