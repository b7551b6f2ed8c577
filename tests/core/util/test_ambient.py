"""Time: a suspended machine is no younger than one that ran, and an age is what the clock that missed less says."""

from __future__ import annotations

import time

import pytest

from txlog.core import ambient
from txlog.core.ambient import Instant


class Scripted(ambient.Ambient):
    def __init__(self, monotonic_s: float, wall_ms: int) -> None:
        self.reading = Instant(monotonic_s, wall_ms)

    def monotonic_s(self) -> float:
        return self.reading.monotonic_s

    def now_ms(self) -> int:
        return self.reading.wall_ms


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that counts suspension")
def test_durations_count_the_time_that_the_machine_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {time.CLOCK_BOOTTIME: 2_592_000.5}
    monkeypatch.setattr(time, "clock_gettime", readings.__getitem__)
    assert ambient.monotonic_s() == 2_592_000.5


@pytest.mark.parametrize(
    ("ran_s", "wall_moved_s", "age_s"),
    [(5.0, 5, 5.0), (5.0, 2_592_000, 2_592_000.0), (5.0, -3600, 5.0), (0.0, 0, 0.0)],
    ids=["both agree", "the monotonic clock was suspended", "wall time was set back", "now"],
)
def test_an_age_is_the_larger_of_two_clocks(ran_s: float, wall_moved_s: int, age_s: float) -> None:
    clock = Scripted(1000.0, 1_700_000_000_000)
    with ambient.use(clock):
        since = ambient.instant()
        clock.reading = Instant(since.monotonic_s + ran_s, since.wall_ms + 1000 * wall_moved_s)
        assert ambient.age_s(since) == age_s
