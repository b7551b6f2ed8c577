"""One line about the machine: cores, memory, disk, versions, and how busy it was."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import time
from pathlib import Path

PACKAGES = ("txlog-delta", "pyarrow", "deltalake", "pyspark", "pyiceberg", "duckdb")


def describe(scratch: Path) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return (
        f"{cores} cores ({_processor()}), {memory_gb:.0f} GB, {_file_system(scratch)} with a file's fsync at"
        f" {_fsync_ms(scratch):.2f} ms, {platform.system()} {platform.release()}, Python {platform.python_version()},"
        f" {versions}; load {os.getloadavg()[0]:.1f} at the start."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _file_system(path: Path) -> str:
    """The type of the file system that holds ``path``, by the longest mount point above it."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "disk"
    here = path.resolve()
    above = [(len(mount[1]), mount[2]) for mount in mounts if here.is_relative_to(mount[1])]
    return max(above)[1] if above else "disk"


def _fsync_ms(folder: Path) -> float:
    samples = []
    for number in range(50):
        path = folder / f"fsync-{number}"
        with path.open("xb") as file:
            file.write(b"x" * 1024)
            file.flush()
            begin_s = time.perf_counter()
            os.fsync(file.fileno())
            samples.append((time.perf_counter() - begin_s) * 1e3)
        path.unlink()
    return statistics.median(samples)
