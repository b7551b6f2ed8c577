"""Resolves a ``CommitStateUnknownError``: is that commit in the log or not?

In: the ``txn_id`` and version that the error named. Out: True or False, final. If the version is free, an empty commit
is put there first, so that a put that is still under way is refused. An empty version 0 would be an unreadable table,
so there the table itself is created. In a table whose writers commit the appends of others
(`core.versions.decisions.intents`), the append may be in a later version, or become one: a fence names it, which
whoever could still commit it has to read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from txlog import __version__
from txlog.core import ambient
from txlog.core.format.actions import Metadata, Protocol
from txlog.core.store import Attempt
from txlog.core.util import check_text, whole_number
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.fences import fence, fenced_off
from txlog.core.versions.decisions.in_commit_timestamps import next_timestamp_ms
from txlog.core.versions.decisions.joined_appends import holds
from txlog.core.versions.decisions.proposal import commit_bytes
from txlog.core.versions.decisions.state import TableState
from txlog.errors import (
    CommitStateUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)


def resolve(open_table: OpenTable, txn_id: str, version: int, create: Callable[[], object] | None = None) -> bool:
    """See `Table.resolve`. ``create`` makes the table if there is none; `txlog.resolve` explains when."""
    check_text("txn_id", txn_id)
    if not isinstance(txn_id, str):
        raise InvalidInputError("pass the txn_id and version of a CommitStateUnknownError", table=open_table.uri)
    version = whole_number("version", version, table=open_table.uri)
    try:
        state = open_table.log.reload()
    except TableNotFoundError:
        if version > 0:
            raise
        return _creation_stands(open_table, txn_id, create)
    if version > state.version + 1:
        raise InvalidInputError(
            f"the table is at v{state.version}: nothing was ever sent to v{version}", table=open_table.uri
        )
    if version <= state.version:
        stands = _stands_at(open_table, txn_id, version)
    else:
        with _undecided(open_table, txn_id, version):
            _fence(open_table, txn_id, state)
            stands = _stands_at(open_table, txn_id, version)
    if stands:
        return True
    may_be_later = open_table.store.waiting is not None and open_table.log.state_at(version).properties.group_commit
    return may_be_later and _stands_after(open_table, txn_id, version)


def _stands_after(open_table: OpenTable, txn_id: str, version: int) -> bool:
    """Whether that commit is a later version, in a table whose writers commit the appends of others. If not, a fence
    says so, which all of them have to read. A change of the definition refuses what was made before it, for ever."""
    log = open_table.log
    while True:
        state = log.newest_state()
        for commit in log.commits.read_range(version, state.version, files=False):
            if holds(commit, txn_id):
                return _stands_at(open_table, txn_id, commit.version)
            if txn_id in fenced_off(commit) or any(isinstance(each, Metadata | Protocol) for each in commit.actions):
                return False
        version = state.version + 1
        with _undecided(open_table, txn_id, version):
            _fence(open_table, txn_id, state)


def _fence(open_table: OpenTable, txn_id: str, state: TableState) -> None:
    """The version after ``state``, which is a fence, unless another writer was first."""
    version, now_ms = state.version + 1, ambient.now_ms()
    proposal = fence(state, (txn_id,), txn_id=ambient.uuid4(), now_ms=now_ms)
    body = commit_bytes(
        proposal,
        timestamp_ms=now_ms,
        in_commit_timestamp=(
            next_timestamp_ms(now_ms=now_ms, previous_ms=state.in_commit_timestamp_ms)
            if state.properties.in_commit_timestamps
            else None
        ),
        engine_info=f"txlog/{__version__}",
    )
    open_table.log.versions.put(Attempt(version, body, proposal.actions))
    open_table.log.versions.stat(version)


@contextlib.contextmanager
def _undecided(open_table: OpenTable, txn_id: str, version: int) -> Iterator[None]:
    try:
        yield
    except (StorageError, NotFoundError) as error:
        raise CommitStateUnknownError(
            f"v{version} could not be fenced ({error}): call resolve again later",
            table=open_table.uri,
            version=version,
            txn_id=txn_id,
        ) from error


def _creation_stands(open_table: OpenTable, txn_id: str, create: Callable[[], object] | None) -> bool:
    """Whether that commit created the table, if version 0 is still free."""
    capabilities = open_table.log.versions.capabilities
    if capabilities.needs_sync and not capabilities.remembers_versions:
        return False  # on a disk a put has ended when its call returns: none is still under way
    return resolve_creation(open_table.uri, lambda: open_table, txn_id, create)


def resolve_creation(
    table: str, opened: Callable[[], OpenTable], txn_id: str, create: Callable[[], object] | None
) -> bool:
    """Whether that commit created the table at a location, or of a name, where there is none yet. Raises as
    `txlog.resolve`."""
    if create is None:
        raise CommitStateUnknownError(
            "v0 does not exist yet, and a request that is still under way may create the table. Call resolve again"
            " later, or give the table's schema: it is then created empty, which gives a final answer",
            table=table,
            version=0,
            txn_id=txn_id,
        )
    try:
        create()
    except (TableExistsError, ConflictError):
        pass  # the request arrived, or another writer was first
    except (CommitStateUnknownError, StorageError) as error:
        raise CommitStateUnknownError(
            f"the table could not be created, so v0 is still undecided ({error.message}): call resolve again later",
            table=table,
            version=0,
            txn_id=txn_id,
        ) from error
    return _stands_at(opened(), txn_id, 0)


def _stands_at(open_table: OpenTable, txn_id: str, version: int) -> bool:
    """Whether ``version`` is that commit. It is made durable first: a power cut must not reverse the answer.

    The version must be readable: a put that arrives after a cleanup creates a file that is not part of the log.
    """
    try:
        found = open_table.log.read_commit(version, files=False)
        open_table.log.state_at(version)
        if open_table.log.is_stray(version):
            raise NotFoundError("put after a cleanup")
    except NotFoundError:
        raise NotFoundError(
            f"v{version} was cleaned up from the log, so it is unknown whether it was {txn_id}",
            table=open_table.uri,
            version=version,
        ) from None
    open_table.log.versions.make_durable(version)
    return holds(found, txn_id)
