"""The explorer: small scenarios whole, one schedule of each of the others, and random stories; in the hunt, all of
them whole, many schedules of what cannot be whole, and every mutant.

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

_STORIES = 300
_SCHEDULES = 1
_MANY_SCHEDULES = 300
_EACH_S = 500.0

# The scenarios that are explored whole within a second: the others take up to minutes each, so the hunt does that.
SHORT = frozenset(
    (
        *("application-goes-back", "change-sink-power-cut", "change-sink-restarts", "change-sink-that-copies"),
        *("clocks-differ", "counting-appender-and-deleter", "counting-appender-and-optimizer"),
        *("deleter-and-optimizer", "exchanger-of-names-and-upserter", "exporter-and-foreign-iceberg-writer"),
        *("exporter-beside-others-that-sync-nothing", "files-that-no-reader-takes", "holding-sink-power-cut"),
        *("holding-sink-restarts", "inserter-beside-other-engines", "long-lived-reader"),
        *("merger-and-appender-of-its-keys", "observers-fail", "one-in-line-beside-an-older-release"),
        *("others-sync-nothing", "overwriter-and-upserter", "range-merger-and-appender"),
        *("range-merger-and-deleter", "range-merger-and-merger", "renamer-and-follower", "renamer-and-restorer"),
        *("renamer-in-two-steps-and-deleter", "restorer-and-appender", "restorer-and-optimizer"),
        *("rows-are-numbered-on-a-checkpoint", "sink-and-cleaner-of-staging", "two-optimizers"),
        *("upserter-and-compactor", "upserter-and-optimizer", "vacuum-of-old-vectors", "widener-and-optimizer"),
    )
)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name in SHORT])
def test_no_schedule_breaks_a_promise(name: str, record_property: Callable[[str, object], None]) -> None:
    """The whole scenario; the time allows for a machine that is suspended."""
    report = explore_all(name, make(name), seconds=_EACH_S)
    record_property("measured", str(report))
    assert not report.failure, report.failure
    assert report.is_exhaustive


@pytest.mark.hunt(part="scenarios")
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in SHORT])
def test_no_schedule_of_a_long_scenario_breaks_a_promise(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    test_no_schedule_breaks_a_promise(name, record_property)


@pytest.mark.parametrize("name", [name for name in [*SCENARIOS, *SAMPLED] if name not in SHORT])
def test_no_randomly_drawn_schedule_breaks_a_promise(name: str, record_property: Callable[[str, object], None]) -> None:
    _no_drawn_schedule_breaks_a_promise(name, _SCHEDULES, record_property)


@pytest.mark.hunt(part="scenarios")
@pytest.mark.parametrize("name", SAMPLED)
def test_no_schedule_of_many_breaks_a_promise(name: str, record_property: Callable[[str, object], None]) -> None:
    _no_drawn_schedule_breaks_a_promise(name, _MANY_SCHEDULES, record_property)


def _no_drawn_schedule_breaks_a_promise(
    name: str, schedules: int, record_property: Callable[[str, object], None]
) -> None:
    report = explore_random(name, make(name), seed=first_seed(), schedules=schedules)
    record_property("measured", str(report))
    assert not report.failure, report.failure


def test_no_random_scenario_breaks_a_promise(record_property: Callable[[str, object], None]) -> None:
    seed = first_seed()
    report = explore_random("any", make("any"), seed=seed, schedules=_STORIES)
    record_property("measured", f"seed {seed}, {report}")
    assert not report.failure, report.failure


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_of_the_explorer_fits_the_code_that_it_is_put_into(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, scenario = MUTANTS[name]
    mutant(monkeypatch)
    assert scenario in {*SCENARIOS, *SAMPLED}


@pytest.mark.hunt(part="mutants")
@pytest.mark.parametrize("name", MUTANTS)
def test_the_explorer_finds_a_bug_put_into_the_protocol(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, scenario = MUTANTS[name]
    Run(make(scenario)(Choices()), Choices())  # the table that its stories begin with has no bug
    mutant(monkeypatch)
    if scenario in SAMPLED:
        report = explore_random(scenario, make(scenario), seed=1, schedules=2000)
    else:
        report = explore_all(scenario, make(scenario), seconds=120)
    assert report.failure is not None, f"{name} survived: {report}"
    assert report.failure.invariant != "only TxlogError escapes", f"{name} itself fails: {report.failure}"
