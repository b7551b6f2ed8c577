"""Moves a branch onto the newest version of its table: as if it had begun there.

In: the open branch. Out: one version of the branch, with the rows of the table's newest version and the changes that
the branch made. New rows come along as they are. Rows that the branch deleted from the table's files are deleted from
the files as they are now, and the branch's deletes are done again on what others added. An update or a merge cannot be
done again, since the log does not say what it wrote: if others added rows that it would have read, or changed rows that
it changed, this is a conflict that names them. What the table's definition became holds for the branch too: its new
rows must meet new constraints.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from txlog.branch.changes import CARRIED, REBASE, BranchChanges, Carried, key_of
from txlog.branch.checking import CONSTRAINT, NewRows
from txlog.branch.creation import definition_of_branch
from txlog.branch.known import PROPERTY, Origin, published_version, table_and_branch
from txlog.branch.publication import as_of_table, check_can_publish, new_definition, unpublished, wide, without_origin
from txlog.branch.touched_rows import TouchedRows, conflict
from txlog.branch.winners import Winners
from txlog.core.format.actions import AddFile, Metadata, operation_parameters
from txlog.core.format.column_mapping import schema_of
from txlog.core.format.deletion_vector import vector_files
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import canonical_path
from txlog.errors import ConflictError, InvalidInputError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import (
    DeleteSpec,
    Isolation,
    ProposalBuilder,
    RowOptions,
    UnsentFiles,
    ambient,
    change_in_transaction,
    is_same_definition,
    keeps_write_rules,
    lacked_columns,
    write_vectors,
)
from txlog.result import WriteResult

__all__ = ["rebase"]

_NEXT = "make a new branch of the newest version, and write there what these commits do not stand against"


def rebase(open_table: OpenTable) -> WriteResult:
    """Rebase the branch. Raises what `Table.rebase` raises."""
    while True:
        parent, state, origin = table_and_branch(open_table)
        newest = parent.writable_state()
        published = published_version(newest, origin)
        check_can_publish(parent, newest, open_table, state, origin, published)
        if newest.version == origin.base_version:
            return WriteResult(state.version, "committed", 0, "")
        changes = unpublished(open_table, state, origin, published)
        done = _Rebase(parent, newest, open_table, state, origin, changes).run()
        if done is not None:
            return done


class _Rebase:
    def __init__(
        self,
        table: OpenTable,
        newest: TableState,
        branch: OpenTable,
        state: TableState,
        origin: Origin,
        changes: BranchChanges,
    ) -> None:
        self._table = table
        self._newest = newest
        self._branch = branch
        self._state = state
        self._origin = origin
        self._changes = changes
        self._live = add_files_of(branch.log.files(state))
        self._moved = replace(
            origin, base_version=newest.version, own_version=state.version + 1, table=table.uri, ended_at=None
        )

    def run(self) -> WriteResult | None:
        """The commit; None if others wrote to the branch meanwhile."""
        changes = self._changes
        Winners(self._table, self._origin).check(self._state, changes, changes.predicates, self._newest, REBASE, _NEXT)
        metadata = self._metadata()
        self._check_constraints()
        with self._branch.unsent_files() as unsent:
            builder = ProposalBuilder(self._state)
            builder.define(metadata)
            builder.read_table()
            base = add_files_of(self._table.log.files(self._newest))
            self._replace_files(builder, base, unsent)
            for each in changes.deletes:
                self._delete_again(builder, each.text, unsent)
            builder.add(*changes.added.values(), are_new=False)
            proposal = builder.build(
                txn_id=ambient.uuid4(),
                now_ms=ambient.now_ms(),
                isolation=Isolation.SERIALIZABLE,
                operation=REBASE,
                parameters=operation_parameters(
                    baseVersion=self._newest.version,
                    formerVersion=self._origin.base_version,
                    **{CARRIED: self._carried(builder, base).to_text()},
                ),
            )
            try:
                done = self._branch.commit(proposal, self._state, unsent=unsent)
            except ConflictError:
                return None
        return done if done.version == self._moved.own_version else None

    # --- the definition -----------------------------------------------------------------------------------------------

    def _metadata(self) -> Metadata:
        """The definition of the rebased branch: the table's, or its own if only that changed."""
        first = without_origin(self._branch.log.state_at(self._origin.own_version).metadata)
        base = as_of_table(self._table, self._origin, first, self._newest)
        own = {**self._state.metadata.configuration, PROPERTY: self._moved.to_text()}
        if is_same_definition(base, self._newest.metadata):
            return replace(self._state.metadata, configuration=own)
        if new_definition(self._branch, self._state, self._origin) is not None:
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
        failures = NewRows(self._table, self._branch, self._state, self._origin, self._changes).failures(new)
        if failures:
            raise InvalidInputError(
                f"rows of the branch do not meet the table's new constraint {failures[0].check}: {failures[0].num_rows}"
                f" fail, such as {failures[0].rows.slice(0, 1).to_pylist()[0]}. Correct or delete them on the branch"
                " first",
                table=self._branch.uri,
                version=self._state.version,
            )

    # --- the files ----------------------------------------------------------------------------------------------------

    def _replace_files(self, builder: ProposalBuilder, base: Sequence[AddFile], unsent: UnsentFiles) -> None:
        """The table's files as they are now, ``base``, in place of those that the branch began with, less what it
        deleted. Its own new files are left out for the moment."""
        by_key = {(canonical_path(add.path), add.key[1]): add for add in self._without_deleted(base, unsent)}
        live = {(canonical_path(add.path), add.key[1]): add for add in self._live}
        builder.remove(*(add for key, add in live.items() if key not in by_key))
        builder.add(*(add for key, add in by_key.items() if key not in live), are_new=False)

    def _without_deleted(self, base: Sequence[AddFile], unsent: UnsentFiles) -> list[AddFile]:
        places = self._origin.places
        named = {canonical_path(add.path): places.in_branch(add) for add in base}
        rows = TouchedRows(self._table, self._branch, self._state, self._origin)
        there = {canonical_path(add.path): add for add in base} if self._changes.touched else {}
        dead = {}
        for each in self._changes.touched:
            found = rows.dead(each, there.get(each.path), self._newest, _NEXT)
            if found is None:
                del named[each.path]
            else:
                dead[each.path] = found
        descriptors, _ = write_vectors(self._branch.store.files, [*dead.values()])
        unsent.own(vector_files(descriptors))
        for path, vector in zip(dead, descriptors, strict=True):
            named[path] = replace(named[path], deletion_vector=vector, stats=wide(named[path].stats))
        return [*named.values()]

    def _carried(self, builder: ProposalBuilder, base: Sequence[AddFile]) -> Carried:
        """What the rebased branch has besides the rows of its table."""
        places = self._origin.places
        files = {places.in_table(add.path): add for add in self._live}
        for remove in builder.removes:
            files.pop(places.in_table(remove.path), None)
        files |= {places.in_table(add.path): add for add in builder.adds}
        before = {canonical_path(add.path): places.in_branch(add).deletion_vector for add in base}
        touched = [
            (path, None if vector is None else vector.to_json())
            for path, vector in before.items()
            if path not in files or key_of(files[path].deletion_vector) != key_of(vector)
        ]
        return Carried(tuple(add.path for path, add in files.items() if path not in before), tuple(touched))

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
