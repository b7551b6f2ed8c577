"""Bugs of what streams give up, hold back and keep of deletes, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone. `STREAM_MUTANTS` names the scenario that finds
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from txlog.changelog import tombstones
from txlog.changelog.merged_rows import MergedRows
from txlog.changelog.mismatches import HeldBack, Mismatches
from txlog.changelog.staged_changes import StagedChanges
from txlog.core.maintenance import _optimize as optimize
from txlog.core.sink import _abandonment as abandonment
from txlog.testing.faults import FaultyFileStore

__all__ = ["STREAM_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


# --- checkpoints that are given up ------------------------------------------------------------------------------


def removes_what_is_staged_before_it_is_given_up(patch: pytest.MonkeyPatch) -> None:
    """Where the commit then fails or its process dies, a sealed checkpoint is neither in the table nor given up."""
    staged_work = abandonment._staged_work

    def removed(commits: Any, mine: Any, manifest: Any) -> Any:
        found = staged_work(commits, mine, manifest)
        commits.staging.remove(mine.names)
        return found

    patch.setattr(abandonment, "_staged_work", removed)


def gives_up_what_is_in_the_table(patch: pytest.MonkeyPatch) -> None:
    """It does not look whether the checkpoint was committed."""
    steps = abandonment._steps
    patch.setattr(abandonment, "_steps", lambda open_table, *rest: steps(_WithoutReplays(open_table), *rest))


class _WithoutReplays:
    def __init__(self, open_table: Any) -> None:
        self._open_table = open_table

    def replay_of(self, *given: Any, **how: Any) -> None:
        """Nothing is a replay."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open_table, name)


def deletes_the_files_of_what_it_gives_up(patch: pytest.MonkeyPatch) -> None:
    """Another process may commit the checkpoint first, and its version names them."""
    staged_work = abandonment._staged_work

    def deleted(commits: Any, mine: Any, manifest: Any) -> Any:
        found = staged_work(commits, mine, manifest)
        commits._open_table.store.files.delete_many(found["files"])
        return found

    patch.setattr(abandonment, "_staged_work", deleted)


# --- changes that are held back ---------------------------------------------------------------------------------


def judges_changes_by_the_first_version_it_sees(patch: pytest.MonkeyPatch) -> None:
    """Rows that others append or delete before the commit do not count."""
    judge = Mismatches.judge

    def once(self: Any, touched: Any, retracted: Any) -> None:
        if "was_judged" not in self.__dict__:
            self.__dict__["was_judged"] = True
            judge(self, touched, retracted)

    patch.setattr(Mismatches, "judge", once)


def replaces_rows_of_changes_that_it_holds_back(patch: pytest.MonkeyPatch) -> None:
    """The old rows go, and the new one is in quarantine."""
    patch.setattr(StagedChanges, "_goes", lambda self, merged: np.ones(len(merged.has_row), dtype=bool))


def keeps_only_what_it_held_back_last(patch: pytest.MonkeyPatch) -> None:
    """Executed again, it puts only the changes into quarantine that fitted before."""
    begin_again = HeldBack.begin_again

    def again(self: Any, found: Any, schema: Any, rows: Any, text_of: Any) -> None:
        known = self.cases
        begin_again(
            self, found, schema, lambda cases: rows(cases if known is None else np.where(known > 0, 0, cases)), text_of
        )

    patch.setattr(HeldBack, "begin_again", again)


def names_a_quarantine_that_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    real = FaultyFileStore.make_durable

    def without_quarantine(self: Any, paths: Any, *, with_contents: bool = False) -> None:
        real(self, [path for path in paths if "quarantine" not in path], with_contents=with_contents)

    patch.setattr(FaultyFileStore, "make_durable", without_quarantine)


# --- deleted keys that are kept ---------------------------------------------------------------------------------


def heeds_the_deleted_keys_of_its_first_execution(patch: pytest.MonkeyPatch) -> None:
    """A delete that others commit meanwhile does not stop an older row."""
    decided = MergedRows.decided

    def at_first(self: Any, touched: Any, tombstones: Any) -> Any:
        return decided(self, touched, self.__dict__.setdefault("seen_at_first", tombstones))

    patch.setattr(MergedRows, "decided", at_first)


def keeps_no_deleted_keys_when_executed_again(patch: pytest.MonkeyPatch) -> None:
    kept = MergedRows.tombstones

    def at_first(self: Any) -> Any:
        executions = self.__dict__["executions"] = self.__dict__.get("executions", 0) + 1
        return kept(self) if executions == 1 else None

    patch.setattr(MergedRows, "tombstones", at_first)


def compacts_deleted_keys_as_rows(patch: pytest.MonkeyPatch) -> None:
    """A compaction leaves out every dead row."""
    patch.setattr(optimize, "without_tombstones", lambda state, files: files)


def joins_all_files_of_deleted_keys_but_one(patch: pytest.MonkeyPatch) -> None:
    written = tombstones.written_again
    patch.setattr(
        tombstones, "written_again", lambda open_table, state, adds, *how: written(open_table, state, adds[1:], *how)
    )


def drops_deleted_keys_before_their_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tombstones, "expired_before_ms", lambda state, now_ms: now_ms + 1)


STREAM_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (removes_what_is_staged_before_it_is_given_up, "sink-that-died-and-is-abandoned"),
        (gives_up_what_is_in_the_table, "sink-whose-checkpoint-is-abandoned"),
        (deletes_the_files_of_what_it_gives_up, "change-sink-and-abandoner"),
        (judges_changes_by_the_first_version_it_sees, "holding-sink-and-appender"),
        (replaces_rows_of_changes_that_it_holds_back, "holding-sink-and-appender"),
        (keeps_only_what_it_held_back_last, "holding-sink-and-appender"),
        (names_a_quarantine_that_is_not_durable, "holding-sink-power-cut"),
        (heeds_the_deleted_keys_of_its_first_execution, "late-upserter"),
        (keeps_no_deleted_keys_when_executed_again, "late-upserter"),
        (compacts_deleted_keys_as_rows, "late-upserter-and-optimizer"),
        (joins_all_files_of_deleted_keys_but_one, "late-upserter-and-optimizer"),
        (drops_deleted_keys_before_their_time, "late-upserter-and-optimizer"),
    )
}
"""Each bug, and the scenario of ``explorer.actors.SCENARIOS`` whose exploration must find it."""
