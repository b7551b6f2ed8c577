"""How the files of a branch become those of a version of its table: by the few that differ, however many there are.

In: files as columns. Out: actions. Work on what is the same is column by column. And whether a vacuum may have taken
files of a version of the table before the branch named them; or has, if the process that made the branch died before it
could see to that.
"""

from __future__ import annotations

import contextlib
from typing import Final

import pyarrow as pa

from txlog.branch.places import Places
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import canonical_path, resolve_data_path, stored_path
from txlog.errors import NotFoundError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import parallel_map

_CLOCKS_MS: Final = 5 * 60_000
"""So much may two clocks differ."""
_LOOKS_AT_ONCE = 16


def differing(files: pa.Table, others: pa.Table) -> tuple[list[AddFile], list[AddFile]]:
    """Those of the ``files`` (``FILES_SCHEMA``) that the ``others`` lack, by path and deletion vector, and those of the
    others that the files lack."""
    if not files.num_rows:
        return [], add_files_of(others)
    only = _without(files, others), _without(others, files)
    keys = [{(canonical_path(add.path), add.key[1]) for add in each} for each in only]
    respelled = keys[0] & keys[1]  # another engine may have spelled a path in its own way
    here, there = ([add for add in each if (canonical_path(add.path), add.key[1]) not in respelled] for each in only)
    return here, there


def renumbered(files: pa.Table, others: pa.Table) -> list[AddFile]:
    """Those of the ``others`` that the ``files`` have too, with another row commit version: the branch's, which the
    table took over. In both, they have the paths of the branch's log."""
    if others["baseRowId"].null_count == others.num_rows:
        return []
    from txlog.core.format.arrow.compute import pc

    own = (
        add_files_of(each.filter(pc.invert(pc.match_substring_regex(each["path"], "^/|:")))) for each in (files, others)
    )
    known, taken = ({(canonical_path(add.path), add.key[1]): add for add in each} for each in own)
    both = ((known[key], add) for key, add in taken.items() if key in known)
    return [add for ours, add in both if ours.default_row_commit_version != add.default_row_commit_version]


def removed_meanwhile(table: OpenTable, base: TableState, known: TableState) -> list[AddFile]:
    """The files and vectors of ``base``, which a branch has just named, that a vacuum may have deleted before, since it
    began after the version ``known``. One that begins later sees the branch, and one that began earlier keeps what was
    removed since. Raises what loading a version raises."""
    if not is_followed(table, known):
        return []
    newest = table.log.newest_state()
    if newest.vacuum is None or newest.vacuum.version <= known.version:
        return []
    return differing(table.log.files(base), table.log.files(newest))[0]


def is_followed(table: OpenTable, state: TableState) -> bool:
    """Whether the newest version that is known is no longer the newest. Raises what loading a version raises."""
    if not table.log.state_is_fresh():  # the next version may have been cleaned up
        return table.log.newest_state().version > state.version
    try:
        return table.log.versions.stat(state.version + 1) is not None
    except NotFoundError:
        return False


def lost_before_it_was_whole(
    table: OpenTable, newest: TableState, branch: OpenTable, state: TableState, known: int | None, places: Places
) -> str | None:
    """A file that the first version of a branch names, and that a vacuum deleted before it could know of the branch;
    None if there is none. ``known`` is the newest version of the table that the branch's maker knew.

    Who makes a branch looks for such a file itself (`removed_meanwhile`), and throws the branch away. If the process
    dies before that, nobody has been told of the branch, and nobody has written to it. Raises StorageError.
    """
    if known is None or newest.version <= known:
        return None
    with contextlib.suppress(NotFoundError):  # cleaned up, so that was long ago
        if _began_a_vacuum(table, newest, known, branch.store.versions.stat(state.version).modified_ms):
            live = {canonical_path(path) for path in table.log.files(newest)["path"].to_pylist()}
            paths = map(places.in_table, branch.log.files(state)["path"].to_pylist())
            names = [path for path in paths if path not in live]
            threads = 1 if table.store.has_cheap_calls else _LOOKS_AT_ONCE
            there = parallel_map(lambda path: is_there(table, path), names, threads=threads)
            return next((path for path, is_found in zip(names, there, strict=True) if not is_found), None)
    return None


def _began_a_vacuum(table: OpenTable, newest: TableState, known: int, made_ms: int) -> bool:
    """Whether a vacuum began after a version, and not surely after this time."""
    for commit in table.log.commits_between(known + 1, newest.version, files=False):
        info = commit.commit_info
        if info is not None and (info.timestamp or 0) > made_ms + _CLOCKS_MS:
            return False
        if commit.operation == "VACUUM START":
            return True
    return False


def is_there(table: OpenTable, path: str) -> bool:
    """Whether a file is there that the log of this table names. Raises StorageError."""
    try:
        table.store.files.stat(stored_path(table.uri, resolve_data_path(path)))
    except NotFoundError:
        return False
    return True


def _without(files: pa.Table, others: pa.Table) -> list[AddFile]:
    from txlog.core.format.arrow.compute import pc

    return add_files_of(files.filter(pc.invert(pc.is_in(_keys(files), value_set=_keys(others)))))


def _keys(files: pa.Table) -> pa.ChunkedArray:
    from txlog.core.format.arrow.compute import pc

    vectors = files["deletionVector"]
    if vectors.null_count == len(vectors):
        return files["path"]
    kind, name, offset = (
        pc.struct_field(vectors, member).cast(pa.string()) for member in ("storageType", "pathOrInlineDv", "offset")
    )
    key = pc.binary_join_element_wise(files["path"], kind, name, offset, "\n", null_handling="replace")
    return pc.if_else(vectors.is_valid(), key, files["path"])
