"""Existing Parquet files in the table's directory as ``add`` actions: workers read footers, nothing is rewritten.

In: paths below the root, or a folder. Out: adds that are checked against the table (``loading/existing_files``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txlog.core.changes.tasks import Folders, listed
from txlog.core.format.actions import AddFile
from txlog.core.format.column_mapping import is_mapped
from txlog.core.format.paths import canonical_path, encode_path, resolve_data_path
from txlog.core.progress import OnProgress, progress_of
from txlog.core.store import ObjectMeta, TableStore
from txlog.core.util import invalid
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.workers import GivenWorkers, shares
from txlog.core.writing import has_random_name
from txlog.errors import CorruptLogError, InvalidInputError, UnsupportedFeatureError
from txlog.loading.adopted_files import refuse_unread_rules
from txlog.loading.existing_files import ExistingFile, ReadExisting, naming

_FOOTERS_AT_ONCE = 8
_FOOTERS_MAX = 200  # for each task
_SUFFIX = ".parquet"


def adds_of(
    open_table: OpenTable,
    *,
    state: TableState,
    paths: str | Sequence[str],
    on_progress: OnProgress | None = None,
    workers: GivenWorkers | None = None,
) -> list[AddFile]:
    """One ``add`` per path; for a folder, per Parquet file in it that the table does not have yet.

    Raises ``InvalidInputError`` for a path that is repeated or already in the table, or whose directories do not name
    every partition column; ``SchemaMismatchError``; ``NotFoundError``; ``UnsupportedFeatureError`` for a table with
    column mapping.
    """
    store, progress = open_table.store, progress_of(on_progress)
    if not isinstance(paths, Iterable):
        raise invalid("paths", paths, "a list of paths, or a folder", table=store.uri)
    if is_mapped(state.schema):
        raise UnsupportedFeatureError(
            "the table maps its columns (delta.columnMapping.mode), so files made elsewhere have other column names"
            " in them: append the rows instead",
            table=store.uri,
            version=state.version,
            features=("columnMapping",),
        )
    refuse_unread_rules(store, state)
    places = open_table.workers(workers, 1 if store.has_cheap_calls else _FOOTERS_AT_ONCE)
    new = _in_folder(open_table, state, paths) if isinstance(paths, str) else _named(open_table, state, paths)
    adds: dict[int, list[AddFile]] = {}
    done = 0
    for number, found in places.map(ReadExisting(open_table.task_table(state)), shares(new, places, _FOOTERS_MAX)):
        adds[number] = found
        done += len(found)
        progress("reading footers of files", done, len(new))
    return [add for number in sorted(adds) for add in adds[number]]


def _named(open_table: OpenTable, state: TableState, paths: Iterable[str]) -> list[ExistingFile]:
    """The files with these paths, which the table must not have."""
    store = open_table.store
    named: list[ExistingFile] = []
    for path in paths:
        with naming(path):
            named.append(ExistingFile(path, *_checked_path(store, path)))
    live = open_table.log.named_files(state, [file.uri_path for file in named])[0].column("path").to_pylist()
    taken = {canonical_path(path) for path in live}
    for file in named:
        with naming(file.given):
            if canonical_path(file.uri_path) in taken:
                message = "the file is already in the table, or named twice"
                raise InvalidInputError(message, table=store.uri, path=file.given)
            taken.add(canonical_path(file.uri_path))
    return named


def _in_folder(open_table: OpenTable, state: TableState, folder: str) -> list[ExistingFile]:
    """The Parquet files in a folder that the log does not name: neither live nor removed."""
    store, top = open_table.store, folder.rstrip("/")
    if top.endswith(_SUFFIX):
        raise invalid("paths", folder, f"a folder, or a list of paths: [{folder!r}]", table=store.uri)
    if top:
        with naming(folder):
            _, top = _checked_path(store, top)
    there = [
        file
        for batch in listed(store.files, Folders(state.partition_columns), lambda link: None, folder=top)
        for file in map(ObjectMeta, *(column.to_pylist() for column in batch.columns))
        if file.name.endswith(_SUFFIX)
    ]
    found = [ExistingFile(each.name, *_checked_path(store, each.name), each) for each in sorted(there)]
    if not found:
        message = f"there is no Parquet file in the folder {folder!r}: pass a folder below the table's root, or a list"
        raise InvalidInputError(f"{message} of paths", table=store.uri, path=folder)
    live, removed = open_table.log.named_files(state, [file.uri_path for file in found])
    known = {canonical_path(path) for table in (live, removed) for path in table.column("path").to_pylist()}
    new = [file for file in found if canonical_path(file.uri_path) not in known]
    for file in new:
        if has_random_name(file.uri_path):
            raise InvalidInputError(
                f"{file.path} has a name that txlog gives, and no commit names it: a write that is under way may commit"
                " it, or it was left by one that failed. To add it all the same, pass the files as a list of paths",
                table=store.uri,
                path=file.path,
            )
    return new


def _checked_path(store: TableStore, path: object) -> tuple[str, str]:
    """The path as in the log, and as in the store."""
    if not isinstance(path, str):
        raise invalid("path", path, "a string, relative to the table's root", table=store.uri)
    try:
        uri_path = encode_path(path)
        found = resolve_data_path(uri_path)
    except (CorruptLogError, UnicodeEncodeError):
        message = "this is not the path of a data file below the table's root: expected a path such as day=1/a.parquet"
        raise InvalidInputError(message, table=store.uri, path=path) from None
    if not found.is_relative:
        raise InvalidInputError("a path must be relative to the table's root", table=store.uri, path=path)
    return uri_path, found.path
