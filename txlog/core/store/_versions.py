"""Who owns a version: `VersionLog` says which file is version N of a table, and whether a commit became version N.

In: attempts to commit, and version numbers. Out: what is known about them, as values. The first owner is the folder of
the log itself, `FolderVersions`: version N is the file of that name, and whoever creates it first has won. Another
owner, such as a catalog, decides by itself, and may hold versions that are not in any folder yet. Every owner passes
``txlog.testing.contract.VERSION_LOG_CONTRACT``. Nothing else in txlog builds the name of a commit file. PROTOCOL.md,
"Delta Log Entries".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from txlog.core.format.actions import Action
from txlog.core.format.log_names import commit_name, commit_version, version_prefix
from txlog.core.store._base import LogCapabilities, LogStore, ObjectMeta, PutOutcome
from txlog.core.store._retry import RetryPolicy


class Attempt(msgspec.Struct, frozen=True):
    """What one writer wants to become ``version``. A resend is the same attempt; other bytes are another one.

    ``actions`` are the ones in ``body``, for an owner that needs a changed definition in its own terms.
    """

    version: int
    body: bytes
    actions: Sequence[Action] = ()


class Fork(msgspec.Struct, frozen=True):
    """A version of which the log's folder and another owner have different commits.

    ``published`` is the file in the folder, ``owned`` the one that the owner names, "" if it has no such version.
    """

    version: int
    published: str
    owned: str


class RepairedForks(msgspec.Struct, frozen=True):
    """What was done to forks: published versions that the owner has ``accepted`` again, and its own files that were
    ``given_up`` for what is published."""

    accepted: tuple[int, ...] = ()
    given_up: tuple[str, ...] = ()


class VersionFile(Protocol):
    """The file that holds a version: its name below the log (for messages), its size, and its time in ms."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified_ms(self) -> int: ...


class VersionLog(Protocol):
    """The versions of one table. Thread-safe. Versions are dense, and none changes once it has landed."""

    @property
    def capabilities(self) -> LogCapabilities:
        """What this kind of owner can do beyond the guarantees of this protocol."""

    def put(self, attempt: Attempt) -> PutOutcome:
        """Make the attempt its version, atomically and durably, if no other attempt is.

        One request, no hidden retry. WRITTEN is said only of a version that no other commit can contradict: an owner
        that may forget has it published before. Raises a TxlogError only if it is certain that nothing of this call
        landed or ever will, or a ForkedTableError; any doubtful outcome is UNKNOWN. After ALREADY_EXISTS the version
        may be this same attempt: read it back. After BLOCKED nothing of this call landed, and it may be called again.
        """

    def read(self, version: int) -> bytes:
        """The bytes of a version, wherever they are. Raises NotFoundError, StorageError."""

    def stat(self, version: int) -> ObjectMeta:
        """The file of a version, its size and its time. Raises NotFoundError, StorageError."""

    def tail(self, after: int, listed: Mapping[int, VersionFile] | None = None) -> Mapping[int, VersionFile]:
        """The versions after one, published or not, by number.

        ``listed`` are the versions from a recent list of the log's folder, so it is not listed again. A version that
        the answer lacks may exist, unless the owner ``lists_completely``. An owner that ``remembers_versions`` answers
        the same whatever ``listed`` lacks. Raises StorageError.
        """

    def make_durable(self, version: int) -> None:
        """Make a version that another program wrote survive a power cut, and whatever its owner forgets. Raises
        NotFoundError, StorageError, ForkedTableError."""

    def publish(self, version: int) -> None:
        """Make the versions up to this one files of the log's folder, in order and durably.

        Anybody may do so, at any time. What stands on a version in the folder, such as a checkpoint, needs it. No
        file is published over another one. Raises StorageError, CorruptLogError, ForkedTableError.
        """

    def forks(self) -> Sequence[Fork]:
        """The versions of which the folder and the owner have different commits, ascending: what `put` raises
        ForkedTableError for. Raises StorageError."""

    def mend(self, *, give_up: bool) -> RepairedForks:
        """Have the owner accept published versions that it lacks, in order. With ``give_up``, also have it take the
        published commit of a version for its own one.

        Raises ForkedTableError, which says what cannot be kept, and StorageError; it may be called again.
        """

    def wait_by(self, policy: RetryPolicy) -> None:
        """For how long calls wait for an owner that does not answer; a folder's store has its own options for that."""

    def round_trip_s(self) -> float:
        """The measured median time of a put, in seconds (0.0 before the first): waits are scaled to it."""

    def name_of(self, version: int) -> str:
        """The name of a version's file in messages, whether or not there is one. Makes no request."""


class FolderVersions:
    """The log's folder as the owner of its versions: names in ``_delta_log/``, and put-if-absent to decide."""

    def __init__(self, folder: LogStore) -> None:
        self._folder = folder

    @property
    def capabilities(self) -> LogCapabilities:
        return self._folder.capabilities

    def put(self, attempt: Attempt) -> PutOutcome:
        return self._folder.put_if_absent(commit_name(attempt.version), attempt.body)

    def read(self, version: int) -> bytes:
        return self._folder.read(commit_name(version))

    def stat(self, version: int) -> ObjectMeta:
        return self._folder.stat(commit_name(version))

    def tail(self, after: int, listed: Mapping[int, VersionFile] | None = None) -> Mapping[int, VersionFile]:
        if listed is not None:
            return listed
        found = ((commit_version(meta.name), meta) for meta in self._folder.list_from(version_prefix(after + 1)))
        return {version: meta for version, meta in found if version is not None}

    def make_durable(self, version: int) -> None:
        self._folder.make_durable(commit_name(version))

    def publish(self, version: int) -> None:
        """A version is its file here."""

    def forks(self) -> Sequence[Fork]:
        return ()

    def mend(self, *, give_up: bool) -> RepairedForks:
        return RepairedForks()

    def wait_by(self, policy: RetryPolicy) -> None:
        """The store has options for that."""

    def round_trip_s(self) -> float:
        return self._folder.round_trip_s()

    @staticmethod
    def name_of(version: int) -> str:
        return commit_name(version)
