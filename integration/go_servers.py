"""The S3 servers written in Go, built from source once per machine: versitygw for `make test`, and MinIO, whose
build takes two processors for minutes, for the hunt.

Taken from ``TXLOG_GOBIN`` (default: ``gobin`` in the folder of `caches`), or built into it by `go install`. A process
that arrives while another one builds waits for it. CI runs this file in parallel with the earlier tests: no package
holds the servers' binaries. It needs only the standard library, so it can start before anything is installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from caches import cache_folder

__all__ = ["GO_PACKAGES", "IN_EVERY_TEST", "ServerUnavailable", "go_binary"]

GO_FLAGS = ("-gcflags=all=-l", "-ldflags=-s -w")
"""Nothing inlined, nothing for a debugger: 153 s of processor time for versitygw instead of 256 s."""
GO_PACKAGES = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "minio": "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c",
}
IN_EVERY_TEST = "versitygw"
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


if __name__ == "__main__":
    try:
        print(go_binary(IN_EVERY_TEST))
    except (ServerUnavailable, RuntimeError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)  # the tests say it again, where it counts
