"""A PostgreSQL server of the machine, for catalogs and mirrors: in a folder of its own, reached by a socket there.

In: nothing. Out: a running server, or None where the machine has no PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["MIRRORED", "NO_SERVER", "Postgres", "postgres"]

NO_SERVER = "the machine has no PostgreSQL (initdb, postgres, createdb, psql)"
MIRRORED = {"wal_level": "logical", "fsync": "off", "max_replication_slots": "100", "shared_buffers": "16MB"}
"""Settings of a server that is mirrored. Without syncs, a power cut loses what it committed; a kill does not."""

_USER = "postgres"
_STARTS_WITHIN_S = 60.0


class Postgres:
    """A server in a folder, which has its files and its socket."""

    def __init__(self, folder: Path, settings: Mapping[str, str], primary: Postgres | None = None) -> None:
        """``primary``: the running server of which this one is a standby."""
        is_root = os.geteuid() == 0  # the server refuses to run as root
        self._as_user: dict[str, Any] = {"user": _USER, "group": _USER, "extra_groups": []} if is_root else {}
        if is_root:
            shutil.chown(folder, _USER, _USER)
        self.folder = folder
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        data = str(folder / "data")
        self._command = [str(_program("postgres")), "-D", data, "-k", str(folder), "-c", "listen_addresses=", *given]
        self._process: subprocess.Popen[bytes] | None = None
        self.settings = settings
        made = [str(_program("initdb")), "-D", data, "-A", "trust", "-U", _USER, "--no-sync"]
        if primary is not None:
            made = [str(_program("pg_basebackup")), "-D", data, "-h", str(primary.folder), "-U", _USER]
            made += ["-R", "-X", "stream", "-c", "fast", "--no-sync"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **self._as_user)

    @property
    def pid(self) -> int:
        """The process of the server that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder}
        self._process = subprocess.Popen(self._command, **quiet, **self._as_user)
        end_s = time.monotonic() + _STARTS_WITHIN_S
        while (asked := self._ask("psql", "-d", "postgres", "-c", "select 1")).returncode:
            if time.monotonic() > end_s:
                raise RuntimeError(f"PostgreSQL did not start: {asked.stderr}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it, and wait for that: SIGINT, it ends its connections; SIGQUIT, at once, as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def copied_to(self, name: str) -> Path:
        """A copy of the files of the stopped server, in its folder."""
        copy = self.folder / name
        subprocess.run(["cp", "-a", str(self.folder / "data"), str(copy)], check=True)
        return copy

    def restore(self, copy: Path) -> None:
        """Put a copy in the place of the stopped server's files."""
        shutil.rmtree(self.folder / "data")
        copy.rename(self.folder / "data")

    def standby(self) -> Postgres:
        """A physical standby of this server, in a folder in its own; it is not started."""
        folder = self.folder / "standby"
        folder.mkdir()
        return Postgres(folder, self.settings, self)

    def take_slots(self, primary: Postgres) -> None:
        """Have the logical slots of the primary, as its last checkpoint knows them. This server is stopped."""
        for slot in (primary.folder / "data" / "pg_replslot").iterdir():
            copy = self.folder / "data" / "pg_replslot" / slot.name
            subprocess.run(["cp", "-a", str(slot), str(copy)], check=True)

    def ask(self, text: str) -> str:
        """The answer to a question that has one value."""
        answer = self._ask("psql", "-d", "postgres", "-A", "-t", "-c", text)
        if answer.returncode:
            raise RuntimeError(f"PostgreSQL does not answer {text}: {answer.stderr}")
        return answer.stdout.strip()

    def new_database(self, name: str) -> str:
        """A database of this name; returns how libpq reaches it."""
        made = self._ask("createdb", name)
        if made.returncode:
            raise RuntimeError(f"PostgreSQL made no database {name}: {made.stderr}")
        return self.address_of(name)

    def address_of(self, name: str) -> str:
        """How libpq reaches a database."""
        return f"dbname={name} host={self.folder} user={_USER}"

    def _ask(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(_program(program)), "-h", str(self.folder), "-U", _USER, *arguments]
        return subprocess.run(command, capture_output=True, text=True)


@contextmanager
def postgres(settings: Mapping[str, str] | None = None) -> Iterator[Postgres | None]:
    """A new server for the length of the block, whose settings sync each commit unless others are given; None where the
    machine has no PostgreSQL."""
    if None in [_program(name) for name in ("initdb", "postgres", "createdb", "psql")]:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        server = Postgres(Path(name), settings or {})
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # nobody needs its files any more


def _program(name: str) -> str | None:
    """Distributions keep the server's programs off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda each: int(each.parts[4]))
    return str(found[-1]) if found else shutil.which(name)
