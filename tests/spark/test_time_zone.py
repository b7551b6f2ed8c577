"""The zone of a session, as far as each process of Spark sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from txlog.errors import InvalidInputError
from txlog.spark.settings import TIME_ZONE, SessionSettings, zone_of_machine


@pytest.mark.parametrize(
    ("properties", "zone"),
    [
        ({}, "Asia/Tokyo"),
        ({TIME_ZONE: "Europe/Berlin"}, "Europe/Berlin"),
        ({"spark.driver.extraJavaOptions": "-Xmx1g -Duser.timezone=America/New_York -Dkey=secret"}, "America/New_York"),
        ({"spark.driver.defaultJavaOptions": "-Duser.timezone='GMT+2'"}, "GMT+2"),
        ({TIME_ZONE: "Etc/UTC", "spark.driver.extraJavaOptions": "-Duser.timezone=Asia/Seoul"}, "UTC"),
    ],
)
def test_a_task_sees_the_zone_of_the_session_or_of_the_drivers_java(properties: dict[str, str], zone: str) -> None:
    settings = SessionSettings.seen_by(properties.get)
    assert settings.time_zone(None, "Asia/Tokyo") == zone
    assert settings.time_zone("+01:00", "Asia/Tokyo") == "+01:00"
    assert "secret" not in str(settings)


def test_a_session_in_a_zone_that_python_lacks_is_refused_by_the_settings_name() -> None:
    with pytest.raises(InvalidInputError, match=TIME_ZONE):
        SessionSettings({TIME_ZONE: "SystemV/PST8"}).time_zone(None, "UTC")


@pytest.mark.parametrize(
    ("text", "zone"), [("America/New_York", "America/New_York"), (":Asia/Tokyo", "Asia/Tokyo"), ("UTC0", "UTC")]
)
def test_the_zone_of_the_machine_is_that_of_its_environment(
    text: str, zone: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TZ", text)
    assert zone_of_machine() == zone
