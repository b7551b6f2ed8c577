"""The versions of a table whose commits a catalog decides: staged, accepted, published.

In: attempts to commit. Out: what the catalog says of them. A commit is staged as a file of its own, the catalog accepts
it as version N or refuses it, and then its writer publishes it: copies it to the name that version N has in the log.
The catalog's word alone makes a version: a staged file is none without it, and neither is a published file that it does
not name. But a server may forget its word (`publications`), so a commit is acknowledged once it was accepted and
published, and the folder refuses a second file of the same name. What the server does not check is checked here:
version 1 follows 0, the staged file is there and whole, times rise, no version is published that the catalog does not
have, and one is reported as published only once it was compared. What became of a commit is never read from the status
of an answer: the caller reads the version back. PROTOCOL.md, "Catalog-managed tables"; Unity Catalog,
"ManagedTablesSpec.md".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from txlog.core.format.commit_file import DEFAULT_LIMITS, PUT_BACK, parse_commit
from txlog.core.format.log_names import STAGED, staged_name, staged_version
from txlog.errors import (
    CorruptLogError,
    ForkedTableError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TxlogError,
)
from txlog.extend.catalogs import (
    Attempt,
    FolderVersions,
    Fork,
    LogCapabilities,
    LogStore,
    ObjectMeta,
    PutOutcome,
    RepairedForks,
    RetryPolicy,
    RoundTrip,
    VersionFile,
    ambient,
    last_answer,
    logger,
    new_lock,
    setting,
    unanswered,
)
from txlog.unity.client import FullTableName, Refused, Unanswered, UnityClient
from txlog.unity.definition import creation, definition_updates
from txlog.unity.messages import CommitRecord, LoadedTable, TableInfo
from txlog.unity.publications import Publications, forked, in_commit_timestamp_ms, staged_path

_FIRST_LOOK_S = 1.0
"""What the catalog said when the name was resolved is still news for the load that follows at once."""


_UNANSWERED = (PutOutcome.UNKNOWN, PutOutcome.BLOCKED)


class _Known(msgspec.Struct, frozen=True):
    """What the catalog last said: the newest version (-1: there is no table), and commits that may be unpublished."""

    latest: int = -1
    commits: Mapping[int, CommitRecord] = {}
    info: TableInfo | None = None


class CatalogLog:
    """A `VersionLog` whose owner is a Unity Catalog server. Pickles without the token."""

    def __init__(
        self,
        client: UnityClient,
        name: FullTableName,
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
        self._publications = Publications(folder, str(name))
        self._published_files = FolderVersions(folder)
        self._staged_at = staged_at
        self._policy: RetryPolicy | None = None
        self._lock, self._publishing = new_lock(), new_lock()
        self._known = _Known()
        self._answered = -1  # the newest version by the last answer, which may be older than what was known before
        self._warned_of = -1  # the catalog's newest version when a warning said that newer ones are published
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
            needs_sync=True,
            remembers_versions=True,
            publishes=True,
            maintains=maintains,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_opened, (self._client, self._name, self._table_id, self._folder, self.capabilities.maintains))

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, version: int) -> bytes:
        record = self._record(version)
        return self._published_files.read(version) if record is None else self._publications.read(record)

    def stat(self, version: int) -> ObjectMeta:
        record = self._record(version)
        return self._published_files.stat(version) if record is None else _meta(record)

    def tail(self, after: int, listed: Mapping[int, VersionFile] | None = None) -> Mapping[int, VersionFile]:
        """Raises CorruptLogError if the newest version is lost, since an older one is not the answer."""
        look, self._first_look = self._first_look, None
        is_news = look is not None and ambient.age_s(look) < _FIRST_LOOK_S
        known = self._known if is_news else self._refreshed()
        found = dict(self._published_files.tail(after, listed))
        if max(found, default=-1) > known.latest:  # accepted since the catalog was asked, or never
            known = self._refreshed()
            self._warn_of_unowned(max(found), known)
        first = min(found, default=after + 1)  # what is below was cleaned up
        for version, record in known.commits.items():
            if version in found:
                self._publications.listed.add(version)
            if version > after:
                found[version] = _meta(record)
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
        """Nothing but its published file makes a version survive a server that forgets."""
        self._record(version)  # raises NotFoundError above the newest one
        self.publish(version)
        self._published_files.make_durable(version)

    def wait_by(self, policy: RetryPolicy) -> None:
        self._policy = policy

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
            if self._folder.capabilities.has_cheap_calls:
                with contextlib.suppress(NotFoundError):
                    self._published_files.stat(version)
                    known = self._refreshed()
                    self._warn_of_unowned(version, known)
            if version <= known.latest:
                return known.commits.get(version)
            raise NotFoundError(f"the newest version of {self._name} is {known.latest}", version=version)
        return known.commits.get(version)

    def _warn_of_unowned(self, published: int, known: _Known) -> None:
        """Say once that there are published files above what the catalog names: no reader may take them for versions,
        since the catalog's word alone makes one."""
        if published > known.latest != self._warned_of:
            self._warned_of = known.latest
            fork = Fork(known.latest + 1, FolderVersions.name_of(known.latest + 1), "")
            logger.warning("%s: %s", self._name, forked(str(self._name), fork, known.latest))

    # --- what the catalog says ----------------------------------------------------------------------------------

    def _refreshed(self) -> _Known:
        """Ask the catalog. Raises TableNotFoundError, AccessError, StorageError."""
        try:
            answer = self._client.get(self._name.path, LoadedTable, policy=self._policy)
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
            what = f"names a file that is not a staged commit: {wrong[0]!r}" if wrong else "has a gap in its commits"
            raise CorruptLogError(f"the catalog's record of {self._name} {what}", version=latest)
        self._answered = latest
        with self._lock:
            before = self._known
            if latest < before.latest:
                return before
        self._require_kept(before, commits, latest)
        with self._lock:
            if latest >= self._known.latest:
                self._known = _Known(latest, commits, info)
                self._publications.forget_before(first)
            self._forget_losers()
            return self._known

    def _require_kept(self, before: _Known, commits: Mapping[int, CommitRecord], latest: int) -> None:
        """Raise CorruptLogError if a version that this handle knows has become another commit, since the catalog had
        forgotten it, and has accepted another one: ForkedTableError if one of them was published, and is not the
        catalog's. What this handle knows stays."""
        for version, record in before.commits.items():
            now = commits.get(version)
            if now is None and version <= latest and not self._publications.is_known(record):
                try:
                    self._publications.check(record)  # its record was dropped, since it was published
                    continue
                except ForkedTableError:
                    pass
            elif now is None or now.file_name == record.file_name:
                continue
            else:
                self._publications.check(now)
            raise CorruptLogError(
                f"version {version} of {self._name} is another commit than the one that this handle has read: the"
                " catalog had forgotten that one, although no writer was told that it was committed. Open the table"
                " again",
                table=f"uc://{self._name}",
                version=version,
                path=staged_path(record.file_name),
            )

    def _forget_losers(self) -> None:
        """Delete what was staged for a version that another commit has: it can never be accepted."""
        for key, name in list(self._sent.items()):
            record = self._known.commits.get(key[0])
            if record is not None and record.file_name != name:
                self._sent.pop(key, None)
                with contextlib.suppress(TxlogError):
                    self._folder.delete(staged_path(name))
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
        try:
            self.publish(version - 1)
            if not self._is_free(version):
                return PutOutcome.ALREADY_EXISTS
            commit = self._staged(attempt, known)
        except StorageError as error:
            if not error.was_unanswered:
                raise
            last_answer.words = error.message
            return PutOutcome.BLOCKED
        try:
            answer = self._client.send("POST", self._name.path, LoadedTable, self._request(attempt, commit, known))
        except Unanswered as error:
            logger.debug("%s: no answer to version %d: %s", self._name, version, error)
            last_answer.words = str(error)
            return PutOutcome.UNKNOWN if error.was_sent else PutOutcome.BLOCKED
        except Refused as error:
            return self._after_refusal(error, version)
        try:
            accepted = self._learn(answer).commits.get(version)
        except ForkedTableError:
            raise
        except TxlogError as error:  # accepted, whatever else is wrong: the caller reads it back
            logger.warning("%s: the answer to version %d makes no sense: %s", self._name, version, error)
            return PutOutcome.UNKNOWN
        if accepted is None or accepted.file_name != commit.file_name:
            return PutOutcome.ALREADY_EXISTS
        return self._acknowledged(version, known)

    def _acknowledged(self, version: int, before: _Known) -> PutOutcome:
        """What an accepted commit is: written once it is published too, since the catalog may forget it until then, and
        accept another one. What was known ``before`` is what is known if another commit was published first."""
        try:
            self.publish(version)
        except ForkedTableError as error:
            with self._lock:
                self._known = before
            error.message += (
                ". This commit is not acknowledged: it is in the table only if it is the one that is kept, so do not"
                " run it again before the repair"
            )
            raise
        except TxlogError as error:
            logger.warning("%s: version %d was accepted, and is not published yet: %s", self._name, version, error)
            return PutOutcome.UNKNOWN
        return PutOutcome.WRITTEN

    def _is_free(self, version: int) -> bool:
        """Whether the next version has no file in the folder; False if it was accepted since. Raises ForkedTableError
        if a file is there that the catalog does not own: to accept another one for it would lose one of them."""
        try:
            self._published_files.stat(version)
        except NotFoundError:
            return True
        if version <= (known := self._refreshed()).latest:
            return False
        raise forked(str(self._name), Fork(version, FolderVersions.name_of(version), ""), known.latest)

    def _after_refusal(self, refused: Refused, version: int) -> PutOutcome:
        """What a refusal means. The version is read back after a conflict, since a repeat of our own is refused too."""
        if refused.kind == "CommitVersionConflictException":
            return PutOutcome.ALREADY_EXISTS
        if refused.status == 429 and refused.kind != "ResourceExhaustedException":  # busy
            return PutOutcome.BLOCKED
        # Nobody has told the catalog what is published; or this is another table, or another etag; or there is a lock.
        if refused.kind in ("ResourceExhaustedException", "UpdateRequirementConflictException"):
            try:
                self._refreshed()
            except (TableNotFoundError, ForkedTableError):
                raise
            except StorageError as error:
                logger.debug("%s: blocked at version %d: %s", self._name, version, error)
            return PutOutcome.BLOCKED
        if refused.status in (400, 404):
            self._refreshed()  # raises what is wrong
            if self._answered < version - 1:  # it has forgotten versions that this handle knows
                first = self._answered + 1
                raise forked(str(self._name), Fork(first, FolderVersions.name_of(first), ""), self._answered)
        raise self._client.translated(refused)

    def _staged(self, attempt: Attempt, known: _Known) -> CommitRecord:
        """Put the bytes where the catalog's word can make them a version; once for the same bytes.

        Raises StorageError: the catalog never hears of them.
        """
        digest, size = hashlib.sha256(attempt.body).digest(), len(attempt.body)
        timestamp_ms, now_ms = in_commit_timestamp_ms(attempt.body), ambient.now_ms()
        before = known.commits.get(attempt.version - 1)
        if timestamp_ms is not None and before is not None and timestamp_ms <= before.timestamp:
            raise StorageError(
                f"the time of version {attempt.version} does not follow that of the one before it: nothing was sent"
            )
        name = self._sent.get((attempt.version, digest))
        if name is None:
            name = staged_name(attempt.version, ambient.uuid4())
            path = staged_path(name)
            outcome = self._folder.put_if_absent(path, attempt.body)
            if outcome is not PutOutcome.WRITTEN and not self._is_whole(path, attempt.body):
                lost = StorageError(f"the commit could not be staged ({outcome.value}): nothing was sent", path=path)
                raise unanswered(lost) if outcome in _UNANSWERED else lost
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
        if (published := self._reportable(known)) is not None:
            updates.append({"action": "set-latest-backfilled-version", "latest-published-version": published})
        return {"requirements": requirements, "updates": updates}

    # --- publishing ---------------------------------------------------------------------------------------------

    def publish(self, version: int) -> None:
        """A version of which the catalog has no record is published: it was told so."""
        with self._publishing:
            known = self._known if version <= self._known.latest else self._refreshed()
            first = min(known.commits, default=0)
            if first > 1 and not self._is_dense:  # the server takes the first commit at any version
                self._published_files.stat(first - 1)
                self._is_dense = True
            for each in sorted(known.commits):
                if each <= version:
                    self._publications.publish(known.commits[each])

    def _reportable(self, known: _Known) -> int | None:
        """The newest version up to which the catalog may drop its records: each was compared with what is published.

        After such a report, the published file is the only one that there is.
        """
        found = None
        for version in sorted(known.commits):
            if not self._publications.is_known(known.commits[version]):
                break
            found = version
        return found

    # --- forks ----------------------------------------------------------------------------------------------------

    def forks(self) -> Sequence[Fork]:
        return self._without_memory()._forks()

    def mend(self, *, give_up: bool) -> RepairedForks:
        done = self._without_memory()._mend(give_up=give_up)
        with self._lock:  # what this handle knows may be of what was given up
            self._known = _Known(info=self._known.info)
            self._publications = Publications(self._folder, str(self._name))
        self._refreshed()
        return done

    def _without_memory(self) -> CatalogLog:
        """The same versions, of which nothing is known yet."""
        fresh = _opened(self._client, self._name, self._table_id, self._folder, self.capabilities.maintains)
        fresh._policy = self._policy
        return fresh

    def _forks(self) -> list[Fork]:
        known, published = self._refreshed(), dict(self._published_files.tail(-1))
        if max(published, default=-1) > known.latest:
            known = self._refreshed()
        found = []
        for version, record in sorted(known.commits.items()):
            if version in published:
                try:
                    self._publications.check(record)
                except ForkedTableError:
                    found.append(Fork(version, FolderVersions.name_of(version), record.file_name))
        unowned = (each for each in sorted(published) if each > known.latest)
        return [*found, *(Fork(each, FolderVersions.name_of(each), "") for each in unowned)]

    def _mend(self, *, give_up: bool) -> RepairedForks:
        forks = self._forks()
        contradicted = [fork for fork in forks if fork.owned]
        if contradicted:
            self._give_up(contradicted, give_up=give_up)
        accepted: list[int] = []
        for fork in forks[len(contradicted) :]:
            expected = self._known.latest + 1
            if fork.version < expected:
                continue  # somebody else has offered it meanwhile
            if fork.version != expected:
                error = forked(str(self._name), fork, self._known.latest)
                error.repair = (
                    f"It cannot be offered to the catalog again, since version {expected} is not there: put that file"
                    " back from a copy"
                )
                raise error
            self._offer(fork.version)
            accepted.append(fork.version)
        return RepairedForks(tuple(accepted), tuple(fork.owned for fork in contradicted))

    def _offer(self, version: int) -> None:
        """Have the catalog accept the published commit of the next version, with what it changes of the definition."""
        self.publish(version - 1)  # which makes room, if the catalog is told so
        self._published_files.make_durable(version)
        body = self._published_files.read(version)
        name = FolderVersions.name_of(version)
        commit = parse_commit(body, version, name=name, table=str(self._name), limits=DEFAULT_LIMITS)
        if commit.in_commit_timestamp_ms is None:
            error = forked(str(self._name), Fork(version, name, ""), self._known.latest)
            error.repair = (
                "It has no inCommitTimestamp, so no writer made it that goes through a catalog: it is not offered. Move"
                " it out of the log's folder, if nobody needs it"
            )
            raise error
        attempt = Attempt(version, body, commit.actions)
        for meta in self._folder.list_from(f"{STAGED}/{version:020}."):
            if staged_version(meta.name.removeprefix(f"{STAGED}/")) != version:
                break
            if meta.size == len(body) and self._folder.read(meta.name) == body:  # it was accepted under this name once
                self._sent[version, hashlib.sha256(body).digest()] = meta.name.removeprefix(f"{STAGED}/")
        record = self._staged(attempt, self._known)
        try:
            self._learn(
                self._client.send("POST", self._name.path, LoadedTable, self._request(attempt, record, self._known))
            )
        except Unanswered as error:
            raise StorageError(f"the catalog did not answer ({error}): repair the table again") from None
        except Refused as error:
            if error.kind != "CommitVersionConflictException":
                raise self._client.translated(error) from None
            accepted = self._refreshed().commits.get(version)  # somebody else has offered it at the same time
            record = record if accepted is None else accepted
        self._publications.publish(record)

    def _give_up(self, forks: Sequence[Fork], *, give_up: bool) -> None:
        """Have the catalog take what is published for its own commits, whose versions nobody of txlog acknowledged.

        Raises ForkedTableError if it may not, or if versions that are not published stand on them.
        """
        known, last = self._known, forks[-1]
        unpublished = [each for each in known.commits if each > forks[0].version and not self._is_there(each)]
        error = forked(str(self._name), last, known.latest)
        error.message += (
            f". The catalog's: {self._told(staged_path(last.owned))}; published: {self._told(last.published)}"
        )
        if unpublished:
            newer = ", ".join(str(each) for each in sorted(unpublished))
            error.repair = (
                f"The catalog's versions {newer} were made on top of its own version {forks[0].version} and are not"
                " published: they cannot be kept beside what is. Read what you need from both, drop the table, and"
                " write it again"
            )
            raise error
        if not give_up:
            error.repair = None
            error.message += (
                f". To keep the published one, pass {setting('remove', True)}: the rows of the catalog's are then not"
                " in the table, and its file says in which data files they are"
            )
            raise error
        for fork in forks:
            self._published_files.make_durable(fork.version)
        report = {"action": "set-latest-backfilled-version", "latest-published-version": last.version}
        requirements = [{"type": "assert-table-uuid", "uuid": self._table_id}]
        try:
            self._client.send("POST", self._name.path, LoadedTable, {"requirements": requirements, "updates": [report]})
        except Unanswered as unanswered:
            raise StorageError(f"the catalog did not answer ({unanswered}): repair the table again") from None
        except Refused as refused:
            raise self._client.translated(refused) from None
        self._known = _Known(info=known.info)
        self._refreshed()

    def _is_there(self, version: int) -> bool:
        try:
            self._published_files.stat(version)
        except NotFoundError:
            return False
        return True

    def _told(self, path: str) -> str:
        """A commit in a few words, for who has to decide on it."""
        try:
            body = self._folder.read(path)
            info = parse_commit(body, 0, name=path, table=str(self._name), limits=DEFAULT_LIMITS, files=False)
        except (NotFoundError, CorruptLogError) as error:
            return f"{path} ({error.message})"
        return f"{path} ({info.operation}, txnId {info.txn_id})"

    # --- creating -----------------------------------------------------------------------------------------------

    def _create(self, attempt: Attempt) -> PutOutcome:
        """Version 0 goes to its final name at once, where nobody looks until the catalog names the table."""
        if self._known.latest >= 0:
            return PutOutcome.ALREADY_EXISTS
        if self._staged_at is None:
            raise TableNotFoundError(f"{self._name} does not exist yet, and only its catalog can create it")
        name, timestamp_ms = FolderVersions.name_of(0), in_commit_timestamp_ms(attempt.body)
        outcome = self._folder.put_if_absent(name, attempt.body)
        if outcome is not PutOutcome.WRITTEN and not self._is_whole(name, attempt.body):
            if outcome in _UNANSWERED:
                return PutOutcome.BLOCKED
            raise StorageError(f"version 0 could not be written ({outcome.value}): create the table again", path=name)
        request = creation(self._name.table, self._staged_at, "MANAGED", attempt.actions, timestamp_ms or 0)
        try:
            answer = self._client.send("POST", f"{self._name.schema_path}/tables", LoadedTable, request)
        except Unanswered as error:
            logger.debug("%s: the answer to its creation was lost: %s", self._name, error)
            last_answer.words = str(error)
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


def _opened(client: UnityClient, name: FullTableName, table_id: str, folder: LogStore, maintains: bool) -> CatalogLog:
    return CatalogLog(client, name, table_id, folder, maintains=maintains)


def _meta(record: CommitRecord) -> ObjectMeta:
    return ObjectMeta(staged_path(record.file_name), record.file_size, record.file_modification_timestamp)
