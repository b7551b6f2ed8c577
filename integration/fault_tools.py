"""What the fault tests need of the machine: quick processes, a small disk, an image to cut the power of, strace.

Each capability is looked for, not assumed. A test whose capability is missing is skipped with what was therefore
not tested, and the end of the run says it in a block nobody overlooks.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "PRELOADED",
    "mounted_image",
    "new_image",
    "process",
    "require_loop_mounts",
    "require_mounts",
    "require_strace",
    "say_what_was_left_out",
    "small_disk",
    "stopped_or_ended",
]

PRELOADED = (
    "deltalake",
    "numpy",
    "obstore.store",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "tenacity",
    "txlog.checkpoint_reader",
    "txlog.log.checkpoint",
    "txlog.log.files",
    "txlog.scan",
    "txlog.sink.sink",
    "txlog.sink.task_writer",
    "txlog.store.local",
    "txlog.store.object_store",
    "txlog.table",
    "txlog.transaction",
)
"""Imported once, by the server that every process of these tests is forked from: none of it was used before."""

IMAGE_BYTES = 24 << 20
_left_out: dict[str, str] = {}


@functools.cache
def _context() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def process(target: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """A process that runs ``target``, with no history but its imports; in milliseconds, where an interpreter takes
    half a second to start."""
    started = _context().Process(target=target, args=arguments)
    started.start()
    return started


def event() -> Any:
    """What every process of a race waits for."""
    return _context().Event()


def stopped_or_ended(child: BaseProcess) -> bool:
    """Wait for the next time the child stops itself (True), or for its end (False)."""
    stat = Path(f"/proc/{child.pid}/stat")
    while child.is_alive():
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            break
        if state == "T":
            return True
        time.sleep(0.0005)
    child.join()
    return False


# --- mounts -----------------------------------------------------------------------------------------------------


def require_mounts(what: str) -> None:
    """Skip, naming ``what`` is not tested, where this process may not mount a file system of its own."""
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


def new_image(path: Path) -> Path:
    """An empty ext4 disk in a file."""
    with path.open("wb") as image:
        image.truncate(IMAGE_BYTES)
    at_once = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    subprocess.run(["mkfs.ext4", "-q", "-F", "-J", "size=4", "-E", at_once, str(path)], check=True)
    return path


@contextmanager
def mounted_image(image: Path, folder: Path) -> Iterator[Path]:
    """The disk in ``image``; its journal is written when somebody asks for it by fsync, not by the clock."""
    folder.mkdir(exist_ok=True)
    _mount("-o", "loop,commit=300", str(image), str(folder))
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
    """None where it works, else why not."""
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
def _temporary_folder() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
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


# --- saying what is missing -------------------------------------------------------------------------------------


def _require(lacking: str, why: str | None, what: str) -> None:
    if why is not None:
        _left_out[what] = f"{lacking} here ({why})"
        pytest.skip(f"NOT TESTED: {what}: {_left_out[what]}")


def say_what_was_left_out(terminalreporter: Any) -> None:
    """For the end of a test run."""
    if _left_out:
        terminalreporter.section("FAULTS THAT THIS MACHINE CANNOT MAKE WERE NOT TESTED", sep="!", red=True, bold=True)
        for what, why in _left_out.items():
            terminalreporter.write_line(f"{what}: {why}")
