"""The local store: put-if-absent on a POSIX file system.

A commit is written to an unnamed or hidden file in `_delta_log/`, synced, published by a hard link and made durable by
syncing the directory, in that order: its name never points to unsynced bytes, and txlog acknowledges nothing that a
power cut could undo. Data files are durable before a commit names them, and never written outside the table. Errors of
the operating system are explained to the caller.
PROTOCOL.md: "Delta Log Entries", "Add File and Remove File", "Writer Requirements" (mutual exclusion on a version).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.core import ambient
from txlog.core.format.log_names import SIDECARS, parse_log_name
from txlog.core.format.paths import IN_PROGRESS
from txlog.core.parallel import do_all, new_lock
from txlog.core.store import _local_disk as disk
from txlog.core.store._base import (
    ICEBERG,
    LOCAL_DISK,
    STAGING,
    VERSIONS,
    ObjectMeta,
    OnLink,
    PutOutcome,
    RoundTrip,
    SkipFolder,
    refused,
)
from txlog.core.store._commit_queue import LocalCommitQueue
from txlog.core.store._table_store import TableStore
from txlog.core.util import cached_property, logger, pattern
from txlog.errors import NotFoundError, StorageError, TableNotFoundError

if TYPE_CHECKING:
    from txlog.core.store._external_files import OtherBuckets

LOG_DIRECTORY = "_delta_log"

_NAME = pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_TEMPORARY = pattern(r"\.[A-Za-z0-9_][A-Za-z0-9._-]*\.[0-9a-f-]{36}\.tmp")
_STALE_AFTER_MS = 24 * 60 * 60 * 1000
_SWEPT_EVERY_S = 60 * 60
_SYNCS_AT_ONCE = 8  # a disk syncs many files for little more than the cost of one
_LIST_PAGE = 1000
_AT_ONCE_BYTES = 128 << 10  # one read of this many bytes costs less than a read per column

# link and rename return these errors before they change anything; after any other error the new name may exist.
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
    """`LogStore` for the table at directory ``root``, or for another folder in it. The first put makes the
    directory."""

    capabilities = LOCAL_DISK

    def __init__(
        self, root: str, folder: str = LOG_DIRECTORY, named_by: str = "", *, may_overwrite: bool = False
    ) -> None:
        """``named_by`` is the suffix of files that refer to all other files in the folder. These are put first, and are
        on disk before a file with this suffix takes its name. ``may_overwrite`` is as for `disk.take_name`."""
        self._may_overwrite = may_overwrite
        self._root = root
        self._folder = folder
        self._named_by = named_by
        self._directory = f"{root}/{folder}"
        self._folders = _and_above(root, folder)
        self._directory_is_durable = False
        self._made: list[str] = []
        self._swept_s = -math.inf
        self._round_trip = RoundTrip()

    def __reduce__(self) -> tuple[Any, ...]:
        made = functools.partial(LocalLogStore, may_overwrite=self._may_overwrite)
        return (made, (self._root, self._folder, self._named_by))

    def list_from(self, start: str) -> list[ObjectMeta]:
        folder = start.rpartition("/")[0]
        prefix = f"{folder}/" if folder else ""
        found: list[ObjectMeta] = []
        try:
            with os.scandir(self._path_of_folder(folder)) as entries:
                for entry in entries:
                    if prefix + entry.name < start or not _NAME.fullmatch(entry.name):
                        continue
                    if not _append_if_file(found, entry, prefix) and parse_log_name(entry.name) is not None:
                        self._refuse_links((entry.path,))  # left out, the table would look empty, or end earlier
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

    def stat(self, name: str) -> ObjectMeta:
        path = self._path(name)
        try:
            return _meta_of(name, os.lstat(path))
        except OSError as error:
            raise self._failed("look at", name, error) from error

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        started_s = ambient.monotonic_s()
        outcome = self._put_if_absent(name, body)
        self._round_trip.observe(ambient.monotonic_s() - started_s)
        return outcome

    def put(self, name: str, body: bytes | memoryview) -> None:
        """Create or replace ``name``. Sometimes it also removes crashed writers' files: no commit waits for a hint."""
        target = self._path(name)
        temporary = self._temporary(name)
        try:
            self._make_room(name)
            self._sync_new_folders()
            disk.write_under(temporary, body)
        except OSError as error:
            raise self._failed("write", name, error) from error
        # Hadoop keeps a checksum in a hidden file, and Spark fails if it belongs to older bytes: remove it first.
        self._remove_hadoop_checksum(name)
        try:
            os.replace(temporary, target)
        except OSError as error:
            disk.remove_quietly(temporary)
            raise self._failed("replace", name, error) from error
        if ambient.monotonic_s() - self._swept_s >= _SWEPT_EVERY_S:
            self._swept_s = ambient.monotonic_s()
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
                logger.debug("%s: looking for stale temporary files: %s", self._root, error)
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

    def remove_new_directories(self) -> None:
        """Remove the folders that the first put made, if they are empty."""
        made, self._made = self._made, []
        self._directory_is_durable = False
        for directory in sorted(made, key=len, reverse=True):
            with contextlib.suppress(OSError):  # another process put something there
                os.rmdir(directory)

    def _put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        target = self._path(name)
        aside = self._write_aside(name, target, body)
        try:
            aside.take_name(may_overwrite=self._may_overwrite)
        except FileExistsError:
            return PutOutcome.ALREADY_EXISTS
        except disk.LinkUnsupported as error:
            raise refused(self._no_exclusive_create(error)) from error
        except OSError as error:
            if error.errno in _NOTHING_LANDED:
                raise refused(self._failed("create", name, error)) from error
            logger.warning("%s: publishing %s failed with %s: it may have landed", self._root, name, error)
            return PutOutcome.UNKNOWN
        finally:
            aside.discard()
        self._remove_hadoop_checksum(name)
        directory = target.rpartition("/")[0]
        if not name.endswith(self._named_by):
            return PutOutcome.WRITTEN  # the name is on disk before any file that refers to it
        try:
            disk.fsync_directory(directory)
        except OSError as error:
            logger.warning("%s: %s is visible, but its directory could not be synced: %s", self._root, name, error)
            return PutOutcome.NOT_DURABLE
        return PutOutcome.WRITTEN

    def _write_aside(self, name: str, target: str, body: bytes | memoryview) -> disk.WrittenAside:
        """Write and sync the bytes without their name. On any failure nothing is left and nothing landed."""
        try:
            self._make_room(name)
            aside = disk.WrittenAside(target, lambda: self._temporary(name), body)
            try:
                aside.sync()
                if aside.keeps_names:  # new folders reach the disk before the name of any file in them
                    self._directory_is_durable = True
                else:
                    self._sync_new_folders()
                if self._named_by and name.endswith(self._named_by) and not aside.keeps_names:
                    disk.fsync_directory(self._directory)  # the names of all files that it refers to
            except BaseException:
                aside.discard()
                raise
        except OSError as error:
            raise refused(self._failed("write", name, error)) from error
        return aside

    def _temporary(self, name: str) -> str:
        folder, slash, last = name.rpartition("/")
        return f"{self._directory}/{folder}{slash}.{last}.{ambient.uuid4()}.tmp"

    def _make_room(self, name: str) -> None:
        if not self._directory_is_durable:
            self._made += disk.make_directories(self._directory)
        folder = name.rpartition("/")[0]
        if folder and disk.make_directories(f"{self._directory}/{folder}"):
            disk.fsync_directory(self._directory)

    def _sync_new_folders(self) -> None:
        """Once per store, before a file in it gets its name: have the log directory and its new parents survive a power
        cut.

        It follows the sync of the file: a file system with a journal has then written the new folders with it. The
        directory's entry in the root is synced even if it existed: the process that made it may not have synced it.
        """
        if self._directory_is_durable:
            return
        for parent in {self._root, os.path.dirname(self._directory), *map(os.path.dirname, self._made)}:
            disk.fsync_directory(parent)
        self._directory_is_durable = True

    def _remove_hadoop_checksum(self, name: str) -> None:
        folder, slash, last = name.rpartition("/")
        disk.remove_quietly(f"{self._directory}/{folder}{slash}.{last}.crc")

    def _path(self, name: str) -> str:
        if not all(map(_NAME.fullmatch, name.split("/"))):
            raise StorageError(f"{name!r} is not the name of a Delta log file; nothing was changed", path=name)
        if "/" in name:
            self._path_of_folder(name.rpartition("/")[0])
        else:
            self._refuse_links(self._folders)
        return f"{self._directory}/{name}"

    def _path_of_folder(self, folder: str) -> str:
        folders = _and_above(self._directory, folder) if folder else ()
        self._refuse_links((*self._folders, *folders))
        return folders[-1] if folders else self._directory

    def _refuse_links(self, folders: tuple[str, ...]) -> None:
        """Refuse symlinks: txlog deletes and replaces files in a log, and a link could lead to other people's files."""
        try:
            disk.check_no_links(folders)
        except ValueError as error:
            below = os.path.relpath(folders[-1], self._root)
            message = f"{error}; nothing was changed. Replace the link by what it leads to"
            raise StorageError(message, table=self._root, path=below) from None

    def _failed(self, action: str, name: str, error: OSError) -> StorageError | NotFoundError:
        if error.errno == errno.ELOOP:
            self._refuse_links((f"{self._directory}/{name}",))
        return _failure(action, self._root, f"{self._folder}/{name}", error)

    def _no_exclusive_create(self, error: OSError) -> StorageError:
        return StorageError(
            "this file system has neither hard links nor an exclusive rename "
            f"({error}), so two writers could overwrite each other's commits: nothing was written. "
            "Put the table on a local disk or on an object store. If only one process ever writes to it at a time, "
            "the storage option allow_unsafe_rename=true lets it.",
            table=self._root,
        )


