"""`GlobalCommitter`: commits the committables of a checkpoint exactly once, by a `WriteExecution`, which is a plan.

In: a `WriteJob` and its tasks' committables. Out: a ``WriteResult`` per checkpoint, in order of checkpoint_id. There
should be one committer per table and application. If there are two (a restarted job and its still running predecessor),
the ``txn`` action makes one of them fail cleanly.

Theory of operation. Before the commit, the application's last ``txn`` shows whether this checkpoint is already in the
table (``core/versions/decisions/exactly_once``). The commit has the same ``txn``, so the conflict check finds a second
committer that commits between our check and our put: equal work answers ``already_committed``, other work of the same
application is a ``ConcurrentTransactionError``. After a lost answer, the commit's ``txnId`` decides. This module never
deletes a file that a committable names: its commit may have landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.column_mapping import physical_path, physical_schema
from txlog.core.format.features import check_can_write
from txlog.core.format.schema import Struct
from txlog.core.operations._write_effects import OverwriteEffects, write_parameters
from txlog.core.operations._write_planning import on_newer_definition, with_existing_table
from txlog.core.util import logger
from txlog.core.versions import OpenTable, Steps, ToCommit
from txlog.core.versions.decisions.definition_changes import keeps_write_rules
from txlog.core.versions.decisions.joined_appends import holds
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles, WriteJob
from txlog.core.writing.committable import Committable, validate_committables
from txlog.errors import (
    ConflictError,
    ConflictReason,
    InvalidInputError,
    MetadataChangedError,
    NotFoundError,
    ProtocolChangedError,
    TableExistsError,
    TxlogError,
)
from txlog.result import WriteMetrics, WriteResult

if TYPE_CHECKING:
    from txlog.core.changes.plan import ChangeFiles
    from txlog.core.definition import MergesRowChanges
    from txlog.core.operations._replaced_files import RegionReplacement

_DEFINITIONS_MAX = 100
"""How many changes of the definition by others an append follows."""


class GlobalCommitter:
    """Commits what tasks sealed. Thread-safe; keeps no state between checkpoints."""

    def __init__(self, open_table: OpenTable) -> None:
        self._open_table = open_table

    def replay_of(self, job: WriteJob, *, quietly: bool = False, refresh: bool = True) -> WriteResult | None:
        """The answer for a checkpoint that is already in the table, so none of its rows are written again.

        Without ``refresh``, the caller has just planned the job. ``quietly`` and what it raises are as in
        `OpenTable.replay_of`.
        """
        state = None if job.commit.app_id is None else self._open_table.state_if_exists(refresh=refresh)
        return None if state is None else self._replay(job, state, quietly=quietly)

    def found(self, job: WriteJob) -> WriteResult | None:
        """The commit of a job that an engine may commit twice, although it is not a checkpoint of an application.

        It is among the versions after the one that the job was planned on, with the job's id.
        """
        state = self._open_table.state_if_exists()
        if state is None or job.commit.transaction is not None:
            return None
        since = 0 if job.creates_table else job.read_version + 1
        for commit in self._open_table.log.commits.read_range(since, state.version, files=False):
            if holds(commit, job.job_id):
                return WriteResult(commit.version, "already_committed", 0, job.job_id)
        return None

    def commit(
        self, job: WriteJob, committables: Sequence[Committable], unsent: UnsentFiles | None = None
    ) -> WriteResult:
        """One commit for one checkpoint. There is one committable per task; none mean a checkpoint without rows.

        An append is committed again on each definition that others make meanwhile, if its files fit there.

        ``unsent`` is notified when something is sent; None if another process may commit the files too, which are then
        never deleted.

        Raises ``InvalidInputError`` for committables that do not belong together or to this table, ``ConflictError``
        if a concurrent commit makes this one invalid (nothing landed), and what ``OpenTable.commit`` raises.
        """
        self.validate(job, committables)
        return self._open_table.run(self.steps(job, committables, unsent))

    def steps(
        self, job: WriteJob, committables: Sequence[Committable], unsent: UnsentFiles | None = None
    ) -> Steps[WriteResult]:
        """As `commit`, for committables that the caller has made or validated."""
        if job.creates_table:
            return (yield from self._create(job, committables, unsent))
        state = self._planning_state(job)
        replayed = self._replay(job, state)
        if replayed is not None:
            return replayed
        self._require_not_void(job, state)
        if job.intent.kind == "upsert":
            return (yield from self._row_changes().staged_steps(self._open_table, state, job, committables))
        written_for = job.read_version
        for _ in range(_DEFINITIONS_MAX):
            try:
                return (yield from self._propose(job, state, committables, unsent, written_for))
            except (MetadataChangedError, ProtocolChangedError):
                state = self._open_table.writable_state()
                moved = on_newer_definition(job, state)
                if moved is None:
                    raise
                replayed = self._replay(moved, state)
                if replayed is not None:
                    return replayed
                logger.info("%s: appended on the definition that another writer changed", self._open_table.uri)
                job = moved
        return (yield from self._propose(job, state, committables, unsent, written_for))

    def validate(self, job: WriteJob, committables: Sequence[Committable], since_ms: int | None = None) -> None:
        """Check that the committables belong to this job; with ``since_ms``, also look up every file.

        Raises what `validate_committables` raises.
        """
        validate_committables(
            committables,
            partition_fields=job.plan.physical_partition_fields,
            intent=job.intent,
            table=self._open_table.uri,
            table_id=job.plan.table_id,
            app_id=job.commit.app_id,
            checkpoint_id=job.commit.checkpoint_id,
            files=None if since_ms is None else self._open_table.store.files,
            since_ms=since_ms,
        )

    def check_keys(self, job: WriteJob, committables: Sequence[Committable]) -> None:
        """Before a seal: check that no two tasks of an upsert changed one row in unknown order.

        Raises ``InvalidInputError`` naming the tasks and the key.
        """
        if job.intent.kind == "upsert":
            self._row_changes().check_staged(self._open_table, job, committables)

    def _row_changes(self) -> MergesRowChanges:
        from txlog.core.definition import row_changes

        with TxlogError.located(self._open_table.uri):
            return row_changes("a checkpoint of row changes")

    def remove_keys(self, committables: Sequence[Committable]) -> None:
        """Delete the key files of committed checkpoints. Never raises: a vacuum removes files that stay."""
        for file in (file for each in committables for file in each.keys):
            try:
                self._open_table.store.files.delete(file.path)
            except TxlogError as error:
                logger.debug("%s stays behind as an orphan: %s", file.path, error)

    def require_readable(self, job: WriteJob, committables: Sequence[Committable]) -> None:
        """Check that the schema still fits files that may have been written long ago.

        Raises ``MetadataChangedError`` if a column of the files would now be read differently, or a key's name now
        belongs to another column; ``InvalidInputError`` if the files were written for a version lost in a power cut.
        """
        from txlog.core.format.schema_merge import reads

        for version in self._bases(job, committables) - {job.read_version}:
            try:
                then = self._open_table.log.state_at(version)
            except NotFoundError:
                detail = f"and v{version}, which the files were written for, can no longer be read"
            else:
                name = _name_of_another_column(job, then.schema)
                if name is not None:
                    detail = f"gave the name {name} to another column than it had at v{version}, when the files were"
                    detail += " written"
                elif (rule := _new_rule(job, then)) is not None:
                    detail = f"added the {rule}, which the rows written at v{version} were not checked for"
                elif reads(physical_schema(job.plan.schema), physical_schema(then.schema)):
                    continue
                else:
                    detail = f"changed the schema that the files were written for at v{version}"
            reason = ConflictReason("MetadataChangedError", job.read_version, "or an earlier commit", detail)
            from txlog.core.versions import WRITE_AGAIN, raise_conflict

            raise_conflict((reason,), self._open_table.uri, WRITE_AGAIN)

    def make_bases_durable(self, job: WriteJob, committables: Sequence[Committable]) -> None:
        """A seal must survive a power cut, so the versions that its files were written for must too: a version that a
        task saw before it was on disk could be lost.

        Raises ``InvalidInputError`` if that has happened, ``StorageError``.
        """
        for version in self._bases(job, committables):
            try:
                self._open_table.make_version_durable(version)
            except NotFoundError:
                continue  # cleaned up: later versions are on disk

    def _bases(self, job: WriteJob, committables: Sequence[Committable]) -> set[int]:
        """The versions that the files were written for; none may be newer than the table."""
        versions = {each.read_version for each in committables}
        newest = max(versions, default=-1)
        if newest > job.read_version:
            raise InvalidInputError(
                f"the table is at v{job.read_version}, and the files were written for v{newest}: that was visible and"
                " not yet on disk when the power failed. Nothing landed; write the checkpoint again",
                table=self._open_table.uri,
                version=job.read_version,
            )
        return versions

    # --- on which version ---------------------------------------------------------------------------------------

    def _planning_state(self, job: WriteJob) -> TableState:
        """The version that the proposal is checked against.

        An append depends only on the table's definition, and an upsert is executed on the version before its commit:
        for both, the newest version with the same definition will do. An overwrite depends on what it replaces, and a
        write whose rows come from the table on these, so it stays on the version it was planned on.
        """
        # The committer checks what landed since the planning; listing the log again would cost a request.
        state = self._open_table.log.newest_state(refresh=False)
        if job.base_metadata is not None and state.metadata.id != job.base_metadata.id:
            raise_conflict_since(
                self._open_table,
                "MetadataChangedError",
                state,
                "is another table: this one was dropped and created again",
            )
        if state.version == job.read_version:
            return state
        depends_on_rows = job.intent.kind not in ("append", "upsert") or job.commit.reads_table
        if not depends_on_rows and job.new_metadata is None:
            self._require_same_definition(job, state)
            return state
        try:
            return self._open_table.log.state_at(job.read_version)
        except NotFoundError:
            raise_conflict_since(
                self._open_table,
                "ConcurrentDeleteReadError",
                state,
                f"and v{job.read_version}, which was read, is cleaned up",
            )

    def _require_same_definition(self, job: WriteJob, state: TableState) -> None:
        if state.protocol != job.base_protocol:
            raise_conflict_since(self._open_table, "ProtocolChangedError", state, "changed the table's protocol")
        if job.base_metadata is None or not keeps_write_rules(job.base_metadata, state.metadata):
            raise_conflict_since(
                self._open_table,
                "MetadataChangedError",
                state,
                "changed the table's schema, partitioning or properties",
            )

    def _require_not_void(self, job: WriteJob, state: TableState) -> None:
        app_id, number = job.commit.void_from or ("", 0)
        reached = state.transaction_version(app_id) if app_id else None
        if reached is not None and reached >= number:
            raise_conflict_since(
                self._open_table, "ConcurrentTransactionError", state, "says that this checkpoint was given up"
            )

    def _replay(self, job: WriteJob, state: TableState, *, quietly: bool = False) -> WriteResult | None:
        if job.commit.transaction is None:
            return None
        found = self._open_table.replay_of(state, *job.commit.transaction, job.commit.fingerprint, quietly=quietly)
        return WriteResult(found.version, "already_committed", 0, job.job_id) if found else None

    # --- the commit ---------------------------------------------------------------------------------------------

    def _create(
        self, job: WriteJob, committables: Sequence[Committable], unsent: UnsentFiles | None
    ) -> Steps[WriteResult]:
        """Create the table with its first rows. If a concurrent writer created the same table, write to that one."""
        try:
            if not self._open_table.log.exists():
                return (yield from self._propose(job, None, committables, unsent))
        except (ProtocolChangedError, MetadataChangedError):
            pass
        state = self._open_table.log.reload()
        if job.must_create:
            raise TableExistsError("a concurrent writer created the table first", table=self._open_table.uri, version=0)
        check_can_write(state.protocol, state.metadata)
        turned = with_existing_table(job, state)
        if turned is None:
            raise_conflict_since(
                self._open_table,
                "ProtocolChangedError",
                state,
                "created another table here, which these files do not fit",
            )
        return self._replay(turned, state) or (yield from self._propose(turned, state, committables, unsent))

    def _propose(
        self,
        job: WriteJob,
        state: TableState | None,
        committables: Sequence[Committable],
        unsent: UnsentFiles | None,
        written_for: int | None = None,
    ) -> Steps[WriteResult]:
        """Files made here, such as copies of rows, are deleted if nothing is sent. The committables were written for
        the version ``written_for``; None: for the job's."""
        known_version = job.read_version if written_for is None else written_for
        owned = UnsentFiles(self._open_table.store.files, known_version) if unsent is None else nullcontext(unsent)
        with owned as owner:
            plan = WriteExecution(self._open_table, job, committables, owner)
            if job.is_reexecuted and state is not None:
                result = yield from self._open_table.plan_steps(plan, state, unsent=owner, is_empty_too=True)
            else:
                proposal = plan.execute(state)
                result = yield ToCommit(proposal, state, plan.metrics, unsent=owner)
        plan.warn_of_dead_rows(result.version)
        if not job.notes or result.outcome != "committed":
            return result
        for note in job.notes:
            logger.warning("%s: v%s: %s", self._open_table.uri, result.version, note)
        return replace(result, notes=(*result.notes, *job.notes))


