"""Clones a version of a table: shallow, which reads the source's files, or deep, which has copies of them.

In: two open locations and `CloneOptions`. Out: a `CloneResult`, and one version of the clone with the definition and
the rows of the source. A clone over an existing table replaces its rows; if row tracking is new to that table, the
files that stay get row ids first, in versions of their own. A deep clone that is run again copies the files that it
does not have yet, and continues a run that ended early: what that run copied is found by name. Copies are therefore not
deleted when a run fails; a vacuum removes those that no run took. PROTOCOL.md, "Add File and Remove File", "Deletion
Vectors".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from txlog.core import ambient
from txlog.core.changes.plan import ChangeFiles
from txlog.core.definition import Definition, cloned, define, give_row_ids, probe_new_location
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.column_mapping import physical_names
from txlog.core.format.features import check_can_read
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import canonical_path, is_hidden, uri_of
from txlog.core.format.properties import TableProperties
from txlog.core.progress import OnDone
from txlog.core.util import invalid, one_of
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import setting
from txlog.core.workers import GivenWorkers, Workers
from txlog.errors import (
    InvalidInputError,
    MetadataChangedError,
    ProtocolChangedError,
    TableExistsError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.loading.cloned_files import Copies, Referring
from txlog.loading.copy_files import CopyFile
from txlog.loading.source_folders import place_below, root_of
from txlog.result.maintenance import CloneResult

COPIES_AT_ONCE = 8
_MODES = ("error", "ignore", "replace")


class CloneOptions(msgspec.Struct, frozen=True):
    """The arguments of `Table.clone`."""

    is_shallow: bool
    mode: str = "error"
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    user_metadata: str | None = None


def clone(
    source: OpenTable,
    *,
    state: TableState,
    target: OpenTable,
    on_progress: OnDone | None = None,
    workers: GivenWorkers | None = None,
    **given: Any,
) -> CloneResult:
    """Clone the version ``state`` of ``source``; the other arguments are those of `CloneOptions`.

    Raises what `Table.clone` raises.
    """
    options, version = CloneOptions(**given), state
    if options.mode not in _MODES:
        raise invalid("mode", options.mode, one_of(_MODES))
    _check_places(source, target, is_shallow=options.is_shallow)
    with TxlogError.located(source.uri, version.version):
        check_can_read(version.protocol, version.metadata)
    there = target.state_if_exists()
    if there is not None and options.mode == "ignore":
        return CloneResult(target.uri, there.version, version.version, "ignored", options.is_shallow)
    if there is not None and options.mode == "error":
        raise _exists(target.uri)
    if there is None:
        probe_new_location(target)
    else:
        target.check_writable(there)
    target.given_workers(workers)  # they must be able to open both tables
    return _Clone(source, version, target, there, options, on_progress, source.workers(workers, COPIES_AT_ONCE)).run()


class _ClonePlan(msgspec.Struct, frozen=True):
    """What a run commits, and the copies that it makes before. ``kept`` are live files that stay as they are."""

    definition: Definition
    files: Sequence[AddFile]
    copies: Copies | None
    added: Sequence[AddFile]
    removed: Sequence[AddFile]
    kept: Sequence[AddFile]

    @property
    def breaks_promise(self) -> bool:
        """Whether the clone would promise row ids that a file lacks: its commit gives some to new files alone."""
        properties = TableProperties.of(self.definition.metadata.configuration)
        return properties.enable_row_tracking and any(add.base_row_id is None for add in self.kept)


class _Clone:
    def __init__(
        self,
        source: OpenTable,
        version: TableState,
        target: OpenTable,
        there: TableState | None,
        options: CloneOptions,
        on_files: OnDone | None,
        workers: Workers,
    ) -> None:
        self._workers = workers
        self._source = source
        self._version = version
        self._target = target
        self._there = there
        self._options = options
        self._on_files = on_files or (lambda done, total: None)
        self._files_copied = self._bytes_copied = 0

    def run(self) -> CloneResult:
        found = add_files_of(self._source.log.files(self._version))
        while (plan := self._plan(found)).breaks_promise:
            give_row_ids(self._target, self._options.user_metadata)
            self._there = self._target.writable_state()
        self._copy(plan.copies)
        there, added, removed = self._there, plan.added, plan.removed
        if there is not None and not added and not removed and _is_same(there, plan.definition):
            return self._result(there.version, "unchanged", plan.files, 0, 0)
        committed = self._commit(plan.definition, added, removed, found)
        return self._result(committed, "committed", plan.files, len(added), len(removed))

    def _plan(self, found: Sequence[AddFile]) -> _ClonePlan:
        """What makes the table that is there the clone."""
        there = self._there
        with TxlogError.located(self._target.uri, None if there is None else there.version):
            needed = self._target.store.new_properties if there is None else {}
            definition = cloned(self._version, there, {**needed, **self._options.properties})
        live = [] if there is None else add_files_of(self._target.log.files(there))
        copies = None if self._options.is_shallow else self._copies(live, definition)
        files = self._referring(found) if copies is None else [copies.copied(add) for add in found]
        has, wants = ({_key(add): add for add in adds} for adds in (live, files))
        if len(wants) < len(files):
            raise InvalidInputError(
                "the source lists a file twice, so it cannot be cloned: `txlog verify` checks it",
                table=self._source.uri,
                version=self._version.version,
            )
        return _ClonePlan(
            definition=definition,
            files=files,
            copies=copies,
            added=[add for key, add in wants.items() if key not in has],
            removed=[add for key, add in has.items() if key not in wants],
            kept=[add for key, add in has.items() if key in wants],
        )

    def _result(self, version: int, outcome: Any, files: Sequence[AddFile], added: int, removed: int) -> CloneResult:
        return CloneResult(
            uri=self._target.uri,
            version=version,
            source_version=self._version.version,
            outcome=outcome,
            is_shallow=self._options.is_shallow,
            files=len(files),
            size_bytes=sum(add.size for add in files),
            files_added=added,
            files_removed=removed,
            files_copied=self._files_copied,
            bytes_copied=self._bytes_copied,
        )

    # --- the files --------------------------------------------------------------------------------------------------

    def _referring(self, found: Sequence[AddFile]) -> list[AddFile]:
        files = Referring(uri_of(self._source.uri), place_below(self._target.uri))
        with TxlogError.located(self._source.uri, self._version.version):
            return [files.named(add) for add in found]

    def _copies(self, live: Sequence[AddFile], definition: Definition) -> Copies:
        """Which copies of the source's files the table has, and which it lacks."""
        retention_ms = self._version.defined_as(definition.metadata).properties.deleted_file_retention_ms
        oldest_ms = ambient.now_ms() - retention_ms // 2
        columns = physical_names(self._version.schema, self._version.partition_columns)

        def left_behind() -> Iterator[tuple[str, int]]:
            for page in self._target.store.files.list(skip=lambda path: is_hidden(path, columns)):
                yield from ((each.name, each.size) for each in page if each.modified_ms >= oldest_ms)

        suffix = ambient.uuid4().replace("-", "")[:8]
        return Copies(self._source.uri, self._version.metadata.id, live, left_behind, suffix)

    def _copy(self, copies: Copies | None) -> None:
        """Copy what the table lacks; a shallow clone has no copies."""
        if copies is None:
            return
        self._target.store.files.make_durable(sorted(copies.found), with_contents=True)
        wanted = [*copies.wanted.values()]
        work = CopyFile(self._source.task_store(), self._target.task_store(), self._version.version)
        for _, size_bytes in self._workers.map(work, wanted):
            self._files_copied += 1
            self._bytes_copied += size_bytes
            self._on_files(self._files_copied, len(wanted))

    # --- the commit -------------------------------------------------------------------------------------------------

    def _commit(
        self, definition: Definition, added: Sequence[AddFile], removed: Sequence[AddFile], found: Sequence[AddFile]
    ) -> int:
        there, target = self._there, self._target
        with target.unsent_files() as unsent:
            builder = ProposalBuilder(there)
            define(builder, definition if there is None else _changes(there, definition))
            builder.read_table()
            builder.give_new_row_ids()
            builder.remove(*removed)
            builder.add(*added, are_new=False)
            change_files = there and ChangeFiles.of(target, there, unsent, definition.metadata)
            if change_files:
                change_files.finish(builder)
            try:
                info = self._info(found, removed)
                done = target.commit_change(builder, info, Isolation.SERIALIZABLE, unsent=unsent)
            except (MetadataChangedError, ProtocolChangedError):
                if there is not None:
                    raise
                raise _exists(target.uri) from None  # a concurrent writer created it first
        assert done.version is not None
        return done.version

    def _info(self, found: Sequence[AddFile], removed: Sequence[AddFile]) -> OperationInfo:
        metrics = {
            "sourceTableSize": sum(add.size for add in found),
            "sourceNumOfFiles": len(found),
            "numRemovedFiles": len(removed),
            "removedFilesSize": sum(add.size for add in removed),
            "numCopiedFiles": self._files_copied,
            "copiedFilesSize": self._bytes_copied,
        }
        return OperationInfo(
            "CLONE",
            operation_parameters(
                source=f"delta.`{self._source.uri}`",
                sourceVersion=self._version.version,
                isShallow=self._options.is_shallow,
            ),
            metrics={name: str(value) for name, value in metrics.items()},
            user_metadata=self._options.user_metadata,
        )


