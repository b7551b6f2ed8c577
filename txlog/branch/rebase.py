"""Moves a branch onto the newest version of its table: as if it had begun there.

In: the open branch. Out: one version of the branch, with the rows of the table's newest version and the changes that
the branch made. New rows come along as they are, whatever names and wider types their columns have by now. Rows that
the branch deleted from the table's files are deleted from the files as they are now, and the branch's deletes are done
again on what others added, moved or changed. An update or a merge cannot be done again, since the log does not say what
it wrote: if others added rows that it would have read, or changed rows that it changed, this is a conflict that names
them. What the table's definition became holds for the branch too: its new rows must meet new constraints, and get row
ids if the table tracks rows by now. What its files do not follow (`obstacle`) is a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import pyarrow as pa
from msgspec.structs import replace
from pyroaring import BitMap64

from txlog.branch.applications import follow
from txlog.branch.base_files import differing, removed_meanwhile, renumbered
from txlog.branch.branch_work import BranchWork
from txlog.branch.changes import CARRIED, REBASE, Carried
from txlog.branch.checking import RowsToPublish
from txlog.branch.copies import RowCopies
from txlog.branch.creation import definition_of_branch
from txlog.branch.domains import BranchDomains
from txlog.branch.ending import begin_rebase
from txlog.branch.known import READS_MS, table_and_branch
from txlog.branch.numbers import ROW_IDS, newest_below_row_ids
from txlog.branch.publication import wide
from txlog.branch.redefinition import new_conditions, obstacle
from txlog.branch.touched_rows import TouchedRows, conflict
from txlog.branch.winners import Winners
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.arrow.compute import pc
from txlog.core.format.deletion_vector import vector_files
from txlog.core.format.features import merged
from txlog.core.format.file_columns import add_files_of, adds_to_batch
from txlog.core.format.paths import canonical_path, canonical_paths
from txlog.core.format.properties import BRANCH
from txlog.core.format.schema import Struct
from txlog.core.format.statistics_read import num_records
from txlog.errors import ConflictError, InvalidInputError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import (
    ROW_TRACKING_PROPERTIES,
    Definition,
    DeleteSpec,
    Isolation,
    OperationInfo,
    ProposalBuilder,
    RowOptions,
    UnsentFiles,
    ambient,
    change_in_transaction,
    define,
    is_same_definition,
    row_id_domain,
    write_vectors,
)
from txlog.result import WriteResult

_NEXT = "make a new branch of the newest version, and make your changes there, as far as these commits allow"


def rebase(open_table: OpenTable) -> WriteResult:
    """Rebase the branch. Raises what `Table.rebase` raises."""
    while True:
        parent, state, origin = table_and_branch(open_table)
        work = BranchWork(parent, parent.writable_state(), open_table, state, origin)
        work.require_publishable()
        if work.newest.version == origin.base_version:
            return WriteResult(state.version, "committed", 0, "")
        _require_followed(work)
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
        self._left_out = set[str]()
        """The branch's copies of rows of files with which it begins anew."""
        self._moved = replace(
            work.origin,
            base_version=work.newest.version,
            own_version=work.state.version + 1,
            table=work.table.uri,
            ended_at=None,
            published=work.published,
            reads=None,
            row_ids=row_ids,
            defined_at=None if work.definition is None else work.defined_at,
        )

    def run(self) -> WriteResult | None:
        """The commit; None if others wrote to the branch meanwhile, or a vacuum may have deleted files of the table's
        version before it heard that the branch is about to name them."""
        winners = Winners(self._work)
        winners.check(self._newest, REBASE, _NEXT, deletes=False)
        winners.check_applications(self._newest)
        definition = self._definition()
        self._check_rows()
        with self._branch.unsent_files() as unsent:
            builder = ProposalBuilder(self._state)
            define(builder, definition)
            builder.read_table()
            follow(builder, self._newest, self._state, {each.app_id for each in self._work.applications})
            files = self._table.log.files(self._newest)
            base, live = self._moved.places.files_in_branch(files), self._branch.log.files(self._state)
            state = self._state.defined_as(definition.metadata, definition.protocol)
            wanted = self._without_deleted(files, base, state.schema, unsent)
            gone, come = differing(live, wanted)
            builder.remove(*gone)
            come = add_files_of(wanted) if self._gives_row_ids else [*come, *renumbered(live, wanted)]
            builder.add(*come, are_new=False)
            self._delete_again(builder, state, unsent)
            copies = self._copies(wanted, builder.live(live))
            builder.add(*self._new_files(builder), are_new=False)
            parameters = operation_parameters(
                baseVersion=self._newest.version,
                formerVersion=self._origin.base_version,
                **{CARRIED: self._carried(base, builder.live(live), copies).to_text()},
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

    def _definition(self) -> Definition:
        """The definition of the rebased branch: the table's, or its own if only that changed."""
        _require_followed(self._work)
        definition = self._without_domains()
        return replace(definition, domains=BranchDomains(self._work, self._newest, _NEXT).rebased(definition.metadata))

    def _without_domains(self) -> Definition:
        now = self._newest
        if is_same_definition(self._work.metadata_in_table(now), now.metadata):
            own = {**self._state.metadata.configuration, BRANCH: self._moved.to_text()}
            protocol = merged(self._state.protocol, now.protocol)
            return Definition(replace(self._state.metadata, configuration=own), protocol)
        return definition_of_branch(now, self._with_row_id_columns(), self._moved)

    def _with_row_id_columns(self) -> TableState:
        """The branch, with what its table says of row ids, which may be tracked by now."""
        metadata, theirs = self._state.metadata, self._newest.metadata.configuration
        added = {key: theirs[key] for key in ROW_TRACKING_PROPERTIES if key in theirs}
        return self._state.defined_as(replace(metadata, configuration={**metadata.configuration, **added}))

    def _check_rows(self) -> None:
        """Raises InvalidInputError if a new row does not meet what the table demands of rows by now."""
        failures = RowsToPublish(self._work).failures(new_conditions(self._work, self._newest), self._newest)
        if failures:
            raise InvalidInputError(
                f"rows of the branch do not meet the table's new constraint {failures[0].check}: {failures[0].num_rows}"
                f" fail, such as {failures[0].rows.slice(0, 1).to_pylist()[0]}. Correct or delete them on the branch"
                " first",
                table=self._branch.uri,
                version=self._state.version,
            )

    # --- the files ----------------------------------------------------------------------------------------------------

    def _without_deleted(self, files: pa.Table, base: pa.Table, schema: Struct, unsent: UnsentFiles) -> pa.Table:
        """The table's ``files`` as they are now, which the branch names as in ``base``, less what it deleted. Its own
        new files are left out for the moment."""
        if not self._changes.touched:
            return base
        paths = canonical_paths(files["path"])
        is_touched = pc.is_in(paths, value_set=pa.array([each.path for each in self._changes.touched]))
        there = {canonical_path(add.path): add for add in add_files_of(files.filter(is_touched))}
        dead = self._dead_rows(there, schema)
        is_touched = pc.is_in(paths, value_set=pa.array([*dead], pa.string()))
        dead = {path: found for path, found in dead.items() if found is not None}
        descriptors, _ = write_vectors(self._branch.store.files, [*dead.values()])
        unsent.own(vector_files(descriptors))
        named = {path: self._moved.places.in_branch(there[path]) for path in dead}
        marked = [
            replace(named[path], deletion_vector=vector, stats=wide(named[path].stats))
            for path, vector in zip(dead, descriptors, strict=True)
        ]
        return pa.concat_tables([base.filter(pc.invert(is_touched)), pa.Table.from_batches([adds_to_batch(marked)])])

    def _dead_rows(self, there: Mapping[str, AddFile], schema: Struct) -> dict[str, BitMap64 | None]:
        """The dead rows of each of the table's files that the branch changed; None for one that goes as a whole. Files
        in which others changed the same rows, or that they moved, are left to the deletes that are done again."""
        rows, found, refused = TouchedRows(self._work), dict[str, BitMap64 | None](), dict[str, ConflictError]()
        can_repeat = self._changes.only_deletes and not self._changes.reads(schema).whole_table
        for each in self._changes.touched:
            try:
                found[each.path] = rows.dead(each, there.get(each.path), self._newest, _NEXT)
            except ConflictError as error:
                if not can_repeat:
                    raise
                refused[each.path] = error
        begun, self._left_out = self._changes.copies.anew(refused)
        tied = begun & self._changes.copies.tied
        if tied:
            self._refuse_tied(min(tied), next(iter(refused.values())))
        return {path: dead for path, dead in found.items() if path not in begun}

    def _refuse_tied(self, path: str, error: ConflictError) -> NoReturn:
        """Refuse to begin anew with a file of which rows are in one file with rows of the branch: nobody can tell which
        of these to leave out."""
        detail = (
            f"{error.reasons[0].detail}; and a commit of the branch wrote what it kept of {path} together with new"
            " rows, so that no delete can be done again there"
        )
        conflict(self._table, error.reasons[0].rule, self._newest, detail, _NEXT)

    def _copies(self, wanted: pa.Table, deleted: pa.Table) -> RowCopies:
        """The copies of the rebased branch: ``wanted`` are the table's files, and ``deleted`` is what the deletes that
        were done again left of them."""
        named = self._moved.places.in_table
        found = self._changes.copies.among(self._changes.added.keys() - self._left_out)
        if not any(each.is_delete for each in self._changes.conditions):
            return found
        before, after = ({*map(named, each["path"].to_pylist())} for each in (wanted, deleted))
        found.note(before - after, after - before, (), makes_rows=False)
        return found

    def _carried(self, base: pa.Table, rebased: pa.Table, copies: RowCopies) -> Carried:
        """What the ``rebased`` branch has besides the rows of its table, ``base``."""
        named = self._moved.places.in_table
        own, missed = differing(rebased, base)
        touched = {
            named(add.path): None if add.deletion_vector is None else add.deletion_vector.to_json() for add in missed
        }
        added = tuple(add.path for add in own if named(add.path) not in touched)
        return Carried(added, tuple(touched.items()), copies, tuple(self._work.applications))

    @property
    def _gives_row_ids(self) -> bool:
        """Whether the table tracks rows since the branch began, so that each file of the branch gets row ids."""
        return self._moved.row_ids is not None and self._origin.row_ids is None

    def _new_files(self, builder: ProposalBuilder) -> list[AddFile]:
        """The branch's own files, whose rows have ids if the table tracks rows."""
        adds = [add for path, add in self._changes.added.items() if path not in self._left_out]
        if self._moved.row_ids is None or self._moved.row_ids == self._origin.row_ids:
            return adds
        mark, found = self._moved.row_ids - ROW_IDS, []
        for add in adds if self._gives_row_ids else ():
            rows = num_records(add.stats)
            if rows is None:
                raise InvalidInputError(
                    f"the table tracks rows by now, and the branch's log does not say how many rows {add.path} has:"
                    " append them again on a new branch",
                    table=self._branch.uri,
                    version=self._state.version,
                )
            version = self._moved.own_version
            found.append(replace(add, base_row_id=mark + 1, default_row_commit_version=version))
            mark += rows
        builder.set_domain(row_id_domain(mark))
        return found or adds

    def _delete_again(self, builder: ProposalBuilder, state: TableState, unsent: UnsentFiles) -> None:
        """The deletes of the branch, on the rows that others added. ``state`` is the branch with its new definition."""
        for each in self._changes.conditions:
            condition = each.on(state.schema) if each.is_delete else None
            if condition is None:  # then it counts as one that read the whole table
                continue
            spec, options = DeleteSpec(condition), RowOptions()
            operation = spec.bind(state)
            change = change_in_transaction(self._branch, state, unsent, spec.what, operation, options, None)
            change(builder, state)
            operation.report()


def _require_followed(work: BranchWork) -> None:
    """Raises the ConflictError of a definition that the branch's files do not follow."""
    detail = obstacle(work, work.newest, is_rebased=True)
    if detail is not None:
        conflict(work.table, "MetadataChangedError", work.newest, f"or an earlier commit {detail}", _NEXT)
