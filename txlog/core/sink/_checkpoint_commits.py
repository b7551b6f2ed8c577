"""Commits one application's checkpoints: which ones, and in which order.

In: staged objects, seals, and committables from the caller. Out: a ``WriteResult`` for each checkpoint, or an error;
then the checkpoint stays sealed. ``_recovery`` decides whether a seal is valid; ``_global_committer`` commits.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.operations import GlobalCommitter, WriteOptions, plan_write
from txlog.core.sink._recovery import files_must_be_since_ms, sealed_before, stale
from txlog.core.sink._staging import Manifest, StagedCheckpoint, Staging
from txlog.core.versions import OpenTable, Steps
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import WriteJob
from txlog.core.writing.commit_options import CommitOptions
from txlog.core.writing.committable import Committable
from txlog.core.writing.write_intent import USUAL, MismatchPolicy, RowMode, WriteIntent
from txlog.errors import ConcurrentDeleteReadError, ConcurrentTransactionError, InvalidInputError, NotFoundError
from txlog.result import WriteResult

VOID = "txlog-given-up/"
"""How the names begin under which a log says which checkpoints of groups were given up."""

FRESH_MS = 60 * 60 * 1000
"""Files younger than an hour may always be committed, however short the table's retention is."""


class CheckpointGivenUp(Exception):
    """A table's log says that the checkpoint of a group was given up. Only for its `SinkGroup`."""


