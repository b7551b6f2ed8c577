"""Resolves a ``CommitStateUnknownError``: is that commit in the log or not?

In: the ``txn_id`` and version that the error named. Out: True or False, final. If the version is free, an empty commit
is put there first, so that a put that is still under way is refused. An empty version 0 would be an unreadable table,
so there the table itself is created.
"""

from __future__ import annotations

from collections.abc import Callable

from txlog import __version__
from txlog.commit.open_table import OpenTable
from txlog.errors import (
    CommitStateUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from txlog.log.in_commit_timestamps import next_timestamp_ms
from txlog.log.joined import holds
from txlog.log.proposal import Isolation, commit_bytes
from txlog.log.proposal_builder import ProposalBuilder
from txlog.store.versions import Attempt
from txlog.util import ambient
from txlog.util.arguments import check_text, whole_number

__all__ = ["resolve"]


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
        return _stands_at(open_table, txn_id, version)
    now_ms = ambient.now_ms()
    fence = ProposalBuilder(state).build(
        txn_id=ambient.uuid4(),
        now_ms=now_ms,
        isolation=Isolation.WRITE_SERIALIZABLE,
        operation="FENCE",
        parameters={"txnId": txn_id},
    )
    body = commit_bytes(
        fence,
        timestamp_ms=now_ms,
        in_commit_timestamp=(
            next_timestamp_ms(now_ms=now_ms, previous_ms=state.in_commit_timestamp_ms)
            if state.properties.in_commit_timestamps
            else None
        ),
        engine_info=f"txlog/{__version__}",
    )
    try:
        open_table.log.versions.put(Attempt(version, body, fence.actions))
        return _stands_at(open_table, txn_id, version)
    except (StorageError, NotFoundError) as error:
        raise CommitStateUnknownError(
            f"v{version} could not be fenced ({error}): call resolve again later",
            table=open_table.uri,
            version=version,
            txn_id=txn_id,
        ) from error


def _creation_stands(open_table: OpenTable, txn_id: str, create: Callable[[], object] | None) -> bool:
    """Whether that commit created the table, if version 0 is still free."""
    if open_table.log.versions.capabilities.needs_sync:
        return False  # on a disk a put has ended when its call returns: none is still under way
    if create is None:
        raise CommitStateUnknownError(
            "v0 does not exist yet, and a request that is still under way may create the table. Call resolve again"
            " later, or give the table's schema: it is then created empty, which gives a final answer",
            table=open_table.uri,
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
            table=open_table.uri,
            version=0,
            txn_id=txn_id,
        ) from error
    return _stands_at(open_table, txn_id, 0)


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
            f"v{version} was cleaned up from the log, so it is unknown whether {txn_id} was it",
            table=open_table.uri,
            version=version,
        ) from None
    open_table.log.versions.make_durable(version)
    return holds(found, txn_id)
