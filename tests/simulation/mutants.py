"""Protocol bugs, each put into txlog's own code on purpose: what a schedule explorer must find to be worth its time.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone. The names say what the writer does wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mutants_of_branches import BRANCH_MUTANTS
from mutants_of_catalogs import CATALOG_MUTANTS
from mutants_of_changes import CHANGE_MUTANTS
from mutants_of_definitions import DEFINITION_MUTANTS
from mutants_of_exports import EXPORT_MUTANTS
from mutants_of_gathering import GATHERING_MUTANTS
from mutants_of_groups import GROUP_MUTANTS
from mutants_of_identity import IDENTITY_MUTANTS
from mutants_of_joining import JOINING_MUTANTS
from mutants_of_joint import JOINT_MUTANTS
from mutants_of_owners import OWNER_MUTANTS
from mutants_of_rows import ROW_MUTANTS
from mutants_of_streams import STREAM_MUTANTS
from mutants_of_surroundings import SURROUNDINGS
from mutants_of_upkeep import UPKEEP_MUTANTS
from txlog import table_transaction as transaction
from txlog.core import ambient
from txlog.core.format.actions import RemoveFile
from txlog.core.format.log_names import version_prefix
from txlog.core.operations._global_committer import GlobalCommitter
from txlog.core.sink._checkpoint_commits import CheckpointCommits
from txlog.core.sink._sink import Sink
from txlog.core.sink._staging import Staging
from txlog.core.store._base import PutOutcome
from txlog.core.store._versions import FolderVersions
from txlog.core.versions import _attempt as attempt
from txlog.core.versions import _open_table as open_table
from txlog.core.versions import _resolve_unknown as resolve
from txlog.core.versions._commit_errors import raise_conflict
from txlog.core.versions._commit_loop import CommitRun, _Seen
from txlog.core.versions.decisions import clean_up, conflicts, in_commit_timestamps
from txlog.core.versions.decisions.conflicts import Conflict, Rebase, decide
from txlog.core.versions.decisions.exactly_once import AlreadyCommitted
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet
from txlog.core.versions.decisions.segment import read_listing
from txlog.core.versions.files._delta_log import DeltaLog
from txlog.core.versions.files._file_loader import FileLoader
from txlog.core.versions.upkeep import _log_clean_up as log_clean_up
from txlog.errors import CommitStateUnknownError, NotFoundError, StorageError
from txlog.testing.memory_store import MemoryLogStore

Mutant = Callable[[pytest.MonkeyPatch], None]


# --- after a lost answer ----------------------------------------------------------------------------------------


def goes_to_the_next_version_after_a_lost_answer(patch: pytest.MonkeyPatch) -> None:
    """Blind N+1: an unknown outcome is taken for a lost race."""

    def take(self: Any, sent: Any) -> Any:
        self.attempts += 1
        self._begin_put()
        if self.versions.put(sent) is PutOutcome.WRITTEN:
            return _Seen.MINE
        self.skipped = getattr(self, "skipped", 0) + 1
        return _Seen.FOREIGN

    def target(self: Any) -> int:
        return (self.state.version + 1 if self.state else 0) + getattr(self, "skipped", 0)

    patch.setattr(CommitRun, "_take", take)
    patch.setattr(CommitRun, "follow", lambda self, read=None: None)
    patch.setattr(CommitRun, "catch_up", lambda self: None)
    patch.setattr(CommitRun, "_acknowledge", lambda self, encoded: self.outcome(self.target))
    patch.setattr(CommitRun, "target", property(target))


def calls_an_unknown_outcome_a_failure(patch: pytest.MonkeyPatch) -> None:
    """A put that may still be under way is reported as one that never landed."""

    def take(self: Any, sent: Any) -> Any:
        self.attempts += 1
        self._begin_put()
        outcome = self.versions.put(sent)
        if outcome in (PutOutcome.WRITTEN, PutOutcome.NOT_DURABLE):
            return _Seen.MINE
        seen = self._read_back(sent)
        if seen is _Seen.NOTHING:
            raise StorageError("the put failed")
        return seen

    patch.setattr(CommitRun, "_take", take)


def lets_a_later_failure_settle_an_earlier_doubt(patch: pytest.MonkeyPatch) -> None:
    """A definite error of the second put is reported as if the first could not have landed."""
    patch.setattr(CommitRun, "_put_failed", lambda self, error: None)


def does_not_know_its_own_commit(patch: pytest.MonkeyPatch) -> None:
    """Any commit at the version counts as another writer's, without a search for our own transaction in the tail."""
    patch.setattr(CommitRun, "_read_back", _seen_as_foreign)
    patch.setattr(conflicts, "decide", lambda proposal, winners: decide(replace(proposal, txn_id="another"), winners))