class CheckpointCommits:
    """Commits one application's checkpoints; for one thread. ``last_seal`` is what this process sealed last."""

    def __init__(
        self,
        open_table: OpenTable,
        app_id: str,
        *,
        mode: str,
        user_metadata: str | None,
        max_continuous_empty_commits: int,
        keys: tuple[str, ...] = (),
        row_mode: RowMode | None = None,
        mismatch: MismatchPolicy = USUAL,
    ) -> None:
        self.staging = Staging(open_table.store, open_table.retry)
        self.committer = GlobalCommitter(open_table)
        self.last_seal: tuple[Manifest, list[Committable]] | None = None
        self._open_table = open_table
        self._app_id = app_id
        self._mode = mode
        self._keys = keys
        self._row_mode = row_mode
        self._mismatch = mismatch
        self._user_metadata = user_metadata
        self._max_continuous_empty_commits = max_continuous_empty_commits
        self._empty_in_a_row = 0
        self._written: tuple[int, frozenset[str]] | None = None

    def job(
        self,
        checkpoint_id: int,
        fingerprint: str | None = None,
        intent: WriteIntent | None = None,
        state: TableState | None = None,
    ) -> WriteJob:
        """A checkpoint's plan for ``state``, by default the newest. ``intent`` None means the sink's own."""
        from txlog.core.format.identity import without_counted
        from txlog.core.format.schema import to_arrow

        state = state or self._open_table.log.newest_state()
        self._open_table.check_writable(state)
        mode = _mode_of(intent) if intent else self._mode
        options = WriteOptions(
            mode=mode,
            where=intent.where if intent else None,
            keys=intent.keys if intent else self._keys,
            row_mode=self._row_mode if mode == "upsert" else None,
            commit=CommitOptions(self._app_id, checkpoint_id, fingerprint, self._user_metadata),
        )
        schema = state.derived("rows of a sink", lambda: to_arrow(without_counted(state.schema)))
        planned = plan_write(self._open_table, schema, options, state)
        return replace(planned, mismatch=self._mismatch)

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable] | None, fingerprint: str | None
    ) -> WriteResult:
        """Commit the sealed checkpoint, or otherwise ``committables``; then remove its staging and stale staging."""
        staged = self.staging.checkpoints(self._app_id)
        self.require_earlier_committed(staged, checkpoint_id)
        mine = [each for each in staged if each.checkpoint_id == checkpoint_id]
        if mine and mine[0].is_sealed:
            self._require_as_sealed(mine[0], committables, fingerprint)
            result = self.commit_sealed(mine[0], staged, FRESH_MS) or self._ended(checkpoint_id)
        else:
            result = self._commit_unsealed(self.job(checkpoint_id, fingerprint), committables, staged)
        past = stale(staged, None if result.outcome == "empty" else checkpoint_id)
        for each in (*mine, *(each for each in past if each not in mine)):
            self.staging.remove_quietly(each.names)
        return result

    def commit_sealed(
        self,
        mine: StagedCheckpoint,
        staged: Sequence[StagedCheckpoint],
        fresh_ms: int = 0,
        together: tuple[str, ...] = (),
    ) -> WriteResult | None:
        """Commit what ``mine`` sealed; ``staged`` is everything the application staged, and files from ``fresh_ms`` on
        are safe. ``together``: the tables of the caller's group.

        None if it is neither sealed any longer nor in the table: another process discarded it, or ended it without
        rows.
        """
        return self._open_table.run(self.sealed_steps(mine, staged, fresh_ms, together))

    def sealed_steps(
        self,
        mine: StagedCheckpoint,
        staged: Sequence[StagedCheckpoint],
        fresh_ms: int = 0,
        together: tuple[str, ...] = (),
    ) -> Steps[WriteResult | None]:
        """As `commit_sealed`."""
        try:
            manifest = self.staging.manifest(mine)
            self.require_together(manifest, together)
            # Asked before the job is planned: a table that has the checkpoint may have changed in any way since.
            state = self._open_table.log.newest_state()
            if together and self.is_void(mine, state):
                raise CheckpointGivenUp
            replayed = self._replay_of_sealed(state, manifest)
            if replayed is not None:
                return replayed
            job = self.job(mine.checkpoint_id, manifest.fingerprint, manifest.intent, state)
            if together:
                job = replace(
                    job, commit=replace(job.commit, void_from=(void_of(self._app_id, mine.checkpoint_id), mine.round))
                )
            if self.last_seal is not None and self.last_seal[0] == manifest:
                committables = self.last_seal[1]
            elif not manifest.is_empty:
                committables = self.staging.committables(mine, manifest)
            else:
                committables = []  # may be left from an interrupted removal
        except NotFoundError:  # another committer may have committed and removed it meanwhile
            replayed = self._replay_of(self._open_table.log.newest_state(), mine.checkpoint_id)
            if replayed is None and self.staging.is_sealed(mine):
                raise
            return replayed
        try:
            return (yield from self._job_steps(job, committables, self._since_ms(staged, fresh_ms)))
        except ConcurrentTransactionError:
            if together and self.is_void(mine, self._open_table.log.newest_state()):
                raise CheckpointGivenUp from None
            raise
        except ConcurrentDeleteReadError as error:
            if any(each.winner_operation != "VACUUM START" for each in error.reasons):
                raise
            return (
                yield from self.sealed_steps(mine, staged, 0, together)
            )  # txlog's vacuums keep what is sealed: look at it all

    def is_void(self, mine: StagedCheckpoint, state: TableState) -> bool:
        """Whether the table's log says that this round of a group's checkpoint was given up: then it never lands."""
        given_up = state.transaction_version(void_of(self._app_id, mine.checkpoint_id))
        return given_up is not None and given_up >= mine.round

    # --- the steps of a commit ----------------------------------------------------------------------------------

    def require_together(self, manifest: Manifest, together: tuple[str, ...]) -> None:
        """Raise unless a checkpoint was sealed for just these tables: otherwise some would never get their rows."""
        if manifest.together != together:
            sealed = f"together with the tables {', '.join(manifest.together)}" if manifest.together else "alone"
            how = "the SinkGroup of the same tables" if manifest.together else "its own Sink"
            raise InvalidInputError(
                f"checkpoint {manifest.checkpoint_id} of {manifest.app_id!r} was sealed {sealed} (table"
                f" {manifest.table_id}), so only {how} can end it: recover with that first",
                table=self._open_table.uri,
            )

    def require_earlier_committed(self, staged: Sequence[StagedCheckpoint], checkpoint_id: int) -> None:
        """Raise if an earlier checkpoint is sealed: once a later one is committed, it can no longer be committed."""
        for earlier in sealed_before(staged, checkpoint_id):
            try:
                manifest = self.staging.manifest(earlier)
                state = self._open_table.log.newest_state()
                found = self._replay_of_sealed(state, manifest)
                if manifest.together and self.is_void(earlier, state):
                    continue  # given up, and not removed yet
            except NotFoundError:
                continue  # another committer has removed it meanwhile
            except InvalidInputError as error:
                error.template += f". It is still staged: sink.discard({earlier.checkpoint_id}) gives it up"
                raise
            if found is None:
                raise InvalidInputError(
                    f"checkpoint {earlier.checkpoint_id} of {self._app_id!r} is sealed but not committed yet, so"
                    f" {checkpoint_id} has to wait: sink.commit({earlier.checkpoint_id}) first, or sink.recover(), or"
                    f" sink.abandon({earlier.checkpoint_id}) to give up its rows",
                    table=self._open_table.uri,
                )
            self.staging.remove_quietly(earlier.names)

    def _replay_of(
        self, state: TableState, checkpoint_id: int, fingerprint: str | None = None, *, is_sealed: bool = False
    ) -> WriteResult | None:
        found = self._open_table.replay_of(state, self._app_id, checkpoint_id, fingerprint, is_sealed=is_sealed)
        return None if found is None else WriteResult(found.version, "already_committed", 0, "")

    def _replay_of_sealed(self, state: TableState, manifest: Manifest) -> WriteResult | None:
        """As `_replay_of`. A checkpoint without rows leaves no record in the table: once the application is past it,
        its seal, which a suspended process may write late, is a replay."""
        try:
            return self._replay_of(state, manifest.checkpoint_id, manifest.fingerprint, is_sealed=True)
        except InvalidInputError:
            if not manifest.leaves_no_record:
                raise
            return WriteResult(state.version, "empty", 0, "")

    def open_round(self, checkpoint_id: int, staged: StagedCheckpoint | None) -> int:
        """The round in which a checkpoint may be sealed: none that was given up, here or in the table's log."""
        in_round = self.staging.open_round(self._app_id, staged)
        state = self._open_table.log.newest_state(refresh=False)
        given_up = state.transaction_version(void_of(self._app_id, checkpoint_id))
        if given_up is None or given_up < in_round:
            return in_round
        if staged is not None and staged.is_sealed:
            raise self.staging.removed(self._app_id, checkpoint_id)
        return given_up + 1

    def _require_as_sealed(
        self, mine: StagedCheckpoint, committables: Sequence[Committable] | None, fingerprint: str | None
    ) -> None:
        """Raise unless the caller's committables are the sealed ones: nothing else can be committed."""
        if committables is None and fingerprint is None:
            return
        try:
            sealed = self.staging.manifest(mine)
        except NotFoundError:
            return  # another committer has removed it meanwhile
        asked = None if committables is None else {each.task_id: each.attempt for each in committables}
        if asked not in (None, sealed.attempts) or fingerprint not in (None, sealed.fingerprint):
            raise InvalidInputError(
                f"checkpoint {mine.checkpoint_id} of {self._app_id!r} is sealed with attempts {sealed.attempts} and"
                f" fingerprint {sealed.fingerprint!r}, not with {asked or sealed.attempts} and {fingerprint!r}: only"
                f" what is sealed can be committed, with sink.commit({mine.checkpoint_id})",
                table=self._open_table.uri,
            )

    def _ended(self, checkpoint_id: int) -> WriteResult:
        """The result for a checkpoint whose seal was removed while this process was about to commit it."""
        sealed = self.last_seal[0] if self.last_seal else None
        if sealed and sealed.checkpoint_id == checkpoint_id and sealed.is_empty:
            return WriteResult(self._open_table.log.newest_state(refresh=False).version, "empty", 0, "")
        raise InvalidInputError(
            f"checkpoint {checkpoint_id} of {self._app_id!r} is no longer sealed: another process discarded it, or"
            f" ended it without rows. Nothing was committed; sink.discard({checkpoint_id}) before it is written again",
            table=self._open_table.uri,
        )

    def _commit_unsealed(
        self, job: WriteJob, committables: Sequence[Committable] | None, staged: Sequence[StagedCheckpoint]
    ) -> WriteResult:
        replayed = self.committer.replay_of(job, refresh=False)
        if replayed is not None:
            self._require_same_work(job, committables or ())
            return replayed
        if committables is None:
            raise InvalidInputError(
                f"checkpoint {job.commit.checkpoint_id} of {self._app_id!r} is not sealed:"
                f" call sink.prepare({job.commit.checkpoint_id}, tasks) once every task has staged",
                table=self._open_table.uri,
            )
        return self._open_table.run(self._job_steps(job, committables, self._since_ms(staged, FRESH_MS)))

    def _job_steps(self, job: WriteJob, committables: Sequence[Committable], since_ms: int) -> Steps[WriteResult]:
        try:
            return (yield from self._file_steps(job, committables, since_ms))
        except NotFoundError:  # another committer may have committed it and deleted its key files
            replayed = self.committer.replay_of(job)
            if replayed is None:
                raise
            return replayed

    def _file_steps(self, job: WriteJob, committables: Sequence[Committable], since_ms: int) -> Steps[WriteResult]:
        self.committer.validate(job, committables, since_ms)
        self.committer.require_readable(job, committables)
        paths = _paths(committables)
        is_empty = all(each.is_empty for each in committables)
        self._empty_in_a_row = self._empty_in_a_row + 1 if is_empty else 0
        if (
            is_empty
            and job.intent.kind in ("append", "upsert")
            and self._empty_in_a_row < self._max_continuous_empty_commits
        ):
            return WriteResult(job.read_version, "empty", 0, job.job_id)
        result = yield from self.committer.steps(job, committables)
        self._empty_in_a_row = 0
        if result.outcome == "committed" and job.commit.checkpoint_id is not None:
            self._written = (job.commit.checkpoint_id, paths)
        self.committer.remove_keys(committables)
        return result

    def _require_same_work(self, job: WriteJob, committables: Sequence[Committable]) -> None:
        """Raise if this sink already committed other work under the same checkpoint id."""
        paths = _paths(committables)
        if not paths or job.commit.fingerprint is not None or self._written is None:
            return
        if self._written[0] == job.commit.checkpoint_id and self._written[1] != paths:
            raise InvalidInputError(
                f"this sink has committed checkpoint {job.commit.checkpoint_id} of {self._app_id!r} already, from other"
                " files. Two writes to one table need an app_id each; to replay, use a new Sink or pass a"
                " fingerprint",
                table=self._open_table.uri,
            )

    def _since_ms(self, staged: Sequence[StagedCheckpoint], at_least_ms: int) -> int:
        properties = self._open_table.log.newest_state(refresh=False).properties
        return files_must_be_since_ms(properties, staged, ambient.now_ms(), at_least_ms=at_least_ms)


def void_of(app_id: str, checkpoint_id: int) -> str:
    """The application in a table's log whose number is the last round of a group's checkpoint that was given up."""
    return f"{VOID}{checkpoint_id}/{app_id}"


def _paths(committables: Sequence[Committable]) -> frozenset[str]:
    data = {file.path for each in committables for file in each.files}
    return frozenset(data | {file.path for each in committables for file in each.keys})


def _mode_of(intent: WriteIntent) -> str:
    return "overwrite" if intent.kind == "overwrite_where" else intent.kind
