"""What txlog requires of a storage system: `LogStore` for `_delta_log/`, `FileStore` for data files.

`_table_store` holds the stores of one table together; `versions` says which file is which version.

Every guarantee of the library relies on the ones stated here; each implementation passes the same contract test. Names
and paths are relative, '/'-separated and decoded.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from txlog.errors import StorageError

if TYPE_CHECKING:
    import pyarrow as pa

STAGING = "_txlog/staging"
"""The folder of a table where sinks keep uncommitted work; the leading underscore hides it from every vacuum."""


QUARANTINE = "_txlog/quarantine"
"""The folder of a table for changes that sinks could not apply; no vacuum looks into it."""

VERSIONS = "_txlog/versions"
"""The folder of a table for named versions; neither vacuums nor log cleanups look into it."""

ICEBERG = "_iceberg/metadata"
"""The folder of a table for its Iceberg metadata; every engine's vacuum skips names with a leading underscore."""

KEYS = "_txlog/keys"
"""The folder of a table for the sorted keys of its data files, which upserts of later processes look into. No commit
names these files: anybody may delete them."""

WAITING = "_txlog/waiting"
"""The folder of a table where writers that lost races leave a mark, so others let them commit first."""

SkipFolder: TypeAlias = Callable[[str], bool]
"""Takes the path of a folder and returns whether a list leaves out everything in it."""

OnLink: TypeAlias = Callable[[str], None]
"""Takes the path, relative to the root, of a symbolic link's target in the table."""


Failure = TypeVar("Failure", bound=BaseException)


class PutOutcome(enum.Enum):
    """What is known after one conditional put. Losing a race is a value, not an exception."""

    WRITTEN = "written"
    ALREADY_EXISTS = "already exists"
    """The store says so; the object may be our own (a lost answer) or absent (an S3 409): read it back."""
    UNKNOWN = "unknown"
    """The answer was lost: it may land now, later or never. Read it back."""
    BLOCKED = "not now"
    """Certainly not landed, and it may be tried again: the owner of the versions has no room, or was busy."""
    NOT_DURABLE = "visible, not durable"
    """Visible to readers, but its directory could not be synced: a power cut may remove it again.

    Final: reading the name back proves nothing about the disk, so the commit's state stays unknown.
    """


class _LastAnswer(threading.local):
    words = ""


last_answer = _LastAnswer()
"""``words`` is what a store said, in this thread, to its last put that was neither written nor refused for good. It is
for messages: what is known about the put is its `PutOutcome`."""


class ObjectMeta(NamedTuple):
    """One listed object: name relative to the listed root, size in bytes, modification time in ms since the epoch."""

    name: str
    size: int
    modified_ms: int


class LogCapabilities(msgspec.Struct, frozen=True):
    """What one kind of store or version owner can do beyond `LogStore` and `VersionLog`.

    Callers check the fact that they rely on, and never whether a store is local. A fact that is not known to be true is
    false, except `needs_sync`.
    """

    lists_completely: bool
    """A listing is a consistent snapshot. A local directory listing is not: it can miss an older name."""

    has_cheap_calls: bool
    """`read` and `stat` take microseconds and no request: callers check again rather than trust, and read one file
    after the other."""

    refuses_taken_names: bool
    """The kernel itself refuses `put_if_absent`. A server may ignore the condition, so it is probed first."""

    needs_sync: bool
    """An object that another program made visible may not survive a power cut before `make_durable`."""

    remembers_versions: bool = False
    """A version that existed once is refused forever, so an accepted version follows the newest one. A folder forgets
    the names that a cleanup deletes: a writer that was suspended for long may put a version that others took long
    ago."""

    publishes: bool = False
    """Writers publish the versions of this owner, see `VersionLog.publish`: until then none is a file of the folder."""

    maintains: bool = False
    """Only the owner cleans up the log, deletes data files and rewrites them."""


