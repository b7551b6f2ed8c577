"""What a vacuum of a table must know of its branches: an entry of the group ``txlog.kept_files``.

In: the open table. Out: the table's files that open branches read, now or in a named version, and what is left of
branches that ended. The table's log names the files that branches published, so its vacuum keeps those by itself; a
vacuum of the branch learns of them here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from functools import partial
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from txlog.branch.ending import close
from txlog.branch.known import (
    READS_MS,
    branches,
    is_commit,
    last_origin,
    names_of,
    origin_of,
    table_and_branch,
    version_of,
)
from txlog.branch.places import FOLDER, Places, place_of
from txlog.core.format.file_columns import DELETION_VECTOR
from txlog.core.format.paths import encode_path
from txlog.errors import CorruptLogError, NotFoundError
from txlog.extend import OpenTable
from txlog.extend.commits import ObjectMeta, ambient, files_of_named, named_versions

_LOG = "_delta_log/"
_CLOSED_MIN_MS = 24 * 3_600_000
_UNFINISHED: Final = ("open", "broken")
_GOING: Final[MutableMapping[OpenTable, dict[str, int]]] = WeakKeyDictionary()
"""The branches whose files vacuums of a table plan to delete, and the newest version that each had then."""


Listed: TypeAlias = tuple[str, Callable[[], Iterator[pa.Table]]]


def needed(open_table: OpenTable, cutoff_ms: int) -> Iterator[Listed]:
    """The files of each open branch: live ones, those that it removed after ``cutoff_ms``, and those of its named
    versions. Of a branch that was to go, and that somebody wrote to or made anew since, all that is in its folder. If
    this is a branch: its files that its table or the table's other branches have, or removed within their own
    retention, or have in a named version."""
    if origin_of(open_table.log.newest_state()) is not None:
        table, _, origin = table_and_branch(open_table)
        yield from _of_table(table, origin.places)
        for each in branches(table):
            if each.status in _UNFINISHED and each.uri != open_table.uri:
                yield from _of_branch(table.beside(each.uri), f"{each.name} {each.version} {each.created}", None)
        return
    for each in branches(open_table):
        if each.status in _UNFINISHED:
            key = f"{each.name} {each.version} {each.created}"
            branch = open_table.beside(each.uri)
            yield from _of_branch(branch, key, cutoff_ms)
            yield f"rebase of {key}", partial(_read_by_rebase, open_table, branch)
            if each.name in _GOING.get(open_table, ()):
                yield f"all of {key}", partial(_folder, open_table, each.name)


def _of_branch(branch: OpenTable, key: str, cutoff_ms: int | None) -> Iterator[Listed]:
    yield key, partial(_files, branch, cutoff_ms)
    for named in named_versions(branch.store):
        yield f"{named.checkpoint_id} of {key}", lambda named=named: iter([files_of_named(branch.store, named)])  # type: ignore[misc]


def _of_table(table: OpenTable, places: Places) -> Iterator[Listed]:
    """The table's files that lie in the folder of the branch with these places."""

    def own(files: Iterable[pa.Table]) -> Iterator[pa.Table]:
        return (places.own_files(each.select(["path", "deletionVector"])) for each in files)

    yield f"published, version {table.log.newest_state().version}", lambda: own(_files(table, None))
    for named in named_versions(table.store):
        yield named.checkpoint_id, lambda named=named: own([files_of_named(table.store, named)])  # type: ignore[misc]


def _folder(table: OpenTable, name: str) -> Iterator[pa.Table]:
    for page in table.store.files.list(f"{FOLDER}/{name}"):
        paths = pa.array([encode_path(meta.name) for meta in page], pa.string())
        yield pa.table({"path": paths, "deletionVector": pa.nulls(len(paths), DELETION_VECTOR)})


def _files(table: OpenTable, cutoff_ms: int | None) -> Iterator[pa.Table]:
    """The live files of a table, and those that it removed after the time; None: within its own retention."""
    newest = table.log.newest_state()
    if cutoff_ms is None:
        cutoff_ms = ambient.now_ms() - newest.properties.deleted_file_retention_ms
    live, tombstones = table.log.files_and_tombstones(newest, with_stats=False)
    recent = pc.greater_equal(tombstones["deletionTimestamp"], pa.scalar(cutoff_ms, pa.int64()))
    yield from (live, tombstones.filter(recent))


def _read_by_rebase(table: OpenTable, branch: OpenTable) -> Iterator[pa.Table]:
    """The files that a branch is about to name, since it is being rebased."""
    origin = origin_of(branch.log.newest_state())
    if origin is None or origin.reads is None or ambient.now_ms() - origin.reads_since_ms > READS_MS:
        return
    with contextlib.suppress(NotFoundError):  # cleaned up: the rebase has long ended
        yield table.log.files(table.log.state_at(origin.reads))


def disposable(open_table: OpenTable, cutoff_ms: int) -> Iterator[Sequence[ObjectMeta]]:
    """The files of branches that ended, and to which nothing was written since ``cutoff_ms``. The log of a branch comes
    last, and after all others the commit that says which branch it is: so what a crash leaves says that it ended.

    The commit that closes a branch is none of them: `seal` writes it later. A vacuum that finds it old, and a day
    old at the least, deletes it: by then a writer that has not heard of it looks at the log again before it is done.
    """
    known = {each.name: each for each in branches(open_table)}
    for name in names_of(open_table):
        found = known.get(name)
        if found is not None and found.status in _UNFINISHED:
            continue
        metas = [meta for page in open_table.store.files.list(f"{FOLDER}/{name}") for meta in page]
        written_ms = max((meta.modified_ms for meta in metas), default=cutoff_ms)
        if written_ms >= cutoff_ms:
            continue
        log = sorted(meta for meta in metas if meta.name.startswith(f"{FOLDER}/{name}/{_LOG}"))
        in_log = {meta.name for meta in log}
        branch = open_table.beside(place_of(open_table.uri, name))
        commits = [meta.name for meta in log if is_commit(meta.name)]
        origin = last_origin(branch, commits)
        if origin is not None and origin[1].is_closed and written_ms >= ambient.now_ms() - _CLOSED_MIN_MS:
            continue
        if _is_awaited(branch):
            continue
        _GOING.setdefault(open_table, {})[name] = version_of(commits[-1]) if commits else -1
        last = [meta for meta in log if origin is not None and meta.name == origin[0]]
        yield [meta for meta in metas if meta.name not in in_log]
        yield [meta for meta in log if meta not in last]
        yield last


def _is_awaited(branch: OpenTable) -> bool:
    """Whether a transaction over several tables that the branch decided has not ended in all of them: its writer died,
    and another table finds in the branch's log that it gets its part."""
    try:
        state = branch.state_if_exists()
        return state is not None and branch.is_awaited(state)
    except (CorruptLogError, NotFoundError):  # the rest of one that an earlier vacuum deleted
        return False


def seal(open_table: OpenTable) -> None:
    """Close the branches that are about to go. Who writes to one in this moment is first, or is refused."""
    for name, version in sorted(_GOING.get(open_table, {}).items()):
        close(open_table, open_table.beside(place_of(open_table.uri, name)), version)