def judges_conflicts_before_looking_for_its_own_commit(patch: pytest.MonkeyPatch) -> None:
    """A transaction whose put landed conflicts with itself."""

    def conflicts_first(proposal: Proposal, winners: Any) -> Any:
        decision = decide(replace(proposal, txn_id="another"), winners)
        return decision if isinstance(decision, Conflict) else decide(proposal, winners)

    patch.setattr(CommitRun, "_read_back", _seen_as_foreign)
    patch.setattr(conflicts, "decide", conflicts_first)


def deletes_its_data_files_when_the_outcome_is_unknown(patch: pytest.MonkeyPatch) -> None:
    """The commit may have landed, and names them."""
    real = transaction.Transaction._commit

    def commit(self: Any) -> Any:
        try:
            return real(self)
        except CommitStateUnknownError:
            for add in self._builder.adds:
                self._open_table.store.files.delete(add.path)
            raise

    patch.setattr(transaction.Transaction, "_commit", commit)


def answers_what_became_of_it_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """``resolve`` says "not committed" of a put that may still land."""

    def unfenced(found_by: Any, txn_id: str, version: int) -> bool:
        try:
            return resolve._stands_at(found_by, txn_id, version)
        except NotFoundError:
            return False

    patch.setattr(resolve, "resolve", unfenced)


# --- who won ----------------------------------------------------------------------------------------------------


def judges_the_first_winner_only(patch: pytest.MonkeyPatch) -> None:
    """The tail behind the winner is skipped, and built upon."""

    def first_only(proposal: Proposal, winners: Any) -> Any:
        decision = decide(proposal, winners[:1])
        return Rebase(winners[-1].version) if isinstance(decision, Rebase) and winners else decision

    patch.setattr(conflicts, "decide", first_only)


def trusts_a_list_with_a_hole(patch: pytest.MonkeyPatch) -> None:
    """Winners that the listing does not show are not judged."""

    def listed(self: Any, read: Any = None) -> Any:
        log = self.log
        after = self.state.version
        found = read_listing(log.store.log.list_from(version_prefix(after + 1))).commits
        for version in sorted(found):
            winner = replace(log.read_commit(version), version=after + 1)
            decision = decide(self.proposal, [winner])
            if isinstance(decision, Conflict):
                raise_conflict(decision.reasons, log.uri)
        self.state = log.reload()
        self.proposal = self.proposal.rebased(self.state.version)

    patch.setattr(CommitRun, "follow", listed)


def does_not_judge_what_was_read(patch: pytest.MonkeyPatch) -> None:
    """Every transaction is taken for one that only moves rows."""

    def blind(proposal: Proposal, winners: Any) -> Any:
        actions = tuple(action for action in proposal.actions if type(action) is not RemoveFile)
        return decide(replace(proposal, read_set=ReadSet(), actions=actions), winners)

    patch.setattr(conflicts, "decide", blind)


def takes_serializable_for_write_serializable(patch: pytest.MonkeyPatch) -> None:
    """A concurrent blind append that should have been read goes unnoticed."""

    def weaker(proposal: Proposal, winners: Any) -> Any:
        return decide(replace(proposal, isolation=Isolation.WRITE_SERIALIZABLE), winners)

    patch.setattr(conflicts, "decide", weaker)


def commits_over_a_changed_definition(patch: pytest.MonkeyPatch) -> None:
    """A concurrent change of the schema or the properties is rebased over."""
    patch.setattr("txlog.core.versions.decisions.conflicts._protocol_and_metadata", lambda proposal, winner: iter(()))


