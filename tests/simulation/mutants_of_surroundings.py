"""Bugs of a writer that forgets what is around it: other engines, long lives, clocks that stop, observers that fail.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `SURROUNDINGS` is a part of ``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from txlog.commit import run
from txlog.commit.run import CommitRun
from txlog.log.checkpoint import v2
from txlog.util import ambient

__all__ = ["SURROUNDINGS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


# --- other engines ----------------------------------------------------------------------------------------------


def takes_others_commits_below_the_newest_for_synced(patch: pytest.MonkeyPatch) -> None:
    """Two foreign commits lie on top, and neither is on disk: the lower one is a hole after a power cut."""
    patch.setattr(run, "unsynced_versions", lambda log, state, durable_version, **_: [state.version])


# --- what a checkpoint tells ------------------------------------------------------------------------------------


def drops_metadata_domains_from_v2_checkpoints(patch: pytest.MonkeyPatch) -> None:
    """With them goes the highest row id given, and the next writer gives it again."""
    real = v2.retained_small_actions

    def without_domains(*arguments: Any, **named: Any) -> Any:
        return [action for action in real(*arguments, **named) if action.KEY != "domainMetadata"]

    patch.setattr(v2, "retained_small_actions", without_domains)


# --- long lives and clocks that stop ----------------------------------------------------------------------------


def does_not_count_the_time_of_a_suspension(patch: pytest.MonkeyPatch) -> None:
    """What a handle saw of the log is as old as its machine was awake."""
    patch.setattr(ambient, "age_s", lambda since: ambient.monotonic_s() - since.monotonic_s)


def does_not_look_below_its_commit_on_an_object_store(patch: pytest.MonkeyPatch) -> None:
    """A put that found its name free is a commit, however long it took and whatever became of the log meanwhile."""
    real = CommitRun._require_predecessor

    def require(self: Any) -> None:
        if self.store.capabilities.has_cheap_calls:
            real(self)

    patch.setattr(CommitRun, "_require_predecessor", require)


SURROUNDINGS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (takes_others_commits_below_the_newest_for_synced, "others-sync-nothing"),
        (does_not_count_the_time_of_a_suspension, "suspended-before-its-put"),
        (does_not_look_below_its_commit_on_an_object_store, "suspended-before-its-put"),
        (drops_metadata_domains_from_v2_checkpoints, "rows-are-numbered-on-a-checkpoint"),
    )
}
"""Each bug, and the scenario of ``txlog.testing.actors.SCENARIOS`` whose exploration must find it."""
