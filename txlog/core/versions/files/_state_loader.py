"""Loads one version from the store: checksum file or checkpoint, then commits, with a fallback if one fails.

In: a table's store. Out: a ``TableState`` (``_file_loader`` loads its files). A corrupt or missing hint, checksum or
checkpoint costs time and a warning, never a wrong result; a commit that is absent when requested by name is a gap.
PROTOCOL.md, "Action Reconciliation", "Last Checkpoint File", "Version Checksum File".
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from txlog.core.format.commit_file import PUT_BACK, Commit, LogLimits
from txlog.core.format.features import check_can_read, check_owner
from txlog.core.format.log_names import LogFile, checksum_name
from txlog.core.parallel import begin
from txlog.core.store import TableStore
from txlog.core.util import logger
from txlog.core.versions.decisions.checkpoint.hint import LastCheckpoint
from txlog.core.versions.decisions.checksum import parse_checksum
from txlog.core.versions.decisions.segment import CheckpointFiles, LogListing, LogSegment, choose_segment
from txlog.core.versions.decisions.state import StateBuilder, TableState, commit_mark
from txlog.core.versions.files._commits import CommitBodies, CommitReader
from txlog.core.versions.files._listing import list_log, read_hint
from txlog.core.wording import advice
from txlog.errors import CorruptLogError, NotFoundError, TableNotFoundError, TxlogError

T = TypeVar("T")

_ASKED_AHEAD = 10
"""A checkpoint follows about that many commits, so most logs have no more of them after the last one."""
_PROBED = 256
"""How many commits are requested by name and held at once. If so many follow the hint's checkpoint, a listing looks for
a newer one."""


class StateLoader:
    """Loads versions of one table. Thread-safe: it keeps no state."""

    def __init__(self, store: TableStore, limits: LogLimits, time_zone: str) -> None:
        self._store = store
        self._time_zone = time_zone
        self._table = store.uri
        self._limits = limits
        self._commits = CommitReader(store, limits)
        self._bodies: CommitBodies | None = None
        self._versions = store.versions
        self._has_cheap_calls = store.has_cheap_calls
        self._lists = store.versions.capabilities.lists_completely
        self._owner_knows = store.versions.capabilities.remembers_versions
        # A list of a local folder reads every name in it.
        self._probes = not self._lists or (self._owner_knows and self._has_cheap_calls)

    # --- states ------------------------------------------------------------------------------------------

    def load(self, *, keeps: bool = False) -> tuple[TableState, CommitBodies | None]:
        """The newest version, and the commits that it was loaded from, if each is a request, or if it ``keeps`` them.

        Raises ``TableNotFoundError``, ``CorruptLogError``, ``StorageError``.
        """
        hint = read_hint(self._store.log, self._table)
        state = self._probe_from(hint) if hint and self._probes else None
        bodies = None
        if state is None:
            state, bodies = self._load_ahead(None, hint, keeps=keeps)
            state = state if self._lists else self.catch_up(state)
        return self._with_commit_timestamp(state), bodies

    def load_at(self, version: int) -> tuple[TableState, CommitBodies | None]:
        """One version, and the commits that it read, as `load`. Raises ``NotFoundError`` if it does not exist (yet, or
        no longer), otherwise what `load` raises."""
        hint = read_hint(self._store.log, self._table)
        usable = hint if hint and hint.version <= version else None
        state, bodies = self._load_ahead(version, usable)
        return self._with_commit_timestamp(state), bodies

    def _load_ahead(
        self, target: int | None, hint: LastCheckpoint | None, *, keeps: bool = False
    ) -> tuple[TableState, CommitBodies | None]:
        """`_load_listed`, and what it read. If reading is a request, the commits that probably follow the hint's
        checkpoint are asked for at the same time as the list that shows which of them are there."""
        if self._owner_knows or (self._has_cheap_calls and not keeps):
            return self._load_listed(target, hint), None
        bodies = CommitBodies()
        if hint is not None and not self._has_cheap_calls:
            last = hint.version + _ASKED_AHEAD if target is None else min(target, hint.version + _ASKED_AHEAD)
            bodies.ask(checksum_name(hint.version), self._store.log.read)
            for version in range(hint.version, last + 1):
                bodies.ask(version, self._versions.read)
        loader = copy.copy(self)
        loader._commits, loader._bodies = self._commits.through(bodies), bodies
        return loader._load_listed(target, hint), bodies

    def catch_up(self, state: TableState, on_found: Callable[[], None] | None = None) -> TableState:
        """``state`` advanced to the newest version, by requesting commit after commit (see `following`)."""
        while following := self._commits.following(state.version, files=False, most=_PROBED, on_found=on_found):
            state = self._advanced(state, following)
            if len(following) < _PROBED:
                break
        return state

    def _advanced(self, state: TableState, commits: Iterable[Commit]) -> TableState:
        builder = StateBuilder(state)
        segment = state.segment
        for commit in commits:
            builder.apply_commit(commit)
            segment = segment.extended(commit.size_bytes)
        return state if segment is state.segment else self._built(builder, segment)

    def _probe_from(self, hint: LastCheckpoint) -> TableState | None:
        """Load without a listing: the hinted checkpoint, then commit after commit. None if a listing is needed."""
        if hint.files is None:
            return None
        sizes = self._sizes_after(hint.version)
        if sizes is None:
            return None
        try:
            if not sizes:
                # No newer commit: either this is the newest version, or the successors of the checkpoint were cleaned
                # up. The commit at a checkpoint is kept as long as those after it.
                self._versions.stat(hint.version)
            for name in hint.files.names:  # a checksum file would hide that the log has lost its start
                self._store.log.stat(name)
            segment = LogSegment(hint.version + len(sizes), hint.files, tail_bytes=sum(sizes))
            for version in range(segment.version, hint.version - 1, -1):
                known = self._from_checksum(version, segment)
                if known is not None:
                    return known if self._owner_knows else self.catch_up(known)
            state = self._at_checkpoint(hint.files)
            if self._owner_knows:  # it said which version is the newest; to request the next one would ask it again
                return self._advanced(state, self._commits.read_range(hint.version + 1, segment.version, files=False))
            following = self._commits.following(hint.version, files=False, most=_PROBED)
        except NotFoundError:
            return None
        except CorruptLogError as error:
            if error.path not in hint.files.names:
                raise
            return None  # the load with a listing reads it again and reports the error
        return self._advanced(state, following) if len(following) < _PROBED else None

    def _load_listed(self, target: int | None, hint: LastCheckpoint | None) -> TableState:
        start = hint.version if hint else 0
        try:
            return self._load_from(self._list(start), start, target)
        except NotFoundError as error:
            if target is None and isinstance(error, TableNotFoundError):
                raise
            # The log may have been cleaned up meanwhile, or the hint may be stale: list the whole log once more.
            return self._load_whole(target)

    def _load_whole(self, target: int | None) -> TableState:
        listing = self._list(0)
        try:
            return self._load_from(listing, 0, target)
        except TableNotFoundError:
            raise
        except NotFoundError as error:
            raise self._absent(listing, target, error.version) from error

    def _beside(self, work: Callable[[], T]) -> Callable[[], T]:
        """``work``, begun now if it is a request; otherwise it is done when its result is needed."""
        return work if self._has_cheap_calls else begin(work)

    def _load_from(self, listing: LogListing, start: int, target: int | None) -> TableState:
        """Raises ``NotFoundError`` at the first commit that is absent."""
        excluded: frozenset[tuple[str, ...]] = frozenset()
        failure: CorruptLogError | None = None
        if target is not None and 0 <= listing.latest_version < target:
            # Check this first: the target may be far away, and all versions up to it would be requested by name.
            self._versions.stat(target)
        while True:
            segment = choose_segment(listing, target=target, excluded=excluded)
            if (segment is None or segment.checkpoint is None) and start:
                listing, start = self._list(0), 0
                continue
            if segment is None:
                raise self._no_table()
            known = self._from_newest_checksum(listing, segment)
            if known is not None:
                return known
            if segment.checkpoint is None:
                return self._fold_all(segment, failure)
            try:
                base = self._at_checkpoint(segment.checkpoint)
            except (CorruptLogError, NotFoundError) as error:
                logger.warning("%s: falling back to an older checkpoint or the commits: %s", self._table, error)
                failure = failure or as_corrupt(error, segment.checkpoint)
                excluded |= {segment.checkpoint.names}
                continue
            return self._fold(StateBuilder(base), segment)

    def _fold_all(self, segment: LogSegment, failure: CorruptLogError | None) -> TableState:
        """Load from the first commit. If the log no longer has it, the error names the checkpoint that failed."""
        try:
            return self._fold(StateBuilder(), segment)
        except NotFoundError:
            if failure is not None:
                raise failure from None
            raise

    def _fold(self, builder: StateBuilder, segment: LogSegment) -> TableState:
        tail_bytes = 0
        ends_compacted = bool(segment.compacted) and isinstance([*segment.plan()][-1], LogFile)
        newest = self._beside(self._newest_of(segment)) if ends_compacted else None
        for commit in self._commits.read_plan(segment, files=False):
            builder.apply_commit(commit)
            tail_bytes += commit.size_bytes
        if newest is not None:
            builder.end_with(newest())
        return self._built(builder, replace(segment, tail_bytes=tail_bytes))

    def _newest_of(self, segment: LogSegment) -> Callable[[], Commit | None]:
        """Reads the segment's newest commit, for what its compacted file leaves out; None if it cannot be read."""

        def read() -> Commit | None:
            try:
                return self._commits.read_if_there(segment.version, files=False)
            except CorruptLogError:
                return None

        return read

    # --- checksum files ----------------------------------------------------------------------------------

    def _from_newest_checksum(self, listing: LogListing, segment: LogSegment) -> TableState | None:
        """The state from the newest checksum file in the listing, if that saves reads.

        Only if the version's files can be found too: a log that lost its start must be reported immediately.
        """
        if segment.checkpoint is None and 0 not in listing.commits:
            return None
        first = segment.first_commit - 1 if segment.checkpoint else 0
        version = next((found for found in listing.checksums if first <= found <= segment.version), None)
        if version is None or segment.version - version >= sum(1 for _ in segment.plan()) + 1:
            return None
        try:
            commits = range(segment.first_commit, segment.version + 1)
            tail_bytes = sum(self._listed_size(listing, commit) for commit in commits)
        except NotFoundError:
            return None
        return self._from_checksum(version, replace(segment, tail_bytes=tail_bytes))

    def _from_checksum(self, version: int, segment: LogSegment) -> TableState | None:
        """The state of ``segment`` from ``version.crc`` and the commits after it; None if that file cannot be used.

        The file is used only if its version's commit exists, and if it has everything but the file list.
        """
        first = self._beside(partial(self._commits.read, version, files=False))
        following = self._beside(lambda: list(self._commits.read_range(version + 1, segment.version, files=False)))
        try:
            name, read = checksum_name(version), self._store.log.read
            body = read(name) if self._bodies is None else self._bodies.of(name, read)
            commit = first()
        except NotFoundError:
            return None
        found = parse_checksum(body, version, limits=self._limits)
        if found is None or not found.agrees_with(commit):
            logger.warning("%s: %s is damaged or of another commit: ignored", self._table, checksum_name(version))
            return None
        if not found.is_whole:
            return None
        builder = StateBuilder()
        builder.start_from(found.actions, found.totals, found.in_commit_timestamp_ms)
        builder.mark = commit_mark(commit)
        for commit in following():
            builder.apply_commit(commit)
        state = self._built(builder, segment)
        try:
            state.schema, state.properties  # noqa: B018 -- parsed as they are asked for
            check_can_read(state.protocol, state.metadata)
        except TxlogError as error:  # the checkpoint decides, and may raise the same error
            logger.warning("%s: %s is ignored: %s", self._table, checksum_name(version), error)
            return None
        return state

    def _listed_size(self, listing: LogListing, version: int) -> int:
        file = listing.commits.get(version)
        return file.size if file is not None else self._versions.stat(version).size

    def _sizes_after(self, version: int) -> list[int] | None:
        """The sizes of all commits after ``version``, found by name; None if there are many, or one is missing."""
        sizes: list[int] = []
        if self._owner_knows:
            tail = self._versions.tail(version, {})
            is_dense = len(tail) == max(tail, default=version) - version < _PROBED
            return [file.size for file in tail.values()] if is_dense else None
        with contextlib.suppress(NotFoundError):
            while len(sizes) < _PROBED:
                sizes.append(self._versions.stat(version + 1 + len(sizes)).size)
        return sizes if len(sizes) < _PROBED else None

    # --- checkpoints -------------------------------------------------------------------------------------

    def _at_checkpoint(self, checkpoint: CheckpointFiles) -> TableState:
        """The state at the checkpoint itself. Raises ``CorruptLogError`` (naming it), ``NotFoundError``."""
        from txlog.core.versions.files._checkpoint_reader import CheckpointReader

        builder = StateBuilder()
        builder.apply(CheckpointReader(self._store, self._limits).small_actions(checkpoint))
        return self._built(builder, LogSegment(checkpoint.version, checkpoint))

    def _with_commit_timestamp(self, state: TableState) -> TableState:
        """Add the commit's timestamp if the table keeps them: the next commit needs it, and a checkpoint has none."""
        if state.in_commit_timestamp_ms is not None or not state.properties.in_commit_timestamps:
            return state
        try:
            commit = self._commits.read(state.version, files=False)
        except NotFoundError:
            return state
        return replace(state, in_commit_timestamp_ms=commit.in_commit_timestamp_ms)

    # --- small things ------------------------------------------------------------------------------------

    def _built(self, builder: StateBuilder, segment: LogSegment) -> TableState:
        state = builder.build(segment, self._time_zone, table=self._table, first=self._versions.name_of(0))
        with TxlogError.located(self._table, state.version):
            check_owner(state.protocol, is_owned=self._versions.capabilities.publishes, known_as=self._store.known_as)
        return state

    def _list(self, version: int) -> LogListing:
        return list_log(self._store, version)

    def _no_table(self) -> TableNotFoundError:
        return TableNotFoundError(
            "there is no Delta table here: the log has neither a commit nor a checkpoint. Check the location, or"
            f" {advice('create the table', 'create the table')}",
            table=self._table,
        )

    def _absent(self, listing: LogListing, target: int | None, missing: int | None) -> NotFoundError | CorruptLogError:
        newest = listing.latest_version
        if target is not None and target > newest:
            return NotFoundError(
                f"version {target} does not exist; the newest is {newest}", table=self._table, version=target
            )
        starts = [checkpoint.version for checkpoint in listing.checkpoints]
        starts += [0] if 0 in listing.commits else []
        if target is not None and (not starts or target < min(starts)):
            earliest = f"the earliest is {min(starts)}" if starts else "none is"
            return NotFoundError(
                f"version {target} can no longer be read, since the log was cleaned up; {earliest}",
                table=self._table,
                version=target,
            )
        return CorruptLogError(
            f"the log has a gap: version {missing} is missing although version {newest} exists, and no"
            " checkpoint replaces it",
            table=self._table,
            version=missing,
            path=None if missing is None else self._versions.name_of(missing),
            repair=f"The versions from there on {PUT_BACK}",
        )


def as_corrupt(error: CorruptLogError | NotFoundError, checkpoint: CheckpointFiles) -> CorruptLogError:
    """The error for an unreadable checkpoint that nothing older can replace."""
    repair = f"The log before this checkpoint is cleaned up, so the table {PUT_BACK}"
    if isinstance(error, CorruptLogError):
        error.repair = repair
        return error
    return CorruptLogError(
        f"checkpoint file {error.path} is missing: {error.message}",
        table=error.table,
        version=checkpoint.version,
        path=error.path,
        repair=repair,
    )
