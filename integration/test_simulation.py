"""The explorer in CI: small scenarios whole, some schedules of large ones, thousands of random stories, every mutant.

The stories are the same in each run, so that no change fails for one that it has nothing to do with; `make simulate`
looks for others, and ``TXLOG_FUZZ_SEED=random`` does here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz import first_seed
from simulate import make

from txlog.testing.actors import SAMPLED, SCENARIOS
from txlog.testing.explorer import explore_all, explore_random
from txlog.testing.run import Run
from txlog.testing.schedule import Choices

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "simulation"))
from mutants import MUTANTS

_STORIES = 3_000  # some twenty seconds; `make simulate` tries as many as one likes
_SCHEDULES = 40  # of each large scenario, some 10 s together
_EACH_S = 500.0


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_schedule_breaks_a_promise(name: str, record_property: Callable[[str, object], None]) -> None:
    """Every scenario whole; the time is for a machine that stands still."""
    report = explore_all(name, make(name), seconds=_EACH_S)
    record_property("measured", str(report))
    assert not report.failure, report.failure
    assert report.is_exhaustive


@pytest.mark.parametrize("name", SAMPLED)
def test_no_randomly_drawn_schedule_breaks_a_promise(name: str, record_property: Callable[[str, object], None]) -> None:
    report = explore_random(name, make(name), seed=first_seed(), schedules=_SCHEDULES)
    record_property("measured", str(report))
    assert not report.failure, report.failure


def test_no_random_scenario_breaks_a_promise(record_property: Callable[[str, object], None]) -> None:
    seed = first_seed()
    report = explore_random("any", make("any"), seed=seed, schedules=_STORIES)
    record_property("measured", f"seed {seed}, {report}")
    assert not report.failure, report.failure


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
