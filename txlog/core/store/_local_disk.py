"""The few system calls behind the local store: write aside, sync, take a name once, make directories durable.

In: absolute paths and bytes. Out: `OSError` unchanged; the store decides which of them are definite.
Nothing here knows what a log or a data file is. PROTOCOL.md requires mutual exclusion on a commit's name
("Writer Requirements"); on a disk, `take_name` provides it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import stat
import sys
from collections.abc import Callable, Iterable

from txlog.core.util import logger

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
# Opening a named pipe would wait until a process writes into it.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_NO_NAMELESS_FILES = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOSYS})
# One journal takes names and files in order, so fsync also keeps a file that has no name yet.
# Btrfs before Linux 6.15 did not write such a file to its log. On ext4 this is true only with a journal.
_JOURNALS_NAMES = frozenset({"ext4", "xfs", "tmpfs"})
_NO_NAMELESS_LINKS = _NO_HARD_LINKS | {errno.ENOENT, errno.EXDEV}
_WHOLE_BYTES_MAX = 2 * 1024**3
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100
_NOT_PLAIN = frozenset(("", ".", ".."))


class LinkUnsupported(OSError):
    """The file system has neither hard links nor an exclusive rename, so no name can be taken safely."""


def open_exclusive(path: str) -> int:
    """Create a file and open it for writing, with permissions from the umask. No file or symlink may have the name."""
    return os.open(path, _CREATE, 0o666)


def write_under(path: str, body: bytes | memoryview) -> None:
    """Write a new file and sync it. On any failure the file is removed."""
    descriptor = open_exclusive(path)
    try:
        try:
            write_fully(descriptor, body)
            fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        remove_quietly(path)
        raise


def write_fully(descriptor: int, body: bytes | memoryview) -> os.stat_result:
    """Write every byte and read back the size, so a short write is never acknowledged."""
    size_bytes = len(body)
    written_bytes = os.write(descriptor, body)
    while written_bytes < size_bytes:
        written_bytes += os.write(descriptor, memoryview(body)[written_bytes:])
    status = os.fstat(descriptor)
    if status.st_size != size_bytes:
        raise OSError(errno.EIO, f"{size_bytes} bytes were written but the file has {status.st_size}")
    return status


def fsync(descriptor: int) -> None:
    """Force the file to the disk. A failure is final: the kernel drops the pages, so a second try proves nothing."""
    if sys.platform == "darwin":
        import fcntl

        # On macOS fsync stops at the drive's cache.
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise  # otherwise a network drive, which knows only fsync
    os.fsync(descriptor)


def fsync_file(path: str) -> None:
    """Make the bytes of a regular file survive a power cut, whichever process wrote them. Follows a symlink."""
    descriptor = open_regular(os.path.realpath(path))
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_directory(path: str) -> None:
    """Make the names in a directory survive a power cut. A file system that syncs no directories at all, as many FUSE
    and SMB mounts, does what it does: a warning says once what is not promised."""
    descriptor = os.open(path, _READ_DIRECTORY)
    try:
        fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
        _warn_of_names(os.fstat(descriptor).st_dev, path, str(error))
    finally:
        os.close(descriptor)


def _warn_of_names(device: int, path: str, error: str) -> None:
    if device not in _warned_of:
        _warned_of.add(device)
        logger.warning(
            "%s: this file system syncs no directories (%s). Commits stay atomic, but one that was acknowledged may be"
            " gone after a power cut or a crash of the mount. Put tables that must survive these on a local disk or in"
            " an object store",
            path,
            error,
        )


_warned_of: set[int] = set()
"""The devices of which a warning said in this process that their directories are not synced."""


def read_from(path: str, start: int) -> bytes:
    """A file's bytes from ``start`` to its end. `OSError` for a symlink."""
    descriptor = os.open(path, _READ | os.O_NOFOLLOW)
    try:
        return os.pread(descriptor, max(0, os.fstat(descriptor).st_size - start), start)
    finally:
        os.close(descriptor)


