"""A catalog that decides the versions of a story's table, under txlog's own client code.

In: requests, each one call of the book's store, so that the explorer orders it and breaks it like any other. Out: the
answers of real servers: repeats by one of their two rules, room for few unpublished commits, a first commit at any
version, and belief in whatever is reported as published. Its administrator may drop the table, rename it, or make it
again; locks clash, tokens expire, and so do credentials for the table's folder. One whose database is synced late
forgets what it has accepted last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

import msgspec

from explorer.versions import InvariantBroken
from txlog.core.store._base import LogStore, PutOutcome
from txlog.core.store._object_client import ObjectClient
from txlog.core.store._retry import RetryPolicy
from txlog.core.store._versions import FolderVersions, VersionLog
from txlog.errors import AccessError, StorageError, TableNotFoundError
from txlog.testing.memory_store import MemoryLogStore
from txlog.testing.owned_versions import OwnedVersions, VersionOwner
from txlog.unity.catalog_log import CatalogLog
from txlog.unity.client import FullTableName, Refused, Unanswered, UnityClient
from txlog.unity.credentials import VendedCredentials
from txlog.unity.messages import (
    CommitRecord,
    Credentials,
    LoadedTable,
    OldName,
    StorageCredential,
    TableInfo,
)

__all__ = ["CatalogBook", "Held", "PermissionDeniedError", "VendedLogStore", "versions_of"]

_NAME = FullTableName("main", "s", "t")
_ID = "00000000-0000-4000-8000-000000000001"
_ANOTHER_ID = "00000000-0000-4000-8000-000000000002"
_REPORTED = "_reported"
_HELD = "_held"
_VALID = "_valid"
_REQUESTS = ("list_from", "read", "stat", "put_if_absent", "put", "delete", "make_durable")
_NEVER_MS = 1 << 41

Held: TypeAlias = Literal["", "clash", "expired", "dropped", "renamed", "made again"]
"""Why the catalog refuses requests now; a clash refuses one commit."""

_REFUSALS = {
    "clash": Refused(409, "UpdateRequirementConflictException", "a commit is in progress: retry"),
    "expired": Refused(401, "UNAUTHENTICATED", "the token has expired"),
    "dropped": Refused(404, "NoSuchTableException", "no such table"),
    "renamed": Refused(404, "NoSuchTableException", "no such table"),
    "made again": Refused(409, "UpdateRequirementConflictException", "the table has another uuid"),
}


class _No(StorageError):
    """The book's refusal of a request."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class CatalogBook(VersionOwner):
    """The book of the catalog's server. Its objects are the accepted commits, and what it knows of their files."""

    def __init__(self, folder: MemoryLogStore, forgets: bool, room: int, loses: bool = False) -> None:
        """``forgets``: once a record was dropped, a repeat of it is refused, as by 0.6.0. ``loses``: it may lose
        commits that it has accepted."""
        super().__init__()
        self.folder, self.forgets, self.room, self.loses = folder, forgets, room, loses
        self.strays: set[str] = set()

    @classmethod
    def of(cls, owner: VersionOwner, folder: MemoryLogStore, *, catalog: str, room: int) -> CatalogBook:
        """The book of a table whose version 0 is published, and whose other versions are not."""
        book = cls(folder, catalog == "forgets", room, catalog == "loses")
        for version in range(owner.newest + 1):
            name = FolderVersions.name_of(version)
            body, at_ms = owner.objects[name]
            book._write(name, body, at_ms)
            if version:
                staged = f"{version:020}.00000000-0000-4000-8000-{version:012x}.json"
                folder.objects[f"_staged_commits/{staged}"] = folder.durable[f"_staged_commits/{staged}"] = body, at_ms
                book._keep(CommitRecord(version, at_ms, staged, len(body), at_ms))
            else:
                folder.objects[name] = folder.durable[name] = body, at_ms
        book.newest = owner.newest
        book._write(_REPORTED, b"0")
        return book

    def copy_with(self, folder: MemoryLogStore) -> CatalogBook:
        copied = CatalogBook(folder, self.forgets, self.room, self.loses)
        copied.objects, copied.durable, copied.newest = dict(self.objects), dict(self.durable), self.newest
        copied.strays = set(self.strays)
        return copied

    @property
    def reported(self) -> int:
        return int(self.objects[_REPORTED][0])

    @property
    def held(self) -> Held:
        return cast("Held", self.objects.get(_HELD, (b"", 0))[0].decode())

    def hold(self, why: Held) -> None:
        self._write(_HELD, why.encode())

    def lose(self) -> None:
        """Forget the newest commit, as a server that is killed before its database has synced it."""
        if self.newest < 1:
            return
        for name in (FolderVersions.name_of(self.newest), f"_record.{self.newest}"):
            self.objects.pop(name, None)
            self.durable.pop(name, None)
        self.newest -= 1
        if self.reported > self.newest:
            self._write(_REPORTED, str(self.newest).encode())

    @property
    def valid(self) -> str:
        """The credentials that the table's store accepts."""
        return self.objects.get(_VALID, (b"0", 0))[0].decode()

    def end_credentials(self) -> None:
        self._write(_VALID, str(int(self.valid) + 1).encode())

    def records(self) -> list[CommitRecord]:
        """Those that were not reported as published, newest first."""
        versions = range(self.newest, self.reported, -1)
        kept = (self.objects.get(f"_record.{version}") for version in versions)
        return [msgspec.json.decode(found[0], type=CommitRecord) for found in kept if found is not None]

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        """Add a commit. ALREADY_EXISTS is the answer 409."""
        request = msgspec.json.decode(bytes(body))
        commit = msgspec.convert(request["commit"], CommitRecord)
        with self.lock:
            if self.held == "made again" and request["uuid"] == _ANOTHER_ID:
                raise InvariantBroken("a commit reaches its own table only", f"{name} was sent to another one")
            if self.held:
                refused = _REFUSALS[self.held]
                if self.held == "clash":
                    self.hold("")
                raise _No(refused)
            if commit.version <= self.newest:
                known = self.objects.get(f"_record.{commit.version}")
                is_same = (
                    known is not None and msgspec.json.decode(known[0], type=CommitRecord).file_name == commit.file_name
                )
                is_known = is_same and not (self.forgets and commit.version <= self.reported)
                return PutOutcome.WRITTEN if is_known else PutOutcome.ALREADY_EXISTS
            has_commits = self.newest > 0
            if has_commits and commit.version > self.newest + 1:
                raise StorageError("a gap")
            reported = max(self.reported, request["reported"])
            if commit.version - 1 - reported >= self.room:
                raise _No(Refused(429, "ResourceExhaustedException", "no room"))
            self._write(_REPORTED, str(reported).encode())
            staged = self.folder.objects.get(f"_staged_commits/{commit.file_name}", (b"", 0))
            self._write(name, staged[0], commit.timestamp)
            self._keep(commit)
            self.newest = commit.version
            return PutOutcome.WRITTEN

    def _keep(self, record: CommitRecord) -> None:
        self._write(f"_record.{record.version}", msgspec.json.encode(record))

    def _write(self, name: str, body: bytes, at_ms: int = 0) -> None:
        """What the server has answered survives a power cut."""
        self.objects[name] = self.durable[name] = body, at_ms


