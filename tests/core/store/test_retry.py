from __future__ import annotations

import pytest

from txlog.core import ambient
from txlog.core.store._retry import RetryPolicy, read_again
from txlog.errors import InvalidInputError, StorageError


class ScriptedAmbient(ambient.Ambient):
    """Draws the top of every window and moves its clock only by sleeping."""

    def __init__(self) -> None:
        self.clock_s = 1000.0
        self.slept_s: list[float] = []

    def monotonic_s(self) -> float:
        return self.clock_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.clock_s += seconds

    def uniform(self, low: float, high: float) -> float:
        assert low == 0.0, "full jitter starts at zero"
        return high


def pauses(policy: RetryPolicy, round_trip_s: float, count: int, **options: bool) -> tuple[list[float], list[bool]]:
    with ambient.use(ScriptedAmbient()) as world:
        pacing = policy.pacing(lambda: round_trip_s)
        answers = [pacing.pause(**options) for _ in range(count)]
    assert isinstance(world, ScriptedAmbient)
    return world.slept_s, answers


def test_waits_double_up_to_the_longest() -> None:
    slept_s, answers = pauses(RetryPolicy(min_wait=1, max_wait=5), 0.1, 5)
    assert slept_s == [1, 2, 4, 5, 5]
    assert all(answers)


def test_a_fast_store_waits_in_proportion_to_its_round_trip() -> None:
    slept_s, _ = pauses(RetryPolicy(), 0.001, 20)
    assert slept_s[:3] == pytest.approx([0.001, 0.002, 0.004])
    assert slept_s[-1] == pytest.approx(0.6)


def test_a_slow_store_never_waits_longer_than_max_wait() -> None:
    slept_s, _ = pauses(RetryPolicy(), 1.0, 10)
    assert slept_s[0] == pytest.approx(1.0)
    assert max(slept_s) == 60.0


def test_an_unmeasured_store_uses_the_waits_as_they_are_given() -> None:
    assert pauses(RetryPolicy(min_wait=0.25), 0.0, 1)[0] == [0.25]


def test_the_count_ends_the_policy_without_a_last_wait() -> None:
    slept_s, answers = pauses(RetryPolicy(max_attempts=3), 0.1, 3)
    assert answers == [True, True, False]
    assert len(slept_s) == 2


def test_a_blind_append_is_bounded_by_time_alone() -> None:
    _, answers = pauses(RetryPolicy(max_attempts=1), 0.1, 5, bounded_by_count=False)
    assert all(answers)


def test_the_last_wait_ends_at_the_deadline_and_then_the_policy_ends() -> None:
    slept_s, answers = pauses(RetryPolicy(min_wait=4, max_wait=60, total_timeout=10), 0.1, 3)
    assert slept_s == [4, 6]
    assert answers == [True, True, False]


@pytest.mark.parametrize(
    "values",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attempts": 2.5},
        {"min_wait": -1},
        {"max_wait": float("inf")},
        {"total_timeout": float("nan")},
        {"total_timeout": "10"},
        {"min_wait": 2, "max_wait": 1},
    ],
)
def test_a_policy_that_cannot_work_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(values))):
        RetryPolicy(**values)  # type: ignore[arg-type]


def read_failing(times: int, calls: list[int]) -> str:
    calls.append(1)
    if len(calls) <= times:
        raise StorageError("reset")
    return "body"


def test_a_read_is_retried_after_a_transient_error() -> None:
    calls: list[int] = []
    with ambient.use(ScriptedAmbient()):
        assert read_again(lambda: read_failing(2, calls), lambda error: isinstance(error, StorageError)) == "body"
    assert len(calls) == 3


def test_a_read_gives_up_with_the_error_itself() -> None:
    calls: list[int] = []
    with ambient.use(ScriptedAmbient()), pytest.raises(StorageError, match="reset"):
        read_again(lambda: read_failing(9, calls), lambda error: isinstance(error, StorageError))
    assert len(calls) == 3


def test_a_read_with_a_permanent_error_is_not_retried() -> None:
    calls: list[int] = []
    with pytest.raises(StorageError):
        read_again(lambda: read_failing(9, calls), lambda error: False)
    assert len(calls) == 1
