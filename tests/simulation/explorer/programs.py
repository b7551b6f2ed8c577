"""Programs of a story's actors: small programs that use one table through txlog's public API, as users and engines do.

In: a `Session`. Out: nothing; each answer that a program gets is checked at once. Programs that use a `Sink` are in
``sink_programs``; ``actors`` combines programs to scenarios.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from explorer.catalog_model import CatalogBook, Held
from explorer.session import Session
from explorer.versions import Attempt
from explorer.world import seen_by
from txlog.core.format.log_names import commit_name
from txlog.core.predicates import col
from txlog.errors import CommitStateUnknownError, NotFoundError, StorageError
from txlog.table import Table
from txlog.table_transaction import Transaction
from txlog.testing.owned_versions import publish

__all__ = [
    "ROW",
    "Program",
    "add_column",
    "add_files",
    "append",
    "append_after_all_read",
    "append_and_leave",
    "append_and_maintain",
    "append_and_resolve",
    "append_beside_a_look",
    "append_new_column",
    "append_rows",
    "append_what_no_reader_takes",
    "append_what_was_read",
    "checkpoint",
    "clean_up_at_once",
    "clean_up_later",
    "compact",
    "delete_files",
    "end_credentials",
    "hold_catalog",
    "ingest",
    "ingest_of_two",
    "ingest_once",
    "look_again",
    "lose_commits",
    "maintain",
    "overwrite",
    "overwrite_once",
    "publish_versions",
    "read",
    "resolve_for_others",
    "resolve_on",
    "rewrite",
    "set_properties",
    "write_without_the_catalog",
]

ROW = pa.table({"id": pa.array([1], pa.int64()), "part": ["a"]})
_WIDER_ROW = ROW.append_column("extra", pa.array(["new"]))

Program = Callable[[Session], None]
Fill = Callable[[Attempt, Transaction], None]


# --- rows -------------------------------------------------------------------------------------------------------


def append(session: Session, *, fresh: bool = False, times: int = 1) -> None:
    """Append blindly several times, one after the other, on one handle."""
    table = session.table(fresh=fresh)
    for _ in range(times):
        _commit(session, table, lambda attempt, txn: txn.add(session.new_file()))


def append_rows(session: Session) -> None:
    """Append rows, so that txlog writes a data file, which no failure may delete once a commit names it."""
    table = session.table()
    with session.attempt() as attempt:
        with table.transaction() as txn:
            attempt.read_version = txn.snapshot.version
            txn.append(ROW)
        attempt.result = txn.result


def append_beside_a_look(session: Session, *, app: tuple[str, int] | None = None) -> None:
    """Append rows, on an object store while the newest version is asked for."""
    table = session.table()
    with session.attempt(app) as attempt:
        app_id, checkpoint_id = app or (None, None)
        attempt.result = table.append(ROW, app_id=app_id, checkpoint_id=checkpoint_id)


def append_and_leave(session: Session) -> None:
    """Append, and give up at the first lost answer."""
    _append_once(session, session.table(total_timeout=0.0))


def append_and_resolve(session: Session) -> None:
    """Append, give up at the first lost answer, and ask whether the append was committed."""
    table = session.table(total_timeout=0.0)
    resolve_on(session, _append_once(session, table), table)


def _append_once(session: Session, table: Table) -> Attempt:
    return _commit(session, table, lambda attempt, txn: txn.add(session.new_file()))


def resolve_for_others(session: Session) -> None:
    """Ask, from another process, for each commit of unknown state whether it was committed."""
    table = session.table(fresh=True)
    for _ in range(2):
        table.snapshot()
        for attempt in list(session.run.ledger.attempts.values()):
            if attempt.answer == "unknown":
                resolve_on(session, attempt, table)


def resolve_on(session: Session, attempt: Attempt, table: Table) -> None:
    """Ask what became of an attempt, if it is unknown."""
    error = attempt.error
    if isinstance(error, CommitStateUnknownError) and error.txn_id is not None and error.version is not None:
        session.resolve(attempt, table, error.txn_id, error.version)


def append_what_was_read(session: Session, *, part: str = "a", serializable: bool = False) -> None:
    """Read a partition and append to it. No two such commits may be based on the same rows."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind, attempt.is_serializable = False, serializable
        attempt.reads.add(part)
        attempt.read_files.update(session.read(txn, col("part") == part))
        txn.add(session.new_file(part))

    _commit(session, session.table(), fill, isolation="Serializable" if serializable else None)


