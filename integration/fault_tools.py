"""What the fault tests need from the machine: quick processes, a small disk, a disk image for power cuts, strace.

Each capability is checked, not assumed. A test without its capability is skipped with a note of what was not tested,
and the end of the run repeats it in a block that is hard to overlook.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "PRELOADED",
    "end_of",
    "event",
    "has_journal",
    "memory_folder",
    "mounted_image",
    "new_image",
    "process",
    "require_loop_mounts",
    "require_mounts",
    "require_strace",
    "small_disk",
    "stopped_or_ended",
    "tampered",
    "traced_calls",
]

PRELOADED = (
    "deltalake",
    "numpy",
    "obstore.store",
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "tenacity",
    "txlog.core.versions.files._checkpoint_reader",
    "txlog.core.versions.files._checkpoint_writer",
    "txlog.core.versions.decisions.checkpoint.classic",
    "txlog.core.versions.decisions.checkpoint.v2",
    "txlog.core.versions.decisions.clean_up",
    "txlog.core.versions.decisions.files",
    "txlog.audit.verify",
    "txlog.core.reading._scan_plan",
    "txlog.core.sink._sink",
    "txlog.core.writing._task_writer",
    "txlog.core.store._local_store",
    "txlog.core.store._object_store",
    "txlog.core.store._open",
    "txlog.table",
    "txlog.table_transaction",
    "txlog.core.versions.upkeep._log_clean_up",
    "txlog.core.versions.upkeep._version_checksum",
    "unittest.mock",
)
"""Imported once, by the server that every process of these tests is forked from: none of it was used before."""

WITHOUT_A_DISK = Path("/dev/shm")
IMAGE_BYTES = 12 << 20
_processes = threading.Lock()


@functools.cache
def _context() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def process(target: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """A process that runs ``target``, with no history but its imports; in milliseconds, where an interpreter takes
    half a second to start."""
    started = _context().Process(target=target, args=arguments)
    with _processes:
        started.start()
    return started


def end_of(child: BaseProcess) -> int | None:
    """Wait for it; its exit code. Also from several threads, of which multiprocessing would mix up the children."""
    multiprocessing.connection.wait([child.sentinel])
    with _processes:
        child.join()
        return child.exitcode


def event() -> Any:
    """An event that such processes can wait for."""
    return _context().Event()


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that is no disk where there is one: a kill takes nothing from memory, so waiting proves nothing."""
    if not os.access(WITHOUT_A_DISK, os.W_OK):
        yield tmp_path
        return
    with _temporary_folder(WITHOUT_A_DISK) as folder:
        yield folder


def stopped_or_ended(child: BaseProcess) -> bool:
    """Wait for the next time the child stops itself (True), or for its end (False)."""
    stat = Path(f"/proc/{child.pid}/stat")
    while not multiprocessing.connection.wait([child.sentinel], timeout=0.0005):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended before, or in the middle of it
            if stat.read_text().rpartition(")")[2].split()[0] == "T":
                return True
    end_of(child)
    return False


# --- mounts -----------------------------------------------------------------------------------------------------


def require_mounts(what: str) -> None:
    """Skip, naming ``what`` is not tested, where this process may not mount its own file system."""
    _require("no file system can be mounted", _can_mount(), what)


def require_loop_mounts(what: str) -> None:
    _require("no disk image can be mounted", _can_mount_images(), what)


@contextmanager
def small_disk(folder: Path, size_bytes: int, files: int = 0) -> Iterator[Path]:
    """A file system of that size (and number of files, where given), there for the length of the block."""
    options = f"size={size_bytes}" + (f",nr_inodes={files}" if files else "")
    folder.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", options, "txlog-test", str(folder))
    with _unmounting(folder):
        yield folder


def new_image(path: Path, *, journal: bool = True) -> Path:
    """An empty ext4 disk in a file."""
    with path.open("wb") as image:
        image.truncate(IMAGE_BYTES)
    at_once = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    kind = ("-J", "size=4") if journal else ("-O", "^has_journal")
    subprocess.run(["mkfs.ext4", "-q", "-F", *kind, "-E", at_once, str(path)], check=True)
    return path


