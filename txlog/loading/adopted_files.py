"""Checks another writer's data files before a commit names them, and refuses files that no reader could read.

In: the caller's `AddFile` actions, with any values. Out: the same actions as the commit's readers will get them, and
their files durable. It checks what readers check: it parses the action from its line in the log, and reads its
statistics, partition values and deletion vector as a scan does. PROTOCOL.md, "Add File and Remove File", "Per-file
Statistics", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from txlog.core.format.actions import AddFile, RemoveFile, as_read
from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.features import features_of
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.iceberg_compat import versions_in_use
from txlog.core.format.identity import identity_columns
from txlog.core.format.partition_values import problem_of
from txlog.core.format.paths import canonical_path, path_below, resolve_data_path
from txlog.core.format.properties import ICEBERG_COMPAT
from txlog.core.format.statistics import statistics_problem
from txlog.core.format.statistics_read import num_records
from txlog.core.format.wire import ActionError
from txlog.core.row_rules import limits_of, stored_constraints, stored_generated
from txlog.core.store import ObjectMeta, TableStore
from txlog.core.util import invalid, whole_number
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog, list_log
from txlog.core.writing import has_random_name
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError, UnsupportedFeatureError

_IDENTITY = ("path", "size", "modificationTime", "deletionTimestamp")


def take_over(
    open_table: OpenTable, *, state: TableState, files: Iterable[object], are_looked_at: bool = False
) -> list[AddFile]:
    """The files as actions that can be committed, each file durable.

    With ``are_looked_at``, the actions have the sizes and times that the store was just asked for.

    Raises ``InvalidInputError`` for a file that a reader would refuse, or whose path belonged to another file in a
    version that the log still has; ``NotFoundError``, ``StorageError``. It does not look for names that txlog made in
    the log, so adding such files costs the same however many the table has.
    """
    log, store = open_table.log, open_table.store
    refuse_unread_rules(store, state)
    taken: list[AddFile] = []
    modified_ms: dict[str, int] = {}
    paths: list[str] = []
    for file in files:
        add, found = _checked(store, state, file, are_looked_at)
        taken.append(add)
        modified_ms[canonical_path(add.path)] = found.modified_ms
        paths += [found.name, *_vector_file(store, state, add, found.name)]
    foreign = [add for add in taken if not has_random_name(add.path)]
    if foreign:
        _refuse_rewritten(log, state, foreign, modified_ms)
    store.files.make_durable(paths, with_contents=True)
    return taken


def _refuse_rewritten(
    log: DeltaLog, state: TableState, adds: Sequence[AddFile], modified_ms: Mapping[str, int]
) -> None:
    """Refuse files that took other files' names: readers of older versions would find the new ones in their place.

    A new file has another size than the one in the log, was written after that one was removed, or has another
    modification time. Tombstones lack this time: the retained commits have it, and are read only if a path was removed
    recently and nothing else tells the files apart.
    """
    wanted = {canonical_path(add.path): add for add in adds}
    live, removed = log.named_files(state, wanted)
    again: set[str] = set()
    for table in (live, removed):
        for row in table.select([name for name in _IDENTITY if name in table.column_names]).to_pylist():
            path = canonical_path(row["path"])
            times = (row.get("modificationTime"), wanted[path].modification_time, modified_ms[path])
            removed_ms = row.get("deletionTimestamp")
            is_other = row["size"] is not None and row["size"] != wanted[path].size
            is_other |= times[0] is not None and times[0] not in times[1:]
            if is_other or (removed_ms is not None and modified_ms[path] > removed_ms):
                raise _took_the_name(log, state, path)
            if table is removed:
                again.add(path)
    for before in _earlier_files(log, state, again) if again else ():
        path = canonical_path(before.path)
        add = wanted[path]
        if before.size != add.size or before.modification_time not in (add.modification_time, modified_ms[path]):
            raise _took_the_name(log, state, path)


def _took_the_name(log: DeltaLog, state: TableState, path: str) -> InvalidInputError:
    message = (
        f"the log knows another file named {path}: this one was written over it, and readers of older"
        " versions would find its rows there. Give it a new name, and add that one"
    )
    return InvalidInputError(message, table=log.uri, version=state.version, path=path)


def _earlier_files(log: DeltaLog, state: TableState, paths: Collection[str]) -> list[AddFile]:
    """The files that retained versions up to ``state`` had under these paths."""
    first = min(list_log(log.store).commits, default=state.version)
    found: list[AddFile] = []
    known: set[str] = set()
    for commit in log.commits_between(first, state.version):
        for action in commit.actions:
            if not isinstance(action, AddFile | RemoveFile) or (path := canonical_path(action.path)) not in paths:
                continue
            if isinstance(action, AddFile):
                found.append(action)
            elif path not in known:
                found += _files_of(log, commit.version - 1, path)
            known.add(path)
    return found


def _files_of(log: DeltaLog, version: int, path: str) -> list[AddFile]:
    """The live files with one path; none if the version is no longer kept."""
    try:
        return add_files_of(log.named_files(log.state_at(version), [path])[0])
    except NotFoundError:
        return []


def refuse_unread_rules(store: TableStore, state: TableState) -> None:
    """Raises ``InvalidInputError`` if the table has rules for rows, since the rows of other programs' files are not
    read."""
    features = features_of(state.protocol)[1]
    versions = versions_in_use(features, state.metadata.configuration)
    if versions or ("materializePartitionColumns" in features and state.partition_columns):
        what = "partition columns and column ids" if versions else "partition columns"
        rule = ICEBERG_COMPAT[versions[0]] if versions else "materializePartitionColumns"
        raise InvalidInputError(
            f"the table requires {what} in each data file ({rule}), which the files of other programs may lack: append"
            " the rows instead, by table.append(pyarrow.dataset.dataset(paths))",
            table=store.uri,
            version=state.version,
        )
    names = [*stored_constraints(state.metadata.configuration, state.schema)]
    names += [f"generated column {name}" for name in stored_generated(state.schema)]
    names += [f"identity column {each.name}" for each in identity_columns(state.schema) if not each.takes_values]
    names += [f"length of column {limit.name} ({limit.sql})" for limit in limits_of(state.schema, store.uri)]
    if names:
        raise InvalidInputError(
            f"the table has the {', the '.join(names)}, and the rows of files that other programs wrote are not read"
            " here: append the rows instead, by table.append(pyarrow.dataset.dataset(paths))",
            table=store.uri,
            version=state.version,
        )


def _checked(store: TableStore, state: TableState, file: object, is_looked_at: bool) -> tuple[AddFile, ObjectMeta]:
    if not isinstance(file, AddFile):
        raise invalid("file", file, "an AddFile action", table=store.uri)
    size_bytes = whole_number("size", file.size, table=store.uri)
    modified_ms = whole_number("modification_time", file.modification_time, table=store.uri)
    try:
        add = as_read(replace(file, size=size_bytes, modification_time=modified_ms))
        found = resolve_data_path(add.path)
    except (ActionError, CorruptLogError) as error:
        raise InvalidInputError(f"no reader could read this file: {error}", table=store.uri) from None
    path = found.path
    if not found.is_relative:
        message = f"{add.path} is not relative to the table's root; data files must be below the root"
        raise InvalidInputError(message, table=store.uri, path=add.path)
    stored = ObjectMeta(path, add.size, modified_ms) if is_looked_at else store.files.stat(path)
    if stored.size != add.size:
        message = f"{path} has {stored.size} bytes, but the add action has size {add.size}"
        raise InvalidInputError(message, table=store.uri, path=path)
    fields = physical_fields(state.schema, state.partition_columns)
    problem = statistics_problem(add.stats) or problem_of(add.partition_values, fields)
    if problem is not None:
        raise InvalidInputError(f"{path} {problem}", table=store.uri, path=path)
    return add, stored._replace(name=path)


def _vector_file(store: TableStore, state: TableState, add: AddFile, path: str) -> list[str]:
    """The file with its deletion vector, if it has one, after reading the vector as a scan does."""
    vector = add.deletion_vector
    if vector is None:
        return []
    if "deletionVectors" not in (state.protocol.reader_features or ()):
        message = f"{path} has a deletion vector, but the table does not have the feature deletionVectors"
        raise InvalidInputError(message, table=store.uri, path=path)
    rows = num_records(add.stats)
    if rows is None:
        message = f"{path} has a deletion vector, so its stats must have numRecords"
        raise InvalidInputError(message, table=store.uri, path=path)
    from txlog.core.reading import DeletionVectorReader

    try:
        DeletionVectorReader(store, state.version).dead_rows(vector, rows)
        found = vector_path(vector)
    except (CorruptLogError, UnsupportedFeatureError, NotFoundError) as error:
        message = f"the deletion vector of {path} cannot be read: {error.message}"
        raise InvalidInputError(message, table=store.uri, path=path) from error
    below = None if found is None else path_below(store.uri, found)
    return [] if below is None else [below]