def append_after_all_read(session: Session) -> None:
    """Read a partition and append to it, with serializable isolation."""
    append_what_was_read(session, serializable=True)


def append_what_no_reader_takes(session: Session) -> None:
    """Add a file with a tag that is not a string. txlog must refuse it, since no reader could read the table again."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        txn.add(replace(session.new_file(), tags={"number": 1}))

    _commit(session, session.table(), fill)


def add_files(session: Session) -> None:
    """Add an existing file to the table."""
    table = session.table()
    path = session.new_file().path
    with session.attempt() as attempt:
        attempt.result = table.add_files([path])


def overwrite(session: Session) -> None:
    """Replace all rows."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind = False
        attempt.reads.add(None)
        txn.remove(*session.read(txn))
        txn.add(session.new_file())

    _commit(session, session.table(), fill)


def overwrite_once(session: Session) -> None:
    """Replace all rows as a checkpoint of an application, which repeats it after a restart."""
    table = session.table(fresh=session.clock.incarnation > 0)
    with session.attempt(("replaces", 1)) as attempt:
        attempt.is_blind = False
        attempt.reads.add(None)
        attempt.result = table.overwrite(ROW, app_id="replaces", checkpoint_id=1)


def delete_files(session: Session, *, part: str = "a") -> None:
    """Remove all files of a partition, if there are any."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind = False
        paths = txn.snapshot.files(col("part") == part).column("path").to_pylist()
        attempt.read_files.update(paths)
        if paths:
            txn.remove(*paths)
        else:
            attempt.is_blind = True

    _commit(session, session.table(), fill, operation="DELETE")


def rewrite(session: Session, *, part: str = "a") -> None:
    """Move the rows of a partition to one new file, as an optimizer does, without a change of rows."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind, attempt.changes_data = False, False
        paths = txn.snapshot.files(col("part") == part).column("path").to_pylist()
        attempt.read_files.update(paths)
        if paths:
            txn.remove(*paths)
            txn.add(session.new_file(part, data_change=False))

    _commit(session, session.table(), fill, operation="OPTIMIZE", data_change=False)


def write_without_the_catalog(session: Session) -> None:
    """Write a file where the next version will be published, as a program does that knows nothing of the catalog."""
    book = session.run.world.owner
    assert isinstance(book, CatalogBook), "the scenario does not say catalog"
    name = commit_name(book.newest + 1)
    if name not in session.run.world.log.objects:
        body = session.run.world.log.objects[commit_name(0)][0]
        session.run.world.log.objects[name] = session.run.world.log.durable[name] = body, session.clock.now_ms()
        book.strays.add(name)


def hold_catalog(session: Session, *, why: Held, then: Held | None = None) -> None:
    """What the catalog's administrator or its clock does, at any moment; and once more at a later one."""
    book = session.run.world.owner
    assert isinstance(book, CatalogBook), "the scenario does not say catalog"
    assert session.owner is not None
    for each in (why,) if then is None else (why, then):
        with contextlib.suppress(StorageError):
            session.owner.list_from("")
        book.hold(each)


def lose_commits(session: Session, *, times: int = 1) -> None:
    """Kill the catalog's server before its database has synced the newest commit, at any moment."""
    book = session.run.world.owner
    assert isinstance(book, CatalogBook), "the scenario does not say catalog"
    assert session.owner is not None
    for _ in range(times):
        with contextlib.suppress(StorageError):
            session.owner.list_from("")
        book.lose()


def end_credentials(session: Session) -> None:
    """Let all credentials end that the catalog has given out so far, at any moment."""
    book = session.run.world.owner
    assert isinstance(book, CatalogBook), "the scenario does not say catalog"
    assert session.owner is not None
    with contextlib.suppress(StorageError):
        session.owner.list_from("")
    book.end_credentials()


def publish_versions(session: Session) -> None:
    """Publish, as any client may, what the owner of the versions has accepted. A fault leaves the rest to others."""
    assert session.owner is not None, "the scenario does not say owned"
    with contextlib.suppress(StorageError):
        if session.run.scenario.catalog:
            versions = session.table(fresh=True)._open_table.store.versions
            versions.publish(max(versions.tail(-1)))
        else:
            publish(session.owner, session.log)


