"""The explorer for as long as CI allows: every small scenario (the largest one in part), a minute of random stories,
and every mutant."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from simulate import simulate

from txlog.testing.actors import SCENARIOS
from txlog.testing.explorer import explore_all

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "simulation"))
from mutants import MUTANTS

_RANDOM_S = 60.0
_EACH_S = 60.0


def test_no_schedule_breaks_a_promise(record_property: Callable[[str, object], None]) -> None:
    seed = random.randrange(10**6)
    record_property("measured", f"schedules explored, random stories with seed {seed}:")
    for report in simulate(_RANDOM_S, seed, _EACH_S):
        assert not report.failure, report.failure
        record_property("measured", str(report))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_protocol_bug_does_not_survive(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, scenario = MUTANTS[name]
    mutant(monkeypatch)
    report = explore_all(scenario, lambda choices: SCENARIOS[scenario], seconds=120)
    assert report.failure is not None, f"{name} survived: {report}"
