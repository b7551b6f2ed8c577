"""Publishes a branch: one commit of its table, with everything that the branch did since it last published.

In: the open branch. Out: a ``WriteResult`` of the table. New files stay where they are, in the branch's folder, and the
table names them there. Of the table's own files, those that the branch removed are removed, and those in which it
deleted rows get a vector with these rows and with those that others deleted meanwhile. What the branch read, as far as
its commits tell, is judged against every commit of the table since the branch began, as in any other commit.

It lands once, however often it is repeated, and by whomever: the commit records the version of the branch as that of
an application, `app_id_of`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from msgspec.structs import replace
from pyroaring import BitMap64

from txlog.branch.base_files import is_followed
from txlog.branch.branch_work import BranchWork
from txlog.branch.domains import BranchDomains
from txlog.branch.ending import end
from txlog.branch.ending import keep as keep_open
from txlog.branch.known import app_id_of, is_closed, published_by, settled_branch
from txlog.branch.redefinition import obstacle
from txlog.branch.touched_rows import NEXT_STEP, UNKNOWN, TouchedRows, conflict
from txlog.branch.winners import Winners
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, Metadata, operation_parameters
from txlog.core.format.deletion_vector import vector_files
from txlog.core.format.features import merged
from txlog.core.format.file_columns import live_rows
from txlog.core.format.identity import identity_columns
from txlog.core.format.loaded_files import FEATURE as DOMAINS_FEATURE
from txlog.core.format.properties import BRANCH
from txlog.core.format.statistics_read import num_records
from txlog.core.format.wide_statistics import wide_statistics
from txlog.errors import ConflictError, ConflictReason, CorruptLogError, InvalidInputError, NotFoundError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import (
    ChangeFiles,
    Isolation,
    OperationInfo,
    Proposal,
    ProposalBuilder,
    UnsentFiles,
    ambient,
    is_same_definition,
    write_vectors,
)
from txlog.result import WriteMetrics, WriteResult

OPERATION = "PUBLISH BRANCH"
_MET_MAX = 5
_CLOSE_S = 0.005  # fixed time of every execution
_VECTOR_S = 0.002  # time to read or write a vector


def publish(open_table: OpenTable, *, keep: bool = False, user_metadata: str | None = None) -> WriteResult:
    """Publish the branch, and end it unless it is to be kept. Raises what `Table.publish` raises."""
    if keep:
        keep_open(open_table)
    table, state, origin = settled_branch(open_table)
    ended = origin.ended_at == state.version
    if ended:  # the last version only says that it ended
        state = open_table.log.state_at(state.version - 1)
    for met in range(_MET_MAX + 1):
        work = BranchWork(table, table.writable_state(), open_table, state, origin)
        try:
            done = _published_now(work, user_metadata)
            break
        except ConflictError as error:
            if met == _MET_MAX or not all(map(_is_judged_again, error.reasons)):
                raise
    if keep or ended or _has_ended(work, done):
        return done
    note = f"others wrote to the branch after its version {state.version}, so it stays open: publish it again"
    return replace(done, notes=(*done.notes, note))


def _is_judged_again(reason: ConflictReason) -> bool:
    """Whether a commit that came first may be no obstacle: a vacuum that began, or a change of the definition or of
    a metadata domain on which this publication has not been judged."""
    if reason.rule in ("MetadataChangedError", "ProtocolChangedError", "ConcurrentTransactionError"):
        return reason.winner_operation != UNKNOWN
    return reason.winner_operation == "VACUUM START"


def _has_ended(work: BranchWork, done: WriteResult) -> bool:
    """End the branch, unless its publication has done so; False if others wrote to it since."""
    forgets = work.newest.properties.set_transaction_retention_ms is not None
    if done.outcome == "empty" or work.origin.is_kept or forgets:
        return end(work.branch, work.state, work.origin, "END BRANCH") is not None
    if not is_followed(work.branch, work.state):
        return True
    with contextlib.suppress(NotFoundError, CorruptLogError):  # a vacuum of the table has deleted what was left of it
        newest = work.branch.log.newest_state()
        return newest.version == work.state.version or is_closed(newest)
    return True


def _published_now(work: BranchWork, user_metadata: str | None) -> WriteResult:
    table, newest, published = work.table, work.newest, work.published
    work.require_publishable()
    if published is not None and published >= work.state.version:
        return WriteResult(_version_of(work), "already_committed", 0, "")
    if work.is_empty and not (work.origin.is_kept and work.changes.conditions):
        # A kept branch's deletes are recorded even then: its next rebase would do them again, on later rows.
        return WriteResult(newest.version, "empty", 0, "")
    _check_numbers(work)
    with table.unsent_files() as unsent:
        plan = Publication(work, unsent, user_metadata)
        if work.changes.is_blind and work.definition is None:
            return table.commit(plan.execute(newest), newest, plan.metrics, unsent=unsent)
        return table.commit_plan(plan, newest, unsent=unsent)


def _check_numbers(work: BranchWork) -> None:
    """Raises InvalidInputError if rows of the branch have numbers that the table may have given to others."""
    if not work.origin.numbers:
        return
    for column in identity_columns(work.state.schema):
        last = work.origin.numbers.get(column.physical)
        if column.mark is not None and last is not None and column.is_beyond(column.mark, last):
            raise InvalidInputError(
                f"the branch has counted {column.name} up to {column.mark:,}, and the table set aside the numbers up to"
                f" {last:,} for it: rows of the table may have the others. Make another branch, and append the rows"
                " there in smaller parts",
                table=work.branch.uri,
                version=work.state.version,
            )


def _version_of(work: BranchWork) -> int | None:
    """The version that published a branch last; None if its commit was cleaned up."""
    app_id = app_id_of(work.origin)
    try:
        for version in range(work.newest.version, work.origin.base_version, -1):
            if published_by(work.table.log.read_commit(version, files=False), app_id) is not None:
                return version
    except NotFoundError:
        pass
    return None


def wide(stats: str | None) -> str | None:
    """The statistics of a file that has a deletion vector."""
    total = num_records(stats)
    return stats if total is None else wide_statistics(stats, num_records=total)


class Publication:
    """A `Plan`: the changes of a branch on any later version of its table."""

    def __init__(self, work: BranchWork, unsent: UnsentFiles, user_metadata: str | None = None) -> None:
        self._work = work
        self._table = work.table
        self._state = work.state
        self._changes = work.changes
        self._unsent = unsent
        self._user_metadata = user_metadata
        self._txn_id = ambient.uuid4()
        self._winners = Winners(work)
        self._touched = TouchedRows(work)
        self._written: dict[str, tuple[BitMap64, DeletionVectorDescriptor]] = {}
        self.metrics = WriteMetrics()

    def remaining_work_s(self, state: TableState) -> float:
        return _CLOSE_S + _VECTOR_S * len(self._changes.touched)

    def execute(self, state: TableState) -> Proposal:
        """Raises the `ConflictError` of what others did since the branch began."""
        changes = self._changes
        self._winners.check(state, OPERATION)
        builder = ProposalBuilder(state, data_change=not changes.moves_only)
        self._define(builder, state, BranchDomains(self._work, state))
        builder.set_transaction(app_id_of(self._work.origin), self._state.version)
        self._winners.check_applications(state)
        for each in self._work.applications:
            builder.set_transaction(each.app_id, each.version)
        if not changes.is_blind:
            builder.read_partitions(())  # what it read was judged above, on every execution
        live = self._touched.live(state)
        dead: dict[str, BitMap64] = {}
        for touched in changes.touched:
            rows = self._touched.dead(touched, live.get(touched.path), state, NEXT_STEP)
            if rows is None:
                builder.remove(live[touched.path])
            else:
                dead[touched.path] = rows
        vectors = self._vectors(dead | self._dead_rows_of_new())
        for touched in changes.touched:
            if touched.path in dead and touched.after is not None:
                builder.replace_vector(live[touched.path], vectors[touched.path], stats=wide(touched.after.stats))
        # No vacuum looks into the branch's folder, but one may delete a vector that is not committed yet.
        builder.add(
            *(_published(add, path, vectors.get(path)) for path, add in changes.added.items()), are_new=bool(vectors)
        )
        return self._built(builder, state)

    # --- the definition ---------------------------------------------------------------------------------------------

    def _define(self, builder: ProposalBuilder, state: TableState, domains: BranchDomains) -> None:
        """Publish the branch's definition and its metadata domains, if they changed. The table's must not have changed
        then, and otherwise only in what does not concern the branch's files."""
        definition = self._work.definition
        if definition is None:
            detail = obstacle(self._work, state, is_rebased=False)
        else:
            is_kept = is_same_definition(self._work.metadata_in_table(state), state.metadata)
            detail = None if is_kept else "changed the table's definition, as the branch does"
        if detail is not None:
            conflict(self._table, "MetadataChangedError", state, f"or an earlier commit {detail}")
        metadata = None if definition is None else self._redefined(state, *definition[:2])
        if self._work.changed_domains or definition is not None:
            needed = merged(state.protocol, self._state.protocol)
            has_domains = DOMAINS_FEATURE in (state.protocol.writer_features or ())
            is_needed = needed != state.protocol and not (definition is None and has_domains)
            builder.define(metadata, needed if is_needed else None)
        domains.publish(builder, metadata)

    def _redefined(self, state: TableState, first: Metadata, last: Metadata) -> Metadata:
        """The table's metadata, with what the branch changed of its own between ``first`` and ``last``."""
        changed = {
            key: last.configuration.get(key)
            for key in {*first.configuration, *last.configuration} - {BRANCH}
            if first.configuration.get(key) != last.configuration.get(key)
        }
        kept = {key: value for key, value in state.metadata.configuration.items() if key not in changed}
        now = state.metadata
        return replace(
            now,
            name=now.name if last.name == first.name else last.name,
            description=now.description if last.description == first.description else last.description,
            schema_string=last.schema_string,
            partition_columns=last.partition_columns,
            configuration=kept | {key: value for key, value in changed.items() if value is not None},
        )

    # --- the files --------------------------------------------------------------------------------------------------

    def _vectors(self, dead: Mapping[str, BitMap64]) -> dict[str, DeletionVectorDescriptor]:
        """Vectors in the table's own folder, by the file's path; those of an earlier execution if they are the same."""
        if not dead:
            return {}
        new = [path for path, rows in dead.items() if path not in self._written or self._written[path][0] != rows]
        descriptors, _ = write_vectors(self._table.store.files, [dead[path] for path in new])
        self._unsent.own(vector_files(descriptors))
        self._written |= {path: (dead[path], each) for path, each in zip(new, descriptors, strict=True)}
        return {path: self._written[path][1] for path in dead}

    def _dead_rows_of_new(self) -> dict[str, BitMap64]:
        """The deleted rows of the branch's own new files, by the files' paths in the table."""
        own = {path: add.deletion_vector for path, add in self._changes.added.items() if add.deletion_vector}
        return dict(zip(own, self._touched.rows([*own.values()]), strict=True)) if own else {}

    # --- the proposal -----------------------------------------------------------------------------------------------

    def _built(self, builder: ProposalBuilder, state: TableState) -> Proposal:
        changes = self._changes
        count = 0
        if not changes.is_blind and not changes.moves_only:
            change_files = ChangeFiles.of(self._table, state, self._unsent)
            count = 0 if change_files is None else change_files.finish(builder)
        removes = builder.removes
        adds = builder.adds
        rows = sum(map(live_rows, changes.added.values()))
        copied = sum(live_rows(changes.added[path]) for path in changes.copies.of if path in changes.added)
        self.metrics = WriteMetrics(
            rows=rows - copied,
            files=len(changes.added),
            bytes=sum(add.size for add in changes.added.values()),
            files_removed=len({r.path for r in removes} - {a.path for a in adds}),
            rows_copied=copied,
            vectors=sum(add.deletion_vector is not None for add in adds),
            change_files=count,
        )
        recorded = {"numOutputRows": str(rows), **({"numCopiedRows": str(copied)} if copied else {})}
        return builder.build(
            OperationInfo(
                OPERATION,
                operation_parameters(
                    branch=self._work.origin.name,
                    branchVersion=changes.version,
                    baseVersion=self._work.origin.base_version,
                    operations=list(changes.operations),
                ),
                metrics={**self.metrics.operation_metrics(), **recorded},
                user_metadata=self._user_metadata,
            ),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE if not changes.is_blind else self._table.isolation(state),
            is_reexecutable=not changes.is_blind or self._work.definition is not None,
        )


def _published(add: AddFile, path: str, vector: DeletionVectorDescriptor | None) -> AddFile:
    """A file of the branch as the table names it. It keeps its row ids, which the table set aside, and is of the
    version that publishes it."""
    return replace(add, path=path, deletion_vector=vector, default_row_commit_version=None)