# --- exactly once -----------------------------------------------------------------------------------------------


def does_not_check_the_applications_version(patch: pytest.MonkeyPatch) -> None:
    """Neither before the commit nor in the tail."""
    patch.setattr(open_table.OpenTable, "replay_of", lambda self, *arguments, **how: None)
    patch.setattr("txlog.core.versions.decisions.conflicts._holds_our_work", lambda proposal, winner: False)
    patch.setattr("txlog.core.versions.decisions.conflicts._transactions", lambda proposal, winner: iter(()))


def drops_every_older_checkpoint_as_a_replay(patch: pytest.MonkeyPatch) -> None:
    """Delta's own rule: what is not newer was committed. A job that went back loses its rows."""

    def drop(self: Any, state: Any, app_id: str, checkpoint_id: int, *fingerprint: str | None, **how: Any) -> Any:
        last = state.transactions.get(app_id)
        return AlreadyCommitted(state.version) if last is not None and checkpoint_id <= last.version else None

    patch.setattr(open_table.OpenTable, "replay_of", drop)


# --- staging ----------------------------------------------------------------------------------------------------


def recovers_what_was_never_sealed(patch: pytest.MonkeyPatch) -> None:
    """Staged tasks are committed as a checkpoint although it is not sealed."""
    real = Sink.recover

    def recover(self: Any) -> Any:
        for each in self._staging.checkpoints(self._app_id):
            if not each.is_sealed:
                found = self._staging.tasks(each, {task_id: tries[-1] for task_id, tries in each.attempts.items()})
                commits = self._commits
                job, committables = commits.job(each.checkpoint_id), [committable for _, committable in found]
                commits._open_table.run(commits._job_steps(job, committables, 0))
        return real(self)

    patch.setattr(Sink, "recover", recover)


def commits_again_what_is_still_staged(patch: pytest.MonkeyPatch) -> None:
    """Its committer died before it had removed the staging."""
    patch.setattr(GlobalCommitter, "replay_of", lambda self, job, **how: None)
    patch.setattr(GlobalCommitter, "_replay", lambda self, job, state, **how: None)
    patch.setattr(CheckpointCommits, "_replay_of", lambda self, state, checkpoint_id, *fingerprint, **how: None)