# --- applications -----------------------------------------------------------------------------------------------


def ingest(session: Session, *, app_id: str = "app", first: int = 1, last: int = 2) -> None:
    """Commit checkpoints of an application in order. A restart begins with the first one again."""
    _ingest(session, (app_id,), first, last)


def ingest_once(session: Session) -> None:
    """Commit one checkpoint of an application."""
    ingest(session, last=1)


def ingest_of_two(session: Session) -> None:
    """Commit checkpoints of two applications in one version, as for two partitions of one source."""
    _ingest(session, ("app", "other"), 1, 2)


def _ingest(session: Session, app_ids: tuple[str, ...], first: int, last: int) -> None:
    table = session.table(fresh=session.clock.incarnation > 0)
    for checkpoint_id in range(first, last + 1):

        def fill(attempt: Attempt, txn: Transaction, checkpoint_id: int = checkpoint_id) -> None:
            for app_id in app_ids:
                txn.set_transaction(app_id, checkpoint_id)
            txn.add(session.new_file())

        attempt = _commit(session, table, fill, app=(app_ids[0], checkpoint_id))
        if attempt.answer != "committed":
            return


# --- the definition ---------------------------------------------------------------------------------------------


def set_properties(session: Session) -> None:
    """Change the table's definition: every concurrent writer must notice."""
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind, attempt.changes_definition = False, True
        attempt.result = table.set_properties({"owner": attempt.key})


def add_column(session: Session) -> None:
    """Add a column. If another actor has added it, no version is made."""
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind, attempt.changes_definition = False, True
        attempt.result = table.add_columns(pa.schema([("extra", pa.string())]))


def append_new_column(session: Session) -> None:
    """Append rows with a new column. The append is blind only if another actor has already added the column."""
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind = None
        attempt.result = table.append(_WIDER_ROW, schema_mode="merge")


# --- the log ----------------------------------------------------------------------------------------------------


def checkpoint(session: Session) -> None:
    """Write a checkpoint of the newest version, and update ``_last_checkpoint``."""
    session.table(fresh=True).create_checkpoint()


def compact(session: Session) -> None:
    """Write one compacted log file that readers can use for all commits since the last checkpoint."""
    session.table(fresh=True).compact_log()


def clean_up_later(session: Session) -> None:
    """Wait for more than a month, and delete log files that no retained version needs."""
    session.let_days_pass(40)
    session.table(fresh=True).clean_up_log()


def maintain(session: Session) -> None:
    """Write a checkpoint, and clean up the log later."""
    session.table(fresh=True).create_checkpoint()
    clean_up_later(session)


def append_and_maintain(session: Session) -> None:
    """Commit, then clean up, so that a version that another writer still tries to put is among the deleted ones."""
    append(session, times=2)
    maintain(session)


def clean_up_at_once(session: Session) -> None:
    """Write a checkpoint and clean up at once. All log files are young, so none may be deleted."""
    table = session.table(fresh=True)
    table.create_checkpoint()
    table.clean_up_log()


def read(session: Session) -> None:
    """Take two snapshots, and check that the second is not older. Then read the version before, if it still exists."""
    table = session.table(fresh=True)
    seen = -1
    for _ in range(2):
        seen = _look(session, table, None, seen)
    try:
        _look(session, table, seen - 1, -1)
    except NotFoundError:
        return


def look_again(session: Session) -> None:
    """Take a snapshot with a handle that was open before the story. The handle is checked again at the end."""
    _look(session, session.table(), None, -1)


def _look(session: Session, table: Table, version: int | None, not_before: int) -> int:
    snapshot = table.snapshot(version)
    seen = seen_by(snapshot._version.state, snapshot.files().column("path").to_pylist())
    session.run.ledger.check_reader(snapshot.version, seen, not_before=not_before)
    return snapshot.version


def _commit(
    session: Session, table: Table, fill: Fill, *, app: tuple[str, int] | None = None, **options: Any
) -> Attempt:
    with session.attempt(app) as attempt:
        with table.transaction(**options) as txn:
            attempt.read_version = txn.snapshot.version
            fill(attempt, txn)
        attempt.result = txn.result
    return attempt