class LocalFileStore:
    """`FileStore` for the table at directory ``root``. Directories are made as files need them."""

    part_bytes = 0
    needs_read_back = True

    def __init__(
        self,
        root: str,
        storage_options: Mapping[str, Any] | None = None,
        credential_provider: Callable[[], Any] | None = None,
    ) -> None:
        """The options and the provider are for files in object stores that the log names."""
        self._root = root
        self._for_others = storage_options, credential_provider
        self._lock = new_lock()
        self._durable_directories: set[str] = set()
        self._new_roots: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        options, _ = self._for_others
        if not options:
            return (LocalFileStore, (self._root,))
        from txlog.core.store._options import without_secrets

        return (LocalFileStore, (self._root, without_secrets(options)))

    @cached_property
    def _elsewhere(self) -> OtherBuckets:
        from txlog.core.store._external_files import OtherBuckets
        from txlog.core.store._object_store import bucket_files

        return OtherBuckets(lambda location: bucket_files(location, *self._for_others))

    def create(self, path: str) -> LocalOutputFile:
        target = _checked(self._root, path, follow=False)
        directory, name = os.path.split(target)
        temporary = f"{directory}/.{name}{IN_PROGRESS}"
        descriptor: int | None = None
        try:
            descriptor = self._open_new(directory, temporary)
            sink = pa.OSFile(temporary, "wb")
        except OSError as error:
            if descriptor is not None:
                disk.remove_quietly(temporary)
                os.close(descriptor)
            raise _failure("create", self._root, path, error) from error
        return LocalOutputFile(self._root, path, temporary, descriptor, sink)

    def write(self, path: str, body: pa.Buffer | bytes) -> ObjectMeta:
        target = _checked(self._root, path, follow=False)
        directory, _, name = target.rpartition("/")
        hidden, bytes_of_it = f"{directory}/.{name}{IN_PROGRESS}", memoryview(body)
        try:
            try:
                aside = disk.WrittenAside(target, lambda: hidden, bytes_of_it)
            except FileNotFoundError:
                self._remember_new(disk.make_directories(directory))
                aside = disk.WrittenAside(target, lambda: hidden, bytes_of_it)
            try:
                aside.take_name(may_overwrite=True)  # nobody else makes a file of this name
                self._sync_named(aside, target)
            finally:
                aside.discard()
        except OSError as error:
            raise _failure("write", self._root, path, error) from error
        return _meta_of(path, aside.status)

    def replace(self, path: str, body: bytes) -> None:
        target = _checked(self._root, path, follow=False)
        directory, _, name = target.rpartition("/")
        temporary = f"{directory}/.{name}.{ambient.uuid4()}{IN_PROGRESS}"
        try:
            disk.make_directories(directory)
            disk.write_under(temporary, body)
        except OSError as error:
            raise _failure("write", self._root, path, error) from error
        # Hadoop keeps a checksum in a hidden file, and fails if it belongs to older bytes: remove it first.
        disk.remove_quietly(f"{directory}/.{name}.crc")
        try:
            os.replace(temporary, target)
        except OSError as error:
            disk.remove_quietly(temporary)
            raise _failure("replace", self._root, path, error) from error

    def read_from(self, path: str, start: int) -> bytes:
        target = _checked(self._root, path, follow=False)
        try:
            return disk.read_from(target, start)
        except OSError as error:
            raise _failure("read", self._root, path, error) from error

    def open(self, path: str) -> Any:
        if "://" in path:
            return self._elsewhere.open(path)
        target = self._readable(path)
        try:
            status = os.stat(target)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")  # opening a named pipe would wait forever
            if status.st_size > _AT_ONCE_BYTES:
                return pa.OSFile(target, "rb")
            with open(target, "rb", buffering=0) as file:
                return pa.BufferReader(file.read())
        except OSError as error:
            raise _failure("read", self._root, path, error) from error

    def stat(self, path: str) -> ObjectMeta:
        if "://" in path:
            return self._elsewhere.stat(path)
        target = self._readable(path)
        try:
            return _meta_of(path, os.stat(target))
        except OSError as error:
            raise _failure("look at", self._root, path, error) from error

    def list(
        self,
        folder: str = "",
        *,
        skip: SkipFolder | None = None,
        on_link: OnLink | None = None,
        start_after: str | None = None,
    ) -> Iterator[Sequence[ObjectMeta]]:
        start = _checked(self._root, folder) if folder else self._root
        files = self._below(start, f"{folder}/" if folder else "", skip, on_link)
        if start_after is not None:
            files = iter(sorted(meta for meta in files if meta.name > start_after))
        while page := tuple(itertools.islice(files, _LIST_PAGE)):
            yield page

    def _below(
        self, directory: str, prefix: str, skip: SkipFolder | None, on_link: OnLink | None
    ) -> Iterator[ObjectMeta]:
        """The regular files of a directory, then the files of each directory in it."""
        folders = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if skip is None or not skip(path):
                            folders.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:  # deleted meanwhile
                            continue
                        yield ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000)
                    elif on_link is not None and entry.is_symlink():
                        target = self._target_of(path)
                        if target is not None:
                            on_link(target)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure("list", self._root, prefix.rstrip("/") or ".", error) from error
        for path in folders:
            yield from self._below(f"{self._root}/{path}", f"{path}/", skip, on_link)

    def _target_of(self, link: str) -> str | None:
        """A link's target path; None if it is not in the table, or is a folder that holds the link."""
        root = os.path.realpath(self._root)
        target, holding = os.path.realpath(f"{root}/{link}"), os.path.realpath(os.path.dirname(f"{root}/{link}"))
        is_below = target.startswith(f"{root}/") and not f"{holding}/".startswith(f"{target}/")
        return target[len(root) + 1 :] if is_below else None

    def make_durable(self, paths: Iterable[str], *, with_contents: bool = False) -> None:
        """Sync each directory that holds one of ``paths`` once, and each one above it whose child may be new."""
        paths = [*paths]
        if with_contents:
            do_all(self._sync_contents, paths, threads=_SYNCS_AT_ONCE, few=4)
        holding = {f"{self._root}/{path}".rpartition("/")[0] for path in paths}
        with self._lock:
            known = set() if with_contents else set(self._durable_directories)
            to_sync = holding | set(map(os.path.dirname, self._new_roots))
        above = set(itertools.chain.from_iterable(map(self._up_to_root, holding - {self._root}))) - known
        to_sync.update(map(os.path.dirname, above))
        do_all(self._sync, sorted(to_sync, reverse=True), threads=_SYNCS_AT_ONCE, few=4)
        if above or self._new_roots:
            with self._lock:
                self._durable_directories |= above
                self._new_roots = {new for new in self._new_roots if os.path.dirname(new) not in to_sync}

    def delete(self, path: str) -> None:
        target = _checked(self._root, path)
        try:
            os.unlink(target)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failure("delete", self._root, path, error) from error

    def delete_many(self, paths: Sequence[str]) -> None:
        """One after another: four threads take three times as long, since only one at a time can change a directory."""
        for path in paths:
            self.delete(path)

    def _readable(self, path: str) -> str:
        """The absolute path of a file in the table, or of one elsewhere on this disk."""
        return path if path.startswith("/") else _checked(self._root, path)

    @staticmethod
    def _sync_named(aside: disk.WrittenAside, target: str) -> None:
        """Take the name, then sync: no commit names the file yet, and one journal transaction then covers both."""
        try:
            aside.sync()
        except BaseException:
            disk.remove_quietly(target)
            raise

    def _sync_contents(self, path: str) -> None:
        target = _checked(self._root, path)
        try:
            disk.fsync_file(target)
        except OSError as error:
            raise _failure("sync", self._root, path, error) from error

    def _sync(self, directory: str) -> None:
        try:
            disk.fsync_directory(directory)
        except OSError as error:
            raise _failure("sync", self._root, os.path.relpath(directory, self._root), error) from error

    def _open_new(self, directory: str, temporary: str) -> int:
        try:
            return disk.open_exclusive(temporary)
        except FileNotFoundError:
            self._remember_new(disk.make_directories(directory))
            return disk.open_exclusive(temporary)

    def _remember_new(self, created: Sequence[str]) -> None:
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
            raise _failure("publish", self._root, self._path, error) from error
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
        # Nobody else makes a file of this name.
        disk.take_name(self._temporary, f"{self._root}/{self._path}", may_overwrite=True)
        disk.remove_quietly(self._temporary)
        return _meta_of(self._path, status)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        try:
            if descriptor is not None:
                os.close(descriptor)
            self._sink.close()
        except OSError as error:  # a published file is already synced, an aborted one deleted
            logger.debug("%s: closing %s: %s", self._root, self._path, error)


