"""Programs of a story's actors that make, write, publish, rebase and discard a branch of the table; and its promises.

In: a `Session` of a scenario whose ``grouped`` is "branched" (the branch is there) or "unbranched". Out: nothing.
`BranchBook` remembers what each program was told; its checks look at the raw logs of the table and of the branch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec.structs import replace

from explorer.versions import InvariantBroken, require_distinct
from txlog.branch.known import branch_named
from txlog.branch.places import place_of
from txlog.core import ambient
from txlog.core.format.properties import BRANCH
from txlog.core.store import ObjectMeta
from txlog.core.store._table_store import TableStore
from txlog.core.versions import OpenTable
from txlog.errors import CommitStateUnknownError, TableNotFoundError, TxlogError
from txlog.table import Table
from txlog.testing.faults import FaultyFileStore

if TYPE_CHECKING:
    from explorer.run import Run
    from explorer.session import Session
    from explorer.versions import State, Version
    from explorer.world import World

__all__ = [
    "BranchBook",
    "append_to_branch",
    "append_to_table",
    "begin_branch",
    "branch_of",
    "discard_and_vacuum",
    "discard_branch",
    "end_branch",
    "make_branch",
    "map_columns_of_table",
    "move_on_and_rebase",
    "publish_branch",
    "rebase_branch",
    "remove_and_vacuum",
    "remove_and_vacuum_at_once",
    "remove_first_and_vacuum_at_once",
    "remove_from_table",
    "vacuum_table",
]

NAME = "b"
_OWN = f"_branches/{NAME}/"
_OWN_LOG = f"{_OWN}_delta_log/"
_APPLICATION = "txlog.branch."
_ONCE = "a branch is published whole, and once"
_HOUR_MS = 3_600_000


class Told(msgspec.Struct):
    """What a program did on the branch, and what it was told."""

    actor: str
    what: str
    path: str = ""
    answer: str = "open"


class BranchBook:
    """All that was done on the branch of one story."""

    def __init__(self) -> None:
        self.all: list[Told] = []

    def check(self, table: World, branch: World) -> None:
        """Each publication has all files that the branch had at its version, and no file comes twice."""
        published: set[str] = set()
        for version in sorted(table.ledger.versions):
            entry = table.ledger.versions[version]
            new = [path for path in _paths(entry, "add") if path.startswith(_OWN)]
            if not published.isdisjoint(new) or len(set(new)) < len(new):
                raise InvariantBroken(_ONCE, f"v{version} adds {new} again")
            published.update(new)
            of_branch = next((each for each in map(_published, entry.actions) if each is not None), None)
            if of_branch is None and not new:
                continue
            wanted = set() if of_branch is None else _own_files(branch, of_branch)
            if published != wanted:
                raise InvariantBroken(_ONCE, f"v{version} has {published} of the branch, which had {wanted}")
        self._check_beginning(table, branch)
        self._check_row_ids(table, branch)
        self._check_end(branch)

    def _check_row_ids(self, table: World, branch: World) -> None:
        """The rows of a file have the same ids in both logs, and no other row of either has one of them."""
        if not branch.ledger.versions:
            return
        found = dict(table.ledger.states[table.ledger.latest].row_ids)
        for path, ids in branch.ledger.states[branch.ledger.latest].row_ids.items():
            name = path.removeprefix(f"{_root()}/") if path.startswith("memory:") else f"{_OWN}{path}"
            if found.setdefault(name, ids) != ids:
                raise InvariantBroken(
                    "a row keeps its id", f"{name} has {ids} in the branch, {found[name]} in the table"
                )
        if found:
            require_distinct(found, "the table with its branch")

    def _check_beginning(self, table: World, branch: World) -> None:
        """A branch begins with the files of a version of its table, and each rebase gives it those of another one."""
        states = branch.ledger.states
        for version, state in states.items():
            origin = _origin(state)
            if version not in (origin["made_at"], origin["own_version"]):
                continue
            base = table.ledger.states[origin["base_version"]]
            found = {path.removeprefix(f"{_root()}/") for path in state.live if path.startswith("memory:")}
            wanted = {path for path in base.live if not path.startswith(_OWN)}
            if found != wanted:
                raise InvariantBroken("a branch has the files of its table", f"v{version} has {found}, not {wanted}")

    def _check_end(self, branch: World) -> None:
        """A vacuum closes only what has ended; and nobody writes to a closed branch, but who begins a new one."""
        origins = {version: _origin(state) for version, state in branch.ledger.states.items()}
        for version, origin in origins.items():
            before = origins.get(version - 1)
            if before is None:
                continue
            if origin.get("is_closed") and before.get("ended_at") != version - 1:
                raise InvariantBroken("acknowledged implies present", f"v{version} closes what was written")
            if before.get("is_closed") and origin["made_at"] != version:
                raise InvariantBroken("acknowledged implies present", f"v{version} is written to a closed branch")

    def check_files(self, table: World, branch: World) -> None:
        """Every file of an open branch is there. The folder of the table has the branch's own files too."""
        if not branch.ledger.versions:
            return
        state: State = branch.ledger.states[branch.ledger.latest]
        if not _is_open(table, branch, state):
            return
        for path in state.live:
            name = path.removeprefix(f"{_root()}/") if path.startswith("memory:") else f"{_OWN}{path}"
            if name not in table.files.objects:
                raise InvariantBroken("a vacuum deletes nothing that is needed", f"{name}, of the branch, is gone")

    def check_answers(self, table: World, branch: World) -> None:
        """The same after everybody has ended, and the branch was published; each program was told the truth."""
        self.check(table, branch)
        live = _live(table)
        is_discarded = any(each.what == "discard" and each.answer == "done" for each in self.all)
        written = {path for path in _paths_of_all(branch, "add") if not path.startswith("memory:")}
        for each in self.all:
            if each.what != "append":
                continue
            if each.answer == "done" and each.path not in written:
                raise InvariantBroken("acknowledged implies present", f"{each.path} is not on the branch")
            if each.answer == "refused" and each.path in written:
                raise InvariantBroken("a definite failure never appears", f"{each.path} is on the branch")
            if not is_discarded and each.path in written and f"{_OWN}{each.path}" not in live:
                raise InvariantBroken(_ONCE, f"{each.path} was never published")


