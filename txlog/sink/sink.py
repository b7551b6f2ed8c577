"""`Sink`: the Flink-shaped door, for any engine. Tasks write in any process, a checkpoint of them becomes one commit.

In: batches per (checkpoint_id, task_id). Out: committables as plain data, then a ``WriteResult`` per checkpoint.
What lies between them, so that a crash loses nothing: ``staging`` says where it is kept, ``recovery`` what is right.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txlog import ambient
from txlog.errors import InvalidInputError, MetadataChangedError, NotFoundError, TxlogError
from txlog.protocol.actions import INT64_MAX
from txlog.result import WriteResult
from txlog.sink.committable import Committable, validate_committables
from txlog.sink.global_committer import GlobalCommitter
from txlog.sink.planning import WriteOptions, check_identity, check_mode, plan_write
from txlog.sink.recovery import (
    Recovery,
    attempts_to_seal,
    files_must_be_since_ms,
    seal_difference,
    sealed_before,
    stale,
)
from txlog.sink.sink_task import SinkTask
from txlog.sink.staging import Manifest, StagedCheckpoint, Staging
from txlog.sink.write_job import WriteJob

if TYPE_CHECKING:
    from txlog.table import Table

__all__ = ["Sink"]

logger = logging.getLogger("txlog")

_FRESH_MS = 60 * 60 * 1000
"""What a sink that is running has written within an hour is its own, however short the table's retention."""


