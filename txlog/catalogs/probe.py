"""Asks whether several writers can share a table: its store, and the catalog that decides its commits.

In: a table's location or name. Out: a `ProbeReport`. Of a catalog, it looks whether its book fits to the log's folder,
and, if its server runs on this machine, whether its database syncs each commit, without which it forgets some when it
is killed. Of a server elsewhere nothing says so: the report says what to look for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from txlog.catalogs.open import named_table
from txlog.store.probe import ProbeReport
from txlog.store.probe import probe_store as probe_files
from txlog.store.table_store import TableStore

__all__ = ["probe_store"]

_HERE = ("127.0.0.1", "localhost", "::1")
_SETTINGS = "etc/conf/hibernate.properties"
_ADDRESS = re.compile(r"^\s*hibernate\.connection\.url\s*[=:]\s*(\S+)", re.MULTILINE)
_LISTENS = "0A"  # the state of a socket in /proc/net/tcp


def probe_store(
    store: TableStore | str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> ProbeReport:
    """Find out whether two writers can share a table: whether its store refuses to create an existing object, and, for
    a name ``uc://catalog.schema.table``, whether its catalog keeps what it has accepted.

    The probe creates one key three times and lets 16 threads race to create another one, both next to the table's log.
    It then removes both keys and, on a local disk, the folders it made for them.

    Args:
        store: The URI of a table, which need not exist, its name in a Unity Catalog, or its stores.
        storage_options: Credentials and settings, as for ``Table.open``.

    Returns:
        A report that names every problem. Its ``require_safe()`` raises if there is one.

    Raises:
        StorageError: The store cannot be written to at all, or the catalog does not answer.
        TableNotFoundError: The catalog has no table of this name.
    """
    named = None if isinstance(store, TableStore) else named_table(store, storage_options, None)
    if named is None:
        return probe_files(store, storage_options)
    catalog, name = named
    table = catalog.resolve(name).store()
    report = probe_files(table)
    if table.owner is None:
        return report
    problems = [
        f"the catalog has {fork.owned or 'no file'} as version {fork.version}, and {fork.published} is published: it"
        " has forgotten commits. `txlog repair` gives them back to it"
        for fork in table.owner.forks()
    ]
    notes = []
    address = _database(catalog.uri)
    if address is None:
        notes.append(
            "the settings of the catalog's server cannot be seen from here: its database must sync each commit before"
            " it answers, which that of the open server does with WRITE_DELAY=0 in its address alone"
        )
    elif address.startswith("jdbc:h2:mem:"):
        problems.append("the catalog's server keeps its book in memory: it forgets all of it when it ends")
    elif address.startswith("jdbc:h2:") and "WRITE_DELAY=0" not in address.upper().replace(" ", "").split(";"):
        problems.append(
            "the catalog's server does not sync each commit: it forgets the last ones if it is killed. Add"
            f" ;WRITE_DELAY=0 to hibernate.connection.url in its {_SETTINGS}"
        )
    return replace(report, problems=(*report.problems, *problems), notes=tuple(notes))


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