class _Client:
    """What `CatalogLog` needs of a client, by calls of the book's store."""

    def __init__(self, store: LogStore, book: CatalogBook) -> None:
        self._store, self._book = store, book

    def get(self, path: str, kind: Any, *, policy: RetryPolicy | None = None, **query: str) -> Any:
        self._store.list_from("")
        held = self._held
        if held in ("dropped", "renamed"):
            raise TableNotFoundError("no such table")
        if held == "expired":
            raise AccessError("the token has expired", reason="expired")
        if path.endswith("/credentials"):
            given = StorageCredential("memory://table", _NEVER_MS, {"s3.session-token": self._book.valid})
            return Credentials((given,))
        if held == "made again":
            return LoadedTable(TableInfo(_ANOTHER_ID, "memory://another", "MANAGED"), [], 0)
        return self._loaded()

    @property
    def _held(self) -> Held:
        """Who checks the story at its end is refused nothing."""
        return "" if self._store is self._book else self._book.held

    def tables(self, catalog: str, schema: str) -> list[Any]:
        return [OldName("renamed", _ID)] if self._held == "renamed" else []

    def send(self, method: str, path: str, kind: Any, body: Any) -> Any:
        updates = {each["action"]: each for each in body["updates"]}
        if "add-commit" not in updates:  # the one who checks the story at its end repairs the table
            self._book._write(
                _REPORTED, str(updates["set-latest-backfilled-version"]["latest-published-version"]).encode()
            )
            return self._loaded()
        commit = updates["add-commit"]["commit"]
        reported = updates.get("set-latest-backfilled-version", {}).get("latest-published-version", 0)
        uuid = next(each["uuid"] for each in body["requirements"] if each["type"] == "assert-table-uuid")
        name = FolderVersions.name_of(commit.version)
        request = msgspec.json.encode({"commit": commit, "reported": reported, "uuid": uuid})
        try:
            outcome = self._store.put_if_absent(name, request)
        except _No as error:
            raise error.refused from None
        except StorageError as error:
            raise Refused(400, "InvalidParameterValueException", error.message) from None
        if outcome is PutOutcome.ALREADY_EXISTS:
            raise Refused(409, "CommitVersionConflictException", "taken")
        if outcome is not PutOutcome.WRITTEN:
            raise Unanswered("lost")
        return self._loaded()

    def translated(self, refused: Refused) -> StorageError:
        return StorageError(str(refused))

    def _loaded(self) -> LoadedTable:
        info = TableInfo(_ID, "memory://table", "MANAGED")
        return LoadedTable(info, self._book.records(), self._book.newest)


class PermissionDeniedError(Exception):
    """A store's refusal of credentials, by the name that clients of object stores give it."""


class VendedLogStore:
    """The table's folder, reached with credentials of the catalog. `ObjectClient` renews those that are refused."""

    def __init__(self, folder: LogStore, owner: LogStore, book: CatalogBook, show: Callable[[str], None]) -> None:
        """``show`` is called with the credentials of the next request."""
        client = cast("UnityClient", _Client(owner, book))
        self._folder, self._show = folder, show
        self._credential_provider = VendedCredentials(client, _NAME, _ID, "memory://table")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._folder, name)
        if name not in _REQUESTS:
            return found

        def request(*given: Any) -> Any:
            def shown() -> Any:
                self._show(self._credential_provider()["token"])
                return found(*given)

            try:
                return ObjectClient._with_renewed(cast("ObjectClient", self), shown)
            except PermissionDeniedError:
                raise AccessError(f"{name}: the credentials have ended", reason="expired") from None

        return request


def versions_of(store: LogStore, owner: VersionOwner | None, folder: LogStore) -> VersionLog:
    """The versions of the story's table; ``store`` is the owner's book as an actor reaches it."""
    if isinstance(owner, CatalogBook):
        return CatalogLog(cast("UnityClient", _Client(store, owner)), _NAME, _ID, folder)
    return OwnedVersions(store, folder)
