"""`Sink`: the Flink-shaped door, for any engine. Tasks write in any process, a checkpoint of them becomes one commit.

In: batches per (checkpoint_id, task_id). Out: committables as plain data, then a ``WriteResult`` per checkpoint.
What lies between them, so that a crash loses nothing: ``staging`` says where it is kept, ``recovery`` what is right,
``checkpoint_commits`` how it lands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from txlog.commands.write_planning import check_app_id, check_identity, check_mode
from txlog.errors import InvalidInputError, MetadataChangedError, NotFoundError, TxlogError
from txlog.result import WriteResult
from txlog.sink.checkpoint_commits import CheckpointCommits
from txlog.sink.recovery import Recovery, attempts_to_seal, seal_difference, stale
from txlog.sink.sink_task import SinkTask
from txlog.sink.staging import Manifest, StagedCheckpoint
from txlog.util.api_hints import explains_calls, no_attribute
from txlog.util.arguments import described, whole_number
from txlog.util.logs import logger
from txlog.writer.committable import Committable

if TYPE_CHECKING:
    from txlog.table import Table

__all__ = ["Sink"]

_MODES = ("append", "overwrite")


@explains_calls
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

    ``app_id`` names the application for good: it must survive restarts, and no two applications may share one; two
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
        if not hasattr(table, "_open_table"):
            raise InvalidInputError(f"a Sink is given a table, as Table.open(uri) opens it, not {described(table)}")
        check_app_id(app_id)
        check_mode(mode, _MODES)
        self._table = table
        self._open_table = table._open_table
        self._app_id = app_id
        self._mode = mode
        self._user_metadata = user_metadata
        self._max_continuous_empty_commits = whole_number(
            "max_continuous_empty_commits", max_continuous_empty_commits, at_least=1
        )
        self._commits = CheckpointCommits(
            self._open_table,
            app_id,
            mode=mode,
            user_metadata=user_metadata,
            max_continuous_empty_commits=self._max_continuous_empty_commits,
        )
        self._staging = self._commits.staging

    # --- in a task ----------------------------------------------------------------------------------------------

    def task(self, checkpoint_id: int, task_id: int = 0, attempt: int = 0) -> SinkTask:
        """Begin one task. A task that runs again for its checkpoint has a higher ``attempt`` than before."""
        numbers = whole_number("task_id", task_id), whole_number("attempt", attempt)
        return SinkTask(self._open_table.store.files, self._commits.job(checkpoint_id), *numbers)

    def stage(self, *committables: Committable) -> None:
        """Keep what tasks finished in the table's ``_txlog/staging`` folder; durable when this returns.

        The same committable again does nothing. Raises ``InvalidInputError`` where this attempt of the task has staged
        other files already, or for a committable of another application; ``StorageError``: stage it again.
        """
        for each in self._require_committables(committables):
            if each.app_id != self._app_id or each.checkpoint_id is None:
                raise InvalidInputError(
                    f"this committable is of application {each.app_id!r}, the sink of {self._app_id!r}",
                    table=self._open_table.uri,
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
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        job = self._commits.job(checkpoint_id, fingerprint)
        if self._commits.committer.replay_of(job) is not None:
            return None
        wanted = self._expected(tasks)
        try:
            staged = self._staged(checkpoint_id)
            with TxlogError.located(self._open_table.uri):
                attempts = attempts_to_seal(staged, wanted)
            found = self._staging.tasks(staged, attempts) if staged else []
            committables = [committable for _, committable in found]
            self._commits.committer.validate(job, committables)
            self._commits.committer.make_bases_durable(job, committables)
            tasks_found = tuple(task for task, _ in found)
            ours = Manifest(self._app_id, checkpoint_id, job.plan.table_id, job.intent, fingerprint, tasks_found)
            sealed = self._staging.seal(ours)
            self._staging.check_sealed(sealed)
        except (InvalidInputError, NotFoundError):  # another committer may have committed and removed it meanwhile
            if self._commits.committer.replay_of(job) is not None:
                return None
            raise
        if (difference := seal_difference(ours, sealed)) is not None:
            raise InvalidInputError(
                f"checkpoint {checkpoint_id} of {self._app_id!r} is sealed already, {difference}. Only what is sealed"
                f" can be committed: sink.commit({checkpoint_id}) does, sink.discard({checkpoint_id}) gives it up",
                table=self._open_table.uri,
            )
        self._commits.last_seal = (sealed, committables)
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
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        if committables is not None:
            committables = self._require_committables(committables)
        return self._commits.commit(checkpoint_id, committables, fingerprint)

    # --- after a crash ------------------------------------------------------------------------------------------

    def recover(self) -> Recovery:
        """Commit what was sealed and not committed, by ascending checkpoint_id, and tell what was left besides.

        Call it when the application starts, before it asks `last_checkpoint_id` where to go on. Exactly once, however
        often and from however many processes. Each file is looked up first: it must be there at its full size, and
        younger than half of the table's ``delta.deletedFileRetentionDuration``.

        Raises as `commit` at the first checkpoint that cannot be committed, with what was done until then as the
        error's ``recovery``; later checkpoints wait. Nothing is dropped: fix it, or `discard` that checkpoint and
        write it again. What was staged and not sealed is reported, and stays until the application is past it.
        """
        staged = self._staging.checkpoints(self._app_id)
        results: dict[int, WriteResult] = {}
        unsealed = [each for each in staged if not each.is_sealed]
        try:
            for each in (each for each in staged if each.is_sealed):
                if result := self._commits.commit_sealed(each, staged):
                    results[each.checkpoint_id] = result
                    self._staging.remove_quietly(each.names)
                elif self._staging.is_given_up(each):
                    unsealed.append(replace(each, is_sealed=False))
        except TxlogError as error:
            error.recovery = Recovery(results)  # type: ignore[attr-defined]
            if isinstance(error, (InvalidInputError, MetadataChangedError, NotFoundError)):
                error.message = error.message.rstrip(".") + (
                    f". Checkpoint {each.checkpoint_id} of {self._app_id!r} stays sealed: fix this and recover"
                    f" again, or sink.discard({each.checkpoint_id}) and write it again"
                )
            raise
        past = stale(unsealed, self.last_checkpoint_id())
        for each in past:
            self._staging.remove_quietly(each.names)
        unsealed.sort(key=lambda each: each.checkpoint_id)
        partial = {each.checkpoint_id: each.attempts for each in unsealed if each not in past}
        recovery = Recovery(results, partial)
        logger.info("%s: %r: %s", self._open_table.uri, self._app_id, recovery)
        return recovery

    def discard(self, checkpoint_id: int) -> bool:
        """Give up what is staged of a checkpoint, sealed or not; False where there was nothing.

        Its rows have to come from the source again, before a later checkpoint is committed: after that no earlier one
        is taken, so that a later one which is sealed already is warned of. A commit of it that is on its way may still
        land. The data files become orphans, which a vacuum removes.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        found = self._staging.checkpoints(self._app_id)
        staged = next((each for each in found if each.checkpoint_id == checkpoint_id), None)
        if staged is None:
            return False
        self._staging.discard(staged)
        told = "sealed" if staged.is_sealed else "not sealed"
        sealed = [each.checkpoint_id for each in found if each.is_sealed]
        if later := [str(each) for each in sealed if each > checkpoint_id]:
            told += f"; {', '.join(later)} is sealed, and once that is committed {checkpoint_id} is refused"
        logger.warning("%s: checkpoint %d of %r discarded, %s", self._open_table.uri, checkpoint_id, self._app_id, told)
        return True

    def last_checkpoint_id(self) -> int | None:
        """The last checkpoint of this application in the table; None before the first."""
        return self._open_table.log.newest_state().transaction_version(self._app_id)

    # --- helpers ------------------------------------------------------------------------------------------------

    def _expected(self, tasks: Iterable[int] | Mapping[int, int] | Sequence[Committable]) -> Any:
        """Task_ids, or attempts by task_id; committables are staged for it."""
        if isinstance(tasks, Mapping):
            return tasks
        try:
            wanted = list(tasks)
        except TypeError:
            raise InvalidInputError(
                f"the tasks of a checkpoint are a list of ids, not {described(tasks)}", table=self._open_table.uri
            ) from None
        if not any(isinstance(each, Committable) for each in wanted):
            return wanted
        committables = self._require_committables(wanted)
        attempts = {each.task_id: each.attempt for each in committables}
        if len(attempts) < len(wanted):
            raise InvalidInputError("prepare takes one committable of each task", table=self._open_table.uri)
        self.stage(*committables)
        return attempts

    def _require_committables(self, given: Any) -> list[Committable]:
        found = list(given) if isinstance(given, Iterable) else [given]  # a list, since it is looked through again
        for each in found:
            if not isinstance(each, Committable):
                raise InvalidInputError(
                    f"{described(each)} is no committable: Committable.from_bytes reads what a task sent",
                    table=self._open_table.uri,
                )
        return found

    def _staged(self, checkpoint_id: int) -> StagedCheckpoint | None:
        found = self._staging.checkpoints(self._app_id)
        return next((each for each in found if each.checkpoint_id == checkpoint_id), None)

    def __repr__(self) -> str:
        return f"Sink({self._open_table.uri}, app_id={self._app_id!r}, mode={self._mode!r})"

    if not TYPE_CHECKING:  # a type checker tells of a misspelt name

        def __getattr__(self, name: str) -> NoReturn:
            open_table = self.__dict__.get("_open_table")
            raise no_attribute(self, name, open_table and open_table.uri)

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
