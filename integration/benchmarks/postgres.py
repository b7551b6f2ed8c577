"""A PostgreSQL server of the machine, for catalogs: in a folder of its own, reached by a socket in it, by no port.

In: nothing. Out: a running server, or None where the machine has no PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Postgres", "postgres"]

_USER = "postgres"
_STARTS_WITHIN_S = 60.0


class Postgres(NamedTuple):
    """A running server: its process, and its folder, which has its files and its socket."""

    pid: int
    folder: Path

    def new_database(self, name: str) -> str:
        """A database of this name; returns how libpq reaches it."""
        made = _createdb(self.folder, name)
        if made.returncode:
            raise RuntimeError(f"PostgreSQL made no database {name}: {made.stderr}")
        return f"dbname={name} host={self.folder} user={_USER}"


@contextmanager
def postgres() -> Iterator[Postgres | None]:
    """A new server with its default settings, which sync each commit, for the length of the block."""
    programs = [_program(name) for name in ("initdb", "postgres", "createdb")]
    if None in programs:
        yield None
        return
    initdb, server, _ = map(str, programs)
    is_root = os.geteuid() == 0  # the server refuses to run as root
    as_user: dict[str, Any] = {"user": _USER, "group": _USER, "extra_groups": []} if is_root else {}
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        folder = Path(name)
        if is_root:
            shutil.chown(folder, _USER, _USER)
        data = str(folder / "data")
        subprocess.run([initdb, "-D", data, "-A", "trust", "-U", _USER], check=True, capture_output=True, **as_user)
        command = [server, "-D", data, "-k", str(folder), "-c", "listen_addresses="]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user) as process:
            try:
                _wait_until_it_answers(folder)
                yield Postgres(process.pid, folder)
            finally:
                process.terminate()


def _program(name: str) -> str | None:
    """Distributions keep the server's programs off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda each: int(each.parts[4]))
    return str(found[-1]) if found else shutil.which(name)


def _createdb(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    command = [str(_program("createdb")), "-h", str(folder), "-U", _USER, name]
    return subprocess.run(command, capture_output=True, text=True)


def _wait_until_it_answers(folder: Path) -> None:
    end_s = time.monotonic() + _STARTS_WITHIN_S
    while (made := _createdb(folder, "first")).returncode:
        if time.monotonic() > end_s:
            raise RuntimeError(f"PostgreSQL did not start: {made.stderr}")
        time.sleep(0.05)
