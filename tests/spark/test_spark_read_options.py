"""The options of a Spark read: typed, complete, and nothing ignored."""

from __future__ import annotations

import pytest

from txlog.errors import InvalidInputError
from txlog.spark.read_options import ReadOptions, parse_read_options


def test_read_options_are_parsed_in_any_case() -> None:
    given = {"PATH": "/t", "versionasof": "3", "Columns": "a, b", "where": "a > 1", "storage.region": "eu"}
    assert parse_read_options(given) == ReadOptions("/t", 3, None, ("a", "b"), "a > 1", {"region": "eu"})
    assert "eu" not in repr(parse_read_options(given))


@pytest.mark.parametrize(("text", "time"), [("2026-11-20", "2026-11-20"), ("1700000000000", 1_700_000_000_000)])
def test_a_time_is_text_or_milliseconds(text: str, time: str | int) -> None:
    assert parse_read_options({"path": "/t", "timestampAsOf": text}).timestamp == time


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no path: read with .load"),
        ({"paths": '["/t","/u"]'}, "several paths, and a read returns one table: load each path by itself"),
        ({"path": "/t", "mergeSchema": "true"}, "unknown option 'mergeschema'"),
        ({"path": "/t", "version": "1"}, "did you mean 'versionAsOf'"),
        (
            {"path": "/t", "maxFilesPerTriger": "1"},
            "did you mean 'maxFilesPerTrigger'",
        ),  # Spark asks for the schema first
        ({"path": "/t", "versionAsOf": "-1"}, "Invalid option versionAsOf '-1': expected a whole number"),
        ({"path": "/t", "versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "both name a version"),
        ({"path": "/t", "columns": '["a"'}, "expected a comma-separated list"),
        ({"path": "/t", "where": ""}, "expected a non-empty string"),
    ],
)
def test_an_invalid_read_option_is_refused_and_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=r".") as caught:
        parse_read_options(options)
    assert message in caught.value.message
