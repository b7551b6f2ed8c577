"""The S3 servers written in Go, for the hunt and the benchmarks: built from source once per machine, in minutes.

Taken from ``TXLOG_GOBIN`` (default: ``gobin`` in the folder of `caches`), or built into it by `go install`, since no
package holds their binaries. A process that arrives while another one builds waits for it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from caches import cache_folder

__all__ = ["GO_PACKAGES", "ServerUnavailable", "go_binary"]

GO_FLAGS = ("-gcflags=all=-l", "-ldflags=-s -w")
"""Nothing inlined, nothing for a debugger: 153 s of processor time for versitygw instead of 256 s."""
GO_PACKAGES = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "minio": "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c",
}
BUILD_TIMEOUT_S = 1200.0


class ServerUnavailable(Exception):
    """Neither the binary nor a way to build it is on this machine."""


def go_binary(name: str) -> Path:
    """The server called ``name``. Raises ServerUnavailable."""
    folder = Path(os.environ.get("TXLOG_GOBIN") or cache_folder("gobin"))
    binary = folder / name
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise ServerUnavailable(f"{name} is not in {folder}, and there is no Go to build it with")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            _build(go, name, folder)
    return binary


def _build(go: str, name: str, folder: Path) -> None:
    """Under another name until it is whole."""
    building = folder / ".building"
    built = subprocess.run(
        [go, "install", *GO_FLAGS, GO_PACKAGES[name]],
        env={**os.environ, **_folders_of_go(), "GOBIN": str(building), "CGO_ENABLED": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if built.returncode != 0:
        kind = RuntimeError if os.environ.get("CI") == "true" else ServerUnavailable
        raise kind(f"go install {GO_PACKAGES[name]} failed: {built.stderr.strip()[-500:]}")
    (building / name).rename(folder / name)


def _folders_of_go() -> dict[str, str]:
    """Where Go keeps what it fetched and compiled if the home directory is read-only: next to the other caches."""
    if Path.home().is_dir() and os.access(Path.home(), os.W_OK):
        return {}
    return {"GOPATH": str(cache_folder("go")), "GOCACHE": str(cache_folder("go-build"))}
