"""The published files of a managed table: copies of what its catalog has accepted, compared by content.

In: records of accepted commits. Out: files of the log's folder, in order and durable; or a ForkedTableError, if the
folder has another commit under the name of a version. A server may forget what it had accepted, if its database was not
synced, and then accept another commit as the same version. So a file counts as the publication of a record only once
the two were compared, and no file is ever published over another one. PROTOCOL.md, "Catalog-managed tables".
"""

from __future__ import annotations

import contextlib

import msgspec

from txlog.core.format.log_names import STAGED
from txlog.errors import CorruptLogError, ForkedTableError, NotFoundError, StorageError
from txlog.extend.catalogs import FolderVersions, Fork, LogStore, PutOutcome, last_answer, new_lock, unanswered
from txlog.unity.messages import CommitRecord


class _InCommitTime(msgspec.Struct, rename="camel"):
    in_commit_timestamp: int


class _FirstLine(msgspec.Struct, rename="camel"):
    commit_info: _InCommitTime


class Publications:
    """What is known to be published of the commits of one table. Thread-safe."""

    def __init__(self, folder: LogStore, name: str) -> None:
        """``folder`` is the log's folder, ``name`` the table's name for people."""
        self._folder, self._name = folder, name
        self._files = FolderVersions(folder)
        self.listed: set[int] = set()  # versions that a list of the folder has shown: a read compares them
        self._lock = new_lock()
        self._compared: dict[int, str] = {}  # by version: the accepted file that the published one is a copy of
        self._last: tuple[CommitRecord, bytes] | None = None  # the last one that was compared: it is read next

    def is_known(self, record: CommitRecord) -> bool:
        """Whether the published file of this very commit was seen, durable and compared."""
        return self._compared.get(record.version) == record.file_name

    def forget_before(self, version: int) -> None:
        """The catalog has no records of these any more, and nothing is reported of them."""
        for each in [each for each in list(self._compared) if each < version]:
            self._compared.pop(each, None)
        self.listed.difference_update([each for each in list(self.listed) if each < version])

    def read(self, record: CommitRecord) -> bytes:
        """The bytes of an accepted commit, wherever they are. Raises NotFoundError, StorageError, CorruptLogError, and
        ForkedTableError if it is known to have been published, and the published file is another commit."""
        if record.version in self.listed or self._folder.capabilities.has_cheap_calls:
            self.check(record)
        last = self._last
        if last is not None and last[0] == record:
            return last[1]
        try:
            return whole(record, self._folder.read(staged_path(record.file_name)))
        except NotFoundError:  # published, and removed since
            return whole(record, self._files.read(record.version))

    def publish(self, record: CommitRecord) -> None:
        """Publish an accepted commit durably; those below it are. Raises ForkedTableError, NotFoundError if neither of
        its files is there, CorruptLogError, StorageError; ``was_unanswered`` says whether a repeat may help."""
        with self._lock:
            if not self.is_known(record):
                self._publish(record)
                self._compared[record.version] = record.file_name

    def _publish(self, record: CommitRecord) -> None:
        target = FolderVersions.name_of(record.version)
        try:
            body = whole(record, self._folder.read(staged_path(record.file_name)))
        except NotFoundError:  # published, and removed since
            self._folder.make_durable(target)
            self._require_same(record, self._folder.read(target))
            return
        if self._folder.put_if_absent(target, body) is PutOutcome.WRITTEN:
            return
        try:
            self._folder.make_durable(target)
            found = self._folder.read(target)
        except NotFoundError:
            said = f"; the store's last answer: {last_answer.words}" if last_answer.words else ""
            lost = StorageError(f"it could not be published: no answer says that it was{said}", path=target)
            raise unanswered(lost) from None
        if found != body:
            raise forked(self._name, Fork(record.version, target, record.file_name))

    def check(self, record: CommitRecord) -> bool:
        """Compare the published file of an accepted commit with it; False if there is none. Raises ForkedTableError,
        StorageError."""
        if self.is_known(record):
            return True
        try:
            body = self._files.read(record.version)
        except NotFoundError:
            return False
        self._require_same(record, body)
        self._last = record, body
        return True

    def _require_same(self, record: CommitRecord, published: bytes) -> None:
        """Raise ForkedTableError if these bytes are not those of the accepted commit.

        Its size and its time tell two commits apart that were made one after the other. What they do not fit to is
        compared byte by byte, since other writers may record another time.
        """
        if len(published) == record.file_size and in_commit_timestamp_ms(published) == record.timestamp:
            return
        with contextlib.suppress(NotFoundError):
            if self._folder.read(staged_path(record.file_name)) == published:
                return
        raise forked(self._name, Fork(record.version, FolderVersions.name_of(record.version), record.file_name))


def forked(name: str, fork: Fork, newest: int = -1) -> ForkedTableError:
    """The error for a fork of the table ``name``; ``newest`` is the catalog's newest version."""
    if fork.owned:
        message = (
            f"the catalog has {fork.owned} as version {fork.version} of {name}, and {fork.published} is another commit:"
            " the catalog had forgotten what it accepted and took a second one, or somebody wrote without it. The"
            " published one is what writers of txlog acknowledged. Move neither of the two away"
        )
        repair = "`txlog repair` says what each of them holds, and which can be kept"
    else:
        message = (
            f"{fork.published} is published, and the newest version that the catalog has of {name} is {newest}: it has"
            " forgotten a version that it had accepted, as a server does whose database is not synced at each commit,"
            " or somebody wrote without it. Nothing is written on top, and readers do not see the version"
        )
        repair = "`txlog repair` offers it to the catalog again"
    return ForkedTableError(
        message,
        table=f"uc://{name}",
        version=fork.version,
        path=fork.published,
        catalog_file=fork.owned,
        repair=repair,
    )


def staged_path(name: str) -> str:
    """Where an accepted commit is below the log's folder."""
    return f"{STAGED}/{name}"


def whole(record: CommitRecord, body: bytes) -> bytes:
    """The bytes of an accepted commit. Raises CorruptLogError if they are not those that were accepted."""
    if len(body) != record.file_size:
        raise CorruptLogError(
            f"the catalog accepted version {record.version} as {record.file_size} bytes, and its file has {len(body)}",
            version=record.version,
            path=staged_path(record.file_name),
        )
    return body


def in_commit_timestamp_ms(body: bytes) -> int | None:
    """The time in the first line of a commit; None if it has none."""
    try:
        return msgspec.json.decode(body.partition(b"\n")[0], type=_FirstLine).commit_info.in_commit_timestamp
    except msgspec.MsgspecError:
        return None