def read_whole(path: str) -> bytes:
    """All bytes of a regular file. Raises OSError for a symlink, and for a size that no real file has."""
    with open(open_regular(path), "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size > _WHOLE_BYTES_MAX:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return file.read()


def open_regular(path: str) -> int:
    """A descriptor for reading. Raises `OSError` for a symlink, a directory, a pipe or a device."""
    descriptor = os.open(path, _READ | os.O_NOFOLLOW)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


class WrittenAside:
    """A complete file that has no name yet (open(2), O_TMPFILE). Taking its name is one change of the directory, and a
    crash leaves nothing behind. If the file system has no such files, it has a hidden name. ``status`` is the file's
    size and times as read back, ``keeps_names`` whether the disk writes names in order.

    `sync` comes before `take_name` if a process may already look for that name. Otherwise it comes after: the file
    system then makes the bytes and the name durable together.
    """

    def __init__(self, final: str, hidden: Callable[[], str], body: bytes | memoryview) -> None:
        """``hidden`` makes a name next to ``final``, if one is needed. Raises OSError, and then nothing is left."""
        self._final = final
        self._hidden_name = hidden
        self._hidden: str | None = None
        self._body = body
        self._is_synced = False
        directory = final.rpartition("/")[0]
        self.keeps_names = keeps_names(directory)
        self._descriptor = _open_nameless(directory) if self.keeps_names else None
        if self._descriptor is None:
            self._descriptor = self._open_hidden()
        self.status = self._write(self._descriptor)

    def sync(self) -> None:
        """Make the bytes survive a power cut. Raises OSError."""
        assert self._descriptor is not None, "discarded before"
        fsync(self._descriptor)
        self._is_synced = True

    def take_name(self, *, may_overwrite: bool = False) -> None:
        """Publish under the final name in one step, or raise `FileExistsError` if that name is taken.

        ``may_overwrite`` is as for `take_name`. Raises LinkUnsupported, and OSError: after most of them the name may
        have been taken.
        """
        if self._hidden is None:
            try:
                own = f"/proc/self/fd/{self._descriptor}"
                os.link(own, self._final, src_dir_fd=self._descriptor, follow_symlinks=True)
                return
            except OSError as error:
                if error.errno not in _NO_NAMELESS_LINKS:
                    raise
            self._hide()
        assert self._hidden is not None
        take_name(self._hidden, self._final, may_overwrite=may_overwrite)
        self._unhide()  # before anybody syncs the directory, which then takes both changes together

    def discard(self) -> None:
        """Release the file. Must always be called in the end. Never raises: a leftover hidden file is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _close_quietly(descriptor)  # what has to be durable was synced before
        self._unhide()

    def _unhide(self) -> None:
        hidden, self._hidden = self._hidden, None
        if hidden is not None:
            remove_quietly(hidden)

    def _open_hidden(self) -> int:
        name = self._hidden_name()
        descriptor = open_exclusive(name)
        self._hidden = name
        return descriptor

    def _hide(self) -> None:
        """Write the same bytes again under a hidden name, because the nameless file could not get a name."""
        self.discard()
        self._descriptor = self._open_hidden()
        self.status = self._write(self._descriptor)
        if self._is_synced:
            self.sync()

    def _write(self, descriptor: int) -> os.stat_result:
        try:
            return write_fully(descriptor, self._body)
        except BaseException:
            self.discard()
            raise


def _open_nameless(directory: str) -> int | None:
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        return os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _NO_NAMELESS_FILES:
            return None
        raise


def keeps_names_in_order(descriptor: int) -> bool:
    """Whether the file system of an open directory writes its names to disk in the order they were made."""
    return _journals_names(os.fstat(descriptor).st_dev, os.statvfs(descriptor).f_fsid)


def keeps_names(directory: str) -> bool:
    """`keeps_names_in_order` of a directory's file system."""
    return _journals_names(os.stat(directory).st_dev, os.statvfs(directory).f_fsid)


@functools.cache
def _journals_names(device: int, identity: int) -> bool:
    """Whether the file system has a journal; False if that is unknown. Without a journal, ext4
    writes a file and its name separately: a file that was synced before it had its name can be lost in a power cut,
    and the name then leads to nothing.

    ``identity`` is the file system's: a device may hold another one the next time.
    """
    kind = _file_system(device)
    return kind in _JOURNALS_NAMES and (kind != "ext4" or _has_journal(device))


def _has_journal(device: int) -> bool:
    """Whether the kernel's journaling has one on that device: `/proc/fs/jbd2` has a folder with its name and an
    inode."""
    try:
        name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
        return any(journal.rpartition("-")[0] == name for journal in os.listdir("/proc/fs/jbd2"))
    except OSError:
        return False


def _file_system(device: int) -> str | None:
    """The type of the file system with this device number; None if /proc does not list it."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                before, _, after = line.partition(" - ")
                if before.split()[2:3] == [wanted]:
                    return after.split()[0]
    except (OSError, IndexError):
        pass
    return None


def take_name(temporary: str, final: str, *, may_overwrite: bool = False) -> None:
    """Publish ``temporary`` as ``final`` in one step, or raise `FileExistsError` if that name is taken.

    Where the file system has no exclusive way, it raises `LinkUnsupported`, or with ``may_overwrite`` looks and then
    renames: a file that gets the name at that moment is replaced. Afterwards the temporary name may still be there (a
    second name of the same file): remove it.
    """
    try:
        os.link(temporary, final)
    except FileExistsError:
        # NFS may resend a link that succeeded and answer "exists"; open(2) says how to tell: two names mean ours.
        if os.stat(temporary, follow_symlinks=False).st_nlink != 2:
            raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        try:
            _rename_exclusive(temporary, final)
        except LinkUnsupported:
            if not may_overwrite:
                raise
            if os.path.lexists(final):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), final) from None
            os.rename(temporary, final)


def make_directories(path: str) -> list[str]:
    """Create ``path`` and its missing parents, and return the ones created, topmost first.

    A directory that another process creates meanwhile counts as created here: it may not be synced yet.
    """
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.append(path)
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    missing.reverse()
    for directory in missing:
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
    return missing


def remove_quietly(path: str) -> None:
    """Remove a harmless leftover file. Errors are ignored."""
    try:
        os.unlink(path)
    except OSError:
        return


def _close_quietly(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        return


def check_below(root: str, relative: str, *, follow: bool = True) -> str:
    """The absolute path of ``relative``, which must be a plain path that no symlink leads out of ``root``.

    Segments that do not exist yet are allowed. With ``follow=False`` the last segment is not checked; it is for callers
    that do not follow a symlink there. Raises `ValueError`.
    """
    segments = relative.split("/")
    if "\0" in relative or not _NOT_PLAIN.isdisjoint(segments):
        raise ValueError(f"{relative!r} is not a plain relative path")
    path = root
    for segment in segments if follow else segments[:-1]:
        path = f"{path}/{segment}"
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            break
        if stat.S_ISLNK(mode) and not os.path.realpath(path).startswith(os.path.realpath(root) + os.sep):
            raise ValueError(f"{relative!r} leads out of {root} through a symbolic link")
    return f"{root}/{relative}"


def check_no_links(paths: Iterable[str]) -> None:
    """Raises `ValueError` if one of ``paths``, which need not exist, is a symlink."""
    for path in paths:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue  # opening the file reports the error
        if stat.S_ISLNK(mode):
            raise ValueError(f"{path} is a symbolic link, through which a log is neither read nor written nor deleted")


def _rename_exclusive(temporary: str, final: str) -> None:
    rename = _renameat2()
    if rename is None:
        raise LinkUnsupported(errno.ENOTSUP, "no hard links, and no renameat2 in this C library")
    if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(final), _RENAME_NOREPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise LinkUnsupported(code, "neither hard links nor an exclusive rename")
    raise OSError(code, os.strerror(code), final)


@functools.cache
def _renameat2() -> ctypes._NamedFuncPointer | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