def _key(add: AddFile) -> tuple[str, str | None]:
    return canonical_path(add.path), add.key[1]


def _changes(there: TableState, definition: Definition) -> Definition:
    """What of a definition the table does not have. Its metadata is committed again, so a concurrent change of the
    definition is a conflict."""
    return Definition(
        definition.metadata,
        None if there.protocol == definition.protocol else definition.protocol,
        tuple(each for each in definition.domains if there.domains.get(each.domain) != each),
    )


def _is_same(there: TableState, definition: Definition) -> bool:
    left = _changes(there, definition)
    return there.metadata == definition.metadata and left.protocol is None and not left.domains


def _exists(uri: str) -> TableExistsError:
    message = f"there is already a table here; {setting('mode', 'replace')} makes it the clone"
    return TableExistsError(message, table=uri)


def _check_places(source: OpenTable, target: OpenTable, *, is_shallow: bool) -> None:
    roots = [f"{root_of(each.uri)}/" for each in (source, target)]
    # Other accounts and servers have containers and buckets of the same name.
    is_elsewhere = "://" in source.uri and source.storage_options != target.storage_options and not is_shallow
    if roots[0] == roots[1] and not is_elsewhere:
        raise InvalidInputError("a table cannot be cloned to its own location", table=source.uri)
    if (roots[0].startswith(roots[1]) or roots[1].startswith(roots[0])) and not is_elsewhere:
        raise InvalidInputError(
            f"{target.uri} and {source.uri} are inside each other, so a vacuum of the outer table would delete files of"
            " the inner one: clone to a folder next to the table",
            table=source.uri,
        )
    if is_shallow and target.store.owner is not None:
        raise UnsupportedFeatureError(
            "a managed table cannot be a shallow clone, since its catalog gives out credentials for the table's own"
            " folder alone: make a deep clone",
            table=target.uri,
        )
    if is_shallow and "://" not in source.uri and "://" in target.uri:
        raise InvalidInputError(
            "a table in an object store cannot be a shallow clone of one on this machine's disk, since other machines"
            " could not read it: make a deep clone",
            table=source.uri,
        )
