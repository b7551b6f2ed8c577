"""`RowHistory`: what a story's table holds at each version."""

from __future__ import annotations

import pytest

from explorer.rows import RowHistory, file_of
from explorer.versions import InvariantBroken
from txlog.testing.memory_store import MemoryFileStore


def test_a_version_lost_in_a_power_cut_does_not_affect_the_commit_that_gets_its_number() -> None:
    files = MemoryFileStore()
    files.write("a", file_of(((1, 10),)))
    add = {"path": "a", "partitionValues": {"part": "p"}, "dataChange": True}
    history = RowHistory(files)
    history.appears(1, [{"add": add}], {"a": add}, None)
    history.foreign[2] = lambda rows: []
    with pytest.raises(InvariantBroken, match="one operation after the other"):
        history.appears(2, [{"add": add}], {"a": add}, None)
    history.forget(2)
    history.appears(2, [{"add": add}], {"a": add}, None)
    assert history.at == {1: [(1, "p", 10)], 2: [(1, "p", 10)]}