# --- programs ---------------------------------------------------------------------------------------------------


def make_branch(session: Session) -> None:
    """Make the branch."""
    _do(session, "make", lambda table: table.branch(NAME))


def begin_branch(session: Session) -> None:
    """Make the branch, and die when its first version is there."""

    def make(table: Table) -> None:
        log: Any = table._open_table.store.log.beside[place_of(table.uri, NAME)].log  # type: ignore[attr-defined]
        put = log.put_if_absent

        def put_and_die(*given: Any) -> None:
            put(*given)
            raise _Died

        log.put_if_absent = put_and_die
        table.branch(NAME)

    with contextlib.suppress(_Died):
        _do(session, "make", make)


class _Died(BaseException):
    """A process is no more."""


def append_to_branch(session: Session, *, times: int = 1) -> None:
    """Append a file to the branch, as any Delta writer may."""
    for _ in range(times):
        path = session.new_path("a")
        _do(session, "append", partial(_append_to_branch, session, path), path)


def append_to_table(session: Session) -> None:
    """Append a file to the table."""
    path = session.new_path("c")
    _do(session, "write", lambda table: _append(session, table, path))


def remove_from_table(session: Session) -> None:
    """Remove the first file of the table."""

    def remove(table: Table) -> None:
        with table.transaction() as txn:
            txn.remove("part=a/base-1.parquet")

    _do(session, "write", remove)


def publish_branch(session: Session, *, keep: bool = False) -> None:
    """Publish the branch, once more if it fails."""
    for _ in range(2):
        if _do(session, "publish", lambda table: branch_of(table).publish(keep=keep)) == "done":
            return


def map_columns_of_table(session: Session) -> None:
    """Turn column mapping on, which changes every field of the definition."""
    _do(session, "write", lambda table: table.set_properties({"delta.columnMapping.mode": "name"}))


def rebase_branch(session: Session) -> None:
    """Move the branch onto the newest version of the table."""
    _do(session, "rebase", lambda table: branch_of(table).rebase())


def move_on_and_rebase(session: Session) -> None:
    """Append a file to the table, and move the branch onto that version or a newer one."""
    append_to_table(session)
    rebase_branch(session)


def discard_branch(session: Session) -> None:
    """Throw the branch away."""
    _do(session, "discard", lambda table: branch_of(table).discard())


