"""What a branch knows of itself, and which branches a table has.

In: an open table. Out: `Origin`, the value of the property ``txlog.branch`` in the branch's metadata, and `BranchInfo`
of each branch. The table's log knows nothing of its branches but what they published: the last version of each, as an
application transaction. So open branches cost the table's writers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from txlog.branch.base_files import is_there, lost_before_it_was_whole
from txlog.branch.places import FOLDER, Places, place_of, require_no_branch, table_of
from txlog.core.format.actions import AddFile, Metadata, RemoveFile, SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.format.properties import BRANCH, PropertyRule
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError, TableNotFoundError
from txlog.extend import OpenTable, TableState
from txlog.extend.catalogs import advice
from txlog.extend.commits import parallel_map
from txlog.result import moment
from txlog.result.branches import BranchInfo, BranchStatus

MAKE_ONE: Final = advice("make a branch", "table.branch(name)")
"""What makes a branch, for errors."""

READS_MS: Final = 24 * 3_600_000
"""So long do vacuums keep the version that a rebase is about to move a branch to."""

_LOOKS_AT_ONCE = 8
_TABLES: Final[MutableMapping[OpenTable, OpenTable]] = WeakKeyDictionary()
"""The table of each branch that somebody works with."""
_COMMIT = re.compile(r"\d{20}\.json")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a branch comes from.

    Attributes:
        id: The branch's own id, another one each time that its name is used. What it publishes is recorded under it.
        name: Its name.
        table: The table's location when the branch was made.
        table_id: ``metaData.id`` of the table.
        base_version: The table's version whose rows the branch began with, or was rebased on.
        made_at: The branch's first version: earlier ones in its log are of an earlier branch of this name.
        own_version: The version of the branch with these rows: the first one, or that of the last rebase, which has the
            changes of the branch too (`Carried`).
        created_ms: When it was made, ms since the epoch.
        numbers: By the physical name of each identity column: the last number that the table set aside for the branch.
        row_ids: The last row id that the table set aside for the branch; None if it does not track rows.
        ended_at: The version of the branch that ended it, published or not; None if none did.
        published: The branch's version that the table had at ``base_version``, if it was rebased on that; None if it
            had none.
        is_kept: Whether a publication does not end it. One that was published and is not kept has ended.
        reads: The table's version that a rebase is about to move the branch to, and which vacuums keep therefore for a
            day; None if none is under way.
        reads_since_ms: When that rebase began, ms since the epoch.
        is_closed: Whether a vacuum of the table deletes what is left of it, so that nobody writes to it any more.
        known: The newest version of the table that its maker knew; None if an older release made the branch.
        defined_at: If the last rebase carried a definition of the branch's own: the version of the branch whose
            definition the table had. None if it carried none.
    """

    id: str
    name: str
    table: str
    table_id: str
    base_version: int
    made_at: int
    own_version: int
    created_ms: int
    numbers: Mapping[str, int] = msgspec.field(default_factory=dict)
    row_ids: int | None = None
    ended_at: int | None = None
    published: int | None = None
    is_kept: bool = False
    reads: int | None = None
    reads_since_ms: int = 0
    is_closed: bool = False
    known: int | None = None
    defined_at: int | None = None

    @property
    def places(self) -> Places:
        return Places(self.table, self.name)

    def to_text(self) -> str:
        """The value of the property."""
        return msgspec.json.encode(self).decode()


def _read(text: str) -> Origin:
    try:
        return msgspec.json.decode(text, type=Origin)
    except msgspec.DecodeError:
        raise ValueError("not the origin of a branch") from None


RULE: Final = PropertyRule(
    _read,
    "what `table.branch(name)` writes",
    lambda value: value.to_text() if isinstance(value, Origin) else str(value),
    is_of_one_table=True,
    is_rule_of_rows=False,
)


APP_IDS = "txlog.branch."
"""What the applications of branches begin with."""


def app_id_of(origin: Origin) -> str:
    """The application under which the table's log records what a branch published: the version is the branch's."""
    return f"{APP_IDS}{origin.id}"


