"""The versions of a table whose commits a catalog decides: staged, accepted, published.

In: attempts to commit. Out: what the catalog says of them. A commit is staged as a file of its own, the catalog accepts
it as version N or refuses it, and later somebody publishes it: copies it to the name that version N has in the log. The
catalog's word alone makes a version: a staged file is none without it, and neither is a published file that it does not
name yet. What the server does not check is checked here: version 1 follows 0, the staged file is there and whole, times
rise, and a version is reported as published only once it is on disk. What became of a commit is never read from the
status of an answer: the caller reads the version back. PROTOCOL.md, "Catalog-managed tables"; Unity Catalog,
"ManagedTablesSpec.md".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from txlog.catalogs.unity.client import Refused, TableName, Unanswered, UnityClient
from txlog.catalogs.unity.definition import creation, definition_updates
from txlog.catalogs.unity.messages import CommitRecord, LoadedTable, TableInfo
from txlog.errors import (
    CorruptLogError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TxlogError,
)
from txlog.protocol.commit_file import PUT_BACK
from txlog.protocol.log_names import STAGED, staged_name, staged_version
from txlog.store.base import LogCapabilities, LogStore, ObjectMeta, PutOutcome, RoundTrip
from txlog.store.versions import Attempt, FolderVersions, VersionFile
from txlog.util import ambient
from txlog.util.logs import logger
from txlog.util.parallel import new_lock

__all__ = ["CatalogLog"]

_PUBLISHED_FROM = 5
"""So many accepted commits are published before the next one. The server has room for some ten."""
_FIRST_LOOK_S = 1.0
"""What the catalog said when the name was resolved is still news for the load that follows at once."""


class _Known(msgspec.Struct, frozen=True):
    """What the catalog last said: the newest version (-1: there is no table), and commits that may be unpublished."""

    latest: int = -1
    commits: Mapping[int, CommitRecord] = {}
    info: TableInfo | None = None


class _InCommitTime(msgspec.Struct, rename="camel"):
    in_commit_timestamp: int


class _FirstLine(msgspec.Struct, rename="camel"):
    commit_info: _InCommitTime


class CatalogLog:
    """A `VersionLog` whose owner is a Unity Catalog server. Pickles without the token."""

    def __init__(
        self,
        client: UnityClient,
        name: TableName,
        table_id: str,
        folder: LogStore,
        *,
        maintains: bool = True,
        staged_at: str | None = None,
        loaded: tuple[LoadedTable, ambient.Instant] | None = None,
    ) -> None:
        """``folder`` is the log's folder. ``maintains``: whether the catalog alone maintains the table. ``staged_at``
        is the location of a table that is not made yet; ``loaded`` is what the catalog has said, and when it was asked.
        """
        self._client, self._name, self._table_id, self._folder = client, name, table_id, folder
        self._published_files = FolderVersions(folder)
        self._staged_at = staged_at
        self._lock, self._publishing = new_lock(), new_lock()
        self._known = _Known()
        self._published = -1  # up to here, every version is known to be in the folder, and durable
        self._is_dense = False  # whether the version before the first unpublished one was seen in the folder
        self._sent: dict[tuple[int, bytes], str] = {}  # by version and digest: the name under which it was staged
        self._round_trip = RoundTrip()
        self._first_look: ambient.Instant | None = None
        if loaded is not None:
            self._learn(loaded[0])
            self._first_look = loaded[1]
        self.capabilities = LogCapabilities(
            lists_completely=True,
            has_cheap_calls=False,
            refuses_taken_names=True,
            needs_sync=folder.capabilities.needs_sync,
            remembers_versions=True,
            publishes=True,
            maintains=maintains,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_opened, (self._client, self._name, self._table_id, self._folder, self.capabilities.maintains))

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, version: int) -> bytes:
        record = self._record(version)
        if record is None:
            return self._published_files.read(version)
        try:
            return _whole(record, self._folder.read(_staged_path(record.file_name)))
        except NotFoundError:  # published, and removed since
            return _whole(record, self._published_files.read(version))

    def stat(self, version: int) -> ObjectMeta:
        record = self._record(version)
        return self._published_files.stat(version) if record is None else _meta(record)

    def tail(self, after: int, listed: Mapping[int, VersionFile] | None = None) -> Mapping[int, VersionFile]:
        """Raises CorruptLogError if the newest version is lost, since an older one is not the answer."""
        look, self._first_look = self._first_look, None
        is_news = look is not None and ambient.age_s(look) < _FIRST_LOOK_S
        known = self._known if is_news else self._refreshed()
        found = dict(self._published_files.tail(after, listed))
        first = min(found, default=after + 1)  # what is below was cleaned up
        found.update((version, _meta(record)) for version, record in known.commits.items() if version > after)
        for version in range(max(first, after + 1), known.latest + 1):
            if version not in found:  # a listing may miss a name, or somebody published it since
                with contextlib.suppress(NotFoundError):
                    found[version] = self._published_files.stat(version)
        if known.latest > after and known.latest not in found:  # no cleanup takes the newest one
            self._refreshed()  # raises TableNotFoundError if the table was dropped, and its folder with it
            raise CorruptLogError(
                f"the catalog names version {known.latest} as the newest of {self._name}, and its file is missing",
                version=known.latest,
                path=FolderVersions.name_of(known.latest),
                repair=f"The version {PUT_BACK}",
            )
        return {version: found[version] for version in sorted(found) if version <= known.latest}

    def make_durable(self, version: int) -> None:
        record = self._record(version)
        if record is not None:
            with contextlib.suppress(NotFoundError):
                self._folder.make_durable(_staged_path(record.file_name))
                return
        self._published_files.make_durable(version)

    def round_trip_s(self) -> float:
        return self._round_trip.median_s()

    def name_of(self, version: int) -> str:
        return f"version {version} of {self._name}"

    def _record(self, version: int) -> CommitRecord | None:
        """The record of an accepted commit that may be unpublished. Raises NotFoundError above the newest version."""
        known = self._known
        if version > known.latest:
            known = self._refreshed()
        if version > known.latest:
            raise NotFoundError(f"the newest version of {self._name} is {known.latest}", version=version)
        return known.commits.get(version)

    # --- what the catalog says ----------------------------------------------------------------------------------

    def _refreshed(self) -> _Known:
        """Ask the catalog. Raises TableNotFoundError, AccessError, StorageError."""
        try:
            answer = self._client.get(self._name.path, LoadedTable)
        except TableNotFoundError as error:
            if self._known.latest < 0:
                raise
            raise self._gone() from error
        return self._learn(answer)

    def _learn(self, answer: LoadedTable) -> _Known:
        """Remember an answer, unless a newer one came first. Raises TableNotFoundError for another table's."""
        info = answer.metadata
        if info.table_uuid != self._table_id:
            raise TableNotFoundError(
                f"{self._name} now names another table ({info.table_uuid}, not {self._table_id}): the one that was open"
                " was dropped or renamed, and the name was given again. Open it again"
            )
        commits = {record.version: record for record in answer.commits}
        latest = max(answer.latest_table_version or 0, max(commits, default=0))
        first = min(commits, default=latest + 1)
        wrong = [record.file_name for version, record in commits.items() if staged_version(record.file_name) != version]
        if wrong or first < 1 or len(commits) != latest + 1 - first:
            what = f"names a file that is no staged commit: {wrong[0]!r}" if wrong else "has a gap in its commits"
            raise CorruptLogError(f"the catalog's record of {self._name} {what}", version=latest)
        with self._lock:
            if latest >= self._known.latest:
                self._known = _Known(latest, commits, info)
                self._published = max(self._published, first - 1)
            self._forget_losers()
            return self._known

    def _forget_losers(self) -> None:
        """Delete what was staged for a version that another commit has: it can never be accepted."""
        for key, name in list(self._sent.items()):
            record = self._known.commits.get(key[0])
            if record is not None and record.file_name != name:
                self._sent.pop(key, None)
                with contextlib.suppress(TxlogError):
                    self._folder.delete(_staged_path(name))
            elif key[0] + 1 < self._known.latest:
                self._sent.pop(key, None)

    def _gone(self) -> TableNotFoundError:
        """The table was open, and its name names nothing: it was dropped or renamed. Looks for a new name."""
        try:
            names = self._client.tables(self._name.catalog, self._name.schema)
        except TxlogError:
            names = []
        renamed = next((each.name for each in names if each.table_id == self._table_id), None)
        if renamed is not None:
            new = f"{self._name.catalog}.{self._name.schema}.{renamed}"
            return TableNotFoundError(f"{self._name} was renamed to {new} while it was open: open it by that name")
        return TableNotFoundError(f"{self._name} was dropped, or moved to another schema, while it was open")

    # --- committing ---------------------------------------------------------------------------------------------

    def put(self, attempt: Attempt) -> PutOutcome:
        started_s = ambient.monotonic_s()
        try:
            return self._propose(attempt) if attempt.version else self._create(attempt)
        finally:
            self._round_trip.observe(ambient.monotonic_s() - started_s)

    def _propose(self, attempt: Attempt) -> PutOutcome:
        version = attempt.version
        known = self._known if version == self._known.latest + 1 else self._refreshed()
        if version <= known.latest:
            return PutOutcome.ALREADY_EXISTS
        if version > known.latest + 1:
            raise StorageError(f"version {version} would leave a gap after {known.latest}: nothing was sent")
        if known.latest - self._published >= _PUBLISHED_FROM:
            self._try_to_publish(version - 1)
        commit = self._staged(attempt, known)
        request = self._request(attempt, commit, known)
        try:
            answer = self._client.send("POST", self._name.path, LoadedTable, request)
        except Unanswered as error:
            logger.debug("%s: no answer to version %d: %s", self._name, version, error)
            return PutOutcome.UNKNOWN if error.was_sent else PutOutcome.BLOCKED
        except Refused as error:
            return self._after_refusal(error, version)
        try:
            accepted = self._learn(answer).commits.get(version)
        except TxlogError as error:  # accepted, whatever else is wrong: the caller reads it back
            logger.warning("%s: the answer to version %d makes no sense: %s", self._name, version, error)
            return PutOutcome.UNKNOWN
        is_ours = accepted is not None and accepted.file_name == commit.file_name
        return PutOutcome.WRITTEN if is_ours else PutOutcome.ALREADY_EXISTS

    def _after_refusal(self, refused: Refused, version: int) -> PutOutcome:
        """What a refusal means. The version is read back after a conflict, since a repeat of our own is refused too."""
        if refused.kind == "CommitVersionConflictException":
            return PutOutcome.ALREADY_EXISTS
        if refused.kind == "ResourceExhaustedException":
            self._try_to_publish(version - 1)
            return PutOutcome.BLOCKED
        if refused.status == 429:
            return PutOutcome.BLOCKED
        if refused.kind == "UpdateRequirementConflictException":  # another table, another etag, or a lock
            try:
                self._refreshed()
            except TableNotFoundError:
                raise
            except StorageError as error:
                logger.debug("%s: blocked at version %d: %s", self._name, version, error)
            return PutOutcome.BLOCKED
        if refused.status == 404:
            self._refreshed()  # raises what is wrong
        raise self._client.translated(refused)

    def _staged(self, attempt: Attempt, known: _Known) -> CommitRecord:
        """Put the bytes where the catalog's word can make them a version; once for the same bytes.

        Raises StorageError: the catalog never hears of them.
        """
        digest, size = hashlib.sha256(attempt.body).digest(), len(attempt.body)
        timestamp_ms, now_ms = _in_commit_timestamp_ms(attempt.body), ambient.now_ms()
        before = known.commits.get(attempt.version - 1)
        if timestamp_ms is not None and before is not None and timestamp_ms <= before.timestamp:
            raise StorageError(
                f"the time of version {attempt.version} does not follow that of the one before it: nothing was sent"
            )
        name = self._sent.get((attempt.version, digest))
        if name is None:
            name = staged_name(attempt.version, ambient.uuid4())
            path = _staged_path(name)
            outcome = self._folder.put_if_absent(path, attempt.body)
            if outcome is not PutOutcome.WRITTEN and not self._is_whole(path, attempt.body):
                raise StorageError(f"the commit could not be staged ({outcome.value}): nothing was sent", path=path)
            self._sent[attempt.version, digest] = name
        return CommitRecord(attempt.version, now_ms if timestamp_ms is None else timestamp_ms, name, size, now_ms)

    def _is_whole(self, path: str, body: bytes) -> bool:
        try:
            self._folder.make_durable(path)
            return self._folder.read(path) == body
        except (NotFoundError, StorageError):
            return False

    def _request(self, attempt: Attempt, commit: CommitRecord, known: _Known) -> dict[str, Any]:
        assert known.info is not None
        requirements = [{"type": "assert-table-uuid", "uuid": self._table_id}]
        changes = definition_updates(attempt.actions, known.info)
        if changes and known.info.etag:
            requirements.append({"type": "assert-etag", "etag": known.info.etag})
        updates: list[dict[str, Any]] = [{"action": "add-commit", "commit": commit}, *changes]
        if 0 < min(known.commits, default=0) <= self._published:
            published = {"action": "set-latest-backfilled-version", "latest-published-version": self._published}
            updates.append(published)
        return {"requirements": requirements, "updates": updates}

    # --- publishing ---------------------------------------------------------------------------------------------

    def publish(self, version: int) -> None:
        with self._publishing:
            if version <= self._published:
                return
            known = self._known if version <= self._known.latest else self._refreshed()
            if self._published > 0 and not self._is_dense:  # the server takes the first commit at any version
                self._published_files.stat(self._published)
                self._is_dense = True
            for each in range(self._published + 1, min(version, known.latest) + 1):
                record = known.commits.get(each)
                if record is not None:  # else its record was dropped, since it is published
                    self._publish(record)
                with self._lock:
                    self._published = max(self._published, each)

    def _publish(self, record: CommitRecord) -> None:
        target = FolderVersions.name_of(record.version)
        try:
            body = _whole(record, self._folder.read(_staged_path(record.file_name)))
        except NotFoundError:
            self._published_files.make_durable(record.version)  # published, and removed since
            return
        outcome = self._folder.put_if_absent(target, body)
        if outcome is PutOutcome.WRITTEN:
            return
        self._folder.make_durable(target)
        if self._folder.read(target) != body:
            raise CorruptLogError(
                f"{target} is not the commit that the catalog accepted as version {record.version}: somebody wrote it"
                " without the catalog. Move it away; the next writer publishes the right one",
                version=record.version,
                path=target,
            )

    def _try_to_publish(self, version: int) -> None:
        """A commit does not fail because others cannot be published: perhaps it is accepted all the same."""
        try:
            self.publish(version)
        except TxlogError as error:
            logger.warning("%s: could not publish the versions up to %d: %s", self._name, version, error)

    # --- creating -----------------------------------------------------------------------------------------------

    def _create(self, attempt: Attempt) -> PutOutcome:
        """Version 0 goes to its final name at once, where nobody looks until the catalog names the table."""
        if self._known.latest >= 0:
            return PutOutcome.ALREADY_EXISTS
        if self._staged_at is None:
            raise TableNotFoundError(f"{self._name} does not exist yet, and only its catalog can create it")
        name, timestamp_ms = FolderVersions.name_of(0), _in_commit_timestamp_ms(attempt.body)
        outcome = self._folder.put_if_absent(name, attempt.body)
        if outcome is not PutOutcome.WRITTEN and not self._is_whole(name, attempt.body):
            raise StorageError(f"version 0 could not be written ({outcome.value}): create the table again", path=name)
        request = creation(self._name.table, self._staged_at, "MANAGED", attempt.actions, timestamp_ms or 0)
        try:
            answer = self._client.send("POST", f"{self._name.schema_path}/tables", LoadedTable, request)
        except Unanswered as error:
            logger.debug("%s: the answer to its creation was lost: %s", self._name, error)
            return PutOutcome.UNKNOWN
        except Refused as error:
            if error.status == 429:
                return PutOutcome.BLOCKED
            if error.kind != "AlreadyExistsException":
                raise self._client.translated(error) from None
            return self._exists()
        try:
            self._learn(answer)
        except TxlogError as error:
            logger.warning("%s: the answer to its creation makes no sense: %s", self._name, error)
            return PutOutcome.UNKNOWN
        return PutOutcome.WRITTEN

    def _exists(self) -> PutOutcome:
        """The name is taken: by this table, after an answer that was lost, or by another one."""
        try:
            self._refreshed()
        except TableNotFoundError as error:
            raise TableExistsError(
                f"the catalog has another table {self._name} already: nothing was created"
            ) from error
        return PutOutcome.ALREADY_EXISTS


def _opened(client: UnityClient, name: TableName, table_id: str, folder: LogStore, maintains: bool) -> CatalogLog:
    return CatalogLog(client, name, table_id, folder, maintains=maintains)


def _staged_path(name: str) -> str:
    return f"{STAGED}/{name}"


def _whole(record: CommitRecord, body: bytes) -> bytes:
    """The bytes of an accepted commit. Raises CorruptLogError if they are not those that were accepted."""
    if len(body) != record.file_size:
        raise CorruptLogError(
            f"the catalog accepted version {record.version} as {record.file_size} bytes, and its file has {len(body)}",
            version=record.version,
            path=_staged_path(record.file_name),
        )
    return body


def _meta(record: CommitRecord) -> ObjectMeta:
    return ObjectMeta(_staged_path(record.file_name), record.file_size, record.file_modification_timestamp)


def _in_commit_timestamp_ms(body: bytes) -> int | None:
    """The time in the first line of a commit; None if it has none."""
    try:
        return msgspec.json.decode(body.partition(b"\n")[0], type=_FirstLine).commit_info.in_commit_timestamp
    except msgspec.MsgspecError:
        return None
