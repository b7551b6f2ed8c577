"""Bugs in sinks of changes, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone. `CHANGE_MUTANTS` names the scenario that finds
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from txlog.changelog import change_buffer, changelog_writer, staged_changes, staged_keys
from txlog.testing.faults import FaultyFileStore

Mutant = Callable[[pytest.MonkeyPatch], None]


def writes_every_change_of_a_key(patch: pytest.MonkeyPatch) -> None:
    """A row that is new and changed in one checkpoint is there twice."""
    patch.setattr(change_buffer, "collapse", lambda changes, *_, **__: changes)
    patch.setattr(staged_keys, "_latest", lambda codes, *rest: np.ones(len(codes), dtype=bool))


def forgets_the_keys_of_rows_that_go(patch: pytest.MonkeyPatch) -> None:
    """Only keys with new rows are staged."""
    rows = changelog_writer.key_rows

    def of_new_rows(plan: Any, changes: Any, keys: Any) -> Any:
        return rows(plan, changes.filter(~changes.are_deletes), keys)

    patch.setattr(changelog_writer, "key_rows", of_new_rows)


def leaves_old_versions_of_rows(patch: pytest.MonkeyPatch) -> None:
    """A key with a new row is not looked up in the table."""
    hits = staged_changes.StagedChanges._hits

    def of_deletes(self: Any, positions: Any, source_rows: Any) -> Any:
        goes = ~self._are_new[source_rows]
        return hits(self, positions[goes], source_rows[goes])

    patch.setattr(staged_changes.StagedChanges, "_hits", of_deletes)


def keeps_rows_that_another_task_outdid(patch: pytest.MonkeyPatch) -> None:
    """Two tasks changed one row, and both of its new versions are added."""

    def as_written(open_table: Any, state: Any, job: Any, committables: Any, *rest: Any) -> Any:
        return tuple(file for each in committables for file in each.files)

    patch.setattr(staged_changes, "_files_of_latest", as_written)


def takes_the_least_sequence(patch: pytest.MonkeyPatch) -> None:
    """Of two tasks the one with the earlier change wins."""
    latest = staged_keys._latest

    def earliest(codes: Any, are_deletes: Any, sequence: Any, refuse: Any) -> Any:
        import pyarrow as pa

        turned = None if sequence is None else pa.chunked_array([pa.array(-sequence.to_numpy())])
        return latest(codes, are_deletes, turned, refuse)

    patch.setattr(staged_keys, "_latest", earliest)


def commits_without_its_application(patch: pytest.MonkeyPatch) -> None:
    """Nothing in the commit says which checkpoint it is, so that no recovery knows that it is there."""
    options = staged_changes.RowOptions
    patch.setattr(staged_changes, "RowOptions", lambda mode, commit: options(mode))


def seals_keys_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    real = FaultyFileStore.make_durable

    def without_keys(self: Any, paths: Any, *, with_contents: bool = False) -> None:
        real(self, [path for path in paths if "keys-" not in path], with_contents=with_contents)

    patch.setattr(FaultyFileStore, "make_durable", without_keys)


CHANGE_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (writes_every_change_of_a_key, "change-sink-restarts"),
        (forgets_the_keys_of_rows_that_go, "change-sink-restarts"),
        (leaves_old_versions_of_rows, "change-sink-restarts"),
        (keeps_rows_that_another_task_outdid, "change-sink-that-copies"),
        (takes_the_least_sequence, "change-sink-that-copies"),
        (commits_without_its_application, "change-sink-restarts"),
        (seals_keys_before_they_are_durable, "change-sink-power-cut"),
    )
}
"""Each bug, and the scenario of ``explorer.actors.SCENARIOS`` whose exploration must find it."""