def _new_rule(job: WriteJob, then: TableState) -> str | None:
    """A constraint, generated column or text length that the table did not have in the version ``then``; None if there
    is none."""
    lengths = {}
    if job.plan.text_limits:
        from txlog.core.row_rules import limits_of

        lengths = {limit.name: limit.length for limit in limits_of(then.schema)}
    for limit in job.plan.text_limits:
        before_length = lengths.get(limit.name)
        if before_length is None or before_length > limit.length:
            return f"length of column {limit.name} ({limit.sql})"
    rules = [*job.plan.constraints]
    if job.plan.computed is not None:
        rules += [each.rule for each in job.plan.computed.generated if each.rule is not None]
    if not rules:
        return None
    from txlog.core.row_rules import stored_constraints, stored_generated

    before = stored_constraints(then.metadata.configuration, then.schema)
    before |= {f"generated column {name}": sql for name, sql in stored_generated(then.schema).items()}
    return next((each.name for each in rules if before.get(each.name) != each.sql), None)


def _name_of_another_column(job: WriteJob, then: Struct) -> str | None:
    """An upsert key whose name belonged to another column in the schema ``then``; None if there is none."""
    from txlog.core.row_rules import key_columns

    for key in key_columns(job.intent.keys, job.plan.schema) if job.intent.kind == "upsert" else ():
        try:
            is_same = physical_path(then, key.path) == physical_path(job.plan.schema, key.path)
        except KeyError:
            is_same = False
        if not is_same:
            return key.name
    return None


