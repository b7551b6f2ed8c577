"""Bugs of two coordinators of one application, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone. `GROUP_MUTANTS` names the scenario that finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from txlog.core.operations._global_committer import GlobalCommitter
from txlog.core.sink import _sink_group as sink_group
from txlog.core.sink._checkpoint_commits import CheckpointCommits
from txlog.core.sink._staging import Staging
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder

__all__ = ["GROUP_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def discards_beside_a_put_that_is_under_way(patch: pytest.MonkeyPatch) -> None:
    """The seals go, and no log says so: a transaction that is under way lands."""
    patch.setattr(sink_group, "give_up_in_log", lambda *given: True)


def rebases_rows_over_their_discard(patch: pytest.MonkeyPatch) -> None:
    """The transaction loses to the version that gives its checkpoint up, and is sent again."""
    patch.setattr(ProposalBuilder, "read_application", lambda self, app_id: None)


def commits_on_top_of_their_discard(patch: pytest.MonkeyPatch) -> None:
    """The rows are planned on the version that gives their checkpoint up."""
    patch.setattr(CheckpointCommits, "is_void", lambda self, mine, state: False)
    patch.setattr(GlobalCommitter, "_require_not_void", lambda self, job, state: None)


def seals_again_under_the_name_that_another_still_removes(patch: pytest.MonkeyPatch) -> None:
    """Once the work is removed, so is what says that it was given up: a second remover meets the new seal."""
    end = Staging.end_giving_up

    def removed(self: Any, staged: Any, names: Any) -> None:
        end(self, staged, names)
        start = f"{staged.key}.{staged.checkpoint_id:020d}."
        for kind in ("manifest", "0.void", "0.over"):
            self._required().delete(f"{start}{kind}")

    patch.setattr(Staging, "end_giving_up", removed)


def waits_for_an_empty_seal_that_it_has_passed(patch: pytest.MonkeyPatch) -> None:
    """Nothing in the table proves a checkpoint without rows."""

    def replay(self: Any, state: Any, manifest: Any) -> Any:
        return self._replay_of(state, manifest.checkpoint_id, manifest.fingerprint, is_sealed=True)

    patch.setattr(CheckpointCommits, "_replay_of_sealed", replay)


GROUP_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (discards_beside_a_put_that_is_under_way, "group-and-operator-that-discards"),
        (rebases_rows_over_their_discard, "group-and-operator-that-discards"),
        (commits_on_top_of_their_discard, "group-and-operator-that-discards"),
        (seals_again_under_the_name_that_another_still_removes, "group-that-is-sealed-beside-two-starts"),
        (waits_for_an_empty_seal_that_it_has_passed, "sink-without-rows-and-its-twin"),
    )
}
"""Each bug, and the scenario of ``explorer.actors`` whose exploration must find it."""
