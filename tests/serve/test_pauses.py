"""The pauses of a service's process, which is this one for a moment."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from txlog.serve.pauses import Pauses


@pytest.fixture
def pauses() -> Iterator[Pauses]:
    thresholds = gc.get_threshold()
    yield Pauses()
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_objects_that_are_there_for_good_are_left_out_when_garbage_is_looked_for(pauses: Pauses) -> None:
    before = len(gc.get_objects())
    pauses.shorten()
    assert len(gc.get_objects()) < before / 10


def test_garbage_among_all_objects_is_looked_for_once_a_minute(pauses: Pauses) -> None:
    def looks() -> int:
        pauses.look()
        return int(gc.get_stats()[2]["collections"])

    before = looks()
    assert looks() == before  # Python does it alone in another program's process
    pauses.shorten()
    begun = looks()
    assert looks() == begun
    assert pauses._looked_at_s is not None
    pauses._looked_at_s -= 61
    assert looks() == begun + 1
    assert looks() == begun + 1
