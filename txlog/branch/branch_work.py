"""An open branch at one of its versions, and what it did that its table does not have: `BranchWork`.

In: an open branch. Out: the value that checking, publishing and rebasing begin with. What it knows is read when it is
asked for, once. The definition of the version that the branch began with is read only if somebody changed it since.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from txlog.branch.changes import ApplicationChange, BranchChanges, Carried, NetFiles, changes_of
from txlog.branch.creation import OF_A_BRANCH
from txlog.branch.known import MAKE_ONE, Origin, app_id_of, published_by, published_version, settled_branch
from txlog.branch.places import Places
from txlog.core.format.actions import AddFile, Metadata, Protocol, RemoveFile
from txlog.core.format.features import merged
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.loaded_files import LoadedFiles, digests_of, is_of_loaded_files
from txlog.core.format.properties import BRANCH
from txlog.errors import InvalidInputError, NotFoundError, TxlogError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import ROW_TRACKING_DOMAIN, cached_property, cloned, is_same_definition

Definitions: TypeAlias = tuple[Metadata, Metadata, Protocol]
"""The metadata that the branch began with, what it has now, and its protocol."""


class BranchWork:
    """What a branch did up to one of its versions.

    Attributes:
        table: The open table.
        newest: Its version that the branch is compared with.
        branch: The open branch.
        state: The branch's version.
        origin: Where the branch comes from.
    """

    def __init__(
        self, table: OpenTable, newest: TableState, branch: OpenTable, state: TableState, origin: Origin
    ) -> None:
        self.table = table
        self.newest = newest
        self.branch = branch
        self.state = state
        self.origin = origin

    @property
    def places(self) -> Places:
        return self.origin.places

    @cached_property
    def published(self) -> int | None:
        """The branch's version that the table has; None if it has none.

        Raises InvalidInputError if the table may have forgotten it, and what reading the table's commits raises.
        """
        found = published_version(self.newest, self.origin)
        forgets = self.newest.properties.set_transaction_retention_ms is not None
        return self._published_in_commits() if found is None and forgets else found

    def _published_in_commits(self) -> int | None:
        first, newest = self.origin.base_version + 1, self.newest.version
        app_id, last = app_id_of(self.origin), None
        try:
            for commit in self.table.log.commits_between(first, newest, files=False) if first <= newest else ():
                version = published_by(commit, app_id)
                last = last if version is None else version
        except NotFoundError:
            raise InvalidInputError(
                "it is unknown whether this branch was published: the table forgets its publications after"
                " delta.setTransactionRetentionDuration, and its log was cleaned up. Compare the two, and append to the"
                " table what it lacks",
                table=self.branch.uri,
                version=self.state.version,
            ) from None
        return last

    @cached_property
    def changes(self) -> BranchChanges:
        """What the table does not have. Raises NotFoundError, CorruptLogError."""
        origin, published = self.origin, self.published
        last = -1 if published is None else published
        since = max(origin.own_version, last)
        net = NetFiles(self.places)
        with TxlogError.located(self.branch.uri, self.state.version):
            if origin.own_version > origin.made_at and (published is None or published < origin.own_version):
                carried = self._carried()
                net.carry(carried, self._live_of(since, carried))
            first, newest = origin.made_at + 1, self.state.version
            commits = self.branch.log.commits_between(first, newest) if first <= newest else iter(())
            return changes_of(commits, net, self.state, self.branch.time_zone, since, last, self._made_as)

    def _made_as(self) -> Metadata:
        return self.branch.log.state_at(self.origin.made_at).metadata

    def _carried(self) -> Carried:
        """What the last rebase carried, less what a publication took that was under way then, and landed after it."""
        origin, published = self.origin, self.published
        carried = Carried.of(self.branch.log.read_commit(origin.own_version, files=False))
        if published is None or published == origin.published:
            return carried
        then = self.branch.log.state_at(published)
        applications = tuple(
            replace(each, before=before)
            for each in carried.applications
            if each.version != (before := then.transaction_version(each.app_id))
        )
        if not self._has_changed_files(published + 1, origin.own_version - 1):
            return Carried(applications=applications)
        files = self.branch.log.files(then)
        landed = {*map(self.places.in_table, files["path"].to_pylist())}
        added = tuple(path for path in carried.added if self.places.in_table(path) not in landed)
        copies = None if carried.copies is None else carried.copies.among({*map(self.places.in_table, added)})
        return Carried(added, carried.touched, copies, applications)

    def _has_changed_files(self, first: int, last: int) -> bool:
        commits = self.branch.log.commits_between(first, last) if first <= last else ()
        return any(isinstance(action, AddFile | RemoveFile) for commit in commits for action in commit.actions)

    def _live_of(self, version: int, carried: Carried) -> dict[str, AddFile]:
        """The files of a version that a rebase carried, by their paths in the table."""
        named = self.places.in_table
        wanted = {*map(named, carried.added), *(path for path, _ in carried.touched)}
        files = self.branch.log.files(self.branch.log.state_at(version))
        mask = pa.array([named(path) in wanted for path in files["path"].to_pylist()], pa.bool_())
        return {named(add.path): add for add in add_files_of(files.filter(mask))}

    # --- the definition ---------------------------------------------------------------------------------------------

    @cached_property
    def defined_at(self) -> int:
        """The branch's version whose definition the table has, but for what others changed: the one that was published
        last, or the one that the branch began with or was rebased to. A rebase carries what the branch changed."""
        return self._began_at if self.published is None else max(self._began_at, self.published)

    @property
    def _began_at(self) -> int:
        origin = self.origin
        return origin.own_version if origin.defined_at is None else origin.defined_at

    @cached_property
    def _first(self) -> tuple[Metadata, Protocol]:
        """The metadata and the protocol of this version."""
        first = self.branch.log.state_at(self.defined_at) if self.changes.defined_at > self.defined_at else self.state
        return first.metadata, first.protocol

    @property
    def first_metadata(self) -> Metadata:
        """The metadata that the branch and its table had in common, without what makes it a branch's."""
        return without_origin(self._first[0])

    @cached_property
    def definition(self) -> Definitions | None:
        """The definitions that the branch began with and that it has now; None if they say the same of every row."""
        if self.changes.defined_at <= self.defined_at:
            return None
        before, protocol = self._first
        is_same = is_same_definition(self.first_metadata, without_origin(self.state.metadata))
        if is_same and merged(protocol, self.state.protocol) == protocol:
            return None
        return before, self.state.metadata, self.state.protocol

    @cached_property
    def applications(self) -> list[ApplicationChange]:
        """The last batches of applications that are on the branch alone."""
        origin, published, found = self.origin, self.published, dict[str, ApplicationChange]()
        if origin.own_version > origin.made_at and (published is None or published < origin.own_version):
            found = {each.app_id: each for each in self._carried().applications}
        changed = self.changes.applications
        if changed:
            since = self.branch.log.state_at(max(origin.own_version, -1 if published is None else published))
            for app_id, version in changed.items():
                known = found.get(app_id)
                before = since.transaction_version(app_id) if known is None else known.before
                found[app_id] = ApplicationChange(app_id, version, before)
        return [*found.values()]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish."""
        is_same = self.changes.is_empty and self.definition is None
        return is_same and not self.changed_domains and not self.applications

    @cached_property
    def changed_domains(self) -> list[str]:
        """The metadata domains that the branch changed, each name once, but for the count of row ids."""
        found = dict.fromkeys(each.domain.domain for each in self.changes.domains if each.is_unpublished)
        return [name for name in found if name != ROW_TRACKING_DOMAIN]

    @cached_property
    def loaded(self) -> Set[str]:
        """The files that `Table.copy_into` loaded into the branch, which the table does not have (`LoadedFiles`)."""
        changes = [each for each in self.changes.domains if is_of_loaded_files(each.domain.domain)]
        if not changes:
            return frozenset()
        known, loaded = {*LoadedFiles(self.branch.log.state_at(self.origin.made_at).domains).digests}, set[str]()
        for each in changes:
            new = set() if each.domain.removed else digests_of(each.domain) - known
            known |= new
            loaded |= new if each.is_unpublished else set()
        return loaded

    def metadata_in_table(self, state: TableState) -> Metadata:
        """The metadata with which the branch began, as the table had it, with its own id, name and properties;
        ``state`` is a later version of the table."""
        try:
            return self.table.log.state_at(self._defined_in_table).metadata
        except NotFoundError:  # cleaned up: a branch has all of it that matters
            theirs, first = state.metadata.configuration, self.first_metadata
            taken_over = cloned(state, None, OF_A_BRANCH).metadata.configuration
            own = {key: value for key, value in theirs.items() if key not in taken_over or key in OF_A_BRANCH}
            configuration = {key: value for key, value in first.configuration.items() if key not in OF_A_BRANCH}
            return replace(
                state.metadata,
                schema_string=first.schema_string,
                partition_columns=first.partition_columns,
                configuration={**configuration, **own},
            )

    @cached_property
    def _defined_in_table(self) -> int:
        """The table's version with the definition that the branch began with, or published since."""
        began, published = self._began_at, self.published
        if published is None or self.defined_at == began or self.changes.defined_at <= began:
            return self.origin.base_version
        first, last = map(self._definition_at, (began, published))
        if is_same_definition(first, last):
            return self.origin.base_version
        app_id = app_id_of(self.origin)
        for commit in self.table.log.commits_between(self.origin.base_version + 1, self.newest.version, files=False):
            version = published_by(commit, app_id)  # of several publications, the first with this definition
            if version is not None and is_same_definition(self._definition_at(version), last):
                return commit.version
        return self.origin.base_version

    def _definition_at(self, version: int) -> Metadata:
        return without_origin(self.branch.log.state_at(version).metadata)

    # --- what forbids it --------------------------------------------------------------------------------------------

    def require_publishable(self) -> None:
        """Raises InvalidInputError for a branch of an earlier table at this place, and for one that was discarded."""
        origin, published = self.origin, self.published
        if self.newest.metadata.id != origin.table_id:
            raise InvalidInputError(
                f"the branch was made of another table that was at {self.table.uri} before: copy the rows that you"
                " need, and discard the branch",
                table=self.branch.uri,
                version=self.state.version,
            )
        ended_at = -1 if origin.ended_at is None else origin.ended_at
        has_ended = ended_at >= self.state.version and (published is None or published < ended_at - 1)
        if has_ended and not self.is_empty:  # else a publication may have ended it
            raise InvalidInputError(
                f"the branch was discarded, so it cannot be published: make a new one with {MAKE_ONE}",
                table=self.branch.uri,
                version=self.state.version,
            )


def work_of(open_table: OpenTable) -> BranchWork:
    """What a branch did up to its newest version. Raises what `settled_branch` raises."""
    table, state, origin = settled_branch(open_table)
    return BranchWork(table, table.log.newest_state(), open_table, state, origin)


def without_origin(metadata: Metadata) -> Metadata:
    """The metadata without what makes it a branch's."""
    configuration = {key: value for key, value in metadata.configuration.items() if key != BRANCH}
    return replace(metadata, configuration=configuration)
