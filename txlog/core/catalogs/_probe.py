"""Asks whether several writers can share a table: its store, and the catalog that decides its commits.

In: a table's location or name. Out: a `ProbeReport`. Of a catalog, it looks whether its book fits to the log's folder,
and asks it whether it can forget commits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from txlog.core.catalogs._open import named_table
from txlog.core.catalogs._table_catalog import ChecksItself
from txlog.core.store import ProbeReport, TableStore
from txlog.core.store import probe_store as probe_files


def probe_store(
    store: TableStore | str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> ProbeReport:
    """Find out whether two writers can share a table: whether its store refuses to create an existing object, and, for
    a name such as ``uc://catalog.schema.table``, whether its catalog keeps what it has accepted.

    The probe creates one key three times and lets 16 threads race to create another one, both next to the table's log.
    It then removes both keys and, on a local disk, the folders it made for them.

    Args:
        store: The URI of a table, which need not exist, its name in a catalog, or its stores.
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
    notes: list[str] = []
    if isinstance(catalog, ChecksItself):
        found, notes = catalog.durability()
        problems += found
    return replace(report, problems=(*report.problems, *problems), notes=tuple(notes))