LOCAL_DISK = LogCapabilities(lists_completely=False, has_cheap_calls=True, refuses_taken_names=True, needs_sync=True)
OBJECT_STORE = LogCapabilities(
    lists_completely=True, has_cheap_calls=False, refuses_taken_names=False, needs_sync=False
)


class LogStore(Protocol):
    """I/O on one table's `_delta_log/`. Thread-safe; safe in a forked child or refused there, never hanging."""

    @property
    def capabilities(self) -> LogCapabilities:
        """What this kind of store can do beyond the guarantees of this protocol."""

    def list_from(self, start: str) -> list[ObjectMeta]:
        """Names >= ``start`` directly under the log, sorted bytewise; a temp file is never listed.

        ``start`` may be inside a folder of the log (``_sidecars/``): then the result holds that folder's names, with
        the folder in front. An absent log or folder is an empty list. A name missing from the list proves nothing.
        """

    def read(self, name: str) -> bytes:
        """The whole object, as the last completed put wrote it. Raises NotFoundError, StorageError."""

    def stat(self, name: str) -> ObjectMeta:
        """Size and modification time. Raises NotFoundError, StorageError."""

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        """Create ``name`` with exactly these bytes, atomically and durably, if nothing has that name.

        One request, no hidden retry. Raises StorageError only if it is certain that nothing landed
        or ever will (permission, no such bucket, disk full); any doubtful outcome is UNKNOWN.
        """

    def put(self, name: str, body: bytes | memoryview) -> None:
        """Create or replace ``name`` atomically; for hints only. Raises StorageError."""

    def delete(self, name: str) -> None:
        """Remove ``name``; absent is fine. Raises StorageError."""

    def remove_stale_temporaries(self, *, dry_run: bool = False) -> list[ObjectMeta]:
        """Remove temporary files of writers that crashed more than a day ago. Returns the files removed (or to remove).

        Empty on stores where an interrupted write leaves nothing. Never raises.
        """

    def make_durable(self, name: str) -> None:
        """Make an object that another program wrote survive a power cut (local: fsync it and its directory).

        Raises NotFoundError, StorageError.
        """

    def round_trip_s(self) -> float:
        """The measured median time of a put, in seconds (0.0 before the first): waits are scaled to it."""


_REMEMBERED = 15