def origin_of(state: TableState) -> Origin | None:
    """Where the branch comes from; None for a table that is none. Raises CorruptLogError for an unreadable property."""
    text = state.metadata.configuration.get(BRANCH)
    if text is None:
        return None
    try:
        return _read(text)
    except ValueError:
        raise CorruptLogError(
            f"the property {BRANCH} does not say where the branch comes from: {text[:100]!r}",
            version=state.version,
            repair="Copy the rows that you need to the table, and discard the branch",
        ) from None


def look_at(branch: OpenTable) -> tuple[TableState | None, TableState | None]:
    """The newest version of a branch; or the definition of one that nobody can read, as `begun` has it. None for what
    is not there. Raises StorageError, CorruptLogError."""
    try:
        return branch.state_if_exists(), None
    except CorruptLogError:
        found = begun(branch)
        if found is None:
            raise
        return None, found


def begun(branch: OpenTable) -> TableState | None:
    """The definition of a branch that nobody can read: it is being made, its maker died, or a vacuum deleted it, and
    its last commit is left. None if the log is another one. Raises StorageError, CorruptLogError."""
    found = branch.begun()
    if found is not None:
        return found
    commits = _commits(branch)
    last = last_origin(branch, commits[-1:])
    if last is None or not (last[1].is_closed or last[1].made_at == version_of(last[0])):
        return None
    return branch.log.defined_by(branch.log.read_commit(version_of(last[0])))


def is_closed(state: TableState) -> bool:
    """Whether a vacuum of the table deletes the branch, or has done so."""
    origin = origin_of(state)
    return origin is not None and origin.is_closed


def table_and_branch(open_table: OpenTable) -> tuple[OpenTable, TableState, Origin]:
    """The table of an open branch, and the branch's newest version.

    Raises InvalidInputError if it is no branch, was moved, or was deleted by a vacuum.
    """
    state = open_table.log.newest_state()
    origin, found = origin_of(state), table_of(open_table.uri)
    if origin is not None and origin.is_closed:
        raise InvalidInputError(
            f"the branch was published or discarded, and a vacuum of its table deletes what is left of it: make a new"
            f" one with {MAKE_ONE}",
            table=open_table.uri,
            version=state.version,
        )
    if origin is None or found is None:
        raise InvalidInputError(
            "this table is not a branch: open one by the name after an @, as in "
            + advice("open a branch", f"Table.open({f'{open_table.uri}@name'!r})")
            + f", or make one with {MAKE_ONE}",
            table=open_table.uri,
            version=state.version,
        )
    table = _TABLES.get(open_table)
    if table is None or table.uri != found[0]:
        table = _TABLES[open_table] = open_table.beside(found[0])
        table.after_commit = open_table.after_commit
    return table, state, origin


def settled_branch(open_table: OpenTable) -> tuple[OpenTable, TableState, Origin]:
    """The same, with what a transaction over several tables decided for the branch, if its writer died before it was
    here. Raises what a commit raises."""
    table, state, origin = table_and_branch(open_table)
    if state.is_prepared and open_table.settle(state):
        return table_and_branch(open_table)
    return table, state, origin


def remember_table(branch: OpenTable, table: OpenTable) -> None:
    """Have what is done with the branch use this handle of its table, which knows the table's newest versions."""
    _TABLES[branch] = table


def names_of(table: OpenTable) -> list[str]:
    """The folders of branches, sorted; some may be what is left of one. Raises StorageError."""
    files, found = table.store.files, set[str]()
    if table.store.has_cheap_calls:

        def note(folder: str) -> bool:
            above, _, name = folder.partition("/")
            if above == FOLDER and name:
                found.add(name)
            return bool(name) or above != FOLDER

        for _ in files.list(FOLDER, skip=note):
            pass
        return sorted(found)
    after = f"{FOLDER}/"
    while (name := _first_after(table, after)) is not None:
        found.add(name)
        after = f"{FOLDER}/{name}0"  # the character that follows the slash: every file of this branch sorts before it
    return sorted(found)


