"""Whether a server on this machine can forget commits: whether its database syncs each one before it answers.

In: the server's address. Out: problems and notes for a probe. Without the sync it forgets some when it is killed. Of a
server elsewhere nothing says so: a note says what to look for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

_HERE = ("127.0.0.1", "localhost", "::1")
_SETTINGS = "etc/conf/hibernate.properties"
_ADDRESS = re.compile(r"^\s*hibernate\.connection\.url\s*[=:]\s*(\S+)", re.MULTILINE)
_LISTENS = "0A"  # the state of a socket in /proc/net/tcp


def durability(server: str) -> tuple[list[str], list[str]]:
    """Problems and notes of the server at this address, as `ChecksItself` wants them."""
    address = _database(server)
    if address is None:
        return [], [
            "the settings of the catalog's server cannot be seen from here: its database must sync each commit before"
            " the server answers, and that of the open server does so only with WRITE_DELAY=0 in its address"
        ]
    if address.startswith("jdbc:h2:mem:"):
        return ["the catalog's server keeps its book in memory: it forgets all of it when it ends"], []
    if address.startswith("jdbc:h2:") and "WRITE_DELAY=0" not in address.upper().replace(" ", "").split(";"):
        return [
            "the catalog's server does not sync each commit: it forgets the last ones if it is killed. Add"
            f" ;WRITE_DELAY=0 to hibernate.connection.url in its {_SETTINGS}"
        ], []
    return [], []


def _database(server: str) -> str | None:
    """The address of the database of a server on this machine; None if it cannot be seen."""
    parts = urlsplit(server)
    if parts.hostname not in _HERE or parts.port is None:
        return None
    for folder in _folders_of(parts.port):
        try:
            with open(f"{folder}/{_SETTINGS}", encoding="utf-8") as file:
                found = _ADDRESS.search(file.read().replace("\\:", ":"))
        except OSError:
            continue
        if found is not None:
            return found[1]
    return None


def _folders_of(port: int) -> Iterator[str]:
    """The current folders of the processes that listen on a port of this machine, where the system shows them."""
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                fields = [line.split() for line in lines][1:]
        except OSError:
            continue
        sockets |= {
            f"socket:[{each[9]}]" for each in fields if each[3] == _LISTENS and each[1].endswith(f":{port:04X}")
        }
    for process in filter(str.isdecimal, os.listdir("/proc") if sockets else ()):
        try:
            open_files = os.listdir(f"/proc/{process}/fd")
            if any(os.readlink(f"/proc/{process}/fd/{each}") in sockets for each in open_files):
                yield os.readlink(f"/proc/{process}/cwd")
        except OSError:  # it has ended, or is another user's
            continue