def local_table_store(
    root: str,
    storage_options: Mapping[str, Any] | None = None,
    credential_provider: Callable[[], Any] | None = None,
) -> TableStore:
    """Both stores of the table at a directory, which need not exist yet. The options and the provider are for files in
    object stores that its log names. Raises StorageError for a relative path where no working directory is left."""
    try:
        root = os.path.abspath(root)
    except FileNotFoundError as error:
        raise StorageError("the working directory was deleted: pass an absolute path", table=root) from error
    log_store = functools.partial(LocalLogStore, root, may_overwrite=_allows_unsafe_rename(storage_options))
    return TableStore(
        root,
        log_store(),
        LocalFileStore(root, storage_options, credential_provider),
        log_store(STAGING),
        LocalCommitQueue(f"{root}/{LOG_DIRECTORY}"),
        log_store(VERSIONS),
        log_store(ICEBERG, ".metadata.json"),
    )


def _allows_unsafe_rename(storage_options: Mapping[str, Any] | None) -> bool:
    if not storage_options:
        return False
    from txlog.core.store._options import allows_unsafe_rename

    return allows_unsafe_rename(storage_options)


def _and_above(root: str, relative: str) -> tuple[str, ...]:
    """The paths of ``relative`` and its parents below ``root``, topmost first."""
    return tuple(itertools.accumulate(relative.split("/"), lambda above, name: f"{above}/{name}", initial=root))[1:]


