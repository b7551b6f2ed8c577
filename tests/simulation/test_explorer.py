"""The schedule explorer on the real commit code: small scenarios whole, and a story that replays from its line."""

from __future__ import annotations

from typing import Any

import pytest

from explorer import exploration
from explorer.actors import SAMPLED, SCENARIOS, any_story
from explorer.casting import actors_of
from explorer.exploration import explore_all, explore_random, replay
from explorer.other_engines import append_unsynced, clean_up_now
from explorer.programs import append
from explorer.run import Scenario
from explorer.schedule import Choices, from_line, shortened, to_line
from explorer.versions import InvariantBroken
from mutants import MUTANTS
from txlog.core.versions.files import _commits as commits


@pytest.mark.parametrize(
    "name",
    [
        "two-appenders-power-cut",
        "application-goes-back",
        "sink-and-recovery",
        "holding-sink-restarts",
    ],
)
def test_no_schedule_of_a_small_scenario_breaks_a_promise(name: str) -> None:
    report = explore_all(name, lambda choices: SCENARIOS[name])
    assert report.is_exhaustive, f"{report}\n{report.failure}"


def test_a_few_random_scenarios_break_no_promise() -> None:
    report = explore_random("any", any_story, seed=7, schedules=40)
    assert report.failure is None, str(report.failure)


def test_a_suspended_cleanup_does_not_take_young_versions_for_old() -> None:
    actors = actors_of(append, append_unsynced, clean_up_now)
    retention = (("delta.logRetentionDuration", "interval 10 seconds"), ("txlog.allowShortLogRetention", "true"))
    scenario = Scenario("late clean-up", actors, store="object", deletes=True, pauses=True, properties=retention)
    report = explore_random("late clean-up", lambda choices: scenario, seed=1, schedules=50)
    assert report.failure is None, str(report.failure)


def test_a_broken_promise_is_reported_with_a_line_that_reproduces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, name = MUTANTS["calls_an_unknown_outcome_a_failure"]
    mutant(monkeypatch)
    failure = explore_all(name, lambda choices: SCENARIOS[name]).failure
    assert failure is not None
    with pytest.raises(InvariantBroken, match=failure.invariant):
        replay(lambda choices: SCENARIOS[name], failure.line)
    assert failure.line in str(failure)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_the_code_that_it_changes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the explorer finds it is for the hunt; a change of the code is noticed here."""
    mutant, scenario = MUTANTS[name]
    mutant(monkeypatch)
    assert scenario in SCENARIOS | SAMPLED


def test_a_schedule_is_the_same_after_it_was_written_and_read() -> None:
    for choices in ([0], [0, 0, 0, 2], [1, 1, 1, 0, 3], [12, 0, 0, 5, 5]):
        assert from_line(to_line(choices)) == choices if any(choices) else [0]


def test_shrinking_keeps_what_fails_and_drops_the_rest() -> None:
    assert shortened([3, 1, 4, 1, 5, 9], lambda choices: 4 in choices) == [4]


def test_a_seed_gives_the_same_choices_every_time() -> None:
    first, second = Choices.seeded("7/1"), Choices.seeded("7/1")
    assert [first.choose(5) for _ in range(50)] == [second.choose(5) for _ in range(50)]


def test_an_exploration_parses_each_commit_once_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[object] = []
    real = commits.parse_commit

    def counted(body: bytes, version: int, **how: Any) -> Any:
        parsed.append((body, version, *sorted(how.items())))
        return real(body, version, **how)

    monkeypatch.setattr(commits, "parse_commit", counted)
    report = explore_random("any", any_story, seed=3, schedules=10)
    assert report.failure is None
    assert len(parsed) == len(set(parsed)) > 0
    assert commits.parse_commit is counted


def test_an_exploration_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "TOLD_EVERY_S", 0.0)
    told: list[int] = []
    explore_random("any", any_story, seed=3, schedules=4, tell=lambda report: told.append(report.schedules))
    assert told == [1, 2, 3, 4]