def _first_after(table: OpenTable, after: str) -> str | None:
    for page in table.store.files.list(FOLDER, start_after=after):
        for meta in page:
            return meta.name.split("/")[1]
    return None


def branch_named(table: OpenTable, name: str) -> OpenTable:
    """The branch of a table. Raises TableNotFoundError, which lists the open branches, and InvalidInputError if the
    table is itself one."""
    require_no_branch(table.uri)
    branch = table.beside(place_of(table.uri, name))
    state, _ = look_at(branch)
    if state is None or origin_of(state) is None or is_closed(state):
        known = ", ".join(each.name for each in branches(table) if each.status == "open") or "none"
        raise TableNotFoundError(
            f"{table.uri} has no branch {name!r}; open branches: {known}. Make one with {MAKE_ONE}",
            table=branch.uri,
        )
    origin = origin_of(state)
    assert origin is not None
    lost = _lost(table, table.log.newest_state(), branch, state, origin) if state.version == origin.made_at else None
    if lost is not None:
        raise TableNotFoundError(
            f"{table.uri} has no branch {name!r}: the process that began to make one died, while a vacuum deleted"
            f" {lost}, which the branch names. Nobody has written to it: make it again with {MAKE_ONE}, or"
            f" discard it by its location, {branch.uri}",
            table=branch.uri,
        )
    return branch


def branches(table: OpenTable) -> list[BranchInfo]:
    """What is known of each branch, by name. Raises StorageError, and CorruptLogError for a damaged one."""
    newest = table.log.newest_state()
    found = parallel_map(
        lambda name: _known(table, newest, name),
        names_of(table),
        threads=1 if table.store.has_cheap_calls else _LOOKS_AT_ONCE,
    )
    infos = [each for each in found if each is not None]
    first_removed = _first_removals(table, newest, {each.base_version for each in infos if each.status == "open"})
    retention_ms = newest.properties.deleted_file_retention_ms
    return [
        replace(each, kept_until=moment(first_removed[each.base_version] + retention_ms))
        if each.base_version in first_removed and each.status == "open"
        else each
        for each in infos
    ]


def _known(table: OpenTable, newest: TableState, name: str) -> BranchInfo | None:
    branch = table.beside(place_of(table.uri, name))
    try:
        state, _ = look_at(branch)
    except CorruptLogError as error:
        left = _left_of_ended(newest, branch)
        if left is None and _is_all_gone(branch):
            return None
        if left is None:
            error.repair = f"{error.repair or ''} If nobody needs the branch, delete its folder".strip()
            raise
        return left
    origin = None if state is None else origin_of(state)
    if state is None or origin is None or origin.is_closed:
        return None
    info = info_of(newest, branch, state, origin)
    if info.status == "open" and _lost(table, newest, branch, state, origin) is not None:
        return replace(info, status="broken")
    return info


def broken_branch(table: OpenTable, name: str) -> str | None:
    """The location of a branch that is not opened by its name, since its maker died while a vacuum deleted files of
    it; None if it is no such branch. Raises StorageError, CorruptLogError."""
    branch = table.beside(place_of(table.uri, name))
    state, _ = look_at(branch)
    origin = None if state is None else origin_of(state)
    if state is None or origin is None or origin.is_closed:
        return None
    lost = _lost(table, table.log.newest_state(), branch, state, origin)
    return None if lost is None else branch.uri


def _lost(table: OpenTable, newest: TableState, branch: OpenTable, state: TableState, origin: Origin) -> str | None:
    """A file that nobody has any more of a branch to which nobody has written; see `lost_before_it_was_whole`."""
    if state.version != origin.made_at:
        return None
    return lost_before_it_was_whole(table, newest, branch, state, origin.known, origin.places)


