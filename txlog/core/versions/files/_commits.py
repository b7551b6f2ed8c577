"""Reads commits by version: one, the next ones, or all commits of a segment's plan; and which may not be on disk yet.

In: versions. Out: ``Commit`` values in ascending order. A listing is never assumed to be complete; only a
direct "not found" counts. PROTOCOL.md, "Delta Log Entries", "Log Compaction Files".

A hole below a durable commit would make the table unreadable. txlog syncs each commit; deltalake and Spark leave it to
the kernel when theirs reach the disk. So before the next commit, or a checkpoint, `unsynced_versions` finds those that
a power cut could still undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from txlog.core import ambient
from txlog.core.format.actions import CommitInfo
from txlog.core.format.commit_file import Commit, LogLimits, parse_actions, parse_commit
from txlog.core.format.log_names import LogFile
from txlog.core.format.properties import TableProperties
from txlog.core.parallel import begin, parallel_map
from txlog.core.store import TableStore
from txlog.core.util import logger
from txlog.core.versions.decisions.segment import LogSegment, is_stray
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files._listing import list_log
from txlog.errors import CorruptLogError, NotFoundError, StorageError, TableNotFoundError

_RECENT_S = 60.0
_HELD_BYTES = 1 << 20
_PARALLEL_FROM = 2  # a thread costs far less than a request
_PARALLEL = 16

T = TypeVar("T")
R = TypeVar("R")


class CommitBodies:
    """The bytes of the commits that one load of a version asks for. Where reading is a request, what follows it need
    not ask for them again, and some are asked for before it is known that they exist. Thread-safe."""

    def __init__(self) -> None:
        self._since = ambient.instant()
        self._ahead: dict[int | str, Callable[[], bytes]] = {}
        self._held: dict[int | str, bytes] = {}
        self._held_bytes = 0

    @property
    def age_s(self) -> float:
        """Seconds since the load began."""
        return ambient.age_s(self._since)

    def ask(self, key: int | str, read: Callable[[Any], bytes]) -> None:
        """Begin to read a version, or a file by its name, which need not be there."""
        self._ahead[key] = begin(partial(read, key))

    def get(self, key: int | str) -> bytes | None:
        """The bytes, if they are here."""
        return self._held.get(key)

    def of(self, key: int | str, read: Callable[[Any], bytes]) -> bytes:
        """The bytes, read if they are not here. Raises what ``read`` raises."""
        found = self._held.get(key)
        if found is not None:
            return found
        asked = self._ahead.pop(key, None)
        try:
            body = read(key) if asked is None else asked()
        except (NotFoundError, StorageError):
            if asked is None:
                raise
            body = read(key)  # it may have landed since
        if self._held_bytes + len(body) <= _HELD_BYTES:
            self._held_bytes += len(body)
            self._held[key] = body
        return body


class CommitReader:
    """Reads the commits of one table, all of them through ``bodies``, if there are any. Thread-safe.

    ``recent`` are those of the last load, for who reads the same commits soon after it.
    """

    def __init__(self, store: TableStore, limits: LogLimits, bodies: CommitBodies | None = None) -> None:
        self._store = store
        self.versions = store.versions
        self._limits = limits
        self._bodies = bodies
        self._recent: CommitBodies | None = None

    def through(self, bodies: CommitBodies) -> CommitReader:
        """The same, through these ``bodies``."""
        return CommitReader(self._store, self._limits, bodies)

    def keep(self, bodies: CommitBodies) -> None:
        """Remember them as `recent`."""
        self._recent = bodies

    def recent(self, within_s: float) -> CommitBodies | None:
        """What the last load read, if it began within these seconds: who deleted the table and made it again has other
        commits."""
        found = self._recent
        return None if found is None or found.age_s > within_s else found

    def read(self, version: int, *, files: bool = True, bodies: CommitBodies | None = None) -> Commit:
        """One commit. Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError``."""
        try:
            body = self._body(version, bodies)
        except TableNotFoundError:
            raise
        except NotFoundError as error:
            name = self.versions.name_of(version)
            message = f"version {version} is not in the log"
            raise NotFoundError(message, table=self._store.uri, version=version, path=name) from error
        return self.parsed(body, version, files=files)

    def _body(self, version: int, bodies: CommitBodies | None = None) -> bytes:
        bodies = bodies or self._bodies
        return self.versions.read(version) if bodies is None else bodies.of(version, self.versions.read)

    def parsed(self, body: bytes, version: int, *, files: bool = True) -> Commit:
        """The commit with the bytes ``body``. Raises ``CorruptLogError``, which names its file."""
        name = self.versions.name_of(version)
        return parse_commit(body, version, name=name, table=self._store.uri, limits=self._limits, files=files)

    def following(
        self, version: int, *, files: bool, most: int, on_found: Callable[[], None] | None = None
    ) -> list[Commit]:
        """Up to ``most`` commits after ``version``, until one is absent; ``on_found`` is called at the first.

        They are read one after another; where a read is a request, the more at once the more there are, since others
        land meanwhile.
        """
        found: list[Commit] = []
        at_once = 1
        while len(found) < most:
            first = version + 1 + len(found)
            wanted = range(first, first + min(at_once, most - len(found)))
            read = list(self._map(lambda each: self.read_if_there(each, files=files), wanted))
            for commit in read:
                if commit is None:
                    return found
                found.append(commit)
                if on_found is not None and len(found) == 1:
                    on_found()
            if len(found) > 1 and not self.versions.capabilities.has_cheap_calls:
                at_once = min(2 * at_once, _PARALLEL)
        return found

    def read_if_there(self, version: int, *, files: bool) -> Commit | None:
        """One commit; None if it is not there."""
        try:
            body = self._body(version)
        except TableNotFoundError:  # the owner says that there is no table any more
            raise
        except NotFoundError:
            return None
        return self.parsed(body, version, files=files)

    def read_range(self, first: int, last: int, *, files: bool) -> Iterator[Commit]:
        """Every commit of ``[first, last]``, ascending. Raises ``NotFoundError`` at the first that is absent."""
        return self._map(lambda version: self.read(version, files=files), range(first, last + 1))

    def is_stray(self, version: int, known: TableState | None) -> bool:
        """Whether the commit at ``version`` was put after later versions, when the log had been cleaned up.

        It takes a listing. Only ask if a writer may have been suspended for longer than the ``known`` state's
        retention. Raises ``NotFoundError`` if there is no such commit, ``StorageError``.
        """
        capabilities = self.versions.capabilities
        commit = self.versions.stat(version)
        if capabilities.remembers_versions:
            return False
        properties = known.properties if known else TableProperties()
        slack_ms = properties.log_retention_ms // 2  # a stray is younger than later versions by the whole retention
        looks = 1 if capabilities.lists_completely else 2  # one listing may miss a name
        return all(
            is_stray(commit, list_log(self._store, version + 1), version, slack_ms=slack_ms) for _ in range(looks)
        )

    def read_plan(self, segment: LogSegment, *, files: bool) -> Iterator[Commit]:
        """What follows the segment's checkpoint, ascending; a compacted file becomes one ``Commit``.

        The single commits replace a compacted file that cannot be read. Raises what `read_range` raises.
        """
        recent = self.recent(_RECENT_S)
        chunks = self._map(lambda planned: self._read_planned(planned, recent, files=files), list(segment.plan()))
        return (commit for chunk in chunks for commit in chunk)

    def _read_planned(self, planned: int | LogFile, recent: CommitBodies | None, *, files: bool) -> Sequence[Commit]:
        if isinstance(planned, int):
            return (self.read(planned, files=files, bodies=recent),)
        try:
            return (self._read_compacted(planned, files=files),)
        except (CorruptLogError, NotFoundError) as error:
            logger.warning("%s: reading single commits, since a compacted file is damaged: %s", self._store.uri, error)
            return [self.read(version, files=files) for version in range(planned.first_version, planned.version + 1)]

    def _read_compacted(self, file: LogFile, *, files: bool) -> Commit:
        body = self._store.log.read(file.name)
        parsed = parse_actions(
            body, file.name, version=file.version, table=self._store.uri, limits=self._limits, files=files
        )
        actions = [action for action in parsed if action is not None and type(action) is not CommitInfo]
        # After reconciliation, each file has one action. If a writer kept several, the newest comes first, as the Delta
        # kernel reads and some writers write them; it must be applied last.
        actions.reverse()
        if not body.strip():
            raise CorruptLogError(f"{file.name} is empty", table=self._store.uri, path=file.name)
        return Commit(file.version, tuple(actions), None, len(body), not files)

    def _map(self, read: Callable[[T], R], wanted: Sequence[T]) -> Iterator[R]:
        """Read in order; in parallel if each read is a request and there are many. A window bounds the memory."""
        if self.versions.capabilities.has_cheap_calls or len(wanted) < _PARALLEL_FROM:
            yield from map(read, wanted)
            return
        yield from parallel_map(read, wanted, threads=_PARALLEL)


# --- commits that a power cut could still undo ---------------------------------------------------------------------


_WRITTEN_BACK_MS = 120_000  # by then a kernel has written unsynced pages to disk by itself


def unsynced_versions(
    commits: CommitReader, version: int, newest_foreign: int, durable_version: int, *, keeps_order: bool
) -> list[int]:
    """Versions up to ``version``, newest first, that may not be on disk.

    ``newest_foreign`` is the newest version, up to ``version`` or above it, that another engine may have committed.
    This handle has made ``durable_version`` and everything below it durable (-1 if none): then ``version`` is not
    trusted even if txlog wrote it, since the table may be a copy. Everything below a txlog commit is on disk, since its
    writer synced it first. The commit itself is on disk too, if the disk ``keeps_order`` of names: our own sync covers
    it. Below another engine's commit, a txlog commit may not be on disk: its writer may have stopped before the sync,
    and the other engine committed on top without one.
    """
    is_settled_by_ours = durable_version >= 0 and newest_foreign < version and keeps_order
    if durable_version >= version or is_settled_by_ours:
        return []
    found = [version]
    if newest_foreign < version - 1 or not commits.versions.capabilities.needs_sync:
        return found
    for below in range(version - 1, durable_version, -1):
        try:
            if _was_written_back(commits, below):
                break
            found.append(below)
            if not commits.read(below, files=False).is_foreign:
                break
        except NotFoundError:
            break
    return found


def _was_written_back(commits: CommitReader, version: int) -> bool:
    """Whether the commit is so old that the kernel has written it to disk by itself. Raises ``NotFoundError``."""
    age_ms = ambient.now_ms() - commits.versions.stat(version).modified_ms
    age_ms -= int(1000 * ambient.suspended_s())  # nothing is written back while suspended
    return age_ms >= _WRITTEN_BACK_MS