def has_journal(image: Path) -> bool:
    """As its superblock says (s_feature_compat)."""
    with image.open("rb") as disk:
        disk.seek(1024 + 0x5C)
        return bool(disk.read(1)[0] & 4)


@contextmanager
def mounted_image(image: Path, folder: Path) -> Iterator[Path]:
    """The disk in ``image``; its journal is written on fsync, not by the clock."""
    folder.mkdir(exist_ok=True)
    _mount("-o", "loop,commit=300" if has_journal(image) else "loop", str(image), str(folder))
    with _unmounting(folder):
        yield folder


@contextmanager
def _unmounting(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        if subprocess.run(["umount", str(folder)], check=False, capture_output=True).returncode:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@functools.cache
def _can_mount() -> str | None:
    """None if it works, otherwise the reason."""
    with _temporary_folder() as folder:
        return _works(lambda: small_disk(folder / "disk", 1 << 20))


@functools.cache
def _can_mount_images() -> str | None:
    if shutil.which("mkfs.ext4") is None:
        return "there is no mkfs.ext4"
    with _temporary_folder() as folder:
        return _works(lambda: mounted_image(new_image(folder / "image"), folder / "disk"))


def _works(attempt: Callable[[], Any]) -> str | None:
    try:
        with attempt():
            return None
    except subprocess.CalledProcessError as error:
        return (error.stderr or b"").decode().strip() or str(error)
    except OSError as error:
        return str(error)


@contextmanager
def _temporary_folder(above: Path | None = None) -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(dir=above) as name:
        yield Path(name)


# --- strace -----------------------------------------------------------------------------------------------------


def require_strace(what: str) -> None:
    """Skip where there is no strace that may tamper with the system calls of another process of ours."""
    _require("no system call can be tampered with", _can_tamper(), what)


@functools.cache
def _can_tamper() -> str | None:
    if shutil.which("strace") is None:
        return "there is no strace"
    command = ["strace", "-qq", "-o", os.devnull, "-e", "trace=mkdir", "-e", "inject=mkdir:error=ENOSPC"]
    code = "import os, sys\ntry: os.mkdir(sys.argv[1])\nexcept OSError as error: sys.exit(error.errno)"
    with _temporary_folder() as folder:
        done = subprocess.run(
            [*command, sys.executable, "-S", "-c", code, str(folder / "new")], check=False, capture_output=True
        )
    return None if done.returncode == 28 else f"strace: {done.stderr.decode().strip() or 'injects nothing'}"


def traced_calls(child: BaseProcess, calls: str, report: Path) -> list[str]:
    """Every one of those system calls that a stopped child made to its end, in order: ``link("a", "b") = 0``."""
    _let_run(child, report, "-e", f"trace={calls}")
    return [line.partition(" ")[2].strip() for line in report.read_text().splitlines()]


def tampered(child: BaseProcess, call: str, fault: str, nth: int, report: Path) -> None:
    """Let a stopped child run to its end; in each thread the ``nth`` such call meets the fault (``error=EIO``)."""
    _let_run(child, report, "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={nth}")


def _let_run(child: BaseProcess, report: Path, *options: str) -> None:
    pid = child.pid
    assert pid is not None
    tracer = subprocess.Popen(["strace", "-f", "-q", "-o", str(report), *options, "-p", str(pid)])
    try:
        status = Path(f"/proc/{pid}/task/{pid}/status")
        while "TracerPid:\t0\n" in status.read_text():
            assert tracer.poll() is None, "strace did not attach"
            time.sleep(0.0005)
        os.kill(pid, signal.SIGCONT)
        end_of(child)
    finally:
        child.kill()
        tracer.wait()


# --- saying what is missing -------------------------------------------------------------------------------------


def _require(lacking: str, why: str | None, what: str) -> None:
    if why is not None:
        pytest.skip(f"NOT TESTED: {what}: {lacking} here ({why})")