def vacuum_table(session: Session) -> None:
    """Vacuum the table with a retention of a day, shorter than its own, when more time than that has passed."""
    from explorer.world import VACUUMED_MS

    session.let_pass(36 * _HOUR_MS)
    _do(session, "vacuum", lambda table: table.vacuum(VACUUMED_MS / _HOUR_MS, force=True))


def discard_and_vacuum(session: Session) -> None:
    """Throw the branch away, and vacuum the table a day later, with no retention: what is left of the branch goes, its
    log too."""
    discard_branch(session)
    session.let_pass(36 * _HOUR_MS)
    _do(session, "vacuum", lambda table: _with_log_of_branch(table).vacuum(0, force=True))


def remove_and_vacuum(session: Session) -> None:
    """Remove the newest file of the table, and vacuum the table when no retention keeps the file."""
    _do(session, "write", _remove_newest)
    vacuum_table(session)


def remove_and_vacuum_at_once(session: Session) -> None:
    """The same with a new file, by a vacuum that keeps nothing, a minute later."""
    append_to_table(session)
    _do(session, "write", _remove_newest)
    session.let_pass(60_000)
    _do(session, "vacuum", lambda table: table.vacuum(0, force=True))


def remove_first_and_vacuum_at_once(session: Session) -> None:
    """Remove the first file of the table, and vacuum so that nothing is kept, a minute later."""
    remove_from_table(session)
    session.let_pass(60_000)
    _do(session, "vacuum", lambda table: table.vacuum(0, force=True))


def end_branch(run: Run) -> None:
    """Somebody publishes what is left, if there is a branch, and all is whole."""
    from explorer.session import Actor, Clock, Session

    session = Session(run, Actor("last", lambda session: None), Clock(251))
    with ambient.use(session.clock):
        table = _table(session)
        status = [each.status for each in table.branches()]
        is_there = bool(_worlds(run)[1].ledger.versions)
        if is_there and status in (["open"], ["broken"]):
            _make_again_if_refused(run, table)
            status = [each.status for each in table.branches()]
        if run.scenario.trimmed:  # a vacuum may have deleted what was left
            run.branches.check_files(*_worlds(run))
        elif is_there != bool(status):
            raise InvariantBroken("a branch is there or not", f"{status}")
        if status == ["open"]:
            try:
                branch_of(table).publish()
            except TxlogError as error:
                raise InvariantBroken(_ONCE, f"nobody can publish what is left: {error}") from error
    run.check()
    run.branches.check_answers(*_worlds(run))


def _make_again_if_refused(run: Run, table: Table) -> None:
    """A branch whose maker died before it was whole is refused by its name, unless somebody was told of it."""
    try:
        branch_named(table._open_table, NAME)
    except TableNotFoundError as refused:
        if any(each.what == "make" and each.answer == "done" for each in run.branches.all):
            raise InvariantBroken("acknowledged implies present", str(refused)) from refused
        table.branch(NAME)
        run.check()


# --- steps ------------------------------------------------------------------------------------------------------


def branch_of(table: Table) -> Table:
    """The branch of a table of a story, which no location leads to."""
    return Table(table._open_table.beside(place_of(table.uri, NAME)))


def _do(session: Session, what: str, work: Callable[[Table], Any], path: str = "") -> str:
    session.clock.attempt += 1
    told = Told(session.actor.name, what, path)
    session.run.branches.all.append(told)
    try:
        work(_table(session))
    except CommitStateUnknownError:
        told.answer = "unknown"
    except TxlogError as error:
        told.answer = "refused"
        session.run.record(f"{session.actor.name}: {what}: {type(error).__name__}: {str(error)[:120]}")
    else:
        told.answer = "done"
    session.run.record(f"{session.actor.name}: {what} {told.answer} {path}")
    session.history = hash((session.history, what, told.answer))
    return told.answer


def _remove_newest(table: Table) -> None:
    with table.transaction() as txn:
        txn.remove(txn.snapshot.files()["path"].to_pylist()[-1])


def _append_to_branch(session: Session, path: str, table: Table) -> None:
    _append(session, branch_of(table), path)


def _append(session: Session, table: Table, path: str) -> None:
    from txlog.core.format.actions import AddFile

    is_branch = table.uri != _root()
    first, second = _worlds(session.run)
    names = (first, f"{_OWN}{path}" if is_branch else path), (second, path if is_branch else _at(path))
    with table.transaction() as txn:
        for world, name in names:
            publish_file(world, name)
        stats = '{"numRecords":1}'
        txn._builder.add(AddFile(path, {"part": path[5:6]}, _size(), session.clock.now_ms(), True, stats))