def _left_of_ended(newest: TableState, branch: OpenTable) -> BranchInfo | None:
    """What a vacuum that was interrupted left of a branch that ended; None if it may be what is left of another one."""
    commits = _commits(branch)
    found = last_origin(branch, commits)
    if found is None:
        return None
    origin, version = found[1], version_of(commits[-1])
    published = published_version(newest, origin)
    status = _status(origin, version, published)
    return None if status == "open" else _info(branch, version, origin, status, published)


def _is_all_gone(branch: OpenTable) -> bool:
    """Whether what is left of a log is a commit that came when a vacuum had deleted the branch, and the commit's files
    too. Its writer was told that it may not have landed."""
    commits = _commits(branch)
    adds = (each for name in commits for each in branch.log.read_commit(version_of(name)).actions)
    own = [each.path for each in adds if type(each) is AddFile and Places.is_own(each.path)]
    return bool(own) and not any(is_there(branch, path) for path in own)


def _commits(branch: OpenTable) -> list[str]:
    return [meta.name for meta in branch.store.log.list_from("0") if is_commit(meta.name)]


def last_origin(branch: OpenTable, commits: Sequence[str]) -> tuple[str, Origin] | None:
    """The last of these commits, in ascending order, that says where the branch comes from, and what it says."""
    for name in reversed(commits):
        for action in branch.log.read_commit(version_of(name), files=False).actions:
            if type(action) is Metadata and BRANCH in action.configuration:
                return name, _read(action.configuration[BRANCH])
    return None


def version_of(name: str) -> int:
    return int(name.rpartition("/")[2].partition(".")[0])


def is_commit(name: str) -> bool:
    """Whether a file of a log is a commit."""
    return _COMMIT.fullmatch(name.rpartition("/")[2]) is not None


def _first_removals(table: OpenTable, newest: TableState, bases: set[int]) -> dict[int, int]:
    """For each version: when the first of its files was removed from the table, ms since the epoch. Versions whose
    files are all live have none. A version whose commits were cleaned up counts from its own time at the latest."""
    found: dict[int, int] = {}
    if not bases or min(bases) == newest.version:
        return found
    added: dict[str, int] = {}
    try:
        for commit in table.log.commits_between(min(bases) + 1, newest.version):
            for action in commit.actions:
                if type(action) is RemoveFile and action.deletion_timestamp is not None:
                    since = added.get(action.path, -1)
                    for base in bases:
                        if since <= base < commit.version:
                            found[base] = min(found.get(base, action.deletion_timestamp), action.deletion_timestamp)
            added.update({action.path: commit.version for action in commit.actions if type(action) is AddFile})
    except NotFoundError:
        return dict.fromkeys(bases, newest.in_commit_timestamp_ms or 0)
    return found


def info_of(newest: TableState, branch: OpenTable, state: TableState, origin: Origin) -> BranchInfo:
    """What is known of a branch at ``state``, and of its table at ``newest``. If somebody writes to a branch after it
    was published or discarded, it is open again, so that a vacuum keeps what was written."""
    published = published_version(newest, origin)
    return _info(branch, state.version, origin, _status(origin, state.version, published), published)


def _status(origin: Origin, version: int, published: int | None) -> BranchStatus:
    if origin.ended_at == version:
        return "discarded" if published is None or published < version - 1 else "published"
    return "published" if published is not None and published >= version and not origin.is_kept else "open"


def _info(branch: OpenTable, version: int, origin: Origin, status: BranchStatus, published: int | None) -> BranchInfo:
    return BranchInfo(
        name=origin.name,
        uri=branch.uri,
        version=version,
        base_version=origin.base_version,
        status=status,
        created=moment(origin.created_ms),
        published_version=published,
    )


def published_by(commit: Commit, app_id: str) -> int | None:
    """The version of a branch that a commit of its table published; None if it did not."""
    for action in commit.actions:
        if type(action) is SetTransaction and action.app_id == app_id:
            return action.version
    return None


def published_version(newest: TableState, origin: Origin) -> int | None:
    """The branch's version that its table has, as the log of the table says; None if it has published none."""
    return newest.transaction_version(app_id_of(origin))
