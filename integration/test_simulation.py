"""The explorer: small scenarios whole, some schedules of the longer ones, and random stories; in the hunt, all of them
whole, and every mutant.

The stories are the same in each run, so that no change fails for one that it has nothing to do with;
`make hunt PART=stories` looks for others, and ``TXLOG_FUZZ_SEED=random`` does here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fuzz import first_seed
from simulate import make

from explorer.actors import SAMPLED, SCENARIOS
from explorer.exploration import explore_all, explore_random
from explorer.run import Run
from explorer.schedule import Choices
from mutants import MUTANTS

_STORIES = 600  # some five seconds
_SCHEDULES = {"two-appenders": 300, "asks-what-became-of-it": 200, "compactor-power-cut": 350}
_OTHER_SCHEDULES = 50
"""Of each scenario that is not explored whole: as many as find the mutants, but for one whose bug a unit test finds."""
_EACH_S = 500.0

# Of the scenarios that can be explored whole, those that take more than two seconds: the hunt does that.
LONG = frozenset(
    (
        *("asks-what-became-of-it", "checkpointer", "cleaner", "cleaner-after-a-crash", "cleaner-and-sleeper"),
        *("counting-appenders", "counting-appenders-power-cut", "counting-appender-and-restorer"),
        *("checkpoint-beside-a-look-twice", "refused-while-a-put-is-in-flight", "requirer-appender-and-optimizer"),
        *("deleter-and-updater", "two-upserters-of-one-key", "updater-and-deleter-that-copy"),
        *("compactor-power-cut", "late-upserter", "late-upserter-and-optimizer", "late-upserter-and-sink"),
        *("holding-sink-and-appender", "holding-sink-and-deleter", "one-application-twice"),
        *("optimizer-and-vacuum-of-the-same-day", "short-retention", "suspended-before-its-put", "three-appenders"),
        *("one-in-line-and-one-that-leaves", "one-in-line-crashes", "two-in-line"),
        *("two-appenders", "updater-upserter-and-deleter"),
    )
)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in LONG])
def test_no_schedule_breaks_a_promise(name: str, record_property: Callable[[str, object], None]) -> None:
    """The whole scenario; the time allows for a machine that is suspended."""
    report = explore_all(name, make(name), seconds=_EACH_S)
    record_property("measured", str(report))
    assert not report.failure, report.failure
    assert report.is_exhaustive


@pytest.mark.hunt(part="scenarios")
@pytest.mark.parametrize("name", sorted(LONG))
def test_no_schedule_of_a_long_scenario_breaks_a_promise(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    test_no_schedule_breaks_a_promise(name, record_property)


@pytest.mark.parametrize("name", [*SAMPLED, *sorted(LONG)])
def test_no_randomly_drawn_schedule_breaks_a_promise(name: str, record_property: Callable[[str, object], None]) -> None:
    schedules = _SCHEDULES.get(name, _OTHER_SCHEDULES)
    report = explore_random(name, make(name), seed=first_seed(), schedules=schedules)
    record_property("measured", str(report))
    assert not report.failure, report.failure


def test_no_random_scenario_breaks_a_promise(record_property: Callable[[str, object], None]) -> None:
    seed = first_seed()
    report = explore_random("any", make("any"), seed=seed, schedules=_STORIES)
    record_property("measured", f"seed {seed}, {report}")
    assert not report.failure, report.failure


@pytest.mark.hunt(part="mutants")
@pytest.mark.parametrize("name", MUTANTS)
def test_the_explorer_finds_a_bug_put_into_the_protocol(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, scenario = MUTANTS[name]
    Run(make(scenario)(Choices()), Choices())  # the table that its stories begin with has no bug
    mutant(monkeypatch)
    if scenario in SAMPLED:
        report = explore_random(scenario, make(scenario), seed=1, schedules=500)
    else:
        report = explore_all(scenario, make(scenario), seconds=120)
    assert report.failure is not None, f"{name} survived: {report}"
    assert report.failure.invariant != "only TxlogError escapes", f"{name} itself fails: {report.failure}"