def _append_if_file(found: list[ObjectMeta], entry: os.DirEntry[str], prefix: str = "") -> bool:
    """Append a regular file. Returns whether it is one."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    is_file = stat.S_ISREG(status.st_mode)
    if is_file:
        found.append(_meta_of(prefix + entry.name, status))
    return is_file


def _checked(root: str, relative: str, *, follow: bool = True) -> str:
    try:
        return disk.check_below(root, relative, follow=follow)
    except ValueError as error:
        raise StorageError(f"{error}; nothing was changed", table=root, path=relative) from error
    except OSError as error:
        raise _failure("reach", root, relative, error) from error


def _meta_of(name: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(name=name, size=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _file_above(path: str) -> str | None:
    """The nearest thing above ``path`` that exists, if it is a file instead of a directory."""
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return None if os.path.isdir(above) else above


def _failure(action: str, root: str, path: str, error: OSError) -> StorageError | NotFoundError:
    """The typed error for an operating system error. None of these operations left anything behind."""
    is_blocked = isinstance(error, (NotADirectoryError, FileExistsError))
    blocking = _file_above(os.path.join(root, path)) if is_blocked else None
    if blocking is not None:
        message = f"{blocking} is a file, but the table's location needs a directory there: check the location"
        kind = {"list": TableNotFoundError, "read": NotFoundError, "look at": NotFoundError}.get(action, StorageError)
        return kind(message, table=root, path=path)
    if isinstance(error, FileNotFoundError) and action in ("read", "look at", "sync"):
        return NotFoundError(f"{path} does not exist", table=root, path=path)
    return StorageError(
        f"could not {action} {path}: {error.strerror or error}. The call left nothing behind; fix the cause and run it"
        " again.",
        table=root,
        path=path,
    )
