"""`Sink`: a Flink-style sink for any engine. Tasks write in any process; each checkpoint becomes one commit.

In: batches per (checkpoint_id, task_id). Out: committables as plain data, then a ``WriteResult`` per checkpoint. A
crash in between loses nothing: ``_staging`` keeps finished work, ``_recovery`` decides what may be committed, and
``_checkpoint_commits`` commits it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec.structs import replace

from txlog.core.definition import row_changes
from txlog.core.operations import check_mode
from txlog.core.sink._abandonment import Abandoned, abandonment
from txlog.core.sink._checkpoint_commits import CheckpointCommits
from txlog.core.sink._recovery import (
    Recovery,
    attempts_to_seal,
    listed_tasks,
    seal_difference,
    stale,
    tell_sealed_meanwhile,
)
from txlog.core.sink._sink_task import SinkTask
from txlog.core.sink._staging import Manifest, StagedCheckpoint
from txlog.core.util import check_text, explains_calls, explains_names, invalid, logger, one_of, whole_number
from txlog.core.writing import WriteJob, changelog_of
from txlog.core.writing.commit_options import check_app_id, check_identity
from txlog.core.writing.committable import Committable, require_committables
from txlog.core.writing.write_intent import MismatchAction, MismatchPolicy, RowMode
from txlog.errors import InvalidInputError, MetadataChangedError, NotFoundError, TxlogError
from txlog.result import WriteResult

if TYPE_CHECKING:
    import pyarrow as pa

    from txlog.table import Table

SinkMode: TypeAlias = Literal["append", "overwrite", "upsert", "retract"]


@explains_calls
@explains_names
class Sink:
    """One application's exactly-once writes to one table, by tasks in any number of processes.

    Each task writes and stages, wherever it runs. A coordinator seals a checkpoint when all its tasks have staged, and
    commits it:

        with sink.task(17, task_id=3) as task:            # in each worker
            task.write(batch)
        sink.stage(task.committable)                      # from here on the worker may die

        sink.prepare(17, range(8), fingerprint=offsets)   # in one place; from here on everything may die
        sink.commit(17)

    After a crash, `recover` commits the sealed checkpoints and reports the others. Without staging, `commit` takes the
    committables themselves; after a crash before `commit`, the checkpoint must then be written again.

    Thread-safe for tasks; one thread commits the checkpoints. Pickles without secrets, like its table.

    With ``mode="upsert"`` or ``"retract"``, the rows are changes: new versions of rows, and deleted rows. The commit
    finds each one by its key, whatever other writers have done to the table by then. In a checkpoint the last change of
    a key wins, and checkpoints apply in commit order.

    Args:
        table: The `Table` to write to.
        app_id: The permanent name of the application. It must survive restarts, and no two applications may share one.
            If a batch writes to one table twice, each write needs its own app_id.
        mode: "append"; "overwrite": each checkpoint, even without rows, replaces the table's content; "upsert":
            rows replace those with the same keys, ``-D`` deletes the row with its key, and ``-U`` the row that it
            carries, unless its key has a new one; "retract": ``-D`` too deletes only the row that it carries.
        max_continuous_empty_commits: With "append", a checkpoint without rows makes no version, except every this many
            in a row, so the table's record of the application stays current. 1: every checkpoint makes one.
        keys: The columns that identify a row, for changes; paths with dots name struct fields. None may be null.
        row_kind: The column of row kinds: ``+I``, ``-U``, ``+U``, ``-D``, Flink's names or codes, Debezium's ``c``,
            ``r``, ``u``, ``d``, or the values of a change data feed. None: every row is an upsert. It is not written to
            the table, unless the table has a column with this name.
        row_kinds: The meaning of more values in that column: ``{"I": "+I", "U": "+U", "D": "-D"}``.
        sequence_by: The column whose greatest value is the last change of a key, within one checkpoint. None: the order
            of arrival in one task; a key that two tasks of a checkpoint changed is then refused. It is not written to
            the table, unless the table has a column with this name.
        merge_engine: How rows with one key become one, as in `Table.upsert`. It must agree with the table's properties.
            None: the table's (``txlog.merge-engine``).
        on_mismatch: What happens to changes that do not fit the table's rows when they are committed:
            "ignore", "quarantine" or "fail", or by case: ``{"missing": "ignore", "several": "ignore", "unfit":
            "fail"}``, which is the default. docs/stream-changes.md describes the cases.
        row_mode: How replaced rows are removed: "merge-on-read" (deletion vectors) or "copy-on-write". None: deletion
            vectors if the table enables them.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    def __init__(
        self,
        table: Table,
        app_id: str,
        *,
        mode: SinkMode = "append",
        user_metadata: str | None = None,
        max_continuous_empty_commits: int = 10,
        keys: str | Sequence[str] | None = None,
        row_kind: str | None = None,
        row_kinds: Mapping[int, str] | Mapping[str, str] | None = None,
        sequence_by: str | None = None,
        merge_engine: str | Mapping[str, object] | None = None,
        on_mismatch: MismatchAction | Mapping[str, MismatchAction] | None = None,
        row_mode: RowMode | None = None,
    ) -> None:
        if not hasattr(table, "_open_table"):
            raise invalid("table", table, "a Table, as Table.open(uri) returns")
        check_app_id(app_id)
        check_mode(mode, get_args(SinkMode))
        self._changelog = changelog_of(mode, keys, row_kind, row_kinds, sequence_by)
        if row_mode not in (None, *get_args(RowMode)):
            raise invalid("row_mode", row_mode, one_of(get_args(RowMode)))
        if row_mode is not None and self._changelog is None:
            raise InvalidInputError(
                f'row_mode is for changes of single rows, but mode="{mode}" makes none: leave it out'
            )
        self._table = table
        self._open_table = table._open_table
        if merge_engine is not None:
            keys_of = self._changelog.keys if self._changelog else ()
            row_changes("a sink with a merge engine").require_engine(self._open_table, keys_of, merge_engine)
        self._app_id = app_id
        self._mode = mode
        self._user_metadata = user_metadata
        self._max_continuous_empty_commits = whole_number(
            "max_continuous_empty_commits", max_continuous_empty_commits, at_least=1
        )
        self._row_mode = row_mode
        self._on_mismatch = on_mismatch
        self._commits = CheckpointCommits(
            self._open_table,
            app_id,
            mode="upsert" if self._changelog else mode,
            keys=self._changelog.keys if self._changelog else (),
            row_mode=row_mode,
            mismatch=MismatchPolicy.of(on_mismatch, has_changes=self._changelog is not None),
            user_metadata=user_metadata,
            max_continuous_empty_commits=self._max_continuous_empty_commits,
        )
        self._staging = self._commits.staging
        self._seen_partial: set[int] = set()

    @property
    def app_id(self) -> str:
        """The application's name in the table's log; Spark's writes take it as ``txnAppId``."""
        return self._app_id

    # --- a job without checkpoints ------------------------------------------------------------------------------

    def once(self, key: str, data: object) -> WriteResult:
        """Write a job's rows once for each key, such as the date that a scheduler runs it for.

        A job that is run again for a key adds nothing, whether it failed, was retried or runs twice at the same time.
        Keys have no order: an older date may follow a newer one. A run without rows counts as done.

        Args:
            key: What this run of the job is for.
            data: Anything that ``Table.append`` accepts. It is not touched if the table has the key: pass a generator
                of record batches, and its rows are not even made.

        Returns:
            A result whose ``outcome`` is "committed" or "already_committed".

        Raises:
            InvalidInputError: An argument is invalid, or a row cannot be stored.
            SchemaMismatchError: The columns do not fit the table.
            TxlogError: What `commit` raises. Nothing landed, unless it is a ``CommitStateUnknownError``: run it again.
        """
        sink = self.for_key(key)
        known = sink.committed(0)
        if known is not None:
            return known
        with sink.task(0) as task:
            task.write(data)
        return sink.commit(0, [task.committable])

    def for_key(self, key: str) -> Sink:
        """The sink of one key of this job, whose only checkpoint is 0, for a job with many tasks.

        Delta's record of an application is one number that only grows, and keys need not grow. So each key is an
        application of its own, ``app_id#key``, at version 0 (PROTOCOL.md, "Transaction Identifiers"). The table keeps
        one record for each key, for ``delta.setTransactionRetentionDuration``, or for good if that is not set.

        Args:
            key: What this run of the job is for.

        Returns:
            A sink with this one's settings.

        Raises:
            InvalidInputError: The key is not a non-empty string.
        """
        if type(key) is not str or not key:
            raise invalid("key", key, "a non-empty string")
        check_text("key", key)
        job = self._app_id.replace("%", "%25").replace("#", "%23")  # so that no two jobs and keys share a record
        return Sink(**{**self.__getstate__(), "app_id": f"{job}#{key}", "max_continuous_empty_commits": 1})

    # --- in a task ----------------------------------------------------------------------------------------------

    def task(self, checkpoint_id: int, task_id: int = 0, attempt: int = 0) -> SinkTask:
        """Begin one task.

        Args:
            checkpoint_id: The checkpoint, a whole number from 0.
            task_id: The task within the checkpoint, a whole number from 0.
            attempt: The number of this run of the task; each rerun needs a higher one.

        Returns:
            A context manager to write to.

        Raises:
            InvalidInputError: An id is invalid.
            SchemaMismatchError: The table's columns cannot be written.
        """
        numbers = whole_number("task_id", task_id), whole_number("attempt", attempt)
        keep = self._open_table.key_cache.keep_staged if self._changelog else None
        return SinkTask(self._open_table.store.files, self._commits.job(checkpoint_id), *numbers, self._changelog, keep)

    def partition_of(self, data: object, num_tasks: int) -> pa.Array:
        """The task for each row of a changelog: all changes of a key go to one task.

        It is the remainder of a hash that is stable across releases and that Spark has too: in Spark,
        ``pmod(xxhash64(key columns), num_tasks)``.

        Args:
            data: Rows with at least the key columns.
            num_tasks: The number of tasks.

        Returns:
            For each row, the number of its task, from 0: ``int64``.

        Raises:
            InvalidInputError: The sink has no keys, rows lack one, or a key is a decimal with more than 18 digits.
        """
        num_tasks = whole_number("num_tasks", num_tasks, at_least=1)
        if self._changelog is None:
            raise InvalidInputError('only a sink with keys can partition by key: Sink(..., mode="upsert", keys=[...])')
        with TxlogError.located(self._open_table.uri):
            schema = self._open_table.log.newest_state(refresh=False).schema
            return self._changelog.task_of_rows(data, schema, num_tasks)

    def stage(self, *committables: Committable) -> None:
        """Store committables in the table's ``_txlog/staging`` folder; durable when this returns.

        Staging the same committable again does nothing.

        Args:
            committables: One `Committable`, or several.

        Raises:
            InvalidInputError: This attempt of the task already staged other files, or the committable belongs to
                another application.
            StorageError: The store failed; stage again.
        """
        for each in require_committables(committables, self._open_table.uri):
            if each.app_id != self._app_id or each.checkpoint_id is None:
                raise InvalidInputError(
                    f"this committable belongs to application {each.app_id!r}, the sink to {self._app_id!r}",
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

        Sealing the same again does nothing.

        Args:
            checkpoint_id: The checkpoint.
            tasks: The expected task_ids, each of which must have staged; or a mapping from task_id to attempt, needed
                if several attempts of a task staged. Committables in place of ids are staged first.
            fingerprint: Identifies the input, such as the source's offsets. It is stored in the seal and the commit,
                and a later seal or replay must have the same one. For a replay after the commit was cleaned up, which
                nothing can check any longer, leave it out.

        Returns:
            The seal; None if the checkpoint is already in the table.

        Raises:
            InvalidInputError: Tasks did not stage, or staged several times (the message names them), or the checkpoint
                is already sealed differently.
            StorageError: The store failed; seal again.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        job = self._commits.job(checkpoint_id, fingerprint)
        if self._commits.committer.replay_of(job, quietly=True, refresh=False) is not None:
            return None
        try:
            return self._seal(*self._sealable(job, tasks))
        except (InvalidInputError, NotFoundError):  # another committer may have committed and removed it meanwhile
            if self._commits.committer.replay_of(job, quietly=True) is not None:
                return None
            raise

    def commit(
        self,
        checkpoint_id: int,
        committables: Sequence[Committable] | None = None,
        *,
        fingerprint: str | None = None,
    ) -> WriteResult:
        """Commit all tasks of one checkpoint as one version, and remove its staging. A replay commits nothing.

        A checkpoint is committed in the mode (append or overwrite) that it was sealed in, whatever this sink's mode is.

        Args:
            checkpoint_id: The checkpoint.
            committables: What to commit, staged or not; None means what `prepare` sealed.
            fingerprint: As for `prepare`; not needed after it.

        Returns:
            A result whose ``outcome`` is "committed", "already_committed", or "empty" for a checkpoint without rows,
            which makes no version.

        Raises:
            InvalidInputError: The checkpoint is not sealed; an earlier one is sealed but not committed; committables
                belong to another checkpoint, application or table; files are so old that a vacuum may delete them; or
                this sink has committed other work under this checkpoint_id.
            MetadataChangedError: A column in the files has changed since: write the checkpoint again.
            NotFoundError: A file is missing, since a vacuum deletes files that no commit names: write the checkpoint
                again.

        After any error a sealed checkpoint stays sealed.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        if committables is not None:
            committables = require_committables(committables, self._open_table.uri)
        return self._commits.commit(checkpoint_id, committables, fingerprint)

    # --- after a crash ------------------------------------------------------------------------------------------

    def recover(self) -> Recovery:
        """Commit the sealed checkpoints by ascending checkpoint_id, and report the partial ones.

        Call it when the application starts, before `last_checkpoint_id` shows where to continue. Each checkpoint is
        committed exactly once, however many processes recover. Each file must exist in full size and be younger than
        half of the table's ``delta.deletedFileRetentionDuration``. Staged checkpoints that were not sealed are
        reported, and stay until the application is past them.

        Returns:
            What was committed, and what is partial.

        Raises:
            TxlogError: What `commit` raises, at the first checkpoint that cannot be committed; the error's ``recovery``
                says what was done before. Later checkpoints wait. Nothing is dropped: fix the cause, or `discard` that
                checkpoint and write it again.
        """
        results: dict[int, WriteResult] = {}
        try:
            staged = self._staging.checkpoints(self._app_id)
            unsealed = [each for each in staged if not each.is_sealed]
            for each in (each for each in staged if each.is_sealed):
                if result := self._commit_sealed(each, staged):
                    results[each.checkpoint_id] = result
                    self._staging.remove_quietly(each.names)
                elif self._staging.is_given_up(each):
                    unsealed.append(replace(each, is_sealed=False, is_void=True))
            past = stale(unsealed, self.last_checkpoint_id())
        except TxlogError as error:
            error.recovery = Recovery(results)
            raise
        for each in past:
            self._staging.remove_quietly(each.names)
        unsealed.sort(key=lambda each: each.checkpoint_id)
        left = (each for each in unsealed if each.has_work and each not in past)
        recovery = Recovery(results, {each.checkpoint_id: each.attempts for each in left})
        self._seen_partial = set(recovery.partial)
        logger.info("%s: %r: %s", self._open_table.uri, self._app_id, recovery)
        return recovery

    def discard(self, checkpoint_id: int) -> bool:
        """Give up the staging of a checkpoint, sealed or not.

        What `recover` reported as partial is discarded only while it is partial: if another process has sealed it
        since, the seal stays, and a warning says so. Discard it once more if it must not be committed.

        Write its rows again before a later checkpoint is committed, since afterwards no earlier one is accepted; a
        warning names a later checkpoint that is already sealed. A running commit of this checkpoint may still succeed.
        The data files become orphans, which a vacuum removes.

        Args:
            checkpoint_id: The checkpoint.

        Returns:
            False if nothing was discarded.

        Raises:
            InvalidInputError: A `SinkGroup` sealed the checkpoint.
            StorageError: The store failed.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        found = self._staging.checkpoints(self._app_id)
        staged = next((each for each in found if each.checkpoint_id == checkpoint_id and each.has_work), None)
        is_partial = checkpoint_id in self._seen_partial
        self._seen_partial.discard(checkpoint_id)
        if staged is None:
            return False
        takes_seal = staged.is_sealed and not is_partial
        if takes_seal:
            self._require_alone(staged)
        if not self._staging.give_up(staged, sealed_too=takes_seal):
            tell_sealed_meanwhile(self._open_table.uri, self._app_id, checkpoint_id)
            return False
        what = "sealed" if staged.is_sealed else "not sealed"
        sealed = [each.checkpoint_id for each in found if each.is_sealed]
        if later := [str(each) for each in sealed if each > checkpoint_id]:
            what += f"; {', '.join(later)} is already sealed: once it is committed, {checkpoint_id} will be refused"
        logger.warning("%s: checkpoint %d of %r discarded, %s", self._open_table.uri, checkpoint_id, self._app_id, what)
        return True

    def abandon(self, checkpoint_id: int) -> Abandoned:
        """Give up a checkpoint for good, so that the stream continues after it: its rows never reach the table.

        Commits only the application's record of the checkpoint, as a separate version (``ABANDON CHECKPOINT`` in
        history), and removes its staging. The application continues after it: a replay of the checkpoint is dropped,
        and a recovery finds it in the table. Use it for a checkpoint whose commit keeps failing because of the table or
        its rows; if it can be written again, `discard` it instead.

        Args:
            checkpoint_id: The checkpoint, sealed, partly staged or not staged; earlier sealed ones come first.

        Returns:
            What was given up: rows and files, which stay readable until a vacuum. If another process has committed the
            checkpoint, nothing is given up, and ``result`` is "already_committed".

        Raises:
            InvalidInputError: An earlier checkpoint is sealed but not committed, or the application is past this one.
            StorageError: The store failed; call again.
        """
        checkpoint_id = whole_number("checkpoint_id", checkpoint_id)
        return self._open_table.run(
            abandonment(self._open_table, self._commits, self._app_id, checkpoint_id, self._user_metadata)
        )

    def committed(self, checkpoint: int | str) -> WriteResult | None:
        """Whether a checkpoint is in the table, asked before its rows are made. Costs one look for a newer version.

        Args:
            checkpoint: A checkpoint_id, or the key of a job (see `once`).

        Returns:
            None if the checkpoint is not in the table. Otherwise a result whose ``outcome`` is "already_committed", and
            whose ``version`` is None if its commit is no longer retained.

        Raises:
            InvalidInputError: The argument is invalid, or the application is past this checkpoint and no retained
                commit has it.
            TxlogError: The log cannot be read.
        """
        if isinstance(checkpoint, str):
            return self.for_key(checkpoint).committed(0)
        checkpoint_id = whole_number("checkpoint_id", checkpoint)
        state = self._open_table.log.newest_state()
        found = self._open_table.replay_of(state, self._app_id, checkpoint_id, quietly=True)
        return None if found is None else WriteResult(found.version, "already_committed", 0, "")

    def sealed(self) -> dict[int, tuple[str, ...]]:
        """The sealed checkpoints that wait for their commit, and the ids of the tables that each was sealed for.

        A `SinkGroup` of exactly these tables ends a checkpoint; the sink ends one of this table alone. Ask before
        `recover` if the tables of a stream come and go.

        Returns:
            The ids of the tables (see `Table.table_id`), sorted, by ascending checkpoint_id.

        Raises:
            TxlogError: The staging or the log cannot be read.
        """
        own = (self._open_table.log.newest_state(refresh=False).metadata.id,)
        found: dict[int, tuple[str, ...]] = {}
        for staged in self._staging.checkpoints(self._app_id):
            if staged.is_sealed:
                with contextlib.suppress(NotFoundError):  # committed meanwhile, by another process
                    found[staged.checkpoint_id] = self._staging.manifest(staged).together or own
        return found

    def last_checkpoint_id(self) -> int | None:
        """This application's last checkpoint in the table, read from its newest version.

        Returns:
            The checkpoint's id; None before the first.

        Raises:
            TxlogError: The log cannot be read.
        """
        return self._open_table.log.newest_state().transaction_version(self._app_id)

    # --- helpers ------------------------------------------------------------------------------------------------

    def _sealable(
        self,
        job: WriteJob,
        tasks: Iterable[int] | Mapping[int, int] | Sequence[Committable],
        together: tuple[str, ...] = (),
    ) -> tuple[Manifest, list[Committable], int]:
        """The seal that a checkpoint gets, checked and not written; its committables; and its round."""
        assert job.commit.checkpoint_id is not None
        checkpoint_id = job.commit.checkpoint_id
        wanted = self._expected(tasks)
        staged = self._staged(checkpoint_id)
        in_round = self._commits.open_round(checkpoint_id, staged)
        with TxlogError.located(self._open_table.uri):
            attempts = attempts_to_seal(staged, wanted)
        found = self._staging.tasks(staged, attempts) if staged else []
        committables = [committable for _, committable in found]
        self._commits.committer.validate(job, committables)
        self._commits.committer.check_keys(job, committables)
        self._commits.committer.make_bases_durable(job, committables)
        sealed = tuple(task for task, _ in found)
        identity = self._app_id, checkpoint_id, job.plan.table_id, job.intent, job.commit.fingerprint
        return Manifest(*identity, sealed, together), committables, in_round

    def _seal(self, ours: Manifest, committables: list[Committable], in_round: int) -> Manifest:
        sealed = self._staging.seal(ours, in_round)
        self._staging.check_sealed(sealed, in_round)
        if (difference := seal_difference(ours, sealed)) is not None:
            raise InvalidInputError(
                f"checkpoint {ours.checkpoint_id} of {self._app_id!r} is already sealed, {difference}. Only what is"
                f" sealed can be committed: sink.commit({ours.checkpoint_id}) does,"
                f" sink.discard({ours.checkpoint_id}) gives it up",
                table=self._open_table.uri,
            )
        self._commits.last_seal = (sealed, committables)
        return sealed

    def _expected(self, tasks: Iterable[int] | Mapping[int, int] | Sequence[Committable]) -> Any:
        """The task_ids, or attempts by task_id. Committables are staged first."""
        if isinstance(tasks, Mapping):
            return tasks
        wanted = listed_tasks(tasks, self._open_table.uri)
        if not any(isinstance(each, Committable) for each in wanted):
            return wanted
        committables = require_committables(wanted, self._open_table.uri)
        attempts = {each.task_id: each.attempt for each in committables}
        if len(attempts) < len(wanted):
            raise InvalidInputError("prepare takes one committable per task", table=self._open_table.uri)
        self.stage(*committables)
        return attempts

    def _require_alone(self, staged: StagedCheckpoint) -> None:
        try:
            manifest = self._staging.manifest(staged)
        except (InvalidInputError, NotFoundError):
            return  # a seal that is gone or cannot be read
        self._commits.require_together(manifest, ())

    def _commit_sealed(self, sealed: StagedCheckpoint, staged: Sequence[StagedCheckpoint]) -> WriteResult | None:
        """As `CheckpointCommits.commit_sealed`; an error that a rerun would meet again says how to end it."""
        try:
            return self._commits.commit_sealed(sealed, staged)
        except (InvalidInputError, MetadataChangedError, NotFoundError) as error:
            checkpoint_id = sealed.checkpoint_id
            error.template = error.template.rstrip(".") + (
                f". Checkpoint {checkpoint_id} of {self._app_id!r} stays sealed: fix this and recover"
                f" again, or sink.discard({checkpoint_id}) and write it again;"
                f" sink.abandon({checkpoint_id}) continues without its rows"
            )
            raise

    def _staged(self, checkpoint_id: int) -> StagedCheckpoint | None:
        found = self._staging.checkpoints(self._app_id)
        return next((each for each in found if each.checkpoint_id == checkpoint_id), None)

    def __repr__(self) -> str:
        return f"Sink({self._open_table.uri}, app_id={self._app_id!r}, mode={self._mode!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "table": self._table,
            "app_id": self._app_id,
            "mode": self._mode,
            "user_metadata": self._user_metadata,
            "max_continuous_empty_commits": self._max_continuous_empty_commits,
            "row_mode": self._row_mode,
            "on_mismatch": self._on_mismatch,
            **({} if self._changelog is None else self._changelog.arguments()),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
