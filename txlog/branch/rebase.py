"""Moves a branch onto the newest version of its table: as if it had begun there.

In: the open branch. Out: one version of the branch, with the rows of the table's newest version and the changes that
the branch made. New rows come along as they are. Rows that the branch deleted from the table's files are deleted from
the files as they are now, and the branch's deletes are done again on what others added. An update or a merge cannot be
done again, since the log does not say what it wrote: if others added rows that it would have read, or changed rows that
it changed, this is a conflict that names them. What the table's definition became holds for the branch too: its new
rows must meet new constraints.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from txlog.branch.base_files import differing, removed_meanwhile
from txlog.branch.branch_work import BranchWork
from txlog.branch.changes import CARRIED, REBASE, Carried
from txlog.branch.checking import CONSTRAINT, RowsToPublish
from txlog.branch.creation import definition_of_branch
from txlog.branch.ending import begin_rebase
from txlog.branch.known import PROPERTY, READS_MS, table_and_branch
from txlog.branch.numbers import ROW_IDS, newest_below_row_ids
from txlog.branch.publication import wide
from txlog.branch.touched_rows import TouchedRows, conflict
from txlog.branch.winners import Winners
from txlog.core.format.actions import Metadata, operation_parameters
from txlog.core.format.arrow.compute import pc
from txlog.core.format.column_mapping import schema_of
from txlog.core.format.deletion_vector import vector_files
from txlog.core.format.file_columns import add_files_of, adds_to_batch
from txlog.core.format.paths import canonical_path, canonical_paths
from txlog.errors import ConflictError, InvalidInputError
from txlog.extend import OpenTable
from txlog.extend.commits import (
    DeleteSpec,
    Isolation,
    OperationInfo,
    ProposalBuilder,
    RowOptions,
    UnsentFiles,
    ambient,
    change_in_transaction,
    is_same_definition,
    keeps_write_rules,
    lacked_columns,
    row_id_domain,
    write_vectors,
)
from txlog.result import WriteResult

__all__ = ["rebase"]

_NEXT = "make a new branch of the newest version, and write there what these commits do not stand against"


def rebase(open_table: OpenTable) -> WriteResult:
    """Rebase the branch. Raises what `Table.rebase` raises."""
    while True:
        parent, state, origin = table_and_branch(open_table)
        work = BranchWork(parent, parent.writable_state(), open_table, state, origin)
        work.require_publishable()
        if work.newest.version == origin.base_version:
            return WriteResult(state.version, "committed", 0, "")
        newest, row_ids = newest_below_row_ids(parent, work.newest, branch=origin.name, row_ids=origin.row_ids)
        if not begin_rebase(open_table, state, origin, newest.version):
            continue
        _, state, origin = table_and_branch(open_table)
        if origin.reads == newest.version:
            done = _Rebase(BranchWork(parent, newest, open_table, state, origin), row_ids).run()
            if done is not None:
                return done


class _Rebase:
    def __init__(self, work: BranchWork, row_ids: int | None) -> None:
        self._work = work
        self._table = work.table
        self._newest = work.newest
        self._branch = work.branch
        self._state = work.state
        self._origin = work.origin
        self._changes = work.changes
        self._moved = replace(
            work.origin,
            base_version=work.newest.version,
            own_version=work.state.version + 1,
            table=work.table.uri,
            ended_at=None,
            published=work.published,
            reads=None,
            row_ids=row_ids,
        )

    def run(self) -> WriteResult | None:
        """The commit; None if others wrote to the branch meanwhile, or a vacuum may have deleted files of the table's
        version before it heard that the branch is about to name them."""
        changes = self._changes
        Winners(self._work).check(changes.predicates, self._newest, REBASE, _NEXT)
        metadata = self._metadata()
        self._check_constraints()
        with self._branch.unsent_files() as unsent:
            builder = ProposalBuilder(self._state)
            builder.define(metadata)
            builder.read_table()
            if self._moved.row_ids is not None and self._moved.row_ids != self._origin.row_ids:
                builder.set_domain(row_id_domain(self._moved.row_ids - ROW_IDS))
            files = self._table.log.files(self._newest)
            base, live = self._moved.places.files_in_branch(files), self._branch.log.files(self._state)
            gone, come = differing(live, self._without_deleted(files, base, unsent))
            builder.remove(*gone)
            builder.add(*come, are_new=False)
            for each in changes.deletes:
                self._delete_again(builder, each.text, unsent)
            builder.add(*changes.added.values(), are_new=False)
            parameters = operation_parameters(
                baseVersion=self._newest.version,
                formerVersion=self._origin.base_version,
                **{CARRIED: self._carried(base, builder.live(live)).to_text()},
            )
            if removed_meanwhile(self._table, self._newest, self._newest) or self._is_late():
                return None
            info = OperationInfo(REBASE, parameters)
            try:
                done = self._branch.commit_change(builder, info, Isolation.SERIALIZABLE, unsent=unsent)
            except ConflictError:
                return None
        return done if done.version == self._moved.own_version else None

    def _is_late(self) -> bool:
        """Whether vacuums may soon forget that the branch reads the table's version."""
        return ambient.now_ms() - self._origin.reads_since_ms > READS_MS // 2

    # --- the definition -----------------------------------------------------------------------------------------------

    def _metadata(self) -> Metadata:
        """The definition of the rebased branch: the table's, or its own if only that changed."""
        base = self._work.metadata_in_table(self._newest)
        own = {**self._state.metadata.configuration, PROPERTY: self._moved.to_text()}
        if is_same_definition(base, self._newest.metadata):
            return replace(self._state.metadata, configuration=own)
        if self._work.definition is not None:
            self._refuse("changed the table's definition, as the branch does")
        before, after = (_without_constraints(each) for each in (base, self._newest.metadata))
        if not keeps_write_rules(before, after):
            lacked = lacked_columns(before, after, schema_of(self._state.metadata))
            if lacked is None or lacked.fields:
                self._refuse("changed the table's definition in a way that files of the branch do not follow")
        return definition_of_branch(self._newest, self._state, self._moved).metadata

    def _refuse(self, detail: str) -> None:
        conflict(self._table, "MetadataChangedError", self._newest, f"or an earlier commit {detail}", _NEXT)

    def _check_constraints(self) -> None:
        """Raises InvalidInputError if a new row does not meet a constraint that the table has by now."""
        had = self._state.metadata.configuration
        new = [
            text
            for key, text in self._newest.metadata.configuration.items()
            if key.startswith(CONSTRAINT) and had.get(key) != text
        ]
        failures = RowsToPublish(self._work).failures(new)
        if failures:
            raise InvalidInputError(
                f"rows of the branch do not meet the table's new constraint {failures[0].check}: {failures[0].num_rows}"
                f" fail, such as {failures[0].rows.slice(0, 1).to_pylist()[0]}. Correct or delete them on the branch"
                " first",
                table=self._branch.uri,
                version=self._state.version,
            )

    # --- the files ----------------------------------------------------------------------------------------------------

    def _without_deleted(self, files: pa.Table, base: pa.Table, unsent: UnsentFiles) -> pa.Table:
        """The table's ``files`` as they are now, which the branch names as in ``base``, less what it deleted. Its own
        new files are left out for the moment."""
        if not self._changes.touched:
            return base
        rows = TouchedRows(self._work)
        is_touched = pc.is_in(
            canonical_paths(files["path"]), value_set=pa.array([each.path for each in self._changes.touched])
        )
        there = {canonical_path(add.path): add for add in add_files_of(files.filter(is_touched))}
        dead = {}
        for each in self._changes.touched:
            found = rows.dead(each, there.get(each.path), self._newest, _NEXT)
            if found is not None:
                dead[each.path] = found
        descriptors, _ = write_vectors(self._branch.store.files, [*dead.values()])
        unsent.own(vector_files(descriptors))
        named = {path: self._moved.places.in_branch(there[path]) for path in dead}
        marked = [
            replace(named[path], deletion_vector=vector, stats=wide(named[path].stats))
            for path, vector in zip(dead, descriptors, strict=True)
        ]
        return pa.concat_tables([base.filter(pc.invert(is_touched)), pa.Table.from_batches([adds_to_batch(marked)])])

    def _carried(self, base: pa.Table, rebased: pa.Table) -> Carried:
        """What the ``rebased`` branch has besides the rows of its table, ``base``."""
        named = self._moved.places.in_table
        own, missed = differing(rebased, base)
        touched = {
            named(add.path): None if add.deletion_vector is None else add.deletion_vector.to_json() for add in missed
        }
        return Carried(tuple(add.path for add in own if named(add.path) not in touched), tuple(touched.items()))

    def _delete_again(self, builder: ProposalBuilder, text: str, unsent: UnsentFiles) -> None:
        """A delete of the branch, on the rows that others added."""
        spec, options = DeleteSpec(text), RowOptions()
        operation = spec.bind(self._state)
        change = change_in_transaction(self._branch, self._state, unsent, spec.what, operation, options, None)
        change(builder, self._state)
        operation.report()


def _without_constraints(metadata: Metadata) -> Metadata:
    configuration = {key: value for key, value in metadata.configuration.items() if not key.startswith(CONSTRAINT)}
    return replace(metadata, configuration=configuration)
