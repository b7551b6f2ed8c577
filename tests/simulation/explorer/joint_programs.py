"""Programs of a story's actors that change two tables together, or one of them beside that; and the promises of it.

In: a `Session` of a scenario whose ``grouped`` is "joint". Out: nothing. `JointBook` remembers what each transaction
wrote where, and what its program was told; its checks look at files of the raw log, and at snapshots of
`txlog.read_together`, which must have all of a transaction's files or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from explorer.versions import InvariantBroken
from txlog.core.format.file_columns import add_files_of
from txlog.core.versions import OpenTable, _prepared_tables
from txlog.errors import CommitStateUnknownError, TableNotFoundError, TxlogError
from txlog.together import read_together, transaction

if TYPE_CHECKING:
    from explorer.run import Run
    from explorer.session import Session
    from explorer.world import World
    from txlog.core.versions.decisions.prepared import PreparedTable
    from txlog.snapshot import Snapshot

__all__ = [
    "JointBook",
    "append_to_both",
    "append_to_first",
    "append_to_second",
    "claim_in_first",
    "claim_in_second",
    "end_joint",
    "read_both",
]

_BOTH = "a transaction over several tables is in all of them or in none"
_CLAIM = "part=b/"


class Joint(msgspec.Struct):
    """One transaction: the file that it adds to each table, and what its program was told."""

    actor: str
    paths: tuple[str | None, str | None]
    told: str = "open"


class JointBook:
    """All transactions over both tables of one story."""

    def __init__(self) -> None:
        self.all: list[Joint] = []

    def check(self, having: Sequence[set[str]]) -> None:
        """Check the files that both tables have, at one moment."""
        for joint in self.all:
            found = [path in files for path, files in zip(joint.paths, having, strict=True) if path is not None]
            if any(found) and not all(found):
                raise InvariantBroken(_BOTH, f"{joint.actor}'s {joint.paths} is in one only")

    def check_answers(self, having: Sequence[set[str]]) -> None:
        """The same after everybody has ended; and each program was told the truth."""
        self.check(having)
        for joint in self.all:
            is_there = any(path in files for path, files in zip(joint.paths, having, strict=True))
            if joint.told == "committed" and not is_there:
                raise InvariantBroken("acknowledged implies present", f"{joint.actor}'s {joint.paths} is in no table")
            if joint.told == "refused" and is_there:
                raise InvariantBroken("a definite failure never appears", f"{joint.actor}'s {joint.paths} is there")
        claims = [path for files in having for path in files if path.startswith(_CLAIM)]
        if len(claims) > 1:
            raise InvariantBroken("commits are serializable", f"each of {claims} was written since there was no other")


def append_to_both(session: Session, *, times: int = 1) -> None:
    """Append a row to each table, together."""
    for _ in range(times):
        _commit(session, ("a", "a"))


def claim_in_first(session: Session) -> None:
    """Read both tables whole, and if neither has a claim, put one into the first."""
    _commit(session, ("b", None))


def claim_in_second(session: Session) -> None:
    """The same with the second table."""
    _commit(session, (None, "b"))


def append_to_first(session: Session) -> None:
    """Append a row to one of the tables, as any writer does that knows nothing of the other."""
    _append(session, 0)


def append_to_second(session: Session) -> None:
    """The same with the second table."""
    _append(session, 1)


def read_both(session: Session) -> None:
    """Read both tables as of one moment, twice."""
    for _ in range(2):
        session.clock.attempt += 1
        session.run.joint.check([_files(each) for each in read_together(session.tables())])


def end_joint(run: Run) -> None:
    """The next writer of each table ends what others left, and all is whole."""
    from explorer.session import Actor, Clock, Session
    from txlog.core import ambient

    clock = Clock(251)
    session = Session(run, Actor("last", lambda session: None), clock)
    with ambient.use(clock):
        try:
            for table in session.tables():
                table.set_properties({"seen": "yes"})
                if table._open_table.log.newest_state().is_prepared:
                    raise InvariantBroken("a prepared table is ended by its next writer", table.uri)
        except TxlogError as error:
            raise InvariantBroken("a prepared table is ended by its next writer", str(error)) from error
    run.check()
    run.joint.check_answers([_added(world) for world in _worlds(run)])


# --- steps ------------------------------------------------------------------------------------------------------


def _commit(session: Session, parts: tuple[str | None, str | None]) -> None:
    """Add a file of these partitions. A claim depends on all rows of both tables."""
    session.clock.attempt += 1
    tables = session.tables()
    is_claim = None in parts
    txn = transaction(tables)
    joint = Joint(session.actor.name, (None, None))
    try:
        with txn:
            if is_claim:
                seen = [session.read(member) for member in txn]
                if any(path.startswith(_CLAIM) for paths in seen for path in paths):
                    return
            paths: list[str | None] = [None, None]
            for at, part in enumerate(parts):
                if part is not None:
                    add = session.new_file(part, files=tables[at]._open_table.store.files)
                    txn[tables[at]]._builder.add(add)
                    paths[at] = add.path
            joint.paths = (paths[0], paths[1])
            session.run.joint.all.append(joint)
    except CommitStateUnknownError:
        joint.told = "unknown"
    except TxlogError:
        joint.told = "refused"
    else:
        joint.told = "committed"
    session.run.record(f"{session.actor.name}: {joint.told} {joint.paths}")
    session.history = hash((session.history, joint.told))


def _append(session: Session, at: int) -> None:
    session.clock.attempt += 1
    table = session.tables()[at]
    with table.transaction() as txn:
        txn._builder.add(session.new_file("c", files=table._open_table.store.files))


def _files(snapshot: Snapshot) -> set[str]:
    return {add.path for add in add_files_of(snapshot.files())}


def _worlds(run: Run) -> tuple[World, World]:
    assert run.world.second is not None
    return run.world, run.world.second


def _added(world: World) -> set[str]:
    """All files that a version of the raw log adds."""
    return {
        action["add"]["path"] for entry in world.ledger.versions.values() for action in entry.actions if "add" in action
    }


def _opened_at(place: PreparedTable, like: Any) -> OpenTable:
    """The tables of a story have no location that a process could open; those of other tests have."""
    stores: dict[str, Any] | None = getattr(like.store.log, "beside", None)
    if stores is None:
        opened: OpenTable = like.beside(place.uri)
        return opened
    if place.uri not in stores:
        raise TableNotFoundError("no such table", table=place.uri)
    return OpenTable(stores[place.uri], like.retry)


_prepared_tables.opened_at = _opened_at