class Sink:
    """Exactly-once writes of one application to one table, by tasks in any number of processes.

    Each task writes and stages, wherever it runs; a coordinator seals a checkpoint when all of its tasks have, and
    commits it:

        with sink.task(17, task_id=3) as task:            # in each worker
            task.write(batch)
        sink.stage(task.committable)                      # from here on the worker may die

        sink.prepare(17, range(8), fingerprint=offsets)   # in one place; from here on everything may die
        sink.commit(17)

    After a crash `recover` commits what was sealed and tells what was not. Without staging, `commit` takes the
    committables themselves: a crash before it then means to write the checkpoint again.

    ``app_id`` names the application for ever: it must survive restarts, and no two applications may share one; two
    writes of one batch to one table need one each. With ``mode="append"`` a checkpoint without rows makes no version,
    but every ``max_continuous_empty_commits``-th in a row does, so that the table's record of the application goes on
    (1: each one). With ``mode="overwrite"`` each checkpoint is all that the table holds after it, also one without
    rows. Thread-safe for tasks; checkpoints are committed by one thread. Pickles without secrets, as its table does.
    """

    def __init__(
        self,
        table: Table,
        app_id: str,
        *,
        mode: str = "append",
        user_metadata: str | None = None,
        max_continuous_empty_commits: int = 10,
    ) -> None:
        if not hasattr(table, "_engine"):
            raise InvalidInputError(f"a Sink is given a table, as Table.open(uri) opens it, not {table!r}")
        check_identity(app_id, 0)
        check_mode(mode)
        if type(max_continuous_empty_commits) is not int or max_continuous_empty_commits < 1:
            raise InvalidInputError(
                f"max_continuous_empty_commits is a whole number from 1, not {max_continuous_empty_commits!r}"
            )
        self._table = table
        self._engine = table._engine
        self._app_id = app_id
        self._mode = mode
        self._user_metadata = user_metadata
        self._max_continuous_empty_commits = max_continuous_empty_commits
        self._empty_in_a_row = 0
        self._written: tuple[int, frozenset[str]] | None = None
        self._sealed: tuple[Manifest, list[Committable]] | None = None
        self._committer = GlobalCommitter(self._engine)
        self._staging = Staging(self._engine.store, self._engine.retry)

    # --- in a task ----------------------------------------------------------------------------------------------

    def task(self, checkpoint_id: int, task_id: int = 0, attempt: int = 0) -> SinkTask:
        """Begin one task. A task that runs again for its checkpoint has a higher ``attempt`` than before."""
        for number in (task_id, attempt):
            if type(number) is not int or not 0 <= number <= INT64_MAX:
                raise InvalidInputError(f"task_id and attempt are whole numbers from 0 to 2**63-1, not {number!r}")
        return SinkTask(self._engine.store.files, self._job(checkpoint_id), task_id, attempt)

    def stage(self, *committables: Committable) -> None:
        """Keep what tasks finished in the table's ``_txlog/staging`` folder; durable when this returns.

        The same committable again does nothing. Raises ``InvalidInputError`` where this attempt of the task has staged
        other files already, or for a committable of another application; ``StorageError``: stage it again.
        """
        for each in self._require_committables(committables):
            if each.app_id != self._app_id or each.checkpoint_id is None:
                raise InvalidInputError(
                    f"this committable is of application {each.app_id!r}, the sink of {self._app_id!r}",
                    table=self._engine.uri,
                )
            check_identity(each.app_id, each.checkpoint_id)
        self._staging.stage(*committables)

    # --- in the coordinator -------------------------------------------------------------------------------------

    def prepare(
        self,
        checkpoint_id: int,
        tasks: Iterable[int] | Mapping[int, int] | Sequence[Committable],
        *,
        fingerprint: str | None = None,
    ) -> Manifest | None:
        """Seal a checkpoint: from now on it consists of these tasks, and only `commit` or `discard` ends it.

        ``tasks`` are the task_ids expected, each of which must have staged, or a mapping to the attempt of each that
        counts, which must be told where several have staged. Committables in place of ids are staged first.
        ``fingerprint`` (such as the source's offsets) is kept in the seal and with the commit, and compared by whoever
        seals or replays it.

        The same seal again does nothing. None for a checkpoint that is in the table already. Raises
        ``InvalidInputError`` naming the tasks that have not staged (or not once), or how the checkpoint is sealed
        already; ``StorageError``: seal it again.
        """
        job = self._job(checkpoint_id, fingerprint)
        if self._committer.replay_of(job) is not None:
            return None
        wanted = self._expected(tasks)
        try:
            staged = self._staged(checkpoint_id)
            with TxlogError.located(self._engine.uri):
                attempts = attempts_to_seal(staged, wanted)
            found = self._staging.tasks(staged, attempts) if staged else []
            committables = [committable for _, committable in found]
            self._validate(job, committables)
            self._committer.make_bases_durable(job, committables)
            tasks_found = tuple(task for task, _ in found)
            ours = Manifest(self._app_id, checkpoint_id, job.plan.table_id, self._mode, fingerprint, tasks_found)
            sealed = self._staging.seal(ours)
            self._staging.check_sealed(sealed)
        except (InvalidInputError, NotFoundError):  # another committer may have committed and removed it meanwhile
            if self._committer.replay_of(job) is not None:
                return None
            raise
        if (difference := seal_difference(ours, sealed)) is not None:
            raise InvalidInputError(
                f"checkpoint {checkpoint_id} of {self._app_id!r} is sealed already, {difference}. Only what is sealed"
                f" can be committed: sink.commit({checkpoint_id}) does, sink.discard({checkpoint_id}) gives it up",
                table=self._engine.uri,
            )
        self._sealed = (sealed, committables)
        return sealed

    def commit(
        self,
        checkpoint_id: int,
        committables: Sequence[Committable] | None = None,
        *,
        fingerprint: str | None = None,
    ) -> WriteResult:
        """Commit one checkpoint, all of its tasks at once or, as a replay, nothing; then its staging is removed.

        Without ``committables`` it is what `prepare` sealed; with them it is those, staged or not. ``fingerprint`` is
        as for `prepare`, which has it already. ``outcome`` is "committed", "already_committed", or "empty" for a
        checkpoint without rows, which makes no version.

        What was sealed to append or to overwrite is committed as such, whatever this sink's own mode.

        Raises ``InvalidInputError`` for a checkpoint that is not sealed, while an earlier one is sealed and not
        committed, for committables of another checkpoint, application or table or of files too old to be safe from a
        vacuum, and for other work under a checkpoint_id that this sink has committed; ``MetadataChangedError`` where a
        column that the files hold has changed since, and ``NotFoundError`` where a file is gone (vacuum takes what no
        commit names for an orphan): write the checkpoint again. Whatever is raised, what was sealed stays so.
        """
        check_identity(self._app_id, checkpoint_id)
        if committables is not None:
            committables = self._require_committables(committables)
        staged = self._staging.checkpoints(self._app_id)
        self._require_earlier_committed(staged, checkpoint_id)
        mine = [each for each in staged if each.checkpoint_id == checkpoint_id]
        if mine and mine[0].is_sealed:
            self._require_as_sealed(mine[0], committables, fingerprint)
            result = self._commit_sealed(mine[0], self._since_ms(staged, _FRESH_MS)) or self._ended(checkpoint_id)
        else:
            result = self._commit_unsealed(self._job(checkpoint_id, fingerprint), committables, staged)
        past = stale(staged, None if result.outcome == "empty" else checkpoint_id)
        for each in (*mine, *(each for each in past if each not in mine)):
            self._staging.remove_quietly(each.names)
        return result

    # --- after a crash ------------------------------------------------------------------------------------------

    def recover(self) -> Recovery:
        """Commit what was sealed and not committed, by ascending checkpoint_id, and tell what was left besides.

        Call it when the application starts, before it asks `last_checkpoint_id` where to go on. Exactly once, however
        often and from however many processes. Each file is looked up first: it must be there at its full size, and
        younger than half of the table's ``delta.deletedFileRetentionDuration``.

        Raises as `commit` at the first checkpoint that cannot be committed, with what was done until then as the
        error's ``recovery``; later checkpoints wait. Nothing is dropped: mend it, or `discard` that checkpoint and
        write it again. What was staged and not sealed is reported, and stays until the application is past it.
        """
        staged = self._staging.checkpoints(self._app_id)
        results: dict[int, WriteResult] = {}
        try:
            for each in staged:
                if each.is_sealed and (result := self._commit_sealed(each, self._since_ms(staged, 0))):
                    results[each.checkpoint_id] = result
                    self._staging.remove_quietly(each.names)
        except TxlogError as error:
            error.recovery = Recovery(results)  # type: ignore[attr-defined]
            if isinstance(error, (InvalidInputError, MetadataChangedError, NotFoundError)):
                error.message = error.message.rstrip(".") + (
                    f". Checkpoint {each.checkpoint_id} of {self._app_id!r} stays sealed: mend this and recover"
                    f" again, or sink.discard({each.checkpoint_id}) and write it again"
                )
            raise
        past = stale(staged, self.last_checkpoint_id())
        for each in past:
            self._staging.remove_quietly(each.names)
        partial = {e.checkpoint_id: e.attempts for e in staged if not e.is_sealed and e not in past}
        recovery = Recovery(results, partial)
        logger.info("%s: %r: %s", self._engine.uri, self._app_id, recovery)
        return recovery

    def discard(self, checkpoint_id: int) -> bool:
        """Give up what is staged of a checkpoint, sealed or not; False where there was nothing.

        Its rows have to come from the source again. A commit of it that is on its way may still land. The data files
        become orphans, which a vacuum removes.
        """
        check_identity(self._app_id, checkpoint_id)
        staged = self._staged(checkpoint_id)
        if staged is None:
            return False
        self._staging.discard(staged)
        sealed = "sealed" if staged.is_sealed else "not sealed"
        logger.warning("%s: checkpoint %d of %r discarded, %s", self._engine.uri, checkpoint_id, self._app_id, sealed)
        return True

    def last_checkpoint_id(self) -> int | None:
        """The last checkpoint of this application in the table; None before the first."""
        return self._engine.log.head().transaction_version(self._app_id)

    # --- the steps of a commit ----------------------------------------------------------------------------------

    def _require_earlier_committed(self, staged: Sequence[StagedCheckpoint], checkpoint_id: int) -> None:
        """Checkpoints land in order: once a later one has, an earlier one could be neither dropped nor written."""
        for earlier in sealed_before(staged, checkpoint_id):
            try:
                found = self._committer.replay_of(
                    self._job(earlier.checkpoint_id, self._staging.manifest(earlier).fingerprint)
                )
            except NotFoundError:
                continue  # another committer has removed it meanwhile
            except InvalidInputError as error:
                error.message += f". It is still staged: sink.discard({earlier.checkpoint_id}) gives it up"
                raise
            if found is None:
                raise InvalidInputError(
                    f"checkpoint {earlier.checkpoint_id} of {self._app_id!r} is sealed and not committed yet, so"
                    f" {checkpoint_id} has to wait: sink.commit({earlier.checkpoint_id}) first, or sink.recover()",
                    table=self._engine.uri,
                )
            self._staging.remove_quietly(earlier.names)

    def _require_as_sealed(
        self, mine: StagedCheckpoint, committables: Sequence[Committable] | None, fingerprint: str | None
    ) -> None:
        """What the caller hands over must be what is sealed: nothing else can be committed."""
        if committables is None and fingerprint is None:
            return
        try:
            sealed = self._staging.manifest(mine)
        except NotFoundError:
            return  # another committer has removed it meanwhile
        asked = None if committables is None else {each.task_id: each.attempt for each in committables}
        if asked not in (None, sealed.attempts) or fingerprint not in (None, sealed.fingerprint):
            raise InvalidInputError(
                f"checkpoint {mine.checkpoint_id} of {self._app_id!r} is sealed with attempts {sealed.attempts} and"
                f" fingerprint {sealed.fingerprint!r}, not with {asked or sealed.attempts} and {fingerprint!r}: only"
                f" what is sealed can be committed, by sink.commit({mine.checkpoint_id})",
                table=self._engine.uri,
            )

    def _commit_sealed(self, mine: StagedCheckpoint, since_ms: int) -> WriteResult | None:
        """None where it is sealed no longer, nor in the table: discarded, or without rows and ended by another."""
        try:
            manifest = self._staging.manifest(mine)
            job = self._job(mine.checkpoint_id, manifest.fingerprint, manifest.mode)
            replayed = self._committer.replay_of(job)
            if replayed is not None:
                return replayed
            if self._sealed is not None and self._sealed[0] == manifest:
                committables = self._sealed[1]
            elif manifest.num_files:
                committables = self._staging.committables(mine, manifest)
            else:
                committables = []  # the table does not tell that it was ended: a removal cut short may have left this
        except NotFoundError:  # another committer may have committed it, and removed it, meanwhile
            replayed = self._committer.replay_of(self._job(mine.checkpoint_id))
            if replayed is None and self._staging.is_sealed(mine):
                raise
            return replayed
        return self._commit_job(job, committables, since_ms)

    def _ended(self, checkpoint_id: int) -> WriteResult:
        """The answer for a checkpoint whose seal went while we were about to commit it."""
        sealed = self._sealed[0] if self._sealed else None
        if sealed and sealed.checkpoint_id == checkpoint_id and not sealed.num_files:
            return WriteResult(self._engine.log.head(refresh=False).version, "empty", 0, "")
        raise InvalidInputError(
            f"checkpoint {checkpoint_id} of {self._app_id!r} is sealed no longer: another process has discarded it, or"
            " ended it without rows. Nothing was committed",
            table=self._engine.uri,
        )

    def _commit_unsealed(
        self, job: WriteJob, committables: Sequence[Committable] | None, staged: Sequence[StagedCheckpoint]
    ) -> WriteResult:
        replayed = self._committer.replay_of(job)
        if replayed is not None:
            self._require_same_work(job, committables or ())
            return replayed
        if committables is None:
            raise InvalidInputError(
                f"checkpoint {job.checkpoint_id} of {self._app_id!r} is not sealed:"
                f" sink.prepare({job.checkpoint_id}, tasks) does that, once every task has staged",
                table=self._engine.uri,
            )
        return self._commit_job(job, committables, self._since_ms(staged, _FRESH_MS))

    def _commit_job(self, job: WriteJob, committables: Sequence[Committable], since_ms: int) -> WriteResult:
        self._validate(job, committables, since_ms)
        self._committer.require_readable(job, committables)
        paths = frozenset(file.path for each in committables for file in each.files)
        self._empty_in_a_row = 0 if paths else self._empty_in_a_row + 1
        if not paths and job.mode == "append" and self._empty_in_a_row < self._max_continuous_empty_commits:
            return WriteResult(job.read_version, "empty", 0, job.job_id)
        result = self._committer.commit(job, committables)
        self._empty_in_a_row = 0
        if result.outcome == "committed" and job.checkpoint_id is not None:
            self._written = (job.checkpoint_id, paths)
        return result

    def _require_same_work(self, job: WriteJob, committables: Sequence[Committable]) -> None:
        """One run of an application does not make a checkpoint twice: the second is other work under the same id."""
        paths = frozenset(file.path for each in committables for file in each.files)
        if not paths or job.fingerprint is not None or self._written is None:
            return
        if self._written[0] == job.checkpoint_id and self._written[1] != paths:
            raise InvalidInputError(
                f"this sink has committed checkpoint {job.checkpoint_id} of {self._app_id!r} already, from other files."
                " Two writes to one table need an app_id each; a replay comes from a new Sink, or with a fingerprint",
                table=self._engine.uri,
            )

    # --- helpers ------------------------------------------------------------------------------------------------

    def _expected(self, tasks: Iterable[int] | Mapping[int, int] | Sequence[Committable]) -> Any:
        """Task_ids, or attempts by task_id; committables are staged for it."""
        if isinstance(tasks, Mapping):
            return tasks
        try:
            wanted = list(tasks)
        except TypeError:
            raise InvalidInputError(
                f"the tasks of a checkpoint are a list of ids, not {tasks!r}", table=self._engine.uri
            ) from None
        if not any(isinstance(each, Committable) for each in wanted):
            return wanted
        committables = self._require_committables(wanted)
        attempts = {each.task_id: each.attempt for each in committables}
        if len(attempts) < len(wanted):
            raise InvalidInputError("prepare takes one committable of each task", table=self._engine.uri)
        self.stage(*committables)
        return attempts

    def _require_committables(self, given: Any) -> list[Committable]:
        found = list(given) if isinstance(given, Iterable) else [given]  # a list, since it is looked through again
        for each in found:
            if not isinstance(each, Committable):
                raise InvalidInputError(
                    f"{each!r} is no committable: Committable.from_bytes reads what a task sent", table=self._engine.uri
                )
        return found

    def _staged(self, checkpoint_id: int) -> StagedCheckpoint | None:
        found = self._staging.checkpoints(self._app_id)
        return next((each for each in found if each.checkpoint_id == checkpoint_id), None)

    def _since_ms(self, staged: Sequence[StagedCheckpoint], at_least_ms: int) -> int:
        properties = self._engine.log.head(refresh=False).properties
        return files_must_be_since_ms(properties, staged, ambient.now_ms(), at_least_ms=at_least_ms)

    def _validate(self, job: WriteJob, committables: Sequence[Committable], since_ms: int | None = None) -> None:
        """Where ``since_ms`` is given, every file is looked up."""
        validate_committables(
            committables,
            partition_fields=job.plan.physical_partition_fields,
            table=self._engine.uri,
            table_id=job.plan.table_id,
            app_id=self._app_id,
            checkpoint_id=job.checkpoint_id,
            files=None if since_ms is None else self._engine.store.files,
            since_ms=since_ms,
        )

    def _job(self, checkpoint_id: int, fingerprint: str | None = None, mode: str | None = None) -> WriteJob:
        from txlog.protocol.schema import to_arrow

        schema = to_arrow(self._engine.writable_head().schema)
        options = WriteOptions(
            mode=mode or self._mode,
            app_id=self._app_id,
            checkpoint_id=checkpoint_id,
            fingerprint=fingerprint,
            user_metadata=self._user_metadata,
        )
        return plan_write(self._engine, schema, options)

    def __repr__(self) -> str:
        return f"Sink({self._engine.uri}, app_id={self._app_id!r}, mode={self._mode!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "table": self._table,
            "app_id": self._app_id,
            "mode": self._mode,
            "user_metadata": self._user_metadata,
            "max_continuous_empty_commits": self._max_continuous_empty_commits,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