def removes_the_staging_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A committer that dies in between takes a sealed checkpoint with it."""
    real = CheckpointCommits._job_steps

    def steps(self: Any, job: Any, committables: Any, since_ms: int) -> Any:
        for each in self.staging.checkpoints(self._app_id):
            self.staging.remove(each.names)
        return real(self, job, committables, since_ms)

    patch.setattr(CheckpointCommits, "_job_steps", steps)


def seals_what_rests_on_a_version_that_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    """A task saw a version that a power cut undoes; its checkpoint is sealed anyway."""
    patch.setattr(GlobalCommitter, "make_bases_durable", lambda self, job, committables: None)


# --- durability -------------------------------------------------------------------------------------------------


def acknowledges_what_it_read_back_without_syncing_it(patch: pytest.MonkeyPatch) -> None:
    """Found in the log, and gone after a power cut."""
    patch.setattr(CommitRun, "_make_found_commit_durable", lambda self, version: None)


def acknowledges_before_the_directory_is_synced(patch: pytest.MonkeyPatch) -> None:
    """A failing sync of the log directory is passed over."""
    real = FolderVersions.put

    def put(self: Any, sent: Any) -> PutOutcome:
        outcome = real(self, sent)
        return PutOutcome.WRITTEN if outcome is PutOutcome.NOT_DURABLE else outcome

    patch.setattr(FolderVersions, "put", put)


def builds_on_a_version_that_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    """A power cut leaves a hole below an acknowledged commit."""
    patch.setattr(CommitRun, "_make_predecessor_durable", lambda self: None)


def names_files_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    """The commit survives a power cut, its data files do not."""
    patch.setattr("txlog.testing.faults.FaultyFileStore.make_durable", lambda self, paths, with_contents=False: None)


# --- the store --------------------------------------------------------------------------------------------------


def creates_the_name_and_then_writes_the_bytes(patch: pytest.MonkeyPatch) -> None:
    """A put that is not atomic: between its two halves a torn commit is visible."""
    real = MemoryLogStore.put_if_absent

    def put(self: Any, name: str, body: Any) -> PutOutcome:
        outcome = real(self, name, bytes(body)[: len(body) // 2])
        if outcome is PutOutcome.WRITTEN:
            self.objects[name] = self.durable[name] = (bytes(body), self.objects[name][1])
        return outcome

    patch.setattr(MemoryLogStore, "put_if_absent", put)


def looks_whether_the_name_is_free_and_then_overwrites(patch: pytest.MonkeyPatch) -> None:
    """Check, then rename: another commit may have come in between."""

    def put(self: Any, name: str, body: Any) -> PutOutcome:
        if name in self.objects:
            return PutOutcome.ALREADY_EXISTS
        if self.before_sync is not None and not self.before_sync(name):
            return PutOutcome.NOT_DURABLE
        self.objects[name] = self.durable[name] = (bytes(body), ambient.now_ms())
        return PutOutcome.WRITTEN

    patch.setattr(MemoryLogStore, "put_if_absent", put)


# --- checkpoints and cleanup ------------------------------------------------------------------------------------


def writes_a_checkpoint_of_a_stale_state(patch: pytest.MonkeyPatch) -> None:
    """The files of the version before, under the number of this one."""
    real = FileLoader.files_and_tombstones

    def stale(self: Any, state: Any, *arguments: Any, **named: Any) -> Any:
        older = replace(state, segment=replace(state.segment, version=state.version - 1)) if state.version else state
        return real(self, older, *arguments, **named)

    patch.setattr(FileLoader, "files_and_tombstones", stale)


def puts_onto_a_version_that_was_cleaned_up(patch: pytest.MonkeyPatch) -> None:
    """A handle that slept for weeks trusts that what is absent was never taken."""

    def newest_state(self: Any, *, refresh: bool = True) -> Any:
        return self.known_state if self.known_state is not None else self.reload()

    patch.setattr(DeltaLog, "newest_state", newest_state)
    patch.setattr(CommitRun, "_make_predecessor_durable", lambda self: None)
    patch.setattr(CommitRun, "_require_predecessor", lambda self: None)


def cleans_up_too_early(patch: pytest.MonkeyPatch) -> None:
    """Everything below the newest checkpoint goes, whatever the retention still needs."""
    patch.setattr(clean_up, "cutoff_ms", lambda properties, *, now_ms, **how: now_ms)


def cleans_up_beyond_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """One version too many: the first after the checkpoint goes too."""
    real = clean_up.plan_versions

    def beyond(files: Any, checkpoint: Any) -> Any:
        return real(files, replace(checkpoint, version=checkpoint.version + 2))

    patch.setattr(clean_up, "plan_versions", beyond)


def cleans_what_is_about_to_be_sealed(patch: pytest.MonkeyPatch) -> None:
    """The place of the seal is left free while what it would name is removed."""

    def give_up(self: Staging, staged: Any, **how: Any) -> bool:
        self.remove(staged.names)
        return True

    patch.setattr(Staging, "give_up", give_up)


def numbers_rows_from_where_it_was_planned(patch: pytest.MonkeyPatch) -> None:
    """After a lost race the row ids are those of the first attempt: the winner has given them too."""
    real = attempt._numbered
    numbered: dict[str, Any] = {}
    patch.setattr(
        attempt, "_numbered", lambda proposal, state: numbered.setdefault(proposal.txn_id, real(proposal, state))
    )


def takes_its_own_clock_for_the_tables(patch: pytest.MonkeyPatch) -> None:
    """A clock that is behind the winner's makes an in-commit timestamp below the one before it."""
    patch.setattr(in_commit_timestamps, "next_timestamp_ms", lambda *, now_ms, previous_ms: now_ms)


def writes_a_checkpoint_of_what_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    """A power cut takes the version, and leaves a checkpoint of it."""
    patch.setattr(DeltaLog, "make_durable", lambda self, state: None)


