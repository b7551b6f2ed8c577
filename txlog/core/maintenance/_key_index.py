"""Keeps the keys of data files beside the table ahead of the upserts that look for them.

In: an open table whose property ``txlog.keyIndex`` names key columns. Out: a key file for each larger live data file
that had none (`core.reading._key_folder`). An upsert that reads a data file keeps its keys too; here no upsert waits.
"""

from __future__ import annotations

from collections.abc import Callable

from txlog.core.changes.tasks import FileRows
from txlog.core.changes.tasks.operations import cached_keys, keys_of_file
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.properties import path_text
from txlog.core.row_rules import key_columns
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState


def keep_keys(
    open_table: OpenTable, state: TableState, on_progress: Callable[[int, int], object], *, dry_run: bool = False
) -> int:
    """Keep the keys of a version's data files that lack it, one after another, and return how many did.

    Raises ``InvalidInputError`` if the property names what cannot be a key, and what reading data files raises.
    """
    named = state.properties.key_index
    if not named:
        return 0
    keys = key_columns([path_text(path) for path in named], state.schema, state.partition_columns)
    cached = cached_keys(open_table.key_cache, keys, state)
    if cached.folder is None:
        return 0
    lacking = cached.folder.lacking(add_files_of(open_table.log.files(state)))
    names = {key.path[0] for key in keys}
    fields = tuple(field for field in state.schema.fields if field.name in names)
    reader = FileRows(open_table.store, state).reader(fields)
    for done, add in enumerate([] if dry_run else lacking, start=1):
        found = keys_of_file(cached, keys, add, reader.batches(add, with_dead_rows=True))
        cached.folder.keep([] if found is None else [found])
        on_progress(done, len(lacking))
    return len(lacking)
