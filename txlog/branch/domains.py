"""The metadata domains that a branch changed, put together with what others made of them in its table.

In: the branch's work, and a later version of its table. Out: the domains that a publication sets in the table, or a
rebase in the branch. The notes of the files that `Table.copy_into` loaded are united, and it is a conflict if both
sides loaded the same file: its rows would be there twice. Of any other domain both sides must not have made different
things. Row ids are counted elsewhere (`txlog.branch.numbers`). PROTOCOL.md, "Domain Metadata".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from txlog.branch.branch_work import BranchWork
from txlog.branch.known import app_id_of, published_by
from txlog.branch.touched_rows import NEXT_STEP, conflict
from txlog.core.format.actions import DomainMetadata, Metadata
from txlog.core.format.clustering import CLUSTERING_DOMAIN, check_clustering
from txlog.core.format.column_mapping import schema_of
from txlog.core.format.loaded_files import LoadedFiles, is_of_loaded_files
from txlog.core.format.properties import TableProperties
from txlog.errors import InvalidInputError, NotFoundError
from txlog.extend import TableState
from txlog.extend.commits import ROW_TRACKING_DOMAIN, ProposalBuilder, cached_property

_LOADED_TWICE = "discard the branch, and load the files that are still new on another one"


class BranchDomains:
    """What becomes of domains where a branch and ``state``, a later version of its table, meet.

    Raises the ConflictError of what both changed, and CorruptLogError for domains that cannot be read.
    """

    def __init__(self, work: BranchWork, state: TableState, next_step: str = NEXT_STEP) -> None:
        self._work = work
        self._state = state
        self._next_step = next_step
        self._ours = work.state.domains
        self._theirs = state.domains

    def publish(self, builder: ProposalBuilder, metadata: Metadata | None) -> None:
        """Set what the table gets; ``metadata`` is its new definition, None if it keeps its own."""
        changed = self._work.changed_domains
        if not changed and metadata is None:
            return
        found = [each for each in self._united() if each != self._theirs.get(each.domain)] if self._has_loaded else []
        for name in self._changed:
            ours = self._ours.get(name)
            if self._is_kept(name):
                found.append(replace(self._theirs[name], removed=True) if ours is None else ours)
        for each in found:
            builder.set_domain(each)
        for name in (*changed, CLUSTERING_DOMAIN, *(LoadedFiles(self._theirs).domains if self._has_loaded else ())):
            builder.read_domain(name)
        self._check_clustering(self._theirs, found, metadata or self._state.metadata)

    def rebased(self, metadata: Metadata) -> tuple[DomainMetadata, ...]:
        """What the branch gets, whose definition becomes ``metadata``."""
        found = [each for each in self._united() if each != self._ours.get(each.domain)]
        changed = self._changed
        for name in {*self._ours, CLUSTERING_DOMAIN, *changed} - {ROW_TRACKING_DOMAIN}:
            ours, theirs = self._ours.get(name), self._theirs.get(name)
            if is_of_loaded_files(name) or ours == theirs or (name in changed and self._is_kept(name)):
                continue
            found.append(theirs or replace(self._ours[name], removed=True))
        self._check_clustering(self._ours, found, metadata)
        return tuple(found)

    def _check_clustering(
        self, before: Mapping[str, DomainMetadata], changes: Iterable[DomainMetadata], metadata: Metadata
    ) -> None:
        """Raises the ConflictError if nothing could be clustered so with this definition."""
        domains = {**before, **{each.domain: each for each in changes}}
        if CLUSTERING_DOMAIN not in domains or domains[CLUSTERING_DOMAIN].removed:
            return
        properties = TableProperties.of(metadata.configuration)
        try:
            check_clustering(domains, schema_of(metadata), properties, metadata.partition_columns)
        except InvalidInputError:
            detail = (
                "or an earlier commit changed the table's columns, or those that it is clustered by, and what the"
                " branch changed of these does not go with it"
            )
            conflict(self._work.table, "MetadataChangedError", self._state, detail, self._next_step)

    @property
    def _has_loaded(self) -> bool:
        return any(map(is_of_loaded_files, self._work.changed_domains))

    @property
    def _changed(self) -> list[str]:
        return [name for name in self._work.changed_domains if not is_of_loaded_files(name)]

    def _is_kept(self, name: str) -> bool:
        """Whether what the branch made of a domain differs from what the table has."""
        if self._ours.get(name) == self._theirs.get(name):
            return False
        if name in self._changed_by_others:
            detail = f"or an earlier commit changed metadata domain {name!r}, as the branch does"
            conflict(self._work.table, "MetadataChangedError", self._state, detail, self._next_step)
        return True

    @cached_property
    def _changed_by_others(self) -> frozenset[str]:
        """The domains that others changed since the branch began, or published last; all if nobody can tell."""
        origin, names = self._work.origin, set[str]()
        first, last = origin.base_version + 1, self._state.version
        try:
            for commit in self._work.table.log.commits_between(first, last, files=False) if first <= last else ():
                if published_by(commit, app_id_of(origin)) is not None:
                    names.clear()
                else:
                    names.update(each.domain for each in commit.actions if type(each) is DomainMetadata)
        except NotFoundError:
            return frozenset(self._work.changed_domains)
        return frozenset(names)

    def _united(self) -> Iterator[DomainMetadata]:
        """The notes of the files that either side loaded, where the table has them."""
        ours, theirs = LoadedFiles(self._ours), LoadedFiles(self._theirs)
        twice = len(self._work.loaded & theirs.digests)
        if twice:
            files = "a file" if twice == 1 else f"{twice:,} files"
            detail = f"or an earlier commit loaded {files} that the branch loaded too: the rows would be there twice"
            conflict(self._work.table, "ConcurrentAppendError", self._state, detail, _LOADED_TWICE)
        new = {each.domain: each for each in theirs.noting_all(ours)}
        yield from ({name: each for name, each in self._theirs.items() if is_of_loaded_files(name)} | new).values()
