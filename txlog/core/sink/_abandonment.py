"""Gives up a checkpoint that cannot be committed, so that the stream can continue after it.

In: the checkpoints of one application, and the id of one of them. Out: `Abandoned`. The commit has only the ``txn``
action, so the checkpoint counts as done: a replay is dropped, even if another process commits it meanwhile and comes
second, and a recovery finds it in the table. No file is deleted, since such a commit may have come first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from txlog.core.format.actions import operation_parameters
from txlog.core.sink._checkpoint_commits import CheckpointCommits, void_of
from txlog.core.sink._recovery import stale
from txlog.core.util import logger, repr_without
from txlog.core.versions import OpenTable, Steps, ToCommit
from txlog.core.versions.decisions.proposal import OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.errors import ConcurrentTransactionError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.result import WriteResult, counted

if TYPE_CHECKING:
    from txlog.core.sink._staging import Manifest, SealedTask, StagedCheckpoint
    from txlog.core.writing.committable import Committable

_UNREADABLE = (NotFoundError, InvalidInputError, UnsupportedFeatureError)


class Abandoned(msgspec.Struct, frozen=True):
    """What `Sink.abandon` gave up.

    Attributes:
        checkpoint_id: The checkpoint.
        result: "committed"; or "already_committed" if the checkpoint is in the table and nothing was given up.
        was_sealed: Whether it was sealed.
        tasks: The number of its tasks that staged.
        rows: The number of rows in their data files.
        keys: The number of changes in their key files, which tasks write if they delete rows or have a sequence.
        size_bytes: The size of the data files.
        files: Data files and key files, by their paths in the table's folder. They stay until a vacuum finds them older
            than the table's ``delta.deletedFileRetentionDuration``. Empty if the staged work cannot be read.
    """

    checkpoint_id: int
    result: WriteResult
    was_sealed: bool = False
    tasks: int = 0
    rows: int = 0
    keys: int = 0
    size_bytes: int = 0
    files: tuple[str, ...] = ()

    __repr__ = repr_without("files")

    def __str__(self) -> str:
        if self.result.outcome != "committed":
            return f"checkpoint {self.checkpoint_id} is already in the table: nothing was given up"
        counts = [counted(self.rows, "row"), *([counted(self.keys, "change")] if self.keys else [])]
        return f"checkpoint {self.checkpoint_id} given up: {' and '.join(counts)} of {counted(self.tasks, 'task')}"


def abandonment(
    open_table: OpenTable,
    commits: CheckpointCommits,
    app_id: str,
    checkpoint_id: int,
    user_metadata: str | None,
    together: tuple[str, ...] = (),
) -> Steps[Abandoned]:
    """See ``Sink.abandon``. ``together``: the tables of the caller's group."""
    staged = commits.staging.checkpoints(app_id)
    commits.require_earlier_committed(staged, checkpoint_id)
    mine = next((each for each in staged if each.checkpoint_id == checkpoint_id), None)
    manifest = _manifest(commits, mine)
    if manifest is not None:
        commits.require_together(manifest, together)
    work = {} if mine is None else _staged_work(commits, mine, manifest)
    result = yield from _steps(open_table, app_id, checkpoint_id, manifest, work, user_metadata)
    found = Abandoned(checkpoint_id, result, **(work if result.outcome == "committed" else {}))
    past = [each for each in staged if each is mine or each in stale(staged, checkpoint_id)]
    commits.staging.remove_quietly(name for each in past for name in each.names)
    logger.warning("%s: %r: %s", open_table.uri, app_id, found)
    return found


def _manifest(commits: CheckpointCommits, mine: StagedCheckpoint | None) -> Manifest | None:
    """The seal; None if there is none or it cannot be read: the stream must not wait for it."""
    if mine is None or not mine.is_sealed:
        return None
    try:
        return commits.staging.manifest(mine)
    except _UNREADABLE as error:
        logger.warning("the seal of checkpoint %d cannot be read: %s", mine.checkpoint_id, error)
        return None


def _staged_work(commits: CheckpointCommits, mine: StagedCheckpoint, manifest: Manifest | None) -> dict[str, Any]:
    """The staged work: for each task, the sealed attempt's, or otherwise the last one's."""
    attempts = manifest.attempts if manifest else {task: each[-1] for task, each in mine.attempts.items()}
    found: list[Committable] = []
    for task, attempt in attempts.items():
        try:
            found += [each for _, each in commits.staging.tasks(mine, {task: attempt})]
        except _UNREADABLE as error:
            logger.warning("task %d of checkpoint %d cannot be read: %s", task, mine.checkpoint_id, error)
    counted_by: Sequence[SealedTask | Committable] = manifest.tasks if manifest else found
    return {
        "was_sealed": manifest is not None,
        "tasks": len(attempts),
        "rows": sum(each.num_rows for each in counted_by),
        "keys": sum(each.num_keys for each in counted_by),
        "size_bytes": sum(each.size_bytes for each in counted_by),
        "files": tuple(sorted({path for each in found for path in each.named_paths()})),
    }


def _steps(
    open_table: OpenTable,
    app_id: str,
    checkpoint_id: int,
    manifest: Manifest | None,
    work: Mapping[str, Any],
    user_metadata: str | None,
) -> Steps[WriteResult]:
    """Only the ``txn`` action, unless the checkpoint is in the table."""
    fingerprint = None if manifest is None else manifest.fingerprint
    state = open_table.log.newest_state()
    open_table.check_maintainable(state)
    found = open_table.replay_of(state, app_id, checkpoint_id, fingerprint, is_sealed=manifest is not None)
    if found is not None:
        return WriteResult(found.version, "already_committed", 0, "")
    builder = ProposalBuilder(state)
    builder.set_transaction(app_id, checkpoint_id)
    parameters = operation_parameters(
        appId=app_id, checkpointId=checkpoint_id, rows=work.get("rows", 0), keys=work.get("keys", 0)
    )
    info = OperationInfo("ABANDON CHECKPOINT", parameters, user_metadata=user_metadata, fingerprint=fingerprint)
    try:
        return (yield ToCommit(open_table.proposed(builder, info), state))
    except ConcurrentTransactionError:
        found = open_table.replay_of(open_table.log.newest_state(), app_id, checkpoint_id, fingerprint)
        if found is None:
            raise
        return WriteResult(found.version, "already_committed", 0, "")


def give_up_in_log(open_table: OpenTable, app_id: str, checkpoint_id: int, in_round: int) -> bool:
    """Commit that a round of a group's checkpoint never lands in this table; False if the table has the checkpoint.

    A put of the checkpoint that is under way either lands before this commit, or never does.
    """
    void = void_of(app_id, checkpoint_id), in_round
    while True:
        state = open_table.log.newest_state()
        open_table.check_maintainable(state)
        last, given_up = state.transaction_version(app_id), state.transaction_version(void[0])
        if last is not None and last >= checkpoint_id:
            return False
        if given_up is not None and given_up >= in_round:
            return True
        builder = ProposalBuilder(state)
        builder.set_transaction(*void)
        builder.read_application(app_id)
        info = OperationInfo("DISCARD CHECKPOINT", operation_parameters(appId=app_id, checkpointId=checkpoint_id))
        with contextlib.suppress(ConcurrentTransactionError):
            open_table.commit_change(builder, info)
            return True
