"""The local store: put-if-absent on a POSIX file system.

A commit is written to an unnamed or hidden file in `_delta_log/`, synced, published by a hard link and made durable by
syncing the directory, in that order: its name never points to unsynced bytes, and txlog acknowledges nothing that a
power cut could undo. Data files are in ``store/local_files``.
PROTOCOL.md: "Delta Log Entries", "Writer Requirements" (mutual exclusion on a version).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

from txlog.errors import NotFoundError, StorageError
from txlog.protocol.log_names import SIDECARS
from txlog.store import disk
from txlog.store.base import ICEBERG, LOCAL_DISK, STAGING, VERSIONS, ObjectMeta, PutOutcome, RoundTrip
from txlog.store.commit_queue import LocalCommitQueue
from txlog.store.local_files import LocalFileStore, meta_of, storage_failure
from txlog.store.table_store import TableStore
from txlog.util import ambient
from txlog.util.logs import logger
from txlog.util.patterns import pattern

__all__ = ["LocalLogStore", "local_table_store"]

LOG_DIRECTORY = "_delta_log"

_NAME = pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_PATH = pattern(rf"{_NAME.pattern}(?:/{_NAME.pattern})*")
_TEMPORARY = pattern(r"\.[A-Za-z0-9_][A-Za-z0-9._-]*\.[0-9a-f-]{36}\.tmp")
_STALE_AFTER_MS = 24 * 60 * 60 * 1000
_SWEPT_EVERY_S = 60 * 60

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

    def __init__(self, root: str, folder: str = LOG_DIRECTORY, named_by: str = "") -> None:
        """``named_by`` is the suffix of files that refer to all other files in the folder. These are put first, and are
        on disk before a file with this suffix takes its name."""
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
        return (LocalLogStore, (self._root, self._folder, self._named_by))

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

    def stat(self, name: str) -> ObjectMeta:
        path = self._path(name)
        try:
            return meta_of(name, os.lstat(path))
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
            aside.take_name()
        except FileExistsError:
            return PutOutcome.ALREADY_EXISTS
        except disk.LinkUnsupported as error:
            raise self._no_exclusive_create(error) from error
        except OSError as error:
            if error.errno in _NOTHING_LANDED:
                raise self._failed("create", name, error) from error
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
                if self._named_by and name.endswith(self._named_by) and not aside.keeps_names:
                    disk.fsync_directory(self._directory)  # the names of all files that it refers to
            except BaseException:
                aside.discard()
                raise
        except OSError as error:
            raise self._failed("write", name, error) from error
        return aside

    def _temporary(self, name: str) -> str:
        folder, slash, last = name.rpartition("/")
        return f"{self._directory}/{folder}{slash}.{last}.{ambient.uuid4()}.tmp"

    def _make_room(self, name: str) -> None:
        self._ensure_directory()
        folder = name.rpartition("/")[0]
        if folder and disk.make_directories(f"{self._directory}/{folder}"):
            disk.fsync_directory(self._directory)

    def _ensure_directory(self) -> None:
        """Once per store: make the log directory and its new parents exist and survive a power cut.

        Its entry in the root is synced even if it existed: the process that made it may not have synced it.
        """
        if self._directory_is_durable:
            return
        created = disk.make_directories(self._directory)
        self._made += created
        for parent in {self._root, os.path.dirname(self._directory), *map(os.path.dirname, created)}:
            disk.fsync_directory(parent)
        self._directory_is_durable = True

    def _remove_hadoop_checksum(self, name: str) -> None:
        folder, slash, last = name.rpartition("/")
        disk.remove_quietly(f"{self._directory}/{folder}{slash}.{last}.crc")

    def _path(self, name: str) -> str:
        if not _PATH.fullmatch(name):
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
            raise StorageError(f"{error}; nothing was changed", table=self._root, path=below) from None

    def _failed(self, action: str, name: str, error: OSError) -> StorageError | NotFoundError:
        return storage_failure(action, self._root, f"{self._folder}/{name}", error)

    def _no_exclusive_create(self, error: OSError) -> StorageError:
        return StorageError(
            "this file system has neither hard links nor an exclusive rename "
            f"({error}), so two writers could overwrite each other's commits: nothing was written. "
            "Put the table on a local disk or on an object store.",
            table=self._root,
        )


def local_table_store(
    root: str,
    storage_options: Mapping[str, Any] | None = None,
    credential_provider: Callable[[], Any] | None = None,
) -> TableStore:
    """Both stores of the table at a directory, which need not exist yet. The options and the provider are for files in
    object stores that its log names."""
    root = os.path.abspath(root)
    return TableStore(
        root,
        LocalLogStore(root),
        LocalFileStore(root, storage_options, credential_provider),
        LocalLogStore(root, STAGING),
        LocalCommitQueue(f"{root}/{LOG_DIRECTORY}"),
        LocalLogStore(root, VERSIONS),
        LocalLogStore(root, ICEBERG, ".metadata.json"),
    )


def _and_above(root: str, relative: str) -> tuple[str, ...]:
    """The paths of ``relative`` and its parents below ``root``, topmost first."""
    return tuple(itertools.accumulate(relative.split("/"), lambda above, name: f"{above}/{name}", initial=root))[1:]


def _append_if_file(found: list[ObjectMeta], entry: os.DirEntry[str], prefix: str = "") -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode):
        found.append(meta_of(prefix + entry.name, status))
