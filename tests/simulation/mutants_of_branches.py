"""Bugs of branches, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone. `BRANCH_MUTANTS` names the scenario that finds
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from txlog.branch import branch_work, creation, ending, known, numbers, publication, rebase, vacuum
from txlog.branch.branch_work import BranchWork
from txlog.branch.changes import Carried
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder

__all__ = ["BRANCH_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def takes_no_publication_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """A publication does not record which version of the branch it took."""
    real = ProposalBuilder.set_transaction

    def note(self: Any, app_id: str, version: int) -> None:
        real(self, app_id, version if not app_id.startswith("txlog.branch.") else version - 1)

    patch.setattr(ProposalBuilder, "set_transaction", note)


def carries_what_was_published_meanwhile(patch: pytest.MonkeyPatch) -> None:
    """A publication that was under way when the branch was rebased is overlooked."""

    def carried(self: Any) -> Carried:
        return Carried.of(self.branch.log.read_commit(self.origin.own_version, files=False))

    patch.setattr(BranchWork, "_carried", carried)


def takes_a_discarded_branch_for_an_open_one(patch: pytest.MonkeyPatch) -> None:
    """A branch that ended and was written to again is refused for good."""
    real = BranchWork.require_publishable

    def require(self: Any) -> None:
        real(self)
        if self.origin.ended_at is not None and self.published is None:
            raise branch_work.InvalidInputError("the branch was discarded")

    patch.setattr(BranchWork, "require_publishable", require)


def begins_with_other_files(patch: pytest.MonkeyPatch) -> None:
    """A branch under a name that was used keeps files that its table has no longer."""
    real = creation.differing
    patch.setattr(creation, "differing", lambda files, others: (real(files, others)[0][:0], real(files, others)[1]))


def lets_a_vacuum_forget_what_a_branch_reads(patch: pytest.MonkeyPatch) -> None:
    """A vacuum of the table keeps only what the table itself needs."""
    patch.setattr(vacuum, "_files", lambda branch, cutoff_ms: iter(()))


def overlooks_a_vacuum_during_a_rebase(patch: pytest.MonkeyPatch) -> None:
    """A rebase names files that a vacuum deleted a moment before."""
    patch.setattr(rebase, "removed_meanwhile", lambda table, base, known: [])


def takes_a_branch_for_whole_whose_maker_died(patch: pytest.MonkeyPatch) -> None:
    """A branch that names files which a vacuum deleted before it knew of the branch is opened by its name."""
    for module in (known, creation):
        patch.setattr(module, "lost_before_it_was_whole", lambda *_: None)


def forgets_what_a_rebase_is_about_to_name(patch: pytest.MonkeyPatch) -> None:
    """A vacuum deletes files that a rebase has found live, and names a moment later."""
    patch.setattr(vacuum, "_read_by_rebase", lambda table, branch: iter(()))


def deletes_a_branch_without_closing_it(patch: pytest.MonkeyPatch) -> None:
    """Who writes to a branch while a vacuum deletes it is told that it is done."""
    patch.setattr(vacuum, "seal", lambda open_table: None)


def closes_a_branch_over_what_was_written(patch: pytest.MonkeyPatch) -> None:
    """A vacuum closes a branch that somebody has just written to."""
    real = ending._marked

    def marked(branch: Any, state: Any, origin: Any, operation: str, protocol: Any = None) -> Any:
        return real(branch, state if protocol is None else branch.log.newest_state(), origin, operation, protocol)

    patch.setattr(ending, "_marked", marked)


def sets_no_row_ids_aside(patch: pytest.MonkeyPatch) -> None:
    """A branch gives row ids that its table does not know to be taken."""
    patch.setattr(numbers, "_set_aside", lambda table, newest, marks_of, **parameters: (*marks_of(newest), None))


def gives_published_rows_new_ids(patch: pytest.MonkeyPatch) -> None:
    """Rows of a branch get other ids when they are published."""
    real = publication._published
    patch.setattr(publication, "_published", lambda *given: replace(real(*given), base_row_id=None))


def keeps_its_row_ids_when_it_is_rebased(patch: pytest.MonkeyPatch) -> None:
    """A rebased branch has rows of its table with ids above the mark from which it counts."""
    patch.setattr(rebase, "newest_below_row_ids", lambda table, newest, *, branch, row_ids: (newest, row_ids))


BRANCH_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (takes_no_publication_for_its_own, "branch-and-appenders"),
        (carries_what_was_published_meanwhile, "branch-that-is-rebased"),
        (takes_a_discarded_branch_for_an_open_one, "branch-that-is-discarded"),
        (begins_with_other_files, "branch-that-is-discarded-and-made"),
        (lets_a_vacuum_forget_what_a_branch_reads, "branch-that-is-kept-beside-a-vacuum"),
        (overlooks_a_vacuum_during_a_rebase, "branch-that-is-rebased-beside-a-vacuum"),
        (takes_a_branch_for_whole_whose_maker_died, "branch-whose-maker-dies-beside-a-vacuum"),
        (forgets_what_a_rebase_is_about_to_name, "branch-that-is-rebased-at-once-beside-a-vacuum"),
        (deletes_a_branch_without_closing_it, "branch-that-is-written-after-its-end-beside-a-vacuum"),
        (closes_a_branch_over_what_was_written, "branch-that-is-written-after-its-end-beside-a-vacuum"),
        (sets_no_row_ids_aside, "branch-that-is-made-with-row-ids"),
        (gives_published_rows_new_ids, "branch-that-is-made-with-row-ids"),
        (keeps_its_row_ids_when_it_is_rebased, "branch-that-is-rebased-with-row-ids"),
    )
}
"""Each bug, and the scenario of ``explorer.actors`` whose exploration must find it."""