def publish_file(world: World, path: str) -> None:
    """Let a file be in a store, as both the table's folder and the branch's path lead to it."""
    from explorer.world import FILE_BYTES

    world.files.publish("a", FILE_BYTES)
    world.files.objects[path] = world.files.objects.pop("a")  # the path of a table's file in a branch is no name
    world.files.durable.add(path)


def _size() -> int:
    from explorer.world import FILE_BYTES

    return len(FILE_BYTES)


def _table(session: Session) -> Table:
    """A new handle on the table, from which its branch can be opened."""
    second = session.run.world.second
    assert second is not None
    log, staging = session.of_second
    files = FaultyFileStore(second.files, session._at_file_call)
    table = session.table(fresh=True)
    stores = {place_of(table.uri, NAME): TableStore(place_of(table.uri, NAME), log, files, staging)}
    stores[table.uri] = table._open_table.store
    for store in stores.values():
        store.log.beside = stores  # type: ignore[attr-defined]
    return table


def _origin(state: State) -> dict[str, Any]:
    origin: dict[str, Any] = orjson.loads(state.metadata["configuration"][BRANCH])
    return origin


class _FilesAndLog:
    """The files of the table's folder, with those of the branch's log."""

    def __init__(self, files: Any, log: Any) -> None:
        self._files = files
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def list(self, folder: str = "", **options: Any) -> Iterator[Sequence[ObjectMeta]]:
        for page in self._files.list(folder, **options):
            yield [meta for meta in page if not meta.name.startswith(_OWN_LOG)]  # it stands for the log in listings
        if folder and _OWN_LOG.startswith(f"{folder}/"):
            found = [meta._replace(name=f"{_OWN_LOG}{meta.name}") for meta in self._log.list_from("0")]
            yield [meta for meta in found if meta.name > (options.get("start_after") or "")]

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete(self, path: str) -> None:
        name = path.removeprefix(_OWN_LOG)
        if name == path:
            self._files.delete(path)
        else:
            self._log.delete(name)


def _with_log_of_branch(table: Table) -> Table:
    """The table whose folder has the log of its branch, too, as folders have it. Only who deletes logs needs that."""
    from explorer.world import opened

    store = table._open_table.store
    branch = store.log.beside[place_of(table.uri, NAME)]  # type: ignore[attr-defined]
    files: Any = _FilesAndLog(store.files, branch.log)
    return opened(replace(store, files=files), None, {})


def _is_open(table: World, branch: World, state: State) -> bool:
    origin, version = _origin(state), branch.ledger.latest
    if origin.get("is_closed") or origin.get("ended_at") == version:
        return False
    published = table.ledger.states[table.ledger.latest].transactions.get(f"{_APPLICATION}{origin['id']}")
    return bool(origin.get("is_kept")) or published is None or published["version"] < version


def _root() -> str:
    return "memory://table"


def _at(path: str) -> str:
    return f"{_root()}/{path}"


def _worlds(run: Run) -> tuple[World, World]:
    assert run.world.second is not None
    return run.world, run.world.second


def _paths(entry: Version, kind: str) -> Iterable[str]:
    return (action[kind]["path"] for action in entry.actions if kind in action)


def _paths_of_all(world: World, kind: str) -> Iterable[str]:
    return (path for entry in world.ledger.versions.values() for path in _paths(entry, kind))


def _published(action: dict[str, Any]) -> int | None:
    txn = action.get("txn")
    return txn["version"] if txn is not None and txn["appId"].startswith(_APPLICATION) else None


def _own_files(branch: World, version: int) -> set[str]:
    state: State = branch.ledger.states[version]
    return {f"{_OWN}{path}" for path in state.live if not path.startswith("memory:")}


def _live(world: World) -> set[str]:
    return set(world.ledger.states[world.ledger.latest].live)


_beside = OpenTable.beside


def _beside_in_memory(open_table: OpenTable, uri: str) -> OpenTable:
    """The tables of a story have no location that a process could open; those of other tests have."""
    from explorer.world import opened

    stores: dict[str, Any] | None = getattr(open_table.store.log, "beside", None)
    return _beside(open_table, uri) if stores is None else opened(stores[uri], None, {})._open_table


OpenTable.beside = _beside_in_memory  # type: ignore[method-assign,assignment]