def compacts_what_is_not_on_disk(patch: pytest.MonkeyPatch) -> None:
    """A power cut takes the version, and leaves a file that stands for it and for what was before it."""
    patch.setattr(DeltaLog, "make_durable", lambda self, state: None)


def cleans_up_before_the_checkpoint_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A power cut leaves neither the versions nor the checkpoint that stands for them."""
    patch.setattr(log_clean_up._CleanUp, "_make_durable", lambda self, checkpoint: None)


MUTANTS: dict[str, tuple[Mutant, str]] = (
    SURROUNDINGS
    | ROW_MUTANTS
    | CHANGE_MUTANTS
    | DEFINITION_MUTANTS
    | IDENTITY_MUTANTS
    | STREAM_MUTANTS
    | GROUP_MUTANTS
    | JOINT_MUTANTS
    | BRANCH_MUTANTS
    | UPKEEP_MUTANTS
    | EXPORT_MUTANTS
    | OWNER_MUTANTS
    | CATALOG_MUTANTS
    | JOINING_MUTANTS
    | GATHERING_MUTANTS
    | {
        mutant.__name__: (mutant, scenario)
        for mutant, scenario in (
            (goes_to_the_next_version_after_a_lost_answer, "two-appenders-object-store"),
            (calls_an_unknown_outcome_a_failure, "two-appenders-object-store"),
            (lets_a_later_failure_settle_an_earlier_doubt, "two-appenders"),
            (does_not_know_its_own_commit, "two-appenders-object-store"),
            (judges_conflicts_before_looking_for_its_own_commit, "overwriter-and-appender"),
            (deletes_its_data_files_when_the_outcome_is_unknown, "asks-what-became-of-it"),
            (answers_what_became_of_it_without_a_fence, "asks-what-became-of-it"),
            (judges_the_first_winner_only, "definition-changes"),
            (trusts_a_list_with_a_hole, "definition-changes-lying-lists"),
            (does_not_judge_what_was_read, "overwriter-and-appender"),
            (takes_serializable_for_write_serializable, "serializable-reader"),
            (commits_over_a_changed_definition, "definition-changes"),
            (does_not_check_the_applications_version, "one-application-twice"),
            (drops_every_older_checkpoint_as_a_replay, "application-goes-back"),
            (recovers_what_was_never_sealed, "sink-restarts"),
            (commits_again_what_is_still_staged, "sink-restarts"),
            (removes_the_staging_before_the_commit, "sink-restarts"),
            (cleans_what_is_about_to_be_sealed, "sink-and-cleaner-of-staging"),
            (seals_what_rests_on_a_version_that_is_not_on_disk, "sink-and-appender-power-cut"),
            (acknowledges_what_it_read_back_without_syncing_it, "one-application-twice"),
            (acknowledges_before_the_directory_is_synced, "two-appenders"),
            (builds_on_a_version_that_is_not_on_disk, "two-appenders-power-cut"),
            (names_files_before_they_are_durable, "two-appenders-power-cut"),
            (creates_the_name_and_then_writes_the_bytes, "two-appenders-power-cut"),
            (looks_whether_the_name_is_free_and_then_overwrites, "two-appenders-power-cut"),
            (numbers_rows_from_where_it_was_planned, "rows-are-numbered"),
            (takes_its_own_clock_for_the_tables, "clocks-differ"),
            (writes_a_checkpoint_of_a_stale_state, "checkpointer"),
            (writes_a_checkpoint_of_what_is_not_on_disk, "checkpointer-power-cut"),
            (compacts_what_is_not_on_disk, "compactor-power-cut"),
            (puts_onto_a_version_that_was_cleaned_up, "cleaner-and-sleeper"),
            (cleans_up_too_early, "cleaner-of-a-young-log"),
            (cleans_up_beyond_the_checkpoint, "cleaner"),
            (cleans_up_before_the_checkpoint_is_durable, "cleaner-after-a-crash"),
        )
    }
)
"""Each bug, and the scenario of ``explorer.actors.SCENARIOS`` whose exploration must find it."""


def _seen_as_foreign(self: Any, sent: Any) -> Any:
    try:
        self.versions.read(self.target)
    except (NotFoundError, StorageError):
        return _Seen.NOTHING
    return _Seen.FOREIGN
