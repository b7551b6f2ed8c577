"""The local store: put-if-absent and durable data files on a POSIX file system.

A commit is written aside in `_delta_log/`, synced, published by a hard link and made durable by syncing the
directory, in that order: its name never points to unsynced bytes, and nothing is acknowledged that a power cut
could take away. Data files follow the same steps, with the directory syncs of many files done at once.
PROTOCOL.md: "Delta Log Entries", "Writer Requirements" (mutual exclusion on a version).
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from txlog import ambient
from txlog.errors import NotFoundError, StorageError, TableNotFoundError
from txlog.protocol.log_names import SIDECARS
from txlog.store import disk
from txlog.store.base import STAGING, ObjectMeta, PutOutcome, TableStore
from txlog.store.round_trip import RoundTrip

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LocalFileStore", "LocalLogStore", "LocalOutputFile", "local_table_store"]

LOG_DIRECTORY = "_delta_log"

_logger = logging.getLogger("txlog")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_TEMPORARY = re.compile(r"\.[A-Za-z0-9_][A-Za-z0-9._-]*\.[0-9a-f-]{36}\.tmp")
_STALE_AFTER_MS = 24 * 60 * 60 * 1000

# link and rename say these before they touch anything; after any other error the new name may exist.
_NOTHING_LANDED = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)


class LocalLogStore:
    """`LogStore` of the table at directory ``root``, or of another folder of it. The first put makes the directory."""

    lists_itself_completely = False
    checks_predecessor = True

    def __init__(self, root: str, folder: str = LOG_DIRECTORY) -> None:
        self._root = root
        self._folder = folder
        self._directory = f"{root}/{folder}"
        self._directory_is_durable = False
        self._round_trip = RoundTrip()

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalLogStore, (self._root, self._folder))

    def list_from(self, start: str) -> list[ObjectMeta]:
        folder = start.rpartition("/")[0]
        prefix = f"{folder}/" if folder else ""
        found: list[ObjectMeta] = []
        try:
            with os.scandir(self._path_of_folder(folder)) as entries:
                for entry in entries:
                    if prefix + entry.name >= start and _NAME.fullmatch(entry.name):
                        _append_if_file(found, entry, prefix)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed("list", "", error) from error
        found.sort(key=lambda meta: meta.name)
        return found

    def read(self, name: str) -> bytes:
        path = self._path(name)
        try:
            return disk.read_whole(path)
        except OSError as error:
            raise self._failed("read", name, error) from error

    def head(self, name: str) -> ObjectMeta:
        path = self._path(name)
        try:
            return _meta(name, os.lstat(path))
        except OSError as error:
            raise self._failed("look at", name, error) from error

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        started_s = ambient.monotonic_s()
        outcome = self._put_if_absent(name, body)
        self._round_trip.observe(ambient.monotonic_s() - started_s)
        return outcome

    def put(self, name: str, body: bytes | memoryview) -> None:
        """Create or replace ``name``. Also sweeps what crashed writers left, since no commit waits for a hint."""
        target = self._path(name)
        temporary = self._write_aside(name, body)
        # Hadoop keeps a checksum in a hidden file, and Spark fails on one that belongs to older bytes: remove it first.
        self._remove_hadoop_checksum(name)
        try:
            os.replace(temporary, target)
        except OSError as error:
            disk.remove_quietly(temporary)
            raise self._failed("replace", name, error) from error
        self.remove_stale_temporaries()

    def delete(self, name: str) -> None:
        path = self._path(name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._failed("delete", name, error) from error
        self._remove_hadoop_checksum(name)

    def remove_stale_temporaries(self, *, dry_run: bool = False) -> list[ObjectMeta]:
        horizon_ms = ambient.now_ms() - _STALE_AFTER_MS
        temporaries: list[ObjectMeta] = []
        for folder in ("", SIDECARS):
            try:
                with os.scandir(self._path_of_folder(folder)) as entries:
                    for entry in entries:
                        if _TEMPORARY.fullmatch(entry.name):
                            _append_if_file(temporaries, entry, f"{folder}/" if folder else "")
            except FileNotFoundError:
                continue
            except (OSError, StorageError) as error:
                _logger.debug("%s: looking for stale temporary files: %s", self._root, error)
        stale = [meta for meta in temporaries if meta.modified_ms < horizon_ms]
        for meta in () if dry_run else stale:
            disk.remove_quietly(f"{self._directory}/{meta.name}")
        return stale

    def make_durable(self, name: str) -> None:
        path = self._path(name)
        try:
            descriptor = disk.open_regular(path)
            try:
                disk.fsync(descriptor)
            finally:
                os.close(descriptor)
            disk.fsync_directory(os.path.dirname(path))
        except OSError as error:
            raise self._failed("sync", name, error) from error

    def round_trip_s(self) -> float:
        return self._round_trip.median_s()

    def _put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        target = self._path(name)
        temporary = self._write_aside(name, body)
        try:
            disk.take_name(temporary, target)
        except FileExistsError:
            return PutOutcome.ALREADY_EXISTS
        except disk.LinkUnsupported as error:
            raise self._no_exclusive_create(error) from error
        except OSError as error:
            if error.errno in _NOTHING_LANDED:
                raise self._failed("create", name, error) from error
            _logger.warning("%s: publishing %s answered %s: it may have landed", self._root, name, error)
            return PutOutcome.UNKNOWN
        finally:
            # A temporary name that stays is a second name of the same bytes, and hidden: never a failure.
            disk.remove_quietly(temporary)
        self._remove_hadoop_checksum(name)
        try:
            disk.fsync_directory(os.path.dirname(target))
        except OSError as error:
            _logger.warning("%s: %s is visible, but its directory could not be synced: %s", self._root, name, error)
            return PutOutcome.NOT_DURABLE
        return PutOutcome.WRITTEN

    def _write_aside(self, name: str, body: bytes | memoryview) -> str:
        """The bytes under a hidden temporary name, synced. On any failure nothing stays and nothing landed."""
        folder, slash, last = name.rpartition("/")
        temporary = f"{self._directory}/{folder}{slash}.{last}.{ambient.uuid4()}.tmp"
        try:
            self._ensure_directory()
            if folder and disk.make_directories(f"{self._directory}/{folder}"):
                disk.fsync_directory(self._directory)
            descriptor = disk.open_exclusive(temporary)
        except OSError as error:
            raise self._failed("write", name, error) from error
        try:
            try:
                disk.write_fully(descriptor, body)
            finally:
                os.close(descriptor)
        except OSError as error:
            disk.remove_quietly(temporary)
            raise self._failed("write", name, error) from error
        except BaseException:
            disk.remove_quietly(temporary)
            raise
        return temporary

    def _ensure_directory(self) -> None:
        """Once per store: the log directory and its new parents exist and survive a power cut.

        Its entry in the root is synced even when it was there: whoever made it may not have come to that.
        """
        if self._directory_is_durable:
            return
        created = disk.make_directories(self._directory)
        for parent in {self._root, os.path.dirname(self._directory), *map(os.path.dirname, created)}:
            disk.fsync_directory(parent)
        self._directory_is_durable = True

    def _remove_hadoop_checksum(self, name: str) -> None:
        folder, slash, last = name.rpartition("/")
        disk.remove_quietly(f"{self._directory}/{folder}{slash}.{last}.crc")

    def _path(self, name: str) -> str:
        segments = name.split("/")
        if not all(map(_NAME.fullmatch, segments)):
            raise StorageError(f"{name!r} is not the name of a file of a Delta log; nothing was touched", path=name)
        return f"{self._path_of_folder('/'.join(segments[:-1]))}/{segments[-1]}"

    def _path_of_folder(self, folder: str) -> str:
        """A log is deleted from and replaced in, so that a link could lead it to files of others."""
        below = f"{self._folder}/{folder}" if folder else self._folder
        try:
            return disk.check_no_links(self._root, below)
        except ValueError as error:
            raise StorageError(f"{error}; nothing was touched", table=self._root, path=below) from None

    def _failed(self, action: str, name: str, error: OSError) -> StorageError | NotFoundError:
        return _storage_failure(action, self._root, f"{self._folder}/{name}", error)

    def _no_exclusive_create(self, error: OSError) -> StorageError:
        return StorageError(
            "this file system has neither hard links nor an exclusive rename "
            f"({error}), so two writers could overwrite each other's commits: nothing was written. "
            "Put the table on a local disk or on an object store.",
            table=self._root,
        )


class LocalFileStore:
    """`FileStore` of the table at directory ``root``. Directories are made as files need them."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._durable_directories: set[str] = set()
        self._new_roots: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalFileStore, (self._root,))

    def create(self, path: str) -> LocalOutputFile:
        import pyarrow as pa

        target = _checked(self._root, path)
        directory, name = os.path.split(target)
        temporary = f"{directory}/.{name}.inprogress"
        descriptor: int | None = None
        try:
            descriptor = self._open_new(directory, temporary)
            sink = pa.OSFile(temporary, "wb")
        except OSError as error:
            if descriptor is not None:
                disk.remove_quietly(temporary)
                os.close(descriptor)
            raise _storage_failure("create", self._root, path, error) from error
        return LocalOutputFile(self._root, path, temporary, descriptor, sink)

    def write(self, path: str, body: pa.Buffer | bytes) -> ObjectMeta:
        target = _checked(self._root, path)
        try:
            try:
                status = disk.write_nameless(target, memoryview(body))
            except FileNotFoundError:
                self._remember_new(disk.make_directories(os.path.dirname(target)))
                status = disk.write_nameless(target, memoryview(body))
        except OSError as error:
            raise _storage_failure("write", self._root, path, error) from error
        if status is not None:
            return _meta(path, status)
        output = self.create(path)
        try:
            output.sink.write(body)
        except OSError as error:
            output.abort()
            raise _storage_failure("write", self._root, path, error) from error
        return output.publish()

    def read_from(self, path: str, start: int) -> bytes:
        target = _checked(self._root, path)
        try:
            return disk.read_from(target, start)
        except OSError as error:
            raise _storage_failure("read", self._root, path, error) from error

    def open(self, path: str) -> Any:
        import pyarrow as pa

        target = _checked(self._root, path)
        try:
            if not stat.S_ISREG(os.stat(target).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")  # opening a named pipe would wait for ever
            return pa.OSFile(target, "rb")
        except OSError as error:
            raise _storage_failure("read", self._root, path, error) from error

    def head(self, path: str) -> ObjectMeta:
        target = _checked(self._root, path)
        try:
            return _meta(path, os.stat(target))
        except OSError as error:
            raise _storage_failure("look at", self._root, path, error) from error

    def make_durable(self, paths: Iterable[str]) -> None:
        """Sync each directory that holds one of ``paths`` once, and once each one above it whose child may be new."""
        holding = {os.path.dirname(f"{self._root}/{path}") for path in paths}
        with self._lock:
            known = set(self._durable_directories)
            to_sync = holding | {os.path.dirname(directory) for directory in self._new_roots}
        above = {ancestor for directory in holding for ancestor in self._up_to_root(directory)} - known
        to_sync |= {os.path.dirname(directory) for directory in above}
        for directory in sorted(to_sync, reverse=True):
            try:
                disk.fsync_directory(directory)
            except OSError as error:
                raise _storage_failure("sync", self._root, os.path.relpath(directory, self._root), error) from error
        with self._lock:
            self._durable_directories |= above
            self._new_roots = {directory for directory in self._new_roots if os.path.dirname(directory) not in to_sync}

    def delete(self, path: str) -> None:
        target = _checked(self._root, path)
        try:
            os.unlink(target)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _storage_failure("delete", self._root, path, error) from error

    def _open_new(self, directory: str, temporary: str) -> int:
        try:
            return disk.open_exclusive(temporary)
        except FileNotFoundError:
            self._remember_new(disk.make_directories(directory))
            return disk.open_exclusive(temporary)

    def _remember_new(self, created: list[str]) -> None:
        with self._lock:
            self._durable_directories.difference_update(created)
            self._new_roots.update(directory for directory in created if len(directory) <= len(self._root))

    def _up_to_root(self, directory: str) -> Iterable[str]:
        while len(directory) > len(self._root):
            yield directory
            directory = os.path.dirname(directory)


class LocalOutputFile:
    """A data file under its hidden temporary name, written by Arrow itself and synced through our own descriptor."""

    def __init__(self, root: str, path: str, temporary: str, descriptor: int, sink: Any) -> None:
        self._root = root
        self._path = path
        self._temporary = temporary
        self._descriptor: int | None = descriptor
        self._sink = sink

    @property
    def sink(self) -> Any:
        return self._sink

    def publish(self) -> ObjectMeta:
        assert self._descriptor is not None, "published or aborted before"
        try:
            meta = self._publish(self._descriptor)
        except OSError as error:
            self.abort()
            raise _storage_failure("publish", self._root, self._path, error) from error
        except BaseException:
            self.abort()
            raise
        self._close()
        return meta

    def abort(self) -> None:
        if self._descriptor is None:
            return
        disk.remove_quietly(self._temporary)
        self._close()

    def _publish(self, descriptor: int) -> ObjectMeta:
        written_bytes = None if self._sink.closed else self._sink.tell()
        self._sink.close()
        disk.fsync(descriptor)
        status = os.fstat(descriptor)
        if written_bytes not in (None, status.st_size):
            raise OSError(errno.EIO, f"{written_bytes} bytes were written but the file has {status.st_size}")
        disk.take_name(self._temporary, f"{self._root}/{self._path}")
        disk.remove_quietly(self._temporary)
        return _meta(self._path, status)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        try:
            if descriptor is not None:
                os.close(descriptor)
            self._sink.close()
        except OSError as error:  # a published file was synced before, an aborted one is gone
            _logger.debug("%s: closing %s: %s", self._root, self._path, error)


def local_table_store(root: str) -> TableStore:
    """Both stores of the table at a directory, which need not exist yet."""
    root = os.path.abspath(root)
    return TableStore(root, LocalLogStore(root), LocalFileStore(root), LocalLogStore(root, STAGING))


def _checked(root: str, relative: str) -> str:
    try:
        return disk.check_below(root, relative)
    except ValueError as error:
        raise StorageError(f"{error}; nothing was touched", table=root, path=relative) from error
    except OSError as error:
        raise _storage_failure("reach", root, relative, error) from error


def _append_if_file(found: list[ObjectMeta], entry: os.DirEntry[str], prefix: str = "") -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode):
        found.append(_meta(prefix + entry.name, status))


def _meta(name: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(name=name, size=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _file_above(path: str) -> str | None:
    """The nearest thing above ``path`` that exists, if it is a file where a directory should be."""
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return None if os.path.isdir(above) else above


def _storage_failure(action: str, root: str, path: str, error: OSError) -> StorageError | NotFoundError:
    """What an operating system error means to the caller. None of these left anything behind."""
    blocking = _file_above(f"{root}/{path}") if isinstance(error, (NotADirectoryError, FileExistsError)) else None
    if blocking is not None:
        message = f"{blocking} is a file, and the table's place needs a directory there: check the location"
        kind = {"list": TableNotFoundError, "read": NotFoundError, "look at": NotFoundError}.get(action, StorageError)
        return kind(message, table=root, path=path)
    if isinstance(error, FileNotFoundError) and action in ("read", "look at", "sync"):
        return NotFoundError(f"{path} does not exist", table=root, path=path)
    return StorageError(
        f"could not {action} {path}: {error.strerror or error}. Nothing landed; mend the cause and run it again.",
        table=root,
        path=path,
    )
