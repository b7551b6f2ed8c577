"""The data files of a table on a local disk: durable before a commit names them, and never written outside the table.

In: paths relative to the root, and bytes; for reads also locations of other tables' files. Out: files under their final
names, synced; or errors that explain an operating system error to the caller. The table's log is in ``store/local``.
PROTOCOL.md: "Add File and Remove File", "Writer Requirements".
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.errors import NotFoundError, StorageError, TableNotFoundError
from txlog.protocol.paths import IN_PROGRESS
from txlog.store import disk
from txlog.store.base import ObjectMeta, OnLink, SkipFolder
from txlog.util.locks import new_lock
from txlog.util.logs import logger
from txlog.util.parallel import parallel_map

if TYPE_CHECKING:
    from txlog.store.elsewhere import OtherBuckets

__all__ = ["LocalFileStore", "LocalOutputFile", "meta_of", "storage_failure"]

_SYNCS_AT_ONCE = 8
_LIST_PAGE = 1000
_AT_ONCE_BYTES = 128 << 10  # one read of this many bytes costs less than a read per column


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
        from txlog.store.options import without_secrets

        return (LocalFileStore, (self._root, without_secrets(options)))

    @cached_property
    def _elsewhere(self) -> OtherBuckets:
        from txlog.store.elsewhere import OtherBuckets
        from txlog.store.object_store import bucket_files

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
            raise storage_failure("create", self._root, path, error) from error
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
                aside.take_name()
                self._sync_named(aside, target)
            finally:
                aside.discard()
        except OSError as error:
            raise storage_failure("write", self._root, path, error) from error
        return meta_of(path, aside.status)

    def read_from(self, path: str, start: int) -> bytes:
        target = _checked(self._root, path, follow=False)
        try:
            return disk.read_from(target, start)
        except OSError as error:
            raise storage_failure("read", self._root, path, error) from error

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
            raise storage_failure("read", self._root, path, error) from error

    def stat(self, path: str) -> ObjectMeta:
        if "://" in path:
            return self._elsewhere.stat(path)
        target = self._readable(path)
        try:
            return meta_of(path, os.stat(target))
        except OSError as error:
            raise storage_failure("look at", self._root, path, error) from error

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
        """The regular files of a directory, then those of each directory in it."""
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
            raise storage_failure("list", self._root, prefix.rstrip("/") or ".", error) from error
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
            _all_of(self._sync_contents, paths)
        holding = {f"{self._root}/{path}".rpartition("/")[0] for path in paths}
        with self._lock:
            known = set() if with_contents else set(self._durable_directories)
            to_sync = holding | set(map(os.path.dirname, self._new_roots))
        above = set(itertools.chain.from_iterable(map(self._up_to_root, holding - {self._root}))) - known
        to_sync.update(map(os.path.dirname, above))
        _all_of(self._sync, sorted(to_sync, reverse=True))
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
            raise storage_failure("delete", self._root, path, error) from error

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
            raise storage_failure("sync", self._root, path, error) from error

    def _sync(self, directory: str) -> None:
        try:
            disk.fsync_directory(directory)
        except OSError as error:
            raise storage_failure("sync", self._root, os.path.relpath(directory, self._root), error) from error

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


def _all_of(sync: Callable[[str], None], names: list[str]) -> None:
    """Sync all names in parallel: a disk syncs many files for little more than the cost of one."""
    for _ in map(sync, names) if len(names) <= 4 else parallel_map(sync, names, threads=_SYNCS_AT_ONCE):
        pass


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
            raise storage_failure("publish", self._root, self._path, error) from error
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
        return meta_of(self._path, status)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        try:
            if descriptor is not None:
                os.close(descriptor)
            self._sink.close()
        except OSError as error:  # a published file is already synced, an aborted one deleted
            logger.debug("%s: closing %s: %s", self._root, self._path, error)


def _checked(root: str, relative: str, *, follow: bool = True) -> str:
    try:
        return disk.check_below(root, relative, follow=follow)
    except ValueError as error:
        raise StorageError(f"{error}; nothing was changed", table=root, path=relative) from error
    except OSError as error:
        raise storage_failure("reach", root, relative, error) from error


def meta_of(name: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(name=name, size=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _file_above(path: str) -> str | None:
    """The nearest thing above ``path`` that exists, if it is a file instead of a directory."""
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return None if os.path.isdir(above) else above


def storage_failure(action: str, root: str, path: str, error: OSError) -> StorageError | NotFoundError:
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
        f"could not {action} {path}: {error.strerror or error}. Nothing landed; fix the cause and run it again.",
        table=root,
        path=path,
    )