class RoundTrip:
    """How long a put takes on one store. Every wait between attempts is scaled by it.

    The median of the last few puts, so that one slow put does not stretch the waits of a whole process. Appending to a
    bounded deque is atomic, so it needs no lock.
    """

    __slots__ = ("_durations_s",)

    def __init__(self) -> None:
        self._durations_s: deque[float] = deque(maxlen=_REMEMBERED)

    def observe(self, duration_s: float) -> None:
        self._durations_s.append(duration_s)

    def median_s(self) -> float:
        """Median of the remembered durations in seconds; 0.0 before the first."""
        durations = sorted(self._durations_s)
        return durations[len(durations) // 2] if durations else 0.0


class OutputFile(Protocol):
    """A data file in progress: hidden from readers until `publish`."""

    @property
    def sink(self) -> Any:
        """A writable file object that `pyarrow.parquet.ParquetWriter` takes."""

    def publish(self) -> ObjectMeta:
        """In-progress -> pending: bytes durable, final name taken, real size checked. Raises StorageError.

        `FileStore.make_durable` makes the directory entry durable, once for many files.
        """

    def abort(self) -> None:
        """Leave nothing readable behind. Never raises."""


class FileStore(Protocol):
    """I/O on one table's data files. Paths are checked to stay below the table's root.

    `open` and `stat` also take the location of another table's file (`core.format.paths.location_of`), which
    the log of a shallow clone names. Nothing outside the root is written or deleted.

    ``part_bytes``: how many bytes an open file buffers before it sends them; 0 if it sends bytes immediately.
    ``needs_read_back``: whether a written file must be read back before anyone relies on it, since a disk or its driver
    may have stored other bytes. It is false if an upload's acknowledgment proves that the whole object is stored.
    """

    @property
    def part_bytes(self) -> int: ...

    @property
    def needs_read_back(self) -> bool: ...

    def create(self, path: str) -> OutputFile:
        """Begin a new file; its final name must be new. Raises StorageError."""

    def write(self, path: str, body: pa.Buffer | bytes) -> ObjectMeta:
        """Write a whole new file: like `create`, one write and `publish`, in fewer steps. Raises StorageError."""

    def replace(self, path: str, body: bytes) -> None:
        """Write a file that may exist: at any moment, readers find the old bytes or the new ones. For files that no
        commit names. Raises StorageError."""

    def open(self, path: str) -> Any:
        """A random-access file object that `pyarrow.parquet.ParquetFile` reads. Raises NotFoundError, StorageError."""

    def read_from(self, path: str, start: int) -> bytes:
        """A file's bytes from ``start`` to its end. Raises NotFoundError, StorageError."""

    def stat(self, path: str) -> ObjectMeta:
        """Size and modification time. Raises NotFoundError, StorageError."""

    def list(
        self,
        folder: str = "",
        *,
        skip: SkipFolder | None = None,
        on_link: OnLink | None = None,
        start_after: str | None = None,
    ) -> Iterator[Sequence[ObjectMeta]]:
        """Every file below ``folder`` (the table's root if it is empty), at any depth, in pages of bounded size.

        Names are paths relative to the root, in any order. It lists all files, including ``_delta_log``, ``_txlog`` and
        other hidden ones (``core.format.paths.is_hidden`` recognizes them), a file in progress under a hidden name or
        not at all, and on local disks neither symbolic links nor anything behind them. ``skip`` is called with the path
        of each folder, such as ``_delta_log``; if it returns True, nothing in that folder is listed. A file created or
        deleted meanwhile may or may not be listed. An absent folder has no files. Raises StorageError.

        ``on_link`` is called for each symbolic link that leads to a file or folder of the same table, with the path of
        that file or folder: the log may name files by the link. It is not called for a link to a folder that holds the
        link itself.

        With ``start_after``, only names that sort after it are listed, ascending by their UTF-8 bytes. An object store
        begins there; a disk still reads each folder that is not skipped.
        """

    def make_durable(self, paths: Iterable[str], *, with_contents: bool = False) -> None:
        """Make the names of published files, and the new directories above them, survive a power cut.

        ``with_contents`` is for files that another program wrote: their bytes are synced too, and every directory up to
        the root, since it is unknown what that program has synced. Raises NotFoundError, StorageError.
        """

    def delete(self, path: str) -> None:
        """Remove a file; absent is fine. Raises StorageError."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Remove files, several at a time if each one is a request; absent ones are fine.

        Raises StorageError at the first one that cannot be removed. The others may or may not be removed then.
        """


def refused(error: Failure) -> Failure:
    """The error of a put that the store refused for certain: the writer may then delete its data files."""
    if isinstance(error, StorageError):
        error.was_refused = True
    return error


def unanswered(error: StorageError) -> StorageError:
    """The error of a put that has no answer, or "later", and that did not land: the caller may wait and repeat it."""
    error.was_unanswered = True
    return error


def folders_above(path: str, folder: str) -> Iterator[str]:
    """The folders between ``folder`` ("" is the root) and a file below it, outermost first."""
    at = path.find("/", len(folder) + 1 if folder else 0)
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


class TableFiles(Protocol):
    """What reading and writing one table's data files needs: no log. `TableStore` and a task's table have it.

    ``uri`` is safe to show. ``has_cheap_calls``: opening a file costs microseconds and no request.
    """

    @property
    def uri(self) -> str: ...

    @property
    def files(self) -> FileStore: ...

    @property
    def has_cheap_calls(self) -> bool: ...
