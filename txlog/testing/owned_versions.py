"""Versions that somebody else decides, as a catalog does: an owner with its own book, and publishers.

In: the log's folder, and the owner's book; a `FaultyLogStore` around the book makes it refuse, answer late or not at
all. Out: `OwnedVersions`, a ``VersionLog``. What the owner accepts is a version immediately, but is in no folder until
somebody publishes it; then its record may be dropped from the book.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from txlog.core.format.log_names import commit_version
from txlog.core.store import (
    Attempt,
    FolderVersions,
    Fork,
    LogCapabilities,
    LogStore,
    ObjectMeta,
    PutOutcome,
    RepairedForks,
    RetryPolicy,
    VersionFile,
)
from txlog.errors import NotFoundError, StorageError
from txlog.testing.memory_store import MemoryLogStore

__all__ = ["OwnedVersions", "VersionOwner", "publish"]

_DECIDES = LogCapabilities(
    lists_completely=True,
    has_cheap_calls=False,
    refuses_taken_names=True,
    needs_sync=False,
    remembers_versions=True,
)


class VersionOwner(MemoryLogStore):
    """An owner's book. It accepts each version once, in order, and remembers versions whose records were dropped."""

    capabilities = _DECIDES

    def __init__(self) -> None:
        super().__init__()
        self.newest = -1

    def copy(self) -> VersionOwner:
        copied = VersionOwner()
        copied.objects, copied.durable, copied.newest = dict(self.objects), dict(self.durable), self.newest
        return copied

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        version = commit_version(name)
        assert version is not None, "an owner has records of versions only"
        with self.lock:
            if version <= self.newest:
                return PutOutcome.ALREADY_EXISTS
            if version > self.newest + 1:
                raise StorageError(f"version {version} does not follow version {self.newest}: refused", path=name)
            self.newest = version
            return super().put_if_absent(name, body)

    def drop_published(self, folder: LogStore) -> None:
        """Drop the records of published versions, except the newest, which shows how far the table is."""
        published = FolderVersions(folder).tail(-1)
        for version in sorted(published):
            if version < self.newest:
                self.delete(FolderVersions.name_of(version))


class OwnedVersions:
    """A `VersionLog` whose ``owner`` decides. ``folder`` is the log's folder, where versions are published."""

    capabilities = _DECIDES

    def __init__(self, owner: LogStore, folder: LogStore) -> None:
        self._owner = owner
        self._accepted = FolderVersions(owner)
        self._folder = folder
        self._published = FolderVersions(folder)

    def put(self, attempt: Attempt) -> PutOutcome:
        return self._accepted.put(attempt)

    def read(self, version: int) -> bytes:
        try:
            return self._accepted.read(version)
        except NotFoundError:  # not accepted, or published and dropped
            return self._published.read(version)

    def stat(self, version: int) -> ObjectMeta:
        try:
            return self._accepted.stat(version)
        except NotFoundError:
            return self._published.stat(version)

    def tail(self, after: int, listed: Mapping[int, VersionFile] | None = None) -> Mapping[int, VersionFile]:
        accepted = self._accepted.tail(after)
        found = {**self._published.tail(after, listed), **accepted}
        for version in count(after + 1) if not accepted else range(after + 1, min(accepted)):
            if version not in found:  # published and dropped since the listing, or cleaned up
                try:
                    found[version] = self._published.stat(version)
                except NotFoundError:
                    if not accepted and version > max(found, default=after):
                        break
        return {version: found[version] for version in sorted(found)}

    def make_durable(self, version: int) -> None:
        self.stat(version)  # the owner answers once a version is durable

    def publish(self, version: int) -> None:
        publish(self._owner, self._folder)

    def forks(self) -> Sequence[Fork]:
        """This owner forgets nothing that is not published."""
        return ()

    def mend(self, *, give_up: bool) -> RepairedForks:
        return RepairedForks()

    def wait_by(self, policy: RetryPolicy) -> None:
        """It answers each call, or fails it."""

    def round_trip_s(self) -> float:
        return self._owner.round_trip_s()

    def name_of(self, version: int) -> str:
        return f"version {version} of its owner"


def publish(owner: LogStore, folder: LogStore) -> None:
    """Copy accepted versions to the log's folder, in order, durably. Two callers may do so at the same time.

    Raises ``StorageError`` if a version may not be published: later ones must not be.
    """
    for record in owner.list_from(""):
        try:
            body = owner.read(record.name)
        except NotFoundError:
            continue  # someone else published it, and it was dropped
        if folder.put_if_absent(record.name, body) is not PutOutcome.WRITTEN:
            folder.make_durable(record.name)