# --- the write as a plan -------------------------------------------------------------------------------------------


_CLOSE_S = 0.005  # fixed time of every execution


class WriteExecution:
    """A `Plan`. ``owner`` deletes the files made here, such as copies of rows, if nothing is sent."""

    def __init__(
        self, open_table: OpenTable, job: WriteJob, committables: Sequence[Committable], owner: UnsentFiles
    ) -> None:
        self._open_table = open_table
        self._job = job
        self._files = [file for committable in committables for file in committable.files]
        self._owner = owner
        self._txn_id = ambient.uuid4() if job.commit.transaction else job.job_id
        self._change_files: ChangeFiles | None = None
        self._region: RegionReplacement | None = None
        self._replaced = OverwriteEffects()
        self.metrics = WriteMetrics()

    def remaining_work_s(self, state: TableState) -> float:
        region_s = 0.0 if self._region is None else self._region.remaining_work_s(state)
        return _CLOSE_S + region_s + (0.0 if self._change_files is None else self._change_files.seconds)

    def warn_of_dead_rows(self, version: int | None) -> None:
        """After the commit: warn about files that are now mostly dead rows."""
        if self._replaced.dead_fractions:
            from txlog.core.changes.plan import warn_of_dead_rows

            warn_of_dead_rows(self._open_table, version, self._replaced.dead_fractions)

    def execute(self, state: TableState | None) -> Proposal:
        job = self._job
        builder = ProposalBuilder(state)
        if state is not None and job.is_reexecuted and job.new_metadata is not None and job.base_metadata is not None:
            from txlog.core.definition import require_definition

            require_definition(self._open_table, state, job.base_metadata)
        builder.define(job.new_metadata, job.new_protocol)
        for domain in job.new_domains:
            builder.set_domain(domain)
        if job.commit.transaction is not None:
            builder.set_transaction(*job.commit.transaction)
        if job.commit.void_from is not None:
            builder.read_application(job.commit.void_from[0])
        if self._change_files is not None:
            self._change_files.begin()
        self._replaced = self._replace(builder, state)
        builder.add(*[file.to_add() for file in self._files])
        self.metrics = self._replaced.metrics(self._files)
        if self._change_files is not None:
            self.metrics = replace(self.metrics, change_files=self._change_files.finish(builder))
        is_reexecutable = state is not None and job.is_reexecuted
        if is_reexecutable:
            builder.read_table()
        asked = Isolation.SERIALIZABLE if is_reexecutable else job.commit.isolation
        isolation = self._open_table.isolation(state, asked)
        if job.commit.reads_table:
            builder.read_source(isolation)
        return builder.build(
            OperationInfo(
                "WRITE",
                write_parameters(job),
                metrics=self._replaced.operation_metrics(job.intent, self.metrics),
                user_metadata=job.commit.user_metadata,
                fingerprint=job.commit.fingerprint,
            ),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=isolation,
            is_reexecutable=is_reexecutable,
            replaces_partitions=is_reexecutable and job.intent.kind == "overwrite_partitions",
        )

    def _replace(self, builder: ProposalBuilder, state: TableState | None) -> OverwriteEffects:
        job = self._job
        if state is None or job.intent.is_append:
            return OverwriteEffects()
        if self._region is None:
            from txlog.core.changes.plan import ChangeFiles
            from txlog.core.operations._replaced_files import RegionReplacement

            self._change_files = ChangeFiles.of(self._open_table, state, self._owner, job.new_metadata)
            self._region = RegionReplacement(self._open_table, state, job, self._owner, self._change_files)
        return self._region.replace(builder, state, self._files)


def raise_conflict_since(open_table: OpenTable, rule: str, state: TableState, detail: str) -> NoReturn:
    """Raise the conflict of ``rule`` with some commit up to ``state``, after calling the hooks."""
    from txlog.core.versions import raise_conflict

    reason = ConflictReason(rule, state.version, "or an earlier commit", detail)
    try:
        raise_conflict((reason,), open_table.uri)
    except ConflictError as error:
        open_table.report_conflict(error)
        raise
